"""One host's queue on virtual time: who goes, and at which instant exactly."""

from __future__ import annotations

import asyncio
import gc
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import pytest
from tests.lanes import ORIGIN, crawl_delay, make_bound, make_lanes
from tests.paced import DAY, now

from robotgate._errors import GateClosedError, HostUnavailableError, NestedTurnError, TooSoonError
from robotgate._lane import IDLE_LINGER, Lane
from robotgate._pacing import HostState
from robotgate._urls import Origin
from robotgate.stores.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

Visit: TypeAlias = "asyncio.Task[None]"
HOST = "a.example"


class Bench:
    """Lanes, and visitors whose starts are written down."""

    def __init__(
        self,
        *,
        delay: float = 1.0,
        slots: int = 1,
        max_block: float = 300.0,
        concurrency: int = 256,
        store: MemoryStore | None = None,
    ) -> None:
        self.store = store or MemoryStore()
        self.bound = make_bound(concurrency)
        self.lanes = make_lanes(delay=delay, slots=slots, max_block=max_block, store=self.store)
        self.starts: list[tuple[float, str]] = []

    async def lane(self) -> Lane:
        """The lane of the one host."""
        return await self.lanes.lane(HOST)

    async def visit(
        self,
        name: str,
        *,
        takes: float = 0.0,
        ahead: bool = False,
        priority: int = 0,
        max_wait: float | None = None,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        """Wait for a turn, note its start, and hold it for so long; the answer comes at the end."""
        lane = await self.lane()
        admission = await lane.admit(
            ORIGIN, bound=self.bound, ahead=ahead, priority=priority, max_wait=max_wait
        )
        self.starts.append((now(), name))
        try:
            await asyncio.sleep(takes)
            admission.report(status=status, retry_after=retry_after, bytes_read=0)
        finally:
            admission.end()

    def visits(self, *names: str, takes: float = 0.0) -> list[Visit]:
        """A visitor for each name, in this order."""
        return [asyncio.create_task(self.visit(name, takes=takes), name=name) for name in names]


async def settle() -> None:
    """Let everything that can run now, run."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_delay_counts_from_the_end_to_the_start() -> None:
    """One at a time: what a response takes is added to the delay."""
    bench = Bench(delay=2.0)
    await asyncio.gather(*bench.visits("a", "b", "c", takes=0.75))
    assert bench.starts == [(0.0, "a"), (2.75, "b"), (5.5, "c")]


async def test_slow_response_does_not_eat_the_delay() -> None:
    """A response that takes longer than the delay is still followed by the whole delay."""
    bench = Bench(delay=1.0)
    await asyncio.gather(*bench.visits("a", "b", takes=30.0))
    assert bench.starts == [(0.0, "a"), (31.0, "b")]


async def test_several_slots_count_from_start_to_start() -> None:
    """With slots to spare, responses do not hold anyone back."""
    bench = Bench(delay=1.0, slots=4)
    await asyncio.gather(*bench.visits("a", "b", "c", "d", takes=3.5))
    assert bench.starts == [(0.0, "a"), (1.0, "b"), (2.0, "c"), (3.0, "d")]


async def test_full_slots_hold_back() -> None:
    """Never more under way than slots, and the freed slot is taken at once when the delay has passed."""
    bench = Bench(delay=1.0, slots=2)
    await asyncio.gather(*bench.visits("a", "b", "c", "d", takes=5.0))
    assert bench.starts == [(0.0, "a"), (1.0, "b"), (5.0, "c"), (6.0, "d")]


async def test_no_delay_means_one_after_the_other() -> None:
    """Without a delay only the slot paces."""
    bench = Bench(delay=0.0)
    await asyncio.gather(*bench.visits("a", "b", "c", takes=0.5))
    assert bench.starts == [(0.0, "a"), (0.5, "b"), (1.0, "c")]


async def test_idle_time_counts() -> None:
    """Who comes when the delay has passed goes at once; who comes before waits for the rest of it."""
    bench = Bench(delay=5.0)
    await bench.visit("a", takes=1.0)
    await asyncio.sleep(2.0)
    await bench.visit("b")
    await asyncio.sleep(60.0)
    await bench.visit("c")
    assert bench.starts == [(0.0, "a"), (6.0, "b"), (66.0, "c")]


async def test_robots_goes_ahead_of_waiting_pages() -> None:
    """robots.txt passes every page that waits, whatever its priority, and is paced like one."""
    bench = Bench(delay=1.0)
    pages = bench.visits("a", "b")
    urgent = asyncio.create_task(bench.visit("urgent", priority=10**6))
    await settle()
    robots = asyncio.create_task(bench.visit("robots", ahead=True))
    await asyncio.gather(*pages, urgent, robots)
    assert bench.starts == [(0.0, "a"), (1.0, "robots"), (2.0, "urgent"), (3.0, "b")]


async def test_priority_then_arrival() -> None:
    """The higher priority goes first; within one, who came first."""
    bench = Bench(delay=1.0)
    first = bench.visits("first")
    await settle()
    order = [("b0", 0), ("c-1", -1), ("a5", 5), ("b0'", 0), ("a5'", 5), ("c-1'", -1)]
    rest = [asyncio.create_task(bench.visit(name, priority=priority)) for name, priority in order]
    await asyncio.gather(*first, *rest)
    assert [name for _, name in bench.starts] == ["first", "a5", "a5'", "b0", "b0'", "c-1", "c-1'"]
    assert [at for at, _ in bench.starts] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


@pytest.mark.parametrize(
    ("leaving", "names"), [("b", ["a", "c", "d"]), ("c", ["a", "b", "d"]), ("d", ["a", "b", "c"])]
)
async def test_cancelled_waiter_leaves_no_trace(leaving: str, names: list[str]) -> None:
    """Head, middle or last: the others move up as if it had never come."""
    bench = Bench(delay=1.0)
    tasks = bench.visits("a", "b", "c", "d")
    await asyncio.sleep(0.5)
    next(task for task in tasks if task.get_name() == leaving).cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert bench.starts == [(float(at), name) for at, name in enumerate(names)]


async def test_waiter_cancelled_between_grant_and_start() -> None:
    """A turn that was granted to someone who is cancelled in the same instant goes to the next, then and there."""
    bench = Bench(delay=1.0)
    first, head, after = bench.visits("a", "b", "c")
    # The head's own grant is what wakes us: a timer set for the same instant, after the lane's.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_at(1.0, head.cancel)
    await asyncio.gather(first, head, after, return_exceptions=True)
    assert head.cancelled()
    assert bench.starts == [(0.0, "a"), (1.0, "c")]


async def test_waiter_cancelled_by_who_frees_the_slot() -> None:
    """Ending a turn grants the next one at once; cancelling its owner before it runs passes the turn on."""
    bench = Bench(delay=0.0)
    lane = await bench.lane()
    admission = await lane.admit(ORIGIN, bound=bench.bound)
    head, after = bench.visits("b", "c")
    await settle()
    admission.end()
    head.cancel()
    await asyncio.gather(head, after, return_exceptions=True)
    assert head.cancelled()
    assert bench.starts == [(0.0, "c")]
    assert lane.open_turns == 0


async def test_everybody_cancelled(pending_timers: Callable[[], int]) -> None:
    """When all leave, the lane is as if nobody had come: free for the next, and gone when idle."""
    bench = Bench(delay=1.0)
    tasks = bench.visits(*map(str, range(1000)))
    await asyncio.sleep(0.5)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    lane = await bench.lane()
    assert (lane.waiting, lane.open_turns) == (0, 0)
    # The lane's own, and that of all which are idle.
    assert pending_timers() <= 2
    await bench.visit("next")
    assert bench.starts == [(0.0, "0"), (1.0, "next")]
    await asyncio.sleep(IDLE_LINGER + 2)
    assert (len(bench.lanes), pending_timers()) == (0, 0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_cancellation_storm_with_late_arrivals() -> None:
    """Waiters that come and go at odd instants never squeeze two starts together."""
    bench = Bench(delay=1.0)
    tasks = []
    for step in range(200):
        tasks += bench.visits(f"{step}")
        await asyncio.sleep(0.21)
        if step % 3 != 0:
            tasks[-1].cancel()
            tasks[step // 2].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    instants = [at for at, _ in bench.starts]
    assert len(instants) > 40
    assert min(later - sooner for sooner, later in pairwise(instants)) >= 1.0 - 1e-6
    assert bench.bound.free == 256


async def test_max_wait_refused_at_once() -> None:
    """A wait that is known not to fit is refused without waiting, with the seconds it would take."""
    bench = Bench(delay=10.0)
    await bench.visit("a")
    await asyncio.sleep(2.0)
    with pytest.raises(TooSoonError) as refusal:
        await bench.visit("b", max_wait=7.5)
    assert now() == 2.0
    assert (refusal.value.host, refusal.value.retry_after) == (HOST, 8.0)


async def test_max_wait_refused_at_its_end() -> None:
    """A wait that might have fitted is refused when it is over, to the instant; the others lose nothing."""
    bench = Bench(delay=1.0)
    tasks = bench.visits("a", "b", takes=5.0)
    await settle()
    with pytest.raises(TooSoonError):
        await bench.visit("c", max_wait=2.5)
    assert now() == 2.5
    await asyncio.gather(*tasks)
    assert bench.starts == [(0.0, "a"), (6.0, "b")]


async def test_max_wait_that_just_fits() -> None:
    """A turn that comes at the very end of the wait is not later than it."""
    bench = Bench(delay=10.0)
    await bench.visit("a")
    await bench.visit("b", max_wait=10.0)
    assert bench.starts == [(0.0, "a"), (10.0, "b")]


async def test_max_wait_of_nothing() -> None:
    """LWP's `use_sleep=0`: now or not at all."""
    bench = Bench(delay=1.0)
    await bench.visit("a", max_wait=0.0)
    with pytest.raises(TooSoonError) as refusal:
        await bench.visit("b", max_wait=0.0)
    assert (now(), refusal.value.retry_after) == (0.0, 1.0)
    await asyncio.sleep(1.0)
    await bench.visit("c", max_wait=0.0)
    assert bench.starts == [(0.0, "a"), (1.0, "c")]


async def test_block_is_waited_out() -> None:
    """A block up to `max_block` holds everybody back to its end, to the instant."""
    bench = Bench(delay=1.0, max_block=300.0)
    await bench.visit("a", status=429, retry_after=300.0)
    await asyncio.gather(*bench.visits("b", "c"))
    assert bench.starts == [(0.0, "a"), (300.0, "b"), (301.0, "c")]


async def test_block_too_long_refuses_everybody() -> None:
    """A longer block sends away who waits, at once, and who comes, until what is left of it fits."""
    bench = Bench(delay=1.0, max_block=300.0)
    tasks = [
        asyncio.create_task(bench.visit("a", takes=2.0, status=503, retry_after=1000.0)),
        *bench.visits("b", "c"),
    ]
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert now() == 2.0
    assert [type(outcome) for outcome in outcomes] == [type(None), HostUnavailableError, HostUnavailableError]
    assert isinstance(outcomes[1], HostUnavailableError)
    assert outcomes[1].retry_after == 1000.0
    await asyncio.sleep(100.0)
    with pytest.raises(HostUnavailableError) as refusal:
        await bench.visit("d")
    assert refusal.value.retry_after == 900.0
    await asyncio.sleep(600.0)
    await bench.visit("e")
    assert bench.starts == [(0.0, "a"), (1002.0, "e")]


async def test_overall_bound_over_hosts() -> None:
    """As many under way over all hosts as the bound says, whoever waits."""
    bench = Bench(delay=0.0, concurrency=2)
    open_now, most = 0, 0

    async def visit(host: str) -> None:
        nonlocal open_now, most
        admission = await (await bench.lanes.lane(host)).admit(Origin("http", host, 80), bound=bench.bound)
        open_now, most = open_now + 1, max(most, open_now + 1)
        await asyncio.sleep(1.0)
        open_now -= 1
        admission.end()

    await asyncio.gather(*(visit(f"{number}.example") for number in range(6)))
    assert (most, now()) == (2, 3.0)


async def test_waiting_for_the_delay_takes_no_place_of_the_bound() -> None:
    """A task whose host is not due leaves the bound to others."""
    bench = Bench(delay=100.0, concurrency=1)
    await bench.visit("a")
    waiting = bench.visits("b")
    await settle()
    other = await bench.lanes.lane("b.example")
    (await other.admit(ORIGIN, bound=bench.bound)).end()
    assert now() == 0.0
    await asyncio.gather(*waiting)
    assert bench.starts == [(0.0, "a"), (100.0, "b")]


async def test_max_wait_counts_the_bound_too() -> None:
    """Waiting for a place over all hosts is waiting; refused at its end, the host's turn goes to the next."""
    bench = Bench(delay=1.0, concurrency=1)
    holder = asyncio.create_task(bench.bound.acquire())
    place = await holder
    patient = asyncio.create_task(bench.visit("patient"))
    await settle()
    patient.cancel()
    with pytest.raises(TooSoonError):
        await bench.visit("hurried", max_wait=3.0)
    assert now() == 3.0
    place.release()
    await bench.visit("next")
    assert bench.starts == [(3.0, "next")]


async def test_place_that_only_this_task_could_give_back_is_not_waited_for() -> None:
    """Turns of two hosts within each other, where one turn over all hosts is all there is: an error, no deadlock."""
    bench = Bench(delay=1.0, concurrency=1)
    one, other = await bench.lanes.lane("a.example"), await bench.lanes.lane("b.example")
    outer = await one.admit(ORIGIN, bound=bench.bound)
    with pytest.raises(NestedTurnError, match="concurrency"):
        await other.admit(ORIGIN, bound=bench.bound)
    outer.end()
    (await other.admit(ORIGIN, bound=bench.bound)).end()
    assert (other.open_turns, bench.bound.free) == (0, 1)


async def test_block_that_comes_while_the_bound_is_awaited() -> None:
    """What another gate learns of the host counts when the place is free at last: the block is waited out."""
    bench = Bench(delay=1.0, concurrency=1)
    other = Bench(delay=1.0, store=bench.store)
    place = await bench.bound.acquire()
    waiting = bench.visits("b")
    await settle()
    await other.visit("a", status=429, retry_after=100.0)
    await asyncio.sleep(10.0)
    place.release()
    await asyncio.gather(*waiting)
    assert bench.starts == [(100.0, "b")]
    state = bench.store.recall_host(HOST)
    assert state is not None
    assert (state.visits, state.blocked_until_at, state.failures) == (2, 100.0, 1)


async def test_block_that_is_heard_of_at_an_end_is_told_to_who_awaits_the_bound() -> None:
    """A turn ends, and with it comes what another gate learnt: who waits for a place alone is not left to wait on."""
    bench = Bench(delay=0.0, slots=2, concurrency=1)
    lane = await bench.lane()
    first = await lane.admit(ORIGIN, bound=bench.bound)
    before = asyncio.create_task(bench.bound.acquire())
    await settle()
    (waiting,) = bench.visits("a")
    await settle()
    lane.pump()
    bench.store.remember_host(HOST, HostState(blocked_at=0.0, blocked_until_at=302.0, failures=1))
    await asyncio.sleep(1.0)
    assert not waiting.done()
    first.end()
    place = await before
    await settle()
    assert waiting.done()
    with pytest.raises(HostUnavailableError):
        await waiting
    place.release()
    assert (now(), lane.open_turns, bench.bound.free) == (1.0, 0, 1)


async def test_longer_delay_holds_for_who_waits_already() -> None:
    """A Crawl-delay that is learnt while people wait spaces them from then on."""
    bench = Bench(delay=1.0)
    tasks = bench.visits("a", "b", "c", "d")
    await asyncio.sleep(1.5)
    (await bench.lane()).ask(ORIGIN, crawl_delay(10.0))
    await asyncio.gather(*tasks)
    assert bench.starts == [(0.0, "a"), (1.0, "b"), (11.0, "c"), (21.0, "d")]


async def test_longest_delay_of_several_origins_holds() -> None:
    """The origins of one host share its lane: the longest wish and our own floor hold."""
    bench = Bench(delay=2.0)
    lane = await bench.lane()
    lane.ask(ORIGIN, crawl_delay(0.5))
    assert lane.delay == 2.0
    lane.ask(Origin("https", HOST, 443), crawl_delay(7.0))
    lane.ask(Origin("http", HOST, 8080), crawl_delay(3.0))
    await asyncio.gather(*bench.visits("a", "b"))
    assert bench.starts == [(0.0, "a"), (7.0, "b")]


async def test_nested_turn_is_an_error() -> None:
    """A task that would wait for itself is told so, and its own turn goes on."""
    bench = Bench(delay=1.0)
    lane = await bench.lane()
    admission = await lane.admit(ORIGIN, bound=bench.bound)
    with pytest.raises(NestedTurnError, match=r"a\.example"):
        await lane.admit(ORIGIN, bound=bench.bound)
    admission.end()
    await bench.visit("after")
    assert bench.starts == [(1.0, "after")]


async def test_nested_turn_with_a_slot_to_spare() -> None:
    """Where another slot is free, a second turn inside the first is no deadlock."""
    bench = Bench(delay=1.0, slots=2)
    lane = await bench.lane()
    outer = await lane.admit(ORIGIN, bound=bench.bound)
    inner = await lane.admit(ORIGIN, bound=bench.bound)
    assert now() == 1.0
    inner.end()
    outer.end()


async def test_close_sends_everybody_away(pending_timers: Callable[[], int]) -> None:
    """Closing ends every wait with GateClosedError and leaves neither timer nor task."""
    bench = Bench(delay=10.0)
    tasks = bench.visits("a", "b", "c")
    await asyncio.sleep(1.0)
    lane = await bench.lane()
    bench.lanes.close()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None), GateClosedError, GateClosedError]
    with pytest.raises(GateClosedError):
        await lane.admit(ORIGIN, bound=bench.bound)
    with pytest.raises(GateClosedError):
        await bench.lane()
    assert pending_timers() == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_ending_twice_is_ending_once() -> None:
    """Neither the slot nor the bound is given back twice, and late news is not heard."""
    bench = Bench(delay=1.0, concurrency=1)
    admission = await (await bench.lane()).admit(ORIGIN, bound=bench.bound)
    admission.end()
    await asyncio.sleep(5.0)
    admission.end()
    admission.report(status=429, retry_after=100.0, bytes_read=7)
    assert bench.bound.free == 1
    state = bench.store.recall_host(HOST)
    assert state is not None
    assert (state.last_visit_at, state.bytes_read, state.blocked_until_at) == (0.0, 0, 0.0)


