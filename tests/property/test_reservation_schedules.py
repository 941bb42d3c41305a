"""Random schedules of several processes at one host, who know of each other only by the store they share.

The law: never more under way than slots, never a start sooner than the delay allows, whoever began before; nobody is
forgotten, and nothing stays booked.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.booked_store import Book, BookedStore
from tests.lanes import ORIGIN, make_bound, make_lanes

from robotgate._errors import StoreError, TooSoonError
from robotgate._virtual import VirtualTimeLoop

if TYPE_CHECKING:
    from robotgate._bound import Bound
    from robotgate._lane import Lane

GRAIN: Final = 5e-6


@dataclass(frozen=True, slots=True)
class Job:
    """A visitor of one of the processes."""

    process: int
    arrival: float
    ahead: bool
    priority: int
    duration: float
    cancelled_after: float | None
    patience: float | None


@dataclass(frozen=True, slots=True)
class Schedule:
    """Processes, how long their questions take, and who comes to them."""

    slots: int
    delay: float
    takes: tuple[float, ...]
    fails: int
    jobs: tuple[Job, ...]


@dataclass(slots=True)
class Run:
    """What came of it: when each request was sent, and when it ended."""

    visits: list[tuple[float, float]] = field(default_factory=list)
    under_way: int = 0
    most_under_way: int = 0
    outcomes: list[BaseException | None] = field(default_factory=list)
    left_over: str = ""


def tenths(most: int) -> st.SearchStrategy[float]:
    """Tenths of a second."""
    return st.integers(0, most).map(lambda count: count / 10)


jobs = st.builds(
    Job,
    process=st.integers(0, 2),
    arrival=tenths(120),
    ahead=st.sampled_from([False, False, False, True]),
    priority=st.integers(-1, 1),
    duration=tenths(25),
    cancelled_after=st.none() | tenths(60),
    patience=st.none() | tenths(60),
)
schedules = st.builds(
    Schedule,
    slots=st.integers(1, 3),
    delay=st.sampled_from([0.0, 0.1, 0.5, 1.0, 3.3]),
    takes=st.tuples(*(st.sampled_from([0.0, 0.001, 0.1, 0.35]) for _ in range(3))),
    fails=st.integers(0, 2),
    jobs=st.lists(jobs, min_size=1, max_size=20).map(tuple),
)


async def run_schedule(schedule: Schedule) -> Run:
    """Play it."""
    book, run = Book(), Run()
    stores = [BookedStore(book, takes=takes, fails=schedule.fails) for takes in schedule.takes]
    processes = [make_lanes(delay=schedule.delay, slots=schedule.slots, store=store) for store in stores]
    bound = make_bound(len(schedule.jobs))
    lanes = [await process.lane("a.example") for process in processes]
    tasks = [asyncio.create_task(come(lanes[job.process], bound, job, run)) for job in schedule.jobs]
    loop = asyncio.get_running_loop()
    for task, job in zip(tasks, schedule.jobs, strict=True):
        if job.cancelled_after is not None:
            loop.call_later(job.arrival + job.cancelled_after, task.cancel)
    async with asyncio.timeout(1000.0):
        await asyncio.gather(*tasks, return_exceptions=True)
    run.outcomes = [None if task.cancelled() else task.exception() for task in tasks]
    open_turns, waiting = (sum(getattr(lane, what) for lane in lanes) for what in ("open_turns", "waiting"))
    booked = sum(book.reserved.values()) + sum(book.under_way.values())
    await asyncio.sleep(100.0)
    kept, running = sum(map(len, processes)), len(asyncio.all_tasks())
    free = bound.free - len(schedule.jobs)
    run.left_over = (
        f"{waiting} waiting, {open_turns} open, {booked} booked, {free} free, {kept} lanes, {running} task"
    )
    known = book.hosts.get("a.example")
    assert (0 if known is None else known.visits) == len(run.visits)
    return run


async def come(lane: Lane, bound: Bound, job: Job, run: Run) -> None:
    """One visitor's request."""
    loop = asyncio.get_running_loop()
    await asyncio.sleep(job.arrival)
    admission = await lane.admit(
        ORIGIN, bound=bound, ahead=job.ahead, priority=job.priority, max_wait=job.patience
    )
    began_at = loop.time()
    run.under_way += 1
    run.most_under_way = max(run.most_under_way, run.under_way)
    try:
        await asyncio.sleep(job.duration)
    finally:
        run.under_way -= 1
        run.visits.append((began_at, loop.time()))
        admission.end()


@settings(max_examples=300, deadline=None)
@given(schedules)
def test_processes_on_one_store_keep_the_law(schedule: Schedule) -> None:
    """Whoever comes, leaves, loses patience or is failed by the store, and however long the store takes to answer."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        run = runner.run(run_schedule(schedule))
    assert run.most_under_way <= schedule.slots
    visits = sorted(run.visits)
    for (began_at, ended_at), (next_at, _) in pairwise(visits):
        since = ended_at if schedule.slots == 1 else began_at
        assert next_at - since >= schedule.delay - GRAIN
    assert {type(outcome) for outcome in run.outcomes} <= {type(None), TooSoonError, StoreError}
    failed = sum(isinstance(outcome, StoreError) for outcome in run.outcomes)
    assert failed <= 3 * schedule.fails
    assert run.left_over == "0 waiting, 0 open, 0 booked, 0 free, 0 lanes, 1 task"
