"""A store as a block: opened when it begins, and closed however it ends."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.stores.redis_parts import fresh_prefix
from tests.stores.test_redis_records import ORIGIN, RECORD

from robotgate import MemoryStore, RobotGate, SQLiteStore, StoreError, WhenLost
from robotgate.stores import _database
from robotgate.stores._managed import Managed
from robotgate.stores.redis import RedisStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.redis_server import RedisServer

    from robotgate import Store


@pytest.fixture(params=["sqlite", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SQLiteStore | RedisStore:
    """One that was not opened yet."""
    if request.param == "sqlite":
        return SQLiteStore(tmp_path / "cache.db")
    server: RedisServer = request.getfixturevalue("server")
    return RedisStore(server.url, prefix=fresh_prefix())


async def test_block_opens_and_closes(store: SQLiteStore | RedisStore) -> None:
    """It is the store itself, for as long as the block lasts, and leaves no task behind."""
    async with store as opened:
        assert opened is store
        await opened.save_record(RECORD)
        assert await opened.load_record(ORIGIN) == RECORD
    with pytest.raises(StoreError, match="closed"):
        await store.load_record(ORIGIN)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_error_in_the_block_closes_too(store: SQLiteStore | RedisStore) -> None:
    """And comes out as it is."""
    with pytest.raises(ZeroDivisionError):
        async with store:
            raise ZeroDivisionError
    with pytest.raises(StoreError, match="closed"):
        await store.load_record(ORIGIN)


async def test_store_that_is_open_may_be_used_as_a_block(store: SQLiteStore | RedisStore) -> None:
    """Opening it twice changes nothing, and neither does closing it in between."""
    await store.open()
    async with store:
        await store.save_record(RECORD)
        await store.aclose()


async def test_gate_in_the_same_block_leaves_it_to_the_block(store: SQLiteStore | RedisStore) -> None:
    """It is closed behind the gate, which may have something to write to the end."""
    async with store, RobotGate("ExampleBot/1.0", contact="bot@example.org", store=store) as gate:
        gate.learn("http://a.example/", b"User-agent: *\nDisallow: /private\n")
        assert await gate.allowed("http://a.example/")
    with pytest.raises(StoreError, match="closed"):
        await store.load_record(ORIGIN)


@pytest.mark.parametrize(
    "make",
    [
        lambda path: SQLiteStore(path / "file" / "cache.db"),
        lambda _: RedisStore("redis://127.0.0.1:1/0", patience=0.05),
    ],
    ids=["sqlite", "redis"],
)
async def test_block_that_cannot_begin_leaves_nothing_behind(
    make: Callable[[Path], SQLiteStore | RedisStore], tmp_path: Path
) -> None:
    """The error names what is wrong; nobody goes on trying."""
    (tmp_path / "file").write_bytes(b"")
    store = make(tmp_path)
    with pytest.raises(StoreError, match=r"cache\.db|127\.0\.0\.1:1"):
        async with store:
            pytest.fail("it was opened")
    assert asyncio.all_tasks() == {asyncio.current_task()}
    with pytest.raises(StoreError, match="closed"):
        await store.load_record(ORIGIN)


async def test_who_is_cancelled_while_it_opens_is_told_of_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not of what cannot be written: a file that somebody else keeps locked."""
    monkeypatch.setattr(_database, "BUSY_TIMEOUT", 0.2)
    path = tmp_path / "cache.db"
    async with SQLiteStore(path):
        pass
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05), SQLiteStore(path):
                pytest.fail("it was opened")


@pytest.mark.parametrize(
    "make",
    [
        lambda path: SQLiteStore(path / "file" / "cache.db", when_lost=WhenLost.MEMORY),
        lambda _: RedisStore("redis://127.0.0.1:1/0", patience=0.05, degraded="local"),
        lambda _: MemoryStore(),
    ],
    ids=["sqlite", "redis", "memory"],
)
async def test_block_begins_where_memory_is_enough(make: Callable[[Path], Store], tmp_path: Path) -> None:
    """As the operator has it: the crawl goes on by itself."""
    (tmp_path / "file").write_bytes(b"")
    store = make(tmp_path)
    assert isinstance(store, Managed)
    async with store:
        await store.save_record(RECORD)
        assert await store.load_record(ORIGIN) == RECORD
