"""What several processes write down for each other: requests under way, leases, and hosts' states put together.

Each function works within a transaction of its caller, on the database's thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from robotgate import _pacing
from robotgate._pacing import CLOCK_GRAIN, HostState
from robotgate.stores._rows import text, text_of
from robotgate.stores._tables import read_hosts, write_hosts

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping

LEAST_POLL: Final = 0.02
"""Seconds after which it is worth asking again for a slot that somebody else has, at the least."""
MOST_POLL: Final = 1.0
POLLS: Final = 4
"""A slot is asked for this often in the time for which it has been taken."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A request under way, or about to be sent."""

    serial: int
    pace_key: str
    reserved_at: float
    began_at: float | None
    """None until it is sent."""
    delay: float
    """Seconds that whoever comes next has to leave, as far as this one's process knows."""


@dataclass(slots=True)
class Change:
    """What has become of a host since the file heard of it."""

    state: HostState
    visits: int = 0
    """How many were added to those in the file, which may be another's; and so for `bytes_read`."""
    bytes_read: int = 0
    turns: dict[int, Turn | None] = field(default_factory=dict)
    """By serial, as they are now; None for those that are over."""


@dataclass(slots=True)
class Question:
    """Whether a turn may begin now."""

    turn: Turn
    state: HostState
    """What is known once it has."""
    slots: int
    is_abandoned: bool = False
    """Whether nobody waits for the answer any more."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What all know of the host."""

    state: HostState
    again_at: float | None
    """When it is worth asking again; None when the turn is booked."""


def write_merged(connection: sqlite3.Connection, states: Mapping[str, HostState], *, now: float) -> None:
    """Write states together with what others have written."""
    known = read(connection, states, now=now)
    merged = {key: _pacing.merged(known[key], state) for key, state in states.items()}
    write_hosts(connection, merged.items(), now=now)


def write_changes(
    connection: sqlite3.Connection, changes: Mapping[str, Change], *, process: str, now: float, shift: float
) -> None:
    """Write what has become of hosts."""
    known = read(connection, changes, now=now)
    states = {}
    for pace_key, change in changes.items():
        before = known[pace_key]
        states[pace_key] = replace(
            _pacing.merged(before, _pacing.moved(change.state, -shift)),
            visits=max(before.visits + change.visits, 0),
            bytes_read=max(before.bytes_read + change.bytes_read, 0),
        )
        write_turns(connection, change.turns, process=process, shift=shift)
    write_hosts(connection, states.items(), now=now)


def write_turns(
    connection: sqlite3.Connection, turns: Mapping[int, Turn | None], *, process: str, shift: float
) -> None:
    """Write which requests are under way, and which are over."""
    for serial, turn in turns.items():
        if turn is None:
            connection.execute("DELETE FROM open_turns WHERE process = ? AND serial = ?", (process, serial))
            continue
        began_at = None if turn.began_at is None else turn.began_at - shift
        connection.execute(
            "REPLACE INTO open_turns VALUES (?, ?, ?, ?, ?, ?)",
            (process, serial, text(turn.pace_key), turn.reserved_at - shift, began_at, turn.delay),
        )


def reserve(
    connection: sqlite3.Connection,
    question: Question,
    *,
    process: str,
    now: float,
    shift: float,
    assumed_visit_at: float | None,
) -> Answer:
    """Book a turn, if its host is due and has a slot.

    Args:
        assumed_visit_at: when every host is taken to have been visited, since something may have been lost then.
    """
    turn = question.turn
    known = read(connection, [turn.pace_key], now=now)[turn.pace_key]
    at = turn.reserved_at - shift
    again_at = _again_at(connection, known, question, now=at)
    if assumed_visit_at is not None and assumed_visit_at + turn.delay - at > CLOCK_GRAIN:
        again_at = max(assumed_visit_at + turn.delay, again_at or 0.0)
    if again_at is not None:
        return Answer(_pacing.moved(known, shift), again_at + shift)
    if not question.is_abandoned:
        state = _pacing.merged(known, _pacing.moved(question.state, -shift))
        known = replace(state, visits=known.visits + 1, bytes_read=known.bytes_read)
        write_hosts(connection, [(turn.pace_key, known)], now=now)
        write_turns(connection, {turn.serial: turn}, process=process, shift=shift)
    return Answer(_pacing.moved(known, shift), None)


