"""robots.txt as read in the 1990s: the Standard for Robot Exclusion of 1994, and Perl's `WWW::RobotRules`.

A file is a list of records, separated by blank lines. The first record that names the robot binds it, and no other; if
none names it, all records for ``*`` bind it. The Disallow values of a record are compared in order: the first that the
path and query begin with refuses, an empty one allows. There is no Allow, wildcard, Crawl-delay or Sitemap.

Where the two differ, this follows the text of 1994: ``//a`` is the beginning of a path, not a host. Three things are as
in the rest of this package: escapes are compared in the normal form, a byte order mark is ignored, and robots.txt
itself may always be fetched.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, Final

from robotgate.rules.grammar import DROPPED, EVERYBODY, text_of
from robotgate.rules.match import path_of
from robotgate.rules.normal import target_units, with_query_unescaped
from robotgate.rules.parser import Group, ParsedFile
from robotgate.rules.rules import ROBOTS_TXT, Decision, Rules
from robotgate.rules.verdict import Reason, Rule, RuleKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from robotgate.urls import Origin


_BLANKS: Final = " \t"
_FIELD: Final = re.compile(r"[ \t]*(user-agent|disallow)[ \t]*:", re.IGNORECASE)


class Dialect(Enum):
    """A standard for reading robots.txt."""

    RFC9309 = "RFC 9309"
    """Today's standard."""
    CLASSIC = "1994"
    """The Standard for Robot Exclusion of 1994, as Perl's ``WWW::RobotRules`` reads it: records end at blank lines, a
    record applies to every robot whose name contains the User-agent value, rules are prefixes without wildcards, the
    first that matches decides, and there is no Allow."""


def parse_classic(text: str) -> ParsedFile:
    """Read the records of a file in the canonical form, as groups.

    Unlike elsewhere, an empty User-agent value is kept: every name contains it.
    """
    reader = _RecordReader()
    for number, line in enumerate(text.split("\n")[1:-1], 1):
        reader.read_line(line, number)
    return reader.finish()


def classic_rules(groups: Iterable[Group], token: str, origin: Origin | str | None) -> ClassicRules:
    """The rules of the record for a product token, else of all records for ``*``.

    Args:
        groups: the records of one file.
        token: in lower case.
        origin: the origin of the file, or any URL of it. A rule that is an absolute URL there counts as its path.
    """
    for_everybody = []
    for group in groups:
        if any(_names(agent, token) for agent in group.agents):
            return ClassicRules(group.rules, group.agents, origin)
        if EVERYBODY in group.agents:
            for_everybody.append(group)
    agents = dict.fromkeys(agent for group in for_everybody for agent in group.agents)
    return ClassicRules((rule for group in for_everybody for rule in group.rules), agents, origin)


class ClassicRules(Rules):
    """The Disallow lines that bind one product token, in their order."""

    __slots__ = ("_empty", "_lengths", "_prefixes")

    def __init__(self, rules: Iterable[Rule], agents: Iterable[str], origin: Origin | str | None) -> None:
        """Take the rules up to the first empty one, which allows everything."""
        super().__init__((), agents=agents)
        self._empty: Rule | None = None
        self._prefixes: dict[str, Rule] = {}
        for rule in rules:
            if not rule.path_pattern:
                self._empty = rule
                break
            path = rule.path_pattern
            if path[:8].lower().startswith(("http://", "https://")):
                path = path_of(path, origin)
            if path:
                # A pattern is read like a target: there are no wildcards.
                self._prefixes.setdefault(with_query_unescaped(target_units(path)), rule)
        self._lengths = sorted({len(prefix) for prefix in self._prefixes})

    def allows_units(self, target: str) -> bool:
        """Like `Rules.allows_units`."""
        target = with_query_unescaped(target)
        return target == ROBOTS_TXT or not any(target[:length] in self._prefixes for length in self._lengths)

    def decide_units(self, target: str) -> Decision:
        """Like `Rules.decide_units`; the rule is the first that matches, and nothing opposes it."""
        if target == ROBOTS_TXT:
            return Decision(True, Reason.ROBOTS_TXT)
        target = with_query_unescaped(target)
        prefixes = (target[:length] for length in self._lengths)
        matching = [self._prefixes[prefix] for prefix in prefixes if prefix in self._prefixes]
        if matching:
            return Decision(False, Reason.DISALLOWED_BY_RULE, min(matching, key=lambda rule: rule.line))
        if self._empty is not None:
            return Decision(True, Reason.ALLOWED_BY_RULE, self._empty)
        return Decision(True, Reason.NO_RULE_MATCHES if self.agents else Reason.NO_GROUP)

    @property
    def disallows_nothing(self) -> bool:
        """Like `Rules.disallows_nothing`."""
        return not self._prefixes

    @property
    def disallows_everything(self) -> bool:
        """Like `Rules.disallows_everything`."""
        return "/" in self._prefixes

    def __repr__(self) -> str:
        return f"<Rules of 1994 for {', '.join(self.agents[:5]) or 'nobody'}: {len(self._prefixes)} rules>"


class _RecordReader:
    """The open record, and whether its rules have begun."""

    __slots__ = ("_agents", "_groups", "_line", "_rules", "_seen_agent", "_seen_rule")

    def __init__(self) -> None:
        self._groups: list[Group] = []
        self._seen_agent = False
        self._begin_record()

    def _begin_record(self) -> None:
        self._line = 0
        self._agents: list[str] = []
        self._rules: list[Rule] = []
        self._seen_rule = False

    def read_line(self, line: str, number: int) -> None:
        content, mark, _ = line.partition("#")
        if not content.strip(_BLANKS):
            # A line that is only a comment does not end a record.
            if not mark:
                self._end_record()
            return
        field = _FIELD.match(content)
        if field is None:
            return
        value = text_of(content[field.end() :].strip(_BLANKS))
        if field[1].lower() == "user-agent":
            self._add_agent(value, number)
        elif value != DROPPED:
            self._add_rule(value, number)

    def finish(self) -> ParsedFile:
        self._end_record()
        return ParsedFile(tuple(self._groups))

    def _add_agent(self, value: str, number: int) -> None:
        if self._seen_rule:
            # The blank line between the records is missing.
            self._end_record()
        self._seen_agent = True
        self._line = self._line or number
        self._agents.append(value)

    def _add_rule(self, value: str, number: int) -> None:
        if not self._seen_agent and not self._agents:
            self._line = number
            self._agents.append(EVERYBODY)
        self._seen_rule = True
        self._rules.append(Rule(RuleKind.DISALLOW, value, number))

    def _end_record(self) -> None:
        # Rules below a blank line without a User-agent line above them bind no robot.
        if self._agents:
            self._groups.append(Group(tuple(self._agents), tuple(self._rules), line=self._line))
        self._begin_record()


def _names(agent: str, token: str) -> bool:
    return agent != EVERYBODY and agent.isascii() and agent.lower() in token
