"""How many requests are under way at one host: never more than it is granted, whatever ends at one instant."""

from __future__ import annotations

import asyncio

import pytest
from tests.paced import PAGE, make_gate, now


@pytest.mark.parametrize("delay", [0.0, 0.5])
@pytest.mark.parametrize("slots", [1, 2, 3, 4])
async def test_several_that_end_at_once_make_room_for_as_many(slots: int, delay: float) -> None:
    """Each turn that ends lets one begin, also where several end at the same instant."""
    gate = make_gate(delay=delay, concurrency_per_host=slots)
    under_way: set[int] = set()
    most = 0

    async def visit(number: int, until_at: float) -> None:
        nonlocal most
        async with gate.turn(PAGE):
            under_way.add(number)
            most = max(most, len(under_way))
            await asyncio.sleep(until_at - now())
            under_way.discard(number)

    async with gate:
        gate.learn(PAGE, b"")
        # The first of them all end at ten seconds; each of the others a long while later.
        ends = [10.0] * slots + [20.0 + number for number in range(2 * slots)]
        await asyncio.gather(*(visit(number, until_at) for number, until_at in enumerate(ends)))
    assert most == slots
