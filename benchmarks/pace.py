"""Fifty hosts, twenty pages of each, 0.1 s apart: what gaps arrive at the server, and how long it takes.

Every client is given all URLs at once, in a process of its own; rounds are interleaved. The server is aiohttp's, in
another process, and notes when a request's bytes come and when its answer's last byte has been handed over. The
hosts are names, which every client's own resolver setting sends to the loopback interface.

For every client, 950 gaps from the start of a page to the start of the next page of its host are measured. The gate
promises more: its delay runs from the end of a response to the start of the next request, and robots.txt is one of the
responses. So 1,000 gaps of the gate are measured in this way too, and 950 of the others, which do not promise it.

Server and clients have a core each, where there are two. A server that is interrupted as it writes, because its client
wakes up, notes the end of its answer too late and the next gap too short. So gaps from an end are counted twice: from
before the write, and from after it. Only the first count is sure.

The ideal is what the delay allows a client that itself takes no time, by the client's own way of counting: for the
gate ``20 delays + 21 responses``, for Scrapy, one request at a time, ``19 x max(delay, response) + 1 response``, for
aiolimiter, which waits for no response, ``19 delays + 1 response``, and one more for robots.txt by hand.

The CPU of a page is also measured without any delay, from a server that does as little as it can. A process that
sleeps between pages finds its processor's caches cold, so bare aiohttp that sleeps after each page stands beside it.
"""

from __future__ import annotations

import importlib
from functools import partial
from typing import TYPE_CHECKING, Final

from benchmarks import _pace_clients as ours
from benchmarks._client import alone
from benchmarks._pace_seen import (
    Client,
    Shape,
    figures_of,
    ideal_by_hand,
    ideal_of_gate,
    ideal_of_limiter,
    ideal_of_scrapy,
    round_of,
)
from benchmarks._peers import found
from benchmarks._plain_server import PAGE, plain_site, robots_txt
from benchmarks._report import Column, Effort, Figure, Findings, Goal, Row, Table
from benchmarks._rounds import in_turn, say
from benchmarks._server import noting_site

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks._client import Cost
    from benchmarks._pace_seen import Round
    from benchmarks._server import NotingSite

PACKAGES: Final = ("robotgate", "aiohttp", "aiolimiter", "protego", "scrapy", "uvloop")
LIMITER_ALONE: Final = "aiolimiter alone, asyncio"
GATES: Final = tuple(
    f"{door}, {loop}" for door in ("`gate.fetch`", "`gate.middleware`") for loop in ("asyncio", "uvloop")
)
SHAPES: Final = {
    Effort.QUICK: (Shape(key="fast", hosts=5, pages=5, delay=0.05, response=0.0, rounds=1),),
    Effort.FULL: (
        Shape(key="fast", hosts=50, pages=20, delay=0.1, response=0.0, rounds=3),
        Shape(
            key="slow",
            hosts=50,
            pages=20,
            delay=0.1,
            response=0.15,
            rounds=2,
            only=frozenset((*GATES, LIMITER_ALONE)),
        ),
    ),
}
NOTE: Final = (
    "Gaps are from the start of a page to the start of the next page of the host, for all clients. The columns on "
    "responses' ends count from the end of a response to the next request, which the gate alone promises; of the gate "
    "they include robots.txt. They count from before the server writes an answer and, where it says so, from after "
    "that: a server that is interrupted meanwhile notes the end too late."
)
COLUMNS: Final = (
    Column(key="short", title="gaps under the delay", shows_spread=True),
    Column(key="gaps", title="of"),
    Column(key="least", title="smallest gap, ms", decimals=1, shows_spread=True),
    Column(key="median", title="median", decimals=1),
    Column(key="p99", title="p99", decimals=1),
    Column(key="short_after_end", title="under it after a response's end", shows_spread=True),
    Column(key="short_or_interrupted", title="interrupted writes included", shows_spread=True),
    Column(key="ends", title="of these"),
    Column(key="least_from_end", title="smallest after an end, ms", decimals=1, shows_spread=True),
    Column(key="makespan", title="makespan, s", decimals=3),
    Column(key="to_ideal", title="to ideal", decimals=3, shows_spread=True),
    Column(key="cpu", title="CPU, s", decimals=2),
)

WITH_DELAY: Final = {
    Effort.QUICK: Shape(key="cpu", hosts=5, pages=5, delay=0.05, response=0.0, rounds=1),
    Effort.FULL: Shape(key="cpu", hosts=50, pages=20, delay=0.1, response=0.0, rounds=9),
}
SLEEPING: Final = "bare aiohttp, a task for each host, asleep after each page"
CPU_CLIENTS: Final = {
    "`gate.fetch`": ours.by_fetch,
    "`gate.middleware`": ours.by_middleware,
    SLEEPING: ours.by_sleeping,
}
CPU_COLUMNS: Final = (
    Column(key="without", title="CPU of a page without delay, µs", shows_spread=True),
    Column(key="with", title="with it", shows_spread=True),
    Column(key="ratio", title="ratio", decimals=2, shows_spread=True),
)


