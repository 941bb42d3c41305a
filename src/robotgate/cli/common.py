"""What several commands share: their options, the gate and the store these name, and how errors end a command."""

from __future__ import annotations

import asyncio
import os
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Final, ParamSpec, Required, TypedDict, TypeVar

import click
from platformdirs import user_cache_path

from robotgate import (
    MemoryStore,
    OptionError,
    RobotGate,
    SQLiteStore,
    StoreError,
    SystemClock,
    WhenLost,
    __version__,
)
from robotgate.cli.output import say

# The one place where a store is opened by its path or URL.
from robotgate.stores import OwnStore, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

P = ParamSpec("P")
R = TypeVar("R")

INTERRUPTED: Final = 130
"""The exit status of a program that Ctrl-C ended."""
MAX_ROBOTS_BYTES: Final = 1024 * 1024
"""Bytes that are read of a robots.txt on disk; more than count."""
PATIENCE: Final = 3.0
"""Seconds for which an unreachable server is tried again: somebody is waiting at the terminal."""


class CommandError(click.ClickException):
    """Something that the command needs cannot be used; the message says what and why."""

    exit_code = 2


class Command(click.Command):
    """A command whose errors end it with one line, and Ctrl-C without a traceback."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except OptionError as error:
            raise click.UsageError(str(error), ctx) from error
        except StoreError as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            raise SystemExit(INTERRUPTED) from None


INPUT_FILE: Final = click.Path(exists=True, dir_okay=False, allow_dash=True)
OUTPUT_FILE: Final = click.Path(dir_okay=False, allow_dash=True)

agent_option = click.option(
    "--agent", default=f"robotgate/{__version__}", show_default=True, help="The User-Agent of the requests."
)
token_option = click.option(
    "--token", help="The crawler's name in robots.txt, if it is not the first word of --agent."
)
private_option = click.option(
    "--allow-private-addresses", is_flag=True, help="Also fetch from localhost and private networks."
)
store_option = click.option(
    "--store",
    "store_path",
    metavar="PATH|URL",
    help="The file or Redis server that keeps robots.txt files and the pace of hosts, instead of the file in your"
    " cache directory.",
)
_no_store_option = click.option("--no-store", is_flag=True, help="Read no store and write none.")


def name_options(command: Callable[P, R]) -> Callable[P, R]:
    """The options that say who the crawler is."""
    return agent_option(token_option(command))


def gate_options(*, contact_note: str | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """The options of a command that visits sites: who it is, and how it may be reached.

    Args:
        contact_note: when the contact is needed; None if always.
    """
    contact_option = click.option(
        "--contact",
        envvar="ROBOTGATE_CONTACT",
        show_envvar=True,
        required=contact_note is None,
        default=None if contact_note is None else "",
        help=f"How site owners reach you: an e-mail address or a URL.{contact_note or ''}",
    )
    return lambda command: agent_option(contact_option(token_option(private_option(command))))


def store_options(command: Callable[P, R]) -> Callable[P, R]:
    """The options of a command that can do without a store."""
    return store_option(_no_store_option(command))


class GateOptions(TypedDict, total=False):
    """The options of a command that are options of its gate."""

    agent: Required[str]
    contact: Required[str]
    """Empty if it was not given."""
    token: str | None
    delay: float
    concurrency: int
    max_wait: float | None
    max_delay: float
    max_block: float
    max_bytes: int
    purposes: tuple[str, ...]
    tdmrep: bool
    allow_private_addresses: bool


def store_of(store_path: str | None, *, no_store: bool) -> MemoryStore | OwnStore:
    """Return the store for a command that visits sites, not opened yet.

    A store that was asked for must work. If the default file cannot be used, one line says so and the command goes on
    with memory.
    """
    if no_store and store_path is not None:
        raise click.UsageError("Give --store or --no-store, not both.")
    if no_store:
        return MemoryStore()
    if store_path is not None:
        return stated_store(store_path)
    return SQLiteStore(_default_path(), when_lost=WhenLost.MEMORY)


def stated_store(store_path: str | None) -> OwnStore:
    """Return the store that was asked for, or the default file as if it was asked for. It is not opened yet.

    Raises:
        OptionError: it is neither a path nor the URL of a server.
    """
    path = str(_default_path()) if store_path is None else store_path
    store = open_store(path, clock=SystemClock(), patience=PATIENCE)
    if store is None:
        raise AssertionError(path)
    return store


def existing_store(store_path: str | None) -> OwnStore:
    """As `stated_store`, but do not create a file."""
    store = stated_store(store_path)
    if isinstance(store, SQLiteStore) and not os.path.lexists(store.path):
        raise CommandError(
            f"{store.path}: there is no store yet. robotgate fetch, check, lint and cache refresh create one when they"
            " visit a site, robotgate cache import when it reads a file"
        )
    return store


def _default_path() -> Path:
    path = user_cache_path("robotgate", appauthor=False) / "cache.db"
    # The store makes the last directory, for its owner alone. If this one cannot be made, the store says so.
    with suppress(OSError):
        path.parent.parent.mkdir(parents=True, exist_ok=True)
    return path


def run_with(store: MemoryStore | OwnStore, work: Callable[[], Coroutine[object, object, R]]) -> R:
    """Do some work while the store is open.

    Raises:
        StoreError: the store cannot be used.
    """

    async def run() -> R:
        async with store:
            return await work()

    return asyncio.run(run())


def run_with_gate(
    store: MemoryStore | OwnStore,
    work: Callable[[RobotGate], Coroutine[object, object, R]],
    options: GateOptions,
) -> R:
    """Do some work with a gate while it and its store are open. Its warnings become lines on standard error.

    Raises:
        OptionError: an option makes no sense.
        StoreError: the store cannot be used.
    """
    if not options["contact"]:
        raise click.UsageError(
            "Give --contact (or set ROBOTGATE_CONTACT): site owners may want to reach you."
        )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gate = RobotGate(**options, store=store)
    for warning in caught:
        say(f"robotgate: {warning.message}")

    async def run() -> R:
        async with gate:
            return await work(gate)

    return run_with(store, run)
