"""The format of ``robotgate cache export``: one record or host in a line of JSON."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from robotgate import HostState, InvalidURLError, Origin, RobotsRecord
from robotgate.rules.grammar import MAX_BYTES
from robotgate.sites.record import whole_lines
from robotgate.stores.codec import (
    HOST,
    RECORD,
    FieldError,
    choice,
    count,
    host_fields,
    host_of,
    make_record,
    object_of,
    quoted,
    record_fields,
    take,
    take_all,
    text_value,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

VERSION: Final = 1
"""Of the format of lines; another set of fields is another version."""


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
    body = whole_lines(record.body)
    try:
        written = {"body": body.decode()}
    except UnicodeDecodeError:
        written = {"body_base64": b64encode(body).decode("ascii")}
    return _line("record", {"origin": record.origin.text, **record_fields(record), **written})


def host_line(entry: HostEntry) -> str:
    """A host's state as one line, without its end."""
    return _line("host", {"pace_key": entry.pace_key, **host_fields(entry.state)})


def read_line(line: bytes, number: int) -> Entry:
    """What a line says.

    Args:
        line: with its end or without.
        number: of the line, for the error.

    Raises:
        LineError: it is no record and no host, or any of its fields is not what it should be.
    """
    try:
        return _entry(object_of(line))
    except FieldError as error:
        raise LineError(number, error.problem, error.field) from None


def _entry(values: dict[str, object]) -> Entry:
    if take(values, "version", count) != VERSION:
        raise FieldError(f"not {VERSION}, the only one known here", "version")
    checks = take(values, "kind", partial(choice, known={"record": RECORD, "host": HOST}))
    for name, value in values.items():
        if name in checks and isinstance(value, int | float) and value < 0:
            raise FieldError(f"{quoted(value)} is less than 0", name)
    if checks is HOST:
        pace_key = take(values, "pace_key", text_value)
        if not pace_key:
            raise FieldError("a host has a name", "pace_key")
        return HostEntry(pace_key, host_of(values))
    origin = take(values, "origin", _origin)
    name = "body_base64" if "body_base64" in values else "body"
    decode = partial(b64decode, validate=True) if name == "body_base64" else str.encode
    body = take(values, name, partial(_body, decode=decode))
    return make_record(origin=origin, body=body, **take_all(values, RECORD))


def _origin(value: object) -> Origin:
    text = text_value(value)
    try:
        origin = Origin.of(text)
    except InvalidURLError as error:
        raise FieldError(error.problem) from None
    if origin.text != text:
        raise FieldError(f"{quoted(text)} is an origin, but not spelt as {quoted(origin.text)}")
    return origin


def _body(value: object, *, decode: Callable[[str], bytes]) -> bytes:
    text = text_value(value)
    try:
        body = decode(text)
    except ValueError:
        raise FieldError(f"{quoted(text)} is no text of UTF-8, or no base64") from None
    if len(body) > MAX_BYTES:
        raise FieldError(f"longer than the {MAX_BYTES} bytes that count")
    return body


def _line(kind: str, values: Mapping[str, object]) -> str:
    return json.dumps({"version": VERSION, "kind": kind, **values}, allow_nan=False)
