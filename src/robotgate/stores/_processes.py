"""Who has the file open. Whoever is still entered when he is gone did not write all that he knew."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3


@dataclass(frozen=True, slots=True)
class Me:
    """This store, as the others know it."""

    started_at: float
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    pid: int = field(default_factory=os.getpid)


def bury(connection: sqlite3.Connection, me: Me) -> bool:
    """Strike out those who are gone. Returns whether there were any."""
    return connection.execute("DELETE FROM processes WHERE id <> ?", (me.id,)).rowcount > 0


def enter(connection: sqlite3.Connection, me: Me, *, now: float) -> None:
    """Enter, or tell that we are still there."""
    connection.execute(
        "INSERT INTO processes VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET seen_at = excluded.seen_at",
        (me.id, me.pid, me.started_at, now),
    )


def leave(connection: sqlite3.Connection, me: Me) -> None:
    """Say that nothing was lost."""
    connection.execute("DELETE FROM processes WHERE id = ?", (me.id,))
