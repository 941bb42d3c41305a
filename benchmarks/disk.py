"""What a store on disk costs: opening a large one, looking a host up, taking visits down, and how long the loop stands
still meanwhile.

A file of a million hosts and of a tenth as many robots.txt files is made first. Each figure after that comes from a
process of its own. Beside it in the same run: the same rows read and written by `sqlite3` alone, a batch of a thousand
in a transaction, in the thread that asks; and, where it is about the loop, nothing at all.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import sqlite3
import statistics
import tempfile
import time
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks._bench import (
    alone,
    alone_in_loop,
    figures_of,
    interleaved,
    peak_memory,
    quantile,
    resident_memory,
)
from benchmarks._known import chunks, host_of
from benchmarks._report import Column, Effort, Findings
from robotgate import Origin, SQLiteStore
from robotgate.sites import Outcome, RobotsRecord
from robotgate.stores import HostState

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator

    Values = dict[str, float]

PACKAGES: Final = ("robotgate",)
STORE: Final = "`SQLiteStore`"
BARE: Final = "`sqlite3` alone"
RECORD_SHARE: Final = 10
"""Of so many hosts one has a robots.txt in the file."""
TASKS: Final = 100
VISITED: Final = 10_000
"""Hosts, in turn."""
CHUNK: Final = 1_000
VISITS_A_SECOND: Final = 2_000
"""While the loop is watched."""
VISITING: Final = f"{STORE}, {VISITS_A_SECOND:,} visits/s taken down"
EPOCH: Final = 1_800_000_000.0
LOOK_UP: Final = "SELECT * FROM hosts WHERE pace_key = ?"
FILE_COLUMNS: Final = (
    Column("host", "bytes on disk, a host"),
    Column("record", "a robots.txt of 700 bytes"),
    Column("seconds", "s to make it", 1),
    Column("peak", "peak MB, a tenth of all hosts looked up"),
)
OPEN_COLUMNS: Final = (
    Column("open", "ms until one host is known", 1, shows_spread=True),
    Column("open_memory", "MB for it", 1),
)
LOOK_UP_COLUMNS: Final = (
    Column("median", "a host, µs", shows_spread=True),
    Column("p99", "p99"),
    Column("together", f"each of {TASKS} hosts at once, µs"),
    Column("record", "a robots.txt, µs"),
)
VISIT_COLUMNS: Final = (
    Column("taken_in", "taken in a second", shows_spread=True),
    Column("in_file", "a second until they are in the file", shows_spread=True),
)
LOOP_COLUMNS: Final = (
    Column("median", "ms, median", 2),
    Column("p99", "p99", 2),
    Column("p999", "p99.9", 2, shows_spread=True),
    Column("most", "most", 1, shows_spread=True),
)


def measure(effort: Effort) -> Findings:
    """The file, and every part over it."""
    findings = Findings()
    hosts = effort.pick(5_000, 1_000_000)
    asked, count = effort.pick((1_000, 10_000), (10_000, 200_000))
    watched = effort.pick(0.5, 10.0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cache.db"
        file = alone_in_loop("asyncio", fill, path, hosts)
        works: dict[tuple[str, str], Callable[[], Values]] = {
            ("open", STORE): partial(alone_in_loop, "asyncio", cold_start, path, hosts),
            ("open", BARE): partial(alone, bare_cold_start, path, hosts),
            ("look_up", STORE): partial(alone_in_loop, "asyncio", look_ups, path, hosts, asked),
            ("look_up", BARE): partial(alone, bare_look_ups, path, hosts, asked),
            ("visits", STORE): partial(alone_in_loop, "asyncio", visits, folder, count),
            ("visits", BARE): partial(alone, bare_visits, folder, count),
            ("loop", "nothing done"): partial(alone_in_loop, "asyncio", stalls, None, hosts, watched),
            ("loop", VISITING): partial(alone_in_loop, "asyncio", stalls, path, hosts, watched),
        }
        found = interleaved(effort.pick(1, 3), works)
        file["peak"] = alone_in_loop("asyncio", sweep, path, hosts)["peak"]
    title = f"A file of {hosts:,} hosts, one in {RECORD_SHARE} with a robots.txt"
    rows = {STORE: figures_of([file])}
    note = f"SQLite {sqlite3.sqlite_version}."
    findings.table("file", title, FILE_COLUMNS, rows, ours=(STORE,), note=note)
    by_rows = f"By `sqlite3` alone each visit is a row that replaces its host's, {CHUNK:,} to a transaction."
    for key, title, columns, note in (
        ("open", f"Opening a file of {hosts:,} hosts", OPEN_COLUMNS, ""),
        ("look_up", "Looking up what is not in memory", LOOK_UP_COLUMNS, ""),
        ("visits", f"{count:,} visits, to {VISITED:,} hosts in turn", VISIT_COLUMNS, by_rows),
        ("loop", f"How late a timer of the loop rings, in {watched:g} s", LOOP_COLUMNS, ""),
    ):
        rows = {name: figures for (part, name), figures in found.items() if part == key}
        findings.table(key, title, columns, rows, ours=(STORE, VISITING), note=note)
    text = "ms that the loop's timer is late at p99.9 while visits are taken down"
    findings.goal(text, found["loop", VISITING]["p999"], at_most=5)
    return findings


@contextmanager
def new_file(folder: str) -> Iterator[Path]:
    """The path of a file that is not there yet, until the end of the block."""
    with tempfile.TemporaryDirectory(dir=folder) as own:
        yield Path(own) / "visits.db"


def state(number: int) -> HostState:
    """A host as it is after some visits, none of them just now."""
    at = EPOCH + number / 7
    return HostState(
        last_visit_at=at, next_allowed_at=at + 1, visits=number % 100 + 1, bytes_read=number * 31, latency=0.2
    )


def record(number: int) -> RobotsRecord:
    """A robots.txt of the median size, unlike all others."""
    host, words = host_of(number), random.Random(number)
    rules = "".join(f"Disallow: /{words.randrange(10**9):x}/\n" for _ in range(30))
    return RobotsRecord(
        origin=Origin("https", host, 443),
        outcome=Outcome.SUCCESS,
        status=200,
        checked_at=EPOCH,
        fresh_until_at=EPOCH + 86_400,
        body=f"User-agent: *\n{rules}Sitemap: https://{host}/sitemap.xml\n".encode(),
        fetched_at=EPOCH,
        robots_url=f"https://{host}/robots.txt",
        etag=f'"{number:x}"',
    )


@asynccontextmanager
async def open_store(path: Path) -> AsyncIterator[SQLiteStore]:
    """A store without bounds that matter here, until the end of the block."""
    store = SQLiteStore(path, max_bytes=2**40, max_age=10 * 365 * 86_400.0)
    await store.open()
    try:
        yield store
    finally:
        await store.aclose()


async def fill(path: Path, hosts: int) -> Values:
    """Makes the file: seconds, and bytes on disk for each host and for each record."""
    began = time.perf_counter()
    async with open_store(path) as store:
        for chunk in chunks(range(hosts), 20 * CHUNK):
            await store.save_hosts({host_of(number): state(number) for number in chunk})
    of_hosts = _size(path)
    async with open_store(path) as store:
        for chunk in chunks(range(hosts // RECORD_SHARE), CHUNK):
            await asyncio.gather(*(store.save_record(record(number)) for number in chunk))
    of_records = _size(path) - of_hosts
    return {
        "seconds": time.perf_counter() - began,
        "host": of_hosts / hosts,
        "record": of_records / (hosts // RECORD_SHARE),
    }


def _size(path: Path) -> int:
    return path.stat().st_size


async def cold_start(path: Path, hosts: int) -> Values:
    """Until the file is open and one host of it known, and the memory it takes."""
    before, began = resident_memory(), time.perf_counter()
    async with open_store(path) as store:
        await store.load_host(host_of(hosts // 2))
        took = time.perf_counter() - began
        return {"open": took * 1e3, "open_memory": (resident_memory() - before) / 1e6}


def bare_cold_start(path: Path, hosts: int) -> Values:
    """The same by `sqlite3` alone."""
    before, began = resident_memory(), time.perf_counter()
    with closing(sqlite3.connect(path)) as bare:
        bare.execute(LOOK_UP, (host_of(hosts // 2),)).fetchone()
        took = time.perf_counter() - began
        return {"open": took * 1e3, "open_memory": (resident_memory() - before) / 1e6}


async def look_ups(path: Path, hosts: int, count: int) -> Values:
    """Hosts and records that are not in memory, one after the other and a hundred at once."""
    chosen = random.Random(1).sample(range(hosts), 2 * count)
    with_record = random.Random(2).sample(range(hosts // RECORD_SHARE), count // 2)
    async with open_store(path) as store:
        took = []
        for number in chosen[:count]:
            began = time.perf_counter()
            await store.load_host(host_of(number))
            took.append((time.perf_counter() - began) * 1e6)
        left = iter(chosen[count:])

        async def look(numbers: Iterable[int]) -> None:
            for number in numbers:
                await store.load_host(host_of(number))

        marks = [time.perf_counter()]
        await asyncio.gather(*(look(left) for _ in range(TASKS)))
        marks.append(time.perf_counter())
        for number in with_record:
            await store.load_record(Origin("https", host_of(number), 443))
        marks.append(time.perf_counter())
    return {
        "median": statistics.median(took),
        "p99": quantile(took, 0.99),
        "together": (marks[1] - marks[0]) / count * 1e6,
        "record": (marks[2] - marks[1]) / len(with_record) * 1e6,
    }


def bare_look_ups(path: Path, hosts: int, count: int) -> Values:
    """The same hosts by `sqlite3` alone, in the thread that asks."""
    took = []
    with closing(sqlite3.connect(path)) as bare:
        for number in random.Random(1).sample(range(hosts), 2 * count)[:count]:
            began = time.perf_counter()
            bare.execute(LOOK_UP, (host_of(number),)).fetchone()
            took.append((time.perf_counter() - began) * 1e6)
    return {"median": statistics.median(took), "p99": quantile(took, 0.99)}


async def visits(folder: str, count: int) -> Values:
    """Visits taken down, until the last is in the file."""
    states = [state(number) for number in range(VISITED)]
    began = time.perf_counter()
    with new_file(folder) as path:
        async with open_store(path) as store:
            # As a gate does it: what has changed, in one batch.
            for chunk in chunks(range(count), CHUNK):
                changed = {}
                for visit in chunk:
                    number = visit % VISITED
                    states[number] = replace(states[number], visits=states[number].visits + 1)
                    changed[host_of(number)] = states[number]
                await store.save_hosts(changed)
            told = time.perf_counter() - began
        return {"taken_in": count / told, "in_file": count / (time.perf_counter() - began)}


def bare_visits(folder: str, count: int) -> Values:
    """The same rows by `sqlite3` alone: each visit a row that replaces its host's, a thousand to a transaction."""
    columns = "pace_key, last_visit_at, next_allowed_at, visits, bytes_read, latency"
    with new_file(folder) as path, closing(sqlite3.connect(path, isolation_level=None)) as bare:
        bare.execute("PRAGMA journal_mode = WAL")
        bare.execute("PRAGMA synchronous = NORMAL")
        bare.execute(f"CREATE TABLE hosts ({columns}, PRIMARY KEY (pace_key)) WITHOUT ROWID")
        began = time.perf_counter()
        for chunk in chunks(range(count), CHUNK):
            rows = [(host_of(n % VISITED), EPOCH + n, EPOCH + n + 1, n, n * 31, 0.2) for n in chunk]
            bare.execute("BEGIN")
            bare.executemany(f"INSERT OR REPLACE INTO hosts ({columns}) VALUES (?, ?, ?, ?, ?, ?)", rows)  # noqa: S608
            bare.execute("COMMIT")
        return {"in_file": count / (time.perf_counter() - began)}


