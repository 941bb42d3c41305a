"""How long the middleware keeps a turn whose response is not read: real servers on virtual time."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web as aioweb
from tests.paced import make_gate, now

from robotgate.client.middleware import MAX_IDLE_READ as MAX_HOLD

if TYPE_CHECKING:
    from tests.gate.servers import Handler, Web


SITE = "http://site.example"
PAGE = f"{SITE}/page"
NEXT = f"{SITE}/next"


def arriving(*, every: float, count: int, then: asyncio.Event | None = None) -> Handler:
    """So many bytes, so many seconds apart; then the end, or nothing more until the test says so."""

    async def answer(request: aioweb.Request) -> aioweb.StreamResponse:
        response = aioweb.StreamResponse()
        await response.prepare(request)
        for _ in range(count):
            await response.write(b"#")
            await asyncio.sleep(every)
        if then is not None:
            await then.wait()
        return response

    return answer


async def start_of_next(web: Web) -> float:
    """When another page follows one that is not read: seconds after the first was requested."""
    gate = make_gate(delay=0.0)
    async with (
        gate,
        aiohttp.ClientSession(
            connector=web.connector(),
            middlewares=[gate.middleware],
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        ) as session,
    ):
        asked_at = now()
        response = await session.get(PAGE)

        async def follow() -> float:
            async with session.get(NEXT):
                return now() - asked_at

        # Of another task: this one would be told that it waits for itself.
        started_after = await asyncio.create_task(follow())
        response.close()
        return started_after


async def test_body_that_keeps_arriving_keeps_its_turn(web: Web) -> None:
    """An octet now and then, for much longer than the hold: the host is still answering."""
    web.handle(PAGE, arriving(every=MAX_HOLD / 2, count=9))
    assert 4.5 * MAX_HOLD <= await start_of_next(web) < 4.6 * MAX_HOLD


async def test_body_that_stops_arriving_loses_its_turn(web: Web, caplog: pytest.LogCaptureFixture) -> None:
    """The task that holds it may wait for the next turn. The log names the URL, and how long its host stood still."""
    web.handle(PAGE, arriving(every=MAX_HOLD / 2, count=4, then=asyncio.Event()))
    started_after = await start_of_next(web)
    assert 2 * MAX_HOLD <= started_after <= 3.6 * MAX_HOLD
    (told,) = (each.getMessage() for each in caplog.records if each.levelno == logging.WARNING)
    assert told.startswith(f"{PAGE}: ")
    assert f"site.example stood still for {started_after:.0f} s" in told


async def test_body_that_never_begins_loses_its_turn(web: Web) -> None:
    """After one hold, or two at the most."""
    web.handle(PAGE, arriving(every=0.0, count=1, then=asyncio.Event()))
    assert MAX_HOLD <= await start_of_next(web) <= 2.1 * MAX_HOLD


async def garbled(request: aioweb.Request) -> aioweb.StreamResponse:
    """A body whose second chunk has no length, and comes a while after the headers."""
    response = aioweb.StreamResponse()
    response.enable_chunked_encoding()
    await response.prepare(request)
    await response.write(b"first")
    await asyncio.sleep(1)
    assert request.transport is not None
    request.transport.write(b"no length\r\n\r\n")
    return response


async def test_body_that_is_no_body_fails_its_reader(web: Web) -> None:
    """Whatever timeouts the request has: aiohttp closes the connection, and would let the reader wait for ever."""
    web.handle(PAGE, garbled)
    gate = make_gate(delay=0.0)
    endless = aiohttp.ClientTimeout(total=None, sock_read=None)
    async with (
        gate,
        aiohttp.ClientSession(
            connector=web.connector(), middlewares=[gate.middleware], timeout=endless
        ) as session,
        session.get(PAGE) as response,
    ):
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()
        assert now() <= MAX_HOLD
