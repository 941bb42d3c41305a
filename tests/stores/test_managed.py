"""A store as a block: opened when it begins, and closed however it ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.stores.files import ORIGIN, RECORD, locked

from robotgate import MemoryStore, SQLiteStore, StoreError
from robotgate.stores.sqlite import database

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> SQLiteStore:
    """One that was not opened yet."""
    return SQLiteStore(tmp_path / "cache.db")


async def test_block_opens_and_closes(store: SQLiteStore) -> None:
    """It is the store itself, for as long as the block lasts, and leaves no task behind."""
    async with store as opened:
        assert opened is store
        await opened.save_record(RECORD)
        assert await opened.load_record(ORIGIN) == RECORD
    with pytest.raises(StoreError, match="closed"):
        await store.load_record(ORIGIN)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("kind", ["file", "memory"])
async def test_a_closed_session_obtains_nothing(store: SQLiteStore, kind: str) -> None:
    """A host that is asked for after the end of the session is refused, not waited for."""
    async with store, MemoryStore() as memory:
        session = await (store if kind == "file" else memory).session()
        await session.aclose()
        with pytest.raises(StoreError, match="the session was closed"):
            async with asyncio.timeout(60):
                await session.obtain("a.example")


async def test_store_that_is_open_may_be_used_as_a_block(store: SQLiteStore) -> None:
    """Opening it twice changes nothing, and neither does closing it in between."""
    await store.open()
    async with store:
        await store.save_record(RECORD)
        await store.aclose()


async def test_block_that_cannot_begin_leaves_nothing_behind(tmp_path: Path) -> None:
    """The error names what is wrong, and no task goes on trying."""
    (tmp_path / "file").write_bytes(b"")
    store = SQLiteStore(tmp_path / "file" / "cache.db")
    with pytest.raises(StoreError, match=r"cache\.db"):
        async with store:
            pytest.fail("it was opened")
    assert asyncio.all_tasks() == {asyncio.current_task()}
    with pytest.raises(StoreError, match="closed"):
        await store.load_record(ORIGIN)


async def test_cancellation_while_it_opens_is_told(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not what cannot be written: a file that another program keeps locked."""
    monkeypatch.setattr(database, "BUSY_TIMEOUT", 0.2)
    async with SQLiteStore(store.path):
        pass
    with locked(store.path), pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05), store:
            pytest.fail("it was opened")
