"""A shared store that cannot be reached for a while: hosts that were granted go on for a lease, all else waits."""

from __future__ import annotations

import asyncio
import random

import pytest
from tests.failing import LEASE, LosableStore
from tests.paced import (
    OTHER,
    PAGE,
    SITE,
    Seen,
    asks,
    gate_that_knows,
    kinds,
    listen,
    make_gate,
    now,
    refusal,
    scripted,
    seeds,
    visit,
)
from tests.waiting import settle

from robotgate import GateClosedError, StoreError, TooSoonError
from robotgate.events import StoreLost, StoreRecovered

ERROR = StoreError("the server is gone: start it")


async def test_every_gate_of_a_store_is_told() -> None:
    """At once, before anything has failed, and once, whatever the causes. One that opens while it is lost is told so.
    One that is closed hears nothing.
    """
    store = LosableStore()
    async with make_gate(store=store) as one:
        heard = listen(one)
        async with make_gate(store=store) as closed:
            heard_by_closed = listen(closed)
        await asyncio.sleep(1.0)
        store.lose(ERROR)
        await asyncio.sleep(2.0)
        store.lose(StoreError("no route: plug it in"))
        other = make_gate(store=store)
        heard_by_other = listen(other)
        async with other:
            await settle()
            assert kinds(heard_by_other) == ["StoreLost"]
            store.find()
            store.find()
            await settle()
    assert heard == [StoreLost(at=1.0, error=ERROR), StoreRecovered(at=3.0)]
    assert kinds(heard_by_other) == ["StoreLost", "StoreRecovered"]
    assert heard_by_closed == []


async def test_calls_that_fail_meanwhile_are_no_other_loss() -> None:
    """What failed together is over when the store says so."""
    store = LosableStore()
    async with make_gate(store=store) as gate:
        await visit(gate)
        heard = listen(gate, StoreLost, StoreRecovered)
        store.fails = {"save_record"}
        gate.learn(OTHER, b"")
        await settle()
        store.lose(ERROR)
        gate.learn(OTHER, b"")
        await visit(gate)
        await asyncio.sleep(5.0)
        assert kinds(heard) == ["StoreLost"]
        store.find()
        await asyncio.sleep(5.0)
        await visit(gate)
    assert kinds(heard) == ["StoreLost", "StoreRecovered"]


async def test_granted_hosts_go_on_for_a_lease() -> None:
    """Then their turns wait as all others do, and come when the store is found; no page fails, no gap is short."""
    store, fetcher = LosableStore(), scripted({SITE: asks("Crawl-delay: 5")})
    async with make_gate(fetcher, store=store) as gate:
        await visit(gate)
        lost_at = now()
        store.lose(ERROR)
        waiting = [asyncio.create_task(visit(gate)) for _ in range(6)]
        unknown = asyncio.create_task(visit(gate, OTHER))
        assert gate.allowed_nowait(PAGE) is True
        await asyncio.sleep(100.0)
        assert [task.done() for task in waiting] == [True] * 3 + [False] * 3
        assert not unknown.done()
        store.find()
        found_at = now()
        assert await asyncio.gather(*waiting) == [
            *(lost_at + 5.0 * n for n in (1, 2, 3)),
            *(found_at + 5.0 * n for n in (0, 1, 2)),
        ]
        assert await unknown == found_at + 1.0
    assert LEASE < 20.0


async def test_hosts_that_others_want_go_on_for_a_lease() -> None:
    """They are handed on when the store is found: before that no other gate could obtain them."""
    store, fetcher = LosableStore(), scripted({SITE: asks("Crawl-delay: 5")})
    async with make_gate(fetcher, store=store) as one, make_gate(fetcher, store=store) as two:
        begun_at = await visit(one)
        waiting = [asyncio.create_task(visit(one, takes=1.0)) for _ in range(3)]
        await asyncio.sleep(5.5)
        other = asyncio.create_task(visit(two))
        await asyncio.sleep(0.2)
        store.lose(ERROR)
        await asyncio.sleep(6.8)
        assert [task.done() for task in waiting] == [True, True, False]
        assert not other.done()
        store.find()
        assert await asyncio.gather(*waiting, other) == [begun_at + n for n in (5.0, 11.0, 22.0, 17.0)]


