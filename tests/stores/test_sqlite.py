"""The store in a file: what it keeps, and when."""

# ruff: noqa: ASYNC240 - looking at the file may take the test a moment

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import pytest
from tests.stores.files import HOST, NOW, ORIGIN, RECORD, STATE, HandClock, rows
from tests.waiting import until

from robotgate import HostState, OptionError, Origin, SQLiteStore, StoreError, WhenLost
from robotgate._check_store import check_store
from robotgate._ports import Catalogue, Pruned
from robotgate._virtual import VirtualClock, VirtualTimeLoop
from robotgate.stores import _write_behind

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where there is no file yet."""
    return tmp_path / "cache.db"


@pytest.mark.parametrize("when_lost", WhenLost)
async def test_passes_the_suite(tmp_path: Path, when_lost: WhenLost) -> None:
    """Everything a gate asks of a store, it does."""
    numbers = count()
    await check_store(lambda: SQLiteStore(tmp_path / f"{next(numbers)}.db", when_lost=when_lost))


async def test_passes_the_suite_with_one_file(path: Path) -> None:
    """Between two stores nothing is left of the first but what the file has; emptied, that is nothing."""

    async def make_store() -> SQLiteStore:
        store = SQLiteStore(path)
        async for record in store.records():
            assert await store.forget_record(record.origin)
        async for pace_key, _ in store.hosts():
            assert await store.forget_host(pace_key)
        return store

    await check_store(make_store)


@pytest.mark.parametrize(
    "options",
    [
        {"path": ""},
        {"path": ":memory:"},
        {"path": "a\0b"},
        {"path": b"bytes"},
        {"path": "sqlite://cache.db"},
        {"max_bytes": 2**20 - 1},
        {"max_bytes": 1e9},
        {"max_hosts": 0},
        {"max_age": -1},
        {"max_age": float("nan")},
        {"when_lost": "memory"},
    ],
)
def test_refuses_options_that_make_no_sense(options: dict[str, object]) -> None:
    """At once and by name, before any file is touched."""
    (name,) = options
    with pytest.raises(OptionError, match=f"^{name}="):
        SQLiteStore(**{"path": "never.db", **options})  # type: ignore[arg-type]


async def test_nothing_is_touched_before_the_first_use(path: Path) -> None:
    """Making a store, and closing one that nobody used, does nothing to the disk."""
    store = SQLiteStore(path)
    assert store.recall_host(HOST) is None
    await store.aclose()
    assert not path.exists()


async def test_restart_is_exact(path: Path) -> None:
    """After a clean stop the next store knows the same, to the last bit, and nobody is taken to be visited."""
    first = SQLiteStore(path, clock=HandClock())
    await first.save_record(RECORD)
    first.remember_host(HOST, STATE)
    await first.aclose()
    second = SQLiteStore(path, clock=HandClock(NOW + 1e-6))
    assert second.recall_host(HOST) is None
    assert await second.load_host(HOST) == STATE
    assert second.recall_host(HOST) == STATE
    assert await second.load_record(ORIGIN) == RECORD
    assert await second.load_host("unknown.example") is None
    await second.aclose()
    assert rows(path, "SELECT * FROM processes") == []


async def test_state_is_written_behind(path: Path) -> None:
    """`remember_host` waits for nothing, and the file has it half a second later without anybody asking."""
    async with asyncio.timeout(10):
        store = SQLiteStore(path)
        await store.open()
        began_at = asyncio.get_running_loop().time()
        for number in range(1000):
            store.remember_host(f"{number}.example", HostState(visits=number))
        store.remember_host("0.example", HostState(visits=1_000_000))
        await until(lambda: rows(path, "SELECT count(*) FROM hosts") == [(1000,)])
        assert asyncio.get_running_loop().time() - began_at >= _write_behind.FLUSH_DELAY
        # In one transaction, the last state of each.
        assert rows(path, "SELECT visits FROM hosts WHERE pace_key = '0.example'") == [(1_000_000,)]
        await store.aclose()


async def test_block_is_written_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a server asked for is not left to the next batch."""
    monkeypatch.setattr(_write_behind, "FLUSH_DELAY", 3600.0)
    store = SQLiteStore(path)
    await store.open()
    store.remember_host("a.example", HostState(visits=1))
    store.remember_host(HOST, HostState(blocked_until_at=NOW))
    await until(lambda: len(rows(path, "SELECT * FROM hosts")) == 2)
    await store.aclose()


