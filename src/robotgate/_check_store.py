"""What every `Store` has to do, as one function that tries it: for those who write one."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from robotgate._check_catalogue import check_forgets, check_lists, check_prunes
from robotgate._check_fleet import check_reports, check_shared_blocks
from robotgate._check_shared import check_shared
from robotgate._check_tools import (
    BARE_RECORD,
    GLANCE,
    KEY,
    ORIGIN,
    OTHER_KEYS,
    OTHER_ORIGINS,
    PATIENCE,
    PROBE_TASKS,
    RECORD,
    STATE,
    expect,
    in_time,
    is_alike,
    take,
)
from robotgate._errors import StoreError
from robotgate._pacing import HostState
from robotgate._ports import Catalogue, ReportingStore, SharedBlocks, SharedStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from robotgate._ports import Store

    MakeStore: TypeAlias = Callable[[], Store | Awaitable[Store]]
    MakeAnother: TypeAlias = Callable[[Store], Store | Awaitable[Store]]
    Check: TypeAlias = Callable[[Store], Coroutine[object, object, None]]


async def check_store(make_store: MakeStore, *, make_another: MakeAnother | None = None) -> None:
    """Try everything a gate asks of a store; of a `Catalogue`, a `SharedStore`, a `ReportingStore` and `SharedBlocks`,
    what these promise besides.

    Args:
        make_store: makes a new and empty store, or an awaitable of one, with room for five records and five hosts.
            Called several times; every store it makes is closed with `Store.aclose`.
        make_another: makes one more, of what the given store keeps, and is called only for a store that outlives its
            process: when the first was closed; and for a `SharedStore`, or `SharedBlocks`, beside the first as well.

    Raises:
        AssertionError: the store does not do what it says; the message says what.
    """
    checks = list(_CHECKS)
    if make_another is not None:
        checks += [partial(_check_opened_again, make_another), partial(_check_beside, make_another)]
    for check in checks:
        tasks = asyncio.all_tasks()
        store = await _made(make_store())
        try:
            await check(store)
        finally:
            await in_time(store.aclose(), "aclose: it does not end")
        await in_time(store.aclose(), "aclose: closing a second time does not end")
        left = asyncio.all_tasks() - tasks
        expect(not left, f"aclose: tasks of the store still run: {left}")


async def _made(made: Store | Awaitable[Store]) -> Store:
    return await made if inspect.isawaitable(made) else made


async def _check_records(store: Store) -> None:
    expect(await store.load_record(ORIGIN) is None, "load_record: an empty store knows a record")
    for record in (RECORD, BARE_RECORD, replace(RECORD, body=b"")):
        await store.save_record(record)
        loaded = await store.load_record(ORIGIN)
        expect(loaded == record, f"load_record: not what was saved last; saved {record!r}, loaded {loaded!r}")
    for origin in OTHER_ORIGINS:
        expect(await store.load_record(origin) is None, f"load_record: {origin} got the record of {ORIGIN}")
    for origin in OTHER_ORIGINS:
        await store.save_record(replace(BARE_RECORD, origin=origin))
    for origin in OTHER_ORIGINS:
        expect(
            await store.load_record(origin) == replace(BARE_RECORD, origin=origin),
            f"load_record: the record of {origin} is lost or another's",
        )


async def _check_hosts(store: Store) -> None:
    key, other_keys = KEY, OTHER_KEYS
    expect(store.recall_host(key) is None, "recall_host: an empty store knows a host")
    expect(await store.load_host(key) is None, "load_host: an empty store knows a host")
    later = replace(STATE, next_allowed_at=STATE.next_allowed_at + 1, visits=42, failures=0)
    for state in (HostState(), STATE, later):
        store.remember_host(key, state)
        recalled = store.recall_host(key)
        expect(recalled == state, f"recall_host: not what was just remembered; {state!r} became {recalled!r}")
        loaded = await store.load_host(key)
        expect(loaded == state, f"load_host: not what was just remembered; {state!r} became {loaded!r}")
    for other in other_keys:
        expect(await store.load_host(other) is None, f"load_host: {other!r} got the state of {key!r}")
        store.remember_host(other, STATE)
        expect(await store.load_host(other) == STATE, f"load_host: the state of {other!r} is lost")
    expect(store.recall_host(key) == later, "recall_host: remembering other hosts changed this one")


async def _check_many_at_once(store: Store) -> None:
    records = [replace(BARE_RECORD, origin=origin) for origin in (ORIGIN, *OTHER_ORIGINS)]
    states = {key: replace(STATE, visits=number) for number, key in enumerate((KEY, *OTHER_KEYS))}
    await asyncio.gather(*map(store.save_record, records))
    for pace_key, state in states.items():
        store.remember_host(pace_key, state)
    loaded = await asyncio.gather(*(store.load_record(record.origin) for record in records))
    expect(loaded == records, f"load_record: asked for at once, some are lost or another's: {loaded!r}")
    known = await asyncio.gather(*map(store.load_host, states))
    expect(known == list(states.values()), f"load_host: asked for at once, some are another's: {known!r}")


async def _check_closed(store: Store) -> None:
    """A store that was closed serves on, or says so."""
    await store.save_record(RECORD)
    store.remember_host(KEY, STATE)
    await in_time(store.aclose(), "aclose: it does not end")
    with suppress(StoreError):
        expect(
            await store.load_record(ORIGIN) in (RECORD, None), "load_record: once closed, it makes things up"
        )
    with suppress(StoreError):
        await store.save_record(BARE_RECORD)
    with suppress(StoreError):
        await take(store)
    with suppress(StoreError):
        await store.load_host(KEY)
    with suppress(StoreError):
        store.recall_host(KEY)
    with suppress(StoreError):
        store.remember_host(KEY, STATE)


async def _check_opened_again(make_another: MakeAnother, store: Store) -> None:
    """After a clean stop all is as it was."""
    await store.save_record(RECORD)
    store.remember_host(OTHER_KEYS[0], HostState())
    store.remember_host(KEY, STATE)
    await in_time(store.aclose(), "aclose: it does not end")
    again = await _made(make_another(store))
    try:
        record, state = await again.load_record(ORIGIN), await again.load_host(KEY)
        expect(record == RECORD, f"aclose: opened again, the record became {record!r}")
        expect(
            state is not None and is_alike(state, STATE),
            f"aclose: opened again, the state became {state!r}",
        )
    finally:
        await in_time(again.aclose(), "aclose: it does not end")


async def _check_reports(store: Store) -> None:
    if isinstance(store, ReportingStore):
        await check_reports(store)


async def _check_beside(make_another: MakeAnother, store: Store) -> None:
    if not isinstance(store, SharedStore | SharedBlocks):
        return
    other = await _made(make_another(store))
    try:
        if isinstance(store, SharedStore):
            if not isinstance(other, SharedStore):
                raise AssertionError(f"make_another: {other!r} is no SharedStore, as the first is")  # noqa: TRY004
            await check_shared(store, other)
        if isinstance(store, SharedBlocks):
            if not isinstance(other, SharedBlocks):
                raise AssertionError(f"make_another: {other!r} is no SharedBlocks, as the first is")  # noqa: TRY004
            await check_shared_blocks(store, other)
    finally:
        await in_time(other.aclose(), "aclose: it does not end beside another")


async def _check_lease_excludes(store: Store) -> None:
    holders = 0
    done = 0

    async def hold() -> None:
        nonlocal holders, done
        async with store.lease(ORIGIN):
            holders += 1
            expect(holders == 1, "lease: two hold the lease of one origin")
            # Whoever waits gets every chance to come in.
            await store.load_record(ORIGIN)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            expect(holders == 1, "lease: two hold the lease of one origin")
            holders -= 1
            done += 1

    await asyncio.gather(*(hold() for _ in range(PROBE_TASKS)))
    expect(done == PROBE_TASKS, "lease: not everybody who waited got it")
    async with store.lease(ORIGIN):
        for origin in OTHER_ORIGINS:
            await in_time(take(store, origin), f"lease: {ORIGIN} excludes {origin}, which is another origin")


async def _check_lease_is_handed_over(store: Store) -> None:
    async def fail() -> None:
        async with store.lease(ORIGIN):
            raise _HolderError

    with suppress(_HolderError):
        await fail()
        expect(False, "lease: the error of its holder does not come through")
    await in_time(take(store), "lease: it is not given back when its holder fails")

    holding = asyncio.Event()

    async def hold() -> None:
        async with store.lease(ORIGIN):
            holding.set()
            await asyncio.Event().wait()

    holder = asyncio.create_task(hold())
    await holding.wait()
    waiter = asyncio.create_task(take(store))
    await asyncio.wait({waiter}, timeout=GLANCE)
    expect(not waiter.done(), "lease: a second task does not wait for the holder")
    holder.cancel()
    await asyncio.wait({holder})
    expect(holder.cancelled(), "lease: it swallows its holder's cancellation")
    await in_time(waiter, "lease: it is not given back when its holder is cancelled")


async def _check_lease_of_cancelled_waiter(store: Store) -> None:
    async with store.lease(ORIGIN):
        waiters = [asyncio.create_task(take(store)) for _ in range(3)]
        await asyncio.wait(waiters, timeout=GLANCE)
        waiters[0].cancel()
        await asyncio.wait({waiters[0]}, timeout=PATIENCE)
        expect(waiters[0].cancelled(), "lease: a cancelled waiter does not leave")
        expect(
            not any(waiter.done() for waiter in waiters[1:]),
            "lease: a waiter that leaves lets others in beside the holder",
        )
    for waiter in waiters[1:]:
        await in_time(waiter, "lease: after a waiter left, the next never gets it")
    await in_time(take(store), "lease: after a waiter left, it is never free again")


class _HolderError(Exception):
    """Raised by a holder of a lease, to see what becomes of it."""


def _of_catalogues(check: Callable[[Catalogue], Coroutine[object, object, None]]) -> Check:
    async def checked(store: Store) -> None:
        if isinstance(store, Catalogue):
            await check(store)

    return checked


_CHECKS: Final[tuple[Check, ...]] = (
    _check_records,
    _check_hosts,
    _check_many_at_once,
    _check_lease_excludes,
    _check_lease_is_handed_over,
    _check_lease_of_cancelled_waiter,
    _check_reports,
    *map(_of_catalogues, (check_lists, check_forgets, check_prunes)),
    _check_closed,
)
