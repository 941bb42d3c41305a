"""The tables of the database, their rows and bounds, the clock of their instants, and the grants in them.

While the machine runs, the clock of leases, which also counts suspension, measures time; the wall clock may be set.
The file has one offset from that clock to seconds since the epoch, which the first process after each start of the
machine sets. Every process converts between that and its own clock: processes share only relative seconds.

All functions but `prepare` run within a transaction of their caller.
"""

from __future__ import annotations

import os
import random
import sqlite3
import sys
import time
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from robotgate.clock import READINGS, Clock, SystemClock
from robotgate.pace.state import CLOCK_GRAIN, FIELDS, HostState, Kind, merged, moved, visited
from robotgate.stores.base import logger
from robotgate.stores.codec import (
    amount,
    encoded,
    host_fields,
    host_of,
    moved_record,
    pack_record,
    text_value,
    unpack_record,
    value_of,
)
from robotgate.stores.grants import EXPIRY, BlockRow, Grants, HostRow, Reply, Request, SessionRow
from robotgate.stores.session import uptime
from robotgate.stores.sqlite.database import APPLICATION_ID, VERSION, is_ours
from robotgate.urls import Origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from robotgate.sites.record import RobotsRecord

Value: TypeAlias = int | float | str | bytes | None
"""A value of SQLite."""

CACHE_KIBIBYTES: Final = 8192
"""Pages of the file in memory."""
MAX_LOG_BYTES: Final = 16 * 1024 * 1024
"""Bytes to which the write-ahead log is truncated."""

_TYPES: Final = {Kind.COUNT: "INTEGER", Kind.STARTS: "TEXT"}
_COLUMNS: Final = {
    field.name: f"{field.name} {_TYPES.get(field.metadata['kind'], 'REAL')}"
    + (f" NOT NULL DEFAULT {field.default}" if isinstance(field.default, int | float) else "")
    for field in fields(HostState)
}
"""The columns of `hosts` that hold a state. Starts are JSON, or nothing where there are none."""
_LAYOUT: Final = f"""
CREATE TABLE hosts (
    pace_key NOT NULL PRIMARY KEY, saved_at REAL NOT NULL, {", ".join(_COLUMNS.values())}
) WITHOUT ROWID;
CREATE TABLE records (
    id INTEGER PRIMARY KEY, host NOT NULL, port INTEGER NOT NULL, scheme TEXT NOT NULL,
    saved_at REAL NOT NULL, record BLOB NOT NULL, UNIQUE (host, port, scheme)
);
CREATE TABLE facts (name TEXT NOT NULL PRIMARY KEY, value REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE sessions (
    id TEXT NOT NULL PRIMARY KEY, joined INTEGER NOT NULL, seen_at REAL NOT NULL,
    boot TEXT NOT NULL, place TEXT NOT NULL, pid INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE grants (
    key NOT NULL, session TEXT NOT NULL, place INTEGER NOT NULL, token INTEGER, item INTEGER,
    PRIMARY KEY (key, session)
) WITHOUT ROWID;
CREATE INDEX grants_by_session ON grants (session, item);
CREATE TABLE blocks (
    pattern TEXT NOT NULL PRIMARY KEY, until_at REAL NOT NULL, said_at REAL NOT NULL, number INTEGER NOT NULL
)
"""
"""`sessions.place` names the space of process numbers; empty: unknown. In `grants`, a session that holds a host has a
token and an item in its inbox; one in line for it has neither. A row without a session has the token of a free host
that was granted after a loss."""

SERIAL: Final = "serial"
FILE_NUMBER: Final = "file_number"
ASSUMED_VISIT_AT: Final = "assumed_visit_at"
LOST_UNTIL: Final = "lost_until"
"""By the clock of leases: until then, sessions may hold hosts by grants of a file that was lost."""
PRUNED_AT: Final = "pruned_at"
_OFFSET: Final = "offset"
"""Followed by the machine's start: the offset from the clock of leases to the file's clock."""
OPENED: Final = "opened"
"""Followed by the machine's start: a process uses the file, or did when it or the machine crashed."""

WAL_TRIES: Final = 100
"""Attempts to switch to the write-ahead log."""
WAL_PAUSE: Final = 0.02
"""Seconds between two attempts."""
UNLOCK_ROWS: Final = 100
"""Rows written at a time."""
UNLOCK_DELAY: Final = 0.00005
"""Seconds between them, so that the event loop gets Python's lock."""

