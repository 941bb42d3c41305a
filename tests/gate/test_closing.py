"""Closing a gate: tasks are cancelled and awaited, waiters get an error, and nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
import warnings
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web as aioweb
from tests.gate.servers import silent
from tests.waiting import settle, until

from robotgate import GateClosedError, MemoryStore, Origin, RobotGate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.conftest import OpenGate
    from tests.gate.servers import Web

    from robotgate.sites import RobotsRecord

SITE = "http://site.example"
ROBOTS = f"{SITE}/robots.txt"
PAGE = f"{SITE}/page"


def tasks_besides_this_one() -> set[str]:
    """The names of what still runs on the loop, the servers' own tasks left out."""
    return {
        task.get_name()
        for task in asyncio.all_tasks()
        if task is not asyncio.current_task() and "RequestHandler" not in repr(task.get_coro())
    }


class SlowStore(MemoryStore):
    """A store that takes its time to write, and tells of it."""

    def __init__(self) -> None:
        super().__init__()
        self.may_write = asyncio.Event()
        self.is_written = False

    async def save_record(self, record: RobotsRecord) -> None:
        """Write, when the test says so."""
        await self.may_write.wait()
        await super().save_record(record)
        self.is_written = True


@pytest.mark.parametrize("door", ["allowed", "check", "sitemaps", "robots", "fetch"])
async def test_who_waits_for_robots_txt_is_told(web: Web, open_gate: OpenGate, door: str) -> None:
    """All callers get `GateClosedError`; the request is broken off."""
    gate = await open_gate()
    web.handle(ROBOTS, silent())
    waiting = [asyncio.ensure_future(getattr(gate, door)(PAGE)) for _ in range(10)]
    await web.arrivals(1)
    async with asyncio.timeout(60):
        await gate.aclose()
        errors = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(error) for error in errors} == {GateClosedError}
    assert not any(ROBOTS in name for name in tasks_besides_this_one())


async def test_who_waits_for_a_turn_is_told(web: Web, open_gate: OpenGate) -> None:
    """For a slot of the host, for a place within the bound over all hosts."""
    gate = await open_gate(delay=30, concurrency=1)
    gate.learn(PAGE, b"")
    gate.learn("http://other.example/", b"")
    async with asyncio.timeout(60), gate.turn(PAGE):
        waiting = [
            asyncio.create_task(gate.fetch(f"{SITE}/slot")),
            asyncio.create_task(gate.fetch("http://other.example/bound")),
        ]
        await until(lambda: gate.host(PAGE).waiting == gate.host("http://other.example/").waiting == 1)
        assert [task.done() for task in waiting] == [False, False]
        await gate.aclose()
        errors = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(error) for error in errors] == [GateClosedError, GateClosedError]
    assert web.visits == []


async def test_who_waits_for_a_delay_is_told(web: Web, open_gate: OpenGate) -> None:
    """At once, not when the delay is over."""
    gate = await open_gate(delay=30)
    assert await gate.allowed(PAGE)
    waiting = [asyncio.create_task(gate.fetch(f"{PAGE}/{number}")) for number in range(100)]
    await until(lambda: gate.host(PAGE).waiting == 100)
    async with asyncio.timeout(60):
        await gate.aclose()
        errors = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(error) for error in errors} == {GateClosedError}
    assert web.urls == [ROBOTS]


@pytest.mark.parametrize("waiters", [1, 2, 50])
async def test_everybody_who_waits_for_a_place_is_told(open_gate: OpenGate, waiters: int) -> None:
    """The bound over all hosts has many waiters of many hosts."""
    gate = await open_gate(concurrency=1)
    urls = [f"http://host{number}.example/" for number in range(waiters)]
    for url in (PAGE, *urls):
        gate.learn(url, b"")
    async with asyncio.timeout(60), gate.turn(PAGE):
        waiting = [asyncio.create_task(gate.fetch(url)) for url in urls]
        await until(lambda: all(gate.host(url).waiting == 1 for url in urls))
        await gate.aclose()
        errors = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(error) for error in errors} == {GateClosedError}


