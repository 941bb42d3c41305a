"""One pace for a fleet: several stores with connections of their own at one real server are its workers."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
from tests.clocks import InterruptedClock
from tests.stores.redis_parts import fresh_prefix
from tests.stores.redis_workers import HOST

from robotgate import HostState, OptionError, Postponed, StoreError, SystemClock
from robotgate.stores.redis import Degraded, RedisStore

if TYPE_CHECKING:
    from tests.redis_server import RedisServer
    from tests.stores.redis_workers import Fleet, Worker

    from robotgate.stores.redis._calls import Call

DELAY: Final = 0.2
GRAIN: Final = 1e-5
"""Seconds; two clocks of a machine agree to less."""
LEASE: Final = 1.0


@pytest.fixture
def server(every_server: RedisServer) -> RedisServer:
    """One for all tests of this file."""
    return every_server


async def due(worker: Worker, delay: float = DELAY) -> None:
    """Visit the host once, so that nothing of the fleet's beginning is left to wait for, and it is due."""
    worker_gone = await worker.get(delay=delay)
    worker.give_back()
    await worker.heard()
    assert worker_gone


async def test_servers_time_is_told_too_early_by_nobody_who_is_interrupted(server: RedisServer) -> None:
    """Whatever comes between a look at our clock and what is done with it: the server's is that of this machine."""
    store = RedisStore(server.url, prefix=fresh_prefix(), clock=InterruptedClock())
    async with store:
        for number in range(10):
            await store.load_host(f"{number}.example")
        told = store._turns.calls.server
        now = SystemClock().now()
        assert told.here(now) >= now - GRAIN
        assert told.there(now) >= now - GRAIN


async def test_one_at_a_time(fleet: Fleet) -> None:
    """Who asks while another's request is under way is told no, and the delay counts from its end."""
    one, two = await fleet.join(), await fleet.join()
    await one.get(delay=DELAY)
    one.begin(delay=DELAY)
    answer = await two.ask(delay=DELAY)
    assert answer is not None
    assert answer.again_at >= two.clock.now() + DELAY / 2
    await asyncio.sleep(DELAY)
    ended_at = one.end(delay=DELAY)
    assert await two.get(delay=DELAY) - ended_at >= DELAY - GRAIN


async def test_end_that_is_told_late_counts_from_when_it_was(fleet: Fleet) -> None:
    """News that wait for the server are no later for it: the delay counts from the end, whenever that was heard of."""
    one, two = await fleet.join(), await fleet.join()
    await one.get(delay=DELAY)
    one.begin(delay=DELAY)
    ended_at = one.end(delay=DELAY)
    fleet.server.pause()
    try:
        await asyncio.sleep(2 * DELAY)
    finally:
        fleet.server.resume()
    await one.heard()
    answer = await two.ask(delay=DELAY)
    assert answer is None, answer
    assert two.clock.now() - ended_at >= DELAY


async def test_several_at_a_time(fleet: Fleet) -> None:
    """With several slots the delay counts from start to start over the fleet, from where a request was really sent."""
    one, two, three = [await fleet.join() for _ in range(3)]
    await one.get(slots=2, delay=DELAY)
    await asyncio.sleep(DELAY / 2)
    # It could be sent at any moment: whoever comes waits a whole delay from then, and not from when it was reserved.
    first_at = one.begin(delay=DELAY)
    await two.get(slots=2, delay=DELAY)
    second_at = two.begin(delay=DELAY)
    assert second_at - first_at >= DELAY - GRAIN
    answer = await three.ask(slots=2, delay=DELAY)
    assert answer is not None, "three are under way where two may be"
    one.end(slots=2, delay=DELAY)
    third_at = await three.get(slots=2, delay=DELAY)
    assert third_at - second_at >= DELAY - GRAIN


async def test_without_delay(fleet: Fleet) -> None:
    """Where no delay is kept, slots are kept all the same."""
    one, two = await fleet.join(), await fleet.join()
    await one.get(delay=0.0)
    one.begin(delay=0.0)
    assert await two.ask(delay=0.0) is not None
    one.end(delay=0.0)
    await two.get(delay=0.0)


