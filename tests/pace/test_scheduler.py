"""The scheduler on virtual time: which turn goes, and at which instant exactly."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING

import pytest
from tests.pace.bench import DAY, HOST, Bench, OwnLease, now, settle

from robotgate.errors import GateClosedError, HostUnavailableError, NestedTurnError, StoreError, TooSoonError
from robotgate.options import Rate
from robotgate.pace.host import NOT_OWNED, Host, PacedTurn
from robotgate.pace.scheduler import STORE_TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Callable

HOUR = 3600.0


@pytest.mark.parametrize(
    ("delay", "slots", "takes", "starts"),
    [
        # One at a time: the delay counts from the end of a response, however long that took.
        (2.0, 1, 0.75, [0.0, 2.75, 5.5, 8.25]),
        (1.0, 1, 30.0, [0.0, 31.0, 62.0, 93.0]),
        (0.0, 1, 0.5, [0.0, 0.5, 1.0, 1.5]),
        # Several: from start to start, and a slot has to be free.
        (1.0, 4, 3.5, [0.0, 1.0, 2.0, 3.0]),
        (1.0, 2, 5.0, [0.0, 1.0, 5.0, 6.0]),
        (0.0, 3, 1.0, [0.0, 0.0, 0.0, 1.0]),
    ],
)
async def test_instants_of_a_host(delay: float, slots: int, takes: float, starts: list[float]) -> None:
    """Each turn starts at the instant that delay, slots and responses leave, and in the order of arrival."""
    bench = Bench()
    paced = bench.origin(delay=delay, concurrency_per_host=slots)
    await asyncio.gather(*bench.visits(paced, "a", "b", "c", "d", takes=takes))
    assert bench.starts == list(zip(starts, "abcd", strict=True))


# Order.


async def test_robots_goes_ahead_of_waiting_pages() -> None:
    """robots.txt passes every page that waits, whatever its priority and origin, and is paced like one."""
    bench = Bench()
    paced, other = bench.origin(), bench.origin(port=8080)
    pages = bench.visits(paced, "a", "b")
    urgent = asyncio.create_task(bench.visit("urgent", paced, priority=10**6))
    await settle()
    robots = asyncio.create_task(bench.visit("robots", other, ahead=True))
    await asyncio.gather(*pages, urgent, robots)
    assert bench.starts == [(0.0, "a"), (1.0, "robots"), (2.0, "urgent"), (3.0, "b")]


# Turns that leave.


async def test_waiter_cancelled_between_grant_and_start() -> None:
    """A turn that is granted in the instant in which its task is cancelled goes to the next, then and there."""
    bench = Bench()
    first, head, after = bench.visits(bench.origin(), "a", "b", "c")
    await settle()
    asyncio.get_running_loop().call_at(1.0, head.cancel)
    await asyncio.gather(first, head, after, return_exceptions=True)
    assert head.cancelled()
    assert bench.starts == [(0.0, "a"), (1.0, "c")]


async def test_everybody_cancelled(pending_timers: Callable[[], int]) -> None:
    """When all waiters leave, the host is free for the next, and no timer is left."""
    bench = Bench()
    paced = bench.origin()
    tasks = bench.visits(paced, *map(str, range(1000)))
    await asyncio.sleep(0.5)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (paced.host.waiting, paced.host.in_slots, bench.pages.held) == (0, (), set())
    assert pending_timers() == 0
    await bench.visit("next", paced)
    assert bench.starts == [(0.0, "0"), (1.0, "next")]


async def test_ending_twice_is_ending_once() -> None:
    """Neither the slot nor the permit is given back twice."""
    bench = Bench(concurrency=1)
    paced = bench.origin()
    turn = await bench.open(paced)
    bench.scheduler.end(turn, bench.scheduler.now())
    await asyncio.sleep(5.0)
    bench.scheduler.end(turn, bench.scheduler.now())
    assert bench.pages.held == set()
    state = paced.host.snapshot()
    assert (state.last_visit_at, state.visits) == (0.0, 1)


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


# Deadlines.


async def test_deadline_refused_at_once() -> None:
    """A wait that cannot fit is refused without waiting, with the seconds it would take. One that fits is not."""
    bench = Bench()
    paced = bench.origin(delay=10.0)
    await bench.visit("a", paced)
    await asyncio.sleep(2.0)
    with pytest.raises(TooSoonError) as refusal:
        await bench.visit("b", paced, max_wait=7.5)
    assert now() == 2.0
    assert (refusal.value.host, refusal.value.retry_after) == (HOST, 8.0)
    await bench.visit("c", paced, max_wait=8.0)
    assert bench.starts == [(0.0, "a"), (10.0, "c")]


async def test_deadline_refused_at_its_end() -> None:
    """A wait that might have fitted is refused when it is over, to the instant; the others lose nothing."""
    bench = Bench()
    paced = bench.origin()
    tasks = bench.visits(paced, "a", "b", takes=5.0)
    await settle()
    with pytest.raises(TooSoonError):
        await bench.visit("c", paced, max_wait=2.5)
    assert now() == 2.5
    await asyncio.gather(*tasks)
    assert bench.starts == [(0.0, "a"), (6.0, "b")]


async def test_deadline_of_now() -> None:
    """LWP's `use_sleep=0`: now or not at all."""
    bench = Bench()
    paced = bench.origin()
    await bench.visit("a", paced, max_wait=0.0)
    with pytest.raises(TooSoonError) as refusal:
        await bench.visit("b", paced, max_wait=0.0)
    assert (now(), refusal.value.retry_after) == (0.0, 1.0)
    await asyncio.sleep(1.0)
    await bench.visit("c", paced, max_wait=0.0)
    assert bench.starts == [(0.0, "a"), (1.0, "c")]


