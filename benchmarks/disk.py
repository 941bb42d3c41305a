"""What a store on disk costs: opening a large one, looking a host up, taking visits down, and how long the loop stands
still meanwhile.

A file of a million hosts and of a tenth as many robots.txt files is made first. Each figure after that comes from a
process of its own. Beside it in the same run: the same rows written by `sqlite3` alone, a batch of a thousand in a
transaction, in the thread that asks; and, where it is about the loop, nothing at all.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import sqlite3
import statistics
import tempfile
import time
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks._client import alone
from benchmarks._machine import describe, peak_memory, resident_memory
from robotgate import HostState, Origin, Outcome, RobotsRecord, SQLiteStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

HOSTS: Final = 1_000_000
RECORD_SHARE: Final = 10
"""Of so many hosts one has a robots.txt in the file."""
LOOK_UPS: Final = 10_000
TASKS: Final = 100
VISITS: Final = 200_000
VISITED: Final = 10_000
"""Hosts, in turn."""
CHUNK: Final = 1_000
WATCHED: Final = 10.0
"""Seconds for which the loop is watched."""
VISITS_A_SECOND: Final = 2_000
"""While it is."""
EPOCH: Final = 1_800_000_000.0


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


def fill(path: Path, hosts: int) -> tuple[float, float]:
    """Makes the file; octets on disk for each host, and for each record."""
    asyncio.run(_fill_hosts(path, hosts))
    of_hosts = path.stat().st_size
    asyncio.run(_fill_records(path, hosts // RECORD_SHARE))
    return of_hosts / hosts, (path.stat().st_size - of_hosts) / (hosts // RECORD_SHARE)


async def _fill_hosts(path: Path, hosts: int) -> None:
    async with open_store(path) as store:
        for chunk in chunks(range(hosts), 20 * CHUNK):
            for number in chunk:
                store.remember_host(pace_key(number), state(number))
            # One that has to be written makes room for the next ones.
            await store.save_record(record(0))


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


def cold_start(path: Path) -> dict[str, float]:
    """Seconds until the file is open and one host of it known, and the memory it takes."""
    return asyncio.run(_cold_start(path))


async def _cold_start(path: Path) -> dict[str, float]:
    before = resident_memory()
    began = time.perf_counter()
    async with open_store(path) as store:
        await store.load_host(pace_key(HOSTS // 2))
        took = time.perf_counter() - began
        return {"ms until the first answer": took * 1e3, "MB for it": (resident_memory() - before) / 1e6}


def look_ups(path: Path, hosts: int) -> dict[str, float]:
    """Hosts and records that are not in memory, one after the other and a hundred at once."""
    return asyncio.run(_look_ups(path, hosts))


async def _look_ups(path: Path, hosts: int) -> dict[str, float]:
    chosen = random.Random(1).sample(range(hosts), 2 * LOOK_UPS)
    with_record = random.Random(2).sample(range(hosts // RECORD_SHARE), LOOK_UPS // 2)
    async with open_store(path) as store:
        alone_took = []
        for number in chosen[:LOOK_UPS]:
            began = time.perf_counter()
            await store.load_host(pace_key(number))
            alone_took.append(time.perf_counter() - began)
        left = iter(chosen[LOOK_UPS:])

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
    with closing(sqlite3.connect(path)) as bare:
        began = time.perf_counter()
        for number in chosen[:LOOK_UPS]:
            bare.execute("SELECT * FROM hosts WHERE pace_key = ?", (pace_key(number),)).fetchone()
        bare_took = time.perf_counter() - began
    return {
        "host, us, median": statistics.median(alone_took) * 1e6,
        "p99": sorted(alone_took)[LOOK_UPS * 99 // 100] * 1e6,
        "a hundred at once, us each": together / LOOK_UPS * 1e6,
        "record, us": records / len(with_record) * 1e6,
        "sqlite3 alone, host, us": bare_took / LOOK_UPS * 1e6,
    }


def visits(path: Path) -> dict[str, float]:
    """Visits taken down, until the last is in the file."""
    return asyncio.run(_visits(path))


async def _visits(path: Path) -> dict[str, float]:
    states = [state(number) for number in range(VISITED)]
    began = time.perf_counter()
    async with open_store(path) as store:
        for chunk in chunks(range(VISITS), 100):
            for visit in chunk:
                number = visit % VISITED
                states[number] = replace(states[number], visits=states[number].visits + 1)
                store.remember_host(pace_key(number), states[number])
            await asyncio.sleep(0)
        told = time.perf_counter() - began
    written = time.perf_counter() - began
    return {"visits/s taken in": VISITS / told, "visits/s until they are in the file": VISITS / written}


def bare_visits(path: Path) -> dict[str, float]:
    """The same rows by `sqlite3` alone: each visit a row that replaces its host's, a thousand to a transaction."""
    columns = "pace_key, last_visit_at, next_allowed_at, visits, bytes_read, latency"
    with closing(sqlite3.connect(path, isolation_level=None)) as bare:
        bare.execute("PRAGMA journal_mode = WAL")
        bare.execute("PRAGMA synchronous = NORMAL")
        bare.execute(f"CREATE TABLE hosts ({columns}, PRIMARY KEY (pace_key)) WITHOUT ROWID")
        began = time.perf_counter()
        for chunk in chunks(range(VISITS), CHUNK):
            rows = [(pace_key(n % VISITED), EPOCH + n, EPOCH + n + 1, n, n * 31, 0.2) for n in chunk]
            bare.execute("BEGIN")
            bare.executemany(f"INSERT OR REPLACE INTO hosts ({columns}) VALUES (?, ?, ?, ?, ?, ?)", rows)  # noqa: S608
            bare.execute("COMMIT")
        return {"visits/s, sqlite3 alone": VISITS / (time.perf_counter() - began)}


