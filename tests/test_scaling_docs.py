"""docs/scaling.md keeps its word: its table is what its program prints, and its octets are those that were measured."""

from __future__ import annotations

import contextlib
import io
import re
from typing import Final

from tests.test_readme import ROOT, blocks

PAGE: Final = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
MEASURED: Final = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
(PROGRAM,) = blocks(PAGE, "python")


def run() -> tuple[str, dict[str, object]]:
    """What the program prints, and its names."""
    names: dict[str, object] = {"__name__": "__main__"}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(PROGRAM, "<docs/scaling.md>", "exec"), names)
    return printed.getvalue(), names


def test_table_is_what_the_program_prints() -> None:
    """Line by line, in order."""
    printed, _ = run()
    assert printed
    assert f"\n{printed}\n" in PAGE


def test_assumptions_are_no_better_than_what_was_measured() -> None:
    """Of memory and of the server's CPU; they may be rounded up."""
    _, names = run()
    octets = [
        int(found.replace(",", ""))
        for found in re.findall(r"^\| (?:a host|a robots\.txt).*\| ([\d,]+) \|$", MEASURED, re.MULTILINE)
    ]
    assert len(octets) == 2
    assert sum(octets) <= float(str(names["OCTETS_OF_HOST"])) <= sum(octets) * 1.1
    (of_turn,) = re.findall(
        r"^\| `gate\.turn`, `RedisStore` \| ([\d.]+) \| [\d.]+ \| [\d.]+ \| [\d.]+ \|$",
        MEASURED,
        re.MULTILINE,
    )
    assert float(of_turn) <= float(str(names["CPU_OF_TURN"])) * 1e6 <= float(of_turn) * 1.1


def test_shared_calls_are_those_of_the_simulation() -> None:
    """The most that one of its lines shows, rounded up to a half."""
    _, names = run()
    most = max(float(found) for found in re.findall(r"^\| \d+ \| anybody \| ([\d.]+) \|", PAGE, re.MULTILINE))
    assert most <= 2 * float(str(names["CALLS_WHEN_SHARED"])) <= most + 0.5
