"""Shows what ``robotgate check`` found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from robotgate.cli._check import Exit, Finding
from robotgate.cli._rows import with_our_options
from robotgate.cli._text import moment, printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from robotgate import Verdict
    from robotgate.cli._check import Line

_STYLES: Final = {Exit.ALLOWED: "green", Exit.DISALLOWED: "red", Exit.NO_ANSWER: "magenta"}
_WORDS: Final = {Exit.ALLOWED: "allowed", Exit.DISALLOWED: "disallowed", Exit.NO_ANSWER: "no answer"}


def show(console: Console, findings: Iterable[Finding]) -> None:
    """Print the findings, a paragraph each."""
    for number, finding in enumerate(findings):
        if number:
            console.print()
        for line in _paragraph(finding):
            console.print(line, soft_wrap=True)
        for line in _excerpt(finding.lines):
            # Cut to a terminal's width, else whole: a program may be reading.
            console.print(line, no_wrap=True, overflow="ellipsis", soft_wrap=not console.is_terminal)


def _paragraph(finding: Finding) -> list[Text]:
    answer = Text.assemble((_WORDS[finding.exit], f"bold {_STYLES[finding.exit]}"), "  ", finding.url)
    if finding.verdict is None:
        return [answer, Text(f"  {finding.problem}")]
    paragraph = [answer, Text(f"  {_reason(finding.verdict)}")]
    remarks = _remarks(finding.verdict, finding.kept_since)
    return paragraph + [Text(f"  {printable(remark)}", style="dim") for remark in remarks]


def _reason(verdict: Verdict) -> str:
    if verdict.rule is not None:
        whose = ", ".join(verdict.group)
        return f"{verdict.reason.value}, line {verdict.rule.line}, in the group of {whose}"
    cause = f": {with_our_options(verdict.cause)}" if verdict.cause else ""
    # What is kept may have been brought here from anywhere.
    return printable(verdict.reason.value + cause)


def _remarks(verdict: Verdict, kept_since: float | None) -> list[str]:
    remarks = []
    if verdict.robots_url is not None:
        status = f", status {verdict.status}" if verdict.status is not None else ""
        stale = ", stale" if verdict.stale else ""
        remarks.append(f"{verdict.robots_url}{status}{_read(verdict, kept_since)}{stale}")
    remarks += [f"redirected from {url}" for url in verdict.redirects]
    if verdict.opposing is not None:
        remarks.append(f"against line {verdict.opposing.line}: {verdict.opposing}")
    remarks += [f"mind: {warning}" for warning in verdict.warnings]
    if verdict.crawl_delay is not None:
        remarks.append(f"Crawl-delay: {verdict.crawl_delay:g} s")
    if verdict.retry_after is not None:
        remarks.append(f"asked again in {verdict.retry_after:.0f} s at the earliest")
    return remarks


def _read(verdict: Verdict, kept_since: float | None) -> str:
    if kept_since is not None:
        return f", kept since {moment(kept_since)}"
    return "" if verdict.fetched_at is None else f", read {moment(verdict.fetched_at)}"


def _excerpt(lines: Iterable[Line]) -> list[Text]:
    excerpt: list[Text] = []
    last = None
    for line in lines:
        if last is None or line.number > last + 1:
            excerpt.append(Text("        ..." if last is not None else "", style="dim"))
        mark = ">" if line.is_deciding else " "
        style = "bold reverse" if line.is_deciding else ""
        excerpt.append(Text.assemble(f"  {mark} ", (f"{line.number:>5}", "dim"), "  ", (line.text, style)))
        last = line.number
    return excerpt
