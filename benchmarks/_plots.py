"""Draws a report's plots. Nothing else here needs matplotlib."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from matplotlib import rc_context
from matplotlib.figure import Figure

from benchmarks._look_up import column_of, table_of
from benchmarks._panels import TEXT, draw_bars, draw_curves, name_bars
from benchmarks._pictures import FORMATS, Bars, Curves, fingerprint, pictures_of
from benchmarks._theme import THEMES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.typing import RcKeyType

    from benchmarks._pictures import Picture
    from benchmarks._report import Report
    from benchmarks._theme import Theme

WIDTH: Final = 9.6
"""Inches."""
HEIGHT_OF_BAR: Final = 0.3
HEIGHT_OF_CURVES: Final = 2.0
HEIGHT_OF_HEAD: Final = 0.55
HEIGHT_OF_NOTE: Final = 0.32
HEIGHT_OF_LINE: Final = 0.17
"""Of a further line of a note."""
DOTS_PER_INCH: Final = 150
STYLE: Final[dict[RcKeyType, object]] = {
    "font.family": "sans-serif",
    # The first comes with matplotlib, so that a plot is the same from every machine. An SVG holds text as text, which
    # is a quarter of what outlines would be; whoever has neither of the next reads it in a narrower font, and it fits.
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "sans-serif"],
    "font.size": TEXT,
    "svg.fonttype": "none",
    # The ids in an SVG are hashes with this in them, instead of random numbers.
    "svg.hashsalt": "robotgate",
}


def draw(report: Report, folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Draw what there is to be drawn of the report's groups, each for light and dark pages, as SVG and as PNG.

    Raises:
        LookupError: a group lacks a table or a column that its plot is made of.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return [
        path
        for picture in pictures_of(report)
        for theme in THEMES
        for path in _save(picture, report, theme, folder, formats)
    ]


def _save(picture: Picture, report: Report, theme: Theme, folder: Path, formats: Sequence[str]) -> list[Path]:
    said = {
        "svg": {"Date": None, "Creator": None, "Source": fingerprint(report)},
        "png": {"Software": None},
    }
    figure = _drawn(picture, report, theme)
    paths = [folder / picture.file_name(theme, suffix) for suffix in formats]
    with rc_context(STYLE):
        for path, suffix in zip(paths, formats, strict=True):
            figure.savefig(path, format=suffix, dpi=DOTS_PER_INCH, metadata=said[suffix])
    return paths


def _drawn(picture: Picture, report: Report, theme: Theme) -> Figure:
    with rc_context(STYLE):
        down = math.ceil(len(picture.panels) / picture.across)
        height = down * (HEIGHT_OF_HEAD + max(_height(panel, report) for panel in picture.panels))
        height += HEIGHT_OF_NOTE + HEIGHT_OF_LINE * picture.note.count("\n") if picture.note else 0.0
        figure = Figure(figsize=(WIDTH, height), layout="constrained", facecolor=theme.page)
        named: list[str] = []
        for axes, panel in zip(_places(figure, picture, down), picture.panels, strict=True):
            named = _draw(axes, theme, panel, report, named=named)
        if picture.note:
            figure.supxlabel(picture.note, x=0.01, ha="left", color=theme.quiet, fontsize=TEXT - 1.0)
        return figure


def _places(figure: Figure, picture: Picture, down: int) -> list[Axes]:
    across = min(picture.across, len(picture.panels))
    return [figure.add_subplot(down, across, number) for number, _ in enumerate(picture.panels, 1)]


def _draw(axes: Axes, theme: Theme, panel: Bars | Curves, report: Report, *, named: list[str]) -> list[str]:
    """Draws a panel, with its rows' names unless those stand left of the panel before it; tells which names stand."""
    table = table_of(report, panel.table)
    match panel:
        case Bars():
            rows = panel.rows_of(table)
            of = column_of(table, panel.of) if panel.of else None
            draw_bars(axes, theme, rows, column_of(table, panel.column), panel.title, of=of)
            names = [row.name for row in rows]
            if names != named:
                name_bars(axes, theme, rows)
            return names
        case Curves():
            draw_curves(axes, theme, table, panel.names, panel.title)
            return []


def _height(panel: Bars | Curves, report: Report) -> float:
    match panel:
        case Bars():
            return HEIGHT_OF_BAR * len(panel.rows_of(table_of(report, panel.table)))
        case Curves():
            return HEIGHT_OF_CURVES
