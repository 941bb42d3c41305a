"""Clients in one loop that `benchmarks.crawl` measures: bare aiohttp, one by hand, `gate.fetch` and the middleware.

Each is given all URLs, and a hundred tasks, and waits for nothing but answers.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from aiohttp import ClientSession, TCPConnector
from aiolimiter import AsyncLimiter

from benchmarks._by_hand import AGENT, fetch_by_hand, read
from benchmarks._client import LoopbackResolver, cost_of
from robotgate import RobotGate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence

    from benchmarks._by_hand import Fetch
    from benchmarks._client import Cost

    Crawl = Callable[[Sequence[str], int], Coroutine[object, None, None]]

HEADERS: Final = {"User-Agent": AGENT, "From": "bot@example.org"}
NO_LIMIT: Final = 1e9
"""Requests a second."""


def measured(crawl: Crawl, urls: Sequence[str], tasks: int) -> Cost:
    """What a crawl takes; once in a process."""
    return cost_of(partial(asyncio.run, crawl(urls, tasks)))


async def visit_all(fetch: Fetch, urls: Sequence[str], tasks: int) -> None:
    """So many tasks take one URL after the other."""
    left = iter(urls)

    async def work(left: Iterator[str]) -> None:
        for url in left:
            await fetch(url)

    async with asyncio.TaskGroup() as group:
        for _ in range(tasks):
            group.create_task(work(left))


@asynccontextmanager
async def open_session() -> AsyncIterator[ClientSession]:
    """As every client here has it: names that lead to this machine, and no limit of its own."""
    connector = TCPConnector(resolver=LoopbackResolver(), limit=0)
    async with ClientSession(connector=connector, headers=HEADERS) as session:
        yield session


async def bare(urls: Sequence[str], tasks: int) -> None:
    """aiohttp, and nothing else."""
    async with open_session() as session:
        await visit_all(partial(read, session), urls, tasks)


async def bare_with_robots(urls: Sequence[str], tasks: int) -> None:
    """Aiohttp that asks for each host's robots.txt, and looks at none."""
    asked: set[str] = set()
    async with open_session() as session:

        async def fetch(url: str) -> None:
            origin = url.partition("/page/")[0]
            if origin not in asked:
                asked.add(origin)
                await read(session, f"{origin}/robots.txt")
            await read(session, url)

        await visit_all(fetch, urls, tasks)


async def by_hand(urls: Sequence[str], tasks: int) -> None:
    """aiohttp, Protego, a lock and a limiter for each host, as spiders have them today."""
    async with open_session() as session:
        await visit_all(fetch_by_hand(session, lambda: AsyncLimiter(NO_LIMIT, 1)), urls, tasks)


async def by_fetch(urls: Sequence[str], tasks: int) -> None:
    """`gate.fetch`."""
    async with (
        open_session() as session,
        RobotGate(AGENT, contact="bot@example.org", session=session, delay=0) as gate,
    ):
        await visit_all(gate.fetch, urls, tasks)


async def by_middleware(urls: Sequence[str], tasks: int) -> None:
    """Aiohttp with the gate's middleware."""
    async with (
        open_session() as shared,
        RobotGate(AGENT, contact="bot@example.org", session=shared, delay=0) as gate,
        ClientSession(
            connector=shared.connector, connector_owner=False, headers=HEADERS, middlewares=[gate.middleware]
        ) as session,
    ):
        await visit_all(partial(read, session), urls, tasks)
