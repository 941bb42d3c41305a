"""The store in a server does all that a store does, for every server there is, by URL and by client."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest
from redis.asyncio import Redis
from tests.redis_server import RedisServer, server_programs
from tests.stores.redis_parts import fresh_prefix
from tests.stores.test_redis_records import ORIGIN, RECORD

from robotgate import Catalogue, HostState, SharedStore
from robotgate.stores.redis import RedisStore
from robotgate.testing import check_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from robotgate import Store


@pytest.fixture(scope="module", params=sorted(server_programs()))
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One for all tests of this file."""
    with RedisServer(tmp_path_factory.mktemp("redis"), program=server_programs()[request.param]) as server:
        yield server


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


def test_it_is_what_it_says() -> None:
    """What has a store listed, and what asks for slots, looks for these."""
    store = RedisStore("redis://127.0.0.1:1/0")
    assert isinstance(store, Catalogue)
    assert isinstance(store, SharedStore)
