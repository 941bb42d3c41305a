"""A fleet whose server dies, forgets, stands still or cannot be reached: the sites notice fewer requests at most."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
from redis.asyncio import Redis
from tests.fleet.conftest import ANSWER, DELAY, HOSTS, LEASE, PAGES, WORKERS, orders
from tests.fleet.fleet import Fleet
from tests.fleet.site import Site
from tests.fleet.worker import Order
from tests.redis_proxy import Proxy

if TYPE_CHECKING:
    from tests.redis_server import RedisServer

TOTAL: Final = WORKERS * len(HOSTS) * len(PAGES)
SLOW: Final = 1.5 * DELAY
"""Seconds that a response takes, so that what is under way when the server forgets ends later than a delay after."""
FEW: Final = PAGES[:2]
FEW_TOTAL: Final = WORKERS * len(HOSTS) * len(FEW)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["restarted", "emptied"])
async def test_a_server_that_forgets(redis: RedisServer, way: str) -> None:
    """Every host has its delay to serve from then on, and what is under way is known again in time.

    What was forgotten is a robots.txt too, which is asked for once more at the most.
    """
    async with Site(takes=SLOW) as site, Fleet(orders(redis.url, site.port, pages=FEW)) as fleet:
        await fleet.pages(FEW_TOTAL // 3)
        if way == "restarted":
            redis.kill()
            redis.start()
        else:
            async with Redis.from_url(redis.url) as client:
                await client.flushall()
        await fleet.ended()
    assert_polite(site, fleet, total=FEW_TOTAL, robots_requests=frozenset({1, 2}))


@pytest.mark.slow
async def test_connections_that_break(redis: RedisServer) -> None:
    """Again and again, in the middle of calls: a call that was made twice counts once."""
    async with (
        Proxy(redis.port) as proxy,
        Site(takes=ANSWER) as site,
        Fleet(orders(proxy.url, site.port)) as fleet,
    ):
        for eighth in range(1, 8):
            await fleet.pages(TOTAL * eighth // 8)
            proxy.cut()
        await fleet.ended()
    assert_polite(site, fleet)
    assert proxy.connections > 2 * WORKERS


@pytest.mark.slow
async def test_a_server_that_is_frozen(redis: RedisServer) -> None:
    """For longer than all leases: nothing is lost, so the fleet goes on when it is back, not a lease later."""
    lease = 10.0
    fewer = [replace(order, lease=lease) for order in orders(redis.url, 0)]
    async with (
        Site(takes=ANSWER) as site,
        Fleet([replace(order, port=site.port) for order in fewer]) as fleet,
    ):
        await fleet.pages(TOTAL // 3)
        redis.pause()
        await asyncio.sleep(1.3 * lease)
        before = len(site.visits)
        back_at = time.monotonic()
        redis.resume()
        await fleet.ended()
    assert_polite(site, fleet)
    first = {visit.host: visit.came_at for visit in reversed(site.visits[before:])}
    assert max(first.values()) < back_at + lease


@pytest.mark.slow
async def test_a_slow_way_to_the_server(redis: RedisServer) -> None:
    """A question and its answer take a fifth of the delay, and for a second nothing comes through at all."""
    async with (
        Proxy(redis.port) as proxy,
        Site(takes=ANSWER) as site,
        Fleet(orders(proxy.url, site.port, pages=FEW)) as fleet,
    ):
        proxy.delay = DELAY / 10
        await fleet.pages(FEW_TOTAL // 3)
        proxy.stall()
        await asyncio.sleep(1)
        proxy.flow()
        await fleet.ended()
    assert_polite(site, fleet, total=FEW_TOTAL)


@pytest.mark.slow
async def test_everybody_is_late(redis: RedisServer) -> None:
    """A question and its answer take as long as the delay: nobody is there when it is his turn, and all get theirs."""
    async with Proxy(redis.port) as proxy, Site(takes=ANSWER) as site:
        proxy.delay = DELAY / 2
        fewer = [replace(order, hosts=HOSTS[:10]) for order in orders(proxy.url, site.port)]
        async with Fleet(fewer) as fleet:
            await fleet.ended()
    assert_polite(site, fleet, total=WORKERS * len(PAGES) * 10)


@pytest.mark.slow
async def test_a_server_that_is_emptied_while_a_worker_waits_for_an_answer(redis: RedisServer) -> None:
    """It has nothing to tell the server meanwhile, and tells it again all the same what it has under way: another, who
    wants the same host, waits for the end of that, and for the delay after it.
    """
    host = HOSTS[:1]
    long, other = (
        Order(number=number, store=redis.url, port=0, hosts=host, pages=(page,), delay=DELAY, lease=LEASE)
        for number, page in enumerate(("/long", "/other"))
    )
    async with (
        Site(takes=ANSWER, longer={"/long": 3.0}) as site,
        Fleet([replace(long, port=site.port)]) as first,
    ):
        await site.arrival("/long")
        async with Fleet([replace(other, port=site.port)]) as second:
            async with Redis.from_url(redis.url) as client:
                await client.flushall()
            await first.ended()
            await second.ended()
    assert [page.outcome for page in first.workers[0].pages + second.workers[0].pages] == ["200", "200"]
    assert site.short_gaps(DELAY) == []


def assert_polite(
    site: Site, fleet: Fleet, *, total: int = TOTAL, robots_requests: frozenset[int] = frozenset({1})
) -> None:
    """Every page came to every worker, no host was asked too soon, and for its robots.txt once, or so many times."""
    assert fleet.failures == []
    assert fleet.page_count == total
    assert all(worker.done for worker in fleet.workers)
    assert site.short_gaps(DELAY) == []
    assert set(site.robots_requests.values()) <= robots_requests
