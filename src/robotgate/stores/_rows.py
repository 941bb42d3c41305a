"""Records and host states as rows: integers, reals, text and bytes, and nothing that runs when it is read."""

from __future__ import annotations

import json
import math
import zlib
from typing import TYPE_CHECKING, Final, TypeAlias

from robotgate._access import RobotsRecord
from robotgate._pacing import HostState
from robotgate._status import Outcome
from robotgate._urls import Origin

if TYPE_CHECKING:
    from collections.abc import Sequence

Value: TypeAlias = int | float | str | bytes | None
"""What SQLite keeps."""

HOST_COLUMNS: Final = (
    "saved_at, last_visit_at, next_allowed_at, blocked_at, blocked_until_at, "
    "failures, visits, bytes_read, latency"
)
RECORD_COLUMNS: Final = (
    "host, port, scheme, saved_at, outcome, status, cause, checked_at, fresh_until_at, failures, failing_since_at, "
    "fetched_at, robots_url, redirects, etag, last_modified, body_bytes, body"
)
MAX_INTEGER: Final = 2**63 - 1
"""SQLite has no larger; no count that is true comes near it."""
COMPRESSION: Final = 6


def host_row(state: HostState, *, saved_at: float) -> tuple[Value, ...]:
    """The values of `HOST_COLUMNS`."""
    return (
        saved_at,
        state.last_visit_at,
        state.next_allowed_at,
        state.blocked_at,
        state.blocked_until_at,
        min(state.failures, MAX_INTEGER),
        min(state.visits, MAX_INTEGER),
        min(state.bytes_read, MAX_INTEGER),
        state.latency,
    )


def host_of(row: Sequence[Value]) -> tuple[HostState, float]:
    """The state in the values of `HOST_COLUMNS`, and when it was saved.

    Raises:
        ValueError: nobody here wrote this row.
    """
    (
        saved_at,
        last_visit_at,
        next_allowed_at,
        blocked_at,
        blocked_until_at,
        failures,
        visits,
        octets,
        latency,
    ) = row
    state = HostState(
        last_visit_at=None if last_visit_at is None else _finite(last_visit_at),
        next_allowed_at=_real(next_allowed_at),
        blocked_at=_real(blocked_at),
        blocked_until_at=_real(blocked_until_at),
        failures=_integer(failures),
        visits=_integer(visits),
        bytes_read=_integer(octets),
        latency=_real_or_none(latency),
    )
    return state, _finite(saved_at)


def record_row(record: RobotsRecord, *, saved_at: float) -> tuple[Value, ...]:
    """The values of `RECORD_COLUMNS`."""
    origin = record.origin
    return (
        text(origin.host),
        origin.port,
        origin.scheme,
        saved_at,
        record.outcome.name,
        record.status,
        _text_or_none(record.cause),
        record.checked_at,
        record.fresh_until_at,
        min(record.failures, MAX_INTEGER),
        record.failing_since_at,
        record.fetched_at,
        text(record.robots_url),
        json.dumps(record.redirects) if record.redirects else None,
        _text_or_none(record.etag),
        _text_or_none(record.last_modified),
        len(record.body),
        _packed(record.body),
    )


def record_of(row: Sequence[Value]) -> tuple[RobotsRecord, float]:
    """The record in the values of `RECORD_COLUMNS`, and when it was saved.

    Raises:
        ValueError: nobody here wrote this row.
    """
    host, port, scheme, saved_at, outcome, status, cause, checked_at, fresh_until_at, failures, *rest = row
    failing_since_at, fetched_at, robots_url, redirects, etag, last_modified, body_bytes, body = rest
    if outcome not in Outcome.__members__:
        raise ValueError(f"no outcome: {outcome!r}")
    record = RobotsRecord(
        origin=Origin(text_of(scheme), text_of(host), _integer(port)),
        outcome=Outcome[text_of(outcome)],
        status=None if status is None else _integer(status),
        cause=_text_of_or_none(cause),
        checked_at=_real(checked_at),
        fresh_until_at=_real(fresh_until_at),
        failures=_integer(failures),
        failing_since_at=_real_or_none(failing_since_at),
        fetched_at=_real_or_none(fetched_at),
        robots_url=text_of(robots_url),
        redirects=_redirects_of(redirects),
        etag=_text_of_or_none(etag),
        last_modified=_text_of_or_none(last_modified),
        body=_unpacked(body, _integer(body_bytes)),
    )
    return record, _finite(saved_at)


def text(value: str) -> str | bytes:
    """Text for SQLite: as bytes where it is no Unicode, as a header may be that a server sent."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode(errors="surrogatepass")
    return value


def text_of(value: Value) -> str:
    """What `text` was given.

    Raises:
        ValueError: no such thing.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode(errors="surrogatepass")
    raise ValueError(f"no text: {value!r}")


def _text_or_none(value: str | None) -> str | bytes | None:
    return None if value is None else text(value)


def _text_of_or_none(value: Value) -> str | None:
    return None if value is None else text_of(value)


def _integer(value: Value) -> int:
    if isinstance(value, int):
        return value
    raise ValueError(f"no integer: {value!r}")


def _real(value: Value) -> float:
    if isinstance(value, float):
        return value
    raise ValueError(f"no instant: {value!r}")


def _finite(value: Value) -> float:
    """An instant that has been: from one that is never, everything that is counted is never too."""
    instant = _real(value)
    if math.isfinite(instant):
        return instant
    raise ValueError(f"no instant: {value!r}")


def _real_or_none(value: Value) -> float | None:
    return None if value is None else _real(value)


def _redirects_of(value: Value) -> tuple[str, ...]:
    if value is None:
        return ()
    urls: object = json.loads(text_of(value))
    if not isinstance(urls, list):
        raise ValueError("no redirects: not a list")  # noqa: TRY004 - of a row, not of an argument
    return tuple(text_of(url if isinstance(url, str) else None) for url in urls)


def _packed(body: bytes) -> bytes | None:
    """Compressed where that makes it shorter."""
    if not body:
        return None
    packed = zlib.compress(body, COMPRESSION)
    return packed if len(packed) < len(body) else body


def _unpacked(packed: Value, length: int) -> bytes:
    if packed is None:
        packed = b""
    if not isinstance(packed, bytes):
        raise ValueError("no body: not bytes")  # noqa: TRY004 - as above
    if len(packed) < length:
        try:
            # A damaged length, or a body made to burst, does not get further than it says.
            packed = zlib.decompressobj().decompress(packed, length)
        except zlib.error as error:
            raise ValueError(f"no body: {error}") from error
    if len(packed) != length:
        raise ValueError("no body: not of its length")
    return packed
