"""What this process has under way."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final

from robotgate.stores.redis._wire import WORKER_OCTETS

if TYPE_CHECKING:
    from collections.abc import Iterator

_SERIAL_OCTETS: Final = 8


@dataclass(slots=True)
class OpenTurn:
    """A request under way, or about to be sent."""

    id: bytes
    """Its worker's octets and a serial: nobody else's, ever."""
    pace_key: str
    slots: int
    delay: float
    reserved_at: float
    began_at: float | None = None
    is_booked: bool = True
    """Whether the server was asked for it; else it is news there."""
    held_at: float = 0.0
    """When the server was last told all of it, in seconds of the monotonic clock; 0 where it does not know all."""


class OpenTurns:
    """Requests under way, by host."""

    def __init__(self) -> None:
        self.worker: Final = os.urandom(WORKER_OCTETS)
        self._serials = count(1)
        self._open: dict[str, list[OpenTurn]] = {}

    def __contains__(self, pace_key: object) -> bool:
        return pace_key in self._open

    def __iter__(self) -> Iterator[OpenTurn]:
        return (turn for turns in list(self._open.values()) for turn in list(turns))

    def at(self, pace_key: str) -> list[OpenTurn]:
        """What is under way at a host."""
        return self._open.get(pace_key, [])

    def new(self, pace_key: str, *, slots: int, delay: float, at: float) -> OpenTurn:
        """A turn that is about to be asked for."""
        serial = next(self._serials).to_bytes(_SERIAL_OCTETS, "big")
        return OpenTurn(self.worker + serial, pace_key, slots, delay, at)

    def add(self, turn: OpenTurn) -> None:
        """It is ours."""
        self._open.setdefault(turn.pace_key, []).append(turn)

    def begin(self, pace_key: str, *, at: float) -> OpenTurn | None:
        """A request is sent. Returns its turn; None if there is none that was reserved for it."""
        for turn in self._open.get(pace_key, ()):
            if turn.began_at is None:
                turn.began_at = at
                return turn
        return None

    def end(self, pace_key: str, *, is_unused: bool) -> OpenTurn | None:
        """A request has ended, or will not be sent.

        Args:
            is_unused: which of the two, where there are turns of both kinds.
        """
        turns = self._open.get(pace_key)
        if turns is None:
            return None
        if len(turns) == 1:
            del self._open[pace_key]
            return turns[0]
        # Which of several that are alike it was makes no difference.
        fitting = (place for place, turn in enumerate(turns) if (turn.began_at is None) == is_unused)
        return turns.pop(next(fitting, 0))
