"""From bytes to groups (RFC 9309 §2.2), and from bytes to the rules that bind one product token.

`parse_text` reads a whole file. It never raises, and its time and memory are linear in the size of the file. It does
not know matching: a rule stays as written. `compile_rules` finds the User-agent lines first and skips everything that
does not bind the token; where the rules stand is noted, and `Rules` reads them when the first question comes.

Only Allow and Disallow lines end a run of User-agent lines; Crawl-delay, Request-rate and Visit-time do not (RFC 9309
§2.2.4), but each applies only to the User-agent lines directly above it. In ::

    User-agent: one
    Crawl-delay: 1
    User-agent: two
    Crawl-delay: 2
    Disallow: /private

both agents may not fetch /private; the first is asked for a delay of one second, the second for two. What stands above
the first User-agent line is asked of everybody, beside what a group asks: Crawl-delay and Request-rate count where they
are slower, Visit-time where the group has none.

`parse_classic` and `compile_classic` do the same as in the 1990s, by the Standard for Robot Exclusion of 1994 and
Perl's `WWW::RobotRules`. A file is a list of records, separated by blank lines. The first record that names the robot
binds it, and no other; if none names it, all records for ``*`` bind it. The Disallow values of a record are compared in
order: the first that the path and query begin with refuses, an empty one allows. There is no Allow, wildcard,
Crawl-delay or Sitemap. Where the two differ, this follows the text of 1994: ``//a`` is the beginning of a path, not a
host.

These things are as in RFC 9309. Escapes are compared in the normal form; a value that ends within an escape is the
beginning of all escapes that it begins. Dot segments are resolved in URLs and not in values, so that ``/a/../b``
matches nothing. A value without a slash counts from the root: ``.`` is ``/.``. Only blanks and tabs make a blank line,
a vertical tab does not. A byte order mark is ignored, and robots.txt itself may always be fetched.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import takewhile
from typing import TYPE_CHECKING, Final, TypeAlias

from robotgate.rules.grammar import (
    AGENT_OR_PACE_LINE,
    DROPPED,
    EVERYBODY,
    HEAD_LINE,
    LINE,
    RULE_LINE,
    Field,
    RuleKind,
    canonical,
    field_of,
    names,
    read_delay,
    read_rate,
    read_visit_time,
    text_of,
)
from robotgate.rules.match import matches
from robotgate.rules.normal import pattern_units, with_query_unescaped
from robotgate.rules.rules import ALLOW_ALL, FOR_EVERYBODY, Decision, Rules, WrittenRules
from robotgate.rules.verdict import Reason, Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from robotgate.rules.grammar import RequestRate, VisitTime
    from robotgate.urls import Origin


class Dialect(Enum):
    """A standard for reading robots.txt."""

    RFC9309 = "RFC 9309"
    """Today's standard."""
    CLASSIC = "1994"
    """The Standard for Robot Exclusion of 1994, as Perl's ``WWW::RobotRules`` reads it: records end at blank lines, a
    record applies to every robot whose name contains the User-agent value, rules are prefixes without wildcards, the
    first that matches decides, and there is no Allow and no Crawl-delay.

    Where Perl differs, these are as in RFC 9309: escapes are compared in one spelling; dot segments are resolved in
    URLs, not in values; a value without a slash is no relative URL, and counts from the root; a line with a vertical
    tab is not blank; a byte order mark is ignored; and robots.txt itself may always be fetched."""


MAX_RECORDS: Final = 100_000
"""More than any real file has, and less than 20 MB."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record that is not User-agent, Allow, Disallow or Sitemap (RFC 9309 §2.2.4), as written."""

    field: str
    """The field name, as written; upper and lower case mean the same."""
    value: str
    line: int
    """The line's number in the file, from 1."""
    group: int | None = None
    """The index, from 0, of the group that the line stands in; None above the first group."""
    agents_above: int = 0
    """How many of its group's `agents` stand above the line."""


