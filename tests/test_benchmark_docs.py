"""Figures in docs/benchmarks.md, benchmarks/results/tables.md, the README and the plots are the newest report's."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Final

import pytest
from benchmarks import weave
from benchmarks.__main__ import NAMES
from benchmarks._json import read_report
from benchmarks._look_up import table_of
from benchmarks._pictures import PICTURES, Bars
from benchmarks._weave import WeaveError, regions
from tests.test_readme import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PAGE: Final = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
TABLES: Final = (ROOT / weave.TABLES).read_text(encoding="utf-8")
PICTURE: Final = re.compile(r'(?:src|srcset)="(?P<path>[^":]+)"')
REGION: Final = re.compile(r"<!-- (?!end).*?-->.*?<!-- end -->", re.DOTALL)
MEASURED: Final = re.compile(r"[\d.,]+ (?:%|µs|ns|ms|s|KB|MB|MB/s|turns/s|pages/s|times|x)(?=[\s,.;)])")
SHARE: Final = re.compile(r"\b\w+ (?:half|third|quarter|fifth|tenth|twentieth)s?\b")
SETTINGS: Final = {"1.6 KB", "20 s", "0.1 s"}
REPORT: Final = read_report(weave.newest())


def test_pages_and_plots_are_as_woven() -> None:
    """``python -m benchmarks.weave`` would change nothing."""
    assert weave.differences() == []


def test_every_group_has_its_tables_and_goals() -> None:
    """On the page of tables; with a mark each, so that weaving fills them."""
    marks = [region.mark for region in regions(TABLES)]
    assert {f"goals {name}" for name in NAMES} <= set(marks)
    for name in NAMES:
        assert any(re.match(rf"tables? {name}\b", mark) for mark in marks), name


@pytest.mark.parametrize("name", weave.PAGES)
def test_pictures_are_there(name: str) -> None:
    """Both of each, beside the page."""
    page = ROOT / name
    paths = [found["path"] for found in PICTURE.finditer(page.read_text(encoding="utf-8"))]
    assert all((page.parent / path).exists() for path in paths)
    assert {path.replace("-dark.", "-light.") for path in paths} <= set(paths)


def test_pictures_name_rows_that_there_are() -> None:
    """A row that is renamed would be missing from its picture, as one that is not installed is."""
    named = {
        (panel.table, name)
        for picture in PICTURES
        for panel in picture.panels
        if isinstance(panel, Bars)
        for name in panel.names
    }
    assert named
    assert named <= {(table, row.name) for table, _ in named for row in table_of(REPORT, table).rows}


def test_prose_has_no_figures_of_its_own() -> None:
    """What was measured is woven, or stands in the section of what was measured once; settings are no figures."""
    prose = REGION.sub("", PAGE.partition("\n## Measured once\n")[0])
    assert REGION.search(PAGE)
    assert {*MEASURED.findall(prose), *SHARE.findall(prose)} <= SETTINGS


def copied(root: Path) -> None:
    """What weaving reads and writes, apart."""
    for name in (*weave.PAGES, weave.newest().relative_to(ROOT).as_posix()):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    shutil.copytree(ROOT / weave.PLOTS, root / weave.PLOTS)


def test_check_names_each_place(tmp_path: Path) -> None:
    """A figure that was touched up by hand, by its page and mark; a plot of something else, by its file."""
    copied(tmp_path)
    assert weave.differences(tmp_path) == []
    (tmp_path / weave.TABLES).write_text(TABLES.replace("| **no** |", "| yes |", 1), encoding="utf-8")
    (tmp_path / weave.PLOTS / "crawl-dark.svg").write_text("<svg/>", encoding="utf-8")
    place, plot = weave.differences(tmp_path)
    assert re.fullmatch(r"benchmarks/results/tables\.md:\d+: <!-- missed -->", place)
    assert plot == "docs/plots/crawl-dark.svg"


@pytest.mark.slow
def test_weaving_puts_it_right(tmp_path: Path) -> None:
    """Both, to the byte."""
    pytest.importorskip("benchmarks._plots", reason="matplotlib is not installed")
    copied(tmp_path)
    tables = tmp_path / weave.TABLES
    tables.write_text(TABLES.replace("| **no** |", "| yes |", 1), encoding="utf-8")
    shutil.rmtree(tmp_path / weave.PLOTS)
    weave.rewrite(tmp_path)
    assert tables.read_text(encoding="utf-8") == TABLES
    assert weave.differences(tmp_path) == []


def test_mark_that_cannot_be_filled_names_its_page(tmp_path: Path) -> None:
    """And nothing is written: a page half woven would pass for a whole one."""
    copied(tmp_path)
    page = tmp_path / "docs" / "benchmarks.md"
    page.write_text(PAGE.replace("<!-- figure crawl.", "<!-- figure crowd."), encoding="utf-8")
    with pytest.raises(
        WeaveError, match=r"^docs/benchmarks\.md, line \d+: <!-- figure crowd[^>]+ -->: no group 'crowd'"
    ):
        weave.differences(tmp_path)


def test_without_a_report_there_is_nothing_to_weave(tmp_path: Path) -> None:
    """It is said where one belongs."""
    with pytest.raises(WeaveError, match="no report in benchmarks/results"):
        weave.newest(tmp_path)
