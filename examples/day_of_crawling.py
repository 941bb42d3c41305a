"""A day of crawling, in seconds: ``python examples/day_of_crawling.py 2000``, with as many hosts as you like. Nothing
is sent: the loop's time is virtual, robots.txt comes from a table, and a response is a sleep.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from dataclasses import dataclass, field
from statistics import fmean
from typing import Final

from robotgate import RobotGate
from robotgate.sites import Answer
from robotgate.testing import ScriptedFetcher, VirtualClock, VirtualTimeLoop

DAY: Final = 24 * 3600.0
DELAY: Final = 1.0  # seconds between visits to a host that asks for nothing: the gate's default
ASKED: Final = (0, 0, 0, 2, 5, 20)  # seconds, by Crawl-delay
ROBOTS_LATENCY: Final = 0.2


@dataclass
class Host:
    """One site, and when all its pages were visited."""

    url: str
    found_at: float
    asked: int
    latencies: list[float] = field(default_factory=list)
    done_at: float = 0.0

    def ideal(self) -> float:
        """When its pages would be visited if only its own delay counted."""
        return self.found_at + ROBOTS_LATENCY + sum(max(DELAY, self.asked) + each for each in self.latencies)


async def visit(gate: RobotGate, host: Host, page: int) -> None:
    """Visit one page."""
    async with gate.turn(f"{host.url}/{page}"):
        await asyncio.sleep(host.latencies[page])
        host.done_at = asyncio.get_running_loop().time()


async def crawl(hosts: list[Host]) -> None:
    """Hosts are found one after another, all day long; every page is a task of its own."""
    files = {asked: Answer(status=200, body=b"User-agent: *\nCrawl-delay: %d\n" % asked) for asked in ASKED}
    answers = {f"{host.url}/robots.txt": files[host.asked] for host in hosts}
    fetcher = ScriptedFetcher(answers, otherwise=Answer(status=404), latency=ROBOTS_LATENCY)
    gate = RobotGate("ExampleBot/1.0", contact="bot@example.org", clock=VirtualClock(), fetcher=fetcher)
    async with gate, asyncio.TaskGroup() as visits:
        for host in hosts:
            await asyncio.sleep(host.found_at - asyncio.get_running_loop().time())
            for page in range(len(host.latencies)):
                visits.create_task(visit(gate, host, page))


def main(count: int) -> None:
    """Print how long the visits of each kind of host took, and how long they had to take."""
    chance = random.Random(count)
    hosts = [Host(f"https://{n}.site.example", n * DAY / count, chance.choice(ASKED)) for n in range(count)]
    for host in hosts:
        host.latencies = [chance.uniform(0.05, 2.0) for _ in range(chance.randint(1, 5))]
    began = time.perf_counter()
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(crawl(hosts))
    print("Crawl-delay, s  hosts  mean s a host  ideal")
    for asked in sorted({host.asked for host in hosts}):
        alike = [host for host in hosts if host.asked == asked]
        took = fmean(host.done_at - host.found_at for host in alike)
        ideal = fmean(host.ideal() - host.found_at for host in alike)
        print(f"{asked:14}  {len(alike):5,}  {took:13.3f}  {ideal:5.3f}")
    done_at = max(host.done_at for host in hosts)
    print(f"{done_at / 3600:.2f} hours of crawling took {time.perf_counter() - began:.1f} s.")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000)
