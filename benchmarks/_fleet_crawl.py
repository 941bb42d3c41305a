"""Processes that crawl the same hosts with their pace in one Redis: what arrives at the server, and what it costs.

The same pages are fetched by one process first, with the same kind of store, then dealt among several, so that every
one of them wants some of every host, and then by `robotgate.owner`, so that each host is one process's.

The web server does as little as it can, in the process that measures, and notes when a request's bytes come and when
its answer is about to be sent: no client can have had it earlier, so that no gap is taken for shorter than it was. Each
crawler is a process of its own; Redis is another.

The ideal is what the delay allows a crawler that itself takes no time: ``pages x delay + (pages + 1) x response``.
"""

from __future__ import annotations

import asyncio
import statistics
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from redis.asyncio import Redis
from tests.fleet.fleet import Fleet
from tests.fleet.site import Site
from tests.fleet.worker import Order
from tests.redis_server import RedisServer

from benchmarks._fleet_bench import in_rounds, processes_of
from benchmarks._fleet_ways import LEASE
from benchmarks._report import Column, Findings, Goal, Row, Table
from robotgate import owner

if TYPE_CHECKING:
    from benchmarks._fleet_bench import Bench, Figures
    from benchmarks._told import Values

PATIENCE: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Crawl:
    """What is to be fetched."""

    hosts: int
    pages: int
    """Of each host, in all."""
    delay: float
    response: float = 0.0
    """Seconds that an answer takes."""
    makespan: float = 1.06
    """How much of one process's time several may take."""

    @property
    def title(self) -> str:
        """As people say it."""
        return f"{self.hosts} hosts, {self.pages} pages of each, {self.delay:g} s apart"

    @property
    def ideal(self) -> float:
        """Seconds that the delay alone asks for."""
        return self.pages * self.delay + (self.pages + 1) * self.response


def orders(crawl: Crawl, workers: int, *, store: str, port: int, by_owner: bool = False) -> list[Order]:
    """The pages dealt among the workers, or the hosts, each with all its pages."""
    hosts = tuple(f"{number}.site.example" for number in range(crawl.hosts))
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
            lease=LEASE,
            tells_all=False,
        )
        for number in range(workers)
    ]


def crawled(crawl: Crawl, workers: int, program: str, *, by_owner: bool = False) -> Values:
    """One crawl, with a server of its own.

    Raises:
        RuntimeError: some page was not fetched.
    """
    return asyncio.run(_crawled(crawl, workers, program, by_owner=by_owner))


async def _crawled(crawl: Crawl, workers: int, program: str, *, by_owner: bool) -> Values:
    with TemporaryDirectory() as folder, RedisServer(Path(folder), program=program) as server:
        async with Redis.from_url(server.url) as client, Site(takes=crawl.response) as site:
            # Until then the server grants nothing: its uptime may say a second too much.
            await asyncio.sleep(LEASE + 1)
            given = orders(crawl, workers, store=server.url, port=site.port, by_owner=by_owner)
            async with Fleet(given, patience=PATIENCE) as fleet:
                await fleet.ended()
            done = [worker.done for worker in fleet.workers if worker.done is not None]
            got = sum(each.pages for each in done)
            if got != crawl.hosts * crawl.pages:
                raise RuntimeError(f"{got} pages were got, not all: {fleet.failures[:3]}")
            cpu = await client.info("cpu")
            commands = await client.info("commandstats")
    gaps = sorted(gap.seconds for gap in site.gaps())
    return {
        "robots": float(max(site.robots_requests.values())),
        "short": float(len(site.short_gaps(crawl.delay))),
        "gaps": float(len(gaps)),
        "least": gaps[0] * 1e3,
        "median": statistics.median(gaps) * 1e3,
        "makespan": site.makespan,
        "to_ideal": site.makespan / crawl.ideal,
        "crawler_cpu": sum(each.cpu for each in done),
        "calls": commands["cmdstat_evalsha"]["calls"] / got,
        "redis_cpu": cpu["used_cpu_user"] + cpu["used_cpu_sys"],
    }


def measured_crawls(bench: Bench) -> Findings:
    """The same pages by one process, dealt among several, and by owner."""
    rows: list[Row] = []
    goals: list[Goal] = []
    for crawl in bench.size.crawls:
        workers = bench.size.processes
        figures = in_rounds(
            f"crawl {crawl.title}",
            1,
            {
                processes_of(1): partial(crawled, crawl, 1, bench.program),
                processes_of(workers): partial(crawled, crawl, workers, bench.program),
                f"{processes_of(workers)}, by owner": partial(
                    crawled, crawl, workers, bench.program, by_owner=True
                ),
            },
        )
        one, many, owners = figures.values()
        for name, own in figures.items():
            own["to_one"] = own["makespan"].over(one["makespan"])
            rows.append(Row(name=f"{crawl.title}: {name}", figures=own, is_ours=True))
        goals += crawl_goals(crawl, workers, many, owners)
    table = Table(
        key="crawl",
        title="Whole crawls, every process wanting all hosts, or each its own",
        columns=(
            Column(key="robots", title="robots.txt requests of a host, at most"),
            Column(key="short", title="gaps under the delay"),
            Column(key="gaps", title="of"),
            Column(key="least", title="smallest gap, ms", decimals=1),
            Column(key="median", title="median", decimals=1),
            Column(key="makespan", title="makespan, s", decimals=2),
            Column(key="to_ideal", title="to the delay alone", decimals=3),
            Column(key="to_one", title="to one process", decimals=3),
            Column(key="calls", title="EVALSHAs a page", decimals=2),
            Column(key="crawler_cpu", title="CPU of crawlers, s", decimals=1),
            Column(key="redis_cpu", title="of Redis", decimals=2),
        ),
        rows=tuple(rows),
    )
    return Findings(tables=(table,), goals=tuple(goals))


def crawl_goals(crawl: Crawl, processes: int, many: Figures, owners: Figures) -> tuple[Goal, ...]:
    """What several processes are held to."""
    who = f"{processes_of(processes)}, {crawl.title}"
    return (
        Goal(text=f"{who}: makespan, of one process's", figure=many["to_one"], at_most=crawl.makespan),
        Goal(text=f"{who}: EVALSHAs a page", figure=many["calls"], at_most=1.8),
        Goal(text=f"{who}, by owner: EVALSHAs a page", figure=owners["calls"], at_most=0.2),
        Goal(text=f"{who}: gaps under the delay", figure=many["short"], at_most=0),
        Goal(text=f"{who}: robots.txt requests of a host, at most", figure=many["robots"], at_most=1),
    )