@dataclass(frozen=True, slots=True)
class Pace:
    """What a group asks of some of its User-agent lines about their speed."""

    agents: tuple[str, ...]
    """The values of these User-agent lines, as written."""
    crawl_delay: float | None = None
    """The largest Crawl-delay that could be read: seconds."""
    request_rates: tuple[RequestRate, ...] = ()
    visit_times: tuple[VisitTime, ...] = ()
    first: Record | None = field(default=None, compare=False, repr=False)
    """The first record of these."""


@dataclass(frozen=True, slots=True)
class Group:
    """A run of User-agent lines and the rules below it (RFC 9309 §2.1)."""

    agents: tuple[str, ...]
    """The values of the User-agent lines, as written, without empty ones."""
    rules: tuple[Rule, ...] = ()
    """The Allow and Disallow lines in order, including those that can never match."""
    paces: tuple[Pace, ...] = ()
    """Crawl-delay and the like; several if some stand between the User-agent lines."""
    line: int = 0
    """The number of the first User-agent line, from 1."""

    @property
    def crawl_delay(self) -> float | None:
        """The largest Crawl-delay asked of any agent of the group: seconds."""
        return max((pace.crawl_delay for pace in self.paces if pace.crawl_delay is not None), default=None)

    def names(self, token: str) -> bool:
        """Whether a User-agent line names this product token, given in lower case, or ``*`` (RFC 9309 §2.2.1).

        A value names ``foobot`` if it begins with it in any case and the token ends there: ``FooBot``,
        ``foobot/2.1``, ``foobot*``, but not ``foobots``.
        """
        return any(names(agent, token) for agent in self.agents)


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """A whole robots.txt."""

    groups: tuple[Group, ...] = ()
    sitemaps: tuple[str, ...] = ()
    """The values of the Sitemap lines, without repetitions. They belong to no group."""
    records: tuple[Record, ...] = ()
    above: Pace | None = None
    """What is asked of everybody, above the first group."""


def parse_text(
    text: str, begin: int = 0, end: int = sys.maxsize, line: re.Pattern[str] = LINE, number: int = 0
) -> ParsedFile:
    """Read a file in the canonical form, or some lines of a part of it. They keep their numbers in the file.

    Lines that cannot be parsed are ignored (RFC 9309 §2.3.1.5).

    Args:
        text: the file.
        begin, end: the part.
        line: which lines.
        number: how many lines end before the part.
    """
    reader = _Reader()
    counted = begin
    for match in line.finditer(text, begin, end):
        number += text.count("\n", counted, match.start() + 1)
        counted = match.start() + 1
        name, value, first_word, last_word = match.groups()
        if name is not None:
            reader.read_record(field_of(name.rstrip(" \t"), colon=True), name, value, number)
        elif (field := field_of(first_word, colon=False)) is not None:
            reader.read_record(field, first_word, last_word, number)
    return reader.finish()


class _Reader:
    """The open group, and those of its User-agent lines that a Crawl-delay would apply to."""

    def __init__(self) -> None:
        self._groups: list[Group] = []
        self._above: Pace | None = None
        self._sitemaps: dict[str, None] = {}
        self._records: list[Record] = []
        self._texts: dict[str, str] = {}
        """One string for all records that have it."""
        self._line = 0
        """That of the first User-agent line of the open group; 0 above the first group."""
        self._asked: list[tuple[Field, Record]] = []
        """What is asked of the agents above that have no pace yet; above the first group, of everybody."""
        self._begin_group(0)

    def finish(self) -> ParsedFile:
        self._begin_group(0)
        sitemaps = tuple(filter(None, self._sitemaps))
        return ParsedFile(tuple(self._groups), sitemaps, tuple(self._records), self._above)

    def read_record(self, field: Field | None, name: str, value: str, number: int) -> None:
        text = "" if value == DROPPED else text_of(value)
        if field is Field.ALLOW or field is Field.DISALLOW:
            self._has_rules = True
            if self._line and value != DROPPED:
                self._rules.append(Rule(RuleKind[field.name], text, number))
        elif field is Field.USER_AGENT:
            if not self._line or self._has_rules:
                self._begin_group(number)
            elif self._asked:
                self._end_pace()
            if text:
                self._agents.append(text)
        elif field is Field.SITEMAP:
            self._sitemaps[text] = None
        elif name:
            self._read_other(field, text_of(name), text, number)

    def _read_other(self, field: Field | None, name: str, text: str, number: int) -> None:
        group = len(self._groups) if self._line else None
        name, text = self._texts.setdefault(name, name), self._texts.setdefault(text, text)
        record = Record(name, text, number, group, len(self._agents))
        if len(self._records) < MAX_RECORDS:
            self._records.append(record)
        if field is not None:
            self._asked.append((field, record))

    def _begin_group(self, number: int) -> None:
        """End the open group, and begin the one of a User-agent line."""
        if self._line:
            self._end_pace()
            rules = tuple(self._rules)
            self._groups.append(Group(tuple(self._agents), rules, tuple(self._paces), self._line))
        elif self._asked:
            self._above = _pace((EVERYBODY,), self._asked)
        self._line = number
        self._agents: list[str] = []
        self._rules: list[Rule] = []
        self._has_rules = False
        self._paces: list[Pace] = []
        self._paced = 0
        """How many of the agents have their pace."""
        self._asked = []

    def _end_pace(self) -> None:
        """Keep what the records ask of the User-agent lines above them."""
        agents = tuple(self._agents[self._paced :])
        if self._asked and agents:
            self._paces.append(_pace(agents, self._asked))
        self._paced = len(self._agents)
        self._asked = []


