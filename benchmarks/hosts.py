"""Hosts without end through a gate that keeps so many: what each known one costs, and whether memory stays flat.

On the virtual clock. Every host has a robots.txt of its own, of the median size of real ones, and one page. What a
known host costs is counted by `tracemalloc` in a gate that has room for all: rules, record and state, its lane gone.
Then a hundred a second go through a gate, and a store, with room for far fewer, in a process without tracing, and what
that has resident is told at each tenth. A host visited within the last ten minutes is never let go of by the store.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
import tracemalloc
from typing import TYPE_CHECKING, Final, TypeVar

from benchmarks._client import LOOPS, alone
from benchmarks._machine import describe, peak_memory, resident_memory
from robotgate import Answer, MemoryStore, RobotGate
from robotgate.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping

Result = TypeVar("Result")

HOSTS: Final = 1_000_000
MAX_HOSTS: Final = 10_000
KNOWN: Final = 20_000
"""Hosts by which what each costs is counted."""
AT_ONCE: Final = 100
"""Visits under way, of a second each."""
MEDIAN_BYTES: Final = 551
"""Of 698 real files; see docs/benchmarks.md."""
AFTERWARDS: Final = 60.0
"""Virtual seconds after which every lane has been idle for long enough to be let go of."""


class EverySite:
    """A `Fetcher` for which every host has a robots.txt, no two the same."""

    async def fetch(self, url: str, *, headers: Mapping[str, str], max_bytes: int, timeout: float) -> Answer:
        """The file."""
        del headers, max_bytes, timeout
        lines = [f"# {url}", "User-agent: *", *(f"Disallow: /section-{number}/page" for number in range(40))]
        return Answer(status=200, body="\n".join(lines).encode()[:MEDIAN_BYTES], etag=f'"{url}"')


def gate_of(max_hosts: int) -> RobotGate:
    """A gate, and a store of its own, for so many hosts."""
    return RobotGate(
        "ExampleBot/1.0",
        contact="bot@example.org",
        max_hosts=max_hosts,
        store=MemoryStore(max_hosts=max_hosts),
        clock=VirtualClock(),
        fetcher=EverySite(),
        concurrency=AT_ONCE,
    )


async def visit_all(gate: RobotGate, numbers: Iterator[int]) -> None:
    """Take hosts as they come, and look at one page of each."""
    for number in numbers:
        async with gate.turn(f"https://{number}.site.example/page"):
            await asyncio.sleep(1.0)


async def visit_together(gate: RobotGate, numbers: Iterator[int]) -> None:
    """So many at once."""
    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_ONCE):
            tasks.create_task(visit_all(gate, numbers))


async def cost_of_known(hosts: int, max_hosts: int) -> float:
    """Octets for each host that is known."""
    tracemalloc.start()
    async with gate_of(max_hosts) as gate:
        await visit_together(gate, iter(range(100)))
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        await visit_together(gate, iter(range(100, 100 + hosts)))
        await asyncio.sleep(AFTERWARDS)
        gc.collect()
        return (tracemalloc.get_traced_memory()[0] - before) / hosts


async def through(hosts: int, max_hosts: int) -> list[tuple[int, float, int, int, str]]:
    """Seconds and resident octets at each tenth of the hosts, the peak so far, and what is known."""
    seen = []
    began = time.perf_counter()
    async with gate_of(max_hosts) as gate:
        for tenth in range(10):
            await visit_together(gate, iter(range(hosts * tenth // 10, hosts * (tenth + 1) // 10)))
            elapsed = time.perf_counter() - began
            known = f"{gate!r} {gate._store!r}"  # noqa: SLF001  # As the gate's own repr tells.
            seen.append((hosts * (tenth + 1) // 10, elapsed, resident_memory(), peak_memory(), known))
    return seen


def in_loop(
    work: Callable[[int, int], Coroutine[object, None, Result]], hosts: int, max_hosts: int
) -> Result:
    """What some work finds on the virtual clock."""
    with asyncio.Runner(loop_factory=LOOPS["virtual"]) as runner:
        return runner.run(work(hosts, max_hosts))


def main() -> None:
    """Measures each in a process of its own."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=HOSTS)
    parser.add_argument("--max-hosts", type=int, default=MAX_HOSTS)
    options = parser.parse_args()
    print(describe("robotgate", "aiolimiter"))
    cost = alone(in_loop, cost_of_known, KNOWN, 10 * KNOWN)
    print(f"A known host: {cost:,.0f} octets, of which {MEDIAN_BYTES} are its file.")
    print(f"\n{options.hosts:,} hosts through a gate and a store of {options.max_hosts:,}:\n")
    print("| hosts | s | resident, MB | peak, MB | known |\n|---|---|---|---|---|")
    for hosts, elapsed, resident, peak, known in alone(in_loop, through, options.hosts, options.max_hosts):
        print(f"| {hosts:,} | {elapsed:,.0f} | {resident / 1e6:,.0f} | {peak / 1e6:,.0f} | {known} |")


if __name__ == "__main__":
    main()
