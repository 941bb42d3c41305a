"""Stores in a real server, put together as the processes of a fleet would each have one."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from inspect import isawaitable
from itertools import count
from typing import TYPE_CHECKING, Final

from redis.asyncio import Redis

from robotgate import Origin
from robotgate.clock import SystemClock
from robotgate.sites import Outcome, RobotsRecord
from robotgate.stores import HostState
from robotgate.stores.base import Lost, OperatorBlock, Recovered, Wanted
from robotgate.stores.redis import RedisStore
from robotgate.testing import check_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.redis_server import RedisServer

    from robotgate.stores.base import Grant, News, Store
    from robotgate.stores.redis.store import RedisSession

LEASE: Final = 1.0
"""Seconds; the shortest there is."""
KEY: Final = "a.example"
NOW: Final = SystemClock().now
DAY: Final = 86_400.0
RECORD: Final = RobotsRecord(
    origin=Origin("https", "a.example", 443),
    outcome=Outcome.SUCCESS,
    status=200,
    checked_at=1_795_000_000.0,
    fresh_until_at=1_795_000_000.0 + DAY,
    body=b"User-agent: *\nDisallow: /private\n",
    fetched_at=1_795_000_000.0,
    robots_url="https://a.example/robots.txt",
    etag='"1"',
)
COMMANDS: Final = (
    *("evalsha", "eval", "select", "client|setinfo", "ping", "scan"),
    *("time", "info", "exists", "get", "set", "del", "pexpire", "incr"),
    *("zadd", "zscore", "zrem", "zrangebyscore", "sadd", "srem", "spop", "smembers"),
    *("hget", "hset", "hdel", "hgetall"),
)
"""The commands that a user needs: SELECT for another database than 0, PING for the health check, SCAN for lists. In a
cluster, CLUSTER and COMMAND come on top. CLIENT SETINFO may be refused."""
_NUMBERS: Final = count()


def fresh_prefix() -> str:
    """Return one that no other test has had: what they keep in one server is apart."""
    return f"test{next(_NUMBERS)}:"


def visited_at(grant: Grant) -> float:
    """When the last visit to a host was, or has to be assumed."""
    assert grant.state is not None
    assert grant.state.last_visit_at is not None
    return grant.state.last_visit_at


class Worker:
    """A process of a fleet: its store and its session."""

    def __init__(self, store: RedisStore, session: RedisSession) -> None:
        self.store = store
        self.session = session
        self.news: list[News] = []
        self.hearing = asyncio.get_running_loop().create_task(self._hear())

    async def _hear(self) -> None:
        while True:
            self.news += await self.session.news()

    async def obtain(self, key: str = KEY) -> Grant:
        """Obtain a host; it must not take as long as a test has."""
        async with asyncio.timeout(60):
            return await self.session.obtain(key)

    def ask(self, key: str = KEY) -> asyncio.Task[Grant]:
        """Obtain a host, and do something else meanwhile."""
        return asyncio.get_running_loop().create_task(self.obtain(key))

    def visit_and_leave(self, key: str = KEY, *, delay: float = 0.0, visits: int = 1) -> float:
        """Hand a host on after a visit that ends now. Returns when the next may start."""
        now = NOW()
        state = HostState(last_visit_at=now, next_allowed_at=now + delay, visits=visits)
        self.session.leave(key, state)
        return now + delay

    async def told(self, kind: type[Wanted | OperatorBlock | Lost | Recovered], times: int = 1) -> None:
        """Wait until there was news of a kind, so many times."""
        await becomes(lambda: self.times(kind) >= times)

    def times(self, kind: type[Wanted | OperatorBlock | Lost | Recovered]) -> int:
        """Return how many times there was news of a kind."""
        return sum(isinstance(news, kind) for news in self.news)

    @property
    def blocks(self) -> dict[str, float]:
        """Until when what is blocked."""
        return {news.pattern: news.until_at for news in self.news if isinstance(news, OperatorBlock)}


@asynccontextmanager
async def worker(
    url: str, prefix: str, *, lease: float = LEASE, patience: float = 10.0
) -> AsyncIterator[Worker]:
    """One more process of a fleet."""
    store = RedisStore(url, prefix=prefix, lease=lease, patience=patience)
    async with asyncio.timeout(60):
        one = Worker(store, await store.session())
    try:
        yield one
    finally:
        one.hearing.cancel()
        async with asyncio.timeout(60):
            await store.aclose()


@asynccontextmanager
async def admin(server: RedisServer) -> AsyncIterator[Redis]:
    """The operator's own way to the server."""
    async with Redis.from_url(server.url) as client:
        yield client


async def check_fleets(
    make: Callable[[str], RedisStore], settle: Callable[[str], None] = lambda _: None
) -> None:
    """Try all that a store does, with fleets of their own.

    Args:
        make: makes a store, given its prefix.
        settle: has the server taken for one that has run for long.
    """
    prefixes: dict[Store, str] = {}

    def made(prefix: str) -> RedisStore:
        settle(prefix)
        store = make(prefix)
        prefixes[store] = prefix
        return store

    await check_store(lambda: made(fresh_prefix()), make_another=lambda store: made(prefixes[store]))


async def run(client: Redis, *words: object) -> object:
    """Run any command, as on the server's command line."""
    return await client.execute_command(*words)  # type: ignore[no-untyped-call]


async def becomes(is_so: Callable[[], object]) -> None:
    """Wait for a state, or for an answer of the server; without result, it fails after ten seconds.

    Raises:
        TimeoutError: it never came.
    """
    async with asyncio.timeout(60):
        while not (await found if isawaitable(found := is_so()) else found):  # noqa: ASYNC110 # It has no event.
            await asyncio.sleep(0.002)
