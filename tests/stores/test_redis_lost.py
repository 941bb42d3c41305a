"""A server that is lost, slow, full, or has forgotten everything: the pace holds, and all goes on once it can."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest
from redis.asyncio import Redis
from tests.redis_proxy import Proxy
from tests.redis_server import RedisServer
from tests.stores.redis_parts import KEY, LEASE, NOW, Worker, admin, becomes, run, visited_at, worker

from robotgate import StoreError
from robotgate.stores import HostState
from robotgate.stores.base import Lost, OperatorBlock, Recovered, Wanted
from robotgate.stores.redis import RedisStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

PREFIX = "robotgate:"


@pytest.fixture
def server(server: RedisServer) -> RedisServer:
    """One for each test, that has run for long."""
    server.settle()
    return server


@pytest.fixture
async def pair(server: RedisServer) -> AsyncIterator[list[Worker]]:
    """Two processes of one fleet on a server of their own."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(worker(server.url, PREFIX)) for _ in range(2)]


@pytest.fixture
async def proxy(server: RedisServer) -> AsyncIterator[Proxy]:
    """A network to the server that fails."""
    async with Proxy(server.port) as proxy:
        yield proxy


async def visited(one: Worker, key: str = KEY, *, delay: float = 30.0) -> float:
    """Visit a host and hand it on. Returns when the next visit may start."""
    await one.obtain(key)
    due_at = one.visit_and_leave(key, delay=delay)
    await one.store.load_host(key)
    return due_at


@pytest.mark.parametrize("forgets", ["flush", "restart"])
async def test_what_was_forgotten_is_reasserted(
    server: RedisServer, pair: list[Worker], forgets: str
) -> None:
    """Whoever holds a host goes on at once, and keeps it; all others count as visited a lease later."""
    first, second = pair
    grant = await first.obtain()
    await visited(second, "b.example")
    if forgets == "flush":
        async with admin(server) as client:
            await client.flushall()
    else:
        server.kill()
        server.start()
    lost_at = NOW()
    waiting, other = second.ask(), second.ask("b.example")
    granted = await other
    # A server that was restarted has started before this clock was looked at.
    assert visited_at(granted) > lost_at + LEASE - 1.0 - (forgets == "restart")
    assert grant.lease.is_valid()
    assert not waiting.done()
    await first.told(Wanted)
    due_at = first.visit_and_leave(delay=5.0)
    assert (await waiting).not_before_at >= due_at


async def test_what_is_held_while_memory_is_lost_is_handed_on_at_once(server: RedisServer) -> None:
    """Whoever has claimed a host says when it is free: nobody waits until it might be."""
    async with (
        worker(server.url, PREFIX, lease=10.0) as first,
        worker(server.url, PREFIX, lease=10.0) as second,
    ):
        await first.obtain()
        async with admin(server) as client:
            await client.flushall()
        waiting = second.ask()
        await first.told(Wanted)
        due_at = first.visit_and_leave(delay=30.0)
        async with asyncio.timeout(5):
            granted = await waiting
        assert due_at <= granted.not_before_at < due_at + 1.0
        assert visited_at(granted) <= NOW()
        second.visit_and_leave()
        async with asyncio.timeout(5):
            await second.obtain()


async def test_a_restarted_server_grants_nothing_for_a_lease(server: RedisServer) -> None:
    """A process that does not call again in time may still hold any host.

    A server counts its uptime in whole seconds: one that is a moment old may say a second.
    """
    await asyncio.sleep((0.5 - NOW()) % 1)
    server.kill()
    killed_at = NOW()
    server.start()
    # Until then, none calls it.
    await asyncio.sleep((0.02 - NOW()) % 1)
    async with worker(server.url, PREFIX) as one:
        await one.obtain()
        assert NOW() >= killed_at + LEASE


