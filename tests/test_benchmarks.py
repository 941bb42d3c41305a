"""The benchmarks run, say which goals are missed, and the pages and plots show the newest report."""

from __future__ import annotations

import math
import re
import shutil
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest
from benchmarks import nodes_model, pace, promises_model, scopes_model, shares_model, weave
from benchmarks.__main__ import NAMES, main
from benchmarks._bench import Cost, interleaved
from benchmarks._plots import PICTURES, THEMES, draw, exponent, stale_plots
from benchmarks._report import Column, Effort, Findings, Goal, goals_as_markdown, ratio, read_report, to_json
from benchmarks._site import ROBOTS_PATH, Visit
from benchmarks.scopes_fleet_model import Fleet, Shape

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks._report import Figure, Group

REPORT: Final = weave.newest()
PAGE: Final = (weave.ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
MEASURED: Final = re.compile(r"[\d.,]+ (?:%|µs|ns|ms|s|KB|MB|MB/s|turns/s|pages/s|times|x)(?=[\s,.;)])")
SHARE: Final = re.compile(r"\b\w+ (?:half|third|quarter|fifth|tenth|twentieth)s?\b")
SETTINGS: Final = {"1.6 KB", "33 KB", "20 s", "0.1 s", "0.02 s", "15 s", "2 s", "5 s", "10 s", "30 s", "60 s"}


class Fake:
    """A group that finds what it is told to, at no cost."""

    PACKAGES: tuple[str, ...] = ("aiohttp", "no-such-package-anywhere")

    def __init__(self, figure: float) -> None:
        self.figure = figure

    def measure(self, effort: Effort) -> Findings:
        """A table and a goal."""
        found = Findings()
        columns = (Column("rate", "pages/s | all", 1, shows_spread=True), Column("cpu", "CPU"))
        rounds = (self.figure, 5_000, 5_100)
        rows: dict[str, dict[str, Figure]] = {"gate": {"rate": rounds}, effort: {"rate": (1,), "cpu": (2,)}}
        found.table("t", "A title", columns, rows, ours=("gate",), note="A note.")
        found.goal("pages/s", rounds, at_least=5_001)
        return found


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_group_gives_all_its_figures(name: str, tmp_path: Path) -> None:
    """With little work, and few rounds: no row of robotgate's is empty, every figure is a number, and there is all that
    a plot shows.
    """
    path = tmp_path / "report.json"
    assert main([name, "--quick", "--json", str(path)]) == 0
    report = read_report(path)
    assert report.goals
    for row in (row for table in report.groups[name].tables for row in table.rows):
        assert row.figures or not row.is_ours
        assert all(math.isfinite(value) for rounds in row.figures.values() for value in rounds)
    for panel in (panel for _, *panels in PICTURES.values() for panel in panels):
        if panel.table.startswith(f"{name}."):
            rows = report.table(panel.table).rows
            assert {*panel.names} <= {row.name for row in rows}
            assert all({panel.column, panel.of} - {""} <= row.figures.keys() for row in rows)


def test_a_run_prints_what_it_finds_and_keeps_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Medians, spread, ours in bold; a group whose peer is missing is left out, which fails. One can be renewed."""

    def load(name: str, _: Path | None) -> Group:
        if name == "crawl":
            raise ModuleNotFoundError(name="crawlee")
        return Fake(4_900)

    path = tmp_path / "report.json"
    assert main(["scale", "crawl", "rules", "--quick", "--json", str(path)], load=load) == 1
    printed = capsys.readouterr()
    assert "crawl needs crawlee" in printed.err
    assert "|  | pages/s \\| all | CPU |\n|---|---:|---:|\n" in printed.out
    assert "| **gate** | 5,000.0 (4,900.0-5,100.0) | – |\n| quick | 1.0 | 2 |" in printed.out  # noqa: RUF001
    assert "0 of 2 reached" in printed.out
    report = read_report(path)
    assert list(report.groups) == ["rules", "scale"]
    assert set(report.machine.packages) == {"aiohttp"}
    assert to_json(report) == path.read_text(encoding="utf-8")
    assert main(["rules", "--quick", "--json", str(path)], load=lambda *_: Fake(0)) == 0
    assert read_report(path).groups["rules"] != report.groups["rules"]
    assert read_report(path).groups["scale"] == report.groups["scale"]
    with pytest.raises(SystemExit):
        main(["rules", "--json", str(path)])


def test_a_missed_goal_is_seen(capsys: pytest.CaptureFixture[str]) -> None:
    """It is printed with its figure and limit, and is no failure: the machine may be busy."""
    assert main(["gate"], load=lambda *_: Fake(0)) == 0
    assert "0 of 1 reached" in capsys.readouterr().out
    rounds = (1.0, 2.0, 9.0)
    assert [Goal("", rounds, at_least=limit).is_reached for limit in (2.0, 2.1)] == [True, False]
    assert [Goal("", rounds, at_most=limit).is_reached for limit in (2.0, 1.9)] == [True, False]
    missed = goals_as_markdown([Goal("gate", rounds, at_most=1.5)])
    assert missed.endswith("| gate | 2 (1-9) | at most 1.5 | **no** |")


def test_rounds_are_interleaved_and_compared_side_by_side() -> None:
    """Each once in each round, another one first in the next. Who had fewer rounds is compared by medians."""
    order: list[str] = []

    def work(name: str) -> dict[str, float]:
        order.append(name)
        return {"place": len(order)} | ({"first": 1.0} if len(order) == 1 else {})

    found = interleaved(3, {name: partial(work, name) for name in "abcd"}, fewer={"d": 0, "c": 1})
    assert "".join(order) == "abcbaab"
    assert found["a"] == {"place": [1, 5, 6]}
    assert "d" not in found
    assert ratio((10.0, 1.0, 8.0), (5.0, 1.0, 2.0)) == [2.0, 1.0, 4.0]
    assert ratio((3.0, 6.0), (3.0,)) == [1.5]
    assert exponent({size: 7.5 * size**0.15 for size in (1.0, 10.0, 1e5)}) == pytest.approx(0.15)


def test_short_gaps_are_found_in_what_the_server_saw() -> None:
    """From an end, of the gate also that of robots.txt, and between starts of pages; a page too few is no crawl."""
    times = ((ROBOTS_PATH, 0.0), ("/0", 0.1), ("/1", 0.215), ("/2", 0.34))
    visits = [Visit("a", path, at, at + 0.02) for path, at in times]
    shape = pace.Shape(1, 3, 0.1, 1)
    gate = pace.Client(Cost, pace.ideal_of_gate, asks_robots=True, is_gate=True)
    seen = pace.seen("gate", gate, shape, visits)
    assert (seen["gaps"], seen["short"], seen["ends"], seen["short_after_end"]) == (2, 0, 3, 2)
    assert (seen["least_from_end"], seen["least"]) == pytest.approx((80, 115))
    assert seen["to_ideal"] == pytest.approx(0.36 / (3 * 0.1 + 4 * 0.02))
    peer = pace.Client(Cost, pace.ideal_by_hand, asks_robots=True)
    assert pace.seen("peer", peer, shape, visits)["short_after_end"] == 1
    for wrong in (visits[:3], [*visits[:3], visits[2]]):
        with pytest.raises(RuntimeError, match="where 4 different ones"):
            pace.seen("gate", gate, shape, wrong)


def test_models_of_scopes_run() -> None:
    """One process takes what the busiest scope takes; a fleet gets all pages."""
    hosts = scopes_model.dealt(20, scopes_model.scopes_of(2, 0.5))
    assert float(
        scopes_model.crawled(hosts, scopes_model.POLICIES["never kept"]).split()[0]
    ) == pytest.approx(1, 0.02)
    fleet = Fleet(Shape(4, ((2, 0.5),), processes=2, pages=4))
    fleet.figures()
    assert fleet.left == 0


def test_model_of_shares_runs() -> None:
    """Processes that are busy use the rate of all, and never more."""
    used, _, _, most = shares_model.figures(shares_model.CASES["two busy, six idle"], phase=10.0)
    assert used > 0.9
    assert most == shares_model.RATE


def test_model_of_nodes_runs() -> None:
    """With idle cores a crawl takes as long as its largest host; with busy ones at least as long as these need."""
    assert nodes_model.crawled(nodes_model.Shape(cpu=1e-6, delay=10), hosts=200).to_delay == pytest.approx(
        1, 0.1
    )
    assert 1 < nodes_model.crawled(nodes_model.Shape(cpu=0.05, delay=0.001), hosts=2_000).to_cpu < 2


@pytest.mark.parametrize("engine", promises_model.ENGINES)
def test_model_of_promises_runs(engine: str) -> None:
    """All tasks but those that are lost get their page, and most of them when they come the second time."""
    host = promises_model.Host(engine, 2.0, tasks=200, delay=1.0, takes=0.3, lost=0.05, new=0.0)
    assert host.pages + host.missed == 200
    assert host.vain <= 1.2 * host.pages


def copied(root: Path) -> None:
    """What weaving reads and writes, apart."""
    shutil.copytree(weave.ROOT / "docs", root / "docs")
    shutil.copytree(weave.ROOT / weave.RESULTS, root / weave.RESULTS)
    shutil.copy(weave.ROOT / "README.md", root)


def test_pages_and_plots_are_those_of_the_newest_report(tmp_path: Path) -> None:
    """``python -m benchmarks.weave`` would change nothing; what is touched up by hand is named."""
    assert weave.differences() == []
    copied(tmp_path)
    tables, plot = tmp_path / weave.TABLES, tmp_path / weave.PLOTS / "crawl-dark.svg"
    page = tmp_path / "docs" / "benchmarks.md"
    tables.write_text(
        tables.read_text(encoding="utf-8").replace("| **no** |", "| yes |", 1), encoding="utf-8"
    )
    page.write_text(PAGE.replace("-->0.83<!--", "-->0.93<!--"), encoding="utf-8")
    plot.write_text("<svg/>", encoding="utf-8")
    names = [weave.TABLES, "docs/benchmarks.md", "docs/plots/crawl-dark.svg"]
    assert weave.differences(tmp_path) == names


@pytest.mark.slow
def test_weaving_writes_pages_and_plots(tmp_path: Path) -> None:
    """All of them, from the report alone."""
    pytest.importorskip("matplotlib")
    copied(tmp_path)
    (tmp_path / weave.TABLES).unlink()
    shutil.rmtree(tmp_path / weave.PLOTS)
    weave.rewrite(tmp_path)
    assert weave.differences(tmp_path) == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("figure crawl.", "figure crowd."), ("figure crawl.", "figur crawl."), ("{limited.", "{limit.")],
)
def test_a_mark_that_cannot_be_filled_is_an_error(right: str, wrong: str) -> None:
    """A figure that is no longer measured does not stay on the page in silence."""
    with pytest.raises(LookupError):
        weave.woven(PAGE.replace(right, wrong), REPORT)


def test_prose_has_no_figures_of_its_own() -> None:
    """What was measured is woven, or stands in the section of what was measured once; settings are no figures."""
    prose = weave.CELLS.sub("", PAGE.partition("\n## Measured once\n")[0])
    prose = weave.MARK.sub("", prose)
    assert {*MEASURED.findall(prose), *SHARE.findall(prose)} <= SETTINGS


@pytest.mark.slow
def test_a_plot_has_its_figures(tmp_path: Path) -> None:
    """Names and medians, as its table has them; it is drawn alike twice, and is stale once the report is another."""
    pytest.importorskip("matplotlib")
    only = replace(REPORT, groups={"crawl": REPORT.groups["crawl"]})
    first, again = (draw(only, tmp_path / name) for name in ("first", "again"))
    assert [path.stem for path in first] == [f"crawl-{theme}" for theme in THEMES]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]
    text = first[0].read_text(encoding="utf-8")
    for row in REPORT.table("crawl.#1").rows:
        assert row.name.replace("`", "") in text
    assert "11,622" in text
    assert not {*first} & {*stale_plots(only, tmp_path / "first")}
    assert {*first} <= {*stale_plots(replace(only, taken_on="1994-06-30"), tmp_path / "first")}