async def test_patience_ends_with_the_reason() -> None:
    """A call whose `max_wait` ends gets the error of the store, not of the pace, unless the gate holds the host."""
    store = LosableStore()
    async with make_gate(store=store) as gate:
        await visit(gate)
        store.lose(ERROR)
        await refusal(visit(gate, max_wait=0.5), TooSoonError)
        for url in (PAGE, OTHER):
            begun_at = now()
            if url == PAGE:
                await asyncio.sleep(LEASE)
                begun_at = now()
            error, at = await refusal(visit(gate, url, max_wait=5.0), StoreError)
            assert "start it" in str(error) or "make room" in str(error)
            assert at <= begun_at + 7.0
        store.find()
        await visit(gate)
        await visit(gate, OTHER)


async def test_store_that_gives_up() -> None:
    """Turns of hosts that are not granted raise what it says; granted ones go on, and in the end all do."""
    store = LosableStore()
    async with gate_that_knows(OTHER, store=store) as gate:
        await visit(gate)
        await settle()
        store.lose(ERROR)
        store.give_up()
        outcomes = await asyncio.gather(*(visit(gate, OTHER) for _ in range(3)), return_exceptions=True)
        assert [str(outcome) for outcome in outcomes] == [str(ERROR)] * 3
        await visit(gate)
        await asyncio.sleep(LEASE)
        error, _ = await refusal(visit(gate), StoreError)
        assert str(error) == str(ERROR)
        store.find()
        await visit(gate)
        await visit(gate, OTHER)


async def test_closing_waits_for_no_store_that_is_lost() -> None:
    """Turns that wait for it are refused because the gate is closed."""
    store = LosableStore()
    gate = await make_gate(store=store).__aenter__()
    await visit(gate)
    store.lose(ERROR)
    await asyncio.sleep(LEASE)
    waiting = [asyncio.create_task(visit(gate, url)) for url in (PAGE, PAGE, OTHER)]
    await settle()
    await gate.aclose()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [GateClosedError] * 3
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_turn_that_ends_after_its_lease_is_told_when_the_store_is_found() -> None:
    """The next gate waits for the delay from its end on."""
    store = LosableStore()
    async with make_gate(store=store) as one, make_gate(store=store) as two:
        for gate in (one, two):
            gate.learn(PAGE, b"")
        holding = asyncio.create_task(visit(one, takes=30.0))
        await asyncio.sleep(1.0)
        store.lose(ERROR)
        other = asyncio.create_task(visit(two))
        await holding
        waiting = asyncio.create_task(visit(one))
        await asyncio.sleep(0.5)
        store.find()
        assert sorted(await asyncio.gather(other, waiting)) == [31.0, 32.0]


@pytest.mark.parametrize("seed", [*seeds(4, 20), 107])
async def test_no_gap_is_short_whenever_the_store_is_lost(seed: int) -> None:
    """Lost again and again, for longer or shorter than a lease, before two gates that want the same hosts."""
    chance = random.Random(seed)
    store = LosableStore()
    seen = Seen(chance)
    async with (
        make_gate(store=store) as one,
        make_gate(store=store, max_hosts=chance.choice([1, 100])) as two,
        asyncio.timeout(10_000.0),
    ):
        coming = []
        for _ in range(60):
            await asyncio.sleep(chance.choice([0.0, 0.5, 5.0, 20.0]))
            if chance.random() < 0.3:
                store.lose(ERROR)
            elif chance.random() < 0.4:
                store.find()
            gate, url = chance.choice([one, two]), chance.choice([PAGE, OTHER])
            coming.append(asyncio.create_task(seen.visit(gate, url)))
        store.find()
        await asyncio.sleep(1.0)
        await asyncio.gather(*coming, return_exceptions=True)
        assert {type(task.exception()) for task in coming} <= {type(None), StoreError}
        for url in (PAGE, OTHER):
            await seen.visit(one, url)
            await seen.visit(two, url)
    assert seen.short_gaps({}) == []
