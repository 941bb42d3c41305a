"""What several commands share: their options, the gate and the store these name, and how errors end a command."""

from __future__ import annotations

import asyncio
import os
import re
import urllib.request
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, ParamSpec, Protocol, TypeVar

import aiohttp
import click
from click.core import ParameterSource
from platformdirs import user_cache_path

from robotgate import (
    Dialect,
    MemoryStore,
    Origin,
    PaceKey,
    RobotGate,
    SQLiteStore,
    StatusPolicy,
    WhenLost,
    __version__,
)
from robotgate.cli import config
from robotgate.cli.output import cause_of, in_plain_words, logged
from robotgate.client.connector import HEADER_LIMITS, BudgetedConnector
from robotgate.client.robots import AiohttpFetcher
from robotgate.clock import SystemClock
from robotgate.errors import InvalidURLError, OptionError, StoreError
from robotgate.gate_options import GATE_OPTIONS, open_store
from robotgate.rules.grammar import product_token
from robotgate.statements import Purpose

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from enum import Enum

    from robotgate.client.robots import Fetcher
    from robotgate.identity import Signer
    from robotgate.stores.base import OwnStore

P = ParamSpec("P")
R = TypeVar("R")

INTERRUPTED: Final = 130
"""The exit status of a program that Ctrl-C ended."""
MAX_LOOK_UPS: Final = 512
"""Names that are looked up at once."""
MAX_ROBOTS_BYTES: Final = 1024 * 1024
"""Bytes of a robots.txt on disk that are read: more than crawlers use."""
PATIENCE: Final = 3.0
"""Seconds for which an unreachable Redis server is tried again. A user waits at the terminal meanwhile."""


class CommandError(click.ClickException):
    """Something that the command needs cannot be used; the message says what and why."""

    exit_code = 2


@contextmanager
def os_errors(what: str) -> Iterator[None]:
    """End the command if the system refuses what is done within the block.

    Args:
        what: for the message, such as ``read urls.txt``.
    """
    try:
        yield
    except BrokenPipeError:
        # `printable_errors` ends the command.
        raise
    except OSError as error:
        raise CommandError(f"cannot {what}: {cause_of(error)}") from error


class Command(click.Command):
    """A command that is a coroutine function; it returns the exit status, or None for 0.

    The library's errors end it with one line, and Ctrl-C without a traceback.
    """

    def invoke(self, ctx: click.Context) -> NoReturn:
        """Run the command."""
        if ctx.find_root().params.get("show_config"):
            config.show(ctx)
            raise SystemExit(0)
        try:
            with logged(verbosity()):
                raise SystemExit(ctx.invoke(asyncio.run, super().invoke(ctx)))
        except OptionError as error:
            raise click.UsageError(in_plain_words(str(error)), ctx) from error
        except (StoreError, ModuleNotFoundError) as error:
            # What an extra would install says so in its message.
            raise CommandError(str(error)) from error
        except (KeyboardInterrupt, asyncio.CancelledError):
            raise SystemExit(INTERRUPTED) from None


def crawler_name() -> str:
    """Return the name in robots.txt that the options of the command that runs give to the crawler."""
    params = click.get_current_context().params
    return product_token(params["token"] or params["agent"])


def _proxy(text: str) -> str:
    try:
        Origin.of(text)
    except InvalidURLError as error:
        raise click.BadParameter("give an http or https URL, such as http://localhost:3128") from error
    return text


def verbosity() -> int:
    """Return how often ``-v`` was given to the command that runs, at most 2, or -1 after ``-q``."""
    params = click.get_current_context().params
    return -1 if params.get("quiet") else min(params.get("verbose", 0), 2)


def _address(text: str) -> tuple[str, int]:
    """Read ``127.0.0.1:8099`` or ``[::1]:8099``."""
    found = re.fullmatch(r"(?:\[([^\[\]]+)\]|([^:\[\]]+)):([0-9]{1,5})", text)
    if found is None or int(found[3]) >= 2**16:
        raise click.BadParameter("give an address and a port, such as 127.0.0.1:8099")
    return found[1] or found[2], int(found[3])


