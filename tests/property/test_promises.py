"""Whenever tasks ask by `try_turn`, come back or stay away: no gap is short, and who comes in time has its turn.

Tasks of one host are told when to come by one or more gates that share a store, on virtual time. Turns take as long as
each other, so that a promise can be kept to the letter. The law counts promises: they have no names, so whoever comes
when one is due has it, and leaves its own to the next.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from hypothesis import given
from hypothesis import strategies as st
from tests.paced import SITE, gate_that_knows, now

from robotgate import MemoryStore, RobotGate, TooSoonError
from robotgate.pace.promises import EARLY, LATEST, LATEST_TURNS, MAX_WAIT
from robotgate.testing import VirtualTimeLoop

if TYPE_CHECKING:
    from collections.abc import Sequence

GRAIN: Final = 1e-5
"""Seconds, through the clocks of several processes."""
MOST_LATE: Final = 1.5
"""Seconds; those behind a task that comes later than `MAX_WAIT` may have to come once more."""

lateness = st.sampled_from([0.0, 0.0, 0.0, -EARLY / 2, 0.01, 0.5, MOST_LATE])


@dataclass(frozen=True)
class Task:
    """One URL, which a worker tries to fetch."""

    comes_at: float
    late: float
    """Seconds by which it comes back late."""
    is_lost: bool
    """Whether it does not come back."""
    gate: int


tasks = st.builds(
    Task,
    comes_at=st.sampled_from([0.0, 0.0, 0.0, 0.1, 5.0, 20.0, 60.0]) | st.floats(0.0, 60.0),
    late=lateness,
    is_lost=st.sampled_from([False, False, False, True]),
    gate=st.integers(0, 2),
)


@dataclass(eq=False)
class Host:
    """What the tasks of one host saw."""

    gates: list[RobotGate]
    delay: float
    takes: float
    """Seconds, each turn."""
    visits: list[tuple[float, float]] = field(default_factory=list)
    places: list[tuple[float, float]] = field(default_factory=list)
    """When each promise was made, and for when."""
    lost: int = 0
    longest: float = 0.0
    """Seconds that a task was kept in its worker at most."""

    async def ask(self, gate: RobotGate) -> float | None:
        """Ask for a turn, and have it; or return when to come again."""
        asked_at = now()
        try:
            async with gate.try_turn(f"{SITE}/page"):
                self.longest = max(self.longest, now() - asked_at)
                began_at = now()
                await asyncio.sleep(self.takes)
                self.visits.append((began_at, now()))
        except TooSoonError as error:
            self.longest = max(self.longest, now() - asked_at)
            self.places.append((now(), now() + error.retry_after))
            return now() + error.retry_after
        return None

    def due_at(self, at: float) -> float:
        """When the next turn may begin after those that have begun by then, or wait in a worker."""
        return max(ended + self.delay for began, ended in self.visits if began <= at + MAX_WAIT)

    def is_over(self, place: float, at: float) -> bool:
        """Whether a promise cannot be kept any more: it was due, or the task would have to wait for too long."""
        return place <= at + EARLY or place + MAX_WAIT <= self.due_at(at) + GRAIN

    def is_busy(self, at: float) -> bool:
        """Whether a turn begins soon, is open, or has ended just now; or a task may come that was told to."""
        lapsed_at = at - max(LATEST, LATEST_TURNS * (self.delay + self.takes)) - MOST_LATE
        return any(
            began - MAX_WAIT <= at <= ended + self.delay + GRAIN for began, ended in self.visits
        ) or any(place > lapsed_at for told_at, place in self.places if told_at < at)

    async def run(self, task: Task) -> None:
        """Come until the turn has come, or stay away."""
        await asyncio.sleep(task.comes_at)
        while (place := await self.ask(self.gates[task.gate % len(self.gates)])) is not None:
            if task.is_lost:
                self.lost += 1
                return
            await asyncio.sleep(place + task.late - now())


async def crawl(delay: float, takes: float, gates: int, tasks: Sequence[Task]) -> Host:
    """The tasks, at a host that has been visited once: it is known how long a turn takes."""
    async with AsyncExitStack() as stack:
        store = MemoryStore() if gates > 1 else None
        opened = [
            await stack.enter_async_context(gate_that_knows(SITE, delay=delay, store=store))
            for _ in range(gates)
        ]
        host = Host(opened, delay, takes)
        assert await host.ask(opened[0]) is None
        async with asyncio.timeout(3600.0), asyncio.TaskGroup() as group:
            for task in tasks:
                group.create_task(host.run(task))
        return host


@given(
    delay=st.sampled_from([0.2, 1.0, 5.0]),
    takes=st.sampled_from([0.0, 0.3, 1.2]),
    gates=st.sampled_from([1, 1, 2, 3]),
    tasks=st.lists(tasks, min_size=1, max_size=30),
)
def test_promises_are_kept(delay: float, takes: float, gates: int, tasks: list[Task]) -> None:
    """Those that stay away cost their own places, and newcomers nobody's turn."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        host = runner.run(crawl(delay, takes, gates, tasks))
    period = delay + takes
    # 1. No gap is short, and every task that came back had its turn in the end.
    assert all(later[0] - before[1] >= delay - GRAIN for before, later in pairwise(sorted(host.visits)))
    assert len(host.visits) == 1 + len(tasks) - host.lost
    # 2. Places are distinct and in order.
    for (_, before), (told_at, later) in pairwise(host.places):
        assert later >= before + period - GRAIN or host.is_over(before, told_at)
    # 3. What is asked in vain is a promise: each was redeemed by one turn, or is of a task that stayed away.
    assert len(host.places) <= len(tasks)
    # 4. No worker waits for long.
    assert host.longest <= MAX_WAIT + GRAIN
    # 5. Nobody is sent away for the sake of those that stay away, longer than promises hold.
    assert all(host.is_busy(told_at) for told_at, _ in host.places)