# A newer robotgate may have added columns to the file. All that these are made of are constants.
_WRITE_HOST: Final = (
    f"REPLACE INTO hosts (pace_key, saved_at, {', '.join(FIELDS)}) VALUES (?, ?{', ?' * len(FIELDS)})"  # noqa: S608
)
_READ_HOST: Final = f"SELECT saved_at, {', '.join(FIELDS)} FROM hosts WHERE pace_key = ?"  # noqa: S608
_WRITE_RECORD: Final = "REPLACE INTO records (host, port, scheme, saved_at, record) VALUES (?, ?, ?, ?, ?)"
_READ_RECORD: Final = "SELECT saved_at, record FROM records WHERE host = ? AND port = ? AND scheme = ?"


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables of an empty file, all or none, and the columns that an older version did not know; set how the
    file is written.

    Raises:
        StoreError: another program has written to the file.
    """
    if not connection.execute("PRAGMA page_count").fetchone()[0]:
        # This takes effect only before the first table.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("BEGIN IMMEDIATE")
    if not is_ours(connection, path):
        for statement in _LAYOUT.split(";"):
            connection.execute(statement)
        renew_number(connection)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        # Before the write-ahead log is used, so that it stands in the file itself.
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    known = {name for _, name, *_ in connection.execute("PRAGMA table_info(hosts)")}
    for column in (_COLUMNS[name] for name in FIELDS if name not in known):
        connection.execute(f"ALTER TABLE hosts ADD COLUMN {column}")
    connection.execute("COMMIT")
    for tries_left in reversed(range(WAL_TRIES)):
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
            break
        except sqlite3.OperationalError:
            # SQLite does not wait for other connections here, which may do the same.
            if not tries_left:
                raise
            time.sleep(WAL_PAUSE)
    connection.execute(f"PRAGMA journal_size_limit = {MAX_LOG_BYTES}").fetchall()
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIBIBYTES}")
    connection.execute("PRAGMA trusted_schema = OFF")


def text(value: str) -> str | bytes:
    """Return text for SQLite: as bytes if it has surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode(errors="surrogatepass")
    return value


def text_of(value: Value) -> str:
    """Return the argument of `text`."""
    return value.decode(errors="surrogatepass") if isinstance(value, bytes) else str(value)


def read_fact(connection: sqlite3.Connection, name: str) -> float | None:
    """Return the number that is kept under a name."""
    row = connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
    return None if row is None else float(row[0])


def write_fact(connection: sqlite3.Connection, name: str, value: float) -> None:
    """Keep a number under a name."""
    connection.execute("REPLACE INTO facts (name, value) VALUES (?, ?)", (name, value))


def forget_facts(connection: sqlite3.Connection, pattern: str) -> None:
    """Delete all numbers whose names match."""
    connection.execute("DELETE FROM facts WHERE name GLOB ?", (pattern,))


def renew_number(connection: sqlite3.Connection) -> None:
    """Give the file a new random number, which is the epoch of sessions."""
    write_fact(connection, FILE_NUMBER, float(random.getrandbits(53)))


def _columns_of(state: HostState) -> Iterable[object]:
    """Return a state for SQLite."""
    values = host_fields(state)
    values["starts"] = encoded(values["starts"]).decode() if state.starts else None
    return values.values()


def _state_of(columns: Iterable[object]) -> HostState:
    """Read the output of `_columns_of`.

    Raises:
        FieldError: a value is not what it should be.
    """
    values = dict(zip(FIELDS, columns, strict=True))
    starts = values["starts"]
    values["starts"] = [] if starts is None else value_of(text_value(starts).encode("ascii", "replace"))
    return host_of(values)


def _place(origin: Origin) -> tuple[Value, ...]:
    return text(origin.host), origin.port, origin.scheme


