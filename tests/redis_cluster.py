"""A Redis Cluster of real servers for tests: three primaries, and a replica of the first."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from redis.asyncio import Redis
from tests.redis_server import RedisServer
from tests.stores.redis_parts import becomes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

SLOTS: Final = 16384
NODE_TIMEOUT: Final = 1000
"""Milliseconds after which a node counts as failed."""
_OPTIONS: Final = {
    "cluster-enabled": "yes",
    "cluster-node-timeout": str(NODE_TIMEOUT),
    "cluster-replica-validity-factor": "0",
    "cluster-require-full-coverage": "no",
    "repl-diskless-sync-delay": "0",
}


class RedisCluster:
    """The nodes, the last of which is a replica of the first."""

    def __init__(self, nodes: list[RedisServer], clients: list[Redis]) -> None:
        self.nodes = nodes
        self.clients = clients

    @property
    def url(self) -> str:
        """As a client is told it."""
        return f"redis+cluster://127.0.0.1:{self.nodes[1].port}"

    def node_of(self, slot: int) -> int:
        """Return which node had a slot at first."""
        return min(slot * 3 // SLOTS, 2)

    async def move(self, slot: int, *, to: int) -> None:
        """Move a slot with its keys to another primary, as an operator's tools do."""
        source, target = self.clients[self.node_of(slot)], self.clients[to]
        source_id, target_id = [await _run(client, "CLUSTER", "MYID") for client in (source, target)]
        await _run(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", source_id)
        await _run(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", target_id)
        while keys := await _run(source, "CLUSTER", "GETKEYSINSLOT", slot, 10):
            assert isinstance(keys, list)
            await _run(source, "MIGRATE", "127.0.0.1", self.nodes[to].port, "", 0, 5000, "KEYS", *keys)
        for client in (target, source, *self.clients[1:3]):
            await _run(client, "CLUSTER", "SETSLOT", slot, "NODE", target_id)


@asynccontextmanager
async def redis_cluster(folder: Path) -> AsyncIterator[RedisCluster]:
    """Start a cluster, and wait until it serves."""
    async with AsyncExitStack() as stack:
        nodes, clients = [], []
        for number in range(4):
            path = folder / f"node{number}"
            path.mkdir()
            nodes.append(stack.enter_context(RedisServer(path, options=dict(_OPTIONS), max_port=55_000)))
            clients.append(await stack.enter_async_context(Redis.from_url(nodes[-1].url)))
        for number, client in enumerate(clients[:3]):
            slots = range(-(-SLOTS * number // 3), -(-SLOTS * (number + 1) // 3))
            await _run(client, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            await _run(client, "CLUSTER", "ADDSLOTS", *slots)
        for client in clients[1:]:
            await _run(client, "CLUSTER", "MEET", "127.0.0.1", nodes[0].port)
        first = await _run(clients[0], "CLUSTER", "MYID")
        await becomes(lambda: _knows(clients[3], first))
        await _run(clients[3], "CLUSTER", "REPLICATE", first)
        for client in clients:
            await becomes(partial(_serves, client))
        await becomes(lambda: _replicates(clients[3]))
        yield RedisCluster(nodes, clients)


async def _run(client: Redis, *words: object) -> object:
    return await client.execute_command(*words, NEVER_DECODE=True)  # type: ignore[no-untyped-call]


async def _knows(client: Redis, node: object) -> bool:
    assert isinstance(node, bytes)
    nodes = await _run(client, "CLUSTER", "NODES")
    assert isinstance(nodes, bytes)
    return node in nodes and b"handshake" not in nodes


async def _serves(client: Redis) -> bool:
    state = await _run(client, "CLUSTER", "INFO")
    assert isinstance(state, bytes)
    return b"cluster_state:ok" in state and b"cluster_known_nodes:4" in state


async def _replicates(client: Redis) -> bool:
    return bool((await client.info("replication"))["master_link_status"] == "up")
