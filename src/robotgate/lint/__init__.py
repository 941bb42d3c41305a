"""Lint for robots.txt: the lines that some crawlers read differently from what their author probably meant.

`lint` returns findings; `FindingCode` holds everything that a finding can say.
"""

from robotgate.lint.findings import Finding, FindingCode, Severity
from robotgate.lint.lint import lint

__all__ = ["Finding", "FindingCode", "Severity", "lint"]
