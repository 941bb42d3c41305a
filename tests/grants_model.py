"""The grants of a medium that may lose its memory, as the script of Redis has them."""

from __future__ import annotations

from dataclasses import replace

from robotgate.stores import HostState
from robotgate.stores.grants import EXPIRY, ROBOTS, Grants, no_earlier, not_before


class LosingGrants(Grants):
    """Until `EXPIRY` after a loss only claims are granted, and hosts that a claimant has left. Of a host that was lost
    only instants are taken in.

    Where no session sends anything for `EXPIRY`, the medium may have been frozen, or its clock set forward: that ends
    no session, and makes no visit longer ago.
    """

    def __init__(self, epoch: str) -> None:
        super().__init__(epoch)
        self._lost_until_at: float | None = None
        self._assumed_at: float | None = None
        """When every host counts as visited, at least."""
        self._heard_at: float | None = None
        self._granted: set[str] = set()
        """Hosts that were granted since the loss."""

    def lose(self, epoch: str, *, now: float, forgets_hosts: bool) -> None:
        """Go on after memory was lost.

        Args:
            epoch: another than any before.
            forgets_hosts: what is known of hosts is lost too; otherwise only who holds and waits for them.
        """
        self.epoch = epoch
        self.sessions.clear()
        self.hosts.clear()
        self._granted.clear()
        if forgets_hosts:
            self.states.clear()
            self.blocks.clear()
        self._lost_until_at = self._assumed_at = now + EXPIRY
        self._heard_at = now

    def expire(self, now: float) -> None:
        """As `Grants.expire`; and end the time in which only claims count."""
        if self._heard_at is not None and now - self._heard_at >= EXPIRY:
            self._outlast_silence(self._heard_at, now)
        self._heard_at = now
        super().expire(now)
        if self._lost_until_at is not None and now >= self._lost_until_at:
            self._lost_until_at = None
            for key in [key for key, host in self.hosts.items() if host.line and host.owner is None]:
                self._grant_next(key)

    def _outlast_silence(self, heard_at: float, now: float) -> None:
        if self._lost_until_at is not None:
            self._lost_until_at = self._assumed_at = (
                now + EXPIRY if self._lost_until_at > heard_at else self._lost_until_at
            )
        for key, state in self.states.items() if self.sessions else ():
            if state.last_visit_at is not None:
                visited_at = max(state.last_visit_at, min(state.last_visit_at + now - heard_at, now))
                self.states[key] = replace(state, last_visit_at=visited_at)
        for session in self.sessions.values():
            session.seen_at = now if session.seen_at + EXPIRY > heard_at else now - EXPIRY

    def _claim(self, name: str, key: str) -> None:
        if self._lost_until_at is not None and self.host(key).owner is None:
            super()._claim(name, key)

    def _grant_next(self, key: str) -> None:
        host = self.host(key)
        if self._lost_until_at is not None:
            if key not in self._granted:
                host.owner = None
                return
        elif host.line and self._assumed_at is not None:
            self._move_later(key, HostState(last_visit_at=self._assumed_at))
        super()._grant_next(key)

    def _grant(self, name: str, key: str) -> None:
        self._granted.add(key)
        super()._grant(name, key)

    def _move_later(self, key: str, told: HostState) -> None:
        later = HostState(last_visit_at=told.last_visit_at, next_allowed_at=not_before(told))
        known = self.known(key)
        state = no_earlier(known or HostState(), later)
        if state != (known or HostState()) and not key.startswith(ROBOTS):
            self.keep(key, state)
