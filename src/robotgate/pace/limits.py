"""Limits over all hosts, and quotas: how many requests may be open, and how many may start in a stretch of time."""

from __future__ import annotations

from collections import deque
from heapq import heappop
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from robotgate.options import Rate
    from robotgate.pace.host import Host, PacedTurn

MAX_SCANNED: Final = 1024
"""Open turns that are compared with a task to detect that it waits for itself."""


class Permits:
    """At most so many turns open at once, over all hosts.

    A granted turn holds a permit until it ends. Hosts whose next turn could start now but for a permit wait here, by
    the arrival of that turn.
    """

    __slots__ = ("held", "total", "waiting")

    def __init__(self, total: int) -> None:
        self.total = total
        self.held: set[PacedTurn] = set()
        self.waiting: list[tuple[int, Host]] = []
        """A heap; an entry is void unless it is its host's `permit_entry`."""

    def first(self) -> tuple[int, Host] | None:
        """Return the host that waits longest, as (arrival of its turn, host); None if no host waits."""
        waiting = self.waiting
        while waiting and waiting[0][1].permit_entry is not waiting[0]:
            heappop(waiting)
        return waiting[0] if waiting else None

    def is_held_by(self, task: asyncio.Task[object] | None) -> bool:
        """Return whether no permit is free and this task holds all of them: it would wait for itself."""
        return self.total <= len(self.held) <= MAX_SCANNED and all(turn.holder is task for turn in self.held)


class StartWindow:
    """The starts that count against quotas: at most `rate.requests` in any `rate.seconds`.

    The starts themselves are counted, for no token bucket keeps a quota exactly: a bucket that is full at first and
    leaks at the rate lets a burst through, and then the rate on top of it.
    """

    __slots__ = ("rates", "starts")

    def __init__(self, rates: Sequence[Rate]) -> None:
        self.rates = tuple(rates)
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
