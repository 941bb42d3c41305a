"""``store="cache.db"``: a store of the gate's own, opened and closed with it."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest
from tests.conftest import AGENT, CONTACT

from robotgate import GateClosedError, MemoryStore, OptionError, Origin, RobotGate, SQLiteStore, StoreError

if TYPE_CHECKING:
    from tests.conftest import OpenGate
    from tests.gate.servers import Web

SITE = "http://a.example"
ROBOTS = f"{SITE}/robots.txt"


@pytest.mark.parametrize(
    ("store", "remedy"),
    [
        ("", "path of a file"),
        ("cache\0.db", "path of a file"),
        (b"cache.db", "path of a file"),
        (1, "path of a file"),
        (SQLiteStore, "path of a file"),
        (os.fsdecode, "path of a file"),
        (":memory:", "MemoryStore remembers without"),
        ("redis://localhost", "no store in Redis"),
        ("REDISS://localhost", "no store in Redis"),
        ("valkey://localhost/0", "no store in Redis"),
        ("sqlite:///cache.db", "not a URL"),
        ("file:///tmp/cache.db", "not a URL"),
        ("https://a.example/cache.db", "not a URL"),
    ],
)
def test_what_is_no_path_is_refused_at_once(store: object, remedy: str) -> None:
    """By the name of the option, with what to give instead, and before anything is opened."""
    with pytest.raises(OptionError, match=rf"store=.*{remedy}"):
        RobotGate(AGENT, contact=CONTACT, store=store)  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["", "cache\0.db", ":memory:", "redis://localhost", "sqlite:///cache.db"])
def test_a_store_and_a_gate_refuse_the_same(path: str) -> None:
    """In the same words, each by the name of its own option."""
    with pytest.raises(OptionError) as by_store:
        SQLiteStore(path)
    with pytest.raises(OptionError) as by_gate:
        RobotGate(AGENT, contact=CONTACT, store=path)
    assert str(by_gate.value) == str(by_store.value).replace("path=", "store=", 1)


def test_a_path_of_one_letter_is_a_drive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not a scheme."""
    monkeypatch.chdir(tmp_path)
    assert SQLiteStore("c://cache.db").path.name == "cache.db"


def test_a_refusal_tells_no_password() -> None:
    """Error messages are logged."""
    with pytest.raises(OptionError) as caught:
        RobotGate(AGENT, contact=CONTACT, store="redis://user:s3cret@db.example:6379/0")

    assert "s3cret" not in str(caught.value)
    assert "redis://db.example:6379/0" in str(caught.value)


@pytest.mark.parametrize("make", [str, Path])
async def test_a_restart_asks_nothing_again(
    open_gate: OpenGate, web: Web, tmp_path: Path, make: type[str | Path]
) -> None:
    """What one gate has read, the next one knows, and how often the host was visited."""
    web.serve(ROBOTS, "User-agent: *\nDisallow: /private")
    path = make(tmp_path / "cache.db")

    first = await open_gate(store=path)
    await first.fetch(f"{SITE}/page")
    await first.aclose()
    second = await open_gate(store=path)

    assert not await second.allowed(f"{SITE}/private")
    assert web.counts() == {ROBOTS: 1, f"{SITE}/page": 1}
    await second.aclose()
    # The last visit of a gate is written before its store is closed.
    kept = SQLiteStore(path)
    state = await kept.load_host("a.example")
    await kept.aclose()
    assert state is not None
    assert state.visits == 2


async def test_a_path_that_cannot_be_opened_is_told_on_entering(web: Web, tmp_path: Path) -> None:
    """Before the first request, naming the file; and nothing is left running."""
    path = tmp_path / "no" / "such" / "directory" / "cache.db"
    threads = threading.active_count()
    gate = RobotGate(AGENT, contact=CONTACT, store=path)

    with pytest.raises(StoreError, match=r"cache\.db"):
        await gate.__aenter__()

    assert web.visits == []
    with pytest.raises(GateClosedError):
        await gate.check(SITE)
    await gate.aclose()
    await _ended(threads)


async def test_a_gate_that_does_not_open_lets_go_of_its_store(tmp_path: Path) -> None:
    """Here because its session is closed."""
    session = aiohttp.ClientSession()
    await session.close()
    threads = threading.active_count()

    with pytest.raises(OptionError, match="session"):
        await RobotGate(AGENT, contact=CONTACT, store=tmp_path / "cache.db", session=session).__aenter__()

    await _ended(threads)


async def test_a_gate_that_is_never_opened_opens_no_file(tmp_path: Path) -> None:
    """Making a gate has no effect on the disk."""
    gate = RobotGate(AGENT, contact=CONTACT, store=tmp_path / "cache.db")

    await gate.aclose()

    assert _names_in(tmp_path) == []


async def test_closing_closes_the_file(open_gate: OpenGate, tmp_path: Path) -> None:
    """Its thread ends, and twice is once."""
    threads = threading.active_count()
    gate = await open_gate(store=tmp_path / "cache.db")
    assert threading.active_count() > threads

    await gate.aclose()
    await gate.aclose()

    await _ended(threads)


async def test_a_store_that_was_given_stays_open(open_gate: OpenGate, web: Web, tmp_path: Path) -> None:
    """It is its owner's to close, whatever kind it is."""
    web.serve(ROBOTS, "User-agent: *\nDisallow: /private")
    for store in (SQLiteStore(tmp_path / "cache.db"), MemoryStore()):
        gate = await open_gate(store=store)
        assert not await gate.allowed(f"{SITE}/private")
        await gate.aclose()

        assert await store.load_record(Origin.of(SITE)) is not None
        await store.aclose()


def _names_in(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


async def _ended(threads: int) -> None:
    """Wait for the store's thread, which ends right after it has told so."""
    for thread in threading.enumerate():
        if thread.name.startswith("robotgate cache"):
            thread.join(10)
    assert threading.active_count() <= threads


def test_the_gates_bound_is_that_of_its_own_store(tmp_path: Path) -> None:
    """`max_hosts` bounds what either keeps in memory; the file has the rest."""
    gate = RobotGate(AGENT, contact=CONTACT, store=tmp_path / "cache.db", max_hosts=5)
    assert gate._own_store is not None
    assert gate._own_store._behind.memory.max_hosts == 5
