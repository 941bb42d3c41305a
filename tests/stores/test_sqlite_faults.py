"""What goes wrong with the file, each time the real thing: one clear error, or memory alone; never a wrong answer."""

# ruff: noqa: ASYNC240 - looking at the file may take the test a moment

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import socket
import sqlite3
import stat
import sys
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from tests.stores.files import HOST, NOW, ORIGIN, RECORD, STATE, HandClock, change, locked, rows
from tests.waiting import until

from robotgate import Origin, SQLiteStore, StoreError, WhenLost
from robotgate.clock import SystemClock
from robotgate.pace.state import merged, visited
from robotgate.stores import HostState, Lost, OperatorBlock, Recovered, Wanted
from robotgate.stores.session import uptime
from robotgate.stores.sqlite import database
from robotgate.stores.sqlite import store as sqlite_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from robotgate.stores import Grant, News, Session

NOBODY: Final = 65534
LATER: Final = replace(STATE, visits=42, next_allowed_at=NOW + 2)
posix: Final = pytest.mark.skipif(sys.platform == "win32", reason="modes and owners are POSIX's")


@pytest.fixture(autouse=True)
def _impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks are not waited for, and a lost file is tried again soon."""
    monkeypatch.setattr(database, "BUSY_TIMEOUT", 0.01)
    monkeypatch.setattr(database, "RETRY_DELAY", 0.001)
    monkeypatch.setattr(database, "LOOK_PAUSE", 0.001)


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A file that knows one host and one record, in a directory of its own."""
    path = tmp_path / "cache" / "cache.db"
    async with SQLiteStore(path, clock=HandClock()) as store:
        await store.save_record(RECORD)
        await store.save_hosts({HOST: STATE})
    return path


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SQLiteStore]:
    """It, opened, in the mode that raises."""
    async with SQLiteStore(path, clock=HandClock()) as store:
        yield store


async def refuses(store: SQLiteStore, message: str) -> None:
    """Whatever needs to be written, the store says the same."""
    for use in (
        store.save_record(RECORD),
        store.save_hosts({HOST: LATER}),
        store.session(),
        store.prune(now=NOW),
        store.forget_host(HOST),
    ):
        with pytest.raises(StoreError, match=message) as raised:
            await use
        assert str(store.path) in str(raised.value)


async def works(store: SQLiteStore) -> None:
    """All is well again, without anybody's help."""
    await store.save_hosts({HOST: LATER})
    assert await store.load_host(HOST) == LATER
    await store.save_record(replace(RECORD, body=b"after"))
    record = await store.load_record(ORIGIN)
    assert record is not None
    assert record.body == b"after"
    session = await store.session()
    assert (await session.obtain("new.example")).lease.is_valid()
    await session.aclose()
    assert rows(store.path, f"SELECT visits FROM hosts WHERE pace_key = '{HOST}'") == [(42,)]


async def test_locked(store: SQLiteStore) -> None:
    """Another program's lock: refused while it lasts."""
    with locked(store.path):
        await refuses(store, r"cache\.db: another program keeps it locked \(database is locked\); end that")
    await works(store)


async def test_cancelled_reader_of_a_file_that_fails(store: SQLiteStore) -> None:
    """Its error goes nowhere, also not to the event loop's exception handler."""
    problems: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    store.path.parent.rename(store.path.parent.with_name("away"))
    reading = asyncio.create_task(store.load_host(HOST))
    await asyncio.sleep(0)
    reading.cancel()
    with suppress(asyncio.CancelledError):
        await reading
    with pytest.raises(StoreError):
        await store.save_record(RECORD)
    gc.collect()
    await asyncio.sleep(0)
    assert problems == []


