"""robots.txt, from bytes to groups (RFC 9309 §2.2).

`parse` takes whatever a server sent: it never raises, and its time and memory are linear in the file. It knows
nothing of matching: a rule leaves it as it was written.

Only Allow and Disallow lines end a run of User-agent lines. Crawl-delay, Request-rate and Visit-time do not
(RFC 9309 §2.2.4), yet each is asked only of the User-agent lines directly above it: in ::

    User-agent: one
    Crawl-delay: 1
    User-agent: two
    Crawl-delay: 2
    Disallow: /private

both agents keep out of /private, the first is asked for one second, the second for two.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from robotgate._verdict import Rule, RuleKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

EVERYBODY: Final = "*"
"""The User-agent value of the rules for all whom no group names."""
MAX_BYTES: Final = 512_000
"""How much of a file is read; the least that RFC 9309 §2.5 permits. A line that the limit cuts is not read."""
MAX_LINE_BYTES: Final = 16 * 1024
"""A longer line, its comment not counted, is dropped: cut short, an Allow would allow too much."""

_BOM: Final = b"\xef\xbb\xbf"
_BLANKS: Final = b" \t"
_UNDECODABLE: Final = re.compile("[\udc80-\udcff]")
_TOKEN_CHARACTERS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")

_MAX_NUMBER_LENGTH: Final = 64
_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_WINDOW: Final = re.compile(r"(?<![0-9])([0-9]{2})([0-9]{2}) ?- ?([0-9]{2})([0-9]{2})(?![0-9])")
_RATE: Final = re.compile(r"([0-9]{1,9}) ?/ ?([0-9]{1,9})(?![0-9]) ?([smhdSMHD]?)")
_UNIT_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True)
class Record:
    """A line that is neither of User-agent, Allow, Disallow or Sitemap (RFC 9309 §2.2.4), as it was written."""

    field: str
    """The name before the colon. Names are the same in upper and lower case."""
    value: str
    line: int
    """The line's number in the file, from 1."""


@dataclass(frozen=True, slots=True)
class VisitTime:
    """A Visit-time: when, each day, visits are welcome."""

    start_minute: int
    """Minutes after midnight UTC, 0 to 1440."""
    end_minute: int
    """The last minute, included; before `start_minute` where the hours run past midnight."""


@dataclass(frozen=True, slots=True)
class RequestRate:
    """A Request-rate: at most so many documents in so many seconds."""

    documents: int
    """At least 1."""
    seconds: int
    """At least 1."""
    start_minute: int | None = None
    """Minutes after midnight UTC from which the rate holds; None for a rate that always holds."""
    end_minute: int | None = None
    """The last minute, included; before `start_minute` where the hours run past midnight."""

    @property
    def seconds_per_document(self) -> float:
        """The delay that keeps to the rate: seconds."""
        return self.seconds / self.documents


@dataclass(frozen=True, slots=True)
class Pace:
    """What some User-agent lines of one group are asked about their speed."""

    agents: tuple[str, ...]
    """The values of these User-agent lines, as written."""
    crawl_delay: float | None = None
    """The largest Crawl-delay that could be read: seconds."""
    request_rates: tuple[RequestRate, ...] = ()
    visit_times: tuple[VisitTime, ...] = ()

    def names(self, token: str) -> bool:
        """As `Group.names`, for these lines."""
        return _any_names(self.agents, token)


@dataclass(frozen=True, slots=True)
class Group:
    """A run of User-agent lines and the rules below it (RFC 9309 §2.1)."""

    agents: tuple[str, ...]
    """The values of the User-agent lines, as written, without the empty ones: those name nobody."""
    rules: tuple[Rule, ...] = ()
    """The Allow and Disallow lines in their order, those that can never match included."""
    paces: tuple[Pace, ...] = ()
    """Crawl-delay and the like; several where they stand between the User-agent lines."""
    line: int = 0
    """The number of the first User-agent line, from 1."""

    @property
    def crawl_delay(self) -> float | None:
        """The largest Crawl-delay that any agent of the group is asked for: seconds."""
        return max((pace.crawl_delay for pace in self.paces if pace.crawl_delay is not None), default=None)

    def names(self, token: str) -> bool:
        """Whether a User-agent line names this product token, given in lower case, or ``*`` (RFC 9309 §2.2.1).

        A line names ``foobot`` if it says so in any mix of cases, alone or before something that cannot
        continue a token: ``FooBot``, ``foobot/2.1``, ``foobot*``. It never names a part of a token.
        """
        return _any_names(self.agents, token)


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """All that was read of one robots.txt."""

    groups: tuple[Group, ...] = ()
    sitemaps: tuple[str, ...] = ()
    """The values of the Sitemap lines, each once. They belong to no group."""
    records: tuple[Record, ...] = ()


