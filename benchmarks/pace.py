"""Fifty hosts, twenty pages of each, 0.1 s apart: what gaps arrive at the server, and how long it takes.

Every client is given all URLs at once, in a process of its own; rounds are interleaved. The server is aiohttp's, in
another process, and notes when a request's octets come and when its answer's last octet has been handed over. The
hosts are names, which every client's own resolver setting sends to the loopback interface.

What a delay is between differs. The gate counts from the end of a response to the start of the next request, and
robots.txt is one of them: 1,000 gaps. aiolimiter and Scrapy count from start to start, and are asked no robots.txt: 950
gaps, measured from start to start, which is kinder to them.

Server and clients have a core each, where there are two: a server that is interrupted as it writes, because its client
wakes up, notes the end of its answer too late and the next gap too short. Other programs interrupt it all the same, so
that gaps from an end are counted twice: from before the write, which nobody can dispute, and from after it.

The ideal is what the delay allows a client that itself takes no time, by the client's own way of counting: for the
gate ``20 delays + 21 responses``, for Scrapy, one request at a time, ``19 x max(delay, response) + 1 response``, for
aiolimiter, which waits for no response, ``19 delays + 1 response``.
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
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from aiohttp import ClientSession, TCPConnector
from aiolimiter import AsyncLimiter

from benchmarks import _scrapy_pace
from benchmarks._client import LOOPS, LoopbackResolver, alone
from benchmarks._machine import describe
from benchmarks._server import noting_site
from robotgate import RobotGate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence

    from benchmarks._server import NotingSite, Visit

HOSTS: Final = 50
PAGES: Final = 20
DELAY: Final = 0.1
SLOW: Final = 0.15
"""Seconds a response takes with ``--slow``."""
GRAIN: Final = 1e-6
"""Seconds; no clock tells gaps apart that are closer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Somebody who fetches all URLs."""

    name: str
    run: Callable[[Sequence[str]], float]
    """Returns CPU seconds; runs in a process of its own."""
    ideal: Callable[[float], float]
    """Of the seconds a response takes: the makespan that the delay alone asks for."""
    from_end: bool = False
    """Whether its delay counts from the end of a response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What the server saw of one client once."""

    between_starts: list[float]
    from_end: list[float]
    """From when the server had written the whole answer."""
    from_send: list[float]
    """From when it was about to; a server interrupted as it writes notes the end too late, and only this is sure."""
    makespan: float
    response: float
    """Seconds that one took in the mean, from the request's octets being read to the answer's being written."""
    cpu: float


def urls_at(port: int, hosts: int) -> list[str]:
    """Each host's first page, then each host's second, and so on."""
    return [
        f"http://{host}.site.example:{port}/page/{page}" for page in range(PAGES) for host in range(hosts)
    ]


def ideal_of_gate(response: float) -> float:
    """The delay between all of robots.txt and the pages, none before the end of the one before."""
    return PAGES * DELAY + (PAGES + 1) * response


def ideal_of_limiter(response: float) -> float:
    """The delay between starts, whatever is still under way."""
    return (PAGES - 1) * DELAY + response


def ideal_of_scrapy(response: float) -> float:
    """The delay between starts, one request at a time."""
    return (PAGES - 1) * max(DELAY, response) + response


def in_loop(
    loop: str, crawl: Callable[[Sequence[str]], Coroutine[object, None, None]], urls: Sequence[str]
) -> float:
    """CPU seconds that a crawl takes on a loop."""
    began = time.process_time()
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(crawl(urls))
    return time.process_time() - began


async def by_fetch(urls: Sequence[str]) -> None:
    """With `gate.fetch`, a task for each URL."""
    async with open_gate() as (gate, _):
        await at_once(gate.fetch, urls)


async def by_middleware(urls: Sequence[str]) -> None:
    """With the gate's middleware in a session of aiohttp, a task for each URL."""
    async with (
        open_gate() as (gate, connector),
        ClientSession(connector=connector, connector_owner=False, middlewares=[gate.middleware]) as session,
    ):
        await at_once(partial(read, session), urls)


async def by_limiter(urls: Sequence[str]) -> None:
    """With an `AsyncLimiter` for each host around a plain request, a task for each URL."""
    limiters: defaultdict[str, AsyncLimiter] = defaultdict(lambda: AsyncLimiter(1, DELAY))
    async with ClientSession(connector=TCPConnector(resolver=LoopbackResolver(), limit=0)) as session:

        async def fetch(url: str) -> None:
            async with limiters[url.rpartition("/page/")[0]]:
                await read(session, url)

        await at_once(fetch, urls)


@asynccontextmanager
async def open_gate() -> AsyncIterator[tuple[RobotGate, TCPConnector]]:
    """A gate whose connector knows the hosts, and the connector."""
    connector = TCPConnector(resolver=LoopbackResolver(), limit=0)
    async with (
        ClientSession(connector=connector) as session,
        RobotGate("ExampleBot/1.0", contact="bot@example.org", session=session, delay=DELAY) as gate,
    ):
        yield gate, connector


