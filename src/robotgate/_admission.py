"""How a turn is asked for, and the right to one request that comes of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from robotgate._waiters import PAGES, Rank

if TYPE_CHECKING:
    from robotgate._bound import Bound, Place
    from robotgate._member import Member


class UnwantedError(Exception):
    """A turn has come whose asker does not want it now, and which the next one has; it stays inside the gate."""

    def __init__(self, arrival: int) -> None:
        super().__init__(arrival)
        self.arrival = arrival
        """Whoever asks again with it takes the place among the waiters that he had."""


class OvertakenError(Exception):
    """A robots.txt goes before a page that still waits for a place over all hosts; it stays inside the lane."""


class Interest(Protocol):
    """Whether a turn that has come is wanted."""

    def claim(self) -> bool:
        """Whether it is, now; whoever says so has it, until `release`. Claiming again changes nothing."""
        ...

    def release(self) -> None:
        """It has not come after all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a turn is asked for; `Lane.admit` tells of each."""

    bound: Bound
    ahead: bool
    priority: int
    max_wait: float | None
    arrival: int
    interest: Interest | None

    @property
    def rank(self) -> Rank:
        """Whose turn comes first."""
        return 0 if self.ahead else PAGES, -self.priority, self.arrival


class Admitting(Protocol):
    """Who admits: a lane."""

    def note_answer(self, admission: Admission, status: int, retry_after: float | None) -> None:
        """Take in how the host answered."""

    def note_outage(self, admission: Admission, outage: str) -> None:
        """Take in that nobody was found, and why."""

    def leave(self, admission: Admission) -> None:
        """A request is over."""


@dataclass(slots=True, eq=False, kw_only=True)
class Admission:
    """The right to one request, from the moment it may be sent until `end`."""

    lane: Admitting
    member: Member
    arrival: int
    """Whoever asks again with it takes the place among the waiters that this one had."""
    place: Place
    began_at: float
    bytes_read: int = 0
    status: int | None = None
    """The last that was reported."""
    latency: float | None = None
    """Seconds that a good answer took to begin, where nothing hangs on knowing it before the end."""
    is_probe: bool = False
    """Whether it tries if its origin can be reached again."""
    is_open: bool = field(default=True)

    @property
    def holder(self) -> asyncio.Task[object] | None:
        """The task that has this turn, and would wait for itself if it asked for it again."""
        return self.place.holder

    def hand_over(self) -> None:
        """The task that asked for the turn has it no longer; nobody has, until `adopt`."""
        self.place.holder = None

    def adopt(self) -> None:
        """The running task takes the turn over from the one that asked for it."""
        self.place.holder = asyncio.current_task()

    def report(self, status: int | None, retry_after: float | None, bytes_read: int) -> None:
        """Tell the lane what came of the request so far; nothing is heard after its end."""
        if not self.is_open:
            return
        self.bytes_read += bytes_read
        if status is not None:
            try:
                self.lane.note_answer(self, status, retry_after)
            finally:
                self.status = status

    def fail(self, outage: str) -> None:
        """Tell the lane that the request found nobody, and why; whoever gave a status was there."""
        if self.is_open and self.status is None:
            self.lane.note_outage(self, outage)

    def end(self) -> None:
        """The request is over; ending twice is ending once."""
        if self.is_open:
            self.is_open = False
            self.place.release()
            self.lane.leave(self)
