"""Several processes that have lost their file, and go on with memory alone: the host is asked no more often for it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
from tests.waiting import until

from robotgate import HostState, SQLiteStore, SystemClock, WhenLost
from robotgate.stores import _database

if TYPE_CHECKING:
    from pathlib import Path

HOST: Final = "a.example"
DELAY: Final = 100.0
GRAIN: Final = 1e-3
"""Seconds; a question's instant is told by another clock than the store's."""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that stays locked is lost sooner; a sign of life may wait in vain before what is to be written does."""
    monkeypatch.setattr(_database, "BUSY_TIMEOUT", 0.2)


async def ask(store: SQLiteStore, *, at: float, delay: float = DELAY) -> HostState | None:
    """Reserve a turn at an instant, as a lane does."""
    known = store.recall_host(HOST) or HostState()
    state = replace(known, last_visit_at=at, next_allowed_at=at + delay, visits=known.visits + 1)
    later = await store.reserve(HOST, state=state, now=at, slots=1, delay=delay)
    return None if later is None else replace(later.state, next_allowed_at=later.again_at)


def visit(store: SQLiteStore, *, at: float, delay: float = DELAY) -> None:
    """Send what was reserved, and end it at once."""
    known = store.recall_host(HOST) or HostState()
    state = replace(known, last_visit_at=at, next_allowed_at=at + delay)
    store.begin_visit(HOST, state)
    store.end_visit(HOST, state)


async def lose(path: Path, stores: list[SQLiteStore]) -> sqlite3.Connection:
    """Have a file locked that all have open, until each has found out; unlock it by a rollback."""
    lock = sqlite3.connect(path, isolation_level=None)
    lock.execute("BEGIN EXCLUSIVE")
    for store in stores:
        store.remember_host("other.example", HostState(blocked_until_at=SystemClock().now() + 60))
    await until(lambda: all(store._behind.lost is not None for store in stores))
    return lock


@pytest.mark.parametrize("count", [2, 3])
async def test_each_leaves_the_delay_as_often_as_there_are_processes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, count: int
) -> None:
    """Not a moment less, nor more; and the warning says so."""
    path = tmp_path / "s.db"
    stores = [SQLiteStore(path, when_lost=WhenLost.MEMORY) for _ in range(count)]
    for store in stores:
        await store.open()
    await until(lambda: all(store._behind.neighbours == count - 1 for store in stores))
    with closing(await lose(path, stores)) as lock:
        assert (
            caplog.text.count(f"{count} processes share it: each leaves {count} times a host's delay")
            == count
        )
        at = SystemClock().now() + 1000.0
        for store in stores:
            assert await ask(store, at=at) is None
            visit(store, at=at)
            sooner = await ask(store, at=at + count * DELAY - GRAIN)
            assert sooner is not None
            assert sooner.next_allowed_at == at + count * DELAY
            # To have asked makes it no later.
            again = await ask(store, at=at + DELAY)
            assert again is not None
            assert again.next_allowed_at == at + count * DELAY
            assert await ask(store, at=at + count * DELAY) is None
            visit(store, at=at + count * DELAY)
        lock.execute("ROLLBACK")
    for store in stores:
        await store.aclose()


async def test_without_a_delay_nothing_changes(tmp_path: Path) -> None:
    """There is nothing to multiply."""
    path = tmp_path / "s.db"
    stores = [SQLiteStore(path, when_lost=WhenLost.MEMORY) for _ in range(2)]
    for store in stores:
        await store.open()
    await until(lambda: all(store._behind.neighbours for store in stores))
    with closing(await lose(path, stores)) as lock:
        at = SystemClock().now()
        for _ in range(3):
            assert await ask(stores[0], at=at, delay=0.0) is None
            visit(stores[0], at=at, delay=0.0)
        lock.execute("ROLLBACK")
    for store in stores:
        await store.aclose()


async def test_who_was_alone_leaves_the_delay_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody has left a trace since the one who was there has gone."""
    path = tmp_path / "s.db"
    store, gone = SQLiteStore(path, when_lost=WhenLost.MEMORY), SQLiteStore(path)
    await store.open()
    await gone.open()
    await until(lambda: store.is_shared)
    await gone.aclose()
    await until(lambda: not store.is_shared)
    with closing(await lose(path, [store])) as lock:
        assert "processes share it" not in caplog.text
        at = SystemClock().now() + 1000.0
        assert await ask(store, at=at) is None
        visit(store, at=at)
        assert await ask(store, at=at + DELAY) is None
        lock.execute("ROLLBACK")
    await store.aclose()
