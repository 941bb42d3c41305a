"""What may be given as a server: a URL of any of its kinds, or a client that can be used; the rest is refused."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import pytest
import redis
from redis.asyncio import Redis, RedisCluster
from redis.asyncio.sentinel import Sentinel
from tests.redis_proxy import Proxy
from tests.redis_server import RedisServer
from tests.stores.redis_parts import COMMANDS, KEY, LEASE, RECORD, Worker, admin, becomes, run, worker

from robotgate import OptionError, StoreError
from robotgate.stores.base import Lost, OperatorBlock, Recovered, Wanted
from robotgate.stores.redis import RedisStore
from robotgate.stores.redis.client import client_of, server_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

SENTINEL: Final = Sentinel([("db.example", 26379)])  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("redis://localhost", "redis localhost:6379/0"),
        ("REDIS://db.example:7000/3", "redis db.example:7000/3"),
        ("rediss://user:s3cret@db.example/", "redis db.example:6379/0"),
        ("valkey://:s3cret@db.example:6380", "redis db.example:6380/0"),
        ("valkeys://db.example:6380/1", "redis db.example:6380/1"),
        ("redis://[::1]:7000/2", "redis [::1]:7000/2"),
        ("redis://db.example?db=4&password=s3cret", "redis db.example:6379/4"),
        ("unix:///run/redis.sock", "redis /run/redis.sock/0"),
        ("unix://user:s3cret@/run/redis.sock?db=2", "redis /run/redis.sock/2"),
        ("redis+cluster://user:s3cret@db.example:7000", "redis cluster db.example:7000"),
        ("valkeys+cluster://[2001:db8::1]:7000/0", "redis cluster [2001:db8::1]:7000"),
    ],
)
def test_urls(url: str, name: str) -> None:
    """Named without credentials."""
    assert server_name(client_of(url)) == name


def test_what_is_no_url_is_refused(subtests: pytest.Subtests) -> None:
    """By the name of the option, and without what may be a password."""
    for url, problem in [
        ("", "give a URL such as redis://localhost:6379/0"),
        ("localhost:6379", "give a URL"),
        ("http://localhost", "give a URL"),
        ("memcached://localhost", "give a URL"),
        ("redis://localhost:port", "its port is no number"),
        ("redis://localhost:70000", "its port is no number"),
        ("redis://[::1", "port is no number"),
        ("redis://user:s3cret/0", "its port is no number"),
        ("redis://user:s3cret@localhost/name", "give the number of a database"),
        ("redis://localhost/-1", "give the number of a database"),
        ("redis://localhost/1/2", "give the number of a database"),
        ("redis://user:s3cret@localhost/0#1", "write a # as %23"),
        ("redis://localhost?socket_timeout=soon", "socket_timeout"),
        ("redis://user:s3cret@localhost?no_such=1", "no_such"),
        ("redis://localhost?protocol=7&password=s3cret", "protocol must be either 2 or 3"),
        ("unix://", "give the path of a socket"),
        ("redis+cluster://localhost/1", "a cluster has no database but 0"),
        ("redis+cluster://localhost?no_such=1", "no_such"),
    ]:
        with subtests.test(url=url, problem=problem):
            with pytest.raises(OptionError, match=f"^client_or_url=.*{problem}") as caught:
                RedisStore(url)
            assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("client", "problem"),
    [
        (None, "give a redis.asyncio.Redis, or a URL"),
        (1, "give a redis.asyncio.Redis"),
        (Redis, "give a redis.asyncio.Redis"),
        (redis.Redis(password="s3cret"), "it would block the event loop; give one of redis.asyncio"),
        (Redis(password="s3cret").pipeline(), "give a redis.asyncio.Redis"),
        (SENTINEL, r"master_for\(name\)"),
        (SENTINEL.slave_for("fleet"), "a replica cannot be written"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_client_is_refused(client: object, problem: str) -> None:
    """Saying what to give instead."""
    with pytest.raises(OptionError, match=f"^client_or_url=.*{problem}") as caught:
        RedisStore(client)  # type: ignore[arg-type]
    assert "s3cret" not in str(caught.value)


def test_clients_are_named() -> None:
    """A service of Sentinels, wherever its primary is; a cluster by the nodes that were given."""
    cluster = RedisCluster(host="db.example", password="s3cret")
    assert server_name(client_of(cluster)) == "redis cluster db.example:6379"
    client = SENTINEL.master_for("fleet", db=2, password="s3cret")
    assert server_name(client_of(client)) == "redis service fleet/2"


async def test_a_socket_of_this_machine(tmp_path: Path) -> None:
    """Through a file, without a network."""
    path = tmp_path / "s"
    with RedisServer(tmp_path, options={"unixsocket": str(path)}):
        async with RedisStore(f"unix://{path}?db=1") as store:
            await store.save_record(RECORD)
            assert await store.load_record(RECORD.origin) == RECORD


async def test_tls(server: RedisServer, key_file: Path) -> None:
    """With the authority named; without, it is refused at once, and says so."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(key_file)
    async with Proxy(server.port, tls=context) as proxy:
        url = f"rediss://127.0.0.1:{proxy.port}/0"
        async with RedisStore(f"{url}?ssl_ca_certs={key_file}&ssl_check_hostname=false") as store:
            await store.save_record(RECORD)
            proxy.cut()
            assert await store.load_record(RECORD.origin) == RECORD
        store = RedisStore(url, patience=60)
        with pytest.raises(StoreError, match=r"certificate is not valid .*ssl_ca_certs"):
            await store.open()
        await store.aclose()


