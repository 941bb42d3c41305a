"""Quotas: at most so many starts in any so many seconds.

A `StartWindow` is mutable and does no I/O. Its methods take `now` (seconds since the epoch) where they need the time.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robotgate.options import Rate


class StartWindow:
    """The starts that count against quotas: at most `rate.requests` in any `rate.seconds`.

    The starts themselves are counted, for no token bucket keeps a quota exactly: a bucket that is full at first and
    leaks at the rate lets a burst through, and then the rate on top of it.
    """

    __slots__ = ("rates", "starts")

    def __init__(self, rates: Sequence[Rate]) -> None:
        self.rates: tuple[Rate, ...] = tuple(rates)
        self.starts: deque[float] = deque(maxlen=max(rate.requests for rate in rates))

    def change(self, rates: Sequence[Rate]) -> None:
        """Hold later starts to other quotas. Starts that were counted stay when a quota is lifted: it may come back."""
        self.rates = tuple(rates)
        most = max([self.starts.maxlen or 0, *(rate.requests for rate in rates)])
        self.starts = deque(self.starts, maxlen=most)

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
        return self.starts[-1] + max(rate.seconds for rate in self.rates)
