"""What is done with the file besides, on its thread: who is here, what may be missing, and its bounds."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from robotgate.stores import _tables
from robotgate.stores._file_clock import ASSUMED_VISIT_AT, NOISE
from robotgate.stores._processes import Presence
from robotgate.stores._prune import Pruning, used_bytes
from robotgate.stores._write_behind import Opened

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from robotgate._ports import Clock
    from robotgate.stores._processes import Census

HEARTBEAT: Final = 1.0
"""Seconds between two signs of life."""
STEP_PAUSE: Final = 0.01
"""Seconds between two steps of a pruning, for whoever else wants the file or the processor."""
PRUNE_INTERVAL: Final = 24 * 3600.0
"""Seconds after which rows are looked for that have grown too old."""
CROWDED_INTERVAL: Final = 60.0
"""Seconds, at least, between two prunings of a file that is too large and cannot be made smaller."""

FILE_NUMBER: Final = "file_number"
PRUNED_AT: Final = "pruned_at"


class Upkeep:
    """Keeps the file in order while nothing else is to do.

    Args:
        is_steady: whether the clock counts with the machine's monotonic clock.
        tell: called with who is there, whenever that was looked at without being asked.
    """

    def __init__(
        self, *, clock: Clock, max_bytes: int, max_age: float, is_steady: bool, tell: Callable[[Census], None]
    ) -> None:
        self.presence = Presence(clock, is_steady=is_steady)
        self._tell = tell
        self.opened: Opened | None = None
        self._file: float | None = None
        self._clock = clock
        self._max_bytes = max_bytes
        self._max_age = max_age
        self._pruning: Pruning | None = None
        self._crowded_at: float | None = None

    def opening(self, connection: sqlite3.Connection, is_other: bool) -> None:  # noqa: FBT001 - the database's word
        """Enter ourselves, and see whether those before us left in order.

        Where they did not, every host is from then on taken to have been visited now, known or not: any of them may
        have been, just before the end. That outlives us, for a delay may be longer than we live.
        """
        now = self._clock.now()
        file = self._file_number(connection)
        # Of a file that was deleted, the next may have the number with the system as well.
        is_other = is_other or self._file not in (None, file)
        self._file = file
        # It may be another file, or what the last connection made of it was undone.
        self.presence.forget_clock()
        census = self.presence.attend(connection, now=now)
        shift = self.presence.shift or 0.0
        assumed_at = _tables.read_fact(connection, ASSUMED_VISIT_AT)
        if census.may_have_lost or is_other:
            assumed_at = now - shift
        if assumed_at is not None:
            # A clock that was set back makes no visit later than now.
            assumed_at = min(assumed_at, now - shift)
            _tables.write_fact(connection, ASSUMED_VISIT_AT, assumed_at)
        if _tables.read_fact(connection, PRUNED_AT) is None:
            _tables.write_fact(connection, PRUNED_AT, now)
        files = 1 if self.opened is None else self.opened.files + is_other
        found_dead_at = None if self.opened is None else self.opened.found_dead_at
        assumed_at = None if assumed_at is None else assumed_at + shift
        self.opened = Opened(assumed_at, files, now if census.may_have_lost else found_dead_at)
        self._tell(census)

    def attend(self, connection: sqlite3.Connection) -> Census:
        """Give a sign of life, and see who is there."""
        now = self._clock.now()
        census = self.presence.attend(connection, now=now)
        if self.opened is None:
            return census
        shift = self.presence.shift or 0.0
        if census.may_have_lost:
            _tables.write_fact(connection, ASSUMED_VISIT_AT, now - shift)
        # Whoever finds somebody dead, all hear of it here.
        at, known_at = _tables.read_fact(connection, ASSUMED_VISIT_AT), self.opened.assumed_visit_at
        if at is not None and (known_at is None or at + shift - known_at > NOISE):
            self.opened = Opened(at + shift, self.opened.files, found_dead_at=at + shift)
        return census

    def idle(self, connection: sqlite3.Connection) -> float:
        """Give a sign of life, and prune a little if it is time. Returns the seconds until the next time."""
        self._tell(self.attend(connection))
        now = self._clock.now()
        pruning, self._pruning = self._pruning, None
        if pruning is None and self._is_due(connection, now):
            pruning = self.pruning(now)
        if pruning is None:
            return HEARTBEAT
        if pruning.step(connection):
            _tables.write_fact(connection, PRUNED_AT, now)
            self._crowded_at = now
            return HEARTBEAT
        self._pruning = pruning
        return STEP_PAUSE

    def pruning(self, now: float) -> Pruning:
        """A going through the file with our bounds."""
        # By whichever clock it is earlier: no host goes whose wait is unserved by its own.
        now = min(now, now - (self.presence.shift or 0.0))
        return Pruning(now=now, max_bytes=self._max_bytes, max_age=self._max_age)

    def _file_number(self, connection: sqlite3.Connection) -> float:
        """Drawn when the file was made: no two have the same."""
        number = _tables.read_fact(connection, FILE_NUMBER)
        if number is None:
            number = float(random.getrandbits(53))
            _tables.write_fact(connection, FILE_NUMBER, number)
        return number

    def _is_due(self, connection: sqlite3.Connection, now: float) -> bool:
        pruned_at = _tables.read_fact(connection, PRUNED_AT)
        # Of a clock that was set back, the last time lies in the future.
        if pruned_at is None or not 0 <= now - pruned_at < PRUNE_INTERVAL:
            return True
        if self._crowded_at is not None and 0 <= now - self._crowded_at < CROWDED_INTERVAL:
            return False
        return used_bytes(connection) > self._max_bytes
