"""Fifty hosts, twenty pages of each, 0.1 s apart: what gaps arrive at the server, and how long it takes.

Every client is given all URLs at once, in a process of its own; rounds are interleaved. The server, in another process,
notes when a request's bytes come and when its answer is about to be sent. The hosts are names, which every client's own
resolver setting sends to the loopback interface. Server and clients have a core each, where there are two.

For every client, 950 gaps from the start of a page to the start of the next page of its host are measured. The gate
promises more: its delay runs from the end of a response to the start of the next request, and robots.txt is one of the
responses. So 1,000 gaps of the gate are measured in this way too, and 950 of the others, which do not promise it.

The ideal is what the delay allows a client that itself takes no time, by the client's own way of counting: for the
gate ``20 delays + 21 responses``, for Scrapy, one request at a time, ``19 x max(delay, response) + 1 response``, for
aiolimiter, which waits for no response, ``19 delays + 1 response``, and one more for robots.txt by hand.

The CPU of a page is also measured without any delay. A process that sleeps between pages finds its processor's caches
cold, so bare aiohttp that sleeps after each page stands beside it.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from benchmarks import _clients as ours
from benchmarks._bench import alone, found, interleaved, quantile
from benchmarks._report import Column, Effort, Findings, ratio
from benchmarks._site import ROBOTS_PATH, page_urls, serving
from benchmarks.crawl import BY_HAND, DOORS, imported

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks._bench import Cost
    from benchmarks._site import Site, Visit

PACKAGES: Final = ("robotgate", "aiohttp", "aiolimiter", "protego", "scrapy", "uvloop")
GRAIN: Final = 1e-6
"""Seconds; no clock tells gaps apart that are closer."""
LIMITER: Final = "aiolimiter alone, asyncio"
SLEEPING: Final = "bare aiohttp, a task for each host, asleep after each page"
NOTE: Final = (
    "Gaps are from the start of a page to the start of the next page of the host, for all clients. The columns on "
    "responses' ends count from the end of a response to the next request, which the gate alone promises; of the gate "
    "they include robots.txt."
)
COLUMNS: Final = (
    Column("short", "gaps under the delay", shows_spread=True),
    Column("gaps", "of"),
    Column("least", "smallest gap, ms", 1, shows_spread=True),
    Column("median", "median", 1),
    Column("p99", "p99", 1),
    Column("short_after_end", "under it after a response's end", shows_spread=True),
    Column("ends", "of these"),
    Column("least_from_end", "smallest after an end, ms", 1, shows_spread=True),
    Column("makespan", "makespan, s", 3),
    Column("to_ideal", "to ideal", 3, shows_spread=True),
    Column("cpu", "CPU, s", 2),
)
CPU_COLUMNS: Final = (
    Column("without", "CPU of a page without delay, µs", shows_spread=True),
    Column("with", "with it", shows_spread=True),
    Column("ratio", "ratio", 2, shows_spread=True),
)


@dataclass(frozen=True, slots=True)
class Shape:
    """What every client is to crawl."""

    hosts: int
    pages: int
    """Of each."""
    delay: float
    rounds: int

    @property
    def title(self) -> str:
        """As people say it."""
        return f"{self.hosts} hosts, {self.pages} pages of each, {self.delay:g} s apart"

    def urls(self, port: int) -> list[str]:
        """Each host's first page, then each host's second, and so on."""
        return page_urls(self.hosts, self.pages, port, "{}.site.example".format)


@dataclass(frozen=True, slots=True)
class Client:
    """A client that fetches all URLs."""

    run: Callable[..., Cost]
    """Given the URLs and the delay; runs in a process of its own."""
    ideal: Callable[[Shape, float], float]
    """Of the seconds a response takes: the makespan that the delay alone asks for."""
    asks_robots: bool = False
    is_gate: bool = False
    """Whether its delay counts from the end of a response, and robots.txt is one of them."""


def ideal_of_gate(shape: Shape, response: float) -> float:
    """The delay between all of robots.txt and the pages, none before the end of the one before."""
    return shape.pages * shape.delay + (shape.pages + 1) * response


def ideal_of_limiter(shape: Shape, response: float) -> float:
    """The delay between starts, whatever is still under way."""
    return (shape.pages - 1) * shape.delay + response


def ideal_by_hand(shape: Shape, response: float) -> float:
    """As the limiter's, once robots.txt has come."""
    return response + ideal_of_limiter(shape, response)


def ideal_of_scrapy(shape: Shape, response: float) -> float:
    """The delay between starts, one request at a time."""
    return (shape.pages - 1) * max(shape.delay, response) + response


def by_scrapy(urls: Sequence[str], *, delay: float, randomize: bool) -> Cost:
    """One request of a host at a time."""
    settings = {
        "CONCURRENT_REQUESTS": len(urls),
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        "DOWNLOAD_DELAY": delay,
        "RANDOMIZE_DOWNLOAD_DELAY": randomize,
        "ROBOTSTXT_OBEY": False,
    }
    return imported("_scrapy", urls, settings=settings)


