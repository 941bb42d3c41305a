"""What is measured is told as it was found: the runner, the report as JSON and as Markdown, goals, exponents.

Nothing is measured here. `python -m benchmarks --quick` runs all groups.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import pytest
from benchmarks.__main__ import NAMES, MissingPeerError, load, main, read_options
from benchmarks._fit import exponent, exponents
from benchmarks._json import MalformedReportError, from_json, read_report, to_json, write_report
from benchmarks._machine import described, machine_with
from benchmarks._markdown import as_markdown, goals_as_markdown, machine_as_markdown, shown
from benchmarks._report import Column, Effort, Figure, Findings, Goal, Group, Machine, Report, Row, Table
from benchmarks._rounds import interleaved
from benchmarks._run import run

if TYPE_CHECKING:
    from collections.abc import Callable

Fields: TypeAlias = dict[str, "Field"]
Field: TypeAlias = str | float | bool | list["Field"] | Fields | None

TABLE: Final = Table(
    key="200x50",
    title="200 hosts, 50 pages of each",
    columns=(
        Column(key="pages", title="pages/s", shows_spread=True),
        Column(key="cpu", title="CPU s per 1,000 | all", decimals=3),
    ),
    rows=(
        Row(
            name="gate.fetch",
            figures={"pages": Figure((5024.0, 4826.0, 5100.5)), "cpu": Figure((0.1994, 0.2, 0.3))},
            is_ours=True,
            size=200.0,
        ),
        Row(name="a | b", figures={"pages": Figure((1234560.0,))}),
    ),
    note="who does more, “for each page”",
)
GOAL: Final = Goal(text="of bare aiohttp's pages/s", figure=Figure((0.7, 0.85, 0.9)), at_least=0.8)
REPORT: Final = Report(
    taken_on="2026-11-22",
    effort=Effort.FULL,
    machine=Machine(
        processor="Some Processor",
        cores=2,
        system="Linux",
        python="CPython 3.11.7",
        packages={"aiohttp": "3.14.5", "robotgate": "0.1.0"},
    ),
    seconds={"crawl": 12.5, "scale": 1.0},
    groups={
        "crawl": Findings(tables=(TABLE,), goals=(GOAL,)),
        "scale": Findings(tables=(), goals=(replace(GOAL, at_least=None, at_most=0.8),)),
    },
)


class Fake:
    """A group that finds what it is told to, at no cost."""

    PACKAGES: tuple[str, ...] = ("aiohttp", "no-such-package-anywhere")

    def __init__(self, findings: Findings) -> None:
        self.efforts: list[Effort] = []
        self._findings = findings

    def measure(self, effort: Effort) -> Findings:
        """Only takes down how it was asked."""
        self.efforts.append(effort)
        return self._findings


def test_json_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Every field of every value."""
    write_report(REPORT, tmp_path / "report.json")
    assert read_report(tmp_path / "report.json") == REPORT


def test_json_keeps_six_digits() -> None:
    """Once rounded, a report is written the same for ever."""
    exact = replace(REPORT, seconds={"crawl": 1 / 3, "large": 123_456_789.0})
    kept = from_json(to_json(exact))
    assert kept.seconds == {"crawl": 0.333333, "large": 123_457_000.0}
    assert to_json(kept) == to_json(exact)


def test_json_has_an_order_of_its_own() -> None:
    """Packages by name, figures as their columns, whatever order they were found in."""
    packages = dict(reversed(list(REPORT.machine.packages.items())))
    row = replace(TABLE.rows[0], figures=dict(reversed(list(TABLE.rows[0].figures.items()))))
    shuffled = replace(
        REPORT,
        machine=replace(REPORT.machine, packages=packages),
        groups=dict(REPORT.groups)
        | {"crawl": Findings(tables=(replace(TABLE, rows=(row, TABLE.rows[1])),), goals=(GOAL,))},
    )
    assert to_json(shuffled) == to_json(REPORT)


