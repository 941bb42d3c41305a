"""Reading and writing many rows at once, each function within a transaction of its caller."""

from __future__ import annotations

import logging
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Final, TypeAlias

from robotgate import _pacing
from robotgate._pacing import HostState
from robotgate._urls import Origin
from robotgate.stores._rows import (
    HOST_COLUMNS,
    RECORD_COLUMNS,
    Value,
    host_of,
    host_row,
    record_of,
    record_row,
    text,
    text_of,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Sequence

    from robotgate._access import RobotsRecord

Place: TypeAlias = tuple[Value, ...]
"""Host, port and scheme, by which records are in order."""

_FIRST: Final = -1
"""Numbers come before all text."""
FIRST_PLACE: Final[Place] = (_FIRST, _FIRST, "")

_logger: Final = logging.getLogger("robotgate.stores")

_HOST_PLACES: Final = ", ".join("?" * (1 + len(HOST_COLUMNS.split(","))))
_RECORD_PLACES: Final = ", ".join("?" * len(RECORD_COLUMNS.split(",")))
# Put together of our own constants alone.
_WRITE_HOST: Final = f"REPLACE INTO hosts (pace_key, {HOST_COLUMNS}) VALUES ({_HOST_PLACES})"  # noqa: S608
_READ_HOST: Final = f"SELECT {HOST_COLUMNS} FROM hosts WHERE pace_key = ?"  # noqa: S608
_HOSTS_AFTER: Final = (
    f"SELECT pace_key, {HOST_COLUMNS} FROM hosts WHERE pace_key > ? ORDER BY pace_key LIMIT ?"  # noqa: S608
)
_WRITE_RECORD: Final = f"REPLACE INTO records ({RECORD_COLUMNS}) VALUES ({_RECORD_PLACES})"  # noqa: S608
_READ_RECORD: Final = f"SELECT {RECORD_COLUMNS} FROM records WHERE host = ? AND port = ? AND scheme = ?"  # noqa: S608
_RECORDS_AFTER: Final = (
    f"SELECT {RECORD_COLUMNS} FROM records WHERE (host, port, scheme) > (?, ?, ?) "  # noqa: S608
    "ORDER BY host, port, scheme LIMIT ?"
)
_ORIGINS: Final = "SELECT port, scheme FROM records WHERE host = ? ORDER BY port, scheme"


def write_hosts(
    connection: sqlite3.Connection, states: Iterable[tuple[str, HostState]], *, now: float
) -> None:
    """Write states in place of those that were there."""
    # In the order of the table, so that pages are written one after the other.
    ordered = sorted(states, key=itemgetter(0))
    connection.executemany(
        _WRITE_HOST, ((text(pace_key), *host_row(state, saved_at=now)) for pace_key, state in ordered)
    )


def read_hosts(
    connection: sqlite3.Connection, pace_keys: Collection[str], *, now: float, trusts_clock: bool = False
) -> dict[str, tuple[HostState, bool]]:
    """What is known of these hosts, each with whether it is to be written again: its row is not what is known now.

    Args:
        trusts_clock: what was saved later than now was saved by a clock a little ahead, not by one that was set back.
    """
    found = {}
    for pace_key in pace_keys:
        row = connection.execute(_READ_HOST, (text(pace_key),)).fetchone()
        if row is not None:
            found[pace_key] = _host(pace_key, row, now, trusts_clock=trusts_clock)
    return found


def hosts_after(
    connection: sqlite3.Connection,
    after: str | None,
    *,
    limit: int,
    now: float,
    trusts_clock: bool = False,
) -> list[tuple[str, HostState]]:
    """The next hosts by pace key; from the first, after none. `trusts_clock` as for `read_hosts`."""
    rows = connection.execute(_HOSTS_AFTER, (_FIRST if after is None else text(after), limit)).fetchall()
    return [
        (key := text_of(pace_key), _host(key, row, now, trusts_clock=trusts_clock)[0])
        for pace_key, *row in rows
    ]


def forget_host(connection: sqlite3.Connection, pace_key: str) -> bool:
    """Delete a host. Returns whether there was one."""
    return connection.execute("DELETE FROM hosts WHERE pace_key = ?", (text(pace_key),)).rowcount > 0


def write_records(connection: sqlite3.Connection, records: Iterable[RobotsRecord], *, now: float) -> None:
    """Write records in place of those that were there."""
    connection.executemany(_WRITE_RECORD, (record_row(record, saved_at=now) for record in records))


def read_records(
    connection: sqlite3.Connection, origins: Collection[Origin], *, now: float
) -> dict[Origin, RobotsRecord]:
    """What is known of these origins."""
    found = {}
    for origin in origins:
        row = connection.execute(_READ_RECORD, _place(origin)).fetchone()
        record = None if row is None else _record(row, now)
        if record is not None:
            found[origin] = record
    return found


def records_after(
    connection: sqlite3.Connection, after: Place, *, limit: int, now: float
) -> tuple[list[RobotsRecord], Place | None]:
    """The next records by origin, and after which place there may be more."""
    rows = connection.execute(_RECORDS_AFTER, (*after, limit)).fetchall()
    records = [record for row in rows if (record := _record(row, now)) is not None]
    return records, tuple(rows[-1][:3]) if rows else None


def origins_of(connection: sqlite3.Connection, host: str) -> list[Origin]:
    """The origins of one host of which there is a record, by port and scheme."""
    rows = connection.execute(_ORIGINS, (text(host),)).fetchall()
    return [
        Origin(scheme, host, port)
        for port, scheme in rows
        if isinstance(port, int) and isinstance(scheme, str)
    ]


def forget_record(connection: sqlite3.Connection, origin: Origin) -> bool:
    """Delete a record. Returns whether there was one."""
    deleted = connection.execute(
        "DELETE FROM records WHERE host = ? AND port = ? AND scheme = ?", _place(origin)
    )
    return deleted.rowcount > 0


def read_fact(connection: sqlite3.Connection, name: str) -> float | None:
    """A number that is kept under a name."""
    row = connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
    return None if row is None else float(row[0])


def write_fact(connection: sqlite3.Connection, name: str, value: float) -> None:
    """Keep a number under a name."""
    connection.execute("REPLACE INTO facts (name, value) VALUES (?, ?)", (name, value))


def _place(origin: Origin) -> Place:
    return text(origin.host), origin.port, origin.scheme


def _host(
    pace_key: str, row: Sequence[Value], now: float, *, trusts_clock: bool = False
) -> tuple[HostState, bool]:
    try:
        state, saved_at = host_of(row)
    except ValueError as error:
        _logger.warning("the state of %r cannot be read (%s); it counts as visited now", pace_key, error)
        return HostState(last_visit_at=now), True
    if trusts_clock:
        return state, False
    return _pacing.restored(state, saved_at=saved_at, now=now), saved_at > now


def _record(row: Sequence[Value], now: float) -> RobotsRecord | None:
    """The record in a row; None where it cannot be read: it is fetched again."""
    try:
        record, saved_at = record_of(row)
    except ValueError as error:
        _logger.warning("the record of %r cannot be read (%s); it is fetched again", row[0], error)
        return None
    return record if saved_at <= now else _set_back(record, saved_at - now)


def _set_back(record: RobotsRecord, ahead: float) -> RobotsRecord:
    """A record as its clock tells it now, which was set back by so many seconds: no fresher than it was."""
    failing_since_at, fetched_at = record.failing_since_at, record.fetched_at
    return replace(
        record,
        checked_at=record.checked_at - ahead,
        fresh_until_at=record.fresh_until_at - ahead,
        failing_since_at=None if failing_since_at is None else failing_since_at - ahead,
        fetched_at=None if fetched_at is None else fetched_at - ahead,
    )