def _pace(agents: tuple[str, ...], asked: list[tuple[Field, Record]]) -> Pace:
    """What records ask of some agents; a value that cannot be read is ignored."""
    delays = [read_delay(record.value) for field, record in asked if field is Field.CRAWL_DELAY]
    rates = [read_rate(record.value) for field, record in asked if field is Field.REQUEST_RATE]
    times = [read_visit_time(record.value) for field, record in asked if field is Field.VISIT_TIME]
    delay = max([delay for delay in delays if delay is not None], default=None)
    slowed, hours = dict.fromkeys(filter(None, rates)), dict.fromkeys(filter(None, times))
    return Pace(agents, delay, tuple(slowed), tuple(hours), first=asked[0][1])


def compile_rules(file: bytes | str, token: str, origin: Origin | str | None = None) -> Rules:
    """The rules of a file that bind a token (RFC 9309 §2.2.1): of all groups that name it, else of those for ``*``.

    Args:
        file: the file as served, or its canonical form. The rules keep a reference to it.
        token: in lower case.
        origin: the origin of the file, or any URL of it; None if unknown.
    """
    text = canonical(file) if isinstance(file, bytes) else file
    heads = list(HEAD_LINE.finditer(text))
    lines = [head for head in heads if head[1] is not None]
    values = [line[1] for line in lines]
    pace_lines = [head.start() for head in heads if head[1] is None] if len(lines) < len(heads) else []
    above = _asked_of_everybody(text, pace_lines[0], lines) if pace_lines else None
    binding, naming = _naming(values, token)
    if not naming and above is None:
        return ALLOW_ALL
    parts: list[int] = []
    agents: list[str] = []
    paces: list[Pace] = []
    misread: dict[str, list[Record]] = {}
    last, number, counted = -1, 0, 0
    for index in naming:
        if index <= last:
            continue
        # The run of User-agent lines around the one that names the token.
        first, floor, last = index, last, index
        while first > floor + 1 and not _is_closed(text, lines, first - 1):
            first -= 1
        while last + 1 < len(lines) and not _is_closed(text, lines, last):
            last += 1
        # The text below the run includes the line feed before the next User-agent line.
        end = lines[last + 1].start() + 1 if last + 1 < len(lines) else len(text)
        parts += lines[last].end(), end
        if pace_lines and bisect(pace_lines, lines[first].start()) < bisect(pace_lines, end):
            begin = lines[first].start()
            number, counted = number + text.count("\n", counted, begin), begin
            group = parse_text(text, begin, end, AGENT_OR_PACE_LINE, number).groups[0]
            agents += group.agents
            paces += [pace for pace in group.paces if any(names(agent, binding) for agent in pace.agents)]
            for problem, record in _misread(group, binding):
                misread.setdefault(problem, []).append(record)
        else:
            agents += [text_of(value) for value in values[first : last + 1] if value != DROPPED]
    rules = WrittenRules(file, tuple(parts), text)
    # Most files name everybody: one tuple serves all of them.
    named = FOR_EVERYBODY if agents == [EVERYBODY] else filter(None, dict.fromkeys(agents))
    if not pace_lines:
        return Rules(rules, agents=named, origin=origin)
    hours = [time for pace in paces for time in pace.visit_times]
    if above is not None:
        paces.append(above)
        hours = hours or [*above.visit_times]
    return Rules(
        rules,
        agents=named,
        crawl_delay=max([pace.crawl_delay for pace in paces if pace.crawl_delay is not None], default=None),
        request_rates=dict.fromkeys([rate for pace in paces for rate in pace.request_rates]),
        visit_times=dict.fromkeys(hours),
        origin=origin,
        warnings=[_warning(problem, records) for problem, records in misread.items()],
    )


