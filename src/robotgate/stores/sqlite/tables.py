"""The tables of the database by version, their rows, and their bounds.

Instants of hosts and records are seconds since the epoch by the file's clock. All functions but `prepare` run within a
transaction of their caller.
"""

from __future__ import annotations

import logging
import random
import sqlite3
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from robotgate.pace.state import HostState, restored
from robotgate.stores.codec import (
    HOST_FIELDS,
    amount,
    host_fields,
    host_of,
    moved_record,
    pack_record,
    unpack_record,
)
from robotgate.stores.sqlite.database import APPLICATION_ID, VERSION, check_format
from robotgate.urls import Origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from robotgate.sites.record import RobotsRecord
    from robotgate.stores.sqlite.clock import Moment

Value: TypeAlias = int | float | str | bytes | None
"""What SQLite keeps."""
Place: TypeAlias = tuple[Value, ...]
"""Host, port and scheme, by which records are in order."""

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
LAYOUT: Final = (_HOSTS, _RECORDS, _FACTS, _SESSIONS, *_GRANTS, _BLOCKS)

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
_FIRST: Final = -1
"""Numbers come before all text."""
FIRST_PLACE: Final[Place] = (_FIRST, _FIRST, "")

_logger: Final = logging.getLogger("robotgate.stores")

_COLUMNS: Final = ", ".join(HOST_FIELDS)
# Put together of our own constants alone.
_WRITE_HOST: Final = (
    f"REPLACE INTO hosts (pace_key, saved_at, {_COLUMNS}) VALUES (?, ?{', ?' * len(HOST_FIELDS)})"  # noqa: S608
)
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
    if application or version or tables:
        check_format(application, version, path)
    else:
        for statement in LAYOUT:
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


def write_hosts(connection: sqlite3.Connection, states: Mapping[str, HostState], *, now: float) -> None:
    """Write states in place of those that were there."""
    # In the order of the table, so that pages are written one after the other.
    rows = ((text(key), now, *host_fields(state).values()) for key, state in sorted(states.items()))
    connection.executemany(_WRITE_HOST, rows)


def read_host(connection: sqlite3.Connection, pace_key: str, *, now: float) -> HostState | None:
    """What is known of a host."""
    row = connection.execute(_READ_HOST, (text(pace_key),)).fetchone()
    return None if row is None else _host(pace_key, row, now)


def hosts_after(
    connection: sqlite3.Connection, at: Moment, *, after: str | None, limit: int
) -> list[tuple[str, HostState]]:
    """The next hosts by pace key, by the store's clock; from the first, after none."""
    rows = connection.execute(_HOSTS_AFTER, (_FIRST if after is None else text(after), limit)).fetchall()
    return [(key := text_of(name), at.from_file(_host(key, row, at.now))) for name, *row in rows]


def forget_host(connection: sqlite3.Connection, pace_key: str) -> bool:
    """Delete a host. Returns whether there was one."""
    return connection.execute("DELETE FROM hosts WHERE pace_key = ?", (text(pace_key),)).rowcount > 0


def write_records(connection: sqlite3.Connection, records: Iterable[RobotsRecord], *, now: float) -> None:
    """Write records in place of those that were there."""
    connection.executemany(
        _WRITE_RECORD, ((*_place(record.origin), now, pack_record(record)) for record in records)
    )


def read_record(connection: sqlite3.Connection, origin: Origin, *, now: float) -> RobotsRecord | None:
    """What is known of an origin."""
    row = connection.execute(_READ_RECORD, _place(origin)).fetchone()
    return None if row is None else _record(origin, row, now)


def records_after(
    connection: sqlite3.Connection, at: Moment, *, after: Place, limit: int
) -> tuple[list[RobotsRecord], Place | None]:
    """The next records by origin, and after which place there may be more."""
    rows = connection.execute(_RECORDS_AFTER, (*after, limit)).fetchall()
    found = (
        _record(Origin(str(scheme), text_of(host), port), row, at.now) for host, port, scheme, *row in rows
    )
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
        state = host_of(dict(zip(HOST_FIELDS, values, strict=True)))
        return restored(state, saved_at=amount(saved_at), now=now)
    except ValueError as error:
        _logger.warning("the state of %r cannot be read (%s); it counts as visited now", pace_key, error)
        return HostState(last_visit_at=now)


