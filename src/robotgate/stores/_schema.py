"""The tables of the database, by version, and what makes a file ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from robotgate.stores._faults import fault

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

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
"""A value of 0 takes no room, in a REAL neither."""
_RECORDS: Final = """
CREATE TABLE records (
    id INTEGER PRIMARY KEY,
    host NOT NULL,
    port INTEGER NOT NULL,
    scheme TEXT NOT NULL,
    saved_at REAL NOT NULL,
    outcome TEXT NOT NULL,
    status INTEGER,
    cause,
    checked_at REAL NOT NULL,
    fresh_until_at REAL NOT NULL,
    failures INTEGER NOT NULL,
    failing_since_at REAL,
    fetched_at REAL,
    robots_url NOT NULL,
    redirects TEXT,
    etag,
    last_modified,
    body_bytes INTEGER NOT NULL,
    body BLOB,
    UNIQUE (host, port, scheme)
)
"""
"""The body is compressed where it is shorter than `body_bytes`. It stands last: the rest is read without it."""
_PROCESSES: Final = """
CREATE TABLE processes (
    id TEXT NOT NULL PRIMARY KEY,
    pid INTEGER NOT NULL,
    beat_at REAL NOT NULL,
    place TEXT NOT NULL
) WITHOUT ROWID
"""
"""Who has the file open: whoever is gone and still stands here has not written all that he knew."""
_FACTS: Final = "CREATE TABLE facts (name TEXT NOT NULL PRIMARY KEY, value REAL NOT NULL) WITHOUT ROWID"
_BOOKING: Final = (
    """
    CREATE TABLE acquaintances (
        process TEXT NOT NULL,
        knows TEXT NOT NULL,
        PRIMARY KEY (process, knows)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE open_turns (
        process TEXT NOT NULL,
        serial INTEGER NOT NULL,
        pace_key NOT NULL,
        reserved_at REAL NOT NULL,
        began_at REAL,
        delay REAL NOT NULL,
        PRIMARY KEY (process, serial)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX open_turns_by_pace_key ON open_turns (pace_key)",
    "CREATE TABLE leases (origin TEXT NOT NULL PRIMARY KEY, process TEXT NOT NULL) WITHOUT ROWID",
)
"""What processes that have the file open write down for each other; of who is gone, nothing stays."""
MIGRATIONS: Final = ((_HOSTS, _RECORDS, _PROCESSES, _FACTS, *_BOOKING),)
"""What makes each version of the one before; the first, of an empty file."""


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Make sure that the file is ours, before anything in it is touched, and set how it is written.

    Raises:
        StoreError: it is another program's, or of a newer robotgate.
    """
    # In a transaction: it takes several looks, between which another process may make a new file its own.
    connection.execute("BEGIN")
    try:
        version = _version(connection, path)
    finally:
        connection.execute("ROLLBACK")
    if version == 0:
        # Takes effect only before the first table.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute(f"PRAGMA journal_size_limit = {MAX_LOG_BYTES}").fetchall()
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIBIBYTES}")
    connection.execute("PRAGMA trusted_schema = OFF")


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the tables to the version of this robotgate; in a transaction, all of it or nothing.

    Raises:
        StoreError: as `prepare`, of what another process made of the file meanwhile.
    """
    version = _version(connection, path)
    for number, statements in enumerate(MIGRATIONS[version:], version + 1):
        for statement in statements:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {number}")
    if version == 0:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """The version of the tables; 0 of an empty file."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application == 0 and version == 0 and tables == 0:
        return 0
    if application != APPLICATION_ID or not isinstance(version, int) or version < 1:
        raise fault(path, "it is another program's database", "name another file")
    if version > len(MIGRATIONS):
        raise fault(
            path,
            f"it was written by a newer robotgate (version {version} of its tables; known is {len(MIGRATIONS)})",
            "upgrade robotgate, or name another file",
        )
    return version