def _naming(values: list[str], token: str) -> tuple[str, list[int]]:
    """Which User-agent lines bind a token, and what they name: the token, else everybody."""
    every = "\n".join(values).lower()
    for binding in (token, EVERYBODY):
        # Few files name the token: one look tells.
        agents = enumerate(every.split("\n") if binding in every else ())
        naming = [at for at, agent in agents if agent.startswith(binding) and names(agent, binding)]
        if naming:
            return binding, naming
    return EVERYBODY, []


def _asked_of_everybody(text: str, first_pace_line: int, lines: list[re.Match[str]]) -> Pace | None:
    """What is asked above the first User-agent line."""
    end = lines[0].start() + 1 if lines else len(text)
    return parse_text(text, 0, end, AGENT_OR_PACE_LINE).above if first_pace_line < end else None


def _is_closed(text: str, lines: list[re.Match[str]], index: int) -> bool:
    """Whether a rule stands between a User-agent line and the next."""
    begin, end = lines[index].end(), lines[index + 1].start()
    return begin < end and RULE_LINE.search(text, begin, end + 1) is not None


_READ_AS_AN_END: Final = (
    "stands between our User-agent line and others: the rules below them bind us all the same (RFC 9309 §2.2.4),"
    " though some crawlers read it as the end of our group"
)
_ASKED_OF_OTHERS: Final = (
    "is asked of the User-agent lines above it only, not of us, though we are named in the same group"
    " (RFC 9309 §2.2.4)"
)


def _misread(group: Group, token: str) -> Iterator[tuple[str, Record]]:
    """What other crawlers read differently in a group that names a token: records between its User-agent lines."""
    naming = [index for index, agent in enumerate(group.agents) if names(agent, token)]
    above = 0
    for pace in group.paces:
        above += len(pace.agents)
        if pace.first is None or above == len(group.agents):
            return
        if naming[-1] < above:
            yield _READ_AS_AN_END, pace.first
            return
        if naming[0] >= above:
            yield _ASKED_OF_OTHERS, pace.first


def _warning(problem: str, records: list[Record]) -> str:
    """One sentence about all lines that have the same problem."""
    more = len(records) - 1
    others = f" (and {more} more line{'s' * (more > 1)})" if more else ""
    return f"line {records[0].line}, {records[0].field}{others}, {problem}"


_CLASSIC_FIELD: Final = re.compile(r"[ \t]*(?:(user-agent)|disallow)[ \t]*:([^#]*)", re.IGNORECASE)
_NOT_LITERAL: Final = re.compile(r"[*$]|%(?![0-9A-Fa-f]{2}|\Z)")
"""What means something else in today's rules. A percent sign at the end means the same: the beginning of any escape."""
_HALF_AN_ESCAPE: Final = re.compile(r"%[0-9A-Fa-f]\Z")


