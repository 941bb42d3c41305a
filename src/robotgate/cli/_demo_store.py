"""Where the demonstration's workers share what they know: a file, or a Redis server, which is left as it was."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from robotgate import OptionError, SQLiteStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from robotgate import Store


@dataclass(frozen=True, slots=True)
class Place:
    """What each worker makes its own store of."""

    where: str
    """The path of a file, or a server's URL."""
    prefix: str | None = None
    """Of the keys in a server; None for a file."""

    def store(self) -> Store:
        """A store there; nothing is opened yet."""
        if self.prefix is None:
            return SQLiteStore(self.where)
        # Not at the top: redis is an extra of its own.
        from robotgate.cli._demo_redis import redis_store  # noqa: PLC0415

        return redis_store(self.where, self.prefix)


@asynccontextmanager
async def shared_place(given: str | None) -> AsyncIterator[Place]:
    """A place of which nobody else knows, until the end of the block.

    Args:
        given: the path of a new file, which stays; the URL of a server, in which no key stays; None for a file that
            goes.

    Raises:
        OptionError: there is such a file already, the URL is none, or the extra for it is not installed.
        StoreError: the server cannot be used.
    """
    if given is None:
        with TemporaryDirectory(prefix="robotgate-demo-", ignore_cleanup_errors=True) as folder:
            yield Place(str(Path(folder) / "demo.db"))
    elif "://" not in given:
        yield Place(_new(given))
    else:
        async with _server(given) as place:
            yield place


def _new(path: str) -> str:
    # What is known of the sites already would not be asked for again, and that would look like a fault.
    if os.path.lexists(path):
        raise OptionError(f"--store: {path} is there already, and the demonstration begins with a new file")
    return path


@asynccontextmanager
async def _server(url: str) -> AsyncIterator[Place]:
    if find_spec("redis") is None:
        raise OptionError("--store: a store in Redis needs redis-py: pip install 'robotgate[redis]'")
    # Not at the top: redis is an extra of its own.
    from robotgate.cli._demo_redis import own_prefix  # noqa: PLC0415

    async with own_prefix(url) as prefix:
        yield Place(url, prefix)
