"""The grammar of robots.txt lines (RFC 9309 §2.2), and the values that ask for a crawl speed.

`canonical` brings a file into one form, in which every line begins with a line feed; that keeps the expressions below
short. `parser` reads whole files with `LINE`, and the part that binds one product token with the other expressions. A
property test holds both ways to the same answers.

Crawl-delay, Request-rate and Visit-time are not part of RFC 9309.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from robotgate.rules.decode import ENCODED, decoded


class RuleKind(Enum):
    """What a rule does to the paths it matches (RFC 9309 §2.2.2)."""

    ALLOW = "Allow"
    DISALLOW = "Disallow"


@dataclass(frozen=True, slots=True)
class VisitTime:
    """A Visit-time: the hours of each day in which visits are welcome."""

    start_minute: int
    """Minutes after midnight UTC, 0 to 1440."""
    end_minute: int
    """The last minute, inclusive; less than `start_minute` if the hours run past midnight."""


@dataclass(frozen=True, slots=True)
class RequestRate:
    """A Request-rate: at most this many documents in this many seconds."""

    documents: int
    """At least 1."""
    seconds: float
    """More than 0."""
    start_minute: int | None = None
    """Minutes after midnight UTC from which the rate applies; None if it always applies."""
    end_minute: int | None = None
    """The last minute, inclusive; less than `start_minute` if the hours run past midnight."""

    @property
    def seconds_per_document(self) -> float:
        """The delay between documents that keeps to the rate: seconds."""
        return self.seconds / self.documents


MAX_BYTES: Final = 512_000
"""How much of a file is read: the minimum that RFC 9309 §2.5 permits. A line that the limit cuts is not read."""
MAX_LINE_BYTES: Final = 16 * 1024
"""A longer line loses its value; its comment and the blanks at its end do not count. A truncated Allow would allow too
much."""

DROPPED: Final = "\0"
"""In a canonical file, the value of a line that is too long."""

_BLANKS: Final = " \t"
_UNDECODABLE: Final = re.compile("[\udc80-\udcff]")
_WORD: Final = re.compile(r"[^ \t\n]+")
_LONE_CR: Final = re.compile(rb"\r(?!\n)")
_MARK_BEGIN: Final = BOM_UTF8[:1]
_LATER_MARKS: Final = re.compile("([\r\n])(?:\xef\xbb\xbf)++")
_FIRST_MARKS: Final = re.compile(rb"(?:%b)++|\xef\xbb?" % BOM_UTF8)
"""Byte order marks where the file begins; the first may be incomplete."""
_BLOCK: Final = MAX_LINE_BYTES // 2
_LONG_LINE: Final = re.compile(rf"\n([^\n]{{{MAX_LINE_BYTES + 1},}}+)")


class Field(Enum):
    """The meaning of a field name."""

    USER_AGENT = auto()
    ALLOW = auto()
    DISALLOW = auto()
    SITEMAP = auto()
    CRAWL_DELAY = auto()
    REQUEST_RATE = auto()
    VISIT_TIME = auto()


DEFINED_FIELDS: Final = {
    **dict.fromkeys(("user-agent", "useragent", "user agent"), Field.USER_AGENT),
    "allow": Field.ALLOW,
    **dict.fromkeys(("disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw"), Field.DISALLOW),
}
"""The names that RFC 9309 §2.2 defines, with the misspellings that Google's parser accepts. The colon after them may be
missing if the line consists of two words."""

PACE_FIELDS: Final = {
    "crawl-delay": Field.CRAWL_DELAY,
    "request-rate": Field.REQUEST_RATE,
    "visit-time": Field.VISIT_TIME,
}
_SITEMAP_FIELDS: Final = dict.fromkeys(("sitemap", "site-map", "site map"), Field.SITEMAP)
FIELDS: Final = DEFINED_FIELDS | PACE_FIELDS | _SITEMAP_FIELDS
"""All field names with a meaning, in lower case."""


def product_token(agent: str) -> str:
    """The crawler's own name: the text of its identification string before the first ``/`` or blank."""
    return (agent.partition("/")[0].split() or [""])[0]


