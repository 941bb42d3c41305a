"""An honest store that several use at once, in memory: what is under way is booked, and asking takes time."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from robotgate import HostState, MemoryStore, StoreError
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
    ) -> HostState | None:
        """Take a slot that is free and due."""
        await asyncio.sleep(self.takes)
        if self.fails:
            self.fails -= 1
            raise StoreError("the disk is full: make room")
        book = self.book
        known = book.hosts.get(pace_key, HostState())
        again_at = self._again_at(pace_key, known, now=now, slots=slots, delay=delay)
        book.questions.append((now, again_at is None))
        if again_at is None:
            book.hosts[pace_key] = replace(merged(known, state), visits=known.visits + 1)
            book.reserved[pace_key] += 1
        try:
            await asyncio.sleep(self.takes)
        except asyncio.CancelledError:
            if again_at is None:
                book.reserved[pace_key] -= 1
                book.hosts[pace_key] = known
            raise
        await self.load_host(pace_key)
        return None if again_at is None else replace(known, next_allowed_at=again_at)

    def begin_visit(self, pace_key: str, state: HostState) -> None:
        """A request is sent."""
        self.book.reserved[pace_key] -= self.book.reserved[pace_key] > 0
        self.book.under_way[pace_key] += 1
        self.remember_host(pace_key, state)

    def end_visit(self, pace_key: str, state: HostState) -> None:
        """A request has ended, or will not be sent."""
        taken = self.book.under_way if self.book.under_way[pace_key] else self.book.reserved
        assert taken[pace_key]
        taken[pace_key] -= 1
        self.remember_host(pace_key, state)

    def remember_host(self, pace_key: str, state: HostState) -> None:
        """Everybody hears of it."""
        known, before = self.book.hosts.get(pace_key, HostState()), self.recall_host(pace_key) or HostState()
        visits = known.visits + state.visits - before.visits
        self.book.hosts[pace_key] = replace(merged(known, state), visits=visits)
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
