"""Where several waits meet: rules that expire, places that are awaited, probes under way, consumers that leave."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

import pytest
from tests.gate.virtual.test_ready import drain
from tests.paced import (
    DAY,
    OTHER,
    PAGE,
    SECURE,
    SITE,
    gate_that_knows,
    make_gate,
    now,
    scripted,
    sleep_until,
    visit,
)

from robotgate import GateClosedError, HostUnavailableError, NestedTurnError
from robotgate.sites import Answer
from robotgate.testing import ScriptedFetcher

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from robotgate import Turn


async def test_page_does_not_starve_behind_new_hosts() -> None:
    """Places under `total_rate` go in order of arrival, however many new hosts keep asking for their robots.txt."""
    async with gate_that_knows("http://k.example", delay=0, total_rate=(1, 10)) as gate:
        await visit(gate, "http://k.example/")
        page = asyncio.create_task(visit(gate, "http://k.example/2"))
        await asyncio.sleep(0)
        new = []
        for number in range(20):
            new.append(asyncio.create_task(gate.allowed(f"http://n{number}.example/")))
            await asyncio.sleep(5)
        assert page.done()
        assert page.result() == 10.0
        await asyncio.gather(*new)


async def test_delay_longer_than_rules_are_fresh() -> None:
    """Rules are asked for again once, and serve the page though they are stale by its turn."""
    answer = Answer(status=200, body=b"User-agent: *\nCrawl-delay: 400\n", cache_control="max-age=300")
    fetcher = ScriptedFetcher({}, otherwise=answer)
    async with make_gate(fetcher, max_delay=math.inf) as gate:
        assert await asyncio.wait_for(visit(gate), DAY) == 800.0
        assert len(fetcher.requests) == 2
        assert gate.host(PAGE).visits == 3


async def test_rules_that_expire_cost_no_visit() -> None:
    """A turn that waits past their end loads them again, and only requests that are sent are counted."""
    fetcher = scripted()
    async with make_gate(fetcher, delay=10) as gate:
        gate.learn(SITE, b"", fresh_until=15)
        starts = await asyncio.gather(visit(gate), visit(gate), visit(gate))
        assert list(starts) == [0.0, 10.0, 30.0]
        assert [at for at, _ in fetcher.requests] == [20.0]
        assert gate.host(PAGE).visits == 4


async def test_who_waits_for_a_place_hears_of_a_block() -> None:
    """At once, and bars no robots.txt of his host meanwhile."""
    async with gate_that_knows(SITE, OTHER, concurrency=1) as gate:
        download = asyncio.create_task(visit(gate, OTHER, takes=600.0))
        await asyncio.sleep(0)
        page = asyncio.create_task(visit(gate))
        await asyncio.sleep(1.0)
        assert await gate.allowed(SECURE)
        assert now() == 1.0
        gate.block("a.example")
        with pytest.raises(HostUnavailableError, match="the operator blocks it"):
            await page
        assert now() == 1.0
        await download


async def test_turns_within_one_another() -> None:
    """With a slot to spare, no deadlock; where only this task could free the place that it waits for, an error."""
    async with gate_that_knows(SITE, OTHER, concurrency_per_host=2, concurrency=2) as gate, gate.turn(PAGE):
        async with gate.turn(PAGE):
            assert now() == 1.0
            with pytest.raises(NestedTurnError, match="concurrency"):
                await visit(gate, OTHER)
        assert await visit(gate, OTHER) == 1.0


async def test_ending_twice_is_ending_once() -> None:
    """The end of its block ends nothing that has ended before."""
    async with gate_that_knows(SITE) as gate:
        async with gate.turn(PAGE) as turn:
            turn.end()
            await asyncio.sleep(5.0)
        view = gate.host(PAGE)
        assert (view.last_visit_at, view.visits, view.open_turns) == (0.0, 1, 0)


async def test_consumer_that_leaves_with_its_turn_loses_no_url() -> None:
    """However many steps of the loop lie between the turn and the cancellation."""
    for steps in range(7):
        async with gate_that_knows(SITE) as gate:
            await visit(gate)
            due_at = now() + 1
            came: list[str] = []

            async with gate.ready([f"{PAGE}1", f"{PAGE}2"]) as turns:

                async def consume(came: list[str], turns: AsyncIterator[Turn]) -> None:
                    async for turn in turns:
                        came.append(turn.url)
                        turn.end()

                first = asyncio.create_task(consume(came, turns))
                await sleep_until(due_at)
                for _ in range(steps):
                    await asyncio.sleep(0)
                first.cancel()
                await asyncio.wait([first])
                await consume(came, turns)
            assert sorted(came) == [f"{PAGE}1", f"{PAGE}2"]


async def test_closing_that_is_cancelled_still_ends_the_loop() -> None:
    """A waiting turn gets `GateClosedError`."""

    async def endless() -> AsyncIterator[str]:
        while True:
            yield PAGE
            await asyncio.sleep(3600)

    gate = make_gate()
    async with gate:
        turns = gate.ready(endless())
        (await anext(turns)).end()
        waiting = asyncio.create_task(anext(turns))
        await asyncio.sleep(1)
        closing = asyncio.create_task(gate.aclose())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(GateClosedError):
            await waiting
        await asyncio.wait([closing])


async def test_source_that_is_cancelled_ends_the_loop() -> None:
    """With an error: the rest of the URLs will not come."""

    async def source() -> AsyncIterator[str]:
        yield PAGE
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        gone.cancel()
        await gone

    async with make_gate() as gate:
        turns = gate.ready(source())
        with pytest.raises(RuntimeError, match="source"):
            await asyncio.wait_for(drain(turns), 100)
