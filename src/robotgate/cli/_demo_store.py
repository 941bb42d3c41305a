"""Where the demonstration's workers share what they know: a file, or a Redis server, which is left as it was."""

from __future__ import annotations

import secrets
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from robotgate import SQLiteStore
from robotgate.cli._common import say

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from robotgate import Store

BATCH: Final = 1000
"""Keys looked at, and deleted, at a time."""


@dataclass(frozen=True, slots=True)
class Place:
    """What each worker makes its own store of."""

    where: str
    """The path of a file, or a server's URL."""
    prefix: str | None = None
    """Of the keys in a server; None for a file."""

    def store(self) -> Store:
        """A store there; nothing is opened yet.

        Raises:
            OptionError: the URL is none.
        """
        if self.prefix is None:
            return SQLiteStore(self.where)
        return _redis_store(self.where, self.prefix)


@asynccontextmanager
async def shared_place(given: str | None) -> AsyncIterator[Place]:
    """A place of which nobody else knows, until the end of the block.

    Args:
        given: the path of a file, which stays; the URL of a server, in which no key stays; None for a file that goes.

    Raises:
        OptionError: the URL is none.
        StoreError: the server does not answer.
    """
    if given is None:
        with TemporaryDirectory(prefix="robotgate-demo-", ignore_cleanup_errors=True) as folder:
            yield Place(str(Path(folder) / "demo.db"))
    elif not is_server(given):
        yield Place(given)
    else:
        async with _server(given) as place:
            yield place


def is_server(given: str) -> bool:
    """Whether this is a URL rather than a path."""
    return "://" in given


@asynccontextmanager
async def _server(url: str) -> AsyncIterator[Place]:
    place = Place(url, f"robotgate-demo:{secrets.token_hex(8)}:")
    store = place.store()
    try:
        # Better told before any site is started than by every worker.
        await store.open()
        yield place
    finally:
        await store.aclose()
        await _clear(place)


def _redis_store(url: str, prefix: str) -> Store:
    # Not at the top: redis is an extra of its own.
    from robotgate.stores.redis import RedisStore  # noqa: PLC0415

    return RedisStore(url, prefix=prefix)


async def _clear(place: Place) -> None:
    from redis.asyncio import Redis  # noqa: PLC0415
    from redis.exceptions import RedisError  # noqa: PLC0415

    pattern = f"{place.prefix}*"
    try:
        async with Redis.from_url(place.where) as client:
            keys = [key async for key in client.scan_iter(match=pattern, count=BATCH)]
            for start in range(0, len(keys), BATCH):
                await client.unlink(*keys[start : start + BATCH])
    except RedisError as error:
        say(f"the demonstration's keys, {pattern}, are still in the server: {error}")
