"""A robots.txt as numbered lines, each with the meaning that the parser gives it.

Lint has no grammar of its own: it asks the parser what a line means. Only the positions of a line's field and value,
which a finding shows, are found here.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from robotgate.rules.grammar import MAX_BYTES, MAX_LINE_BYTES
from robotgate.rules.robotstxt import RobotsTxt

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLANKS: Final = b" \t"
_MAX_FIELD_BYTES: Final = 20
_MAX_FIELDS_ASKED: Final = 1000
"""How many different field names the parser is asked about in one file; it bounds the work for hostile files."""


class Kind(Enum):
    """What the parser reads a line as."""

    NOTHING = auto()
    """Blank, a comment, or not parsable."""
    USER_AGENT = auto()
    ALLOW = auto()
    DISALLOW = auto()
    SITEMAP = auto()
    RECORD = auto()


RULES: Final = frozenset({Kind.ALLOW, Kind.DISALLOW})


@dataclass(frozen=True, slots=True)
class Line:
    """One line and its parts, as bytes."""

    number: int
    """From 1."""
    raw: bytes
    """The whole line, without a byte order mark and without the line end."""
    kind: Kind
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


def plain_line(number: int, raw: bytes) -> Line:
    """A line that was not parsed."""
    return Line(number, raw, Kind.NOTHING, raw, b"", b"", 0, False)


def byte_order_mark_length(body: bytes) -> int:
    """How many bytes of a byte order mark the file begins with; the mark may be incomplete."""
    return next(length for length in (3, 2, 1, 0) if body.startswith(BOM_UTF8[:length]))


class Lines:
    """The lines of a file that a crawler reads."""

    def __init__(self, body: bytes) -> None:
        self.text = _whole_lines(body)[byte_order_mark_length(body) :]
        """The part of the file that is read, without a byte order mark."""
        robots = RobotsTxt.parse(body)
        self.have_groups = bool(robots.groups)
        self._kinds = {rule.line: Kind[rule.kind.name] for group in robots.groups for rule in group.rules}
        self._kinds.update((record.line, Kind.RECORD) for record in robots.records)
        self._asked: dict[bytes, Kind] = {}

    def __iter__(self) -> Iterator[Line]:
        return (self._line(number, raw) for number, raw in enumerate(self.text.splitlines(), 1))

    def _line(self, number: int, raw: bytes) -> Line:
        if not raw:
            return plain_line(number, raw)
        content = raw.partition(b"#")[0].partition(b"\0")[0]
        field, colon, value = content.partition(b":")
        if not colon:
            field, _, value = content.strip(_BLANKS).replace(b"\t", b" ").partition(b" ")
        field, value = field.strip(_BLANKS), value.strip(_BLANKS)
        is_pair = colon or (value and b" " not in value)
        kind = self._kind(number, content, field, colon) if field and is_pair else Kind.NOTHING
        value_at = len(content.rstrip(_BLANKS)) - len(value)
        return Line(number, raw, kind, content, field, value, value_at, bool(colon))

    def _kind(self, number: int, content: bytes, field: bytes, colon: bytes) -> Kind:
        known = self._kinds.get(number)
        if known is not None:
            return known
        if len(field) > _MAX_FIELD_BYTES or len(content) > MAX_LINE_BYTES:
            return Kind.NOTHING
        example = field.lower() + colon + b" /x"
        kind = self._asked.get(example)
        if kind is None:
            kind = _kind_in_a_group(example) if len(self._asked) < _MAX_FIELDS_ASKED else Kind.NOTHING
            self._asked[example] = kind
        return kind


def _whole_lines(body: bytes) -> bytes:
    """The part of a file that is read: all of it, or the whole lines within the size limit."""
    if len(body) <= MAX_BYTES:
        return body
    window = body[: MAX_BYTES + 1]
    return window[: max(window.rfind(b"\n"), window.rfind(b"\r"), 0)]


def _kind_in_a_group(example: bytes) -> Kind:
    """What the parser reads a line as that stands in a group."""
    robots = RobotsTxt.parse(b"User-agent: a\n" + example)
    if robots.sitemaps:
        return Kind.SITEMAP
    rules = robots.groups[0].rules
    if rules:
        return Kind[rules[0].kind.name]
    return Kind.USER_AGENT if len(robots.groups[0].agents) > 1 else Kind.NOTHING
