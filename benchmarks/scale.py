"""A hundred thousand hosts with a waiter each, and a hundred thousand waiters on one host: memory and time.

Each figure comes from a process of its own. Memory is taken on the virtual clock, where no turn comes due while things
are counted, and twice: by `tracemalloc`, which counts what Python allocates, and by what the process has resident, with
no tracing. Times are taken without tracing. On asyncio and uvloop, where time is real, the delay is 0 and a turn that
is held keeps the others waiting, so that what is timed is the gate's work and the loop's; on the virtual clock
there is a delay, and every grant comes from a timer.

A waiter is a task in ``async with gate.turn(url)``; its task, its coroutines and its place in the queue are all in the
figure. The rules of the sites are learnt beforehand and are not.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
import tracemalloc
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from benchmarks._client import LOOPS, alone
from benchmarks._machine import describe, peak_memory, resident_memory
from robotgate import Failure, RobotGate
from robotgate.testing import ScriptedFetcher, VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from typing import TypeAlias

    from robotgate import Clock

    Figures: TypeAlias = dict[str, float]
    Work: TypeAlias = Callable[[int], Coroutine[object, None, Figures]]

COUNT: Final = 100_000
DELAY: Final = 60.0
"""Seconds, virtual; longer than any real pause of the program, as no time passes between two sleeps."""
QUEUE_DELAY: Final = 0.1
"""Seconds, virtual, where all wait at one host; the rules that were learnt are good for a day, which has to do."""
AFTERWARDS: Final = 3600.0
"""Virtual seconds after which every lane has been idle for long enough to be let go of."""
REAL_LOOPS: Final = ("asyncio", "uvloop")
RULES: Final = b"User-agent: *\nDisallow: /private\n"


def in_loop(loop: str, work: Work, count: int, *, is_traced: bool = False) -> Figures:
    """What some work finds on a loop, with every allocation counted or none."""
    if is_traced:
        tracemalloc.start()
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(work(count))


def memory() -> int:
    """Octets: those that Python has allocated when that is traced, otherwise those that are resident."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0] if tracemalloc.is_tracing() else resident_memory()


def gate_of(delay: float, *, clock: Clock | None = None) -> RobotGate:
    """A gate that bounds each host, and no more, and could not reach the network if it tried."""
    return RobotGate(
        "ExampleBot/1.0",
        contact="bot@example.org",
        delay=delay,
        concurrency=10 * COUNT,
        clock=clock,
        fetcher=ScriptedFetcher({}, otherwise=Failure("nothing is asked here")),
    )


async def learn(gate: RobotGate, hosts: int) -> list[str]:
    """A URL at each host, whose rules are then known."""
    urls = [f"https://{number}.site.example/page" for number in range(hosts)]
    for url in urls:
        gate.learn(url, RULES)
    await settle()
    return urls


async def settle() -> None:
    """Let every task run until it waits for something."""
    for _ in range(10):
        await asyncio.sleep(0)


class Queue:
    """Tasks that wait for a turn each, and the order in which they had it."""

    def __init__(self, gate: RobotGate, urls: Iterable[str]) -> None:
        self.tasks = [asyncio.create_task(self._take(gate, url, number)) for number, url in enumerate(urls)]
        self._served: list[int] = []

    async def _take(self, gate: RobotGate, url: str, number: int) -> None:
        async with gate.turn(url):
            self._served.append(number)

    async def form(self) -> None:
        """Let everybody take a place.

        Raises:
            RuntimeError: somebody did not have to wait.
        """
        await settle()
        if self._served or any(task.done() for task in self.tasks):
            raise RuntimeError("somebody did not wait")

    async def empty(self, *, is_one: bool) -> None:
        """Wait until everybody has had a turn.

        Args:
            is_one: all wait at one host, which owes them the order they came in.

        Raises:
            RuntimeError: somebody had none, or two, or had it before somebody who came earlier.
        """
        await asyncio.wait(self.tasks)
        served = self._served if is_one else sorted(self._served)
        if served != list(range(len(self.tasks))):
            raise RuntimeError(f"{len(served)} turns, not one each in order of arrival")


async def many_hosts_memory(hosts: int) -> Figures:
    """What a host costs: its lane, a waiter, and what is left when the lane is gone."""
    async with gate_of(DELAY, clock=VirtualClock()) as gate:
        urls = await learn(gate, hosts)
        marks = [memory()]
        for url in urls:
            async with gate.turn(url):
                pass
        marks.append(memory())
        queue = Queue(gate, urls)
        await queue.form()
        marks.append(memory())
        began = time.perf_counter()
        await queue.empty(is_one=False)
        elapsed = time.perf_counter() - began
        queue.tasks.clear()
        await asyncio.sleep(AFTERWARDS)
        marks.append(memory())
    return {
        "lane": (marks[1] - marks[0]) / hosts,
        "waiter": (marks[2] - marks[1]) / hosts,
        "left": (marks[3] - marks[0]) / hosts,
        "admit": elapsed,
        "peak": peak_memory(),
    }


