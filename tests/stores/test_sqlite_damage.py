"""A file that was damaged, whatever in it: `StoreError`, or a store that works; in the commands, one line."""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
from tests.cli.conftest import run
from tests.stores.files import HOST, NOW, ORIGIN, RECORD, STATE, change
from tests.waiting import until

from robotgate import Origin, SQLiteStore, StoreError, WhenLost
from robotgate.stores.sqlite import database, tables

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

HOSTS: Final = tuple(f"{number}.example" for number in range(8))
PAGE: Final = 4096
COMMANDS: Final = (("ls",), ("ls", "--json"), ("show", HOST), ("export", "-"), ("forget", HOST), ("prune",))


@pytest.fixture(autouse=True)
def _impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT", 0.05)
    monkeypatch.setattr(database, "LOOK_PAUSE", 0.001)
    monkeypatch.setattr(database, "RETRY_DELAY", 0.001)
    monkeypatch.setattr(tables, "WAL_PAUSE", 0.0005)


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two folders with a file: as it is after use, and as it is with its log while two processes use it."""
    folders = [tmp_path_factory.mktemp(name) for name in ("closed", "used")]

    async def use() -> None:
        path = folders[0] / "cache.db"
        async with SQLiteStore(path) as store, SQLiteStore(path) as other:
            session, neighbour = await store.session(), await other.session()
            for host in HOSTS:
                record = replace(RECORD, origin=Origin("http", host, 80), body=random.randbytes(900))
                await store.save_record(record)
                await session.obtain(host)
            await store.save_record(RECORD)
            await store.save_hosts(dict.fromkeys((HOST, *HOSTS), STATE))
            session.publish_block("*.blocked.example", NOW * 2)
            waiting = [asyncio.create_task(neighbour.obtain(host)) for host in HOSTS[:3]]
            await until(lambda: not (session.side.has_to_send or neighbour.side.has_to_send))
            for file in path.parent.iterdir():
                shutil.copy(file, folders[1])
            for task in waiting:
                task.cancel()
            await session.aclose()
            await neighbour.aclose()

    asyncio.run(use())
    return folders


def flip(data: bytearray, chance: random.Random) -> None:
    """A few bits."""
    for _ in range(chance.choice((1, 3, 10, 100))):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def misspell(data: bytearray, chance: random.Random) -> None:
    """Bytes of text."""
    spots = [place for place, byte in enumerate(data) if 32 <= byte < 127]
    for _ in range(chance.choice((1, 3, 20))):
        data[chance.choice(spots)] = chance.randrange(256)


def spoil_schema(data: bytearray, chance: random.Random) -> None:
    """Bytes of the statements that made the tables."""
    begin = max(data.find(b"CREATE"), 0)
    for _ in range(chance.choice((1, 2))):
        data[min(begin + chance.randrange(1500), len(data) - 1)] = chance.randrange(256)


def erase(data: bytearray, chance: random.Random) -> None:
    """A page."""
    begin = chance.randrange(len(data)) // PAGE * PAGE
    data[begin : begin + PAGE] = bytes(len(data[begin : begin + PAGE]))


def truncate(data: bytearray, chance: random.Random) -> None:
    """The end."""
    del data[chance.randrange(len(data)) :]


def exchange(data: bytearray, chance: random.Random) -> None:
    """Two pages."""
    one, other = (chance.randrange(max(len(data) // PAGE, 1)) * PAGE for _ in range(2))
    data[one : one + PAGE], data[other : other + PAGE] = data[other : other + PAGE], data[one : one + PAGE]


DAMAGES: Final[tuple[Callable[[bytearray, random.Random], None], ...]] = (
    *(flip, flip, misspell, spoil_schema, erase, truncate, exchange),
)


def damaged(originals: list[Path], folder: Path, seed: int) -> Path:
    """Make a copy, and damage it, its log, or the index of its log."""
    chance = random.Random(seed)
    shutil.copytree(chance.choice(originals), folder)
    files = sorted(folder.iterdir())
    for file in files:
        file.chmod(0o600)
    for _ in range(chance.choice((1, 1, 1, 3))):
        file = chance.choice([file for file in (*files, *files[:1] * 3) if file.stat().st_size])
        data = bytearray(file.read_bytes())
        chance.choice(DAMAGES)(data, chance)
        file.write_bytes(data)
    return folder / "cache.db"


async def uses(path: Path, when_lost: WhenLost) -> None:
    """Do everything that a gate and the commands do; it raises `StoreError` alone, and no task of the store ends."""
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    problems: list[object] = []
    store = SQLiteStore(path, when_lost=when_lost)

    async def listed(rows: AsyncIterator[object]) -> None:
        async for _ in rows:
            pass

    with suppress(StoreError):
        session = await store.session()
        for key in (HOST, HOSTS[5], "new.example"):
            # Another process may hold it, as far as the file says.
            with suppress(TimeoutError):
                async with asyncio.timeout(0.1):
                    await session.obtain(key)
        session.leave("new.example", STATE)
        session.publish_block("other.example", NOW * 2)
        with suppress(TimeoutError):
            async with asyncio.timeout(0.02):
                await session.news()
        assert session._task is not None
        assert not session._task.done()
    works: list[Awaitable[object]] = [
        *(listed(rows) for rows in (store.records(), store.hosts())),
        *(store.load_record(ORIGIN), store.load_host(HOST), store.host(HOST), store.origins_of(HOST)),
        *(store.save_record(RECORD), store.save_hosts({HOST: STATE})),
        *(store.forget_host(HOSTS[1]), store.forget_record(Origin("http", HOSTS[2], 80))),
        *(store.prune(now=NOW), store.aclose()),
    ]
    for work in works:
        with suppress(StoreError):
            await work
    assert problems == []


def check(originals: list[Path], tmp_path: Path, seeds: range) -> None:
    """Damage so many files, and use each."""
    for seed in seeds:
        folder = tmp_path / str(seed)
        try:
            asyncio.run(uses(damaged(originals, folder, seed), list(WhenLost)[seed % 2]))
            shutil.rmtree(folder)
            path = damaged(originals, folder, seed)
            ended = run("cache", *COMMANDS[seed % len(COMMANDS)], "--store", str(path))
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
        assert ended.status in {0, 1, 2}
        assert ended.status < 2 or "Error: " in ended.err
        shutil.rmtree(folder)


def test_damage_anywhere(originals: list[Path], tmp_path: Path) -> None:
    """Some of the files of the next test."""
    check(originals, tmp_path, range(10))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(15))
def test_damage_anywhere_in_many_files(originals: list[Path], tmp_path: Path, block: int) -> None:
    """Bits, bytes of text, whole pages and the end of the file, its log and its index."""
    check(originals, tmp_path, range(20 * block, 20 * (block + 1)))


@pytest.mark.parametrize("word", [b"NULL", b"TABLE", b"saved_at", b"hosts"])
async def test_schema_that_is_no_text(originals: list[Path], tmp_path: Path, word: bytes) -> None:
    """Python cannot read SQLite's message, which repeats that part of the schema, or the name of a column."""
    path = tmp_path / "cache.db"
    data = (originals[0] / "cache.db").read_bytes()
    begin = data.index(word, data.index(b"CREATE TABLE hosts"))
    path.write_bytes(data[:begin] + b"\xd6" + data[begin + 1 :])
    with pytest.raises(
        StoreError, match=r"cache\.db: it is damaged \(.*\); delete it, or restore it from a copy"
    ):
        async with SQLiteStore(path) as store:
            await store.load_host(HOST)
    async with SQLiteStore(path, when_lost=WhenLost.MEMORY) as store:
        await store.save_hosts({HOST: STATE})
        assert await store.load_host(HOST) is not None


@pytest.mark.slow
@pytest.mark.parametrize("value", ["'x'", "x'ff'", "''", "9e999", "-9e999", "-1", "1 << 62"])
def test_values_of_another_type(originals: list[Path], tmp_path: Path, value: str) -> None:
    """SQLite takes any value in any column."""
    path = originals[0] / "cache.db"
    with closing(sqlite3.connect(path)) as there:
        columns = there.execute(
            "SELECT tables.name, columns.name FROM sqlite_master AS tables, pragma_table_info(tables.name) AS columns"
            " WHERE tables.type = 'table'"
        ).fetchall()
    for table, column in columns:
        folder = tmp_path / f"{table}.{column}"
        shutil.copytree(originals[1], folder)
        with suppress(sqlite3.IntegrityError):
            change(folder / "cache.db", f"UPDATE OR REPLACE {table} SET {column} = {value}")
        asyncio.run(uses(folder / "cache.db", WhenLost.RAISE))