def clients() -> dict[str, Client]:
    """The clients that can be measured here; the others are named on standard error."""
    doors = dict(zip(DOORS, (ours.by_fetch, ours.by_middleware), strict=True))
    every = {
        f"{door}, {loop}": Client(partial(ours.measured, crawl, loop=loop), ideal_of_gate, True, True)
        for door, crawl in doors.items()
        for loop in ("asyncio", "uvloop")
    }
    every[BY_HAND] = Client(partial(ours.measured, ours.by_hand), ideal_by_hand, asks_robots=True)
    every[LIMITER] = Client(partial(ours.measured, ours.by_limiter), ideal_of_limiter)
    by_uvloop = partial(ours.measured, ours.by_limiter, loop="uvloop")
    every["aiolimiter alone, uvloop"] = Client(by_uvloop, ideal_of_limiter)
    if found("scrapy"):
        for name, randomize in (("Scrapy, fixed delay", False), ("Scrapy, randomised, its default", True)):
            every[name] = Client(partial(by_scrapy, randomize=randomize), ideal_of_scrapy)
    return every


def seen(name: str, client: Client, shape: Shape, visits: Sequence[Visit]) -> dict[str, float]:
    """What the visits of one client come to, by column.

    Raises:
        RuntimeError: some page was asked for twice, or not at all.
    """
    expected = shape.hosts * (shape.pages + client.asks_robots)
    if len(visits) != expected or len({(visit.host, visit.path) for visit in visits}) != expected:
        raise RuntimeError(f"{name}: {len(visits)} requests, where {expected} different ones were due")
    by_host: defaultdict[str, list[Visit]] = defaultdict(list)
    for visit in sorted(visits, key=lambda visit: visit.came_at):
        if client.is_gate or visit.path != ROBOTS_PATH:
            by_host[visit.host].append(visit)
    pairs = [pair for host in by_host.values() for pair in pairwise(host)]
    gaps = [after.came_at - before.came_at for before, after in pairs if before.path != ROBOTS_PATH]
    from_end = [after.came_at - before.sent_at for before, after in pairs]
    makespan = max(visit.sent_at for visit in visits) - min(visit.came_at for visit in visits)
    response = statistics.fmean(visit.sent_at - visit.came_at for visit in visits)
    return {
        "short": sum(gap < shape.delay - GRAIN for gap in gaps),
        "gaps": len(gaps),
        "least": min(gaps) * 1e3,
        "median": statistics.median(gaps) * 1e3,
        "p99": quantile(gaps, 0.99) * 1e3,
        "short_after_end": sum(gap < shape.delay - GRAIN for gap in from_end),
        "ends": len(from_end),
        "least_from_end": min(from_end) * 1e3,
        "makespan": makespan,
        "to_ideal": makespan / client.ideal(shape, response),
    }


def measured_shape(findings: Findings, shape: Shape) -> None:
    """Every client."""
    every = clients()

    def work(name: str, site: Site) -> dict[str, float]:
        cost = alone(every[name].run, shape.urls(site.port), delay=shape.delay)
        return {**seen(name, every[name], shape, site.visits()), "cpu": cost.cpu}

    with serving() as site:
        figures = interleaved(shape.rounds, {name: partial(work, name, site) for name in every})
    gates = [name for name, client in every.items() if client.is_gate]
    findings.table("fast", shape.title, COLUMNS, figures, ours=gates, note=NOTE)
    for name in gates:
        # No gap is short in any round.
        short = [sum(figures[name]["short_after_end"])]
        findings.goal(f"{name}, gaps under the delay after a response's end; {shape.title}", short, at_most=0)
        text = f"{name}, makespan to the ideal; {shape.title}"
        findings.goal(text, figures[name]["to_ideal"], at_most=1.04)


def measured_cpu(findings: Findings, shape: Shape) -> None:
    """The CPU of a page with and without the delay, in interleaved rounds."""
    crawls = {
        **dict(zip(DOORS, (ours.by_fetch, ours.by_middleware), strict=True)),
        SLEEPING: ours.by_sleeping,
    }

    def work(crawl: ours.Crawl, urls: Sequence[str]) -> dict[str, float]:
        delays = {"without": 0.0, "with": shape.delay}
        costs = {key: alone(ours.measured, crawl, urls, delay=delay) for key, delay in delays.items()}
        return {key: cost.cpu * 1e6 / len(urls) for key, cost in costs.items()}

    with serving() as site:
        urls = shape.urls(site.port)
        figures = interleaved(
            shape.rounds, {name: partial(work, crawl, urls) for name, crawl in crawls.items()}
        )
    for name, own in figures.items():
        own["ratio"] = ratio(own["with"], own["without"])
        if name != SLEEPING:
            text = f"{name}, CPU of a page with a delay, of that without; {shape.title}"
            findings.goal(text, own["ratio"], at_most=1.2)
    findings.table("cpu", f"{shape.title}: CPU", CPU_COLUMNS, figures, ours=DOORS)


def measure(effort: Effort) -> Findings:
    """The pace of every client, and the CPU of some."""
    findings = Findings()
    measured_shape(findings, effort.pick(Shape(5, 5, 0.05, 1), Shape(50, 20, 0.1, 3)))
    measured_cpu(findings, effort.pick(Shape(5, 5, 0.05, 1), Shape(50, 20, 0.1, 9)))
    return findings
