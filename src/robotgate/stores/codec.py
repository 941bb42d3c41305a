"""Records and host states as named fields: one table of fields for every store, and for what `robotgate cache` exports.

JSON is written in ASCII, so that terminals and tools that split lines do not change it. Input is not trusted: an entry
with a field that is missing, unknown, doubled or wrong is refused as a whole. Only a field of a host's state that older
versions do not have (`is_added` in `pace.state.HostState`) may be missing.

Pure functions of text and bytes.
"""

from __future__ import annotations

import json
import math
import zlib
from dataclasses import fields, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeVar

from robotgate.pace.state import HostState, Kind
from robotgate.sites.record import RobotsRecord
from robotgate.sites.status_table import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from robotgate.pace.state import Starts
    from robotgate.urls import Origin

T = TypeVar("T")

MAX_LINE_BYTES: Final = 8 * 1024 * 1024
"""A longer line is refused: twice what the longest robots.txt takes with every byte of it escaped."""
MAX_AMOUNT: Final = 253_402_300_799.0
"""The last second of the year 9999; later instants are written as this one."""
MAX_COUNT: Final = 2**63 - 1
COMPRESSION: Final = 6
"""The level of zlib, for records."""
_USUAL: Final = (
    b"Sitemap: https://www./sitemap.xml\nAllow: /\nCrawl-delay: 10\nUser-agent: *\nDisallow: /"
    b'{"outcome":"missing","status":404,"outcome":"success","status":200,"cause":null,"checked_at":1800000000.'
    b',"fresh_until_at":1800086400.,"failures":0,"failing_since_at":null,"fetched_at":1800000000.,"robots_url":"https://www.'
    b'/robots.txt","redirects":[],"etag":"\\"\\"","last_modified":"Mon, 23 Nov 2026 00:00:00 GMT","last_modified":null,'
    b'"body_bytes":'
)
"""The dictionary of zlib: text that most records contain. To change it is to change the format."""
_MAX_DIGITS: Final = 20
_MAX_QUOTED: Final = 40
"""Characters of a wrong value or name that an error message shows."""
_UNSENDABLE: Final = frozenset("\r\n\0")
"""Characters that no header may have; some of these fields are sent in request headers."""


class FieldError(ValueError):
    """A value, or one field of it, is wrong."""

    def __init__(self, problem: str, field: str | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.field = field


# Checks of fields: each function returns its value, or raises `FieldError`.


def text_value(value: object) -> str:
    """Return a text."""
    if isinstance(value, str):
        return value
    raise FieldError(f"{quoted(value)} is no text")


def _header(value: object) -> str:
    text = text_value(value)
    if _UNSENDABLE.isdisjoint(text):
        return text
    raise FieldError("no header holds the end of a line")


def amount(value: object) -> float:
    """Return seconds: an instant, which may be relative, or a duration.

    Raises:
        FieldError: the value is something else.
    """
    # Compared before the conversion: an int may be too large for a float. NaN fails the comparison.
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAX_AMOUNT:
        return float(value)
    raise FieldError(f"{quoted(value)} is no number of seconds up to {MAX_AMOUNT:.0f}")


def count(value: object, *, most: int = MAX_COUNT) -> int:
    """Return a whole number from 0 on."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most:
        return value
    raise FieldError(f"{quoted(value)} is no whole number from 0 to {most}")


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, list):
        return tuple(map(text_value, value))
    raise FieldError(f"{quoted(value)} is no list of texts")


def _starts(value: object) -> Starts:
    if not isinstance(value, list) or len(value) % 2:
        raise FieldError(f"{quoted(value)} is no list of pairs (an instant, how many starts)")
    pairs = tuple(zip(map(amount, value[::2]), map(count, value[1::2]), strict=True))
    if any(before > after for (before, _), (after, _) in pairwise(pairs)):
        raise FieldError("not in the order of the instants")
    return pairs


def choice(value: object, *, known: Mapping[str, T]) -> T:
    """Return the value that a text stands for."""
    if (text := text_value(value)) in known:
        return known[text]
    raise FieldError(f"{quoted(value)} is none of {', '.join(known)}")


def _if_any(value: object, *, check: Callable[[object], object]) -> object:
    return None if value is None else check(value)


RECORD: Final[Mapping[str, Callable[[object], object]]] = {
    "outcome": partial(choice, known={outcome.name.lower(): outcome for outcome in Outcome}),
    "status": partial(_if_any, check=partial(count, most=999)),
    "cause": partial(_if_any, check=text_value),
    "checked_at": amount,
    "fresh_until_at": amount,
    "failures": count,
    "failing_since_at": partial(_if_any, check=amount),
    "fetched_at": partial(_if_any, check=amount),
    "robots_url": text_value,
    "redirects": _texts,
    "etag": partial(_if_any, check=_header),
    "last_modified": partial(_if_any, check=_header),
}
"""The fields of a record, but for its origin and its body."""
_CHECKS: Final[Mapping[Kind, Callable[[object], object]]] = {
    Kind.INSTANT: amount,
    Kind.DURATION: amount,
    Kind.LEARNED: amount,
    Kind.COUNT: count,
    Kind.STARTS: _starts,
}
HOST: Final[Mapping[str, Callable[[object], object]]] = {
    field.name: check if field.default is not None else partial(_if_any, check=check)
    for field in fields(HostState)
    for check in (_CHECKS[field.metadata["kind"]],)
}
"""The fields of a host's state."""
_ADDED: Final[Mapping[str, object]] = {
    field.name: [] if field.metadata["kind"] is Kind.STARTS else field.default
    for field in fields(HostState)
    if "is_added" in field.metadata
}
"""The fields that older versions do not write."""
# The tables check the types of the arguments.
make_record: Final[Callable[..., RobotsRecord]] = RobotsRecord
_make_host: Final[Callable[..., HostState]] = HostState


def object_of(line: bytes) -> dict[str, object]:
    """Parse a line that is one JSON object.

    Raises:
        FieldError: it is none.
    """
    value = value_of(line)
    if isinstance(value, dict):
        return value
    raise FieldError(f"{quoted(value)} is no JSON object")


def value_of(line: bytes) -> object:
    """Parse a line of JSON.

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
    return value


def _once_each(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values: dict[str, object] = {}
    for name, value in pairs:
        if name in values:
            raise FieldError("there twice", name)
        values[name] = value
    return values


def _whole(digits: str) -> float:
    # Python takes long to parse many digits, and no field is that large.
    return int(digits) if len(digits) <= _MAX_DIGITS else math.inf


def quoted(value: object) -> str:
    """Return a value for a message: short, and in ASCII."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    text = ascii(value[: _MAX_QUOTED + 1] if isinstance(value, str) else value)
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}..."


