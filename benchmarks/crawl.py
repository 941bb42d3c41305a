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
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from benchmarks import _crawl_clients as ours
from benchmarks import _observed
from benchmarks._by_hand import AGENT
from benchmarks._client import alone
from benchmarks._peers import found, ratio
from benchmarks._plain_server import OWN, PAGE, plain_site, robots_txt
from benchmarks._report import Column, Effort, Figure, Findings, Goal, Row, Table
from benchmarks._rounds import in_turn, say

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks._client import Cost
    from benchmarks._plain_server import PlainSite

PACKAGES: Final = (
    "robotgate",
    "aiohttp",
    "aiolimiter",
    "protego",
    "scrapy",
    "crawlee",
    "prometheus-client",
    "opentelemetry-sdk",
)
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
OURS: Final = (*DOORS, FETCH_OWN, CRAWLEE_GATED)
OF_PROCESS: Final = {
    "ROBOTSTXT_OBEY": True,
    "USER_AGENT": AGENT,
    "CONCURRENT_REQUESTS": TASKS,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    "DOWNLOAD_DELAY": 0,
}
"""Scrapy's settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What is crawled, and how often."""

    hosts: int
    pages: int
    """Of each."""
    rounds: int
    slow_rounds: int
    """Of those who take many times as long."""
    is_warm: bool
    """Whether most pages are of hosts whose rules are known by then: what goals there are hangs on it."""

    @property
    def key(self) -> str:
        """Of its table."""
        return f"{self.hosts}x{self.pages}"

    @property
    def title(self) -> str:
        """As people say it."""
        return f"{self.hosts:,} hosts, {self.pages} pages of each"

    def urls(self, port: int, name: Callable[[int], str]) -> list[str]:
        """Each host's first page, then each host's second, and so on."""
        return [
            f"http://{name(host)}:{port}/page/{page}"
            for page in range(self.pages)
            for host in range(self.hosts)
        ]


SHAPES: Final = {
    Effort.QUICK: (
        Shape(hosts=20, pages=10, rounds=1, slow_rounds=1, is_warm=True),
        Shape(hosts=100, pages=2, rounds=1, slow_rounds=0, is_warm=False),
    ),
    Effort.FULL: (
        Shape(hosts=200, pages=50, rounds=25, slow_rounds=2, is_warm=True),
        Shape(hosts=2_000, pages=5, rounds=11, slow_rounds=1, is_warm=False),
    ),
}
NOTE: Final = (
    "Scrapy and Crawlee do more for each page than fetch it: queues, retries, statistics, middlewares, sessions. They "
    "ran in fewer rounds, and their ratios are those of medians. Crawlee asks the system for names, so that its hosts "
    "are addresses of the loopback network, 127.1.0.1 and on, one for each; every other client's hosts are names, "
    "which its own resolver setting sends to 127.0.0.1."
)
COLUMNS: Final = (
    Column(key="rate", title="pages/s", shows_spread=True),
    Column(key="of_bare", title="of bare", decimals=2),
    Column(key="of_robots", title="of bare with robots.txt", decimals=2),
    Column(key="cpu", title="CPU s per 1,000", decimals=3),
    Column(key="peak", title="peak MB"),
    Column(key="robots", title="robots.txt requests"),
    Column(key="duplicates", title="asked again"),
)

OBSERVED_COLUMNS: Final = (
    Column(key="rate", title="pages/s", shows_spread=True),
    Column(key="of_fetch", title="of `gate.fetch`", decimals=3),
    Column(key="cpu", title="CPU s per 1,000", decimals=3),
    Column(key="peak", title="peak MB"),
)
OBSERVED_NOTE: Final = (
    "Nothing is scraped meanwhile. OpenTelemetry has a span for each request; its exporter drops all."
)


def host_name(number: int) -> str:
    """A host as all clients but Crawlee know it."""
    return f"host{number}.site.example"


def own_host_name(number: int) -> str:
    """A host that has rules of its own."""
    return f"{OWN}{number}.site.example"


def address(number: int) -> str:
    """A host as Crawlee knows it."""
    return f"127.1.{number // 250}.{number % 250 + 1}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client that crawls."""

    name: str
    crawl: Callable[[Sequence[str]], Cost]
    """Runs in a process of its own."""
    is_slow: bool = False
    host: Callable[[int], str] = host_name


