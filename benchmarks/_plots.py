"""Which plots there are, what each shows, and how they are drawn: bars of one column, curves over sizes, or paces over
time.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from benchmarks._report import shown, to_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.typing import RcKeyType

    from benchmarks._report import Report, Table


@dataclass(frozen=True, slots=True)
class Panel:
    """One part of a picture."""

    table: str
    """By group and key, as `Report.table` has it."""
    title: str
    column: str = ""
    """The one whose figures are bars. Without it, a curve of each column, over the sizes of the rows."""
    of: str = ""
    """The column with the number that each figure is a part of: its label is ``9 of 950``."""
    names: Mapping[str, str] = field(default_factory=dict)
    """What rows are called: these alone. Without it, all rows by their names."""
    limit: str = ""
    """The column with what `column` is held to, over time; `of` then has the refusals."""


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours, of which each stands out from the page. No grey would from the pages of both themes."""

    page: str
    text: str
    peer: str
    ours: str
    other: str
    """Of a second curve; it lies apart from `ours` for every kind of colour-blindness (after Okabe and Ito)."""


THEMES: Final = {
    "light": Theme("#ffffff", "#1f2328", "#8c959f", "#0072b2", "#b85000"),
    "dark": Theme("#0d1117", "#e6edf3", "#6e7681", "#56b4e9", "#e69f00"),
}
BY_HAND: Final = "by hand: Protego, Lock, AsyncLimiter"
PACES: Final = (0.02, 0.2, 1, 10)
"""Seconds between pages that are named at the axis."""
ROUNDS: Final = (
    "Medians of the rounds, with the least and the most. More is better on the left, less elsewhere."
)
HEADLINE: Final = """\
Medians, with the least and the most of the rounds. Gaps at the server, from the start of a page to the start of the \
next one of its host.
Crawlee is not on the left: it spaces only hosts that you list, by whole seconds. By hand: aiohttp, Protego,
asyncio.Lock, aiolimiter. Scrapy and Crawlee do more for each page than fetch it."""
PICTURES: Final[dict[str, tuple[str, *tuple[Panel, ...]]]] = {
    "headline": (
        HEADLINE,
        Panel(
            "pace.fast",
            "Gaps under the delay of 0.1 s",
            "short",
            "gaps",
            {
                "`gate.fetch`, asyncio": "gate.fetch",
                "`gate.middleware`, asyncio": "gate.middleware",
                BY_HAND: "written by hand",
                "Scrapy, fixed delay": "Scrapy, fixed delay",
                "Scrapy, randomised, its default": "Scrapy, its default",
            },
        ),
        Panel(
            "crawl.#1",
            "Pages a second, with no delay",
            "rate",
            names={
                "bare aiohttp": "aiohttp, no robots.txt",
                BY_HAND: "written by hand",
                "`gate.fetch`": "gate.fetch",
                "`gate.middleware`": "gate.middleware",
                "Scrapy, `ROBOTSTXT_OBEY`": "Scrapy",
                "Crawlee, `respect_robots_txt_file`": "Crawlee",
            },
        ),
    ),
    "rules": (
        "Medians of the rounds, with the least and the most. Less is better.",
        Panel("rules.corpus", "Parsed and asked once, µs", "first-1"),
        Panel("rules.corpus", "A question, ns", "match"),
        Panel("rules.corpus", "Its p99, ns", "match-p99"),
    ),
    "gate": (
        "Medians of the rounds, with the least and the most. Less is better.",
        Panel("gate.#1", "A warm answer, one host, ns", "mean"),
        Panel("gate.#2", "A thousand hosts, ns", "mean"),
    ),
    "crawl": (
        ROUNDS,
        Panel("crawl.#1", "Pages a second", "rate"),
        Panel("crawl.#1", "CPU s for 1,000 pages", "cpu"),
        Panel("crawl.#1", "Most memory, MB", "peak"),
    ),
    "pace": (
        "Left: gaps from start to start of a host's pages. Middle: from a response's end to the next request.",
        Panel("pace.fast", "Gaps under the delay", "short", "gaps"),
        Panel("pace.fast", "Smallest gap, ms", "least_from_end"),
        Panel("pace.fast", "Time to the ideal", "to_ideal"),
    ),
    "limited": (
        "Seconds between two pages, at the server, over time. A cross is a refusal; the line is what the host allows.",
        *(
            Panel("limited.spacing", title, name, f"{name}-refused", limit=f"{name}-limit")
            for name, title in (
                ("bucket", "5 a second"),
                ("window", "20 in each 10 s"),
                ("halved", "5, then 2.5, then 5 a second"),
            )
        ),
    ),
    "memory": (
        "Allocated, as tracemalloc counts. Less is better.",
        Panel("memory.#1", "A known host, bytes", "allocated"),
        Panel("memory.waiters", "A waiter, bytes", "allocated"),
    ),
    "fleet": (
        "One Redis. The script makes two calls a turn.",
        Panel("fleet.turns_of_one", "Turns a second, one process", "rate"),
        Panel("fleet.turns_of_many", "Several processes", "rate"),
        Panel("fleet.turns_of_many", "p99 of their waits, ms", "p99"),
    ),
    "scale": (
        "Logarithmic both ways. n to the power of 0 stays the same; of 1, it grows as the number does.",
        Panel("scale.match", "A question, ns, by rules"),
        Panel("scale.allowed", "A warm answer, ns, by hosts"),
        Panel("scale.grant", "A turn, µs, by waiters"),
        Panel("scale.memory", "A known host, bytes, by hosts"),
    ),
}
"""By name, what has to be known to read them, and their panels."""


