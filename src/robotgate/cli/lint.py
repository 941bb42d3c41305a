"""``robotgate lint``: what is wrong with a robots.txt on disk or on a site."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Unpack

import click
from rich.cells import cell_len
from rich.text import Text

from robotgate import Outcome, RobotGateError, Severity
from robotgate import lint as lint_body
from robotgate.cli import common, output

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import Console

    from robotgate import Finding, FindingCode, RobotGate, RobotsRecord

_STYLES: Final = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_COLUMNS: Final = (
    *("line", "column", "severity", "code", "message", "text", "start", "end"),
    *("suggestion", "remedy", "rfc9309", "related_line", "further_lines"),
)
"""The names of what is told of a finding, in the order of a JSON row."""
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


@click.command(cls=common.Command)
@click.argument("sources", metavar="FILE|URL...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print one row of JSON for each finding.")
@common.gate_options(contact_note=" Needed for URLs only.")
@common.store_options
def lint(
    *,
    sources: tuple[str, ...],
    as_json: bool,
    store_path: str | None,
    no_store: bool,
    **options: Unpack[common.GateOptions],
) -> None:
    """Find what is wrong with robots.txt files, line by line, and what to write instead.

    A FILE of - is standard input. Of a URL, the /robots.txt of its site is read, as much of it as crawlers read: the
    stored copy, if it has not expired.

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
    if as_json:
        for row in _rows(reports):
            click.echo(json.dumps(row))
    else:
        _show(output.console(), reports)
    raise SystemExit(max(report.exit for report in reports))


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
    cause = "" if record.cause is None else f": {output.with_cli_options(record.cause)}"
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


def _show(screen: Console, reports: Iterable[Report]) -> None:
    """A heading for each file, a paragraph for each finding, and the counts."""
    for number, report in enumerate(reports):
        if number:
            screen.print()
        screen.print(Text(output.printable(report.source), style="bold"), soft_wrap=True)
        if report.problem is not None:
            screen.print(Text.assemble(("not read", "magenta"), f"  {report.problem}"), soft_wrap=True)
            continue
        explained: set[FindingCode] = set()
        for finding in report.findings:
            screen.print()
            _show_finding(screen, finding, is_first=finding.code not in explained)
            explained.add(finding.code)
        screen.print(_total(report.findings), soft_wrap=True)


def _show_finding(screen: Console, finding: Finding, *, is_first: bool) -> None:
    style = _STYLES[finding.severity]
    headline = (
        (finding.severity.value, f"bold {style}"),
        f"  {finding.message}  ",
        (f"[{finding.code.value}]", "dim"),
    )
    screen.print(Text.assemble(*headline), soft_wrap=True)
    before, marked = finding.text[: finding.start], finding.text[finding.start : finding.end]
    rest = finding.text[finding.end :]
    line = Text.assemble((f"  {finding.line:>5}  ", "dim"), before, (marked, "reverse"), rest)
    # The caret shows the place where there are no colours, as in a file or a pipe.
    caret = Text(_INDENT + " " * cell_len(before) + "^" * max(1, cell_len(marked)), style)
    output.print_excerpt(screen, (line, caret))
    for word, remark, remark_style in _remarks(finding, is_first=is_first):
        screen.print(Text.assemble((f"{_INDENT}{word:<10}", "dim"), (remark, remark_style)), soft_wrap=True)


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


def _total(findings: tuple[Finding, ...]) -> Text:
    if not findings:
        return Text("no findings", style="green")
    counts = Counter[Severity]()
    for finding in findings:
        counts[finding.severity] += 1 + finding.further_lines
    errors, warnings, infos = (counts[severity] for severity in Severity)
    # "info" has no plural.
    return Text(f"\n{output.counted(errors, 'error')}, {output.counted(warnings, 'warning')}, {infos} info")
