"""Which plots there are, what each shows, and whether those in a folder show a given report."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from benchmarks._json import to_json
from benchmarks._theme import THEMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from benchmarks._report import Report, Row, Table
    from benchmarks._theme import Theme

ROUNDS: Final = "Medians of the rounds; the line under a bar's end goes from the least to the most."
MANY: Final = 3
FORMATS: Final = ("svg", "png")


@dataclass(frozen=True, slots=True)
class Bars:
    """One column of a table."""

    table: str
    """By group and key, as `table_of` has it."""
    column: str
    title: str
    names: Mapping[str, str] = field(default_factory=dict)
    """Of these rows alone, in the table's order, so called; all by default. What is not installed is in no table."""
    of: str = ""
    """The column with the number that each figure is a part of: its label is ``9 of 950``."""

    def rows_of(self, table: Table) -> list[Row]:
        """The rows that have a bar, or a place for one beside other columns."""
        names = self.names or {row.name: row.name for row in table.rows}
        return [replace(row, name=names[row.name]) for row in table.rows if row.name in names]


@dataclass(frozen=True, slots=True)
class Curves:
    """Columns of a table whose rows are sizes."""

    table: str
    title: str
    names: Mapping[str, str]
    """What the curve of a column is called; ours is the first."""


@dataclass(frozen=True, slots=True)
class Picture:
    """Panels that belong together."""

    name: str
    panels: tuple[Bars | Curves, ...]
    note: str = ""
    """What has to be known to read it."""
    across: int = MANY
    """Panels side by side; the others come below."""

    @property
    def groups(self) -> frozenset[str]:
        """Those that a report has to have."""
        return frozenset(panel.table.partition(".")[0] for panel in self.panels)

    def file_name(self, theme: Theme, suffix: str) -> str:
        """Of one of its files."""
        return f"{self.name}-{theme.name}.{suffix}"


PICTURES: Final = (
    Picture(
        "headline",
        (
            Bars(
                "pace.fast",
                "short",
                "Gaps under the delay of 0.1 s",
                {
                    "`gate.fetch`, asyncio": "gate.fetch",
                    "`gate.middleware`, asyncio": "gate.middleware",
                    "by hand: Protego, Lock, AsyncLimiter": "written by hand",
                    "Scrapy, fixed delay": "Scrapy, fixed delay",
                    "Scrapy, randomised, its default": "Scrapy, its default",
                },
                of="gaps",
            ),
            Bars(
                "crawl.#1",
                "rate",
                "Pages a second, with no delay",
                {
                    "bare aiohttp": "aiohttp, no robots.txt",
                    "by hand: Protego, Lock, AsyncLimiter": "written by hand",
                    "`gate.fetch`": "gate.fetch",
                    "`gate.middleware`": "gate.middleware",
                    "Scrapy, `ROBOTSTXT_OBEY`": "Scrapy",
                    "Crawlee, `respect_robots_txt_file`": "Crawlee",
                },
            ),
        ),
        note="Medians, with the least and the most of the rounds. Gaps at the server, from the start of a page to the "
        "start of the next one of its host.\nCrawlee is not on the left: it spaces only hosts that you list, by whole "
        "seconds. By hand: aiohttp, Protego, asyncio.Lock,\naiolimiter. Scrapy and Crawlee do more for each page than "
        "fetch it.",
    ),
    Picture(
        "rules",
        (
            Bars("rules.corpus", "parse", "Parsed, MB/s"),
            Bars("rules.corpus", "match", "A question, ns"),
            Bars("rules.corpus", "match-p99", "Its p99, ns"),
        ),
        note=f"{ROUNDS} More is better on the left, less elsewhere.",
    ),
    Picture(
        "gate",
        (
            Bars("gate.#1", "mean", "A warm answer, one host, ns"),
            Bars("gate.#2", "mean", "A thousand hosts, ns"),
        ),
        note=f"{ROUNDS} Less is better.",
    ),
    Picture(
        "crawl",
        (
            Bars("crawl.#1", "rate", "Pages a second"),
            Bars("crawl.#1", "cpu", "CPU s for 1,000 pages"),
            Bars("crawl.#1", "peak", "Most memory, MB"),
        ),
        note=f"{ROUNDS} More is better on the left, less elsewhere.",
    ),
    Picture(
        "pace",
        (
            Bars("pace.fast", "short", "Gaps under the delay", of="gaps"),
            Bars("pace.fast", "least_from_end", "Smallest gap, ms"),
            Bars("pace.fast", "to_ideal", "Time to the ideal"),
        ),
        note="Left: gaps from the start of a page to the start of the next page of its host. "
        "Middle: from a response's end to the next request.",
    ),
    Picture(
        "memory",
        (
            Bars("memory.#1", "allocated", "A known host, bytes"),
            Bars("memory.waiters", "allocated", "Paces and waiters, bytes"),
        ),
        note="Allocated, as tracemalloc counts. Less is better.",
    ),
    Picture(
        "fleet",
        (
            Bars("fleet.turns_of_one", "rate", "Turns a second, one process"),
            Bars("fleet.turns_of_many", "rate", "Several processes"),
            Bars("fleet.turns_of_many", "p99", "p99 of their waits, ms"),
        ),
        note="One Redis. The script makes two calls a turn, the packages make one.",
    ),
    Picture(
        "scale",
        (
            Curves(
                "scale.match", "A question, ns, by rules", {"robotgate": "robotgate", "Protego": "Protego"}
            ),
            Curves(
                "scale.allowed",
                "A warm answer, ns, by hosts",
                {"robotgate": "gate.allowed", "dict": "bare dict"},
            ),
            Curves(
                "scale.grant", "A turn, µs, by waiters", {"robotgate": "gate.turn", "lock": "asyncio.Lock"}
            ),
            Curves(
                "scale.memory",
                "A known host, bytes, by hosts",
                {"asked": "once asked", "learnt": "merely learnt"},
            ),
        ),
        note="Logarithmic both ways. n to the power of 0 stays the same; of 1, it grows as the number does.",
        across=2,
    ),
)


def pictures_of(report: Report) -> Iterator[Picture]:
    """Those for which the report has the groups."""
    return (picture for picture in PICTURES if picture.groups <= report.groups.keys())


def fingerprint(report: Report) -> str:
    """What a plot says of the report that it was made of."""
    return "sha256:" + hashlib.sha256(to_json(report).encode()).hexdigest()


def stale_plots(report: Report, folder: Path) -> list[Path]:
    """The SVGs that are not there, or were made of another report."""
    made_of = fingerprint(report)
    drawn = [folder / picture.file_name(theme, "svg") for picture in pictures_of(report) for theme in THEMES]
    return [path for path in drawn if not path.exists() or made_of not in path.read_text(encoding="utf-8")]