def undo(connection: sqlite3.Connection, turn: Turn, *, process: str, now: float) -> None:
    """Give back what was booked, if it was. The delay behind it stays: others may have been told of it."""
    booked = connection.execute(
        "DELETE FROM open_turns WHERE process = ? AND serial = ?", (process, turn.serial)
    )
    if booked.rowcount > 0:
        known = read(connection, [turn.pace_key], now=now)[turn.pace_key]
        state = replace(known, visits=max(known.visits - 1, 0))
        write_hosts(connection, [(turn.pace_key, state)], now=now)


def take_lease(connection: sqlite3.Connection, origin: str, *, process: str) -> bool:
    """Take an origin's lease. Returns whether it is ours."""
    connection.execute("INSERT INTO leases VALUES (?, ?) ON CONFLICT DO NOTHING", (origin, process))
    row = connection.execute("SELECT process FROM leases WHERE origin = ?", (origin,)).fetchone()
    return row is not None and bool(row[0] == process)


def leave_lease(connection: sqlite3.Connection, origin: str, *, process: str) -> None:
    """Give an origin's lease back."""
    connection.execute("DELETE FROM leases WHERE origin = ? AND process = ?", (origin, process))


def acquaint(
    connection: sqlite3.Connection,
    strangers: Iterable[str],
    *,
    process: str,
) -> None:
    """Write that we know of them, as far as they are still there."""
    connection.executemany(
        "INSERT OR IGNORE INTO acquaintances SELECT ?, id FROM processes WHERE id = ?",
        [(process, stranger) for stranger in strangers],
    )


def depart(connection: sqlite3.Connection, process: str, *, now: float) -> None:
    """Strike out one who is gone. What he had under way has ended by now: nobody knows when."""
    rows = connection.execute(
        "SELECT pace_key, max(delay) FROM open_turns WHERE process = ? GROUP BY pace_key", (process,)
    ).fetchall()
    delays = {text_of(pace_key): delay for pace_key, delay in rows}
    visited = {
        pace_key: HostState(last_visit_at=now, next_allowed_at=now + delay)
        for pace_key, delay in delays.items()
    }
    write_merged(connection, visited, now=now)
    connection.execute("DELETE FROM open_turns WHERE process = ?", (process,))
    connection.execute("DELETE FROM leases WHERE process = ?", (process,))
    connection.execute("DELETE FROM acquaintances WHERE process = ? OR knows = ?", (process, process))
    connection.execute("DELETE FROM processes WHERE id = ?", (process,))


def read(connection: sqlite3.Connection, pace_keys: Iterable[str], *, now: float) -> dict[str, HostState]:
    """What the file knows of each of these hosts, by the clock of those who are there.

    A row that cannot be read is put right at once: read again later, its host would have been visited then.
    """
    keys = list(pace_keys)
    found = read_hosts(connection, keys, now=now, trusts_clock=True)
    write_hosts(connection, [(key, state) for key, (state, is_new) in found.items() if is_new], now=now)
    return {key: found[key][0] if key in found else HostState() for key in keys}


def _again_at(
    connection: sqlite3.Connection, known: HostState, question: Question, *, now: float
) -> float | None:
    """When it is worth asking again; None when the turn may begin now."""
    delay = question.turn.delay
    due_at = max(known.next_allowed_at, known.blocked_until_at)
    if known.last_visit_at is not None:
        due_at = max(due_at, known.last_visit_at + delay)
    turns = connection.execute(
        "SELECT reserved_at, began_at FROM open_turns WHERE pace_key = ?", (text(question.turn.pace_key),)
    ).fetchall()
    if turns and len(turns) >= question.slots:
        poll = min(max((now - min(turn[0] for turn in turns)) / POLLS, LEAST_POLL), MOST_POLL)
        # The one that is under way could end now, and the delay begins with its end.
        return max(due_at, now + (max(delay, LEAST_POLL) if question.slots == 1 and delay else poll))
    if delay and any(began_at is None for _, began_at in turns):
        # It could be sent now.
        return max(due_at, now + delay)
    return due_at if due_at - now > CLOCK_GRAIN else None
