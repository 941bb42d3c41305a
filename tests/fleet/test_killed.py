"""What a crash costs: a crawler is killed again and again, at any moment, and started anew on the same file."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pytest
from tests.fleet.fleet import Fleet, Worker
from tests.fleet.site import GRAIN, ROBOTS_PATH, Site
from tests.fleet.worker import Order
from tests.waiting import until

from robotgate import Origin, SQLiteStore

if TYPE_CHECKING:
    from pathlib import Path

HOSTS: Final = tuple(f"{number}.site.example" for number in range(8))
PAGES: Final = tuple(f"/page/{number}" for number in range(60))
DELAY: Final = 0.1
KILLS: Final = 50
LAST_BATCH: Final = 1.0
"""Seconds of which a crash may lose what was learnt."""
LONG_LIVES: Final = frozenset({21, 41})
"""Whose length shows that what is older is kept."""


async def crash_again_and_again(site: Site, order: Order) -> list[float]:
    """Kill a crawler fifty times, some as they begin; returns when each was killed."""
    killed_at = []
    for life in range(KILLS):
        worker = Worker(replace(order, number=life), lambda: None)
        worker.go()
        if life % 5:
            await until(lambda life=life: life in site.under_way)  # type: ignore[misc]
            await asyncio.sleep(LAST_BATCH + 0.8 if life in LONG_LIVES else random.uniform(0.0, 0.3))
        else:
            # While it opens the file, perhaps.
            await asyncio.sleep(random.uniform(0.0, 0.15))
        killed_at.append(time.monotonic())
        worker.close()
    return killed_at


@pytest.mark.slow
async def test_killed_fifty_times(tmp_path: Path) -> None:
    """No host is visited sooner than its delay after a crash, known or not; little is lost, and nothing is asked twice
    that was written down.
    """
    path = tmp_path / "cache.db"
    async with Site(takes=0.01) as site:
        order = Order(
            number=KILLS,
            store=str(path),
            port=site.port,
            hosts=HOSTS,
            pages=PAGES,
            delay=DELAY,
            tells_all=False,
        )
        killed_at = await crash_again_and_again(site, order)
        # A last crawler comes to its end: the file still serves.
        async with Fleet([replace(order, pages=PAGES[:2])]) as last:
            await last.ended()
    assert last.workers[0].done
    with closing(sqlite3.connect(path)) as bare:
        assert bare.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    for gap in site.gaps():
        # From the end of the process that came last to the first request after it.
        is_same = gap.before.worker == gap.visit.worker
        since = gap.before.sent_at if is_same else killed_at[gap.before.worker]
        assert gap.visit.came_at - since >= DELAY - GRAIN, gap
    async with SQLiteStore(path) as store:
        for host in HOSTS:
            visits = [visit for visit in site.visits if visit.host == host]
            for before, after in pairwise(visit for visit in visits if visit.path == ROBOTS_PATH):
                assert before.worker != after.worker
                assert killed_at[before.worker] - before.sent_at <= LAST_BATCH, (before, after)
            state = await store.host(host)
            assert state is not None
            assert state.visits >= sum(
                visit.worker == KILLS or visit.sent_at <= killed_at[visit.worker] - LAST_BATCH
                for visit in visits
            )
            assert await store.load_record(Origin("http", host, 80)) is not None
