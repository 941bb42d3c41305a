"""A report as JSON: what is written is what is read, and what is read is looked at field by field.

Figures are kept to six digits, which is more than any of them is good for. Fields stand in the order of
`benchmarks._report`, figures in that of their columns, so that two files differ where two runs do.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Final, NoReturn

from benchmarks._report import Column, Effort, Figure, Findings, Goal, Machine, Report, Row, Table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import TypeAlias

    Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None

DIGITS: Final = 6
EXACT: Final = 2.0**53
"""Up to here a whole number is written without a point."""
NUMBERS: Final = re.compile(r"\[\n\s+([^\]\[{}\"]+?)\n\s+\]")
"""An array of numbers, spread over lines; a string has no line ends of its own."""


class MalformedReportError(ValueError):
    """A file that is no report, and where it is none."""


def write_report(report: Report, path: Path) -> None:
    """Leave a report in a file, in place of what was there."""
    path.write_text(to_json(report), encoding="utf-8")


def read_report(path: Path) -> Report:
    """The report in a file.

    Raises:
        MalformedReportError: it is none.
        OSError: the file cannot be read.
    """
    return from_json(path.read_text(encoding="utf-8"))


def to_json(report: Report) -> str:
    """A report as text: a figure's rounds on one line, everything else on lines of its own."""
    text = json.dumps(_of_report(report), indent=1, ensure_ascii=False, allow_nan=False)
    return NUMBERS.sub(lambda found: f"[{' '.join(found[1].split())}]", text) + "\n"


