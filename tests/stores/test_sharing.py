"""Two stores on one file, as two processes would have them: what one does, the other knows."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import threading
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Final

import pytest
from tests.clocks import InterruptedClock
from tests.waiting import until

from robotgate import (
    HostState,
    Origin,
    RobotGate,
    SQLiteStore,
    StoreError,
    SystemClock,
    TooSoonError,
    WhenLost,
)
from robotgate._ports import SharedStore
from robotgate.stores import _database, _file_clock, _processes, _sharing, _write_behind
from robotgate.stores._upkeep import HEARTBEAT
from robotgate.testing import check_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from robotgate import RobotsRecord

HOST: Final = "a.example"
ORIGIN: Final = Origin("http", HOST, 80)
DELAY: Final = 100.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where there is no file yet."""
    return tmp_path / "cache.db"


@asynccontextmanager
async def two(path: Path) -> AsyncIterator[tuple[SQLiteStore, SQLiteStore]]:
    """Two that know of each other."""
    async with SQLiteStore(path) as one, SQLiteStore(path) as other:
        await until(lambda: one.is_shared and other.is_shared)
        yield one, other


def now() -> float:
    """What a gate's clock says."""
    return SystemClock().now()


async def ask(
    store: SQLiteStore, *, slots: int = 1, delay: float = DELAY, at: float | None = None
) -> HostState | None:
    """Reserve a turn, as a lane does."""
    at = now() if at is None else at
    known = store.recall_host(HOST) or HostState()
    state = replace(known, last_visit_at=at, next_allowed_at=at + delay, visits=known.visits + 1)
    later = await store.reserve(HOST, state=state, now=at, slots=slots, delay=delay)
    return None if later is None else replace(later.state, next_allowed_at=later.again_at)


def begin(store: SQLiteStore, *, delay: float = DELAY, ahead: float = 0.0) -> HostState:
    """Send what was reserved, by a clock that is so far ahead."""
    at = now() + ahead
    state = replace(store.recall_host(HOST) or HostState(), last_visit_at=at, next_allowed_at=at + delay)
    store.begin_visit(HOST, state)
    return state


