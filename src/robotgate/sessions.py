"""`gated_session`: an aiohttp session of which every request passes a gate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypedDict, Unpack

import aiohttp

from robotgate.client.connector import HEADER_LIMITS, own_connector

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from aiohttp.abc import AbstractCookieJar
    from aiohttp.typedefs import JSONEncoder, LooseCookies, LooseHeaders
    from yarl import URL

    from robotgate.gate import RobotGate

TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=60)
"""Without a total: aiohttp would count the wait for a turn against it."""


class SessionOptions(TypedDict, total=False):
    """The options of an `aiohttp.ClientSession`."""

    base_url: str | URL | None
    connector: aiohttp.BaseConnector | None
    cookies: LooseCookies | None
    headers: LooseHeaders | None
    proxy: str | URL | None
    proxy_auth: aiohttp.BasicAuth | None
    skip_auto_headers: Iterable[str] | None
    auth: aiohttp.BasicAuth | None
    json_serialize: JSONEncoder
    cookie_jar: AbstractCookieJar | None
    connector_owner: bool
    raise_for_status: bool | Callable[[aiohttp.ClientResponse], Awaitable[None]]
    timeout: aiohttp.ClientTimeout
    auto_decompress: bool
    trust_env: bool
    requote_redirect_url: bool
    trace_configs: list[aiohttp.TraceConfig] | None
    read_bufsize: int
    max_line_size: int
    max_field_size: int
    max_headers: int
    middlewares: Sequence[aiohttp.ClientMiddlewareType]


def gated_session(gate: RobotGate, **options: Unpack[SessionOptions]) -> aiohttp.ClientSession:
    """An `aiohttp.ClientSession` of which every request, each hop and each attempt, passes the gate.

    Where you choose nothing else, it has what such a session needs. Its connector is as that of the gate's own session:
    it connects to public addresses only and does not limit requests, because the gate does. A connection may take 10 s
    and a response may be silent for 60 s, but there is no total timeout, since aiohttp counts the wait for a turn
    against it. Header lines may have 64 KiB.

    Args:
        gate: the gate. You close the session yourself, before the gate.
        options: as for `aiohttp.ClientSession`. The gate's middleware comes behind your ``middlewares``. Of a
            ``timeout`` with a total, no turn is waited for longer than that: it raises `TooSoonError` at once.

    Raises:
        whatever aiohttp raises for options that make no sense.
    """
    total = options.setdefault("timeout", TIMEOUT).total
    options.setdefault("max_line_size", HEADER_LIMITS["max_line_size"])
    options.setdefault("max_field_size", HEADER_LIMITS["max_field_size"])
    options.setdefault("max_headers", HEADER_LIMITS["max_headers"])
    # 0 or less is no limit, as to aiohttp.
    ours = gate.middleware_with(max_wait=total) if total and total > 0 else gate.middleware
    options["middlewares"] = (*options.get("middlewares", ()), ours)
    if options.get("connector") is None:
        book = gate._scopes.book if gate._options["session"] is None else None
        options["connector"] = own_connector(
            book,
            max_look_ups=gate._max_look_ups,
            allow_private_addresses=gate._cache.allow_private_addresses,
        )
    return aiohttp.ClientSession(**options)
