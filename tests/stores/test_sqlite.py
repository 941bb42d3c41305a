"""The store in a file: what it keeps over restarts and crashes, by which clock, and what goes."""

# ruff: noqa: ASYNC240 - looking at the file may take the test a moment

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
from tests.fleet.fleet import PROCESSES
from tests.stores.files import (
    ADDED,
    HOST,
    NOW,
    OLD_STATE,
    ORIGIN,
    RECORD,
    STATE,
    HandClock,
    change,
    locked,
    rows,
)
from tests.waiting import until

from robotgate import MemoryStore, OptionError, Origin, SQLiteStore, StoreError
from robotgate.clock import SystemClock
from robotgate.pace.state import visited
from robotgate.stores import HostState, Pruned, Wanted
from robotgate.stores.sqlite import database, tables
from robotgate.stores.sqlite import store as sqlite_store
from robotgate.testing import VirtualClock, VirtualTimeLoop

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable
    from pathlib import Path

MIB: Final = 2**20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where there is no file yet."""
    return tmp_path / "cache.db"


@pytest.mark.parametrize(
    "options",
    [
        {"path": ""}, {"path": ":memory:"}, {"path": "a\0b"}, {"path": b"bytes"},
        {"path": "sqlite://cache.db"}, {"path": "redis://localhost"}, {"max_bytes": 2**20 - 1},
        {"max_bytes": 1e9}, {"max_age": -1}, {"max_age": float("nan")}, {"when_lost": "memory"},
    ],
)  # fmt: skip
def test_refuses_options_that_make_no_sense(options: dict[str, object]) -> None:
    """At once and by name, before any file is touched."""
    (name,) = options
    with pytest.raises(OptionError, match=f"^{name}="):
        SQLiteStore(**{"path": "never.db", **options})  # type: ignore[arg-type]


async def test_nothing_is_touched_before_the_first_use(path: Path) -> None:
    """Making a store, and closing one that was not used, does nothing to the disk."""
    await SQLiteStore(path).aclose()
    assert not path.exists()


async def test_restart_is_exact(path: Path) -> None:
    """After a clean stop the next store knows the same, to the last bit, and no host is assumed to be visited."""
    async with SQLiteStore(path, clock=HandClock()) as first:
        session = await first.session()
        await session.obtain(HOST)
        await first.save_record(RECORD)
        await first.save_hosts({HOST: STATE})
        await session.aclose()
    async with SQLiteStore(path, clock=HandClock(NOW + 1e-6)) as second:
        assert await second.load_host(HOST) == STATE
        assert await second.load_record(ORIGIN) == RECORD
        assert await second.load_host("unknown.example") is None
    assert rows(path, "SELECT * FROM sessions") == []
    assert rows(path, "SELECT * FROM grants") == []


async def test_file_of_an_older_version(path: Path) -> None:
    """What was added since has its default, and is kept from then on; the older version may still write to the file."""
    async with SQLiteStore(path, clock=HandClock()) as store:
        await store.save_hosts({HOST: STATE})
    for name in ADDED:
        change(path, f"ALTER TABLE hosts DROP COLUMN {name}")
    async with SQLiteStore(path, clock=HandClock()) as store:
        assert await store.load_host(HOST) == OLD_STATE
        await store.save_hosts({HOST: STATE})
        assert await store.load_host(HOST) == STATE
        change(path, "INSERT INTO hosts (pace_key, saved_at, visits) VALUES ('old.example', 0, 42)")
        assert await store.load_host("old.example") == HostState(visits=42)


async def test_record_and_hosts_are_in_the_file_once_saved(path: Path) -> None:
    """Saving returns no sooner."""
    async with SQLiteStore(path) as store:
        records = [replace(RECORD, origin=Origin("http", f"{number}.example", 80)) for number in range(50)]
        await asyncio.gather(*map(store.save_record, records))
        assert rows(path, "SELECT count(*) FROM records") == [(50,)]
        await store.save_hosts({f"{number}.example": STATE for number in range(1000)})
        assert rows(path, "SELECT count(*) FROM hosts") == [(1000,)]


async def test_many_questions_travel_together(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand hosts that are asked for in one turn of the loop cost a few transactions; so do a thousand grants."""
    async with SQLiteStore(path) as store:
        session = await store.session()
        started = []
        perform = store._database._perform

        def counted(
            work: Callable[[sqlite3.Connection], object], begin: str, *, needs_file: bool = False
        ) -> object:
            started.append(begin)
            return perform(work, begin, needs_file=needs_file)

        monkeypatch.setattr(store._database, "_perform", counted)
        await asyncio.gather(*(store.load_host(f"{number % 1000}.example") for number in range(2000)))
        await asyncio.gather(*(session.obtain(f"{number}.example") for number in range(1000)))
        # On a busy machine, signs of life and looks at the line come between.
        assert len(started) <= 20, started


