"""Callers that come while a robots.txt waits for its host's turn cost the same, however many wait already."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from benchmarks.way import count
from tests.paced import PAGE, SITE, asks, make_gate, scripted
from tests.waiting import settle

EXPIRED: Final = 2 * 24 * 3600.0
"""Seconds after which rules have to be requested again."""
CALLERS: Final = 40


async def test_a_caller_that_joins_is_looked_at_alone() -> None:
    """Whether it would wait for itself; those that wait already were asked before."""
    async with make_gate(scripted({SITE: asks("Disallow: /private")})) as gate:
        release = asyncio.Event()

        async def hold() -> None:
            async with gate.turn(PAGE):
                await release.wait()

        async def join(callers: int) -> list[asyncio.Task[bool]]:
            tasks = [asyncio.create_task(gate._allowed(PAGE)) for _ in range(callers)]
            await settle()
            return tasks

        holder = asyncio.create_task(hold())
        await asyncio.sleep(EXPIRED)
        waiting = await join(CALLERS)
        entries = await count(partial(join, CALLERS))
        looks = sum(entry.calls for entry in entries if entry.function == "Scheduler.nested")
        assert looks == CALLERS
        release.set()
        await holder
        assert await asyncio.gather(*waiting) == [True] * CALLERS