@pytest.mark.slow
async def test_a_dump_of_before(tmp_path: Path) -> None:
    """A server that starts with old data knows no owner from it, and no host comes too soon."""
    with RedisServer(tmp_path) as server:
        async with worker(server.url, PREFIX) as first, worker(server.url, PREFIX) as second:
            await visited(first, "b.example", delay=0.0)
            await first.obtain()
            async with admin(server) as client:
                await client.save()
            shutil.copy(tmp_path / "dump.rdb", tmp_path / "old.rdb")
            await first.told(Wanted, 0)
            first.visit_and_leave(delay=30.0)
            grant = await second.obtain()
            due_at = grant.not_before_at
            server.kill()
            shutil.copy(tmp_path / "old.rdb", tmp_path / "dump.rdb")
            restarted_at = NOW()
            server.start()
            waiting, other = first.ask(), await first.obtain("b.example")
            assert visited_at(other) >= restarted_at + LEASE
            assert grant.lease.is_valid()
            assert not waiting.done()
            second.session.leave(KEY, HostState(last_visit_at=NOW(), next_allowed_at=due_at))
            assert (await waiting).not_before_at >= due_at


async def test_blocks_are_said_again(server: RedisServer, pair: list[Worker]) -> None:
    """What stands outlives a flush; what was lifted stays so, and nothing is told twice."""
    first, second = pair
    first.session.publish_block("a.example", float("inf"))
    first.session.publish_block("b.example", float("inf"))
    await second.told(OperatorBlock, 2)
    second.session.publish_block("b.example", 0.0)
    await first.told(OperatorBlock)
    async with admin(server) as client:
        await client.flushall()
        # Two words, and their version.
        await becomes(lambda: client.hget(f"{PREFIX}{{0}}:blocks", "a.example"))
        await becomes(lambda: client.hget(f"{PREFIX}{{0}}:blocks", "b.example"))
    async with worker(server.url, PREFIX) as later:
        await later.told(OperatorBlock)
        assert later.blocks == {"a.example": float("inf")}
    assert (first.times(OperatorBlock), second.times(OperatorBlock)) == (1, 2)


async def test_no_memory(server: RedisServer, pair: list[Worker]) -> None:
    """A server that takes no more is lost until it does, though it answers what only reads."""
    first, _ = pair
    await first.obtain()
    async with admin(server) as client:
        await client.config_set("maxmemory", 1)
        await first.told(Lost)
        error = next(news.error for news in first.news if isinstance(news, Lost))
        assert "its memory is full" in str(error)
        waiting = first.ask("b.example")
        await asyncio.sleep(0.1)
        assert not waiting.done()
        assert first.times(Recovered) == 0
        await client.config_set("maxmemory", 0)
        await waiting


async def test_keys_that_are_thrown_out(server: RedisServer, pair: list[Worker]) -> None:
    """A server that evicts keys has lost memory: what is held is held on, and all else waits for a lease."""
    first, second = pair
    grant = await first.obtain()
    async with admin(server) as client:
        await client.config_set("maxmemory-policy", "allkeys-random")
        await client.config_set("maxmemory", 1_500_000)
        for number in range(200):
            await client.set(f"other{number}", b"x" * 10_000)
        stats = await client.info("stats")
        assert stats["evicted_keys"] > 0
        await client.config_set("maxmemory", 0)
        evicted_at = NOW()
    waiting = second.ask()
    other = await second.obtain("b.example")
    assert visited_at(other) > evicted_at
    assert grant.lease.is_valid()
    assert not waiting.done()
    waiting.cancel()


@pytest.mark.parametrize("way", ["cut", "cut at", "cut inside", "stall"])
async def test_messages_are_lost(server: RedisServer, proxy: Proxy, way: str) -> None:
    """On the way there or back: a host that is handed on meanwhile has one owner, and a delay that counts."""
    async with worker(server.url, PREFIX) as near, worker(proxy.url, PREFIX) as far:
        await far.obtain()
        waiting = near.ask()
        await far.told(Wanted)
        match way:
            case "cut":
                proxy.cut()
            case "cut at":
                proxy.cut_at = b"exchange"
            case "cut inside":
                proxy.cut_inside = 7
            case "stall":
                proxy.stall()
                asyncio.get_running_loop().call_later(0.3, proxy.flow)
        due_at = far.visit_and_leave(delay=5.0)
        again = far.ask()
        grant = await waiting
        assert grant.lease.is_valid()
        assert grant.not_before_at >= due_at
        await near.told(Wanted)
        assert not again.done()
        near.visit_and_leave()
        assert (await again).not_before_at >= due_at


