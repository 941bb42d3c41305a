"""The client that a store talks through: made of a URL, or the operator's own."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

import redis
from redis.asyncio import Redis, RedisCluster
from redis.asyncio.client import Pipeline
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff

from robotgate._errors import OptionError
from robotgate.stores._path import without_secrets

TIMEOUT: Final = 5.0
"""Seconds to connect, and for a reply, for a client made of a URL."""
HEALTH_CHECK: Final = 30.0
"""Seconds after which an idle connection of the client's pool is asked whether it still is one."""

COMMANDS: Final = (
    "evalsha",
    "script|load",
    "select",
    "client|setinfo",
)
"""The commands that the link itself sends: SELECT for another database than 0; and nobody minds if CLIENT SETINFO is
refused. What the scripts call comes on top, and AUTH and HELLO, which every user may send."""

_SCHEME: Final = re.compile(
    r"(?P<scheme>redis|rediss|valkey|valkeys|unix)://(?P<rest>.*)", re.IGNORECASE | re.DOTALL
)
_SCHEMES: Final = {"valkey": "redis", "valkeys": "rediss"}
_EXAMPLE: Final = "redis://localhost:6379/0"


def client_of(url: str, *, option: str) -> Redis:
    """A client for a URL. It connects nowhere yet, and never tries again by itself. What the URL says counts.

    Args:
        option: by which it was given, for the message.

    Raises:
        OptionError: it is no such URL.
    """
    found = _SCHEME.fullmatch(url)
    if found is None:
        raise _no_url(url, option, f"give a URL such as {_EXAMPLE}")
    scheme = found["scheme"].lower()
    spelled = f"{_SCHEMES.get(scheme, scheme)}://{found['rest']}"
    _check_address(url, spelled, option)
    try:
        client = Redis.from_url(
            spelled,
            socket_timeout=TIMEOUT,
            socket_connect_timeout=TIMEOUT,
            health_check_interval=HEALTH_CHECK,
            retry=Retry(NoBackoff(), 0),
            # What is asked for is understood by all servers, and pushes nothing.
            protocol=2,
            **({} if scheme == "unix" else {"socket_keepalive": True}),
        )
        # Which refuses parameters that it does not know.
        client.connection_pool.make_connection()  # type: ignore[no-untyped-call]
    except (ValueError, TypeError, redis.RedisError) as error:
        # It may quote the URL.
        problem = str(error).replace(url, "…").replace(spelled, "…")
        raise _no_url(url, option, f"{problem}; give a URL such as {_EXAMPLE}") from None
    return client


def given_client(client: object, *, option: str) -> Redis:
    """The operator's own client.

    Args:
        option: by which it was given, for the message.

    Raises:
        OptionError: it is none that can be used.
    """
    if isinstance(client, RedisCluster | redis.RedisCluster):
        raise _no_client(client, option, "a store does not spread over the nodes of a cluster yet")
    if isinstance(client, redis.Redis):
        raise _no_client(client, option, "it would block the event loop; give a redis.asyncio.Redis")
    if isinstance(client, Sentinel | redis.Sentinel):
        raise _no_client(client, option, "give what redis.asyncio.Sentinel.master_for(name) returns")
    if not isinstance(client, Redis) or isinstance(client, Pipeline):
        raise _no_client(client, option, f"give a redis.asyncio.Redis, or a URL such as {_EXAMPLE}")
    if not getattr(client.connection_pool, "is_master", True):
        raise _no_client(
            client, option, "a replica cannot be written; give what Sentinel.master_for(name) returns"
        )
    return client


def server_name(client: Redis) -> str:
    """Which server a client talks to, without credentials."""
    pool = client.connection_pool
    where = pool.connection_kwargs
    service = getattr(pool, "service_name", None)
    if service is not None:
        return f"redis service {service}/{where.get('db') or 0}"
    if "path" in where:
        return f"redis {where['path']}/{where.get('db') or 0}"
    host = str(where.get("host", "localhost"))
    shown = f"[{host}]" if ":" in host else host
    return f"redis {shown}:{where.get('port', 6379)}/{where.get('db') or 0}"


def _check_address(url: str, spelled: str, option: str) -> None:
    """What redis-py would pass over in silence, and so talk to another database or server."""
    try:
        parts = urlsplit(spelled)
        _ = parts.port
    except ValueError:
        # What stands there may be a password that lacks its @.
        hidden = f"{url.partition(':')[0]}://…"
        raise _no_url(hidden, option, f"its port is no number; give a URL such as {_EXAMPLE}") from None
    if parts.fragment:
        raise _no_url(url, option, "write a # as %23")
    if parts.scheme == "unix":
        if parts.path in {"", "/"}:
            raise _no_url(url, option, "give the path of a socket, as in unix:///run/redis.sock?db=0")
    elif parts.path.strip("/") and not parts.path.strip("/").isdecimal():
        raise _no_url(url, option, f"give the number of a database, as in {_EXAMPLE}")


def _no_url(url: str, option: str, problem: str) -> OptionError:
    return OptionError(f"{option}={without_secrets(url)!r}: {problem}")


def _no_client(client: object, option: str, problem: str) -> OptionError:
    # Its repr may hold a password.
    kind = (
        client.__name__
        if isinstance(client, type)
        else f"a {type(client).__module__}.{type(client).__qualname__}"
    )
    return OptionError(f"{option}={kind}: {problem}")
