# ruff: noqa: INP001 - a tool beside the page it writes, no package.
"""Writes docs/lint.md from lint's `CHECKS`: run ``python docs/_lint_table.py > docs/lint.md``."""

from __future__ import annotations

import sys
from typing import Final

from robotgate import Severity
from robotgate.lint.table import CHECKS

INTRODUCTION: Final = """\
# What lint finds

`robotgate lint robots.txt` (or a URL) lists the lines that some crawlers read differently from what their author meant,
and what to write instead; `robotgate.lint(body)` returns the same as values. `python docs/_lint_table.py` prints this
page from the table that the code runs.

The codes are stable. Exit status: 0 when no file has errors, 1 when any has, 2 when any cannot be read. Of each kind,
at most a hundred lines are listed; the rest are counted.

Not checked: how a file is served (its type, its status, redirects), and whether its rules are wise. Of a URL, no more
is fetched than is read: `file-too-large` is found in files only.
"""
MEANINGS: Final = {
    Severity.ERROR: "Crawlers that follow RFC 9309, or that know the field at all, read the line differently.",
    Severity.WARNING: "Some crawlers that are in use read the line differently.",
    Severity.INFO: "Only old or rare crawlers read the line differently.",
}
HEADINGS: Final = {Severity.ERROR: "Errors", Severity.WARNING: "Warnings", Severity.INFO: "Infos"}


def lint_page() -> str:
    """The page, as Markdown."""
    return INTRODUCTION + "".join(
        f"\n## {HEADINGS[severity]}\n\n{MEANINGS[severity]}\n\n{_rows(severity)}" for severity in Severity
    )


def _rows(severity: Severity) -> str:
    lines = [("code", "problem", "RFC 9309", "instead"), ("---",) * 4]
    lines += [
        (f"`{code.value}`", check.message, check.rfc9309, check.remedy)
        for code, check in CHECKS.items()
        if check.severity is severity
    ]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


if __name__ == "__main__":
    sys.stdout.write(lint_page())
