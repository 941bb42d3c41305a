"""Closing a gate: tasks are cancelled and awaited, waiters get an error, and nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
import warnings
from typing import TYPE_CHECKING

import aiohttp
import pytest
from tests.conftest import AGENT, CONTACT
from tests.failing import FailingStore
from tests.gate.doors import DOORS, outcome
from tests.gate.servers import PAGE, ROBOTS, SITE, Held, silent
from tests.waiting import settle, until

from robotgate import GateClosedError, Origin, RobotGate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from tests.conftest import OpenGate
    from tests.gate.servers import Web

    from robotgate import GateOptions


def tasks_besides_this_one() -> set[str]:
    """The names of what still runs on the loop, the servers' own tasks left out."""
    return {
        task.get_name()
        for task in asyncio.all_tasks()
        if task is not asyncio.current_task() and "RequestHandler" not in repr(task.get_coro())
    }


@pytest.mark.parametrize("door", ["allowed", "check", "sitemaps", "robots", "fetch"])
async def test_who_waits_for_robots_txt_is_told(web: Web, open_gate: OpenGate, door: str) -> None:
    """All callers get `GateClosedError`; the request is broken off."""
    gate = await open_gate()
    web.handle(ROBOTS, silent())
    waiting = [asyncio.ensure_future(getattr(gate, door)(PAGE)) for _ in range(10)]
    await web.arrivals(1)
    await gate_closes(gate, waiting)


async def gate_closes(gate: RobotGate, waiting: Sequence[Awaitable[object]]) -> None:
    """Close a gate: all who wait are told, and no task of ours is left on the loop."""
    async with asyncio.timeout(60):
        await gate.aclose()
        errors = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(error) for error in errors} == {GateClosedError}
    assert tasks_besides_this_one() == set()


HOSTS = [f"http://host{number}.example/" for number in range(50)]


@pytest.mark.parametrize(
    ("options", "urls"),
    [
        ({"delay": 30.0}, [f"{SITE}/{number}" for number in range(100)]),
        ({"concurrency": 1}, [f"{SITE}/slot", *HOSTS]),
        ({"delay": 30.0}, [f"{SITE}:8080/{number}" for number in range(5)]),
        ({"robots_concurrency": 1}, [f"https://host{number}.example/" for number in range(5)]),
    ],
    ids=["delay", "slot and place", "turn of robots.txt", "place of robots.txt"],
)
async def test_who_waits_is_told(
    web: Web, open_gate: OpenGate, options: GateOptions, urls: list[str]
) -> None:
    """At once, whatever it is that they wait for."""
    gate = await open_gate(**options)
    for url in (PAGE, *HOSTS):
        gate.learn(url, b"")
    for url in urls:
        web.handle(f"{url}robots.txt", silent())
    async with gate.turn(PAGE):
        waiting = [asyncio.ensure_future(gate.fetch(url)) for url in urls]
        if "robots_concurrency" in options:
            await web.arrivals(1)
        else:
            # One request for a robots.txt stands for all who want it.
            many = 1 if "8080" in urls[0] else len(urls)
            await until(lambda: sum(view.waiting for view in gate.hosts()) == many)
        await gate_closes(gate, waiting)
    assert len(web.visits) == ("robots_concurrency" in options)


@pytest.mark.parametrize("known", [True, False])
async def test_closed_gate_opens_no_door(web: Web, open_gate: OpenGate, *, known: bool) -> None:
    """Neither those that do not wait nor those that do, and not even from memory."""
    gate = await open_gate()
    if known:
        assert await gate.allowed(PAGE)
    await gate.aclose()
    for door in DOORS.values():
        with pytest.raises(GateClosedError, match="closed"):
            await outcome(door, gate, PAGE)
    assert len(web.visits) == known


async def test_gate_that_is_not_open_says_so() -> None:
    """Whatever it is asked for first, it is not taken for a gate of another event loop."""
    gate = RobotGate(AGENT, contact=CONTACT)
    for door in (*DOORS.values(), lambda gate, url: gate.ready([url])):
        with pytest.raises(GateClosedError, match="open the gate first"):
            await outcome(door, gate, PAGE)


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


async def test_page_under_way_ends_one_way_or_the_other(web: Web, open_gate: OpenGate) -> None:
    """A gate with its own session closes the page's connection; no task hangs."""
    gate = await open_gate(session=None, allow_private_addresses=True)
    page = f"http://127.0.0.1:{web.port}/page"
    gate.learn(page, b"")
    web.handle(page, silent())
    fetching = asyncio.create_task(gate.fetch(page))
    await web.arrivals(1)
    await gate.aclose()
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


async def test_what_was_learnt_is_written_before_the_end(open_gate: OpenGate) -> None:
    """`learn` does not wait for the store; closing does."""
    store = FailingStore()
    store.hangs.add("save_record")
    gate = await open_gate(store=store)
    gate.learn(PAGE, b"User-agent: *\nDisallow: /private")
    closing = asyncio.create_task(gate.aclose())
    await until(lambda: "closed" in repr(gate))
    await settle()
    assert not closing.done()
    store.recover()
    await closing
    assert await store.load_record(Origin.of(PAGE)) is not None


@pytest.mark.parametrize("owns", [True, False], ids=["own session", "given session"])
async def test_cancelled_closing_leaves_no_session_open(
    session: aiohttp.ClientSession, *, owns: bool
) -> None:
    """A caller that is cancelled while the store is slow leaves nothing behind; a session passed in stays open."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for steps in range(1, 6):
            store = FailingStore()
            store.hangs.add("save_record")
            gate = RobotGate(AGENT, contact=CONTACT, session=None if owns else session, store=store)
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
            del gate, closing, store
        gc.collect()
    assert caught == []
    assert not session.closed


async def test_answer_that_comes_after_the_end_is_none(web: Web, open_gate: OpenGate) -> None:
    """A session that was passed in stays open, and brings what was asked for before the gate was closed."""
    page = Held(web, PAGE, text="late")
    gate = await open_gate()
    fetching = asyncio.ensure_future(gate.fetch(PAGE))
    await page.come.wait()
    await gate.aclose()
    page.release()
    with pytest.raises(GateClosedError):
        await fetching
