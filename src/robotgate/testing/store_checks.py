"""What every store has to do, as one function that tries it: for authors of stores."""

from __future__ import annotations

import asyncio
import inspect
import math
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from robotgate.clock import SystemClock
from robotgate.errors import StoreError
from robotgate.pace.state import HostState
from robotgate.sites.record import RobotsRecord
from robotgate.sites.status_table import Outcome
from robotgate.stores.base import Catalogue, OperatorBlock, Pruned, Session, SharedStore, Store, Wanted
from robotgate.urls import Origin

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    MakeStore: TypeAlias = Callable[[], Store | Awaitable[Store]]
    MakeAnother: TypeAlias = Callable[[Store], Store | Awaitable[Store]]

T = TypeVar("T")

PATIENCE: Final = 10.0
"""Seconds after which something that should have happened is taken not to happen."""
GLANCE: Final = 0.2
"""Seconds in which something that should not happen would have happened."""
OTHER_CLOCK: Final = 0.05
"""Seconds by which an instant may have moved that went through the clock of a server, and back."""
_WAIT: Final = 3600.0
_DELAY: Final = 5.0

ORIGIN: Final = Origin("https", "shop.example", 443)
OTHER_ORIGINS: Final = (
    Origin("https", "2001:db8::1", 443),
    Origin("http", "shop.example", 80),
    Origin("https", "www.shop.example", 8443),
)
KEY: Final = ORIGIN.host
OTHER_KEYS: Final = ("www.shop.example", "xn--bcher-kva.example", "2001:db8::1", "a" * 253)
ROBOTS_KEY: Final = f"robots|{ORIGIN.text}"
_UNKNOWN: Final = "unknown.example"
RECORD: Final = RobotsRecord(
    origin=ORIGIN,
    outcome=Outcome.FAILURE,
    status=503,
    cause="no answer within 10 s: naïve “quotes”, \U0001f577",
    checked_at=1_795_233_600.123456,
    fresh_until_at=1_795_233_660.654321,
    failures=3,
    failing_since_at=1_795_230_000.5,
    body=bytes(range(256)) * 2000,
    fetched_at=1_795_147_200.25,
    robots_url="https://cdn.example/robots.txt?v=1&w=é",
    redirects=("https://shop.example/robots.txt", "https://www.shop.example/robots.txt"),
    etag='W/"v1"',
    last_modified="Sat, 21 Nov 2026 00:00:00 GMT",
)
BARE_RECORD: Final = RobotsRecord(
    origin=ORIGIN, outcome=Outcome.MISSING, checked_at=1_795_240_000.0, fresh_until_at=1_795_326_400.0
)
STATE: Final = HostState(
    last_visit_at=1_795_233_600.123456,
    next_allowed_at=1_795_233_601.123456,
    blocked_at=1_795_233_590.75,
    blocked_until_at=1_795_233_900.5,
    failures=2,
    visits=41,
    bytes_read=2**40,
    latency=0.1234567,
    learned_delay=1.25,
    limit_delay=0.75,
    eases_at=1_795_233_605.25,
    budget_began_at=1_795_230_000.5,
    budget_ends_at=1_795_237_200.5,
    budget_pages=40,
    budget_bytes=2**33,
    starts=((1_795_233_500.123456, 19), (1_795_233_600.5, 1), (1_795_233_605.75, 0)),
)


async def check_store(make_store: MakeStore, *, make_another: MakeAnother | None = None) -> None:
    """Try everything a gate asks of a store; of a `Catalogue` and of a `SharedStore`, what these promise besides.

    Args:
        make_store: makes a new and empty store, or an awaitable of one, with room for five records and five hosts.
            Called several times; every store it makes is closed with `Store.aclose`.
        make_another: makes one more on the same contents as the given store. It is called only for a store that
            outlives its process: when the first was closed; and for a `SharedStore`, beside the first as well.

    Raises:
        AssertionError: the store does not do what it says; the message says what.
    """
    for check in (_check_records, _check_hosts, _check_closed):
        async with _made(make_store) as store:
            await check(store)
    for check_listing in (_check_lists, _check_forgets, _check_prunes):
        async with _made(make_store) as store:
            if isinstance(store, Catalogue):
                await check_listing(store)
    seconds = [_itself] if make_another is None else [_itself, make_another]
    for check_sharing in (_check_grants, _check_line, _check_keys, _check_blocks):
        for make_second in seconds:
            async with _made(make_store) as store, _made(partial(make_second, store)) as second:
                if isinstance(store, SharedStore):
                    expect(isinstance(second, SharedStore), "make_another: it is no SharedStore")
                    await check_sharing(store, second)  # type: ignore[arg-type] # seen above
    if make_another is not None:
        async with _made(make_store) as store:
            await _check_opened_again(make_another, store)