def stalls(path: Path | None) -> dict[str, float]:
    """How late a timer of the loop rings while visits are taken down; without a path, while nothing is done."""
    return asyncio.run(_stalls(path))


async def _stalls(path: Path | None) -> dict[str, float]:
    late: list[float] = []
    loop = asyncio.get_running_loop()
    end = loop.time() + WATCHED

    async def watch() -> None:
        while (began := loop.time()) < end:
            await asyncio.sleep(0.001)
            late.append(loop.time() - began - 0.001)

    async def visit(store: SQLiteStore) -> None:
        for number in itertools.count():
            if loop.time() >= end:
                return
            at = number % HOSTS
            store.remember_host(pace_key(at), replace(state(at), visits=number))
            if number % 20 == 0:
                await asyncio.sleep(20 / VISITS_A_SECOND)
            if number % CHUNK == 0:
                await store.load_host(pace_key(random.randrange(HOSTS)))

    if path is None:
        await watch()
    else:
        async with open_store(path) as store:
            await asyncio.gather(watch(), visit(store))
    late.sort()
    return {
        "timers": len(late),
        "late, ms, median": statistics.median(late) * 1e3,
        "p99": late[len(late) * 99 // 100] * 1e3,
        "p99.9": late[len(late) * 999 // 1000] * 1e3,
        "most": late[-1] * 1e3,
    }


def show(name: str, figures: dict[str, float]) -> None:
    """One line of the report."""
    cells = ", ".join(
        f"{label} {value:,.4g}" if value < 100 else f"{label} {value:,.0f}"
        for label, value in figures.items()
    )
    print(f"{name:36}{cells}", flush=True)


def main() -> None:
    """Measures each figure in a process of its own."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=HOSTS)
    options = parser.parse_args()
    print(describe("robotgate", "aiohttp"), f"SQLite {sqlite3.sqlite_version}", sep="; ")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "cache.db"
        began = time.perf_counter()
        a_host, a_record = alone(fill, path, options.hosts)
        show(
            f"{options.hosts:,} hosts, a tenth of it records",
            {
                "s to make": time.perf_counter() - began,
                "octets on disk, a host": a_host,
                "a record besides": a_record,
            },
        )
        show("cold start", alone(cold_start, path))
        show("look-up, not in memory", alone(look_ups, path, options.hosts))
        show(
            "visits",
            alone(visits, Path(directory) / "visits.db") | alone(bare_visits, Path(directory) / "bare.db"),
        )
        show("the loop, nothing done", alone(stalls, None))
        show(f"the loop, {VISITS_A_SECOND:,} visits/s taken down", alone(stalls, path))
        show("a tenth of all hosts looked up", {"peak MB": alone(peak_after, path, options.hosts) / 1e6})


def peak_after(path: Path, hosts: int) -> int:
    """The most memory a process takes that looks a tenth of all hosts up."""
    asyncio.run(_sweep(path, hosts))
    return peak_memory()


async def _sweep(path: Path, hosts: int) -> None:
    async with open_store(path) as store:
        for chunk in chunks(range(hosts // 10), CHUNK):
            await asyncio.gather(*(store.load_host(pace_key(number)) for number in chunk))


if __name__ == "__main__":
    main()