def parse(body: bytes) -> ParsedFile:
    """Read a robots.txt. Lines that make no sense are passed over (RFC 9309 §2.3.1.5); it never raises."""
    reader = _Reader()
    for number, line in enumerate(_lines(body), 1):
        if line:
            reader.read_line(line, number)
    return reader.finish()


def _any_names(agents: Iterable[str], token: str) -> bool:
    return any(_names(agent, token) for agent in agents)


def _names(agent: str, token: str) -> bool:
    if token == EVERYBODY:
        return agent == EVERYBODY or agent.startswith(("* ", "*\t"))
    length = len(token)
    start = agent[:length]
    # Not lower() alone: it makes a "k" of the Kelvin sign.
    if not length or not start.isascii() or start.lower() != token:
        return False
    return len(agent) == length or agent[length] not in _TOKEN_CHARACTERS


def _lines(body: bytes) -> Sequence[bytes]:
    # One octet more than the limit tells a line that ends just there from one that is cut.
    window = body[: MAX_BYTES + 1]
    if len(window) > MAX_BYTES:
        window = window[: max(window.rfind(b"\n"), window.rfind(b"\r"), 0)]
    marks = 0
    while marks < len(_BOM) and window[marks : marks + 1] == _BOM[marks : marks + 1]:
        marks += 1
    # Of bytes, unlike of str, this splits at CR, LF and CRLF only.
    return window[marks:].splitlines()


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        escaped = value.decode("utf-8", "surrogateescape")
        return _UNDECODABLE.sub(lambda match: f"%{ord(match[0]) - 0xDC00:02X}", escaped)


class _Field(Enum):
    USER_AGENT = auto()
    ALLOW = auto()
    DISALLOW = auto()
    SITEMAP = auto()
    CRAWL_DELAY = auto()
    REQUEST_RATE = auto()
    VISIT_TIME = auto()


_DEFINED_FIELDS: Final = {
    b"user-agent": _Field.USER_AGENT,
    b"useragent": _Field.USER_AGENT,
    b"user agent": _Field.USER_AGENT,
    b"allow": _Field.ALLOW,
    b"disallow": _Field.DISALLOW,
    b"dissallow": _Field.DISALLOW,
    b"dissalow": _Field.DISALLOW,
    b"disalow": _Field.DISALLOW,
    b"diasllow": _Field.DISALLOW,
    b"disallaw": _Field.DISALLOW,
}
"""The names RFC 9309 §2.2 defines, with the misspellings that the largest crawler has long obeyed."""

_FIELDS: Final = _DEFINED_FIELDS | {
    b"sitemap": _Field.SITEMAP,
    b"site-map": _Field.SITEMAP,
    b"site map": _Field.SITEMAP,
    b"crawl-delay": _Field.CRAWL_DELAY,
    b"request-rate": _Field.REQUEST_RATE,
    b"visit-time": _Field.VISIT_TIME,
}


