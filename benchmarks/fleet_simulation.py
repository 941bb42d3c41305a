"""A fleet of gates behind one Redis, on virtual time: how many calls a page takes, and when the last is done.

The gates and the sessions of their store are the real ones; the server is a model (`benchmarks._fleet_model`), with
seconds of work a call and a batch as they were measured. *Shared*: each page is given to any worker, so that all of
them wait at every host. *By owner*: to the worker that `robotgate.owner` names.

*A few hosts*: all pages are there at the start, and all workers wait at every host; nothing is worse for the hosts'
lines. *Many hosts*: they are found one after the other, with all their pages, for which any worker may be asked.

The ideal of a host is when it was found, robots.txt, and for each page a delay and a response, nobody being waited for.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
import time
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

from benchmarks._fleet_model import ModelStore, Server
from benchmarks._machine import describe
from robotgate import Answer, RobotGate, owner
from robotgate.testing import ScriptedFetcher, VirtualClock, VirtualTimeLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Deal: TypeAlias = Callable[[str], int]

DELAY: Final = 1.0
ROBOTS_LATENCY: Final = 0.2
PER_CALL: Final = 10e-6
PER_BATCH: Final = 20e-6
WAY: Final = 0.00025
"""Seconds there, or back, between two machines of one data centre."""
GRAIN: Final = 1e-6
FEW: Final = (100, 40)
"""Hosts, and pages of each."""
MANY: Final = (10_000, 4)
MANY_FOUND_IN: Final = 600.0
"""Seconds."""


@dataclass(slots=True)
class Host:
    """A site, and how its visits went."""

    url: str
    found_at: float
    latencies: tuple[float, ...]
    visits: list[tuple[float, float]] = field(default_factory=list)
    """When each page was begun, and ended."""

    @property
    def ideal_end_at(self) -> float:
        """When its last response ends if nothing but the delay is waited for."""
        return self.found_at + ROBOTS_LATENCY + len(self.latencies) * DELAY + sum(self.latencies)

    @property
    def ended_at(self) -> float:
        """When it did."""
        return max(end for _, end in self.visits)

    @property
    def smallest_gap(self) -> float:
        """Between the end of one response and the start of the next."""
        visits = sorted(self.visits)
        return min((start - end for (_, end), (start, _) in pairwise(visits)), default=math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one fleet fared."""

    turns: int
    calls: int
    busy: float
    took: float
    late: list[float]
    """Seconds that each host was done later than its ideal, as a share of it."""
    smallest_gap: float
    real: float


def hosts_of(count: int, pages: int, found_in: float, seed: int = 9309) -> list[Host]:
    """Sites with responses of 0.2 s in the median."""
    chance = random.Random(seed)
    return [
        Host(
            url=f"https://{number}.site.example",
            found_at=number * found_in / count,
            latencies=tuple(round(min(chance.lognormvariate(-1.6, 1.0), 30.0), 3) for _ in range(pages)),
        )
        for number in range(count)
    ]


async def visit(gate: RobotGate, host: Host, page: int) -> None:
    """One page, in its turn."""
    loop = asyncio.get_running_loop()
    async with gate.turn(f"{host.url}/page/{page}"):
        began_at = loop.time()
        await asyncio.sleep(host.latencies[page])
        host.visits.append((began_at, loop.time()))


async def crawl(hosts: Sequence[Host], workers: int, deal: Deal) -> Outcome:
    """Visit every page of every host."""
    loop, began = asyncio.get_running_loop(), time.perf_counter()
    server = Server(per_call=PER_CALL, per_batch=PER_BATCH, way=WAY, delay=DELAY)
    gates = [open_gate(server) for _ in range(workers)]
    for gate in gates:
        await gate.__aenter__()
    async with asyncio.TaskGroup() as tasks:
        for host in hosts:
            await asyncio.sleep(host.found_at - loop.time())
            for page in range(len(host.latencies)):
                tasks.create_task(visit(gates[deal(f"{host.url}/page/{page}")], host, page))
    took = loop.time()
    for gate in gates:
        await gate.aclose()
    return Outcome(
        turns=sum(1 + len(host.latencies) for host in hosts),
        calls=server.calls,
        busy=server.busy,
        took=took,
        late=sorted(
            (host.ended_at - host.found_at) / (host.ideal_end_at - host.found_at) - 1 for host in hosts
        ),
        smallest_gap=min(host.smallest_gap for host in hosts),
        real=time.perf_counter() - began,
    )


def open_gate(server: Server) -> RobotGate:
    """One of the fleet's."""
    clock = VirtualClock()
    return RobotGate(
        "ExampleBot/1.0",
        contact="bot@example.org",
        delay=DELAY,
        concurrency=100_000,
        clock=clock,
        store=ModelStore(server, clock),
        fetcher=ScriptedFetcher({}, otherwise=Answer(status=404), latency=ROBOTS_LATENCY),
    )


def shared(workers: int) -> Deal:
    """Any worker."""
    chance = random.Random(1)
    return lambda _: chance.randrange(workers)


def by_owner(workers: int) -> Deal:
    """The worker whose host it is."""
    members = [str(worker) for worker in range(workers)]
    return lambda url: int(owner(url, members))


def simulate(shape: tuple[int, int], found_in: float, workers: int, deal: Deal) -> Outcome:
    """One fleet, from its beginning to its end."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(crawl(hosts_of(*shape, found_in), workers, deal))


def show(workers: int, name: str, outcome: Outcome) -> None:
    """One line of a table."""
    late = outcome.late
    cells = (
        str(workers),
        name,
        f"{outcome.calls / outcome.turns:.2f}",
        f"{outcome.turns / outcome.took:,.0f}",
        f"{outcome.busy / outcome.took * 1e2:.2f} %",
        f"{late[len(late) // 2] * 1e2:.1f} %",
        f"{late[-1] * 1e2:.1f} %",
        f"{outcome.smallest_gap:.3f}",
        f"{outcome.real:.0f}",
    )
    print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--few", type=int, nargs=2, metavar=("HOSTS", "PAGES"), default=FEW)
    parser.add_argument("--many", type=int, nargs=2, metavar=("HOSTS", "PAGES"), default=MANY)
    options = parser.parse_args()
    print(describe("robotgate"))
    for shape, found_in in ((options.few, 0.0), (options.many, MANY_FOUND_IN)):
        hosts, pages = shape
        print(f"\n{hosts:,} hosts x {pages} pages, found within {found_in:g} s, {DELAY:g} s apart\n")
        print(
            "| workers | pages go to | calls a turn | turns/s | Redis works | "
            "later than ideal, median | most | smallest gap, s | real s |"
        )
        print("|" + 9 * "---|")
        for workers in options.workers if not found_in else options.workers[-1:]:
            for name, deal in (("anybody", shared(workers)), ("the owner", by_owner(workers))):
                outcome = simulate((hosts, pages), found_in, workers, deal)
                show(workers, name, outcome)


if __name__ == "__main__":
    main()