BOUND_RECORDS: Final = (
    "CREATE TRIGGER bound AFTER INSERT ON records BEGIN DELETE FROM records WHERE id <= new.id - 256; END"
)
"""The bound of a database in memory; other records are fetched again."""
VACUUM_STEP: Final = 256
"""Pages that one call returns to the system."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables within one transaction, and the time of that."""

    connection: sqlite3.Connection
    now: float
    """By the store's clock."""
    ahead: float
    """Seconds by which the file's clock is ahead of the store's."""
    uptime: float
    """By the clock of leases, which all processes of the machine share."""

    @property
    def in_file(self) -> float:
        """Now, by the file's clock."""
        return self.now + self.ahead

    def save_hosts(self, states: Mapping[str, HostState], *, replaces: bool) -> None:
        """Write states, or merge them with those in the file."""
        if not replaces:
            known = {key: self.read_host(key) for key in states}
            states = {key: merged(known[key] or state, state) for key, state in states.items()}
        self.write_hosts(states)

    def write_hosts(self, states: Mapping[str, HostState]) -> None:
        """Write states in place of those that were there."""
        # In the order of the table, so that pages are written one after the other.
        ordered = sorted(states.items())
        for start in range(0, len(ordered), UNLOCK_ROWS):
            if start:
                # The event loop waits for Python's lock for up to 5 ms unless this thread releases it for a while.
                time.sleep(UNLOCK_DELAY)
            rows = (
                (text(key), self.in_file, *_columns_of(moved(state, self.ahead)))
                for key, state in ordered[start : start + UNLOCK_ROWS]
            )
            self.connection.executemany(_WRITE_HOST, rows)

    def read_host(self, pace_key: str) -> HostState | None:
        """Return the state of a host."""
        row = self.connection.execute(_READ_HOST, (text(pace_key),)).fetchone()
        if row is None:
            return None
        saved_at, *values = row
        try:
            age = self.in_file - amount(saved_at)
            state = _state_of(values)
        except ValueError as error:
            logger.warning("the state of %r cannot be read (%s); it counts as visited now", pace_key, error)
            return visited(self.now)
        # If the clock was set back since, every wait is as long as it was. Set forward, it looks like time that passed.
        return moved(moved(state, min(age, 0.0)), -self.ahead)

    def known_host(self, key: str) -> HostState | None:
        """Return the state of a host, with the visit that is assumed for all hosts after a crash."""
        state = self.read_host(key)
        assumed_at = read_fact(self.connection, ASSUMED_VISIT_AT)
        if assumed_at is None:
            return state
        return merged(state or HostState(), visited(min(assumed_at - self.ahead, self.now)))

    def pace_keys(self) -> list[str]:
        """Return all pace keys, in order."""
        return [
            text_of(key) for (key,) in self.connection.execute("SELECT pace_key FROM hosts ORDER BY pace_key")
        ]

    def forget_host(self, pace_key: str) -> bool:
        """Delete a host. Returns whether there was one."""
        return self.connection.execute("DELETE FROM hosts WHERE pace_key = ?", (text(pace_key),)).rowcount > 0

    def write_records(self, records: Iterable[RobotsRecord]) -> None:
        """Write records in place of those that were there."""
        saved_at = self.in_file
        rows = ((*_place(record.origin), saved_at, pack_record(record)) for record in records)
        self.connection.executemany(_WRITE_RECORD, rows)

    def read_record(self, origin: Origin) -> RobotsRecord | None:
        """Return the record of an origin; None if it cannot be read: it is fetched again."""
        row = self.connection.execute(_READ_RECORD, _place(origin)).fetchone()
        if row is None:
            return None
        saved_at, packed = row
        try:
            age = self.in_file - amount(saved_at)
            record = unpack_record(origin, packed if isinstance(packed, bytes) else b"")
        except ValueError as error:
            logger.warning("the record of %r cannot be read (%s); it is fetched again", origin.text, error)
            return None
        # If the clock was set back, the record does not become fresher.
        return moved_record(record, min(age, 0.0))

    def origins(self, host: str | None) -> list[Origin]:
        """Return the origins that have a record, of all hosts or of one, in order."""
        of_host = "" if host is None else "AND host = ?"
        query = (
            "SELECT host, port, scheme FROM records "  # noqa: S608
            f"WHERE scheme IN ('http', 'https') {of_host} ORDER BY host, port, scheme"
        )
        rows = self.connection.execute(query, () if host is None else (text(host),))
        return [Origin(str(scheme), text_of(name), int(port)) for name, port, scheme in rows]

    def forget_record(self, origin: Origin) -> bool:
        """Delete a record. Returns whether there was one."""
        query = "DELETE FROM records WHERE host = ? AND port = ? AND scheme = ?"
        return self.connection.execute(query, _place(origin)).rowcount > 0

    def sessions(self) -> int:
        """Return how many sessions there are, those of processes that were killed included."""
        return int(self.connection.execute("SELECT count(*) FROM sessions").fetchone()[0])

    def used_bytes(self) -> int:
        """Return the bytes of the file's pages in use."""
        (pages,) = self.connection.execute("PRAGMA page_count").fetchone()
        (free,) = self.connection.execute("PRAGMA freelist_count").fetchone()
        (page_bytes,) = self.connection.execute("PRAGMA page_size").fetchone()
        return int((pages - free) * page_bytes)

    def vacuum(self) -> bool:
        """Return some free pages to the system. Returns whether there are more."""
        self.connection.execute(f"PRAGMA incremental_vacuum({VACUUM_STEP})").fetchall()
        return bool(self.connection.execute("PRAGMA freelist_count").fetchone()[0])


