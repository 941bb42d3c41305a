"""Ten thousand pages without any delay: what obeying robots.txt costs, through either door.

A hundred tasks take the URLs of 200 hosts (50 pages each) or of 2,000 hosts (5 each), a page of each host after the
other. Beside the gate in the same run: bare aiohttp; bare aiohttp that asks each host for its robots.txt first and does
not read it; and what people write by hand today, a dict of Protego's rules behind a lock for each host, and an
`AsyncLimiter` for each host, which here is given nothing to hold back.

Client and server have a core each. Every client runs in a process of its own, and rounds are interleaved.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections import defaultdict
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from aiohttp import ClientSession, TCPConnector
from aiolimiter import AsyncLimiter
from protego import Protego

from benchmarks._client import LOOPS, LoopbackResolver, alone
from benchmarks._machine import describe, peak_memory
from benchmarks._plain_server import plain_site
from robotgate import RobotGate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

    from benchmarks._plain_server import PlainSite

    Fetch = Callable[[str], Awaitable[object]]
    Crawl = Callable[[Sequence[str], int], Awaitable[None]]

AGENT: Final = "ExampleBot/1.0"
HEADERS: Final = {"User-Agent": AGENT, "From": "bot@example.org"}
SIZES: Final = ((200, 50), (2_000, 5))
"""Hosts, and pages of each."""
TASKS: Final = 100
PAGE: Final = b"<!doctype html><title>A page</title>" + b"<p>Something to read.</p>\n" * 60
NO_LIMIT: Final = 1e9
"""Requests a second."""


def robots_txt() -> bytes:
    """As a large shop's: 57 rules, 32 of them with wildcards, 2.4 KB."""
    lines = ["User-agent: GreedyBot", "Disallow: /", "", "User-agent: *"]
    for number in range(8):
        lines += [
            f"Disallow: /api/section-{number}/",
            f"Disallow: /account/department-{number}/orders",
            f"Allow: /account/department-{number}/help",
            f"Disallow: /*/compare-{number}/",
            f"Disallow: /shop/category-{number}/*?sort=",
            f"Disallow: /*.feed{number}$",
            f"Disallow: /search*facet{number}=",
        ]
    return "\n".join([*lines, "", "Sitemap: https://shop.example/sitemap.xml", ""]).encode()


@dataclass(frozen=True, slots=True)
class Cost:
    """What one client took for all pages once."""

    seconds: float
    cpu: float
    peak_memory: int


def measured(loop: str, crawl: Crawl, urls: Sequence[str], tasks: int) -> Cost:
    """Runs a crawl, once in a process."""
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        began, cpu = time.perf_counter(), time.process_time()
        runner.run(_run(crawl, urls, tasks))
        return Cost(time.perf_counter() - began, time.process_time() - cpu, peak_memory())


async def _run(crawl: Crawl, urls: Sequence[str], tasks: int) -> None:
    await crawl(urls, tasks)


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


async def read(session: ClientSession, url: str) -> bytes:
    """One page, to its end."""
    async with session.get(url) as response:
        return await response.read()


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
    rules: dict[str, Protego] = {}
    locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
    limiters: defaultdict[str, AsyncLimiter] = defaultdict(lambda: AsyncLimiter(NO_LIMIT, 1))
    async with open_session() as session:

        async def fetch(url: str) -> None:
            origin = url.partition("/page/")[0]
            async with locks[origin]:
                if origin not in rules:
                    body = await read(session, f"{origin}/robots.txt")
                    rules[origin] = Protego.parse(body.decode(errors="replace"))
            if rules[origin].can_fetch(url, AGENT):
                async with limiters[origin]:
                    await read(session, url)

        await visit_all(fetch, urls, tasks)


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


CLIENTS: Final = {
    "bare aiohttp": bare,
    "bare aiohttp, and robots.txt unread": bare_with_robots,
    "by hand: Protego, Lock, AsyncLimiter": by_hand,
    "`gate.fetch`": by_fetch,
    "`gate.middleware`": by_middleware,
}


def urls_at(site: PlainSite, hosts: int, pages: int) -> list[str]:
    """Each host's first page, then each host's second, and so on."""
    return [
        f"http://host{host}.site.example:{site.port}/page/{page}"
        for page in range(pages)
        for host in range(hosts)
    ]


def report(costs: dict[str, list[Cost]], robots: dict[str, int], pages: int) -> None:
    """One table: medians over the rounds, ratios of rounds that stood side by side."""
    print("| client | pages/s | of bare | of bare with robots.txt | CPU s per 1,000 | peak MB | robots.txt |")
    print("|" + 7 * "---|")
    references = list(costs.values())[:2]
    for name, rounds in costs.items():
        ratios = [
            statistics.median(base.seconds / own.seconds for base, own in zip(bases, rounds, strict=True))
            for bases in references
        ]
        cells = (
            name,
            f"{pages / statistics.median(cost.seconds for cost in rounds):,.0f}",
            *(f"{ratio:.2f}" for ratio in ratios),
            f"{statistics.median(cost.cpu for cost in rounds) * 1000 / pages:.3f}",
            f"{statistics.median(cost.peak_memory for cost in rounds) / 1e6:.0f}",
            f"{robots[name]:,}",
        )
        print("| " + " | ".join(cells) + " |")


def main() -> None:
    """Measures every client, in interleaved rounds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default="asyncio")
    parser.add_argument("--tasks", type=int, default=TASKS)
    options = parser.parse_args()
    print(describe("robotgate", "aiohttp", "aiolimiter", "protego", "uvloop"))
    with plain_site(robots=robots_txt(), page=PAGE) as site:
        for hosts, pages in SIZES:
            print(f"\n{hosts:,} hosts x {pages} pages, {options.tasks} tasks, {options.loop},", end="")
            print(f" {options.rounds} rounds\n")
            urls = urls_at(site, hosts, pages)
            costs: dict[str, list[Cost]] = {name: [] for name in CLIENTS}
            robots: dict[str, int] = {}
            for _ in range(options.rounds):
                for name, crawl in CLIENTS.items():
                    costs[name].append(alone(measured, options.loop, crawl, urls, options.tasks))
                    robots[name] = site.robots_requests().total()
            report(costs, robots, len(urls))


if __name__ == "__main__":
    main()