def canonical(body: bytes) -> str:
    r"""The canonical form of a file: one character per byte, ``\n`` before and after each line.

    ``\n`` replaces CR and CRLF. ``#`` replaces NUL, which ends a line like a comment. A line that is too long keeps its
    field, and its value is `DROPPED`. Bytes beyond `MAX_BYTES` are cut off. Lines keep their numbers.
    """
    window = readable(body)
    if b"\r" in window:
        # The usual is CRLF alone; then to take the CRs out is twice as fast.
        has_lone = _LONE_CR.search(window) is not None
        window = (
            window.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if has_lone else window.replace(b"\r", b"")
        )
    text = f"\n{window.decode('latin-1')}\n".replace("\0", "#")
    # A line that is too long fills one of these blocks. To look for them is several times faster than the expression.
    for begin in range(0, len(text) - _BLOCK, _BLOCK):
        if text.find("\n", begin, begin + _BLOCK) < 0:
            return _LONG_LINE.sub(_shortened, text)
    return text


def readable(body: bytes, *, has_marks: bool = False) -> bytes:
    """The part of a file that is read, in UTF-8: the whole lines within `MAX_BYTES`, without byte order marks.

    A mark is passed over where any line begins: files with marks may have been joined.

    Args:
        has_marks: leave the byte order marks in their places.
    """
    if body.startswith(ENCODED):
        body, _ = decoded(body, MAX_BYTES)
    text = body[:MAX_BYTES]
    # The byte after the limit shows whether the last line ends at the limit or is cut by it.
    if body[MAX_BYTES : MAX_BYTES + 1] not in (b"", b"\n", b"\r"):
        text = text[: max(text.rfind(b"\n"), text.rfind(b"\r"), 0)]
    # One byte is found much faster than three.
    if has_marks or _MARK_BEGIN not in text:
        return text
    if text.startswith(_MARK_BEGIN):
        text = _FIRST_MARKS.sub(b"", text, count=1)
    if BOM_UTF8 in text:
        # As text: of many short parts, bytes take ten times the memory to be joined.
        text = _LATER_MARKS.sub(r"\1", text.decode("latin-1")).encode("latin-1")
    return text


def _shortened(line: re.Match[str]) -> str:
    """A long line; if it is too long without its comment, without its value, so that its field keeps its role."""
    content = line[1].partition("#")[0].rstrip(_BLANKS)
    if len(content) <= MAX_LINE_BYTES:
        return line[0]
    name, colon, _ = content.partition(":")
    if not colon:
        words = _WORD.findall(name)
        name = words[0] if len(words) == 2 else ""
    name = name.strip(_BLANKS)
    return f"\n{name}:{DROPPED}" if field_of(name, colon=bool(colon)) is not None else "\n#"


def text_of(value: str) -> str:
    """A value of a canonical file as text, without surrounding blanks; bytes that are not UTF-8 become ``%XX``."""
    value = value.strip(_BLANKS)
    if value.isascii():
        return value
    text = value.encode("latin-1").decode("utf-8", "surrogateescape")
    return _UNDECODABLE.sub(lambda match: f"%{ord(match[0]) - 0xDC00:02X}", text)


def field_of(name: str, *, colon: bool) -> Field | None:
    """The meaning of a field name. Without a colon after it, only names of the standard have one."""
    return (FIELDS if colon else DEFINED_FIELDS).get(name.lower())


def _named(*fields: Field) -> str:
    """An expression for field names in any case, followed by the colon or blanks that separate them from a value."""
    names = [name for name, field in FIELDS.items() if field in fields]
    one_word = [name for name in names if name in DEFINED_FIELDS and " " not in name]
    others = [name for name in names if name not in one_word]
    # Nearly all lines are spelt like this, and a literal is found faster.
    forms = [f"{name.capitalize()}:[ \t]*+" for name in names[:1]]
    forms += [f"(?:{'|'.join(map(_any_case, one_word))})(?:{_COLON}|{_BEFORE_LAST_WORD})"] if one_word else []
    forms += [f"(?:{'|'.join(map(_any_case, others))}){_COLON}"] if others else []
    return f"(?:{'|'.join(forms)})"


