"""Processes that end without closing the store: what they knew is there, and what may be missing shortens no delay."""

# ruff: noqa: ASYNC240 - looking at the file may take the test a moment

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
from tests.stores.files import HOST, NOW, ORIGIN, RECORD, STATE, WHILE, HandClock, is_visited_soon_after, rows

from robotgate import HostState, SQLiteStore
from robotgate._spacing import Spacing

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM: Final = """
    import asyncio, os, sys
    from robotgate import HostState, Origin, Outcome, RobotsRecord, SQLiteStore

    async def main():
        store = SQLiteStore(sys.argv[1])
        await store.open()
        store.remember_host("known.example", HostState(last_visit_at=5.0, next_allowed_at=6.0, visits=1))
        {then}

    {start}
"""


def run(
    path: Path, then: str, *, start: str = "asyncio.run(main())", program: str = PROGRAM
) -> subprocess.CompletedProcess[str]:
    """A process that does this once it has remembered one host."""
    source = textwrap.dedent(program).format(then=then, start=start)
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", source, str(path)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where there is no file yet."""
    return tmp_path / "cache.db"


async def everything_is_assumed_visited(path: Path) -> None:
    """Every host, known or not, from now on and for all who come after."""
    store = SQLiteStore(path, clock=HandClock(NOW))
    await store.open()
    assumed = store.recall_host("unknown.example")
    assert is_visited_soon_after(NOW, assumed)
    assert await store.load_host("unknown.example") == assumed
    known = await store.load_host("known.example")
    assert known is not None
    assert assumed is not None
    assert known.last_visit_at == assumed.last_visit_at
    await store.aclose()
    # A short life between does not serve a long delay.
    again = SQLiteStore(path, clock=HandClock(NOW + WHILE))
    assert await again.load_host("unknown.example") == assumed
    await again.aclose()


async def test_exit_in_the_middle(path: Path) -> None:
    """Without any farewell; what was not yet written is lost, and counts as a visit."""
    assert run(path, "os._exit(3)").returncode == 3
    await everything_is_assumed_visited(path)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
@pytest.mark.parametrize(
    "then",
    [
        "os.kill(os.getpid(), 9)",
        "store._behind.flush(); os.kill(os.getpid(), 9)",
        "store._behind.flush(); await asyncio.sleep(0.001); os.kill(os.getpid(), 9)",
        "await store._database.run(lambda connection: os.kill(os.getpid(), 9))",
        "await store._database.run(lambda c: [c.execute('DELETE FROM hosts'), os.kill(os.getpid(), 9)])",
    ],
)
async def test_killed(path: Path, then: str) -> None:
    """At whatever moment: the file opens, what was written is there, and what is missing counts as a visit."""
    first = SQLiteStore(path, clock=HandClock())
    await first.save_record(RECORD)
    first.remember_host(HOST, STATE)
    await first.aclose()
    assert run(path, then).returncode == -signal.SIGKILL
    store = SQLiteStore(path, clock=HandClock(NOW + 7))
    assert await store.load_record(ORIGIN) == RECORD
    known = await store.load_host(HOST)
    assert known is not None
    assert replace(known, last_visit_at=STATE.last_visit_at) == STATE, "block, failures and counts are there"
    assert known.last_visit_at is not None
    assert known.last_visit_at >= NOW
    await store.aclose()
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]


async def test_delay_is_served_after_a_crash(path: Path) -> None:
    """Seen as a lane sees it: a host of which nothing is known is due its own delay after the crash was found."""
    assert run(path, "os._exit(3)").returncode == 3
    store = SQLiteStore(path, clock=HandClock(NOW))
    state = await store.load_host("unknown.example")
    assert state is not None
    assert state.last_visit_at is not None
    assert Spacing(floor=60.0).due_at(since=state.last_visit_at, at=NOW + 1) >= NOW + 60
    await store.aclose()


async def test_clock_set_back_after_a_crash(path: Path) -> None:
    """The visit that is assumed does not move into the future with it."""
    assert run(path, "os._exit(3)").returncode == 3
    after = SQLiteStore(path, clock=HandClock(NOW + 1))
    assert is_visited_soon_after(NOW + 1, await after.load_host("unknown.example"))
    await after.aclose()
    back = SQLiteStore(path, clock=HandClock(NOW - 1000))
    assert is_visited_soon_after(NOW - 1000, await back.load_host("unknown.example"))
    await back.aclose()


