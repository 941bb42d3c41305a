"""The bounds on disk: what goes, what stays, and that nobody waits for it."""

from __future__ import annotations

import os
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING

from tests.stores.files import NOW, RECORD, HandClock, rows
from tests.waiting import until

from robotgate import HostState, Origin, SQLiteStore
from robotgate.stores import _prune, _upkeep

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

MIB = 2**20


def record(number: int) -> Origin:
    """The origin of one of many records."""
    return Origin("http", f"{number:05}.example", 80)


async def fill(store: SQLiteStore, clock: HandClock) -> None:
    """Two MiB of records and hosts, an hour between every hundred."""
    for number in range(1000):
        if number % 100 == 0:
            await store._behind.settle()
            clock.at += 3600
        store._behind.records[record(number)] = replace(RECORD, origin=record(number), body=os.urandom(1500))
        store.remember_host(
            f"{number:05}.example", HostState(next_allowed_at=clock.at + (1e9 if number % 100 == 7 else 1))
        )
    await store._behind.settle()


async def test_keeps_its_bound_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without being asked, in small steps: the oldest go, the file gets smaller, and whoever must wait stays."""
    monkeypatch.setattr(_upkeep, "HEARTBEAT", 0.01)
    monkeypatch.setattr(_upkeep, "STEP_PAUSE", 0.0)
    path, clock = tmp_path / "cache.db", HandClock()
    store = SQLiteStore(path, max_bytes=MIB, clock=clock)
    await fill(store, clock)
    await until(lambda: store._upkeep._crowded_at is not None)
    await store.aclose()
    assert path.stat().st_size <= MIB
    assert path.stat().st_size >= MIB * _prune.ROOM / 2, "no more than had to"
    (kept,) = rows(path, "SELECT min(host), max(host), count(*) FROM records")
    assert kept[1:] == ("00999.example", 1000 - int(str(kept[0])[:5])), "the newest, all of them"
    waiting = rows(path, "SELECT count(*) FROM hosts WHERE next_allowed_at > 1e9 + 1795233600")
    assert waiting == [(10,)]
    assert rows(path, "SELECT min(pace_key) FROM hosts") == [("00007.example",)]
    assert rows(path, "SELECT count(*) FROM hosts") < [(1000,)]


async def test_what_cannot_go_is_not_tried_for_ever(tmp_path: Path) -> None:
    """A file full of hosts that must wait stays larger than it should, and pruning it ends."""
    clock = HandClock()
    store = SQLiteStore(tmp_path / "cache.db", max_bytes=MIB, clock=clock)
    for number in range(20_000):
        store.remember_host(f"{number:05}.a-rather-long-name.example", HostState(blocked_until_at=NOW + 1e6))
    pruned = await store.prune(now=NOW)
    assert (pruned.records, pruned.hosts) == (0, 0)
    assert rows(store.path, "SELECT count(*) FROM hosts") == [(20_000,)]
    pruned = await store.prune(now=NOW + 1e6)
    assert pruned.hosts > 0
    await store.aclose()
    assert store.path.stat().st_size <= MIB


async def test_prunes_by_age_once_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at the start, which should be quick, but a day after the last time, which outlives the process."""
    monkeypatch.setattr(_upkeep, "HEARTBEAT", 0.01)
    path, clock = tmp_path / "cache.db", HandClock()
    store = SQLiteStore(path, max_age=10.0, clock=clock)
    await store.save_record(RECORD)
    # The file's thread counts on from what the clock said last in the event loop.
    clock.at += _upkeep.PRUNE_INTERVAL - 60
    await store.open()
    await until_it_beats(path)
    await store.aclose()
    assert rows(path, "SELECT count(*) FROM records") == [(1,)]
    clock.at += 60
    store = SQLiteStore(path, max_age=10.0, clock=clock)
    await store.open()
    await until(lambda: rows(path, "SELECT count(*) FROM records") == [(0,)])
    await store.aclose()


async def test_sign_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has the file open says so now and then, also while nothing is to be written."""
    monkeypatch.setattr(_upkeep, "HEARTBEAT", 0.01)
    store = SQLiteStore(tmp_path / "cache.db")
    await store.open()
    assert rows(store.path, "SELECT pid FROM processes") == [(os.getpid(),)]
    for _ in range(3):
        await until_it_beats(store.path)
    await store.aclose()


async def test_a_host_takes_little_room(tmp_path: Path) -> None:
    """A hundred bytes on disk, name and all."""
    store = SQLiteStore(tmp_path / "cache.db", clock=HandClock())
    for number in range(20_000):
        store.remember_host(
            f"www.site-{number:06}.example",
            HostState(
                last_visit_at=NOW + number / 7,
                next_allowed_at=NOW + 1 + number / 7,
                visits=number,
                bytes_read=number * 30_000,
                latency=1 / (number + 3),
            ),
        )
    await store.aclose()
    assert store.path.stat().st_size / 20_000 < 100


async def until_it_beats(path: Path) -> None:
    """Wait for a sign of life that is given from now on."""
    since = monotonic()

    def has_beaten() -> bool:
        ((beat_at,),) = rows(path, "SELECT beat_at FROM processes")
        return isinstance(beat_at, float) and beat_at >= since

    await until(has_beaten)
