"""How long the middleware keeps a turn whose response nobody reads: real servers on virtual time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiohttp
from aiohttp import web as aioweb
from tests.paced import make_gate, now

from robotgate import MemoryStore, StoreError
from robotgate._holds import MAX_HOLD

if TYPE_CHECKING:
    from tests.gate.servers import Handler, Web

    from robotgate import HostState

SITE = "http://site.example"
PAGE = f"{SITE}/page"
NEXT = f"{SITE}/next"


def arriving(*, every: float, count: int, then: asyncio.Event | None = None) -> Handler:
    """So many octets, so many seconds apart; then the end, or nothing more until the test says so."""

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
    """When the page is followed by another while nobody reads it: seconds after it was asked for."""
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


async def test_body_that_stops_arriving_loses_its_turn(web: Web) -> None:
    """Who holds it may wait for the very next turn."""
    web.handle(PAGE, arriving(every=MAX_HOLD / 2, count=4, then=asyncio.Event()))
    assert 2 * MAX_HOLD <= await start_of_next(web) <= 3.6 * MAX_HOLD


class FailsAt(MemoryStore):
    """Fails when a host is remembered for the n-th time, and at no other."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 0

    def remember_host(self, pace_key: str, state: HostState) -> None:
        """As memory, but for once."""
        self.left -= 1
        if self.left == 0:
            raise StoreError("the disk is full: make room")
        super().remember_host(pace_key, state)


async def test_store_that_fails_once_keeps_no_other_turn_open(web: Web) -> None:
    """Two are given up at the same time: what the end of the first raises is told to the loop, and the second ends."""
    never = asyncio.Event()
    raised: list[BaseException | None] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: raised.append(told.get("exception")))
    store = FailsAt()
    pages = [f"http://host{number}.example/page" for number in range(3)]
    async with (
        make_gate(delay=0.0, store=store) as gate,
        aiohttp.ClientSession(
            connector=web.connector(),
            middlewares=[gate.middleware],
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        ) as session,
    ):
        for page in pages:
            web.handle(page, arriving(every=0.0, count=1, then=never))
        responses = [await session.get(page) for page in pages]
        await asyncio.sleep(MAX_HOLD / 2)
        store.left = 1
        await asyncio.sleep(2 * MAX_HOLD)
        assert [gate.host(page).open_turns for page in pages] == [0, 0, 0]
        for response in responses:
            response.close()
    assert [type(error) for error in raised] == [StoreError]


async def test_body_that_never_begins_loses_its_turn(web: Web) -> None:
    """After one hold, or two at the most."""
    web.handle(PAGE, arriving(every=0.0, count=1, then=asyncio.Event()))
    assert MAX_HOLD <= await start_of_next(web) <= 2.1 * MAX_HOLD
