"""Who has the file open: signs of life, those who are gone, and who knows of whom.

A process that comes writes itself down, and waits until each of the others that live has written that it knows of the
newcomer; with that, and in the same transaction, each writes all that only it knew. From then on they share the file.
"""

from __future__ import annotations

import os
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

from robotgate._clock import epoch_of
from robotgate.stores import _booking, _file_clock

if TYPE_CHECKING:
    import sqlite3

    from robotgate._ports import Clock

PATIENCE: Final = 10.0
"""Seconds without a sign of life after which a process is taken for gone."""
LEAST_BEAT: Final = 0.25
"""Seconds within which a second sign of life would tell nobody anything."""
_given_up: Final[set[str]] = set()
"""Stores of this process that could not write that they left."""


@dataclass(frozen=True, slots=True)
class Census:
    """Who was there at a sign of life."""

    others: frozenset[str]
    """All who live but us."""
    strangers: frozenset[str]
    """Those of them of whom we have not written that we know of them."""
    unaware: frozenset[str]
    """Those of them who have not written that they know of us."""
    may_have_lost: bool
    """Whether a process is gone that did not leave, and may not have written all it knew."""
    beat_at: float = 0.0
    """Our own sign of life by then (monotonic)."""

    @property
    def is_settled(self) -> bool:
        """Whether everybody knows of everybody."""
        return not self.strangers and not self.unaware


class Presence:
    """We, as the others see us. Used on the database's thread, but for `id` and `beat_at`.

    Args:
        is_steady: whether our clock counts with the machine's monotonic clock: that then tells how much time has passed
            since those before us. Of another clock, what passes between two processes is its own affair.
    """

    def __init__(self, clock: Clock, *, is_steady: bool) -> None:
        self.id = uuid.uuid4().hex
        self.beat_at = 0.0
        """When we last gave a sign of life (monotonic)."""
        self.shift: float | None = None
        """Seconds by which our clock is ahead of the file's, which is made ours once nobody else is there."""
        self.has_company = False
        """Whether others were there at the last sign of life."""
        self._clock = clock
        boot = _file_clock.boot_id()
        self._boot = boot if is_steady else ""
        self._place = _place(boot)

    def give_up(self) -> None:
        """We are gone, and could not write so: the stores that this process opens later know."""
        _given_up.add(self.id)

    def forget_clock(self) -> None:
        """See anew how far our clock is ahead of the file's, at the next sign of life."""
        self.shift = None

    def attend(self, connection: sqlite3.Connection, *, now: float) -> Census:
        """Give a sign of life, strike out who is gone, and see who is there."""
        at = monotonic()
        rows = {
            row[0]: row[1:] for row in connection.execute("SELECT id, pid, beat_at, place FROM processes")
        }
        mine = rows.pop(self.id, None)
        gone = {id_ for id_, row in rows.items() if id_ in _given_up or self._is_gone(*row, at=at)}
        others = frozenset(rows.keys() - gone)
        if self.shift is None:
            self.shift = _file_clock.shift_of(
                connection, epoch=epoch_of(self._clock), boot=self._boot, is_first=not others
            )
        known, aware = self._acquainted(connection) if rows else (set(), set())
        for process in gone:
            _booking.depart(connection, process, now=now - self.shift)
        if self.shift and not others:
            _file_clock.move(connection, self.shift, epoch=epoch_of(self._clock), boot=self._boot)
            self.shift = 0.0
        if mine is None or at - mine[1] >= LEAST_BEAT:
            connection.execute(
                "REPLACE INTO processes VALUES (?, ?, ?, ?)",
                (self.id, os.getpid(), at, self._place),
            )
            self.beat_at = at
        self.has_company = bool(others)
        return Census(
            others,
            others - known,
            others - aware,
            may_have_lost=bool(gone - aware),
            beat_at=self.beat_at,
        )

    def _acquainted(self, connection: sqlite3.Connection) -> tuple[set[str], set[str]]:
        """Whom we know, and who knows us, as far as that is written."""
        pairs = connection.execute(
            "SELECT process, knows FROM acquaintances WHERE process = ? OR knows = ?", (self.id, self.id)
        ).fetchall()
        known = {knows for process, knows in pairs if process == self.id}
        return known, {process for process, knows in pairs if knows == self.id}

    def _is_gone(self, pid: int, beat_at: float, place: str, *, at: float) -> bool:
        # The monotonic clock is the machine's; it begins anew when that does.
        if not -1.0 <= at - beat_at <= PATIENCE:
            return True
        return place != "" and place == self._place and not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _place(boot: str) -> str:
    """Where a process number means something; empty where that cannot be told: containers may share a file."""
    if sys.platform == "darwin":
        return "darwin"
    if not boot:
        return ""
    try:
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""