def _record(origin: Origin, row: Sequence[Value], now: float) -> RobotsRecord | None:
    """The record in a row; None where it cannot be read: it is fetched again."""
    saved_at, packed = row
    try:
        age = now - amount(saved_at)
        record = unpack_record(origin, packed if isinstance(packed, bytes) else b"")
    except ValueError as error:
        _logger.warning("the record of %r cannot be read (%s); it is fetched again", origin.text, error)
        return None
    # Of a clock that was set back: the record is no fresher than it was.
    return moved_record(record, min(age, 0.0))


VACUUM_STEP: Final = 256
"""Pages given back to the system at a time."""
GRAIN: Final = 3600.0
"""Seconds; ages are told apart by it where the file is too large."""
_HOST_OVERHEAD: Final = 60
_RECORD_OVERHEAD: Final = 50
"""Bytes of a row besides its key and its record."""
BEFORE_ALL: Final = -(2**62)
_AFTER_ALL: Final = b"\xff" * 16
"""Bytes come after numbers and text, and what we write as bytes begins as UTF-8 does."""


@dataclass(frozen=True, slots=True)
class Pruning:
    """How one table is gone through by its keys, a few rows at a time.

    No index tells which rows are the oldest: it would take half as much room again as they do.
    """

    rows: int
    last: str
    """The last key of so many rows after `first`."""
    measure: str
    """Hours of age, whether what is so old can go by `now`, and how many bytes that is, from `first` to `last`."""
    delete: str
    """What was written before `before`, and can go."""

    def step(
        self, there: sqlite3.Connection, _: Moment, *, query: str, after: Value, values: Mapping[str, Value]
    ) -> tuple[list[tuple[int, ...]], int, Value]:
        """Run a query of this table on some rows.

        Returns:
            What it found, how many rows it changed, and the last key; none: there are no more rows.
        """
        row = there.execute(self.last, (after, self.rows - 1)).fetchone()
        last = _AFTER_ALL if row is None else row[0]
        cursor = there.execute(query, {**values, "first": after, "last": last})
        return cursor.fetchall(), cursor.rowcount, None if row is None else last


PRUNED_RECORDS: Final = Pruning(
    rows=200,
    last="SELECT id FROM records WHERE id > ? ORDER BY id LIMIT 1 OFFSET ?",
    measure=(
        f"SELECT CAST(saved_at / {GRAIN} AS INTEGER), 1, "  # noqa: S608
        f"sum(length(host) + length(record) + {_RECORD_OVERHEAD}) FROM records "
        "WHERE id > :first AND id <= :last GROUP BY 1"
    ),
    delete="DELETE FROM records WHERE id > :first AND id <= :last AND saved_at < :before",
)
# What must stay: the wait is not over, as `is_served` has it, but for blocks that are not forgiven.
PRUNED_HOSTS: Final = Pruning(
    rows=2_000,
    last="SELECT pace_key FROM hosts WHERE pace_key > ? ORDER BY pace_key LIMIT 1 OFFSET ?",
    measure=(
        f"SELECT CAST(saved_at / {GRAIN} AS INTEGER), max(next_allowed_at, blocked_until_at) <= :now, "  # noqa: S608
        f"sum(length(pace_key) + {_HOST_OVERHEAD}) FROM hosts "
        "WHERE pace_key > :first AND pace_key <= :last GROUP BY 1, 2"
    ),
    delete=(
        "DELETE FROM hosts WHERE pace_key > :first AND pace_key <= :last AND saved_at < :before "
        "AND next_allowed_at <= :now AND blocked_until_at <= :now"
    ),
)


def used_bytes(connection: sqlite3.Connection) -> int:
    """What the file takes, but for what is free in it."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    return int((pages - free) * page_bytes)


def vacuum(connection: sqlite3.Connection) -> bool:
    """Give some free pages back to the system. Returns whether there are more."""
    connection.execute(f"PRAGMA incremental_vacuum({VACUUM_STEP})").fetchall()
    return bool(connection.execute("PRAGMA freelist_count").fetchone()[0])
