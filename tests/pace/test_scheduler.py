"""The scheduler on virtual time: what no door of a gate shows, and the laws of `tests/property` do not reach."""

from __future__ import annotations

import asyncio
import gc

import pytest
from tests.pace.bench import Bench, OwnLease
from tests.paced import now
from tests.waiting import settle

from robotgate.errors import TooSoonError
from robotgate.options import Rate
from robotgate.pace.host import Host, PacedTurn
from robotgate.pace.lease import NOT_OWNED


async def test_turn_that_waits_again_is_not_counted_behind_those_that_came_later() -> None:
    """Among hundreds of waiters, too: what keeps its place keeps its deadline."""
    bench = Bench()
    paced = bench.origin()
    await bench.visit("first", paced)
    turn = PacedTurn(paced, deadline_at=10.0)
    await bench.scheduler.wait(turn)
    many = bench.visits(paced, *map(str, range(300)))
    await settle()
    bench.scheduler.give_back(turn)
    # One of the others has it; this turn is the next.
    await bench.begin(turn)
    assert now() == 2.0
    for task in many:
        task.cancel()
    bench.scheduler.end(turn, bench.scheduler.now())
    await asyncio.gather(*many, return_exceptions=True)


async def test_late_turns_hold_back_no_turn_of_another_origin() -> None:
    """When a host is obtained, turns that go first and are late are refused before others are held against them."""
    bench = Bench(has_store=True)
    patient, hasty = bench.origin(lease=NOT_OWNED, delay=5.0), bench.origin(port=8080, delay=5.0)
    tasks = [asyncio.create_task(bench.visit("patient", patient, max_wait=12.0))]
    tasks += [asyncio.create_task(bench.visit("hasty", hasty, max_wait=3.0, priority=1)) for _ in range(4)]
    await asyncio.sleep(0.5)
    patient.host.next_allowed_at = 5.0
    patient.host.lease = OwnLease()
    bench.scheduler.own(patient.host)
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None), *4 * [TooSoonError]]
    assert bench.starts == [(5.0, "patient")]


@pytest.mark.usefixtures("few_objects")
async def test_turns_that_are_over_are_not_kept() -> None:
    """One patient waiter does not keep every later turn, with its origin, in memory."""
    bench = Bench()
    slow, paced = bench.origin("slow.example", delay=60.0), bench.origin(delay=0.01)
    await bench.visit("s", slow)
    patient = asyncio.create_task(bench.visit("patient", slow, max_wait=3000.0))
    await settle()
    for number in range(300):
        await bench.visit(str(number), paced, max_wait=3600.0)
    gc.collect()
    assert sum(type(thing) is PacedTurn for thing in gc.get_objects()) < 200
    patient.cancel()
    await asyncio.gather(patient, return_exceptions=True)


@pytest.mark.usefixtures("few_objects")
async def test_host_with_many_waiters_is_kept_in_order_once() -> None:
    """Neither the order of hosts nor the queue for permits grows with the waiters of a host."""
    bench = Bench(concurrency=1)
    due, blocked = bench.origin("a.example"), bench.origin("b.example", delay=100.0)
    await bench.visit("first", blocked)
    await bench.begin(held := PacedTurn(bench.origin("c.example")))
    tasks = [
        task for number in range(200) for paced in (due, blocked) for task in bench.visits(paced, str(number))
    ]
    await settle()
    gc.collect()
    entries = [
        thing
        for thing in gc.get_objects()
        if isinstance(thing, tuple) and thing and isinstance(thing[-1], Host)
    ]
    assert len(entries) < 20
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    bench.scheduler.end(held, bench.scheduler.now())


async def test_start_waits_where_a_crash_would_lose_too_many() -> None:
    """Of a quota of 30, the store knows all but ten starts; it is asked to save before a turn has to wait for that."""
    bench = Bench(has_store=True)
    paced = bench.origin(delay=0.0, rate=Rate(30, 3600.0))
    tasks = bench.visits(paced, *"abcdefghijkl")
    await asyncio.sleep(5.0)
    assert [at for at, _ in bench.starts] == [0.0] * 10
    assert bench.scheduler.work.is_urgent.is_set()
    window = paced.host.window
    assert window is not None
    bench.scheduler.note_saved(paced.host, window.tell())
    await asyncio.gather(*tasks)
    assert [at for at, _ in bench.starts[10:]] == [5.0] * 2
