"""A robots.txt as numbered lines.

The parser says what a line means; lint has no grammar of its own. Only the positions of a line's field and value,
which a finding shows, are found here.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from robotgate.rules.grammar import MAX_LINE_BYTES, Field, field_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLANKS: Final = b" \t"


@dataclass(frozen=True, slots=True)
class Line:
    """One line and its parts, as bytes."""

    number: int
    """From 1."""
    raw: bytes
    """The whole line, without a byte order mark and without the line end."""
    kind: Field | None
    """What the parser reads the line as; None for any other line."""
    is_record: bool
    """Whether the line has a field and a value, of whatever kind; else it is blank, a comment or not parsable."""
    content: bytes
    """The part before a comment or a NUL."""
    field: bytes
    value: bytes
    value_at: int
    """Where in `raw` the value begins."""
    has_colon: bool

    @property
    def is_blank(self) -> bool:
        """Whether the line holds nothing, not even a comment."""
        return not self.raw.strip(_BLANKS)

    @property
    def is_too_long(self) -> bool:
        """Whether the parser drops the line for its length."""
        return len(self.content.rstrip(_BLANKS)) > MAX_LINE_BYTES

    @property
    def content_span(self) -> tuple[int, int]:
        """Where in `raw` the content stands, without surrounding blanks; the whole line if there is no content."""
        end = len(self.content.rstrip(_BLANKS))
        return (len(self.content) - len(self.content.lstrip(_BLANKS)), end) if end else (0, len(self.raw))

    @property
    def field_span(self) -> tuple[int, int]:
        """Where in `raw` the field stands."""
        start = self.content_span[0]
        return start, start + len(self.field)

    @property
    def value_span(self) -> tuple[int, int]:
        """Where in `raw` the value stands."""
        return self.value_at, self.value_at + len(self.value)


def line_of(number: int, raw: bytes) -> Line:
    """Read a line: its number, and its bytes without the line end."""
    content = raw.partition(b"#")[0].partition(b"\0")[0]
    field, colon, value = content.partition(b":")
    if not colon:
        field, _, value = content.strip(_BLANKS).replace(b"\t", b" ").partition(b" ")
    field, value = field.strip(_BLANKS), value.strip(_BLANKS)
    value_at = len(content.rstrip(_BLANKS)) - len(value)
    is_record = bool(field and (colon or (value and b" " not in value)) and len(content) <= MAX_LINE_BYTES)
    kind = field_of(field.decode("latin-1"), colon=bool(colon)) if is_record else None
    is_record = is_record and (bool(colon) or kind is not None)
    return Line(number, raw, kind, is_record, content, field, value, value_at, bool(colon))


def lines_of(text: bytes) -> Iterator[Line]:
    """The lines of the part of a file that a crawler reads."""
    return itertools.starmap(line_of, enumerate(text.splitlines(), 1))
