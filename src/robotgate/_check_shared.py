"""What every `SharedStore` has to do besides: two that share a host keep its pace together."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from robotgate._check_tools import BARE_RECORD, GLANCE, KEY, ORIGIN, OTHER_KEYS, expect, in_time, take
from robotgate._clock import SystemClock
from robotgate._pacing import CLOCK_GRAIN, HostState

if TYPE_CHECKING:
    from robotgate._ports import Postponed, SharedStore

DELAY: Final = 0.2
"""Seconds between the visits that are tried."""
_BLOCK: Final = 3600.0
_LOOK: Final = 0.01
"""Seconds between two questions."""


@dataclass(slots=True)
class Visitor:
    """Visits hosts one request at a time, by what its store says."""

    store: SharedStore
    clock: SystemClock

    def _state(self, at: float) -> HostState:
        return HostState(last_visit_at=at, next_allowed_at=at + DELAY, visits=1)

    async def ask(self, pace_key: str) -> Postponed | None:
        """Ask once for the host's slot."""
        now = self.clock.now()
        return await self.store.reserve(pace_key, state=self._state(now), now=now, slots=1, delay=DELAY)

    async def get(self, pace_key: str) -> float:
        """Ask until it is there. Returns when the request could be sent; whoever decides that may have another clock,
        and be asked later than now.
        """
        while True:
            if await self.ask(pace_key) is None:
                return self.clock.now()
            await asyncio.sleep(_LOOK)

    async def begin(self, pace_key: str) -> None:
        """Send a request, by a slot if there may be others."""
        if self.store.is_shared:
            await self.get(pace_key)
        self.store.begin_visit(pace_key, self._state(self.clock.now()))

    def end(self, pace_key: str) -> float:
        """End it, or give the slot back unused. Returns when."""
        now = self.clock.now()
        self.store.end_visit(pace_key, self._state(now))
        return now


async def check_shared(store: SharedStore, other: SharedStore) -> None:
    """Try what two have to do together; the second was not used yet."""
    clock = SystemClock()
    one, two = Visitor(store, clock), Visitor(other, clock)
    await _check_turns(one, two)
    await _check_returned(one, two)
    await _check_cancelled(one, two)
    await _check_blocks(one, two)
    await store.save_record(BARE_RECORD)
    expect(await other.load_record(ORIGIN) == BARE_RECORD, "load_record: the other has saved it")
    await _check_lease(store, other)


async def _check_turns(one: Visitor, two: Visitor) -> None:
    """What is under way keeps the other away, and so does the delay behind it."""
    await in_time(one.begin(KEY), "reserve: of a host that nobody visits, it never says yes")
    asked_at = two.clock.now()
    known = await in_time(two.ask(KEY), "reserve: it does not end")
    if known is None:
        raise AssertionError("reserve: the host's one slot is had by two")
    expect(known.again_at > asked_at, "reserve: it is worth asking again when it was asked")
    expect(one.store.is_shared, "is_shared: it is, since the other has been given an answer")
    expect(two.store.is_shared, "is_shared: it is, since another uses it")
    # So that its end is another instant than its beginning.
    await asyncio.sleep(DELAY)
    ended_at = one.end(KEY)
    got_at = await in_time(two.get(KEY), "end_visit: the slot is never free again")
    expect(
        got_at - ended_at >= DELAY - CLOCK_GRAIN,
        f"reserve: yes after {got_at - ended_at:.3f} s of {DELAY} s; with one slot, the delay counts from the end",
    )


async def _check_returned(one: Visitor, two: Visitor) -> None:
    """A slot that is had and not used is given back. The second has it."""
    expect(await one.ask(KEY) is not None, "reserve: a slot that is reserved is had by two")
    two.end(KEY)
    await in_time(one.get(KEY), "end_visit: what was reserved and not sent is never free again")
    one.end(KEY)


async def _check_cancelled(one: Visitor, two: Visitor) -> None:
    key = OTHER_KEYS[0]
    for turns in range(1, 4):
        # The host is due, so that the slot would be had.
        await asyncio.sleep(DELAY)
        asking = asyncio.create_task(one.ask(key))
        for _ in range(turns):
            await asyncio.sleep(0)
        asking.cancel()
        with suppress(asyncio.CancelledError):
            if await asking is None:
                one.end(key)
        await in_time(two.get(key), "reserve: who was cancelled keeps the slot")
        two.end(key)


async def _check_blocks(one: Visitor, two: Visitor) -> None:
    key, now = OTHER_KEYS[1], one.clock.now()
    blocked = HostState(blocked_at=now, blocked_until_at=now + _BLOCK, failures=1)
    one.store.remember_host(key, blocked)

    async def heard() -> None:
        while True:
            known = await two.ask(key)
            if known is None:
                two.end(key)
            elif known.state.blocked_until_at > now + _BLOCK / 2:
                return
            await asyncio.sleep(_LOOK)

    await in_time(heard(), "remember_host: the other never hears of a block")


async def _check_lease(store: SharedStore, other: SharedStore) -> None:
    async with store.lease(ORIGIN):
        waiter = asyncio.create_task(take(other))
        await asyncio.wait({waiter}, timeout=GLANCE)
        expect(not waiter.done(), "lease: two stores hold the lease of one origin")
    await in_time(waiter, "lease: when one store gives it back, the other never gets it")