def parse_classic(text: str) -> ParsedFile:
    """Read the records of a file in the canonical form, as groups.

    Unlike elsewhere, an empty User-agent value is kept: every name contains it.
    """
    groups: list[Group] = []
    agents: list[str] = []
    rules: list[Rule] = []
    begin, seen_agent = 0, False
    # What follows the last line feed is empty, and ends the last record.
    for number, line in enumerate(text.split("\n")[1:], 1):
        field = _CLASSIC_FIELD.match(line)
        is_agent = field is not None and field[1] is not None
        # A line that is only a comment ends no record; a User-agent line does if the blank line above it is missing.
        if not line.strip(" \t") or (is_agent and rules):
            # Rules below a blank line without a User-agent line above them bind no robot.
            if agents:
                groups.append(Group(tuple(agents), tuple(rules), line=begin))
            agents, rules = [], []
        if field is None:
            continue
        if not agents:
            begin = number
        value = text_of(field[2])
        if is_agent:
            seen_agent = True
            agents.append(value)
        elif value != DROPPED:
            if not seen_agent and not agents:
                agents.append(EVERYBODY)
            rules.append(Rule(RuleKind.DISALLOW, value, number))
    return ParsedFile(tuple(groups))


def compile_classic(file: bytes | str, token: str, origin: Origin | str | None = None) -> Rules:
    """As `compile_rules`, by the standard of 1994: of the first record that names the token, else of all for ``*``."""
    text = canonical(file) if isinstance(file, bytes) else file
    for_everybody: list[Group] = []
    for group in parse_classic(text).groups:
        if any(agent != EVERYBODY and agent.isascii() and agent.lower() in token for agent in group.agents):
            return ClassicRules(group.rules, group.agents, origin)
        if EVERYBODY in group.agents:
            for_everybody.append(group)
    agents = dict.fromkeys(agent for group in for_everybody for agent in group.agents)
    return ClassicRules([rule for group in for_everybody for rule in group.rules], agents, origin)


RulesCompiler: TypeAlias = "Callable[[bytes, str, Origin], Rules]"
"""Makes rules of a file, a token in lower case and the origin."""
COMPILERS: Final[Mapping[Dialect, RulesCompiler]] = {
    Dialect.RFC9309: compile_rules,
    Dialect.CLASSIC: compile_classic,
}


class ClassicRules(Rules):
    """The Disallow lines that bind one product token, in their order, as rules of today that match the same paths."""

    __slots__ = ("_empty", "_written")

    def __init__(self, rules: Sequence[Rule], agents: Iterable[str], origin: Origin | str | None) -> None:
        """Take the rules up to the first empty one, which allows everything."""
        before = takewhile(lambda rule: rule.path_pattern, rules)
        self._empty = next((rule for rule in rules if not rule.path_pattern), None)
        pairs = [(rule, path) for rule in before for path in _paths_of_today(rule.path_pattern)]
        self._written = tuple(rule for rule, _ in pairs)
        """The rule that each of today's stands for."""
        super().__init__(
            [replace(rule, path_pattern=path) for rule, path in pairs], agents=agents, origin=origin
        )

    def _decide_units(self, target: str) -> Decision:
        """Like `Rules._decide_units`; the rule is the first that matches, and nothing opposes it."""
        decision = super()._decide_units(target)
        if not decision.allowed:
            disallow = self._disallow or self._read()
            target = with_query_unescaped(target)
            pairs = zip(self._written, disallow.patterns, strict=True)
            first = next((rule for rule, path in pairs if matches(path, target)), decision.rule)
            return replace(decision, rule=first)
        if self._empty is not None and decision.reason is Reason.NO_RULE_MATCHES:
            return replace(decision, reason=Reason.ALLOWED_BY_RULE, rule=self._empty)
        return decision


def _paths_of_today(value: str) -> list[str]:
    """The paths that together match what begins with a value: with its wildcards escaped, and a slash before them."""
    path = value if value[:8].lower().startswith(("/", "http://", "https://")) else f"/{value}"
    paths = [_literal(path)]
    half = _HALF_AN_ESCAPE.search(path)
    if half is not None:
        escapes = [f"{half[0]}{digit}" for digit in "0123456789ABCDEF"]
        # Others are no escapes in the normal form.
        paths += [_literal(path[:-2]) + escape for escape in escapes if not pattern_units(escape).isascii()]
    return paths


def _literal(path: str) -> str:
    return _NOT_LITERAL.sub(lambda match: f"%{ord(match[0]):02X}", path)
