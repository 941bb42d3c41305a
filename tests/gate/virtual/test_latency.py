"""`latency_factor`: a host that answers slowly is asked less often, and nothing it does makes us faster for that."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.paced import PAGE, SITE, asks, gate_that_knows, make_gate, now, scripted, visit, visits

from robotgate import HostOverride

if TYPE_CHECKING:
    from robotgate import RobotGate


async def answer(gate: RobotGate, *, after: float, status: int = 200, takes: float = 0.0) -> float:
    """A turn whose answer begins after so long, and takes so long from there; its start."""
    async with gate.turn(PAGE) as turn:
        started_at = now()
        await asyncio.sleep(after)
        turn.report(status=status)
        await asyncio.sleep(takes)
    return started_at


@pytest.mark.parametrize(("factor", "delay"), [(2.5, 10.0), (0.1, 1.0)])
async def test_delay_is_so_many_times_the_latency(factor: float, delay: float) -> None:
    """From the end of the response; where our own delay is longer, that."""
    async with gate_that_knows(SITE, delay=1.0, latency_factor=factor) as gate:
        assert await answer(gate, after=4.0) == 0.0
        assert (gate.host(PAGE).latency, gate.host(PAGE).delay) == (4.0, delay)
        assert await answer(gate, after=4.0) == 4.0 + delay
        assert await visit(gate) == 2 * (4.0 + delay)


async def test_robots_txt_tells_the_first_latency() -> None:
    """It is a visit like any other."""
    async with make_gate(scripted(latency=3.0), latency_factor=2.0) as gate:
        assert await visit(gate) == 9.0


@pytest.mark.parametrize(
    ("factor", "max_delay", "delay"), [(10.0, 60.0, 60.0), (10.0, 3600.0, 60.0), (10.0, 30.0, 30.0)]
)
async def test_clamped(factor: float, max_delay: float, delay: float) -> None:
    """To a minute, and to `max_delay`: a slow host is not refused."""
    async with gate_that_knows(SITE, latency_factor=factor, max_delay=max_delay) as gate:
        await answer(gate, after=20.0)
        assert await visit(gate) == 20.0 + delay
        assert await gate.allowed(PAGE)


async def test_first_report_of_a_status_tells_the_latency() -> None:
    """A second report, as with the body, does not change the measured latency."""
    async with gate_that_knows(SITE, latency_factor=2.0) as gate:
        async with gate.turn(PAGE) as turn:
            await asyncio.sleep(1.0)
            turn.report(status=200)
            for _ in range(3):
                await asyncio.sleep(10.0)
                turn.report(status=200, bytes=1000)
            turn.report(status=500)
        assert (gate.host(PAGE).latency, gate.host(PAGE).bytes_read) == (1.0, 3000)


async def test_longest_of_all_counts() -> None:
    """Crawl-delay and latency are not added up."""
    async with make_gate(scripted({SITE: asks("Crawl-delay: 5")}), latency_factor=2.0) as gate:
        assert await answer(gate, after=1.0) == 5.0
        assert await answer(gate, after=9.0) == 11.0
        # The mean of robots.txt, which took no time, and of two pages.
        assert (gate.host(PAGE).latency, gate.host(PAGE).delay) == (4.75, 9.5)
        assert await visit(gate) == 29.5


async def test_factor_of_an_override() -> None:
    """One host's, given and taken away while running; the latency is known all along."""
    async with gate_that_knows(SITE) as gate:
        await answer(gate, after=4.0)
        gate.override("a.example", HostOverride(latency_factor=3.0))
        assert await visit(gate) == 16.0
        gate.override("a.example", None)
        assert await visits(gate, 2) == [28.0, 29.0]
