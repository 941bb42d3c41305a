"""``robotgate fetch``: its options."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

import click

from robotgate import RobotGate
from robotgate.cli._common import (
    CONTACT_HELP,
    INTERRUPTED,
    agent_option,
    console,
    private_option,
    say,
    token_option,
    usage_errors,
)
from robotgate.cli._fetch import Crawl
from robotgate.cli._input import count_urls
from robotgate.cli._progress import summary
from robotgate.cli._rows import OutputError, RowWriter
from robotgate.cli._store import store_of, store_options, store_problems

if TYPE_CHECKING:
    from robotgate import MemoryStore
    from robotgate._store_option import OwnStore

BROKEN_PIPE: Final = 141
"""What a shell sees of a program that writes to a closed pipe."""
STANDARD_INPUT: Final = "-"


class GateOptions(TypedDict):
    """The options that are the gate's own."""

    agent: str
    contact: str
    token: str | None
    delay: float
    concurrency: int
    max_wait: float | None
    max_delay: float
    max_block: float
    max_bytes: int
    allow_private_addresses: bool


@click.command()
@click.argument("urls", metavar="[URL]...", nargs=-1)
@click.option(
    "-i",
    "--input",
    "source",
    help="Read URLs from a file, one a line; - is standard input.",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
)
@click.option(
    "-o",
    "--output",
    default="-",
    help="Where the rows go, instead of standard output.",
    type=click.Path(dir_okay=False, allow_dash=True),
)
@agent_option
@click.option("--contact", envvar="ROBOTGATE_CONTACT", show_envvar=True, required=True, help=CONTACT_HELP)
@token_option
@click.option(
    "--delay", default=1.0, show_default=True, help="Seconds between two requests to a host, at least."
)
@click.option("--concurrency", default=256, show_default=True, help="Requests under way over all hosts.")
@click.option(
    "--max-wait", type=float, help="Seconds a URL may wait for its host's turn; without end by default."
)
@click.option(
    "--max-delay", default=60.0, show_default=True, help="Refuse sites that ask for more seconds than this."
)
@click.option(
    "--max-block", default=300.0, show_default=True, help="Wait out a Retry-After of up to so many seconds."
)
@click.option(
    "--max-bytes", default=10 * 1024 * 1024, show_default=True, help="The longest body that is read."
)
@click.option(
    "--timeout",
    default=60.0,
    show_default=True,
    help="Seconds for one request, its wait not counted.",
    type=click.FloatRange(0, min_open=True),
)
@private_option
@store_options
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
def fetch(
    *,
    urls: tuple[str, ...],
    source: str | None,
    output: str,
    timeout: float,
    quiet: bool,
    store_path: str | None,
    no_store: bool,
    **options: Unpack[GateOptions],
) -> None:
    """Fetch URLs politely and write one row of JSON for each.

    A row's outcome is fetched (whatever the status), blocked (by robots.txt), unavailable (the host is down, or
    asked us to stay away), too_soon (see --max-wait), invalid or failed. Rows come in the order in which the URLs
    are done, each written at once. In a file, blank lines and lines that begin with # are passed over. What is learnt
    of hosts is remembered: see `robotgate cache`.

    Exit status: 0 when every URL was fetched or blocked, 1 when any was not, 2 for wrong usage, 130 after Ctrl-C,
    141 when nobody reads the rows any longer.
    """
    if not urls and source is None:
        raise click.UsageError("Give URLs, or a file of them with -i.")
    if source is not None and _is_same_file(source, output):
        raise click.UsageError("-o would overwrite the URLs of -i.")
    rows = click.File("w", encoding="utf-8", lazy=False).convert(output, None, click.get_current_context())
    with usage_errors():
        store = store_of(store_path, no_store=no_store)
        gate = RobotGate(**options, store=store)
    crawl = Crawl(gate, RowWriter(rows), timeout=timeout)
    _run(crawl, store, urls, source, quiet=quiet)
    if not quiet:
        say(summary(crawl.tally))
    raise SystemExit(1 if crawl.tally.failed else 0)


def _run(
    crawl: Crawl, store: MemoryStore | OwnStore, urls: tuple[str, ...], source: str | None, *, quiet: bool
) -> None:
    progress_console = None if quiet else console(stderr=True)

    async def run(descriptor: int | None) -> None:
        async with store:
            await crawl.run(urls, descriptor, progress_console)

    try:
        with store_problems():
            asyncio.run(run(_open(source)))
    except KeyboardInterrupt:
        say(f"interrupted: {summary(crawl.tally)}; {_undone(crawl, urls, source)} not done")
        raise SystemExit(INTERRUPTED) from None
    except OutputError as error:
        if isinstance(error.__cause__, BrokenPipeError):
            _forget_stdout()
            raise SystemExit(BROKEN_PIPE) from None
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"cannot read {source}: {error.strerror}") from error


def _is_same_file(source: str, output: str) -> bool:
    return Path(source).is_file() and Path(output).is_file() and Path(output).samefile(source)


def _open(source: str | None) -> int | None:
    if source is None:
        return None
    if source != STANDARD_INPUT:
        return os.open(source, os.O_RDONLY)
    if sys.stdin is None:
        raise click.ClickException("there is no standard input to read URLs from")
    return sys.stdin.fileno()


def _undone(crawl: Crawl, urls: tuple[str, ...], source: str | None) -> str:
    if source is None or source == STANDARD_INPUT or not Path(source).is_file():
        left = max(len(urls) - crawl.tally.done, crawl.tally.waiting)
        return f"{left:,} URLs" + (" and what was left to read" if source is not None else "")
    return f"{len(urls) + count_urls(source) - crawl.tally.done:,} URLs"


def _forget_stdout() -> None:
    """Let what is still buffered go nowhere, or Python complains of the closed pipe once more at its end."""
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