_OF_GATE: Final = {"agent", "contact", *GATE_OPTIONS}
make_gate: Final[Callable[..., RobotGate]] = RobotGate
"""It checks the types of its options itself."""
INPUT_FILE: Final = click.Path(exists=True, dir_okay=False, allow_dash=True)
FILE: Final = click.Path(dir_okay=False, path_type=Path)
OUTPUT_FILE: Final = click.Path(dir_okay=False, allow_dash=True)

flag: Final = partial(click.option, is_flag=True)
"""An option without a value."""
setting: Final = partial(click.option, show_default=True)
"""An option whose default the help shows."""
address_option: Final = partial(click.option, metavar="HOST:PORT", type=_address)
folder_option: Final = partial(click.option, metavar="DIR", type=click.Path(file_okay=False, path_type=Path))


def gate_setting(name: str, *, help: str) -> Callable[[Callable[P, R]], Callable[P, R]]:  # noqa: A002 - as click's
    """An option of the gate, with the gate's own default."""
    option = GATE_OPTIONS[name.partition("/")[0].strip("-").replace("-", "_")]
    return setting(name, default=option.default, help=help)


def names_of(kind: type[Enum]) -> list[str]:
    """Return the names of an enumeration as choices of an option."""
    return [each.name.lower().replace("_", "-") for each in kind]


