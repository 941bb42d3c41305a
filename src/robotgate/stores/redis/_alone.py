"""How a process keeps a host's pace by itself, while nobody can tell what the others do there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from zlib import crc32

from robotgate._pacing import CLOCK_GRAIN, HostState
from robotgate._ports import Postponed
from robotgate.stores.redis._keys import text

if TYPE_CHECKING:
    from robotgate.stores.redis._open_turns import OpenTurn, OpenTurns

LEAST_POLL: Final = 0.02
"""Seconds after which it is worth looking again for a slot that another request has, at the least."""
_PHASES: Final = 2**32


class Alone:
    """Leaves the delay as often as there are workers. So together they keep the mean rate, if not every gap; and since
    each begins at another moment, most gaps too.
    """

    def __init__(self, turns: OpenTurns) -> None:
        self._turns = turns
        self._since_at = 0.0
        self._workers = 1

    def begin(self, *, now: float, workers: int) -> None:
        """The server was lost now, when there were so many workers."""
        self._since_at = now
        self._workers = workers

    def reserve(self, turn: OpenTurn, known: HostState) -> Postponed | None:
        """As `SharedStore.reserve`, by what this process knows of the host.

        Args:
            turn: reserved now, if it may begin.
        """
        now, workers = turn.reserved_at, self._workers
        under_way = self._turns.at(turn.pace_key)
        if len(under_way) >= max(turn.slots // workers, 1):
            return Postponed(known, now + max(turn.delay, LEAST_POLL))
        if any(other.began_at is None for other in under_way) and turn.delay:
            return Postponed(known, now + turn.delay)
        due_at = self._due_at(turn, known)
        if due_at - now > CLOCK_GRAIN:
            return Postponed(known, due_at)
        turn.is_booked = False
        self._turns.add(turn)
        return None

    def _due_at(self, turn: OpenTurn, known: HostState) -> float:
        workers, delay = self._workers, turn.delay
        # Others may have been there a moment ago, and each of us comes once in so many delays.
        phase = crc32(self._turns.worker + text(turn.pace_key)) / _PHASES
        due_at = max(
            known.next_allowed_at,
            known.blocked_until_at,
            self._since_at + delay * (1 + phase * (workers - 1)),
        )
        if known.last_visit_at is not None and known.last_visit_at > self._since_at:
            due_at = max(due_at, known.last_visit_at + delay * workers)
        return due_at
