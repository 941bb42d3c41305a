"""The grants of a medium that may lose its memory, as the script of Redis has them."""

from __future__ import annotations

import math
from dataclasses import replace

from robotgate.stores import HostState
from robotgate.stores.grants import EXPIRY, ROBOTS, Grants, no_earlier, not_before


class LosingGrants(Grants):
    """All hosts count as visited when the time after a loss ends. Of a host that was lost only instants are taken in.

    Where no session sends anything for `EXPIRY`, the medium may have been frozen, or its clock set forward: that ends
    no session, and makes no visit longer ago.
    """

    def __init__(self, epoch: str) -> None:
        super().__init__(epoch)
        self._lost_until_at: float = -math.inf
        """When every host counts as visited, at least."""
        self._heard_at: float | None = None

    def lose(self, epoch: str, *, now: float, forgets_hosts: bool) -> None:
        """Go on after memory was lost.

        Args:
            epoch: another than any before.
            forgets_hosts: what is known of hosts is lost too; otherwise only who holds and waits for them.
        """
        self.epoch = epoch
        self.sessions.clear()
        self.hosts.clear()
        self.is_lost = True
        if forgets_hosts:
            self.states.clear()
            self.blocks.clear()
        self._lost_until_at = now + EXPIRY
        self._heard_at = now

    def expire(self, now: float) -> None:
        """As `Grants.expire`; and end the time in which only claims count."""
        if self._heard_at is not None and now - self._heard_at >= EXPIRY:
            self._outlast_silence(self._heard_at, now)
        self._heard_at = now
        super().expire(now)
        if self.is_lost and now >= self._lost_until_at:
            self.settle(list(self.hosts))

    def _outlast_silence(self, heard_at: float, now: float) -> None:
        if self.is_lost and self._lost_until_at > heard_at:
            self._lost_until_at = now + EXPIRY
        for key, state in self.states.items() if self.sessions else ():
            if state.last_visit_at is not None:
                visited_at = max(state.last_visit_at, min(state.last_visit_at + now - heard_at, now))
                self.states[key] = replace(state, last_visit_at=visited_at)
        for session in self.sessions.values():
            session.seen_at = now if session.seen_at + EXPIRY > heard_at else now - EXPIRY

    def _claim(self, name: str, key: str) -> None:
        if self.is_lost and self.host(key).owner is None:
            super()._claim(name, key)

    def _grant_next(self, key: str) -> None:
        if -math.inf < self._lost_until_at and not self.is_lost and self.host(key).line:
            self._move_later(key, HostState(last_visit_at=self._lost_until_at))
        super()._grant_next(key)

    def _move_later(self, key: str, told: HostState) -> None:
        later = HostState(last_visit_at=told.last_visit_at, next_allowed_at=not_before(told))
        known = self.known(key)
        state = no_earlier(known or HostState(), later)
        if state != (known or HostState()) and not key.startswith(ROBOTS):
            self.keep(key, state)
