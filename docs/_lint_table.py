"""Writes docs/lint.md from lint's `FindingCode`: run ``python docs/_lint_table.py > docs/lint.md``."""

from __future__ import annotations

import sys
from typing import Final

from robotgate.lint import FindingCode, Severity

INTRODUCTION: Final = """\
# What `robotgate lint` finds

`robotgate lint robots.txt` (or a URL) finds lines that crawlers read differently from what their author meant. It
prints at most 100 of each kind, with what RFC 9309 says and what to write instead. `robotgate.lint.lint(body)` returns
the same as values. The exit status is 1 with errors, 2 if a file cannot be read, else 0. Codes are stable.
"""
MEANINGS: Final = {
    Severity.ERROR: "All crawlers that follow RFC 9309 or know the field read the line differently.",
    Severity.WARNING: "Some crawlers in use today read it differently.",
    Severity.INFO: "Only old or rare crawlers read it differently.",
}
HEADINGS: Final = {
    Severity.ERROR: "Errors",
    Severity.WARNING: "Warnings",
    Severity.INFO: "Infos",
}


def lint_page() -> str:
    """The page, as Markdown."""
    return INTRODUCTION + "".join(
        f"\n## {HEADINGS[severity]}\n\n{MEANINGS[severity]}\n\n{_items(severity)}"
        for severity in Severity
    )


def _items(severity: Severity) -> str:
    checks = {
        code.value: code.check for code in FindingCode if code.check.severity is severity
    }
    return "".join(
        f"- **`{code}`** {check.message[0].upper()}{check.message[1:]}.\n"
        for code, check in checks.items()
    )


if __name__ == "__main__":
    sys.stdout.write(lint_page())
