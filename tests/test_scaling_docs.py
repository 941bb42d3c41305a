"""docs/scaling.md keeps its word: its table is what its program prints, and its octets are those that were measured."""

from __future__ import annotations

import contextlib
import io
import re
from typing import Final

import pytest
from benchmarks._json import read_report
from benchmarks._look_up import figure_of, table_of
from benchmarks._report import Effort
from benchmarks.weave import newest
from tests.test_readme import ROOT, blocks

PAGE: Final = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
(PROGRAM,) = blocks(PAGE, "python")
REPORT: Final = read_report(newest())
ROUNDED_UP: Final = 1.25


def run() -> tuple[str, dict[str, object]]:
    """What the program prints, and its names."""
    names: dict[str, object] = {"__name__": "__main__"}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(PROGRAM, "<docs/scaling.md>", "exec"), names)
    return printed.getvalue(), names


def measured(table: str, row: str, column: str) -> float:
    """A median of the group of fleets."""
    return figure_of(table_of(REPORT, f"fleet.{table}"), row, column).median


def test_table_is_what_the_program_prints() -> None:
    """Line by line, in order."""
    printed, _ = run()
    assert printed
    assert f"\n{printed}\n" in PAGE


@pytest.mark.skipif(REPORT.effort is Effort.QUICK, reason="the newest report is of a quick run, on few hosts")
def test_assumptions_are_no_better_than_what_was_measured() -> None:
    """Of memory and of the server's CPU; they may be rounded up, for one machine is quicker than the next."""
    _, names = run()
    octets = sum(measured("memory", row, "used") for row in ("a host", "a robots.txt of 700 octets"))
    assert octets <= float(str(names["OCTETS_OF_HOST"])) <= octets * ROUNDED_UP
    of_turn = measured("server", "`gate.turn`, `RedisStore`", "cpu")
    assert of_turn <= float(str(names["CPU_OF_TURN"])) * 1e6 <= of_turn * ROUNDED_UP


def test_what_is_assumed_is_measured() -> None:
    """By whatever run: nobody renames what the test above looks for while it is skipped."""
    for row in ("a host", "a robots.txt of 700 octets"):
        assert measured("memory", row, "used") > 0
    assert measured("server", "`gate.turn`, `RedisStore`", "cpu") > 0


def test_shared_calls_are_those_of_the_simulation() -> None:
    """The most that one of its lines shows, rounded up to a half."""
    _, names = run()
    most = max(float(found) for found in re.findall(r"^\| \d+ \| anybody \| ([\d.]+) \|", PAGE, re.MULTILINE))
    assert most <= 2 * float(str(names["CALLS_WHEN_SHARED"])) <= most + 0.5