async def stalls(path: Path | None, hosts: int, seconds: float) -> Values:
    """How late a timer of the loop rings while visits are taken down; without a path, while nothing is done."""
    late: list[float] = []
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds

    async def watch() -> None:
        while (began := loop.time()) < end:
            await asyncio.sleep(0.001)
            late.append((loop.time() - began - 0.001) * 1e3)

    async def visit(store: SQLiteStore) -> None:
        for first in itertools.count(0, CHUNK):
            if loop.time() >= end:
                return
            numbers = range(first, first + CHUNK)
            await store.save_hosts({host_of(n % hosts): replace(state(n % hosts), visits=n) for n in numbers})
            await store.load_host(host_of(random.randrange(hosts)))
            await asyncio.sleep(CHUNK / VISITS_A_SECOND)

    if path is None:
        await watch()
    else:
        async with open_store(path) as store:
            await asyncio.gather(watch(), visit(store))
    shares = {"median": 0.5, "p99": 0.99, "p999": 0.999}
    return {key: quantile(late, share) for key, share in shares.items()} | {"most": max(late)}


async def sweep(path: Path, hosts: int) -> Values:
    """The most memory a process takes that looks a tenth of all hosts up."""
    async with open_store(path) as store:
        for chunk in chunks(range(hosts // 10), CHUNK):
            await asyncio.gather(*(store.load_host(host_of(number)) for number in chunk))
    return {"peak": peak_memory() / 1e6}
