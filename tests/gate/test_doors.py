"""What a door cannot do, where docs/sending.md and docs/aiohttp.md say so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from aiohttp import web as aioweb
from tests.failing import FailingStore
from tests.gate.crawlers import crawler, text
from tests.gate.servers import DELAY, LARGE, OTHER, PAGE, PRIVATE, ROBOTS, RULES, hang_up
from tests.waiting import until

from robotgate import DisallowedError, RobotGate, StoreError

if TYPE_CHECKING:
    from tests.conftest import OpenGate
    from tests.gate.servers import Web

    from robotgate.client.attempt import RequestOptions

SMALL: Final = b"a page"


async def test_middlewares_of_one_request_stand_in_place_of_the_gate(web: Web, gate: RobotGate) -> None:
    """No other is asked: with `middlewares=()` nothing is judged, paced or named."""
    web.serve(ROBOTS, RULES)
    async with crawler(web, gate.middleware) as session:
        with pytest.raises(DisallowedError):
            await session.get(PRIVATE)
        async with session.get(PRIVATE, middlewares=()) as response:
            assert response.status == 200
        async with session.get(PAGE, middlewares=[gate.middleware]):
            pass
    assert web.urls == [ROBOTS, PRIVATE, PAGE]
    assert "ExampleBot" not in web.visit(PRIVATE).headers["User-Agent"]


@pytest.mark.parametrize(
    "options", [{}, {"middlewares": None}, {"middlewares": ()}], ids=["none given", "none", "no others"]
)
async def test_own_session_paces_what_aiohttp_sends_again(
    web: Web, open_gate: OpenGate, options: RequestOptions
) -> None:
    """It has the gate's middleware, whatever others a fetch is given."""
    gate = await open_gate(session=None, delay=DELAY, allow_private_addresses=True)
    origin = f"http://127.0.0.1:{web.port}"
    web.handle(f"{origin}/page", hang_up())
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await gate.fetch(f"{origin}/page", **options)
    assert web.urls == [f"{origin}/robots.txt", f"{origin}/page", f"{origin}/page"]
    assert gate.host(origin).visits == 3
    assert min(web.gaps("127.0.0.1")) >= DELAY
    assert {visit.headers["User-Agent"] for visit in web.visits} == {"ExampleBot/1.0"}


async def test_fetch_that_is_given_the_gates_middleware_takes_one_turn(web: Web, gate: RobotGate) -> None:
    """It has it twice then."""
    assert (await gate.fetch(PAGE, middlewares=[gate.middleware])).status == 200
    assert gate.host(PAGE).visits == 2
    assert web.urls == [ROBOTS, PAGE]


@pytest.mark.parametrize(("door", "body"), [("fetch", SMALL), ("stream", LARGE), ("middleware", LARGE)])
async def test_store_that_fails_during_a_response(
    web: Web, open_gate: OpenGate, door: str, body: bytes
) -> None:
    """The response is read as ever; the next turn raises what the store said."""
    store = FailingStore()
    gate = await open_gate(store=store)
    gate.learn(PAGE, b"")

    async def fail(_: aioweb.Request) -> aioweb.StreamResponse:
        store.fails = {"save_hosts"}
        return aioweb.Response(body=body)

    web.handle(PAGE, fail)
    async with crawler(web, gate.middleware) as session:
        assert len(await text(gate, PAGE, door, session)) == len(body)
        assert gate.host(PAGE).open_turns == 0
        await until(lambda: bool(store.failed))
        with pytest.raises(StoreError):
            await text(gate, PAGE, door, session)
    assert web.count(PAGE) == 1
    store.recover()


async def test_total_timeout_of_a_fetch_counts_no_wait(
    web: Web, open_gate: OpenGate, session: aiohttp.ClientSession
) -> None:
    """All hops count together, as aiohttp counts them; the waits for their turns do not."""
    timeout = aiohttp.ClientTimeout(total=0.5)
    web.redirect(PAGE, "/there")
    gate = await open_gate(delay=0.6)
    gate.learn(PAGE, b"")
    assert (await gate.fetch(PAGE, timeout=timeout)).status == 200
    web.serve(f"{OTHER}/page", status=302, headers={"Location": "http://third.example/"}, takes=0.3)
    web.serve("http://third.example/", takes=0.3)
    with pytest.raises(TimeoutError):
        await gate.fetch(f"{OTHER}/page", timeout=timeout)
    with pytest.raises(TimeoutError):
        await session.get(f"{OTHER}/page", timeout=timeout)