def _itself(store: Store) -> Store:
    return store


@asynccontextmanager
async def _made(make: MakeStore) -> AsyncIterator[Store]:
    """A new store, which is closed behind the check, and leaves nothing behind."""
    tasks = asyncio.all_tasks()
    made = make()
    store = await made if inspect.isawaitable(made) else made
    try:
        yield store
    finally:
        await in_time(store.aclose(), "aclose: it does not end")
    await in_time(store.aclose(), "aclose: closing a second time does not end")
    left = asyncio.all_tasks() - tasks
    same(left, set(), "aclose: tasks of the store still run")


async def _check_records(store: Store) -> None:
    """A record is kept as it is, beside those of other origins."""
    same(await store.load_record(ORIGIN), None, "load_record: an empty store knows a record")
    for record in (replace(RECORD, body=b""), BARE_RECORD, RECORD):
        await store.save_record(record)
        same(await store.load_record(ORIGIN), record, "load_record: not what was saved last")
    others = _bare_records(OTHER_ORIGINS)
    for other in others:
        found = await store.load_record(other.origin)
        same(found, None, f"load_record: {other.origin} got the record of {ORIGIN}")
    await asyncio.gather(*map(store.save_record, others))
    records = [RECORD, *others]
    loaded = await asyncio.gather(*(store.load_record(record.origin) for record in records))
    for found, record in zip(loaded, records, strict=True):
        same(found, record, f"load_record: the record of {record.origin} is lost, cut or another's")


async def _check_hosts(store: Store) -> None:
    """A state is kept as it is, beside those of other hosts."""
    same(await store.load_host(KEY), None, "load_host: an empty store knows a host")
    later = replace(STATE, next_allowed_at=STATE.next_allowed_at + 1, visits=42, failures=0)
    for state in (HostState(), STATE, later):
        await store.save_hosts({KEY: state})
        same(await store.load_host(KEY), state, "load_host: not what was saved last")
    for key in OTHER_KEYS:
        same(await store.load_host(key), None, f"load_host: {key!r} got the state of {KEY!r}")
    others = {key: replace(STATE, visits=number) for number, key in enumerate(OTHER_KEYS)}
    await store.save_hosts(others)
    loaded = await asyncio.gather(*map(store.load_host, others))
    same(loaded, list(others.values()), "load_host: the state is lost, or another's")
    same(await store.load_host(KEY), later, "save_hosts: saving other hosts changed this one")


async def _check_closed(store: Store) -> None:
    """A closed store goes on, or raises `StoreError`."""
    await store.save_record(RECORD)
    await store.save_hosts({KEY: STATE})
    await in_time(store.aclose(), "aclose: it does not end")
    with suppress(StoreError):
        if (record := await store.load_record(ORIGIN)) is not None:
            same(record, RECORD, "load_record: once closed, it returns a record that was not saved")
    for use in (store.save_record(BARE_RECORD), store.load_host(KEY), store.save_hosts({KEY: STATE})):
        with suppress(StoreError):
            await use


async def _check_opened_again(make_another: MakeAnother, store: Store) -> None:
    """After a clean stop, the store has everything that was saved."""
    await store.save_record(RECORD)
    await store.save_hosts({OTHER_KEYS[0]: HostState(), KEY: STATE})
    await in_time(store.aclose(), "aclose: it does not end")
    async with _made(lambda: make_another(store)) as again:
        record = await again.load_record(ORIGIN)
        expect(record == RECORD, f"aclose: opened again, the record became {record!r}")
        same(await again.load_host(KEY), STATE, "aclose: opened again, the state is another")


# What a `Catalogue` has to do.


async def _check_lists(store: Catalogue) -> None:
    """All that is kept is listed, each once and in order."""
    same(await _all(store.records()), [], "records: an empty store has some")
    same(await _all(store.hosts()), [], "hosts: an empty store has some")
    records, states = await _fill(store)
    same(await _all(store.records()), records, "records: not each origin once, by host, port and scheme")
    same(await _all(store.hosts()), sorted(states.items()), "hosts: not each host once, by pace key")
    for key in (*states, _UNKNOWN):
        same(await store.host(key), states.get(key), f"host: the state of {key!r} is another")
    for host in (KEY, _UNKNOWN):
        of_host = [record.origin for record in records if record.origin.host == host]
        same(await store.origins_of(host), of_host, f"origins_of: not those of {host}, by port and scheme")