def _any_case(name: str) -> str:
    return "".join(f"[{letter.upper()}{letter}]" if letter.isalpha() else letter for letter in name)


_COLON: Final = r"[ \t]*+:[ \t]*+"
_BEFORE_LAST_WORD: Final = r"[ \t]++(?=[^ \t\n#:]++[ \t]*+[\n#])"
_BEGIN: Final = r"\n[ \t]*+"
_VALUE: Final = r"([^\n#]*+)"

_NAMED_OR_TWO_WORDS: Final = (
    rf"(?:([^\n#:]*+):[ \t]*+{_VALUE}|([^ \t\n#]++)[ \t]++([^ \t\n#]++)[ \t]*+(?=[\n#]))"
)
LINE: Final = re.compile(_BEGIN + _NAMED_OR_TWO_WORDS)
"""A line with content. Groups: name and value; or the first and last word of a line of two words without a colon."""
AGENT_OR_PACE_LINE: Final = re.compile(rf"{_BEGIN}(?=[UuCcRrVv]){_NAMED_OR_TWO_WORDS}")
"""The same of all lines that may say whose group it is and how fast it may be read, and of some others."""
HEAD_LINE: Final = re.compile(
    rf"{_BEGIN}(?=[UuCcRrVv])(?:{_named(Field.USER_AGENT)}{_VALUE}|{_named(*PACE_FIELDS.values())})"
)
"""A User-agent line, or the beginning of one that asks for a speed. Group: the value of the User-agent line."""
RULE_LINE: Final = re.compile(rf"{_BEGIN}{_named(Field.ALLOW, Field.DISALLOW)}")
"""The beginning of an Allow or Disallow line."""
RULES: Final = {kind: re.compile(rf"{_BEGIN}{_named(Field[kind.name])}(.*)") for kind in RuleKind}
"""Rules of one kind. Group: the value, with blanks and a comment after it. Taking them off afterwards is faster."""
AFTER_VALUE: Final = tuple(
    map(re.compile, ("#.*", r" (?<![ \t] )[ \t]*+(?![^\n])", r"\t(?<![ \t]\t)[ \t]*+(?![^\n])"))
)
"""A comment, and the blanks at the end of a line. What begins with a literal is found faster. Of many blanks in a row
only the first is looked at: a line full of them would take quadratic time."""


_UNITS: Final = {
    **dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3_600.0),
    **dict.fromkeys(("d", "day", "days"), 86_400.0),
    **dict.fromkeys(("w", "week", "weeks"), 604_800.0),
    **dict.fromkeys(("month", "months"), 2_592_000.0),
}
"""Seconds."""
MAX_DELAY: Final = 1e64
"""Seconds. A longer Crawl-delay counts as this one; a Request-rate with a longer time is not read."""
_MAX_VALUE: Final = 200
"""Characters of a value that are read."""
_PLAIN_SECONDS: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_UNIT: Final = rf"(?P<unit>{'|'.join(sorted(_UNITS, reverse=True))})(?![a-z])"
_DURATION: Final = re.compile(
    # What joins it to the one before; digits in groups of three, or a number with a decimal mark; its unit.
    r"[ \t]*(?:[-\u2013,;:/]|to|or|and|per|every)?[ \t]*"
    r"(?:(?P<grouped>[1-9][0-9]{0,2}(?:[ ,'_\xa0\u202f][0-9]{3})+(?![0-9])(?:\.[0-9]+)?)"
    r"|(?P<number>(?:[0-9]+(?:[.,][0-9]*)?|[.,][0-9]+)(?:e\+?[0-9]+)?))"
    rf"(?:[ \t.(\[_-]*{_UNIT})?",
    re.ASCII | re.IGNORECASE,
)
_CLOCK: Final = re.compile(r"[0-9]{1,3}(?::[0-5][0-9]){1,2}(?![0-9:])", re.ASCII)
_RATE: Final = re.compile(
    r"(?P<documents>[0-9]{1,9}(?:[.,][0-9]{1,9})?|[.,][0-9]{1,9})[ \t]*(?:[a-z]+[ \t]*)?"
    rf"(?:/|\b(?:per|every|in)\b)[ \t]*(?:{_UNIT}|(?P<time>[0-9.,][^ \t]*(?:[ \t]+[a-z]+)?))",
    re.ASCII | re.IGNORECASE,
)
_TIME_OF_DAY: Final = r"([0-9]{2}|[0-9](?=:)):?([0-9]{2})"
_WINDOW: Final = re.compile(
    rf"(?<![0-9:]){_TIME_OF_DAY}(?:[ \t]*[-\u2013][ \t]*|[ \t]+(?:to[ \t]+)?){_TIME_OF_DAY}(?![0-9:])"
)

