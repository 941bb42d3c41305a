"""The tables of the database by version, their rows, and their bounds.

Instants of hosts and records are seconds since the epoch by the file's clock. All functions but `examine` and `prepare`
run within a transaction of their caller.
"""

from __future__ import annotations

import logging
import random
import sqlite3
import time
from collections import Counter
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Final, TypeAlias

from robotgate.pace.state import HostState, restored
from robotgate.stores.base import Pruned
from robotgate.stores.codec import Fields, host_fields, host_of, moved_record, pack_record, unpack_record
from robotgate.stores.sqlite.database import HEADER_BYTES, fault
from robotgate.urls import Origin

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from robotgate.sites.record import RobotsRecord

Value: TypeAlias = int | float | str | bytes | None
"""What SQLite keeps."""
Place: TypeAlias = tuple[Value, ...]
"""Host, port and scheme, by which records are in order."""

APPLICATION_ID: Final = 0x52476174
"""``RGat``: by it a file is known to be ours."""
CACHE_KIBIBYTES: Final = 8192
"""Of pages in memory; the system keeps the rest."""
MAX_LOG_BYTES: Final = 16 * 1024 * 1024
"""To which the write-ahead log is cut back after a burst."""

_HOSTS: Final = """
CREATE TABLE hosts (
    pace_key NOT NULL PRIMARY KEY,
    saved_at REAL NOT NULL,
    last_visit_at REAL,
    next_allowed_at REAL NOT NULL,
    blocked_at REAL NOT NULL,
    blocked_until_at REAL NOT NULL,
    failures INTEGER NOT NULL,
    visits INTEGER NOT NULL,
    bytes_read INTEGER NOT NULL,
    latency REAL
) WITHOUT ROWID
"""
_RECORDS: Final = """
CREATE TABLE records (
    id INTEGER PRIMARY KEY,
    host NOT NULL,
    port INTEGER NOT NULL,
    scheme TEXT NOT NULL,
    saved_at REAL NOT NULL,
    record BLOB NOT NULL,
    UNIQUE (host, port, scheme)
)
"""
_FACTS: Final = "CREATE TABLE facts (name TEXT NOT NULL PRIMARY KEY, value REAL NOT NULL) WITHOUT ROWID"
_SESSIONS: Final = """
CREATE TABLE sessions (
    id TEXT NOT NULL PRIMARY KEY,
    joined INTEGER NOT NULL,
    seen_at REAL NOT NULL,
    boot TEXT NOT NULL,
    place TEXT NOT NULL,
    pid INTEGER NOT NULL
) WITHOUT ROWID
"""
"""`place` says where the process number means something; empty: nowhere else."""
_GRANTS: Final = (
    """
    CREATE TABLE grants (
        key NOT NULL,
        session TEXT NOT NULL,
        place INTEGER NOT NULL,
        token INTEGER,
        item INTEGER,
        PRIMARY KEY (key, session)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX grants_by_session ON grants (session, item)",
)
"""A session that holds a host has a token and an item in its inbox; one in line for it has neither."""
_BLOCKS: Final = (
    "CREATE TABLE blocks (pattern TEXT NOT NULL PRIMARY KEY, until_at REAL NOT NULL, serial INTEGER NOT NULL)"
)
LAYOUTS: Final = ((), (_HOSTS, _RECORDS, _FACTS, _SESSIONS, *_GRANTS, _BLOCKS))
"""What makes each version of the one before. The first was never released."""
VERSION: Final = len(LAYOUTS)

SERIAL: Final = "serial"
FILE_NUMBER: Final = "file_number"
ASSUMED_VISIT_AT: Final = "assumed_visit_at"
PRUNED_AT: Final = "pruned_at"
OPENED: Final = "opened"
"""With the start of the machine behind it: somebody uses the file, or did when the machine or the process ended."""

WAL_TRIES: Final = 100
"""How often a write-ahead log is tried to be used."""
WAL_PAUSE: Final = 0.02
"""Seconds between two tries."""
_MAGIC: Final = b"SQLite format 3\0"
_FIRST: Final = -1
"""Numbers come before all text."""
FIRST_PLACE: Final[Place] = (_FIRST, _FIRST, "")

_logger: Final = logging.getLogger("robotgate.stores")

_NAMES: Final = tuple(host_fields(HostState()))
_COLUMNS: Final = ", ".join(_NAMES)
# Put together of our own constants alone.
_WRITE_HOST: Final = f"REPLACE INTO hosts (pace_key, saved_at, {_COLUMNS}) VALUES (?, ?{', ?' * len(_NAMES)})"  # noqa: S608
_READ_HOST: Final = f"SELECT saved_at, {_COLUMNS} FROM hosts WHERE pace_key = ?"  # noqa: S608
_HOSTS_AFTER: Final = (
    f"SELECT pace_key, saved_at, {_COLUMNS} FROM hosts WHERE pace_key > ? ORDER BY pace_key LIMIT ?"  # noqa: S608
)
_WRITE_RECORD: Final = "REPLACE INTO records (host, port, scheme, saved_at, record) VALUES (?, ?, ?, ?, ?)"
_READ_RECORD: Final = "SELECT saved_at, record FROM records WHERE host = ? AND port = ? AND scheme = ?"
_RECORDS_AFTER: Final = (
    "SELECT host, port, scheme, saved_at, record FROM records WHERE (host, port, scheme) > (?, ?, ?) "
    "ORDER BY host, port, scheme LIMIT ?"
)


def examine(header: bytes, path: Path) -> None:
    """Make sure that a file with these first bytes is ours, or empty.

    Raises:
        StoreError: it is another program's, or of a newer robotgate.
    """
    if not header:
        return
    if len(header) < HEADER_BYTES or not header.startswith(_MAGIC):
        raise fault(
            path, "it is no SQLite database", "name another file, or delete this one if nobody needs it"
        )
    if int.from_bytes(header[68:72]) != APPLICATION_ID:
        raise fault(path, "it is another program's database", "name another file")
    _check_version(int.from_bytes(header[60:64]), path)


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the tables to the version of this robotgate, all or nothing, and set how the file is written.

    Raises:
        StoreError: another process has made something else of an empty file.
    """
    if not connection.execute("PRAGMA page_count").fetchone()[0]:
        # Takes effect only before the first table.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("BEGIN IMMEDIATE")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != APPLICATION_ID and (application or version or tables):
        raise fault(path, "it is another program's database", "name another file")
    if tables:
        _check_version(version, path)
    else:
        for statement in (statement for layout in LAYOUTS for statement in layout):
            connection.execute(statement)
        renew_number(connection)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        # Before the write-ahead log is used, so that it stands in the file itself.
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("COMMIT")
    for tries_left in reversed(range(WAL_TRIES)):
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
            break
        except sqlite3.OperationalError:
            # SQLite does not wait here for other connections, which may do the same.
            if not tries_left:
                raise
            time.sleep(WAL_PAUSE)
    connection.execute(f"PRAGMA journal_size_limit = {MAX_LOG_BYTES}").fetchall()
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIBIBYTES}")
    connection.execute("PRAGMA trusted_schema = OFF")


