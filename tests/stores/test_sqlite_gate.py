"""The store in a file behind a gate: what a restart remembers, and what a lost file does to a crawl."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import aiohttp
import pytest
from tests.stores.files import locked
from tests.waiting import until

from robotgate import Group, RobotGate, SQLiteStore, StoreError, TooSoonError, WhenLost
from robotgate.clock import SystemClock
from robotgate.sites import HostAccess
from robotgate.stores.sqlite import database

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import OpenGate
    from tests.gate.servers import Web

ROBOTS = "http://a.example/robots.txt"
PAGE = "http://a.example/page"
DELAY = 0.3


async def test_known_host_has_what_the_file_knows(web: Web, open_gate: OpenGate, tmp_path: Path) -> None:
    """Right after a restart, before anything was asked: the visits, the wait, the rules. No request is sent for it."""
    web.serve(ROBOTS, "User-agent: *\nDisallow: /private\n")
    first = await open_gate(store=tmp_path / "cache.db", delay=30)
    await first.allowed(PAGE)
    before = first.host(PAGE)
    await first.aclose()

    gate = await open_gate(store=tmp_path / "cache.db", delay=30)
    assert (gate.wait_time(PAGE), gate.host(PAGE).visits, gate.allowed_nowait(PAGE)) == (0, 0, None)
    view = await gate.known_host(PAGE)

    assert gate.host(PAGE).visits == view.visits
    assert (view.visits, view.last_visit_at, view.checked_at) == (1, before.last_visit_at, before.checked_at)
    assert view.access is HostAccess.CONTROLLED
    assert 0 < gate.wait_time(PAGE) <= 30
    assert gate.allowed_nowait(PAGE) is True
    assert gate.allowed_nowait("http://a.example/private") is False
    assert (await gate.known_host("http://c.example/")).access is None
    assert web.count(ROBOTS) == 1


async def test_known_host_has_rules_that_have_expired(web: Web, open_gate: OpenGate, tmp_path: Path) -> None:
    """They are told, and not used: the next question has robots.txt requested."""
    web.serve(ROBOTS, "User-agent: *\nDisallow: /private\n")
    first = await open_gate(store=tmp_path / "cache.db")
    first.learn(PAGE, b"User-agent: *\nDisallow: /\n", fresh_until=1.0)
    await first.aclose()

    gate = await open_gate(store=tmp_path / "cache.db")
    view = await gate.known_host(PAGE)
    assert (view.fresh_until_at, view.access) == (1.0, HostAccess.EXCLUDED)
    assert gate.allowed_nowait(PAGE) is None
    assert await gate.allowed(PAGE)
    assert web.urls == [ROBOTS]


async def test_known_host_says_that_the_file_failed(web: Web, open_gate: OpenGate, tmp_path: Path) -> None:
    """A host that is not known is due; one whose state cannot be read is not."""
    store = SQLiteStore(tmp_path / "cache.db")
    gate = await open_gate(store=store)
    await store.aclose()
    with pytest.raises(StoreError):
        await gate.known_host(PAGE)
    assert web.visits == []


async def test_restart_within_a_crawl_delay(web: Web, tmp_path: Path) -> None:
    """A crawler of another name finds what the first has left: the file, read by its own name, and the wait it asks."""
    ours = "User-agent: OneBot\nUser-agent: TwoBot\nDisallow: /private\nCrawl-delay: 0.5\n"
    web.serve(ROBOTS, f"{ours}\nUser-agent: *\nDisallow: /\n")
    for agent, is_allowed in (("OneBot/1.0", True), ("ThreeBot/1.0", False), ("TwoBot/2.0", True)):
        async with (
            aiohttp.ClientSession(connector=web.connector()) as session,
            RobotGate(
                agent, contact="bot@example.org", session=session, store=tmp_path / "cache.db", delay=0
            ) as gate,
        ):
            assert await gate.allowed(PAGE) is is_allowed
            if is_allowed:
                await gate.fetch(PAGE)
    assert web.urls == [ROBOTS, PAGE, PAGE]
    assert min(web.gaps("a.example")) >= 0.5


@pytest.mark.parametrize("when_lost", WhenLost)
async def test_crawl_goes_on_once_the_file_is_back(
    web: Web, open_gate: OpenGate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when_lost: WhenLost
) -> None:
    """Hosts that are held go on at their pace. Others are refused, or paced as ever if memory is enough."""
    monkeypatch.setattr(database, "BUSY_TIMEOUT", 0.01)
    monkeypatch.setattr(database, "RETRY_DELAY", 0.01)
    web.serve("http://b.example/page", b"")
    store = SQLiteStore(tmp_path / "cache.db", when_lost=when_lost)
    gate = await open_gate(store=store, delay=DELAY)
    await gate.fetch(PAGE)
    with locked(store.path):
        if when_lost is WhenLost.RAISE:
            with pytest.raises(StoreError, match="another program keeps it locked"):
                await gate.fetch("http://b.example/page")
            assert web.count("http://b.example/page") == 0
        else:
            await gate.fetch(PAGE)
            await gate.fetch("http://b.example/page")
            await gate.fetch("http://b.example/page")
    await until(lambda: store._database.lost is None)
    await gate.fetch(PAGE)
    assert web.count(ROBOTS) == 1
    assert min(web.gaps("a.example")) >= DELAY
    assert min(web.gaps("b.example"), default=DELAY) >= DELAY
    await gate.aclose()
    await store.aclose()


async def test_gates_of_a_file_agree_on_its_blocks(open_gate: OpenGate, tmp_path: Path) -> None:
    """What was said last holds at both, though the one that lifts a block has not heard of it."""
    one, two = [await open_gate(store=tmp_path / "cache.db") for _ in range(2)]
    hosts = [f"http://{number}.example/" for number in range(20)]
    for number in range(len(hosts)):
        one.block(f"{number}.example")
        if number % 2:
            await asyncio.sleep(0.01)
        two.unblock(f"{number}.example")
    for teller, hearer in ((one, two), (two, one)):
        teller.block("last.example", time.time() + (1000 if teller is one else 2000))
        said = teller.host("http://last.example/").blocked_by_operator_until_at
        await until(partial(_is_blocked_until, hearer, said))
    for url in hosts:
        assert len({gate.host(url).blocked_by_operator_until_at for gate in (one, two)}) == 1, url


def _is_blocked_until(gate: RobotGate, until_at: float | None) -> bool:
    return gate.host("http://last.example/").blocked_by_operator_until_at == pytest.approx(until_at, abs=1.0)


@pytest.mark.parametrize("group", [Group("shops", delay=3600.0), Group("shops", rate=(1, 3600.0))])
async def test_restart_forgets_no_group(open_gate: OpenGate, tmp_path: Path, group: Group) -> None:
    """Neither its delay nor its quota: another of its hosts has to wait."""
    told = []
    for host in "ab":
        gate = await open_gate(store=tmp_path / "cache.db", groups={"*.example": group})
        gate.learn(f"http://{host}.example/", b"")
        try:
            await gate.fetch(f"http://{host}.example/page", max_wait=1.0)
        except TooSoonError as error:
            told.append(error.retry_after)
        await gate.aclose()
    assert told == [pytest.approx(3600.0, abs=60.0)]


async def test_system_clock_that_is_given(web: Web, open_gate: OpenGate, tmp_path: Path) -> None:
    """As Scrapy's add-on gives one: while a process waits for the file, time goes on, and no instant moves earlier."""
    path = tmp_path / "cache.db"
    one, other = [await open_gate(store=path, delay=DELAY, clock=SystemClock()) for _ in range(2)]
    await one.allowed(PAGE)
    for number in range(5):
        with ExitStack() as file:
            async with one.turn(PAGE):
                waiting = asyncio.create_task(other.fetch(PAGE))
                await asyncio.sleep(DELAY / 3)
                file.enter_context(locked(path))
                # The other process's request is as old as this when the host is handed on to it.
                asking = asyncio.create_task(other.allowed(f"http://{number}.example/"))
                await asyncio.sleep(DELAY / 2)
                ended_at = time.monotonic()
            await asyncio.sleep(DELAY / 10)
        await asyncio.gather(waiting, asking)
        (visit,) = [visit for visit in web.visits if visit.url == PAGE][number:]
        assert visit.began_at - ended_at >= DELAY