def end(store: SQLiteStore, *, delay: float = DELAY, bytes_read: int = 0) -> HostState:
    """End it."""
    at, known = now(), store.recall_host(HOST) or HostState()
    state = replace(
        known, last_visit_at=at, next_allowed_at=at + delay, bytes_read=known.bytes_read + bytes_read
    )
    store.end_visit(HOST, state)
    return state


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    """What is in the file."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


async def test_alone_nothing_is_shared(path: Path) -> None:
    """One process asks nobody, from its first visit on."""
    async with SQLiteStore(path) as store:
        assert isinstance(store, SharedStore)
        assert not store.is_shared


async def test_company_comes_and_goes(path: Path) -> None:
    """Both share while both are there; whoever is left is alone again, and knows what the other did."""
    async with SQLiteStore(path) as one:
        one.remember_host(HOST, HostState(visits=3))
        async with SQLiteStore(path) as other:
            assert other.is_shared
            await until(lambda: one.is_shared)
            assert await ask(other) is None
            begin(other)
            ended = end(other, bytes_read=5)
        await until(lambda: not one.is_shared)
        assert one.recall_host(HOST) == replace(ended, visits=4, bytes_read=5)
        assert rows(path, "SELECT * FROM open_turns") == []
        assert rows(path, "SELECT * FROM acquaintances") == []


async def test_first_turn_waits_until_the_others_have_told_what_they_know(path: Path) -> None:
    """What one had under way, and had not yet written, before anybody else came."""
    async with SQLiteStore(path) as one:
        began = replace(HostState(), last_visit_at=now(), next_allowed_at=now() + DELAY, visits=1)
        one.begin_visit(HOST, began)
        async with SQLiteStore(path) as other:
            asked_at = monotonic()
            known = await ask(other)
            assert monotonic() - asked_at < 2.5
            assert known is not None
            assert known.visits == 1
            assert known.next_allowed_at >= began.next_allowed_at
            end(one)


async def test_one_slot_is_one_between_them(path: Path) -> None:
    """The other is told that it could end now; once it has, from when on."""
    async with two(path) as (one, other):
        assert await ask(one) is None
        begin(one)
        at = now() + 1000
        known = await ask(other, at=at)
        assert known is not None
        assert known.next_allowed_at == pytest.approx(at + DELAY, abs=0.5)
        ended = end(one)
        known = await until_known(other, ended)
        assert known.next_allowed_at == ended.next_allowed_at
        assert await ask(other, at=now() + DELAY + 1) is None


async def until_known(store: SQLiteStore, ended: HostState) -> HostState:
    """What a store says of a host once it has heard of an end."""
    async with asyncio.timeout(10):
        while True:
            known = await ask(store)
            assert known is not None
            if known.last_visit_at == ended.last_visit_at:
                return known
            await asyncio.sleep(0.001)


async def test_slots_are_counted_over_all(path: Path) -> None:
    """Without a delay only the slots bound; one that is given back is to be had."""
    async with two(path) as (one, other):
        for store in (one, other, one):
            assert await ask(store, slots=3, delay=0.0) is None
            begin(store, delay=0.0)
        asked_at = now()
        known = await ask(other, slots=3, delay=0.0, at=asked_at)
        assert known is not None
        assert asked_at < known.next_allowed_at <= asked_at + 1.0
        end(one, delay=0.0)
        await until_asked(other)
        assert rows(path, "SELECT count(*) FROM open_turns") == [(3,)]


async def until_asked(store: SQLiteStore) -> None:
    """Have a slot, as soon as there is one."""
    async with asyncio.timeout(10):
        while (known := await ask(store, slots=3, delay=0.0)) is not None:  # noqa: ASYNC110 - of another process
            await asyncio.sleep(known.next_allowed_at - now())


async def test_reserved_and_not_yet_sent_counts_as_sent_now(path: Path) -> None:
    """With slots to spare the delay counts from the send, which the other has not heard of yet."""
    async with two(path) as (one, other):
        assert await ask(one, slots=5) is None
        at = now() + 1000
        known = await ask(other, slots=5, at=at)
        assert known is not None
        assert known.next_allowed_at == pytest.approx(at + DELAY, abs=0.5)
        begin(one)
        await until_begun(path)
        assert await ask(other, slots=5, at=at) is None


async def until_begun(path: Path) -> None:
    """Wait until the file has heard of a send."""
    await until(lambda: rows(path, "SELECT began_at FROM open_turns") != [(None,)])


async def test_block_is_written_at_once(path: Path) -> None:
    """The other is told at its next question."""
    async with two(path) as (one, other):
        until_at = now() + 500
        one.remember_host(HOST, HostState(blocked_until_at=until_at, failures=1))
        known = None
        async with asyncio.timeout(10):
            while known is None or not known.failures:
                known = await ask(other, delay=0.0)
                if known is None:
                    begin(other, delay=0.0)
                    end(other, delay=0.0)
        # Each has a clock of its own, set by the machine's when it was opened, which may be put right in between.
        assert known.blocked_until_at == pytest.approx(until_at, abs=1.0)


async def test_what_waited_to_be_written_undoes_nothing_of_who_came_and_went(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block that somebody was told of who was there for less than half a second stands, in the file and for us."""
    monkeypatch.setattr(_write_behind, "FLUSH_DELAY", 60.0)
    async with SQLiteStore(path) as one:
        await until(lambda: not one.is_shared)
        one.remember_host(HOST, HostState(last_visit_at=now(), visits=1))
        async with SQLiteStore(path) as other:
            assert await ask(other, delay=0.0) is None
            known = other.recall_host(HOST) or HostState()
            at = now()
            other.remember_host(HOST, replace(known, blocked_at=at, blocked_until_at=at + 500.0))
        one._behind.flush()
        await until(lambda: not one.is_shared)
        heard = one.recall_host(HOST)
    assert heard is not None
    assert heard.blocked_until_at > now() + 400.0
    async with SQLiteStore(path) as later:
        written = await later.load_host(HOST)
        assert written is not None
        assert written.blocked_until_at == pytest.approx(heard.blocked_until_at, abs=1.0)