@pytest.mark.slow
async def test_closing_while_lost_ends_soon(server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever waits is told, and the log says what could not be said."""
    async with worker(server.url, PREFIX, patience=60) as one:
        await one.obtain()
        server.kill()
        await one.told(Lost)
        waiting = one.ask("b.example")
        await asyncio.sleep(0.01)
        await one.store.aclose()
        with pytest.raises(StoreError):
            await waiting
        assert "could not be ended" in caplog.text
    assert not [task for task in asyncio.all_tasks() if "redis" in repr(task.get_coro())]


class FaultyClient(Redis):
    """A client with an error of its own code, as redis-py's have it when a cluster fails over."""

    error: Exception | None = None

    async def execute_command(self, *words: object, **options: object) -> object:
        """Run a command, or raise the error."""
        if self.error is not None:
            raise self.error
        return await super().execute_command(*words, **options)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(
    "error",
    [AttributeError("'NoneType' object has no attribute 'writelines'"), asyncio.IncompleteReadError(b"", 2)],
)
async def test_whatever_the_client_raises_is_a_lost_server(
    server: RedisServer, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """It is tried again, and the log has the error with its traceback, once."""
    problems: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    async with FaultyClient(port=server.port) as client:
        store = RedisStore(client, prefix=PREFIX, lease=LEASE, patience=60)
        one = Worker(store, await store.session())
        client.error = error
        waiting = one.ask()
        await one.told(Lost)
        with pytest.raises(StoreError, match=f"redis-py fails \\({type(error).__name__}: "):
            await store.origins()
        await asyncio.sleep(0.05)
        assert not waiting.done()
        client.error = None
        assert (await waiting).lease.is_valid()
        await one.told(Recovered)
        one.hearing.cancel()
        await store.aclose()
    (record,) = [record for record in caplog.records if record.exc_info]
    assert record.exc_info is not None
    assert record.exc_info[1] is not None
    assert record.exc_info[1].__cause__ is error
    assert problems == []


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl", "noeviction"])
async def test_a_server_that_may_evict_keys_is_told_of(
    server: RedisServer, policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    """By the name of its policy, once for each store, when the store is opened or a gate joins it."""
    async with admin(server) as client:
        await client.config_set("maxmemory-policy", policy)
    async with RedisStore(server.url) as store:
        await (await store.session()).aclose()
    async with worker(server.url, PREFIX):
        pass
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == (0 if policy == "noeviction" else 2)
    assert all(f"maxmemory-policy is {policy}" in warning for warning in warnings)


async def test_a_cancelled_close_closes_all_connections(server: RedisServer) -> None:
    """The server would keep them until the process ends."""
    async with admin(server) as client:
        store = RedisStore(server.url)
        await store.session()
        assert len(await client.client_list()) > 1
        server.pause()
        closing = asyncio.get_running_loop().create_task(store.aclose())
        await asyncio.sleep(0.05)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        server.resume()

        async def is_alone() -> bool:
            return len(await client.client_list()) == 1

        await becomes(is_alone)


@pytest.mark.parametrize(
    ("user", "cause"),
    [("nobody:wrong", "it refuses the login"), ("poor:s3cret", "forbids a command or a key .*ACL")],
)
async def test_refusals_are_told_at_once(server: RedisServer, user: str, cause: str) -> None:
    """Whatever the patience, and without the password; it is found out when the operator has changed his mind."""
    async with admin(server) as client:
        await run(client, "ACL", "SETUSER", "poor", "on", ">s3cret", "~*", "+get")
        store = RedisStore(f"redis://{user}@127.0.0.1:{server.port}/0", patience=60)
        with pytest.raises(StoreError, match=cause) as caught:
            await store.open()
        assert "s3cret" not in str(caught.value)
        assert "wrong" not in str(caught.value)
        for name, password in (("nobody", "wrong"), ("poor", "s3cret")):
            await run(client, "ACL", "SETUSER", name, "on", f">{password}", "~*", "+@all")
        async with asyncio.timeout(60):
            await becomes(lambda: store._link.given_up(0) is None)
        async with store:
            assert await store.load_host(KEY) is None


async def test_what_is_no_such_database_is_told_at_once(server: RedisServer) -> None:
    """A web server, for one; and a number that the server does not have is not taken for another one."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    web = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = web.sockets[0].getsockname()[1]
    for url, cause in (
        (f"redis://127.0.0.1:{port}", "does not use the protocol of Redis"),
        (server.url.removesuffix("/0") + "/99", "/99: it has no database of that number"),
    ):
        store = RedisStore(url, patience=60)
        with pytest.raises(StoreError, match=cause):
            await store.open()
        await store.aclose()
    web.close()
