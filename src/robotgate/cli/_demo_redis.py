"""The demonstration's keys in a server, under a prefix of their own. Needs the extra ``robotgate[redis]``."""

from __future__ import annotations

import secrets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from redis.exceptions import RedisError

from robotgate.cli._common import say
from robotgate.stores.redis import RedisStore
from robotgate.stores.redis._client import client_of, server_name
from robotgate.stores.redis._faults import explained

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from redis.asyncio import Redis

PATIENCE: Final = 2.0
"""Seconds for which a server may not answer before anything has begun."""
BATCH: Final = 1000
"""Keys deleted at a time."""


def redis_store(url: str, prefix: str) -> RedisStore:
    """A worker's."""
    return RedisStore(url, prefix=prefix)


@asynccontextmanager
async def own_prefix(url: str) -> AsyncIterator[str]:
    """A prefix that nobody else has; at the end of the block no key has it.

    Raises:
        OptionError: the URL is none.
        StoreError: the server cannot be used.
    """
    prefix = f"robotgate-demo:{secrets.token_hex(8)}:"
    store = RedisStore(url, prefix=prefix, patience=PATIENCE)
    try:
        # Better told before any site is started than by every worker.
        await store.open()
        yield prefix
    finally:
        await store.aclose()
        await _clear(client_of(url, option="--store"), f"{prefix}*")


async def _clear(client: Redis, pattern: str) -> None:
    try:
        keys = [key async for key in client.scan_iter(match=pattern, count=BATCH)]
        for start in range(0, len(keys), BATCH):
            await client.delete(*keys[start : start + BATCH])
    except RedisError as error:
        say(f"keys {pattern} may be left: {explained(server_name(client), error).error}")
    finally:
        await client.aclose()
