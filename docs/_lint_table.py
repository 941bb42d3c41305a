"""Writes docs/lint.md from lint's `CHECKS`: run ``python docs/_lint_table.py > docs/lint.md``."""

from __future__ import annotations

import re
import sys
from typing import Final

from robotgate import Severity
from robotgate.lint.table import CHECKS

INTRODUCTION: Final = """\
# What `robotgate lint` finds

Which lines of a robots.txt do crawlers read differently from what its author meant? `robotgate lint robots.txt` (or a
URL) lists them, with the section of RFC 9309 and what to write instead. `robotgate.lint(body)` returns the same as
values.

Codes are stable. The exit status is 0 without errors, 1 with errors, 2 if a file cannot be read. At most 100 lines
of each kind are listed. How a file is served is not checked.
"""
SECTION: Final = re.compile(r"§[\d.]*\d")
MEANINGS: Final = {
    Severity.ERROR: "Crawlers that follow RFC 9309, or that know the field at all, read the line differently.",
    Severity.WARNING: "Some crawlers that are in use read the line differently.",
    Severity.INFO: "Only old or rare crawlers read the line differently.",
}
HEADINGS: Final = {
    Severity.ERROR: "Errors",
    Severity.WARNING: "Warnings",
    Severity.INFO: "Infos",
}


def lint_page() -> str:
    """The page, as Markdown."""
    return INTRODUCTION + "".join(
        f"\n## {HEADINGS[severity]}\n\n{MEANINGS[severity]}\n\n{_rows(severity)}"
        for severity in Severity
    )


def _sections(text: str) -> str:
    """The sections of the RFC that a note names."""
    return ", ".join(dict.fromkeys(SECTION.findall(text)))


def _rows(severity: Severity) -> str:
    lines = [("code", "problem", "RFC 9309", "instead"), ("---",) * 4]
    lines += [
        (f"`{code.value}`", check.message, _sections(check.rfc9309), check.remedy)
        for code, check in CHECKS.items()
        if check.severity is severity
    ]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


if __name__ == "__main__":
    sys.stdout.write(lint_page())
