"""What goes wrong with the file, each time the real thing: one clear error, or memory alone; never a wrong answer."""

# ruff: noqa: ASYNC240 - looking at the file may take the test a moment

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import sys
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.stores.files import (
    HOST,
    NOW,
    ORIGIN,
    RECORD,
    STATE,
    HandClock,
    change,
    is_visited_soon_after,
    rows,
)
from tests.waiting import until

from robotgate import HostState, Origin, SQLiteStore, StoreError, WhenLost
from robotgate.stores import _database, _schema, _write_behind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

LATER = replace(STATE, visits=42, next_allowed_at=NOW + 2)


@pytest.fixture(autouse=True)
def _impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks are not waited for, and a lost file is tried again soon."""
    monkeypatch.setattr(_database, "BUSY_TIMEOUT", 0.01)
    monkeypatch.setattr(_write_behind, "RETRY_DELAY", 0.01)
    monkeypatch.setattr(_write_behind, "FLUSH_DELAY", 0.01)


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A file that knows one host and one record, in a directory of its own."""
    path = tmp_path / "cache" / "cache.db"
    store = SQLiteStore(path, clock=HandClock())
    await store.save_record(RECORD)
    store.remember_host(HOST, STATE)
    await store.aclose()
    return path


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SQLiteStore]:
    """It, opened, in the mode that raises."""
    store = SQLiteStore(path, clock=HandClock())
    await store.open()
    yield store
    await store.aclose()


@pytest.fixture
def clock() -> HandClock:
    """By which it tells the time."""
    return HandClock()


@pytest.fixture
async def carefree(path: Path, clock: HandClock) -> AsyncIterator[SQLiteStore]:
    """It, opened, in the mode that goes on."""
    store = SQLiteStore(path, clock=clock, when_lost=WhenLost.MEMORY)
    await store.open()
    yield store
    await store.aclose()


async def refuses(store: SQLiteStore, message: str) -> None:
    """Whatever is asked of the store, it says the same."""
    for door in (
        store.save_record(RECORD),
        store.load_host("any.example"),
        store.load_host(HOST),
        store.load_record(ORIGIN),
        store.prune(now=NOW),
        anext(store.hosts()),
        store.forget_host(HOST),
    ):
        with pytest.raises(StoreError, match=message):
            await door
    with pytest.raises(StoreError, match=message):
        store.remember_host(HOST, LATER)
    assert store.recall_host(HOST) == LATER, "it takes in what it cannot keep"
    assert str(store.path) in str(store._behind.lost)


async def comes_back(store: SQLiteStore) -> None:
    """Without anybody's help, and with what was said meanwhile."""
    await until(lambda: store._behind.lost is None and not store._behind.memory.pending)
    assert await store.load_host(HOST) == LATER
    await store.save_record(replace(RECORD, body=b"after"))
    record = await store.load_record(ORIGIN)
    assert record is not None
    assert record.body == b"after"
    assert rows(store.path, f"SELECT visits FROM hosts WHERE pace_key = '{HOST}'") == [(42,)]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another program has the whole file for itself."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")


async def test_locked(store: SQLiteStore) -> None:
    """Another program's lock: refused while it lasts."""
    with locked(store.path):
        await refuses(store, r"cache\.db: another program keeps it locked \(database is locked\); end that")
    await comes_back(store)


async def test_locked_before_it_was_opened(path: Path) -> None:
    """By a program that shares with nobody: not even what the file is can be read."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
        other.execute("BEGIN EXCLUSIVE")
        store = SQLiteStore(path, clock=HandClock())
        await refuses(store, r"another program keeps it locked \(database is locked\); end that program")
    await comes_back(store)
    await store.aclose()


async def test_full_disk(store: SQLiteStore) -> None:
    """SQLite's own SQLITE_FULL, from a bound on its pages."""

    def fill(connection: sqlite3.Connection) -> None:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")

    await store._database.run(fill)
    large = replace(RECORD, body=os.urandom(400_000))
    with pytest.raises(StoreError, match=r"the disk is full \(database or disk is full\); free some space"):
        await store.save_record(large)
    with pytest.raises(StoreError, match="the disk is full"):
        store.remember_host(HOST, LATER)
    with pytest.raises(StoreError, match="the disk is full"):
        await store.load_record(ORIGIN)
    await comes_back(store)
    await store.save_record(large)
    assert await store.load_record(ORIGIN) == large


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="/dev/full and file size limits as Linux has them"
)
async def test_full_disk_of_the_system(store: SQLiteStore) -> None:
    """The system's own refusal: no file of this process may grow any more."""
    import resource  # noqa: PLC0415 - there is none on Windows
    import signal  # noqa: PLC0415

    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(StoreError, match=r"cache\.db: (the disk is full|reading or writing failed)"):
            await store.save_record(replace(RECORD, body=os.urandom(400_000)))
        with pytest.raises(StoreError, match=r"cache\.db: (the disk is full|reading or writing failed)"):
            store.remember_host(HOST, LATER)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    await comes_back(store)