def _check_version(version: int, path: Path) -> None:
    if version > VERSION:
        raise fault(
            path,
            f"it was written by a newer robotgate (version {version} of its tables; known is {VERSION})",
            "upgrade robotgate, or name another file",
        )
    if version < VERSION:
        raise fault(
            path, f"it was written by an older robotgate (version {version} of its tables)", "delete it"
        )


def text(value: str) -> str | bytes:
    """Text for SQLite: as bytes where it is no Unicode."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode(errors="surrogatepass")
    return value


def text_of(value: Value) -> str:
    """What `text` was given."""
    return value.decode(errors="surrogatepass") if isinstance(value, bytes) else str(value)


def write_hosts(
    connection: sqlite3.Connection, states: Iterable[tuple[str, HostState]], *, now: float
) -> None:
    """Write states in place of those that were there."""
    # In the order of the table, so that pages are written one after the other.
    ordered = sorted(states, key=itemgetter(0))
    connection.executemany(
        _WRITE_HOST, ((text(pace_key), now, *host_fields(state).values()) for pace_key, state in ordered)
    )


def read_hosts(
    connection: sqlite3.Connection, pace_keys: Collection[str], *, now: float
) -> dict[str, HostState]:
    """What is known of these hosts."""
    found = {}
    for pace_key in pace_keys:
        row = connection.execute(_READ_HOST, (text(pace_key),)).fetchone()
        if row is not None:
            found[pace_key] = _host(pace_key, row, now)
    return found


def hosts_after(
    connection: sqlite3.Connection, after: str | None, *, limit: int, now: float
) -> list[tuple[str, HostState]]:
    """The next hosts by pace key; from the first, after none."""
    rows = connection.execute(_HOSTS_AFTER, (_FIRST if after is None else text(after), limit)).fetchall()
    return [(key := text_of(pace_key), _host(key, row, now)) for pace_key, *row in rows]


def forget_host(connection: sqlite3.Connection, pace_key: str) -> bool:
    """Delete a host. Returns whether there was one."""
    return connection.execute("DELETE FROM hosts WHERE pace_key = ?", (text(pace_key),)).rowcount > 0


def write_records(connection: sqlite3.Connection, records: Iterable[RobotsRecord], *, now: float) -> None:
    """Write records in place of those that were there."""
    connection.executemany(
        _WRITE_RECORD, ((*_place(record.origin), now, pack_record(record)) for record in records)
    )


def read_records(
    connection: sqlite3.Connection, origins: Collection[Origin], *, now: float
) -> dict[Origin, RobotsRecord]:
    """What is known of these origins."""
    found = {}
    for origin in origins:
        row = connection.execute(_READ_RECORD, _place(origin)).fetchone()
        record = None if row is None else _record(origin, row, now)
        if record is not None:
            found[origin] = record
    return found


def records_after(
    connection: sqlite3.Connection, after: Place, *, limit: int, now: float
) -> tuple[list[RobotsRecord], Place | None]:
    """The next records by origin, and after which place there may be more."""
    rows = connection.execute(_RECORDS_AFTER, (*after, limit)).fetchall()
    found = (_record(Origin(str(scheme), text_of(host), port), row, now) for host, port, scheme, *row in rows)
    return [record for record in found if record is not None], tuple(rows[-1][:3]) if rows else None


def origins_of(connection: sqlite3.Connection, host: str) -> list[Origin]:
    """The origins of one host that have a record, by port and scheme."""
    query = "SELECT port, scheme FROM records WHERE host = ? ORDER BY port, scheme"
    return [Origin(str(scheme), host, int(port)) for port, scheme in connection.execute(query, (text(host),))]


def forget_record(connection: sqlite3.Connection, origin: Origin) -> bool:
    """Delete a record. Returns whether there was one."""
    query = "DELETE FROM records WHERE host = ? AND port = ? AND scheme = ?"
    return connection.execute(query, _place(origin)).rowcount > 0


def read_fact(connection: sqlite3.Connection, name: str) -> float | None:
    """A number that is kept under a name."""
    row = connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
    return None if row is None else float(row[0])


def write_fact(connection: sqlite3.Connection, name: str, value: float) -> None:
    """Keep a number under a name."""
    connection.execute("REPLACE INTO facts (name, value) VALUES (?, ?)", (name, value))


def forget_facts(connection: sqlite3.Connection, pattern: str) -> None:
    """Delete all numbers whose names match."""
    connection.execute("DELETE FROM facts WHERE name GLOB ?", (pattern,))


def renew_number(connection: sqlite3.Connection) -> None:
    """Give the file a number that no other has: to sessions it is an epoch."""
    write_fact(connection, FILE_NUMBER, float(random.getrandbits(53)))


def _place(origin: Origin) -> Place:
    return text(origin.host), origin.port, origin.scheme


def _host(pace_key: str, row: Sequence[Value], now: float) -> HostState:
    saved_at, *values = row
    try:
        fields = Fields({"saved_at": saved_at, **dict(zip(_NAMES, values, strict=True))})
        return restored(host_of(fields), saved_at=fields.amount("saved_at"), now=now)
    except ValueError as error:
        _logger.warning("the state of %r cannot be read (%s); it counts as visited now", pace_key, error)
        return HostState(last_visit_at=now)


def _record(origin: Origin, row: Sequence[Value], now: float) -> RobotsRecord | None:
    """The record in a row; None where it cannot be read: it is fetched again."""
    saved_at, packed = row
    try:
        saved_at = Fields({"saved_at": saved_at}).amount("saved_at")
        record = unpack_record(origin, packed if isinstance(packed, bytes) else b"")
    except ValueError as error:
        _logger.warning("the record of %r cannot be read (%s); it is fetched again", origin.text, error)
        return None
    # Of a clock that was set back: the record is no fresher than it was.
    return moved_record(record, min(now - saved_at, 0.0))


VACUUM_STEP: Final = 256
"""Pages given back to the system at a time."""
ROOM: Final = 0.9
"""The share of `max_bytes` that is left, so that not every next batch prunes again."""
GRAIN: Final = 3600.0
"""Seconds; ages are told apart by it where the file is too large."""
MOST_ROUNDS: Final = 4
"""Estimates may have to be made again; entries that must stay are not tried for ever."""
_HOST_OVERHEAD: Final = 60
_RECORD_OVERHEAD: Final = 50
"""Bytes of a row besides its key and its record."""


@dataclass(frozen=True, slots=True)
class _Table:
    """How one table is gone through."""

    next_key: str
    """The last key of the next step."""
    delete: str
    measure: str
    step: int
    """Rows gone through at a time."""


# What must stay: the wait is not over, as `is_served` has it, but for blocks that are not forgiven.
_PRUNED_HOSTS: Final = _Table(
    next_key="SELECT pace_key FROM hosts WHERE pace_key > ? ORDER BY pace_key LIMIT 1 OFFSET ?",
    step=2_000,
    delete=(
        "DELETE FROM hosts WHERE pace_key > ? AND pace_key <= ? AND saved_at < ? "
        "AND next_allowed_at <= ? AND blocked_until_at <= ?"
    ),
    measure=(
        f"SELECT CAST(saved_at / {GRAIN} AS INTEGER), max(next_allowed_at, blocked_until_at) <= ?, "  # noqa: S608
        f"sum(length(pace_key) + {_HOST_OVERHEAD}) FROM hosts WHERE pace_key > ? AND pace_key <= ? GROUP BY 1, 2"
    ),
)
# Both tables take the same arguments: of a record, an instant before every other asks nothing.
_PRUNED_RECORDS: Final = _Table(
    next_key="SELECT id FROM records WHERE id > ? ORDER BY id LIMIT 1 OFFSET ?",
    step=200,
    delete="DELETE FROM records WHERE id > ? AND id <= ? AND saved_at < ? AND ? = ?",
    measure=(
        f"SELECT CAST(saved_at / {GRAIN} AS INTEGER), ? > 0, "  # noqa: S608
        f"sum(length(host) + length(record) + {_RECORD_OVERHEAD}) FROM records "
        "WHERE id > ? AND id <= ? GROUP BY 1, 2"
    ),
)
_BEFORE_ALL: Final = -(2**62)
_AFTER_ALL: Final = b"\xff" * 16
"""Bytes come after numbers and text, and what we write as bytes begins as UTF-8 does."""


def used_bytes(connection: sqlite3.Connection) -> int:
    """What the file takes, but for what is free in it."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    return int((pages - free) * page_bytes)