class _Reader:
    """The state between two lines: the open group, and which of its User-agent lines a Crawl-delay would mean."""

    __slots__ = ("_agents", "_groups", "_line", "_open", "_pace", "_paces", "_records", "_rules", "_sitemaps")

    def __init__(self) -> None:
        self._groups: list[Group] = []
        self._sitemaps: dict[str, None] = {}
        self._records: list[Record] = []
        self._open = False
        self._begin_group(0)

    def read_line(self, line: bytes, number: int) -> None:
        content = line.partition(b"#")[0].partition(b"\0")[0]
        if len(content) > MAX_LINE_BYTES:
            return
        name, colon, value = content.partition(b":")
        if colon:
            name = name.strip(_BLANKS)
            self._read_record(_FIELDS.get(name.lower()), name, value.strip(_BLANKS), number)
            return
        words = content.split()
        if len(words) == 2 and words[0].lower() in _DEFINED_FIELDS:
            self._read_record(_DEFINED_FIELDS[words[0].lower()], words[0], words[1], number)

    def finish(self) -> ParsedFile:
        self._end_group()
        return ParsedFile(tuple(self._groups), tuple(self._sitemaps), tuple(self._records))

    def _read_record(self, field: _Field | None, name: bytes, value: bytes, number: int) -> None:
        text = _text(value)
        if field is _Field.ALLOW or field is _Field.DISALLOW:
            if self._open:
                kind = RuleKind.ALLOW if field is _Field.ALLOW else RuleKind.DISALLOW
                self._rules.append(Rule(kind, text, number))
        elif field is _Field.USER_AGENT:
            self._add_agent(text, number)
        elif field is _Field.SITEMAP:
            if text:
                self._sitemaps[text] = None
        elif name:
            self._records.append(Record(_text(name), text, number))
            if field is not None and self._open:
                self._pace.add(field, text)

    def _add_agent(self, value: str, number: int) -> None:
        if not self._open or self._rules:
            self._end_group()
            self._begin_group(number)
            self._open = True
        elif self._pace.asked:
            self._end_pace()
        if value:
            self._agents.append(value)
            self._pace.agents.append(value)

    def _begin_group(self, number: int) -> None:
        self._line = number
        self._agents: list[str] = []
        self._rules: list[Rule] = []
        self._paces: list[Pace] = []
        self._pace = _PaceReader()

    def _end_group(self) -> None:
        if self._open:
            self._end_pace()
            rules = tuple(self._rules)
            self._groups.append(Group(tuple(self._agents), rules, tuple(self._paces), self._line))

    def _end_pace(self) -> None:
        if self._pace.asked and self._pace.agents:
            self._paces.append(self._pace.finish())
        self._pace = _PaceReader()


class _PaceReader:
    """Collects what one run of User-agent lines is asked about its speed."""

    __slots__ = ("_crawl_delay", "_request_rates", "_visit_times", "agents", "asked")

    def __init__(self) -> None:
        self.agents: list[str] = []
        self.asked = False
        self._crawl_delay: float | None = None
        self._request_rates: dict[RequestRate, None] = {}
        self._visit_times: dict[VisitTime, None] = {}

    def add(self, field: _Field, value: str) -> None:
        self.asked = True
        if field is _Field.CRAWL_DELAY:
            delay = _read_delay(value)
            if delay is not None and (self._crawl_delay is None or delay > self._crawl_delay):
                self._crawl_delay = delay
        elif field is _Field.REQUEST_RATE:
            rate = _read_rate(value)
            if rate is not None:
                self._request_rates[rate] = None
        else:
            window = _read_window(value)
            if window is not None:
                self._visit_times[VisitTime(*window)] = None

    def finish(self) -> Pace:
        return Pace(
            tuple(self.agents), self._crawl_delay, tuple(self._request_rates), tuple(self._visit_times)
        )


def _read_delay(value: str) -> float | None:
    match = _NUMBER.match(value[:_MAX_NUMBER_LENGTH])
    return float(match[0]) if match else None


def _read_rate(value: str) -> RequestRate | None:
    match = _RATE.match(value)
    if match is None:
        return None
    documents, seconds = int(match[1]), int(match[2]) * _UNIT_SECONDS[match[3].lower()]
    if not documents or not seconds:
        return None
    # A window that makes no sense leaves a rate that always holds: the slower reading.
    window = _read_window(value, match.end())
    return RequestRate(documents, seconds, *window) if window else RequestRate(documents, seconds)


def _read_window(value: str, position: int = 0) -> tuple[int, int] | None:
    match = _WINDOW.search(value, position)
    if match is None:
        return None
    start_hour, start_minute, end_hour, end_minute = map(int, match.groups())
    start, end = start_hour * 60 + start_minute, end_hour * 60 + end_minute
    if start_minute > 59 or end_minute > 59 or max(start, end) > 24 * 60:
        return None
    return start, end