def test_rounds_of_a_figure_stand_on_one_line() -> None:
    """So that a report is short, and two of them can be told apart by eye."""
    assert '"pages": [5024, 4826, 5100.5]' in to_json(REPORT)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_json_takes_no_figure_that_is_none(value: float) -> None:
    """Neither in writing nor in reading."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_json(replace(REPORT, seconds={"crawl": value}))
    with pytest.raises(MalformedReportError, match=r"report\.seconds\.crawl: no finite number"):
        from_json(to_json(REPORT).replace("12.5", json.dumps(value)))


def crawl(report: Fields) -> Fields:
    """The group of crawls, within the fields of a report."""
    groups = report["groups"]
    assert isinstance(groups, dict)
    found = groups["crawl"]
    assert isinstance(found, dict)
    return found


def table(report: Fields) -> Fields:
    """The one table of crawls."""
    tables = crawl(report)["tables"]
    assert isinstance(tables, list)
    (only,) = tables
    assert isinstance(only, dict)
    return only


def row(report: Fields) -> Fields:
    """The first row of the table."""
    rows = table(report)["rows"]
    assert isinstance(rows, list)
    first = rows[0]
    assert isinstance(first, dict)
    return first


def whole(report: Fields) -> Fields:
    """The report itself."""
    return report


def machine(report: Fields) -> Fields:
    """Where it was taken."""
    found = report["machine"]
    assert isinstance(found, dict)
    return found


COLUMN: Final[Field] = {"key": "pages", "title": "pages/s", "decimals": 0, "shows_spread": False}


@pytest.mark.parametrize(
    ("of", "key", "value", "complaint"),
    [
        (whole, "effort", "some", "report.effort: neither of quick, full"),
        (whole, "taken_on", 20261122, "report.taken_on: no text"),
        (whole, "seconds", [], "report.seconds: no object"),
        (whole, "extra", 1, "report: fields that are missing, or unknown: extra"),
        (whole, "seconds", {"crawl": "12"}, "report.seconds.crawl: no number"),
        (machine, "cores", -1, "report.machine.cores: no count"),
        (machine, "cores", 2.5, "report.machine.cores: no count"),
        (crawl, "tables", None, "report.groups.crawl.tables: no array"),
        (table, "columns", [COLUMN, COLUMN], "report.groups.crawl.tables[0].columns: two columns of one key"),
        (row, "is_ours", 1, "report.groups.crawl.tables[0].rows[0].is_ours: neither true nor false"),
        (row, "size", True, "report.groups.crawl.tables[0].rows[0].size: no number"),
        (row, "figures", {"pages": []}, "rows[0].figures.pages: a figure without rounds"),
        (row, "figures", {"pages": [1, None]}, "rows[0].figures.pages[1]: no number"),
        (row, "figures", {"speed": [1]}, "rows[0].figures.speed: no column is so called"),
    ],
)
def test_malformed_json_is_refused(
    of: Callable[[Fields], Fields], key: str, value: Field, complaint: str
) -> None:
    """With the way to what is wrong."""
    report: Fields = json.loads(to_json(REPORT))
    of(report)[key] = value
    with pytest.raises(MalformedReportError) as refused:
        from_json(json.dumps(report))
    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    ("text", "complaint"), [("", "no JSON"), ("[]", "report: no object"), ("{}", "taken_on")]
)
def test_what_is_no_report_is_refused(text: str, complaint: str) -> None:
    """Whatever else it is."""
    with pytest.raises(MalformedReportError, match=complaint):
        from_json(text)


def test_a_table_in_markdown() -> None:
    """Medians, spread where asked for and more than one round was taken, thousands, ours in bold, bars escaped."""
    assert as_markdown(TABLE).splitlines() == [
        "|  | pages/s | CPU s per 1,000 \\| all |",
        "|---|---:|---:|",
        "| **gate.fetch** | 5,024 (4,826-5,100) | 0.200 |",
        "| a \\| b | 1,234,560 | – |",  # noqa: RUF001  # As it is printed.
    ]


def test_goals_in_markdown() -> None:
    """What is missed is told as plainly as what is reached."""
    goals = [goal for findings in REPORT.groups.values() for goal in findings.goals]
    storm = Goal(text="requests", figure=Figure((1234.0, 1234.0)), at_least=1_000.0, at_most=10_000.0)
    assert goals_as_markdown([*goals, storm]).splitlines() == [
        "| goal | figure | limit | reached |",
        "|---|---:|---|---|",
        "| of bare aiohttp's pages/s | 0.850 (0.700-0.900) | at least 0.8 | yes |",
        "| of bare aiohttp's pages/s | 0.850 (0.700-0.900) | at most 0.8 | **no** |",
        "| requests | 1,234 | at least 1,000, at most 10,000 | yes |",
    ]


def test_a_machine_in_markdown() -> None:
    """When, how, where, and with which versions."""
    assert machine_as_markdown(REPORT) == (
        "Taken on 2026-11-22, full run: 2 x Some Processor, Linux; CPython 3.11.7; aiohttp 3.14.5, robotgate 0.1.0."
    )


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [(0.0, 0, "0"), (999.5, 1, "999.5"), (1e6, 0, "1,000,000"), (-0.256, 2, "-0.26")],
)
def test_numbers_in_markdown(value: float, decimals: int, text: str) -> None:
    """As a column says."""
    assert shown(value, decimals) == text


@pytest.mark.parametrize(
    ("at_least", "at_most", "is_reached"),
    [
        (2.0, None, True),
        (2.1, None, False),
        (None, 2.0, True),
        (None, 1.9, False),
        (1.0, 3.0, True),
        (None, None, True),
    ],
)
def test_goal_is_a_bound_of_the_median(
    at_least: float | None, at_most: float | None, *, is_reached: bool
) -> None:
    """The bound itself reaches it; what one round says does not count."""
    goal = Goal(text="", figure=Figure((9.0, 2.0, 1.0)), at_least=at_least, at_most=at_most)
    assert goal.is_reached is is_reached


def test_ratio_is_taken_round_by_round() -> None:
    """The median of ratios: a slow round of the machine is slow for both."""
    assert Figure((10.0, 1.0, 8.0)).over(Figure((5.0, 1.0, 2.0))).rounds == (2.0, 1.0, 4.0)
    with pytest.raises(ValueError, match="shorter"):
        Figure((1.0, 2.0)).over(Figure((1.0,)))


@pytest.mark.parametrize("power", [-0.5, 0.0, 0.15, 1.0, 2.0])
def test_exponent_of_a_power_law(power: float) -> None:
    """Whatever it is multiplied by."""
    assert exponent({size: 7.5 * size**power for size in (1.0, 10.0, 1e3, 1e5)}) == pytest.approx(power)


def test_exponent_of_what_is_no_power_law() -> None:
    """The line of least squares, which weighs all three points."""
    assert exponent({1: 1.0, 10: 100.0, 100: 10.0}) == pytest.approx(0.5)


@pytest.mark.parametrize("costs", [{}, {1.0: 1.0}, {1.0: 0.0, 10.0: 1.0}, {0.0: 1.0, 10.0: 1.0}])
def test_exponent_takes_two_sizes_and_no_zero(costs: dict[float, float]) -> None:
    """Anything else is a measurement that went wrong."""
    with pytest.raises(ValueError, match=r"two points|positive"):
        exponent(costs)


def test_exponents_are_those_of_rounds() -> None:
    """One each, so that their spread is seen."""
    fitted = exponents({10: Figure((1.0, 10.0)), 100: Figure((1.0, 100.0))})
    assert fitted.rounds == pytest.approx((0.0, 1.0))


def test_rounds_are_interleaved() -> None:
    """Each client once in each round, and another one first in the next."""
    order: list[str] = []

    def work(name: str) -> dict[str, float]:
        order.append(name)
        return {"place": float(len(order))}

    found = interleaved(3, {name: partial(work, name) for name in "abc"})
    assert order == list("abcbcacab")
    assert found["a"] == {"place": Figure((1.0, 6.0, 8.0))}


def test_what_was_not_found_in_every_round_is_no_figure() -> None:
    """A median of fewer rounds than those beside it would compare what was not measured together."""
    rounds = iter([{"time": 1.0, "peak": 2.0}, {"time": 3.0}])
    assert interleaved(2, {"a": lambda: next(rounds)}) == {"a": {"time": Figure((1.0, 3.0))}}


def test_a_run_shows_what_it_finds() -> None:
    """The machine first, every table under its group, goals at the end; and all of it is in the report."""
    groups = {"one": Fake(REPORT.groups["crawl"]), "two": Fake(Findings(tables=()))}
    printed: list[str] = []
    report = run(groups, Effort.QUICK, show=printed.append)
    assert report.groups == {"one": REPORT.groups["crawl"], "two": Findings(tables=())}
    assert list(report.seconds) == ["one", "two"]
    assert [group.efforts for group in groups.values()] == [[Effort.QUICK], [Effort.QUICK]]
    text = "\n".join(printed)
    parts = [
        "# Quick run of one, two",
        described(report.machine),
        "## one",
        "### 200 hosts",
        "| **gate.fetch**",
    ]
    parts += [TABLE.note, "## two", "## Goals", "| of bare aiohttp's pages/s", "1 of 1 reached"]
    assert [part for part in parts if part not in text] == []
    assert sorted(parts, key=text.index) == parts


def test_versions_are_of_what_is_installed() -> None:
    """A peer that is not installed has none, and is no error."""
    assert list(machine_with("no-such-package-anywhere", "aiohttp").packages) == ["aiohttp"]


def test_command_measures_what_is_named_in_its_own_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once each, and keeps what was found."""
    asked: list[str] = []

    def fake(name: str) -> Group:
        asked.append(name)
        return Fake(REPORT.groups["crawl"])

    assert main(["scale", "rules", "scale", "--quick", "--json", str(tmp_path / "r.json")], load=fake) == 0
    assert asked == ["rules", "scale"]
    report = read_report(tmp_path / "r.json")
    assert (list(report.groups), report.effort) == (["rules", "scale"], Effort.QUICK)
    assert "2 of 2 reached" in capsys.readouterr().out