async def test_given_back(fleet: Fleet) -> None:
    """What was reserved and is not sent was never there, while nobody has booked since: no delay, no visit."""
    one, two = await fleet.join(), await fleet.join()
    await due(one)
    assert await one.ask(delay=DELAY) is None
    one.give_back()
    await one.heard()
    assert await two.ask(delay=DELAY) is None
    two.begin(delay=DELAY)
    two.end(delay=DELAY)
    await two.heard()
    state = await (await fleet.join()).store.load_host(HOST)
    assert state is not None
    assert state.visits == 1


@pytest.mark.parametrize("turns", range(5))
async def test_cancelled(fleet: Fleet, turns: int) -> None:
    """Whenever who asks is cancelled, nothing is left taken, and no place in the line."""
    one, two = await fleet.join(), await fleet.join()
    await due(one)
    asking = asyncio.create_task(one.ask(delay=DELAY))
    for _ in range(turns):
        await asyncio.sleep(0)
    asking.cancel()
    with suppress(asyncio.CancelledError):
        if await asking is None:
            one.give_back()
    await one.heard()
    assert await two.ask(delay=DELAY) is None


async def test_cancelled_while_the_server_thinks(fleet: Fleet) -> None:
    """A yes that comes when nobody waits for it any more is given back."""
    one, two = await fleet.join(), await fleet.join()
    await due(one)
    fleet.server.pause()
    try:
        asking = asyncio.create_task(one.ask(delay=DELAY))
        await asyncio.wait({asking}, timeout=0.05)
        asking.cancel()
        await asyncio.wait({asking})
        assert asking.cancelled()
    finally:
        fleet.server.resume()
    await one.heard()
    assert await two.ask(delay=DELAY) is None


async def test_yes_that_took_too_long(fleet: Fleet) -> None:
    """A yes that was under way for half the lease may be over when the request is sent: it is asked for anew."""
    one, two = await fleet.join(lease=LEASE), await fleet.join()
    await due(one, delay=0.0)
    fleet.server.pause()
    try:
        asking = asyncio.create_task(one.ask(delay=0.0))
        await asyncio.wait({asking}, timeout=LEASE * 0.7)
    finally:
        fleet.server.resume()
    assert await asking is None
    assert len(one.store._turns.open.at(HOST)) == 1
    one.begin(delay=0.0)
    assert await two.ask(delay=0.0) is not None
    one.end(delay=0.0)
    await one.heard()
    assert await two.ask(delay=0.0) is None


async def test_lease_is_renewed(fleet: Fleet) -> None:
    """A request may take longer than its lease, while its process lives."""
    one, two = await fleet.join(lease=LEASE), await fleet.join(lease=LEASE)
    await one.get(delay=0.05)
    one.begin(delay=0.05)
    end = one.clock.now() + 2.5 * LEASE
    while two.clock.now() < end:
        answer = await two.ask(delay=0.05)
        assert answer is not None, "the lease of a request under way has run out"
        await asyncio.sleep(max(answer.again_at - two.clock.now(), 0.05))
    one.end(delay=0.05)
    await two.get(delay=0.05)


async def test_dead_worker(fleet: Fleet) -> None:
    """Of one who gives no sign of life any more, the request is taken to end with its lease, and the delay follows."""
    one, two = await fleet.join(lease=LEASE), await fleet.join(lease=LEASE)
    await one.get(delay=DELAY)
    begun_at = one.begin(delay=DELAY)
    one.store._turns.publishing.stop()
    waited = await two.get(delay=DELAY) - begun_at
    assert LEASE + DELAY - 0.1 <= waited <= 2 * LEASE