async def test_robots_txt_that_waits_for_its_turn_is_broken_off(web: Web, open_gate: OpenGate) -> None:
    """A flight in a lane, with its callers."""
    gate = await open_gate(delay=30)
    assert await gate.allowed(PAGE)
    waiting = [asyncio.create_task(gate.allowed(f"{SITE}:8080/")) for _ in range(5)]
    await until(lambda: gate.host(PAGE).waiting == 1)
    async with asyncio.timeout(60):
        await gate.aclose()
        errors = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(error) for error in errors} == {GateClosedError}
    assert web.urls == [ROBOTS]


async def test_robots_txt_that_waits_for_a_place_is_broken_off(web: Web, open_gate: OpenGate) -> None:
    """More origins than may be asked at once."""
    gate = await open_gate(robots_concurrency=1)
    urls = [f"http://host{number}.example/" for number in range(5)]
    for url in urls:
        web.handle(f"{url}robots.txt", silent())
    waiting = [asyncio.create_task(gate.allowed(url)) for url in urls]
    await web.arrivals(1)
    async with asyncio.timeout(60):
        await gate.aclose()
        errors = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(error) for error in errors} == {GateClosedError}
    assert len(web.visits) == 1


async def test_nothing_runs_after_closing(web: Web, open_gate: OpenGate) -> None:
    """No task of ours is left on the loop."""
    before = tasks_besides_this_one()
    gate = await open_gate(delay=0.05)
    web.handle("http://silent.example/robots.txt", silent())
    waiting = [
        asyncio.create_task(gate.fetch(url))
        for url in (PAGE, f"{SITE}/next", "http://silent.example/", "https://site.example/")
    ]
    await web.arrivals(2)
    await gate.aclose()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert tasks_besides_this_one() <= before


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda gate: gate.allowed(PAGE), id="allowed"),
        pytest.param(lambda gate: gate.check(PAGE), id="check"),
        pytest.param(lambda gate: gate.sitemaps(PAGE), id="sitemaps"),
        pytest.param(lambda gate: gate.robots(PAGE), id="robots"),
    ],
)
@pytest.mark.parametrize("known", [True, False])
async def test_closed_gate_answers_nothing(
    web: Web, open_gate: OpenGate, ask: Callable[[RobotGate], Awaitable[object]], *, known: bool
) -> None:
    """Not even from memory."""
    gate = await open_gate()
    if known:
        assert await gate.allowed(PAGE)
    await gate.aclose()
    with pytest.raises(GateClosedError, match="closed"):
        await ask(gate)
    assert len(web.visits) == known


@pytest.mark.parametrize("known", [True, False])
async def test_closed_gate_opens_no_door(web: Web, open_gate: OpenGate, *, known: bool) -> None:
    """The doors that do not wait, and those that do."""
    gate = await open_gate()
    if known:
        assert await gate.allowed(PAGE)
    await gate.aclose()
    for door in (gate.allowed_nowait, gate.wait_time, gate.host):
        with pytest.raises(GateClosedError):
            door(PAGE)
    with pytest.raises(GateClosedError):
        gate.learn(PAGE, b"")
    with pytest.raises(GateClosedError):
        await gate.fetch(PAGE)
    with pytest.raises(GateClosedError):
        async with gate.fetch(PAGE):
            raise AssertionError
    with pytest.raises(GateClosedError):
        async with gate.turn(PAGE):
            raise AssertionError
    assert web.count(PAGE) == 0


async def test_gate_that_is_not_open_says_so() -> None:
    """Whatever it is asked for first, it is not taken for a gate of another event loop."""
    gate = RobotGate("ExampleBot/1.0", contact="bot@example.org")
    doors: list[Callable[[str], object]] = [
        gate.turn,
        gate.fetch,
        gate.wait_time,
        lambda url: gate.ready([url]),
    ]
    for door in doors:
        with pytest.raises(GateClosedError, match="open the gate first"):
            door(PAGE)


async def test_closing_twice_is_closing_once(open_gate: OpenGate) -> None:
    """Also at the same time."""
    gate = await open_gate()
    await asyncio.gather(gate.aclose(), gate.aclose())
    await gate.aclose()
    assert repr(gate) == "<RobotGate 'ExampleBot' closed>"


async def test_gate_is_opened_once(open_gate: OpenGate) -> None:
    """Neither again while it is open, nor once it was closed."""
    gate = await open_gate()
    with pytest.raises(GateClosedError, match="once"):
        await gate.__aenter__()
    await gate.aclose()
    with pytest.raises(GateClosedError, match="once"):
        await gate.__aenter__()


