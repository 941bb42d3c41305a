"""robots.txt as the 1990s read it: the Standard for Robot Exclusion of 1994, and Perl's `WWW::RobotRules`.

A file is a list of records, with blank lines between them. The first record that names the robot binds it, and no
other does; if none names it, all records for ``*`` bind it. A record's Disallow values are looked at in their order:
the first that the path and query begin with refuses, an empty one allows. There is nothing else: no Allow, no
wildcard, no Crawl-delay, no Sitemap.

Where the two differ, this keeps to the text of 1994: ``//a`` is the beginning of a path, not a host. In three things
it keeps to the rest of this package: escapes are compared in the normal form, a byte order mark is passed over, and
robots.txt itself may always be fetched.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, Final

from robotgate._lines import text_of
from robotgate._match import path_of
from robotgate._normal import target_units
from robotgate._pace import EVERYBODY
from robotgate._parse import Group, ParsedFile
from robotgate._rules import ROBOTS_TXT, Decision, Rules
from robotgate._verdict import Reason, Rule, RuleKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from robotgate._urls import Origin

_BLANKS: Final = " \t\v\f"
_FIELD: Final = re.compile(r"\s*(user-agent|disallow)\s*:", re.IGNORECASE | re.ASCII)


class Dialect(Enum):
    """Whose reading of robots.txt is meant."""

    RFC9309 = "RFC 9309"
    """Today's standard."""
    CLASSIC = "1994"
    """The Standard for Robot Exclusion of 1994, as Perl's ``WWW::RobotRules`` reads it: records end at blank lines,
    a record is for every robot whose name holds the User-agent value, rules are prefixes without wildcards, the
    first that matches decides, and Allow is unknown."""


def parse_classic(text: str) -> ParsedFile:
    """Read a file in its canonical form into its records, as groups.

    An empty User-agent value is kept, as nowhere else: every name holds it.
    """
    reader = _RecordReader()
    for number, line in enumerate(text.split("\n")[1:-1], 1):
        reader.read_line(line, number)
    return reader.finish()


def classic_rules(groups: Iterable[Group], token: str, origin: Origin | str | None) -> ClassicRules:
    """The rules of the record for a product token, given in lower case, else of all records for everybody.

    Args:
        groups: the records of one file.
        origin: whose file this is, or any URL of it. A rule that is an absolute URL there counts as its path.
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
        """Take the rules up to the first empty one: no later one is ever looked at."""
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
                # As in a target, a star is a star.
                self._prefixes.setdefault(target_units(path), rule)
        self._lengths = sorted({len(prefix) for prefix in self._prefixes})

    def allows_units(self, target: str) -> bool:
        """As `Rules.allows_units`: every other question comes to this one or to `decide_units`."""
        return target == ROBOTS_TXT or not any(target[:length] in self._prefixes for length in self._lengths)

    def decide_units(self, target: str) -> Decision:
        """As `Rules.decide_units`; the rule is the first that matches, and there is none on the other side."""
        if target == ROBOTS_TXT:
            return Decision(True, Reason.ROBOTS_TXT)
        prefixes = (target[:length] for length in self._lengths)
        matching = [self._prefixes[prefix] for prefix in prefixes if prefix in self._prefixes]
        if matching:
            return Decision(False, Reason.DISALLOWED_BY_RULE, min(matching, key=lambda rule: rule.line))
        if self._empty is not None:
            return Decision(True, Reason.ALLOWED_BY_RULE, self._empty)
        return Decision(True, Reason.NO_RULE_MATCHES if self.agents else Reason.NO_GROUP)

    @property
    def disallows_nothing(self) -> bool:
        """As `Rules.disallows_nothing`."""
        return not self._prefixes

    @property
    def disallows_everything(self) -> bool:
        """As `Rules.disallows_everything`."""
        return "/" in self._prefixes

    def __repr__(self) -> str:
        return f"<Rules of 1994 for {', '.join(self.agents[:5]) or 'nobody'}: {len(self._prefixes)} rules>"


class _RecordReader:
    """The state between two lines: the open record, and whether it has come to its rules."""

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
            # A line of nothing but a comment ends no record.
            if not mark:
                self._end_record()
            return
        field = _FIELD.match(content)
        if field is None:
            return
        value = text_of(content[field.end() :].strip(_BLANKS))
        if field[1].lower() == "disallow":
            self._add_rule(value, number)
        else:
            self._add_agent(value, number)

    def finish(self) -> ParsedFile:
        self._end_record()
        return ParsedFile(tuple(self._groups))

    def _add_agent(self, value: str, number: int) -> None:
        if self._seen_rule:
            # The blank line was forgotten.
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
        # Rules below a blank line, without a User-agent line of their own, bind nobody.
        if self._agents:
            self._groups.append(Group(tuple(self._agents), tuple(self._rules), line=self._line))
        self._begin_record()


def _names(agent: str, token: str) -> bool:
    return agent != EVERYBODY and agent.isascii() and agent.lower() in token