async def test_frozen_worker_comes_back(fleet: Fleet) -> None:
    """Who was taken for dead, and was not, has his say: the end of his request counts, and breaks nothing."""
    one, two = await fleet.join(lease=LEASE), await fleet.join(lease=LEASE)
    await one.get(delay=DELAY)
    one.begin(delay=DELAY)
    one.store._turns.publishing.stop()
    await two.get(delay=DELAY)
    two.begin(delay=DELAY)
    two.end(delay=DELAY)
    ended_at = one.end(delay=DELAY)
    await one.heard()
    assert await two.get(delay=DELAY) - ended_at >= DELAY - GRAIN


async def test_closed_worker_leaves_nothing(fleet: Fleet) -> None:
    """Who goes in peace ends what he has under way."""
    one, two = await fleet.join(), await fleet.join()
    await one.get(delay=DELAY)
    one.begin(delay=DELAY)
    await one.store.aclose()
    answer = await two.ask(delay=DELAY)
    assert answer is not None
    assert answer.again_at - two.clock.now() <= DELAY
    await two.get(delay=DELAY)


async def test_blocks_reach_the_fleet(fleet: Fleet) -> None:
    """A block is heard of by whoever asks; the longer one holds, whoever knows of it."""
    one, two = await fleet.join(), await fleet.join()
    now = one.clock.now()
    one.store.remember_host(HOST, HostState(blocked_at=now, blocked_until_at=now + 100, failures=1))
    two.store.remember_host(HOST, HostState(blocked_at=now, blocked_until_at=now + 200, failures=1))
    await one.heard()
    await two.heard()
    answer = await one.ask()
    assert isinstance(answer, Postponed)
    assert answer.again_at == pytest.approx(now + 200, abs=0.1)
    assert answer.state.blocked_until_at == pytest.approx(now + 200, abs=0.1)
    assert answer.state.failures == 1, "one incident counts once, however many hear of it"


async def test_forgiveness_reaches_the_fleet(fleet: Fleet) -> None:
    """Failures fall where it is time, and not before: who has not heard of a block does not forgive it."""
    one, two, three = [await fleet.join() for _ in range(3)]
    now = one.clock.now()
    long_ago = now - 4000
    failed = HostState(blocked_at=long_ago, blocked_until_at=long_ago + 60, failures=3)
    one.store.remember_host(HOST, failed)
    one.store.remember_host(HOST, replace(failed, failures=0))
    await one.heard()
    assert (await two.store.load_host(HOST) or failed).failures == 0
    one.store.remember_host(HOST, HostState(blocked_at=now, blocked_until_at=now + 60, failures=2))
    await one.heard()
    # It knows but the old state, and finds it forgiven.
    two.store.remember_host(HOST, replace(failed, failures=1))
    two.store.remember_host(HOST, replace(failed, failures=0))
    await two.heard()
    assert (await three.store.load_host(HOST) or failed).failures == 2


async def test_counts_add_up(fleet: Fleet) -> None:
    """Visits and octets of all workers are counted together, and once; what a response took is the latest's."""
    workers = [await fleet.join() for _ in range(3)]
    for round_ in range(4):
        for worker in workers:
            await worker.get(delay=0.0)
            worker.begin(delay=0.0)
            worker.end(delay=0.0, bytes_read=100, latency=0.25)
            await worker.heard()
            assert round_ >= 0
    state = await (await fleet.join()).store.load_host(HOST)
    assert state is not None
    assert state.visits == 12
    assert state.bytes_read == 1200
    assert state.latency == pytest.approx(0.25)


async def test_what_is_sent_twice_counts_once(fleet: Fleet) -> None:
    """A batch may be sent again whose answer was lost: nothing in it is done twice."""
    one = await fleet.join()
    link = one.store._turns.calls._link
    sent = []
    add = link._waiting.add

    def twice(call: Call) -> None:
        # The first time, nobody hears of it.
        add(call._replace(reply=None, heard=lambda *_: None))
        sent.append(call)
        add(call)

    link._waiting.add = twice  # type: ignore[method-assign]
    for _ in range(3):
        await one.get(delay=0.05)
        one.begin(delay=0.05)
        one.end(delay=0.05, bytes_read=10)
    await one.heard()
    state = await (await fleet.join()).store.load_host(HOST)
    assert sent
    assert state is not None
    assert (state.visits, state.bytes_read) == (3, 30)


