"""Hosts that nobody uses are packed: nothing that is known of them changes, and whatever needs them finds them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest
from tests.failing import LosableStore
from tests.paced import (
    HOUR,
    MINUTE,
    OTHER,
    PAGE,
    SECURE,
    SITE,
    asks,
    make_gate,
    now,
    refusal,
    scripted,
    visit,
)

from robotgate import Budget, DisallowedError, HostOverride, HostUnavailableError, MemoryStore, TooSoonError
from robotgate.client.cache import COOL_DOWN_DELAY
from robotgate.sites import Answer

if TYPE_CHECKING:
    from robotgate import RobotGate

IDLE: Final = 3 * COOL_DOWN_DELAY
THIRD: Final = "http://c.example/page"


async def idle(gate: RobotGate, *hosts: str) -> None:
    """Wait until these hosts, and no others, are packed."""
    await asyncio.sleep(IDLE)
    assert {*gate._cache.idle.hosts} == {*hosts}


def slow_sites() -> dict[str, str | Answer]:
    """Sites that ask for much, or redirect."""
    return {
        SITE: asks("Crawl-delay: 7", "Request-rate: 1/5", "Visit-time: 0000-2359", "Disallow: /private"),
        "http://b.example": Answer(status=301, location="https://a.example/robots.txt"),
        "http://c.example": Answer(
            status=200, body=b"", etag='"1"', last_modified="Thu, 01 Jan 1970 00:00:00 GMT"
        ),
    }


async def test_views_show_the_same() -> None:
    """Of two origins of one host, of a delay that a site asks for, of budgets, quotas, learned delays and refusals."""
    async with make_gate(
        scripted(slow_sites()),
        store=MemoryStore(),
        adaptive=True,
        budget=Budget(pages=30, per=HOUR),
        rate=(20, MINUTE),
        concurrency_per_host=2,
        obey_visit_time=True,
    ) as gate:
        for url in (PAGE, SECURE, OTHER, THIRD):
            await visit(gate, url, takes=0.3, status=200)
        await visit(gate, THIRD, status=429, headers={"Retry-After": "3"})
        await refusal(visit(gate, f"{SITE}/private"), DisallowedError)
        with pytest.raises(TooSoonError):
            async with gate.try_turn(PAGE, max_wait=0.0):
                pass
        await idle(gate, "a.example", "b.example", "c.example")
        hosts, origins, stats = gate.hosts(), gate.origins(), gate.stats()
        waits = {view.origin: view.next_allowed_at for view in origins}
        assert (stats.hosts, stats.hosts_slowed, stats.origins, stats.origins_known) == (3, 1, 4, 4)
        # A look at one has it unpacked.
        assert [gate.host(view.origin) for view in origins] == origins
        assert gate._cache.idle.hosts == {}
        assert gate.hosts() == hosts
        assert gate.stats() == stats
        assert {view.origin: view.next_allowed_at for view in gate.origins()} == waits


async def test_delay_holds_across_it() -> None:
    """It is longer than it takes until a host counts as idle."""
    async with make_gate(scripted({SITE: asks("Crawl-delay: 50")}), delay=0.0, latency_factor=0.0) as gate:
        first = await visit(gate)
        await asyncio.sleep(45.0)
        assert [*gate._cache.idle.hosts] == ["a.example"]
        assert await visit(gate) == first + 50.0


async def test_redirect_that_asks_to_wait_leads_to_an_idle_host() -> None:
    """It was packed meanwhile: the request counts as a visit to it."""
    sites = {
        "http://b.example": Answer(status=301, location=f"{SITE}/robots.txt", headers={"Retry-After": "50"})
    }
    async with make_gate(scripted(sites)) as gate:
        await visit(gate)
        visitor = asyncio.create_task(visit(gate, OTHER))
        await asyncio.sleep(45.0)
        assert [*gate._cache.idle.hosts] == ["a.example"]
        await visitor
        assert gate.host(PAGE).visits == 3


async def test_origins_of_an_idle_host_are_evicted_one_by_one() -> None:
    """And as few as have to be."""
    async with make_gate(max_hosts=3) as gate:
        for url in (PAGE, SECURE, OTHER):
            await visit(gate, url)
        await idle(gate, "a.example", "b.example")
        for _ in range(2):
            gate.learn(THIRD, b"")
            assert gate.stats().origins == 3
        assert {view.origin for view in gate.origins()} > {"http://c.example"}


async def test_operator_reaches_idle_hosts() -> None:
    """Blocks and overrides by a pattern, and counts of what they did."""
    async with make_gate(scripted({SITE: asks("Crawl-delay: 5")})) as gate:
        for url in (PAGE, SECURE, OTHER):
            await visit(gate, url)
        await idle(gate, "a.example", "b.example")
        gate.block("a.example", now() + HOUR)
        assert gate.stats().origins_blocked == 2
        await refusal(visit(gate), HostUnavailableError)
        gate.unblock("a.example")
        await idle(gate, "a.example", "b.example")
        gate.override("*.example", HostOverride(delay=9.0))
        assert {view.host: view.delay for view in gate.hosts()} == {"a.example": 9.0, "b.example": 9.0}


async def test_host_that_is_idle_here_is_handed_on() -> None:
    """When another gate wants it, and when this one is closed."""
    store = MemoryStore()
    async with make_gate(store=store) as one, make_gate(store=store) as two:
        for url in (PAGE, OTHER):
            await visit(one, url)
        await idle(one, "a.example", "b.example")
        assert await visit(two) == now()
        assert two.host(PAGE).visits == 3
        assert {*one._cache.idle.hosts} == {"b.example"}
        await one.aclose()
        assert await visit(two, OTHER) == now()
        assert two.host(OTHER).visits == 3


async def test_save_that_fails_late_brings_nothing_old_back() -> None:
    """Each host was left alone for long while its state was being saved, and then visited again."""
    store, urls = LosableStore(), [f"http://{number}.example/page" for number in range(8)]
    async with make_gate(store=store) as gate:
        for url in urls:
            await visit(gate, url)
        await asyncio.sleep(MINUTE)
        store.hangs = {"save_hosts"}
        for _ in range(2):
            for url in urls:
                await visit(gate, url)
            await asyncio.sleep(IDLE)
        store.fails = {"save_hosts"}
        store.recover()
        store.fails = {"save_hosts"}
        await asyncio.sleep(1.0)
        store.recover()
        await visit(gate, OTHER)
        await asyncio.sleep(MINUTE)
        states = [await store.load_host(f"{number}.example") for number in range(8)]
        assert [state and state.visits for state in states] == [4] * 8