def test_command_goes_on_without_a_group_whose_peer_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    """It says what to install, and fails at the end."""

    def fake(name: str) -> Group:
        if name == "crawl":
            raise MissingPeerError("crawl needs crawlee: pip install -e '.[bench]'")
        return Fake(Findings(tables=(TABLE,)))

    assert main([], load=fake) == 1
    printed = capsys.readouterr()
    assert "Left out: crawl needs crawlee: pip install -e '.[bench]'" in printed.err
    assert [f"\n## {name}\n" in printed.out for name in NAMES] == [name != "crawl" for name in NAMES]


def test_missed_goal_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    """A busy machine must not fail a change; it is told, in the words of the goal."""
    assert main(["gate"], load=lambda _: Fake(REPORT.groups["scale"])) == 0
    assert "0 of 1 reached" in capsys.readouterr().out


def test_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """With those that exist."""
    with pytest.raises(SystemExit) as stopped:
        read_options(["rules", "speed"])
    assert stopped.value.code == 2
    assert f"there is no speed; there are {', '.join(NAMES)}" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--corpus", "--json"])
def test_folder_that_is_not_there_is_refused(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is measured."""
    with pytest.raises(SystemExit) as stopped:
        read_options([option, str(tmp_path / "none" / "such")])
    assert stopped.value.code == 2
    assert "none" in capsys.readouterr().err


def test_every_name_is_a_module() -> None:
    """What the help offers, there is."""
    folder = Path(__file__).parents[1] / "benchmarks"
    assert [name for name in NAMES if not (folder / f"{name}.py").is_file()] == []


@pytest.mark.parametrize("name", ["rules", "gate", "memory", "scale"])
def test_every_name_is_a_group(name: str) -> None:
    """That is found by it, where what it takes is installed."""
    pytest.importorskip("protego")
    pytest.importorskip("uvloop")
    assert "robotgate" in load(name).PACKAGES
