r"""Lint: every line of a robots.txt that some crawler reads otherwise than its author meant.

>>> print(*lint(b"User-agent: *\nDisallow /private\n"))
line 2: error: there is no colon after the field name [missing-colon]

What can be said stands in `_lint_table`. Time and memory are linear in the file, and findings few enough to be read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from robotgate._lines import MAX_BYTES
from robotgate._lint_fields import PACES
from robotgate._lint_findings import Findings
from robotgate._lint_lines import RULES, Kind, Lines, marks, plain_line
from robotgate._lint_rules import check_sets
from robotgate._lint_table import FindingCode
from robotgate._lint_values import check_line, token_of
from robotgate._urls import Origin

if TYPE_CHECKING:
    from robotgate._lint_findings import Finding
    from robotgate._lint_lines import Line

_UTF_16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
_HEAD_OCTETS: Final = 40
_BARE_CR: Final = re.compile(rb"\r(?!\n)")
_HTML: Final = re.compile(rb"\s*<(?:!doctype|html|head|body|\?xml|!--|script)", re.IGNORECASE)


def lint(body: bytes, url: str | None = None) -> tuple[Finding, ...]:
    """Find what is wrong with a robots.txt, line by line; nothing, if nothing is. No body makes it raise.

    Args:
        body: the file as it is served: any bytes will do.
        url: any URL of the origin whose file this is; with it, more can be said of what to write instead.

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
        if line.octets:
            check_line(line, site, findings)
        groups.read(line)
    groups.finish()
    return findings.all()


def _is_utf_16(body: bytes) -> bool:
    if body.startswith(_UTF_16_MARKS):
        return True
    head = body[:_HEAD_OCTETS]
    return len(head) >= _HEAD_OCTETS and any(not any(head[first::2]) for first in (0, 1)) and any(head)


def _check_file(body: bytes, text: bytes, findings: Findings) -> None:
    if len(body) > MAX_BYTES:
        count = len(text.splitlines())
        rest = body[marks(body) + len(text) :].lstrip(b"\r\n")[:_HEAD_OCTETS]
        findings.add(FindingCode.FILE_TOO_LARGE, plain_line(count + 1, (rest.splitlines() or [b""])[0]))
    if marks(body):
        findings.add(FindingCode.BYTE_ORDER_MARK, plain_line(1, (text.splitlines() or [b""])[0]), (0, 0))
    bare = _BARE_CR.search(text)
    if bare is not None:
        before = text[: bare.start()].splitlines() or [b""]
        findings.add(FindingCode.BARE_CR, plain_line(len(before), before[-1]), (len(before[-1]),) * 2)


class _Groups:
    """The groups as the parser makes them, and where others would make other ones."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._rules: list[list[Line]] = []
        self._named_in: dict[bytes, list[int]] = {}
        self._first_named: dict[bytes, Line] = {}
        self._parted: list[tuple[FindingCode, Line, int]] = []
        """What may make others part this group, told once it turns out to have rules."""
        self._between: Line | None = None
        self._delay: Line | None = None
        self._last: Line | None = None
        self._after_blank = False

    def read(self, line: Line) -> None:
        """Take in the next line."""
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
        """Take the file as ended."""
        self._end_group()
        self._check_last_group()
        check_sets(self._rules, self._named_in, self._findings)

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
        """Only the last group can be without rules: another would be one with the next."""
        everybody = self._named_in.get(b"*", [])
        if not any(self._rules[number] for number in everybody):
            return
        for token, numbers in self._named_in.items():
            if numbers == [len(self._rules) - 1] and not self._rules[-1]:
                self._findings.add(FindingCode.GROUP_WITHOUT_RULES, self._first_named[token])
