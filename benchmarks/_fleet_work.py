"""What `benchmarks.fleet` measures over one Redis: ways to take turns at hosts, memory, and whole crawls.

A way to take turns is opened with the server's URL and the seconds between two starts at a host, and is then a
function of a host: ``async with turn(host): ...`` comes in when it is its turn. A gate is granted each host once,
and paces it from memory until another gate asks for the host. The plain script counts a turn from its beginning to its
end, which takes two calls.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha1
from multiprocessing import get_context
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from redis.asyncio import ConnectionPool, Redis
from tests.fleet.fleet import Fleet
from tests.fleet.site import Site
from tests.fleet.worker import Order, group_of
from tests.redis_server import RedisServer

from benchmarks._bench import alone_in_loop, in_loop, quantile
from benchmarks._known import AGENT, CONTACT, chunks, host_of
from benchmarks.disk import record
from robotgate import HostOverride, RobotGate, owner
from robotgate.sites import Answer
from robotgate.stores.redis import RedisStore
from robotgate.testing import ScriptedFetcher

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
    from multiprocessing.synchronize import Barrier

    Turn: TypeAlias = Callable[[str], AbstractAsyncContextManager[object]]
    Way: TypeAlias = Callable[[str, float], AbstractAsyncContextManager[Turn]]
    Values: TypeAlias = dict[str, float]

TASKS: Final = 200
HOSTS: Final = 1_000
WARM_UP: Final = "warm.site.example"
PATIENCE: Final = 300.0
"""Seconds that processes wait for one another before they begin."""
BACKLOG: Final = "4096"
"""Connections that may wait to be accepted: of 8 processes 200 each at once, of which none should have to come again a
second later.
"""
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
_barriers: list[Barrier] = []
"""This process's, where it is one of several that begin together."""


