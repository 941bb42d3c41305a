"""Websockets through `gate.middleware`: a handshake is a GET like any other. Measured at real servers."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web as aioweb
from tests.gate.crawlers import crawler, read
from tests.gate.servers import DELAY, PAGE, ROBOTS, RULES, SITE

from robotgate import DisallowedError
from robotgate.events import TurnEnded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.conftest import OpenGate
    from tests.gate.servers import Web

    from robotgate import RobotGate

SOCKET = f"{SITE}/live"


async def echo(request: aioweb.Request) -> aioweb.StreamResponse:
    """Sends each message back until the client leaves."""
    socket = aioweb.WebSocketResponse()
    await socket.prepare(request)
    async for message in socket:
        await socket.send_str(message.data)
    return socket


@pytest.fixture
async def gated(web: Web, gate: RobotGate) -> AsyncIterator[aiohttp.ClientSession]:
    """A session with the middleware of the gate; what is asked for at /live is a websocket."""
    for origin in (SITE, "https://site.example"):
        web.handle(f"{origin}/live", echo)
    async with crawler(web, gate.middleware) as session:
        yield session


@pytest.mark.parametrize(
    ("url", "origin"), [("ws://site.example/live", SITE), ("wss://site.example/live", "https://site.example")]
)
async def test_origin_of_the_handshake_is_asked_for_its_rules(
    web: Web, gated: aiohttp.ClientSession, url: str, origin: str
) -> None:
    """A ws is http, and a wss is https: a GET with an Upgrade (RFC 6455 §4.1)."""
    async with asyncio.timeout(60), gated.ws_connect(url) as socket:
        await socket.send_str("hello")
        assert await socket.receive_str() == "hello"
    assert web.urls == [f"{origin}/robots.txt", f"{origin}/live"]
    assert web.visit(f"{origin}/live").headers["User-Agent"] == "ExampleBot/1.0"


@pytest.mark.parametrize("url", ["ws://site.example/private", "wss://site.example/private?x=1"])
async def test_socket_that_is_disallowed_is_refused(web: Web, gated: aiohttp.ClientSession, url: str) -> None:
    """Before anything is sent."""
    for origin in (SITE, "https://site.example"):
        web.serve(f"{origin}/robots.txt", RULES)
    with pytest.raises(DisallowedError):
        await gated.ws_connect(url)
    assert [visit.url.rpartition("/")[2] for visit in web.visits] == ["robots.txt"]


async def test_open_socket_does_not_hold_the_host(gate: RobotGate, gated: aiohttp.ClientSession) -> None:
    """The turn ends with the handshake's answer: the same task goes on to the next page, and so do others."""
    ended: list[TurnEnded] = []
    gate.subscribe(ended.append, TurnEnded)
    async with asyncio.timeout(60), gated.ws_connect("ws://site.example/live") as socket:
        assert gate.host(SOCKET).open_turns == 0
        async with gated.get(PAGE) as response:
            assert response.status == 200
        await asyncio.create_task(read(gated, f"{PAGE}/2"))
        await socket.send_str("still here")
        assert await socket.receive_str() == "still here"
    await asyncio.sleep(0)
    assert [(event.url, event.status) for event in ended] == [
        (SOCKET, 101),
        (PAGE, 200),
        (f"{PAGE}/2", 200),
    ]


async def test_handshakes_are_paced(web: Web, open_gate: OpenGate) -> None:
    """Among themselves and with pages."""
    gate = await open_gate(delay=DELAY)
    web.handle(SOCKET, echo)
    async with (
        crawler(web, gate.middleware) as session,
        session.ws_connect("ws://site.example/live"),
        session.ws_connect("ws://site.example/live"),
        session.get(PAGE),
    ):
        pass
    begins = [visit.began_at for visit in web.visits]
    assert web.urls == [ROBOTS, SOCKET, SOCKET, PAGE]
    assert min(later - earlier for earlier, later in pairwise(begins)) >= DELAY


async def test_handshake_that_is_refused_ends_its_turn(
    web: Web, gate: RobotGate, gated: aiohttp.ClientSession
) -> None:
    """The site has no such socket: aiohttp says so, and the next page is read."""
    with pytest.raises(aiohttp.WSServerHandshakeError):
        await gated.ws_connect("ws://site.example/page")
    assert gate.host(PAGE).open_turns == 0
    assert web.urls == [ROBOTS, PAGE]
