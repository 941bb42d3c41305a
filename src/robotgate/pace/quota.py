"""Quotas: at most so many starts in any so many seconds.

A `StartWindow` is mutable and does no I/O. Its methods take `now` (seconds since the epoch) where they need the time.

The starts of a host go to the store and to its next owner as pairs (instant, how many): `pace.state.Starts`. While
there are few, each start has its own. Of more, neighbours are joined: all of a pair count at its last instant. So none
counts earlier than it was. Only the oldest pair may hold starts that count no more, a sixteenth of the quota at most,
however often pairs are handed on and joined again.

A crash loses the starts that the store does not know. There are never more than `may_lose`, because the next start
waits until some are saved. Whoever has the host next takes all of these to have happened.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Final

from robotgate.pace.state import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robotgate.options import Rate
    from robotgate.pace.state import Starts

MAX_PAIRS: Final = 32
"""Pairs that a state has at most, but for those of unknown starts."""
JOINED: Final = MAX_PAIRS // 2
"""The part of a quota, one of so many, that one pair holds at most. Any two neighbours that cannot be joined hold more,
so `MAX_PAIRS` are enough for the whole quota."""
LEAST_LOST: Final = 10
LOST_SHARE: Final = 20
"""The part of a quota, one of so many, that a crash may lose, where that is more than `LEAST_LOST`."""
URGENT: Final = 0.75
"""The share of what a crash may lose at which the store is told at once."""
SAVING: Final = 0.05
"""Seconds that a save is taken to last, where a start waits for it."""


class StartWindow:
    """The starts that count against quotas: at most `rate.requests` in any `rate.seconds`.

    The starts themselves are counted, for no token bucket keeps a quota exactly: a bucket that is full at first and
    leaks at the rate lets a burst through, and then the rate on top of it.
    """

    __slots__ = (
        "_longest",
        "_paired",
        "_pairs",
        "counted",
        "is_kept",
        "may_lose",
        "rates",
        "saved",
        "starts",
        "told",
    )

    def __init__(self, rates: Sequence[Rate]) -> None:
        self.rates: tuple[Rate, ...] = ()
        self.starts: deque[float] = deque(maxlen=0)
        """Their instants, ascending."""
        self.is_kept: bool = False
        """Whether a store keeps them."""
        self.may_lose: int = 0
        """Starts that the store need not know."""
        self.counted: int = 0
        """Starts that this process has counted."""
        self.saved: int = 0
        """How many of these the store knows."""
        self.told: int = 0
        """How many of these it was told of last; it may not have answered yet."""
        self._pairs: Starts = ()
        self._paired: int = 0
        """How many of these are in pairs."""
        self.change(rates)

    def change(self, rates: Sequence[Rate]) -> None:
        """Hold later starts to other quotas. Starts that were counted stay when a quota is lifted: it may come back."""
        self.rates = tuple(rates)
        most = max([self.starts.maxlen or 0, *(rate.requests for rate in rates)])
        self.starts = deque(self.starts, maxlen=most)
        losses = [min(rate.requests, max(LEAST_LOST, rate.requests // LOST_SHARE)) for rate in rates]
        self.may_lose = min(losses, default=self.may_lose)
        self._longest = max((rate.seconds for rate in rates), default=math.inf)

    def count(self, now: float) -> None:
        """Count a start. Of instants that other processes have counted, some may lie a little ahead."""
        starts = self.starts
        starts.append(max(now, starts[-1]) if starts else now)
        self.counted += 1

    def due_at(self, now: float, *, reserved: int = 0) -> float:
        """Return the first instant at which one more start keeps all quotas; 0.0 if any instant would.

        Args:
            reserved: turns that were granted and have not started: they start now at the earliest.
        """
        return max((self._due_at(rate, rate.requests - reserved, now) for rate in self.rates), default=0.0)

    def _due_at(self, rate: Rate, free: int, now: float) -> float:
        if free <= 0:
            return now + rate.seconds
        return 0.0 if len(self.starts) < free else self.starts[-free] + rate.seconds

    def served_at(self) -> float:
        """Return the instant from which on no start counts any more."""
        if not self.starts or not self.rates:
            return 0.0
        return self.starts[-1] + self._longest

    # Those that the store does not know.

    def start_at(self, now: float, *, reserved: int = 0) -> float:
        """As `due_at`; a little later where the store has to know of some starts first."""
        at = self.due_at(now, reserved=reserved)
        return max(at, now + SAVING) if self.is_spent(reserved=reserved) else at

    def is_spent(self, *, reserved: int = 0) -> bool:
        """Return whether the next start has to wait until the store knows of some."""
        return self.is_kept and bool(self.rates) and self.counted - self.saved + reserved >= self.may_lose

    def is_urgent(self) -> bool:
        """Return whether to save at once, so that no start has to wait for that."""
        return bool(self.rates) and self.counted - self.told >= URGENT * self.may_lose

    def tell(self) -> int:
        """Return how many were counted, of which the store is told now; `note_saved` takes this when it knows them."""
        self.told = self.counted
        return self.told

    def note_saved(self, counted: int) -> None:
        """The store knows what had been counted when there were so many."""
        self.saved = max(self.saved, counted)

    # As pairs.

    def kept(self) -> Starts:
        """Return the starts that may still count."""
        latest = [*islice(reversed(self.starts), self.counted - self._paired)]
        pairs = [*self._pairs, *Counter(reversed(latest)).items()]
        most = self.starts.maxlen or 0
        over_at = self.starts[-1] - self._longest if self.starts else 0.0
        surplus = sum(count for _, count in pairs) - most
        first = 0
        while first < len(pairs) and (pairs[first][0] <= over_at or pairs[first][1] <= surplus):
            surplus -= pairs[first][1]
            first += 1
        self._paired, self._pairs = self.counted, _joined(pairs[first:], math.ceil(most / JOINED))
        return self._pairs

    def restore(self, kept: Starts) -> None:
        """Take on what was kept."""
        most = self.starts.maxlen or 0
        self._pairs = tuple(
            [(at, min(self.may_lose if count == UNKNOWN else count, most)) for at, count in kept]
        )
        self._paired = self.counted
        self.starts = deque(chain.from_iterable(repeat(at, count) for at, count in self._pairs), maxlen=most)


def _joined(pairs: list[tuple[float, int]], most: int) -> Starts:
    """Join the oldest neighbours, of at most so many starts, until there are few pairs."""
    surplus = len(pairs) - MAX_PAIRS
    joined: list[tuple[float, int]] = []
    for at, count in pairs:
        if surplus > 0 and joined and joined[-1][1] + count <= most:
            joined[-1] = at, joined[-1][1] + count
            surplus -= 1
        else:
            joined.append((at, count))
    return tuple(joined)
