"""Two reports side by side: ``python -m benchmarks.compare BEFORE NOW``, files that ``--json`` of benchmarks has kept.

Of each goal that both have, the median before and now. Without BEFORE, as on the first run, what is there now. A figure
that is off its old one by a fifth or more is marked; what it means is for people to say, who know how busy the machine
was.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks._report import goals_as_markdown, read_report, shown

if TYPE_CHECKING:
    from benchmarks._report import Report

NOISE: Final = 0.2
"""The part of a figure that it may be off without a mark."""


def compared(before: Report, now: Report) -> str:
    """A line for each goal that both reports have."""
    old = {goal.text: statistics.median(goal.figure) for goal in before.goals}
    lines = ["| goal | before | now | now / before |", "|---|---:|---:|---:|"]
    for goal in now.goals:
        if goal.text in old:
            was, is_now = old[goal.text], statistics.median(goal.figure)
            change = is_now / was
            mark = "**" if abs(change - 1) >= NOISE else ""
            figures = f"{shown(was, None)} | {shown(is_now, None)} | {mark}{change:.2f}{mark}"
            lines.append(f"| {goal.text} | {figures} |")
    return "\n".join(lines)


def main() -> None:
    """Print them."""
    before, now = (Path(name) for name in sys.argv[1:])
    report = read_report(now)
    print(compared(read_report(before), report) if before.exists() else goals_as_markdown(report.goals))


if __name__ == "__main__":
    main()