async def test_deadline_is_checked_when_a_host_is_obtained() -> None:
    """Until the store has told of a host a turn may wait a second; then it is refused if it comes too late."""
    bench = Bench(is_saved=True)
    paced = bench.origin(lease=NOT_OWNED)
    late = asyncio.create_task(bench.visit("late", paced, max_wait=3.0))
    early = asyncio.create_task(bench.visit("early", paced, max_wait=6.0))
    await asyncio.sleep(0.5)
    assert bench.scheduler.work.unowned == {paced.host}
    bench.scheduler.work.unowned.clear()
    paced.host.next_allowed_at = 5.0
    paced.host.lease = OwnLease()
    bench.scheduler.own(paced.host)
    with pytest.raises(TooSoonError):
        await late
    assert now() == 0.5
    await early
    assert bench.starts == [(5.0, "early")]


async def test_late_turns_hold_back_no_turn_of_another_origin() -> None:
    """When a host is obtained, turns that go first and are late are refused before others are held against them."""
    bench = Bench(is_saved=True)
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


async def test_store_that_does_not_tell_refuses_after_a_second() -> None:
    """A wait of nothing at all is given that long, for the store alone decides."""
    bench = Bench(is_saved=True)
    paced = bench.origin(lease=NOT_OWNED)
    with pytest.raises(TooSoonError):
        await bench.visit("a", paced, max_wait=0.0)
    assert now() == STORE_TIMEOUT
    bench.scheduler.work.lost = StoreError("it is gone")
    with pytest.raises(StoreError, match="it is gone"):
        await bench.visit("a", paced, max_wait=0.0)


# Blocks, hours and what is learnt meanwhile.


async def test_block_is_waited_out() -> None:
    """A block up to `max_block` holds all turns back to its end, to the instant."""
    bench = Bench()
    paced = bench.origin()
    await bench.visit("a", paced, status=429, retry_after=300.0)
    await asyncio.gather(*bench.visits(paced, "b", "c"))
    assert bench.starts == [(0.0, "a"), (300.0, "b"), (301.0, "c")]


