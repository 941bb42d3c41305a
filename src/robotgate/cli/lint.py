"""``robotgate lint``: what is wrong with a robots.txt on disk or on a site."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Unpack

import click
from rich.cells import cell_len
from rich.text import Text

from robotgate import FindingCode, Outcome, RobotGateError, Severity
from robotgate import lint as lint_body
from robotgate.cli import common, output

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from robotgate import Finding, RobotGate, RobotsRecord

_STYLES: Final = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_COLUMNS: Final = (
    *("line", "column", "severity", "code", "message", "text", "start", "end"),
    *("suggestion", "remedy", "rfc9309", "related_line", "further_lines"),
)
"""The attributes of a `Finding` that a JSON row has, in its order."""
_INDENT: Final = " " * 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result for one robots.txt."""

    source: str
    """The file or URL, as it was given."""
    findings: tuple[Finding, ...] = ()
    problem: str | None = None
    """Why it could not be read."""

    @property
    def exit(self) -> int:
        """The exit status for this one alone."""
        if self.problem is not None:
            return 2
        return 1 if any(finding.severity is Severity.ERROR for finding in self.findings) else 0


@click.command(cls=common.Command, short_help="Find what is wrong with robots.txt files.")
@click.argument("sources", metavar="FILE|URL...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print one row of JSON for each finding.")
@click.option(
    "--ignore",
    "ignored",
    metavar="CODE",
    multiple=True,
    type=click.Choice([code.value for code in FindingCode]),
    help="Leave out findings of this code, such as missing-colon. May be given several times.",
)
@common.gate_options(contact_note=" Needed for URLs only.")
@common.store_options
def lint(
    *,
    sources: tuple[str, ...],
    as_json: bool,
    ignored: tuple[str, ...],
    store_path: str | None,
    no_store: bool,
    **options: Unpack[common.GateOptions],
) -> None:
    """Find what is wrong with robots.txt files, line by line, and what to write instead.

    A FILE of - is standard input. Of a URL, the /robots.txt of its site is read, as much of it as crawlers read: the
    stored copy, if it has not expired.

    Findings that are information only are counted; -v shows them. --json has all of them.

    Exit status: 0 when no file has errors (warnings do not count), 1 when any has, 2 when any cannot be read, or for
    wrong usage.
    """
    urls = list(dict.fromkeys(source for source in sources if _is_url(source)))
    online: dict[str, Report] = {}
    if urls:
        store = common.store_of(store_path, no_store=no_store)
        found = common.run_with_gate(store, lambda gate: _lint_online(gate, urls), options)
        online = {report.source: report for report in found}
    reports = [online.get(source) or _lint_file(source) for source in sources]
    reports = [_without(report, ignored) for report in reports]
    if as_json:
        for row in _rows(reports):
            output.line(json.dumps(row))
    else:
        _show(output.console(), reports, has_infos=common.verbosity() > 0)
    raise SystemExit(max(report.exit for report in reports))


def _without(report: Report, codes: Collection[str]) -> Report:
    """Return a report without the findings of some codes."""
    return replace(report, findings=tuple(each for each in report.findings if each.code.value not in codes))


def _is_url(source: str) -> bool:
    return source.lower().startswith(("http://", "https://"))


def _lint_file(source: str) -> Report:
    try:
        with click.open_file(source, "rb") as file:
            return Report(source=source, findings=lint_body(file.read(common.MAX_ROBOTS_BYTES)))
    except OSError as error:
        return Report(source=source, problem=f"cannot be read: {error.strerror}")


async def _lint_online(gate: RobotGate, urls: Iterable[str]) -> list[Report]:
    async def linted(url: str) -> Report:
        try:
            record = await gate.robots(url)
        except RobotGateError as error:
            return Report(source=url, problem=output.problem_of(error))
        if record.outcome is not Outcome.SUCCESS:
            return Report(source=url, problem=_problem(record))
        return Report(source=url, findings=lint_body(record.body, url))

    return await asyncio.gather(*map(linted, urls))


def _problem(record: RobotsRecord) -> str:
    status = "" if record.status is None else f", status {record.status}"
    cause = "" if record.cause is None else f": {output.in_plain_words(record.cause)}"
    # A stored record may have been imported, and hold any text.
    return output.printable(f"{record.robots_url or record.origin.robots_url} cannot be read{status}{cause}")


