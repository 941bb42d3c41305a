"""Ten thousand tasks ask for hosts that nobody has asked for before, all at once.

A real aiohttp server in another process counts the requests for robots.txt: there should be one a host. Each answer
takes it 50 ms. The hosts are names, which a resolver of our own sends to the loopback interface.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import TYPE_CHECKING, Final

from aiohttp import ClientSession, TCPConnector

from benchmarks._client import LoopbackResolver
from benchmarks._machine import describe
from benchmarks._server import noting_site
from robotgate import RobotGate

if TYPE_CHECKING:
    from benchmarks._server import NotingSite

TASKS: Final = 10_000
HOSTS: Final = (1, 1_000)
LATENCY: Final = 0.05
"""Seconds."""


async def storm(site: NotingSite, hosts: int) -> None:
    """One row of the report."""
    urls = [f"http://{number % hosts}.site.example:{site.port}/page/{number}" for number in range(TASKS)]
    async with (
        ClientSession(connector=TCPConnector(resolver=LoopbackResolver(), limit=0)) as session,
        RobotGate("ExampleBot/1.0", contact="bot@example.org", session=session) as gate,
    ):
        start = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            answers = [tasks.create_task(gate.allowed(url)) for url in urls]
        elapsed = time.perf_counter() - start
    allowed = sum(answer.result() for answer in answers)
    counts = site.robots_requests()
    most = max(counts.values())
    print(f"{TASKS:8,}  {hosts:6,}  {counts.total():10,}  {most:8,}  {elapsed:11.3f}  {allowed:7,}")


async def main() -> None:
    """Measures at each number of hosts."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    print(describe("robotgate", "aiohttp"))
    print("   tasks   hosts  robots.txt  per host  last answer  allowed")
    print("                    requests   at most          (s)")
    with noting_site(LATENCY) as site:
        for hosts in HOSTS:
            await storm(site, hosts)


if __name__ == "__main__":
    asyncio.run(main())
