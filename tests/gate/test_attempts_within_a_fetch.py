"""`gate.fetch` on a session that sends again: what a first attempt came to is heard, once, before there is a second."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from aiohttp import web as aioweb
from tests.gate.crawlers import GATED, gate_within, text
from tests.gate.servers import DELAY, NEXT, PAGE, ROBOTS, silent
from tests.waiting import settle

from robotgate import HostUnavailableError, TooSoonError
from robotgate.events import HostBlocked, TurnEnded

if TYPE_CHECKING:
    from aiohttp import ClientHandlerType, ClientMiddlewareType, ClientRequest, ClientResponse
    from tests.conftest import OpenGate
    from tests.gate.servers import Handler, Web

    from robotgate.events import Event

SORRY: Final = b"sorry"


async def once_more(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
    """Reads the answer, and sends again if it is a failure of the server's, or too many."""
    response = await handler(request)
    if response.status < 429:
        return response
    await response.read()
    return await handler(request)


async def whatever_happens(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
    """Sends again after an error."""
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        return await handler(request)


def failing_once(status: int, headers: dict[str, str] | None = None) -> Handler:
    """That status first, then 200."""
    answers = iter((aioweb.Response(status=status, headers=headers, body=SORRY),))

    async def answer(_: aioweb.Request) -> aioweb.StreamResponse:
        return next(answers, None) or aioweb.Response(text="a page")

    return answer


@pytest.mark.parametrize(
    ("method", "says", "count"), [("GET", {}, 2), ("GET", {"Retry-After": "1"}, 1), ("POST", {}, 1)]
)
async def test_408_is_no_answer_of_a_page(
    web: Web, open_gate: OpenGate, method: str, says: dict[str, str], count: int
) -> None:
    """Servers send it to connections that were idle, where it may cross our request: that is sent once more, in a turn
    of its own, if it may be (RFC 9110 §15.5.9).
    """
    gate = await open_gate(delay=DELAY)
    web.handle(PAGE, failing_once(408, says))
    assert (await gate.fetch(PAGE, method=method)).status == (200 if count == 2 else 408)
    web.serve(NEXT, status=408)
    assert (await gate.fetch(NEXT)).status == 408
    assert web.urls == [ROBOTS, *[PAGE] * count, NEXT, NEXT]
    assert min(web.gaps("site.example")) >= DELAY


async def test_408_is_no_answer_of_a_robots_txt(web: Web, open_gate: OpenGate) -> None:
    """As for a page: the site is not closed by it."""
    web.handle(ROBOTS, failing_once(408))
    gate = await open_gate(delay=DELAY)
    assert (await gate.fetch(PAGE)).status == 200
    assert web.urls == [ROBOTS, ROBOTS, PAGE]
    assert min(web.gaps("site.example")) >= DELAY


async def test_block_of_a_first_attempt_is_waited_out(web: Web) -> None:
    """As through `gate.middleware`, and by others too: it is no news of the second attempt's."""
    web.handle(PAGE, failing_once(429, {"Retry-After": "1"}))
    async with gate_within(web, once_more, GATED, delay=DELAY) as gate:
        blocks: asyncio.Queue[Event] = asyncio.Queue()
        gate.subscribe(blocks.put_nowait, HostBlocked)
        fetch = asyncio.ensure_future(gate.fetch(PAGE))
        async with asyncio.timeout(60):
            await blocks.get()
        with pytest.raises(TooSoonError) as caught:
            await gate.fetch(NEXT, max_wait=0)
        assert 0 < caught.value.retry_after <= 1.5
        assert (await fetch).status == 200
        assert blocks.empty()
    assert web.urls == [ROBOTS, PAGE, PAGE]
    assert web.gaps("site.example")[-1] >= 1


@pytest.mark.parametrize("door", ["fetch", "stream"])
@pytest.mark.parametrize(
    "chain",
    [(once_more, GATED), (once_more, GATED, GATED), (GATED, once_more, GATED)],
    ids=["ours last", "ours twice", "ours around"],
)
async def test_every_attempt_is_told_once(
    web: Web, chain: tuple[ClientMiddlewareType | str, ...], door: str
) -> None:
    """Its status and its bytes; a chain with the gate twice takes no second turn."""
    web.handle(PAGE, failing_once(500))
    async with gate_within(web, *chain, delay=DELAY) as gate:
        ended: list[TurnEnded] = []
        gate.subscribe(ended.append, TurnEnded)
        gate.learn(PAGE, b"")
        assert await text(gate, PAGE, door) == "a page"
        await settle()
        view = gate.host(PAGE)
    assert [(event.status, event.bytes_read) for event in ended] == [(500, len(SORRY)), (200, len(b"a page"))]
    assert (view.visits, view.open_turns, view.bytes_read) == (2, 0, len(SORRY) + len(b"a page"))
    assert min(web.gaps("site.example")) >= DELAY


async def test_outage_that_a_first_attempt_finds_sends_the_second_away(web: Web) -> None:
    """As all turns of an origin that is given up."""
    nobody = "http://127.0.0.1:9/page"
    async with gate_within(
        web, whatever_happens, GATED, give_up_after=0.0, allow_private_addresses=True
    ) as gate:
        blocks: list[Event] = []
        gate.subscribe(blocks.append, HostBlocked)
        gate.learn(nobody, b"")
        with pytest.raises(HostUnavailableError, match="refuses connections"):
            await gate.fetch(nobody)
        await settle()
        assert len(blocks) == 1
        assert gate.host(nobody).visits == 1


async def test_time_that_runs_out_is_told_though_the_middleware_sees_it_cancelled(web: Web) -> None:
    """The request is cancelled by aiohttp, which makes a `TimeoutError` of that further out."""
    web.handle(PAGE, silent())
    async with gate_within(web, GATED, delay=DELAY) as gate:
        gate.learn(PAGE, b"")
        for _ in range(3):
            assert gate.host(PAGE).unreachable_until_at is None
            with pytest.raises(TimeoutError):
                await gate.fetch(PAGE, timeout=aiohttp.ClientTimeout(total=0.1))
        assert gate.host(PAGE).unreachable_until_at is not None


async def test_task_that_outlives_the_fetch_takes_turns_of_its_own(web: Web) -> None:
    """What was begun within it goes on in its context; its requests are no attempts of a fetch that is over."""
    is_over = asyncio.Event()
    tasks: list[asyncio.Task[int]] = []

    async def begin(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        async def later() -> int:
            await is_over.wait()
            async with request.session.get(PAGE) as response:
                return response.status

        if not tasks:
            tasks.append(asyncio.create_task(later()))
        return await handler(request)

    async with gate_within(web, begin, GATED, delay=DELAY) as gate:
        assert (await gate.fetch(PAGE)).status == 200
        is_over.set()
        assert await tasks[0] == 200
        assert (gate.host(PAGE).open_turns, gate.host(PAGE).visits) == (0, 3)
    assert min(web.gaps("site.example")) >= DELAY
