"""A gate belongs to one event loop. Calls from another are refused by name; threads have `gate.threadsafe`."""

from __future__ import annotations

import asyncio
import ctypes
import sys
import threading
import time
from typing import TYPE_CHECKING, Final, cast

import aiohttp
import pytest
from tests.gate.doors import WAITING_DOORS, outcome
from tests.gate.servers import PAGE, SITE
from tests.waiting import settle, until

from robotgate import (
    DisallowedError,
    EventLoopError,
    GateClosedError,
    InvalidURLError,
    NestedTurnError,
    OptionError,
    RobotGate,
    TooSoonError,
)

if TYPE_CHECKING:
    from types import FunctionType

    from tests.conftest import OpenGate
    from tests.gate.doors import Door
    from tests.gate.servers import Web


async def _middleware(gate: RobotGate, url: str) -> None:
    async with aiohttp.ClientSession(middlewares=[gate.middleware]) as session, session.get(url):
        pass


CALLS: Final[dict[str, Door]] = {
    **WAITING_DOORS,
    # A warm answer needs no event loop.
    "allowed": lambda gate, url: gate.allowed(url.replace("http:", "https:")),
    "aclose": lambda gate, _: gate.aclose(),
    "ready": lambda gate, url: anext(gate.ready([url])),
    "middleware": _middleware,
}


def in_second_loop(call: Door, gate: RobotGate, url: str) -> BaseException | None:
    """What a call raises in an event loop of this thread's own."""
    try:
        asyncio.run(outcome(call, gate, url))
    except BaseException as error:  # noqa: BLE001  # The test looks at it.
        return error
    return None


@pytest.mark.parametrize("call", CALLS)
async def test_a_second_event_loop_is_refused(web: Web, open_gate: OpenGate, call: str) -> None:
    """Of a known URL or a new one, before anything has changed: the first loop goes on, and no server was asked."""
    gate = await open_gate(delay=0.01)
    await gate.fetch(PAGE)
    hosts, asked = gate.stats().hosts, len(web.visits)
    for url in (PAGE, "http://new.example/"):
        error = await asyncio.to_thread(in_second_loop, CALLS[call], gate, url)
        assert isinstance(error, EventLoopError)
        assert "another event loop" in str(error)
        assert (len(web.visits), gate.stats().hosts) == (asked, hosts)
    assert (await gate.fetch(PAGE)).status == 200
    assert [(view.open_turns, view.waiting) for view in gate.hosts()] == [(0, 0)]


async def test_objects_of_the_first_loop_are_refused_in_a_second(open_gate: OpenGate) -> None:
    """A turn, a fetch and a loop over turns that were asked for in the gate's own event loop."""
    gate = await open_gate()
    await gate.fetch(PAGE)
    turn, fetch, ready = gate.turn(PAGE), gate.fetch(PAGE), gate.ready([PAGE])

    calls = (
        lambda *_: turn.__aenter__(),
        lambda *_: turn.again(),
        lambda *_: fetch,
        lambda *_: anext(ready),
        lambda *_: ready.aclose(),
    )
    for call in calls:
        assert isinstance(await asyncio.to_thread(in_second_loop, call, gate, PAGE), EventLoopError)
    async with turn:
        assert turn.waited >= 0.0
    assert [given.url async for given in ready] == [PAGE]


# ── gate.threadsafe


async def test_threads_fetch(web: Web, open_gate: OpenGate) -> None:
    """By the gate's session; what is refused is raised in the thread."""
    web.serve(f"{SITE}/robots.txt", "User-agent: *\nDisallow: /private")
    web.serve(PAGE, "hello")
    gate = await open_gate()
    door = gate.threadsafe
    fetches = [asyncio.to_thread(door.fetch, PAGE, headers={"Accept": "text/html"}) for _ in range(8)]
    assert [page.body for page in await asyncio.gather(*fetches)] == [b"hello"] * 8
    assert await asyncio.to_thread(door.allowed, PAGE)
    assert not (await asyncio.to_thread(door.check, f"{SITE}/private")).allowed
    for url, kind in ((f"{SITE}/private", DisallowedError), ("ftp://site.example/", InvalidURLError)):
        with pytest.raises(kind):
            await asyncio.to_thread(door.fetch, url)
    with pytest.raises(OptionError):
        await asyncio.to_thread(lambda: door.fetch(PAGE, max_bytes=0))

    def fetch_in_turn() -> bytes:
        with door.turn(PAGE) as turn:
            return turn.fetch(headers={"Accept": "text/html"}).body

    assert await asyncio.to_thread(fetch_in_turn) == b"hello"


async def test_threads_do_not_wait_for_themselves(open_gate: OpenGate) -> None:
    """A call that needs the turn which its thread holds is refused; the turn of another host is not."""
    gate = await open_gate()
    door = gate.threadsafe

    def nested() -> None:
        with door.turn(PAGE) as turn:
            with pytest.raises(NestedTurnError):
                door.fetch(PAGE)
            with pytest.raises(NestedTurnError), door.turn(f"{SITE}/other"):
                pass
            assert door.fetch("http://other.example/").status == 200
            with door.turn("http://third.example/") as inner:
                inner.report(200)
            assert turn.url == PAGE
            turn.report(200, {}, 5)

    await asyncio.to_thread(nested)
    assert (await gate.fetch(PAGE)).status == 200
    assert gate.host(PAGE).bytes_read >= 5