async def test_counts_of_both_add_up(path: Path) -> None:
    """Visits and bytes, whoever made them."""
    async with two(path) as (one, other):
        for store in (one, other, one, other, other):
            assert await ask(store, slots=9, delay=0.0) is None
            begin(store, delay=0.0)
        for store in (one, other, one, other, other):
            end(store, delay=0.0, bytes_read=10)
    async with SQLiteStore(path) as after:
        state = await after.load_host(HOST)
        assert state is not None
        assert (state.visits, state.bytes_read) == (5, 50)


@pytest.mark.parametrize("turns", range(4))
async def test_cancelled_question_leaves_nothing_taken(path: Path, turns: int) -> None:
    """At whatever moment, from before it is sent to after it was answered: no slot, and no visit."""
    async with two(path) as (one, other):
        assert await ask(other, slots=2) is None
        end_unused(other)
        await until(lambda: one._sharing._is_settled and not is_busy(one) and not is_busy(other))
        asking = asyncio.create_task(ask(one, at=now() + DELAY + 1))
        await asyncio.sleep(0)
        assert one._sharing._questions, "it has asked, and nothing was sent"
        for _ in range(turns):
            await asyncio.sleep(0.0003 * turns)
        asking.cancel()
        await asyncio.wait({asking})
        if not asking.cancelled():
            assert asking.result() is None
            end_unused(one)
        await until(lambda: not is_busy(one))
        assert rows(path, "SELECT * FROM open_turns") == []
        assert await ask(other, at=now() + 2 * (DELAY + 1)) is None
        state = other.recall_host(HOST)
        assert state is not None
        assert state.visits == 1


def is_busy(store: SQLiteStore) -> bool:
    """Whether it has anything to say to the file, or to hear from it."""
    sharing = store._sharing
    return bool(sharing._under_way or sharing._questions or sharing._ledger.news)


def end_unused(store: SQLiteStore) -> None:
    """Give back what was reserved and is not sent, as a lane does."""
    known = store.recall_host(HOST)
    assert known is not None
    store.end_visit(HOST, replace(known, visits=known.visits - 1))


async def test_what_was_reserved_and_is_not_sent_is_no_visit(path: Path) -> None:
    """Its slot is free again; the delay behind it stays."""
    async with two(path) as (one, other):
        assert await ask(one) is None
        end_unused(one)
        await until(lambda: not rows(path, "SELECT * FROM open_turns"))
        known = await ask(other)
        assert known is not None
        assert (known.visits, known.next_allowed_at > now()) == (0, True)


async def test_lease_is_one_for_both(path: Path) -> None:
    """Whoever waits has it once it is given back; other origins are nobody's business."""
    async with two(path) as (one, other):
        async with one.lease(ORIGIN):
            waiting = asyncio.create_task(take(other))
            await take(other, Origin("http", "b.example", 80))
            await asyncio.sleep(0.2)
            assert not waiting.done()
        async with asyncio.timeout(10):
            await waiting
        await until(lambda: not rows(path, "SELECT * FROM leases"))


async def take(store: SQLiteStore, origin: Origin = ORIGIN) -> None:
    """Have the lease for a moment."""
    async with store.lease(origin):
        pass


