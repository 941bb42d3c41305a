"""What `benchmarks.disk` measures, each function once in a process of its own; beside it, `sqlite3` alone."""

from __future__ import annotations

import asyncio
import itertools
import random
import sqlite3
import statistics
import time
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from benchmarks._machine import peak_memory, resident_memory
from robotgate import HostState, Origin, Outcome, RobotsRecord, SQLiteStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator
    from pathlib import Path

    from benchmarks._told import Values

RECORD_SHARE: Final = 10
"""Of so many hosts one has a robots.txt in the file."""
TASKS: Final = 100
VISITED: Final = 10_000
"""Hosts, in turn."""
CHUNK: Final = 1_000
VISITS_A_SECOND: Final = 2_000
"""While the loop is watched."""
EPOCH: Final = 1_800_000_000.0
LOOK_UP: Final = "SELECT * FROM hosts WHERE pace_key = ?"


def pace_key(number: int) -> str:
    """A host's name."""
    return f"{number}.site.example"


def state(number: int) -> HostState:
    """A host as it is after some visits, none of them just now."""
    at = EPOCH + number / 7
    return HostState(
        last_visit_at=at, next_allowed_at=at + 1, visits=number % 100 + 1, bytes_read=number * 31, latency=0.2
    )


def record(number: int) -> RobotsRecord:
    """A robots.txt of the median size, unlike all others."""
    words = random.Random(number)
    rules = "".join(f"Disallow: /{words.randrange(10**9):x}/\n" for _ in range(30))
    return RobotsRecord(
        origin=Origin("https", pace_key(number), 443),
        outcome=Outcome.SUCCESS,
        status=200,
        checked_at=EPOCH,
        fresh_until_at=EPOCH + 86_400,
        body=f"User-agent: *\n{rules}Sitemap: https://{pace_key(number)}/sitemap.xml\n".encode(),
        fetched_at=EPOCH,
        robots_url=f"https://{pace_key(number)}/robots.txt",
        etag=f'"{number:x}"',
    )


