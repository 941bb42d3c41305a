"""A finding, and the collection of all findings of one file, sorted and limited."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Final

from robotgate.lint.table import FindingCode, Severity

if TYPE_CHECKING:
    from robotgate.lint.lines import Line

_BYTES_BEFORE: Final = 60
"""How much of a long line is shown before the place that a finding is about."""
_BYTES_SHOWN: Final = 160
_MAX_SUGGESTED_BYTES: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A line that some crawlers read differently from what its author probably meant."""

    code: FindingCode
    line: int
    """The line's number in the file, from 1."""
    column: int
    """Where in the line the finding begins: bytes, from 1."""
    text: str
    """The line, or the part of a long line around the place; unprintable characters are spelt out."""
    start: int
    """``text[start:end]`` is the place that the finding is about."""
    end: int
    suggestion: str | None = None
    """The line to write instead, if lint knows one; `remedy` gives advice in any case."""
    related_line: int | None = None
    """The number of another line that the finding refers to."""
    further_lines: int = 0
    """On the last finding of its kind: how many more lines have the same problem and no finding of their own."""

    @property
    def severity(self) -> Severity:
        """How severe the problem is."""
        return self.code.check.severity

    @property
    def message(self) -> str:
        """The problem, as a phrase."""
        return self.code.check.message

    @property
    def rfc9309(self) -> str:
        """What RFC 9309 says about such a line."""
        return self.code.check.rfc9309

    @property
    def remedy(self) -> str:
        """What to write instead."""
        return self.code.check.remedy

    def __str__(self) -> str:
        return f"line {self.line}: {self.severity.value}: {self.message} [{self.code.value}]"


class Findings:
    """Collects findings. It keeps as many of each kind as the table says, and counts the rest."""

    def __init__(self) -> None:
        self._kept: defaultdict[tuple[FindingCode, str], list[Finding]] = defaultdict(list)
        self._further: Counter[tuple[FindingCode, str]] = Counter()

    def add(
        self,
        code: FindingCode,
        line: Line,
        span: tuple[int, int] | None = None,
        *,
        suggestion: bytes | None = None,
        related_line: int | None = None,
        kind: str = "",
    ) -> None:
        """Add a finding.

        Args:
            code: the kind of problem.
            line: the line that has it.
            span: the place within `Line.raw`; by default the line's content.
            suggestion: the line to write instead; dropped unless it is short printable text.
            related_line: the number of another line that the finding refers to.
            kind: findings of one code but different kinds are counted separately. There must be few kinds.
        """
        kept = self._kept[code, kind]
        if len(kept) >= code.check.most:
            self._further[code, kind] += 1
            return
        at, end = line.content_span if span is None else span
        text, start, end = _excerpt(line.raw, at, max(at, end))
        write = None if suggestion is None else _line_to_write(suggestion)
        finding = Finding(code=code, line=line.number, column=at + 1, text=text, start=start, end=end)
        kept.append(replace(finding, suggestion=write, related_line=related_line))

    def all(self) -> tuple[Finding, ...]:
        """All findings, sorted by line and column."""
        ranks = {code: rank for rank, code in enumerate(FindingCode)}
        for key, further in self._further.items():
            self._kept[key][-1] = replace(self._kept[key][-1], further_lines=further)
        found = chain.from_iterable(self._kept.values())
        return tuple(sorted(found, key=lambda each: (each.line, each.column, ranks[each.code])))


def _excerpt(raw: bytes, start: int, end: int) -> tuple[str, int, int]:
    """The text to show of a line, and where in that text the place begins and ends."""
    first = 0 if len(raw) <= _BYTES_SHOWN else max(0, start - _BYTES_BEFORE)
    last = min(len(raw), first + _BYTES_SHOWN)
    before = ("…" if first else "") + _printable(raw[first : min(start, last)])
    place = _printable(raw[min(start, last) : min(end, last)])
    after = _printable(raw[min(end, last) : last]) + ("…" if last < len(raw) else "")
    return before + place + after, len(before), len(before) + len(place)


def _line_to_write(suggestion: bytes) -> str | None:
    # What is not UTF-8 becomes lone surrogates, which are not printable.
    text = suggestion.decode(errors="surrogateescape")
    return text if len(suggestion) <= _MAX_SUGGESTED_BYTES and text.isprintable() else None


def _printable(raw: bytes) -> str:
    """Bytes as text without control characters: they could control a terminal."""
    text = raw.decode(errors="backslashreplace").replace("\t", " ")
    return "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in text)