async def test_lease_that_was_taken_alone_binds_who_comes(path: Path) -> None:
    """It is told of with all else that only one knew."""
    async with SQLiteStore(path) as one:
        async with one.lease(ORIGIN), SQLiteStore(path) as other:
            waiting = asyncio.create_task(take(other))
            await until(lambda: one.is_shared)
            await asyncio.sleep(0.2)
            assert not waiting.done()
            waiting.cancel()
            await asyncio.wait({waiting})
        assert waiting.cancelled()


async def test_gone_process_leaves_its_turns_as_visits_and_its_leases_to_others(path: Path) -> None:
    """Found dead: what it had under way has ended by then, and the delay is left from there."""
    async with SQLiteStore(path) as one:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(
                "INSERT INTO processes SELECT 'gone', pid, ?, place FROM processes",
                (monotonic() - _processes.PATIENCE + 3.0,),
            )
            connection.execute(
                "INSERT INTO acquaintances SELECT 'gone', id FROM processes WHERE id <> 'gone'"
            )
            connection.execute("INSERT INTO open_turns VALUES ('gone', 1, ?, 1, 1, 50)", (HOST,))
            connection.execute("INSERT INTO leases VALUES (?, 'gone')", (ORIGIN.text,))
        await until(lambda: one.is_shared)
        asked_at = now()
        async with asyncio.timeout(10):
            await take(one)
        known = await ask(one, delay=1.0)
        assert known is not None
        assert known.last_visit_at is not None
        assert asked_at < known.last_visit_at <= now()
        assert known.next_allowed_at == pytest.approx(known.last_visit_at + 50)
        assert rows(path, "SELECT count(*) FROM processes") == [(1,)]


def enter(path: Path, *, left: float) -> None:
    """Enter a process that has told us nothing, and will be taken for gone in so many seconds."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "INSERT INTO processes (id, pid, beat_at, place) VALUES ('gone', 1, ?, '')",
            (monotonic() - _processes.PATIENCE + left,),
        )


async def test_hosts_in_memory_count_as_visited_when_another_is_found_dead(path: Path) -> None:
    """What the dead had not told of may have been at any host, also at those that we know."""
    async with SQLiteStore(path) as one:
        state = HostState(last_visit_at=now(), next_allowed_at=now(), visits=3)
        one.remember_host(HOST, state)
        enter(path, left=1.5)
        await until(lambda: one.is_shared)
        died_at = now()
        await until(lambda: not one.is_shared)
        known = one.recall_host(HOST)
        assert known is not None
        assert known.last_visit_at is not None
        assert known.last_visit_at > died_at
        assert known.visits == 3


def make_gate(store: SQLiteStore) -> RobotGate:
    """A gate that leaves a second between visits."""
    return RobotGate("examplebot/1.0", contact="https://example.org/bot", store=store, delay=1.0)


async def test_lane_that_is_open_leaves_a_delay_when_another_is_found_dead(path: Path) -> None:
    """The quickest way to a turn asks nobody, and knows it all the same."""
    async with SQLiteStore(path) as store, make_gate(store) as gate:
        page = f"http://{HOST}/"
        gate.learn(page, b"User-agent: *\nDisallow:\n")
        async with gate.turn(page):
            pass
        enter(path, left=1.5)
        await until(lambda: store.is_shared)
        await until(lambda: not store.is_shared)
        with pytest.raises(TooSoonError):
            async with gate.turn(page, max_wait=0.0):
                pass


async def test_struck_out_by_mistake_comes_back(path: Path) -> None:
    """Whoever was taken for gone writes down again what it has under way, before it goes on."""
    async with two(path) as (one, other):
        assert await ask(one) is None
        begin(one)
        await until_begun(path)
        name = one._upkeep.presence.id
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("DELETE FROM processes WHERE id = ?", (name,))
            connection.execute("DELETE FROM acquaintances")
            connection.execute("DELETE FROM open_turns")
        assert await ask(one, slots=2, delay=0.0, at=now() + DELAY + 1) is None
        assert rows(path, "SELECT count(*) FROM open_turns") == [(2,)]
        assert await ask(other, slots=2, at=now() + 9 * DELAY) is not None


async def test_who_was_away_for_long_asks_first(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that gave no sign of life may have been taken for gone: until it has, it asks."""
    monkeypatch.setattr(_sharing, "STALE", 2 * HEARTBEAT)
    may_go_on = threading.Event()
    async with SQLiteStore(path) as store:
        beat_at = store._upkeep.presence.beat_at
        await until(lambda: store._upkeep.presence.beat_at > beat_at)
        assert not store.is_shared
        held = store._database.submit(lambda _: may_go_on.wait(10))
        beat_at = store._upkeep.presence.beat_at
        await until(lambda: store.is_shared)
        assert monotonic() - beat_at >= 2 * HEARTBEAT
        may_go_on.set()
        assert await held
        await until(lambda: not store.is_shared)


