"""Links to real servers, and scripts that leave traces of what they were asked."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from redis.asyncio import Redis

from robotgate.stores.redis._link import Link
from robotgate.stores.redis._script import Script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.redis_server import RedisServer

    from robotgate import StoreError

KEY: Final = b"robotgate:{0}:test:list"
OTHER_KEY: Final = b"robotgate:{1}:test:list"
APPEND: Final = Script(
    b"""
    local replies = {}
    for i, argument in ipairs(ARGV) do
      redis.call('rpush', KEYS[i], argument)
      replies[i] = argument
    end
    return replies
    """,
    keys_per_call=1,
)
"""Writes its argument behind what is there, and answers with it."""
ECHO: Final = Script(b"return ARGV", keys_per_call=1)
SIZE: Final = Script(
    b"local n = tostring(#ARGV) local replies = {} for i = 1, #ARGV do replies[i] = n end return replies",
    keys_per_call=1,
)
"""Answers how many calls travel with this one."""
ENDLESS: Final = Script(b"while true do end", keys_per_call=1)


@asynccontextmanager
async def linked(url: str, *, patience: float = 10.0, timeout: float = 5.0) -> AsyncIterator[Link]:
    """A link through a client of its own, closed at the end."""
    async with linked_by(Redis.from_url(url), patience=patience, timeout=timeout) as link:
        yield link


@asynccontextmanager
async def linked_by(client: Redis, *, patience: float = 10.0, timeout: float = 5.0) -> AsyncIterator[Link]:
    """A link through this client; both are closed at the end, and nothing is left running."""
    link = Link(client, patience=patience, timeout=timeout)
    try:
        yield link
    finally:
        async with asyncio.timeout(10):
            await link.aclose()
        await client.aclose()
    assert [task for task in asyncio.all_tasks() if "Link." in repr(task.get_coro())] == []


@asynccontextmanager
async def admin(server: RedisServer) -> AsyncIterator[Redis]:
    """The operator's own way to the server."""
    client = Redis.from_url(server.url)
    try:
        yield client
    finally:
        await client.aclose()


async def listed(server: RedisServer, key: bytes = KEY) -> list[bytes]:
    """What has been appended."""
    async with admin(server) as client:
        return await run(client, "LRANGE", key, 0, -1)


async def run(client: Redis, *words: object) -> list[bytes]:
    """Any command, as on the server's command line."""
    found: list[bytes] = await client.execute_command(*words)  # type: ignore[no-untyped-call]
    return found


class Heard:
    """What a link tells of its server."""

    def __init__(self, link: Link) -> None:
        self.news: list[StoreError | None] = []
        link.subscribe(self.news.append)

    @property
    def kinds(self) -> list[str]:
        """Lost, or back."""
        return ["back" if error is None else "lost" for error in self.news]