async def test_lane_is_dropped_when_idle_and_served(pending_timers: Callable[[], int]) -> None:
    """A lane goes when its politeness is served and it has been idle for a while, not before."""
    bench = Bench(delay=40.0)
    await bench.visit("a")
    await asyncio.sleep(39.0)
    assert len(bench.lanes) == 1
    await asyncio.sleep(2.0)
    assert (len(bench.lanes), pending_timers()) == (0, 0)


async def test_short_delay_keeps_the_lane_for_a_while() -> None:
    """Making a lane costs more than keeping it for ten seconds."""
    bench = Bench(delay=1.0)
    await bench.visit("a")
    await asyncio.sleep(IDLE_LINGER - 1.0)
    assert len(bench.lanes) == 1
    await asyncio.sleep(2.0)
    assert len(bench.lanes) == 0


async def test_idle_lanes_have_one_timer_among_them(pending_timers: Callable[[], int]) -> None:
    """And go one by one, each ten seconds after its own last visit."""
    bench = Bench(delay=0.0)
    for number in range(20):
        lane = await bench.lanes.lane(f"host-{number}")
        (await lane.admit(ORIGIN, bound=bench.bound)).end()
        await asyncio.sleep(1.0)
    assert pending_timers() == 1
    assert {f"host-{number}" for number in range(20) if bench.lanes.peek(f"host-{number}")} >= {
        f"host-{number}" for number in range(11, 20)
    }
    assert 9 <= len(bench.lanes) <= 11
    await asyncio.sleep(IDLE_LINGER + 1.0)
    assert (len(bench.lanes), pending_timers()) == (0, 0)


