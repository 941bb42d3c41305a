"""Plots: legible on the pages they are for, drawn alike by every run, and known by the report that they show."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
from benchmarks import weave
from benchmarks._json import read_report
from benchmarks._pictures import FORMATS, fingerprint, pictures_of, stale_plots
from benchmarks._theme import DARK, LIGHT, THEMES, Theme, contrast

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

REPORT: Final = read_report(weave.newest())
TEXT: Final = 4.5
GRAPHICS: Final = 3.0
"""The least contrast, by WCAG 2.2, of text (1.4.3) and of what else has to be seen (1.4.11)."""
MOST_OCTETS: Final = 60_000


def test_contrast_is_that_of_wcag() -> None:
    """Black on white is 21, a colour on itself 1, and grey 4.54 as their own examples have it."""
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#336699", "#336699") == 1
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.005)


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_everything_stands_out(theme: Theme) -> None:
    """Text, and curves, whose labels have their colour; bars, which have a figure beside them."""
    assert all(
        contrast(colour, theme.page) >= TEXT for colour in (theme.text, theme.quiet, theme.ours, *theme.lines)
    )
    assert contrast(theme.peer, theme.page) >= GRAPHICS


def test_no_grey_would_do_for_both_pages() -> None:
    """Why there are two files of each plot."""
    greys = (f"#{level:02x}{level:02x}{level:02x}" for level in range(256))
    assert max(min(contrast(grey, LIGHT.page), contrast(grey, DARK.page)) for grey in greys) < TEXT


def test_checking_needs_nothing_that_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the pages are checked where matplotlib is not installed."""
    for name in [name for name in sys.modules if name.startswith(("matplotlib", "benchmarks."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert __import__("benchmarks.weave").weave.differences() == []


def test_plots_of_another_report_are_stale(tmp_path: Path) -> None:
    """As are those that are not there; those of this report are not."""
    paths = stale_plots(REPORT, tmp_path)
    assert len(paths) == len(THEMES) * len(list(pictures_of(REPORT)))
    for path in paths:
        path.write_text(f"<svg>{fingerprint(REPORT)}</svg>", encoding="utf-8")
    assert stale_plots(REPORT, tmp_path) == []
    assert stale_plots(replace(REPORT, taken_on="1994-06-30"), tmp_path) == paths


@pytest.mark.parametrize(("group", "formats"), [("crawl", FORMATS), ("scale", ["svg"])])
def test_plots_are_drawn_alike_twice(group: str, formats: Sequence[str], tmp_path: Path) -> None:
    """Bars, and curves: all files there are to be, small, with text as text; two runs give the same bytes."""
    draw = pytest.importorskip("benchmarks._plots", reason="matplotlib is not installed").draw
    only = replace(REPORT, groups={group: REPORT.groups[group]})
    first, again = (draw(only, tmp_path / name, formats) for name in ("first", "again"))
    assert {path.name for path in first} == {
        picture.file_name(theme, suffix)
        for picture in pictures_of(only)
        for theme in THEMES
        for suffix in formats
    }
    assert all(one.read_bytes() == other.read_bytes() for one, other in zip(first, again, strict=True))
    assert stale_plots(only, tmp_path / "first") == []


def test_plots_of_the_docs_are_small_and_legible() -> None:
    """Text is text, not outlines, in a font that there is or one no wider; no size to speak of."""
    plots = [
        weave.ROOT / weave.PLOTS / picture.file_name(theme, "svg")
        for picture in pictures_of(REPORT)
        for theme in THEMES
    ]
    assert plots
    for plot in plots:
        text = plot.read_text(encoding="utf-8")
        assert plot.stat().st_size < MOST_OCTETS
        assert "<text" in text
        assert "<dc:date>" not in text


def test_plot_has_its_figures(tmp_path: Path) -> None:
    """Names and medians stand in it, as its table has them; what Markdown needs does not."""
    draw = pytest.importorskip("benchmarks._plots", reason="matplotlib is not installed").draw
    only = replace(REPORT, groups={"crawl": REPORT.groups["crawl"]})
    (light, _) = draw(only, tmp_path, ["svg"])
    text = light.read_text(encoding="utf-8")
    table = REPORT.groups["crawl"].tables[0]
    for row in table.rows:
        assert row.name.replace("`", "") in text
        assert f"{row.figures['rate'].median:,.0f}" in text
    assert LIGHT.ours in text
    assert DARK.ours not in text


def test_table_that_is_missing_is_an_error(tmp_path: Path) -> None:
    """A picture that cannot be drawn is not left out in silence, if its group was measured."""
    draw = pytest.importorskip("benchmarks._plots", reason="matplotlib is not installed").draw
    crawl = replace(REPORT.groups["crawl"], tables=())
    with pytest.raises(LookupError, match="no table '#1' in group 'crawl'"):
        draw(replace(REPORT, groups={"crawl": crawl}), tmp_path)
    assert not list(tmp_path.iterdir())