async def _check_forgets(store: Catalogue) -> None:
    """What is removed is gone, and nothing else is."""
    records, states = await _fill(store)
    for host, was_known in ((_UNKNOWN, False), (KEY, True), (KEY, False)):
        forgot = await store.forget_record(replace(ORIGIN, host=host))
        same(forgot, was_known, f"forget_record: not whether there was one of {host}")
        same(await store.forget_host(host), was_known, f"forget_host: not whether there was one of {host}")
    same(await store.load_record(ORIGIN), None, "forget_record: the record is still there")
    same(await store.load_host(KEY), None, "forget_host: the state is still there")
    others = [record for record in records if record.origin != ORIGIN]
    same(await _all(store.records()), others, "forget_record: others went, too")
    del states[KEY]
    same(await _all(store.hosts()), sorted(states.items()), "forget_host: others went, too")


async def _check_prunes(store: Catalogue) -> None:
    """A host whose wait is not over stays, however old it is; what is reported as removed is gone."""
    records, states = await _fill(store)
    pruned = await store.prune(now=time.time())
    left, hosts = await _all(store.records()), dict(await _all(store.hosts()))
    gone = Pruned(records=len(records) - len(left), hosts=len(states) - len(hosts))
    same(pruned, gone, "prune: it does not report what is gone")
    for key in (KEY, OTHER_KEYS[0]):
        same(hosts.get(key), states[key], f"prune: the wait of {key!r} is lost")


async def _fill(store: Catalogue) -> tuple[list[RobotsRecord], dict[str, HostState]]:
    """Save records, returned as they are to be listed, and states, of which the first two have to wait."""
    records = _bare_records((OTHER_ORIGINS[0], OTHER_ORIGINS[1], ORIGIN, *OTHER_ORIGINS[2:]))
    for record in reversed(records):
        await store.save_record(record)
    later = time.time() + _WAIT
    states = dict.fromkeys((KEY, *OTHER_KEYS), STATE)
    states[KEY] = replace(STATE, next_allowed_at=later)
    states[OTHER_KEYS[0]] = replace(STATE, blocked_until_at=later)
    await store.save_hosts(dict(reversed(states.items())))
    return records, states


def _bare_records(origins: Iterable[Origin]) -> list[RobotsRecord]:
    return [replace(BARE_RECORD, origin=origin) for origin in origins]


async def _all(items: AsyncIterator[T]) -> list[T]:
    return [item async for item in items]


# What a `SharedStore` has to do. The two stores may be one.


async def _check_grants(store: SharedStore, other: SharedStore) -> None:
    """One session at a time has a host, and the next one gets its state."""
    clock = SystemClock()
    async with _joined(store) as one, _joined(other) as two:
        before = HostState(last_visit_at=clock.now() - _WAIT, visits=7)
        await store.save_hosts({KEY: before})
        grant = await in_time(one.obtain(KEY), "obtain: a host without an owner is never granted")
        expect(grant.lease.is_valid(), "obtain: the lease of a new grant is not valid")
        same(grant.state, before, "obtain: not the state that was saved")
        waiter = asyncio.create_task(two.obtain(KEY))
        await _hears(one, {KEY}, "news: the owner is never asked")
        expect(not waiter.done(), "obtain: a host is granted to two sessions")
        left = replace(before, last_visit_at=clock.now(), next_allowed_at=clock.now() + _DELAY, visits=8)
        one.leave(KEY, left)
        expect(not grant.lease.is_valid(), "leave: the lease is still valid")
        second = await in_time(waiter, "leave: the next in line is never granted")
        expect(second.lease.is_valid(), "obtain: the lease of a grant that was waited for is not valid")
        same(second.state, left, "leave: not the state that was left")
        # A batch of states that was put together before is saved after it.
        await store.save_hosts({KEY: before})
        same(await other.load_host(KEY), left, "save_hosts: a late batch undid what the owner said")
        one.leave(KEY, before)
        await asyncio.sleep(GLANCE)
        expect(second.lease.is_valid(), "leave: a host that is not held is taken from its owner")


async def _check_line(store: SharedStore, other: SharedStore) -> None:
    """Sessions get a host in the order in which they ask for it; one that leaves delays no other."""
    async with _joined(store) as one, _joined(other) as two, _joined(store) as three, _joined(other) as four:
        await in_time(one.obtain(KEY), "obtain: a host without an owner is never granted")
        waiters = []
        for session in (two, three, four):
            waiters.append(asyncio.create_task(session.obtain(KEY)))
            await asyncio.sleep(GLANCE)
        waiters[1].cancel()
        await asyncio.wait(waiters[1:2])
        expect(waiters[1].cancelled(), "obtain: it swallows a cancellation")
        one.leave(KEY, None)
        await in_time(waiters[0], "leave: the first in line is never granted")
        expect(not waiters[2].done(), "leave: not the first in line is granted")
        await two.aclose()
        await in_time(waiters[2], "aclose: the hosts of a session that ends are never granted again")
        waiter = asyncio.create_task(three.obtain(KEY))
        await asyncio.sleep(0)
        waiter.cancel()
        four.leave(KEY, None)
        await in_time(one.obtain(KEY), "obtain: a host is kept by a session that was cancelled")
        await asyncio.wait({waiter})


