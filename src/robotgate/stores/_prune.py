"""The bounds on disk, kept in small steps: the oldest go first, and no host whose wait is unserved.

No index tells which are the oldest: it would take as much room again as half the rows. The tables are gone through by
key instead, and what is counted on the way tells from when on rows can stay.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from robotgate._ports import Pruned

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from robotgate.stores._rows import Value

VACUUM_STEP: Final = 256
"""Pages given back to the system at a time."""
ROOM: Final = 0.9
"""The share of `max_bytes` that is left, so that not every next batch prunes again."""
GRAIN: Final = 3600.0
"""Seconds; ages are told apart by it where the file is too large."""
MOST_ROUNDS: Final = 4
"""Estimates may have to be made again; what cannot go is not tried for ever."""

_HOST_OVERHEAD: Final = 60
_RECORD_OVERHEAD: Final = 150
"""Octets of a row besides its key and its body."""


@dataclass(frozen=True, slots=True)
class _Table:
    """How one table is gone through."""

    next_key: str
    """The last key of the next step."""
    delete: str
    measure: str
    step: int
    """Rows gone through at a time."""


_HOSTS: Final = _Table(
    next_key="SELECT pace_key FROM hosts WHERE pace_key > ? ORDER BY pace_key LIMIT 1 OFFSET ?",
    step=2_000,
    delete=(
        "DELETE FROM hosts WHERE pace_key > ? AND pace_key <= ? AND saved_at < ? "
        "AND next_allowed_at <= ? AND blocked_until_at <= ?"
    ),
    measure=(
        f"SELECT CAST(saved_at / {GRAIN} AS INTEGER), max(next_allowed_at, blocked_until_at) <= ?, "  # noqa: S608
        f"sum(length(pace_key) + {_HOST_OVERHEAD}) FROM hosts "
        "WHERE pace_key > ? AND pace_key <= ? GROUP BY 1, 2"
    ),
)
# Both tables take the same arguments: of a record, an instant before every other asks nothing.
_RECORDS: Final = _Table(
    next_key="SELECT id FROM records WHERE id > ? ORDER BY id LIMIT 1 OFFSET ?",
    step=200,
    delete="DELETE FROM records WHERE id > ? AND id <= ? AND saved_at < ? AND ? = ?",
    measure=(
        f"SELECT CAST(saved_at / {GRAIN} AS INTEGER), ? > 0, "  # noqa: S608
        f"sum(length(host) + coalesce(length(body), 0) + {_RECORD_OVERHEAD}) FROM records "
        "WHERE id > ? AND id <= ? GROUP BY 1, 2"
    ),
)
_BEFORE_ALL: Final = -(2**62)
_AFTER_ALL: Final = b"\xff" * 16
"""Octets come after numbers and text, and what we write as octets begins as UTF-8 does."""


def used_bytes(connection: sqlite3.Connection) -> int:
    """What the file takes, but for what is free in it."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    return int((pages - free) * page_bytes)


class Pruning:
    """One going through the file, step by step; each in a transaction of its own."""

    def __init__(self, *, now: float, max_bytes: int, max_age: float) -> None:
        self._now = now
        self._max_bytes = max_bytes
        self._max_age = max_age
        self._connection: sqlite3.Connection | None = None
        self._steps = self._go()
        self.records = 0
        self.hosts = 0
        self.is_done = False

    @property
    def pruned(self) -> Pruned:
        """What has gone so far."""
        return Pruned(records=self.records, hosts=self.hosts)

    def step(self, connection: sqlite3.Connection) -> bool:
        """A little. Returns whether it was the last."""
        self._connection = connection
        self.is_done = next(self._steps, True)
        return self.is_done

    def _go(self) -> Iterator[bool]:
        yield from self._delete(before=self._now - self._max_age)
        for _ in range(MOST_ROUNDS):
            used = used_bytes(self._there)
            if used <= self._max_bytes:
                break
            # What can go, by age, and what cannot: the pages' own room is spread over both.
            ages: Counter[int] = Counter()
            staying: Counter[int] = Counter()
            yield from self._measure(ages, staying)
            share = 1 - self._max_bytes * ROOM / used
            before = self._bound(ages, (ages.total() + staying.total()) * share)
            if before is None:
                break
            yield from self._delete(before=before)
        while self._free_pages():
            self._there.execute(f"PRAGMA incremental_vacuum({VACUUM_STEP})").fetchall()
            yield False

    @property
    def _there(self) -> sqlite3.Connection:
        if self._connection is None:
            raise RuntimeError("a step needs a connection")
        return self._connection

    def _free_pages(self) -> int:
        (free,) = self._there.execute("PRAGMA freelist_count").fetchone()
        return int(free)

    def _bound(self, ages: Counter[int], excess: float) -> float | None:
        """From when on rows can stay; None if nothing can go."""
        gone = 0
        for age in sorted(ages):
            gone += ages[age]
            if gone >= excess:
                return (age + 1) * GRAIN
        return (max(ages) + 1) * GRAIN if ages else None

    def _delete(self, *, before: float) -> Iterator[bool]:
        for first, last in self._stretches(_RECORDS):
            self.records += self._there.execute(_RECORDS.delete, (first, last, before, 0, 0)).rowcount
            yield False
        for first, last in self._stretches(_HOSTS):
            bounds = (first, last, before, self._now, self._now)
            self.hosts += self._there.execute(_HOSTS.delete, bounds).rowcount
            yield False

    def _measure(self, ages: Counter[int], staying: Counter[int]) -> Iterator[bool]:
        for table in (_RECORDS, _HOSTS):
            for first, last in self._stretches(table):
                found = self._there.execute(table.measure, (self._now, first, last)).fetchall()
                for age, may_go, octets in found:
                    (ages if may_go else staying)[age] += octets
                yield False

    def _stretches(self, table: _Table) -> Iterator[tuple[Value, Value]]:
        """The table's keys in stretches: after the first of each, up to the last."""
        first: Value = _BEFORE_ALL
        while True:
            row = self._there.execute(table.next_key, (first, table.step - 1)).fetchone()
            yield first, _AFTER_ALL if row is None else row[0]
            if row is None:
                return
            first = row[0]
