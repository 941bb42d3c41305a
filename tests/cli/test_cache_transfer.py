"""``robotgate cache export`` and ``import``: everything goes from one store to another, and no line is trusted."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.cli.conftest import run
from tests.cli.test_cache import cache, crash, keep, record

from robotgate import Origin, SQLiteStore
from robotgate.cli.cache import host_line, record_line
from robotgate.sites import Outcome, RobotsRecord
from robotgate.sites.status_table import MAX_SKEW
from robotgate.stores import HostState
from robotgate.stores.codec import MAX_LINE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Program

HOST = "a.example"
ORIGIN = Origin("https", HOST, 443)


def load(path: Path) -> tuple[RobotsRecord | None, HostState | None]:
    """What a store knows of the one origin and its host."""

    async def ask() -> tuple[RobotsRecord | None, HostState | None]:
        async with SQLiteStore(path) as store:
            return await store.load_record(ORIGIN), await store.load_host(HOST)

    return asyncio.run(ask())


def write(tmp_path: Path, *lines: bytes | str) -> str:
    """A file of lines."""
    file = tmp_path / "lines.jsonl"
    file.write_bytes(b"".join((line.encode() if isinstance(line, str) else line) + b"\n" for line in lines))
    return str(file)


def test_a_line_that_is_refused_changes_nothing(path: Path, tmp_path: Path) -> None:
    """Its number and the reason are told, safe for a terminal; the other lines are imported; status 1."""
    good, host = record_line(record(f"https://{HOST}")), host_line(HOST, HostState(visits=3))
    # A gate believes no record that is dated further ahead.
    future = time.time() + MAX_SKEW + 60
    source = write(
        tmp_path,
        "nonsense \x1b[2J",
        good.replace('"status": 200', '"status": "\\u001b[2J"'),
        b"\xff",
        "",
        b"x" * (3 * MAX_LINE_BYTES),
        host.replace('"visits": 3', '"visits": NaN'),
        good.replace('"version": 1', '"version": 2'),
        record_line(replace(record("https://b.example"), checked_at=future)),
        host_line("b.example", HostState(last_visit_at=future)),
        good,
        host,
        "{",
    )

    ended = run("cache", "import", source, "--store", str(path))

    assert ended.status == 1
    assert ended.out == ""
    assert ended.err.splitlines() == [
        "line 1: not JSON (Expecting value, column 1)",
        "line 2, 'status': '\\x1b[2J' is no whole number from 0 to 999",
        "line 3: not UTF-8",
        f"line 5: longer than {MAX_LINE_BYTES} bytes",
        "line 6, 'visits': nan is no whole number from 0 to 9223372036854775807",
        "line 7, 'version': not 1, the only one known here",
        "line 8, 'checked_at': in the future: one of two clocks is wrong",
        "line 9, 'last_visit_at': in the future: one of two clocks is wrong",
        "line 12: not JSON (Expecting property name enclosed in double quotes, column 2)",
        "imported 1 robots.txt and the pace of 1 host; 0 known as new or newer, 9 lines refused",
    ]
    row = json.loads(cache(path, "ls", "--json")[1])
    assert (row["name"], row["visits"]) == (f"https://{HOST}", 3)


def test_everything_comes_back(path: Path, tmp_path: Path) -> None:
    """Any record and any state: exported, imported into another store and exported again, it is the same."""
    keep(
        path,
        [
            record(f"https://{HOST}", etag='"\udcff"', redirects=("http://b.example/robots.txt",)),
            record("http://[2001:db8::1]:81", body=b"\xff\x00\xfe" * 1000),
            record(
                "http://c.example", outcome=Outcome.FAILURE, status=None, cause="no\ntime \u202e", body=b""
            ),
        ],
        a_example=HostState(last_visit_at=1.1, next_allowed_at=2.2, visits=2**40, bytes_read=2**60),
        **{"d:\udc80 ü\x00\n": HostState(visits=1)},
    )
    one, other, second = (tmp_path / name for name in ("one.jsonl", "other.jsonl", "second.db"))

    assert cache(path, "export", str(one)) == (0, "")
    told = "imported 3 robots.txt and the pace of 2 hosts; 0 known as new or newer, 0 lines refused\n"
    assert cache(second, "import", str(one)) == (0, told)
    assert cache(second, "export", str(other)) == (0, "")

    assert one.read_bytes() == other.read_bytes()
    assert one.read_text("ascii") == cache(path, "export", "-")[1] == cache(path, "export")[1]
    # It tells which sites were visited.
    assert sys.platform == "win32" or stat.S_IMODE(one.stat().st_mode) == 0o600
    status, out = cache(tmp_path / "third.db", "import", write(tmp_path, *["nonsense"] * 5000))
    assert (status, len(out.splitlines())) == (1, 101)
    assert out.endswith("5,000 lines refused\n")


@pytest.mark.parametrize("is_stored", [True, False])
@pytest.mark.parametrize("is_newer_first", [True, False])
def test_the_newer_record_and_the_longer_wait_count(
    path: Path, tmp_path: Path, *, is_stored: bool, is_newer_first: bool
) -> None:
    """Of what is stored and what is imported, and of two lines of a file; of two states, each later instant."""
    now = float(int(time.time()))
    new = record(f"https://{HOST}")
    records = [new, replace(new, checked_at=new.checked_at - 10, body=b"")]
    states = [
        HostState(last_visit_at=now - 1, next_allowed_at=now + 100, blocked_until_at=now + 5, visits=3),
        HostState(last_visit_at=now - 9, next_allowed_at=now + 10, blocked_until_at=now + 50, visits=8),
    ]
    if not is_newer_first:
        records.reverse()
        states.reverse()
    lines = [
        f"{record_line(one)}\n{host_line(HOST, state)}" for one, state in zip(records, states, strict=True)
    ]
    if is_stored:
        keep(path, records[:1], a_example=states[0])
        del lines[0]

    status, out = cache(path, "import", write(tmp_path, *lines))

    kept, state = load(path)
    assert (status, kept) == (0, new)
    assert out.startswith(f"imported {0 if is_stored and is_newer_first else 1} robots.txt")
    assert state is not None
    assert (state.last_visit_at, state.visits) == (now - 1, 8)
    assert state.next_allowed_at >= now + 100
    assert state.blocked_until_at >= now + 50


def test_after_a_crash_its_hosts_count_as_visited(path: Path, tmp_path: Path) -> None:
    """In an export, and after an import; only those of the process that crashed."""
    crashed_at = crash(path)

    line = host_line("b.example", HostState(last_visit_at=5.0, visits=2))
    assert cache(path, "import", write(tmp_path, line))[0] == 0

    for command, name in (("ls", "name"), ("export", "pace_key")):
        told = cache(path, command, *(["--json"] if command == "ls" else []))[1]
        one, other = map(json.loads, told.splitlines())
        assert (one[name], one["visits"], other[name]) == ("a.example", 7, "b.example")
        assert crashed_at <= one["last_visit_at"] <= time.time()
        assert other["last_visit_at"] == 5.0


def test_an_export_replaces_a_file_only_when_it_is_told_to(path: Path, tmp_path: Path) -> None:
    """Without --force an existing file stays, and the message names the option; so it does if the export fails."""
    keep(path, [record(f"https://{HOST}")])
    (tmp_path / "broken.db").write_bytes(b"no store" * 1000)
    target = tmp_path / "lines.jsonl"
    target.write_text("the last one", encoding="ascii")

    for store, arguments, told in (
        (path, (str(target),), "it exists already; --force replaces it"),
        (tmp_path / "broken.db", ("--force", str(target)), "broken.db"),
        (path, (str(tmp_path / "no" / "lines.jsonl"),), "lines.jsonl: No such file or directory"),
    ):
        status, out = cache(store, "export", *arguments)
        assert (status, told in out) == (2, True)
    assert target.read_text(encoding="ascii") == "the last one"
    assert sorted(each.name for each in tmp_path.glob("*.jsonl*")) == ["lines.jsonl"]

    assert cache(path, "export", "--force", str(target)) == (0, "")
    assert json.loads(target.read_text(encoding="ascii"))["origin"] == f"https://{HOST}"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no FIFOs there, and links need rights")
@pytest.mark.parametrize(
    "make",
    [
        lambda target, _: os.mkfifo(target),
        lambda target, _: target.symlink_to(target.with_name("other")),
        lambda target, _: target.symlink_to(target.with_name("nowhere")),
        lambda target, store: target.symlink_to(store),
        lambda target, store: target.hardlink_to(store),
    ],
    ids=["FIFO", "link", "dangling link", "link to the store", "other name of the store"],
)
def test_an_export_replaces_nothing_but_a_regular_file(
    path: Path, tmp_path: Path, make: Callable[[Path, Path], None]
) -> None:
    """Not a FIFO that a program reads, not a link that others follow, and never the store that it reads."""
    keep(path, [record(f"https://{HOST}")])
    target, other = tmp_path / "target", tmp_path / "other"
    other.write_text("mine", encoding="ascii")
    make(target, path)
    for each in (target, path):
        before = each.lstat()
        for force in ((), ("--force",)):
            status, out = cache(path, "export", *force, str(each))
            assert (status, "cannot write" in out) == (2, True)
            assert (each.lstat().st_mode, each.lstat().st_ino) == (before.st_mode, before.st_ino)
    assert other.read_text(encoding="ascii") == "mine"
    assert load(path)[0] is not None
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
@pytest.mark.parametrize("end", ["-wal", "-shm", "-journal"])
@pytest.mark.parametrize("folder", [".", "link"])
def test_an_export_is_no_file_that_sqlite_keeps_beside_the_store(
    path: Path, tmp_path: Path, end: str, folder: str
) -> None:
    """SQLite removes or overwrites such a file, or takes it for changes of the store."""
    keep(path, [record(f"https://{HOST}")])
    (tmp_path / "link").symlink_to(tmp_path)
    beside = path.with_name(path.name + end)
    for exists in (False, True):
        if exists:
            beside.write_bytes(b"")
        status, out = cache(path, "export", "--force", str(tmp_path / folder / beside.name))
        assert (status, beside.exists()) == (2, exists)
        assert "it belongs to the store" in out
    assert load(path)[0] is not None


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT cannot be sent to another process there")
@pytest.mark.slow
async def test_ctrl_c_while_waiting_for_lines(program: Program, path: Path) -> None:
    """What was imported stays; the status is a shell's 130, and there is no traceback."""
    process = await program.start("cache", "import", "--store", str(path))
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(f"nonsense\n{record_line(record(f'https://{HOST}'))}\n".encode())
    # A wrong line is reported when the lines that came with it have been imported.
    assert (await process.stderr.readline()).startswith(b"line 1: ")

    process.send_signal(signal.SIGINT)
    _, err = await process.communicate()

    assert (process.returncode, err) == (130, b"")
    assert (await asyncio.to_thread(load, path))[0] is not None
