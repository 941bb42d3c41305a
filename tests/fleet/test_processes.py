"""Processes that want the same of the same hosts: to these they are one crawler, whatever becomes of one of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from tests.fleet.conftest import ANSWER, DELAY, HOSTS, PAGES, WORKERS, orders
from tests.fleet.fleet import Fleet
from tests.fleet.site import ROBOTS_PATH, Site

if TYPE_CHECKING:
    from tests.redis_server import RedisServer

EACH: Final = len(HOSTS) * len(PAGES)
"""Pages that one worker wants."""


async def test_workers_are_one_crawler_to_the_hosts(redis: RedisServer) -> None:
    """One robots.txt request for each host in all, no gap under the delay, and every page for everybody."""
    async with Site(takes=ANSWER) as site, Fleet(orders(redis.url, site.port)) as fleet:
        await fleet.ended()
    assert fleet.failures == []
    assert [len(worker.pages) for worker in fleet.workers] == [EACH] * WORKERS
    assert site.robots_requests == dict.fromkeys(HOSTS, 1)
    assert len(site.visits) == WORKERS * EACH + len(HOSTS)
    assert site.short_gaps(DELAY) == []


async def test_workers_that_are_killed(redis: RedisServer) -> None:
    """What they held delays the others by the lease at most, and those have all their pages.

    One is killed while robots.txt is asked for, another in the middle. What the first had asked for and told nobody,
    others ask for again.
    """
    async with Site(takes=ANSWER) as site, Fleet(orders(redis.url, site.port, lease=2.0)) as fleet:
        await fleet.pages(1)
        fleet.workers[0].kill()
        await fleet.pages(WORKERS * EACH // 3)
        fleet.workers[1].kill()
        await fleet.ended()
    assert fleet.failures == []
    assert [worker.done is not None for worker in fleet.workers] == [False, False, True, True]
    assert site.short_gaps(DELAY) == []
    asked = [(visit.host, visit.worker) for visit in site.visits if visit.path == ROBOTS_PATH]
    killed = {host for host, worker in asked if worker in {0, 1}}
    assert max(site.robots_requests.values()) <= 3
    assert {host for host, count in site.robots_requests.items() if count > 1} <= killed


async def test_a_worker_that_is_set_aside(redis: RedisServer) -> None:
    """For less than its lease: nobody takes over what it holds, and it goes on where it was."""
    async with Site(takes=ANSWER) as site, Fleet(orders(redis.url, site.port, lease=10.0)) as fleet:
        await fleet.pages(WORKERS * EACH // 3)
        fleet.workers[0].freeze()
        await asyncio.sleep(3)
        fleet.workers[0].thaw()
        await fleet.ended()
    assert fleet.failures == []
    assert [len(worker.pages) for worker in fleet.workers] == [EACH] * WORKERS
    assert site.robots_requests == dict.fromkeys(HOSTS, 1)
    assert site.short_gaps(DELAY) == []


async def test_a_worker_that_is_set_aside_for_longer_than_its_lease(redis: RedisServer) -> None:
    """What it had been told to send and had not sent, nobody can call back: no gap but of these may be short."""
    async with Site(takes=ANSWER) as site, Fleet(orders(redis.url, site.port, lease=2.0)) as fleet:
        await fleet.pages(WORKERS * EACH // 3)
        fleet.workers[0].freeze()
        await asyncio.sleep(5)
        fleet.workers[0].thaw()
        await fleet.ended()
    assert fleet.failures == []
    assert [len(worker.pages) for worker in fleet.workers] == [EACH] * WORKERS
    for gap in site.short_gaps(DELAY):
        assert 0 in {gap.visit.worker, gap.before.worker}
