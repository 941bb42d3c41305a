r"""Lint a robots.txt: line by line, group by group, and rule against rule.

>>> print(*lint(b"User-agent: *\nDisallow /private\n"))
line 2: error: there is no colon after the field name [missing-colon]

Time and memory are linear in the size of the file, and the number of findings is limited.

Whether a rule ever decides is not computed here: the matcher is asked about the paths that the rules name, once for
each set of groups that binds a token together (RFC 9309 §2.2.1). A file can be built to make this expensive, so there
is a limit on the work, after which the remaining sets are not checked.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from typing import TYPE_CHECKING, Final, TypeAlias

from robotgate.lint.checks import PACE, RULES, check_line, token_of
from robotgate.lint.findings import Finding, FindingCode, Findings
from robotgate.lint.lines import Line, line_of, lines_of
from robotgate.rules.decode import GZIP, decoded
from robotgate.rules.grammar import MAX_BYTES, Field, RuleKind, readable
from robotgate.rules.normal import pattern_units, target_units
from robotgate.rules.robotstxt import RobotsTxt
from robotgate.urls import Origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from robotgate.rules.rules import Rules
    from robotgate.rules.verdict import Rule

_UTF_16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
_HEAD_BYTES: Final = 40
_BARE_CR: Final = re.compile(rb"\r(?!\n)")
_HTML: Final = re.compile(rb"\s*<(?:!doctype|html|head|body|\?xml|!--|script)", re.IGNORECASE)


def lint(body: bytes, url: str | None = None) -> tuple[Finding, ...]:
    """Find the lines of a robots.txt that some crawlers misread. It accepts any bytes.

    Args:
        body: the file as it is served.
        url: any URL of the origin that the file belongs to; it makes some suggestions more precise.

    Raises:
        InvalidURLError: `url` is not an absolute http or https URL.
    """
    site = None if url is None else Origin.of(url)
    findings = Findings()
    if body.startswith(GZIP):
        findings.add(FindingCode.NOT_UTF_8, line_of(1, body.splitlines()[0]))
        body, _ = decoded(body, MAX_BYTES)
        if body.startswith(GZIP):
            return findings.all()
    if _is_utf_16(body):
        findings.add(FindingCode.UTF_16, line_of(1, body.splitlines()[0]))
        return findings.all()
    _check_file(body, findings)
    text = readable(body)
    if _HTML.match(text) is not None:
        findings.add(FindingCode.HTML, next(line for line in lines_of(text) if not line.is_blank))
        if all(line.kind is not Field.USER_AGENT for line in lines_of(text)):
            return findings.all()
    groups = _Groups(findings)
    for line in lines_of(text):
        if line.raw:
            check_line(line, site, findings)
        groups.read(line)
    groups.finish()
    return findings.all()


def _is_utf_16(body: bytes) -> bool:
    if body.startswith(_UTF_16_MARKS):
        return True
    head = body[:_HEAD_BYTES]
    return len(head) >= _HEAD_BYTES and any(not any(head[first::2]) for first in (0, 1)) and any(head)


def _check_file(body: bytes, findings: Findings) -> None:
    text, lines = readable(body, has_marks=True), readable(body).splitlines() or [b""]
    if len(body) > MAX_BYTES:
        rest = body[len(text) :].lstrip(b"\r\n")[:_HEAD_BYTES]
        findings.add(FindingCode.FILE_TOO_LARGE, line_of(len(lines) + 1, (rest.splitlines() or [b""])[0]))
    for number, line in enumerate(text.splitlines(), 1) if BOM_UTF8[:1] in text else ():
        # The first may be incomplete.
        if line.startswith(BOM_UTF8 if number > 1 else BOM_UTF8[:1]):
            findings.add(
                FindingCode.BYTE_ORDER_MARK, line_of(number, (lines[number - 1 :] or [b""])[0]), (0, 0)
            )
    bare = _BARE_CR.search(text)
    if bare is not None:
        number = len(text[: bare.end()].splitlines())
        end = len(lines[number - 1])
        findings.add(FindingCode.BARE_CR, line_of(number, lines[number - 1]), (end, end))


class _Groups:
    """The groups as the parser forms them, and the places where other crawlers form different ones."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._rules: list[list[Line]] = []
        self._named: dict[bytes, dict[int, Line]] = {}
        """For each token, the numbers of the groups that name it, and the first line of each that does."""
        self._splits: list[tuple[FindingCode, Line, int]] = []
        """Places where other crawlers may split the open group, reported when it turns out to have rules."""
        self._between: Line | None = None
        self._delay: Line | None = None
        self._after_blank = False

    def read(self, line: Line) -> None:
        """Read the next line."""
        if line.kind is Field.USER_AGENT:
            self._read_agent(line)
        elif line.kind in RULES or line.kind in PACE:
            self._read_rule_or_pace(line)
        elif line.is_record:
            self._read_record(line)
            self._between = self._between or line
        elif line.is_blank:
            self._after_blank = True

    def finish(self) -> None:
        """Report what can be known only at the end of the file."""
        for rules in self._rules:
            empty = [line for line in rules if not line.value]
            has_others = len(empty) < len(rules)
            for line in empty:
                if line.kind is Field.ALLOW:
                    suggestion = None if has_others else b"Disallow:"
                    self._findings.add(FindingCode.EMPTY_ALLOW, line, suggestion=suggestion)
                elif has_others:
                    self._findings.add(FindingCode.EMPTY_DISALLOW, line)
        if any(self._rules[number] for number in self._named.get(b"*", ())):
            # Only the last group can have no rules: any other would continue with the next User-agent line.
            last = len(self._rules) - 1
            for lines in self._named.values():
                if lines.keys() == {last} and not self._rules[last]:
                    self._findings.add(FindingCode.GROUP_WITHOUT_RULES, lines[last])
        _check_sets(self._rules, dict.fromkeys(map(tuple, self._named.values())), self._findings)

    def _read_agent(self, line: Line) -> None:
        if not self._rules or self._rules[-1]:
            self._rules.append([])
        elif self._delay is not None:
            self._splits.append((FindingCode.DELAY_BETWEEN_AGENTS, self._delay, line.number))
        elif self._between is not None:
            self._splits.append((FindingCode.RECORD_BETWEEN_AGENTS, line, self._between.number))
        elif self._after_blank:
            self._splits.append((FindingCode.BLANK_BETWEEN_AGENTS, line, line.number - 1))
        self._between = self._delay = None
        self._after_blank = False
        token = token_of(line.value)
        if token is not None:
            group = len(self._rules) - 1
            named = self._named.setdefault(token, {})
            if named and group not in named:
                first = next(iter(named.values())).number
                self._findings.add(FindingCode.DUPLICATE_GROUP, line, line.value_span, related_line=first)
            named.setdefault(group, line)

    def _read_record(self, line: Line) -> None:
        field = line.field.lower()
        if not self._rules and field == b"content-usage":
            self._findings.add(FindingCode.BEFORE_ANY_GROUP, line)
        elif not self._rules and field == b"content-signal":
            self._findings.add(FindingCode.STATEMENT_OUTSIDE_GROUPS, line)

    def _read_rule_or_pace(self, line: Line) -> None:
        if not self._rules:
            is_pace = line.kind in PACE
            code = FindingCode.PACE_OUTSIDE_GROUPS if is_pace else FindingCode.BEFORE_ANY_GROUP
            self._findings.add(code, line)
            return
        if self._after_blank:
            self._findings.add(FindingCode.BLANK_IN_GROUP, line)
            self._after_blank = False
        if line.kind in PACE:
            if line.kind is Field.CRAWL_DELAY and self._delay is not None:
                self._findings.add(FindingCode.DELAY_AGAIN, line, related_line=self._delay.number)
            self._delay = self._delay or line
            return
        self._rules[-1].append(line)
        for code, line_of_split, related_line in self._splits:
            self._findings.add(code, line_of_split, related_line=related_line)
        self._splits.clear()