def fill(path: Path, hosts: int) -> Values:
    """Makes the file: seconds, and bytes on disk for each host and for each record."""
    began = time.perf_counter()
    asyncio.run(_fill_hosts(path, hosts))
    of_hosts = path.stat().st_size
    asyncio.run(_fill_records(path, hosts // RECORD_SHARE))
    return {
        "seconds": time.perf_counter() - began,
        "host": of_hosts / hosts,
        "record": (path.stat().st_size - of_hosts) / (hosts // RECORD_SHARE),
    }


async def _fill_hosts(path: Path, hosts: int) -> None:
    async with open_store(path) as store:
        for chunk in chunks(range(hosts), 20 * CHUNK):
            await store.save_hosts({pace_key(number): state(number) for number in chunk})


async def _fill_records(path: Path, records: int) -> None:
    async with open_store(path) as store:
        for chunk in chunks(range(records), CHUNK):
            await asyncio.gather(*(store.save_record(record(number)) for number in chunk))


@asynccontextmanager
async def open_store(path: Path) -> AsyncIterator[SQLiteStore]:
    """A store without bounds that matter here, until the end of the block."""
    store = SQLiteStore(path, max_bytes=2**40, max_age=10 * 365 * 86_400.0)
    await store.open()
    try:
        yield store
    finally:
        await store.aclose()


def chunks(numbers: range, size: int) -> Iterator[range]:
    """A range in parts."""
    for first in range(0, len(numbers), size):
        yield numbers[first : first + size]


def cold_start(path: Path, hosts: int) -> Values:
    """Until the file is open and one host of it known, and the memory it takes."""
    return asyncio.run(_cold_start(path, hosts))


async def _cold_start(path: Path, hosts: int) -> Values:
    before = resident_memory()
    began = time.perf_counter()
    async with open_store(path) as store:
        await store.load_host(pace_key(hosts // 2))
        took = time.perf_counter() - began
        return {"open": took * 1e3, "open_memory": (resident_memory() - before) / 1e6}


def bare_cold_start(path: Path, hosts: int) -> Values:
    """The same by `sqlite3` alone."""
    before = resident_memory()
    began = time.perf_counter()
    with closing(sqlite3.connect(path)) as bare:
        bare.execute(LOOK_UP, (pace_key(hosts // 2),)).fetchone()
        took = time.perf_counter() - began
        return {"open": took * 1e3, "open_memory": (resident_memory() - before) / 1e6}


def look_ups(path: Path, hosts: int, count: int) -> Values:
    """Hosts and records that are not in memory, one after the other and a hundred at once."""
    return asyncio.run(_look_ups(path, hosts, count))


async def _look_ups(path: Path, hosts: int, count: int) -> Values:
    chosen = random.Random(1).sample(range(hosts), 2 * count)
    with_record = random.Random(2).sample(range(hosts // RECORD_SHARE), count // 2)
    async with open_store(path) as store:
        took = []
        for number in chosen[:count]:
            began = time.perf_counter()
            await store.load_host(pace_key(number))
            took.append(time.perf_counter() - began)
        left = iter(chosen[count:])

        async def look(numbers: Iterable[int]) -> None:
            for number in numbers:
                await store.load_host(pace_key(number))

        began = time.perf_counter()
        await asyncio.gather(*(look(left) for _ in range(TASKS)))
        together = time.perf_counter() - began
        began = time.perf_counter()
        for number in with_record:
            await store.load_record(Origin("https", pace_key(number), 443))
        records = time.perf_counter() - began
    return {
        **_quantiles(took),
        "together": together / count * 1e6,
        "record": records / len(with_record) * 1e6,
    }


def bare_look_ups(path: Path, hosts: int, count: int) -> Values:
    """The same hosts by `sqlite3` alone, in the thread that asks."""
    took = []
    with closing(sqlite3.connect(path)) as bare:
        for number in random.Random(1).sample(range(hosts), 2 * count)[:count]:
            began = time.perf_counter()
            bare.execute(LOOK_UP, (pace_key(number),)).fetchone()
            took.append(time.perf_counter() - began)
    return _quantiles(took)


def _quantiles(took: list[float]) -> Values:
    return {"median": statistics.median(took) * 1e6, "p99": sorted(took)[len(took) * 99 // 100] * 1e6}


def visits(path: Path, count: int) -> Values:
    """Visits taken down, until the last is in the file."""
    return asyncio.run(_visits(path, count))


async def _visits(path: Path, count: int) -> Values:
    states = [state(number) for number in range(VISITED)]
    began = time.perf_counter()
    async with open_store(path) as store:
        # As a gate does it: what has changed, in one batch.
        for chunk in chunks(range(count), CHUNK):
            changed = {}
            for visit in chunk:
                number = visit % VISITED
                states[number] = replace(states[number], visits=states[number].visits + 1)
                changed[pace_key(number)] = states[number]
            await store.save_hosts(changed)
        told = time.perf_counter() - began
    written = time.perf_counter() - began
    return {"taken_in": count / told, "in_file": count / written}


def bare_visits(path: Path, count: int) -> Values:
    """The same rows by `sqlite3` alone: each visit a row that replaces its host's, a thousand to a transaction."""
    columns = "pace_key, last_visit_at, next_allowed_at, visits, bytes_read, latency"
    with closing(sqlite3.connect(path, isolation_level=None)) as bare:
        bare.execute("PRAGMA journal_mode = WAL")
        bare.execute("PRAGMA synchronous = NORMAL")
        bare.execute(f"CREATE TABLE hosts ({columns}, PRIMARY KEY (pace_key)) WITHOUT ROWID")
        began = time.perf_counter()
        for chunk in chunks(range(count), CHUNK):
            rows = [(pace_key(n % VISITED), EPOCH + n, EPOCH + n + 1, n, n * 31, 0.2) for n in chunk]
            bare.execute("BEGIN")
            bare.executemany(f"INSERT OR REPLACE INTO hosts ({columns}) VALUES (?, ?, ?, ?, ?, ?)", rows)  # noqa: S608
            bare.execute("COMMIT")
        return {"in_file": count / (time.perf_counter() - began)}


def stalls(path: Path | None, hosts: int, seconds: float) -> Values:
    """How late a timer of the loop rings while visits are taken down; without a path, while nothing is done."""
    return asyncio.run(_stalls(path, hosts, seconds))


async def _stalls(path: Path | None, hosts: int, seconds: float) -> Values:
    late: list[float] = []
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds

    async def watch() -> None:
        while (began := loop.time()) < end:
            await asyncio.sleep(0.001)
            late.append(loop.time() - began - 0.001)

    async def visit(store: SQLiteStore) -> None:
        for first in itertools.count(0, CHUNK):
            if loop.time() >= end:
                return
            numbers = range(first, first + CHUNK)
            await store.save_hosts(
                {pace_key(n % hosts): replace(state(n % hosts), visits=n) for n in numbers}
            )
            await store.load_host(pace_key(random.randrange(hosts)))
            await asyncio.sleep(CHUNK / VISITS_A_SECOND)

    if path is None:
        await watch()
    else:
        async with open_store(path) as store:
            await asyncio.gather(watch(), visit(store))
    late.sort()
    return {
        "median": statistics.median(late) * 1e3,
        "p99": late[len(late) * 99 // 100] * 1e3,
        "p999": late[len(late) * 999 // 1000] * 1e3,
        "most": late[-1] * 1e3,
    }


def peak_after(path: Path, hosts: int) -> Values:
    """The most memory a process takes that looks a tenth of all hosts up."""
    asyncio.run(_sweep(path, hosts))
    return {"peak": peak_memory() / 1e6}


async def _sweep(path: Path, hosts: int) -> None:
    async with open_store(path) as store:
        for chunk in chunks(range(hosts // 10), CHUNK):
            await asyncio.gather(*(store.load_host(pace_key(number)) for number in chunk))
