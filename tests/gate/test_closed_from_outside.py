"""A coroutine that is closed or dropped while it waits gives its place back: the host goes on for all other tasks."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Final, TypeAlias

import aiohttp
import pytest
from aiohttp import web as aioweb
from tests.pace.bench import Bench
from tests.waiting import settle, until

from robotgate.pace.host import PacedTurn
from robotgate.testing import VirtualTimeLoop

if TYPE_CHECKING:
    from tests.conftest import OpenGate
    from tests.gate.servers import Web

    from robotgate import RobotGate

HOST: Final = "http://site.example"
FIRST: Final = f"{HOST}/first"
NEXT: Final = f"{HOST}/next"

Door: TypeAlias = "Callable[[RobotGate, aiohttp.ClientSession], Coroutine[object, None, object]]"


class Held:
    """A page whose server answers when the test says so."""

    def __init__(self, web: Web, url: str) -> None:
        self._go = asyncio.Event()
        self.come = asyncio.Event()
        web.handle(url, self._answer)

    async def _answer(self, _: aioweb.Request) -> aioweb.Response:
        self.come.set()
        await self._go.wait()
        return aioweb.Response()

    def release(self) -> None:
        """Answer."""
        self._go.set()


async def _fetch(gate: RobotGate, _: aiohttp.ClientSession) -> None:
    await gate.fetch(NEXT)


async def _fetch_with_retries(gate: RobotGate, _: aiohttp.ClientSession) -> None:
    await gate.fetch(NEXT, retries=2, max_wait=600)


async def _stream(gate: RobotGate, _: aiohttp.ClientSession) -> None:
    async with gate.fetch(NEXT) as response:
        await response.read()


async def _turn(gate: RobotGate, _: aiohttp.ClientSession) -> None:
    async with gate.turn(NEXT):
        await asyncio.sleep(0)


async def _again(gate: RobotGate, _: aiohttp.ClientSession) -> None:
    turn = gate.turn(NEXT)
    turn.end()
    await turn.again()


async def _middleware(_: RobotGate, session: aiohttp.ClientSession) -> None:
    async with session.get(NEXT) as response:
        await response.read()


async def _ready(gate: RobotGate, _: aiohttp.ClientSession) -> None:
    async for turn in gate.ready([NEXT]):
        turn.end()


DOORS: Final[tuple[Door, ...]] = (_fetch, _fetch_with_retries, _stream, _turn, _again, _middleware, _ready)


async def begun(held: Held, first: Awaitable[object]) -> asyncio.Future[object]:
    """A task whose request is at its server."""
    task = asyncio.ensure_future(first)
    await held.come.wait()
    return task


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("is_granted", [False, True], ids=["waiting", "granted"])
async def test_a_waiting_coroutine_is_closed(
    web: Web, open_gate: OpenGate, door: Door, *, is_granted: bool
) -> None:
    """Whichever door it waits at, and though its turn was granted a moment ago."""
    gate = await open_gate()
    held = Held(web, FIRST)
    async with aiohttp.ClientSession(connector=web.connector(), middlewares=[gate.middleware]) as session:
        first = await begun(held, gate.fetch(FIRST))
        waiting = door(gate, session)
        waiting.send(None)
        await settle()
        if is_granted:
            held.release()
            await first
        waiting.close()
        held.release()
        await first
        assert (await gate.fetch(NEXT)).status == 200
        assert (await gate.fetch(FIRST)).status == 200
        assert [(view.open_turns, view.waiting) for view in gate.hosts()] == [(0, 0)]


@pytest.mark.parametrize("is_in_request", [False, True], ids=["waiting", "in its request"])
async def test_the_coroutine_of_a_task_is_closed(
    web: Web, open_gate: OpenGate, *, is_in_request: bool
) -> None:
    """The task ends with an error, and the host goes on."""
    gate = await open_gate()
    held = Held(web, FIRST)
    first = await begun(held, gate.fetch(FIRST))
    task = first if is_in_request else asyncio.ensure_future(gate.fetch(NEXT))
    await settle()
    assert isinstance(task, asyncio.Task)
    coroutine = task.get_coro()
    assert isinstance(coroutine, Coroutine)
    coroutine.close()
    held.release()
    assert (await gate.fetch(NEXT)).status == 200
    with pytest.raises(RuntimeError, match="cannot reuse"):
        await task


async def test_a_waiting_coroutine_is_closed_in_another_thread(web: Web, open_gate: OpenGate) -> None:
    """The garbage collector runs in any thread."""
    gate = await open_gate()
    held = Held(web, FIRST)
    first = await begun(held, gate.fetch(FIRST))
    waiting = gate.fetch(NEXT)
    waiting.send(None)
    closing = threading.Thread(target=waiting.close)
    closing.start()
    await until(lambda: not closing.is_alive())
    held.release()
    await first
    assert (await gate.fetch(NEXT)).status == 200


async def test_a_waiting_coroutine_is_dropped(web: Web, open_gate: OpenGate) -> None:
    """Nothing holds it any more."""
    gate = await open_gate()
    held = Held(web, FIRST)
    first = await begun(held, gate.fetch(FIRST))
    waiting = gate.fetch(NEXT)
    waiting.send(None)
    del waiting
    gc.collect()
    held.release()
    await first
    assert (await gate.fetch(NEXT)).status == 200


def test_a_coroutine_outlives_its_loop() -> None:
    """A loop is closed while a turn is waited for: to close that coroutine afterwards raises nothing."""
    loop = VirtualTimeLoop()
    waiting: list[Coroutine[object, None, object]] = []

    async def begin() -> None:
        bench = Bench()
        paced = bench.origin()
        await asyncio.create_task(bench.begin(PacedTurn(paced)))
        waiting.append(bench.scheduler.wait(PacedTurn(paced)))
        waiting[0].send(None)

    loop.run_until_complete(begin())
    loop.close()
    waiting[0].close()
