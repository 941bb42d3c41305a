"""The store in memory: what it keeps, what goes first and what never does, and gates that share it."""

from __future__ import annotations

import asyncio
import math
import random
from dataclasses import fields
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robotgate import MemoryStore, OptionError, Origin, StoreError
from robotgate.pace.state import FORGIVEN_AFTER, Kind
from robotgate.sites import RobotsRecord
from robotgate.sites.status_table import Outcome
from robotgate.stores import HostState, OperatorBlock, Pruned, Wanted
from robotgate.stores.memory import LONGEST_DELAY

NOW: Final = 1_795_233_600.0


seconds = st.sampled_from([0.0, math.inf]) | st.floats(0, 4e9)
texts = st.text(max_size=9)
VALUES: Final[dict[Kind, st.SearchStrategy[object]]] = {
    Kind.INSTANT: seconds,
    Kind.DURATION: seconds,
    Kind.LEARNED: seconds,
    Kind.COUNT: st.integers(0, 2**70),
    Kind.STARTS: st.lists(st.tuples(seconds, st.integers(0, 99)), max_size=4).map(tuple),
}


def origin(number: int) -> Origin:
    """One of many."""
    return Origin("https", f"{number:04}.example", 443)


def record(number: int) -> RobotsRecord:
    """What is known of its robots.txt."""
    return RobotsRecord(
        origin=origin(number), outcome=Outcome.MISSING, checked_at=NOW, fresh_until_at=NOW + 86_400
    )


def visited(at: float, *, delay: float = 1.0) -> HostState:
    """A host at the end of a visit."""
    return HostState(last_visit_at=at, next_allowed_at=at + delay, visits=1)


async def known(store: MemoryStore) -> set[str]:
    """The hosts that it knows."""
    return {name async for name, _ in store.hosts()}


@pytest.mark.parametrize("value", [0, -1, 1.0, "1", True, None])
def test_bound_that_makes_no_sense_is_refused(value: int) -> None:
    """By name, when the store is made."""
    with pytest.raises(OptionError, match=r"^max_hosts="):
        MemoryStore(max_hosts=value)


@given(
    st.builds(
        HostState,
        **{
            field.name: VALUES[field.metadata["kind"]] | st.just(field.default) for field in fields(HostState)
        },
    ),
    st.builds(
        RobotsRecord,
        origin=st.builds(
            Origin, st.sampled_from(["http", "https"]), st.sampled_from(["a", "::1"]), st.integers(1, 9)
        ),
        outcome=st.sampled_from(Outcome),
        status=st.none() | st.integers(100, 999),
        cause=st.none() | texts,
        checked_at=seconds,
        fresh_until_at=seconds,
        failures=st.integers(0, 99),
        failing_since_at=st.none() | seconds,
        body=st.binary(max_size=9),
        fetched_at=st.none() | seconds,
        robots_url=texts | st.just("http://a:9/robots.txt"),
        redirects=st.lists(texts, max_size=2).map(tuple),
        etag=st.none() | texts,
        last_modified=st.none() | texts,
    ),
)
async def test_everything_comes_back(state: HostState, kept: RobotsRecord) -> None:
    """To the last bit."""
    store = MemoryStore()
    await store.save_hosts({"a.example": state})
    assert await store.load_host("a.example") == state
    await store.save_record(kept)
    assert await store.load_record(kept.origin) == kept
    assert await store.origins() == [kept.origin]


async def test_oldest_records_go_first() -> None:
    """A record that is saved again is as young as any."""
    store = MemoryStore(max_hosts=3)
    for number in (0, 1, 2, 0, 3, 4):
        await store.save_record(record(number))
    found = [await store.load_record(origin(number)) for number in range(5)]
    assert found == [record(0), None, None, record(3), record(4)]


async def test_oldest_hosts_go_first() -> None:
    """A host that is visited again is as young as any; nothing but a visit tells what time it is."""
    store = MemoryStore(max_hosts=3)
    at = NOW
    for name in ("a", "b", "c", "a", "d", "e"):
        at += 2 * LONGEST_DELAY
        await store.save_hosts({name: visited(at)})
    assert await known(store) == {"a", "d", "e"}


