"""What a store on disk costs: opening a large one, looking a host up, taking visits down, and how long the loop stands
still meanwhile.

A file of a million hosts and of a tenth as many robots.txt files is made first. Each figure after that comes from a
process of its own. Beside it in the same run: the same rows read and written by `sqlite3` alone, a batch of a thousand
in a transaction, in the thread that asks; and, where it is about the loop, nothing at all.
"""

from __future__ import annotations

import sqlite3
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks import _disk_work as work
from benchmarks._client import alone
from benchmarks._report import Column, Effort, Figure, Findings, Goal, Row, Table
from benchmarks._rounds import figures_of, interleaved
from benchmarks._told import told

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks._told import Values

    Work = Callable[[], Values]

PACKAGES: Final = ("robotgate",)
STORE: Final = "`SQLiteStore`"
BARE: Final = "`sqlite3` alone"
NOTHING: Final = "nothing done"
VISITING: Final = f"{STORE}, {work.VISITS_A_SECOND:,} visits/s taken down"
MOST_LATE: Final = 5.0
"""Milliseconds that the loop's timer may be late at p99.9 while visits are taken down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much of it."""

    hosts: int
    look_ups: int
    visits: int
    watched: float
    """Seconds for which the loop is watched."""
    rounds: int


SIZES: Final = {
    Effort.QUICK: Size(hosts=5_000, look_ups=1_000, visits=10_000, watched=0.5, rounds=1),
    Effort.FULL: Size(hosts=1_000_000, look_ups=10_000, visits=200_000, watched=10.0, rounds=3),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One table: what is measured for each of its rows, and how it is shown."""

    key: str
    title: str
    columns: tuple[Column, ...]
    rows: Mapping[str, Work]
    note: str = ""


def parts_of(size: Size, folder: Path) -> tuple[Part, ...]:
    """All that is measured in rounds, over the file that is in a folder."""
    path, hosts = folder / "cache.db", size.hosts
    return (
        Part(
            key="open",
            title=f"Opening a file of {hosts:,} hosts",
            columns=(
                Column(key="open", title="ms until one host is known", decimals=1, shows_spread=True),
                Column(key="open_memory", title="MB for it", decimals=1),
            ),
            rows={
                STORE: partial(alone, work.cold_start, path, hosts),
                BARE: partial(alone, work.bare_cold_start, path, hosts),
            },
        ),
        Part(
            key="look_up",
            title="Looking up what is not in memory",
            columns=(
                Column(key="median", title="a host, µs", shows_spread=True),
                Column(key="p99", title="p99"),
                Column(key="together", title=f"each of {work.TASKS} hosts at once, µs"),
                Column(key="record", title="a robots.txt, µs"),
            ),
            rows={
                STORE: partial(alone, work.look_ups, path, hosts, size.look_ups),
                BARE: partial(alone, work.bare_look_ups, path, hosts, size.look_ups),
            },
        ),
        Part(
            key="visits",
            title=f"{size.visits:,} visits, to {work.VISITED:,} hosts in turn",
            columns=(
                Column(key="taken_in", title="taken in a second", shows_spread=True),
                Column(key="in_file", title="a second until they are in the file", shows_spread=True),
            ),
            rows={
                STORE: partial(in_new_file, work.visits, folder, size.visits),
                BARE: partial(in_new_file, work.bare_visits, folder, size.visits),
            },
            note=f"By `sqlite3` alone each visit is a row that replaces its host's, {work.CHUNK:,} to a transaction.",
        ),
        Part(
            key="loop",
            title=f"How late a timer of the loop rings, in {size.watched:g} s",
            columns=(
                Column(key="median", title="ms, median", decimals=2),
                Column(key="p99", title="p99", decimals=2),
                Column(key="p999", title="p99.9", decimals=2, shows_spread=True),
                Column(key="most", title="most", decimals=1, shows_spread=True),
            ),
            rows={
                NOTHING: partial(alone, work.stalls, None, hosts, size.watched),
                VISITING: partial(alone, work.stalls, path, hosts, size.watched),
            },
        ),
    )


def in_new_file(measure: Callable[[Path, int], Values], folder: Path, count: int) -> Values:
    """What is found in a process of its own, with a file that is not there yet."""
    with tempfile.TemporaryDirectory(dir=folder) as own:
        return alone(measure, Path(own) / "visits.db", count)


def table_of(part: Part, found: Mapping[tuple[str, str], Mapping[str, Figure]]) -> Table:
    """What is shown of one part."""
    rows = tuple(
        Row(name=name, figures=found[part.key, name], is_ours=name.startswith(STORE)) for name in part.rows
    )
    return Table(key=part.key, title=part.title, columns=part.columns, rows=rows, note=part.note)


def file_table(size: Size, values: Values) -> Table:
    """What was found once."""
    return Table(
        key="file",
        title=f"A file of {size.hosts:,} hosts, one in {work.RECORD_SHARE} with a robots.txt",
        columns=(
            Column(key="host", title="bytes on disk, a host"),
            Column(key="record", title="a robots.txt of 700 bytes"),
            Column(key="seconds", title="s to make it", decimals=1),
            Column(key="peak", title="peak MB, a tenth of all hosts looked up"),
        ),
        rows=(Row(name=STORE, figures=figures_of([values]), is_ours=True),),
        note=f"SQLite {sqlite3.sqlite_version}.",
    )


def measure(effort: Effort) -> Findings:
    """The file, and every part over it."""
    size = SIZES[effort]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "cache.db"
        values = told("disk file", partial(alone, work.fill, path, size.hosts))
        parts = parts_of(size, folder)
        works = {
            (part.key, name): partial(told, f"disk {part.key}: {name}", measured)
            for part in parts
            for name, measured in part.rows.items()
        }
        found = interleaved(size.rounds, works)
        values |= alone(work.peak_after, path, size.hosts)
    return Findings(
        tables=(file_table(size, values), *(table_of(part, found) for part in parts)),
        goals=(
            Goal(
                text="ms that the loop's timer is late at p99.9 while visits are taken down",
                figure=found["loop", VISITING]["p999"],
                at_most=MOST_LATE,
            ),
        ),
    )
