"""Clients in one loop that `benchmarks.pace` measures, each given all URLs at once and the delay."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from aiohttp import ClientSession, TCPConnector
from aiolimiter import AsyncLimiter

from benchmarks._by_hand import AGENT, fetch_by_hand, read
from benchmarks._client import LOOPS, LoopbackResolver, cost_of
from robotgate import RobotGate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence

    from benchmarks._client import Cost

    Crawl = Callable[[Sequence[str], float], Coroutine[object, None, None]]


def in_loop(loop: str, crawl: Crawl, urls: Sequence[str], delay: float) -> Cost:
    """What a crawl takes on a loop; once in a process."""

    def run() -> None:
        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            runner.run(crawl(urls, delay))

    return cost_of(run)


async def by_fetch(urls: Sequence[str], delay: float) -> None:
    """With `gate.fetch`, a task for each URL."""
    async with open_gate(delay) as (gate, _):
        await at_once(gate.fetch, urls)


async def by_middleware(urls: Sequence[str], delay: float) -> None:
    """With the gate's middleware in a session of aiohttp, a task for each URL."""
    async with (
        open_gate(delay) as (gate, connector),
        ClientSession(connector=connector, connector_owner=False, middlewares=[gate.middleware]) as session,
    ):
        await at_once(partial(read, session), urls)


async def by_limiter(urls: Sequence[str], delay: float) -> None:
    """With an `AsyncLimiter` for each host around a plain request, a task for each URL."""
    limiters: defaultdict[str, AsyncLimiter] = defaultdict(lambda: AsyncLimiter(1, delay))
    async with ClientSession(connector=TCPConnector(resolver=LoopbackResolver(), limit=0)) as session:

        async def fetch(url: str) -> None:
            async with limiters[url.rpartition("/page/")[0]]:
                await read(session, url)

        await at_once(fetch, urls)


async def by_sleeping(urls: Sequence[str], delay: float) -> None:
    """Bare aiohttp, with a task for each host that sleeps after each page."""
    hosts: defaultdict[str, list[str]] = defaultdict(list)
    for url in urls:
        hosts[url.rpartition("/page/")[0]].append(url)
    async with ClientSession(connector=TCPConnector(resolver=LoopbackResolver(), limit=0)) as session:

        async def crawl(pages: Sequence[str]) -> None:
            for url in pages:
                await read(session, url)
                await asyncio.sleep(delay)

        async with asyncio.TaskGroup() as tasks:
            for pages in hosts.values():
                tasks.create_task(crawl(pages))


async def by_hand(urls: Sequence[str], delay: float) -> None:
    """As spiders have it: Protego's rules behind a lock for each host, and an `AsyncLimiter` for each host's pages."""
    async with ClientSession(connector=TCPConnector(resolver=LoopbackResolver(), limit=0)) as session:
        await at_once(fetch_by_hand(session, lambda: AsyncLimiter(1, delay)), urls)


@asynccontextmanager
async def open_gate(delay: float) -> AsyncIterator[tuple[RobotGate, TCPConnector]]:
    """A gate whose connector knows the hosts, and the connector."""
    connector = TCPConnector(resolver=LoopbackResolver(), limit=0)
    async with (
        ClientSession(connector=connector) as session,
        RobotGate(AGENT, contact="bot@example.org", session=session, delay=delay) as gate,
    ):
        yield gate, connector


async def at_once(fetch: Callable[[str], Awaitable[object]], urls: Sequence[str]) -> None:
    """A task for each URL, all started together."""

    async def one(url: str) -> None:
        await fetch(url)

    async with asyncio.TaskGroup() as tasks:
        for url in urls:
            tasks.create_task(one(url))