class Shifted(SystemClock):
    """That of a process that started when the machine's clock was off by so much, or had not yet slept so long."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def now(self) -> float:
        """As ever, but for that."""
        return super().now() + self._seconds


@pytest.mark.parametrize("first_visits", [True, False])
@pytest.mark.parametrize(
    ("first", "second", "ahead"),
    [
        (SystemClock(), Shifted(0.0008), 0.0008),
        (SystemClock(), InterruptedClock(), 0.0),
        (InterruptedClock(), SystemClock(), 0.0),
    ],
    ids=["a-little-ahead", "interrupted", "interrupted-first"],
)
async def test_delay_is_whole_to_the_last_part_of_a_millisecond(
    path: Path,
    first: SystemClock,
    second: SystemClock,
    ahead: float,
    first_visits: bool,  # noqa: FBT001 - pytest's word
) -> None:
    """However little their clocks are apart, and whoever was interrupted while he looked at his."""
    async with AsyncExitStack() as stack:
        one, other = SQLiteStore(path, clock=first), SQLiteStore(path, clock=second)
        for store in (one, other):
            stack.push_async_callback(store.aclose)
            await store.open()
        await until(lambda: one.is_shared and other.is_shared)
        visitor, asker, behind = (one, other, ahead) if first_visits else (other, one, -ahead)
        assert await ask(visitor) is None
        begin(visitor)
        ended = end(visitor)
        await until(lambda: rows(path, "SELECT * FROM open_turns") == [])
        answer = await ask(asker)
        assert answer is not None
        assert answer.next_allowed_at == pytest.approx(ended.next_allowed_at + behind, abs=1e-5, rel=0)


async def test_clocks_that_differ_shorten_no_wait(path: Path) -> None:
    """The machine's clock was set between the starts: each is told of the other's instants on its own."""
    for seconds in (3600.0, -3600.0):
        file = path.with_name(f"{seconds}.db")
        store = SQLiteStore(file, clock=Shifted(seconds))
        async with SQLiteStore(file) as one:
            try:
                await store.open()
                await until(lambda one=one: one.is_shared)  # type: ignore[misc]
                assert await ask(one) is None
                began = begin(one)
                loaded = await store.load_host(HOST)
                await until_begun(file)
                known = await ask(store, at=now() + seconds)
                assert known is not None
                assert loaded is not None
                ended = end(one)
                known = await until_shifted(store, seconds, ended)
                assert known.next_allowed_at == pytest.approx(ended.next_allowed_at + seconds, abs=0.001)
                assert ended.next_allowed_at >= began.next_allowed_at
                # And the other way: who is told of an instant of ours need not wait for an hour.
                assert await ask(store, at=now() + seconds + DELAY + 1) is None
                state = begin(store, ahead=seconds)
                store.end_visit(HOST, replace(state, last_visit_at=now() + seconds + DELAY + 1))
                answer = await ask(one)
                assert answer is not None
                assert answer.next_allowed_at < now() + 3 * DELAY
            finally:
                await store.aclose()


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="elsewhere nobody tells one start from another"
)
@pytest.mark.parametrize("seconds", [-7200.0, 7200.0])
async def test_clock_that_was_set_between_two_processes_shortens_no_wait(path: Path, seconds: float) -> None:
    """Of the same start of the machine: the monotonic clock tells what has passed, also while the machine slept."""
    store = SQLiteStore(path, clock=Shifted(seconds))
    at = now() + seconds
    state = HostState(last_visit_at=at, next_allowed_at=at + 600, blocked_at=at, blocked_until_at=at + 3600)
    store.remember_host(HOST, state)
    store.remember_host("never.example", HostState(visits=1))
    await store.aclose()
    async with SQLiteStore(path) as after:
        loaded = await after.load_host(HOST)
        assert loaded is not None
        assert loaded.last_visit_at == pytest.approx(now(), abs=5)
        assert loaded.next_allowed_at == pytest.approx(now() + 600, abs=5)
        assert loaded.blocked_at == pytest.approx(now(), abs=5)
        assert loaded.blocked_until_at == pytest.approx(now() + 3600, abs=5)
        assert await after.load_host("never.example") == HostState(visits=1)
        assert not after.is_shared


async def test_machine_was_started_anew(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing tells how much time has passed but the wall clock: it is believed."""
    store = SQLiteStore(path, clock=Shifted(-60.0))
    at = now() - 60.0
    store.remember_host(HOST, HostState(last_visit_at=at, next_allowed_at=at + 600))
    await store.aclose()
    monkeypatch.setattr(_file_clock, "boot_id", lambda: "another")
    async with SQLiteStore(path) as after:
        loaded = await after.load_host(HOST)
        assert loaded is not None
        assert loaded.next_allowed_at == at + 600


