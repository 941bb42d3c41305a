"""The file of the store: private, ours, and no way to somewhere else."""

# ruff: noqa: ASYNC240 - looking at the file may take the test a moment

from __future__ import annotations

import os
import sqlite3
import stat
import sys
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import pytest
from tests.stores.files import HOST, RECORD, STATE, HandClock

from robotgate import SQLiteStore, StoreError
from robotgate.stores import _schema

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="modes and owners are POSIX's")

NOBODY = 65534


@pytest.fixture
def loose_umask() -> Iterator[None]:
    """A umask that takes nothing away."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(directory: Path) -> dict[str, int]:
    """The mode of everything in a directory."""
    return {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in directory.iterdir()}


@pytest.mark.usefixtures("loose_umask")
async def test_is_private_under_any_umask(tmp_path: Path) -> None:
    """The file, all that SQLite puts beside it, and the directory that is made for it."""
    store = SQLiteStore(tmp_path / "robotgate" / "cache.db")
    store.remember_host(HOST, STATE)
    await store.save_record(RECORD)
    assert modes(tmp_path / "robotgate") == {"cache.db": 0o600, "cache.db-wal": 0o600, "cache.db-shm": 0o600}
    assert modes(tmp_path) == {"robotgate": 0o700}
    await store.aclose()
    assert modes(tmp_path / "robotgate") == {"cache.db": 0o600}


async def test_loose_file_is_made_private(tmp_path: Path) -> None:
    """What somebody made readable for all, or made empty beforehand, is not left so."""
    path = tmp_path / "cache.db"
    path.touch()
    path.chmod(0o666)
    store = SQLiteStore(path)
    await store.save_record(RECORD)
    assert set(modes(tmp_path).values()) == {0o600}
    await store.aclose()


async def refused(path: Path, cause: str) -> None:
    """The store is not opened, and says why."""
    store = SQLiteStore(path)
    with pytest.raises(StoreError, match=cause) as raised:
        await store.open()
    assert str(path) in str(raised.value)
    with pytest.raises(StoreError, match=cause):
        store.remember_host(HOST, STATE)
    with pytest.raises(StoreError, match=cause):
        await store.aclose()


async def test_refuses_a_symbolic_link(tmp_path: Path) -> None:
    """Whether or not it leads anywhere; what it leads to stays as it was."""
    elsewhere = tmp_path / "elsewhere"
    path = tmp_path / "cache.db"
    path.symlink_to(elsewhere)
    await refused(path, r"cache\.db is a symbolic link; name the file itself")
    assert not elsewhere.exists()
    elsewhere.touch()
    await refused(path, r"cache\.db is a symbolic link; name the file itself")
    assert elsewhere.stat().st_size == 0


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
@pytest.mark.parametrize("is_made", [True, False])
async def test_refuses_a_symbolic_link_beside(tmp_path: Path, suffix: str, is_made: bool) -> None:  # noqa: FBT001
    """SQLite would write through it, or take it for the log of a crash."""
    path = tmp_path / "cache.db"
    if is_made:
        store = SQLiteStore(path)
        await store.open()
        await store.aclose()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"precious")
    path.with_name(f"cache.db{suffix}").symlink_to(elsewhere)
    await refused(path, rf"cache\.db{suffix} is a symbolic link")
    assert elsewhere.read_bytes() == b"precious"


async def test_refuses_what_is_no_plain_file(tmp_path: Path) -> None:
    """A directory, or a pipe, whose opening would never end."""
    (tmp_path / "directory").mkdir()
    await refused(tmp_path / "directory", "directory is no plain file; name another file")
    os.mkfifo(tmp_path / "pipe")
    await refused(tmp_path / "pipe", "pipe is no plain file")


async def test_refuses_a_file_of_another_user(tmp_path: Path) -> None:
    """He could have written anything there. The test's own file is given away, or one of root's is named."""
    path = tmp_path / "cache.db"
    if os.geteuid() == 0:
        path.touch()
        os.chown(path, NOBODY, NOBODY)
    else:
        path = type(path)("/etc/passwd")
    await refused(path, f"{path.name} belongs to another user")


async def test_refuses_a_directory_where_everybody_may_exchange_files(tmp_path: Path) -> None:
    """Unless it is sticky, as /tmp is."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    await refused(shared / "cache.db", f"everybody may exchange files in {shared}; .* run chmod o-w")
    assert list(shared.iterdir()) == []
    shared.chmod(0o1777)
    store = SQLiteStore(shared / "cache.db")
    await store.open()
    await store.aclose()


async def test_directory_of_a_group_will_do(tmp_path: Path) -> None:
    """Under a umask of 002, which is usual where each user has a group of his own, every directory is one."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o775)
    store = SQLiteStore(shared / "cache.db")
    await store.open()
    assert modes(shared)["cache.db"] == 0o600
    await store.aclose()


async def test_makes_one_directory_but_no_path(tmp_path: Path) -> None:
    """A whole path that is missing is rather a mistake, or a disk that is not there."""
    await refused(tmp_path / "no" / "such" / "cache.db", "see that its directory exists")
    assert list(tmp_path.iterdir()) == []


async def test_refuses_a_directory_that_is_a_file(tmp_path: Path) -> None:
    """Named by mistake; the file stays as it was."""
    (tmp_path / "file").write_bytes(b"precious")
    await refused(tmp_path / "file" / "cache.db", "is no directory")
    assert (tmp_path / "file").read_bytes() == b"precious"


async def test_directory_may_be_a_link(tmp_path: Path) -> None:
    """A cache directory on another disk is the administrator's choice."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "cache").symlink_to(tmp_path / "disk")
    store = SQLiteStore(tmp_path / "cache" / "cache.db")
    await store.open()
    await store.aclose()
    assert (tmp_path / "disk" / "cache.db").exists()


async def test_stays_where_it_was_when_it_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative name means what it meant to whoever gave it."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    store = SQLiteStore("cache.db", clock=HandClock())
    monkeypatch.chdir(tmp_path / "elsewhere")
    await store.open()
    await store.aclose()
    assert (tmp_path / "cache.db").exists()


def test_two_processes_make_the_same_file_at_the_same_moment(tmp_path: Path) -> None:
    """One makes it ours while the other looks whose it is, who must not take it for another program's."""
    path = tmp_path / "s.db"
    with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as one:

        def come_between(statement: str) -> None:
            """Between two of the looks. Where it has to wait, it is made a moment later."""
            if "user_version" in statement:
                with (
                    closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as other,
                    suppress(sqlite3.OperationalError),
                ):
                    other.execute("BEGIN IMMEDIATE")
                    _schema.migrate(other, path)
                    other.execute("COMMIT")

        one.set_trace_callback(come_between)
        _schema.prepare(one, path)