def take(values: dict[str, object], name: str, check: Callable[[object], T]) -> T:
    """Take one field out of an object."""
    if name not in values:
        raise FieldError("missing", name)
    try:
        return check(values.pop(name))
    except FieldError as error:
        raise FieldError(error.problem, name) from None


def take_all(
    values: dict[str, object], checks: Mapping[str, Callable[[object], object]]
) -> dict[str, object]:
    """Take all fields out of an object, which must have no others left."""
    taken = {name: take(values, name, check) for name, check in checks.items()}
    if values:
        raise FieldError("not known here", min(values))
    return taken


def _written(value: object) -> object:
    """Return the value to write for a field."""
    if isinstance(value, Outcome):
        return value.name.lower()
    if isinstance(value, float):
        return min(value, MAX_AMOUNT)
    return min(value, MAX_COUNT) if isinstance(value, int) else value


def record_fields(record: RobotsRecord) -> dict[str, object]:
    """A record's fields, but for its origin and its body."""
    return {name: _written(getattr(record, name)) for name in RECORD}


def moved_record(record: RobotsRecord, seconds: float) -> RobotsRecord:
    """Return a record with its instants moved by some seconds."""
    if not seconds:
        return record
    instants = ((name, getattr(record, name)) for name in RECORD if name.endswith("_at"))
    return replace(record, **{name: at + seconds for name, at in instants if at is not None})


def pack_record(record: RobotsRecord) -> bytes:
    """Pack a record without its origin: a line of JSON, then the body, compressed."""
    packer = zlib.compressobj(COMPRESSION, zdict=_USUAL)
    head = encoded({**record_fields(record), "body_bytes": len(record.body)})
    return packer.compress(head + b"\n" + record.body) + packer.flush()


def unpack_record(origin: Origin, packed: bytes) -> RobotsRecord:
    """Read the output of `pack_record`.

    Raises:
        FieldError: it is none.
    """
    try:
        # A record never needs more bytes; this bounds a decompression bomb.
        head, _, body = zlib.decompressobj(zdict=_USUAL).decompress(packed, MAX_LINE_BYTES).partition(b"\n")
    except zlib.error as error:
        raise FieldError(f"not compressed as it says ({error})") from None
    values = object_of(head)
    if len(body) != take(values, "body_bytes", count):
        raise FieldError("not of its length", "body")
    return make_record(origin=origin, body=body, **take_all(values, RECORD))


def host_fields(state: HostState) -> dict[str, object]:
    """Return the fields of a host's state."""
    values = {name: _written(getattr(state, name)) for name in HOST}
    values["starts"] = [_written(part) for pair in state.starts for part in pair]
    return values


def host_of(values: dict[str, object]) -> HostState:
    """Read the output of `host_fields`.

    Raises:
        FieldError: a field is not what it should be.
    """
    return _make_host(**take_all({**_ADDED, **values}, HOST))


def encoded(value: object) -> bytes:
    """Write JSON in ASCII, without spaces."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")