async def _check_keys(store: SharedStore, other: SharedStore) -> None:
    """Hosts are granted one by one, however many are asked for; of robots.txt nothing is kept."""
    keys = [KEY, *OTHER_KEYS, ROBOTS_KEY, *(f"{number}.example" for number in range(100))]
    async with _joined(store) as one, _joined(other) as two:
        asked = asyncio.gather(*map(one.obtain, keys))
        grants = await in_time(asked, "obtain: of many hosts asked for at once, some are never granted")
        expect(all(grant.lease.is_valid() for grant in grants), "obtain: of many leases, some are not valid")
        asked = asyncio.gather(*map(two.obtain, keys))
        for key in keys:
            one.leave(key, None)
        grants = await in_time(asked, "leave: of many hosts left at once, some are never granted")
        left = grants[keys.index(ROBOTS_KEY)].state
        same(left, None, "leave: a host that was left without a state has one")


async def _check_blocks(store: SharedStore, other: SharedStore) -> None:
    """All sessions get a block that one publishes, and its end."""
    below, until_at = f"*.{KEY}", SystemClock().now() + _WAIT
    async with _joined(store) as one, _joined(other) as two:
        one.publish_block(KEY, math.inf)
        one.publish_block(below, until_at)
        known = await _hears(two, {KEY, below}, "publish_block: other sessions do not get the block")
        same(known[KEY], math.inf, "publish_block: a block without end has one")
        expect(until_at - 1.0 <= known[below] <= until_at + PATIENCE, "publish_block: the instant is another")
        async with _joined(store) as late:
            await _hears(late, {KEY, below}, "session: it hears of no standing block")
        two.publish_block(KEY, 0.0)
        while known[KEY] != 0.0:
            known = await _hears(one, {KEY}, "publish_block: other sessions do not get its end")


@asynccontextmanager
async def _joined(store: SharedStore) -> AsyncIterator[Session]:
    session = await in_time(store.session(), "session: it does not come")
    try:
        yield session
    finally:
        await in_time(session.aclose(), "aclose: a session does not end")


async def _hears(session: Session, names: set[str], complaint: str) -> dict[str, float]:
    """Wait until a session was told that these hosts are wanted, or until when these patterns are blocked."""
    told: dict[str, float] = {}

    async def listen() -> None:
        while not names <= told.keys():
            for news in await session.news():
                if isinstance(news, Wanted):
                    told.update(dict.fromkeys(news.keys, math.nan))
                elif isinstance(news, OperatorBlock):
                    told[news.pattern] = news.until_at

    await in_time(listen(), complaint)
    return told


# Tools.


async def in_time(awaitable: Awaitable[T], complaint: str) -> T:
    """Return the result; fail with the message where that takes too long."""
    try:
        return await asyncio.wait_for(awaitable, PATIENCE)
    except TimeoutError as error:
        raise AssertionError(complaint) from error


def same(found: object, expected: object, complaint: str) -> None:
    """Fail with the message unless the values are alike."""
    expect(is_alike(found, expected), f"{complaint}: {found!r} instead of {expected!r}")


def is_alike(found: object, expected: object) -> bool:
    """Whether two values are the same, but for what another clock may have done to the instants of host states."""
    if isinstance(found, list | tuple) and isinstance(expected, list | tuple):
        return len(found) == len(expected) and all(map(is_alike, found, expected))
    if not isinstance(found, HostState) or not isinstance(expected, HostState):
        return found == expected
    instants = {name: at for name, at in asdict(expected).items() if name.endswith("_at")}
    moved = [abs((getattr(found, name) or 0.0) - (at or 0.0)) for name, at in instants.items()]
    starts = list(zip(found.starts, expected.starts, strict=False))
    moved += [abs(at - start_at) for (at, _), (start_at, _) in starts]
    instants["starts"] = tuple((at, count) for (_, count), (at, _) in starts)
    return max(moved) <= OTHER_CLOCK and replace(found, **instants) == expected


def expect(condition: bool, complaint: str) -> None:  # noqa: FBT001 - the condition is what it is about
    """Fail with the message unless it holds."""
    if not condition:
        raise AssertionError(complaint)
