"""One origin within a lane: what its host is granted, what it asks for, whether it can be reached, and who waits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from robotgate import _circuit, _pacing
from robotgate._errors import HostUnavailableError
from robotgate._hours import opens_at
from robotgate._spacing import NOTHING_ASKED, Asked, Spacing
from robotgate._waiters import Waiters

if TYPE_CHECKING:
    from collections.abc import Collection

    from robotgate._overrides import HostOptions
    from robotgate._pacing import HostState
    from robotgate._urls import Origin

MAX_LATENCY_DELAY: Final = 60.0
"""Seconds; a host that answers slowly is not given more time than this on that account alone."""


class Member:
    """An origin whose requests are paced together with those of the other members of its lane."""

    __slots__ = (
        "_waiters",
        "asked",
        "blocked_until_at",
        "circuit",
        "is_used",
        "open_turns",
        "options",
        "origin",
        "outage",
        "probes",
    )

    def __init__(
        self, origin: Origin, options: HostOptions, *, asked: Asked, blocked_until_at: float
    ) -> None:
        self.origin = origin
        self.options = options
        self.blocked_until_at = blocked_until_at
        """Until when the operator wants it left alone."""
        self.asked = asked
        self.circuit = _circuit.CLOSED
        self.outage = ""
        """Why it could not be reached the last time, in words."""
        self._waiters: Waiters | None = None
        self.is_used = False
        """Whether it had a turn since somebody last looked whether it may go."""
        self.open_turns = 0
        self.probes = 0
        """Requests under way that try whether it can be reached again."""

    @property
    def waiters(self) -> Waiters:
        """Those who wait for it: a place for them is made when the first comes, for at most hosts nobody ever waits."""
        if self._waiters is None:
            self._waiters = Waiters()
        return self._waiters

    @property
    def is_busy(self) -> bool:
        """Whether somebody waits for it, or has a turn."""
        return self.open_turns > 0 or bool(self._waiters)

    @property
    def is_forgettable(self) -> bool:
        """Whether a new member would be as good."""
        return self.asked == NOTHING_ASKED and self.circuit is _circuit.CLOSED and not self.is_busy

    def is_spare(self, now: float) -> bool:
        """Whether nothing that binds now would be lost with it, but for what its site asks."""
        return not self.is_busy and not _circuit.is_open(self.circuit, now=now)

    def is_probed(self, now: float) -> bool:
        """Whether the one request that tries whether it can be reached again is under way."""
        return self.probes > 0 and _circuit.is_half_open(self.circuit, now=now)

    def start_at(self, state: HostState, *, spacing: Spacing, ahead: bool, now: float) -> float:
        """The first instant from now on at which its next request may start, the lane's slots and quotas aside.

        Args:
            ahead: for robots.txt, which has to be read whatever hours the last one named.
        """
        at = max(
            now,
            state.next_allowed_at,
            state.blocked_until_at,
            self.blocked_until_at,
            self.circuit.retry_at,
        )
        hours = () if ahead else self.asked.visit_times
        since = -math.inf if state.last_visit_at is None else state.last_visit_at
        at = spacing.due_at(since=since, at=at)
        if not hours or opens_at(hours, at=at) == at:
            return at
        return spacing.due_within(hours, since=since, at=at)

    def unavailable(
        self, state: HostState, *, spacing: Spacing, ahead: bool, now: float
    ) -> HostUnavailableError | None:
        """The error for a request that is not worth waiting with; None when it is."""
        host, patience = self.origin.host, self.options.max_block
        if self.circuit is not _circuit.CLOSED and _circuit.is_open(self.circuit, now=now):
            return HostUnavailableError(host, self.circuit.retry_at - now, self.outage)
        if self.blocked_until_at - now > patience:
            return HostUnavailableError(
                host, self.blocked_until_at - now, "this gate was told to leave it alone"
            )
        if state.blocked_until_at - now > patience:
            return HostUnavailableError(host, state.blocked_until_at - now, "it asked us to stay away")
        if ahead or not self.asked.visit_times:
            return None
        # By the time the next visit is due, the hours may be over.
        due_at = _pacing.earliest_start_at(state, spacing=spacing, now=now)
        start_at = self.start_at(state, spacing=spacing, ahead=False, now=now)
        if start_at == due_at and start_at - now <= patience + self.options.max_delay:
            return None
        if start_at - now <= patience:
            return None
        return HostUnavailableError(host, start_at - now, "its Visit-time welcomes nobody at that hour")


def spacing_of(members: Collection[Member], state: HostState) -> Spacing:
    """What spaces the visits of all who are paced together: the longest of what any of them is due."""
    return Spacing(
        floor=max(
            (max(member.options.delay, _latency_delay(member, state)) for member in members), default=0.0
        ),
        asked=tuple(dict.fromkeys(member.asked for member in members if member.asked != NOTHING_ASKED)),
    )


def _latency_delay(member: Member, state: HostState) -> float:
    factor = member.options.latency_factor
    if not factor:
        return 0.0
    ceiling = min(member.options.max_delay, MAX_LATENCY_DELAY)
    return _pacing.latency_delay(state, factor=factor, ceiling=ceiling)
