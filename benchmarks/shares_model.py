"""The total of a fleet in shares, in virtual time: ``python -m benchmarks.shares_model``.

Eight real gates have a total of 100 requests a second, and a store that is as far away as a Redis server. After a
while some wake up, or one is killed. Printed are:

- the share of the rate that is used from then on;
- calls of the store for shares, a page: those that carry one, and looks in vain while one is waited for;
- seconds by which a process gets less than its part; where some wake up, of these;
- most starts in any second.

`SHARES` and `HOLD_TURNS` of `robotgate.pace.shares` were chosen here. Chance moves the seconds by five or so, those of
one process by ten. `MIN_HOLD` counts where a share has its turns sooner: above a rate of 1,000, or if it is kept for
one turn.
"""

from __future__ import annotations

import asyncio
import math
import random
from bisect import bisect_left
from contextlib import AsyncExitStack
from statistics import fmean
from typing import TYPE_CHECKING, Final, NamedTuple
from unittest.mock import patch

from robotgate import MemoryStore, RobotGate, StoreError
from robotgate.pace import shares
from robotgate.pace.scope import TOTAL
from robotgate.pace.state import CLOCK_GRAIN
from robotgate.stores.grants import BEAT, Grants
from robotgate.stores.memory import MemorySession
from robotgate.stores.redis.store import MAX_POLL
from robotgate.testing import VirtualClock, VirtualTimeLoop

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robotgate.pace.state import HostState

RATE: Final = 100
TASKS: Final = 20
"""Of a process, each with a host of its own."""
TRIP: Final = 0.003
"""Seconds for the way to the store and back."""
PHASE: Final = 40.0
"""Seconds until something changes, at least; and for how long is counted then."""


class Store(MemoryStore):
    """A process's way to what all share."""

    def __init__(self, grants: Grants, number: int) -> None:
        super().__init__()
        self.grants = grants
        self.number = number
        self.trip = TRIP
        self.calls = 0

    async def save_hosts(self, states: Mapping[str, HostState]) -> None:
        """As `RedisStore.save_hosts`, which has the session look for news, too."""
        self.member.send_soon()
        await asyncio.sleep(self.trip / 2)
        self.grants.states.update(states)

    async def session(self) -> Member:
        """As `SharedStore.session`."""
        self.member = Member(self)
        return self.member


