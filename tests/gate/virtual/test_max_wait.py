"""`max_wait`: turns that are surely too late are refused at once, others wait, and no turn is wasted."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.paced import PAGE, SITE, asks, gate_that_knows, make_gate, now, refusal, scripted, visit
from tests.waiting import settle

from robotgate import GateOptions, HostOverride, TooSoonError

if TYPE_CHECKING:
    from robotgate import RobotGate

CRAWL_DELAY = asks("Crawl-delay: 40")


async def too_soon(
    gate: RobotGate, max_wait: float, url: str = PAGE, *, priority: int = 0
) -> tuple[float, float]:
    """How long a refused visitor waited, and when he is told to come again."""
    asked_at = now()
    error, at = await refusal(visit(gate, url, max_wait=max_wait, priority=priority), TooSoonError)
    return at - asked_at, at + error.retry_after


@pytest.mark.parametrize(
    ("text", "options", "due_at"),
    [
        ("", GateOptions(), 1.0),
        (CRAWL_DELAY, GateOptions(), 40.0),
        (asks("Request-rate: 1/30"), GateOptions(), 30.0),
        ("", GateOptions(rate=(1, 100)), 100.0),
        (asks("Visit-time: 0002-0010"), GateOptions(obey_visit_time=True), 120.0),
        ("", GateOptions(overrides={"a.example": HostOverride(delay=7.0)}), 7.0),
    ],
)
async def test_told_at_once_by_what_is_due(text: str, options: GateOptions, due_at: float) -> None:
    """A start is sure to come no sooner; a wait of just so long is in time."""
    async with make_gate(scripted({SITE: text}), **options) as gate:
        await gate.allowed(PAGE)
        assert await too_soon(gate, due_at - 0.5) == (0.0, due_at)
        assert await visit(gate, max_wait=due_at) == due_at


async def test_block_that_comes_while_one_waits() -> None:
    """A turn that could be in time when it was asked for is refused at the end of its `max_wait`, not of the block."""
    async with gate_that_knows(SITE, concurrency_per_host=2) as gate:
        waiting = [asyncio.create_task(visit(gate)) for _ in range(3)]
        await settle()
        late = asyncio.create_task(too_soon(gate, 10.0))
        await asyncio.sleep(0.5)
        gate.block("a.example", 100.0)
        assert await late == (10.0, 100.0)
        assert await asyncio.gather(*waiting) == [0.0, 100.0, 101.0]


async def test_those_ahead_of_another_origin_count() -> None:
    """They share a pace; a turn that has to wait for its origin's own hours does not count."""
    fetcher = scripted({SITE: asks("Visit-time: 0600-0700")})
    async with make_gate(fetcher, obey_visit_time=True, max_block=1e6) as gate:
        await gate.allowed(PAGE)
        secure = "https://a.example/"
        gate.learn(secure, b"")
        by_day = [asyncio.create_task(visit(gate)) for _ in range(10)]
        ahead = [asyncio.create_task(visit(gate, secure)) for _ in range(3)]
        await settle()
        assert await too_soon(gate, 3.5, secure) == (0.0, 4.0)
        assert await visit(gate, secure, max_wait=4.0) == 4.0
        assert await asyncio.gather(*ahead) == [1.0, 2.0, 3.0]
        for task in by_day:
            task.cancel()
        await asyncio.gather(*by_day, return_exceptions=True)