async def test_block_too_long_refuses_all_turns() -> None:
    """Those that wait at once, and those that come, until what is left of the block fits."""
    bench = Bench()
    paced = bench.origin()
    first = asyncio.create_task(bench.visit("a", paced, takes=2.0, status=503, retry_after=1000.0))
    outcomes = await asyncio.gather(first, *bench.visits(paced, "b", "c"), return_exceptions=True)
    assert now() == 2.0
    assert [type(outcome) for outcome in outcomes] == [type(None), HostUnavailableError, HostUnavailableError]
    assert isinstance(outcomes[1], HostUnavailableError)
    assert outcomes[1].retry_after == 1000.0
    await asyncio.sleep(100.0)
    with pytest.raises(HostUnavailableError) as refusal:
        await bench.visit("d", paced)
    assert refusal.value.retry_after == 900.0
    await asyncio.sleep(600.0)
    await bench.visit("e", paced)
    assert bench.starts == [(0.0, "a"), (1002.0, "e")]


async def test_one_turn_tries_after_an_outage() -> None:
    """The others wait for its outcome: an answer lets all go, another outage of a host that is given up none."""
    bench = Bench()
    paced = bench.origin(delay=0.0, concurrency_per_host=5, give_up_after=0.0)
    await bench.visit("a", paced, outage="it refuses connections")
    with pytest.raises(HostUnavailableError, match="refuses"):
        await bench.visit("b", paced)
    retry_at = paced.circuit.retry_at
    await asyncio.sleep(retry_at - now())
    first = asyncio.create_task(bench.visit("probe", paced, takes=3.0, outage="it refuses connections"))
    await settle()
    outcomes = await asyncio.gather(first, *bench.visits(paced, "c", "d"), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None), HostUnavailableError, HostUnavailableError]
    await asyncio.sleep(paced.circuit.retry_at - now())
    tried_at = now()
    first = asyncio.create_task(bench.visit("probe", paced, takes=2.0, status=404))
    await settle()
    await asyncio.gather(first, *bench.visits(paced, "e", "f"))
    starts = bench.starts[-2:]
    assert [name for _, name in starts] == ["e", "f"]
    assert [at for at, _ in starts] == pytest.approx([tried_at + 2.0] * 2)


# Permits and the total rate.


async def test_permit_goes_to_the_turn_that_waits_longest() -> None:
    """A busy host does not keep the only permit to itself while another host's turn waits for it."""
    bench = Bench(concurrency=1)
    one, other = bench.origin("a.example", delay=0.0), bench.origin("b.example", delay=0.0)
    held = await bench.open(one)
    tasks = bench.visits(other, "b")
    await settle()
    tasks += bench.visits(one, "a1", "a2", takes=1.0)
    await settle()
    bench.scheduler.end(held, bench.scheduler.now())
    await asyncio.gather(*tasks)
    assert bench.starts == [(0.0, "b"), (0.0, "a1"), (1.0, "a2")]


async def test_newcomer_does_not_overtake_at_the_instant_of_the_total_rate() -> None:
    """Not even if it comes when the start is due and the timer has not fired."""
    bench = Bench(total=Rate(1, 10.0))
    await bench.visit("a", bench.origin("a.example"))
    waiting = bench.visits(bench.origin("b.example"), "b")
    await asyncio.sleep(10.0 - 4e-7)
    assert bench.starts == [(0.0, "a")]
    await bench.visit("c", bench.origin("c.example"))
    await asyncio.gather(*waiting)
    assert [name for _, name in bench.starts] == ["a", "b", "c"]


async def test_pages_do_not_hold_back_robots() -> None:
    """robots.txt has permits of its own, unless the connector serves both: a page's host may need another file."""
    bench = Bench(concurrency=1, robots=1)
    held = await bench.open(bench.origin("b.example"))
    await bench.visit("robots", bench.origin(), ahead=True)
    assert bench.starts == [(0.0, "robots")]
    bench.scheduler.end(held, bench.scheduler.now())


async def test_page_goes_on_when_the_robots_txt_before_it_is_cancelled() -> None:
    """A robots.txt that waited for its own permit, and waits no longer, holds back no page."""
    bench = Bench(robots=1)
    held = await bench.open(bench.origin("b.example"), ahead=True)
    paced = bench.origin()
    robots = asyncio.create_task(bench.visit("robots", paced, ahead=True))
    await settle()
    pages = bench.visits(paced, "page")
    await settle()
    assert bench.starts == []
    robots.cancel()
    await asyncio.gather(*pages)
    assert bench.starts == [(0.0, "page")]
    bench.scheduler.end(held, bench.scheduler.now())


