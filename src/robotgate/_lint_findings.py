"""One finding, and how findings are gathered: in order, and never more than a person could read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from robotgate._lint_table import CHECKS, FindingCode, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from robotgate._lint_lines import Line

_OCTETS_BEFORE: Final = 60
_OCTETS_SHOWN: Final = 160
_MAX_SUGGESTED_OCTETS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A line that some crawler reads otherwise than its author meant."""

    code: FindingCode
    line: int
    """The line's number in the file, from 1."""
    column: int
    """Where in the line it begins: octets, from 1."""
    text: str
    """The line, or what of a long one stands around the place; with what is no printable text spelt out."""
    start: int
    """``text[start:end]`` is what it is about."""
    end: int
    suggestion: str | None = None
    """The line to write instead, where it is known; `remedy` says what to do in any case."""
    related_line: int | None = None
    """The number of another line that has to do with it."""
    further_lines: int = 0
    """On the last finding of its kind: how many more lines have the same, without a finding of their own."""

    @property
    def severity(self) -> Severity:
        """How bad it is."""
        return CHECKS[self.code].severity

    @property
    def message(self) -> str:
        """What is the matter, in a sentence."""
        return CHECKS[self.code].message

    @property
    def rfc9309(self) -> str:
        """What RFC 9309 makes of it."""
        return CHECKS[self.code].rfc9309

    @property
    def remedy(self) -> str:
        """What to write instead."""
        return CHECKS[self.code].remedy

    def __str__(self) -> str:
        return f"line {self.line}: {self.severity.value}: {self.message} [{self.code.value}]"


class Findings:
    """Gathers findings. Of each kind it keeps as many as the table says and counts the rest."""

    __slots__ = ("_further", "_kept")

    def __init__(self) -> None:
        self._kept: dict[tuple[FindingCode, str], list[Finding]] = {}
        self._further: dict[tuple[FindingCode, str], int] = {}

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
        """Take one in.

        Args:
            span: what of the line's octets it is about; its content unless given.
            suggestion: the line to write instead; dropped if it is no line that one would type.
            kind: findings of one code, but of different kinds, are counted apart. There must be few kinds.
        """
        key = code, kind
        kept = self._kept.setdefault(key, [])
        if len(kept) >= CHECKS[code].most:
            self._further[key] = self._further.get(key, 0) + 1
            return
        start, end = line.content_span if span is None else span
        text, shown_start, shown_end = _excerpt(line.octets, start, max(start, end))
        kept.append(
            Finding(
                code=code,
                line=line.number,
                column=start + 1,
                text=text,
                start=shown_start,
                end=shown_end,
                suggestion=None if suggestion is None else _line_to_write(suggestion),
                related_line=related_line,
            )
        )

    def all(self) -> tuple[Finding, ...]:
        """All, by line and place."""
        ranks = list(FindingCode)
        found = sorted(
            self._counted(), key=lambda finding: (finding.line, finding.column, ranks.index(finding.code))
        )
        return tuple(found)

    def _counted(self) -> Iterator[Finding]:
        for key, kept in self._kept.items():
            yield from kept[:-1]
            yield replace(kept[-1], further_lines=self._further.get(key, 0))


def _excerpt(octets: bytes, start: int, end: int) -> tuple[str, int, int]:
    """What is shown of a line: around the place, and the place within it."""
    first = 0 if len(octets) <= _OCTETS_SHOWN else max(0, start - _OCTETS_BEFORE)
    last = min(len(octets), first + _OCTETS_SHOWN)
    before = ("…" if first else "") + _shown(octets[first : min(start, last)])
    place = _shown(octets[min(start, last) : min(end, last)])
    after = _shown(octets[min(end, last) : last]) + ("…" if last < len(octets) else "")
    return before + place + after, len(before), len(before) + len(place)


def _line_to_write(octets: bytes) -> str | None:
    try:
        text = octets[: _MAX_SUGGESTED_OCTETS + 1].decode()
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() and len(octets) <= _MAX_SUGGESTED_OCTETS else None


def _shown(octets: bytes) -> str:
    """A piece of a file as text that cannot steer the terminal it is shown on."""
    text = octets.decode(errors="backslashreplace")
    return text if text.isprintable() else "".join(map(_shown_character, text))


def _shown_character(character: str) -> str:
    if character == "\t":
        return " "
    return character if character.isprintable() else f"\\u{ord(character):04x}"
