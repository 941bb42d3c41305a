"""``store="cache.db"``: a store of the gate's own, opened and closed with it."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from typing import TYPE_CHECKING

import aiohttp
import pytest
from tests.conftest import AGENT, CONTACT
from tests.gate.servers import PAGE, PRIVATE, ROBOTS, RULES, SITE
from tests.redis_server import RedisServer

from robotgate import GateClosedError, MemoryStore, OptionError, Origin, RobotGate, SQLiteStore, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import OpenGate
    from tests.gate.servers import Web


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    """A server, empty, which is found by its port and by a file."""
    with RedisServer(tmp_path, options={"unixsocket": str(tmp_path / "s")}) as server:
        server.settle()
        yield server


def test_what_is_no_path_is_refused_at_once(subtests: pytest.Subtests) -> None:
    """By the name of the option, with what to give instead, and before anything is opened."""
    for store, remedy in [
        ("", "path of a file"),
        ("cache\0.db", "path of a file"),
        (b"cache.db", "path of a file"),
        (1, "path of a file"),
        (SQLiteStore, "path of a file"),
        (os.fsdecode, "path of a file"),
        (":memory:", "use a MemoryStore"),
        ("redis://localhost:port", "port is no number"),
        ("REDISS://localhost/name", "number of a database"),
        ("valkey://localhost/0?no_such=1", "no_such"),
        ("unix://", "path of a socket"),
        ("sqlite:///cache.db", "not a URL"),
        ("file:///tmp/cache.db", "not a URL"),
        ("https://a.example/cache.db", "not a URL"),
    ]:
        with (
            subtests.test(store=store, remedy=remedy),
            pytest.raises(OptionError, match=rf"store=.*{remedy}"),
        ):
            RobotGate(AGENT, contact=CONTACT, store=store)  # type: ignore[arg-type]


def test_a_refusal_tells_no_password() -> None:
    """Error messages are logged; a SQLiteStore that is given a server's URL names RedisStore."""
    url = "redis://user:s3cret@db.example:6379/name"
    with pytest.raises(OptionError) as caught:
        RobotGate(AGENT, contact=CONTACT, store=f"{url}?password=s3cret")
    with pytest.raises(OptionError, match="RedisStore takes the URL of a server") as of_file:
        SQLiteStore(url)
    for error in (caught.value, of_file.value):
        assert "s3cret" not in str(error)
        assert "redis://db.example:6379/name" in str(error)


@pytest.mark.parametrize("kind", ["str", "Path", "redis", "VALKEY", "unix"])
async def test_a_restart_asks_nothing_again(
    open_gate: OpenGate, web: Web, redis_server: RedisServer, tmp_path: Path, kind: str
) -> None:
    """What one gate has read, the next one knows, here or elsewhere, and how often the host was visited."""
    web.serve(ROBOTS, RULES)
    path = tmp_path / "cache.db"
    paths: dict[str, str | Path] = {"str": str(path), "Path": path, "unix": f"unix://{redis_server.folder}/s"}
    store = paths.get(kind, f"{kind}://{redis_server.url.partition('://')[2]}")

    first = await open_gate(store=store)
    await first.fetch(PAGE)
    await first.aclose()
    second = await open_gate(store=store)

    assert not await second.allowed(PRIVATE)
    assert web.counts() == {ROBOTS: 1, PAGE: 1}
    # The last visit of a gate is written before its store is closed.
    async with second.turn(PAGE):
        assert second.host(PAGE).visits >= 2
    await second.aclose()


async def test_a_server_that_cannot_be_reached_is_told_on_entering(
    web: Web, redis_server: RedisServer
) -> None:
    """Before the first request, naming it without its password; and nothing is left running."""
    tasks = asyncio.all_tasks()
    url = f"redis://:s3cret@127.0.0.1:{redis_server.port}/0"
    gate = RobotGate(AGENT, contact=CONTACT, store=url)

    with pytest.raises(
        StoreError, match=rf"^redis 127\.0\.0\.1:{redis_server.port}/0: it refuses the login"
    ) as caught:
        await gate.__aenter__()

    assert "s3cret" not in str(caught.value)
    assert web.visits == []
    assert asyncio.all_tasks() == tasks


def test_without_the_client_for_it_a_server_is_no_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to install is told; a file needs nothing more."""
    for name in [name for name in sys.modules if name.startswith("robotgate.stores.redis")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "redis", None)
    RobotGate(AGENT, contact=CONTACT, store="cache.db")
    with pytest.raises(OptionError, match=r"^store='redis://localhost'.*pip install \"robotgate\[redis\]\""):
        RobotGate(AGENT, contact=CONTACT, store="redis://:s3cret@localhost")


async def test_a_path_that_cannot_be_opened_is_told_on_entering(web: Web, tmp_path: Path) -> None:
    """Before the first request, naming the file; nothing is left running, whatever it is that a gate cannot open."""
    path = tmp_path / "no" / "such" / "directory" / "cache.db"
    threads = threading.active_count()
    gate = RobotGate(AGENT, contact=CONTACT, store=path)

    with pytest.raises(StoreError, match=r"cache\.db"):
        await gate.__aenter__()

    assert web.visits == []
    with pytest.raises(GateClosedError):
        await gate.check(SITE)
    await gate.aclose()
    session = aiohttp.ClientSession()
    await session.close()
    with pytest.raises(OptionError, match="session"):
        await RobotGate(AGENT, contact=CONTACT, store=tmp_path / "cache.db", session=session).__aenter__()
    await _ended(threads)


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
    web.serve(ROBOTS, RULES)
    for store in (SQLiteStore(tmp_path / "cache.db"), MemoryStore()):
        gate = await open_gate(store=store)
        assert not await gate.allowed(PRIVATE)
        await gate.aclose()

        assert await store.load_record(Origin.of(SITE)) is not None
        await store.aclose()


async def _ended(threads: int) -> None:
    """Wait for the store's thread, which ends right after it has told so."""
    for thread in threading.enumerate():
        if thread.name.startswith("robotgate cache"):
            thread.join(10)
    assert threading.active_count() <= threads
