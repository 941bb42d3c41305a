"""What may be given as a server: a URL of any of its kinds, or a client that can be used; the rest is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
import redis
from redis.asyncio import Redis, RedisCluster
from redis.asyncio.sentinel import Sentinel
from tests.redis_server import RedisServer
from tests.stores.linked import APPEND, ECHO, KEY, linked_by

from robotgate import OptionError
from robotgate.stores.redis import RedisStore
from robotgate.stores.redis._client import client_of, given_client, server_name

if TYPE_CHECKING:
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
    ],
)
def test_urls(url: str, name: str) -> None:
    """Named without credentials."""
    assert server_name(client_of(url, option="store")) == name


@pytest.mark.parametrize(
    ("url", "problem"),
    [
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
    ],
)
def test_what_is_no_url_is_refused(url: str, problem: str) -> None:
    """By the name of the option, and without what may be a password."""
    with pytest.raises(OptionError, match=f"^store=.*{problem}") as caught:
        client_of(url, option="store")
    assert "s3cret" not in str(caught.value)


def test_a_client_of_ours_tries_nothing_again_and_waits_for_nothing_long() -> None:
    """Unless the URL says so."""
    options = client_of(
        "redis://localhost?socket_timeout=0.5", option="store"
    ).connection_pool.connection_kwargs
    assert options["socket_timeout"] == 0.5
    assert options["socket_connect_timeout"] == 5.0
    assert options["retry"]._retries == 0


@pytest.mark.parametrize(
    ("client", "problem"),
    [
        (None, "give a redis.asyncio.Redis, or a URL"),
        (1, "give a redis.asyncio.Redis"),
        (Redis, "give a redis.asyncio.Redis"),
        (redis.Redis(password="s3cret"), "it would block the event loop; give a redis.asyncio.Redis"),
        (
            RedisCluster(host="db.example", password="s3cret"),
            "does not spread over the nodes of a cluster yet",
        ),
        (Redis(password="s3cret").pipeline(), "give a redis.asyncio.Redis"),
        (SENTINEL, r"master_for\(name\)"),
        (SENTINEL.slave_for("fleet"), "a replica cannot be written"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_client_is_refused(client: object, problem: str) -> None:
    """Saying what to give instead."""
    with pytest.raises(OptionError, match=f"^client_or_url=.*{problem}") as caught:
        given_client(client, option="client_or_url")
    assert "s3cret" not in str(caught.value)


def test_a_store_refuses_the_same() -> None:
    """By the name of its own option."""
    with pytest.raises(OptionError, match=r"^client_or_url='redis://…': its port"):
        RedisStore("redis://localhost:port")
    with pytest.raises(OptionError, match=r"^client_or_url=a redis\.client\.Redis: it would block"):
        RedisStore(redis.Redis())  # type: ignore[arg-type]


def test_a_service_of_sentinels_is_named() -> None:
    """Wherever its primary is."""
    client = SENTINEL.master_for("fleet", db=2, password="s3cret")
    assert server_name(given_client(client, option="client_or_url")) == "redis service fleet/2"


async def test_a_socket_of_this_machine(tmp_path: Path) -> None:
    """Through a file, without a network."""
    path = tmp_path / "s"
    with RedisServer(tmp_path, options={"unixsocket": str(path)}):
        async with linked_by(client_of(f"unix://{path}?db=1", option="store")) as link:
            assert await link.ask(ECHO, (KEY,), b"near") == b"near"


async def test_sentinels_are_asked_where_the_primary_is(tmp_path: Path) -> None:
    """And asked again once it is a replica: here a failover from one server to another, as Sentinels see it."""
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    with RedisServer(folders[0]) as one, RedisServer(folders[1]) as two:
        await _fail_over(one, two)


async def _fail_over(one: RedisServer, two: RedisServer) -> None:
    primary = one

    class Sentinels(Sentinel):
        """Knows which of the two it is, without processes of its own."""

        async def discover_master(self, service_name: str) -> tuple[str, int]:
            """Where it is now."""
            assert service_name == "fleet"
            return "127.0.0.1", primary.port

    client = Sentinels([]).master_for("fleet")  # type: ignore[no-untyped-call]
    async with linked_by(client) as link, Redis.from_url(one.url) as old, Redis.from_url(two.url) as new:
        news: list[object] = []
        link.subscribe(news.append)
        await link.ask(ECHO, (KEY,), b"")
        assert await old.dbsize() == 0
        primary = two
        await old.replicaof("127.0.0.1", str(two.port))
        assert await link.ask(APPEND, (KEY,), b"1") == b"1"
        assert await new.keys() == [KEY]
        assert news == []
