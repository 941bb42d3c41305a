"""``robotgate lint``: what is wrong with a robots.txt on disk or on a site."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final

import click
from rich.cells import cell_len

from robotgate import RobotGate, RobotGateError
from robotgate.cli import common, output
from robotgate.cli.lists import read_whole
from robotgate.lint import Finding, FindingCode, Severity
from robotgate.lint import lint as lint_body
from robotgate.sites import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_STYLES: Final = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_COLUMNS: Final = (
    *("line", "column", "severity", "code", "message", "text", "start", "end"),
    *("suggestion", "remedy", "rfc9309", "related_line", "further_lines"),
)
"""The attributes of a `Finding` that a JSON row has, in its order."""
_INDENT: Final = 9
_LABEL_WIDTH: Final = 10


@click.command(cls=common.Command, short_help="Find what is wrong with robots.txt files.")
@click.argument("sources", metavar="FILE|URL...", nargs=-1, required=True)
@common.json_option
@click.option(
    "--ignore",
    "ignored",
    metavar="CODE",
    multiple=True,
    type=click.Choice([code.value for code in FindingCode]),
    help="Leave out findings of this code, such as missing-colon. May be given several times.",
)
@common.gate_options("Needed for URLs only.")
@common.store_options
async def lint(*, sources: tuple[str, ...], as_json: bool, ignored: tuple[str, ...], **_: object) -> int:
    """Find what is wrong with robots.txt files, line by line, and what to write instead.

    A FILE of - is standard input. Of a URL, the /robots.txt of its site is read, as much of it as crawlers read: the
    stored copy, if it has not expired.

    Findings that are information only are counted; -v shows them. --json has all of them.

    Exit status: 0 when no file has errors (warnings do not count), 1 when any has, 2 when any cannot be read, or for
    wrong usage.
    """
    urls = {source for source in sources if source.lower().startswith(("http://", "https://"))}
    bodies: dict[str, bytes | str] = {}
    if urls:
        async with common.opened_gate(common.store_of_options()) as gate:
            bodies = await _read_sites(gate, urls)
    screen, status = output.Screen(), 0
    for number, source in enumerate(sources):
        body = bodies[source] if source in urls else await _read_file(source)
        if number and not as_json:
            screen.print()
        if isinstance(body, str):
            status = 2
            if as_json:
                output.row({"source": source, "problem": body})
            else:
                screen.paragraph((source, "bold"))
                screen.paragraph(("not read", "magenta"), f"  {body}", indent=2)
            continue
        found = lint_body(body, source if source in urls else None)
        findings = [each for each in found if each.code.value not in ignored]
        if any(each.severity is Severity.ERROR for each in findings):
            status = max(status, 1)
        if as_json:
            for finding in findings:
                output.row({"source": source, **output.attributes(finding, *_COLUMNS)})
        else:
            _show(screen, source, findings, has_infos=common.verbosity() > 0)
    return status


async def _read_file(source: str) -> bytes | str:
    """Return a robots.txt, or why it cannot be read."""
    try:
        return await read_whole(source, max_bytes=common.MAX_ROBOTS_BYTES)
    except OSError as error:
        return f"cannot be read: {output.cause_of(error)}"


async def _read_sites(gate: RobotGate, urls: Iterable[str]) -> dict[str, bytes | str]:
    """Return the robots.txt of each URL, or why it cannot be read."""

    async def read(url: str) -> tuple[str, bytes | str]:
        try:
            record = await gate.robots(url)
        except RobotGateError as error:
            return url, output.problem_of(error)
        if record.outcome is Outcome.SUCCESS:
            return url, record.body
        status = "" if record.status is None else f", status {record.status}"
        cause = "" if record.cause is None else f": {output.in_plain_words(record.cause)}"
        return url, f"{record.robots_url or record.origin.robots_url} cannot be read{status}{cause}"

    return dict(await asyncio.gather(*map(read, urls)))


def _show(screen: output.Screen, source: str, findings: Sequence[Finding], *, has_infos: bool) -> None:
    """Print a heading, a paragraph for each finding, and the counts."""
    screen.paragraph((source, "bold"))
    explained: set[FindingCode] = set()
    shown = [each for each in findings if has_infos or each.severity is not Severity.INFO]
    for finding in shown:
        screen.print()
        _show_finding(screen, finding, is_first=finding.code not in explained)
        explained.add(finding.code)
    if shown:
        screen.print()
    screen.paragraph(_total(findings, is_whole=len(shown) == len(findings)))


def _show_finding(screen: output.Screen, finding: Finding, *, is_first: bool) -> None:
    style = _STYLES[finding.severity]
    code = (f"[{finding.code.value}]", "dim")
    screen.paragraph((finding.severity.value, f"bold {style}"), f"  {finding.message}  ", code, indent=2)
    text, start, end = finding.text, finding.start, finding.end
    width = screen.width - _INDENT
    if screen.folds and cell_len(text) > width and cell_len(text[:end]) > width:
        # Only a part fits, with the marked place in it.
        first = max(0, min(start, end - width // 2) - width // 8)
        text, start, end = f"…{text[first:]}", start - first + 1, end - first + 1
    before, marked, rest = map(output.printable, (text[:start], text[start:end], text[end:]))
    screen.excerpt((f"  {finding.line:>5}  ", "dim"), before, (marked, "reverse"), rest)
    # The caret shows the place where there are no colours, as in a file or a pipe.
    screen.excerpt((" " * (_INDENT + cell_len(before)) + "^" * max(1, cell_len(marked)), style))
    for word, remark, remark_style in _remarks(finding, is_first=is_first):
        label = (f"{'':{_INDENT}}{word:<{_LABEL_WIDTH}}", "dim")
        screen.paragraph(label, (remark, remark_style), indent=_INDENT + _LABEL_WIDTH)


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


def _total(findings: Sequence[Finding], *, is_whole: bool) -> output.Part:
    if not findings:
        return "no findings", "green"
    counts = Counter[Severity]()
    for finding in findings:
        counts[finding.severity] += 1 + finding.further_lines
    errors, warnings, infos = (counts[severity] for severity in Severity)
    # "info" has no plural.
    hidden = "" if is_whole else " (-v shows it)"
    return f"{output.counted(errors, 'error')}, {output.counted(warnings, 'warning')}, {infos} info{hidden}"