@asynccontextmanager
async def by_gate(url: str, delay: float) -> AsyncIterator[Turn]:
    """`gate.turn`, whole, of a gate with that store; no robots.txt is asked for."""
    store = RedisStore(url, lease=LEASE)
    gate = RobotGate(
        AGENT,
        contact=CONTACT,
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
    async with pooled(url, RESERVE) as reserve, pooled(url, FINISH) as finish:

        @asynccontextmanager
        async def turn(host: str) -> AsyncIterator[None]:
            wait = float(await reserve(host, str(delay)))
            while wait:
                await asyncio.sleep(wait)
                wait = float(await reserve(host, str(delay)))
            yield
            await finish(host)

        yield turn


@asynccontextmanager
async def pooled(url: str, script: bytes) -> AsyncIterator[Callable[..., Awaitable[str]]]:
    """What calls a script, a connection of redis-py's pool for each call."""
    pool = ConnectionPool.from_url(url, **POOL)
    async with Redis(connection_pool=pool) as client:
        await client.script_load(script)
        digest = sha1(script, usedforsecurity=False).hexdigest()
        yield lambda host, *arguments: client.evalsha(digest, 1, host, *arguments)
    await pool.aclose()


@contextmanager
def serving(program: str, *, is_pinned: bool = False) -> Iterator[str]:
    """The URL of an empty server, until the end of the block; it may have the first core."""
    options = {"tcp-backlog": BACKLOG, "server_cpulist": "0" if is_pinned else None}
    with (
        tempfile.TemporaryDirectory() as folder,
        RedisServer(Path(folder), program=program, options=options) as server,
    ):
        yield server.url


@contextmanager
def together(processes: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that begin together what they are given next, one thing each."""
    context = get_context("spawn")
    barrier = context.Barrier(processes)
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_meet, initargs=(barrier,)) as pool:
        yield pool


def _meet(barrier: Barrier) -> None:
    _barriers.append(barrier)


@dataclass(frozen=True, slots=True)
class Taken:
    """How one process fared with turns that nothing held back."""

    turns: int
    seconds: float
    cpu: float
    waits: list[float]


async def take_turns(way: Way, url: str, turns: int, process: int = 0, *, hosts: int = HOSTS) -> Taken:
    """So many turns, by 200 tasks, each at the next host of the process's own."""
    waits: list[float] = []
    left = iter(range(turns))
    async with way(url, 0.0) as turn:

        async def warm_up(task: int) -> None:
            async with turn(f"{task}.{WARM_UP}"):
                pass

        async def take(left: Iterator[int]) -> None:
            for number in left:
                asked_at = time.perf_counter()
                async with turn(host_of(number % hosts, process)):
                    waits.append(time.perf_counter() - asked_at)

        # Whoever opens a connection for each task has them then.
        await asyncio.gather(*map(warm_up, range(TASKS)))
        for barrier in _barriers:
            # Should another process have failed, it never comes.
            await asyncio.to_thread(barrier.wait, PATIENCE)
        began, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(take(left) for _ in range(TASKS)))
        return Taken(turns, time.perf_counter() - began, time.process_time() - cpu, waits)


def turns_of(program: str, way: Way, turns: int, processes: int) -> Values:
    """So many processes, and the server among them; one alone is on the last core, and the server on the first."""
    if processes == 1:
        with serving(program, is_pinned=True) as url:
            return turn_values([alone_in_loop("asyncio", take_turns, way, url, turns)])
    with serving(program) as url, together(processes) as pool:
        works = [partial(take_turns, way, url, turns // processes, process) for process in range(processes)]
        return turn_values([*pool.map(partial(in_loop, "asyncio"), works)])


def turn_values(processes: Sequence[Taken]) -> Values:
    """Turns a second of all together, quantiles of all waits in milliseconds, and microseconds of CPU a turn."""
    turns = sum(one.turns for one in processes)
    waits = [each * 1e3 for one in processes for each in one.waits]
    return {
        # Who is done first leaves the others more.
        "rate": turns / max(one.seconds for one in processes),
        "p50": quantile(waits, 0.5),
        "p99": quantile(waits, 0.99),
        "cpu": sum(one.cpu for one in processes) / turns * 1e6,
    }


async def memory_of_hosts(program: str, count: int) -> Values:
    """The server's memory for a host that was visited once; the gate is closed."""
    return await _memory(program, count, lambda url: take_turns(by_gate, url, count, hosts=count))


async def memory_of_records(program: str, count: int) -> Values:
    """The server's memory for a robots.txt of the median size."""
    return await _memory(program, count, lambda url: _save_records(url, count))


async def _memory(program: str, count: int, work: Callable[[str], Awaitable[object]]) -> Values:
    with serving(program) as url:
        async with Redis.from_url(url) as client:
            before = (await client.info("memory"))["used_memory"]
            await work(url)
            return {"used": ((await client.info("memory"))["used_memory"] - before) / count}


async def _save_records(url: str, count: int) -> None:
    store = RedisStore(url)
    await store.open()
    try:
        for chunk in chunks(range(count), 500):
            await asyncio.gather(*(store.save_record(record(number)) for number in chunk))
    finally:
        await store.aclose()


@dataclass(frozen=True, slots=True)
class Crawl:
    """What is to be fetched."""

    hosts: int
    pages: int
    """Of each host, in all."""
    delay: float
    makespan: float = 1.06
    """How much of one process's time several may take."""
    groups: int = 0
    """Of hosts that have a delay in common; 0: none."""
    group_delay: float = 0.0

    @property
    def title(self) -> str:
        """As people say it."""
        title = f"{self.hosts} hosts, {self.pages} pages of each, {self.delay:g} s apart"
        return f"{title}, in {self.groups} groups of {self.group_delay:g} s" if self.groups else title

    @property
    def ideal(self) -> float:
        """Seconds that the delays alone take, for the largest group."""
        sizes = Counter(
            group_of(host_of(number), self.groups) for number in range(self.hosts if self.groups else 0)
        )
        return max(
            self.pages * self.delay, max(sizes.values(), default=0) * (self.pages + 1) * self.group_delay
        )


def orders(crawl: Crawl, workers: int, *, store: str, port: int, by_owner: bool) -> list[Order]:
    """The pages dealt among the workers, or the hosts, each with all its pages."""
    hosts = [host_of(number) for number in range(crawl.hosts)]
    pages = tuple(f"/page/{number}" for number in range(crawl.pages))
    members = [str(number) for number in range(workers)]
    return [
        Order(
            number=number,
            store=store,
            port=port,
            hosts=tuple(
                host for host in hosts if not by_owner or owner(f"http://{host}/", members) == str(number)
            ),
            pages=pages if by_owner else pages[number::workers],
            delay=crawl.delay,
            groups=crawl.groups,
            group_delay=crawl.group_delay,
            lease=LEASE,
            tells_all=False,
        )
        for number in range(workers)
    ]


async def crawled(program: str, crawl: Crawl, workers: int, *, by_owner: bool = False) -> Values:
    """One crawl, with a server of its own. The web server is in this process; each crawler is a process of its own.

    Raises:
        RuntimeError: some page was not fetched.
    """
    with serving(program) as url:
        async with Redis.from_url(url) as client, Site() as site:
            # Until then the server grants nothing: its uptime may say a second too much.
            await asyncio.sleep(LEASE + 1)
            given = orders(crawl, workers, store=url, port=site.port, by_owner=by_owner)
            async with Fleet(given, patience=PATIENCE) as fleet:
                await fleet.ended()
            done = [worker.done for worker in fleet.workers if worker.done is not None]
            got = sum(each.pages for each in done)
            if got != crawl.hosts * crawl.pages:
                raise RuntimeError(f"{got} pages were got, not all: {fleet.failures[:3]}")
            cpu = await client.info("cpu")
            commands = await client.info("commandstats")
    gaps = [gap.seconds * 1e3 for gap in site.gaps()]
    return {
        "robots": max(site.robots_requests.values()),
        "short": len(site.short_gaps(crawl.delay))
        + (
            len(site.short_gaps(crawl.group_delay, lambda host: group_of(host, crawl.groups)))
            if crawl.groups
            else 0
        ),
        "gaps": len(gaps),
        "least": min(gaps),
        "median": statistics.median(gaps),
        "makespan": site.makespan,
        "to_ideal": site.makespan / crawl.ideal,
        "crawler_cpu": sum(each.cpu for each in done),
        "calls": commands["cmdstat_evalsha"]["calls"] / got,
        "redis_cpu": cpu["used_cpu_user"] + cpu["used_cpu_sys"],
    }
