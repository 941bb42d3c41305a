"""What the parts of `benchmarks.fleet` share: how much is measured, and rounds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from benchmarks._fleet_ways import GATE, SCRIPT
from benchmarks._report import Row
from benchmarks._rounds import interleaved
from benchmarks._told import told

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks._fleet_crawl import Crawl
    from benchmarks._fleet_ways import Way
    from benchmarks._report import Figure
    from benchmarks._told import Values

    Figures = Mapping[str, Figure]

OURS: Final = (GATE,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much of it."""

    rounds: int
    """Of turns and of calls; all else is measured once."""
    turns: int
    processes: int
    calls: int
    server_turns: int
    kept: int
    """Hosts, and robots.txt files, in the server's memory."""
    pace_seconds: float
    pace_processes: int
    crawls: tuple[Crawl, ...]
    peers_once: bool
    """Whether the other packages are measured with one process alone."""


@dataclass(frozen=True, slots=True)
class Bench:
    """Where it is measured."""

    program: str
    size: Size
    peers: tuple[Way, ...]

    def ways(self, processes: int) -> tuple[Way, ...]:
        """All that are measured with so many."""
        peers = () if processes > 1 and self.size.peers_once else self.peers
        return (*OURS, SCRIPT, *peers)


def in_rounds(
    part: str, rounds: int, works: Mapping[str, Callable[[], Values]]
) -> dict[str, dict[str, Figure]]:
    """Every work once in each round, so that those of a round have the same hour."""
    return interleaved(
        rounds, {name: partial(told, f"fleet {part}: {name}", work) for name, work in works.items()}
    )


def rows_of(figures: Mapping[str, Figures]) -> tuple[Row, ...]:
    """A row each."""
    ours = {way.name for way in OURS}
    return tuple(Row(name=name, figures=own, is_ours=name in ours) for name, own in figures.items())


def processes_of(number: int) -> str:
    """As people say it."""
    return "one process" if number == 1 else f"{number} processes"