@pytest.mark.parametrize(
    ("pragma", "message"),
    [
        ("max_page_count = 1", r"the disk is full \(.*\); free some space"),
        ("query_only = ON", "it cannot be written .*; make the file and its directory writable"),
    ],
    ids=["full", "read-only"],
)
async def test_refusals_of_sqlite(store: SQLiteStore, pragma: str, message: str) -> None:
    """SQLITE_FULL and SQLITE_READONLY, whoever runs the test. The connection is given up, and what bound it."""
    await store._do(lambda file: file.connection.execute(f"PRAGMA {pragma}").fetchall())
    with pytest.raises(StoreError, match=message):
        await store.save_record(replace(RECORD, body=os.urandom(50_000)))
    await works(store)


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """The system refuses to let any file of this process grow over a size."""
    import resource  # noqa: PLC0415 - there is none on Windows
    import signal  # noqa: PLC0415 - used here alone

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@posix
@pytest.mark.parametrize("when_lost", WhenLost)
async def test_full_disk_spoils_no_file(
    tmp_path: Path, when_lost: WhenLost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where only a part of the log could be copied into the file: all that was saved is there when the disk has
    room again, and with `WhenLost.MEMORY` also what was not, if only when the store is closed.
    """
    monkeypatch.setattr(database, "RETRY_DELAY", 60.0)
    saved = []
    async with SQLiteStore(tmp_path / "cache.db", when_lost=when_lost) as store:
        with full_disk(150_000):
            for number in range(40):
                record = replace(
                    RECORD, origin=Origin("http", f"{number}.example", 80), body=os.urandom(9_000)
                )
                with suppress(StoreError):
                    await store.save_record(record)
                    saved.append(record)
    assert len(saved) == 40 or when_lost is WhenLost.RAISE
    async with SQLiteStore(tmp_path / "cache.db", clock=HandClock()) as store:
        found = {record.origin async for record in store.records()}
        assert {record.origin for record in saved} == found
        await works(store)


@posix
@pytest.mark.parametrize("step", [12_288, pytest.param(4096, marks=pytest.mark.slow)])
@pytest.mark.parametrize("when_lost", WhenLost)
async def test_full_disk_at_the_beginning(tmp_path: Path, when_lost: WhenLost, step: int) -> None:
    """A file that could not be made, or only a part of it, is made once the disk has room: by whoever comes next."""
    for size in range(0, 60_000, step):
        path = tmp_path / f"{size}.db"
        store = SQLiteStore(path, when_lost=when_lost)
        with full_disk(size), suppress(StoreError) if when_lost is WhenLost.RAISE else nullcontext():
            session = await store.session()
            assert (await session.obtain(HOST)).lease.is_valid()
            await store.save_record(RECORD)
        await store.aclose()
        async with SQLiteStore(path, clock=HandClock()) as store:
            await works(store)


async def refused(path: Path, cause: str) -> None:
    """The store is not opened, says why, and has nothing to lose when it is closed."""
    store = SQLiteStore(path)
    with pytest.raises(StoreError, match=cause) as raised:
        await store.open()
    assert str(path) in str(raised.value)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await store.aclose()


def look(path: Path) -> dict[str, tuple[int, float, bytes]]:
    """All that a refused file could be changed in, and what lies beside it."""
    return {
        entry.name: (
            entry.stat().st_mode,
            entry.stat().st_mtime,
            entry.read_bytes() if entry.is_file() else b"",
        )
        for entry in path.parent.iterdir()
    }


ANOTHERS: Final = "it is another program's database; name another file"
NEWER: Final = r"it was written by a newer robotgate \(version 7 .* knows 3\); upgrade robotgate"


@posix
@pytest.mark.parametrize(
    ("statements", "cause"),
    [
        (["CREATE TABLE notes (text)"], ANOTHERS),
        (["PRAGMA application_id = 77", "CREATE TABLE notes (text)"], ANOTHERS),
        (["PRAGMA journal_mode = WAL", "CREATE TABLE notes (text)"], ANOTHERS),
        (["PRAGMA user_version = 3"], ANOTHERS),
        ([f"PRAGMA application_id = {database.APPLICATION_ID}", "PRAGMA user_version = 7"], NEWER),
    ],
)
async def test_refused_database_is_left_as_it_is(tmp_path: Path, statements: list[str], cause: str) -> None:
    """Another program's, whether it says so or not, or a newer robotgate's: to its mode, its journal, its last byte."""
    path = tmp_path / "site.db"
    theirs = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        theirs.execute(statement).fetchall()
    # While they use it, and after that.
    for is_used in (True, False):
        if not is_used:
            theirs.close()
        path.chmod(0o644)
        before = look(path)
        await refused(path, cause)
        assert look(path) == before


@posix
@pytest.mark.parametrize("content", [b"name,price\napple,1\n", b"\0" * 5000, b"SQLite format 3\0 or so"])
async def test_refused_file_of_another_kind_is_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    """It is no database at all; once it is out of the way, a new file is begun."""
    path = tmp_path / "prices.csv"
    path.write_bytes(content)
    path.chmod(0o644)
    before = look(path)
    await refused(path, "it is no SQLite database; name another file, or delete this one")
    assert look(path) == before
    path.unlink()
    async with SQLiteStore(path, clock=HandClock()) as store:
        await works(store)


@posix
async def test_refuses_what_is_no_plain_file(tmp_path: Path) -> None:
    """By what it is: a directory, a pipe, whose opening would never end, a socket, a device."""
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        for path in (*tmp_path.iterdir(), Path("/dev/null")):
            await refused(path, f"{path.name} is a link, or no plain file; name the file itself, or another")
    assert stat.S_IMODE(Path("/dev/null").stat().st_mode) == 0o666


@posix
async def test_refuses_a_symbolic_link(tmp_path: Path) -> None:
    """Whether or not it leads anywhere; what it leads to stays as it was."""
    elsewhere = tmp_path / "elsewhere"
    path = tmp_path / "cache.db"
    path.symlink_to(elsewhere)
    await refused(path, r"cache\.db is a link, or no plain file; name the file itself")
    assert not elsewhere.exists()
    elsewhere.touch()
    await refused(path, r"cache\.db is a link, or no plain file; name the file itself")
    assert elsewhere.stat().st_size == 0


@posix
@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
async def test_refuses_a_symbolic_link_beside(path: Path, suffix: str) -> None:
    """SQLite would write through it, or take it for the log of a crash."""
    elsewhere = path.with_name("elsewhere")
    elsewhere.write_bytes(b"precious")
    path.with_name(f"cache.db{suffix}").symlink_to(elsewhere)
    await refused(path, rf"cache\.db{suffix} is a link")
    assert elsewhere.read_bytes() == b"precious"


@posix
async def test_refuses_a_file_of_another_user(tmp_path: Path) -> None:
    """He could have written anything there. The test's own file is given away, or one of root's is named."""
    path = tmp_path / "cache.db"
    if os.geteuid() == 0:
        path.touch()
        os.chown(path, NOBODY, NOBODY)
    else:
        path = Path("/etc/passwd")
    await refused(path, f"{path.name} belongs to another user")


@posix
async def test_refuses_a_directory_where_everybody_may_exchange_files(tmp_path: Path) -> None:
    """Unless it is sticky, as /tmp is, or of a group: under a umask of 002 every directory is one."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    await refused(shared / "cache.db", f"everybody may exchange files in {shared}; .* run chmod o-w")
    assert list(shared.iterdir()) == []
    for mode in (0o1777, 0o775):
        shared.chmod(mode)
        async with SQLiteStore(shared / "cache.db"):
            assert stat.S_IMODE((shared / "cache.db").stat().st_mode) == 0o600


async def test_makes_one_directory_but_no_path(tmp_path: Path) -> None:
    """A whole path that is missing is rather a mistake, or a disk that is not there; a file is no directory."""
    await refused(tmp_path / "no" / "such" / "cache.db", "check that its directory exists")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_bytes(b"precious")
    await refused(tmp_path / "file" / "cache.db", "is no directory")
    assert (tmp_path / "file").read_bytes() == b"precious"


@posix
async def test_is_private_under_any_umask(tmp_path: Path) -> None:
    """The file, all that SQLite puts beside it, and the directory that is made for it, also where it was loose."""
    directory = tmp_path / "robotgate"
    before = os.umask(0)
    try:
        async with SQLiteStore(directory / "cache.db") as store:
            await store.save_record(RECORD)
            assert {entry.stat().st_mode & 0o777 for entry in directory.iterdir()} == {0o600}
            assert len(list(directory.iterdir())) == 3
    finally:
        os.umask(before)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    (directory / "cache.db").chmod(0o666)
    (tmp_path / "empty.db").touch(0o666)
    for path in (directory / "cache.db", tmp_path / "empty.db"):
        async with SQLiteStore(path):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_stays_where_it_was_when_it_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative name means what it meant when it was given."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    store = SQLiteStore("cache.db")
    monkeypatch.chdir(tmp_path / "elsewhere")
    async with store:
        assert (tmp_path / "cache.db").exists()


async def test_a_process_that_made_the_file_was_killed(tmp_path: Path) -> None:
    """What it left, half a file and the journal that undoes it, is a new file to the next process."""
    there, left = tmp_path / "there.db", tmp_path / "cache.db"
    with closing(sqlite3.connect(there, isolation_level=None)) as making:
        making.execute("PRAGMA cache_size = 1")
        making.execute("BEGIN IMMEDIATE")
        making.execute("CREATE TABLE hosts (key TEXT)")
        making.executemany("INSERT INTO hosts VALUES (?)", [("x" * 3000,)] * 50)
        for end in ("", "-journal"):
            copy = left.with_name(left.name + end)
            copy.write_bytes(there.with_name(there.name + end).read_bytes())
            copy.chmod(0o600)
    assert left.stat().st_size

    async with SQLiteStore(left, clock=HandClock()) as store:
        await works(store)


async def test_many_make_the_same_file_at_the_same_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One makes it ours while others look whose it is, who must not take it for another program's."""
    monkeypatch.setattr(database, "BUSY_TIMEOUT", 5.0)
    for number in range(5):
        stores = [SQLiteStore(tmp_path / f"{number}.db") for _ in range(4)]
        await asyncio.gather(*(store.open() for store in stores))
        for store in stores:
            await store.aclose()


def delete(path: Path, suffixes: tuple[str, ...]) -> None:
    """Delete a file and what is beside it, of which SQLite itself may delete some."""
    for suffix in suffixes:
        path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)