async def test_turn_that_outlives_its_gate_ends_quietly(open_gate: OpenGate) -> None:
    """Its block may end after the gate."""
    gate = await open_gate()
    gate.learn(PAGE, b"")
    async with gate.turn(PAGE) as turn:
        await gate.aclose()
        turn.report(status=503, bytes=1)
    assert turn.verdict.allowed


async def test_page_under_way_ends_one_way_or_the_other(web: Web) -> None:
    """A gate with its own session closes the page's connection; no task hangs."""
    async with RobotGate(
        "ExampleBot/1.0", contact="bot@example.org", delay=0, allow_private_addresses=True
    ) as gate:
        page = f"http://127.0.0.1:{web.port}/page"
        gate.learn(page, b"")
        web.handle(page, silent())
        fetching = asyncio.create_task(gate.fetch(page))
        await web.arrivals(1)
    async with asyncio.timeout(60):
        with pytest.raises((aiohttp.ClientError, GateClosedError)):
            await fetching


async def test_session_of_the_caller_stays_open(
    web: Web, open_gate: OpenGate, session: aiohttp.ClientSession
) -> None:
    """Its connector, too."""
    gate = await open_gate()
    await gate.fetch(PAGE)
    await gate.aclose()
    assert not session.closed
    async with session.get(f"{SITE}/after") as response:
        assert response.status == 200
    assert web.count(f"{SITE}/after") == 1


async def test_exception_in_the_block_closes_the_gate() -> None:
    """And passes."""
    gate = RobotGate("ExampleBot/1.0", contact="bot@example.org")
    with pytest.raises(LookupError, match="mine"):
        async with gate:
            raise LookupError("mine")
    assert "closed" in repr(gate)


async def test_what_was_learnt_is_written_before_the_end(open_gate: OpenGate) -> None:
    """`learn` does not wait for the store; closing does."""
    store = SlowStore()
    gate = await open_gate(store=store)
    gate.learn(PAGE, b"User-agent: *\nDisallow: /private")
    closing = asyncio.create_task(gate.aclose())
    await until(lambda: "closed" in repr(gate))
    await settle()
    assert not closing.done()
    store.may_write.set()
    await closing
    assert store.is_written
    assert await store.load_record(Origin.of(PAGE)) is not None


async def test_cancelled_caller_is_told_so_though_the_gate_closes(web: Web, open_gate: OpenGate) -> None:
    """A cancellation is never turned into an error of ours."""
    gate = await open_gate()
    web.handle(ROBOTS, silent())
    waiting = asyncio.create_task(gate.allowed(PAGE))
    await web.arrivals(1)
    waiting.cancel()
    await gate.aclose()
    with pytest.raises(asyncio.CancelledError):
        await waiting


@pytest.mark.parametrize("owns", [True, False], ids=["own session", "given session"])
@pytest.mark.parametrize("steps", range(1, 6))
async def test_cancelled_closing_leaves_no_session_open(
    session: aiohttp.ClientSession, steps: int, *, owns: bool
) -> None:
    """A caller that is cancelled while the store is slow leaves nothing behind; a session passed in stays open."""
    gate = RobotGate(
        "ExampleBot/1.0",
        contact="bot@example.org",
        session=None if owns else session,
        store=SlowStore(),
    )
    await gate.__aenter__()
    gate.learn(PAGE, b"")
    closing = asyncio.create_task(gate.aclose())
    for _ in range(steps):
        await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    with pytest.raises(GateClosedError):
        gate.wait_time(PAGE)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del gate, closing
        gc.collect()
    assert caught == []
    assert not session.closed


async def test_answer_that_comes_after_the_end_is_none(web: Web, open_gate: OpenGate) -> None:
    """A session that was passed in stays open, and brings what was asked for before the gate was closed."""
    answer_now = asyncio.Event()

    async def answer(_: aioweb.Request) -> aioweb.StreamResponse:
        await answer_now.wait()
        return aioweb.Response(text="late")

    web.handle(PAGE, answer)
    async with aiohttp.ClientSession(connector=web.connector()) as session:
        gate = await open_gate(session=session)
        fetching = asyncio.ensure_future(gate.fetch(PAGE))
        await web.arrivals(2)
        await gate.aclose()
        answer_now.set()
        with pytest.raises(GateClosedError):
            await fetching
