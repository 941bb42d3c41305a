"""Sessions in a real server: one at a time paces a host, others get it in turn, and the dead hold nobody up long."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest
from tests.redis_proxy import Proxy
from tests.stores.redis_parts import KEY, LEASE, NOW, admin, becomes, fresh_prefix, visited_at, worker

from robotgate.pace.state import UNKNOWN
from robotgate.stores import HostState
from robotgate.stores.base import OperatorBlock, Wanted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.redis_server import RedisServer
    from tests.stores.redis_parts import Worker

    from robotgate.stores.base import Grant


@pytest.fixture
def server(every_server: RedisServer) -> RedisServer:
    """One for all tests of this file."""
    return every_server


@pytest.fixture
def prefix(server: RedisServer) -> str:
    """A fleet of its own for each test, on a server that has run for long."""
    prefix = fresh_prefix()
    server.settle(prefix)
    return prefix


@pytest.fixture
async def workers(server: RedisServer, prefix: str) -> AsyncIterator[list[Worker]]:
    """Three processes of one fleet."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(worker(server.url, prefix)) for _ in range(3)]


async def calls(server: RedisServer) -> int:
    """Count the calls of the script that the server has had."""
    async with admin(server) as client:
        stats = await client.info("commandstats")
    return int(stats["cmdstat_evalsha"]["calls"])


async def test_hosts_are_shared_out(workers: list[Worker]) -> None:
    """Where all ask for all hosts at once, no session gets them all."""
    keys = [f"{number}.example" for number in range(60)]
    asked = [(one, key, one.ask(key)) for one in workers for key in keys]
    await becomes(lambda: sum(task.done() for _, _, task in asked) == len(keys))
    shares = [sum(task.done() for one, _, task in asked if one is each) for each in workers]
    assert sum(shares) == len(keys)
    assert max(shares) < len(keys)
    for _, _, task in asked:
        task.cancel()


async def test_hosts_that_nobody_else_wants_take_few_calls(server: RedisServer, prefix: str) -> None:
    """A process that is alone asks for more and more hosts with each call to the server."""
    async with worker(server.url, prefix, lease=2.0) as one:
        await one.obtain()
        before = await calls(server)
        await asyncio.gather(*(one.obtain(f"{number}.example") for number in range(1_000)))
        assert await calls(server) - before <= 12


async def test_what_nobody_wants_stays(workers: list[Worker]) -> None:
    """An owner that nobody disturbs keeps its host for as long as it lives."""
    grant = await workers[0].obtain()
    await asyncio.sleep(1.5 * LEASE)
    assert grant.lease.is_valid()
    assert not workers[0].news


async def test_whenever_it_is_cancelled_nothing_stays_taken(workers: list[Worker]) -> None:
    """Before the ask is sent, while it is on its way, and when it was granted in the same moment."""
    first, second, _ = workers
    for turns in (0, 1, 2, 5, 20):
        key = f"{turns}.example"
        task = first.ask(key)
        for _ in range(turns):
            await asyncio.sleep(0.0005)
        if not task.cancel():
            first.session.leave(key, None)
        grant = await second.obtain(key)
        assert grant.lease.is_valid()
        assert grant.state is None or grant.state.visits == 0


async def test_a_session_that_is_cut_off_stops_before_others_start(server: RedisServer, prefix: str) -> None:
    """By its own clock its grants end before the server ends it; then it gets them anew."""
    async with (
        worker(server.url, prefix) as living,
        Proxy(server.port) as proxy,
        worker(proxy.url, prefix) as lost,
    ):
        grant = await lost.obtain()
        waiting = living.ask()
        await lost.told(Wanted)
        proxy.stall()
        handed_on = await waiting
        assert not grant.lease.is_valid()
        proxy.flow()
        again = lost.ask()
        await living.told(Wanted)
        assert handed_on.lease.is_valid()
        assert not grant.lease.is_valid()
        living.visit_and_leave()
        assert (await again).lease.is_valid()