@pytest.mark.parametrize("seed", range(4))
async def test_nothing_that_binds_ever_goes(seed: int) -> None:
    """Whatever is visited, and blocked, in whatever order: the wait of a host that is gone was over."""
    chance = random.Random(seed)
    store, told, at = MemoryStore(max_hosts=chance.choice([1, 5, 30])), {}, NOW
    for _ in range(1000):
        at += chance.choice([0.0, 0.1, 1.0, 30.0, 400.0])
        name = str(chance.randrange(60))
        blocked = chance.random() < 0.1
        state = HostState(
            last_visit_at=at,
            next_allowed_at=at + chance.choice([0.0, 1.0, 60.0]),
            blocked_at=at if blocked else 0.0,
            blocked_until_at=at + chance.choice([60.0, 86_400.0]) if blocked else 0.0,
            failures=int(blocked),
            budget_ends_at=at + chance.choice([0.0, 0.0, 0.0, 60.0, 3600.0]),
        )
        told[name] = state
        await store.save_hosts({name: state})
        for name_told, last in told.items():
            found = await store.load_host(name_told)
            assert found in (None, last)
            if found is None:
                # A site may yet ask for a delay that counts from the last visit, and a block is remembered for a while.
                assert max(last.next_allowed_at, (last.last_visit_at or 0.0) + LONGEST_DELAY) <= at
                assert last.budget_ends_at <= at
                assert last.blocked_until_at + (FORGIVEN_AFTER if last.failures else 0.0) <= at


async def test_pruning_goes_by_the_hour_it_is_told() -> None:
    """A host that had to stay when it was saved goes now, the oldest first, and those that must still stay stay."""
    store = MemoryStore(max_hosts=1000)
    for number in range(5000):
        blocked_until_at = NOW + 90_000.0 if number % 10 == 0 else 0.0
        state = HostState(last_visit_at=NOW + number / 100, blocked_until_at=blocked_until_at)
        await store.save_hosts({str(number): state})
    assert await store.prune(now=NOW + 60.0) == Pruned(records=0, hosts=0)
    assert await store.prune(now=NOW + 3600.0) == Pruned(records=0, hosts=4000)
    left = {int(name) for name in await known(store)}
    assert {number for number in range(5000) if number % 10 == 0} <= left
    assert min(number for number in left if number % 10) > 4000


async def test_listing_goes_on_whatever_goes_meanwhile() -> None:
    """An entry that is forgotten during a listing may still be listed."""
    store = MemoryStore()
    for number in (3, 1, 2):
        await store.save_record(record(number))
    listed = []
    async for found in store.records():
        listed.append(found)
        await store.forget_record(origin(2))
    assert listed == [record(1), record(2), record(3)]
    assert [found async for found in store.records()] == [record(1), record(3)]


async def test_owner_is_asked_once_for_each_grant() -> None:
    """However many others wait; nobody tells a session of its own blocks."""
    store = MemoryStore()
    one, two, three = [await store.session() for _ in range(3)]
    await one.obtain("a.example")
    waiters = [asyncio.create_task(session.obtain("a.example")) for session in (two, three)]
    await asyncio.sleep(0)
    one.publish_block("b.example", NOW)
    two.publish_block("c.example", NOW)
    await asyncio.sleep(0)
    assert await one.news() == [Wanted(frozenset({"a.example"})), OperatorBlock("c.example", NOW)]
    for waiter in waiters:
        waiter.cancel()
    await asyncio.wait(waiters)


def test_gates_of_a_loop_that_has_ended_hold_nothing() -> None:
    """A store may outlive its event loop, and a gate that was not closed there; two loops at a time are refused."""
    store = MemoryStore()

    async def begin() -> None:
        await (await store.session()).obtain("a.example")
        with pytest.raises(StoreError, match="another event loop uses this MemoryStore"):
            await asyncio.to_thread(asyncio.run, store.session())

    async def go_on() -> None:
        grant = await (await store.session()).obtain("a.example")
        assert grant.lease.is_valid()

    asyncio.run(begin())
    asyncio.run(go_on())
