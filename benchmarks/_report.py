"""What measuring leaves behind: groups of tables, rows and figures, and the goals that figures are held to.

A report is a value. `benchmarks.__main__` makes one and writes it as JSON; pages and plots are made from the JSON
alone. Tables are Markdown, on the terminal and on pages.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

Figure: TypeAlias = Sequence[float]
"""One thing measured: a value for each round, in their order."""
Size = TypeVar("Size")
NOTHING: Final = "\N{EN DASH}"
"""Stands where there is no figure."""
NUMBERS: Final = re.compile(r"\[\n\s+([^\]\[{}\"]+?)\n\s+\]")
"""An array of numbers that is spread over lines."""


class Effort(StrEnum):
    """How much is measured."""

    QUICK = "quick"
    """Everything once or twice, on few hosts, so that nothing rots. All groups take three minutes at most."""
    FULL = "full"
    """What the docs show. All groups take forty minutes at most."""

    def pick(self, quick: Size, full: Size) -> Size:
        """The one that is for this effort."""
        return quick if self is Effort.QUICK else full


def ratio(ours: Figure, theirs: Figure) -> Figure:
    """The ratio round by round, so that what the machine does meets both alike; of the medians, where the numbers of
    rounds differ.
    """
    if len(ours) == len(theirs):
        return [one / other for one, other in zip(ours, theirs, strict=True)]
    return [statistics.median(ours) / statistics.median(theirs)]


@dataclass(frozen=True, slots=True)
class Column:
    """What the figures of one column say."""

    key: str
    title: str
    """With its unit: ``pages/s``, ``match, µs``."""
    decimals: int | None = 0
    """None: three digits of each figure, or all of those before the point."""
    shows_spread: bool = False
    """Whether the table tells the least and the most of the rounds, too."""


@dataclass(frozen=True, slots=True)
class Row:
    """A client that was measured, or one size of a workload."""

    name: str
    is_ours: bool
    size: float | None
    """Of hosts, rules, waiters or seconds, where the rows are sizes: the abscissa of a plot."""
    figures: Mapping[str, Figure]
    """By column. What has no figure, such as a peer that knows no such thing, is left out."""


@dataclass(frozen=True, slots=True)
class Table:
    """Figures that were taken side by side, in interleaved rounds."""

    key: str
    """Within its group: ``200x50``."""
    title: str
    note: str
    """What must be known to read it, such as who does more for each page."""
    columns: Sequence[Column]
    rows: Sequence[Row]

    def markdown(self) -> str:
        """Title, a line for each row, ours in bold, and the note."""
        head = ["", *(column.title for column in self.columns)]
        rows = (
            [f"**{row.name}**" if row.is_ours else row.name]
            + [_cell(row.figures.get(column.key), column) for column in self.columns]
            for row in self.rows
        )
        table = _lines(head, rows, numbers=len(self.columns))
        return f"**{self.title}**\n\n{table}" + (f"\n\n{self.note}" if self.note else "")


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure, and the limit that its median is held to."""

    text: str
    """``gate.fetch, of bare aiohttp's pages/s``."""
    figure: Figure
    at_least: float | None = None
    at_most: float | None = None

    @property
    def is_reached(self) -> bool:
        """Whether the median keeps to the limit."""
        median = statistics.median(self.figure)
        return (self.at_least is None or median >= self.at_least) and (
            self.at_most is None or median <= self.at_most
        )


@dataclass(frozen=True, slots=True)
class Findings:
    """What one group has found; the group adds to it."""

    tables: list[Table] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)

    def table(
        self,
        key: str,
        title: str,
        columns: Sequence[Column],
        found: Mapping[str, Mapping[str, Figure]],
        *,
        ours: Iterable[str] = (),
        sizes: Iterable[float | None] = (),
        note: str = "",
    ) -> None:
        """Add a table.

        Args:
            found: the figures of each row, by its name and the column's key.
            ours: the names of the rows that are robotgate's.
            sizes: the sizes of the rows, in their order.
        """
        keys, ours = [column.key for column in columns], set(ours)
        every_size = [*sizes] or [None] * len(found)
        rows = [
            Row(name, name in ours, size, {key: figures[key] for key in keys if key in figures})
            for (name, figures), size in zip(found.items(), every_size, strict=True)
        ]
        self.tables.append(Table(key, title, note, columns, rows))

    def goal(
        self, text: str, figure: Figure, *, at_least: float | None = None, at_most: float | None = None
    ) -> None:
        """Add a goal."""
        self.goals.append(Goal(text, figure, at_least, at_most))

    def markdown(self) -> str:
        """All tables and goals."""
        goals = [goals_as_markdown(self.goals)] if self.goals else []
        return "\n\n".join([*(table.markdown() for table in self.tables), *goals])


