"""Reading and writing many rows at once, each function within a transaction of its caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from robotgate.stores._rows import (
    HOST_COLUMNS,
    RECORD_COLUMNS,
    host_of,
    host_row,
    record_of,
    record_row,
    text,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable

    from robotgate._access import RobotsRecord
    from robotgate._pacing import HostState
    from robotgate._urls import Origin

_WRITE_HOST: Final = f"REPLACE INTO hosts (pace_key, {HOST_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
_READ_HOST: Final = f"SELECT {HOST_COLUMNS} FROM hosts WHERE pace_key = ?"  # noqa: S608
_WRITE_RECORD: Final = (
    f"REPLACE INTO records ({RECORD_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
)
_READ_RECORD: Final = f"SELECT {RECORD_COLUMNS} FROM records WHERE host = ? AND port = ? AND scheme = ?"  # noqa: S608


def write_hosts(
    connection: sqlite3.Connection, states: Iterable[tuple[str, HostState]], *, now: float
) -> None:
    """Write states in place of those that were there."""
    connection.executemany(
        _WRITE_HOST, ((text(pace_key), *host_row(state, saved_at=now)) for pace_key, state in states)
    )


def read_hosts(
    connection: sqlite3.Connection, pace_keys: Collection[str], *, now: float
) -> dict[str, HostState]:
    """What is known of these hosts."""
    found = {}
    for pace_key in pace_keys:
        row = connection.execute(_READ_HOST, (text(pace_key),)).fetchone()
        if row is not None:
            state, saved_at = host_of(row)
            found[pace_key] = state
    return found


def write_records(connection: sqlite3.Connection, records: Iterable[RobotsRecord], *, now: float) -> None:
    """Write records in place of those that were there."""
    connection.executemany(_WRITE_RECORD, (record_row(record, saved_at=now) for record in records))


def read_records(
    connection: sqlite3.Connection, origins: Collection[Origin], *, now: float
) -> dict[Origin, RobotsRecord]:
    """What is known of these origins."""
    found = {}
    for origin in origins:
        row = connection.execute(_READ_RECORD, (text(origin.host), origin.port, origin.scheme)).fetchone()
        if row is not None:
            record, saved_at = record_of(row)
            found[origin] = record
    return found
