"""Those who wait, in their order. Who leaves just leaves: what is left behind is passed over, and swept up in time."""

from __future__ import annotations

import asyncio
from collections import Counter
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Turn: TypeAlias = "asyncio.Future[None]"
"""What a waiter awaits."""
Rank: TypeAlias = tuple[int, int, int]
"""Robots.txt before pages, then priority, then arrival; the least goes first."""
PAGES: Final = 1
"""The first of a page's rank; robots.txt has less."""

_Key = TypeVar("_Key", Rank, float)
_LEAST_SWEEP: Final = 64


class TurnHeap(Generic[_Key]):
    """Turns by key, the least first; those that are done are no longer there."""

    __slots__ = ("_heap",)

    _serial: Final = count()

    def __init__(self) -> None:
        self._heap: list[tuple[_Key, int, Turn]] = []

    def push(self, key: _Key, turn: Turn) -> None:
        """Add a turn."""
        heappush(self._heap, (key, next(self._serial), turn))

    def first(self) -> _Key | None:
        """The least key; None when there is no turn."""
        while self._heap and self._heap[0][-1].done():
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop(self) -> Turn:
        """The turn of the least key, as `first` found it."""
        return heappop(self._heap)[-1]

    def sweep(self, waiting: int) -> None:
        """Let go of those who left, once they are the greater part."""
        left = len(self._heap) - waiting
        if left > _LEAST_SWEEP and left > waiting:
            self._heap = [entry for entry in self._heap if not entry[-1].done()]
            heapify(self._heap)


class Waiters:
    """Those who wait for one origin."""

    __slots__ = ("_counts", "_turns")

    def __init__(self) -> None:
        self._turns: TurnHeap[Rank] = TurnHeap()
        self._counts: Counter[tuple[int, int]] = Counter()

    def __len__(self) -> int:
        """How many have joined and not yet left, those included who have been answered and do not know it yet."""
        return self._counts.total()

    def join(self, rank: Rank) -> Turn:
        """Wait for a turn; whoever stops waiting says so by `leave`."""
        turn: Turn = asyncio.get_running_loop().create_future()
        self._turns.push(rank, turn)
        self._counts[rank[:2]] += 1
        return turn

    def leave(self, rank: Rank) -> None:
        """A waiter has had its turn, or goes without."""
        self._counts[rank[:2]] -= 1
        if not self._counts[rank[:2]]:
            del self._counts[rank[:2]]
        self._turns.sweep(len(self))

    @property
    def is_empty(self) -> bool:
        """Whether nobody waits who has not been answered."""
        return self._turns.first() is None

    def first(self) -> Rank | None:
        """The rank of who is next; None when nobody waits."""
        return self._turns.first()

    def pop(self) -> Turn:
        """The turn of who is next."""
        return self._turns.pop()

    def ahead_of(self, rank: Rank) -> int:
        """How many go before a newcomer of this rank."""
        return sum(waiting for ranked, waiting in self._counts.items() if ranked <= rank[:2])

    def refuse(self, error: Callable[[], Exception], *, pages_only: bool = False) -> None:
        """Send them away."""
        kept: TurnHeap[Rank] = TurnHeap()
        while (rank := self._turns.first()) is not None:
            turn = self._turns.pop()
            if pages_only and rank[0] < PAGES:
                kept.push(rank, turn)
            else:
                turn.set_exception(error())
        self._turns = kept
