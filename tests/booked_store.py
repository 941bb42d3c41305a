"""An honest store that several use at once, in memory: what is under way is booked, and asking takes time."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from robotgate import HostState, MemoryStore, Postponed, StoreError
from robotgate._pacing import CLOCK_GRAIN, merged

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from robotgate import Origin, RobotsRecord

POLL: Final = 0.25
"""Seconds after which it is worth asking again for a slot whose end nobody can foretell."""


class Book:
    """What all know together."""

    def __init__(self) -> None:
        self.records = MemoryStore()
        self.hosts: dict[str, HostState] = {}
        self.reserved: Counter[str] = Counter()
        """Slots that are taken, and whose requests have not been sent."""
        self.under_way: Counter[str] = Counter()
        self.questions: list[tuple[float, bool]] = []
        """When a slot was asked for, and whether it was had."""


class BookedStore(MemoryStore):
    """One process's view of a book.

    Args:
        book: shared with the other stores.
        takes: seconds for a question to arrive, and as many for the answer.
        fails: how many questions fail first.
    """

    def __init__(self, book: Book, *, takes: float = 0.0, fails: int = 0) -> None:
        super().__init__()
        self.book = book
        self.is_shared = True
        self.takes = takes
        self.fails = fails

    async def reserve(
        self, pace_key: str, *, state: HostState, now: float, slots: int, delay: float
    ) -> Postponed | None:
        """Take a slot that is free and due."""
        await asyncio.sleep(self.takes)
        if self.fails:
            self.fails -= 1
            raise StoreError("the disk is full: make room")
        book = self.book
        known = book.hosts.get(pace_key, HostState())
        booked = known
        again_at = self._again_at(pace_key, known, now=now, slots=slots, delay=delay)
        book.questions.append((now, again_at is None))
        if again_at is None:
            booked = book.hosts[pace_key] = replace(merged(known, state), visits=known.visits + 1)
            book.reserved[pace_key] += 1
        try:
            await asyncio.sleep(self.takes)
        except asyncio.CancelledError:
            if again_at is None:
                book.reserved[pace_key] -= 1
                told = book.hosts[pace_key]
                # As it was, unless somebody has told of more since.
                book.hosts[pace_key] = known if told is booked else replace(told, visits=told.visits - 1)
            raise
        told = await self.load_host(pace_key) or HostState()
        return None if again_at is None else Postponed(told, again_at)

    def withdraw(self, pace_key: str) -> None:
        """There is no line: whoever asks first has the slot."""

    def begin_visit(self, pace_key: str, state: HostState) -> None:
        """A request is sent."""
        was_reserved = self.book.reserved[pace_key] > 0
        self.book.reserved[pace_key] -= was_reserved
        self.book.under_way[pace_key] += 1
        self._tell(pace_key, state, visits=0 if was_reserved else 1)

    def end_visit(self, pace_key: str, state: HostState) -> None:
        """A request has ended, or will not be sent."""
        was_sent = self.book.under_way[pace_key] > 0
        taken = self.book.under_way if was_sent else self.book.reserved
        assert taken[pace_key]
        taken[pace_key] -= 1
        self._tell(pace_key, state, visits=0 if was_sent else -1)

    def remember_host(self, pace_key: str, state: HostState) -> None:
        """Everybody hears of it."""
        before = self.recall_host(pace_key) or HostState()
        self._tell(pace_key, state, visits=state.visits - before.visits)

    def _tell(self, pace_key: str, state: HostState, *, visits: int) -> None:
        known = self.book.hosts.get(pace_key, HostState())
        self.book.hosts[pace_key] = replace(merged(known, state), visits=known.visits + visits)
        super().remember_host(pace_key, state)

    async def load_host(self, pace_key: str) -> HostState | None:
        """What all know."""
        known = self.book.hosts.get(pace_key)
        if known is not None:
            super().remember_host(pace_key, known)
        return known

    def lease(self, origin: Origin) -> AbstractAsyncContextManager[None]:
        """One lease for all."""
        return self.book.records.lease(origin)

    async def load_record(self, origin: Origin) -> RobotsRecord | None:
        """What all know."""
        return await self.book.records.load_record(origin)

    async def save_record(self, record: RobotsRecord) -> None:
        """Everybody hears of it."""
        await self.book.records.save_record(record)

    def _again_at(
        self, pace_key: str, known: HostState, *, now: float, slots: int, delay: float
    ) -> float | None:
        due_at = max(known.next_allowed_at, known.blocked_until_at)
        if known.last_visit_at is not None:
            due_at = max(due_at, known.last_visit_at + delay)
        taken = self.book.under_way[pace_key] + self.book.reserved[pace_key]
        if taken >= slots:
            return max(due_at, now + (delay if slots == 1 and delay else POLL))
        if self.book.reserved[pace_key]:
            # It may be sent this very moment.
            return max(due_at, now + (delay or POLL))
        return due_at if due_at - now > CLOCK_GRAIN else None
