"""`gate.allowed`, `gate.check` and `gate.fetch` without ``await`` are no consent, and otherwise are coroutines."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Coroutine
from typing import TYPE_CHECKING

import pytest

from robotgate import InvalidURLError, RobotGate

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gate.servers import Web

SITE = "http://site.example"
ROBOTS = f"{SITE}/robots.txt"
PAGE = f"{SITE}/page"
PRIVATE = f"{SITE}/private"
RULES = "User-agent: *\nDisallow: /private"


def _allowed(gate: RobotGate) -> Coroutine[object, None, object]:
    return gate.allowed(PRIVATE)


def _check(gate: RobotGate) -> Coroutine[object, None, object]:
    return gate.check(PRIVATE)


def _fetch(gate: RobotGate) -> Coroutine[object, None, object]:
    return gate.fetch(PRIVATE)


@pytest.mark.parametrize("is_known", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("ask", [_allowed, _check, _fetch])
async def test_forgotten_await_raises(
    web: Web, gate: RobotGate, ask: Callable[[RobotGate], Coroutine[object, None, object]], *, is_known: bool
) -> None:
    """`if gate.allowed(url):` fetches nothing: it raises, says what is missing, and leaves nothing behind."""
    web.serve(ROBOTS, RULES)
    if is_known:
        await gate.allowed(PAGE)
    asked = len(web.visits)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TypeError, match="await"):
            bool(ask(gate))
        gc.collect()
    assert len(web.visits) == asked


async def test_warm_answer_that_nobody_awaits_is_silent(web: Web, gate: RobotGate) -> None:
    """Dropping it warns of nothing, and holds nothing."""
    web.serve(ROBOTS, RULES)
    await gate.allowed(PAGE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gate.allowed(PAGE)
        gc.collect()


@pytest.mark.parametrize("is_known", [False, True], ids=["cold", "warm"])
async def test_answers_are_coroutines(web: Web, gate: RobotGate, *, is_known: bool) -> None:
    """They go where coroutines go: tasks, `gather`, `wait_for`, task groups."""
    web.serve(ROBOTS, RULES)
    if is_known:
        await gate.allowed(PAGE)
    assert isinstance(asking := gate.allowed(PAGE), Coroutine)
    assert await asyncio.create_task(asking) is True
    assert await asyncio.create_task(gate.allowed(PRIVATE)) is False
    assert (await asyncio.wait_for(gate.check(PRIVATE), 10)).allowed is False
    assert await asyncio.gather(*map(gate.allowed, (PAGE, PRIVATE, PAGE))) == [True, False, True]
    async with asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(gate.allowed(url)) for url in (PAGE, PRIVATE)]
    assert [task.result() for task in asked] == [True, False]


async def test_answers_stand_by_hand_and_by_a_cancelled_task(web: Web, gate: RobotGate) -> None:
    """A warm answer may be sent to, closed, awaited again, and its task cancelled before it has run."""
    web.serve(ROBOTS, RULES)
    await gate.allowed(PAGE)
    known = gate.allowed(PAGE)
    with pytest.raises(StopIteration) as ended:
        known.send(None)
    assert ended.value.value is True
    known.close()
    assert [await known, await known] == [True, True]
    with pytest.raises(ValueError, match="mine"):
        known.throw(ValueError("mine"))
    with pytest.raises(KeyError):
        known.throw(KeyError)
    task = asyncio.create_task(gate.allowed(PAGE))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_one_bad_url_among_many_is_its_own_answer(web: Web, gate: RobotGate) -> None:
    """No error is raised before an answer is awaited: `gather` gives each its own."""
    web.serve(ROBOTS, RULES)
    urls = (PAGE, "ftp://site.example/", PRIVATE)
    first, error, last = await asyncio.gather(*map(gate.allowed, urls), return_exceptions=True)
    assert (first, last) == (True, False)
    assert isinstance(error, InvalidURLError)
