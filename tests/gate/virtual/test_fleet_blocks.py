"""`gate.block` where the store passes it on: each process hears of it, heeds it, and says so, once."""

from __future__ import annotations

import asyncio
import math

import pytest
from tests.failing import FleetMemory
from tests.paced import DAY, OTHER, PAGE, SITE, kinds, listen, make_gate, now, refusal, visit
from tests.waiting import settle

from robotgate import (
    BlockCause,
    HostBlocked,
    HostOverride,
    HostRecovered,
    HostUnavailableError,
    MemoryStore,
    OptionError,
    SharedBlocks,
)

HOST = "a.example"
CAUSE = BlockCause.OPERATOR


def test_protocol_tells_who_shares() -> None:
    """A store in memory has nobody to tell."""
    assert isinstance(FleetMemory(), SharedBlocks)
    assert not isinstance(MemoryStore(), SharedBlocks)


async def test_word_is_published_once_and_as_read() -> None:
    """What comes back is no news, and is not published again."""
    store = FleetMemory()
    async with make_gate(store=store) as gate:
        heard = listen(gate)
        gate.block("A.Example.", 100.0)
        gate.block("*.B.example")
        gate.unblock(HOST)
        await settle()
    assert store.told == [(HOST, 100.0), ("*.b.example", math.inf), (HOST, 0.0)]
    assert kinds(heard) == ["HostBlocked", "HostBlocked", "HostRecovered"]


async def test_lifting_is_published_though_nothing_is_known_here() -> None:
    """Another process may know of a block that has yet to reach this one."""
    store = FleetMemory()
    async with make_gate(store=store) as gate:
        heard = listen(gate)
        gate.unblock(HOST)
        await settle()
    assert (store.told, heard) == ([(HOST, 0.0)], [])


@pytest.mark.parametrize(("pattern", "until_at"), [("a.example:80", 100.0), (HOST, -1.0)])
async def test_what_makes_no_sense_is_not_published(pattern: str, until_at: float) -> None:
    """It is refused here, and nobody else hears of it."""
    store = FleetMemory()
    async with make_gate(store=store) as gate:
        with pytest.raises(OptionError):
            gate.block(pattern, until_at)
    assert store.told == []


async def test_word_of_another_process_is_heeded() -> None:
    """Who waits is refused, a request under way ends by itself, and it is told of as one's own."""
    store = FleetMemory()
    async with make_gate(store=store) as gate:
        gate.learn(SITE, b"")
        heard: list[object] = []
        gate.subscribe(heard.append, HostBlocked, HostRecovered)
        holding = asyncio.create_task(visit(gate, takes=50.0))
        waiting = asyncio.create_task(visit(gate))
        await asyncio.sleep(10.0)
        store.tell("*.example", math.inf)
        _, at = await refusal(waiting, HostUnavailableError)
        assert (at, await holding) == (10.0, 0.0)
        assert gate.host(PAGE).blocked_by_operator_until_at == math.inf
        store.tell("*.example", 0.0)
        assert await visit(gate) == 51.0
    assert store.told == []
    assert heard == [
        HostBlocked(at=10.0, host="*.example", until_at=math.inf, cause=CAUSE),
        HostRecovered(at=50.0, host="*.example", cause=CAUSE),
    ]


async def test_what_is_no_news_is_not_told() -> None:
    """The same word again, from a clock a little off; what is over; what lifts nothing."""
    store = FleetMemory()
    async with make_gate(store=store) as gate:
        await asyncio.sleep(50.0)
        heard = listen(gate)
        store.tell(HOST, 40.0)
        store.tell(HOST, 0.0)
        store.tell(HOST, 100.0)
        store.tell(HOST, 100.0 + 1e-7)
        await asyncio.sleep(100.0)
        store.tell(HOST, 100.0)
        store.tell(HOST, 0.0)
        await settle()
    assert heard == [HostBlocked(at=50.0, host=HOST, until_at=100.0, cause=CAUSE)]


async def test_gate_that_opens_later_heeds_what_stands() -> None:
    """From its first request on; its options and overrides are its own."""
    store = FleetMemory()
    async with make_gate(store=store) as first:
        first.block(HOST, DAY / 2)
        first.block("b.example")
    patient = {HOST: HostOverride(max_block=math.inf)}
    async with make_gate(store=store, overrides=patient) as second:
        await refusal(visit(second, OTHER), HostUnavailableError)
        assert await visit(second) == DAY / 2 + 1
    assert len(store.told) == 2


async def test_every_gate_of_a_store_heeds_it() -> None:
    """Each tells its own subscribers; one that is closed hears nothing, and is kept by nothing."""
    store = FleetMemory()
    async with make_gate(store=store) as one, make_gate(store=store) as two:
        heard, heard_by_two = listen(one), listen(two)
        one.block(HOST, 400.0)
        await settle()
        assert heard == heard_by_two == [HostBlocked(at=now(), host=HOST, until_at=400.0, cause=CAUSE)]
        await refusal(visit(two), HostUnavailableError)
    assert store.callbacks == []