def all_of(
    *options: Callable[[Callable[P, R]], Callable[P, R]],
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Several options as one, in the order of the help."""
    return lambda command: reduce(lambda wrapped, each: each(wrapped), reversed(options), command)


url_options: Final = all_of(
    click.argument("urls", metavar="[URL]...", nargs=-1),
    click.option(
        "-i", "--input", "source", type=INPUT_FILE, help="Read URLs from a file, one a line; - is stdin."
    ),
)
json_option: Final = flag("--json", "as_json", help="Print JSON, one row a line.")
agent_option: Final = setting(
    "--agent", default=f"robotgate/{__version__}", help="The User-Agent of the requests."
)
token_option: Final = click.option(
    "--token", help="The crawler's name in robots.txt, if it is not the first word of --agent."
)
name_options: Final = all_of(agent_option, token_option)
contact_option: Final = partial(click.option, "--contact", envvar="ROBOTGATE_CONTACT", show_envvar=True)
policy_option: Final = setting(
    *("--policy", "status_policy"),
    type=click.Choice([policy.value for policy in StatusPolicy]),
    default=StatusPolicy.DEFAULT.value,
    callback=lambda _ctx, _param, value: StatusPolicy(value),
    help="What a robots.txt that cannot be read means for its site.",
)
purpose_option: Final = click.option(
    *("--purpose", "purposes"),
    type=click.Choice(list(map(str, Purpose))),
    multiple=True,
    help="What you do with pages: those for which the site disallows it are refused. May be repeated.",
)
store_option: Final = click.option(
    *("--store", "store_path"),
    metavar="PATH|URL",
    help="The file or Redis server that keeps robots.txt files and the pace of hosts, instead of the file in your"
    " cache directory.",
)
store_options: Final = all_of(store_option, flag("--no-store", help="Read no store and write none."))
_connection_options = all_of(
    token_option,
    flag("--allow-private-addresses", help="Also fetch from localhost and private networks."),
    policy_option,
    click.option(
        "--proxy",
        metavar="URL",
        type=_proxy,
        help="Send all requests through this HTTP proxy, instead of that of HTTP_PROXY and HTTPS_PROXY.",
    ),
    click.option(
        *("-v", "--verbose"),
        count=True,
        help="Also print blocks, refusals and failures as they come; -vv prints each turn.",
    ),
    flag("-q", "--quiet", help="Print no progress and no warnings about options."),
)


def gate_options(contact_note: str = "Required.") -> Callable[[Callable[P, R]], Callable[P, R]]:
    """The options of a command that visits sites.

    Args:
        contact_note: when a contact is needed.
    """
    contact_help = f"How site owners reach you: an e-mail address or a URL. {contact_note}"
    return all_of(agent_option, contact_option(default="", help=contact_help), _connection_options)


def store_of_options() -> MemoryStore | OwnStore:
    """Return the store for a command that visits sites, not opened yet.

    A store that was asked for must work. If the default file cannot be used, one line says so and the command goes on
    with memory.
    """
    ctx = click.get_current_context()
    store_path, no_store = ctx.params["store_path"], ctx.params["no_store"]
    if store_path is not None and no_store:
        typed = [
            ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
            for name in ("store_path", "no_store")
        ]
        if typed[0] is typed[1]:
            raise click.UsageError("Give --store or --no-store, not both.")
        no_store = typed[1]
    if no_store:
        return MemoryStore()
    if store_path is None:
        return SQLiteStore(_default_path(), when_lost=WhenLost.MEMORY)
    return stated_store(store_path)


def stated_store(store_path: str | None) -> OwnStore:
    """Return the store that was asked for, or the default file as if it was asked for. It is not opened yet.

    Raises:
        OptionError: it is neither a path nor the URL of a server.
    """
    path = str(_default_path()) if store_path is None else store_path
    return open_store(path, clock=SystemClock(), patience=PATIENCE)


def existing_store() -> OwnStore:
    """Return the store that the options name, for a command that creates none. It is not opened yet."""
    store = stated_store(click.get_current_context().params["store_path"])
    if isinstance(store, SQLiteStore) and not os.path.lexists(store.path):
        raise CommandError(
            f"{store.path}: there is no store yet: robotgate fetch and other commands that visit a site create it, and"
            " robotgate cache import"
        )
    return store


def _default_path() -> Path:
    path = user_cache_path("robotgate", appauthor=False) / "cache.db"
    # The store makes the last directory, for its owner alone, and reports if this one could not be made.
    with suppress(OSError):
        path.parent.parent.mkdir(parents=True, exist_ok=True)
    return path


class Recorder(Protocol):
    """Records what a session and its gate request."""

    trace_config: aiohttp.TraceConfig
    """Of the session."""

    def recorded(self, fetcher: Fetcher) -> Fetcher:
        """Return what requests robots.txt by a fetcher, and records it."""


@asynccontextmanager
async def opened_gate(
    store: MemoryStore | OwnStore,
    signer: Signer | None = None,
    recorder: Recorder | None = None,
) -> AsyncIterator[RobotGate]:
    """Open a gate, with the options of the command that runs, and its store until the end of the block.

    Args:
        recorder: of what is requested. It has to be ready within the block, before anything is.

    Raises:
        OptionError: an option makes no sense.
        StoreError: the store cannot be used.
    """
    params = click.get_current_context().params
    if not params["contact"]:
        raise click.UsageError(
            "Give --contact (or set ROBOTGATE_CONTACT): site owners may want to reach you."
        )
    proxy: str | None = params["proxy"]
    # Only where the environment names a proxy: aiohttp then reads passwords from ~/.netrc as well.
    trust_env = proxy is None and bool(urllib.request.getproxies().keys() & {"http", "https"})

    connector = BudgetedConnector(
        max_look_ups=MAX_LOOK_UPS, allow_private_addresses=params["allow_private_addresses"]
    )
    traces = [] if recorder is None else [recorder.trace_config]
    async with aiohttp.ClientSession(
        connector=connector, proxy=proxy, trust_env=trust_env, trace_configs=traces, **HEADER_LIMITS
    ) as session:
        fetcher = None if recorder is None else recorder.recorded(AiohttpFetcher(session))
        options = {name: value for name, value in params.items() if name in _OF_GATE}
        hosts = config.hosts_of(click.get_current_context())
        options["overrides"], options["groups"] = hosts.overrides, hosts.groups
        for name, kind in (("pace_key", PaceKey), ("dialect", Dialect)):
            if name in options:
                options[name] = kind[options[name].upper().replace("-", "_")]
        gate = make_gate(**options, signer=signer, session=session, store=store, fetcher=fetcher)
        # Wrong options have been reported: the store is opened, and its file made, only now.
        async with store, gate:
            yield gate
