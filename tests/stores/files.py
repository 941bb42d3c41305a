"""What the tests of the store in a file share: its values, and a look into the file past the store."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Final

from robotgate import Origin
from robotgate.sites import Outcome, RobotsRecord
from robotgate.stores import HostState

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOW: Final = 1_795_233_600.123456
HOST: Final = "shop.example"
ORIGIN: Final = Origin("https", HOST, 443)
STATE: Final = HostState(
    last_visit_at=NOW - 3,
    next_allowed_at=NOW + 1 / 3,
    blocked_at=NOW - 0.1,
    blocked_until_at=NOW + 300.7,
    failures=2,
    visits=41,
    bytes_read=2**40,
    latency=0.1234567,
    learned_delay=1.25,
    limit_delay=0.75,
    eases_at=NOW - 2.5,
    budget_began_at=NOW - 3000.25,
    budget_ends_at=NOW + 600.5,
    budget_pages=40,
    budget_bytes=2**33,
    starts=((NOW - 60.1, 19), (NOW - 3, 1), (NOW - 2.7, 0)),
)
ADDED: Final = tuple(field.name for field in fields(HostState) if "is_added" in field.metadata)
"""What older versions know nothing of."""
OLD_STATE: Final = replace(STATE, **{name: getattr(HostState(), name) for name in ADDED})
RECORD: Final = RobotsRecord(
    origin=ORIGIN,
    outcome=Outcome.SUCCESS,
    status=200,
    checked_at=NOW,
    fresh_until_at=NOW + 86400.1,
    body=b"User-agent: *\nDisallow: /private\n" * 100,
    fetched_at=NOW,
    robots_url="https://shop.example/robots.txt",
    etag='"1"',
)


class HandClock:
    """Tells the time it is set to."""

    def __init__(self, at: float = NOW) -> None:
        self.at = at

    def now(self) -> float:
        """The time it is set to."""
        return self.at


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    """What is in the file, seen by somebody else."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def change(path: Path, statement: str) -> None:
    """Do something to the file behind everybody's back."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another program has the whole file for itself."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")
