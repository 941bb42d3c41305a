"""How long the transport of httpx keeps a turn whose response is not read: real servers on virtual time."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx
from tests.gate.servers import LOOPBACK
from tests.gate.virtual.test_hold import arriving
from tests.paced import now, scripted

from robotgate import RobotGate
from robotgate.client.middleware import MAX_IDLE_READ
from robotgate.integrations.httpx import GateTransport
from robotgate.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    import pytest
    from tests.gate.servers import Handler, Web


@asynccontextmanager
async def crawler() -> AsyncIterator[httpx.AsyncClient]:
    """A client behind a gate without delay; on virtual time, any time-out is over before a connection stands."""
    gate = RobotGate(
        "ExampleBot/1.0",
        contact="bot@example.org",
        delay=0.0,
        clock=VirtualClock(),
        fetcher=scripted(),
        allow_private_addresses=True,
    )
    async with gate, httpx.AsyncClient(transport=GateTransport(gate), timeout=None) as client:
        yield client


async def start_of_next(web: Web, handler: Handler, *, reads: bool) -> float:
    """When the page is followed by another of its site: seconds after it was asked for."""
    site = f"http://{LOOPBACK}:{web.port}"
    web.handle(f"{site}/page", handler)
    async with crawler() as client:
        asked_at = now()
        response = await client.send(client.build_request("GET", f"{site}/page"), stream=True)
        # Of another task: this one would be told that it waits for itself.
        following = asyncio.create_task(client.get(f"{site}/next"))
        if reads:
            await response.aread()
        await following
        started_after = now() - asked_at
        await response.aclose()
    return started_after


async def test_body_that_keeps_arriving_keeps_its_turn(web: Web) -> None:
    """However long it takes."""
    handler = arriving(every=MAX_IDLE_READ / 2, count=9)
    assert 4.5 * MAX_IDLE_READ <= await start_of_next(web, handler, reads=True) < 4.6 * MAX_IDLE_READ


async def test_body_that_nobody_reads_lets_others_in(web: Web, caplog: pytest.LogCaptureFixture) -> None:
    """After a minute without a read, the turn ends, and the log says so."""
    started_after = await start_of_next(web, arriving(every=0, count=1), reads=False)
    assert MAX_IDLE_READ <= started_after <= 1.1 * MAX_IDLE_READ
    (told,) = (each.getMessage() for each in caplog.records if each.levelno == logging.WARNING)
    assert told.startswith(f"http://{LOOPBACK}:{web.port}/page: ")
    assert f"stood still for {started_after:.0f} s" in told


async def test_response_that_is_over_leaves_no_timer(web: Web, pending_timers: Callable[[], int]) -> None:
    """Thousands of pages a minute are no thousands of timers; the server's own are one for each connection."""
    async with crawler() as client:
        left = []
        for number in range(5):
            await client.get(f"http://{LOOPBACK}:{web.port}/{number}")
            left.append(pending_timers())
    assert len(set(left)) == 1
