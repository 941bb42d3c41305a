"""Callers that come while a robots.txt waits for its host's turn cost the same, however many wait already."""

from __future__ import annotations

import asyncio
from typing import Final

from benchmarks.way import count
from tests.paced import PAGE, SITE, asks, make_gate, scripted, visit
from tests.waiting import settle

EXPIRED: Final = 2 * 24 * 3600.0
"""Seconds after which rules have to be requested again."""
CALLERS: Final = 40


async def test_a_caller_that_joins_is_looked_at_alone() -> None:
    """Whether it would wait for itself is found out once: forty more cost what the first forty did."""
    async with make_gate(scripted({SITE: asks("Disallow: /private")})) as gate:
        waiting: list[asyncio.Task[bool]] = []

        async def join() -> None:
            waiting.extend(asyncio.create_task(gate.allowed(PAGE)) for _ in range(CALLERS))
            await settle()

        holder = asyncio.create_task(visit(gate, takes=EXPIRED + 60.0))
        await asyncio.sleep(EXPIRED)
        await join()
        second, third = [sum(entry.calls for entry in await count(join)) for _ in range(2)]
        assert third <= 1.1 * second
        await holder
        assert await asyncio.gather(*waiting) == [True] * 3 * CALLERS