GONE: Final = {"file": ("",), "file and log": ("", "-wal", "-shm"), "log": ("-wal", "-shm")}


@pytest.mark.parametrize("gone", GONE.values(), ids=GONE)
async def test_deleted_while_open(store: SQLiteStore, gone: tuple[str, ...]) -> None:
    """SQLite would write on into a file without a name: a new one is made. Hosts that are held go on, and what the lost
    file knew of others counts as visits.
    """
    session = await store.session()
    grant = await session.obtain("held.example")
    delete(store.path, gone)
    state = await store.load_host("unknown.example")
    assert state == visited(NOW)
    await session.obtain("other.example")
    assert grant.lease.is_valid()
    assert rows(store.path, "SELECT key FROM grants ORDER BY key") == [("held.example",), ("other.example",)]
    await session.aclose()


async def test_deleted_while_other_processes_hold_hosts(path: Path) -> None:
    """What one of them holds is granted to nobody else before it has handed it on."""

    async def obtained(session: Session) -> Grant:
        while True:
            # SQLite may fail at first, as its log is of another file.
            with suppress(StoreError):
                return await session.obtain(HOST)

    async with SQLiteStore(path) as first, SQLiteStore(path) as second:
        owner, other = await first.session(), await second.session()
        grant = await owner.obtain(HOST)
        delete(path, ("",))
        waiting = asyncio.create_task(obtained(other))
        wanted: list[News] = []
        while not any(isinstance(news, Wanted) for news in wanted):
            assert grant.lease.is_valid()
            assert not waiting.done()
            wanted += await owner.news()
        owner.leave(HOST, HostState(visits=1))
        granted = await waiting
        assert granted.state is not None
        assert granted.state.visits == 1


