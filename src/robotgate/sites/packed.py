"""What is known of a host, of its origins and of their robots.txt, in a small form, within one process.

An object is packed as the number and the value of each field that is not as in a new one. Numbers and texts are written
one after the other; what is more than that is kept apart, as the object that it is, and so are files.

What turns and questions need alone is left out, and what follows from the operator's options: the gate gives it to a
host that is unpacked.
"""

from __future__ import annotations

import marshal
from dataclasses import fields
from itertools import compress
from operator import attrgetter, is_not
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from robotgate.pace.host import Host
from robotgate.pace.lease import NOT_OWNED
from robotgate.pace.state import CLOSED
from robotgate.sites.record import RobotsRecord
from robotgate.sites.site import Site
from robotgate.sites.status_table import Outcome
from robotgate.urls import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from _typeshed import DataclassInstance

    NewSite: TypeAlias = Callable[[Origin, Host], Site]
    """Makes an origin of a host, with the options and the scopes that it has now."""

Packed: TypeAlias = bytes | tuple[bytes, *tuple[object, ...]]
"""Bytes; and behind them what is kept apart, if there is any."""

_PLAIN: Final = frozenset({bool, float, int, str, type(None)})
_SHARED: Final = (CLOSED, NOT_OWNED, *Outcome)
"""Objects that are there once, and that most hosts have: each has a number, which is written as a byte."""
_NUMBERS: Final = {id(shared): bytes([number]) for number, shared in enumerate(_SHARED)}


class Form:
    """The fields of a dataclass that are packed.

    Args:
        left_out: the names of the others.
    """

    __slots__ = ("_defaults", "_numbers", "_values", "names")

    def __init__(self, kind: type[DataclassInstance], left_out: Collection[str] = ()) -> None:
        kept = [field for field in fields(kind) if field.name not in left_out]
        self.names: tuple[str, ...] = tuple(field.name for field in kept)
        self._numbers = range(len(kept))
        self._defaults = tuple(field.default for field in kept)
        self._values = attrgetter(*self.names)

    def part(self, owner: object, apart: list[object]) -> tuple[object, ...]:
        """Return what an object has that a new one has not: the numbers of fields, as bytes, and their values.

        Args:
            apart: gets what is kept apart.
        """
        numbers, values = bytearray(), list[object]()
        found = self._values(owner)
        # Most are the same object.
        for number in compress(self._numbers, map(is_not, found, self._defaults)):
            value = found[number]
            if value == self._defaults[number]:
                continue
            numbers.append(number)
            if type(value) not in _PLAIN:
                shared = _NUMBERS.get(id(value))
                if shared is None:
                    apart.append(value)
                values.append(shared or ...)
            else:
                values.append(value)
        return (bytes(numbers), *values)

    def values(self, part: object, apart: Iterator[object]) -> Iterator[tuple[str, object]]:
        """Return the name and the value of each field that a `part` has."""
        numbers, *values = cast("tuple[bytes, *tuple[object, ...]]", part)
        for number, value in zip(numbers, values, strict=True):
            if value is ...:
                yield self.names[number], next(apart)
            else:
                yield self.names[number], _SHARED[value[0]] if isinstance(value, bytes) else value


def packed(parts: list[object], apart: list[object]) -> Packed:
    """Put parts together with what is kept apart."""
    data = marshal.dumps(parts)
    return (data, *apart) if apart else data


def parts_of(packed: Packed) -> tuple[list[object], Iterator[object]]:
    """Return what was given to `packed`."""
    # Bytes of this very process.
    parts: list[object] = marshal.loads(bytes_of(packed))  # noqa: S302
    return parts, iter(() if isinstance(packed, bytes) else packed[1:])


def bytes_of(packed: Packed) -> bytes:
    """Return the bytes alone, in which each text that is ASCII stands as it is."""
    return packed if isinstance(packed, bytes) else packed[0]


_IN_USE: Final = {"in_slots", "starting", "waiting_origins", "is_wanted", "wake_at"}
_BY_OPTIONS: Final = {
    "slots",
    "floor",
    "delay",
    "is_adaptive",
    "max_learned",
    "heeds_latency",
    "budget",
    "bytes_per_second",
    "has_hours",
    "limiter",
    "_limiter_delay",
}
"""What `Host.update_limits` sets anew."""
_HOST: Final = Form(Host, {"key", "origins", *_IN_USE, *_BY_OPTIONS})
_SITE: Final = Form(
    Site,
    {
        *("key", "origin", "host", "record"),
        *("queue", "waiting", "probe", "ruling", "rules", "ready_until_at"),
        *("options", "operator_until_at", "scopes", "scopes_until_at", "spenders"),
    },
)
_RECORD: Final = Form(RobotsRecord, {"origin", "robots_url"})
# The types of the arguments are those of the fields.
_make_record: Final[Callable[..., RobotsRecord]] = RobotsRecord


def sites_of(host: Host) -> tuple[Site, ...]:
    """Return the origins of a host."""
    return cast("tuple[Site, ...]", host.origins)


def pack_host(host: Host) -> Packed:
    """Pack a host whose robots.txt are all known, for `unpack_host`."""
    apart: list[object] = []
    parts: list[object] = [_HOST.part(host, apart)]
    for site in sites_of(host):
        parts.append(_SITE.part(site, apart))
        if site.record is not None:
            parts += _record_parts(site.record, apart)
    return packed(parts, apart)


def unpack_host(key: str, host: Packed, new_site: NewSite) -> Host:
    """Return a host as it was packed, but for what `Host.update_limits` sets."""
    parts, apart = parts_of(host)
    whole = Host(key)
    _set(whole, _HOST, parts[0], apart)
    for first in range(1, len(parts), 4):
        of_site, origin, *of_record = parts[first : first + 4]
        site = new_site(_origin(origin), whole)
        _set(site, _SITE, of_site, apart)
        site.record = _record(site.origin, of_record, apart)
    return whole


def names_of(host: Packed) -> list[str]:
    """Return the host of each origin of a packed host."""
    return [name for _, name, _ in cast("list[tuple[str, str, int]]", parts_of(host)[0][2::4])]


def pack_record(record: RobotsRecord) -> Packed:
    """Pack a record, for `unpack_record`."""
    apart: list[object] = []
    return packed(_record_parts(record, apart), apart)


def unpack_record(record: Packed) -> RobotsRecord:
    """Return a record as it was packed."""
    (origin, *rest), apart = parts_of(record)
    return _record(_origin(origin), rest, apart)


def _record_parts(record: RobotsRecord, apart: list[object]) -> list[object]:
    origin, url = record.origin, record.robots_url
    # Most files are where they should be.
    url_or_none = None if url == origin.robots_url else url
    return [(origin.scheme, origin.host, origin.port), _RECORD.part(record, apart), url_or_none]


def _origin(part: object) -> Origin:
    return Origin(*cast("tuple[str, str, int]", part))


def _record(origin: Origin, parts: list[object], apart: Iterator[object]) -> RobotsRecord:
    part, url = parts
    fields = dict(_RECORD.values(part, apart))
    return _make_record(origin=origin, robots_url=origin.robots_url if url is None else url, **fields)


def _set(owner: Host | Site, form: Form, part: object, apart: Iterator[object]) -> None:
    for name, value in form.values(part, apart):
        setattr(owner, name, value)