async def test_lifted_block_is_written_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As every change of it."""
    monkeypatch.setattr(_write_behind, "FLUSH_DELAY", 3600.0)
    store = SQLiteStore(path, clock=HandClock())
    store.remember_host(HOST, STATE)
    await store.open()
    await until(lambda: len(rows(path, "SELECT * FROM hosts")) == 1)
    store.remember_host(HOST, replace(STATE, blocked_until_at=0.0))
    await until(lambda: rows(path, "SELECT blocked_until_at FROM hosts") == [(0.0,)])
    await store.aclose()


async def test_record_is_in_the_file_once_saved(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`save_record` returns no sooner, waits for no batch, and takes the hosts along."""
    monkeypatch.setattr(_write_behind, "FLUSH_DELAY", 3600.0)
    store = SQLiteStore(path)
    await store.open()
    store.remember_host(HOST, HostState(visits=1))
    saving = [
        asyncio.create_task(
            store.save_record(replace(RECORD, origin=Origin("http", f"{number}.example", 80)))
        )
        for number in range(50)
    ]
    await asyncio.gather(*saving)
    assert rows(path, "SELECT count(*) FROM records") == [(50,)]
    assert rows(path, "SELECT count(*) FROM hosts") == [(1,)]
    await store.aclose()


async def test_record_that_is_being_saved_is_known(path: Path) -> None:
    """Whoever asks before it is written gets what was saved last, not what the file has."""
    store = SQLiteStore(path)
    await store.save_record(RECORD)
    newer = replace(RECORD, body=b"newer")
    saving = asyncio.create_task(store.save_record(newer))
    await asyncio.sleep(0)
    assert await store.load_record(ORIGIN) == newer
    await saving
    assert await store.load_record(ORIGIN) == newer
    await store.aclose()


async def test_many_questions_travel_together(path: Path) -> None:
    """A thousand hosts asked for in one turn of the loop cost one transaction, not a thousand."""
    store = SQLiteStore(path)
    await store.open()
    asked = []
    read_hosts = store._read_hosts
    store._hosts._ask = lambda keys: (asked.append(len(keys)), read_hosts(keys))[1]  # type: ignore[func-returns-value]
    await asyncio.gather(*(store.load_host(f"{number % 1000}.example") for number in range(2000)))
    assert asked == [1000]
    await store.aclose()


async def test_cancelled_question_harms_nobody(path: Path) -> None:
    """Others who asked for the same host, and the store, go on."""
    first = SQLiteStore(path, clock=HandClock())
    first.remember_host(HOST, STATE)
    await first.aclose()
    store = SQLiteStore(path, clock=HandClock())
    for turns in range(4):
        asking = [asyncio.create_task(store.load_host(HOST)) for _ in range(4)]
        asking += [asyncio.create_task(store.load_host(f"{turns}{n}.example")) for n in range(4)]
        for _ in range(turns):
            await asyncio.sleep(0)
        for task in asking[::2]:
            task.cancel()
        answers = await asyncio.gather(*asking[1::2])
        assert answers == [STATE, STATE, None, None]
        store._behind.memory.forget(HOST)
    saving = asyncio.create_task(store.save_record(RECORD))
    await asyncio.sleep(0)
    saving.cancel()
    await asyncio.wait({saving})
    assert await store.load_record(ORIGIN) == RECORD, "what was begun is done"
    await store.aclose()


