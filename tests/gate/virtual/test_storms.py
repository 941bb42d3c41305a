"""Many cancellations at any instant leave spacing, order and accounting exact.

The instants of leaving are on purpose those at which turns come due.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest
from tests.pace_law import PaceLaw, Visitor
from tests.paced import make_gate
from tests.waiting import settle

from robotgate import TooSoonError

if TYPE_CHECKING:
    from collections.abc import Callable

    from robotgate import RobotGate

HOSTS: Final = [f"{number}.example" for number in range(8)]
VISITORS: Final = 300
ROUNDS: Final = 40
MAX_BLOCK: Final = 300.0
ODD: Final = 0.0137
"""Seconds between two arrivals; no turn comes due in the instant of one."""
ANSWERS: Final = [(200, None)] * 12 + [(429, "2"), (503, "7"), (None, None)]
ERRORS: Final = [None] * 12 + [TimeoutError(), ConnectionResetError(), ConnectionRefusedError()]
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


@pytest.mark.parametrize("delay", [0.0, 0.5])
@pytest.mark.parametrize("slots", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("has_errors", [False, True])
async def test_storm(
    pending_timers: Callable[[], int], seed: int, slots: int, delay: float, *, has_errors: bool
) -> None:
    """No turn starts too soon, too late, out of order or never; one timer a host is left, then none."""
    laws = {host: PaceLaw(floor=delay, slots=slots, max_block=MAX_BLOCK) for host in HOSTS}
    chance = random.Random(seed)
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


@pytest.mark.parametrize("instant", [0.25, 0.5, 1.0, 1.5, 3.0])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 1.0])
async def test_those_left_are_served_as_if_the_others_had_never_come(instant: float, share: float) -> None:
    """Any subset of a hundred, cancelled at one instant, be it one at which a turn comes due."""
    laws = {host: PaceLaw(floor=1.0, slots=1, max_block=MAX_BLOCK) for host in HOSTS}
    law = laws[HOSTS[0]]
    chance = random.Random(share)
    async with make_gate(delay=1.0) as gate:
        learn_all(gate)
        tasks = [
            asyncio.create_task(Visitor(who=who, url=f"http://{HOSTS[0]}/{who}").visit(gate, law))
            for who in range(100)
        ]
        loop = asyncio.get_running_loop()
        leaving = [task for task in tasks if chance.random() < share]
        loop.call_at(instant, lambda: [task.cancel() for task in leaving])
        await asyncio.gather(*tasks, return_exceptions=True)
        staying = [who for who, task in enumerate(tasks) if not task.cancelled()]
        assert law.violations == []
        assert law.served == staying
        assert loop.time() == max(len(staying) - 1.0, instant if leaving else 0.0)


async def test_waiters_with_a_limit_need_no_timers_of_their_own(pending_timers: Callable[[], int]) -> None:
    """A thousand with a `max_wait` share the one timer of all hosts, whichever leaves; another drops unused tables."""
    async with make_gate(delay=1.0) as gate:
        learn_all(gate)

        async def visit(host: str) -> None:
            async with gate.turn(f"http://{host}/", max_wait=1000.0):
                pass

        tasks = [asyncio.create_task(visit(HOSTS[number % len(HOSTS)])) for number in range(1000)]
        await asyncio.sleep(0.5)
        assert pending_timers() <= 2
        for task in tasks[::2]:
            task.cancel()
        await settle()
        assert pending_timers() <= 2
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        kinds = Counter(type(outcome) for outcome in outcomes)
        # The first of each host had begun, and ended, before anybody left.
        assert kinds[type(None)] == 500 + len(HOSTS) // 2
        assert kinds[asyncio.CancelledError] == 500 - len(HOSTS) // 2


@pytest.mark.parametrize("seed", range(5))
async def test_storm_leaves_every_place_over_all_hosts_free(seed: int) -> None:
    """Places within `concurrency` that were waited for, granted and left are there for the next: so many, no more."""
    chance = random.Random(seed)
    async with make_gate(delay=0.5, concurrency_per_host=2, concurrency=3) as gate:
        learn_all(gate)

        async def visit(host: str, takes: float) -> None:
            async with gate.turn(f"http://{host}/", max_wait=chance.choice([None, 0.0, 4.0])):
                await asyncio.sleep(takes)

        tasks: list[asyncio.Task[None]] = []
        for _ in range(ROUNDS):
            tasks += [
                asyncio.create_task(visit(chance.choice(HOSTS), chance.choice([0.0, 0.5]))) for _ in range(6)
            ]
            await asyncio.sleep(0.5)
            for task in tasks:
                if chance.random() < 0.2:
                    task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} <= {type(None), asyncio.CancelledError, TooSoonError}
        await asyncio.sleep(10.0)
        holders = [asyncio.create_task(visit(host, 10.0)) for host in HOSTS[:3]]
        await settle()
        assert [gate.host(f"http://{host}/").open_turns for host in HOSTS[:3]] == [1, 1, 1]
        with pytest.raises(TooSoonError):
            async with gate.turn(f"http://{HOSTS[3]}/", max_wait=1.0):
                pass
        await asyncio.gather(*holders)
