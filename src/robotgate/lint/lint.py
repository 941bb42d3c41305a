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
from typing import TYPE_CHECKING, Final

from robotgate.lint.checks import PACES, check_line, token_of
from robotgate.lint.findings import Findings
from robotgate.lint.lines import RULES, Kind, Lines, byte_order_mark_length, plain_line
from robotgate.lint.table import FindingCode
from robotgate.rules.grammar import MAX_BYTES
from robotgate.rules.normal import pattern_units, target_units
from robotgate.rules.robotstxt import RobotsTxt
from robotgate.rules.verdict import RuleKind
from robotgate.urls import Origin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robotgate.lint.findings import Finding
    from robotgate.lint.lines import Line
    from robotgate.rules.rules import Decision
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
    if _is_utf_16(body):
        findings.add(FindingCode.UTF_16, plain_line(1, body.splitlines()[0]))
        return findings.all()
    lines = Lines(body)
    _check_file(body, lines.text, findings)
    if _HTML.match(lines.text) is not None:
        findings.add(FindingCode.HTML, next(line for line in lines if not line.is_blank))
        if not lines.have_groups:
            return findings.all()
    groups = _Groups(findings)
    for line in lines:
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


def _check_file(body: bytes, text: bytes, findings: Findings) -> None:
    if len(body) > MAX_BYTES:
        count = len(text.splitlines())
        rest = body[byte_order_mark_length(body) + len(text) :].lstrip(b"\r\n")[:_HEAD_BYTES]
        findings.add(FindingCode.FILE_TOO_LARGE, plain_line(count + 1, (rest.splitlines() or [b""])[0]))
    if byte_order_mark_length(body):
        findings.add(FindingCode.BYTE_ORDER_MARK, plain_line(1, (text.splitlines() or [b""])[0]), (0, 0))
    bare = _BARE_CR.search(text)
    if bare is not None:
        before = text[: bare.start()].splitlines() or [b""]
        findings.add(FindingCode.BARE_CR, plain_line(len(before), before[-1]), (len(before[-1]),) * 2)


