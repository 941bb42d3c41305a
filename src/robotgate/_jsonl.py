"""Records and host states as JSON Lines: one object a line, every field by its name, so that any tool can look at them.

What is written is ASCII: no terminal, and no tool that splits lines its own way, makes anything else of it. What is
read may come from anywhere: a line is taken whole or refused whole, and `LineError` names the line and the field. A
field that is missing, unknown, or there twice is refused like a wrong one: what the writer meant by it would be lost.

Pure functions of text.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from robotgate._access import RobotsRecord
from robotgate._decode import whole_lines
from robotgate._errors import InvalidURLError
from robotgate._jsonl_fields import MAX_AMOUNT, FieldError, Fields, Values, object_of, quoted
from robotgate._lines import MAX_BYTES
from robotgate._pacing import HostState
from robotgate._status import Outcome
from robotgate._urls import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

VERSION: Final = 1
"""Of the format; another set of fields is another version."""


@dataclass(frozen=True, slots=True)
class HostEntry:
    """What is kept of a host, under what it is paced by."""

    pace_key: str
    state: HostState


Entry: TypeAlias = RobotsRecord | HostEntry


class LineError(ValueError):
    """A line that is not taken in."""

    def __init__(self, number: int, problem: str, field: str | None = None) -> None:
        where = f"line {number}" if field is None else f"line {number}, {quoted(field)}"
        super().__init__(f"{where}: {problem}")
        self.number = number
        self.field = field
        self.problem = problem


def record_line(record: RobotsRecord) -> str:
    """A record as one line, without its end.

    Of a body that is longer than counts (`RobotGate.learn` takes any), what counts is written.
    """
    return _line(
        "record",
        {
            "origin": record.origin.text,
            "outcome": record.outcome.name.lower(),
            "status": record.status,
            "cause": record.cause,
            "checked_at": _written(record.checked_at),
            "fresh_until_at": _written(record.fresh_until_at),
            "failures": record.failures,
            "failing_since_at": _written_if_any(record.failing_since_at),
            "fetched_at": _written_if_any(record.fetched_at),
            "robots_url": record.robots_url,
            "redirects": record.redirects,
            "etag": record.etag,
            "last_modified": record.last_modified,
            **_written_body(record.body),
        },
    )


def host_line(entry: HostEntry) -> str:
    """A host's state as one line, without its end."""
    state = entry.state
    return _line(
        "host",
        {
            "pace_key": entry.pace_key,
            "last_visit_at": _written_if_any(state.last_visit_at),
            "next_allowed_at": _written(state.next_allowed_at),
            "blocked_at": _written(state.blocked_at),
            "blocked_until_at": _written(state.blocked_until_at),
            "failures": state.failures,
            "visits": state.visits,
            "bytes_read": state.bytes_read,
            "latency": _written_if_any(state.latency),
        },
    )


def read_line(line: bytes, number: int) -> Entry:
    """What a line says.

    Args:
        line: with its end or without.
        number: of the line, for the error.

    Raises:
        LineError: it is no record and no host, or any of its fields is not what it should be.
    """
    try:
        return _entry(Fields(object_of(line)))
    except FieldError as error:
        raise LineError(number, error.problem, error.field) from None


def _entry(fields: Fields) -> Entry:
    if fields.count("version") != VERSION:
        raise FieldError(f"not {VERSION}, the only one known here", "version")
    read = fields.choice("kind", _KINDS)
    entry = read(fields)
    fields.end()
    return entry


def _record(fields: Fields) -> RobotsRecord:
    return RobotsRecord(
        origin=_origin(fields),
        outcome=fields.choice("outcome", _OUTCOMES),
        status=fields.status_if_any("status"),
        cause=fields.text_if_any("cause"),
        checked_at=fields.amount("checked_at"),
        fresh_until_at=fields.amount("fresh_until_at"),
        failures=fields.count("failures"),
        failing_since_at=fields.amount_if_any("failing_since_at"),
        body=_body(fields),
        fetched_at=fields.amount_if_any("fetched_at"),
        robots_url=fields.text("robots_url"),
        redirects=fields.texts("redirects"),
        etag=fields.header_if_any("etag"),
        last_modified=fields.header_if_any("last_modified"),
    )


def _host(fields: Fields) -> HostEntry:
    pace_key = fields.text("pace_key")
    if not pace_key:
        raise FieldError("a host has a name", "pace_key")
    state = HostState(
        last_visit_at=fields.amount_if_any("last_visit_at"),
        next_allowed_at=fields.amount("next_allowed_at"),
        blocked_at=fields.amount("blocked_at"),
        blocked_until_at=fields.amount("blocked_until_at"),
        failures=fields.count("failures"),
        visits=fields.count("visits"),
        bytes_read=fields.count("bytes_read"),
        latency=fields.amount_if_any("latency"),
    )
    return HostEntry(pace_key, state)


_KINDS: Final[Mapping[str, Callable[[Fields], Entry]]] = {"record": _record, "host": _host}
_OUTCOMES: Final = {outcome.name.lower(): outcome for outcome in Outcome}


def _origin(fields: Fields) -> Origin:
    text = fields.text("origin")
    try:
        origin = Origin.of(text)
    except InvalidURLError as error:
        raise FieldError(error.problem, "origin") from None
    if origin.text != text:
        raise FieldError(f"{quoted(text)} is an origin, but not spelt as {quoted(origin.text)}", "origin")
    return origin


def _body(fields: Fields) -> bytes:
    name = "body_base64" if fields.has("body_base64") else "body"
    text = fields.text(name)
    try:
        body = text.encode() if name == "body" else b64decode(text, validate=True)
    except ValueError:
        what = "is no text of UTF-8" if name == "body" else "is no base64"
        raise FieldError(f"{quoted(text)} {what}", name) from None
    if len(body) > MAX_BYTES:
        raise FieldError(f"longer than the {MAX_BYTES} octets that count", name)
    return body


def _written_body(body: bytes) -> dict[str, str]:
    if len(body) > MAX_BYTES:
        body = whole_lines(body, max_bytes=MAX_BYTES)
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": b64encode(body).decode("ascii")}


def _written(amount: float) -> float:
    return min(amount, MAX_AMOUNT)


def _written_if_any(amount: float | None) -> float | None:
    return None if amount is None else _written(amount)


def _line(kind: str, fields: Values) -> str:
    return json.dumps({"version": VERSION, "kind": kind, **fields}, allow_nan=False)