async def test_memory_is_bounded(path: Path) -> None:
    """Hosts whose wait is over leave memory once they are written, and are known all the same; others stay."""
    store = SQLiteStore(path, max_hosts=100, clock=HandClock())
    waiting = {f"waiting{number}.example": replace(STATE, visits=number) for number in range(50)}
    for number in range(1000):
        store.remember_host(f"{number}.example", HostState(next_allowed_at=NOW, visits=number))
    for pace_key, state in waiting.items():
        store.remember_host(pace_key, state)
    assert len(store._behind.memory.states) == 1050, "none leaves unwritten"
    await store.save_record(RECORD)
    await until(lambda: len(store._behind.memory.states) <= 100)
    assert {key: store.recall_host(key) for key in waiting} == waiting
    for number in range(1000):
        assert await store.load_host(f"{number}.example") == HostState(next_allowed_at=NOW, visits=number)
    await store.aclose()


async def test_memory_is_bounded_by_reading_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where hosts are only asked for, and none is visited."""
    store = SQLiteStore(path, clock=HandClock())
    for number in range(1000):
        store.remember_host(f"{number}.example", HostState(visits=number))
    await store.aclose()
    monkeypatch.setattr(_write_behind, "LEARNT_AT_A_TIME", 50)
    store = SQLiteStore(path, max_hosts=100, clock=HandClock())
    for number in range(1000):
        assert await store.load_host(f"{number}.example") == HostState(visits=number)
        assert len(store._behind.memory.states) <= 150
    await store.aclose()


async def test_lists_everything_in_order(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Page by page, what is only in memory included, also while hosts are added behind the listing's back."""
    monkeypatch.setattr("robotgate.stores.sqlite.PAGE", 7)
    store = SQLiteStore(path, clock=HandClock())
    assert isinstance(store, Catalogue)
    assert [record async for record in store.records()] == []
    assert [host async for host in store.hosts()] == []
    origins = sorted(
        (
            Origin(scheme, host, port)
            for host in ("a.example", "b.example", "2001:db8::1", "é\udc80")
            for scheme, port in (("http", 80), ("https", 443), ("http", 8080))
        ),
        key=lambda origin: (origin.host, origin.port, origin.scheme),
    )
    records = [replace(RECORD, origin=origin) for origin in origins]
    await asyncio.gather(*(store.save_record(record) for record in reversed(records)))
    listed = [record async for record in store.records()]
    assert sorted(listed, key=lambda record: record.origin.text) == sorted(
        records, key=lambda record: record.origin.text
    )
    for number in range(20):
        store.remember_host(f"{number:02}.example", HostState(visits=number))
    seen = []
    async for pace_key, state in store.hosts():
        assert state.visits == int(pace_key[:2])
        seen.append(pace_key)
        store.remember_host(pace_key, replace(state, failures=1))
    assert seen == [f"{number:02}.example" for number in range(20)]
    await store.aclose()


async def test_forgets_when_told(path: Path) -> None:
    """From memory and from the file, for good; and says whether there was anything."""
    store = SQLiteStore(path, clock=HandClock())
    await store.save_record(RECORD)
    store.remember_host(HOST, STATE)
    assert await store.forget_host(HOST)
    assert not await store.forget_host(HOST)
    assert await store.forget_record(ORIGIN)
    assert not await store.forget_record(ORIGIN)
    assert store.recall_host(HOST) is None
    assert await store.load_host(HOST) is None
    assert await store.load_record(ORIGIN) is None
    await store.aclose()
    assert rows(path, "SELECT * FROM hosts") == []


async def test_use_after_closing_is_refused(path: Path) -> None:
    """With one error, which says what to do; closing twice is closing once."""
    store = SQLiteStore(path)
    store.remember_host(HOST, STATE)
    await store.aclose()
    await store.aclose()
    doors = (
        store.open(),
        store.load_host(HOST),
        store.load_record(ORIGIN),
        store.save_record(RECORD),
        store.prune(now=NOW),
        anext(store.hosts()),
    )
    for door in doors:
        with pytest.raises(StoreError, match=r"cache\.db: the store was closed; open a new one"):
            await door
    with pytest.raises(StoreError, match="the store was closed"):
        store.remember_host(HOST, STATE)
    assert store.recall_host(HOST) == STATE, "what is in memory can be recalled without failing"


