"""Host states in memory, and which of them the file does not have yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from robotgate import _pacing
from robotgate._pacing import HostState

if TYPE_CHECKING:
    from collections.abc import Container

_LOOKED_AT: Final = 4_000
"""At a time: the loop is not kept for long."""


class HostMemory:
    """What this process knows of hosts. All of it is used in the event loop alone.

    Args:
        max_hosts: how many are kept. Those whose wait is unserved, or which are not yet written, may be more.
    """

    def __init__(self, *, max_hosts: int) -> None:
        self.max_hosts = max_hosts
        self.states: dict[str, HostState] = {}
        self.pending: dict[str, HostState] = {}
        """Not written, nor about to be."""
        self.guessed: set[str] = set()
        """Asked for while the file could not be read: what it knows of them is still to be taken in."""

    def remember(self, pace_key: str, state: HostState) -> bool:
        """Take in a new state. Returns whether it tells of a block that was not known."""
        known = self.states.get(pace_key)
        self.states[pace_key] = self.pending[pace_key] = state
        return state.blocked_until_at != (0.0 if known is None else known.blocked_until_at)

    def learn(self, pace_key: str, state: HostState) -> HostState:
        """Take in what the file knows. Returns what is known now."""
        known = self.states.get(pace_key)
        if known is not None:
            state = _pacing.merged(known, state)
        self.states[pace_key] = state
        if pace_key in self.pending:
            self.pending[pace_key] = state
        return state

    def visit_all(self, at: float) -> None:
        """Take every host that is known to have been visited at this instant, if not later."""
        visited = HostState(last_visit_at=at)
        for pace_key, state in list(self.states.items()):
            if state.last_visit_at is None or state.last_visit_at < at:
                self.learn(pace_key, visited)

    def forget(self, pace_key: str) -> bool:
        """Let go of a host. Returns whether anything was known of it."""
        self.pending.pop(pace_key, None)
        self.guessed.discard(pace_key)
        return self.states.pop(pace_key, None) is not None

    def evict(self, *, now: float, keep: Container[str] = (), pending_too: bool = False) -> None:
        """Let some of the oldest go, if there are too many: none whose wait is unserved.

        Args:
            keep: hosts that are being written.
            pending_too: there is no file to take them: what nobody waits for any more goes all the same.
        """
        too_many = len(self.states) - self.max_hosts
        if too_many <= 0:
            return
        oldest = [key for key, _ in zip(self.states, range(_LOOKED_AT), strict=False)]
        for pace_key in oldest:
            state = self.states[pace_key]
            is_served = max(state.next_allowed_at, state.blocked_until_at) <= now
            if is_served and pace_key not in keep and (pending_too or pace_key not in self.pending):
                self.forget(pace_key)
                too_many -= 1
                if not too_many:
                    return
            else:
                # Behind all others, so that the next time looks at those.
                self.states[pace_key] = self.states.pop(pace_key)