class Pruning:
    """One walk through the file, step by step; each in a transaction of its own. The oldest entries go first.

    No index tells which are the oldest: it would take half as much room again as the rows. The tables are gone through
    by key instead, and what is counted on the way tells from when on rows can stay.
    """

    def __init__(self, *, now: float, max_bytes: int, max_age: float) -> None:
        self._now = now
        self._max_bytes = max_bytes
        self._max_age = max_age
        self._there: sqlite3.Connection | None = None
        self._steps: Iterator[None] = iter(())
        self.records = 0
        self.hosts = 0

    @property
    def pruned(self) -> Pruned:
        """What has gone so far."""
        return Pruned(records=self.records, hosts=self.hosts)

    def step(self, connection: sqlite3.Connection) -> bool:
        """A little. Returns whether it was the last."""
        if connection is not self._there:
            self._there, self._steps = connection, self._go(connection)
        return next(self._steps, self) is self

    def _go(self, there: sqlite3.Connection) -> Iterator[None]:
        yield from self._delete(there, before=self._now - self._max_age)
        for _ in range(MOST_ROUNDS):
            used = used_bytes(there)
            if used <= self._max_bytes:
                break
            # What can go, by age, and what cannot: the pages' own room is spread over both.
            ages: Counter[int] = Counter()
            staying: Counter[int] = Counter()
            for table in (_PRUNED_RECORDS, _PRUNED_HOSTS):
                for first, last in _stretches(there, table):
                    for age, may_go, size in there.execute(
                        table.measure, (self._now, first, last)
                    ).fetchall():
                        (ages if may_go else staying)[age] += size
                    yield
            before = _bound(ages, (ages.total() + staying.total()) * (1 - self._max_bytes * ROOM / used))
            if before is None:
                break
            yield from self._delete(there, before=before)
        while there.execute("PRAGMA freelist_count").fetchone()[0]:
            there.execute(f"PRAGMA incremental_vacuum({VACUUM_STEP})").fetchall()
            yield

    def _delete(self, there: sqlite3.Connection, *, before: float) -> Iterator[None]:
        for first, last in _stretches(there, _PRUNED_RECORDS):
            self.records += there.execute(_PRUNED_RECORDS.delete, (first, last, before, 0, 0)).rowcount
            yield
        for first, last in _stretches(there, _PRUNED_HOSTS):
            bounds = (first, last, before, self._now, self._now)
            self.hosts += there.execute(_PRUNED_HOSTS.delete, bounds).rowcount
            yield


def _bound(ages: Counter[int], excess: float) -> float | None:
    """From when on rows can stay; None if nothing can go."""
    gone = 0
    for age in sorted(ages):
        gone += ages[age]
        if gone >= excess:
            return (age + 1) * GRAIN
    return (max(ages) + 1) * GRAIN if ages else None


def _stretches(there: sqlite3.Connection, table: _Table) -> Iterator[tuple[Value, Value]]:
    """The table's keys in stretches: after the first of each, up to the last."""
    first: Value = _BEFORE_ALL
    while True:
        row = there.execute(table.next_key, (first, table.step - 1)).fetchone()
        yield first, _AFTER_ALL if row is None else row[0]
        if row is None:
            return
        first = row[0]
