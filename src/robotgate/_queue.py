"""All who wait in one lane, whichever of its members they wait for: who is next, and who waits in vain."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from robotgate._errors import HostUnavailableError
from robotgate._pacing import CLOCK_GRAIN
from robotgate._waiters import PAGES

if TYPE_CHECKING:
    from collections.abc import Callable

    from robotgate._member import Member
    from robotgate._pacer import Pacer
    from robotgate._waiters import Grant, Rank, Waiters


class Queue:
    """The waiters of a lane's members.

    Args:
        pacer: tells when the next of a member may start.
    """

    __slots__ = (
        "_pacer",
        "wanted",
    )

    def __init__(self, pacer: Pacer) -> None:
        self._pacer = pacer
        self.wanted: dict[Member, Waiters] = {}
        """The members that somebody waits for, or has since the last pump, and who does: many may be paced together, of
        whom few are waited for."""

    def __len__(self) -> int:
        """How many wait, those included who have been sent away and do not know it yet."""
        return sum(map(len, self.wanted.values()))

    @property
    def is_empty(self) -> bool:
        """Whether nobody waits for an answer."""
        for waiters in self.wanted.values():  # noqa: SIM110  # Asked for each turn: `all` takes thrice as long.
            if not waiters.is_empty:
                return False
        return True

    def join(self, member: Member, rank: Rank, deadline_at: float | None) -> Grant:
        """Wait for a turn; whoever stops waiting says so to the member's `Waiters`."""
        waiters = self.wanted[member] = member.waiters
        return waiters.join(rank, deadline_at)

    def robots_is_due(self, now: float) -> bool:
        """Whether a robots.txt waits that may start."""
        for member, waiters in self.wanted.items():
            rank = waiters.first()
            if rank is None or rank[0] >= PAGES or member.is_probed(now):
                continue
            if self._pacer.start_at(member, ahead=True, now=now) - now <= CLOCK_GRAIN:
                return True
        return False

    def next_start(self, now: float) -> tuple[float, Member, Rank] | None:
        """When the next start may be, whose, and of which rank; None when nobody waits who could be let go.

        Of those who are due the one that ranks first; when none is, the one that is due first.
        """
        first: tuple[float, Rank] | None = None
        whose: Member | None = None
        for member, waiters in self.wanted.items():
            rank = waiters.first()
            if rank is None or member.is_probed(now):
                continue
            at = self._pacer.start_at(member, ahead=rank[0] < PAGES, now=now)
            candidate = (at if at - now > CLOCK_GRAIN else now), rank
            if first is None or candidate < first:
                first, whose = candidate, member
        return None if first is None or whose is None else (first[0], whose, first[1])

    def start_behind(self, member: Member, rank: Rank, *, free_at: float) -> float:
        """When a newcomer would start if all who go before him went as fast as they may.

        Args:
            free_at: when he would start if there were nobody else.
        """
        before = sum(
            waiters.ahead_of(rank)
            for other, waiters in self.wanted.items()
            if other is member
            or (
                not other.is_probed(free_at)
                and self._pacer.start_at(other, ahead=False, now=free_at) <= free_at
            )
        )
        return free_at + before * self._pacer.spacing.steady_delay

    def refuse_hopeless(self, now: float) -> None:
        """Send away who waits for what cannot be reached, or is to be left alone for too long."""
        for member, waiters in list(self.wanted.items()):
            if waiters.is_empty:
                if not waiters:
                    del self.wanted[member]
                continue
            # What keeps a robots.txt away keeps pages away; hours do so to pages alone.
            for ahead in (True, False) if member.asked.visit_times else (True,):
                error = self._pacer.unavailable(member, ahead=ahead, now=now)
                if error is not None:
                    again = partial(HostUnavailableError, error.host, error.retry_after, error.cause)
                    waiters.refuse(again, pages_only=not ahead)

    def refuse_late(self, now: float, error: Callable[[Member], Exception]) -> float:
        """Send away who has waited long enough. Returns when the next will have; infinity when nobody ever will."""
        following = math.inf
        for member, waiters in self.wanted.items():
            deadline_at = waiters.refuse_late(now, partial(error, member))
            if deadline_at is not None:
                following = min(following, deadline_at)
        return following

    def refuse_all(self, error: Callable[[], Exception]) -> None:
        """Send everybody away."""
        for waiters in self.wanted.values():
            waiters.refuse(error)