async def test_replaced_by_another_file_of_ours(store: SQLiteStore, tmp_path: Path) -> None:
    """A backup that is put back knows less: what it does not know is taken with care."""
    other = tmp_path / "backup.db"
    async with SQLiteStore(other, clock=HandClock()) as backup:
        await backup.save_hosts({HOST: HostState(visits=1)})
    other.replace(store.path)
    assert await store.load_host(HOST) == replace(visited(NOW), visits=1)
    assert await store.load_host("unknown.example") == visited(NOW)


async def test_another_file_whose_clock_is_ahead(path: Path) -> None:
    """In a file that takes the place of the first, all hosts count as visited now, whatever the file's clock says."""
    other = path.with_name("other.db")
    async with SQLiteStore(other):
        pass
    change(other, "UPDATE facts SET value = value + 3600 WHERE name GLOB 'offset *'")
    clock = SystemClock()
    async with SQLiteStore(path, clock=clock) as store:
        for suffix in ("-wal", "-shm"):
            path.with_name(f"cache.db{suffix}").unlink()
        other.replace(path)
        state = await store.load_host("unknown.example")
        assert state is not None
        assert state.last_visit_at == pytest.approx(clock.now(), abs=60)


async def test_directory_vanished_while_open(store: SQLiteStore) -> None:
    """It is not made again: a disk that is gone is not replaced by a directory of the same name."""
    away = store.path.parent.rename(store.path.parent.with_name("away"))
    await refuses(store, "check that its directory exists")
    assert not store.path.parent.exists()
    away.rename(store.path.parent)
    await works(store)


# What sessions make of it.


