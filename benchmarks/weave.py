"""Brings the pages and the plots to what the newest report in benchmarks/results says.

``python -m benchmarks.weave`` writes them; with ``--check`` it changes nothing, and fails with the name of each place
that says something else. Reports are named by their dates, so the newest is the last by name.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks._json import read_report
from benchmarks._pictures import stale_plots
from benchmarks._weave import WeaveError, stale, woven

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT: Final = Path(__file__).parents[1]
RESULTS: Final = ROOT / "benchmarks" / "results"
TABLES: Final = "benchmarks/results/tables.md"
"""All figures of the report; docs/benchmarks-tables.md shows this file on the site."""
PAGES: Final = ("docs/benchmarks.md", TABLES, "README.md")
PLOTS: Final = "docs/plots"


def newest(root: Path = ROOT) -> Path:
    """The report that the pages are made of.

    Raises:
        WeaveError: there is none.
    """
    reports = sorted((root / RESULTS.relative_to(ROOT)).glob("*.json"))
    if not reports:
        raise WeaveError(f"no report in {RESULTS.relative_to(ROOT).as_posix()}")
    return reports[-1]


def differences(root: Path = ROOT) -> list[str]:
    """Each place that does not say what the report says: a page's line and mark, or a plot.

    Raises:
        WeaveError: a page has a mark that cannot be filled.
    """
    report = read_report(newest(root))
    found = []
    for name in PAGES:
        with _naming(name):
            regions = stale((root / name).read_text(encoding="utf-8"), report)
        found += [f"{name}:{region.line}: <!-- {region.mark} -->" for region in regions]
    return [*found, *(path.relative_to(root).as_posix() for path in stale_plots(report, root / PLOTS))]


def rewrite(root: Path = ROOT) -> list[str]:
    """Make the pages and the plots anew, and name what was written.

    Raises:
        WeaveError: a page has a mark that cannot be filled, or the report lacks what a plot shows; no page is written
            then.
    """
    from benchmarks._plots import draw  # noqa: PLC0415  # Checking does without what draws.

    report = read_report(newest(root))
    pages = {}
    for name in PAGES:
        with _naming(name):
            pages[name] = woven((root / name).read_text(encoding="utf-8"), report)
    try:
        plots = draw(report, root / PLOTS, ["svg"])
    except LookupError as error:
        raise WeaveError(f"{PLOTS}: {error.args[0]}") from error
    for name, text in pages.items():
        (root / name).write_text(text, encoding="utf-8")
    return [*pages, *(path.relative_to(root).as_posix() for path in plots)]


@contextmanager
def _naming(page: str) -> Iterator[None]:
    try:
        yield
    except WeaveError as error:
        raise WeaveError(f"{page}, {error}") from error


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 1 where something is not as woven, 2 where a mark cannot be filled."""
    parser = argparse.ArgumentParser("python -m benchmarks.weave", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="change nothing; fail where something would change"
    )
    options = parser.parse_args(arguments)
    try:
        if not options.check:
            print("\n".join(rewrite()))
            return 0
        found = differences()
    except WeaveError as error:
        print(error, file=sys.stderr)
        return 2
    for place in found:
        print(f"{place} is not as {newest().name} has it")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
