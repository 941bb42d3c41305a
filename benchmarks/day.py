"""A day of crawling a hundred thousand hosts on the virtual clock: real seconds, memory, and time beyond the ideal.

The hosts are found one after another over the day, each with all its pages at once; every page is a task, which asks
for its turn and then takes as long as its response. What each site asks for, and how long its responses take, is drawn
from a seed. The gate's parts are the real ones but for the clock and the answers to robots.txt.

Hosts do not wait for one another, so each of the machine's processors simulates its share of them.

The ideal of a host is exact: when it was found, the time its robots.txt takes, and for each page the delay and the
response. The day's is that of the host that is done last.

To see where the time goes: ``python -m cProfile -s tottime -c 'from benchmarks.day import work; work(5000, 1, 0, 1)'``.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import random
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING, Final

from benchmarks._bench import in_loop, machine_with, peak_memory
from benchmarks._known import AGENT, CONTACT, host_of
from robotgate import RobotGate
from robotgate.sites import Answer
from robotgate.testing import ScriptedFetcher, VirtualClock

if TYPE_CHECKING:
    from collections.abc import Sequence

DAY: Final = 24 * 3600.0
FLOOR: Final = 1.0
"""Seconds between visits where a site asks for nothing."""
ROBOTS_LATENCY: Final = 0.2
GRAIN: Final = 1e-6
"""Seconds; sums of floats tell instants no better."""
CRAWL_DELAYS: Final = {0: 60, 2: 20, 5: 12, 15: 6, 60: 2}
"""Seconds, and how many of a hundred sites ask for them; 0 asks for nothing."""
RULES: Final = b"User-agent: *\nDisallow: /private\nAllow: /private/door\n"
PAGES: Final = (1, 1, 2)
LARGE: Final = 10_000
"""One host in so many is large."""
LARGE_PAGES: Final = 500


@dataclass(slots=True)
class Host:
    """A site, what it asks for, and how its visits went."""

    url: str
    found_at: float
    crawl_delay: int
    latencies: tuple[float, ...]
    """Seconds that each page's response takes."""
    ended_at: float = field(init=False)
    """When the last response so far ended, robots.txt's being the first."""
    margin: float = math.inf
    """The least that a gap was longer than the delay."""

    def __post_init__(self) -> None:
        self.ended_at = self.found_at + ROBOTS_LATENCY

    @property
    def delay(self) -> float:
        """Seconds between the end of a response and the next request."""
        return max(FLOOR, self.crawl_delay)

    @property
    def ideal_end_at(self) -> float:
        """When its last response ends if nothing but the delay is waited for."""
        return self.found_at + ROBOTS_LATENCY + len(self.latencies) * self.delay + sum(self.latencies)


def hosts_of(count: int, seed: int) -> list[Host]:
    """The day's hosts, in the order in which they are found."""
    chance = random.Random(seed)
    return [
        Host(
            url=f"https://{host_of(number)}",
            found_at=number * DAY / count,
            crawl_delay=chance.choices(tuple(CRAWL_DELAYS), tuple(CRAWL_DELAYS.values()))[0],
            latencies=tuple(
                round(min(chance.lognormvariate(-1.6, 1.0), 30.0), 3)
                for _ in range(chance.choice(PAGES) if number % LARGE else LARGE_PAGES)
            ),
        )
        for number in range(count)
    ]


async def visit(gate: RobotGate, host: Host, number: int) -> None:
    """One page, in its turn."""
    loop = asyncio.get_running_loop()
    async with gate.turn(f"{host.url}/page/{number}"):
        host.margin = min(host.margin, loop.time() - host.ended_at - host.delay)
        await asyncio.sleep(host.latencies[number])
        host.ended_at = loop.time()


async def crawl(hosts: Sequence[Host]) -> float:
    """Visit every page of every host; seconds of CPU."""
    loop = asyncio.get_running_loop()
    answers = {
        f"{host.url}/robots.txt": Answer(status=200, body=RULES + b"Crawl-delay: %d\n" % host.crawl_delay)
        for host in hosts
        if host.crawl_delay
    }
    fetcher = ScriptedFetcher(answers, otherwise=Answer(status=200, body=RULES), latency=ROBOTS_LATENCY)
    gate = RobotGate(AGENT, contact=CONTACT, delay=FLOOR, clock=VirtualClock(), fetcher=fetcher)
    async with gate, asyncio.TaskGroup() as tasks:
        began = time.process_time()
        for host in hosts:
            await asyncio.sleep(host.found_at - loop.time())
            for number in range(len(host.latencies)):
                tasks.create_task(visit(gate, host, number))
    return time.process_time() - began


def work(count: int, seed: int, number: int, of: int) -> tuple[list[Host], float, int]:
    """Crawl every so-manieth host of the day, as a fleet parts hosts among its members: the hosts, seconds of CPU, and
    the bytes that the process had at most.
    """
    hosts = hosts_of(count, seed)[number::of]
    return hosts, in_loop("virtual", partial(crawl, hosts)), peak_memory()


def main() -> None:
    """Prints one day's figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=9309)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    of = options.processes
    began = time.perf_counter()
    with ProcessPoolExecutor(of, mp_context=get_context("spawn")) as pool:
        working = [pool.submit(work, options.hosts, options.seed, number, of) for number in range(of)]
        shares = [each.result() for each in working]
    seconds = time.perf_counter() - began
    hosts = [host for share, _, _ in shares for host in share]
    cpu = sum(cpu for _, cpu, _ in shares)
    turns = sum(1 + len(host.latencies) for host in hosts)
    made, ideal = max(host.ended_at for host in hosts), max(host.ideal_end_at for host in hosts)
    late = [host.ended_at - host.ideal_end_at for host in hosts]
    too_soon = sum(host.margin < -GRAIN for host in hosts)
    for what, figure in {
        "machine": machine_with("robotgate"),
        "hosts": f"{len(hosts):,}, in {of} processes",
        "turns, robots.txt included": f"{turns:,}",
        "virtual hours": f"{made / 3600:.3f}, ideal {ideal / 3600:.3f}: {made / ideal:.6f} of it",
        "hosts done late": f"{sum(each > GRAIN for each in late):,}, by {max(late):.6f} s at most",
        "hosts visited too soon": f"{too_soon:,}",
        "real seconds": f"{seconds:.1f} with the start of the processes; {cpu:.1f} of CPU",
        "turns a second": f"{turns / seconds:,.0f}; {cpu / turns * 1e6:.0f} µs of CPU each",
        "peak memory, MB": " + ".join(f"{peak / 1e6:.0f}" for _, _, peak in shares),
    }.items():
        print(f"{what:>28}  {figure}")


if __name__ == "__main__":
    main()
