"""Quotas: so many starts in so much time, for a host, for robots.txt, and for everything together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.paced import (
    HOUR,
    OTHER,
    PAGE,
    ROBOTS,
    SITE,
    gate_that_knows,
    make_gate,
    now,
    refusal,
    scripted,
    visit,
    visits,
)

from robotgate import Group, HostOverride, MemoryStore, Rate, TooSoonError

if TYPE_CHECKING:
    from collections.abc import Callable


async def test_robots_txt_is_one_of_them() -> None:
    """The server counts it too."""
    async with make_gate(delay=0.5, rate=(5, 10)) as gate:
        assert await visits(gate, 6) == [0.5, 1.0, 1.5, 2.0, 10.0, 10.5]


async def test_total_rate_counts_robots_txt() -> None:
    """Thirty hosts, each with its robots.txt and a page: ten starts a minute, none of the minutes left empty."""
    fetcher = scripted()
    async with make_gate(fetcher, total_rate=(10, 60)) as gate:
        pages = await asyncio.gather(*(visit(gate, f"http://{number}.example/") for number in range(30)))
    starts = [at for at, _ in fetcher.requests] + pages
    assert sorted(starts) == [60.0 * (number // 10) for number in range(60)]


async def test_turn_after_one_that_was_cancelled() -> None:
    """Nobody waited for the total any more: the next is let go when it is due."""
    async with gate_that_knows("http://a.example/", "http://b.example/", total_rate=(1, 60)) as gate:
        await visit(gate, "http://a.example/")
        cancelled = asyncio.create_task(visit(gate, "http://b.example/"))
        await asyncio.sleep(1.0)
        cancelled.cancel()
        await asyncio.sleep(1.0)
        assert await visit(gate, "http://b.example/") == 60.0


async def test_override_of_the_rate() -> None:
    """Stricter for one host, none at all for another."""
    overrides = {"a.example": HostOverride(rate=(1, 30)), "b.example": HostOverride(rate=Rate.UNLIMITED)}
    async with make_gate(rate=(2, 20), overrides=overrides) as gate:
        for host in "abc":
            gate.learn(f"http://{host}.example/", b"")
        given = await asyncio.gather(*(visits(gate, 4, f"http://{host}.example/") for host in "abc"))
    assert given == [[0.0, 30.0, 60.0, 90.0], [0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 20.0, 21.0]]


async def test_lane_is_kept_until_the_quota_is_served(pending_timers: Callable[[], int]) -> None:
    """One an hour: the host is not forgotten a minute later, and is when the hour is over."""
    async with gate_that_knows(SITE, rate=(1, HOUR)) as gate:
        assert await visit(gate) == 0.0
        await asyncio.sleep(600.0)
        assert gate.wait_time(PAGE) == HOUR - 600.0
        assert await visit(gate) == HOUR
        await asyncio.sleep(HOUR - 1)
        await asyncio.sleep(60.0)
        assert pending_timers() == 0


async def test_gates_on_one_store_have_one_quota() -> None:
    """Also one that comes later, as after a restart; none waits for what it knows to be beyond its patience."""
    store = MemoryStore()
    async with (
        gate_that_knows(SITE, store=store, rate=(50, HOUR)) as one,
        gate_that_knows(SITE, store=store, rate=(50, HOUR)) as two,
    ):
        starts = await asyncio.gather(visits(one, 30), visits(two, 10))
        assert sorted([*starts[0], *starts[1]]) == [float(number) for number in range(40)]
    async with (
        gate_that_knows(SITE, store=store, rate=(50, HOUR)) as one,
        gate_that_knows(SITE, store=store, rate=(50, HOUR)) as two,
    ):
        starts = await asyncio.gather(visits(one, 5), visits(two, 5))
        assert sorted([*starts[0], *starts[1]]) == [float(number) for number in range(40, 50)]
        for gate in (one, two, one, two):
            _, at = await refusal(visit(gate, max_wait=10.0), TooSoonError)
            assert at == 49.0
        # Of 50, the first four count as the fourth.
        assert await visits(one, 4) == [HOUR + 3.0, HOUR + 4.0, HOUR + 5.0, HOUR + 6.0]


async def test_quota_of_a_group_is_one_for_all_gates_on_a_store() -> None:
    """Whichever of its hosts they visit; also after a restart."""
    store, shop = MemoryStore(), Group("shop", rate=(6, HOUR))
    starts: list[float] = []
    for _ in range(2):
        async with (
            gate_that_knows(SITE, OTHER, store=store, groups=lambda _: shop) as one,
            gate_that_knows(SITE, OTHER, store=store, groups=lambda _: shop) as two,
        ):
            for found in await asyncio.gather(visits(one, 2), visits(two, 2), visits(two, 1, OTHER)):
                starts += found
    starts.sort()
    assert len(starts) == 10
    assert [after - before >= HOUR for before, after in zip(starts, starts[6:], strict=False)] == [True] * 4


async def test_rates_of_several_origins_of_one_lane() -> None:
    """Every quota of those who are paced together holds: two schemes of a host share its one."""
    fetcher = scripted()
    async with make_gate(fetcher, delay=0.0, rate=(3, 10)) as gate:
        starts = await asyncio.gather(*(visit(gate, url) for url in (PAGE, "https://a.example/") * 3))
        assert fetcher.requests == [(0.0, ROBOTS), (0.0, "https://a.example/robots.txt")]
        assert sorted(starts) == [0.0, 10.0, 10.0, 10.0, 20.0, 20.0]
        assert now() == 20.0