async def test_question_that_comes_while_the_file_fails_is_answered(store: SQLiteStore) -> None:
    """Before, during and after: every task that asks for a host is told of the error, or has it."""
    session = await store.session()
    asking = [asyncio.create_task(session.obtain("first.example"))]
    with locked(store.path):
        for number in range(20):
            asking.append(asyncio.create_task(session.obtain(f"{number}.example")))
            await asyncio.sleep(0.005)
        async with asyncio.timeout(60):
            results = await asyncio.gather(*asking, return_exceptions=True)
        assert sum(isinstance(result, StoreError) for result in results) >= 20
        assert isinstance((await session.news())[0], Lost)
    async with asyncio.timeout(60):
        assert await session.news() == [Recovered()]
        grants = await asyncio.gather(*(session.obtain(f"{number}.example") for number in range(20)))
    assert all(grant.lease.is_valid() for grant in grants)
    await session.aclose()


async def test_one_failed_beat_does_not_end_all_further_ones(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is locked for a beat, as by a backup: the session goes on beating, and keeps its hosts, though
    no task asks anything of the store.
    """
    monkeypatch.setattr(sqlite_store, "BEAT", 0.05)
    monkeypatch.setattr(database, "BUSY_TIMEOUT", 0.1)
    async with SQLiteStore(path) as store, SQLiteStore(path) as other:
        session, neighbour = await store.session(), await other.session()
        grant = await session.obtain("long.example")
        with locked(path):
            await asyncio.sleep(0.3)
        ((before,),) = rows(path, f"SELECT seen_at FROM sessions WHERE id = '{session.side.name}'")
        assert isinstance(before, float)
        later = f"SELECT seen_at > {before + 0.2} FROM sessions WHERE id = '{session.side.name}'"
        await until(lambda: rows(path, later) == [(1,)])
        assert grant.lease.is_valid()
        await until(lambda: other._database.lost is None)
        waiter = asyncio.create_task(neighbour.obtain("long.example"))
        await asyncio.sleep(0.2)
        assert not waiter.done()
        session.leave("long.example", None)
        async with asyncio.timeout(60):
            await waiter


async def test_session_that_slept_keeps_hosts_that_nobody_took(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its old grants hold again once the file has said so, and not before."""
    slept = 0
    monkeypatch.setattr("robotgate.stores.sqlite.tables.uptime", lambda: uptime() + slept)
    async with SQLiteStore(path) as store:
        session = await store.session()
        grant = await session.obtain("a.example")
        slept = 17
        assert not grant.lease.is_valid()
        await until(grant.lease.is_valid)


@pytest.mark.parametrize("busy_timeout", [0.01, 5.0])
async def test_blocks_that_cannot_be_told_are_told_later(
    path: Path, monkeypatch: pytest.MonkeyPatch, busy_timeout: float
) -> None:
    """What was said last holds, also where the first is written only when the lock has ended."""
    monkeypatch.setattr(database, "BUSY_TIMEOUT", busy_timeout)
    async with SQLiteStore(path) as store, SQLiteStore(path) as other:
        session, neighbour = await store.session(), await other.session()
        with locked(path):
            session.publish_block("a.example", NOW)
            await asyncio.sleep(0.05)
            session.publish_block("a.example", SystemClock().now() + 3600)
        heard: list[object] = []
        async with asyncio.timeout(60):
            while not any(isinstance(news, OperatorBlock) and news.until_at > NOW for news in heard):
                heard += await neighbour.news()


# Memory alone.


async def test_goes_on_in_memory(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One warning; then memory serves, and hosts that cannot be looked up count as visited just now. When the file is
    back it gets all that was said meanwhile.
    """
    async with SQLiteStore(path, when_lost=WhenLost.MEMORY, clock=HandClock()) as store:
        session = await store.session()
        held = await session.obtain(HOST)
        with caplog.at_level(logging.INFO), locked(path):
            grant = await asyncio.wait_for(session.obtain("unknown.example"), 60)
            assert grant.lease.is_valid()
            assert grant.state == visited(NOW)
            assert held.lease.is_valid()
            await store.save_hosts({HOST: LATER, "unknown.example": HostState(visits=1)})
            await store.save_record(replace(RECORD, body=b"meanwhile"))
            assert await store.load_host(HOST) == merged(LATER, visited(NOW))
            session.leave("unknown.example", HostState(visits=2))
            assert (await session.obtain("unknown.example")).state == replace(visited(NOW), visits=2)
            assert [record.levelname for record in caplog.records] == ["WARNING"]
            assert "another program keeps it locked" in caplog.text
            assert "Memory is used until the file works again" in caplog.text
        await until(lambda: not grant.lease.is_valid())
        regained = await asyncio.wait_for(session.obtain("unknown.example"), 60)
        assert regained.state is not None
        assert regained.state.visits == 2
        assert await store.load_host(HOST) == LATER
        assert rows(path, f"SELECT visits FROM hosts WHERE pace_key = '{HOST}'") == [(42,)]
        record = await store.load_record(ORIGIN)
        assert record is not None
        assert record.body == b"meanwhile"


async def test_with_neighbours_memory_is_not_enough(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Hosts that another process may hold wait until the file can be used; hosts that are held go on."""
    async with (
        SQLiteStore(path, when_lost=WhenLost.MEMORY) as store,
        SQLiteStore(path, when_lost=WhenLost.MEMORY) as other,
    ):
        session, neighbour, leaving = await store.session(), await other.session(), await store.session()
        held, _ = await session.obtain("a.example"), await neighbour.obtain("b.example")
        await session.obtain("c.example")
        with locked(path):
            waiter = asyncio.create_task(session.obtain("d.example"))
            assert isinstance((await session.news())[0], Lost)
            # Its hosts are free when it is not heard of.
            await leaving.aclose()
            await asyncio.sleep(0.1)
            assert not waiter.done()
            assert held.lease.is_valid()
        assert (await asyncio.wait_for(waiter, 60)).lease.is_valid()
        assert "Hosts that others may hold wait until the file works again" in caplog.text


async def test_file_that_never_was(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """In memory mode a file that cannot even be opened is lost from the beginning. One warning says that."""
    (tmp_path / "file").touch()
    async with SQLiteStore(tmp_path / "file" / "cache.db", when_lost=WhenLost.MEMORY) as store:
        session = await store.session()
        assert (await session.obtain(HOST)).lease.is_valid()
        for number in range(300):
            await store.save_record(replace(RECORD, origin=Origin("http", f"{number}.example", 80)))
        assert await store.load_record(Origin("http", "299.example", 80)) is not None
        assert await store.load_record(Origin("http", "0.example", 80)) is None, "records are bounded"
    (warning,) = caplog.records
    assert warning.message.endswith("Memory is used until the file works again; nothing is saved before")


@pytest.mark.parametrize("when_lost", WhenLost)
async def test_system_that_opens_nothing(
    path: Path, when_lost: WhenLost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where not even memory can be used in place of the file, that is an error of the file; it ends by itself."""

    def refuse(*_: object, **__: object) -> sqlite3.Connection:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async with SQLiteStore(path, when_lost=when_lost, clock=HandClock()) as store:
        away = path.rename(path.with_name("away"))
        with monkeypatch.context() as patched:
            patched.setattr(sqlite3, "connect", refuse)
            await refuses(store, "No space left on device.*; free some space")
        away.replace(path)
        await works(store)


async def test_file_that_does_not_come_back(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A file that fails during use, and still does at the end, is told of twice: when that begins, and by closing."""
    async with SQLiteStore(path, when_lost=WhenLost.MEMORY) as store:
        path.parent.rename(path.parent.with_name("away"))
        await store.save_record(RECORD)
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert "Records and states since then are lost" in caplog.records[-1].message


async def test_same_fault_warns_once(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A file that fails now and then fills no log; after ten minutes it is said again."""
    clock = HandClock()
    async with SQLiteStore(path, when_lost=WhenLost.MEMORY, clock=clock) as store:
        for wait in (0.0, 1.0, 598.0, 2.0):
            clock.at += wait
            with locked(path):
                await store.save_hosts({HOST: STATE})
            await store.prune(now=NOW)
    assert sum(record.levelno >= logging.WARNING for record in caplog.records) == 2


async def test_closing_a_file_that_is_lost_says_so(path: Path) -> None:
    """A session that could not leave is an error; the next process that opens the file takes care."""
    store = SQLiteStore(path)
    session = await store.session()
    await session.obtain(HOST)
    with locked(path):
        with pytest.raises(StoreError, match="another program keeps it locked"):
            await session.aclose()
        await store.aclose()
    async with SQLiteStore(path) as again:
        assert rows(path, "SELECT count(*) FROM sessions") == [(1,)]
        other = await again.session()
        waiter = asyncio.create_task(other.obtain(HOST))
        await asyncio.sleep(0.1)
        assert not waiter.done(), "the process still runs, so its session may"
        waiter.cancel()
