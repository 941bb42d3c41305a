"""Ways to take turns at hosts over one Redis: robotgate's, a script that each task calls, and other packages'.

Every way is opened with the server's URL and the seconds between two starts at a host, and is then a function of a
host: ``async with turn(host): ...`` comes in when it is the host's turn.

A gate is granted each host once, and paces it from memory until another gate asks for the host. The plain script
counts a turn from its beginning to its end, which takes two calls. The packages limit how many begin in a second, one
call each.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import time
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha1
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from redis.asyncio import BlockingConnectionPool, ConnectionPool, Redis

from robotgate import Answer, HostOverride, RobotGate
from robotgate.stores.redis import RedisStore
from robotgate.testing import ScriptedFetcher

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Turn: TypeAlias = Callable[[str], AbstractAsyncContextManager[object]]
    Open: TypeAlias = Callable[[str, float], AbstractAsyncContextManager[Turn]]

SLOTS: Final = 8
"""Requests under way at a host. With one, the delay would count from the end of a turn."""
POOL: Final = MappingProxyType(
    {"max_connections": 256, "socket_connect_timeout": 60.0, "socket_timeout": 60.0}
)
"""Of redis-py's pools. By default a pool has 100 connections and a timeout of a few seconds: a call that finds no free
connection gets an error, and so does one that waits longer, as 1,600 connections make it on a busy machine.
"""
LEASE: Final = 5.0
"""Seconds for which a server that was just started grants no host: it may have been restarted. A fleet's own lease is
longer, and would have to be waited for with every measurement.
"""
NO_LIMIT: Final = 10**6
"""Starts a second, where nothing is to be held back."""
GRAIN: Final = 0.001
"""Seconds; no task asks again sooner."""
RESERVE: Final = b"""
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1e6
local delay = tonumber(ARGV[1])
local next_at = tonumber(redis.call('HGET', KEYS[1], 'next') or 0)
if now < next_at then return tostring(next_at - now) end
redis.call('HSET', KEYS[1], 'last', now, 'next', string.format('%.6f', now + delay))
redis.call('HINCRBY', KEYS[1], 'visits', 1)
redis.call('PEXPIRE', KEYS[1], 86400000)
return '0'
"""
FINISH: Final = b"""
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1e6
redis.call('HSET', KEYS[1], 'last', now)
redis.call('PEXPIRE', KEYS[1], 86400000)
return '0'
"""


@asynccontextmanager
async def by_gate(url: str, delay: float) -> AsyncIterator[Turn]:
    """`gate.turn`, whole, of a gate with that store; no robots.txt is asked for."""
    store = RedisStore(url, lease=LEASE)
    gate = RobotGate(
        "ExampleBot/1.0",
        contact="bot@example.org",
        store=store,
        delay=delay,
        concurrency_per_host=SLOTS,
        concurrency=10_000,
        fetcher=ScriptedFetcher({}, otherwise=Answer(status=404)),
        overrides={"*.site.example": HostOverride(ignore_robots=True)},
    )
    try:
        async with gate:
            yield lambda host: gate.turn(f"https://{host}/")
    finally:
        await store.aclose()


@asynccontextmanager
async def by_script(url: str, delay: float) -> AsyncIterator[Turn]:
    """Five lines of Lua by EVALSHA, a connection of redis-py's pool for each call; asked again when it is time."""
    pool = ConnectionPool.from_url(url, **POOL)
    async with Redis(connection_pool=pool) as client:
        reserve, finish = (sha1(script, usedforsecurity=False).hexdigest() for script in (RESERVE, FINISH))
        for script in (RESERVE, FINISH):
            await client.script_load(script)

        @asynccontextmanager
        async def turn(host: str) -> AsyncIterator[None]:
            async def ask() -> float:
                return float(await client.evalsha(reserve, 1, host, str(delay)))

            await until_granted(ask)
            yield
            await client.evalsha(finish, 1, host)

        yield turn
    await pool.aclose()


