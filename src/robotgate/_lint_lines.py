"""A robots.txt as the numbered lines that lint looks at, each with what the parser takes it for.

What a line means is asked of the parser; only where its field ends and its value begins is found here, to be shown.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from robotgate._lines import MAX_BYTES, MAX_LINE_BYTES
from robotgate._robotstxt import RobotsTxt

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLANKS: Final = b" \t"
_MAX_FIELD_OCTETS: Final = 20
_MAX_FIELDS_ASKED: Final = 1000
"""Of more words without a colon behind them the parser is not asked: a file of them is no robots.txt."""


class Kind(Enum):
    """What the parser takes a line for."""

    NOTHING = auto()
    """Blank, a comment, or what cannot be parsed."""
    USER_AGENT = auto()
    ALLOW = auto()
    DISALLOW = auto()
    SITEMAP = auto()
    RECORD = auto()


RULES: Final = frozenset({Kind.ALLOW, Kind.DISALLOW})


@dataclass(frozen=True, slots=True)
class Line:
    """One line, and its parts as the octets they are."""

    number: int
    octets: bytes
    """Without a byte order mark and without the line's end."""
    kind: Kind
    content: bytes
    """What is left of a comment and of a NUL."""
    field: bytes
    value: bytes
    value_at: int
    """Where in `octets` the value begins."""
    has_colon: bool

    @property
    def is_blank(self) -> bool:
        """Whether nothing at all stands in it, no comment either."""
        return not self.octets.strip(_BLANKS)

    @property
    def is_too_long(self) -> bool:
        """Whether the parser drops it."""
        return len(self.content) > MAX_LINE_BYTES

    @property
    def content_span(self) -> tuple[int, int]:
        """Where in `octets` the content stands, without the blanks around it; all of a line that has none."""
        end = len(self.content.rstrip(_BLANKS))
        return (len(self.content) - len(self.content.lstrip(_BLANKS)), end) if end else (0, len(self.octets))

    @property
    def field_span(self) -> tuple[int, int]:
        """Where in `octets` the field stands."""
        start = self.content_span[0]
        return start, start + len(self.field)

    @property
    def value_span(self) -> tuple[int, int]:
        """Where in `octets` the value stands."""
        return self.value_at, self.value_at + len(self.value)


def plain_line(number: int, octets: bytes) -> Line:
    """A line of which nothing is known."""
    return Line(number, octets, Kind.NOTHING, octets, b"", b"", 0, False)


def marks(body: bytes) -> int:
    """How many octets of a byte order mark a file begins with."""
    return next(length for length in (3, 2, 1, 0) if body.startswith(BOM_UTF8[:length]))


def whole_lines(body: bytes) -> bytes:
    """What of a file is read: all, or the whole lines within the limit."""
    if len(body) <= MAX_BYTES:
        return body
    window = body[: MAX_BYTES + 1]
    return window[: max(window.rfind(b"\n"), window.rfind(b"\r"), 0)]


class Lines:
    """The lines of a file that are read."""

    def __init__(self, body: bytes) -> None:
        self.text = whole_lines(body)[marks(body) :]
        """What of the file is read, without a byte order mark."""
        robots = RobotsTxt.parse(body)
        self.have_groups = bool(robots.groups)
        self._kinds = {rule.line: Kind[rule.kind.name] for group in robots.groups for rule in group.rules}
        self._kinds.update((record.line, Kind.RECORD) for record in robots.records)
        self._asked: dict[bytes, Kind] = {}

    def __iter__(self) -> Iterator[Line]:
        return (self._line(number, octets) for number, octets in enumerate(self.text.splitlines(), 1))

    def _line(self, number: int, octets: bytes) -> Line:
        if not octets:
            return plain_line(number, octets)
        content = octets.partition(b"#")[0].partition(b"\0")[0]
        field, colon, value = content.partition(b":")
        if not colon:
            words = content.split(maxsplit=1)
            field, value = [*words, b"", b""][:2]
        field = field.strip(_BLANKS)
        is_pair = colon or len(value.split(maxsplit=1)) == 1
        kind = self._kind(number, content, field, colon) if field and is_pair else Kind.NOTHING
        value = value.strip(_BLANKS)
        value_at = len(content.rstrip(_BLANKS)) - len(value)
        return Line(number, octets, kind, content, field, value, value_at, bool(colon))

    def _kind(self, number: int, line: bytes, field: bytes, mark: bytes) -> Kind:
        known = self._kinds.get(number)
        if known is not None:
            return known
        if len(field) > _MAX_FIELD_OCTETS or len(line) > MAX_LINE_BYTES:
            return Kind.NOTHING
        example = field.lower() + mark + b" /x"
        kind = self._asked.get(example)
        if kind is None:
            kind = _ask(example) if len(self._asked) < _MAX_FIELDS_ASKED else Kind.NOTHING
            self._asked[example] = kind
        return kind


def _ask(example: bytes) -> Kind:
    """What the parser takes a line for that stands in a group."""
    robots = RobotsTxt.parse(b"User-agent: a\n" + example)
    if robots.sitemaps:
        return Kind.SITEMAP
    rules = robots.groups[0].rules
    if rules:
        return Kind[rules[0].kind.name]
    return Kind.USER_AGENT if len(robots.groups[0].agents) > 1 else Kind.NOTHING
