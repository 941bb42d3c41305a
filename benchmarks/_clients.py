"""Clients in one loop that `benchmarks.crawl` and `benchmarks.pace` measure: bare aiohttp, what people write by hand,
and the gate's ways.

Each is given all URLs, the seconds between two pages of a host, and how many tasks take one URL after another.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from aiohttp import ClientSession, TCPConnector
from aiolimiter import AsyncLimiter
from protego import Protego

from benchmarks._bench import cost_of, in_loop
from benchmarks._site import LoopbackResolver
from robotgate import RobotGate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence

    from benchmarks._bench import Cost

    Fetch = Callable[[str], Awaitable[object]]
    Crawl = Callable[[Sequence[str], float, int], Coroutine[object, None, None]]

AGENT: Final = "ExampleBot/1.0"
CONTACT: Final = "bot@example.org"
HEADERS: Final = {"User-Agent": AGENT, "From": CONTACT}


def measured(
    crawl: Crawl, urls: Sequence[str], *, delay: float = 0.0, tasks: int = 0, loop: str = "asyncio"
) -> Cost:
    """What a crawl takes, once in a process; by default with a task for each URL."""
    return cost_of(lambda: in_loop(loop, lambda: crawl(urls, delay, tasks or len(urls))))


async def visit_all(fetch: Fetch, urls: Sequence[str], tasks: int) -> None:
    """So many tasks take one URL after the other."""
    left = iter(urls)

    async def work() -> None:
        for url in left:
            await fetch(url)

    async with asyncio.TaskGroup() as group:
        for _ in range(tasks):
            group.create_task(work())


def origin_of(url: str) -> str:
    """The origin of a page of the server."""
    return url.partition("/page/")[0]


async def read(session: ClientSession, url: str) -> bytes:
    """One page, to its end."""
    async with session.get(url) as response:
        return await response.read()


@asynccontextmanager
async def open_session() -> AsyncIterator[ClientSession]:
    """As every client here has it: names that lead to this machine, and no limit of its own."""
    connector = TCPConnector(resolver=LoopbackResolver(), limit=0)
    async with ClientSession(connector=connector, headers=HEADERS) as session:
        yield session


@asynccontextmanager
async def open_gate(delay: float = 0.0) -> AsyncIterator[RobotGate]:
    """A gate with such a session."""
    async with (
        open_session() as session,
        RobotGate(AGENT, contact=CONTACT, session=session, delay=delay) as gate,
    ):
        yield gate


async def bare(urls: Sequence[str], _: float, tasks: int) -> None:
    """aiohttp, and nothing else."""
    async with open_session() as session:
        await visit_all(partial(read, session), urls, tasks)


async def bare_with_robots(urls: Sequence[str], _: float, tasks: int) -> None:
    """Aiohttp that asks for each host's robots.txt, and looks at none."""
    asked: set[str] = set()
    async with open_session() as session:

        async def fetch(url: str) -> None:
            origin = origin_of(url)
            if origin not in asked:
                asked.add(origin)
                await read(session, f"{origin}/robots.txt")
            await read(session, url)

        await visit_all(fetch, urls, tasks)


def limiters(delay: float) -> defaultdict[str, AsyncLimiter]:
    """An `AsyncLimiter` for each host, with nothing to hold back where there is no delay."""
    return defaultdict(lambda: AsyncLimiter(1, delay) if delay else AsyncLimiter(1e9, 1))


async def by_hand(urls: Sequence[str], delay: float, tasks: int) -> None:
    """aiohttp, Protego behind a lock for each host, and a limiter for each host's pages, as spiders have them."""
    rules: dict[str, Protego] = {}
    locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
    paces = limiters(delay)
    async with open_session() as session:

        async def fetch(url: str) -> None:
            origin = origin_of(url)
            async with locks[origin]:
                if origin not in rules:
                    body = await read(session, f"{origin}/robots.txt")
                    rules[origin] = Protego.parse(body.decode(errors="replace"))
            if rules[origin].can_fetch(url, AGENT):
                async with paces[origin]:
                    await read(session, url)

        await visit_all(fetch, urls, tasks)


async def by_limiter(urls: Sequence[str], delay: float, tasks: int) -> None:
    """With an `AsyncLimiter` for each host around a plain request."""
    paces = limiters(delay)
    async with open_session() as session:

        async def fetch(url: str) -> None:
            async with paces[origin_of(url)]:
                await read(session, url)

        await visit_all(fetch, urls, tasks)


async def by_sleeping(urls: Sequence[str], delay: float, _: int) -> None:
    """Bare aiohttp, with a task for each host that sleeps after each page."""
    hosts: defaultdict[str, list[str]] = defaultdict(list)
    for url in urls:
        hosts[origin_of(url)].append(url)
    async with open_session() as session:

        async def crawl(pages: Sequence[str]) -> None:
            for url in pages:
                await read(session, url)
                await asyncio.sleep(delay)

        await asyncio.gather(*map(crawl, hosts.values()))


async def by_fetch(urls: Sequence[str], delay: float, tasks: int) -> None:
    """`gate.fetch`."""
    async with open_gate(delay) as gate:
        await visit_all(gate.fetch, urls, tasks)


async def by_middleware(urls: Sequence[str], delay: float, tasks: int) -> None:
    """Aiohttp with the gate's middleware."""
    async with (
        open_session() as shared,
        RobotGate(AGENT, contact=CONTACT, session=shared, delay=delay) as gate,
        ClientSession(
            connector=shared.connector, connector_owner=False, headers=HEADERS, middlewares=[gate.middleware]
        ) as session,
    ):
        await visit_all(partial(read, session), urls, tasks)
