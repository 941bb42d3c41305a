"""How many requests are under way at one host: never more than it is granted, whatever ends at one instant."""

from __future__ import annotations

import asyncio

import pytest
from tests.paced import PAGE, SITE, make_gate, now, visit
from tests.waiting import settle

from robotgate import HostOverride


@pytest.mark.parametrize("delay", [0.0, 0.5])
@pytest.mark.parametrize("slots", [1, 2, 3, 4])
async def test_several_that_end_at_once_make_room_for_as_many(slots: int, delay: float) -> None:
    """Each turn that ends lets one begin, also where several end at the same instant."""
    gate = make_gate(delay=delay, concurrency_per_host=slots)
    under_way: set[int] = set()
    most = 0

    async def come(number: int, until_at: float) -> None:
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
        await asyncio.gather(*(come(number, until_at) for number, until_at in enumerate(ends)))
    assert most == slots


async def test_fewer_slots_hold_a_turn_that_is_about_to_begin() -> None:
    """It waits for the open one, and for the delay after it."""
    async with make_gate(concurrency_per_host=2) as gate:
        gate.learn(SITE, b"")
        holding = asyncio.create_task(visit(gate, takes=10.0))
        waiting = asyncio.create_task(visit(gate))
        await settle()
        loop = asyncio.get_running_loop()
        # It is granted at this instant, by a timer that was set before.
        loop.call_at(1.0, gate.override, "a.example", HostOverride(concurrency_per_host=1))
        assert (await holding, await waiting) == (0.0, 11.0)
