"""Pages without any delay: what obeying robots.txt costs, by `gate.fetch` and by the middleware.

A hundred tasks take the URLs of few hosts with many pages each, or of many with few, a page of each host after the
other. Beside the gate in the same run: bare aiohttp; bare aiohttp that asks each host for its robots.txt first and does
not read it; what people write by hand today, a dict of Protego's rules behind a lock for each host, and an
`AsyncLimiter` for each host, which here is given nothing to hold back; and, in fewer rounds since they take longer,
Scrapy, Crawlee, and Crawlee behind a gate. Beside these, `gate.fetch` with metrics and traces of what it does.

All hosts have the same robots.txt, as those of one platform do, and the gate makes its tables once; `gate.fetch` is
also measured where each host has rules of its own.

Client and server have a core each. Every client runs in a process of its own, and rounds are interleaved.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from benchmarks import _clients as ours
from benchmarks import _observed
from benchmarks._bench import alone, found, interleaved
from benchmarks._report import Column, Effort, Findings, ratio
from benchmarks._site import OWN, page_urls, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks._bench import Cost
    from benchmarks._report import Figure
    from benchmarks._site import Site

    Client = tuple[Callable[[Sequence[str]], Cost], Callable[[int], str]]
    Figures = Mapping[str, Mapping[str, Figure]]

PACKAGES: Final = (
    "robotgate", "aiohttp", "aiolimiter", "protego", "scrapy", "crawlee", "prometheus-client", "opentelemetry-sdk",
)  # fmt: skip
TASKS: Final = 100
BARE: Final = "bare aiohttp"
WITH_ROBOTS: Final = "bare aiohttp, and robots.txt unread"
BY_HAND: Final = "by hand: Protego, Lock, AsyncLimiter"
FETCH: Final = "`gate.fetch`"
FETCH_OWN: Final = "`gate.fetch`, each host with rules of its own"
MIDDLEWARE: Final = "`gate.middleware`"
SCRAPY: Final = "Scrapy, `ROBOTSTXT_OBEY`"
CRAWLEE: Final = "Crawlee, `respect_robots_txt_file`"
CRAWLEE_GATED: Final = "Crawlee, `GateHttpClient`"
PROMETHEUS: Final = "with `prometheus`"
OTEL_METRICS: Final = "with `opentelemetry`, metrics"
OTEL_FEW: Final = "with `opentelemetry`, 1 trace of 100 kept"
OTEL_ALL: Final = "with `opentelemetry`, all traces kept"
DOORS: Final = (FETCH, MIDDLEWARE)
HOST_NAME: Final = "host{}.site.example".format
"""A host as all clients but Crawlee know it."""
OWN_HOST_NAME: Final = f"{OWN}{{}}.site.example".format
"""A host that has rules of its own."""
SLOW: Final = (SCRAPY, CRAWLEE, CRAWLEE_GATED, OTEL_FEW, OTEL_ALL)
OF_SCRAPY: Final = {
    "ROBOTSTXT_OBEY": True,
    "USER_AGENT": ours.AGENT,
    "CONCURRENT_REQUESTS": TASKS,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    "DOWNLOAD_DELAY": 0,
}
NOTE: Final = (
    "Scrapy and Crawlee do more for each page than fetch it: queues, retries, statistics, middlewares, sessions. They "
    "ran in fewer rounds, and their ratios are those of medians. Crawlee asks the system for names, so that its hosts "
    "are addresses of the loopback network, 127.1.0.1 and on, one for each; every other client's hosts are names, "
    "which its own resolver setting sends to 127.0.0.1."
)
RATE: Final = Column("rate", "pages/s", shows_spread=True)
COSTS: Final = (Column("cpu", "CPU s per 1,000", 3), Column("peak", "peak MB"))
COLUMNS: Final = (
    RATE,
    Column("of_bare", "of bare", 2),
    Column("of_robots", "of bare with robots.txt", 2),
    *COSTS,
    Column("robots", "robots.txt requests"),
    Column("duplicates", "asked again"),
)
OBSERVED_COLUMNS: Final = (RATE, Column("of_fetch", "of `gate.fetch`", 3), *COSTS)


@dataclass(frozen=True, slots=True)
class Shape:
    """What is crawled, and how often."""

    hosts: int
    pages: int
    """Of each."""
    rounds: int
    slow_rounds: int
    """Of those who take many times as long."""

    @property
    def where(self) -> str:
        """Ends the goals of this shape."""
        return f", {self.hosts:,} x {self.pages}"


def address(number: int) -> str:
    """A host as Crawlee knows it."""
    return f"127.1.{number // 250}.{number % 250 + 1}"


def imported(name: str, *arguments: object, **options: object) -> Cost:
    """What a framework takes, imported where it runs and nowhere else."""
    cost: Cost = importlib.import_module(f"benchmarks.{name}").crawl(*arguments, **options)
    return cost


def clients() -> dict[str, Client]:
    """What runs each client that can be measured here, in a process of its own, and what its hosts are called."""
    crawls: dict[str, ours.Crawl] = {
        BARE: ours.bare,
        WITH_ROBOTS: ours.bare_with_robots,
        BY_HAND: ours.by_hand,
        FETCH: ours.by_fetch,
        FETCH_OWN: ours.by_fetch,
        MIDDLEWARE: ours.by_middleware,
        PROMETHEUS: _observed.by_prometheus,
        OTEL_METRICS: partial(_observed.by_opentelemetry, kept=None),
        OTEL_FEW: partial(_observed.by_opentelemetry, kept=0.01),
        OTEL_ALL: partial(_observed.by_opentelemetry, kept=1.0),
    }
    every: dict[str, Client] = {
        name: (partial(ours.measured, crawl, tasks=TASKS), OWN_HOST_NAME if name == FETCH_OWN else HOST_NAME)
        for name, crawl in crawls.items()
    }
    if found("scrapy"):
        every[SCRAPY] = partial(imported, "_scrapy", settings=OF_SCRAPY), HOST_NAME
    if found("crawlee"):
        # Elsewhere than on Linux, 127.0.0.1 is all there is of the loopback network.
        if sys.platform.startswith("linux"):
            every[CRAWLEE] = partial(imported, "_crawlee", tasks=TASKS, is_gated=False), address
        every[CRAWLEE_GATED] = partial(imported, "_crawlee", tasks=TASKS, is_gated=True), HOST_NAME
    return every


def crawled(shape: Shape, site: Site, names: Sequence[str]) -> dict[str, dict[str, Figure]]:
    """Clients in interleaved rounds."""
    every = clients()
    pages = shape.hosts * shape.pages

    def work(name: str) -> dict[str, float]:
        crawl, host = every[name]
        cost = alone(crawl, page_urls(shape.hosts, shape.pages, site.port, host))
        robots = site.robots_requests()
        return {
            "rate": pages / cost.seconds,
            "cpu": cost.cpu * 1000 / pages,
            "peak": cost.peak_memory / 1e6,
            "robots": robots.total(),
            "duplicates": robots.total() - len(robots),
        }

    works = {name: partial(work, name) for name in names if name in every}
    return interleaved(shape.rounds, works, fewer=dict.fromkeys(SLOW, shape.slow_rounds))


def measured_shape(findings: Findings, shape: Shape, site: Site, *, is_warm: bool) -> None:
    """Every client; where most pages are of hosts whose rules are known by then, the gate has other goals."""
    figures = crawled(
        shape,
        site,
        (BARE, WITH_ROBOTS, BY_HAND, FETCH, FETCH_OWN, MIDDLEWARE, SCRAPY, CRAWLEE, CRAWLEE_GATED),
    )
    for own in figures.values():
        own["of_bare"] = ratio(own["rate"], figures[BARE]["rate"])
        own["of_robots"] = ratio(own["rate"], figures[WITH_ROBOTS]["rate"])
    findings.table(
        f"{shape.hosts}x{shape.pages}",
        f"{shape.hosts:,} hosts, {shape.pages} pages of each",
        COLUMNS,
        figures,
        ours=(*DOORS, FETCH_OWN, CRAWLEE_GATED),
        note=NOTE if {SCRAPY, CRAWLEE} & figures.keys() else "",
    )
    for door in DOORS:
        (warm_goals if is_warm else cold_goals)(findings, door, shape.where, figures)
        # Not once in any round.
        again = [max(figures[door]["duplicates"])]
        findings.goal(f"{door}, robots.txt asked for again{shape.where}", again, at_most=0)


def warm_goals(findings: Findings, door: str, where: str, figures: Figures) -> None:
    """Where most pages are of hosts that are known."""
    own = figures[door]
    findings.goal(f"{door}, of bare aiohttp's pages/s{where}", own["of_bare"], at_least=0.82)
    for peer, least in ((SCRAPY, 9.0), (CRAWLEE, 3.0)):
        if peer in figures:
            text = f"{door}, times {peer.partition(',')[0]}'s pages/s{where}; it does more for each page"
            findings.goal(text, ratio(own["rate"], figures[peer]["rate"]), at_least=least)


def cold_goals(findings: Findings, door: str, where: str, figures: Figures) -> None:
    """Where most of the work is getting to know hosts."""
    own = figures[door]
    text = f"{door}, of the pages/s of bare aiohttp with robots.txt{where}"
    findings.goal(text, own["of_robots"], at_least=0.76)
    text = f"{door}, of the peak memory of what is written by hand{where}"
    findings.goal(text, ratio(own["peak"], figures[BY_HAND]["peak"]), at_most=0.65)


def measured_observed(findings: Findings, shape: Shape, site: Site) -> None:
    """What metrics and traces cost. What a span costs is for the SDK to say: traces have no goal."""
    figures = crawled(shape, site, (FETCH, PROMETHEUS, OTEL_METRICS, OTEL_FEW, OTEL_ALL))
    for own in figures.values():
        own["of_fetch"] = ratio(own["rate"], figures[FETCH]["rate"])
    findings.table(
        "observed",
        f"{shape.hosts:,} hosts, {shape.pages} pages of each, observed",
        OBSERVED_COLUMNS,
        figures,
        ours=figures,
        note="Nothing is scraped meanwhile. OpenTelemetry has a span for each request; its exporter drops all.",
    )
    for name in (PROMETHEUS, OTEL_METRICS):
        text = f"{FETCH} {name}, of its pages/s without{shape.where}"
        findings.goal(text, figures[name]["of_fetch"], at_least=0.97)


def measure(effort: Effort) -> Findings:
    """Every client at every shape."""
    few = effort.pick(Shape(20, 10, 1, 1), Shape(200, 50, 25, 2))
    many = effort.pick(Shape(100, 2, 1, 0), Shape(2_000, 5, 11, 1))
    addresses = [address(number) for number in range(many.hosts)] if CRAWLEE in clients() else []
    findings = Findings()
    with serving(addresses=addresses) as site:
        measured_shape(findings, few, site, is_warm=True)
        measured_shape(findings, many, site, is_warm=False)
        measured_observed(findings, few, site)
    return findings