EVERYBODY: Final = "*"
"""The User-agent value of the group for crawlers that no group names."""
_TOKEN_CHARACTERS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")


def names(agent: str, token: str) -> bool:
    """Whether a User-agent value names this product token, given in lower case, or ``*`` (RFC 9309 §2.2.1)."""
    if token == EVERYBODY:
        return agent == EVERYBODY or agent.startswith(("* ", "*\t"))
    length = len(token)
    start = agent[:length]
    # Not lower() alone: it makes a "k" of the Kelvin sign.
    if not length or not start.isascii() or start.lower() != token:
        return False
    return len(agent) == length or agent[length] not in _TOKEN_CHARACTERS


def read_delay(value: str) -> float | None:
    """A Crawl-delay: seconds; None if it cannot be read.

    Where a value can mean several delays, such as ``5-10``, ``1,000`` or ``1/5s``, the longest counts.
    """
    if _PLAIN_SECONDS.fullmatch(value):
        return float(value)
    value = value[:_MAX_VALUE].lstrip("\"'+~=<>( ")
    longest, rate = _longest_duration(value), read_rate(value)
    return longest if rate is None else max(longest or 0.0, rate.seconds_per_document)


def _longest_duration(value: str) -> float | None:
    """The longest of the durations in a row at the beginning of a value: seconds; ``1 min 30 s`` is one of them, and
    so is ``1:30``.

    A comma before three digits may group them or be a decimal mark; a point is a decimal mark.
    """
    if value.startswith("-"):
        return None
    longest: float | None = None
    if clock := _CLOCK.match(value):
        longest = 0.0
        for part in clock[0].split(":"):
            longest = 60.0 * longest + int(part)
    total = unit = 0.0
    position = 0
    while match := _DURATION.match(value, position):
        position = match.end()
        before, unit = unit, _UNITS[match["unit"].lower()] if match["unit"] else 0.0
        number = (
            re.sub("[^0-9.]", "", match["grouped"]) if match["grouped"] else match["number"].replace(",", ".")
        )
        total = float(number) * (unit or 1.0) + (total if before > (unit or 1.0) else 0.0)
        longest = max(longest or 0.0, min(total, MAX_DELAY))
    return longest


def read_rate(value: str) -> RequestRate | None:
    """A Request-rate; None if it cannot be read."""
    match = _RATE.match(value[:_MAX_VALUE])
    if match is None:
        return None
    time = match["time"]
    # A comma is a decimal mark here: fewer documents are slower.
    documents = float(match["documents"].replace(",", "."))
    seconds = _UNITS[match["unit"].lower()] if time is None else _longest_duration(time)
    if not documents or not seconds or seconds >= MAX_DELAY:
        return None
    if not documents.is_integer():
        documents, seconds = 1.0, min(seconds / documents, MAX_DELAY)
    # Hours that cannot be read leave a rate that always applies: the slower reading.
    hours = read_visit_time(value, match.end())
    return RequestRate(
        int(documents),
        int(seconds) if seconds.is_integer() else seconds,
        *((hours.start_minute, hours.end_minute) if hours else ()),
    )


def read_visit_time(value: str, position: int = 0) -> VisitTime | None:
    """A Visit-time; None if it cannot be read."""
    match = _WINDOW.search(value, position)
    if match is None:
        return None
    start_hour, start_minute, end_hour, end_minute = map(int, match.groups())
    start, end = start_hour * 60 + start_minute, end_hour * 60 + end_minute
    if start_minute > 59 or end_minute > 59 or max(start, end) > 24 * 60:
        return None
    return VisitTime(start, end)
