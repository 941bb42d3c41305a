"""What every `Store` has to do, as one function that tries it: for those who write one."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from robotgate._access import RobotsRecord
from robotgate._pacing import HostState
from robotgate._status import Outcome
from robotgate._urls import Origin

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from robotgate._ports import Store

PATIENCE: Final = 10.0
"""Seconds after which what should have happened is taken not to happen."""
GLANCE: Final = 0.05
"""Seconds in which what should not happen would have happened."""
PROBE_TASKS: Final = 20

_ORIGIN: Final = Origin("https", "shop.example", 443)
_OTHER_ORIGINS: Final = (
    Origin("http", "shop.example", 80),
    Origin("https", "shop.example", 8443),
    Origin("https", "www.shop.example", 443),
    Origin("https", "2001:db8::1", 443),
)
_RECORD: Final = RobotsRecord(
    origin=_ORIGIN,
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
_BARE_RECORD: Final = RobotsRecord(
    origin=_ORIGIN, outcome=Outcome.MISSING, checked_at=1_795_240_000.0, fresh_until_at=1_795_326_400.0
)
_STATE: Final = HostState(
    last_visit_at=1_795_233_600.123456,
    next_allowed_at=1_795_233_601.123456,
    blocked_until_at=1_795_233_900.5,
    failures=2,
    visits=41,
    bytes_read=2**40,
)


async def check_store(make_store: Callable[[], Store | Awaitable[Store]]) -> None:
    """Try everything a gate asks of a store.

    Args:
        make_store: makes a new and empty store, or an awaitable of one. Called several times; every store it makes
            is closed with `Store.aclose`.

    Raises:
        AssertionError: the store does not do what `Store` says; the message says what.
    """
    for check in (
        _check_records,
        _check_hosts,
        _check_lease_excludes,
        _check_lease_is_handed_over,
        _check_lease_of_cancelled_waiter,
    ):
        tasks = asyncio.all_tasks()
        made = make_store()
        store = await made if inspect.isawaitable(made) else made
        try:
            await check(store)
        finally:
            await _in_time(store.aclose(), "aclose: it does not end")
        await _in_time(store.aclose(), "aclose: closing a second time does not end")
        left = asyncio.all_tasks() - tasks
        _expect(not left, f"aclose: tasks of the store still run: {left}")


async def _check_records(store: Store) -> None:
    _expect(await store.load_record(_ORIGIN) is None, "load_record: an empty store knows a record")
    for record in (_RECORD, _BARE_RECORD, replace(_RECORD, body=b"")):
        await store.save_record(record)
        loaded = await store.load_record(_ORIGIN)
        _expect(
            loaded == record, f"load_record: not what was saved last; saved {record!r}, loaded {loaded!r}"
        )
    for origin in _OTHER_ORIGINS:
        _expect(await store.load_record(origin) is None, f"load_record: {origin} got the record of {_ORIGIN}")
    for origin in _OTHER_ORIGINS:
        await store.save_record(replace(_BARE_RECORD, origin=origin))
    for origin in _OTHER_ORIGINS:
        _expect(
            await store.load_record(origin) == replace(_BARE_RECORD, origin=origin),
            f"load_record: the record of {origin} is lost or another's",
        )


async def _check_hosts(store: Store) -> None:
    key, *other_keys = "shop.example", "www.shop.example", "xn--bcher-kva.example", "2001:db8::1", "a" * 253
    _expect(store.recall_host(key) is None, "recall_host: an empty store knows a host")
    _expect(await store.load_host(key) is None, "load_host: an empty store knows a host")
    later = replace(_STATE, next_allowed_at=_STATE.next_allowed_at + 1, visits=42, failures=0)
    for state in (HostState(), _STATE, later):
        store.remember_host(key, state)
        recalled = store.recall_host(key)
        _expect(
            recalled == state, f"recall_host: not what was just remembered; {state!r} became {recalled!r}"
        )
        loaded = await store.load_host(key)
        _expect(loaded == state, f"load_host: not what was just remembered; {state!r} became {loaded!r}")
    for other in other_keys:
        _expect(await store.load_host(other) is None, f"load_host: {other!r} got the state of {key!r}")
        store.remember_host(other, _STATE)
        _expect(await store.load_host(other) == _STATE, f"load_host: the state of {other!r} is lost")
    _expect(store.recall_host(key) == later, "recall_host: remembering other hosts changed this one")


async def _check_lease_excludes(store: Store) -> None:
    holders = 0
    done = 0

    async def hold() -> None:
        nonlocal holders, done
        async with store.lease(_ORIGIN):
            holders += 1
            _expect(holders == 1, "lease: two hold the lease of one origin")
            # Whoever waits gets every chance to come in.
            await store.load_record(_ORIGIN)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            _expect(holders == 1, "lease: two hold the lease of one origin")
            holders -= 1
            done += 1

    await asyncio.gather(*(hold() for _ in range(PROBE_TASKS)))
    _expect(done == PROBE_TASKS, "lease: not everybody who waited got it")
    async with store.lease(_ORIGIN):
        for origin in _OTHER_ORIGINS:
            await _in_time(
                _take(store, origin), f"lease: {_ORIGIN} excludes {origin}, which is another origin"
            )


async def _check_lease_is_handed_over(store: Store) -> None:
    async def fail() -> None:
        async with store.lease(_ORIGIN):
            raise _HolderError

    with suppress(_HolderError):
        await fail()
        _expect(False, "lease: the error of its holder does not come through")
    await _in_time(_take(store), "lease: it is not given back when its holder fails")

    holding = asyncio.Event()

    async def hold() -> None:
        async with store.lease(_ORIGIN):
            holding.set()
            await asyncio.Event().wait()

    holder = asyncio.create_task(hold())
    await holding.wait()
    waiter = asyncio.create_task(_take(store))
    await asyncio.wait({waiter}, timeout=GLANCE)
    _expect(not waiter.done(), "lease: a second task does not wait for the holder")
    holder.cancel()
    await asyncio.wait({holder})
    _expect(holder.cancelled(), "lease: it swallows its holder's cancellation")
    await _in_time(waiter, "lease: it is not given back when its holder is cancelled")


async def _check_lease_of_cancelled_waiter(store: Store) -> None:
    async with store.lease(_ORIGIN):
        waiters = [asyncio.create_task(_take(store)) for _ in range(3)]
        await asyncio.wait(waiters, timeout=GLANCE)
        waiters[0].cancel()
        await asyncio.wait({waiters[0]}, timeout=PATIENCE)
        _expect(waiters[0].cancelled(), "lease: a cancelled waiter does not leave")
        _expect(
            not any(waiter.done() for waiter in waiters[1:]),
            "lease: a waiter that leaves lets others in beside the holder",
        )
    for waiter in waiters[1:]:
        await _in_time(waiter, "lease: after a waiter left, the next never gets it")
    await _in_time(_take(store), "lease: after a waiter left, it is never free again")


async def _take(store: Store, origin: Origin = _ORIGIN) -> None:
    async with store.lease(origin):
        pass


async def _in_time(awaitable: Awaitable[None], complaint: str) -> None:
    limit = asyncio.timeout(PATIENCE)
    try:
        async with limit:
            await awaitable
    except TimeoutError:
        if limit.expired():
            raise AssertionError(complaint) from None
        raise


def _expect(condition: bool, complaint: str) -> None:  # noqa: FBT001 - the condition is what it is about
    if not condition:
        raise AssertionError(complaint)


class _HolderError(Exception):
    """Raised by a holder of a lease, to see what becomes of it."""
