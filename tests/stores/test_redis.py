"""The store in a server does all that a store does, for every server there is, by URL and by client."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING

import pytest
from redis.asyncio import Redis
from tests.redis_server import RedisServer
from tests.stores.redis_parts import becomes, fresh_prefix
from tests.stores.test_redis_records import ORIGIN, RECORD

from robotgate import Catalogue, HostState, SharedStore, StoreError
from robotgate.stores.redis import RedisStore
from robotgate.testing import check_store

if TYPE_CHECKING:
    from robotgate import RobotsRecord, Store


@pytest.fixture
def server(every_server: RedisServer) -> RedisServer:
    """One for all tests of this file."""
    return every_server


async def test_by_url_it_does_all_that_it_says(server: RedisServer) -> None:
    """Opened again, and beside another."""
    prefixes: dict[Store, str] = {}
    fleet = fresh_prefix()
    numbers = count()

    def made(prefix: str) -> RedisStore:
        store = RedisStore(server.url, prefix=prefix)
        prefixes[store] = prefix
        return store

    await check_store(
        lambda: made(f"{fleet}{next(numbers)}:"), make_another=lambda store: made(prefixes[store])
    )


@pytest.mark.parametrize("as_text", [False, True], ids=["octets", "text"])
async def test_by_client_it_does_all_that_it_says(server: RedisServer, *, as_text: bool) -> None:
    """However the operator's client reads replies; and it stays open."""
    prefixes: dict[Store, str] = {}
    fleet = fresh_prefix()
    numbers = count()
    async with Redis.from_url(server.url, decode_responses=as_text) as client:

        def made(prefix: str) -> RedisStore:
            store = RedisStore(client, prefix=prefix)
            prefixes[store] = prefix
            return store

        await check_store(
            lambda: made(f"{fleet}{next(numbers)}:"), make_another=lambda store: made(prefixes[store])
        )
        assert await client.ping()


async def test_fleets_with_other_prefixes_know_nothing_of_each_other(server: RedisServer) -> None:
    """Neither records, nor hosts, nor leases."""
    one, other = (RedisStore(server.url, prefix=fresh_prefix()) for _ in range(2))
    try:
        await one.save_record(RECORD)
        one.remember_host("a.example", HostState(visits=1))
        assert await other.load_record(ORIGIN) is None
        assert await other.load_host("a.example") is None
        assert [record async for record in other.records()] == []
        assert [host async for host in other.hosts()] == []
        async with one.lease(ORIGIN), other.lease(ORIGIN):
            pass
        assert not await other.forget_record(ORIGIN)
        assert not await other.forget_host("a.example")
        assert [record.origin async for record in one.records()] == [ORIGIN]
        assert [name async for name, _ in one.hosts()] == ["a.example"]
    finally:
        await one.aclose()
        await other.aclose()


async def test_what_was_remembered_a_moment_ago_is_listed(server: RedisServer) -> None:
    """However much it is: the list is made once the server has it all."""
    names = sorted(f"h{number}.example" for number in range(4000))
    store = RedisStore(server.url, prefix=fresh_prefix())
    await store.open()
    for name in names:
        store.remember_host(name, HostState(visits=1))
    assert [name async for name, _ in store.hosts()] == names
    await store.aclose()


def test_it_is_what_it_says() -> None:
    """What has a store listed, and what asks for slots, looks for these."""
    store = RedisStore("redis://127.0.0.1:1/0")
    assert isinstance(store, Catalogue)
    assert isinstance(store, SharedStore)


async def test_without_its_server_a_store_that_may_goes_on_with_what_it_learns(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Records, and the right to ask, are then those of its own process; and again the fleet's, once it is back."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        alone = RedisStore(server.url, patience=0.1, degraded="local")
        strict = RedisStore(server.url, patience=0.1)
        await alone.save_record(RECORD)
        server.kill()
        async with asyncio.timeout(10), alone.lease(ORIGIN):
            assert await alone.load_record(ORIGIN) is None
            await alone.save_record(RECORD)
        assert await alone.load_record(ORIGIN) == RECORD
        with pytest.raises(StoreError, match="cannot be reached"):
            await strict.load_record(ORIGIN)
        with pytest.raises(StoreError, match="cannot be reached"):
            await strict.save_record(RECORD)
        server.start()

        async def is_back() -> bool:
            return await alone.load_record(ORIGIN) is None

        await becomes(is_back)
        await alone.save_record(RECORD)
        assert await _found(strict) == RECORD
        await alone.aclose()
        await strict.aclose()


async def _found(store: RedisStore) -> RobotsRecord | None:
    """What it knows, once it can be asked again."""
    while True:
        with suppress(StoreError):
            return await store.load_record(ORIGIN)
        await asyncio.sleep(0.01)


async def test_a_store_that_was_closed_says_so(server: RedisServer) -> None:
    """And makes no connection again."""
    store = RedisStore(server.url, prefix=fresh_prefix())
    await store.save_record(RECORD)
    await store.aclose()
    with pytest.raises(StoreError, match="closed"):
        await store.load_record(ORIGIN)
    with pytest.raises(StoreError, match="closed"):
        store.lease(ORIGIN)
    with pytest.raises(StoreError, match="closed"):
        await anext(store.records())
    with pytest.raises(StoreError, match="closed"):
        await store.origins_of("a.example")
    with pytest.raises(StoreError, match="closed"):
        await store.forget_record(ORIGIN)
