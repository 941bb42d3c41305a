"""What a host costs that is known: in a gate's memory, in that of a dict of parsed files, and on disk.

Every host has a robots.txt of its own, of the median size of real ones. On the virtual clock, so that
caches for recent questions are soon dropped: what is left is what the gate must not forget.
"""

from __future__ import annotations

import asyncio
import gc
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.robotparser import RobotFileParser

from protego import Protego

from benchmarks._client import LOOPS
from benchmarks._machine import resident_memory
from benchmarks._queues import memory
from robotgate import Answer, HostState, MemoryStore, Origin, Outcome, RobotGate, RobotsRecord, SQLiteStore
from robotgate.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

MEDIAN_BYTES: Final = 551
"""Of 698 real files: see "Measured once" in docs/benchmarks.md."""
WARMING: Final = 1_000
"""Hosts that come first, so that what is there once does not count: caches of yarl's, for one, that hold so many."""
AT_ONCE: Final = 100
AFTERWARDS: Final = 60.0
"""Virtual seconds after which the caches for recent questions have been dropped."""
CHUNK: Final = 1_000
AGENT: Final = "ExampleBot/1.0"


def url_of(number: int) -> str:
    """A page of a host."""
    return f"https://{number}.site.example/page"


def file_of(number: int) -> bytes:
    """A robots.txt of the median size, whose rules are unlike all others: files with the same rules share tables."""
    lines = ["User-agent: *", *(f"Disallow: /{rule}/page-{number}" for rule in range(40))]
    return "\n".join(lines).encode()[:MEDIAN_BYTES]


class EverySite:
    """A `Fetcher` for which every host has a robots.txt, no two the same."""

    async def fetch(self, url: str, *, headers: Mapping[str, str], max_bytes: int, timeout: float) -> Answer:
        """The file."""
        del headers, max_bytes, timeout
        number = int(url.partition("//")[2].partition(".")[0])
        return Answer(status=200, body=file_of(number), etag=f'"{number:x}"')


def gate_of(max_hosts: int, *, at_once: int = AT_ONCE, store: MemoryStore | None = None) -> RobotGate:
    """A gate for so many hosts; by default it has no store, as gates are unless they are given one."""
    return RobotGate(
        AGENT,
        contact="bot@example.org",
        max_hosts=max_hosts,
        store=store,
        clock=VirtualClock(),
        fetcher=EverySite(),
        concurrency=at_once,
    )


async def visit_together(gate: RobotGate, numbers: Iterator[int], *, at_once: int = AT_ONCE) -> None:
    """Take hosts as they come, so many at once, and look at one page of each for a second."""

    async def visit() -> None:
        for number in numbers:
            async with gate.turn(url_of(number)):
                await asyncio.sleep(1.0)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(at_once):
            tasks.create_task(visit())


def visited(hosts: int, *, is_traced: bool) -> float:
    """Bytes for each host whose robots.txt was fetched, whose rules were asked, and a page of which was looked at."""
    if is_traced:
        tracemalloc.start()
    with asyncio.Runner(loop_factory=LOOPS["virtual"]) as runner:
        return runner.run(_visited(hosts))


async def _visited(hosts: int) -> float:
    async with gate_of(10 * hosts) as gate:
        await visit_together(gate, iter(range(WARMING)))
        await asyncio.sleep(AFTERWARDS)
        before = memory()
        await visit_together(gate, iter(range(WARMING, WARMING + hosts)))
        await asyncio.sleep(AFTERWARDS)
        return (memory() - before) / hosts


def learnt(hosts: int, *, is_traced: bool) -> tuple[float, float, float]:
    """Bytes for each host whose robots.txt was merely learnt; just after its rules were asked and its visits became
    known; and when nobody has asked for a minute.

    The state of visits is put into the store: a million visits would take ten minutes.
    """
    if is_traced:
        tracemalloc.start()
    with asyncio.Runner(loop_factory=LOOPS["virtual"]) as runner:
        return runner.run(_learnt(hosts))


