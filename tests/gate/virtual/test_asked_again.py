"""`gate.refresh`: a robots.txt is asked for again now, whatever is fresh."""

from __future__ import annotations

import asyncio

import pytest
from tests.gate.virtual.site import CLOSED, DEAD, OPEN, PRIVATE, UNCHANGED, Site
from tests.paced import DAY, MINUTE, PAGE, SITE, now, visit
from tests.waiting import settle

from robotgate import HostOverride, HostUnavailableError, NestedTurnError, Origin
from robotgate.sites import Outcome


async def test_what_is_fresh_is_asked_for_again() -> None:
    """The new rules hold at once, and for the store; the request asks only for what has changed."""
    site = Site()
    async with site.gate as gate:
        assert not await gate.allowed(PRIVATE)
        await asyncio.sleep(MINUTE)
        site.becomes(OPEN)
        record = await gate.refresh(PAGE)
        assert (record.body, record.checked_at) == (OPEN.body, MINUTE)
        assert gate.allowed_nowait(PRIVATE)
        assert await site.store.load_record(Origin.of(SITE)) == record
    assert site.asked_at == [0.0, MINUTE]
    assert site.conditions == [None, '"v1"']


async def test_what_the_store_alone_knows_is_asked_for_again() -> None:
    """A gate that begins anew does not take the store's word; a 304 confirms the copy there."""
    first, later = Site(), Site()
    async with first.gate as gate:
        await gate.allowed(PAGE)
    await asyncio.sleep(MINUTE)
    known = await first.store.load_record(Origin.of(SITE))
    assert known is not None
    await later.store.save_record(known)
    later.becomes(UNCHANGED)
    async with later.gate as gate:
        record = await gate.refresh(PAGE)
    assert (record.body, record.fetched_at, later.asked_at) == (CLOSED.body, MINUTE, [MINUTE])


async def test_failure_leaves_a_fresh_copy() -> None:
    """Neither the rules nor their end is worse for having been asked for; the record tells of the attempt."""
    site = Site()
    async with site.gate as gate:
        before = await gate.robots(PAGE)
        await asyncio.sleep(MINUTE)
        site.becomes(DEAD)
        after = await gate.refresh(PAGE)
        verdict = await gate.check(PRIVATE)
    assert (after.outcome, after.fresh_until_at, after.fetched_at) == (Outcome.SUCCESS, DAY, 0.0)
    assert (before.failures, after.failures, after.checked_at) == (0, 1, MINUTE)
    assert not verdict.stale
    assert not verdict.allowed
    assert await site.store.load_record(Origin.of(SITE)) == after


async def test_whoever_asks_meanwhile_is_answered_by_what_is_known() -> None:
    """Only the caller of a refresh waits for it."""
    site = Site(takes=5.0)
    async with site.gate as gate:
        await gate.allowed(PAGE)
        refreshing = asyncio.create_task(gate.refresh(PAGE))
        await settle()
        asked_at = now()
        assert not await gate.allowed(PRIVATE)
        assert now() == asked_at
        await refreshing


async def test_callers_who_come_together_ask_once() -> None:
    """Two refreshes, and one beside a first question that is on its way: it is asked once, and all have its answer."""
    site = Site(takes=5.0)
    async with site.gate as gate:
        *records, is_allowed = await asyncio.gather(
            gate.refresh(PAGE), gate.refresh(PAGE), gate.allowed(PAGE)
        )
        assert records[0] is records[1]
        assert is_allowed
        await asyncio.gather(gate.refresh(PAGE), gate.refresh(PAGE))
    assert len(site.asked_at) == 2


async def test_a_look_into_the_store_is_not_enough() -> None:
    """A flight under way is joined; if it sent no request, one request is sent for all that wait."""
    first, later = Site(), Site()
    async with first.gate as gate:
        known = await gate.robots(PAGE)
    await later.store.save_record(known)
    await asyncio.sleep(MINUTE)
    async with later.gate as gate:
        await asyncio.gather(gate.allowed(PAGE), gate.refresh(PAGE), gate.refresh(PAGE))
    assert later.asked_at == [MINUTE]


async def test_a_host_that_is_not_there_leaves_a_fresh_copy() -> None:
    """Who refreshes while a host wants to be left alone gets no worse rules for it, and sends nothing."""
    site = Site()
    async with site.gate as gate:
        await visit(gate, status=503, headers={"Retry-After": "3600"})
        record = await gate.refresh(PAGE)
        assert (record.outcome, record.fresh_until_at) == (Outcome.SUCCESS, DAY)
        assert gate.allowed_nowait(PRIVATE) is False
    assert site.asked_at == [0.0]


async def test_who_holds_the_turn_is_told() -> None:
    """Here old rules are no answer: they are what the caller does not want."""
    site = Site()
    async with site.gate as gate, gate.turn(PAGE):
        with pytest.raises(NestedTurnError):
            await gate.refresh(PAGE)


async def test_operators_block_is_obeyed() -> None:
    """Nothing is sent, and nothing is forgotten."""
    site = Site()
    async with site.gate as gate:
        await gate.allowed(PAGE)
        gate.block("a.example")
        with pytest.raises(HostUnavailableError):
            await gate.refresh(PAGE)
        assert gate.allowed_nowait(PRIVATE) is False
    assert site.asked_at == [0.0]


async def test_host_of_the_operators_own_is_asked_too() -> None:
    """The file may be requested, as by `robots`; it is still not obeyed."""
    site = Site(overrides={"a.example": HostOverride(ignore_robots=True)})
    async with site.gate as gate:
        assert (await gate.refresh(PAGE)).body == CLOSED.body
        assert await gate.allowed(PRIVATE)
