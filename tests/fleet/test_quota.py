"""A quota and a budget of a fleet: the server counts."""

from __future__ import annotations

from typing import Final

import pytest
from tests.fleet.conftest import LEASE
from tests.fleet.fleet import Fleet
from tests.fleet.site import Site
from tests.fleet.worker import Order

WORKERS: Final = 8
RATE: Final = (30, 3.0)
BUDGET: Final = 100
FORGOTTEN: Final = 15
"""Pages that a crash forgets at most."""
JITTER: Final = 0.5
"""Seconds that a request is on its way at most, on a busy machine; the quota counts those that are sent."""


@pytest.mark.slow
@pytest.mark.parametrize("hosts", [1, 4])
async def test_quota_is_kept_by_processes_that_are_killed_and_started_again(store: str, hosts: int) -> None:
    """Of a host, or of a group of four: never one request more than the quota in any stretch. Two of the processes are
    killed, and then all.
    """
    requests, seconds = RATE
    async with Site() as site:
        orders = [
            Order(
                number=number,
                store=store,
                port=site.port,
                hosts=tuple(f"{host}.site.example" for host in range(hosts)),
                pages=tuple(f"/{number}/{page}" for page in range(8 // hosts)),
                delay=0.0,
                rate=RATE if hosts == 1 else None,
                groups=1 if hosts > 1 else 0,
                group_rate=RATE,
                lease=LEASE,
            )
            for number in range(WORKERS)
        ]
        async with Fleet(orders) as fleet:
            for count in (10, 35):
                await fleet.pages(count)
                fleet.workers[site.visits[-1].worker].kill()
            await fleet.pages(45)
        async with Fleet(orders) as fleet:
            await fleet.ended()
    assert fleet.failures == []
    came_at = sorted(visit.came_at for visit in site.visits)
    stretches = [end - begin for begin, end in zip(came_at, came_at[requests:], strict=False)]
    assert min(stretches) > seconds - JITTER


@pytest.mark.parametrize("store", ["file", pytest.param("server", marks=pytest.mark.slow)], indirect=True)
async def test_budget_is_not_given_again_to_processes_that_are_killed(store: str) -> None:
    """A crash forgets the pages of the last moment before it, and no others; the rest is got by who starts anew."""
    async with Site() as site:
        orders = [
            Order(
                number=number,
                store=store,
                port=site.port,
                hosts=("a.site.example",),
                pages=tuple(f"/{number}/{page}" for page in range(BUDGET)),
                delay=0.0,
                budget=BUDGET,
                lease=LEASE,
            )
            for number in range(2)
        ]
        for count in (20, 20):
            async with Fleet(orders) as fleet:
                await fleet.pages(count)
                for worker in fleet.workers:
                    worker.kill()
        async with Fleet(orders) as fleet:
            await fleet.ended()
    assert all("BudgetExceededError" in page.outcome for page in fleet.failures)
    pages = sum(visit.path != "/robots.txt" for visit in site.visits)
    assert BUDGET <= pages <= BUDGET + 2 * FORGOTTEN
