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
from dataclasses import replace
from enum import Enum
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from robotgate.rules.grammar import DROPPED, EVERYBODY, text_of
from robotgate.rules.normal import with_query_unescaped
from robotgate.rules.parser import Group, ParsedFile
from robotgate.rules.rules import Decision, Rules
from robotgate.rules.verdict import Reason, Rule, RuleKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from robotgate.urls import Origin


_FIELD: Final = re.compile(r"[ \t]*(?:(user-agent)|disallow)[ \t]*:([^#]*)", re.IGNORECASE)
_NOT_LITERAL: Final = re.compile(r"[*$]|%(?![0-9A-Fa-f]{2})")
"""What means something else in today's rules."""


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
    groups: list[Group] = []
    agents: list[str] = []
    rules: list[Rule] = []
    begin, seen_agent = 0, False
    # What follows the last line feed is empty, and ends the last record.
    for number, line in enumerate(text.split("\n")[1:], 1):
        field = _FIELD.match(line)
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


def classic_rules(groups: Iterable[Group], token: str, origin: Origin | str | None) -> ClassicRules:
    """The rules of the record for a product token, else of all records for ``*``.

    Args:
        groups: the records of one file.
        token: in lower case.
        origin: the origin of the file, or any URL of it. A rule that is an absolute URL there counts as its path.
    """
    for_everybody: list[Group] = []
    for group in groups:
        if any(agent != EVERYBODY and agent.isascii() and agent.lower() in token for agent in group.agents):
            return ClassicRules(group.rules, group.agents, origin)
        if EVERYBODY in group.agents:
            for_everybody.append(group)
    agents = dict.fromkeys(agent for group in for_everybody for agent in group.agents)
    return ClassicRules([rule for group in for_everybody for rule in group.rules], agents, origin)


class ClassicRules(Rules):
    """The Disallow lines that bind one product token, in their order, as rules of today that match the same paths."""

    __slots__ = ("_empty", "_written")

    def __init__(self, rules: Sequence[Rule], agents: Iterable[str], origin: Origin | str | None) -> None:
        """Take the rules up to the first empty one, which allows everything."""
        self._written = tuple(takewhile(lambda rule: rule.path_pattern, rules))
        self._empty = next((rule for rule in rules if not rule.path_pattern), None)
        super().__init__(map(_of_today, self._written), agents=agents, origin=origin)

    def decide_units(self, target: str) -> Decision:
        """Like `Rules.decide_units`; the rule is the first that matches, and nothing opposes it."""
        decision = super().decide_units(target)
        if not decision.allowed:
            patterns = (self._disallow or self._read(RuleKind.DISALLOW)).patterns
            target = with_query_unescaped(target)
            pairs = zip(self._written, patterns, strict=True)
            return replace(decision, rule=next(rule for rule, path in pairs if target.startswith(path)))
        if self._empty is not None and decision.reason is Reason.NO_RULE_MATCHES:
            return replace(decision, reason=Reason.ALLOWED_BY_RULE, rule=self._empty)
        return decision


def _of_today(rule: Rule) -> Rule:
    """A rule with its wildcards escaped, and with a slash before its path."""
    path = _NOT_LITERAL.sub(lambda match: f"%{ord(match[0]):02X}", rule.path_pattern)
    is_absolute = path[:8].lower().startswith(("/", "http://", "https://"))
    return replace(rule, path_pattern=path if is_absolute else f"/{path}")
