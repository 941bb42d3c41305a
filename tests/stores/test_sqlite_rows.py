"""Records and host states survive the file, whatever they hold; and a clock that was set back."""

from __future__ import annotations

import random
import sqlite3
import zlib
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.stores.files import NOW, ORIGIN, RECORD, STATE

from robotgate import HostState, Origin, Outcome, RobotsRecord
from robotgate._pacing import restored
from robotgate.stores import _rows, _schema, _tables

INSTANTS: Final = st.floats(allow_nan=False)
COUNTS: Final = st.integers(0, 2**63 - 1)
TEXTS: Final = st.text(st.characters(), max_size=50)
"""With lone surrogates, as headers have them where they are no UTF-8, and with NUL."""
STATES: Final = st.builds(
    HostState,
    last_visit_at=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    next_allowed_at=INSTANTS,
    blocked_at=INSTANTS,
    blocked_until_at=INSTANTS,
    failures=COUNTS,
    visits=COUNTS,
    bytes_read=COUNTS,
    latency=st.none() | INSTANTS,
)
RECORDS: Final = st.builds(
    RobotsRecord,
    origin=st.builds(Origin, st.sampled_from(["http", "https"]), TEXTS, st.integers(1, 65535)),
    outcome=st.sampled_from(Outcome),
    status=st.none() | st.integers(100, 999),
    cause=st.none() | TEXTS,
    checked_at=INSTANTS,
    fresh_until_at=INSTANTS,
    failures=COUNTS,
    failing_since_at=st.none() | INSTANTS,
    body=st.binary() | st.binary(max_size=20).map(lambda part: part * 500),
    fetched_at=st.none() | INSTANTS,
    robots_url=TEXTS,
    redirects=st.lists(TEXTS, max_size=5).map(tuple),
    etag=st.none() | TEXTS,
    last_modified=st.none() | TEXTS,
)