async def at_once(fetch: Callable[[str], Awaitable[object]], urls: Sequence[str]) -> None:
    """A task for each URL, all started together."""

    async def one(url: str) -> None:
        await fetch(url)

    async with asyncio.TaskGroup() as tasks:
        for url in urls:
            tasks.create_task(one(url))


async def read(session: ClientSession, url: str) -> None:
    """One page, to its end."""
    async with session.get(url) as response:
        await response.read()


def clients() -> list[Client]:
    """The rows of the report."""
    rows = [
        Client(name=f"{name}, {loop}", run=partial(in_loop, loop, crawl), ideal=ideal, from_end=from_end)
        for name, crawl, ideal, from_end in (
            ("gate.fetch", by_fetch, ideal_of_gate, True),
            ("gate.middleware", by_middleware, ideal_of_gate, True),
            ("aiolimiter alone", by_limiter, ideal_of_limiter, False),
        )
        for loop in ("asyncio", "uvloop")
    ]
    for name, randomize in (("Scrapy, fixed delay", False), ("Scrapy, randomised", True)):
        run = partial(_scrapy_pace.crawl, delay=DELAY, randomize=randomize)
        rows.append(Client(name=name, run=run, ideal=ideal_of_scrapy))
    return rows


def measure(client: Client, site: NotingSite, hosts: int) -> Round:
    """One round of one client.

    Raises:
        RuntimeError: some page was asked for twice, or not at all.
    """
    cpu = alone(client.run, urls_at(site.port, hosts))
    by_host: defaultdict[str, list[Visit]] = defaultdict(list)
    for visit in sorted(site.visits(), key=lambda visit: visit.came_at):
        by_host[visit.host].append(visit)
    visits = [visit for host in by_host.values() for visit in host]
    expected = hosts * (PAGES + client.from_end)
    if len(visits) != expected or len({(visit.host, visit.path) for visit in visits}) != expected:
        raise RuntimeError(f"{client.name}: {len(visits)} requests, where {expected} different ones were due")
    pairs = [pair for host in by_host.values() for pair in pairwise(host)]
    return Round(
        between_starts=[after.came_at - before.came_at for before, after in pairs],
        from_end=[after.came_at - before.ended_at for before, after in pairs],
        from_send=[after.came_at - before.sent_at for before, after in pairs],
        makespan=max(visit.ended_at for visit in visits) - min(visit.came_at for visit in visits),
        response=statistics.fmean(visit.ended_at - visit.came_at for visit in visits),
        cpu=cpu,
    )


def row(client: Client, rounds: Sequence[Round]) -> str:
    """A line of the table: counts as the range over the rounds, gaps of all rounds together, medians of the rest."""
    gaps = [each.from_end if client.from_end else each.between_starts for each in rounds]
    sure = [each.from_send if client.from_end else each.between_starts for each in rounds]
    every = sorted(gap for each in gaps for gap in each)
    from_end = min(gap for each in rounds for gap in each.from_end)
    between = min(gap for each in rounds for gap in each.between_starts)
    makespan = statistics.median(each.makespan for each in rounds)
    response = statistics.median(each.response for each in rounds)
    cells = (
        client.name,
        "end" if client.from_end else "start",
        f"{_shorts(sure)} of {len(gaps[0])}",
        _shorts(gaps),
        f"{between * 1e3:.1f}",
        f"{from_end * 1e3:.1f}",
        f"{statistics.median(every) * 1e3:.1f}",
        f"{every[len(every) * 99 // 100] * 1e3:.1f}",
        f"{makespan:.3f}",
        f"{makespan / client.ideal(response):.3f}",
        f"{statistics.median(each.cpu for each in rounds):.2f}",
    )
    return "| " + " | ".join(cells) + " |"


def _shorts(rounds: Sequence[Sequence[float]]) -> str:
    """How many gaps of a round were under the delay, least to most."""
    counts = sorted(sum(gap < DELAY - GRAIN for gap in gaps) for gaps in rounds)
    return f"{counts[0]}" if counts[0] == counts[-1] else f"{counts[0]}-{counts[-1]}"


def main() -> None:
    """Measures every client, in interleaved rounds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=HOSTS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slow", action="store_true", help=f"a response takes {SLOW} s, else no time")
    options = parser.parse_args()
    response = SLOW if options.slow else 0.0
    print(describe("robotgate", "aiohttp", "aiolimiter", "scrapy", "uvloop"))
    print(
        f"{options.hosts} hosts x {PAGES} pages, {DELAY} s apart;"
        f" a response takes {response} s; {options.rounds} rounds"
    )
    rows = clients()
    with noting_site(response) as site:
        rounds = [[measure(client, site, options.hosts) for client in rows] for _ in range(options.rounds)]
    print("| client | counts from | gaps under it | interrupted writes included |", end="")
    print(
        " smallest gap, start to start, ms | end to start | median | p99 | makespan, s | to ideal | CPU, s |"
    )
    print("|" + 11 * "---|")
    for client, each in zip(rows, zip(*rounds, strict=True), strict=True):
        print(row(client, each))


if __name__ == "__main__":
    main()