async def test_not_writable(store: SQLiteStore) -> None:
    """A connection that may only read gets SQLite's SQLITE_READONLY, whoever runs the test."""
    await store._database.read(_make_read_only)
    with pytest.raises(StoreError, match=r"it cannot be written \(.*readonly.*\); make the file and its"):
        await store.save_record(RECORD)
    with pytest.raises(StoreError, match="it cannot be written"):
        store.remember_host(HOST, LATER)
    await comes_back(store)


def _make_read_only(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA query_only = ON")


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX's")
async def test_read_only_file_and_directory(path: Path) -> None:
    """As the file system has it. Root is kept by no mode, and so tries it as nobody."""
    file_mode, directory_mode = 0o400, 0o500
    is_root = os.geteuid() == 0
    parents = [parent for parent in path.parents if parent.stat().st_mode & 0o005 != 0o005]
    before = {parent: parent.stat().st_mode for parent in parents}
    if is_root:
        # Down to the file's directory, nobody has to find his way.
        for parent in parents[1:]:
            parent.chmod(0o755)
        for one in (path, path.parent):
            os.chown(one, 65534, 65534)
    path.chmod(file_mode)
    path.parent.chmod(directory_mode)
    if is_root:
        os.seteuid(65534)
    store = SQLiteStore(path, clock=HandClock())
    try:
        with pytest.raises(StoreError, match=r"cache\.db: .*(cannot be written|cannot be opened)"):
            await store.save_record(RECORD)
        with pytest.raises(StoreError, match=r"cache\.db: .*(cannot be written|cannot be opened)"):
            store.remember_host(HOST, LATER)
        path.parent.chmod(0o700)
        path.chmod(0o600)
        await comes_back(store)
        await store.aclose()
    finally:
        if is_root:
            os.seteuid(0)
        for parent, mode in before.items():
            parent.chmod(mode & 0o7777)


async def test_garbage(path: Path) -> None:
    """No database at all; once it is out of the way, a new file is begun."""
    path.write_bytes(b"garbage " * 1000)
    store = SQLiteStore(path, clock=HandClock())
    await refuses(store, r"it is no SQLite database \(file is not a database\); name another file, or delete")
    assert path.read_bytes() == b"garbage " * 1000, "nothing of it was touched"
    path.unlink()
    await comes_back(store)
    await store.aclose()


async def test_damage(path: Path) -> None:
    """A database whose pages are not what they should be."""
    for number in range(40):
        change(
            path, f"INSERT INTO hosts VALUES (hex(randomblob(2000)) || {number}, 1, 1, 1, 0, 0, 0, 0, 0, 1)"
        )
    octets = bytearray(path.read_bytes())
    # All but the first page, which makes it a database, and the schema in it.
    octets[4096:] = os.urandom(len(octets) - 4096)
    path.write_bytes(octets)
    store = SQLiteStore(path, clock=HandClock())
    await refuses(store, r"it is damaged \(database disk image is malformed\); delete it, and all will be")
    path.unlink()
    await comes_back(store)
    await store.aclose()


async def test_newer_schema(path: Path) -> None:
    """What a newer robotgate wrote is not touched, and does no harm."""
    newer = len(_schema.MIGRATIONS) + 1
    change(path, f"PRAGMA user_version = {newer}")
    octets = path.read_bytes()
    store = SQLiteStore(path, clock=HandClock())
    await refuses(
        store, rf"newer robotgate \(version {newer} of its tables; .*\); upgrade robotgate, or name"
    )
    assert path.read_bytes() == octets
    change(path, f"PRAGMA user_version = {newer - 1}")
    await comes_back(store)
    await store.aclose()


@pytest.mark.parametrize(
    "statement", ["CREATE TABLE hosts (name)", "PRAGMA user_version = 1", "PRAGMA application_id = 7"]
)
async def test_database_of_another_program(tmp_path: Path, statement: str) -> None:
    """Whether it says whose it is or not, it is left as it is, to its journal mode."""
    path = tmp_path / "other.db"
    change(path, statement)
    change(
        path,
        "PRAGMA application_id = 7" if "7" in statement else statement.replace("TABLE hosts", "TABLE more"),
    )
    octets = path.read_bytes()
    path.chmod(0o600)
    store = SQLiteStore(path)
    with pytest.raises(StoreError, match=r"other\.db: it is another program's database; name another file"):
        await store.open()
    with pytest.raises(StoreError, match="another program's database"):
        await store.aclose()
    assert path.read_bytes() == octets
    assert [entry.name for entry in tmp_path.iterdir()] == ["other.db"]


async def test_deleted_while_open(store: SQLiteStore) -> None:
    """SQLite would write on into a file without a name: a new one is made, and gets all that is in memory.

    What only the old one knew may be anything, so that every host counts as visited.
    """
    assert await store.load_host(HOST) == STATE
    store.remember_host("quiet.example", HostState(visits=5))
    await store._behind.settle()
    for file in store.path.parent.iterdir():
        file.unlink()
    with pytest.raises(
        StoreError, match="the file has vanished, or another has taken its place; see that its"
    ):
        await store.save_record(RECORD)
    with pytest.raises(StoreError, match="the file has vanished"):
        store.remember_host(HOST, LATER)
    await comes_back(store)
    assert rows(store.path, "SELECT visits FROM hosts WHERE pace_key = 'quiet.example'") == [(5,)]
    unknown = await store.load_host("unknown.example")
    assert is_visited_soon_after(NOW, unknown)
    assert store.recall_host("other.example") == unknown


async def test_directory_vanished_while_open(store: SQLiteStore) -> None:
    """It is not made again: a disk that is gone is not replaced by a directory of the same name."""
    away = store.path.parent.with_name("away")
    store.path.parent.rename(away)
    await refuses(
        store, r"the file has vanished|it cannot be opened \(No such file or directory\); see that its dir"
    )
    await until(lambda: "No such file" in str(store._behind.lost))
    assert not store.path.parent.exists()
    away.rename(store.path.parent)
    await comes_back(store)


async def test_directory_replaced_by_a_file(store: SQLiteStore) -> None:
    """A name that leads nowhere any more is as good as gone."""
    away = store.path.parent.with_name("away")
    store.path.parent.rename(away)
    store.path.parent.write_bytes(b"")
    await refuses(store, r"the file has vanished|is no directory")
    store.path.parent.unlink()
    away.rename(store.path.parent)
    await comes_back(store)


async def test_replaced_by_another_file_of_ours(store: SQLiteStore) -> None:
    """A backup that is put back knows less: what is in memory is written there, and the rest is taken with care."""
    assert await store.load_host(HOST) == STATE
    backup = store.path.with_name("backup.db")
    other = SQLiteStore(backup, clock=HandClock())
    other.remember_host("other.example", HostState(visits=7))
    await other.aclose()
    for file in store.path.parent.glob("cache.db*"):
        file.unlink()
    backup.rename(store.path)
    with pytest.raises(StoreError, match="another has taken its place"):
        await store.load_host("other.example")
    store._behind.memory.remember(HOST, LATER)
    await comes_back(store)
    other_state = await store.load_host("other.example")
    assert other_state is not None
    assert other_state.visits == 7
    assert is_visited_soon_after(NOW, replace(other_state, visits=0))


async def test_goes_on_in_memory(
    carefree: SQLiteStore, clock: HandClock, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning; then memory serves, hosts that cannot be looked up count as visited just now, and nobody is unpaced.

    Once the file is back, both know what either knew.
    """
    store = carefree
    caplog.set_level(logging.INFO, "robotgate.stores")
    other = Origin("http", "other.example", 80)
    with locked(store.path):
        clock.at = NOW + 10
        # Reading alone would go on beside another's lock; but what is read could not be kept up.
        await store.save_record(RECORD)
        assert await store.load_host("unknown.example") == HostState(last_visit_at=NOW + 10)
        clock.at = NOW + 20
        # The file knows of a block; nobody can see it now, but a visit is assumed.
        assert await store.load_host(HOST) == HostState(last_visit_at=NOW + 10)
        assert store.recall_host("never.example") == HostState(last_visit_at=NOW + 10)
        assert await store.load_record(ORIGIN) == RECORD
        assert await store.load_record(other) is None
        await store.save_record(replace(RECORD, origin=other))
        assert await store.load_record(other) is not None
        store.remember_host(HOST, HostState(last_visit_at=NOW + 21, visits=1))
        store.remember_host("new.example", HostState(visits=1))
        assert await store.load_host("new.example") == HostState(visits=1)
        with pytest.raises(StoreError, match="locked"):
            # Half a list would look like a whole one.
            await anext(store.hosts())
    assert [entry.levelname for entry in caplog.records] == ["WARNING"]
    assert "another program keeps it locked" in caplog.text
    await until(lambda: store._behind.lost is None)
    assert "the file can be written again" in caplog.text
    both = replace(STATE, last_visit_at=NOW + 21)
    assert store.recall_host(HOST) == both, "the block is known again"
    assert await store.load_host("never.example") is None
    await store.aclose()
    again = SQLiteStore(store.path, clock=HandClock(NOW + 30))
    assert await again.load_host(HOST) == both
    assert await again.load_host("new.example") == HostState(visits=1)
    assert await again.load_record(ORIGIN) == RECORD
    assert await again.load_record(other) is not None
    await again.aclose()


async def test_same_fault_warns_once(
    carefree: SQLiteStore, clock: HandClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A file that fails now and then fills no log; after ten minutes it is said again."""
    for times in (1, 1, 1, 2):
        with locked(carefree.path):
            await carefree.save_record(RECORD)
        assert [entry.levelname for entry in caplog.records] == ["WARNING"] * times
        await until(lambda: carefree._behind.lost is None)
        clock.at += 250


async def test_memory_alone_is_bounded_too(carefree: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a file, hosts that nobody waits for any more go, and so do the oldest records."""
    carefree._behind.memory.max_hosts = 50
    monkeypatch.setattr(_write_behind, "MAX_LOST_RECORDS", 5)
    with locked(carefree.path):
        await carefree.load_host("unknown.example")
        for number in range(500):
            carefree.remember_host(f"{number}.example", HostState(visits=1))
            await carefree.load_host(f"guessed{number}.example")
            await carefree.save_record(replace(RECORD, origin=Origin("http", f"{number}.example", 80)))
        carefree.remember_host(HOST, STATE)
        memory = carefree._behind.memory
        await until(lambda: len(memory.states) <= 50)
        assert len(memory.pending) <= 50
        assert len(memory.guessed) <= 50
        assert len(carefree._behind.records) <= 5
        assert carefree.recall_host(HOST) == STATE, "its wait is unserved"


async def test_file_that_never_was(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """In memory mode a file that cannot even be opened is lost from the beginning, and closing tells of it."""
    caplog.set_level("INFO")
    path = tmp_path / "cache.db"
    path.write_bytes(b"garbage " * 1000)
    store = SQLiteStore(path, when_lost=WhenLost.MEMORY, clock=HandClock())
    await store.open()
    assert await store.load_host(HOST) == HostState(last_visit_at=NOW)
    store.remember_host(HOST, STATE)
    await store.aclose()
    assert [entry.levelname for entry in caplog.records] == ["WARNING", "INFO"]
    assert "memory alone until it can be used again" in caplog.text
    assert "What was learnt since is lost" in caplog.text


async def test_closing_a_lost_store_says_so(store: SQLiteStore) -> None:
    """What could not be written is an error once; and the next who opens the file takes care."""
    with locked(store.path):
        store.remember_host(HOST, LATER)
        with pytest.raises(StoreError, match="another program keeps it locked"):
            await store.aclose()
        await store.aclose()
    again = SQLiteStore(store.path, clock=HandClock(NOW + 30))
    assert is_visited_soon_after(NOW + 30, await again.load_host("unknown.example"))
    known = await again.load_host(HOST)
    assert known is not None
    assert replace(known, last_visit_at=STATE.last_visit_at) == STATE
    assert is_visited_soon_after(NOW + 30, HostState(last_visit_at=known.last_visit_at))
    await again.aclose()


async def test_whoever_waits_is_told(store: SQLiteStore) -> None:
    """However many wait for the file when it is lost, all of them hear of it, once."""
    away = store.path.with_name("away.db")
    store.path.rename(away)
    store.path.mkdir()
    asking = [asyncio.create_task(store.load_host(f"{number % 10}.example")) for number in range(50)]
    saving = [
        asyncio.create_task(
            store.save_record(replace(RECORD, origin=Origin("http", f"{number}.example", 80)))
        )
        for number in range(50)
    ]
    answers = await asyncio.gather(*asking, *saving, return_exceptions=True)
    assert {type(answer) for answer in answers} == {StoreError}
    store.path.rmdir()
    away.rename(store.path)
    await until(lambda: store._behind.lost is None)


async def test_batch_that_failed_is_written_later(store: SQLiteStore) -> None:
    """What was on its way to the file when it was lost is not lost with it; what was said since is newer."""
    with locked(store.path):
        store.remember_host(HOST, replace(LATER, visits=41))
        store.remember_host("other.example", HostState(visits=9))
        await until(lambda: store._behind._writing is not None)
        store.remember_host(HOST, LATER)
        await until(lambda: store._behind.lost is not None)
    await comes_back(store)
    assert rows(store.path, "SELECT visits FROM hosts WHERE pace_key = 'other.example'") == [(9,)]


async def test_closing_writes_what_just_failed(store: SQLiteStore) -> None:
    """Nobody knows yet that the batch before the last will fail: the last has all of it once more."""
    with closing(sqlite3.connect(store.path, isolation_level=None, check_same_thread=False)) as other:

        def unlock() -> None:
            other.execute("ROLLBACK")

        other.execute("BEGIN EXCLUSIVE")
        store.remember_host(HOST, LATER)
        store._behind.flush()
        # On the thread, after that batch and before the last.
        store._database._jobs.put(unlock)
        await store.aclose()
    assert rows(store.path, "SELECT visits FROM hosts") == [(42,)]
    assert rows(store.path, "SELECT * FROM processes") == []


@pytest.mark.parametrize("when_lost", WhenLost)
async def test_whoever_waits_for_the_next_batch_is_told_too(
    path: Path, monkeypatch: pytest.MonkeyPatch, when_lost: WhenLost
) -> None:
    """Not only once the file is tried again."""
    store = SQLiteStore(path, clock=HandClock(), when_lost=when_lost)
    await store.open()
    monkeypatch.setattr(_write_behind, "RETRY_DELAY", 3600.0)
    with locked(path):
        first = asyncio.create_task(store.save_record(RECORD))
        await until(lambda: store._behind._writing is not None)
        second = asyncio.create_task(store.save_record(replace(RECORD, origin=Origin("http", HOST, 80))))
        async with asyncio.timeout(5):
            outcomes = await asyncio.gather(first, second, return_exceptions=True)
    expected = StoreError if when_lost is WhenLost.RAISE else type(None)
    assert [type(outcome) for outcome in outcomes] == [expected, expected]
    await store.aclose()
    assert len(rows(path, "SELECT * FROM records")) >= 1


async def test_migrates_or_stays_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of a migration that fails leaves the file to the version before; one that works keeps all."""
    first = _schema.MIGRATIONS
    monkeypatch.setattr(
        _schema,
        "MIGRATIONS",
        (*first, ("ALTER TABLE hosts ADD COLUMN more REAL", "CREATE TABLE hosts (twice)")),
    )
    broken = SQLiteStore(path, clock=HandClock())
    with pytest.raises(StoreError, match="table hosts already exists"):
        await broken.open()
    with pytest.raises(StoreError, match="table hosts already exists"):
        await broken.aclose()
    assert rows(path, "PRAGMA user_version") == [(len(first),)]
    monkeypatch.setattr(_schema, "MIGRATIONS", (*first, ("CREATE TABLE more (name)",)))
    store = SQLiteStore(path, clock=HandClock())
    assert await store.load_host(HOST) == STATE
    assert await store.load_record(ORIGIN) == RECORD
    await store.aclose()
    assert rows(path, "PRAGMA user_version") == [(len(first) + 1,)]
    assert rows(path, "SELECT * FROM more") == []
