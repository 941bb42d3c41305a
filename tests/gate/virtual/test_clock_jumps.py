"""A clock that does what it must not, while a gate is open: it may make the gate slower, never faster."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from itertools import pairwise

import pytest
from tests.paced import PAGE, Seen, asks, gate_that_knows, make_gate, now, scripted, seeds, sleep_until, visit

from robotgate import HostUnavailableError, MemoryStore, TooSoonError


class FallingClock:
    """Seconds of the loop, less those by which it has been set back."""

    def __init__(self) -> None:
        self.behind = 0.0

    def now(self) -> float:
        """As the clock says, right or wrong."""
        return 100_000.0 + asyncio.get_running_loop().time() - self.behind


@pytest.mark.parametrize("delay", [0.0, 1.0])
async def test_clock_set_back_makes_no_visit_come_sooner(delay: float) -> None:
    """Once during a turn, once between two: the delay is kept on the loop's time, and all turns are granted."""
    clock = FallingClock()
    async with make_gate(delay=delay, clock=clock) as gate, asyncio.timeout(80_000.0):
        for back in (0.0005, 0.5, 3.0, 3600.0):
            starts = [await visit(gate)]
            async with gate.turn(PAGE):
                starts.append(now())
                clock.behind += back
            starts.append(await visit(gate))
            clock.behind += back
            starts.append(await visit(gate))
            assert all(later - sooner >= delay for sooner, later in pairwise(starts))


async def test_clock_set_back_shortens_no_block() -> None:
    """Who asked for a minute is left alone for a minute at least."""
    clock = FallingClock()
    async with make_gate(clock=clock) as gate:
        await visit(gate, status=503, headers={"Retry-After": "60"})
        asked_at = now()
        waiting = asyncio.create_task(visit(gate))
        await asyncio.sleep(30.0)
        clock.behind += 20.0
        assert await waiting >= asked_at + 60.0


async def test_clock_set_back_shortens_no_quota() -> None:
    """Two in ten seconds are two in ten seconds."""
    clock = FallingClock()
    async with gate_that_knows(PAGE, delay=0.0, rate=(2, 10), total_rate=(3, 10), clock=clock) as gate:
        starts = []
        for _ in range(8):
            starts.append(await visit(gate))
            clock.behind += 1.7
        assert all(third - first >= 10.0 for first, third in zip(starts, starts[2:], strict=False))


@pytest.mark.parametrize("seed", seeds(4, 30))
async def test_no_gap_is_short_however_the_clock_falls(seed: int) -> None:
    """Set back now and then, by little and by much, with few hosts kept in memory: no gap is short."""
    chance, clock = random.Random(seed), FallingClock()
    hosts = [f"http://{letter}.example" for letter in "abcd"]
    fetcher = scripted({hosts[0]: asks("Crawl-delay: 4")})
    seen = Seen(chance)
    async with (
        make_gate(fetcher, clock=clock, max_hosts=chance.choice([1, 2, 100])) as gate,
        asyncio.timeout(1_000_000.0),
    ):

        async def come(host: str) -> None:
            with suppress(TooSoonError, HostUnavailableError):
                await seen.visit(gate, host, max_wait=chance.choice([None, None, 5.0]))

        tasks = []
        for _ in range(120):
            await asyncio.sleep(chance.choice([0.0, 0.2, 1.0, 5.0, 40.0]))
            if chance.random() < 0.2:
                clock.behind += chance.choice([0.01, 0.9, 3.0, 100.0, 5000.0])
            tasks.append(asyncio.create_task(come(chance.choice(hosts))))
        await asyncio.gather(*tasks)
    assert len(seen.visits) == len(hosts)
    assert seen.short_gaps({hosts[0]: 4.0}) == []


async def test_restart_on_an_earlier_clock_waits_longer() -> None:
    """The next gate's clock is behind, as after a wrong date was set right: what was promised is kept."""
    clock = FallingClock()
    store = MemoryStore()
    async with make_gate(clock=clock, store=store) as gate:
        await visit(gate)
    clock.behind += 5.0
    async with make_gate(clock=clock, store=store) as gate:
        before = now()
        assert await visit(gate) == pytest.approx(before + 6.0)
        await sleep_until(now() + 10.0)
