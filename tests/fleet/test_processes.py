"""Processes that want the same of the same hosts: to these they are one crawler, whatever becomes of one of them."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
from benchmarks.limits_model import Bucket
from tests.fleet.conftest import ANSWER, DELAY, HOSTS, LEASE, PAGES, WORKERS, orders
from tests.fleet.fleet import Fleet
from tests.fleet.site import ROBOTS_PATH, Site
from tests.fleet.worker import Order

if TYPE_CHECKING:
    from tests.redis_server import RedisServer

EACH: Final = len(HOSTS) * len(PAGES)
"""Pages that one worker wants."""
SLOW: Final = 0.1
"""Seconds that a response takes, so that workers have several requests under way at any time."""
MANY: Final = 4


async def test_workers_are_one_crawler_to_the_hosts(store: str) -> None:
    """One robots.txt request for each host in all, no gap under the delay, and every page for everybody."""
    async with Site(takes=ANSWER) as site, Fleet(orders(store, site.port)) as fleet:
        await fleet.ended()
    assert fleet.failures == []
    assert [len(worker.pages) for worker in fleet.workers] == [EACH] * WORKERS
    assert site.robots_requests == dict.fromkeys(HOSTS, 1)
    assert len(site.visits) == WORKERS * EACH + len(HOSTS)
    assert site.short_gaps(DELAY) == []


async def test_tasks_come_back_when_their_turn_has_come(store: str) -> None:
    """No worker waits for a host, and nearly each task has its turn when it comes the second time."""
    async with (
        Site(takes=ANSWER) as site,
        Fleet([replace(order, tries=True) for order in orders(store, site.port)]) as fleet,
    ):
        await fleet.ended()
    assert fleet.failures == []
    done = [worker.done for worker in fleet.workers if worker.done is not None]
    assert [each.pages for each in done] == [EACH] * WORKERS
    assert sum(each.vain for each in done) <= 1.2 * WORKERS * EACH
    assert site.robots_requests == dict.fromkeys(HOSTS, 1)
    assert site.short_gaps(DELAY) == []


@pytest.mark.slow
async def test_workers_that_are_killed(store: str) -> None:
    """The others go on with their hosts after a lease at most, and have all their pages.

    One is killed while it requests several robots.txt files, another with several pages under way. What the first had
    requested and not saved, others request again.
    """
    async with Site(takes=SLOW) as site, Fleet(orders(store, site.port)) as fleet:
        first = await site.busy_with(MANY)
        assert fleet.page_count == 0
        fleet.workers[first].kill()
        killed_at = {first: time.monotonic()}
        await fleet.pages(WORKERS * EACH // 3)
        site.under_way[first] = 0
        second = await site.busy_with(MANY)
        fleet.workers[second].kill()
        killed_at[second] = time.monotonic()
        await fleet.ended()
    assert fleet.failures == []
    assert {number for number in range(WORKERS) if not fleet.workers[number].done} == {first, second}
    assert sorted(len(worker.pages) for worker in fleet.workers)[2:] == [EACH, EACH]
    for gap in site.short_gaps(DELAY):
        # What was under way when its worker was killed had no end that a worker could see.
        assert gap.before.sent_at > killed_at[gap.before.worker]
        assert gap.visit.came_at >= killed_at[gap.before.worker] + DELAY
    asked = [(visit.host, visit.worker) for visit in site.visits if visit.path == ROBOTS_PATH]
    again = {host for host, count in site.robots_requests.items() if count > 1}
    assert len(again) >= MANY // 2
    assert again <= {host for host, worker in asked if worker == first}
    assert max(site.robots_requests.values()) == 2


@pytest.mark.slow
async def test_a_worker_that_is_stopped(store: str) -> None:
    """For less than its lease: no other takes its hosts over, and it goes on where it was."""
    async with Site(takes=SLOW) as site, Fleet(orders(store, site.port, lease=2 * LEASE)) as fleet:
        await fleet.pages(WORKERS * EACH // 3)
        worker = fleet.workers[await site.busy_with(MANY)]
        worker.freeze()
        await asyncio.sleep(LEASE / 2)
        worker.thaw()
        await fleet.ended()
    assert fleet.failures == []
    assert [len(each.pages) for each in fleet.workers] == [EACH] * WORKERS
    assert site.robots_requests == dict.fromkeys(HOSTS, 1)
    assert site.short_gaps(DELAY) == []


@pytest.mark.slow
async def test_a_worker_that_is_stopped_for_longer_than_its_lease(store: str) -> None:
    """Others take its hosts over. A request that it was about to send cannot be called back: but for that, no gap is
    short.
    """
    async with Site(takes=SLOW) as site, Fleet(orders(store, site.port)) as fleet:
        await fleet.pages(WORKERS * EACH // 3)
        number = await site.busy_with(MANY)
        fleet.workers[number].freeze()
        # The others come to their end, those hosts among them that the one has under way.
        await fleet.until(lambda: sum(worker.has_ended for worker in fleet.workers) == WORKERS - 1)
        fleet.workers[number].thaw()
        await fleet.ended()
    assert fleet.failures == []
    assert [len(worker.pages) for worker in fleet.workers] == [EACH] * WORKERS
    assert [
        gap for gap in site.short_gaps(DELAY) if number not in {gap.visit.worker, gap.before.worker}
    ] == []


@pytest.mark.slow
async def test_workers_learn_one_delay(redis: RedisServer) -> None:
    """Eight share what a host allows: 10 requests a second, of which it says no more than 429."""
    pages = tuple(f"/page/{number}" for number in range(60))
    async with (
        Site(limit=Bucket(10, 2)) as site,
        Fleet(
            Order(
                number=number,
                store=redis.url,
                port=site.port,
                hosts=HOSTS[:1],
                pages=pages,
                delay=0.02,
                lease=LEASE,
            )
            for number in range(8)
        ) as fleet,
    ):
        await fleet.pages(220)
        visits = [visit for visit in site.visits if visit.path != ROBOTS_PATH]
    seconds = (visits[-1].came_at - visits[0].came_at) / 2
    warm = [visit.is_good for visit in visits if visit.came_at >= visits[0].came_at + seconds]
    assert warm.count(True) >= 0.6 * 10 * seconds
    assert warm.count(False) <= 0.1 * len(warm)
    assert len({visit.worker for visit in visits}) == 8
