"""A store in a Redis Cluster: hosts are spread over its nodes, which may fail and change while a fleet crawls."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

import pytest
from redis.crc import key_slot
from tests.redis_cluster import redis_cluster
from tests.stores.redis_parts import LEASE, becomes, check_fleets, worker

from robotgate.stores.base import Lost, OperatorBlock, Recovered, Wanted
from robotgate.stores.redis import RedisStore
from robotgate.stores.redis.messages import Keys
from robotgate.stores.redis.store import TAGS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.redis_cluster import RedisCluster


PREFIX: Final = "robotgate:"
KEYS: Final = Keys(PREFIX, TAGS)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[RedisCluster]:
    """A cluster for one test, which may do to it as it likes."""
    async with redis_cluster(tmp_path) as cluster:
        yield cluster


def slot_of(name: str) -> int:
    """Return the slot of a host."""
    return int(key_slot(KEYS.of_tag(KEYS.tag_of(name))))


def hosts_on(cluster: RedisCluster, node: int) -> list[str]:
    """Return hosts that a node has."""
    names = [f"{number}.example" for number in range(60)]
    return [name for name in names if cluster.node_of(slot_of(name)) == node]


@pytest.mark.slow
async def test_it_does_all_that_it_says(cluster: RedisCluster) -> None:
    """As on a single server."""
    await check_fleets(lambda prefix: RedisStore(cluster.url, prefix=prefix, lease=LEASE))


@pytest.mark.slow
async def test_nodes_share_the_work_and_fail_one_by_one(cluster: RedisCluster) -> None:
    """Hosts of other nodes go on while one is lost; those of the lost one go on when its replica took over."""
    async with AsyncExitStack() as stack:
        # A busy machine may stop a process for longer than the lease of other tests.
        workers = [worker(cluster.url, PREFIX, lease=4.0) for _ in range(2)]
        first, second = [await stack.enter_async_context(each) for each in workers]
        lost, kept = hosts_on(cluster, 0), hosts_on(cluster, 1)
        assert hosts_on(cluster, 2)
        await first.obtain(lost[0])
        due_at = first.visit_and_leave(lost[0], delay=60.0)
        await first.obtain(kept[0])
        await first.store.load_host(lost[0])
        await becomes(cluster.clients[3].dbsize)
        cluster.nodes[0].kill()
        waiting = second.ask(lost[0])
        await second.told(Lost)
        grant = await first.obtain(kept[1])
        assert grant.lease.is_valid()
        also_waiting = second.ask(kept[1])
        await first.told(Wanted)
        first.visit_and_leave(kept[1])
        assert (await also_waiting).lease.is_valid()
        assert (await waiting).not_before_at >= due_at
        await second.told(Recovered)


@pytest.mark.slow
async def test_slots_that_move(cluster: RedisCluster) -> None:
    """Whoever holds a host keeps it when its slot moves to another node, and what is known of hosts moves along."""
    async with AsyncExitStack() as stack:
        first, second = [await stack.enter_async_context(worker(cluster.url, PREFIX)) for _ in range(2)]
        held = hosts_on(cluster, 0)[0]
        left = next(name for name in hosts_on(cluster, 0) if slot_of(name) == slot_of(held) and name != held)
        grant = await first.obtain(held)
        await first.obtain(left)
        due_at = first.visit_and_leave(left, delay=60.0)
        await first.store.load_host(left)
        await cluster.move(slot_of(held), to=1)
        waiting = second.ask(held)
        await first.told(Wanted)
        assert grant.lease.is_valid()
        assert not waiting.done()
        first.visit_and_leave(held)
        assert (await waiting).lease.is_valid()
        assert (await second.obtain(left)).not_before_at >= due_at
        first.session.publish_block("*", float("inf"))
        await second.told(OperatorBlock)
