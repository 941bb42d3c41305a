"""The redis-py client of a store: made of a URL, or the operator's own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import urlsplit

import redis
from redis.asyncio import Redis, RedisCluster
from redis.asyncio.client import Pipeline
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff

from robotgate.errors import OptionError
from robotgate.stores.base import without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable

Client: TypeAlias = Redis | RedisCluster

TIMEOUT: Final = 5.0
"""Seconds for a reply, whatever the client's own are; and to connect, for a client made of a URL."""
HEALTH_CHECK: Final = 30.0
"""Seconds after which an idle connection is tested before it is used."""
_SCHEME: Final = re.compile(
    r"(?P<scheme>(?:redis|rediss|valkey|valkeys)(?P<cluster>\+cluster)?|unix)://(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_EXAMPLE: Final = "redis://localhost:6379/0"


def client_of(given: object) -> Client:
    """Return the operator's own client, or make one for a URL. It does not connect yet.

    Raises:
        OptionError: the URL is not valid, or the client cannot be used.
    """
    if isinstance(given, str):
        return _client_for(given)
    if isinstance(given, redis.Redis | redis.RedisCluster):
        problem = "it would block the event loop; give one of redis.asyncio"
    elif isinstance(given, Sentinel | redis.Sentinel):
        problem = "give what redis.asyncio.Sentinel.master_for(name) returns"
    elif isinstance(given, RedisCluster):
        return given
    elif not isinstance(given, Redis) or isinstance(given, Pipeline):
        problem = f"give a redis.asyncio.Redis, or a URL such as {_EXAMPLE}"
    elif not getattr(given.connection_pool, "is_master", True):
        problem = "a replica cannot be written; give what Sentinel.master_for(name) returns"
    else:
        return given
    # Its repr may hold a password.
    kind = f"a {type(given).__module__}.{type(given).__qualname__}"
    raise OptionError(f"client_or_url={kind}: {problem}")


def _client_for(url: str) -> Client:
    found = _SCHEME.fullmatch(url)
    if found is None:
        raise _bad_url(url, f"give a URL such as {_EXAMPLE}")
    scheme = found["scheme"].lower().partition("+")[0].replace("valkey", "redis")
    spelled = f"{scheme}://{found['rest']}"
    is_cluster = found["cluster"] is not None
    _check_address(url, spelled, is_cluster=is_cluster)
    # The first retry is for connections that were closed while idle. `Link` makes all others.
    settings: dict[str, object] = {
        "socket_timeout": TIMEOUT,
        "socket_connect_timeout": TIMEOUT,
        "health_check_interval": HEALTH_CHECK,
        "retry": Retry(NoBackoff(), 3 if is_cluster else 1),
        # All servers have it, and it has no push messages.
        "protocol": 2,
    }
    if not is_cluster and scheme != "unix":
        settings["socket_keepalive"] = True
    make: Callable[..., Client] = RedisCluster.from_url if is_cluster else Redis.from_url
    try:
        client = make(spelled, **settings)
        if isinstance(client, Redis):
            # It raises an error for unknown parameters.
            client.connection_pool.make_connection()  # type: ignore[no-untyped-call]
    except (ValueError, TypeError, redis.RedisError) as error:
        # The message may contain the URL.
        problem = str(error).replace(url, "…").replace(spelled, "…")
        raise _bad_url(url, f"{problem}; give a URL such as {_EXAMPLE}") from None
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
        place = f"service {service}"
    elif "path" in where:
        place = where["path"]
    else:
        place = _address(str(where.get("host", "localhost")), where.get("port", 6379))
    return f"redis {place}/{where.get('db') or 0}"


def _address(host: str, port: object) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _check_address(url: str, spelled: str, *, is_cluster: bool) -> None:
    """Refuse parts of a URL that redis-py ignores: it would use another database or server."""
    try:
        parts = urlsplit(spelled)
        _ = parts.port
    except ValueError:
        # It may be a password without its @.
        hidden = f"{url.partition(':')[0]}://…"
        raise _bad_url(hidden, f"its port is no number; give a URL such as {_EXAMPLE}") from None
    database = parts.path.strip("/")
    if parts.fragment:
        raise _bad_url(url, "write a # as %23")
    if parts.scheme == "unix":
        if not database:
            raise _bad_url(url, "give the path of a socket, as in unix:///run/redis.sock?db=0")
    elif is_cluster and database not in {"", "0"}:
        raise _bad_url(url, "a cluster has no database but 0")
    elif database and not database.isdecimal():
        raise _bad_url(url, f"give the number of a database, as in {_EXAMPLE}")


def _bad_url(url: str, problem: str) -> OptionError:
    return OptionError(f"client_or_url={without_secrets(url)!r}: {problem}")
