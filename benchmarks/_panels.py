"""The two kinds of picture that plots are made of: bars with their figures at them, and curves with their exponents."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from benchmarks._fit import exponents
from benchmarks._look_up import column_of
from benchmarks._markdown import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

    from benchmarks._report import Column, Figure, Row, Table
    from benchmarks._theme import Theme

TEXT: Final = 10.0
"""Points."""
BAR: Final = 0.62
"""Of the way from one bar to the next."""
ROOM_FOR_FIGURES: Final = 1.22
"""Of the longest bar: its figure stands behind it."""
ROOM_FOR_PARTS: Final = 1.5
"""The same, where a figure is followed by what it is a part of."""
LABELS_APART: Final = 0.075
"""Of the height: labels of curves that end close together are moved so far from each other."""
LEAST_RANGE: Final = 100.0
MARKERS: Final = "osD^v"


def plain(name: str) -> str:
    """A name without what Markdown needs."""
    return name.replace("`", "")


def draw_bars(
    axes: Axes, theme: Theme, rows: Sequence[Row], column: Column, title: str, *, of: Column | None = None
) -> None:
    """A bar for each row, from the top, with its figure at its end; under it a line from the least round to the most.

    Args:
        of: the column with the number that each figure is a part of.
    """
    for place, row in enumerate(rows):
        if column.key in row.figures:
            _draw_bar(axes, theme, place, row, column, of=of)
    longest = max(
        (max(row.figures[column.key].rounds) for row in rows if column.key in row.figures), default=0.0
    )
    room = ROOM_FOR_FIGURES if of is None else ROOM_FOR_PARTS
    axes.set(xlim=(0, room * (longest or 1.0)), ylim=(len(rows) - 0.5, -0.5), xticks=[], yticks=[])
    axes.axvline(0, color=theme.quiet, linewidth=1)
    _head(axes, theme, title)


def _draw_bar(axes: Axes, theme: Theme, place: int, row: Row, column: Column, *, of: Column | None) -> None:
    figure = row.figures[column.key]
    least, most = min(figure.rounds), max(figure.rounds)
    axes.barh(place, figure.median, BAR, color=theme.ours if row.is_ours else theme.peer)
    if least < most:
        # At the lower edge of the bar: the figure stands at the bar's end.
        edge = place + BAR / 2
        axes.plot([least, most], [edge, edge], color=theme.text, linewidth=1, solid_capstyle="butt")
    label = shown(figure.median, column.decimals)
    if of is not None:
        label += f" of {shown(row.figures[of.key].median, of.decimals)}"
    axes.annotate(
        label,
        (figure.median, place),
        xytext=(5, 0),
        textcoords="offset points",
        verticalalignment="center",
        color=theme.ours if row.is_ours else theme.text,
        fontweight="bold" if row.is_ours else "normal",
    )


def name_bars(axes: Axes, theme: Theme, rows: Sequence[Row]) -> None:
    """Each row's name, left of its bar."""
    axes.set_yticks(range(len(rows)), [plain(row.name) for row in rows])
    for label, row in zip(axes.get_yticklabels(), rows, strict=True):
        label.set_color(theme.ours if row.is_ours else theme.text)
        label.set_fontweight("bold" if row.is_ours else "normal")


def draw_curves(axes: Axes, theme: Theme, table: Table, names: Mapping[str, str], title: str) -> None:
    """A curve for each column over the sizes of the rows, on logarithmic axes, each with the exponent it grows by."""
    axes.set(xscale="log", yscale="log")
    ends = []
    for (key, name), colour, marker in zip(names.items(), theme.lines, MARKERS, strict=False):
        costs = costs_of(table, key)
        sizes, medians = list(costs), [cost.median for cost in costs.values()]
        axes.plot(sizes, medians, color=colour, marker=marker, markersize=5, linewidth=1.6)
        ends.append((medians[-1], f"{name}: n^{exponents(costs).median:.2f}", colour))
    # A cost that stays the same is to look so: not less than a hundredfold is shown.
    bottom, top = axes.get_ylim()
    spare = max(1.0, LEAST_RANGE * bottom / top) ** 0.5
    axes.set_ylim(bottom / spare, top * spare)
    _label_ends(axes, ends)
    axes.minorticks_off()
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: short(value))
    axes.grid(visible=True, which="major", color=theme.peer, alpha=0.25, linewidth=0.6)
    axes.tick_params(labelcolor=theme.quiet)
    _head(axes, theme, title)


def costs_of(table: Table, key: str) -> dict[float, Figure]:
    """The figures of a column by size.

    Raises:
        LookupError: the table has no such column.
    """
    column = column_of(table, key)
    return {
        row.size: row.figures[column.key] for row in table.rows if row.size is not None and key in row.figures
    }


def short(value: float) -> str:
    """A power of ten, as an axis names it."""
    for least, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= least:
            return f"{value / least:g}{suffix}"
    return f"{value:g}"


def spread(places: Sequence[float], apart: float) -> list[float]:
    """The places, in their order, moved up where one is closer to the one below it."""
    moved = dict.fromkeys(range(len(places)), 0.0)
    least = -math.inf
    for number in sorted(moved, key=lambda number: places[number]):
        moved[number] = least = max(places[number], least + apart)
    return list(moved.values())


def _label_ends(axes: Axes, ends: Sequence[tuple[float, str, str]]) -> None:
    bottom, top = axes.get_ylim()
    height = math.log(top / bottom)
    places = spread([math.log(value / bottom) / height for value, _, _ in ends], LABELS_APART)
    for place, (_, text, colour) in zip(places, ends, strict=True):
        axes.annotate(
            text,
            (1.0, place),
            xycoords="axes fraction",
            xytext=(6, 0),
            textcoords="offset points",
            verticalalignment="center",
            color=colour,
        )


def _head(axes: Axes, theme: Theme, title: str) -> None:
    axes.set_title(title, loc="left", color=theme.text, fontsize=TEXT, fontweight="bold", pad=8)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(left=False, bottom=False)
    axes.set_facecolor(theme.page)