@dataclass(slots=True)
class Seen:
    """The rounds of one client."""

    costs: list[Cost] = field(default_factory=list)
    robots: list[Counter[str]] = field(default_factory=list)
    """Requests for each host's robots.txt."""

    def figures(self, pages: int) -> dict[str, Figure]:
        """What a table shows of them, but for what needs others beside it."""
        return {
            "rate": Figure(tuple(pages / cost.seconds for cost in self.costs)),
            "cpu": Figure(tuple(cost.cpu * 1000 / pages for cost in self.costs)),
            "peak": Figure(tuple(cost.peak_memory / 1e6 for cost in self.costs)),
            "robots": Figure(tuple(float(asked.total()) for asked in self.robots)),
            "duplicates": Figure(tuple(float(asked.total() - len(asked)) for asked in self.robots)),
        }


def by_scrapy(urls: Sequence[str]) -> Cost:
    """Imported where it runs, and nowhere else."""
    cost: Cost = importlib.import_module("benchmarks._scrapy").crawl(urls, OF_PROCESS)
    return cost


def by_crawlee(urls: Sequence[str]) -> Cost:
    """Imported where it runs, and nowhere else."""
    cost: Cost = importlib.import_module("benchmarks._crawlee").crawl(urls, TASKS)
    return cost


def by_gated_crawlee(urls: Sequence[str]) -> Cost:
    """Imported where it runs, and nowhere else."""
    cost: Cost = importlib.import_module("benchmarks._crawlee").crawl_gated(urls, TASKS)
    return cost


def _client(
    name: str, crawl: ours.Crawl, *, is_slow: bool = False, host: Callable[[int], str] = host_name
) -> Client:
    """One that runs in this interpreter."""
    return Client(name=name, crawl=partial(ours.measured, crawl, tasks=TASKS), is_slow=is_slow, host=host)


def clients() -> tuple[Client, ...]:
    """The clients that can be measured here; the others are named on standard error."""
    rows = [
        _client(BARE, ours.bare),
        _client(WITH_ROBOTS, ours.bare_with_robots),
        _client(BY_HAND, ours.by_hand),
        _client(FETCH, ours.by_fetch),
        _client(FETCH_OWN, ours.by_fetch, host=own_host_name),
        _client(MIDDLEWARE, ours.by_middleware),
    ]
    if found("scrapy"):
        rows.append(Client(name=SCRAPY, crawl=by_scrapy, is_slow=True))
    # Elsewhere than on Linux, 127.0.0.1 is all there is of the loopback network.
    if found("crawlee") and sys.platform.startswith("linux"):
        rows.append(Client(name=CRAWLEE, crawl=by_crawlee, is_slow=True, host=address))
    if found("crawlee"):
        rows.append(Client(name=CRAWLEE_GATED, crawl=by_gated_crawlee, is_slow=True))
    return tuple(rows)


def observed_clients() -> tuple[Client, ...]:
    """`gate.fetch`, unobserved and observed."""
    return (
        _client(FETCH, ours.by_fetch),
        _client(PROMETHEUS, _observed.by_prometheus),
        _client(OTEL_METRICS, _observed.by_metrics_of_otel),
        _client(OTEL_FEW, _observed.by_few_traces, is_slow=True),
        _client(OTEL_ALL, _observed.by_all_traces, is_slow=True),
    )


def crawled(shape: Shape, site: PlainSite, who: Sequence[Client]) -> dict[str, Seen]:
    """Every client, in interleaved rounds."""
    seen: dict[str, Seen] = {}
    for number in range(shape.rounds):
        for client in in_turn(who, number):
            if client.is_slow and number >= shape.slow_rounds:
                continue
            cost = alone(client.crawl, shape.urls(site.port, client.host))
            own = seen.setdefault(client.name, Seen())
            own.costs.append(cost)
            own.robots.append(site.robots_requests())
            rate = shape.hosts * shape.pages / cost.seconds
            say(f"crawl {shape.key}, round {number + 1}: {client.name}: {rate:,.0f} pages/s")
    return seen


def figures_of(shape: Shape, seen: Mapping[str, Seen]) -> dict[str, dict[str, Figure]]:
    """By client and column."""
    figures = {name: own.figures(shape.hosts * shape.pages) for name, own in seen.items()}
    for own in figures.values():
        own["of_bare"] = ratio(own["rate"], figures[BARE]["rate"])
        own["of_robots"] = ratio(own["rate"], figures[WITH_ROBOTS]["rate"])
    return figures


