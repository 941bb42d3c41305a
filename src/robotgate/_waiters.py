"""Those who wait, in their order. Who leaves just leaves: what is left behind is passed over, and swept up in time."""

from __future__ import annotations

import asyncio
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

from robotgate._pacing import CLOCK_GRAIN

if TYPE_CHECKING:
    from collections.abc import Callable

Grant: TypeAlias = "asyncio.Future[None]"
"""What a waiter awaits."""
Rank: TypeAlias = tuple[int, int, int]
"""Robots.txt before pages, then priority, then arrival; the least goes first."""
PAGES: Final = 1
"""The first of a page's rank; robots.txt has less."""

_Key = TypeVar("_Key", Rank, float)
_LEAST_SWEEP: Final = 64
_MOST_SCANNED: Final = 256
"""Waiters; among more, those who are about to leave may be counted."""
_MOST_COUNTED: Final = 256
"""Priorities; among more, counting those ahead would take longer than it is worth."""


class GrantHeap(Generic[_Key]):
    """Turns by key, the least first; those that are done are no longer there."""

    __slots__ = ("_heap",)

    _serial: Final = count()

    def __init__(self) -> None:
        self._heap: list[tuple[_Key, int, Grant]] = []

    def push(self, key: _Key, turn: Grant) -> None:
        """Add a turn."""
        heappush(self._heap, (key, next(self._serial), turn))

    def first(self) -> _Key | None:
        """The least key; None when there is no turn."""
        while self._heap and self._heap[0][-1].done():
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop(self) -> Grant:
        """The turn of the least key, as `first` found it."""
        return heappop(self._heap)[-1]

    def count_before(self, key: _Key) -> int:
        """How many turns have a lesser key."""
        return sum(known < key and not turn.done() for known, _, turn in self._heap)

    def sweep(self, waiting: int) -> None:
        """Let go of those who left, once they are the greater part."""
        left = len(self._heap) - waiting
        if left > _LEAST_SWEEP and left > waiting:
            self._heap = [entry for entry in self._heap if not entry[-1].done()]
            heapify(self._heap)


class Waiters:
    """Those who wait for one origin."""

    __slots__ = ("_counts", "_deadlines", "_latest", "_turns", "_waiting")

    def __init__(self) -> None:
        self._turns: GrantHeap[Rank] = GrantHeap()
        self._deadlines: GrantHeap[float] = GrantHeap()
        self._counts: dict[tuple[int, int], int] = {}
        self._latest = -1
        self._waiting = 0

    def __len__(self) -> int:
        """How many wait, those included who have been sent away and do not know it yet."""
        return self._waiting

    def join(self, rank: Rank, deadline_at: float | None) -> Grant:
        """Wait for a turn; whoever stops waiting says so by `leave`."""
        turn: Grant = asyncio.get_running_loop().create_future()
        self._turns.push(rank, turn)
        self._latest = max(self._latest, rank[2])
        if deadline_at is not None:
            self._deadlines.push(deadline_at, turn)
        self._counts[rank[:2]] = self._counts.get(rank[:2], 0) + 1
        self._waiting += 1
        return turn

    def leave(self, rank: Rank, turn: Grant) -> None:
        """A waiter has had its turn, or goes without."""
        if not turn.done() or turn.cancelled() or turn.exception() is not None:
            turn.cancel()
            self._discount(rank)
            self._turns.sweep(len(self))
        self._deadlines.sweep(len(self))

    @property
    def is_empty(self) -> bool:
        """Whether nobody waits who has not been answered."""
        return self._turns.first() is None

    def first(self) -> Rank | None:
        """The rank of who is next; None when nobody waits."""
        return self._turns.first()

    def grant(self, rank: Rank) -> None:
        """Give who is next his turn; `rank` is his, as `first` told it."""
        self._turns.pop().set_result(None)
        self._discount(rank)

    def ahead_of(self, rank: Rank) -> int:
        """How many go before somebody of this rank, at the least: who asks again may go before some like him."""
        if self._waiting <= _MOST_SCANNED:
            # Exact: who has just been cancelled counts no more, though he does not know it yet.
            return self._turns.count_before(rank)
        if len(self._counts) > _MOST_COUNTED:
            return 0
        before = sum(waiting for ranked, waiting in self._counts.items() if ranked < rank[:2])
        return before + self._counts.get(rank[:2], 0) if rank[2] > self._latest else before

    def refuse(self, error: Callable[[], Exception], *, pages_only: bool = False) -> None:
        """Send them away."""
        kept: GrantHeap[Rank] = GrantHeap()
        while (rank := self._turns.first()) is not None:
            turn = self._turns.pop()
            if pages_only and rank[0] < PAGES:
                kept.push(rank, turn)
            else:
                turn.set_exception(error())
        self._turns = kept

    def refuse_late(self, now: float, error: Callable[[], Exception]) -> float | None:
        """Send away who has waited long enough. Returns when the next will have; None when nobody ever will."""
        while (deadline_at := self._deadlines.first()) is not None and deadline_at - now <= CLOCK_GRAIN:
            self._deadlines.pop().set_exception(error())
        return deadline_at

    def _discount(self, rank: Rank) -> None:
        self._waiting -= 1
        self._counts[rank[:2]] -= 1
        if not self._counts[rank[:2]]:
            del self._counts[rank[:2]]