async def test_assumed_visit_is_told_on_the_clock_of_each(path: Path) -> None:
    """Somebody dies while two are there whose clocks differ: neither waits for an hour, nor less than the delay."""
    store = SQLiteStore(path, clock=Shifted(3600.0))
    async with SQLiteStore(path) as one:
        await store.open()
        enter(path, left=1.5)
        await until(lambda: len(rows(path, "SELECT * FROM processes")) == 3)
        await until(lambda: len(rows(path, "SELECT * FROM processes")) == 2)
        for asking, ahead in ((one, 0.0), (store, 3600.0)):
            known = await ask(asking, at=now() + ahead)
            assert known is not None
            assert known.next_allowed_at == pytest.approx(now() + ahead + DELAY, abs=5)
        await store.aclose()


@pytest.mark.parametrize("seconds", [-3600.0, 3600.0])
async def test_listing_tells_instants_by_our_clock(path: Path, seconds: float) -> None:
    """One host at a time or all of them, what another has written is told on the clock of who asks."""
    store = SQLiteStore(path, clock=Shifted(seconds))
    async with SQLiteStore(path) as one:
        await store.open()
        await until(lambda: one.is_shared)
        assert await ask(one) is None
        begin(one)
        ended = end(one)
        listed = [state async for _, state in one.hosts()]
        assert [state.next_allowed_at for state in listed] == [
            pytest.approx(ended.next_allowed_at, abs=0.001)
        ]
        elsewhere = [state async for _, state in store.hosts()]
        assert [state.next_allowed_at for state in elsewhere] == [
            pytest.approx(ended.next_allowed_at + seconds, abs=0.001)
        ]
        assert elsewhere == [await store.host(HOST)]
        await store.aclose()