@pytest.mark.parametrize("protocol", [2, 3])
async def test_the_listed_commands_are_enough(server: RedisServer, protocol: int) -> None:
    """For everything that a store does, in another database than the first, over either protocol."""
    allowed = [f"+{command}" for command in COMMANDS if command != "client|setinfo"]
    async with admin(server) as client:
        await run(client, "ACL", "SETUSER", "just", "on", ">s3cret", "~just:*", *allowed)
    server.settle("just:", database=3)
    url = f"redis://just:s3cret@127.0.0.1:{server.port}/3?protocol={protocol}"
    async with worker(url, "just:") as one, worker(url, "just:") as other:
        await one.obtain()
        waiting = other.ask()
        await one.told(Wanted)
        one.session.publish_block("*", float("inf"))
        await other.told(OperatorBlock)
        one.visit_and_leave()
        await waiting
        cancelled = one.ask()
        await other.told(Wanted)
        cancelled.cancel()
        await one.store.save_record(RECORD)
        assert [record async for record in other.store.records()] == [RECORD]
        assert [name async for name, _ in other.store.hosts()] == [KEY]
        assert await one.store.forget_record(RECORD.origin)
        assert await one.store.forget_host(KEY)
        assert not one.times(Lost)


@pytest.mark.slow
async def test_a_primary_is_found_by_sentinels(tmp_path: Path) -> None:
    """And found again after a failover, with all that was told to the one before."""
    folders = [tmp_path / name for name in ("one", "two", "sentinel")]
    for folder in folders:
        folder.mkdir()
    with RedisServer(folders[0]) as one, RedisServer(folders[1]) as two:
        async with admin(one) as client, admin(two) as replica:
            await client.set("replicated", "")
            await replica.replicaof("127.0.0.1", str(one.port))
            await becomes(lambda: replica.exists("replicated"))
        async with sentinel(folders[2], one) as monitor:
            await _fail_over(monitor, one)


@asynccontextmanager
async def sentinel(folder: Path, primary: RedisServer) -> AsyncIterator[Redis]:
    """One that watches a server and its replica, and may decide alone."""
    settings = folder / "sentinel.conf"
    settings.write_text(
        f"sentinel monitor fleet 127.0.0.1 {primary.port} 1\n"
        "sentinel down-after-milliseconds fleet 300\nsentinel failover-timeout fleet 2000\n"
    )
    with RedisServer(folder, arguments=(str(settings), "--sentinel"), options={"save": None}) as server:
        async with admin(server) as client:
            await becomes(lambda: run(client, "SENTINEL", "REPLICAS", "fleet"))
            yield client


async def _fail_over(monitor: Redis, primary: RedisServer) -> None:
    port = monitor.connection_pool.connection_kwargs["port"]
    sentinels = Sentinel([("127.0.0.1", port)], socket_timeout=1)  # type: ignore[no-untyped-call]
    clients = [sentinels.master_for("fleet", socket_timeout=1) for _ in range(2)]
    stores = [RedisStore(client, prefix="fleet:", lease=LEASE) for client in clients]
    first, second = [Worker(store, await store.session()) for store in stores]
    await first.obtain()
    due_at = first.visit_and_leave(delay=30.0)
    await first.store.load_host(KEY)
    await asyncio.sleep(0.2)
    primary.kill()
    for one in (first, second):
        await one.told(Lost)
    assert (await second.obtain()).not_before_at >= due_at
    await first.told(Recovered)
    for one, client in zip((first, second), clients, strict=True):
        one.hearing.cancel()
        await one.store.aclose()
        await client.aclose()
    for asked in sentinels.sentinels:
        await asked.aclose()
