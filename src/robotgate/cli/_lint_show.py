"""Shows what ``robotgate lint`` found: to a person, or as rows of JSON."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.text import Text

from robotgate import FindingCode, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import Console

    from robotgate import Finding
    from robotgate.cli._lint import Report

_STYLES: Final = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_INDENT: Final = " " * 9


def show(console: Console, reports: Iterable[Report]) -> None:
    """Print the reports: a heading each, a paragraph for each finding, and how many there are."""
    for number, report in enumerate(reports):
        if number:
            console.print()
        console.print(Text(report.source, style="bold"), soft_wrap=True)
        if report.problem is not None:
            console.print(Text.assemble(("not read", "magenta"), f"  {report.problem}"), soft_wrap=True)
            continue
        explained: set[FindingCode] = set()
        for finding in report.findings:
            _show_finding(console, finding, is_first=finding.code not in explained)
            explained.add(finding.code)
        console.print(_total(report.findings), soft_wrap=True)


def _show_finding(console: Console, finding: Finding, *, is_first: bool) -> None:
    console.print()
    console.print(_headline(finding), soft_wrap=True)
    for line in _excerpt(finding):
        # Cut to a terminal's width, else whole: a program may be reading.
        console.print(line, no_wrap=True, overflow="ellipsis", soft_wrap=not console.is_terminal)
    for remark in _remarks(finding, is_first=is_first):
        console.print(remark, soft_wrap=True)


def _headline(finding: Finding) -> Text:
    return Text.assemble(
        (finding.severity.value, f"bold {_STYLES[finding.severity]}"),
        f"  {finding.message}  ",
        (f"[{finding.code.value}]", "dim"),
    )


def _excerpt(finding: Finding) -> list[Text]:
    before, place = finding.text[: finding.start], finding.text[finding.start : finding.end]
    line = Text.assemble(
        (f"  {finding.line:>5}  ", "dim"), before, (place, "reverse"), finding.text[finding.end :]
    )
    # Colours say the same where there are any, and nothing in a file or a pipe.
    caret = Text(_INDENT + " " * cell_len(before) + "^" * max(1, cell_len(place)), _STYLES[finding.severity])
    return [line, caret]


def _remarks(finding: Finding, *, is_first: bool) -> Iterator[Text]:
    if finding.suggestion is not None:
        yield Text.assemble((f"{_INDENT}write     ", "dim"), (finding.suggestion, "green"))
    if finding.related_line is not None:
        yield Text.assemble((f"{_INDENT}see       ", "dim"), f"line {finding.related_line}")
    if finding.further_lines:
        lines = "line" if finding.further_lines == 1 else "lines"
        yield Text.assemble((f"{_INDENT}and       ", "dim"), f"{finding.further_lines} more {lines} like it")
    if is_first:
        yield Text.assemble((f"{_INDENT}instead   ", "dim"), finding.remedy)
        yield Text.assemble((f"{_INDENT}RFC 9309  ", "dim"), finding.rfc9309)


def _total(findings: tuple[Finding, ...]) -> Text:
    if not findings:
        return Text("nothing to say", style="green")
    counts = Counter[Severity]()
    for finding in findings:
        counts[finding.severity] += 1 + finding.further_lines
    return Text("\n" + ", ".join(_counted(counts[severity], severity.value) for severity in Severity))


def _counted(count: int, word: str) -> str:
    # "info" has no plural.
    return f"{count} {word}{'s' if count != 1 and word != Severity.INFO.value else ''}"


def rows(reports: Iterable[Report]) -> Iterator[dict[str, str | int | None]]:
    """One row of JSON for each finding, and one for each file that could not be read."""
    for report in reports:
        if report.problem is not None:
            yield {"source": report.source, "problem": report.problem}
        for finding in report.findings:
            yield {
                "source": report.source,
                "line": finding.line,
                "column": finding.column,
                "severity": finding.severity.value,
                "code": finding.code.value,
                "message": finding.message,
                "text": finding.text,
                "start": finding.start,
                "end": finding.end,
                "suggestion": finding.suggestion,
                "remedy": finding.remedy,
                "rfc9309": finding.rfc9309,
                "related_line": finding.related_line,
                "further_lines": finding.further_lines,
            }
