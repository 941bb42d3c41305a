"""How many requests may be under way: over all hosts, at one host, and within a connector that is not ours."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import aiohttp
import pytest
from tests.paced import OTHER, PAGE, gate_that_knows, make_gate, now, sleep_until, visit, visits
from tests.waiting import settle

from robotgate import HostOverride
from robotgate.sites import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping


async def test_who_waits_out_a_block_holds_no_place() -> None:
    """Nor does a turn that waits for a blocked host."""
    async with gate_that_knows(PAGE, OTHER, concurrency=1) as gate:
        gate.block("a.example", 300.0)
        slow = [asyncio.create_task(visit(gate)) for _ in range(3)]
        await settle()
        assert await visits(gate, 3, OTHER) == [0.0, 1.0, 2.0]
        assert await asyncio.gather(*slow) == [300.0, 301.0, 302.0]


async def test_limit_of_a_connector_over_our_own() -> None:
    """Pages as `concurrency` says; robots.txt gets what is left of the connector."""
    under_way: Counter[str] = Counter()
    most: Counter[str] = Counter()

    async def stay(what: str, seconds: float) -> None:
        under_way[what] += 1
        most[what] = max(most[what], under_way[what])
        most["all"] = max(most["all"], under_way.total())
        await asyncio.sleep(seconds)
        under_way[what] -= 1

    class Missing:
        """Every robots.txt is missing, which takes a while."""

        async def fetch(
            self, url: str, *, headers: Mapping[str, str], max_bytes: int, timeout: float
        ) -> Answer:
            """Missing."""
            await stay("robots.txt", 2.0)
            return Answer(status=404)

    async def come(host: str) -> None:
        async with gate.turn(f"http://{host}.example/"):
            await stay("pages", 5.0)

    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=10)) as session,
        make_gate(Missing(), session=session, concurrency=7) as gate,
    ):
        for host in "abcdefgh":
            gate.learn(f"http://{host}.example/", b"")
        await asyncio.gather(*(come(host) for host in [*"abcdefgh", *map("h{}".format, range(20))]))
    assert most == {"pages": 7, "robots.txt": 3, "all": 10}


async def test_override_lowers_the_slots_while_turns_are_open() -> None:
    """No request is broken off; the next starts when few enough are open, and the delay counts from the end again."""
    async with gate_that_knows(PAGE, delay=1.0, concurrency_per_host=3) as gate:
        tasks = [asyncio.create_task(visit(gate, takes=10.0)) for _ in range(6)]
        await sleep_until(5.0)
        assert gate.host(PAGE).open_turns == 3
        gate.override("a.example", HostOverride(concurrency_per_host=1))
        assert gate.host(PAGE).open_turns == 3
        assert await asyncio.gather(*tasks) == [0.0, 1.0, 2.0, 13.0, 24.0, 35.0]


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
    async with gate_that_knows(PAGE, concurrency_per_host=2) as gate:
        holding = asyncio.create_task(visit(gate, takes=10.0))
        waiting = asyncio.create_task(visit(gate))
        await settle()
        loop = asyncio.get_running_loop()
        # It is granted at this instant, by a timer that was set before.
        loop.call_at(1.0, gate.override, "a.example", HostOverride(concurrency_per_host=1))
        assert (await holding, await waiting) == (0.0, 11.0)