@pytest.mark.parametrize("seconds", [-3600.0, 3600.0])
async def test_left_alone_with_another_clock_asks_nobody(path: Path, seconds: float) -> None:
    """The file's clock becomes that of whoever is left, and what it has under way with it."""
    store = SQLiteStore(path, clock=Shifted(seconds))
    async with SQLiteStore(path) as one:
        await store.open()
        await until(lambda: one.is_shared and store.is_shared)
        assert await ask(store, at=now() + seconds) is None
        began = begin(store, ahead=seconds)
        await until_begun(path)
    await until(lambda: not store.is_shared)
    [(saved_at, next_allowed_at)] = rows(path, "SELECT saved_at, next_allowed_at FROM hosts")
    assert saved_at == pytest.approx(now() + seconds, abs=5)
    assert next_allowed_at == pytest.approx(began.next_allowed_at, abs=0.001)
    assert rows(path, "SELECT began_at FROM open_turns") == [(pytest.approx(began.last_visit_at, abs=0.001),)]
    assert store.recall_host(HOST) == began
    await store.aclose()


async def until_shifted(store: SQLiteStore, seconds: float, ended: HostState) -> HostState:
    """What a store of another clock says once it has heard of an end."""
    assert ended.last_visit_at is not None
    async with asyncio.timeout(10):
        while True:
            known = await ask(store, at=now() + seconds)
            assert known is not None
            assert known.last_visit_at is not None
            if abs(known.last_visit_at - ended.last_visit_at - seconds) < 0.001:
                return known
            await asyncio.sleep(0.001)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that stays locked is lost sooner."""
    monkeypatch.setattr(_database, "BUSY_TIMEOUT", 0.5)


@pytest.mark.usefixtures("impatient")
async def test_lost_file_is_everybodys_error(path: Path) -> None:
    """Nobody knows whether the host is free, so nobody goes."""
    async with two(path) as (one, _):
        lock = sqlite3.connect(path, isolation_level=None)
        lock.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match="keeps it locked"):
            await ask(one)
        lock.execute("ROLLBACK")
        lock.close()
        await until(lambda: one._behind.lost is None)
        assert await ask(one, at=now() + DELAY + 1) is None
        end_unused(one)


@pytest.mark.usefixtures("impatient")
async def test_lost_file_in_memory_mode_leaves_us_our_own_pace(path: Path) -> None:
    """As the option says: on with what this process knows, and its own slots."""
    careful = SQLiteStore(path)
    store = SQLiteStore(path, when_lost=WhenLost.MEMORY)
    await careful.open()
    await store.open()
    await until(lambda: store.is_shared and careful.is_shared)
    lock = sqlite3.connect(path, isolation_level=None)
    lock.execute("BEGIN EXCLUSIVE")
    assert await ask(store) is None
    begin(store)
    known = await ask(store)
    assert known is not None
    end(store)
    assert await ask(store, at=now() + 2 * DELAY) is None
    begin(store)
    end(store)
    lock.execute("ROLLBACK")
    lock.close()
    await store.aclose()
    await careful.aclose()


async def test_shared_file_does_what_a_store_has_to(path: Path) -> None:
    """All that holds for a store that is alone holds beside another."""

    class Beside(SQLiteStore):
        other: SQLiteStore

        async def aclose(self) -> None:
            await super().aclose()
            await self.other.aclose()

    made = 0

    async def make() -> Beside:
        nonlocal made
        made += 1
        file = path.with_name(f"{made}.db")
        store, store_beside = Beside(file), SQLiteStore(file)
        store.other = store_beside
        await store_beside.open()
        await store.open()
        await until(lambda: store.is_shared and store_beside.is_shared)
        return store

    await check_store(make)


async def test_records_are_everybodys(path: Path, record: RobotsRecord) -> None:
    """What one has saved the other loads."""
    async with two(path) as (one, other):
        await one.save_record(record)
        assert await other.load_record(record.origin) == record


@pytest.fixture
def record() -> RobotsRecord:
    """Any."""
    from robotgate._access import RobotsRecord  # noqa: PLC0415
    from robotgate._status import Outcome  # noqa: PLC0415

    return RobotsRecord(origin=ORIGIN, outcome=Outcome.MISSING, checked_at=1.0, fresh_until_at=2.0)
