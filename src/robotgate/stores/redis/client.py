"""The redis-py client of a store: made of a URL, or the operator's own."""

from __future__ import annotations

import re
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import redis
from redis.asyncio import Redis, RedisCluster
from redis.asyncio.client import Pipeline
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff

from robotgate.errors import OptionError
from robotgate.stores.option import without_secrets

Client: TypeAlias = Redis | RedisCluster

TIMEOUT: Final = 5.0
"""Seconds to connect, and for a reply, for a client made of a URL."""
HEALTH_CHECK: Final = 30.0
"""Seconds after which an idle connection is tested before it is used."""
COMMANDS: Final = (
    *("evalsha", "eval", "select", "client|setinfo", "ping", "scan"),
    *("time", "info", "exists", "get", "set", "del", "pexpire", "incr"),
    *("zadd", "zcard", "zscore", "zrem", "zrangebyscore", "sadd", "srem", "spop", "smembers"),
    *("hget", "hset", "hdel", "hgetall"),
)
"""The commands that a user needs: SELECT for another database than 0, PING for the health check, SCAN for lists. In a
cluster, CLUSTER and COMMAND come on top. CLIENT SETINFO may be refused."""

_SCHEME: Final = re.compile(
    r"(?P<scheme>(?:redis|rediss|valkey|valkeys)(?P<cluster>\+cluster)?|unix)://(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_EXAMPLE: Final = "redis://localhost:6379/0"


def client_of(url: str, *, option: str) -> Client:
    """Make a client for a URL. It connects nowhere yet. What the URL says counts.

    Args:
        option: by which it was given, for the message.

    Raises:
        OptionError: it is no such URL.
    """
    found = _SCHEME.fullmatch(url)
    if found is None:
        raise _bad_url(url, option, f"give a URL such as {_EXAMPLE}")
    scheme = found["scheme"].lower().partition("+")[0].replace("valkey", "redis")
    spelled = f"{scheme}://{found['rest']}"
    is_cluster = found["cluster"] is not None
    _check_address(url, spelled, option, is_cluster=is_cluster)
    # The first retry meets connections that were closed while idle. `Link` sees to all others.
    retry = Retry(NoBackoff(), 1)
    try:
        if is_cluster:
            return RedisCluster.from_url(
                spelled,
                socket_timeout=TIMEOUT,
                socket_connect_timeout=TIMEOUT,
                health_check_interval=HEALTH_CHECK,
                retry=Retry(NoBackoff(), 3),
                protocol=2,
            )
        client: Redis = Redis.from_url(
            spelled,
            socket_timeout=TIMEOUT,
            socket_connect_timeout=TIMEOUT,
            health_check_interval=HEALTH_CHECK,
            retry=retry,
            # All servers speak it, and it pushes nothing.
            protocol=2,
            **({} if scheme == "unix" else {"socket_keepalive": True}),
        )
        # Which refuses parameters that it does not know.
        client.connection_pool.make_connection()  # type: ignore[no-untyped-call]
    except (ValueError, TypeError, redis.RedisError) as error:
        # It may quote the URL.
        problem = str(error).replace(url, "…").replace(spelled, "…")
        raise _bad_url(url, option, f"{problem}; give a URL such as {_EXAMPLE}") from None
    return client


def given_client(client: object, *, option: str) -> Client:
    """Return the operator's own client.

    Args:
        option: by which it was given, for the message.

    Raises:
        OptionError: it cannot be used.
    """
    if isinstance(client, redis.Redis | redis.RedisCluster):
        raise _bad_client(client, option, "it would block the event loop; give one of redis.asyncio")
    if isinstance(client, Sentinel | redis.Sentinel):
        raise _bad_client(client, option, "give what redis.asyncio.Sentinel.master_for(name) returns")
    if isinstance(client, RedisCluster):
        return client
    if not isinstance(client, Redis) or isinstance(client, Pipeline):
        raise _bad_client(client, option, f"give a redis.asyncio.Redis, or a URL such as {_EXAMPLE}")
    if not getattr(client.connection_pool, "is_master", True):
        raise _bad_client(
            client, option, "a replica cannot be written; give what Sentinel.master_for(name) returns"
        )
    return client


def server_name(client: Client) -> str:
    """Name the server that a client talks to, without credentials."""
    if isinstance(client, RedisCluster):
        nodes = client.nodes_manager.startup_nodes.values()
        return f"redis cluster {', '.join(sorted(_address(str(node.host), node.port) for node in nodes))}"
    pool = client.connection_pool
    where = pool.connection_kwargs
    service = getattr(pool, "service_name", None)
    if service is not None:
        return f"redis service {service}/{where.get('db') or 0}"
    if "path" in where:
        return f"redis {where['path']}/{where.get('db') or 0}"
    address = _address(str(where.get("host", "localhost")), where.get("port", 6379))
    return f"redis {address}/{where.get('db') or 0}"


def _address(host: str, port: object) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _check_address(url: str, spelled: str, option: str, *, is_cluster: bool) -> None:
    """Refuse what redis-py would ignore silently, and so talk to another database or server."""
    try:
        parts = urlsplit(spelled)
        _ = parts.port
    except ValueError:
        # What stands there may be a password that lacks its @.
        hidden = f"{url.partition(':')[0]}://…"
        raise _bad_url(hidden, option, f"its port is no number; give a URL such as {_EXAMPLE}") from None
    database = parts.path.strip("/")
    if parts.fragment:
        raise _bad_url(url, option, "write a # as %23")
    if parts.scheme == "unix":
        if not database:
            raise _bad_url(url, option, "give the path of a socket, as in unix:///run/redis.sock?db=0")
    elif is_cluster and database not in {"", "0"}:
        raise _bad_url(url, option, "a cluster has no database but 0")
    elif database and not database.isdecimal():
        raise _bad_url(url, option, f"give the number of a database, as in {_EXAMPLE}")


def _bad_url(url: str, option: str, problem: str) -> OptionError:
    return OptionError(f"{option}={without_secrets(url)!r}: {problem}")


def _bad_client(client: object, option: str, problem: str) -> OptionError:
    # Its repr may hold a password.
    kind = (
        client.__name__
        if isinstance(client, type)
        else f"a {type(client).__module__}.{type(client).__qualname__}"
    )
    return OptionError(f"{option}={kind}: {problem}")