def _rows(reports: Iterable[Report]) -> Iterator[dict[str, str | int | None]]:
    """One row for each finding, and one for each file that could not be read."""
    for report in reports:
        if report.problem is not None:
            yield {"source": report.source, "problem": report.problem}
        for finding in report.findings:
            values = {name: getattr(finding, name) for name in _COLUMNS}
            names = {"severity": finding.severity.value, "code": finding.code.value}
            yield {"source": report.source, **values, **names}


def _show(screen: output.Screen, reports: Iterable[Report], *, has_infos: bool) -> None:
    """A heading for each file, a paragraph for each finding, and the counts."""
    for number, report in enumerate(reports):
        if number:
            screen.print()
        screen.paragraph(Text(output.printable(report.source), style="bold"))
        if report.problem is not None:
            problem = output.printable(report.problem)
            screen.paragraph(Text.assemble(("not read", "magenta"), f"  {problem}"), indent=2)
            continue
        explained: set[FindingCode] = set()
        shown = [each for each in report.findings if has_infos or each.severity is not Severity.INFO]
        for finding in shown:
            screen.print()
            _show_finding(screen, finding, is_first=finding.code not in explained)
            explained.add(finding.code)
        if shown:
            screen.print()
        screen.paragraph(_total(report.findings, is_whole=len(shown) == len(report.findings)))


def _show_finding(screen: output.Screen, finding: Finding, *, is_first: bool) -> None:
    style = _STYLES[finding.severity]
    headline = (
        (finding.severity.value, f"bold {style}"),
        f"  {output.printable(finding.message)}  ",
        (f"[{finding.code.value}]", "dim"),
    )
    screen.paragraph(Text.assemble(*headline), indent=2)
    text, start, end = finding.text, finding.start, finding.end
    if screen.folds:
        text, start, end = _window(finding, screen.width - len(_INDENT))
    before, marked, rest = map(output.printable, (text[:start], text[start:end], text[end:]))
    line = Text.assemble((f"  {finding.line:>5}  ", "dim"), before, (marked, "reverse"), rest)
    # The caret shows the place where there are no colours, as in a file or a pipe.
    caret = Text(_INDENT + " " * cell_len(before) + "^" * max(1, cell_len(marked)), style)
    output.print_excerpt(screen, (line, caret))
    for word, remark, remark_style in _remarks(finding, is_first=is_first):
        told = Text.assemble((f"{_INDENT}{word:<10}", "dim"), (output.printable(remark), remark_style))
        screen.paragraph(told, indent=len(_INDENT) + 10)


def _window(finding: Finding, width: int) -> tuple[str, int, int]:
    """Return the part of a finding's line that fits, with the marked place in it: its text, and the place's ends."""
    text, start, end = finding.text, finding.start, finding.end
    if cell_len(text) <= width or cell_len(text[:end]) <= width:
        return text, start, end
    first = max(0, min(start, end - width // 2) - width // 8)
    return f"...{text[first:]}", start - first + 3, end - first + 3


def _remarks(finding: Finding, *, is_first: bool) -> Iterator[tuple[str, str, str]]:
    if finding.suggestion is not None:
        yield "write", finding.suggestion, "green"
    if finding.related_line is not None:
        yield "see", f"line {finding.related_line}", ""
    if finding.further_lines:
        yield "and", f"{output.counted(finding.further_lines, 'more line')} like it", ""
    if is_first:
        yield "instead", finding.remedy, ""
        yield "RFC 9309", finding.rfc9309, ""


def _total(findings: tuple[Finding, ...], *, is_whole: bool) -> Text:
    if not findings:
        return Text("no findings", style="green")
    counts = Counter[Severity]()
    for finding in findings:
        counts[finding.severity] += 1 + finding.further_lines
    errors, warnings, infos = (counts[severity] for severity in Severity)
    # "info" has no plural.
    hidden = "" if is_whole else " (-v shows it)"
    return Text(
        f"{output.counted(errors, 'error')}, {output.counted(warnings, 'warning')}, {infos} info{hidden}"
    )
