"""Random schedules of one lane, held against an oracle that knows nothing of tasks, timers and queues.

The law: never sooner than asked, never later than due, order kept, nobody forgotten.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lanes import ORIGIN, crawl_delay, make_bound, make_lanes

from robotgate._errors import TooSoonError
from robotgate._virtual import VirtualTimeLoop
from robotgate.stores.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robotgate._bound import Bound
    from robotgate._lane import Lane

GRAIN: Final = 5e-6
"""Seconds; what the lane takes for the same instant, a few times over."""
# Arrivals, changes of the delay and departures never share an instant: who goes first then is nobody's promise.
RAISE_OFFSET: Final = 0.07
CANCEL_OFFSET: Final = 0.037
PATIENCE_OFFSET: Final = 0.0173
DURATION_OFFSET: Final = 0.00031
ARRIVAL_OFFSET: Final = 0.00007


@dataclass(frozen=True, slots=True)
class Job:
    """A visitor: when it comes, how it ranks, how long it stays, and when it is cancelled or loses patience."""

    arrival: float
    ahead: bool
    priority: int
    duration: float
    cancelled_after: float | None
    patience: float | None

    @property
    def cancel_at(self) -> float | None:
        """When its task is cancelled, be it waiting or under way."""
        return None if self.cancelled_after is None else self.arrival + self.cancelled_after

    @property
    def leaves_at(self) -> float:
        """When it stops waiting at the latest."""
        limits = [self.cancel_at, None if self.patience is None else self.arrival + self.patience]
        return min((limit for limit in limits if limit is not None), default=float("inf"))

    def ends_at(self, start: float) -> float:
        """When its request is over."""
        end = start + self.duration
        return end if self.cancel_at is None else min(end, max(start, self.cancel_at))


@dataclass(frozen=True, slots=True)
class Schedule:
    """What happens to a lane."""

    slots: int
    delay: float
    raised_delay: float
    raised_at: float
    jobs: tuple[Job, ...]

    def delay_at(self, at: float) -> float:
        """The delay that holds."""
        return self.delay if at < self.raised_at else max(self.delay, self.raised_delay)


def quarters(most: int) -> st.SearchStrategy[float]:
    """Quarters of a second."""
    return st.integers(0, most).map(lambda count: count / 4)


jobs = st.builds(
    Job,
    arrival=quarters(80),
    ahead=st.sampled_from([False, False, False, True]),
    priority=st.integers(-1, 1),
    duration=quarters(12).map(lambda duration: duration + DURATION_OFFSET),
    cancelled_after=st.none() | quarters(60).map(lambda at: at + CANCEL_OFFSET),
    patience=st.none() | quarters(40).map(lambda patience: patience + PATIENCE_OFFSET),
)


def in_order(drawn: list[Job]) -> tuple[Job, ...]:
    """By arrival, no two at once."""
    ordered = sorted(drawn, key=lambda job: job.arrival)
    return tuple(
        replace(job, arrival=job.arrival + number * ARRIVAL_OFFSET) for number, job in enumerate(ordered)
    )


schedules = st.builds(
    Schedule,
    slots=st.integers(1, 3),
    delay=st.sampled_from([0.0, 0.1, 0.5, 1.0, 3.3]),
    raised_delay=st.sampled_from([0.0, 0.7, 2.0, 5.5]),
    raised_at=quarters(80).map(lambda at: at + RAISE_OFFSET),
    jobs=st.lists(jobs, min_size=1, max_size=25).map(in_order),
)


def due_starts(schedule: Schedule) -> list[tuple[float, int]]:
    """The oracle: each start and whose, worked out one after the other."""
    starts: list[tuple[float, int]] = []
    ends: list[float] = []
    left = dict(enumerate(schedule.jobs))
    while True:
        ready = _ready_at(schedule, [at for at, _ in starts], ends)
        live = {n: job for n, job in left.items() if job.leaves_at > max(job.arrival, ready)}
        if not live:
            return starts
        at = _under_delay(schedule, starts, ends, min(max(ready, job.arrival) for job in live.values()))
        waiting = [n for n, job in live.items() if job.arrival <= at < job.leaves_at]
        if not waiting:
            # Raising the delay outlasted everybody who was there.
            left = {n: job for n, job in left.items() if job.leaves_at > at}
            continue
        chosen = min(waiting, key=lambda n: (not left[n].ahead, -left[n].priority, n))
        starts.append((at, chosen))
        ends.append(left.pop(chosen).ends_at(at))


def _ready_at(schedule: Schedule, starts: Sequence[float], ends: Sequence[float]) -> float:
    """When the lane could start someone, had it always somebody waiting."""
    ready = _spaced(schedule, starts, ends, before=0.0)
    return ready if ready < schedule.raised_at else _spaced(schedule, starts, ends, before=ready)


def _under_delay(
    schedule: Schedule, starts: Sequence[tuple[float, int]], ends: Sequence[float], at: float
) -> float:
    """The instant, moved on if a raised delay holds by then."""
    return max(at, _spaced(schedule, [start for start, _ in starts], ends, before=at))


def _spaced(schedule: Schedule, starts: Sequence[float], ends: Sequence[float], *, before: float) -> float:
    """The first instant that the delay, as it holds at `before`, and the slots leave free."""
    if not starts:
        return 0.0
    delay = schedule.delay_at(before)
    if schedule.slots == 1:
        return max(ends[-1] + schedule.delay_at(ends[-1]), ends[-1] + delay)
    free_at = sorted(ends)[-schedule.slots] if len(ends) >= schedule.slots else 0.0
    return max(starts[-1] + schedule.delay_at(starts[-1]), starts[-1] + delay, free_at)


@dataclass(slots=True)
class Run:
    """What came of a schedule on the real lane."""

    starts: list[tuple[float, int]]
    ends: dict[int, float]
    most_open: int = 0
    left_over: str = ""


async def run_schedule(schedule: Schedule) -> Run:
    """Play it."""
    lanes = make_lanes(delay=schedule.delay, slots=schedule.slots)
    lane = await lanes.lane("a.example")
    bound = make_bound(len(schedule.jobs))
    run = Run([], {})
    tasks: dict[int, asyncio.Task[None]] = {}
    happenings: list[tuple[float, int, str]] = [(schedule.raised_at, -1, "raise")]
    for number, job in enumerate(schedule.jobs):
        happenings.append((job.arrival, number, "arrive"))
        if job.cancel_at is not None:
            happenings.append((job.cancel_at, number, "cancel"))
    loop = asyncio.get_running_loop()
    for at, number, what in sorted(happenings):
        await asyncio.sleep(at - loop.time())
        if what == "arrive":
            tasks[number] = asyncio.create_task(visit(lane, bound, schedule.jobs[number], number, run))
        elif what == "cancel":
            tasks[number].cancel()
        else:
            lane.ask(ORIGIN, crawl_delay(schedule.raised_delay))
    await asyncio.gather(*tasks.values(), return_exceptions=True)
    for task in tasks.values():
        error = None if task.cancelled() else task.exception()
        assert error is None or isinstance(error, TooSoonError)
    run.left_over = f"{lane.waiting} waiting, {lane.open_turns} open, {bound.free} free"
    await asyncio.sleep(100.0)
    run.left_over += f", {len(lanes)} lanes, {len(asyncio.all_tasks())} task"
    return run


async def visit(lane: Lane, bound: Bound, job: Job, number: int, run: Run) -> None:
    """One visitor's request."""
    loop = asyncio.get_running_loop()
    admission = await lane.admit(
        ORIGIN, bound=bound, ahead=job.ahead, priority=job.priority, max_wait=job.patience
    )
    run.starts.append((loop.time(), number))
    run.most_open = max(run.most_open, len(run.starts) - len(run.ends))
    try:
        await asyncio.sleep(job.duration)
    finally:
        run.ends[number] = loop.time()
        admission.end()


