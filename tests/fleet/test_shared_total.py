"""The limits over all hosts, kept by a fleet: the server counts."""

from __future__ import annotations

from typing import Final

import pytest
from tests.fleet.conftest import LEASE
from tests.fleet.fleet import Fleet
from tests.fleet.site import ROBOTS_PATH, Site, Visit
from tests.fleet.worker import Order

from robotgate import Budget, GateOptions

WORKERS: Final = 8
RATE: Final = (60, 2.0)
CONCURRENCY: Final = 12
BUDGET: Final = 60
JITTER: Final = 0.1
"""Seconds that a request is on its way at most; the quota counts those that are sent."""


def orders(store: str, port: int, total: GateOptions) -> list[Order]:
    """Hosts of each worker's own: the total is all that they share."""
    return [
        Order(
            number=number,
            store=store,
            port=port,
            hosts=tuple(f"{number}-{host}.site.example" for host in range(4)),
            pages=tuple(f"/{page}" for page in range(10)),
            delay=0.0,
            total=total,
            lease=LEASE,
        )
        for number in range(WORKERS)
    ]


def most_open(visits: list[Visit]) -> int:
    """How many pages were under way at one time."""
    pages = [visit for visit in visits if visit.path != ROBOTS_PATH]
    moves = sorted([(visit.came_at, 1) for visit in pages] + [(visit.sent_at, -1) for visit in pages])
    count, counts = 0, [0]
    for _, move in moves:
        count += move
        counts.append(count)
    return max(counts)


@pytest.mark.slow
async def test_total_is_kept_by_processes_that_are_killed_and_started_again(store: str) -> None:
    """Never one request more than the rate in any stretch, nor a page more at a time: two are killed, and then all."""
    requests, seconds = RATE
    total = GateOptions(total_rate=RATE, concurrency=CONCURRENCY, shared_total=True)
    async with Site(takes=0.1) as site:
        async with Fleet(orders(store, site.port, total)) as fleet:
            for count in (30, 80):
                await fleet.pages(count)
                fleet.workers[site.visits[-1].worker].kill()
            await fleet.pages(120)
        async with Fleet(orders(store, site.port, total)) as fleet:
            await fleet.ended()
    assert fleet.failures == []
    assert most_open(site.visits) <= CONCURRENCY
    came_at = sorted(visit.came_at for visit in site.visits)
    stretches = [end - begin for begin, end in zip(came_at, came_at[requests:], strict=False)]
    assert min(stretches) > seconds - JITTER


async def test_budget_is_one_for_all_processes_and_their_restart(store: str) -> None:
    """Every page of it is got, by whichever process, and none is given again."""
    total = GateOptions(total_budget=Budget(pages=BUDGET), shared_total=True)
    async with Site() as site:
        for got in (BUDGET, 0):
            async with Fleet(orders(store, site.port, total)) as fleet:
                await fleet.ended()
            assert fleet.page_count - len(fleet.failures) == got
            assert all("BudgetExceededError" in page.outcome for page in fleet.failures)