def by_scrapy(urls: Sequence[str], delay: float, *, randomize: bool) -> Cost:
    """Imported where it runs, and nowhere else."""
    settings = {
        "CONCURRENT_REQUESTS": len(urls),
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        "DOWNLOAD_DELAY": delay,
        "RANDOMIZE_DOWNLOAD_DELAY": randomize,
        "ROBOTSTXT_OBEY": False,
    }
    cost: Cost = importlib.import_module("benchmarks._scrapy").crawl(urls, settings)
    return cost


def clients() -> list[Client]:
    """The clients that can be measured here; the others are named on standard error."""
    rows = [
        Client(
            name=name,
            run=partial(ours.in_loop, loop, crawl),
            ideal=ideal_of_gate,
            asks_robots=True,
            is_gate=True,
        )
        for name, crawl, loop in zip(
            GATES,
            (ours.by_fetch, ours.by_fetch, ours.by_middleware, ours.by_middleware),
            ("asyncio", "uvloop") * 2,
            strict=True,
        )
    ]
    rows += [
        Client(
            name="by hand: Protego, Lock, AsyncLimiter",
            run=partial(ours.in_loop, "asyncio", ours.by_hand),
            ideal=ideal_by_hand,
            asks_robots=True,
        ),
        Client(
            name=LIMITER_ALONE, run=partial(ours.in_loop, "asyncio", ours.by_limiter), ideal=ideal_of_limiter
        ),
        Client(
            name="aiolimiter alone, uvloop",
            run=partial(ours.in_loop, "uvloop", ours.by_limiter),
            ideal=ideal_of_limiter,
        ),
    ]
    if found("scrapy"):
        rows += [
            Client(name=name, run=partial(by_scrapy, randomize=randomize), ideal=ideal_of_scrapy)
            for name, randomize in (("Scrapy, fixed delay", False), ("Scrapy, randomised, its default", True))
        ]
    return rows


def goals_of(shape: Shape, client: Client, figures: dict[str, Figure]) -> tuple[Goal, Goal]:
    """No gap after a response's end is short in any round, and the crawl takes little more time than the ideal."""
    short = Figure((sum(figures["short_after_end"].rounds),))
    return (
        Goal(
            text=f"{client.name}, gaps under the delay after a response's end; {shape.title}",
            figure=short,
            at_most=0,
        ),
        Goal(
            text=f"{client.name}, makespan to the ideal; {shape.title}",
            figure=figures["to_ideal"],
            at_most=1.04,
        ),
    )


def crawled(shape: Shape, site: NotingSite, who: Sequence[Client]) -> dict[str, list[Round]]:
    """Every client, in interleaved rounds."""
    rounds: dict[str, list[Round]] = {client.name: [] for client in who}
    for number in range(shape.rounds):
        for client in in_turn(who, number):
            cost = alone(client.run, shape.urls(site.port), shape.delay)
            seen = round_of(client, shape, site.visits(), cost.cpu)
            rounds[client.name].append(seen)
            say(f"pace {shape.key}, round {number + 1}: {client.name}: {seen.makespan:.3f} s")
    return rounds


def cpu_with_delay(shape: Shape) -> Findings:
    """The CPU of a page with and without the delay, in interleaved rounds."""
    taken: dict[str, dict[str, list[float]]] = {
        name: {key: [] for key in ("without", "with")} for name in CPU_CLIENTS
    }
    with plain_site(robots=robots_txt(), page=PAGE) as site:
        urls = shape.urls(site.port)
        for number in range(shape.rounds):
            for name, crawl in CPU_CLIENTS.items():
                for key, delay in (("without", 0.0), ("with", shape.delay)):
                    cost = alone(ours.in_loop, "asyncio", crawl, urls, delay)
                    taken[name][key].append(cost.cpu * 1e6 / len(urls))
            say(f"pace {shape.key}, round {number + 1}")
    rows, goals = [], []
    for name, costs in taken.items():
        figures = {key: Figure(tuple(each)) for key, each in costs.items()}
        figures["ratio"] = figures["with"].over(figures["without"])
        rows.append(Row(name=name, figures=figures, is_ours=name != SLEEPING))
        if name != SLEEPING:
            text = f"{name}, CPU of a page with a delay, of that without; {shape.title}"
            goals.append(Goal(text=text, figure=figures["ratio"], at_most=1.2))
    table = Table(key=shape.key, title=f"{shape.title}: CPU", columns=CPU_COLUMNS, rows=tuple(rows))
    return Findings(tables=(table,), goals=tuple(goals))


def measure(effort: Effort) -> Findings:
    """Every client at every shape."""
    everybody = clients()
    tables: list[Table] = []
    goals: list[Goal] = []
    for shape in SHAPES[effort]:
        who = [client for client in everybody if shape.only is None or client.name in shape.only]
        with noting_site(shape.response) as site:
            rounds = crawled(shape, site, who)
        rows = []
        for client in who:
            figures = figures_of(client, shape, rounds[client.name])
            rows.append(Row(name=client.name, figures=figures, is_ours=client.is_gate))
            if client.is_gate:
                goals += goals_of(shape, client, figures)
        tables.append(Table(key=shape.key, title=shape.title, columns=COLUMNS, rows=tuple(rows), note=NOTE))
    cpu = cpu_with_delay(WITH_DELAY[effort])
    return Findings(tables=(*tables, *cpu.tables), goals=(*goals, *cpu.goals))
