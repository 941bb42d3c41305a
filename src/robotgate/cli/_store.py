"""Where the commands remember: the user's own file, one that they are told, or nowhere."""

from __future__ import annotations

import asyncio
import os
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

import click
from platformdirs import user_cache_path

from robotgate import MemoryStore, OptionError, SQLiteStore, StoreError, SystemClock, WhenLost
from robotgate._store_option import own_store
from robotgate.cli._common import INTERRUPTED

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path

    from robotgate._store_option import OwnStore

P = ParamSpec("P")
R = TypeVar("R")
FILE_NAME: Final = "cache.db"
PATIENCE: Final = 3.0
"""Seconds for which a server that cannot be reached is tried again: somebody sits and waits."""

store_option = click.option(
    "--store",
    "store_path",
    metavar="PATH|URL",
    help="The file, or the Redis server, that robots.txt and pace are remembered in, instead of the file in your cache"
    " directory.",
)
_no_store_option = click.option("--no-store", is_flag=True, help="Know nothing, and remember nothing.")


class StoreProblem(click.ClickException):
    """The store cannot be used; the message names it and the remedy."""

    exit_code = 2


def store_options(command: Callable[P, R]) -> Callable[P, R]:
    """The options by which a command that visits sites is told its store."""
    return store_option(_no_store_option(command))


def default_path() -> Path:
    """The file in the user's cache directory."""
    return user_cache_path("robotgate", appauthor=False) / FILE_NAME


def store_of(store_path: str | None, *, no_store: bool) -> MemoryStore | OwnStore:
    """The store that the options stand for; nothing is opened yet.

    The user's own file is not asked for: where it cannot be used, memory alone has to do. A file that was asked for
    has to be used.
    """
    if no_store and store_path is not None:
        raise click.UsageError("Give --store or --no-store, not both.")
    if no_store:
        return MemoryStore()
    if store_path is not None:
        return asked_store(store_path)
    path = default_path()
    _make_room(path)
    return SQLiteStore(path, when_lost=WhenLost.MEMORY)


def asked_store(path: str) -> OwnStore:
    """The store in a file or a server that was asked for; nothing is opened yet."""
    try:
        store = own_store(path, clock=SystemClock(), patience=PATIENCE)
    except OptionError as error:
        raise click.UsageError(str(error)) from error
    if store is None:
        raise AssertionError(path)
    return store


def any_store(store_path: str | None) -> OwnStore:
    """The store that was asked for, else the one in the user's own file, which then has to be used as well."""
    if store_path is None:
        _make_room(default_path())
    return asked_store(store_path or str(default_path()))


def _make_room(path: Path) -> None:
    # Without it the store is not opened either, and says why.
    with suppress(OSError):
        path.parent.parent.mkdir(parents=True, exist_ok=True)


@contextmanager
def store_problems() -> Iterator[None]:
    """Tell of a store that fails as of wrong usage: in one line, with status 2."""
    try:
        yield
    except StoreError as error:
        raise StoreProblem(str(error)) from error


def existing_store(store_path: str | None) -> OwnStore:
    """The store that is there: looking for one makes none."""
    store = any_store(store_path)
    if isinstance(store, SQLiteStore) and not os.path.lexists(store.path):
        raise StoreProblem(
            f"{store.path}: there is no store yet. robotgate fetch, check, lint and cache refresh make one when they"
            " visit a site, and robotgate cache import when it takes one in"
        )
    return store


def run_with(store: MemoryStore | OwnStore, work: Coroutine[object, object, R]) -> R:
    """Do some work with the store open; Ctrl-C, and a store that fails, end the program as they should."""

    async def run() -> R:
        # Of a store that does not open, nobody would ever wait for the work.
        with closing(work):
            async with store:
                return await work

    with interruptible(), store_problems():
        return asyncio.run(run())


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C end the program without a traceback."""
    try:
        yield
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


@contextmanager
def open_in(runner: asyncio.Runner, store: OwnStore) -> Iterator[None]:
    """Keep the store open between the runs of a loop.

    Raises:
        StoreError: as `opened`.
    """
    try:
        runner.run(store.open())
        yield
    finally:
        runner.run(store.aclose())
