"""`shared_total`: the limits over all hosts hold for all gates with one store, and each uses what others leave."""

from __future__ import annotations

import asyncio

import pytest
from tests.paced import make_gate, refusal, visit

from robotgate import Budget, BudgetExceededError, MemoryStore, OptionError, RobotGate
from robotgate.pace.shares import MAX_HOLD

HOSTS = tuple(f"http://{number}.example/" for number in range(12))


async def crawl(gate: RobotGate, *, pages: int = 1, takes: float = 0.0) -> list[float]:
    """Pages of twelve hosts that ask for nothing; their starts."""
    for url in HOSTS:
        gate.learn(url, b"")
    return await asyncio.gather(*(visit(gate, url, takes=takes) for url in HOSTS * pages))


async def test_store_that_cannot_be_shared_is_refused() -> None:
    """There would be nobody to ask."""
    with pytest.raises(OptionError, match="shared_total=True"):
        make_gate(shared_total=True)


async def test_rate_is_kept_by_gates_together() -> None:
    """Never more than eight in ten seconds, all of which are used, for the gate that came second as well."""
    store = MemoryStore()
    async with (
        make_gate(store=store, delay=0.0, total_rate=(8, 10), shared_total=True) as one,
        make_gate(store=store, delay=0.0, total_rate=(8, 10), shared_total=True) as two,
    ):
        starts = await asyncio.gather(crawl(one, pages=4), crawl(two, pages=4))
    everything = sorted(starts[0] + starts[1])
    assert all(after - before >= 10.0 for before, after in zip(everything, everything[8:], strict=False))
    assert everything[-1] <= 96 / 8 * 10
    assert min(starts[1]) <= MAX_HOLD


async def test_gate_that_is_busy_alone_has_everything() -> None:
    """The others have no use for it."""
    store = MemoryStore()
    async with (
        make_gate(store=store, delay=0.0, concurrency=12, shared_total=True) as one,
        make_gate(store=store, delay=0.0, concurrency=12, shared_total=True) as two,
    ):
        assert await crawl(two, takes=1.0) == [0.0] * 12
        await asyncio.sleep(9.0)
        assert await crawl(one, takes=1.0) == [10.0] * 12


async def test_places_are_waited_for_until_another_gate_has_answers() -> None:
    """Two open at once, in all gates; no task that holds one is taken to wait for itself."""
    store = MemoryStore()
    async with (
        make_gate(store=store, delay=0.0, concurrency=2, shared_total=True) as one,
        make_gate(store=store, delay=0.0, concurrency=2, shared_total=True) as two,
    ):
        await asyncio.gather(visit(one, HOSTS[0], takes=50.0), visit(one, HOSTS[1], takes=100.0))
        last = asyncio.create_task(visit(one, HOSTS[2], takes=50.0))
        async with two.turn(HOSTS[3]):
            assert await visit(two, HOSTS[4]) == 150.0
        assert await last == 100.0


async def test_budget_is_of_all_gates_and_is_not_given_again() -> None:
    """Forty pages in all; a gate that comes later has none of them, whatever robots.txt it asks for."""
    store = MemoryStore()
    async with (
        make_gate(store=store, delay=0.0, total_budget=Budget(pages=40), shared_total=True) as one,
        make_gate(store=store, delay=0.0, total_budget=Budget(pages=40), shared_total=True) as two,
    ):
        found = await asyncio.gather(
            *(visit(gate, url) for gate in (one, two) for url in HOSTS * 2), return_exceptions=True
        )
    assert sum(isinstance(each, float) for each in found) == 40
    assert sum(isinstance(each, BudgetExceededError) for each in found) == 8
    async with make_gate(store=store, delay=0.0, total_budget=Budget(pages=40), shared_total=True) as late:
        error, _ = await refusal(visit(late, HOSTS[0]), BudgetExceededError)
        assert error.retry_after is None
