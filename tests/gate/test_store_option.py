"""``store="cache.db"``: a store of the gate's own, opened and closed with it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest
from tests.conftest import AGENT, CONTACT
from tests.redis_server import RedisServer

from robotgate import GateClosedError, MemoryStore, OptionError, Origin, RobotGate, SQLiteStore, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import OpenGate
    from tests.gate.servers import Web

SITE = "http://a.example"
ROBOTS = f"{SITE}/robots.txt"


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


@pytest.mark.parametrize("path", ["", "/", "cache\0.db", ":memory:", "sqlite:///cache.db"])
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
        RobotGate(AGENT, contact=CONTACT, store="redis://user:s3cret@db.example:6379/name?password=s3cret")

    assert "s3cret" not in str(caught.value)
    assert "redis://db.example:6379/name" in str(caught.value)


def test_a_file_is_no_server() -> None:
    """The error of a SQLiteStore that is given a server's URL names RedisStore."""
    with pytest.raises(
        OptionError, match=r"path='redis://db.example/0': .* RedisStore takes the URL of a server"
    ):
        SQLiteStore("redis://user:s3cret@db.example/0")


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


@pytest.mark.parametrize("scheme", ["redis", "VALKEY", "unix"])
async def test_a_restart_over_a_server_asks_nothing_again(
    open_gate: OpenGate, web: Web, redis_server: RedisServer, scheme: str
) -> None:
    """Nothing else changes: another gate, here or elsewhere, knows what the first one has read."""
    web.serve(ROBOTS, "User-agent: *\nDisallow: /private")
    address = redis_server.url.partition("://")[2]
    url = f"unix://{redis_server.folder}/s" if scheme == "unix" else f"{scheme}://{address}"

    first = await open_gate(store=url)
    await first.fetch(f"{SITE}/page")
    await first.aclose()
    second = await open_gate(store=url)

    assert not await second.allowed(f"{SITE}/private")
    assert web.counts() == {ROBOTS: 1, f"{SITE}/page": 1}
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


def test_without_the_client_for_it_a_server_is_no_store(tmp_path: Path) -> None:
    """What to install is told; a file needs nothing more."""
    program = """
import sys
sys.modules["redis"] = None
from robotgate import OptionError, RobotGate
RobotGate("ExampleBot/1.0", contact="bot@example.org", store="cache.db")
try:
    RobotGate("ExampleBot/1.0", contact="bot@example.org", store="redis://:s3cret@localhost")
except OptionError as error:
    print(error)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert ended.stdout == (
        "store='redis://localhost': a store in Redis or Valkey needs redis-py:"
        ' pip install "robotgate[redis]"\n'
    )


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