# Turns within turns.


async def test_nested_turn_is_an_error() -> None:
    """A task that would wait for itself is told so, and its own turn goes on."""
    bench = Bench()
    paced = bench.origin()
    turn = PacedTurn(paced)
    await bench.begin(turn)
    with pytest.raises(NestedTurnError, match=r"a\.example"):
        await bench.begin(PacedTurn(paced))
    bench.scheduler.end(turn, bench.scheduler.now())
    await bench.visit("after", paced)
    assert bench.starts == [(1.0, "after")]


async def test_nested_turn_with_a_slot_to_spare() -> None:
    """Where another slot is free, a second turn inside the first is no deadlock."""
    bench = Bench()
    paced = bench.origin(concurrency_per_host=2)
    outer, inner = PacedTurn(paced), PacedTurn(paced)
    await bench.begin(outer)
    await bench.begin(inner)
    assert now() == 1.0
    bench.scheduler.end(inner, bench.scheduler.now())
    bench.scheduler.end(outer, bench.scheduler.now())


async def test_permit_that_only_this_task_could_free_is_not_waited_for() -> None:
    """Turns of two hosts within each other, where one turn over all hosts is all there is: an error, no deadlock."""
    bench = Bench(concurrency=1)
    outer, inner = PacedTurn(bench.origin()), PacedTurn(bench.origin("b.example"))
    await bench.begin(outer)
    with pytest.raises(NestedTurnError, match="concurrency"):
        await bench.begin(inner)
    bench.scheduler.end(outer, bench.scheduler.now())
    await bench.begin(inner)
    bench.scheduler.end(inner, bench.scheduler.now())
    assert bench.pages.held == set()


# Hosts of other processes.


async def test_host_is_handed_over_after_the_turn_under_way() -> None:
    """Waiters here ask for it again; what waits meanwhile does not start."""
    bench = Bench(is_saved=True)
    paced = bench.origin(lease=OwnLease(), delay=0.0)
    tasks = bench.visits(paced, "a", "b", takes=5.0)
    await settle()
    bench.scheduler.note_wanted(paced.host)
    assert bench.scheduler.work.leaving == []
    await asyncio.sleep(5.0)
    await settle()
    assert bench.scheduler.work.leaving == [paced.host]
    assert bench.scheduler.work.unowned == {paced.host}
    await asyncio.sleep(60.0)
    assert bench.starts == [(0.0, "a")]
    paced.host.lease = OwnLease()
    bench.scheduler.own(paced.host)
    await asyncio.gather(*tasks)
    assert bench.starts == [(0.0, "a"), (65.0, "b")]


@pytest.mark.parametrize("max_wait", [None, 8.0])
async def test_host_that_is_wanted_is_handed_over_when_its_last_waiter_has_gone(
    max_wait: float | None,
) -> None:
    """Another process does not wait for a turn that no task here waits for any more."""
    bench = Bench(is_saved=True)
    paced = bench.origin(lease=OwnLease())
    paced.host.next_allowed_at = 5.0
    waiting = asyncio.create_task(bench.visit("waiting", paced, max_wait=max_wait))
    await settle()
    bench.scheduler.note_wanted(paced.host)
    assert bench.scheduler.work.leaving == []
    paced.host.blocked_until_at = 10.0
    if max_wait is None:
        waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert bench.scheduler.work.leaving == [paced.host]


async def test_lease_that_ends_between_grant_and_start() -> None:
    """The turn does not begin; it is granted once the host is obtained again."""
    bench = Bench(is_saved=True)
    lease = OwnLease()
    paced = bench.origin(lease=lease)
    turn = PacedTurn(paced)
    await bench.scheduler.wait(turn)
    lease.valid = False
    assert not bench.scheduler.begin_granted(turn)
    waiting = asyncio.create_task(bench.scheduler.wait(turn))
    await settle()
    assert bench.scheduler.work.unowned == {paced.host}
    paced.host.lease = OwnLease()
    bench.scheduler.own(paced.host)
    await waiting
    assert bench.scheduler.begin_granted(turn)
    bench.scheduler.end(turn, bench.scheduler.now())


