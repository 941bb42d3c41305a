"""Tasks that wait for turns, one host's or many hosts', of a gate that cannot reach the network."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from typing import TYPE_CHECKING, Final

from benchmarks._machine import resident_memory
from robotgate import Failure, RobotGate
from robotgate.testing import ScriptedFetcher

if TYPE_CHECKING:
    from collections.abc import Iterable

    from robotgate import Clock

UNBOUNDED: Final = 10_000_000
RULES: Final = b"User-agent: *\nDisallow: /private\n"


def memory() -> int:
    """Bytes: those that Python has allocated where that is traced, otherwise those that are resident."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0] if tracemalloc.is_tracing() else resident_memory()


def gate_of(delay: float, *, clock: Clock | None = None) -> RobotGate:
    """A gate that bounds each host, and no more, and could not reach the network if it tried."""
    return RobotGate(
        "ExampleBot/1.0",
        contact="bot@example.org",
        delay=delay,
        concurrency=UNBOUNDED,
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
        """Let every task join its queue.

        Raises:
            RuntimeError: a task did not have to wait.
        """
        await settle()
        if self._served or any(task.done() for task in self.tasks):
            raise RuntimeError("a task did not wait")

    async def empty(self, *, is_one: bool) -> None:
        """Wait until every task has had a turn.

        Args:
            is_one: all wait at one host, which owes them the order they came in.

        Raises:
            RuntimeError: a task had none, or two, or had it before an earlier one.
        """
        await asyncio.wait(self.tasks)
        served = self._served if is_one else sorted(self._served)
        if served != list(range(len(self.tasks))):
            raise RuntimeError(f"{len(served)} turns, not one each in order of arrival")