_MIN_RULES_CHECKED: Final = 10_000
_SETS_PER_RULE: Final = 4
"""How many rules are put into sets: at least the first number, and on average each rule this many times."""
_MAX_BYTES_COMPARED: Final = 4_000_000
"""Bytes of paths, each multiplied by the number of wildcard rules it may be compared with."""
_FOR_ALL: Final = b"User-agent: *\n"
_Reports: TypeAlias = "dict[int, tuple[FindingCode, Line, Line]]"
"""Findings about the rules of sets, and the rule that each refers to, by line: one a line, whatever sets it is in."""


def _check_sets(
    groups: Sequence[Sequence[Line]], sets: Iterable[tuple[int, ...]], findings: Findings
) -> None:
    """Check every set of rules that binds some token.

    Args:
        groups: the Allow and Disallow lines of each group.
        sets: the numbers of the groups that name a token.
        findings: where findings are added.
    """
    rules_left = max(_MIN_RULES_CHECKED, _SETS_PER_RULE * sum(map(len, groups)))
    bytes_left = _MAX_BYTES_COMPARED
    reports: _Reports = {}
    for numbers in sets:
        together = [line for number in numbers for line in groups[number]]
        rules_left -= len(together)
        if rules_left < 0:
            break
        lines = [line for line in together if line.value.startswith((b"/", b"*"))]
        robots = RobotsTxt.parse(_FOR_ALL + b"\n".join(line.content for line in lines))
        rules = list(zip(lines, robots.groups[0].rules, strict=True))
        _check_repetitions(rules, reports)
        wildcards = sum("*" in rule.path_pattern for _, rule in rules)
        bytes_left -= sum(len(rule.path_pattern) for _, rule in rules) * (1 + wildcards)
        if bytes_left >= 0:
            _check_decisions(rules, robots.rules("*"), reports)
    for code, line, related in reports.values():
        findings.add(code, line, related_line=related.number)


