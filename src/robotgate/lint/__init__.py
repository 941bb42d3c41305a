"""Lint for robots.txt: the lines that some crawlers read differently from what their author probably meant.

`lint` returns findings; `table` holds everything that a finding can say.
"""

from robotgate.lint.findings import Finding
from robotgate.lint.lint import lint
from robotgate.lint.table import FindingCode, Severity

__all__ = ["Finding", "FindingCode", "Severity", "lint"]
