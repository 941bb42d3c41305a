"""The clock by which hosts' instants stand in the file: that of whoever came first.

While the machine runs, its monotonic clock tells how much time has passed, whatever became of the wall clock: it was
set, or went on while the machine slept. Once the machine was started anew nothing can be known, nor where the system
does not say which start this is: there the wall clock is believed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from robotgate.stores._tables import read_fact, write_fact

if TYPE_CHECKING:
    import sqlite3

NOISE: Final = 1e-5
"""Seconds by which two clocks may seem to differ that do not; a delay between two may be too short by twice as much."""
ASSUMED_VISIT_AT: Final = "assumed_visit_at"
"""The name of the instant at which every host is taken to have been visited."""
_EPOCH: Final = "epoch"
"""Of the instant at which the file's clock has the monotonic clock begin; the start of the machine is in the name."""
_INSTANTS: Final = {
    "hosts": ("saved_at", "last_visit_at", "next_allowed_at", "blocked_at", "blocked_until_at"),
    "open_turns": ("reserved_at", "began_at"),
}


def boot_id() -> str:
    """Which start of the machine this is; empty where the system does not say."""
    if sys.platform != "linux":
        return ""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def shift_of(connection: sqlite3.Connection, *, epoch: float, boot: str, is_first: bool) -> float:
    """Seconds by which our clock is ahead of the file's.

    Args:
        epoch: the instant at which our clock has the monotonic clock begin.
        boot: the start of the machine by which our clock counts; empty for one that counts otherwise.
        is_first: whether nobody else is there: what those have left who are gone is then believed of this start alone.
    """
    name = f"{_EPOCH} {boot}" if is_first else f"{_EPOCH} *"
    row = None
    if boot or not is_first:
        row = connection.execute("SELECT value FROM facts WHERE name GLOB ?", (name,)).fetchone()
    if row is None:
        _keep(connection, epoch, boot)
        return 0.0
    ahead = epoch - float(row[0])
    return ahead if abs(ahead) > NOISE else 0.0


def move(connection: sqlite3.Connection, seconds: float, *, epoch: float, boot: str) -> None:
    """Make the file's clock ours, which is ahead by so many seconds. Nobody else must be there."""
    for table, columns in _INSTANTS.items():
        # 0 is no instant, and what cannot be read stays unreadable.
        moved = ", ".join(
            f"{name} = CASE WHEN typeof({name}) = 'real' AND {name} <> 0 THEN {name} + :by ELSE {name} END"
            for name in columns
        )
        connection.execute(f"UPDATE {table} SET {moved}", {"by": seconds})  # noqa: S608 - of our own names alone
    assumed_at = read_fact(connection, ASSUMED_VISIT_AT)
    if assumed_at is not None:
        write_fact(connection, ASSUMED_VISIT_AT, assumed_at + seconds)
    _keep(connection, epoch, boot)


def _keep(connection: sqlite3.Connection, epoch: float, boot: str) -> None:
    connection.execute("DELETE FROM facts WHERE name GLOB ?", (f"{_EPOCH} *",))
    write_fact(connection, f"{_EPOCH} {boot}", epoch)