def _check_repetitions(rules: Sequence[tuple[Line, Rule]], reports: _Reports) -> None:
    """Find repeated rules, and rules that an equal rule of the other kind contradicts."""
    first: dict[tuple[RuleKind, str], Line] = {}
    for line, rule in rules:
        earlier = first.setdefault((rule.kind, pattern_units(rule.path_pattern)), line)
        if earlier is not line:
            reports.setdefault(line.number, (FindingCode.DUPLICATE_RULE, line, earlier))
    for (kind, pattern), line in first.items():
        allow = first.get((RuleKind.ALLOW, pattern))
        if kind is RuleKind.DISALLOW and allow is not None:
            reports.setdefault(line.number, (FindingCode.CONTRADICTED_RULE, line, allow))


def _check_decisions(rules: Sequence[tuple[Line, Rule]], together: Rules, reports: _Reports) -> None:
    """Find rules that never decide, and rules that some crawlers never reach."""
    lines = {rule.line: line for line, rule in rules}
    for line, rule in rules:
        path = rule.path_pattern.removesuffix("$")
        # A pattern with a wildcard names many paths, and one of them says nothing about the others.
        if line.number in reports or "*" in path or not path.startswith("/"):
            continue
        decision = together._decide_units(target_units(path))
        winner, loser = decision.rule, decision.opposing
        if winner is None:
            continue
        if winner.kind is not rule.kind:
            # It decides every path that begins with this one, too, unless it is for one path only.
            if rule.path_pattern.endswith("$") or not winner.path_pattern.endswith("$"):
                reports[line.number] = FindingCode.NEVER_DECIDES, line, lines[winner.line]
        elif winner.line == rule.line and loser is not None and loser.line < rule.line:
            # Some crawlers obey the shorter rule above it.
            above = lines[loser.line]
            if above.number not in reports:
                reports[line.number] = FindingCode.ORDER_MATTERS, line, above
