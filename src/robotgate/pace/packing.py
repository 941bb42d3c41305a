"""Objects in few bytes, within one process: of each field that is not as in a new object, its number and its value.

Numbers and texts are written one after the other. What is more than that is kept apart, as the object that it is.
"""

from __future__ import annotations

import marshal
from dataclasses import fields
from itertools import compress
from operator import attrgetter, is_not
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from robotgate.pace.lease import NOT_OWNED
from robotgate.pace.state import CLOSED
from robotgate.sites.status_table import Outcome

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from _typeshed import DataclassInstance

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
