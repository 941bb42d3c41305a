"""A store that says by itself when it is lost and when it is back, and one that does not."""

from __future__ import annotations

import asyncio

import pytest
from tests.failing import FailingStore, ReportingMemory
from tests.paced import OTHER, PAGE, SITE, kinds, listen, make_gate, refusal, visit
from tests.waiting import settle

from robotgate import ReportingStore, StoreError, StoreLost, StoreRecovered

ERROR = StoreError("the server is gone: start it")
STORE_EVENTS = (StoreLost, StoreRecovered)


def test_protocol_tells_who_reports() -> None:
    """What does not report is asked nothing."""
    assert isinstance(ReportingMemory(), ReportingStore)
    assert not isinstance(FailingStore(), ReportingStore)


async def test_both_ways_are_told_at_once() -> None:
    """While pages wait for it, and before anything has failed."""
    store = ReportingMemory()
    async with make_gate(store=store) as gate:
        heard = listen(gate)
        await asyncio.sleep(1.0)
        store.report(ERROR)
        await asyncio.sleep(2.0)
        store.report(None)
        await settle()
    assert heard == [StoreLost(at=1.0, error=ERROR), StoreRecovered(at=3.0)]


async def test_said_twice_is_told_once() -> None:
    """Another cause is the same loss."""
    store = ReportingMemory()
    async with make_gate(store=store) as gate:
        heard = listen(gate)
        store.report(None)
        store.report(ERROR)
        store.report(StoreError("no route: plug it in"))
        store.report(None)
        store.report(None)
        await settle()
    assert kinds(heard) == ["StoreLost", "StoreRecovered"]


async def test_call_that_fails_as_well_is_no_other_loss() -> None:
    """Nor is its success an end, before the store says so; what it failed at is over then, too."""
    store = ReportingMemory()
    async with make_gate(store=store) as gate:
        await visit(gate)
        heard: list[object] = []
        gate.subscribe(heard.append, *STORE_EVENTS)
        store.report(ERROR)
        store.fails = {"remember_host"}
        await refusal(visit(gate), StoreError)
        store.recover()
        await visit(gate)
        store.fails = {"remember_host"}
        await refusal(visit(gate), StoreError)
        await settle()
        assert heard == [StoreLost(at=1.0, error=ERROR)]
        store.recover()
        store.report(None)
        await settle()
        assert [type(event) for event in heard] == [StoreLost, StoreRecovered]
        store.fails = {"remember_host"}
        await refusal(visit(gate), StoreError)
        await settle()
    assert [type(event) for event in heard] == [StoreLost, StoreRecovered, StoreLost]


async def test_loss_that_a_call_met_first() -> None:
    """The store says so later, and it stays one."""
    store = ReportingMemory()
    async with make_gate(store=store) as gate:
        await visit(gate)
        heard: list[object] = []
        gate.subscribe(heard.append, *STORE_EVENTS)
        store.fails = {"remember_host"}
        await refusal(visit(gate), StoreError)
        store.report(ERROR)
        store.recover()
        store.report(None)
        await settle()
    assert [type(event) for event in heard] == [StoreLost, StoreRecovered]


async def test_every_gate_of_a_store_hears() -> None:
    """One that opens while it is lost is told so; a closed one hears nothing, and is kept by nothing."""
    store = ReportingMemory()
    async with make_gate(store=store) as one:
        heard = listen(one)
        async with make_gate(store=store):
            store.report(ERROR)
        other = make_gate(store=store)
        heard_by_other = listen(other)
        async with other:
            await settle()
            assert kinds(heard_by_other) == ["StoreLost"]
        store.report(None)
        await settle()
    assert kinds(heard) == ["StoreLost", "StoreRecovered"]
    assert kinds(heard_by_other) == ["StoreLost"]
    assert store.callbacks == []


@pytest.mark.parametrize(
    "fails",
    [{"remember_host"}, {"recall_host"}, {"recall_host", "remember_host"}, {"save_record", "remember_host"}],
)
async def test_store_that_does_not_report_works_again_when_it_does(fails: set[str]) -> None:
    """Though nobody saves a record ever again: what failed together works again with the first word it takes."""
    store = FailingStore()
    async with make_gate(store=store) as gate:
        await visit(gate)
        heard: list[object] = []
        gate.subscribe(heard.append, *STORE_EVENTS)
        store.fails = fails
        await refusal(visit(gate), StoreError)
        gate.learn(OTHER, b"")
        await asyncio.sleep(10.0)
        store.recover()
        await visit(gate)
        await settle()
    assert [type(event) for event in heard] == [StoreLost, StoreRecovered]


async def test_store_that_can_be_read_may_be_full() -> None:
    """A host that is remembered says nothing of records that are not."""
    store = FailingStore()
    async with make_gate(store=store) as gate:
        gate.learn(SITE, b"")
        await settle()
        heard: list[object] = []
        gate.subscribe(heard.append, *STORE_EVENTS)
        store.fails = {"save_record"}
        gate.learn(OTHER, b"")
        await settle()
        for _ in range(5):
            await visit(gate, PAGE)
        assert [type(event) for event in heard] == [StoreLost]
        store.recover()
        gate.learn(OTHER, b"")
        await settle()
    assert [type(event) for event in heard] == [StoreLost, StoreRecovered]


async def test_reading_ends_no_failure_to_write() -> None:
    """Both failed; a record that can be read again is not yet one that can be saved."""
    store = FailingStore()
    store.fails = {"load_record", "save_record"}
    async with make_gate(store=store) as gate:
        heard: list[object] = []
        gate.subscribe(heard.append, *STORE_EVENTS)
        gate.learn(OTHER, b"")
        with pytest.raises(StoreError):
            await gate.robots(PAGE)
        store.fails = {"save_record"}
        with pytest.raises(StoreError):
            await gate.robots(PAGE)
        await settle()
        assert [type(event) for event in heard] == [StoreLost]
        store.recover()
        await gate.refresh(PAGE)
        await settle()
    assert [type(event) for event in heard] == [StoreLost, StoreRecovered]