async def many_hosts_time(hosts: int) -> Figures:
    """How long it takes to queue at every host, and to admit everybody when all hosts become free."""
    async with gate_of(0.0) as gate, AsyncExitStack() as held:
        urls = await learn(gate, hosts)
        for url in urls:
            await held.enter_async_context(gate.turn(url))
        began = time.perf_counter()
        queue = Queue(gate, urls)
        await queue.form()
        queued = time.perf_counter()
        await held.aclose()
        await queue.empty(is_one=False)
        return {"queue": queued - began, "admit": time.perf_counter() - queued}


async def one_host_memory(waiters: int) -> Figures:
    """What a waiter costs among many, and a grant when each comes from the timer."""
    async with gate_of(QUEUE_DELAY, clock=VirtualClock()) as gate:
        (url,) = await learn(gate, 1)
        async with gate.turn(url):
            pass
        before = memory()
        queue = Queue(gate, waiters * [url])
        await queue.form()
        after = memory()
        began = time.perf_counter()
        await queue.empty(is_one=True)
        elapsed = time.perf_counter() - began
    return {"waiter": (after - before) / waiters, "grant": elapsed / waiters, "peak": peak_memory()}


async def one_host_time(waiters: int) -> Figures:
    """How long it takes to queue many at one host, to admit them one by one, and to cancel them all at once."""
    async with gate_of(0.0) as gate:
        (url,) = await learn(gate, 1)
        async with gate.turn(url):
            began = time.perf_counter()
            queue = Queue(gate, waiters * [url])
            await queue.form()
            queued = time.perf_counter()
        await queue.empty(is_one=True)
        emptied = time.perf_counter()
        async with gate.turn(url):
            queue = Queue(gate, waiters * [url])
            await queue.form()
            cancelling = time.perf_counter()
            for task in queue.tasks:
                task.cancel()
            await asyncio.wait(queue.tasks)
            cancelled = time.perf_counter()
        async with gate.turn(url, max_wait=0):
            pass  # Nobody is left, and nothing of theirs.
    return {
        "queue": queued - began,
        "grant": (emptied - queued) / waiters,
        "cancel": cancelled - cancelling,
    }


def main() -> None:
    """Measures each in a process of its own."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=COUNT)
    count = parser.parse_args().count
    print(describe("robotgate", "aiolimiter", "uvloop"))
    hosts, hosts_resident = (
        alone(in_loop, "virtual", many_hosts_memory, count, is_traced=is_traced)
        for is_traced in (True, False)
    )
    waiters, waiters_resident = (
        alone(in_loop, "virtual", one_host_memory, count, is_traced=is_traced) for is_traced in (True, False)
    )
    print("\n| octets each | allocated | resident |\n|---|---|---|")
    for name, allocated, resident in (
        (f"a lane, nobody waiting, of {count:,}", hosts["lane"], hosts_resident["lane"]),
        (f"a waiter, one at each of {count:,} hosts", hosts["waiter"], hosts_resident["waiter"]),
        # Octets that were freed stay resident until the system wants them.
        ("what is remembered when the lane is gone", hosts["left"], None),
        (f"a waiter, {count:,} at one host", waiters["waiter"], waiters_resident["waiter"]),
    ):
        print(f"| {name} | {allocated:,.0f} | {'' if resident is None else f'{resident:,.0f}'} |")
    peaks = hosts_resident["peak"] / 1e6, waiters_resident["peak"] / 1e6
    print(f"\nPeak of the process: {peaks[0]:,.0f} MB with many hosts, {peaks[1]:,.0f} MB with one.")
    many = {loop: alone(in_loop, loop, many_hosts_time, count) for loop in REAL_LOOPS}
    one = {loop: alone(in_loop, loop, one_host_time, count) for loop in REAL_LOOPS}
    print("\n| | asyncio, delay 0 | uvloop, delay 0 | virtual time, with delays |\n|---|---|---|---|")
    for name, figures, key, unit, virtual in (
        (f"queue one at each of {count:,} hosts, s", many, "queue", 1.0, None),
        ("admit them all, s", many, "admit", 1.0, hosts_resident["admit"]),
        (f"queue {count:,} at one host, s", one, "queue", 1.0, None),
        ("grant one of them, µs", one, "grant", 1e6, waiters_resident["grant"]),
        ("cancel them all, s", one, "cancel", 1.0, None),
    ):
        cells = [f"{figures[loop][key] * unit:.2f}" for loop in REAL_LOOPS]
        print(f"| {name} | {' | '.join(cells)} | {'' if virtual is None else f'{virtual * unit:.2f}'} |")


if __name__ == "__main__":
    main()