async def test_lane_that_goes_leaves_nothing_to_the_collector() -> None:
    """A crawl makes and drops lanes all the time: nothing in one leads back to it."""
    bench = Bench(delay=1.0)
    lane_ids = {id(await bench.lane())}
    gc.disable()
    try:
        # One alone: the loop of these tests keeps the timers that waiters had.
        await bench.visit("a")
        await asyncio.sleep(IDLE_LINGER + 2.0)
        assert len(bench.lanes) == 0
        left = [thing for thing in gc.get_objects() if isinstance(thing, Lane) and id(thing) in lane_ids]
        assert left == []
    finally:
        gc.enable()


async def test_lane_made_only_to_look_at_is_dropped(pending_timers: Callable[[], int]) -> None:
    """Nobody ever asked it for a turn."""
    bench = Bench(delay=1.0)
    lane = await bench.lane()
    assert (lane.wait(ORIGIN), len(bench.lanes)) == (0.0, 1)
    await asyncio.sleep(IDLE_LINGER + 1.0)
    assert (len(bench.lanes), pending_timers()) == (0, 0)


async def test_lane_made_only_to_read_its_wait_is_dropped_when_it_is_served() -> None:
    """It knows from the store what the host is owed."""
    first = Bench(delay=40.0)
    await first.visit("a")
    first.lanes.close()
    bench = Bench(delay=1.0, store=first.store)
    assert (await bench.lane()).wait(ORIGIN) == 40.0
    await asyncio.sleep(39.0)
    assert len(bench.lanes) == 1
    await asyncio.sleep(IDLE_LINGER + 2.0)
    assert len(bench.lanes) == 0


