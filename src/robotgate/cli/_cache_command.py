"""``robotgate cache``: its commands and their options."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click
from click.core import ParameterSource

from robotgate import InvalidURLError, RobotGate, SQLiteStore
from robotgate._robotstxt import product_token
from robotgate.cli._cache import forget, listed, refresh
from robotgate.cli._cache_host import Named
from robotgate.cli._cache_show import Table, row, show_record, show_state
from robotgate.cli._cache_transfer import Taken, batches, exported, take_in, written_whole
from robotgate.cli._common import (
    CONTACT_HELP,
    agent_option,
    console,
    private_option,
    say,
    token_option,
    usage_errors,
)
from robotgate.cli._store import (
    StoreProblem,
    any_store,
    existing_store,
    interruptible,
    open_in,
    run_with,
    store_option,
    store_problems,
)
from robotgate.cli._text import moment, printable
from robotgate.stores.sqlite import MAX_AGE, MAX_BYTES

if TYPE_CHECKING:
    from typing import IO, BinaryIO

    from robotgate._store_option import OwnStore
    from robotgate.cli._cache import Forgotten


def _named(text: str) -> Named:
    try:
        return Named.parse(text)
    except InvalidURLError as error:
        raise click.BadParameter(f"{printable(text)}: {error.problem}") from error


host_argument = click.argument("named", metavar="HOST", type=_named)


@click.group()
def cache() -> None:
    """Look at what is remembered of sites, and let go of it.

    HOST is a host with all its origins (example.org), those on one port (example.org:8080), or one origin
    (https://example.org).
    """


@cache.command("ls")
@store_option
@agent_option
@token_option
@click.option("--json", "as_json", is_flag=True, help="Print one row of JSON for each.")
def list_(*, store_path: str | None, agent: str, token: str | None, as_json: bool) -> None:
    """List the sites that are remembered, and when each may be visited next.

    ACCESS is what the rules leave to --agent: open (everything), controlled (some), excluded (nothing). Away from a
    terminal, columns are parted by tabs.

    Exit status: 0, or 2 when the store cannot be read.
    """
    store, name = existing_store(store_path), product_token(token or agent)

    async def run() -> None:
        table, now = Table(console()), time.time()
        if not as_json:
            table.head()
        async for item in listed(store, token=name, now=now):
            if as_json:
                click.echo(row(item))
            else:
                table.line(item, now)

    run_with(store, run())


@cache.command()
@host_argument
@store_option
@agent_option
@token_option
def show(*, named: Named, store_path: str | None, agent: str, token: str | None) -> None:
    """Show all that is remembered of a host.

    Exit status: 0, 1 when nothing is, or 2 when the store cannot be read.
    """
    store, name = existing_store(store_path), product_token(token or agent)

    async def run() -> bool:
        screen, now = console(), time.time()
        records = await named.records(store)
        states = [item async for item in named.states(store, records)]
        for record in records:
            show_record(screen, record, token=name, now=now)
        for pace_key, state in states:
            show_state(screen, pace_key, state, now=now)
        return bool(records or states)

    if not run_with(store, run()):
        _nothing_known(named)


@cache.command("refresh")
@host_argument
@store_option
@agent_option
@click.option("--contact", envvar="ROBOTGATE_CONTACT", show_envvar=True, required=True, help=CONTACT_HELP)
@token_option
@private_option
def refresh_(
    *,
    named: Named,
    store_path: str | None,
    agent: str,
    contact: str,
    token: str | None,
    allow_private_addresses: bool,
) -> None:
    """Ask for a host's robots.txt now, in the host's turn, whether or not it has expired.

    Exit status: 0, 1 when any cannot be read, or 2 when the store cannot be.
    """
    with usage_errors():
        store = any_store(store_path)
        gate = RobotGate(
            agent, contact=contact, token=token, allow_private_addresses=allow_private_addresses, store=store
        )

    async def run() -> bool:
        failed = False
        async with gate:
            async for news in refresh(gate, store, named):
                click.echo(f"{news.origin}  {news.words}")
                failed |= news.is_failure
        return failed

    raise SystemExit(1 if run_with(store, run()) else 0)


@cache.command("forget")
@host_argument
@store_option
@click.option(
    "--pace", is_flag=True, help="Let go of the pace even where the host is still to be waited for."
)
def forget_(*, named: Named, store_path: str | None, pace: bool) -> None:
    """Let go of what is remembered of a host: its robots.txt is asked for again when it is needed next.

    Its pace goes too, but not where that would let the host be visited sooner than it was promised. A crawler that runs
    on the same store goes by what it has in its own memory, and may write that again.

    Exit status: 0, 1 when nothing is remembered, or 2 when the store cannot be used.
    """
    store = existing_store(store_path)

    async def run() -> tuple[Forgotten, bool]:
        gone = await forget(store, named, now=time.time(), even_paces=pace)
        return gone, store.is_shared

    gone, is_shared = run_with(store, run())
    if not (gone.origins or gone.paces or gone.waits):
        _nothing_known(named)
    _tell_forgotten(gone)
    if is_shared and (gone.origins or gone.paces):
        # Of a server nobody can tell.
        uses = "uses" if isinstance(store, SQLiteStore) else "may use"
        say(f"another process {uses} this store: what it has in memory it goes by, and may write again")


@cache.command()
@store_option
@click.option("--max-bytes", default=MAX_BYTES, show_default=True, help="How large the file may be.")
@click.option(
    "--max-age",
    default=MAX_AGE,
    show_default=f"{MAX_AGE / 86_400:.0f} days",
    help="Seconds after which what was written goes.",
)
def prune(*, store_path: str | None, max_bytes: int, max_age: float) -> None:
    """Let go of what is old, as a store does by itself now and then; no wait is cut short.

    In a server all has its own end and goes by itself: there is nothing to do.

    Exit status: 0, or 2 when the store cannot be used.
    """
    store = existing_store(store_path)
    if not isinstance(store, SQLiteStore):
        _prune_server(store)
        return
    with usage_errors():
        store = SQLiteStore(store.path, max_bytes=max_bytes, max_age=max_age)
    pruned = run_with(store, store.prune(now=time.time()))
    click.echo(f"let go of {pruned.records:,} robots.txt and the pace of {_hosts(pruned.hosts)}")


@cache.command("export")
@click.argument("target", metavar="[FILE]", default="-", type=click.Path(dir_okay=False, allow_dash=True))
@store_option
def export_(*, target: str, store_path: str | None) -> None:
    """Write all that is remembered as JSON Lines, to a file or to standard output.

    A file is made anew, for you alone to read, and takes its name when it is complete.

    Exit status: 0, or 2 when the store cannot be read or the file not be written.
    """
    store = existing_store(store_path)

    async def run(file: IO[str]) -> None:
        async for line in exported(store):
            file.write(f"{line}\n")

    if target == "-":
        run_with(store, run(sys.stdout))
        return
    try:
        with written_whole(Path(target)) as file:
            run_with(store, run(file))
    except OSError as error:
        raise StoreProblem(f"cannot write {target}: {error.strerror}") from error


@cache.command("import")
@click.argument("source", metavar="[FILE]", default="-", type=click.File("rb"))
@store_option
def import_(*, source: BinaryIO, store_path: str | None) -> None:
    """Take in JSON Lines, from a file or from standard input, beside what is remembered.

    Of two records of a site the newer is kept, and no host may be visited sooner than either side has it. A line that
    is wrong is told of and left out; the others count.

    Exit status: 0, 1 when a line was refused, or 2 when the store cannot be used or the file not be read.
    """
    store = any_store(store_path)
    taken = Taken()
    with interruptible(), store_problems(), asyncio.Runner() as runner, open_in(runner, store):
        try:
            # Read between the runs of the loop, where Ctrl-C reaches whoever waits for a pipe.
            for batch in batches(source):
                runner.run(take_in(store, batch, taken, now=time.time()))
                _tell_refused(taken)
        except OSError as error:
            raise StoreProblem(f"cannot read {source.name}: {error.strerror}") from error
    say(
        f"took in {taken.records:,} robots.txt and the pace of {_hosts(taken.hosts)};"
        f" {taken.known:,} known as new or newer, {taken.refused:,} lines refused"
    )
    raise SystemExit(1 if taken.refused else 0)


def _nothing_known(named: Named) -> NoReturn:
    say(f"nothing is remembered of {named}")
    raise SystemExit(1)


def _tell_forgotten(gone: Forgotten) -> None:
    for origin in gone.origins:
        click.echo(f"forgot the robots.txt of {origin}")
    for pace_key in gone.paces:
        click.echo(f"forgot the pace of {printable(pace_key)}")
    for pace_key, until_at in gone.waits:
        click.echo(
            f"kept the pace of {printable(pace_key)}: it may not be visited before {moment(until_at)};"
            " --pace lets go of that too"
        )


def _prune_server(store: OwnStore) -> None:
    asked = click.get_current_context().get_parameter_source
    if ParameterSource.COMMANDLINE in {asked("max_bytes"), asked("max_age")}:
        raise click.UsageError("--max-bytes and --max-age are bounds of a file, not of a server.")
    run_with(store, store.prune(now=time.time()))
    click.echo("nothing to do: in a server, all has its own end and goes by itself")


def _tell_refused(taken: Taken) -> None:
    for complaint in taken.complaints:
        say(complaint)
    taken.complaints.clear()


def _hosts(count: int) -> str:
    return f"{count:,} {'host' if count == 1 else 'hosts'}"