async def test_active_owner_hears_soon_that_it_is_wanted(server: RedisServer, prefix: str) -> None:
    """An owner that saves states looks at its inbox with that, long before its next sign of life."""
    async with (
        worker(server.url, prefix, lease=60.0) as owner,
        worker(server.url, prefix, lease=60.0) as other,
    ):
        await owner.obtain()
        waiting = other.ask()
        await asyncio.sleep(0.2)
        assert not owner.news
        await owner.store.save_hosts({KEY: HostState(visits=1)})
        async with asyncio.timeout(60):
            await owner.told(Wanted)
        waiting.cancel()


@pytest.mark.parametrize("seed", range(3))
async def test_no_two_at_once(server: RedisServer, prefix: str, seed: int) -> None:
    """Whatever sessions do at random, on a network that fails, no two have valid grants, and no delay is short."""
    chance = random.Random(seed)
    delay = 0.03
    valid: dict[str, Grant | None] = {}
    last_at: dict[str, float] = {}
    visits = 0

    async def crawl(one: Worker) -> None:
        nonlocal visits
        for _ in range(25):
            key = chance.choice(("a.example", "b.example"))
            try:
                async with asyncio.timeout(chance.choice((0.02, 5.0))):
                    grant = await one.session.obtain(key)
            except TimeoutError:
                continue
            due_at = grant.not_before_at
            if grant.state is not None and grant.state.last_visit_at is not None:
                due_at = max(due_at, grant.state.last_visit_at + delay)
            await asyncio.sleep(max(due_at - NOW(), 0.0))
            if grant.lease.is_valid():
                other = valid.get(key)
                assert other is None or not other.lease.is_valid()
                assert NOW() - last_at.get(key, 0.0) >= delay
                valid[key], last_at[key] = grant, NOW()
                visits += 1
            one.visit_and_leave(key, delay=delay)
            await asyncio.sleep(chance.random() * delay)

    async with Proxy(server.port) as proxy, AsyncExitStack() as stack:
        urls = (server.url, proxy.url, proxy.url)
        fleet = [await stack.enter_async_context(worker(url, prefix)) for url in urls]

        async def fail() -> None:
            while True:
                await asyncio.sleep(0.1 + 0.2 * chance.random())
                proxy.cut()

        failing = asyncio.create_task(fail())
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            for one in fleet:
                tasks.create_task(crawl(one))
        failing.cancel()
    assert visits > 20


async def test_a_block_of_nonsense_is_ignored(
    workers: list[Worker], server: RedisServer, prefix: str
) -> None:
    """Somebody else has written it; others hear of what is ours."""
    async with admin(server) as client:
        await client.hset(f"{prefix}{{0}}:blocks", mapping={"a b": b"\x80", "c.example": b"\x93\x01"})
        workers[0].session.publish_block("no pattern", float("inf"))
        workers[0].session.publish_block("d.example", float("inf"))
        await workers[1].told(OperatorBlock)
        assert workers[1].blocks == {"d.example": float("inf")}


async def test_starts_of_a_process_that_has_died(
    workers: list[Worker], server: RedisServer, prefix: str
) -> None:
    """The next owner is told of those that were saved, and that there may be more."""
    first, second, _ = workers
    await first.obtain()
    waiting, saved_at = second.ask(), NOW()
    await first.store.save_hosts({KEY: HostState(last_visit_at=saved_at, starts=((saved_at, 3),))})
    found = first.session.grant_of(KEY)
    assert found is not None
    async with admin(server) as client:
        # As if nothing had been heard of it for a lease.
        await client.zadd(f"{prefix}{{0}}:sessions", {found[0]: NOW()})
    grant = await waiting
    assert grant.state is not None
    assert [count for _, count in grant.state.starts] == [3, UNKNOWN]
    assert grant.state.starts[1][0] == pytest.approx(visited_at(grant))


async def test_every_key_expires(workers: list[Worker], server: RedisServer, prefix: str) -> None:
    """Whatever is left of a fleet goes by itself, and no host while it is held."""
    first, second, _ = workers
    await first.obtain()
    await first.obtain("b.example")
    first.visit_and_leave("b.example", delay=30.0)
    waiting = second.ask()
    await first.told(Wanted)
    first.session.publish_block("*", float("inf"))
    await second.told(OperatorBlock)
    async with admin(server) as client:
        keys = await client.keys(f"{prefix}*")
        assert len(keys) >= 7
        ttls = {key: await client.pttl(key) for key in keys}
    assert min(ttls.values()) > 3_000_000
    waiting.cancel()
