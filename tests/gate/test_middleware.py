"""`gate.middleware`: a crawler's own session, judged and paced without a call site changed. Measured at the servers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiohttp
import pytest
from tests.gate.crawlers import crawler
from tests.gate.servers import DELAY, LARGE, NEXT, PAGE, ROBOTS, RULES, SITE, hang_up

from robotgate import DisallowedError, HostUnavailableError, RobotGate

if TYPE_CHECKING:
    from tests.conftest import OpenGate
    from tests.gate.servers import Web


async def test_requests_are_judged(web: Web, gate: RobotGate) -> None:
    """A refusal is raised where the request was made; nothing is sent."""
    web.serve(ROBOTS, RULES)
    async with crawler(web, gate.middleware) as session:
        async with session.get(PAGE) as response:
            assert await response.text() == "a page"
        with pytest.raises(DisallowedError) as caught:
            await session.get(f"{SITE}/private")
    assert caught.value.verdict.rule is not None
    assert web.counts() == {ROBOTS: 1, PAGE: 1}


async def test_large_bodies_are_paced_by_their_end(web: Web, open_gate: OpenGate) -> None:
    """Not by their headers."""
    gate = await open_gate(delay=DELAY)
    async with crawler(web, gate.middleware) as session:
        web.serve(PAGE, LARGE)

        async def read() -> int:
            async with session.get(PAGE) as response:
                return len(await response.read())

        assert await asyncio.gather(*(read() for _ in range(3))) == [len(LARGE)] * 3
    assert min(web.gaps("site.example")) >= DELAY
    assert gate.host(PAGE).bytes_read == 3 * len(LARGE)


async def test_each_hop_of_a_redirect_is_judged(web: Web, gate: RobotGate) -> None:
    """By the rules of its own host."""
    web.serve("http://other.example/robots.txt", RULES)
    web.redirect(PAGE, "http://other.example/fine")
    web.redirect(NEXT, "http://other.example/private")
    async with crawler(web, gate.middleware) as session:
        async with session.get(PAGE) as response:
            assert str(response.url) == "http://other.example/fine"
        with pytest.raises(DisallowedError):
            await session.get(NEXT)
    assert web.count("http://other.example/private") == 0


@pytest.mark.parametrize("body", [b"moved", LARGE], ids=["small", "large"])
async def test_each_hop_of_a_redirect_is_paced(web: Web, open_gate: OpenGate, body: bytes) -> None:
    """Whatever body the redirect has, which aiohttp does not read."""
    gate = await open_gate(delay=DELAY)
    web.redirect(PAGE, "/next", body=body)
    async with crawler(web, gate.middleware) as session, asyncio.timeout(60), session.get(PAGE) as response:
        assert str(response.url) == NEXT
    assert web.urls == [ROBOTS, PAGE, NEXT]
    assert min(web.gaps("site.example")) >= DELAY


@pytest.mark.parametrize("body", [b"small", LARGE], ids=["small", "large"])
async def test_response_that_is_not_read_ends_with_its_block(web: Web, gate: RobotGate, body: bytes) -> None:
    """Who only wants the status may go on at once, in the same task."""
    web.serve(PAGE, body)
    async with crawler(web, gate.middleware) as session, asyncio.timeout(60):
        for _ in range(3):
            async with session.get(PAGE) as response:
                assert response.status == 200
    assert web.count(PAGE) == 3


@pytest.mark.parametrize("letting_go", ["release", "close"])
async def test_response_that_is_let_go_of_ends_its_turn(web: Web, gate: RobotGate, letting_go: str) -> None:
    """Without a block, too."""
    web.serve(PAGE, LARGE)
    async with crawler(web, gate.middleware) as session, asyncio.timeout(60):
        response = await session.get(PAGE)
        getattr(response, letting_go)()
        async with session.get(NEXT) as following:
            assert following.status == 200


async def test_response_that_is_forgotten_lets_others_in(web: Web, gate: RobotGate) -> None:
    """The turn of a small answer ends although it is not read."""
    async with crawler(web, gate.middleware) as session, asyncio.timeout(60):
        responses = [await session.get(f"{PAGE}/{number}") for number in range(3)]
        assert [response.status for response in responses] == [200, 200, 200]
        for response in responses:
            response.release()


async def test_identity_is_added(web: Web, gate: RobotGate) -> None:
    """In place of aiohttp's own User-Agent, with From beside it; one that names the token is kept."""
    agent = "Mozilla/5.0 (compatible; examplebot/2.0)"
    async with crawler(web, gate.middleware) as session:
        async with session.get(PAGE, headers={"X-Mine": "1"}):
            pass
        async with session.get(NEXT, headers={"User-Agent": agent}):
            pass
    assert web.visit(PAGE).headers["X-Mine"] == "1"
    for visit in web.visits:
        assert visit.headers.getall("User-Agent") == [agent if visit.url == NEXT else "ExampleBot/1.0"]
        assert visit.headers["From"] == "bot@example.org"


async def test_failures_end_the_turn(web: Web, gate: RobotGate) -> None:
    """The next request of the host goes on."""
    web.handle(PAGE, hang_up())
    async with crawler(web, gate.middleware) as session:
        with pytest.raises(aiohttp.ClientConnectionError):
            await session.post(PAGE, data=b"x")
        assert gate.host(PAGE).open_turns == 0
        async with session.get(NEXT) as response:
            assert response.status == 200


async def test_time_out_while_waiting_leaves_the_lane(web: Web, open_gate: OpenGate) -> None:
    """Within aiohttp's own call its time-out counts the wait, too: what docs tell people to use `fetch` for."""
    gate = await open_gate(delay=5)
    gate.learn(PAGE, b"")
    async with crawler(web, gate.middleware, timeout=aiohttp.ClientTimeout(total=0.5)) as session:
        async with session.get(PAGE) as response:
            await response.read()
        with pytest.raises(TimeoutError):
            await session.get(NEXT)
    view = gate.host(PAGE)
    assert (view.waiting, view.open_turns) == (0, 0)
    assert web.counts() == {PAGE: 1}


async def test_blocks_are_heard(web: Web, open_gate: OpenGate) -> None:
    """429 with Retry-After stops the next request to the host."""
    gate = await open_gate(max_block=10)
    web.serve(PAGE, status=429, headers={"Retry-After": "100"})
    async with crawler(web, gate.middleware) as session:
        async with session.get(PAGE) as response:
            assert response.status == 429
        with pytest.raises(HostUnavailableError):
            await session.get(NEXT)


async def test_request_that_aiohttp_sends_again_is_paced(web: Web, open_gate: OpenGate) -> None:
    """A kept connection that turns out to be closed makes aiohttp send once more, behind the caller's back."""
    gate = await open_gate(delay=DELAY)
    async with crawler(web, gate.middleware) as session:
        async with session.get(NEXT) as response:
            await response.read()
        web.handle(PAGE, hang_up())
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await session.get(PAGE)
    assert min(web.gaps("site.example")) >= DELAY