def exponent(costs: Mapping[float, float]) -> float:
    """The power of its size that a cost grows by: 0 stays the same, 1 grows as the size does."""
    return statistics.linear_regression(
        [math.log(size) for size in costs], [math.log(cost) for cost in costs.values()]
    ).slope


def fingerprint(report: Report) -> str:
    """What a plot says of the report that it was made of."""
    return "sha256:" + hashlib.sha256(to_json(report).encode()).hexdigest()


def stale_plots(report: Report, folder: Path) -> list[Path]:
    """The SVGs that are not there, or were made of another report."""
    made_of = fingerprint(report)
    paths = [folder / f"{name}-{theme}.svg" for name in PICTURES for theme in THEMES]
    return [path for path in paths if not path.exists() or made_of not in path.read_text(encoding="utf-8")]


def draw(report: Report, folder: Path, suffix: str = "svg") -> list[Path]:
    """Draw the pictures of the groups that the report has, each for light and for dark pages.

    Raises:
        LookupError: a group lacks a table or a column that its plot is made of.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return [
        _drawn(name, report, theme, folder / f"{name}-{theme}.{suffix}")
        for name, (_, *panels) in PICTURES.items()
        if {panel.table.partition(".")[0] for panel in panels} <= report.groups.keys()
        for theme in THEMES
    ]


def _drawn(name: str, report: Report, theme_name: str, path: Path) -> Path:
    import matplotlib as mpl  # noqa: PLC0415  # Only drawing needs it; checking pages does not.
    from matplotlib.figure import Figure as Canvas  # noqa: PLC0415

    theme = THEMES[theme_name]
    note, *panels = PICTURES[name]
    across = 2 if not panels[0].column else len(panels)
    down = math.ceil(len(panels) / across)
    bars = [len(panel.names or report.table(panel.table).rows) for panel in panels if not panel.limit]
    most = max(bars) if bars and down == 1 else 7
    style: dict[RcKeyType, object] = {
        "text.color": theme.text,
        "xtick.color": theme.text,
        "ytick.color": theme.text,
        "axes.facecolor": theme.page,
        # A font that comes with matplotlib, or one as wide; text stays text, and ids are no random numbers.
        "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],
        "svg.fonttype": "none",
        "svg.hashsalt": "robotgate",
    }
    with mpl.rc_context(style):
        height = down * (0.6 + 0.3 * most) + 0.2 * note.count("\n") + 0.3
        canvas = Canvas(figsize=(9.6, height), layout="constrained", facecolor=theme.page)
        named: Sequence[str] = ()
        for place, panel in enumerate(panels, 1):
            axes = canvas.add_subplot(down, across, place)
            axes.set_title(panel.title, loc="left", fontsize=10, fontweight="bold")
            axes.spines[:].set_visible(False)
            axes.tick_params(length=0)
            if panel.limit:
                _pace(axes, panel, report.table(panel.table), theme)
            elif panel.column:
                named = _bars(axes, panel, report.table(panel.table), theme, named)
            else:
                _curves(axes, report.table(panel.table), theme)
        canvas.supxlabel(note, x=0.01, ha="left", fontsize=9)
        metadata = {"Date": None, "Creator": None, "Source": fingerprint(report)}
        canvas.savefig(path, dpi=150, metadata=metadata if path.suffix == ".svg" else None)
    return path


def _bars(axes: Axes, panel: Panel, table: Table, theme: Theme, named: Sequence[str]) -> Sequence[str]:
    """A bar for each row, from the top, with its figure at its end; returns the rows' names, which stand on the left
    unless they are those of the panel before.
    """
    (column,) = [column for column in table.columns if column.key == panel.column]
    shown_names = panel.names or {row.name: row.name for row in table.rows}
    rows = [row for row in table.rows if row.name in shown_names and column.key in row.figures]
    figures = [row.figures[column.key] for row in rows]
    medians = [statistics.median(figure) for figure in figures]
    pairs = [*zip(figures, medians, strict=True)]
    spread = [[median - min(each) for each, median in pairs], [max(each) - median for each, median in pairs]]
    labels = [shown(median, column.decimals) for median in medians]
    if panel.of:
        parts = [shown(statistics.median(row.figures[panel.of]), 0) for row in rows]
        labels = [f"{label} of {part}" for label, part in zip(labels, parts, strict=True)]
    colours = [theme.ours if row.is_ours else theme.peer for row in rows]
    names = [shown_names[row.name].replace("`", "") for row in rows]
    axes.barh(range(len(rows)), medians, 0.62, color=colours)
    if any(map(any, spread)):
        axes.errorbar(medians, range(len(rows)), xerr=spread, fmt="none", ecolor=theme.text, elinewidth=1)
    for place, (figure, label) in enumerate(zip(figures, labels, strict=True)):
        axes.annotate(label, (max(figure), place), (5, 0), textcoords="offset points", va="center")
    axes.set(xticks=[], yticks=range(len(rows)), yticklabels=[] if names == named else names)
    axes.margins(x=0.6 if panel.of else 0.42, y=0.02)
    axes.invert_yaxis()
    for text, row in zip(axes.get_yticklabels(), rows, strict=names != named):
        if row.is_ours:
            text.set(fontweight="bold", color=theme.ours)
    return names


def _curves(axes: Axes, table: Table, theme: Theme) -> None:
    """A curve for each column, on logarithmic axes, each with the exponent it grows by."""
    for column, colour, marker in zip(table.columns, (theme.ours, theme.other), "os", strict=True):
        costs = {row.size: statistics.median(row.figures[column.key]) for row in table.rows if row.size}
        label = f"{column.title.rpartition(',')[0]}: n^{exponent(costs):.2f}"
        axes.loglog([*costs], [*costs.values()], color=colour, marker=marker, markersize=5, label=label)
    # A cost that stays the same is to look so: at least a hundredfold is shown.
    bottom, top = axes.get_ylim()
    spare = max(4.0, 100 * bottom / top) ** 0.5
    axes.set_ylim(bottom / spare, top * spare)
    axes.minorticks_off()
    axes.grid(color=theme.peer, alpha=0.25, linewidth=0.6)
    axes.legend(frameon=False)


def _pace(axes: Axes, panel: Panel, table: Table, theme: Theme) -> None:
    """Seconds between pages over those of the crawl, what the limit asks for, and a cross where there are refusals."""
    points = {row.size: row.figures for row in table.rows if row.size is not None}
    pace, refusals, limit = (
        [statistics.median(figures[key]) for figures in points.values()]
        for key in (panel.column, panel.of, panel.limit)
    )
    axes.step([*points], limit, where="post", color=theme.other, linewidth=1.5)
    crosses = [place for place, refused in enumerate(refusals) if refused]
    axes.plot([*points], pace, color=theme.ours, linewidth=1.5, marker="x", mec=theme.text, markevery=crosses)
    axes.set(yscale="log", ylim=(0.015, 15), yticks=PACES, yticklabels=map(str, PACES))
    axes.minorticks_off()
    axes.grid(color=theme.peer, alpha=0.25, linewidth=0.6)
