"""What measuring leaves behind: tables of figures, each over several rounds, and the goals they are held to.

A report is a value. `benchmarks.__main__` makes one and writes it as JSON; tables and plots are made from the JSON
alone, so that nothing stands in the docs that is not in a file beside them.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping


class Effort(StrEnum):
    """How much is measured."""

    QUICK = "quick"
    """So that nothing rots: everything once or twice, on few hosts. All groups together take three minutes at most."""
    FULL = "full"
    """What the docs show. All groups together take half an hour at most."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing measured: a value for each round, in their order."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        """What a table shows."""
        return statistics.median(self.rounds)

    def over(self, other: Figure) -> Figure:
        """The ratio to what was measured beside it, round by round: what the machine does meets both alike."""
        return Figure(tuple(ours / theirs for ours, theirs in zip(self.rounds, other.rounds, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """What the figures of one column say."""

    key: str
    title: str
    """With its unit: ``pages/s``, ``match, µs``."""
    decimals: int = 0
    digits: int | None = None
    """How many significant digits are shown, instead of `decimals`."""
    measurable: float | None = None
    """What is less could not be measured, and is shown as less than this."""
    shows_spread: bool = False
    """Whether the table tells the least and the most of the rounds, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A client that was measured, or one size of a workload."""

    name: str
    figures: Mapping[str, Figure]
    """By column; what has no figure, such as a peer that knows no such thing, is left out."""
    is_ours: bool = False
    size: float | None = None
    """Of hosts, rules or waiters, where the rows are sizes: the abscissa of a plot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Figures that were taken side by side, in interleaved rounds."""

    key: str
    """Within its group: ``200x50``."""
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    note: str = ""
    """What must be known to read it, such as who does more for each page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A figure, and the limit it is held to."""

    text: str
    """``gate.fetch, of bare aiohttp's pages/s``."""
    figure: Figure
    at_least: float | None = None
    at_most: float | None = None

    @property
    def is_reached(self) -> bool:
        """Whether the median keeps to the limit."""
        median = self.figure.median
        return (self.at_least is None or median >= self.at_least) and (
            self.at_most is None or median <= self.at_most
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What one group has found."""

    tables: tuple[Table, ...]
    goals: tuple[Goal, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What every figure has to be read with."""

    processor: str
    cores: int
    system: str
    python: str
    packages: Mapping[str, str]
    """Versions by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One run."""

    taken_on: str
    """The date, as ISO 8601 has it."""
    effort: Effort
    machine: Machine
    seconds: Mapping[str, float]
    """How long each group took."""
    groups: Mapping[str, Findings]


@runtime_checkable
class Group(Protocol):
    """What a module ``benchmarks.<name>`` that can be named on the command line has."""

    PACKAGES: tuple[str, ...]
    """Whose versions matter to its figures."""

    def measure(self, effort: Effort) -> Findings:
        """Measure all of it, peers included, printing as it goes. Peers that are not installed are left out, and the
        printout says so.
        """
