"""A process whose event loop does not run, be it in a debugger or in a long computation, keeps nobody waiting."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
from tests.waiting import until

from robotgate import HostState, Origin, SQLiteStore, SystemClock
from robotgate.stores import _processes, _pulse, _sharing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOST: Final = "a.example"
ORIGIN: Final = Origin("http", HOST, 80)
DELAY: Final = 100.0


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody loses patience four times as soon."""
    monkeypatch.setattr(_processes, "PATIENCE", _processes.PATIENCE / 4)
    monkeypatch.setattr(_pulse, "PATIENCE", _pulse.PATIENCE / 4)
    monkeypatch.setattr(_sharing, "STALE", _sharing.STALE / 4)


@pytest.fixture
def loops() -> Iterator[tuple[asyncio.AbstractEventLoop, asyncio.AbstractEventLoop]]:
    """Two event loops, of which one at most runs."""
    both = asyncio.new_event_loop(), asyncio.new_event_loop()
    yield both
    for loop in both:
        loop.close()


async def ask(store: SQLiteStore, *, delay: float = DELAY) -> HostState | None:
    """Reserve a turn, as a lane does."""
    at = SystemClock().now()
    known = store.recall_host(HOST) or HostState()
    state = replace(known, last_visit_at=at, next_allowed_at=at + delay, visits=known.visits + 1)
    async with asyncio.timeout(20):
        later = await store.reserve(HOST, state=state, now=at, slots=1, delay=delay)
        return None if later is None else replace(later.state, next_allowed_at=later.again_at)


async def come(store: SQLiteStore) -> None:
    """Open a file that somebody has open, and visit a host: what he may not have told of counts as a visit."""
    await store.open()
    while (known := await ask(store, delay=0.1)) is not None:  # noqa: ASYNC110 - of another process
        await asyncio.sleep(known.next_allowed_at - SystemClock().now())
    at = SystemClock().now()
    store.begin_visit(HOST, HostState(last_visit_at=at, next_allowed_at=at + DELAY, visits=1))


def test_newcomer_does_not_wait_for_a_loop_that_does_not_run(
    tmp_path: Path, loops: tuple[asyncio.AbstractEventLoop, asyncio.AbstractEventLoop]
) -> None:
    """It is taken for gone; when it runs again it asks before its first start, and learns of all that was done."""
    here, there = loops
    one, other = SQLiteStore(tmp_path / "s.db"), SQLiteStore(tmp_path / "s.db")
    here.run_until_complete(one.open())
    here.run_until_complete(until(lambda: not one.is_shared))

    there.run_until_complete(asyncio.wait_for(come(other), 20))
    # Nothing has told it yet of anybody.
    assert one.is_shared

    async def go_on() -> HostState | None:
        asking = asyncio.create_task(ask(one))
        await asyncio.to_thread(there.run_until_complete, asyncio.wait_for(until_known(other), 20))
        return await asking

    known = here.run_until_complete(go_on())
    assert known is not None
    assert known.next_allowed_at > SystemClock().now() + DELAY - 20
    there.run_until_complete(other.aclose())
    here.run_until_complete(one.aclose())


async def until_known(store: SQLiteStore) -> None:
    """Run until whoever was taken for gone is back."""
    while True:
        with closing(sqlite3.connect(store.path)) as connection:
            if connection.execute("SELECT count(*) FROM acquaintances").fetchone() == (2,):
                return
        await asyncio.sleep(0.01)


def test_lease_is_not_taken_on_the_word_of_a_loop_that_did_not_run(
    tmp_path: Path, loops: tuple[asyncio.AbstractEventLoop, asyncio.AbstractEventLoop]
) -> None:
    """Somebody may have come meanwhile, and have it."""
    here, there = loops
    one, other = SQLiteStore(tmp_path / "s.db"), SQLiteStore(tmp_path / "s.db")
    here.run_until_complete(one.open())
    here.run_until_complete(until(lambda: not one.is_shared))
    # Later than that its thread sees nobody.
    time.sleep(_pulse.PATIENCE + 1.5)

    async def take() -> None:
        await other.open()
        await other.lease(ORIGIN).__aenter__()

    there.run_until_complete(take())

    async def take_too() -> None:
        async with asyncio.timeout(1):
            await one.lease(ORIGIN).__aenter__()

    with pytest.raises(TimeoutError):
        here.run_until_complete(take_too())
    there.run_until_complete(other.aclose())
    here.run_until_complete(one.aclose())


def test_loop_that_was_busy_for_long_does_not_believe_that_it_is_alone(
    tmp_path: Path, loops: tuple[asyncio.AbstractEventLoop, asyncio.AbstractEventLoop]
) -> None:
    """Not even once its thread has given a sign of life again: who was there then is what counts."""
    here, _ = loops
    store = SQLiteStore(tmp_path / "s.db")

    async def stall() -> None:
        await store.open()
        await until(lambda: not store.is_shared)
        time.sleep(_pulse.PATIENCE + 2.5)  # noqa: ASYNC251 - it is what this is about
        assert store.is_shared
        # The thread may have beaten by now; the loop has not heard.
        store._upkeep.presence.beat_at = time.monotonic()
        assert store.is_shared
        await until(lambda: not store.is_shared)
        await store.aclose()

    here.run_until_complete(stall())


async def test_loop_that_is_idle_goes_on_giving_signs_of_life(tmp_path: Path) -> None:
    """It waits for nothing but what others say, and stays known for longer than anybody's patience."""
    store = SQLiteStore(tmp_path / "s.db")
    await store.open()
    await until(lambda: not store.is_shared)
    await asyncio.sleep(_pulse.PATIENCE + _processes.PATIENCE)
    assert time.monotonic() - store._upkeep.presence.beat_at < _pulse.PATIENCE + 1.0
    assert not store.is_shared
    await store.aclose()


def test_nothing_is_left_in_the_loop(tmp_path: Path) -> None:
    """Two event loops one after the other, and no timer in either."""
    store = SQLiteStore(tmp_path / "s.db")
    asyncio.run(store.open())
    asyncio.run(ask_alone(store))


async def ask_alone(store: SQLiteStore) -> None:
    """Go on in an event loop, until it is known that nobody else came."""
    await store.open()
    await until(lambda: not store.is_shared)
    loop = asyncio.get_running_loop()
    assert not [timer for timer in loop._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
    await store.aclose()