class Member(MemorySession):
    """A session as of Redis: it hears of nothing before it looks."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, str(store.number), asyncio.get_running_loop())
        self.uptime, self._to = self.loop.time, store
        self.start(self._run(), StoreError)

    def send_soon(self) -> None:
        """As `BaseSession.send_soon`."""
        self._is_due.set()

    async def _run(self) -> None:
        is_in_vain = False
        while True:
            self._is_due.clear()
            request = self.side.request(now=self.uptime())
            keys = [*request.asks, *request.withdrawals, *(leave.key for leave in request.leaves)]
            self._to.calls += is_in_vain or any(key.startswith(TOTAL) for key in keys)
            await asyncio.sleep(self._to.trip / 2)
            reply = self._to.grants.exchange(request, now=self.uptime())
            await asyncio.sleep(self._to.trip / 2)
            self.receive(reply)
            is_in_vain = False
            if self.side.has_to_send:
                continue
            try:
                # Of a share `TagSession._pause` makes as much.
                async with asyncio.timeout(MAX_POLL if self.waiting else BEAT):
                    await self._is_due.wait()
            except TimeoutError:
                is_in_vain = bool(self.waiting)


class Process:
    """One of a fleet."""

    def __init__(self, grants: Grants, number: int) -> None:
        self.store = Store(grants, number)
        self.gate = RobotGate(
            "ExampleBot/1.0",
            contact="bot@example.org",
            clock=VirtualClock(),
            store=self.store,
            delay=0.0,
            total_rate=(RATE, 1),
            shared_total=True,
        )
        self.starts: list[float] = []
        self._tasks: list[asyncio.Task[None]] = []

    def crawl(self, pause: float = 0.0) -> None:
        """Have all tasks get page after page, with a pause before each."""
        self._tasks = [asyncio.create_task(self._crawl(task, pause)) for task in range(TASKS)]

    async def _crawl(self, task: int, pause: float) -> None:
        url = f"http://{task}.{self.store.number}.example/"
        self.gate.learn(url, b"")
        while True:
            await asyncio.sleep(pause * random.uniform(0, 2))
            async with self.gate.turn(url):
                self.starts.append(asyncio.get_running_loop().time())
                await asyncio.sleep(random.uniform(0.05, 0.15))

    def kill(self) -> None:
        """It does nothing any more, and tells nobody."""
        self.store.trip = math.inf
        for task in self._tasks:
            task.cancel()


class Case(NamedTuple):
    """Processes that get pages as fast as they may at first, and later."""

    before: int
    after: int
    pause: float = math.inf
    """Mean seconds before each page of a task of the others."""


async def crawled(case: Case, phase: float) -> tuple[float, ...]:
    """Let a fleet crawl, and return the figures."""
    grants = Grants("model")
    fleet = [Process(grants, number) for number in range(8)]
    async with AsyncExitStack() as stack:
        for number, process in enumerate(fleet):
            await stack.enter_async_context(process.gate)
            process.crawl(0.0 if number < case.before else case.pause)
        # Shares that are obtained together are handed on together, for a long time.
        change_at = phase * random.uniform(1.0, 1.5)
        await asyncio.sleep(change_at)
        for process in fleet[case.before : case.after]:
            process.crawl()
        for process in fleet[case.after : case.before]:
            process.kill()
        await asyncio.sleep(phase)
        for process in fleet:
            process.kill()
    starts = sorted(at for process in fleet for at in process.starts)
    those = fleet[case.before : case.after] or fleet[: case.after]
    pages = fmean(sum(at >= change_at for at in process.starts) for process in those)
    return (
        sum(at >= change_at for at in starts) / (RATE * phase),
        sum(process.store.calls for process in fleet) / len(starts),
        phase - pages * case.after / RATE,
        max(bisect_left(starts, at + 1.0 - CLOCK_GRAIN) - place for place, at in enumerate(starts)),
    )


def figures(case: Case, *, phase: float = PHASE, **constants: float) -> tuple[float, ...]:
    """Those of a case, with some of the constants changed."""
    with patch.dict(vars(shares), constants), asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(crawled(case, phase))


CASES: Final = {
    "four of eight wake up": Case(4, 8),
    "two busy, six with a page in 2 s": Case(2, 2, pause=2.0 * TASKS),
    "all busy": Case(8, 8),
    "two busy, six idle": Case(2, 2),
    "one wakes up": Case(7, 8),
    "one is killed": Case(8, 7),
}
CONSTANTS: Final[Mapping[str, Mapping[str, float]]] = {
    f"{shares.SHARES} shares, kept for {shares.HOLD_TURNS} turns": {},
    "16 shares": {"SHARES": 16},
    "64 shares": {"SHARES": 64},
    "kept for 200 turns": {"HOLD_TURNS": 200},
    "for 20 turns": {"HOLD_TURNS": 20},
    "for 1 turn": {"HOLD_TURNS": 1, "MIN_HOLD": 0.0},
}


def main(rounds: int = 2) -> None:
    """Print a table: means of some rounds, and most of all."""
    print("| | | used | calls | seconds | most |\n|---|---|---:|---:|---:|---:|")
    for name, constants in CONSTANTS.items():
        for what, case in list(CASES.items())[: 2 if constants else None]:
            *means, most = zip(*(figures(case, **constants) for _ in range(rounds)), strict=True)
            used, calls, seconds = map(fmean, means)
            print(f"| {name} | {what} | {used:.2f} | {calls:.2f} | {seconds:.0f} | {max(most)} |")


if __name__ == "__main__":
    random.seed(1)
    main()