def database() -> sqlite3.Connection:
    """The tables, in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    _schema.migrate(connection, Path("memory"))
    return connection


def test_columns_name_every_field() -> None:
    """A field that is added to a value, and not to its row, would be forgotten with the process."""
    hosts, records = set(_rows.HOST_COLUMNS.split(", ")), set(_rows.RECORD_COLUMNS.split(", "))
    assert hosts == {field.name for field in fields(HostState)} | {"saved_at"}
    named = {field.name for field in fields(RobotsRecord)} - {"origin"}
    assert records == named | {"host", "port", "scheme"} | {"saved_at", "body_bytes"}
    with closing(database()) as connection:
        for table, columns in (("hosts", hosts | {"pace_key"}), ("records", records | {"id"})):
            assert {row[1] for row in connection.execute(f"PRAGMA table_info({table})")} == columns


@given(TEXTS, STATES)
def test_any_state_survives(pace_key: str, state: HostState) -> None:
    """To the last bit, under any pace key."""
    with closing(database()) as connection:
        _tables.write_hosts(connection, [("other", HostState()), (pace_key, state)], now=NOW)
        assert _tables.read_hosts(connection, [pace_key], now=NOW) == {pace_key: (state, False)}
        assert dict(_tables.hosts_after(connection, None, limit=9, now=NOW))[pace_key] == state


@given(RECORDS)
def test_any_record_survives(record: RobotsRecord) -> None:
    """To the last octet."""
    with closing(database()) as connection:
        _tables.write_records(connection, [record], now=NOW)
        assert _tables.read_records(connection, [record.origin], now=NOW) == {record.origin: record}
        listed, _ = _tables.records_after(connection, _tables.FIRST_PLACE, limit=9, now=NOW)
        assert listed == [record]


def test_bodies_are_compressed() -> None:
    """Where that helps: a body that does not get shorter is kept as it is."""
    packed = _rows.record_row(RECORD, saved_at=NOW)[-1]
    assert isinstance(packed, bytes)
    assert len(packed) < len(RECORD.body) / 20
    assert zlib.decompress(packed) == RECORD.body


def test_body_that_compresses_to_its_own_length_survives() -> None:
    """By its length it is known whether it was compressed."""
    bodies = (
        random.Random(seed).randbytes(length) + b"a" * run
        for seed in range(9)
        for length in range(9)
        for run in range(90)
    )
    body = next(body for body in bodies if len(zlib.compress(body, _rows.COMPRESSION)) == len(body))
    record = replace(RECORD, body=body)
    assert _rows.record_of(_rows.record_row(record, saved_at=NOW)) == (record, NOW)


def test_counts_beyond_sqlite_stay_at_its_largest() -> None:
    """Rather than fail: nobody counts as far."""
    state, _ = _rows.host_of(_rows.host_row(HostState(visits=2**64, bytes_read=2**70), saved_at=NOW))
    assert (state.visits, state.bytes_read) == (2**63 - 1, 2**63 - 1)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("outcome", "UNHEARD_OF"),
        ("body", b"no zlib"),
        ("body", zlib.compress(b"x" * 10_000_000)),
        ("body", "text"),
        ("body_bytes", 3),
        ("redirects", '{"a": 1}'),
        ("redirects", "[1]"),
        ("redirects", "["),
        ("host", 7),
        ("failures", "many"),
        ("checked_at", "yesterday"),
        ("saved_at", float("inf")),
    ],
)
def test_record_that_nobody_wrote_is_fetched_again(
    column: str, value: object, caplog: pytest.LogCaptureFixture
) -> None:
    """A row that makes no sense is as good as none, and is told of."""
    with closing(database()) as connection:
        _tables.write_records(connection, [RECORD], now=NOW)
        connection.execute(f"UPDATE records SET {column} = ?", (value,))
        assert _tables.records_after(connection, _tables.FIRST_PLACE, limit=9, now=NOW)[0] == []
    assert "it is fetched again" in caplog.text


def test_host_that_nobody_wrote_counts_as_visited(caplog: pytest.LogCaptureFixture) -> None:
    """A row that makes no sense makes nobody hurry, and is told of."""
    with closing(database()) as connection:
        _tables.write_hosts(connection, [("a.example", STATE)], now=NOW)
        connection.execute("UPDATE hosts SET visits = 'many'")
        found = _tables.read_hosts(connection, ["a.example"], now=NOW + 9)
    assert found == {"a.example": (HostState(last_visit_at=NOW + 9), True)}
    assert "the state of 'a.example' cannot be read (no integer: 'many')" in caplog.text


@given(
    st.floats(0, 4e9), st.floats(0, 4e9), st.floats(0, 1e5), st.floats(0, 1e5), st.none() | st.floats(0, 1e5)
)
def test_clock_set_back_changes_no_wait(
    saved_at: float, now: float, block: float, pause: float, idle: float | None
) -> None:
    """What was left to wait when it was saved is left now, no more and no less; time that passed counts."""
    state = HostState(
        last_visit_at=None if idle is None else saved_at - idle,
        next_allowed_at=saved_at + pause,
        blocked_at=max(saved_at - 1, 0.0),
        blocked_until_at=saved_at + block,
        visits=3,
    )
    later = restored(state, saved_at=saved_at, now=now)
    if saved_at <= now:
        assert later is state
        return
    assert later.next_allowed_at - now == pytest.approx(pause, abs=1e-5)
    assert later.blocked_until_at - now == pytest.approx(block, abs=1e-5)
    assert later.blocked_at <= now
    assert later.visits == 3
    if idle is None or later.last_visit_at is None:
        assert later.last_visit_at is None
    else:
        assert now - later.last_visit_at == pytest.approx(idle, abs=1e-5)


def test_clock_set_back_leaves_what_never_was() -> None:
    """No block stays no block, and a block without end has none."""
    state = restored(HostState(blocked_until_at=float("inf")), saved_at=NOW, now=NOW - 1e6)
    assert state == HostState(blocked_until_at=float("inf"))


def test_clock_set_back_makes_no_record_fresher() -> None:
    """What is left of its life is what was left when it was saved."""
    with closing(database()) as connection:
        _tables.write_records(connection, [RECORD], now=NOW)
        found = _tables.read_records(connection, [ORIGIN], now=NOW - 1000)[ORIGIN]
    assert found.fresh_until_at == RECORD.fresh_until_at - 1000
    assert (found.checked_at, found.fetched_at) == (NOW - 1000, NOW - 1000)
    assert found.failing_since_at is None