async def test_states_come_back(fleet: Fleet) -> None:
    """What one remembers, another loads; and the one has it at once, to the last bit."""
    one, two = await fleet.join(), await fleet.join()
    now = one.clock.now()
    state = HostState(
        last_visit_at=now - 5, next_allowed_at=now + 5, visits=7, bytes_read=2**40, latency=0.125
    )
    one.store.remember_host(HOST, state)
    assert one.store.recall_host(HOST) == state
    assert await one.store.load_host(HOST) == state
    await one.heard()
    loaded = await two.store.load_host(HOST)
    assert loaded is not None
    assert loaded.last_visit_at == pytest.approx(now - 5, abs=0.05)
    assert loaded.next_allowed_at >= now + 5 - GRAIN
    assert (loaded.visits, loaded.bytes_read, loaded.latency) == (7, 2**40, 0.125)
    assert two.store.recall_host(HOST) == loaded
    assert await two.store.load_host("other.example") is None


async def test_keys_of_hosts_go(fleet: Fleet) -> None:
    """Every key has an end, beyond whatever it keeps anybody waiting for."""
    one = await fleet.join()
    now = one.clock.now()
    one.store.remember_host("far.example", HostState(blocked_until_at=now + 90 * 86_400, failures=1))
    await one.get()
    one.begin()
    one.end()
    await one.ask("line.example", delay=30.0)
    await one.heard()
    client = one.store._client
    keys = await client.keys(f"{fleet.prefix}*")
    ends = {key: await client.pttl(key) for key in keys}
    assert len(ends) >= 256 + 4
    assert min(ends.values()) > 30 * 86_400_000
    far = ends[one.store._turns.calls._keys.host("far.example")]
    assert far > 120 * 86_400_000


async def test_memory_is_bounded(fleet: Fleet, server: RedisServer) -> None:
    """Of hosts that may be visited, no more are kept than was said; none goes that is being visited."""
    store = RedisStore(server.url, prefix=fleet.prefix, max_hosts=20)
    try:
        await store.open()
        await store.reserve(HOST, state=HostState(), now=0.0, slots=1, delay=0.0)
        store.begin_visit(HOST, HostState(last_visit_at=1.0, visits=1))
        for number in range(200):
            store.remember_host(f"host{number}.example", HostState(last_visit_at=1.0, visits=1))
            await store.load_host(f"host{number}.example")
        assert len(store._turns.memory.states) <= 22
        assert store.recall_host(HOST) is not None
        loaded = await store.load_host("host0.example")
        assert loaded is not None
        assert loaded.visits == 1
    finally:
        await store.aclose()


async def test_closed_store_says_so(fleet: Fleet) -> None:
    """Once closed, nothing is taken in."""
    one = await fleet.join()
    await one.store.aclose()
    with pytest.raises(StoreError, match="closed"):
        await one.ask()
    with pytest.raises(StoreError, match="closed"):
        one.store.remember_host(HOST, HostState())
    one.store.withdraw(HOST)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"prefix": 3}, "prefix"),
        ({"lease": 0.5}, "lease"),
        ({"patience": -1}, "patience"),
        ({"max_age": 1}, "max_age"),
        ({"max_hosts": 0}, "max_hosts"),
        ({"degraded": "fast"}, "degraded"),
    ],
)
def test_options_without_sense(options: dict[str, object], named: str) -> None:
    """A wrong option is refused by name before anything is connected to."""
    with pytest.raises(OptionError, match=named):
        RedisStore("redis://127.0.0.1:1", **options)  # type: ignore[arg-type]


def test_degraded_by_name() -> None:
    """The name of a choice is as good as the choice."""
    store = RedisStore("redis://127.0.0.1:1", degraded="local")
    assert store.degraded is Degraded.LOCAL