@asynccontextmanager
async def by_limits(strategy: str, url: str, delay: float) -> AsyncIterator[Turn]:
    """limits, over redis-py; it never waits, so a refused task sleeps until the window is reset."""
    limits = importlib.import_module("limits")
    storages = importlib.import_module("limits.aio.storage")
    strategies = importlib.import_module("limits.aio.strategies")
    storage = storages.RedisStorage(f"async+{url}", implementation="redispy", **POOL)
    limiter = getattr(strategies, strategy)(storage)
    rate = limits.RateLimitItemPerSecond(starts_a_second(delay))

    @asynccontextmanager
    async def turn(host: str) -> AsyncIterator[None]:
        async def ask() -> float:
            if await limiter.hit(rate, host):
                return 0.0
            stats = await limiter.get_window_stats(rate, host)
            wait: float = stats.reset_time - time.time()
            return max(GRAIN, wait)

        await until_granted(ask)
        yield

    yield turn


@asynccontextmanager
async def by_throttled(url: str, delay: float) -> AsyncIterator[Turn]:
    """throttled-py's GCRA without a burst; asked again when it says so, for its own wait is of 0.2 s and more."""
    throttled = importlib.import_module("throttled.asyncio")
    store = throttled.RedisStore(server=url, options={"CONNECTION_POOL_KWARGS": dict(POOL)})
    quota = throttled.rate_limiter.per_sec(starts_a_second(delay), burst=1 if delay else NO_LIMIT)
    throttle = throttled.Throttled(using=throttled.RateLimiterType.GCRA.value, quota=quota, store=store)

    @asynccontextmanager
    async def turn(host: str) -> AsyncIterator[None]:
        async def ask() -> float:
            result = await throttle.limit(host)
            wait: float = result.state.retry_after
            return max(GRAIN, wait) if result.limited else 0.0

        await until_granted(ask)
        yield

    yield turn


@asynccontextmanager
async def by_pyrate(url: str, delay: float) -> AsyncIterator[Turn]:
    """pyrate-limiter's log, a limiter for each host: with one for all, each task waits for all others."""
    pyrate = importlib.import_module("pyrate_limiter")
    rates = [pyrate.Rate(starts_a_second(delay), pyrate.Duration.SECOND)]
    limiters: dict[str, asyncio.Future[object]] = {}
    async with AsyncExitStack() as stack:
        # Its limiters have tasks of their own that take connections.
        pool = BlockingConnectionPool.from_url(url, **POOL)
        client = await stack.enter_async_context(Redis(connection_pool=pool))

        async def make(host: str) -> object:
            bucket = await pyrate.RedisBucket.init(rates, client, host)
            return stack.enter_context(pyrate.Limiter(bucket))

        @asynccontextmanager
        async def turn(host: str) -> AsyncIterator[None]:
            if host not in limiters:
                limiters[host] = asyncio.ensure_future(make(host))
            limiter = await limiters[host]
            await limiter.try_acquire_async(host)  # type: ignore[attr-defined]
            yield

        yield turn
        await pool.aclose()


async def until_granted(ask: Callable[[], Awaitable[float]]) -> None:
    """Ask, and again whenever the seconds of the answer are over; none is a grant."""
    wait = await ask()
    while wait:
        await asyncio.sleep(wait)
        wait = await ask()


def starts_a_second(delay: float) -> int:
    """What a limiter is told in place of a delay."""
    return round(1 / delay) if delay else NO_LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One line of a report."""

    name: str
    open: Open
    package: str = "robotgate"
    """What it takes, as pip calls it."""
    module: str = "robotgate"


GATE: Final = Way(name="`gate.turn`, `RedisStore`", open=by_gate)
SCRIPT: Final = Way(name="redis-py, an EVALSHA a call", open=by_script)
PEERS: Final = (
    Way(
        name="limits, moving window",
        open=partial(by_limits, "MovingWindowRateLimiter"),
        package="limits",
        module="limits",
    ),
    Way(
        name="limits, fixed window",
        open=partial(by_limits, "FixedWindowRateLimiter"),
        package="limits",
        module="limits",
    ),
    Way(name="throttled-py, GCRA", open=by_throttled, package="throttled-py", module="throttled"),
    Way(name="pyrate-limiter, log", open=by_pyrate, package="pyrate-limiter", module="pyrate_limiter"),
)
