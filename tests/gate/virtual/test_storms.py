"""Many cancellations at any instant leave spacing, order and accounting exact.

The instants of leaving are on purpose those at which turns come due.
"""

from __future__ import annotations

import asyncio
import errno
import random
from typing import TYPE_CHECKING, Final

import pytest
from tests.pace_law import PaceLaw, Visitor
from tests.paced import make_gate, seeds
from tests.waiting import settle

if TYPE_CHECKING:
    from collections.abc import Callable

    from robotgate import RobotGate

HOSTS: Final = [f"{number}.example" for number in range(8)]
VISITORS: Final = 300
ROUNDS: Final = 40
ODD: Final = 0.0137
"""Seconds between two arrivals; no turn comes due in the instant of one."""
ANSWERS: Final = [(200, None)] * 12 + [(429, "2"), (503, "7"), (None, None)]
HUNG_UP: Final = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
ERRORS: Final = [None] * 12 + [TimeoutError(), HUNG_UP, ConnectionRefusedError()]
"""In place of an answer."""


def learn_all(gate: RobotGate) -> None:
    """Every site's rules are known, and ask for nothing."""
    for host in HOSTS:
        gate.learn(f"http://{host}/", b"")


class Storm:
    """Visitors who come one after the other, and leave whenever chance says so."""

    def __init__(
        self, gate: RobotGate, laws: dict[str, PaceLaw], chance: random.Random, *, has_errors: bool
    ) -> None:
        self._has_errors = has_errors
        self._gate = gate
        self._laws = laws
        self._chance = chance
        self.tasks: list[asyncio.Task[None]] = []

    async def arrive(self, count: int, *, takes: float) -> None:
        """So many come."""
        for who in range(len(self.tasks), len(self.tasks) + count):
            host = self._chance.choice(HOSTS)
            status, retry_after = self._chance.choice(ANSWERS)
            visitor = Visitor(
                who=who,
                url=f"http://{host}/{who}",
                priority=self._chance.randint(-1, 1),
                max_wait=self._chance.choice([None, None, 0.0, 5.0, 33.3]),
                takes=takes * self._chance.randint(0, 4),
                status=status,
                retry_after=retry_after,
                error=self._chance.choice(ERRORS) if self._has_errors else None,
            )
            self.tasks.append(asyncio.create_task(visitor.visit(self._gate, self._laws[host])))
            await asyncio.sleep(ODD)

    def strike(self, share: float) -> None:
        """Cancel some of those who are there, all at this instant; some of them twice."""
        for task in self.tasks:
            if self._chance.random() < share:
                task.cancel()

    async def end(self) -> None:
        """All tasks have had a turn or were cancelled."""
        outcomes = await asyncio.gather(*self.tasks, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} <= {type(None), asyncio.CancelledError}


@pytest.mark.parametrize("seed", seeds(6, 36))
async def test_storm(pending_timers: Callable[[], int], seed: int) -> None:
    """No turn starts too soon, too late, out of order or never; one timer a host is left, then none."""
    chance = random.Random(seed)
    delay, slots, has_errors = (0.0, 0.5)[seed % 2], 1 + seed % 3, seed % 4 < 2
    laws = {host: PaceLaw(floor=delay, slots=slots, max_block=300.0) for host in HOSTS}
    async with make_gate(delay=delay, concurrency_per_host=slots) as gate:
        learn_all(gate)
        storm = Storm(gate, laws, chance, has_errors=has_errors)
        for _ in range(ROUNDS):
            await storm.arrive(VISITORS // ROUNDS, takes=0.25)
            await asyncio.sleep(chance.choice([0.0, 0.25, 0.5 - (ODD * (VISITORS // ROUNDS)) % 0.5]))
            storm.strike(chance.choice([0.0, 0.02, 0.5]))
            await settle()
            under_way = sum(len(law.open) for law in laws.values())
            # One a lane, and one for all that are idle.
            assert pending_timers() <= len(HOSTS) + 1 + under_way
        await storm.end()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert pending_timers() <= len(HOSTS)
        for host, law in laws.items():
            view = gate.host(f"http://{host}/")
            assert law.violations == []
            assert (view.waiting, view.open_turns, view.visits) == (0, 0, law.visits)
        assert sum(law.visits for law in laws.values()) > len(HOSTS)
        await asyncio.sleep(400.0)
        assert pending_timers() == 0