async def _learnt(hosts: int) -> tuple[float, float, float]:
    store = MemoryStore(max_hosts=10 * hosts)
    async with gate_of(10 * hosts, store=store) as gate:
        now = time.time()

        def learn(number: int) -> None:
            gate.learn(url_of(number), file_of(number))

        def ask(number: int) -> None:
            gate.allowed_nowait(url_of(number))
            store._grants.keep(f"{number}.site.example", _state(now + number / 7))  # noqa: SLF001 - without an await

        for number in range(WARMING):
            learn(number)
            ask(number)
        numbers = range(WARMING, WARMING + hosts)
        await asyncio.sleep(AFTERWARDS)
        before = memory()
        for number in numbers:
            learn(number)
        await asyncio.sleep(AFTERWARDS)
        between = memory()
        for number in numbers:
            ask(number)
        warm = memory()
        await asyncio.sleep(AFTERWARDS)
        return (between - before) / hosts, (warm - before) / hosts, (memory() - before) / hosts


def _state(at: float) -> HostState:
    return HostState(
        last_visit_at=at, next_allowed_at=at + 1, visits=2, bytes_read=MEDIAN_BYTES + 1, latency=at % 1
    )


def protego_dict(hosts: int, *, is_traced: bool) -> float:
    """Bytes for each host of a dict that knows Protego's rules by host, once they were asked."""

    def known(number: int) -> Protego:
        robots = Protego.parse(file_of(number).decode())
        robots.can_fetch(url_of(number), AGENT)
        return robots

    return _dict_of(known, hosts, is_traced=is_traced)


def urllib_dict(hosts: int, *, is_traced: bool) -> float:
    """As `protego_dict`, of the standard library's parser."""

    def known(number: int) -> RobotFileParser:
        robots = RobotFileParser()
        robots.parse(file_of(number).decode().splitlines())
        robots.can_fetch(AGENT, url_of(number))
        return robots

    return _dict_of(known, hosts, is_traced=is_traced)


def _dict_of(known: Callable[[int], object], hosts: int, *, is_traced: bool) -> float:
    if is_traced:
        tracemalloc.start()
    kept = {f"{number}.site.example": known(number) for number in range(WARMING)}
    before = memory()
    for number in range(WARMING, WARMING + hosts):
        kept[f"{number}.site.example"] = known(number)
    return (memory() - before) / (len(kept) - WARMING)


def on_disk(hosts: int) -> tuple[float, float]:
    """Bytes of a `SQLiteStore` for each host's state, and with its robots.txt."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "cache.db"
        asyncio.run(_write_states(path, hosts))
        states = path.stat().st_size
        asyncio.run(_write_records(path, hosts))
        return states / hosts, path.stat().st_size / hosts


async def _write_states(path: Path, hosts: int) -> None:
    now = time.time()
    store = SQLiteStore(path, max_bytes=2**40)
    await store.open()
    for first in range(0, hosts, 20 * CHUNK):
        numbers = range(first, min(first + 20 * CHUNK, hosts))
        await store.save_hosts({f"{number}.site.example": _state(now + number / 7) for number in numbers})
    await store.aclose()


async def _write_records(path: Path, hosts: int) -> None:
    now = time.time()
    store = SQLiteStore(path, max_bytes=2**40)
    await store.open()
    for first in range(0, hosts, CHUNK):
        numbers = range(first, min(first + CHUNK, hosts))
        await asyncio.gather(*(store.save_record(_record(number, now)) for number in numbers))
    await store.aclose()


def _record(number: int, now: float) -> RobotsRecord:
    host = f"{number}.site.example"
    return RobotsRecord(
        origin=Origin("https", host, 443),
        outcome=Outcome.SUCCESS,
        status=200,
        checked_at=now,
        fresh_until_at=now + 86_400,
        body=file_of(number),
        fetched_at=now,
        robots_url=f"https://{host}/robots.txt",
        etag=f'"{number:x}"',
    )


def through(hosts: int, max_hosts: int, at_once: int) -> list[tuple[int, int]]:
    """Hosts without end through a gate, and a store, for so many: what is resident at each tenth of them."""
    with asyncio.Runner(loop_factory=LOOPS["virtual"]) as runner:
        return runner.run(_through(hosts, max_hosts, at_once))


async def _through(hosts: int, max_hosts: int, at_once: int) -> list[tuple[int, int]]:
    seen = []
    store = MemoryStore(max_hosts=max_hosts)
    async with gate_of(max_hosts, at_once=at_once, store=store) as gate:
        for tenth in range(1, 11):
            so_far = range(hosts * (tenth - 1) // 10, hosts * tenth // 10)
            await visit_together(gate, iter(so_far), at_once=at_once)
            gc.collect()
            seen.append((so_far.stop, resident_memory()))
    return seen
