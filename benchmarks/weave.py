"""Brings the pages and the plots to what the newest report in benchmarks/results says.

``python -m benchmarks.weave`` writes them; with ``--check`` it changes nothing, and fails with the name of each file
that says something else. Reports are named by their dates, so the newest is the last by name.

The page of tables is made of the report alone. On other pages, a comment marks the place of a figure, in the middle of
a line: ``<!-- figure gate.warm "robotgate" mean -->3.6<!-- end -->`` is one median, and ``over "Protego"`` after it
makes it the ratio to another row's. ``<!-- cells "{limited.share}, {limited.refused} %" gate scrapy -->`` marks a table
below its head: it gets all rows of the report's table, with the medians that the text in quotation marks names. What a
mark names has to exist in the report.
"""

from __future__ import annotations

import argparse
import re
import shlex
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks._plots import draw, stale_plots
from benchmarks._report import goals_as_markdown, ratio, read_report, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks._report import Report

ROOT: Final = Path(__file__).parents[1]
RESULTS: Final = "benchmarks/results"
TABLES: Final = f"{RESULTS}/tables.md"
"""All figures of the report; docs/benchmarks-tables.md shows this file on the site."""
PAGES: Final = ("docs/benchmarks.md", "README.md")
PLOTS: Final = "docs/plots"
MARK: Final = re.compile(r"(<!-- figure (.*?)-->)(.*?)(<!--\s*end\s*-->)", re.DOTALL)
CELLS: Final = re.compile(r"(<!-- cells (.*?)-->)(.*?)(<!--\s*end\s*-->)", re.DOTALL)
END: Final = re.compile(r"<!--\s*end\s*-->")
HEAD: Final = """\
# Benchmark tables

All figures of the newest report, by group. [Benchmarks](../../docs/benchmarks.md) says what they mean and how they were
taken. robotgate is in bold. A cell is the median of the rounds, with the least and the most where these matter.
"""
MISSED: Final = """\
## Goals that are missed

The project sets limits for itself. These are not reached; all goals are listed by group below.
"""
NOTES: Final = {
    "full": "Figures are medians of several rounds, measured in turns.",
    "quick": "**Everything was measured once or twice: too little to compare by.**",
}


def newest(root: Path = ROOT) -> Report:
    """The report that the pages are made of."""
    return read_report(max((root / RESULTS).glob("*.json")))


def tables(report: Report) -> str:
    """The page of tables."""
    taken = f"Taken on {report.taken_on}, {report.effort} run: {report.machine}. {NOTES[report.effort]}"
    missed = goals_as_markdown(goal for goal in report.goals if not goal.is_reached)
    groups = (f"## {name}\n\n{findings.markdown()}\n" for name, findings in report.groups.items())
    return "\n".join([HEAD, f"{taken}\n", MISSED, f"{missed}\n", *groups])


def woven(page: str, report: Report) -> str:
    """The page, with every figure that it marks.

    Raises:
        LookupError: a mark names what the report does not have, or has no end.
    """
    if len(END.findall(page)) != len(MARK.findall(page)) + len(CELLS.findall(page)):
        raise LookupError("an end of nothing: a mark is misspelt")
    page = CELLS.sub(lambda mark: f"{mark[1]}{_cells(shlex.split(mark[2]), mark[3], report)}{mark[4]}", page)
    return MARK.sub(lambda mark: f"{mark[1]}{_figure(shlex.split(mark[2]), report)}{mark[4]}", page)


def _cells(words: Sequence[str], text: str, report: Report) -> str:
    cell, *keys = words
    lines = text.strip().splitlines()[:2]
    for row in report.table(cell.partition("{")[2].partition("}")[0]).rows:
        cells = (_cell(cell, row.name, key, report) for key in keys)
        lines.append(f"| {' | '.join([row.name, *cells])} |")
    return "\n\n" + "\n".join(lines) + "\n\n"


def _cell(cell: str, row: str, key: str, report: Report) -> str:
    return re.sub("{(.*?)}", lambda at: _figure([at[1], row, key], report), cell)


def _figure(words: Sequence[str], report: Report) -> str:
    name, row, key, *other = words
    table = report.table(name)
    figures = {each.name: each.figures for each in table.rows}
    decimals = {column.key: column.decimals for column in table.columns}
    if not other:
        return shown(statistics.median(figures[row][key]), decimals[key])
    _over, peer = other
    return shown(statistics.median(ratio(figures[row][key], figures[peer][key])), 2)


def pages(root: Path = ROOT) -> dict[Path, str]:
    """What each page is to say."""
    report = newest(root)
    return {root / TABLES: tables(report)} | {
        root / name: woven((root / name).read_text(encoding="utf-8"), report) for name in PAGES
    }


def differences(root: Path = ROOT) -> list[str]:
    """The files that do not say what the report says."""
    found = [path for path, text in pages(root).items() if path.read_text(encoding="utf-8") != text]
    found += stale_plots(newest(root), root / PLOTS)
    return [path.relative_to(root).as_posix() for path in found]


def rewrite(root: Path = ROOT) -> None:
    """Make the pages and the plots anew; no page, if a mark cannot be filled."""
    for path, text in pages(root).items():
        path.write_text(text, encoding="utf-8")
    draw(newest(root), root / PLOTS)


def main() -> int:
    """The command; 1 where something is not as woven."""
    parser = argparse.ArgumentParser("python -m benchmarks.weave", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="change nothing; fail where something would change"
    )
    if not parser.parse_args().check:
        rewrite()
    found = differences()
    print("\n".join(f"{name} is not as the newest report has it" for name in found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
