# ruff: noqa: INP001 - a tool beside the page it writes, no package.
"""Writes docs/lint.md from lint's `CHECKS`: run ``python docs/_lint_table.py > docs/lint.md``."""

from __future__ import annotations

import sys
from typing import Final

from robotgate import Severity
from robotgate._lint_table import CHECKS

INTRODUCTION: Final = """\
# What lint finds

`robotgate lint robots.txt` (or a URL) tells of every line that some crawler reads otherwise than its author meant, and
what to write instead; `robotgate.lint(body)` gives the same as values. This page is printed by
`python docs/_lint_table.py` from the very table that the code runs.

The codes are stable. Exit status: 0 when no file has errors, 1 when any has, 2 when any cannot be read. Of each kind, a
hundred lines are told of one by one, or fewer where that is enough to know; the rest are counted.

Not looked at: how a file is served (its type, its status, redirects), and whether what it says is wise. Of a URL, no
more is fetched than is read: `file-too-large` is found in files only.
"""
MEANINGS: Final = {
    Severity.ERROR: "Whoever follows RFC 9309, or whoever knows the field at all, reads the line otherwise.",
    Severity.WARNING: "Some crawlers that are in use read the line otherwise.",
    Severity.INFO: "Only readers of old do, or crawlers that are few; good to know all the same.",
}
HEADINGS: Final = {Severity.ERROR: "Errors", Severity.WARNING: "Warnings", Severity.INFO: "Infos"}


def lint_page() -> str:
    """The page, as Markdown."""
    return INTRODUCTION + "".join(
        f"\n## {HEADINGS[severity]}\n\n{MEANINGS[severity]}\n\n{_rows(severity)}" for severity in Severity
    )


def _rows(severity: Severity) -> str:
    lines = [("code", "what is the matter", "RFC 9309", "instead"), ("---",) * 4]
    lines += [
        (f"`{code.value}`", check.message, check.rfc9309, check.remedy)
        for code, check in CHECKS.items()
        if check.severity is severity
    ]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


if __name__ == "__main__":
    sys.stdout.write(lint_page())