@dataclass(frozen=True, slots=True)
class Machine:
    """What every figure has to be read with."""

    processor: str
    cores: int
    system: str
    python: str
    packages: Mapping[str, str]
    """Versions by name."""

    def __str__(self) -> str:
        versions = ", ".join(f"{package} {version}" for package, version in self.packages.items())
        return f"{self.cores} x {self.processor}, {self.system}; {self.python}; {versions}"


@dataclass(frozen=True, slots=True)
class Report:
    """One run."""

    taken_on: str
    """The date, as ISO 8601 has it."""
    effort: Effort
    machine: Machine
    seconds: Mapping[str, float]
    """How long each group took."""
    groups: Mapping[str, Findings]

    @property
    def goals(self) -> list[Goal]:
        """Those of all groups."""
        return [goal for findings in self.groups.values() for goal in findings.goals]

    def renewed(self, by: Report) -> Report:
        """The other report, and of this one the groups that it does not have."""
        machine = replace(by.machine, packages={**self.machine.packages, **by.machine.packages})
        seconds, groups = {**self.seconds, **by.seconds}, {**self.groups, **by.groups}
        return replace(by, machine=machine, seconds=seconds, groups=groups)

    def table(self, name: str) -> Table:
        """A table by group and key, ``crawl.200x50``; or by its place, ``crawl.#1``, as a quick run has other sizes.

        Raises:
            LookupError: it is not in the report.
        """
        group, _, key = name.partition(".")
        for place, table in enumerate(self.groups[group].tables, 1):
            if key in {table.key, f"#{place}"}:
                return table
        raise LookupError(f"no table {name}")


@runtime_checkable
class Group(Protocol):
    """What a module ``benchmarks.<name>`` that can be named on the command line has."""

    PACKAGES: tuple[str, ...]
    """Whose versions matter to its figures."""

    def measure(self, effort: Effort) -> Findings:
        """Measure all of it, peers included. Peers that are not installed are left out, which is printed."""


def to_json(report: Report) -> str:
    """A report as text: numbers of six digits, the rounds of a figure on one line."""
    exact = json.dumps(asdict(report), allow_nan=False)
    rounded = json.loads(exact, parse_float=_rounded, parse_int=_rounded)
    text = json.dumps(rounded, indent=1, ensure_ascii=False)
    return NUMBERS.sub(lambda found: f"[{' '.join(found[1].split())}]", text) + "\n"


def _rounded(text: str) -> float:
    value = float(f"{float(text):.6g}")
    return int(value) if value.is_integer() else value


def read_report(path: Path) -> Report:
    """The report in a file."""
    told = json.loads(path.read_text(encoding="utf-8"))
    told["groups"] = {
        name: Findings(
            [
                Table(
                    **table
                    | {
                        "columns": [Column(**column) for column in table["columns"]],
                        "rows": [Row(**row) for row in table["rows"]],
                    }
                )
                for table in group["tables"]
            ],
            [Goal(**goal) for goal in group["goals"]],
        )
        for name, group in told["groups"].items()
    }
    return Report(**told | {"effort": Effort(told["effort"]), "machine": Machine(**told["machine"])})


def goals_as_markdown(goals: Iterable[Goal]) -> str:
    """A line for each goal: the figure with its spread, the limit, and whether it is reached."""
    column = Column("", "figure", None, shows_spread=True)
    rows = (
        [goal.text, _cell(goal.figure, column), _limit(goal), "yes" if goal.is_reached else "**no**"]
        for goal in goals
    )
    return _lines(["goal", "figure", "limit", "reached"], rows, numbers=1)


def shown(value: float, decimals: int | None) -> str:
    """A number with so many decimals, its thousands set apart."""
    if decimals is None:
        is_whole = value == round(value)
        decimals = 0 if is_whole else max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}"


def _cell(figure: Figure | None, column: Column) -> str:
    if figure is None:
        return NOTHING
    median, least, most = (
        shown(value, column.decimals) for value in (statistics.median(figure), min(figure), max(figure))
    )
    return f"{median} ({least}-{most})" if column.shows_spread and least != most else median


def _limit(goal: Goal) -> str:
    bounds = (("at least", goal.at_least), ("at most", goal.at_most))
    return ", ".join(f"{word} {bound:,g}" for word, bound in bounds if bound is not None)


def _lines(head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: int) -> str:
    """Of the columns, so many after the first are numbers, and stand on the right."""
    rules = ["---", *(numbers * ["---:"]), *((len(head) - numbers - 1) * ["---"])]
    lines = [" | ".join(cell.replace("|", "\\|") for cell in cells) for cells in (head, *rows)]
    return "\n".join([f"| {lines[0]} |", f"|{'|'.join(rules)}|", *(f"| {line} |" for line in lines[1:])])
