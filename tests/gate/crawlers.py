"""Sessions of crawlers, with the gate's middleware in them, in front of the web of a test."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

import aiohttp

from robotgate import GateOptions, RobotGate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from aiohttp import ClientHandlerType, ClientMiddlewareType, ClientRequest, ClientResponse
    from tests.gate.servers import Web

GATED: Final = "gated"
"""Stands for the gate's middleware in a chain."""


class SessionOptions(TypedDict, total=False):
    """What a test gives to its session."""

    headers: Mapping[str, str] | Sequence[tuple[str, str]]
    cookies: Mapping[str, str]
    cookie_jar: aiohttp.CookieJar
    timeout: aiohttp.ClientTimeout
    proxy: str | None
    proxy_auth: aiohttp.BasicAuth
    trust_env: bool
    raise_for_status: bool
    max_field_size: int


def crawler(
    web: Web, *middlewares: ClientMiddlewareType, limit_per_host: int = 0, **options: Unpack[SessionOptions]
) -> aiohttp.ClientSession:
    """A session as crawlers have them, for which any name leads to the web."""
    connector = web.connector(limit_per_host=limit_per_host)
    return aiohttp.ClientSession(connector=connector, middlewares=middlewares, **options)


@asynccontextmanager
async def gate_within(
    web: Web, *chain: ClientMiddlewareType | str, limit_per_host: int = 0, **options: Unpack[GateOptions]
) -> AsyncIterator[RobotGate]:
    """A gate on a session whose middlewares are that chain: no attempt of a fetch goes past the gate."""

    async def gated(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        return await gate.middleware(request, handler)

    middlewares = [gated if isinstance(part, str) else part for part in chain]
    chosen = GateOptions(delay=0.0)
    chosen.update(options)
    async with crawler(web, *middlewares, limit_per_host=limit_per_host) as session:
        chosen["session"] = session
        async with RobotGate("ExampleBot/1.0", contact="bot@example.org", **chosen) as gate:
            yield gate


async def read(session: aiohttp.ClientSession, url: str, *, proxy: str | None = None) -> int:
    """Read a page to its end; its status."""
    async with session.get(url, proxy=proxy) as response:
        await response.read()
        return response.status


async def text(gate: RobotGate, url: str, door: str, session: aiohttp.ClientSession | None = None) -> str:
    """A page as the gate fetches it, as it streams it, or as a session with its middleware reads it."""
    if door == "fetch":
        return (await gate.fetch(url)).text
    asked = session.get(url) if session is not None and door == "middleware" else gate.fetch(url)
    async with asked as response:
        return await response.text()