async def test_block_set_back_is_served_once(path: Path) -> None:
    """A wait that was saved in the future is left as long as it was, and does not begin anew with every start."""
    first = SQLiteStore(path, clock=HandClock(NOW))
    first.remember_host(HOST, STATE)
    await first.aclose()
    left = STATE.blocked_until_at - NOW
    for later in (0.0, 100.0, 200.0):
        store = SQLiteStore(path, clock=HandClock(NOW - 1e6 + later))
        state = await store.load_host(HOST)
        assert state is not None
        assert state.blocked_until_at == pytest.approx(NOW - 1e6 + left, rel=0, abs=WHILE)
        await store.aclose()


@pytest.mark.parametrize(
    ("then", "start"),
    [
        ("pass", "asyncio.run(main())"),
        ("sys.exit(0)", "asyncio.run(main())"),
        ("store._behind.flush()", "asyncio.run(main())"),
        ("pass", "asyncio.new_event_loop().run_until_complete(main())"),
    ],
)
async def test_forgotten_closing(path: Path, then: str, start: str) -> None:
    """The interpreter ends without waiting for anybody, but writes first: that is as good as a clean stop."""
    ran = run(path, then, start=start)
    if "new_event_loop" not in start:
        assert ran.stderr == ""
    assert ran.returncode == 0
    store = SQLiteStore(path)
    assert await store.load_host("known.example") == HostState(
        last_visit_at=5.0, next_allowed_at=6.0, visits=1
    )
    assert await store.load_host("unknown.example") is None
    await store.aclose()


async def test_log_of_a_file_that_was_deleted_is_not_read(path: Path) -> None:
    """Who deletes the file after a crash, but not its log, begins anew all the same."""
    assert run(path, "await store._database.run(lambda c: None); os._exit(3)").returncode == 3
    assert path.with_name("cache.db-wal").exists()
    path.unlink()
    store = SQLiteStore(path)
    assert await store.load_host("known.example") is None
    await store.aclose()
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]


class LoopClock:
    """Counts as its event loop does, and tells nothing where none runs."""

    def now(self) -> float:
        """Seconds since the epoch, or rather since the loop's."""
        return NOW + asyncio.get_running_loop().time()


class BrokenClock:
    """Tells nothing."""

    def now(self) -> float:
        """Raise what is no fault of the file."""
        raise RuntimeError("the battery is empty")


def test_crash_is_dated_by_a_clock_that_needs_its_loop(path: Path) -> None:
    """The store may be made where no loop runs, and its file is opened on a thread where none ever does."""
    assert run(path, "os._exit(3)").returncode == 3
    store = SQLiteStore(path, clock=LoopClock())

    async def assumed() -> tuple[float, HostState | None, float]:
        before = LoopClock().now()
        await store.open()
        state = store.recall_host("unknown.example")
        after = LoopClock().now()
        await store.aclose()
        return before, state, after

    before, state, after = asyncio.run(assumed())
    assert state is not None
    assert state.last_visit_at is not None
    assert before <= state.last_visit_at <= after
    ((written,),) = rows(path, "SELECT value FROM facts WHERE name = 'assumed_visit_at'")
    assert written == state.last_visit_at


def test_ends_in_order_by_a_clock_that_needs_its_loop(path: Path) -> None:
    """At exit no loop runs any more; what is pending is written all the same."""
    program = PROGRAM.replace(
        "store = SQLiteStore(sys.argv[1])",
        "Clock = type('Clock', (), {{'now': lambda self: 1.8e9 + asyncio.get_running_loop().time()}})\n"
        "        store = SQLiteStore(sys.argv[1], clock=Clock())",
    )
    assert program != PROGRAM
    ran = run(path, "pass", program=program)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert rows(path, "SELECT pace_key FROM hosts") == [("known.example",)]
    assert rows(path, "SELECT id FROM processes") == []


async def test_error_of_the_clock_is_its_own(path: Path) -> None:
    """It is no clock that stands still."""
    with pytest.raises(RuntimeError, match="the battery is empty"):
        await SQLiteStore(path, clock=BrokenClock()).open()
