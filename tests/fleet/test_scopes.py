"""Groups of a fleet: what its hosts share, all processes share; gaps are taken at the server."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import pytest
from tests.fleet.conftest import ANSWER, LEASE
from tests.fleet.fleet import Fleet
from tests.fleet.site import GRAIN, Site, Visit
from tests.fleet.worker import Order, group_of

DELAY: Final = 0.1
GROUPS: Final = 3
HOSTS: Final = tuple(f"{number}.site.example" for number in range(9))


def orders(store: str, port: int, workers: int) -> list[Order]:
    """A page of each host, each with another path for each worker."""
    return [
        Order(
            number=number,
            store=store,
            port=port,
            hosts=HOSTS,
            pages=(f"/{number}",),
            delay=0.0,
            groups=GROUPS,
            group_delay=DELAY,
            lease=LEASE,
        )
        for number in range(workers)
    ]


def short_gaps(site: Site) -> list[tuple[Visit, Visit]]:
    """Where a request came sooner than the delay of its group after the last answer of the group."""
    short = []
    for group in {group_of(host, GROUPS) for host in HOSTS}:
        visits = sorted(
            (visit for visit in site.visits if group_of(visit.host, GROUPS) == group),
            key=lambda visit: visit.came_at,
        )
        short += [
            (before, after)
            for before, after in pairwise(visits)
            if after.came_at - before.sent_at < DELAY - GRAIN
        ]
    return short


@pytest.mark.parametrize("workers", [2, pytest.param(8, marks=pytest.mark.slow)])
async def test_workers_share_groups(store: str, workers: int) -> None:
    """Each is granted to one at a time; every process has its pages."""
    async with Site(takes=ANSWER) as site, Fleet(orders(store, site.port, workers)) as fleet:
        await fleet.ended()
    assert fleet.failures == []
    assert len(site.visits) == (workers + 1) * len(HOSTS)
    assert short_gaps(site) == []


@pytest.mark.slow
async def test_group_of_a_worker_that_is_killed(store: str) -> None:
    """The others go on with it after a lease, and no sooner than its delay."""
    async with Site(takes=ANSWER) as site, Fleet(orders(store, site.port, 8)) as fleet:
        await fleet.pages(10)
        killed = site.visits[-1].worker
        fleet.workers[killed].kill()
        await fleet.ended()
    assert fleet.failures == []
    assert [worker.order.number for worker in fleet.workers if not worker.done] == [killed]
    # What was under way had no end that the others could see.
    assert all(before.worker == killed for before, _ in short_gaps(site))
