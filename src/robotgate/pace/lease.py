"""The right of a process to pace a host or a scope, of which a store that several processes share has one each."""

from __future__ import annotations

from typing import Final, Protocol


class Lease(Protocol):
    """Says whether a process may pace a host."""

    def is_valid(self) -> bool:
        """Return whether it may start a request now. It reads a clock that runs while the machine is suspended."""


class NotOwned:
    """The lease of a host whose state has not been loaded, or that another process paces."""

    __slots__ = ()

    def is_valid(self) -> bool:
        """Return False: obtain the host first."""
        return False


NOT_OWNED: Final = NotOwned()
MOST_TURNS: Final = 16
"""Turns after which a process hands on what another wants, of whatever has more slots: it may never be idle."""


class Leased:
    """What stores keep and grant by its key: a `Host`, or a `Scope`."""

    __slots__ = ()

    key: str
    lease: Lease | None
    """None: this process alone paces it, and knows its state."""
    is_wanted: bool
    """Whether another process asks for it: `Scheduler.note_wanted`."""
    slots: int
    """Turns that may be open at once."""
    visits: int
    owned_visits: int
    """How many visits there were when this process obtained it."""

    def is_ours(self) -> bool:
        """Return whether what this process knows of it holds. Whether others want it does not matter."""
        return self.lease is None or self.lease.is_valid()

    def may_pace(self) -> bool:
        """Return whether this process may pace it now."""
        if self.lease is None:
            return True
        is_done = self.is_wanted and self.visits - self.owned_visits >= min(self.slots, MOST_TURNS)
        return not is_done and self.lease.is_valid()