class Pruning(NamedTuple):
    """How rows of one table are deleted, the oldest first. All that its statements are made of are constants."""

    table: str
    key: str
    may_go: str
    """Whether a row from before `before` may be deleted at `now`."""

    def keys(self, tables: Tables, *, bounds: Mapping[str, float]) -> list[Value]:
        """Return the keys of rows that may be deleted, a `share` of the table at most."""
        most = f"(SELECT CAST(count(*) * :share + 1 AS INTEGER) FROM {self.table})"  # noqa: S608
        oldest = f"WHERE {self.may_go} ORDER BY saved_at, {self.key} LIMIT {most}"
        found = tables.connection.execute(f"SELECT {self.key} FROM {self.table} {oldest}", bounds)  # noqa: S608
        return [key for (key,) in found]

    def go(self, tables: Tables, *, keys: Sequence[Value], bounds: Mapping[str, float]) -> int:
        """Delete rows that may still be deleted. Returns how many were deleted."""
        delete = f"DELETE FROM {self.table} WHERE {self.key} = :key AND {self.may_go}"  # noqa: S608
        return tables.connection.executemany(delete, [{**bounds, "key": key} for key in keys]).rowcount


PRUNED_RECORDS: Final = Pruning("records", "id", "saved_at < :before")
# As `is_served`, but a host need not stay until its blocks are forgiven.
_IS_SERVED: Final = (
    "saved_at < :before AND next_allowed_at <= :now AND blocked_until_at <= :now AND budget_ends_at <= :now"
    " AND promised_until_at <= :now"
)
PRUNED_HOSTS: Final = Pruning("hosts", "pace_key", _IS_SERVED)


