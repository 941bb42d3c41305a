"""What a store on disk costs: opening a large one, looking a host up, and how long the loop stands still while visits
are taken down.

A file of a million hosts and of a tenth as many robots.txt files is made first. Each figure after that comes from a
process of its own. Beside it in the same run: the same rows read by `sqlite3` alone, in the thread that asks; and,
where it is about the loop, nothing at all.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import sqlite3
import statistics
import tempfile
import time
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks._bench import (
    alone,
    alone_in_loop,
    figures_of,
    interleaved,
    quantile,
    resident_memory,
)
from benchmarks._known import chunks, host_of
from benchmarks._report import Column, Effort, Findings
from robotgate import Origin, SQLiteStore
from robotgate.sites import Outcome, RobotsRecord
from robotgate.stores import HostState

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    Values = dict[str, float]

PACKAGES: Final = ("robotgate",)
STORE: Final = "`SQLiteStore`"
BARE: Final = "`sqlite3` alone"
RECORD_SHARE: Final = 10
"""Of so many hosts one has a robots.txt in the file."""
TASKS: Final = 100
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
    asked = effort.pick(1_000, 10_000)
    watched = effort.pick(0.5, 10.0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cache.db"
        file = alone_in_loop("asyncio", fill, path, hosts)
        works: dict[tuple[str, str], Callable[[], Values]] = {
            ("open", STORE): partial(alone_in_loop, "asyncio", cold_start, path, hosts),
            ("open", BARE): partial(alone, bare_cold_start, path, hosts),
            ("look_up", STORE): partial(alone_in_loop, "asyncio", look_ups, path, hosts, asked),
            ("look_up", BARE): partial(alone, bare_look_ups, path, hosts, asked),
            ("loop", "nothing done"): partial(alone_in_loop, "asyncio", stalls, None, hosts, watched),
            ("loop", VISITING): partial(alone_in_loop, "asyncio", stalls, path, hosts, watched),
        }
        found = interleaved(effort.pick(1, 3), works)
    title = f"A file of {hosts:,} hosts, one in {RECORD_SHARE} with a robots.txt"
    rows = {STORE: figures_of([file])}
    note = f"SQLite {sqlite3.sqlite_version}."
    findings.table("file", title, FILE_COLUMNS, rows, ours=(STORE,), note=note)
    for key, title, columns in (
        ("open", f"Opening a file of {hosts:,} hosts", OPEN_COLUMNS),
        ("look_up", "Looking up what is not in memory", LOOK_UP_COLUMNS),
        ("loop", f"How late a timer of the loop rings, in {watched:g} s", LOOP_COLUMNS),
    ):
        rows = {name: figures for (part, name), figures in found.items() if part == key}
        findings.table(key, title, columns, rows, ours=(STORE, VISITING))
    text = "ms that the loop's timer is late at p99.9 while visits are taken down"
    findings.goal(text, found["loop", VISITING]["p999"], at_most=5)
    return findings


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
