"""A coroutine that is closed or dropped while it waits gives its place back: the host goes on for all other tasks."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Final, TypeAlias

import aiohttp
import pytest
from tests.gate.crawlers import crawler, read
from tests.gate.servers import NEXT, SITE, Held
from tests.paced import make_gate
from tests.waiting import settle

from robotgate.testing import VirtualTimeLoop

if TYPE_CHECKING:
    from tests.conftest import OpenGate
    from tests.gate.servers import Web

    from robotgate import RobotGate

FIRST: Final = f"{SITE}/first"

Door: TypeAlias = "Callable[[RobotGate, aiohttp.ClientSession], Coroutine[object, None, object]]"


async def _again(gate: RobotGate) -> None:
    turn = gate.turn(NEXT)
    turn.end()
    await turn.again()


async def _ready(gate: RobotGate) -> None:
    async for turn in gate.ready([NEXT]):
        turn.end()


DOORS: Final[dict[str, Door]] = {
    "fetch": lambda gate, _: gate.fetch(NEXT),
    "fetch with retries": lambda gate, _: gate.fetch(NEXT, retries=2, max_wait=600),
    "stream": lambda gate, _: gate.fetch(NEXT).__aenter__(),
    "turn": lambda gate, _: gate.turn(NEXT).__aenter__(),
    "again": lambda gate, _: _again(gate),
    "middleware": lambda _, session: read(session, NEXT),
    "ready": lambda gate, _: _ready(gate),
}


async def begun(held: Held, first: Awaitable[object]) -> asyncio.Future[object]:
    """A task whose request is at its server."""
    task = asyncio.ensure_future(first)
    await held.come.wait()
    return task


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("is_granted", [False, True], ids=["waiting", "granted"])
async def test_a_waiting_coroutine_is_closed(
    web: Web, open_gate: OpenGate, door: str, *, is_granted: bool
) -> None:
    """Whichever door it waits at, and though its turn was granted a moment ago."""
    gate = await open_gate()
    held = Held(web, FIRST)
    async with crawler(web, gate.middleware) as session:
        first = await begun(held, gate.fetch(FIRST))
        waiting = DOORS[door](gate, session)
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


@pytest.mark.parametrize("is_closed", [False, True], ids=["dropped", "closed"])
async def test_a_waiting_coroutine_ends_in_other_ways(
    web: Web, open_gate: OpenGate, *, is_closed: bool
) -> None:
    """Nothing holds it any more, or another thread closes it: the garbage collector runs in any thread."""
    gate = await open_gate()
    held = Held(web, FIRST)
    first = await begun(held, gate.fetch(FIRST))
    waiting = gate.fetch(NEXT)
    waiting.send(None)
    if is_closed:
        await asyncio.to_thread(waiting.close)
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
        async with aiohttp.ClientSession() as session:
            gate = await make_gate(session=session).__aenter__()
            gate.learn(NEXT, b"")
            await asyncio.create_task(gate.turn(NEXT).__aenter__())
            waiting.append(gate.turn(NEXT).__aenter__())
            waiting[0].send(None)

    loop.run_until_complete(begin())
    loop.close()
    waiting[0].close()
