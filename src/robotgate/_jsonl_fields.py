"""The fields of one line of JSON, held to what they have to be: a line may come from anywhere.

Pure functions of text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Final, TypeAlias, TypeVar

MAX_LINE_BYTES: Final = 8 * 1024 * 1024
"""A longer line is refused: twice what the longest robots.txt takes, every octet of it escaped."""
MAX_AMOUNT: Final = 253_402_300_799.0
"""The last second of the year 9999, which stands for every later one, too."""
MAX_COUNT: Final = 2**63 - 1
_MAX_DIGITS: Final = 20
_MAX_QUOTED: Final = 40
"""Of a value or a name that is wrong, an error message shows no more characters."""
_UNSENDABLE: Final = frozenset("\r\n\0")
"""What no header may hold, and what is sent back to a server must not."""

Values: TypeAlias = Mapping[str, object]
Choice = TypeVar("Choice")


class FieldError(Exception):
    """What is wrong with a line, or with one field of it."""

    def __init__(self, problem: str, field: str | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.field = field


class Fields:
    """The fields of one object, each asked for once by what it has to be.

    Each question raises `FieldError` where the field is missing or something else.
    """

    def __init__(self, values: Values) -> None:
        self._values = dict(values)

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
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_AMOUNT:
            return float(value)
        raise FieldError(f"{quoted(value)} is no number of seconds from 0 to {MAX_AMOUNT:.0f}", name)

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
        """Refuse what nobody asked for."""
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
        raise FieldError(f"longer than {MAX_LINE_BYTES} octets")
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