def table_of(shape: Shape, figures: Mapping[str, Mapping[str, Figure]]) -> Table:
    """What is shown of one shape."""
    return Table(
        key=shape.key,
        title=shape.title,
        columns=COLUMNS,
        rows=tuple(Row(name=name, figures=own, is_ours=name in OURS) for name, own in figures.items()),
        note=NOTE if {SCRAPY, CRAWLEE} & figures.keys() else "",
    )


def observed_of(shape: Shape, seen: Mapping[str, Seen]) -> Findings:
    """What metrics and traces cost. What a span costs is for the SDK to say: traces have no goal."""
    figures = {name: own.figures(shape.hosts * shape.pages) for name, own in seen.items()}
    for own in figures.values():
        own["of_fetch"] = ratio(own["rate"], figures[FETCH]["rate"])
    table = Table(
        key="observed",
        title=f"{shape.title}, observed",
        columns=OBSERVED_COLUMNS,
        rows=tuple(Row(name=name, figures=own, is_ours=True) for name, own in figures.items()),
        note=OBSERVED_NOTE,
    )
    goals = [
        Goal(
            text=f"{FETCH} {name}, of its pages/s without, {shape.hosts:,} x {shape.pages}",
            figure=figures[name]["of_fetch"],
            at_least=0.97,
        )
        for name in (PROMETHEUS, OTEL_METRICS)
    ]
    return Findings(tables=(table,), goals=tuple(goals))


def goals_of(shape: Shape, figures: Mapping[str, Mapping[str, Figure]]) -> list[Goal]:
    """The goals of `gate.fetch` and the middleware."""
    of_shape = warm_goals if shape.is_warm else cold_goals
    goals = []
    for door in DOORS:
        goals += [
            *of_shape(door, f", {shape.hosts:,} x {shape.pages}", figures),
            Goal(
                text=f"{door}, robots.txt asked for again, {shape.hosts:,} x {shape.pages}",
                # Not once in any round.
                figure=Figure((max(figures[door]["duplicates"].rounds),)),
                at_most=0,
            ),
        ]
    return goals


def warm_goals(door: str, where: str, figures: Mapping[str, Mapping[str, Figure]]) -> list[Goal]:
    """Where most pages are of hosts that are known."""
    own = figures[door]
    goals = [Goal(text=f"{door}, of bare aiohttp's pages/s{where}", figure=own["of_bare"], at_least=0.82)]
    goals += [
        Goal(
            text=f"{door}, times {peer.partition(',')[0]}'s pages/s{where}; it does more for each page",
            figure=ratio(own["rate"], figures[peer]["rate"]),
            at_least=least,
        )
        for peer, least in ((SCRAPY, 9.0), (CRAWLEE, 3.0))
        if peer in figures
    ]
    return goals


def cold_goals(door: str, where: str, figures: Mapping[str, Mapping[str, Figure]]) -> list[Goal]:
    """Where most of the work is getting to know hosts."""
    own = figures[door]
    return [
        Goal(
            text=f"{door}, of the pages/s of bare aiohttp with robots.txt{where}",
            figure=own["of_robots"],
            at_least=0.76,
        ),
        Goal(
            text=f"{door}, of the peak memory of what is written by hand{where}",
            figure=ratio(own["peak"], figures[BY_HAND]["peak"]),
            at_most=0.65,
        ),
    ]


def measure(effort: Effort) -> Findings:
    """Every client at every shape."""
    who = clients()
    shapes = SHAPES[effort]
    is_there = any(client.host is address for client in who)
    addresses = (
        [address(number) for number in range(max(shape.hosts for shape in shapes))] if is_there else []
    )
    tables: list[Table] = []
    goals: list[Goal] = []
    with plain_site(robots=robots_txt(), page=PAGE, addresses=addresses) as site:
        for shape in shapes:
            figures = figures_of(shape, crawled(shape, site, who))
            tables.append(table_of(shape, figures))
            goals += goals_of(shape, figures)
        observed = observed_of(shapes[0], crawled(shapes[0], site, observed_clients()))
    return Findings(tables=(*tables, *observed.tables), goals=(*goals, *observed.goals))