async def test_the_gates_own_thread_is_refused(open_gate: OpenGate) -> None:
    """It would wait for itself."""
    gate = await open_gate()
    door = gate.threadsafe
    for call in (door.allowed, door.check, door.fetch, lambda url: door.turn(url).__enter__()):
        with pytest.raises(EventLoopError, match="wait for itself"):
            call(PAGE)
    assert (await gate.fetch(PAGE)).status == 200


async def test_patience_of_threads_ends(open_gate: OpenGate) -> None:
    """As that of tasks, by `max_wait`."""
    gate = await open_gate(delay=30.0)
    gate.learn(PAGE, b"")
    door = gate.threadsafe

    def crawl() -> None:
        with door.turn(PAGE) as turn:
            assert turn.verdict.allowed
        for call in (
            lambda: door.fetch(PAGE, max_wait=0),
            door.turn(PAGE, max_wait=1).__enter__,
            door.try_turn(PAGE).__enter__,
        ):
            with pytest.raises(TooSoonError):
                call()

    await asyncio.to_thread(crawl)


async def test_threads_that_wait_when_the_gate_is_closed(open_gate: OpenGate) -> None:
    """They get `GateClosedError`, and so do later calls."""
    gate = await open_gate()
    door = gate.threadsafe
    await gate.fetch(PAGE)
    gate.block("site.example", time.time() + 200)
    ends: list[object] = []

    def wait() -> None:
        try:
            door.fetch(PAGE)
        except GateClosedError as error:
            ends.append(error)

    threads = asyncio.gather(*(asyncio.to_thread(wait) for _ in range(3)))
    await until(lambda: gate.host(PAGE).waiting == 3)
    await gate.aclose()
    await threads
    assert len(ends) == 3
    with pytest.raises(GateClosedError):
        await asyncio.to_thread(door.allowed, PAGE)


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["stopped", "cancelled"])
def test_threads_that_wait_when_the_loop_ends(*, is_cancelled: bool) -> None:
    """`asyncio.run` cancels what is left; a loop that only stops answers no more. No thread waits for ever."""
    ends: list[object] = []
    gate = RobotGate("ExampleBot/1.0", contact="bot@example.org")

    def wait() -> None:
        try:
            gate.threadsafe.fetch(PAGE)
        except GateClosedError as error:
            ends.append(error)

    thread = threading.Thread(target=wait)

    async def begin() -> None:
        await gate.__aenter__()
        gate.learn(PAGE, b"")
        gate.block("site.example", time.time() + 200)
        thread.start()
        await until(lambda: gate.host(PAGE).waiting == 1)
        if is_cancelled:
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await settle()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(begin())
    thread.join(60)
    assert len(ends) == 1
    loop.run_until_complete(gate.aclose())
    loop.close()


def _is_in(thread: threading.Thread, function: FunctionType) -> bool:
    """Whether a thread runs a function."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None and frame.f_code is not function.__code__:
        frame = frame.f_back
    return frame is not None


@pytest.mark.parametrize("is_turn", [False, True], ids=["fetch", "turn"])
async def test_an_interrupted_thread_gives_its_place_back(open_gate: OpenGate, *, is_turn: bool) -> None:
    """`KeyboardInterrupt` while it waits, or within its block."""
    gate = await open_gate()
    door = gate.threadsafe
    interrupted: list[bool] = []

    def crawl() -> None:
        try:
            if is_turn:
                with door.turn(PAGE):
                    door.fetch("http://blocked.example/")
            else:
                door.fetch("http://blocked.example/")
        except KeyboardInterrupt:
            interrupted.append(True)

    await gate.fetch("http://blocked.example/")
    gate.block("blocked.example", time.time() + 200)
    thread = threading.Thread(target=crawl)
    thread.start()
    await until(lambda: gate.host("http://blocked.example/").waiting == 1)
    assert thread.ident is not None
    # It has begun its call, and waits by now for its end.
    await until(lambda: _is_in(thread, cast("FunctionType", threading.Condition.wait)))
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
    assert raise_in(ctypes.c_ulong(thread.ident), ctypes.py_object(KeyboardInterrupt)) == 1
    await until(lambda: not thread.is_alive())
    assert interrupted == [True]
    await until(lambda: gate.host("http://blocked.example/").waiting == 0)
    assert (await gate.fetch(PAGE)).status == 200


async def test_blocks_are_left_in_their_order(open_gate: OpenGate) -> None:
    """A turn ends in the thread that has it, and after those that were taken within it."""
    gate = await open_gate()
    door = gate.threadsafe

    def cross() -> None:
        first, second = door.turn(PAGE), door.turn("http://other.example/")
        first.__enter__()
        second.__enter__()
        with pytest.raises(RuntimeError, match="the last one first"):
            first.__exit__(None, None, None)
        second.__exit__(None, None, None)
        first.__exit__(None, None, None)

    await asyncio.to_thread(cross)
    assert (await gate.fetch(PAGE)).status == 200