async def test_states_that_cannot_be_saved_stop_all_turns() -> None:
    """A crash would forget their visits; they go on when saving works again."""
    bench = Bench(is_saved=True)
    paced = bench.origin()
    tasks = bench.visits(paced, "a", "b")
    await settle()
    bench.scheduler.fail(StoreError("the disk is full"))
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None), StoreError]
    await asyncio.sleep(60.0)
    with pytest.raises(StoreError, match="the disk is full"):
        await bench.visit("c", paced)
    bench.scheduler.work.unsaved = None
    await bench.visit("d", paced)
    assert bench.starts == [(0.0, "a"), (60.0, "d")]


# What is left behind.


async def test_close_refuses_all_waiters(pending_timers: Callable[[], int]) -> None:
    """Closing ends every wait with GateClosedError and leaves neither timer nor task."""
    bench = Bench()
    paced = bench.origin(delay=10.0)
    tasks = bench.visits(paced, "a", "b", "c")
    await asyncio.sleep(1.0)
    bench.scheduler.close()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None), GateClosedError, GateClosedError]
    with pytest.raises(GateClosedError):
        await bench.visit("d", paced)
    assert pending_timers() == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_one_timer_for_thousands_of_waiters(pending_timers: Callable[[], int]) -> None:
    """However many waiters there are: all are served in order, none sooner than asked."""
    bench = Bench()
    paced = bench.origin()
    tasks = bench.visits(paced, *map(str, range(2_000)))
    await asyncio.sleep(0.5)
    assert (paced.host.waiting, pending_timers()) == (1_999, 1)
    await asyncio.gather(*tasks)
    assert bench.starts == [(float(number), str(number)) for number in range(2_000)]
    assert pending_timers() == 0


async def test_timer_survives_a_day(pending_timers: Callable[[], int]) -> None:
    """No loop has timers without end: a later instant is looked at again."""
    bench = Bench()
    paced = bench.origin(delay=3 * DAY)
    await asyncio.gather(*bench.visits(paced, "a", "b"))
    assert bench.starts == [(0.0, "a"), (3 * DAY, "b")]
    assert pending_timers() == 0


async def test_turns_that_are_over_are_not_kept() -> None:
    """One patient waiter does not keep every later turn, with its origin, in memory."""
    bench = Bench()
    slow, paced = bench.origin("slow.example", delay=60.0), bench.origin(delay=0.01)
    await bench.visit("s", slow)
    patient = asyncio.create_task(bench.visit("patient", slow, max_wait=3000.0))
    await settle()
    for number in range(500):
        await bench.visit(str(number), paced, max_wait=3600.0)
    gc.collect()
    assert sum(type(thing) is PacedTurn for thing in gc.get_objects()) < 200
    patient.cancel()
    await asyncio.gather(patient, return_exceptions=True)


async def test_host_with_many_waiters_is_kept_in_order_once() -> None:
    """Neither the order of hosts nor the queue for permits grows with the waiters of a host."""
    bench = Bench(concurrency=1)
    due, blocked = bench.origin("a.example"), bench.origin("b.example", delay=100.0)
    await bench.visit("first", blocked)
    held = await bench.open(bench.origin("c.example"))
    tasks = [
        task for number in range(500) for paced in (due, blocked) for task in bench.visits(paced, str(number))
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


async def test_wait_time_tells_the_next_start_at_the_earliest() -> None:
    """It is what the next visitor gets, if no other comes before it."""
    bench = Bench()
    paced = bench.origin(delay=3.0)
    assert bench.scheduler.wait_time(paced) == 0.0
    turn = await bench.open(paced)
    assert bench.scheduler.wait_time(paced) == 3.0
    await asyncio.sleep(1.0)
    bench.scheduler.end(turn, bench.scheduler.now())
    assert bench.scheduler.wait_time(paced) == 3.0
    await asyncio.sleep(1.0)
    assert bench.scheduler.wait_time(paced) == 2.0
    await bench.visit("b", paced)
    assert bench.starts == [(4.0, "b")]