def from_json(text: str) -> Report:
    """The report that a text is.

    Raises:
        MalformedReportError: it is none.
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        raise MalformedReportError(f"no JSON: {error}") from error
    return _report(_Place(value, "report"))


def _of_report(report: Report) -> Json:
    machine = report.machine
    return {
        "taken_on": report.taken_on,
        "effort": report.effort.value,
        "machine": {
            "processor": machine.processor,
            "cores": machine.cores,
            "system": machine.system,
            "python": machine.python,
            "packages": dict(sorted(machine.packages.items())),
        },
        "seconds": {name: _number(seconds) for name, seconds in report.seconds.items()},
        "groups": {name: _of_findings(findings) for name, findings in report.groups.items()},
    }


def _of_findings(findings: Findings) -> Json:
    return {
        "tables": [_of_table(table) for table in findings.tables],
        "goals": [_of_goal(goal) for goal in findings.goals],
    }


def _of_table(table: Table) -> Json:
    return {
        "key": table.key,
        "title": table.title,
        "note": table.note,
        "columns": [
            {
                "key": column.key,
                "title": column.title,
                "decimals": column.decimals,
                "shows_spread": column.shows_spread,
            }
            for column in table.columns
        ],
        "rows": [_of_row(row, table.columns) for row in table.rows],
    }


def _of_row(row: Row, columns: tuple[Column, ...]) -> Json:
    return {
        "name": row.name,
        "is_ours": row.is_ours,
        "size": None if row.size is None else _number(row.size),
        "figures": {
            column.key: _of_figure(row.figures[column.key]) for column in columns if column.key in row.figures
        },
    }


def _of_goal(goal: Goal) -> Json:
    return {
        "text": goal.text,
        "figure": _of_figure(goal.figure),
        "at_least": None if goal.at_least is None else _number(goal.at_least),
        "at_most": None if goal.at_most is None else _number(goal.at_most),
    }


def _of_figure(figure: Figure) -> Json:
    return [_number(value) for value in figure.rounds]


def _number(value: float) -> float:
    rounded = float(f"{value:.{DIGITS}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < EXACT else rounded


class _Place:
    """A value within the file, and the way to it."""

    def __init__(self, value: object, path: str) -> None:
        self._value = value
        self._path = path

    def object(self, *keys: str) -> dict[str, _Place]:
        """An object of just these fields."""
        places = self.mapping()
        if wrong := set(places) ^ set(keys):
            self.fail(f"fields that are missing, or unknown: {', '.join(sorted(wrong))}")
        return places

    def mapping(self) -> dict[str, _Place]:
        """An object whose keys are data."""
        if not isinstance(self._value, dict):
            self.fail("no object")
        return {str(key): _Place(value, f"{self._path}.{key}") for key, value in self._value.items()}

    def items(self) -> Iterator[_Place]:
        if not isinstance(self._value, list):
            self.fail("no array")
        return (_Place(value, f"{self._path}[{index}]") for index, value in enumerate(self._value))

    def text(self) -> str:
        if not isinstance(self._value, str):
            self.fail("no text")
        return self._value

    def flag(self) -> bool:
        if not isinstance(self._value, bool):
            self.fail("neither true nor false")
        return self._value

    def count(self) -> int:
        if isinstance(self._value, bool) or not isinstance(self._value, int) or self._value < 0:
            self.fail("no count")
        return self._value

    def number(self) -> float:
        if isinstance(self._value, bool) or not isinstance(self._value, (int, float)):
            self.fail("no number")
        if not math.isfinite(self._value):
            self.fail("no finite number")
        return float(self._value)

    def optional(self) -> float | None:
        return None if self._value is None else self.number()

    def figure(self) -> Figure:
        rounds = tuple(item.number() for item in self.items())
        if not rounds:
            self.fail("a figure without rounds")
        return Figure(rounds)

    def fail(self, what: str) -> NoReturn:
        raise MalformedReportError(f"{self._path}: {what}")


def _report(place: _Place) -> Report:
    fields = place.object("taken_on", "effort", "machine", "seconds", "groups")
    effort = fields["effort"].text()
    if effort not in set(Effort):
        fields["effort"].fail(f"neither of {', '.join(Effort)}")
    return Report(
        taken_on=fields["taken_on"].text(),
        effort=Effort(effort),
        machine=_machine(fields["machine"]),
        seconds={name: seconds.number() for name, seconds in fields["seconds"].mapping().items()},
        groups={name: _findings(findings) for name, findings in fields["groups"].mapping().items()},
    )


def _machine(place: _Place) -> Machine:
    fields = place.object("processor", "cores", "system", "python", "packages")
    return Machine(
        processor=fields["processor"].text(),
        cores=fields["cores"].count(),
        system=fields["system"].text(),
        python=fields["python"].text(),
        packages={name: version.text() for name, version in fields["packages"].mapping().items()},
    )


def _findings(place: _Place) -> Findings:
    fields = place.object("tables", "goals")
    return Findings(
        tables=tuple(map(_table, fields["tables"].items())),
        goals=tuple(map(_goal, fields["goals"].items())),
    )


def _table(place: _Place) -> Table:
    fields = place.object("key", "title", "note", "columns", "rows")
    columns = tuple(map(_column, fields["columns"].items()))
    keys = {column.key for column in columns}
    if len(keys) < len(columns):
        fields["columns"].fail("two columns of one key")
    return Table(
        key=fields["key"].text(),
        title=fields["title"].text(),
        note=fields["note"].text(),
        columns=columns,
        rows=tuple(_row(row, keys) for row in fields["rows"].items()),
    )


def _column(place: _Place) -> Column:
    fields = place.object("key", "title", "decimals", "shows_spread")
    return Column(
        key=fields["key"].text(),
        title=fields["title"].text(),
        decimals=fields["decimals"].count(),
        shows_spread=fields["shows_spread"].flag(),
    )


def _row(place: _Place, columns: set[str]) -> Row:
    fields = place.object("name", "is_ours", "size", "figures")
    figures = fields["figures"].mapping()
    for key in figures.keys() - columns:
        figures[key].fail("no column is so called")
    return Row(
        name=fields["name"].text(),
        is_ours=fields["is_ours"].flag(),
        size=fields["size"].optional(),
        figures={key: figure.figure() for key, figure in figures.items()},
    )


def _goal(place: _Place) -> Goal:
    fields = place.object("text", "figure", "at_least", "at_most")
    return Goal(
        text=fields["text"].text(),
        figure=fields["figure"].figure(),
        at_least=fields["at_least"].optional(),
        at_most=fields["at_most"].optional(),
    )
