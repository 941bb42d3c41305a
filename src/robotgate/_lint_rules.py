"""Rules that say nothing, or that some say otherwise: found by asking the matcher itself.

Which rules bind together is known by token: all groups that name it are one (RFC 9309 §2.2.1). For each such set the
rules are asked about the very paths they name. A file can be made so that this is a lot of work; after so much of it
no more is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from robotgate._lint_table import FindingCode
from robotgate._normal import normalise_pattern
from robotgate._robotstxt import RobotsTxt
from robotgate._verdict import RuleKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robotgate._lint_findings import Findings
    from robotgate._lint_lines import Line
    from robotgate._rules import Decision
    from robotgate._verdict import Rule

_RULES_ANYHOW: Final = 10_000
_SETS_PER_RULE: Final = 4
"""So many rules are put together into sets in any file, and each of a larger one so often, on average."""
_MAX_OCTETS_COMPARED: Final = 4_000_000
"""Octets of paths, each times the wildcard rules it may have to be compared with."""
_EVERYBODY: Final = b"User-agent: *\n"


def check_sets(groups: Sequence[Sequence[Line]], tokens: dict[bytes, list[int]], findings: Findings) -> None:
    """Check every set of rules that binds a token.

    Args:
        groups: the Allow and Disallow lines of each group.
        tokens: the numbers of the groups that name each token.
    """
    rules_left = max(_RULES_ANYHOW, _SETS_PER_RULE * sum(map(len, groups)))
    octets_left = _MAX_OCTETS_COMPARED
    told: set[int] = set()
    for numbers in dict.fromkeys(tuple(dict.fromkeys(numbers)) for numbers in tokens.values()):
        rules_left -= sum(len(groups[number]) for number in numbers)
        if rules_left < 0:
            return
        rules = _RuleSet([line for number in numbers for line in groups[number]])
        rules.check_repetitions(findings, told)
        octets_left -= rules.octets_compared
        if octets_left >= 0:
            rules.check_decisions(findings, told)


class _RuleSet:
    """The rules that bind a token, as the matcher takes them."""

    def __init__(self, lines: Sequence[Line]) -> None:
        lines = [line for line in lines if line.value.startswith((b"/", b"*"))]
        robots = RobotsTxt.parse(_EVERYBODY + b"\n".join(line.content for line in lines))
        self._together = robots.rules("*")
        self._rules = list(zip(lines, robots.groups[0].rules, strict=True))

    @property
    def octets_compared(self) -> int:
        """How many octets the matcher may have to look at."""
        wildcards = sum("*" in rule.path_pattern for _, rule in self._rules)
        return sum(len(rule.path_pattern) for _, rule in self._rules) * (1 + wildcards)

    def check_repetitions(self, findings: Findings, told: set[int]) -> None:
        """Find the rules that are said again, and those that are denied."""
        first: dict[tuple[RuleKind, str], Line] = {}
        for line, rule in self._rules:
            said = first.setdefault((rule.kind, normalise_pattern(rule.path_pattern)), line)
            if said is not line and line.number not in told:
                told.add(line.number)
                findings.add(FindingCode.DUPLICATE_RULE, line, related_line=said.number)
        for (kind, pattern), line in first.items():
            allow = first.get((RuleKind.ALLOW, pattern))
            if kind is RuleKind.DISALLOW and allow is not None and line.number not in told:
                told.add(line.number)
                findings.add(FindingCode.CONTRADICTED_RULE, line, related_line=allow.number)

    def check_decisions(self, findings: Findings, told: set[int]) -> None:
        """Find the rules that decide nothing, and those that some crawlers never come to."""
        for line, rule in self._rules:
            path = rule.path_pattern.removesuffix("$")
            # A wildcard stands for many paths: what is true of one of them need not be of the others.
            if line.number in told or "*" in path or not path.startswith("/"):
                continue
            decision = self._together.decide(path)
            if _never_decides(rule, decision):
                told.add(line.number)
                findings.add(FindingCode.NEVER_DECIDES, line, related_line=self._line_of(decision.rule))
            elif _comes_too_late(rule, decision) and self._line_of(decision.opposing) not in told:
                told.add(line.number)
                findings.add(FindingCode.ORDER_MATTERS, line, related_line=self._line_of(decision.opposing))

    def _line_of(self, rule: Rule | None) -> int | None:
        return None if rule is None else self._rules[rule.line - self._rules[0][1].line][0].number


def _never_decides(rule: Rule, decision: Decision) -> bool:
    """Whether the path that a rule names is decided by another, and so is all that begins with it."""
    winner = decision.rule
    if winner is None or winner.kind is rule.kind:
        return False
    return rule.path_pattern.endswith("$") or not winner.path_pattern.endswith("$")


def _comes_too_late(rule: Rule, decision: Decision) -> bool:
    """Whether a rule decides, and a shorter one of the other kind stands above it."""
    if decision.rule is None or decision.opposing is None:
        return False
    return decision.rule.line == rule.line and decision.opposing.line < rule.line
