"""`gate.block` where gates share a store: each hears of it, heeds it, and reports it once."""

from __future__ import annotations

import asyncio
import math

import pytest
from tests.paced import DAY, OTHER, PAGE, SITE, gate_that_knows, kinds, listen, make_gate, now, refusal, visit
from tests.waiting import settle

from robotgate import HostOverride, HostUnavailableError, MemoryStore, OptionError
from robotgate.events import BlockCause, HostBlocked, HostRecovered

HOST = "a.example"
CAUSE = BlockCause.OPERATOR


async def test_block_of_another_gate_is_heeded() -> None:
    """Turns that wait are refused, a request under way ends by itself, and it is reported as one of the gate's own."""
    store = MemoryStore()
    async with gate_that_knows(SITE, store=store) as gate, make_gate(store=store) as other:
        heard = listen(gate, HostBlocked, HostRecovered)
        holding = asyncio.create_task(visit(gate, takes=50.0))
        waiting = asyncio.create_task(visit(gate))
        await asyncio.sleep(10.0)
        other.block("*.Example.")
        _, at = await refusal(waiting, HostUnavailableError)
        assert (at, await holding) == (10.0, 0.0)
        assert gate.host(PAGE).blocked_by_operator_until_at == math.inf
        other.unblock("*.example")
        await settle()
        assert await visit(gate) == 51.0
    assert heard == [
        HostBlocked(at=10.0, host="*.example", until_at=math.inf, cause=CAUSE),
        HostRecovered(at=50.0, host="*.example", cause=CAUSE),
    ]


async def test_block_is_reported_once_at_each_gate() -> None:
    """The gate that was told, too; what is said again, or lifts nothing, is no news."""
    store = MemoryStore()
    async with make_gate(store=store) as one, make_gate(store=store) as two:
        heard, heard_by_two = listen(one), listen(two)
        one.block(HOST, 400.0)
        two.block(HOST, 400.0)
        one.unblock("b.example")
        await settle()
        assert heard == heard_by_two == [HostBlocked(at=now(), host=HOST, until_at=400.0, cause=CAUSE)]
        await refusal(visit(two), HostUnavailableError)
        two.unblock(HOST)
        await settle()
        assert (kinds(heard)[-1], kinds(heard_by_two).count("HostRecovered")) == ("HostRecovered", 1)
        assert await visit(one) == 1.0


@pytest.mark.parametrize(("pattern", "until_at"), [("a.example:80", 100.0), (HOST, -1.0)])
async def test_what_makes_no_sense_is_not_passed_on(pattern: str, until_at: float) -> None:
    """It is refused here, and no other gate hears of it."""
    store = MemoryStore()
    async with make_gate(store=store) as one, make_gate(store=store) as two:
        heard = listen(two)
        with pytest.raises(OptionError):
            one.block(pattern, until_at)
        await settle()
        assert heard == []


async def test_gate_that_opens_later_heeds_what_stands() -> None:
    """From its first request on, robots.txt included; its options and overrides are its own."""
    store = MemoryStore()
    async with make_gate(store=store) as first:
        first.block(HOST, DAY / 2)
        first.block("b.example")
    patient = {HOST: HostOverride(max_block=math.inf)}
    async with make_gate(store=store, overrides=patient) as second:
        await refusal(visit(second, OTHER), HostUnavailableError)
        assert await visit(second) == DAY / 2 + 1