class FileClock:
    """The file's clock.

    Args:
        clock: the store's. A clock other than `SystemClock` is the file's clock as well. It is read in the event loop
            only, since it may not be safe in other threads. Leases use the machine's clock in any case.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._system = clock if isinstance(clock, SystemClock) else None
        self.boot: str = _boot_id()
        """Names the start of the machine; empty: unknown."""
        self.place: str = _process_space(self.boot)
        """Names the space of process numbers, since containers may share a file; empty: unknown."""

    def uptime(self) -> float:
        """Return the time by the clock of leases."""
        return uptime()

    def tables(self, connection: sqlite3.Connection, reading: float, *, is_alone: bool = False) -> Tables:
        """Return the tables, and the time, with the offset that the first process sets. Any thread may call this."""
        system = self._system
        if system is None:
            return Tables(connection, reading, 0.0, uptime())
        # An interruption between the two readings makes the difference too large: the smallest is the best.
        asleep = min(-time.monotonic() + uptime() for _ in range(READINGS))
        name = f"{_OFFSET} {self.boot}"
        offset = read_fact(connection, name)
        if offset is None or (is_alone and not self.boot):
            offset = system.epoch - asleep
            forget_facts(connection, f"{_OFFSET} *")
            write_fact(connection, name, offset)
        ahead = asleep + offset - system.epoch
        return Tables(connection, system.now(), ahead if abs(ahead) > CLOCK_GRAIN else 0.0, uptime())


def process_runs(pid: int) -> bool:
    """Whether there is such a process in this space of process numbers."""
    try:
        os.kill(pid, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True


def _boot_id() -> str:
    try:
        # Only Linux has this file.
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _process_space(boot: str) -> str:
    if sys.platform == "darwin":
        return "darwin"
    if not boot:
        return ""
    try:
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


class FileGrants(Grants):
    """The grants of a file within one transaction: rows are read when they are needed, and `write` writes them back.

    States of hosts are in a table of their own; `known` and `keep` read and write it at once. All processes that use
    the file are on one machine. They share one clock, and can tell that a process has ended before its session expires.
    No message is lost: a transaction is done or not.
    """

    def __init__(self, tables: Tables, clock: FileClock) -> None:
        self._tables = tables
        self._connection = connection = tables.connection
        super().__init__(str(read_fact(connection, FILE_NUMBER)))
        self._clock = clock
        self._serial = int(read_fact(connection, SERIAL) or 0)
        self._lost_until = read_fact(connection, LOST_UNTIL)
        # A time of before the machine's start, too, is over.
        self.is_lost: bool = self._lost_until is not None and 0 < self._lost_until - tables.uptime <= EXPIRY
        for name, joined, seen_at, boot, place, pid in connection.execute(
            "SELECT * FROM sessions"
        ).fetchall():
            is_gone = boot != clock.boot or (place and place == clock.place and not process_runs(pid))
            age = EXPIRY + CLOCK_GRAIN if is_gone or seen_at > tables.uptime else tables.uptime - seen_at
            self.sessions[name] = SessionRow(joined, tables.now - age)
        for pattern, until_at, said_at, number in connection.execute("SELECT * FROM blocks").fetchall():
            self.blocks[pattern] = BlockRow(
                until_at and until_at - tables.ahead, said_at - tables.ahead, number
            )

    def known(self, key: str) -> HostState | None:
        """As `Grants.known`."""
        return self._tables.known_host(key)

    def keep(self, key: str, state: HostState) -> None:
        """As `Grants.keep`."""
        self._tables.write_hosts({key: state})

    def host(self, key: str) -> HostRow:
        """As `Grants.host`."""
        if key not in self.hosts:
            host = self.hosts[key] = HostRow()
            query = "SELECT session, token, item FROM grants WHERE key = ? ORDER BY place"
            for name, token, item in self._connection.execute(query, (text(key),)).fetchall():
                if token is None:
                    host.line.append(name)
                    continue
                host.owner, host.token = name or None, token
                if name in self.sessions:
                    self.sessions[name].inbox[key] = item
        return self.hosts[key]

    def lose(self) -> None:
        """This file is in the place of another, by whose grants sessions may hold hosts."""
        if not self.is_lost:
            for table in ("sessions", "grants"):
                self._connection.execute(f"DELETE FROM {table}")  # noqa: S608
            write_fact(self._connection, LOST_UNTIL, self._tables.uptime + EXPIRY)

    def expire(self, now: float) -> None:
        """As `Grants.expire`; and end the time after a loss."""
        super().expire(now)
        if self._lost_until is not None and not self.is_lost:
            self._lost_until = None
            forget_facts(self._connection, LOST_UNTIL)
            write_fact(self._connection, ASSUMED_VISIT_AT, self._tables.in_file)
            rows = self._connection.execute("SELECT DISTINCT key FROM grants").fetchall()
            self.settle([text_of(key) for (key,) in rows])

    def end(self, name: str, *, visited_at: float | None) -> None:
        """As `Grants.end`."""
        super().end(name, visited_at=visited_at)
        self._connection.execute("DELETE FROM sessions WHERE id = ?", (name,))

    def keys_of(self, name: str) -> list[str]:
        """As `Grants.keys_of`."""
        rows = self._connection.execute("SELECT key FROM grants WHERE session = ?", (name,)).fetchall()
        return [*{*self.hosts, *(text_of(key) for (key,) in rows)}]

    def take_in(self, request: Request, sent_at: float) -> Reply:
        """As `Grants.exchange`, of a request sent at this instant by the clock of leases, and write all changes."""
        run, name, clock, ahead = self._connection.execute, request.session, self._clock, self._tables.ahead
        query = "SELECT key FROM grants WHERE session = ? AND item > ?"
        for (key,) in run(query, (name, request.after)).fetchall():
            self.host(text_of(key))
        # The file may have been locked for a while: what was said before that is older now.
        waited = self._tables.uptime - sent_at
        notices = tuple([replace(notice, age=notice.age + waited) for notice in request.notices])
        reply = self.exchange(replace(request, notices=notices), now=self._tables.now)
        if name in self.sessions:
            values = name, reply.term.joined, self._tables.uptime, clock.boot, clock.place, os.getpid()
            run("REPLACE INTO sessions VALUES (?, ?, ?, ?, ?, ?)", values)
        if request.notices:
            run("DELETE FROM blocks")
            rows = (
                (pattern, until_at and until_at + ahead, said_at + ahead, number)
                for pattern, (until_at, said_at, number) in self.blocks.items()
            )
            self._connection.executemany("INSERT INTO blocks VALUES (?, ?, ?, ?)", rows)
        self.write()
        return reply

    def write(self) -> None:
        """Write the owners and lines of hosts."""
        for key, host in self.hosts.items():
            self._connection.execute("DELETE FROM grants WHERE key = ?", (text(key),))
            rows: list[tuple[Value, ...]]
            rows = [(text(key), name, place, None, None) for place, name in enumerate(host.line, 1)]
            if host.owner is not None:
                item = self.sessions[host.owner].inbox.get(key, 0)
                rows.append((text(key), host.owner, 0, host.token, item))
            elif self.is_lost and host.token:
                rows.append((text(key), "", 0, host.token, 0))
            self._connection.executemany("INSERT INTO grants VALUES (?, ?, ?, ?, ?)", rows)
        write_fact(self._connection, SERIAL, float(self._serial))

    def _forget_free(self, key: str) -> None:
        """Do nothing: `write` deletes the rows."""