def play(schedule: Schedule) -> Run:
    """Play it on a loop of its own."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(run_schedule(schedule))


@settings(max_examples=150, deadline=None)
@given(schedules)
def test_lane_keeps_the_law(schedule: Schedule) -> None:
    """Spacing and slots hold between any two requests, whatever comes, goes and changes."""
    run = play(schedule)
    assert run.most_open <= schedule.slots
    for (began, earlier), (at, _) in pairwise(run.starts):
        since = run.ends[earlier] if schedule.slots == 1 else began
        asked = max(schedule.delay_at(since), schedule.delay_at(at))
        assert at - since >= asked - GRAIN
    assert run.left_over == f"0 waiting, 0 open, {len(schedule.jobs)} free, 0 lanes, 1 task"


@settings(max_examples=300, deadline=None)
@given(schedules)
def test_lane_does_what_the_oracle_says(schedule: Schedule) -> None:
    """The same visitors start at the same instants: nobody sooner, later, out of order or forgotten."""
    # Who is refused at once depends on who waits ahead, though they may leave: the oracle knows only of patience.
    schedule = replace(schedule, jobs=tuple(replace(job, patience=None) for job in schedule.jobs))
    run, due = play(schedule), due_starts(schedule)
    assert [number for _, number in run.starts] == [number for _, number in due]
    assert [at for at, _ in run.starts] == pytest.approx([at for at, _ in due], abs=GRAIN)


@settings(max_examples=60, deadline=None)
@given(st.lists(quarters(20), min_size=2, max_size=12), st.integers(2, 3))
def test_gates_on_one_store_keep_the_delay_between_starts(arrivals: list[float], gates: int) -> None:
    """Whichever of several gates a visitor comes to, starts at the host are a delay apart."""

    async def main() -> list[float]:
        store = MemoryStore()
        lanes = [make_lanes(store=store) for _ in range(gates)]
        bound = make_bound(100)
        starts: list[float] = []

        async def come(number: int, arrival: float) -> None:
            await asyncio.sleep(arrival)
            admission = await (await lanes[number % gates].lane("a.example")).admit(ORIGIN, bound=bound)
            starts.append(asyncio.get_running_loop().time())
            admission.end()

        await asyncio.gather(*(come(number, arrival) for number, arrival in enumerate(arrivals)))
        return starts

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        starts = runner.run(main())
    assert len(starts) == len(arrivals)
    assert all(later - sooner >= 1.0 - GRAIN for sooner, later in pairwise(starts))
