"""Records and host states as named fields: one codec for every store, and for files of JSON Lines.

What is written as JSON is ASCII: no terminal, and no tool that splits lines its own way, makes anything else of it.
What is read may come from anywhere: a value is taken whole or refused whole. A field that is missing, unknown, or there
twice is refused like a wrong one: what the writer meant by it would be lost.

Pure functions of text and bytes.
"""

from __future__ import annotations

import json
import math
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from robotgate.errors import InvalidURLError
from robotgate.pace.state import HostState
from robotgate.rules.grammar import MAX_BYTES
from robotgate.sites.record import RobotsRecord, whole_lines
from robotgate.sites.status import Outcome
from robotgate.urls import Origin

if TYPE_CHECKING:
    from collections.abc import Callable


MAX_LINE_BYTES: Final = 8 * 1024 * 1024
"""A longer line is refused: twice what the longest robots.txt takes with every byte of it escaped."""
MAX_AMOUNT: Final = 253_402_300_799.0
"""The last second of the year 9999, which stands for every later one, too."""
MAX_COUNT: Final = 2**63 - 1
COMPRESSION: Final = 6
"""Of records, by zlib."""
_USUAL: Final = (
    b"Sitemap: https://www./sitemap.xml\nAllow: /\nCrawl-delay: 10\nUser-agent: *\nDisallow: /"
    b'{"outcome":"missing","status":404,"outcome":"success","status":200,"cause":null,"checked_at":1800000000.'
    b',"fresh_until_at":1800086400.,"failures":0,"failing_since_at":null,"fetched_at":1800000000.,"robots_url":"https://www.'
    b'/robots.txt","redirects":[],"etag":"\\"\\"","last_modified":"Mon, 23 Nov 2026 00:00:00 GMT","last_modified":null,'
    b'"body_bytes":'
)
"""What most records have in common, so that a small one is kept small. Another text is another format."""
_MAX_DIGITS: Final = 20
_MAX_QUOTED: Final = 40
"""Of a value or a name that is wrong, an error message shows no more characters."""
_UNSENDABLE: Final = frozenset("\r\n\0")
"""What no header may hold, and what is sent back to a server must not."""

Values: TypeAlias = Mapping[str, object]
Choice = TypeVar("Choice")


