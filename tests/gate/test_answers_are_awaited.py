"""`gate.allowed`, `gate.check` and `gate.fetch` without ``await`` are no consent, and otherwise are coroutines."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Callable, Coroutine
from io import StringIO
from typing import TYPE_CHECKING, Final, TypeAlias

import pytest
from tests.gate.servers import OTHER, PAGE, PRIVATE, ROBOTS, RULES

from robotgate import InvalidURLError, RobotGate

if TYPE_CHECKING:
    from tests.gate.servers import Web

Ask: TypeAlias = Callable[[RobotGate, str], Coroutine[object, None, object]]


ASKS: Final[tuple[Ask, ...]] = (RobotGate.allowed, RobotGate.check, RobotGate.fetch)


@pytest.mark.parametrize("is_known", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("ask", ASKS)
async def test_forgotten_await_raises(web: Web, gate: RobotGate, ask: Ask, *, is_known: bool) -> None:
    """`if gate.allowed(url):` fetches nothing: it raises and says what is missing. The answer can still be awaited."""
    web.serve(ROBOTS, RULES)
    if is_known:
        await gate.allowed(PAGE)
    asked, answer = len(web.visits), ask(gate, PAGE)
    with pytest.raises(TypeError, match="await"):
        bool(answer)
    with pytest.raises(TypeError, match="await"):
        any([answer])
    assert len(web.visits) == asked
    assert await answer is not None


@pytest.mark.parametrize("ask", ASKS)
async def test_python_warns_of_what_was_called(web: Web, gate: RobotGate, ask: Ask) -> None:
    """By the name that is in the program, and nothing was sent; who closes it has thought of it."""
    ask(gate, PAGE).close()
    with pytest.warns(RuntimeWarning, match=f"'{ask.__qualname__}' was never awaited"):
        repr(ask(gate, PAGE))
    assert web.visits == []


@pytest.mark.parametrize("is_known", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("ask", ASKS)
async def test_tasks_are_printed(web: Web, gate: RobotGate, ask: Ask, *, is_known: bool) -> None:
    """Before they begin, while they wait and when they are done; and nothing changes for them."""
    web.serve(ROBOTS, RULES)
    if is_known:
        await gate.allowed(PAGE)
    tasks = [asyncio.create_task(ask(gate, PAGE)) for _ in range(3)]
    while not all(task.done() for task in tasks):
        assert all(f"name='{task.get_name()}'" in repr(task) for task in tasks)
        for task in tasks:
            task.print_stack(file=StringIO())
        await asyncio.sleep(0)
    assert all("finished" in repr(task) for task in tasks)
    assert None not in [task.result() for task in tasks]


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
    each = asyncio.as_completed(list(map(gate.allowed, (PAGE, PRIVATE, PAGE))))
    assert sorted([await answer for answer in each]) == [False, True, True]
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
    task = asyncio.Task(gate.allowed(PAGE))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("ask", ASKS)
async def test_one_bad_url_among_many_is_its_own_answer(gate: RobotGate, ask: Ask) -> None:
    """No error is raised before an answer is awaited: `gather` gives each its own."""
    urls = [PAGE, "ftp://site.example/", "", "http://[::1", f"{OTHER}/page"]
    answers = await asyncio.gather(*(ask(gate, url) for url in urls), return_exceptions=True)
    assert [isinstance(answer, InvalidURLError) for answer in answers] == [False, True, True, True, False]
