"""How much the store in memory keeps, what goes first, and what never does; and listing and weeding it by hand."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import replace
from typing import Final

import pytest

from robotgate import HostState, MemoryStore, OptionError, Origin, RobotsRecord
from robotgate._check_store import check_store
from robotgate._pacing import FORGIVEN_AFTER
from robotgate._ports import Catalogue, Pruned
from robotgate._status import Outcome
from robotgate.stores.memory import LONGEST_DELAY

NOW: Final = 1_795_233_600.0


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


def known_hosts(store: MemoryStore) -> list[str]:
    """The oldest first."""
    return list(store._hosts)


@pytest.mark.parametrize("value", [0, -1, 1.0, "1", True, None])
def test_bound_that_makes_no_sense_is_refused(value: int) -> None:
    """By name, when the store is made."""
    with pytest.raises(OptionError, match=r"^max_hosts="):
        MemoryStore(max_hosts=value)


async def test_bounded_store_passes_the_suite() -> None:
    """Though it is full from the second host on: what the suite remembers was visited at one time."""
    await check_store(lambda: MemoryStore(max_hosts=5))


async def test_oldest_records_go_first() -> None:
    """One that is saved again is as young as any."""
    store = MemoryStore(max_hosts=3)
    for number in (0, 1, 2, 0, 3, 4):
        await store.save_record(record(number))
    assert [await store.load_record(origin(number)) for number in range(5)] == [
        record(0),
        None,
        None,
        record(3),
        record(4),
    ]


def test_oldest_hosts_go_first() -> None:
    """One that is visited again is as young as any; nothing but a visit tells what time it is."""
    store = MemoryStore(max_hosts=3)
    at = NOW
    for name in ("a", "b", "c", "a", "d", "e"):
        at += 2 * LONGEST_DELAY
        store.remember_host(name, visited(at))
    assert known_hosts(store) == ["a", "d", "e"]


def test_host_visited_just_now_never_goes() -> None:
    """Its site may yet ask for a delay that counts from this visit; another gate may go by it."""
    store = MemoryStore(max_hosts=2)
    for number in range(100):
        store.remember_host(str(number), visited(NOW + number))
    assert len(known_hosts(store)) == 100
    for number in range(100, 200):
        store.remember_host(str(number), visited(NOW + LONGEST_DELAY + 200 + number))
    assert len(known_hosts(store)) == 100
    assert "0" not in known_hosts(store)


@pytest.mark.parametrize(
    ("state", "until_at"),
    [
        (HostState(last_visit_at=NOW, next_allowed_at=NOW + 5000.0), NOW + 5000.0),
        (HostState(last_visit_at=NOW, blocked_at=NOW, blocked_until_at=NOW + 5000.0), NOW + 5000.0),
        (
            HostState(last_visit_at=NOW, blocked_at=NOW, blocked_until_at=NOW + 60.0, failures=1),
            NOW + 60.0 + FORGIVEN_AFTER,
        ),
    ],
)
def test_host_that_is_owed_a_wait_never_goes(state: HostState, until_at: float) -> None:
    """However many come after it; when the wait is served it goes as the oldest that it is."""
    store = MemoryStore(max_hosts=10)
    store.remember_host("owed", state)
    at, number = NOW, 0
    while at + 50.0 < until_at:
        at, number = at + 50.0, number + 1
        store.remember_host(str(number), visited(at))
        assert store.recall_host("owed") == state
    assert len(known_hosts(store)) <= 11 + LONGEST_DELAY / 50
    for more in range(40):
        store.remember_host(f"more{more}", visited(until_at + 50.0 * more))
    assert store.recall_host("owed") is None


async def test_leases_are_no_hosts() -> None:
    """Who holds one keeps it, whatever comes and goes."""
    store = MemoryStore(max_hosts=1)
    async with store.lease(origin(0)):
        waiting = asyncio.create_task(store.lease(origin(0)).__aenter__())
        for number in range(50):
            await store.save_record(record(number))
            store.remember_host(str(number), visited(NOW + 1e4 * number))
        await asyncio.sleep(0)
        assert not waiting.done()
    await waiting


@pytest.mark.parametrize("seed", range(20))
def test_nothing_that_binds_ever_goes(seed: int) -> None:
    """Whatever is visited, and blocked, in whatever order: what is gone was served, by the clock of who was there."""
    chance = random.Random(seed)
    store, told, at = MemoryStore(max_hosts=chance.choice([1, 5, 30])), {}, NOW
    for _ in range(2000):
        at += chance.choice([0.0, 0.1, 1.0, 30.0, 400.0])
        name = str(chance.randrange(60))
        blocked = chance.random() < 0.1
        state = HostState(
            last_visit_at=at,
            next_allowed_at=at + chance.choice([0.0, 1.0, 60.0]),
            blocked_at=at if blocked else 0.0,
            blocked_until_at=at + chance.choice([60.0, 86_400.0]) if blocked else 0.0,
            failures=int(blocked),
        )
        told[name] = state
        store.remember_host(name, state)
        for known, last in told.items():
            if store.recall_host(known) is None:
                assert max(last.next_allowed_at, last.blocked_until_at) <= at
                assert (last.last_visit_at or 0.0) + 60.0 <= at
            else:
                assert store.recall_host(known) == last


def test_remembering_costs_the_same_when_nothing_may_go() -> None:
    """A hundred thousand hosts that are all blocked for a day, in a store for ten: each is a few looks."""
    store = MemoryStore(max_hosts=10)
    began_at = time.perf_counter()
    for number in range(100_000):
        store.remember_host(str(number), HostState(blocked_at=NOW, blocked_until_at=NOW + 86_400.0))
    assert time.perf_counter() - began_at < 10.0
    assert len(known_hosts(store)) == 100_000


async def test_it_can_be_listed() -> None:
    """Records by origin, hosts by pace key, whatever goes meanwhile."""
    store = MemoryStore()
    assert isinstance(store, Catalogue)
    for number in (3, 1, 2):
        await store.save_record(record(number))
        store.remember_host(f"{number}.example", visited(NOW + number))
    listed = []
    async for found in store.records():
        listed.append(found)
        await store.forget_record(origin(2))
    assert listed == [record(1), record(2), record(3)]
    hosts = []
    async for host in store.hosts():
        hosts.append(host)
        await store.forget_host("2.example")
    assert hosts == [(f"{number}.example", visited(NOW + number)) for number in (1, 2, 3)]
    assert [found async for found in store.records()] == [record(1), record(3)]
    assert [name async for name, _ in store.hosts()] == ["1.example", "3.example"]


async def test_it_forgets_what_it_is_told_to() -> None:
    """Once; a host also when its wait is not served."""
    store = MemoryStore()
    await store.save_record(record(1))
    store.remember_host("a", visited(NOW, delay=1e6))
    assert [await store.forget_record(origin(1)), await store.forget_record(origin(1))] == [True, False]
    assert [await store.forget_host("a"), await store.forget_host("a")] == [True, False]
    assert await store.load_record(origin(1)) is None
    assert await store.load_host("a") is None


async def test_pruning_goes_by_the_hour_it_is_told() -> None:
    """What could not go when it was remembered goes now, the oldest first, and what may still not go stays."""
    store = MemoryStore(max_hosts=1000)
    for number in range(5000):
        blocked_until_at = NOW + 90_000.0 if number % 10 == 0 else 0.0
        store.remember_host(
            str(number), HostState(last_visit_at=NOW + number / 100, blocked_until_at=blocked_until_at)
        )
    assert await store.prune(now=NOW + 60.0) == Pruned(records=0, hosts=0)
    assert await store.prune(now=NOW + 3600.0) == Pruned(records=0, hosts=4000)
    left = [int(name) for name in known_hosts(store)]
    assert {number for number in range(5000) if number % 10 == 0} <= set(left)
    assert min(number for number in left if number % 10) > 4000
    assert await store.prune(now=NOW + 3600.0) == Pruned(records=0, hosts=0)


async def test_records_come_by_host_then_port_then_scheme() -> None:
    """As of any `Catalogue`: whoever lists hosts and records side by side relies on it."""
    origins = [
        Origin("http", "a.example", 80),
        Origin("https", "a.example", 443),
        Origin("http", "a.example", 8080),
        Origin("https", "a.example", 8080),
        Origin("http", "b.example", 80),
        Origin("https", "b.example", 443),
    ]
    store = MemoryStore()
    for place in reversed(origins):
        await store.save_record(replace(record(0), origin=place))
    assert [found.origin async for found in store.records()] == origins