async def test_closing_writes_what_is_under_way(path: Path) -> None:
    """Whoever waits for his record when the store closes is told once it is written."""
    store = SQLiteStore(path)
    saving = [asyncio.create_task(store.save_record(RECORD))]
    await asyncio.sleep(0)
    store.remember_host(HOST, HostState(visits=3))
    await asyncio.gather(store.aclose(), store.aclose(), *saving)
    assert rows(path, "SELECT visits FROM hosts") == [(3,)]
    assert rows(path, "SELECT count(*) FROM records") == [(1,)]


async def test_cancelled_closing_closes_all_the_same(path: Path) -> None:
    """It cannot be stopped half-way, and a second call waits for its end."""
    store = SQLiteStore(path)
    await store.open()
    store.remember_host(HOST, STATE)
    closing = asyncio.create_task(store.aclose())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait({closing})
    assert closing.cancelled()
    await store.aclose()
    assert rows(path, "SELECT pace_key FROM hosts") == [(HOST,)]
    assert rows(path, "SELECT * FROM processes") == []


def test_virtual_time(path: Path) -> None:
    """Its clock can be read in its event loop alone, and the database's thread does without."""

    async def wait_for_the_batch() -> None:
        store = SQLiteStore(path, clock=VirtualClock())
        await store.open()
        await asyncio.sleep(1000.0)
        store.remember_host(HOST, HostState(visits=1))
        await asyncio.sleep(1.0)
        await store.open()
        assert rows(store.path, "SELECT visits, saved_at FROM hosts") == [(1, 1000.5)]
        await store.aclose()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(wait_for_the_batch())


def test_one_event_loop_after_another(path: Path) -> None:
    """A store may outlive its event loop, with what was still pending there; two at a time are refused."""
    store = SQLiteStore(path, clock=HandClock())

    async def begin() -> None:
        await store.open()
        store.remember_host(HOST, STATE)
        store._behind.flush()
        store.remember_host("later.example", STATE)

    async def go_on() -> None:
        assert await store.load_host(HOST) == STATE
        # Written by a timer of this loop.
        await until(lambda: rows(path, "SELECT count(*) FROM hosts") == [(2,)])

        def other_loop() -> None:
            with pytest.raises(StoreError, match="another event loop uses this store; open one in each"):
                asyncio.run(store.load_host("any.example"))

        await asyncio.to_thread(other_loop)
        await store.aclose()

    asyncio.run(begin())
    asyncio.run(go_on())
    assert rows(path, "SELECT pace_key FROM hosts ORDER BY 1") == [("later.example",), (HOST,)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
async def test_forked_child_is_told(path: Path) -> None:
    """Its copy of the store has no thread: it gets an error at once, and harms nothing."""
    store = SQLiteStore(path)
    await store.open()
    child = os.fork()
    if not child:
        try:
            store._database.submit(lambda connection: connection.execute("DELETE FROM processes"))
        except StoreError as error:
            os._exit(7 if "forked" in str(error) else 8)
        os._exit(9)
    _, status = await asyncio.to_thread(os.waitpid, child, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    assert len(rows(path, "SELECT * FROM processes")) == 1
    await store.aclose()


async def test_prunes_what_is_too_old(path: Path) -> None:
    """Whatever was written longer ago than `max_age`, but for hosts that must still be left alone."""
    clock = HandClock(NOW)
    store = SQLiteStore(path, max_age=3600.0, clock=clock)
    await store.save_record(RECORD)
    store.remember_host("old.example", HostState(next_allowed_at=NOW + 1))
    store.remember_host("waiting.example", HostState(next_allowed_at=NOW + 10_000))
    store.remember_host("blocked.example", HostState(blocked_until_at=NOW + 10_000))
    await store.aclose()
    clock.at = NOW + 1800
    store = SQLiteStore(path, max_age=3600.0, clock=clock)
    store.remember_host("young.example", HostState(next_allowed_at=NOW + 1))
    assert await store.prune(now=NOW + 3600.0) == Pruned(records=0, hosts=0)
    assert await store.prune(now=NOW + 3601.0) == Pruned(records=1, hosts=1)
    assert [key async for key, _ in store.hosts()] == ["blocked.example", "waiting.example", "young.example"]
    await store.aclose()
