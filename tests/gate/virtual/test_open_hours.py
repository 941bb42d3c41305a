"""`open_hours`: the hours in which the operator wants hosts to be visited."""

from __future__ import annotations

import asyncio
import math

import pytest
from tests.paced import (
    DAY,
    HOUR,
    PAGE,
    ROBOTS,
    SITE,
    asks,
    gate_that_knows,
    make_gate,
    refusal,
    scripted,
    sleep_until,
    visit,
    visits,
)

from robotgate import HostOverride, HostUnavailableError, MemoryStore, OpenHours

MORNING = OpenHours("06:00-08:00")


async def test_site_is_none_the_worse_for_it() -> None:
    """Out of the hours its robots.txt is not asked for either, and it is not taken for one that cannot be read."""
    fetcher, store = scripted({SITE: asks("Disallow: /private")}), MemoryStore()
    async with make_gate(fetcher, store=store, open_hours=MORNING) as gate:
        for ask in (gate.allowed, gate.check, gate.robots):
            with pytest.raises(HostUnavailableError):
                await ask(PAGE)
        error, _ = await refusal(visit(gate), HostUnavailableError)
        assert (error.retry_after, error.verdict) == (6 * HOUR, None)
        assert gate.host(PAGE).next_allowed_at == 6 * HOUR
        assert "records=0" in repr(store)
        await sleep_until(6 * HOUR)
        assert await visit(gate) == 6 * HOUR + 1
        await sleep_until(9 * HOUR)
        assert await gate.allowed(PAGE)
    assert fetcher.requests == [(6 * HOUR, ROBOTS)]


@pytest.mark.parametrize(
    ("at", "visit_time", "cause", "opens_at"),
    [
        (9 * HOUR, "0600-0959", "the operator's open_hours are over for now", DAY + 6 * HOUR),
        (6 * HOUR, "0700-0759", "its Visit-time is over for now", 7 * HOUR),
        (
            9 * HOUR,
            "0700-0759",
            "its Visit-time is over for now and the operator's open_hours are over for now",
            DAY + 7 * HOUR,
        ),
    ],
)
async def test_error_says_whose_hours_are_over(
    at: float, visit_time: str, cause: str, opens_at: float
) -> None:
    """The site's, the operator's or both."""
    async with make_gate(open_hours=MORNING, obey_visit_time=True) as gate:
        gate.learn(SITE, asks(f"Visit-time: {visit_time}").encode())
        await sleep_until(at)
        error, _ = await refusal(visit(gate), HostUnavailableError)
        assert (error.cause, error.retry_after) == (cause, opens_at - at)


async def test_hours_that_end_while_tasks_wait() -> None:
    """The rest is refused as they end, or goes on in the next, in order."""
    async with make_gate(open_hours=MORNING) as gate:
        gate.learn(SITE, b"", fresh_until=2 * DAY)
        await sleep_until(8 * HOUR - 2)
        tasks = [asyncio.create_task(visit(gate)) for _ in range(3)]
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert outcomes[:2] == [8 * HOUR - 2, 8 * HOUR - 1]
        assert isinstance(outcomes[2], HostUnavailableError)
        gate.override("a.example", HostOverride(max_block=math.inf))
        assert await visits(gate, 2) == [DAY + 6 * HOUR, DAY + 6 * HOUR + 1]


async def test_hours_are_those_of_the_host() -> None:
    """An override has others, in its own zone, or lifts the gate's; a turn that waits for the old ones is granted."""
    async with gate_that_knows(SITE, open_hours=MORNING, max_block=math.inf) as gate:
        gate.override("a.example", HostOverride(open_hours=OpenHours("06:00-08:00", "Asia/Tokyo")))
        assert gate.wait_time(PAGE) == 21 * HOUR
        waiting = asyncio.create_task(visit(gate))
        await sleep_until(100.0)
        gate.override("a.example", HostOverride(open_hours=OpenHours("00:00-24:00")))
        assert await waiting == 100.0


async def test_hours_that_never_meet() -> None:
    """Those of the site and of the operator: pages are refused, or wait without a start."""
    known = asks("Visit-time: 0900-0959")
    async with make_gate(open_hours=MORNING, obey_visit_time=True) as gate:
        gate.learn(SITE, known.encode(), fresh_until=31 * DAY)
        assert gate.wait_time(PAGE) > 7 * DAY
        await refusal(visit(gate), HostUnavailableError)
        gate.override("a.example", HostOverride(max_block=math.inf))
        waiting = asyncio.create_task(visit(gate))
        await asyncio.sleep(30 * DAY)
        assert not waiting.done()
        gate.override("a.example", HostOverride(max_block=math.inf, obey_visit_time=False))
        assert await waiting == 30 * DAY + 6 * HOUR
