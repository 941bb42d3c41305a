"""A redirect with Retry-After to another host is followed after that, whichever client follows it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import aiohttp
import httpx
import pytest
from tests.gate.crawlers import text
from tests.integration.test_httpx import ToTheWeb

from robotgate.integrations.httpx import GateTransport

if TYPE_CHECKING:
    from tests.conftest import OpenGate
    from tests.gate.servers import Web

PAUSE: Final = 1.0
CLIENTS: Final = ("fetch", "stream", "middleware", "httpx")


@pytest.mark.parametrize("body", [b"", b"x" * 300_000], ids=["short", "long"])
async def test_redirect_is_followed_after_its_retry_after(web: Web, open_gate: OpenGate, body: bytes) -> None:
    """By `gate.fetch`, through the middleware and by httpx, whether the redirect has a long body or none."""
    gate = await open_gate(concurrency_per_host=len(CLIENTS))
    for name in CLIENTS:
        where = {"Location": f"//other.example/%7E{name}?a=1#part", "Retry-After": f"{PAUSE:.0f}"}
        web.serve(f"http://{name}.example/", body, status=307, headers=where)
    async with (
        aiohttp.ClientSession(connector=web.connector(), middlewares=[gate.middleware]) as session,
        httpx.AsyncClient(transport=GateTransport(gate, ToTheWeb(web)), follow_redirects=True) as client,
    ):

        async def visit(name: str) -> str:
            url = f"http://{name}.example/"
            return (await client.get(url)).text if name == "httpx" else await text(gate, url, name, session)

        assert await asyncio.gather(*map(visit, CLIENTS)) == ["a page"] * len(CLIENTS)
    pages = [visit for visit in web.visits if not visit.url.endswith("/robots.txt")]
    for name in CLIENTS:
        told, followed = (visit.began_at for visit in pages if name in visit.url)
        assert followed - told >= PAUSE, name
