"""Tables, goals and machines as Markdown."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from benchmarks._machine import described

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks._report import Column, Figure, Goal, Report, Table

NOTHING: Final = "\N{EN DASH}"
"""Stands where there is no figure."""
BACKSLASH: Final = "\\"


def as_markdown(table: Table) -> str:
    """A line for each row, ours in bold: medians, and where the column says so the least and the most."""
    head = ["", *(column.title for column in table.columns)]
    rows = (
        [
            f"**{row.name}**" if row.is_ours else row.name,
            *(_cell(row.figures.get(column.key), column) for column in table.columns),
        ]
        for row in table.rows
    )
    return _table(head, rows, numbers=len(table.columns))


def goals_as_markdown(goals: Iterable[Goal]) -> str:
    """A line for each goal: the figure with its spread, the limit, and whether it is reached."""
    rows = (
        [goal.text, _spread(goal.figure), _limit(goal), "yes" if goal.is_reached else "**no**"]
        for goal in goals
    )
    return _table(["goal", "figure", "limit", "reached"], rows, numbers=1)


def machine_as_markdown(report: Report) -> str:
    """When and where the figures were taken, and with which versions: a sentence."""
    return f"Taken on {report.taken_on}, {report.effort.value} run: {described(report.machine)}."


def shown(value: float, decimals: int) -> str:
    """A number with so many decimals, its thousands set apart."""
    return f"{value:,.{decimals}f}"


def _cell(figure: Figure | None, column: Column) -> str:
    if figure is None:
        return NOTHING
    if column.measurable is not None and figure.median < column.measurable:
        return f"under {_value(column.measurable, column)}"
    median = _value(figure.median, column)
    if not column.shows_spread or len(figure.rounds) < 2:
        return median
    return f"{median} ({_value(min(figure.rounds), column)}-{_value(max(figure.rounds), column)})"


def _value(value: float, column: Column) -> str:
    """A number with the digits of its column."""
    if column.digits is None or not value:
        return shown(value, column.decimals)
    decimals = column.digits - 1 - math.floor(math.log10(abs(value)))
    return shown(round(value, decimals), max(0, decimals))


def _spread(figure: Figure) -> str:
    """Of a figure that no column tells the decimals of."""
    least, median, most = map(_short, (min(figure.rounds), figure.median, max(figure.rounds)))
    return f"{median} ({least}-{most})" if least != most else median


def _short(value: float) -> str:
    """Three digits, or all of those before the point."""
    if value == round(value):
        return shown(value, 0)
    decimals = next((decimals for least, decimals in ((100, 0), (10, 1), (1, 2)) if abs(value) >= least), 3)
    return shown(value, decimals)


def _limit(goal: Goal) -> str:
    bounds = (("at least", goal.at_least), ("at most", goal.at_most))
    return ", ".join(f"{word} {bound:,g}" for word, bound in bounds if bound is not None)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: int) -> str:
    """Of the columns, so many after the first are numbers, and stand on the right."""
    rules = ["---", *(numbers * ["---:"]), *((len(head) - numbers - 1) * ["---"])]
    return "\n".join([_line(head), f"|{'|'.join(rules)}|", *map(_line, rows)])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', BACKSLASH + '|') for cell in cells)} |"