async def test_block_keeps_the_lane() -> None:
    """A blocked host's lane stays as long as the block."""
    bench = Bench(delay=1.0)
    await bench.visit("a", status=429, retry_after=DAY)
    await asyncio.sleep(DAY - 1.0)
    assert len(bench.lanes) == 1
    await asyncio.sleep(12.0)
    assert len(bench.lanes) == 0


async def test_next_lane_knows_what_the_last_one_did() -> None:
    """What a lane leaves in the store, another gate's lane waits for."""
    first = Bench(delay=30.0)
    await first.visit("a", takes=2.0)
    first.lanes.close()
    second = Bench(delay=1.0, store=first.store)
    await second.visit("b")
    assert second.starts == [(32.0, "b")]


async def test_lane_made_for_a_blocked_host_is_dropped() -> None:
    """A lane whose first visitor is refused because of a block does not stay for ever."""
    store = MemoryStore()
    store.remember_host(HOST, HostState(blocked_until_at=1000.0))
    bench = Bench(store=store)
    with pytest.raises(HostUnavailableError):
        await bench.visit("a")
    await asyncio.sleep(1000.0 + 2 * IDLE_LINGER)
    assert len(bench.lanes) == 0


async def test_lane_emptied_by_another_gates_block_is_dropped() -> None:
    """A lane whose waiters are all refused because of what another gate learnt does not stay for ever."""
    bench = Bench(delay=1.0)
    other = Bench(delay=1.0, store=bench.store)
    await bench.visit("a")
    waiting = bench.visits("b")
    await settle()
    bench.store.remember_host(
        HOST, HostState(last_visit_at=0.0, next_allowed_at=1.0, blocked_until_at=1000.0)
    )
    with pytest.raises(HostUnavailableError):
        await waiting[0]
    await asyncio.sleep(1000.0 + 2 * IDLE_LINGER)
    assert (len(bench.lanes), len(other.lanes)) == (0, 0)