async def test_cancelled_question_harms_nobody(path: Path) -> None:
    """Others who asked for the same host, and the store, go on; an obtained host is not kept by a cancelled task."""
    async with SQLiteStore(path, clock=HandClock()) as store:
        await store.save_hosts({HOST: STATE})
        session, other = await store.session(), await store.session()
        for turns in range(6):
            asking = [asyncio.create_task(store.load_host(HOST)) for _ in range(4)]
            obtaining = asyncio.create_task(session.obtain(HOST))
            for _ in range(turns):
                await asyncio.sleep(0)
            for task in (*asking[::2], obtaining):
                task.cancel()
            assert await asyncio.gather(*asking[1::2]) == [STATE, STATE]
            await asyncio.wait({obtaining})
            async with asyncio.timeout(60):
                await other.obtain(HOST)
            other.leave(HOST, None)


async def test_what_cannot_be_read_is_fetched_again(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A row that makes no sense is as good as none, makes nobody hurry, and is told of."""
    async with SQLiteStore(path, clock=HandClock()) as store:
        await store.save_record(RECORD)
        await store.save_hosts({HOST: STATE})
        for statement in (
            "UPDATE records SET record = zeroblob(20)",
            "UPDATE records SET record = 7",
            "UPDATE records SET saved_at = 'yesterday'",
        ):
            change(path, statement)
            assert await store.load_record(ORIGIN) is None
            assert [found async for found in store.records()] == []
        for statement in (
            "UPDATE hosts SET next_allowed_at = 'never'",
            "UPDATE hosts SET next_allowed_at = 1.0, visits = -1",
            "UPDATE hosts SET visits = 1, last_visit_at = 9e999",
            "UPDATE hosts SET last_visit_at = 1.0, starts = '[1.0'",
            "UPDATE hosts SET starts = zeroblob(20)",
        ):
            change(path, statement)
            assert await store.load_host(HOST) == visited(NOW)
    assert len(caplog.records) == 11


async def test_use_after_closing_is_refused(path: Path) -> None:
    """With one error, which says what to do; closing twice is closing once."""
    store = SQLiteStore(path)
    await store.save_hosts({HOST: STATE})
    await asyncio.gather(store.aclose(), store.aclose())
    await store.aclose()
    for use in (
        store.open(), store.load_host(HOST), store.load_record(ORIGIN), store.save_record(RECORD),
        store.save_hosts({}), store.session(), store.prune(now=NOW), anext(store.hosts()),
    ):  # fmt: skip
        with pytest.raises(StoreError, match=r"cache\.db: the store was closed; open a new one"):
            await use


async def test_closing_with_an_open_session_ends_it(path: Path) -> None:
    """Its tasks are told, its hosts count as visited now, and nothing runs on."""
    store = SQLiteStore(path, clock=HandClock())
    session, other = await store.session(), await store.session()
    await session.obtain(HOST)
    waiter = asyncio.create_task(other.obtain(HOST))
    await asyncio.sleep(0.1)
    await store.aclose()
    with pytest.raises(StoreError, match="the store was closed"):
        await waiter
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert rows(path, "SELECT * FROM sessions") == []
    assert rows(path, "SELECT pace_key, last_visit_at FROM hosts") == [(HOST, NOW)]


async def test_cancelled_closing_closes_all_the_same(path: Path) -> None:
    """It cannot be stopped half-way, and a second call waits for its end."""
    store = SQLiteStore(path)
    await store.open()
    closing = asyncio.create_task(store.aclose())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait({closing})
    assert closing.cancelled()
    await store.aclose()
    assert not path.with_name("cache.db-wal").exists()


def test_virtual_time(path: Path) -> None:
    """Its clock can be read in its event loop alone, and the file's thread does without."""

    async def crawl() -> None:
        async with SQLiteStore(path, clock=VirtualClock()) as store:
            session = await store.session()
            await asyncio.sleep(1000.0)
            grant = await session.obtain(HOST)
            assert grant.lease.is_valid()
            state = HostState(last_visit_at=VirtualClock().now())
            await store.save_hosts({HOST: state})
            assert await store.load_host(HOST) == state
            await session.aclose()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(crawl())


def test_one_event_loop_after_another(path: Path) -> None:
    """A store may outlive its event loop; two at a time are refused."""
    store = SQLiteStore(path, clock=HandClock())

    async def begin() -> None:
        await store.save_hosts({HOST: STATE})

    async def go_on() -> None:
        assert await store.load_host(HOST) == STATE
        with pytest.raises(StoreError, match="another event loop uses this store; open one in each"):
            await asyncio.to_thread(asyncio.run, store.load_host("any.example"))
        await store.aclose()

    asyncio.run(begin())
    asyncio.run(go_on())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
async def test_forked_child_is_told(path: Path) -> None:
    """Its copy of the store has no thread: it gets an error at once, and harms nothing."""
    store = SQLiteStore(path)
    await store.open()
    child = os.fork()
    if not child:
        try:
            store._database.run(lambda connection: connection.execute("DELETE FROM facts"))
        except StoreError as error:
            os._exit(7 if "forked" in str(error) else 8)
        os._exit(9)
    _, status = await asyncio.to_thread(os.waitpid, child, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    await store.aclose()


async def test_store_that_is_open_may_be_used_as_a_block(path: Path) -> None:
    """Opening it twice changes nothing, and neither does closing it in between."""
    store = SQLiteStore(path)
    await store.open()
    async with store as opened:
        assert opened is store
        await store.save_record(RECORD)
        await store.aclose()


async def test_cancellation_while_it_opens_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what cannot be written: a file that another program keeps locked."""
    monkeypatch.setattr(database, "BUSY_TIMEOUT", 0.2)
    async with SQLiteStore(path):
        pass
    with locked(path), pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05), SQLiteStore(path):
            pytest.fail("it was opened")


async def test_a_closed_session_obtains_nothing(path: Path) -> None:
    """A host that is asked for after the end of the session is refused, not waited for; in memory as well."""
    for store in (SQLiteStore(path), MemoryStore()):
        async with store:
            session = await store.session()
            await session.aclose()
            with pytest.raises(StoreError, match="the session was closed"):
                async with asyncio.timeout(60):
                    await session.obtain(HOST)


# Bounds.


async def test_prunes_what_is_too_old(path: Path) -> None:
    """Everything that was written longer ago than `max_age`, but for hosts that must still be left alone."""
    clock = HandClock(NOW)
    async with SQLiteStore(path, max_age=3600.0, clock=clock) as store:
        await store.save_record(RECORD)
        await store.save_hosts(
            {
                "old.example": HostState(next_allowed_at=NOW + 1),
                "waiting.example": HostState(next_allowed_at=NOW + 10_000),
                "spent.example": HostState(budget_ends_at=NOW + 10_000),
                "blocked.example": HostState(blocked_until_at=NOW + 10_000),
            }
        )
        clock.at = NOW + 1800
        await store.save_hosts({"young.example": HostState(next_allowed_at=NOW + 1)})
        assert await store.prune(now=NOW + 3600.0) == Pruned(records=0, hosts=0)
        assert await store.prune(now=NOW + 3601.0) == Pruned(records=1, hosts=1)
        left = [key async for key, _ in store.hosts()]
    assert left == ["blocked.example", "spent.example", "waiting.example", "young.example"]


async def test_keeps_its_bound_by_itself(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a session is open, in small steps: the oldest go, the file gets smaller, and hosts that must wait stay."""
    monkeypatch.setattr(sqlite_store, "UPKEEP_INTERVAL", 0.01)
    monkeypatch.setattr(sqlite_store, "STEP_PAUSE", 0.0)
    clock = HandClock()
    async with SQLiteStore(path, max_bytes=MIB, clock=clock) as store:
        for number in range(1000):
            if number % 100 == 0:
                clock.at += 3600
            origin = Origin("http", f"{number:05}.example", 80)
            await store.save_record(replace(RECORD, origin=origin, body=os.urandom(1500)))
            until_at = clock.at + (1e9 if number % 100 == 7 else 1)
            await store.save_hosts({f"{number:05}.example": HostState(next_allowed_at=until_at)})
        await store.session()
        # Given back to the system, once the log is written back.
        await until(lambda: rows(path, "PRAGMA page_count") <= [(MIB // 4096,)])
    assert MIB * sqlite_store.ROOM / 2 <= path.stat().st_size <= MIB, "no more goes than has to"
    (kept,) = rows(path, "SELECT min(host), max(host), count(*) FROM records")
    assert kept[1:] == ("00999.example", 1000 - int(str(kept[0])[:5])), "the newest, all of them"
    assert rows(path, f"SELECT count(*) FROM hosts WHERE next_allowed_at > {NOW + 1e8}") == [(10,)]


@pytest.mark.slow
async def test_what_must_stay_is_not_tried_for_ever(path: Path) -> None:
    """A file full of hosts that must wait stays larger than it should, and pruning it ends."""
    async with SQLiteStore(path, max_bytes=MIB, clock=HandClock()) as store:
        names = (f"{number:05}.a-rather-long-name.example" for number in range(20_000))
        await store.save_hosts(dict.fromkeys(names, HostState(blocked_until_at=NOW + 1e6)))
        assert await store.prune(now=NOW) == Pruned(records=0, hosts=0)
        pruned = await store.prune(now=NOW + 1e6)
        assert pruned.hosts > 0
    assert path.stat().st_size <= MIB


async def test_a_host_takes_little_room(path: Path) -> None:
    """A hundred bytes on disk, name and all."""
    states = {
        f"www.site-{number:06}.example": HostState(
            last_visit_at=NOW + number / 7,
            next_allowed_at=NOW + 1 + number / 7,
            visits=number,
            bytes_read=number * 30_000,
            latency=1 / (number + 3),
        )
        for number in range(5_000)
    }
    async with SQLiteStore(path, clock=HandClock()) as store:
        await store.save_hosts(states)
    assert path.stat().st_size / 5_000 < 110


# Clocks.


def clock_ahead(seconds: float) -> SystemClock:
    """That of a process that started when the machine's clock was off by so much, or had slept since."""
    clock = SystemClock()
    clock.epoch += seconds
    return clock


@pytest.mark.parametrize("seconds", [-3600.0, 0.3])
async def test_clocks_that_differ_shorten_no_wait(path: Path, seconds: float) -> None:
    """The machine's clock was set between the starts of two processes: each is told instants on its own clock."""
    here, there = SystemClock(), clock_ahead(seconds)
    async with SQLiteStore(path, clock=here) as one, SQLiteStore(path, clock=there) as two:
        sessions = await one.session(), await two.session()
        await sessions[0].obtain(HOST)
        waiter = asyncio.create_task(sessions[1].obtain(HOST))
        assert await sessions[0].news() == [Wanted(frozenset({HOST}))]
        now = here.now()
        left = HostState(
            last_visit_at=now, next_allowed_at=now + 5.0, blocked_at=now, blocked_until_at=now + 60.0
        )
        sessions[0].leave(HOST, left)
        state = (await waiter).state
        assert state is not None
        assert state.last_visit_at == pytest.approx(now + seconds, rel=0, abs=2e-6)
        assert state.next_allowed_at == pytest.approx(now + seconds + 5.0, rel=0, abs=2e-6)
        assert state.blocked_until_at == pytest.approx(now + seconds + 60.0, rel=0, abs=2e-6)
        assert [key async for key, _ in two.hosts()] == [HOST]


async def test_clock_that_raises_is_no_fault_of_the_file(path: Path) -> None:
    """An operator's clock may fail: its own error reaches the caller."""

    class BrokenClock:
        def now(self) -> float:
            raise RuntimeError("the battery is empty")

    with pytest.raises(RuntimeError, match="the battery is empty"):
        await SQLiteStore(path, clock=BrokenClock()).open()


async def test_clock_set_back_between_runs_makes_no_wait_longer(path: Path) -> None:
    """A wait that was saved in the future is left as long as it was; a record is no fresher than it was."""
    async with SQLiteStore(path, clock=HandClock(NOW)) as store:
        await store.save_hosts({HOST: STATE})
        await store.save_record(RECORD)
    async with SQLiteStore(path, clock=HandClock(NOW - 1e6)) as store:
        state = await store.load_host(HOST)
        assert state is not None
        assert state.blocked_until_at == pytest.approx(STATE.blocked_until_at - 1e6)
        record = await store.load_record(ORIGIN)
        assert record is not None
        assert record.fresh_until_at == pytest.approx(RECORD.fresh_until_at - 1e6)


# Crashes.

PROGRAM: Final = """
import asyncio, os
from robotgate import SQLiteStore
from robotgate.stores import HostState

async def main():
    store = SQLiteStore({path!r})
    session = await store.session()
    await session.obtain("held.example")
    await store.save_hosts({{"held.example": HostState(last_visit_at=5.0, blocked_until_at=6.0, visits=1)}})
    await session.obtain("robots|http://held.example:80")
    {then}
    os._exit(3)

asyncio.run(main())
"""


def crash(path: Path, then: str = "pass") -> None:
    """A process that is granted a host, and ends without a farewell."""
    process = PROCESSES.Process(target=exec, args=(PROGRAM.format(path=str(path), then=then), {}))
    process.start()
    process.join(30)
    assert process.exitcode in {3, -9}


@pytest.mark.parametrize(
    "then",
    [
        "os.kill(os.getpid(), 9)",
        "session.leave('held.example', None); await asyncio.sleep(0); os.kill(os.getpid(), 9)",
        "await store._do(lambda file: os.kill(os.getpid(), 9))",
        "await store._do(lambda file: [file.connection.execute('DELETE FROM hosts'), os.kill(os.getpid(), 9)])",
    ],
)
async def test_killed_process_leaves_its_hosts_visited_now(path: Path, then: str) -> None:
    """At whatever moment: what was written is there, its hosts are granted at once, and others are as they were."""
    async with SQLiteStore(path) as store:
        await store.save_hosts({HOST: HostState(visits=7)})
    await asyncio.to_thread(crash, path, then)
    before = time.time()
    async with SQLiteStore(path) as store:
        session = await store.session()
        async with asyncio.timeout(60):
            grant = await session.obtain("held.example")
            await session.obtain("robots|http://held.example:80")
        assert grant.state is not None
        assert (grant.state.blocked_until_at, grant.state.visits) == (6.0, 1)
        if "leave" not in then:
            assert (grant.state.last_visit_at or 0.0) >= before - 1.0
            assert grant.state.starts == visited(grant.state.last_visit_at or 0.0).starts
        assert await store.load_host(HOST) == HostState(visits=7)
        assert await store.load_host("unknown.example") is None
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]
    assert rows(path, "SELECT pace_key FROM hosts WHERE pace_key GLOB 'robots|*'") == []


async def test_killed_machine_binds_all_hosts(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a crash of the machine the last that was written may be lost: every host, known or not, counts as visited
    when the file is opened, for all who come after.
    """
    await asyncio.to_thread(crash, path)
    monkeypatch.setattr(tables, "_boot_id", lambda: "another start")
    before = time.time()
    async with SQLiteStore(path) as store:
        assumed = await store.load_host("unknown.example")
        assert assumed is not None
        assert assumed == visited(assumed.last_visit_at or 0.0)
        assert before - 1.0 <= (assumed.last_visit_at or 0.0) <= time.time()
        session = await store.session()
        held = await session.obtain("held.example")
        assert held.state is not None
        assert held.state.last_visit_at == pytest.approx(assumed.last_visit_at, abs=0.1)
        assert await store.host("unknown.example") is None, "what is merely assumed is not listed"
    async with SQLiteStore(path) as again:
        assert await again.load_host("unknown.example") == assumed


async def test_restart_of_the_machine_after_a_clean_stop_binds_nobody(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that was known is on the disk."""
    async with SQLiteStore(path) as store:
        session = await store.session()
        await session.obtain(HOST)
        await session.aclose()
    monkeypatch.setattr(tables, "_boot_id", lambda: "another start")
    async with SQLiteStore(path) as store:
        assert await store.load_host("unknown.example") is None


async def test_log_of_a_file_that_was_deleted_is_not_read(path: Path) -> None:
    """A file that is deleted after a crash, but not its log, begins anew all the same."""
    await asyncio.to_thread(crash, path)
    assert path.with_name("cache.db-wal").exists()
    path.unlink()
    async with SQLiteStore(path) as store:
        assert await store.load_host("held.example") is None
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]


async def test_records_of_another_kind_are_left_out(path: Path) -> None:
    """Older versions kept the tdmrep.json of an origin beside its robots.txt."""
    async with SQLiteStore(path) as store:
        await store.save_record(RECORD)
    change(path, "INSERT INTO records SELECT 2, host, port, 'tdmrep+https', saved_at, record FROM records")
    async with SQLiteStore(path) as store:
        assert [record async for record in store.records()] == [RECORD]
        assert await store.origins_of(HOST) == [ORIGIN]
        await store.prune(now=NOW)
