"""The statements of a robots.txt for one crawler: Content-Usage, Content-Signal and License lines.

Paths of Content-Usage are matched as those of Allow and Disallow. Groups are those of RFC 9309, but for one thing: in
the grammar of attach §5, Content-Usage is a rule, so it ends a run of User-agent lines, which it does not for Allow and
Disallow. In ::

    User-agent: one
    Content-Usage: train-ai=y

    User-agent: two
    Disallow: /private

neither agent may fetch /private, but only the first may train. Content-Signal and License are read in the same way.

`compiler_for` makes rules that also refuse a URL for which a declared purpose of the crawler is disallowed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from robotgate.errors import OptionError
from robotgate.preferences.values import Reading, read_content_signal, read_content_usage, structured_fields
from robotgate.rules.grammar import EVERYBODY, RuleKind, canonical, names
from robotgate.rules.match import Patterns, matches, read_patterns
from robotgate.rules.normal import normal_length, with_query_unescaped
from robotgate.rules.parser import ParsedFile, Record, RulesCompiler, parse_text
from robotgate.rules.rules import ROBOTS_TXT, Decision, Rules
from robotgate.rules.verdict import Reason, Rule
from robotgate.statements import Preference, Preferences, Purpose, Source, Standard, Statement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from robotgate.urls import Origin


FIELDS: Final = re.compile(rb"content-usage|content-signal|license", re.IGNORECASE)
"""Matches in every file that has statements."""
_PREFERENCES: Final = frozenset({"content-usage"})
_ALL: Final = _PREFERENCES | {"content-signal", "license"}
_FIELD_AND_PATH: Final = re.compile(r"(/[^ \t]*+)?[ \t]*+(.*)", re.DOTALL)
_ABSOLUTE: Final = re.compile(r"[a-z][a-z0-9+.-]*+://[^/?#\s]", re.IGNORECASE)
_MAX_TIES: Final = 1_000
"""Paths of the longest length that are compared with a target, at most."""

_ELSEWHERE: Final = (
    "is not below our User-agent line; some readers take it for the whole file, so what it disallows counts"
)
_OUTSIDE: Final = "stands above all groups, so it is read as one for the whole file"
_LICENSE_ELSEWHERE: Final = (
    "is not below our User-agent line: RSL 1.0 reads it as others', RSL's guide as one for the whole file"
)
_LICENSE_OUTSIDE: Final = (
    "stands above all groups: by RSL 1.0 those of our group replace it, by RSL's guide it holds too"
)


class RobotsStatements:
    """The statements of one robots.txt for one crawler and any URL of its site."""

    __slots__ = ("_patterns", "_readings", "content_usage", "for_every_path")

    def __init__(self, robots: ParsedFile, token: str) -> None:
        """Select the lines for a product token, in lower case."""
        binding = token if any(group.names(token) for group in robots.groups) else EVERYBODY
        self.content_usage: defaultdict[str, list[tuple[Record, str]]] = defaultdict(list)
        """The Content-Usage lines and their statements, by the pattern of their path: empty for those without a path,
        which are the shortest match of every target."""
        for record, is_ours in _stated(robots, binding, _PREFERENCES):
            if is_ours:
                path, value = _split_path(record.value)
                pattern = read_patterns(path.replace("\n", "%0A"), None)[0] if path else ""
                self.content_usage[pattern].append((record, value))
        self._patterns = Patterns(tuple(filter(None, self.content_usage)))
        self._readings: dict[str, Reading] = {}
        self.for_every_path: list[Statement] = _of_whole_site(robots, binding)
        """Statements for every path of the site: all but Content-Usage."""

    def of(self, target: str, *, is_allowed: bool) -> list[Statement]:
        """The statements for one target.

        Args:
            target: path and query in units.
            is_allowed: whether the target may be fetched: others have no Content-Usage (attach §5).
        """
        return (self._content_usage(with_query_unescaped(target)) if is_allowed else []) + self.for_every_path

    def _content_usage(self, target: str) -> list[Statement]:
        """The lines with the longest path that matches; several such lines count together."""
        best = self._patterns.best(target)
        length = normal_length(best)
        equal = [each for each in self.content_usage if each != best and normal_length(each) == length]
        longest = [best, *(each for each in equal[:_MAX_TIES] if matches(each, target))]
        lines = [line for pattern in longest for line in self.content_usage.get(pattern, ())]
        found = []
        for record, value in sorted(lines, key=lambda line: line[0].line):
            if value not in self._readings:
                self._readings[value] = read_content_usage(value)
            found.append(_statement(Standard.CONTENT_USAGE, record, self._readings[value]))
        return found


def _stated(robots: ParsedFile, binding: str, closing: frozenset[str]) -> Iterator[tuple[Record, bool]]:
    """The records of some fields, and whether a User-agent line directly above each names a token.

    Args:
        binding: the token, in lower case, or ``*``.
        closing: the fields, which end a run of User-agent lines.
    """
    group, begin, end, is_ours = -1, 0, 0, False
    for record in robots.records:
        if record.field.lower() not in closing:
            continue
        if record.group is None:
            yield record, False
            continue
        if (record.group, record.agents_above) != (group, end):
            begin = end if record.group == group else 0
            group, end = record.group, record.agents_above
            is_ours = any(names(agent, binding) for agent in robots.groups[group].agents[begin:end])
        yield record, is_ours


def _split_path(value: str) -> tuple[str, str]:
    """The path of a Content-Usage value, empty if it has none, and its statement (attach §5)."""
    match = _FIELD_AND_PATH.fullmatch(value)
    return ("", value) if match is None else (match[1] or "", match[2])


def _read_license(value: str) -> Reading:
    return Reading(reference=value) if _ABSOLUTE.match(value) else Reading(broken=["not an absolute URL"])


READERS: Final[Mapping[str, Callable[[str], Reading]]] = {
    "content-usage": lambda value: read_content_usage(_split_path(value)[1]),
    "content-signal": read_content_signal,
    "license": _read_license,
}
"""What reads the value of a line, by the name of its field in lower case."""


def _statement(standard: Standard, record: Record, reading: Reading) -> Statement:
    return reading.statement(standard, Source.ROBOTS_TXT, record.field, record.value, record.line)


def _of_whole_site(robots: ParsedFile, binding: str) -> list[Statement]:
    """The Content-Signal lines of a file, then its License lines: ours first.

    Of signals below other User-agent lines, only refusals count. Licences are references.
    """
    signals: list[Statement] = []
    ours: list[Statement] = []
    others: list[Statement] = []
    for record, is_ours in _stated(robots, binding, _ALL):
        match record.field.lower():
            case "content-signal":
                reading = read_content_signal(record.value)
                if record.group is None:
                    reading.note = _OUTSIDE
                elif not is_ours:
                    reading.says = [pair for pair in reading.says if pair[1] is Preference.DISALLOWED]
                    reading.note = _ELSEWHERE
                signals.append(_statement(Standard.CONTENT_SIGNAL, record, reading))
            case "license":
                reading = _read_license(record.value)
                if not is_ours:
                    reading.note = _LICENSE_OUTSIDE if record.group is None else _LICENSE_ELSEWHERE
                (ours if is_ours else others).append(_statement(Standard.RSL, record, reading))
    return signals + ours + others


@dataclass(frozen=True, slots=True)
class StatementRule(Rule):
    """A line about the use of pages, which refuses them to a crawler that declares what the line disallows."""

    statement: str = ""
    """The line as written."""

    @classmethod
    def of(cls, statement: Statement) -> StatementRule:
        """The rule of a statement in robots.txt."""
        text = f"{statement.field}: {statement.words}"
        return cls(RuleKind.DISALLOW, "", statement.line or 0, text)

    def __str__(self) -> str:
        return self.statement


class PurposeRules(Rules):
    """The rules of a file for one token, and its statements about some purposes."""

    __slots__ = ("_refused", "_rules", "_statements")

    def __init__(self, rules: Rules, statements: RobotsStatements, purposes: frozenset[Purpose]) -> None:
        super().__init__(
            (),
            agents=rules.agents,
            crawl_delay=rules.crawl_delay,
            request_rates=rules.request_rates,
            visit_times=rules.visit_times,
            warnings=rules.warnings,
        )
        self._rules = rules
        self._statements = statements
        self._refused = {(purpose, Preference.DISALLOWED) for purpose in purposes}

    def _allows_units(self, target: str) -> bool:
        """Like `Rules._allows_units`."""
        return self._rules._allows_units(target) and self._refusing_at(target) is None

    def _decide_units(self, target: str) -> Decision:
        """Like `Rules._decide_units`. If a statement refuses, `Decision.opposing` is the rule that allows."""
        decision = self._rules._decide_units(target)
        refusing = self._refusing_at(target)
        if not decision.allowed or refusing is None:
            return decision
        rule = StatementRule.of(refusing)
        return Decision(False, Reason.DISALLOWED_BY_PREFERENCE, rule, decision.rule)

    @property
    def _for_files(self) -> Rules:
        """Like `Rules._for_files`: purposes bind pages alone."""
        return self._rules

    @property
    def disallows_nothing(self) -> bool:
        """Like `Rules.disallows_nothing`."""
        return (
            self._rules.disallows_nothing
            and not self._statements.content_usage
            and self._refusing(self._statements.for_every_path) is None
        )

    @property
    def disallows_everything(self) -> bool:
        """Like `Rules.disallows_everything`."""
        return self._rules.disallows_everything or self._refusing(self._statements.for_every_path) is not None

    def _refusing_at(self, target: str) -> Statement | None:
        """The first statement about an allowed target that disallows a purpose."""
        if target == ROBOTS_TXT:
            return None
        return self._refusing(self._statements.of(target, is_allowed=True))

    def _refusing(self, statements: Iterable[Statement]) -> Statement | None:
        """The first statement that disallows a purpose."""
        return next((each for each in statements if not self._refused.isdisjoint(each.says)), None)


def purposes_of(given: object) -> frozenset[Purpose]:
    """The purposes that a crawler declares.

    Raises:
        OptionError: not a collection of names of purposes.
    """
    known = ", ".join(repr(purpose.value) for purpose in Purpose)
    if not isinstance(given, set | frozenset | list | tuple):
        raise OptionError(f"purposes={given!r}: give a set of some of {known}")
    try:
        return frozenset(Purpose(name) for name in given)
    except ValueError:
        raise OptionError(f"purposes={given!r}: known purposes are {known}") from None


def preferences_in(robots: ParsedFile, token: str, target: str, *, is_allowed: bool) -> Preferences:
    """What a robots.txt says about the use of a page.

    Args:
        token: a product token, in lower case.
        target, is_allowed: as in `RobotsStatements.of`.

    Raises:
        ModuleNotFoundError: the extra ``preferences`` is not installed.
    """
    structured_fields()
    return Preferences.of(RobotsStatements(robots, token).of(target, is_allowed=is_allowed))


def compiler_for(purposes: object, compiler: RulesCompiler) -> RulesCompiler:
    """What makes the rules of a robots.txt for a crawler that declares purposes.

    Args:
        purposes: names of `Purpose`.
        compiler: makes the rules about paths alone.

    Raises:
        OptionError: not a collection of names of purposes.
        ModuleNotFoundError: the extra ``preferences`` is not installed.
    """
    declared = purposes_of(purposes)
    structured_fields()

    def compiled(body: bytes, token: str, origin: Origin) -> Rules:
        rules = compiler(body, token, origin)
        if FIELDS.search(body) is None:
            return rules
        return PurposeRules(rules, RobotsStatements(parse_text(canonical(body)), token), declared)

    return compiled if declared else compiler