async def test_one_timer_for_ten_thousand_waiters(pending_timers: Callable[[], int]) -> None:
    """Ten thousand waiters are one timer, all served in order, none sooner than asked."""
    bench = Bench(delay=1.0)
    tasks = bench.visits(*map(str, range(10_000)))
    await asyncio.sleep(0.5)
    lane = await bench.lane()
    # Theirs, and that of all lanes which are idle.
    assert (lane.waiting, pending_timers()) == (9_999, 2)
    await asyncio.gather(*tasks)
    assert bench.starts == [(float(number), str(number)) for number in range(10_000)]


async def test_two_gates_on_one_store_share_the_pace() -> None:
    """Between the starts of two gates that share a store the delay passes too."""
    one = Bench(delay=1.0)
    other = Bench(delay=1.0, store=one.store)
    tasks = [task for number in range(5) for bench in (one, other) for task in bench.visits(f"{number}")]
    await asyncio.gather(*tasks)
    instants = sorted(at for at, _ in one.starts + other.starts)
    assert instants == [float(second) for second in range(10)]
    state = one.store.recall_host(HOST)
    assert state is not None
    assert state.visits == 10


async def test_wait_tells_the_next_start_at_the_earliest() -> None:
    """What a lane tells of its next turn is what the next visitor gets."""
    bench = Bench(delay=3.0)
    lane = await bench.lane()
    assert lane.wait(ORIGIN) == 0.0
    await bench.visit("a", takes=1.0)
    assert lane.wait(ORIGIN) == 3.0
    await asyncio.sleep(1.0)
    assert lane.wait(ORIGIN) == 2.0
    await bench.visit("b")
    assert bench.starts[-1] == (4.0, "b")
