"""robots.txt, from bytes to groups (RFC 9309 §2.2): the whole of a file, for whoever wants to see it.

`parse` takes whatever a server sent: it never raises, and its time and memory are linear in the file. It knows
nothing of matching: a rule leaves it as it was written. `_compile` reads the same lines for one product token.

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

from dataclasses import dataclass

from robotgate._lines import LINE, Field, canonical, field_of, text_of
from robotgate._pace import Pace, PaceReader, names
from robotgate._verdict import Rule, RuleKind


@dataclass(frozen=True, slots=True)
class Record:
    """A line that is neither of User-agent, Allow, Disallow or Sitemap (RFC 9309 §2.2.4), as it was written."""

    field: str
    """The name before the colon. Names are the same in upper and lower case."""
    value: str
    line: int
    """The line's number in the file, from 1."""
    group: int | None = None
    """The index, from 0, of the group that the line stands in; None above the first."""


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
        return any(names(agent, token) for agent in self.agents)


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """All that was read of one robots.txt."""

    groups: tuple[Group, ...] = ()
    sitemaps: tuple[str, ...] = ()
    """The values of the Sitemap lines, each once. They belong to no group."""
    records: tuple[Record, ...] = ()


def parse(body: bytes) -> ParsedFile:
    """Read a robots.txt. Lines that make no sense are passed over (RFC 9309 §2.3.1.5); it never raises."""
    return parse_text(canonical(body))


def parse_text(text: str) -> ParsedFile:
    """As `parse`, for a file in the canonical form."""
    reader = _Reader()
    number, counted = 0, 0
    for match in LINE.finditer(text):
        number += text.count("\n", counted, match.start() + 1)
        counted = match.start() + 1
        name, value, first_word, last_word = match.groups()
        if name is not None:
            reader.read_record(field_of(name.rstrip(" \t"), colon=True), name, value, number)
        else:
            field = field_of(first_word, colon=False)
            if field is not None:
                reader.read_record(field, first_word, last_word, number)
    return reader.finish()


class _Reader:
    """The state between two lines: the open group, and which of its User-agent lines a Crawl-delay would mean."""

    __slots__ = ("_agents", "_groups", "_line", "_open", "_pace", "_paces", "_records", "_rules", "_sitemaps")

    def __init__(self) -> None:
        self._groups: list[Group] = []
        self._sitemaps: dict[str, None] = {}
        self._records: list[Record] = []
        self._open = False
        self._begin_group(0)

    def finish(self) -> ParsedFile:
        self._end_group()
        return ParsedFile(tuple(self._groups), tuple(self._sitemaps), tuple(self._records))

    def read_record(self, field: Field | None, name: str, value: str, number: int) -> None:
        text = text_of(value)
        if field is Field.ALLOW or field is Field.DISALLOW:
            if self._open:
                kind = RuleKind.ALLOW if field is Field.ALLOW else RuleKind.DISALLOW
                self._rules.append(Rule(kind, text, number))
        elif field is Field.USER_AGENT:
            self._add_agent(text, number)
        elif field is Field.SITEMAP:
            if text:
                self._sitemaps[text] = None
        elif name:
            group = len(self._groups) if self._open else None
            self._records.append(Record(text_of(name), text, number, group))
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
        self._pace = PaceReader()

    def _end_group(self) -> None:
        if self._open:
            self._end_pace()
            rules = tuple(self._rules)
            self._groups.append(Group(tuple(self._agents), rules, tuple(self._paces), self._line))

    def _end_pace(self) -> None:
        if self._pace.asked and self._pace.agents:
            self._paces.append(self._pace.finish())
        self._pace = PaceReader()