class FieldError(ValueError):
    """What is wrong with a value, or with one field of it."""

    def __init__(self, problem: str, field: str | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.field = field


class Fields:
    """The fields of one object, each asked for once by what it has to be.

    Each question raises `FieldError` where the field is missing or something else.

    Args:
        least_amount: negative where instants are relative.
    """

    def __init__(self, values: Values, *, least_amount: float = 0.0) -> None:
        self._values = dict(values)
        self._least_amount = least_amount

    def has(self, name: str) -> bool:
        """Whether there is such a field."""
        return name in self._values

    def text(self, name: str) -> str:
        """A text."""
        value = self._take(name)
        if isinstance(value, str):
            return value
        raise FieldError(f"{quoted(value)} is no text", name)

    def text_if_any(self, name: str) -> str | None:
        """A text, or null."""
        return self.text(name) if self._if_any(name) else None

    def header_if_any(self, name: str) -> str | None:
        """The value of a header, or null."""
        value = self.text_if_any(name)
        if value is None or _UNSENDABLE.isdisjoint(value):
            return value
        raise FieldError("no header holds the end of a line", name)

    def choice(self, name: str, known: Mapping[str, Choice]) -> Choice:
        """What one of the known texts stands for."""
        value = self.text(name)
        if value in known:
            return known[value]
        raise FieldError(f"{quoted(value)} is none of {', '.join(known)}", name)

    def amount(self, name: str) -> float:
        """Seconds: an instant or a duration."""
        value = self._take(name)
        # Compared, not converted: an int may be beyond every float, and NaN is under and over nothing.
        if isinstance(value, int | float) and not isinstance(value, bool):  # noqa: SIM102 - see above
            if self._least_amount <= value <= MAX_AMOUNT:
                return float(value)
        raise FieldError(
            f"{quoted(value)} is no number of seconds from {self._least_amount:.0f} to {MAX_AMOUNT:.0f}", name
        )

    def amount_if_any(self, name: str) -> float | None:
        """Seconds, or null."""
        return self.amount(name) if self._if_any(name) else None

    def count(self, name: str, *, most: int = MAX_COUNT) -> int:
        """A whole number."""
        value = self._take(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most:
            return value
        raise FieldError(f"{quoted(value)} is no whole number from 0 to {most}", name)

    def status_if_any(self, name: str) -> int | None:
        """An HTTP status, or null."""
        return self.count(name, most=999) if self._if_any(name) else None

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts."""
        values = self._take(name)
        if isinstance(values, list) and all(isinstance(value, str) for value in values):
            return tuple(values)
        raise FieldError(f"{quoted(values)} is no list of texts", name)

    def end(self) -> None:
        """Refuse fields that were not asked for."""
        if self._values:
            raise FieldError("not known here", min(self._values))

    def _if_any(self, name: str) -> bool:
        """Whether there is a value; a null is dealt with."""
        if self.has(name) and self._values[name] is None:
            del self._values[name]
            return False
        return True

    def _take(self, name: str) -> object:
        if not self.has(name):
            raise FieldError("missing", name)
        return self._values.pop(name)


def object_of(line: bytes) -> Values:
    """The one JSON object that a line is.

    Raises:
        FieldError: it is none.
    """
    if len(line) > MAX_LINE_BYTES:
        raise FieldError(f"longer than {MAX_LINE_BYTES} bytes")
    try:
        value: object = json.loads(
            line.decode().rstrip("\r\n"), object_pairs_hook=_once_each, parse_int=_whole
        )
    except UnicodeDecodeError:
        raise FieldError("not UTF-8") from None
    except json.JSONDecodeError as error:
        raise FieldError(f"not JSON ({error.msg}, column {error.colno})") from None
    except RecursionError:
        raise FieldError("nested too deep") from None
    if isinstance(value, dict):
        return value
    raise FieldError(f"{quoted(value)} is no JSON object")


def _once_each(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values: dict[str, object] = {}
    for name, value in pairs:
        if name in values:
            raise FieldError("there twice", name)
        values[name] = value
    return values


def _whole(digits: str) -> float:
    # So many digits take Python long to read, and are too many for any field.
    return int(digits) if len(digits) <= _MAX_DIGITS else math.inf


def quoted(value: object) -> str:
    """A value as it may be shown to people: short, and in ASCII."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    text = ascii(value[: _MAX_QUOTED + 1] if isinstance(value, str) else value)
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}..."


def record_fields(record: RobotsRecord) -> dict[str, object]:
    """A record's fields, but for its origin and its body."""
    return {
        "outcome": record.outcome.name.lower(),
        "status": record.status,
        "cause": record.cause,
        "checked_at": _written(record.checked_at),
        "fresh_until_at": _written(record.fresh_until_at),
        "failures": min(record.failures, MAX_COUNT),
        "failing_since_at": _written_if_any(record.failing_since_at),
        "fetched_at": _written_if_any(record.fetched_at),
        "robots_url": record.robots_url,
        "redirects": record.redirects,
        "etag": record.etag,
        "last_modified": record.last_modified,
    }


def record_of(fields: Fields, origin: Origin, body: bytes) -> RobotsRecord:
    """The record of `record_fields`.

    Raises:
        FieldError: a field is not what it should be.
    """
    return RobotsRecord(
        origin=origin,
        outcome=fields.choice("outcome", _OUTCOMES),
        status=fields.status_if_any("status"),
        cause=fields.text_if_any("cause"),
        checked_at=fields.amount("checked_at"),
        fresh_until_at=fields.amount("fresh_until_at"),
        failures=fields.count("failures"),
        failing_since_at=fields.amount_if_any("failing_since_at"),
        body=body,
        fetched_at=fields.amount_if_any("fetched_at"),
        robots_url=fields.text("robots_url"),
        redirects=fields.texts("redirects"),
        etag=fields.header_if_any("etag"),
        last_modified=fields.header_if_any("last_modified"),
    )


def moved_record(record: RobotsRecord, seconds: float) -> RobotsRecord:
    """A record as a clock tells it that is so many seconds ahead."""
    if not seconds:
        return record
    failing_since_at, fetched_at = record.failing_since_at, record.fetched_at
    return replace(
        record,
        checked_at=record.checked_at + seconds,
        fresh_until_at=record.fresh_until_at + seconds,
        failing_since_at=None if failing_since_at is None else failing_since_at + seconds,
        fetched_at=None if fetched_at is None else fetched_at + seconds,
    )


def pack_record(record: RobotsRecord) -> bytes:
    """A record but for its origin: a line of JSON, then the body as far as it counts, compressed."""
    body = whole_lines(record.body)
    packer = zlib.compressobj(COMPRESSION, zdict=_USUAL)
    head = _json({**record_fields(record), "body_bytes": len(body)})
    return packer.compress(head + b"\n" + body) + packer.flush()


def unpack_record(origin: Origin, packed: bytes) -> RobotsRecord:
    """The record of `pack_record`.

    Raises:
        FieldError: it is none.
    """
    try:
        # What is made to burst is decompressed no further than any record goes.
        head, _, body = zlib.decompressobj(zdict=_USUAL).decompress(packed, MAX_LINE_BYTES).partition(b"\n")
    except zlib.error as error:
        raise FieldError(f"not compressed as it says ({error})") from None
    fields = Fields(object_of(head), least_amount=-MAX_AMOUNT)
    if len(body) != fields.count("body_bytes"):
        raise FieldError("not of its length", "body")
    record = record_of(fields, origin, body)
    fields.end()
    return record


def host_fields(state: HostState) -> dict[str, float | int | None]:
    """A host state's fields."""
    return {
        "last_visit_at": _written_if_any(state.last_visit_at),
        "next_allowed_at": _written(state.next_allowed_at),
        "blocked_at": _written(state.blocked_at),
        "blocked_until_at": _written(state.blocked_until_at),
        "failures": min(state.failures, MAX_COUNT),
        "visits": min(state.visits, MAX_COUNT),
        "bytes_read": min(state.bytes_read, MAX_COUNT),
        "latency": _written_if_any(state.latency),
    }


def host_of(fields: Fields) -> HostState:
    """The state of `host_fields`.

    Raises:
        FieldError: a field is not what it should be.
    """
    return HostState(
        last_visit_at=fields.amount_if_any("last_visit_at"),
        next_allowed_at=fields.amount("next_allowed_at"),
        blocked_at=fields.amount("blocked_at"),
        blocked_until_at=fields.amount("blocked_until_at"),
        failures=fields.count("failures"),
        visits=fields.count("visits"),
        bytes_read=fields.count("bytes_read"),
        latency=fields.amount_if_any("latency"),
    )


def pack_host(state: HostState) -> bytes:
    """A host's state as JSON. For a shared medium, `pace.state.moved` makes its instants relative first."""
    return _json(host_fields(state))


def unpack_host(packed: bytes) -> HostState:
    """The state of `pack_host`.

    Raises:
        FieldError: it is none.
    """
    fields = Fields(object_of(packed), least_amount=-MAX_AMOUNT)
    state = host_of(fields)
    fields.end()
    return state


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
    fields = {"origin": record.origin.text, **record_fields(record), **_written_body(record.body)}
    return _line("record", fields)


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


def _record_entry(fields: Fields) -> RobotsRecord:
    return record_of(fields, _origin(fields), _body(fields))


def _host_entry(fields: Fields) -> HostEntry:
    pace_key = fields.text("pace_key")
    if not pace_key:
        raise FieldError("a host has a name", "pace_key")
    return HostEntry(pace_key, host_of(fields))


_KINDS: Final[Mapping[str, Callable[[Fields], Entry]]] = {"record": _record_entry, "host": _host_entry}
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
        raise FieldError(f"longer than the {MAX_BYTES} bytes that count", name)
    return body


def _written_body(body: bytes) -> dict[str, str]:
    body = whole_lines(body)
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": b64encode(body).decode("ascii")}


def _json(fields: Values) -> bytes:
    return json.dumps(fields, allow_nan=False, separators=(",", ":")).encode("ascii")


def _written(amount: float) -> float:
    return min(amount, MAX_AMOUNT)


def _written_if_any(amount: float | None) -> float | None:
    return None if amount is None else _written(amount)


def _line(kind: str, fields: Values) -> str:
    return json.dumps({"version": VERSION, "kind": kind, **fields}, allow_nan=False)
