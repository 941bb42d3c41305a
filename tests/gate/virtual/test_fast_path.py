"""The way a turn takes that is plainly to be had at once: nothing that the long way looks at is lost on it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.paced import (
    DAY,
    HOUR,
    PAGE,
    ROBOTS,
    SITE,
    everywhere,
    gate_that_knows,
    make_gate,
    now,
    refusal,
    sleep_until,
    visit,
)
from tests.waiting import settle

from robotgate import DisallowedError, HostUnavailableError, MemoryStore, TooSoonError
from robotgate.sites import Answer
from robotgate.testing import ScriptedFetcher

if TYPE_CHECKING:
    from robotgate import RobotGateError
    from robotgate.sites import Failure

HOST = "a.example"
UNASKING = b"User-agent: *\nDisallow: /private\n"


async def test_stale_rules_are_asked_for_again() -> None:
    """A host that is never left alone has its robots.txt read anew, and is held to the new one."""
    sites: dict[str, Answer | Failure] = {ROBOTS: Answer(status=200, body=b"")}
    fetcher = ScriptedFetcher(sites, otherwise=Answer(status=404))
    async with make_gate(fetcher, delay=0.0) as gate:
        assert await visit(gate) == 0.0
        await sleep_until(DAY - 5)
        assert await visit(gate) == DAY - 5
        sites[ROBOTS] = Answer(status=200, body=b"User-agent: *\nDisallow: /page\n")
        await sleep_until(DAY + 1)
        await refusal(visit(gate), DisallowedError)
    assert [url for _, url in fetcher.requests] == [ROBOTS, ROBOTS]


async def test_turn_handed_over_is_nobodys_until_its_block() -> None:
    """Who takes a turn from `ready` and asks for the next first, waits: he is not told that he has it himself."""
    refused: list[tuple[str, RobotGateError]] = []
    async with make_gate(everywhere(UNASKING), delay=0.0) as gate:
        await visit(gate)
        turns = gate.ready([f"{SITE}/1", f"{SITE}/2"], on_refusal=lambda *args: refused.append(args))
        first = await anext(turns)
        second = asyncio.create_task(anext(turns))
        await settle()
        assert (second.done(), refused) == (False, [])
        first.end()
        assert (await second).url == f"{SITE}/2"
        second.result().end()
        await turns.aclose()


async def test_wait_of_a_turn_had_again_is_the_last_one() -> None:
    """From asking again to having it again."""
    async with make_gate(delay=3.0) as gate:
        await visit(gate)
        async with gate.turn(PAGE) as turn:
            assert (turn.waited, now()) == (3.0, 6.0)
            await asyncio.sleep(1.0)
            await turn.again()
            assert (turn.waited, now()) == (3.0, 10.0)
            await asyncio.sleep(5.0)
            assert turn.waited == 3.0


async def test_turn_that_is_not_had_again_has_waited_no_time() -> None:
    """The wait of the first attempt is over, and the second never began."""
    async with make_gate(delay=3.0) as gate, gate.turn(PAGE) as turn:
        await asyncio.sleep(1.0)
        gate.block("a.example", HOUR)
        with pytest.raises(HostUnavailableError):
            await turn.again()
        assert turn.waited == 0.0


async def test_host_forgiven_by_its_first_good_answer() -> None:
    """Blocks that another process saw count no more half an hour after the last, once there is a good answer."""
    store = MemoryStore()
    async with make_gate(store=store, delay=0.0) as blocked:
        await visit(blocked, status=429)
    async with make_gate(store=store, delay=0.0) as gate:
        await sleep_until(HOUR)
        await gate.allowed(PAGE)
        assert gate.host(PAGE).failures == 1
        await visit(gate, status=200)
        assert gate.host(PAGE).failures == 0


async def test_turn_that_is_ended_while_a_task_waits_for_it() -> None:
    """The task gets an error in words, and the next turn goes on: nothing waits forever."""
    async with make_gate(everywhere(UNASKING), delay=3.0) as gate:
        await visit(gate)
        turn = gate.turn(PAGE)
        waiter = asyncio.create_task(turn.__aenter__())
        await settle()
        turn.end()
        with pytest.raises(RuntimeError, match="ended while"):
            await waiter
        assert gate.host(PAGE).waiting == 0
        assert await visit(gate) == now() == 6.0


async def test_turn_is_entered_once() -> None:
    """Twice is a mistake that would lose a turn: neither within its block nor after."""
    async with gate_that_knows(SITE) as gate:
        pending = gate.turn(PAGE)
        async with pending:
            with pytest.raises(RuntimeError, match="once"):
                await pending.__aenter__()
            assert gate.host(PAGE).open_turns == 1
        with pytest.raises(RuntimeError, match="once"):
            await pending.__aenter__()
        assert (gate.host(PAGE).open_turns, gate.host(PAGE).waiting, gate.host(PAGE).visits) == (0, 0, 1)


async def test_turn_that_was_refused_is_not_entered_again() -> None:
    """The gate is asked for another."""
    async with gate_that_knows(SITE) as gate:
        await visit(gate)
        pending = gate.turn(PAGE, max_wait=0.0)
        with pytest.raises(TooSoonError):
            await pending.__aenter__()
        await asyncio.sleep(5.0)
        with pytest.raises(RuntimeError, match="once"):
            await pending.__aenter__()