class _Groups:
    """The groups as the parser forms them, and the places where other crawlers form different ones."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._rules: list[list[Line]] = []
        self._named_in: dict[bytes, list[int]] = {}
        self._first_named: dict[bytes, Line] = {}
        self._parted: list[tuple[FindingCode, Line, int]] = []
        """Places where other crawlers may split the open group, reported when it turns out to have rules."""
        self._between: Line | None = None
        self._delay: Line | None = None
        self._last: Line | None = None
        self._after_blank = False

    def read(self, line: Line) -> None:
        """Read the next line."""
        if line.kind is Kind.USER_AGENT:
            self._read_agent(line)
        elif line.kind in RULES:
            self._read_rule(line)
        elif line.kind is Kind.RECORD and line.field.lower() in PACES:
            self._read_pace(line)
        elif line.kind is not Kind.NOTHING:
            self._between = self._between or line
        elif line.is_blank:
            self._after_blank = True

    def finish(self) -> None:
        """Report what can be known only at the end of the file."""
        self._end_group()
        self._check_last_group()
        _check_sets(self._rules, self._named_in, self._findings)

    def _read_agent(self, line: Line) -> None:
        if not self._rules or self._rules[-1]:
            self._end_group()
            self._rules.append([])
        elif self._delay is not None:
            self._parted.append((FindingCode.DELAY_BETWEEN_AGENTS, self._delay, line.number))
        elif self._between is not None:
            self._parted.append((FindingCode.RECORD_BETWEEN_AGENTS, line, self._between.number))
        elif self._after_blank:
            self._parted.append((FindingCode.BLANK_BETWEEN_AGENTS, line, line.number - 1))
        self._between = self._delay = None
        self._after_blank = False
        token = token_of(line.value)
        if token is not None:
            self._name(token, line)

    def _name(self, token: bytes, line: Line) -> None:
        group = len(self._rules) - 1
        numbers = self._named_in.setdefault(token, [])
        first = self._first_named.setdefault(token, line)
        if numbers and numbers[-1] != group:
            self._findings.add(FindingCode.DUPLICATE_GROUP, line, line.value_span, related_line=first.number)
        if group not in numbers[-1:]:
            numbers.append(group)

    def _read_rule(self, line: Line) -> None:
        if not self._is_bound(line):
            return
        self._rules[-1].append(line)
        for code, parted, related_line in self._parted:
            self._findings.add(code, parted, related_line=related_line)
        self._parted.clear()

    def _read_pace(self, line: Line) -> None:
        if not self._is_bound(line):
            return
        if line.field.lower() == b"crawl-delay" and self._delay is not None:
            self._findings.add(FindingCode.DELAY_AGAIN, line, related_line=self._delay.number)
        self._delay = self._delay or line

    def _is_bound(self, line: Line) -> bool:
        if not self._rules:
            self._findings.add(FindingCode.BEFORE_ANY_GROUP, line)
            return False
        if self._after_blank:
            self._findings.add(FindingCode.BLANK_IN_GROUP, line)
        self._after_blank = False
        return True

    def _end_group(self) -> None:
        rules = self._rules[-1] if self._rules else []
        if not any(line.value for line in rules):
            return
        for line in rules:
            if not line.value and line.kind is Kind.DISALLOW:
                self._findings.add(FindingCode.EMPTY_DISALLOW, line)

    def _check_last_group(self) -> None:
        """Only the last group can have no rules: any other would continue with the next User-agent line."""
        everybody = self._named_in.get(b"*", [])
        if not any(self._rules[number] for number in everybody):
            return
        for token, numbers in self._named_in.items():
            if numbers == [len(self._rules) - 1] and not self._rules[-1]:
                self._findings.add(FindingCode.GROUP_WITHOUT_RULES, self._first_named[token])


_MIN_RULES_CHECKED: Final = 10_000
_SETS_PER_RULE: Final = 4
"""How many rules are put into sets: at least the first number, and on average each rule this many times."""
_MAX_BYTES_COMPARED: Final = 4_000_000
"""Bytes of paths, each multiplied by the number of wildcard rules it may be compared with."""
_FOR_ALL: Final = b"User-agent: *\n"


def _check_sets(groups: Sequence[Sequence[Line]], tokens: dict[bytes, list[int]], findings: Findings) -> None:
    """Check every set of rules that binds some token.

    Args:
        groups: the Allow and Disallow lines of each group.
        tokens: for each token, the numbers of the groups that name it.
        findings: where findings are added.
    """
    rules_left = max(_MIN_RULES_CHECKED, _SETS_PER_RULE * sum(map(len, groups)))
    bytes_left = _MAX_BYTES_COMPARED
    reported: set[int] = set()
    for numbers in dict.fromkeys(tuple(dict.fromkeys(numbers)) for numbers in tokens.values()):
        rules_left -= sum(len(groups[number]) for number in numbers)
        if rules_left < 0:
            return
        rules = _RuleSet([line for number in numbers for line in groups[number]])
        rules.check_repetitions(findings, reported)
        bytes_left -= rules.bytes_compared
        if bytes_left >= 0:
            rules.check_decisions(findings, reported)


class _RuleSet:
    """The rules that bind one token together."""

    def __init__(self, lines: Sequence[Line]) -> None:
        lines = [line for line in lines if line.value.startswith((b"/", b"*"))]
        robots = RobotsTxt.parse(_FOR_ALL + b"\n".join(line.content for line in lines))
        self._together = robots.rules("*")
        self._rules = list(zip(lines, robots.groups[0].rules, strict=True))

    @property
    def bytes_compared(self) -> int:
        """How many bytes the matcher may have to look at."""
        wildcards = sum("*" in rule.path_pattern for _, rule in self._rules)
        return sum(len(rule.path_pattern) for _, rule in self._rules) * (1 + wildcards)

    def check_repetitions(self, findings: Findings, reported: set[int]) -> None:
        """Find repeated rules, and rules that an equal rule of the other kind contradicts."""
        first: dict[tuple[RuleKind, str], Line] = {}
        for line, rule in self._rules:
            earlier = first.setdefault((rule.kind, pattern_units(rule.path_pattern)[0]), line)
            if earlier is not line and line.number not in reported:
                reported.add(line.number)
                findings.add(FindingCode.DUPLICATE_RULE, line, related_line=earlier.number)
        for (kind, pattern), line in first.items():
            allow = first.get((RuleKind.ALLOW, pattern))
            if kind is RuleKind.DISALLOW and allow is not None and line.number not in reported:
                reported.add(line.number)
                findings.add(FindingCode.CONTRADICTED_RULE, line, related_line=allow.number)

    def check_decisions(self, findings: Findings, reported: set[int]) -> None:
        """Find rules that never decide, and rules that some crawlers never reach."""
        for line, rule in self._rules:
            path = rule.path_pattern.removesuffix("$")
            # A pattern with a wildcard names many paths, and one of them says nothing about the others.
            if line.number in reported or "*" in path or not path.startswith("/"):
                continue
            decision = self._together.decide_units(target_units(path))
            if _never_decides(rule, decision):
                reported.add(line.number)
                findings.add(FindingCode.NEVER_DECIDES, line, related_line=self._line_of(decision.rule))
            elif _stands_below_loser(rule, decision) and self._line_of(decision.opposing) not in reported:
                reported.add(line.number)
                findings.add(FindingCode.ORDER_MATTERS, line, related_line=self._line_of(decision.opposing))

    def _line_of(self, rule: Rule | None) -> int | None:
        return None if rule is None else self._rules[rule.line - self._rules[0][1].line][0].number


def _never_decides(rule: Rule, decision: Decision) -> bool:
    """Whether another rule decides the path that this rule names, and every path that begins with it."""
    winner = decision.rule
    if winner is None or winner.kind is rule.kind:
        return False
    return rule.path_pattern.endswith("$") or not winner.path_pattern.endswith("$")


def _stands_below_loser(rule: Rule, decision: Decision) -> bool:
    """Whether this rule decides, but a shorter one of the other kind stands above it."""
    if decision.rule is None or decision.opposing is None:
        return False
    return decision.rule.line == rule.line and decision.opposing.line < rule.line
