"""What a crash costs: a crawler is killed again and again, at any moment, and started anew on the same file."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import time
from collections import defaultdict
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pytest
from aiohttp import web
from tests.stores.crawler import start

from robotgate import Origin, SQLiteStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

HOSTS: Final = 8
DELAY: Final = 0.1
GRAIN: Final = 1e-4
"""Seconds; clocks of two processes are read that far apart."""
KILLS: Final = 50
LAST_BATCH: Final = 1.0
"""Seconds of which a crash may lose what was learnt."""
LONG_LIVES: Final = frozenset({20, 40})
"""Whose length shows that what is older is kept."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One request as the server saw it: seconds on the monotonic clock that all processes share."""

    host: str
    path: str
    life: int
    came_at: float
    answered_at: float
    """When the answer was about to be written."""


class Site:
    """Answers for all hosts, and notes who came when."""

    def __init__(self) -> None:
        self.visits: list[Visit] = []
        self.port = 0
        self._came = asyncio.Event()

    @property
    def hosts(self) -> list[str]:
        """With port, as URLs have them."""
        return [f"{number}.site.example:{self.port}" for number in range(HOSTS)]

    async def first_of(self, life: int) -> None:
        """Wait until a process has come."""
        async with asyncio.timeout(60):
            while not any(visit.life == life for visit in self.visits[-HOSTS * 4 :]):
                self._came.clear()
                await self._came.wait()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Robots.txt, or a page."""
        came_at = time.monotonic()
        life = int(request.headers["User-Agent"].partition(".")[2].split()[0])
        await asyncio.sleep(random.uniform(0.0, 0.02))
        answer = web.Response(text="User-agent: *\nDisallow: /private\n")
        self.visits.append(Visit(request.host, request.path, life, came_at, time.monotonic()))
        self._came.set()
        return answer


@asynccontextmanager
async def serving() -> AsyncIterator[Site]:
    """A site until the end of the block."""
    site = Site()
    runner = web.ServerRunner(web.Server(site.answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    site.port = runner.addresses[0][1]
    try:
        yield site
    finally:
        await runner.cleanup()


async def crash_again_and_again(site: Site, path: Path) -> list[float]:
    """Kill a crawler fifty times, some as they begin; returns when each was killed."""
    killed_at = []
    for life in range(KILLS):
        process = start(path, life=life, hosts=site.hosts, delay=DELAY)
        if life in LONG_LIVES:
            await site.first_of(life)
            await asyncio.sleep(LAST_BATCH + 0.8)
        elif life % 5:
            await site.first_of(life)
            await asyncio.sleep(random.uniform(0.0, 0.3))
        else:
            # While it opens the file, perhaps.
            await asyncio.sleep(random.uniform(0.0, 0.15))
        killed_at.append(time.monotonic())
        process.kill()
        await asyncio.to_thread(process.join)
    return killed_at


async def end_of(path: Path, site: Site, life: int) -> None:
    """A last crawler that comes to its end, which shows that the file still serves."""
    process = start(path, life=life, hosts=site.hosts, delay=DELAY, pages=2)
    await asyncio.to_thread(process.join, 30)
    assert process.exitcode == 0


@pytest.mark.slow
async def test_killed_fifty_times(tmp_path: Path) -> None:
    """No host is visited sooner than its delay after a crash, known or not; little is lost, and nothing is asked twice
    that was written down.
    """
    path = tmp_path / "cache.db"
    async with serving() as site:
        killed_at = await crash_again_and_again(site, path)
        await end_of(path, site, KILLS)
    with closing(sqlite3.connect(path)) as bare:
        assert bare.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    by_host: defaultdict[str, list[Visit]] = defaultdict(list)
    for visit in sorted(site.visits, key=lambda visit: visit.came_at):
        by_host[visit.host].append(visit)
    assert set(by_host) == set(site.hosts)
    store = SQLiteStore(path)
    for host, visits in by_host.items():
        assert_no_gap_is_short(visits, killed_at)
        assert_nothing_written_is_asked_again(visits, killed_at)
        # What is written: to load a host says after a crash that it was visited, whatever is.
        state = await store.host(host.partition(":")[0])
        assert state is not None
        assert state.visits >= surely_written(visits, killed_at)
        assert await store.load_record(Origin("http", host.partition(":")[0], site.port)) is not None
    await store.aclose()


def assert_no_gap_is_short(visits: list[Visit], killed_at: list[float]) -> None:
    """From an answer to the next request, and from the end of the process that came last to the first one after it.

    A process between the two that did not come may have been killed before it opened the file.
    """
    for before, after in pairwise(visits):
        if before.life == after.life:
            assert after.came_at - before.answered_at >= DELAY - GRAIN, (before, after)
        else:
            assert after.came_at - killed_at[before.life] >= DELAY - GRAIN, (before, after)


def assert_nothing_written_is_asked_again(visits: list[Visit], killed_at: list[float]) -> None:
    """Robots.txt is asked for again only if the answer came just before a crash."""
    asked = [visit for visit in visits if visit.path == "/robots.txt"]
    for before, after in pairwise(asked):
        assert before.life != after.life
        assert killed_at[before.life] - before.answered_at <= LAST_BATCH, (before, after)


def surely_written(visits: list[Visit], killed_at: list[float]) -> int:
    """How many visits were over a batch before the crash of their life."""
    return sum(
        visit.life == KILLS or visit.answered_at <= killed_at[visit.life] - LAST_BATCH for visit in visits
    )
