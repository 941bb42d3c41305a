"""What several processes write down, where a row cannot be read: its host has just been visited, and is soon due."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
from tests.stores.files import NOW, STATE
from tests.stores.test_sqlite_rows import database

from robotgate import HostState
from robotgate.stores import _booking, _rows, _tables
from robotgate.stores._booking import Answer, Change, Question, Turn

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

KEY: Final = "a.example"
DELAY: Final = 9.0


@pytest.fixture(
    params=["failures = 'x'", "last_visit_at = 9e999", "saved_at = 9e999", "last_visit_at = -9e999"]
)
def connection(request: pytest.FixtureRequest) -> Iterator[sqlite3.Connection]:
    """A file with a row that nobody wrote."""
    with closing(database()) as connection:
        _tables.write_hosts(connection, [(KEY, STATE)], now=NOW)
        connection.execute(f"UPDATE hosts SET {request.param}")
        yield connection


def ask(connection: sqlite3.Connection, *, now: float) -> Answer:
    """Ask for a turn."""
    turn = Turn(serial=1, pace_key=KEY, reserved_at=now, began_at=None, delay=DELAY)
    question = Question(turn, HostState(last_visit_at=now, visits=1), slots=1)
    return _booking.reserve(connection, question, process="us", now=now, shift=0.0, assumed_visit_at=None)


def written(connection: sqlite3.Connection) -> HostState:
    """What the file tells now; fails where that is not readable, or never was."""
    (row,) = connection.execute(f"SELECT {_rows.HOST_COLUMNS} FROM hosts").fetchall()
    state, _ = _rows.host_of(row)
    return state


def test_turn_is_reserved_once_its_delay_is_served(connection: sqlite3.Connection) -> None:
    """Counted from the first look: the row is put right by it, and does not count as visited by the next again."""
    assert ask(connection, now=NOW) == Answer(HostState(last_visit_at=NOW), NOW + DELAY)
    assert written(connection) == HostState(last_visit_at=NOW)
    assert ask(connection, now=NOW + DELAY).again_at is None
    assert written(connection).last_visit_at == NOW + DELAY


def test_what_a_departed_process_had_under_way(connection: sqlite3.Connection) -> None:
    """Keeps its host busy for its delay, and no longer."""
    turn = Turn(serial=1, pace_key=KEY, reserved_at=NOW, began_at=NOW, delay=DELAY)
    _booking.write_turns(connection, {1: turn}, process="them", shift=0.0)
    _booking.depart(connection, "them", now=NOW)
    assert written(connection) == HostState(last_visit_at=NOW, next_allowed_at=NOW + DELAY)


def test_states_put_together(connection: sqlite3.Connection) -> None:
    """With what we know of the host, which stays."""
    _booking.write_merged(connection, {KEY: STATE}, now=NOW)
    assert written(connection) == replace(STATE, last_visit_at=NOW)


def test_changes(connection: sqlite3.Connection) -> None:
    """Are added to nothing."""
    change = Change(HostState(last_visit_at=NOW - 1), visits=2)
    _booking.write_changes(connection, {KEY: change}, process="us", now=NOW, shift=0.0)
    assert written(connection) == HostState(last_visit_at=NOW, visits=2)


def test_clock_of_others_is_trusted() -> None:
    """What another process saved a moment ago by a clock a little ahead is left as it is."""
    with closing(database()) as connection:
        _tables.write_hosts(connection, [(KEY, STATE)], now=NOW + 1)
        assert _booking.read(connection, [KEY], now=NOW) == {KEY: STATE}
