"""`gate.middleware`: a crawler's own session, judged and paced without a call site changed. Measured at the servers."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web as aioweb
from tests.gate.servers import hang_up

from robotgate import (
    DisallowedError,
    GateClosedError,
    HostUnavailableError,
    NonPublicAddressError,
    OptionError,
    RobotGate,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp import ClientHandlerType, ClientMiddlewareType, ClientRequest, ClientResponse
    from tests.conftest import OpenGate
    from tests.gate.servers import Handler, Web

SITE = "http://site.example"
ROBOTS = f"{SITE}/robots.txt"
PAGE = f"{SITE}/page"
NEXT = f"{SITE}/next"
RULES = "User-agent: *\nDisallow: /private"
DELAY = 0.06
LARGE = b"x" * 2_000_000


@asynccontextmanager
async def crawler(
    web: Web, *middlewares: ClientMiddlewareType, timeout: float = 300
) -> AsyncIterator[aiohttp.ClientSession]:
    """A session as crawlers have them."""
    async with aiohttp.ClientSession(
        connector=web.connector(), middlewares=middlewares, timeout=aiohttp.ClientTimeout(total=timeout)
    ) as session:
        yield session


class Retry:
    """A middleware of the kind that every second crawler has: once more after a 5xx."""

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        """Send, and send again."""
        response = await handler(request)
        if response.status < 500:
            return response
        response.release()
        return await handler(request)


def failing_once(body: bytes = b"sorry") -> Handler:
    """500 first, then 200."""
    answers = iter((500, 200))

    async def answer(_: aioweb.Request) -> aioweb.StreamResponse:
        return aioweb.Response(status=next(answers), body=body)

    return answer


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


async def test_requests_are_paced(web: Web, open_gate: OpenGate) -> None:
    """From the end of one answer to the next request, robots.txt included."""
    gate = await open_gate(delay=DELAY)

    async with crawler(web, gate.middleware) as session:

        async def read(url: str) -> None:
            async with session.get(url) as response:
                await response.read()

        await asyncio.gather(*(read(f"{PAGE}/{number}") for number in range(5)))
    gaps = web.gaps("site.example")
    assert len(gaps) == 5
    assert min(gaps) >= DELAY
    assert web.peak() == 1


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


@pytest.mark.parametrize("body", [b"", b"moved", LARGE], ids=["none", "small", "large"])
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
    """In place of aiohttp's own User-Agent; From beside it; other headers as they are."""
    async with crawler(web, gate.middleware) as session, session.get(PAGE, headers={"X-Mine": "1"}):
        pass
    for visit in web.visits:
        assert visit.headers["User-Agent"] == "ExampleBot/1.0"
        assert visit.headers["From"] == "bot@example.org"
        assert len(visit.headers.getall("User-Agent")) == 1
    assert web.visit(PAGE).headers["X-Mine"] == "1"


async def test_user_agent_that_names_the_token_is_kept(web: Web, gate: RobotGate) -> None:
    """A crawler may say more of itself."""
    agent = "Mozilla/5.0 (compatible; examplebot/2.0)"
    async with crawler(web, gate.middleware) as session, session.get(PAGE, headers={"User-Agent": agent}):
        pass
    assert web.visit(PAGE).headers["User-Agent"] == agent


async def test_user_agent_of_somebody_else_is_refused(web: Web, gate: RobotGate) -> None:
    """Obeying one name and sending another tells site owners nothing."""
    async with crawler(web, gate.middleware) as session:
        with pytest.raises(OptionError, match="ExampleBot"):
            await session.get(PAGE, headers={"User-Agent": "Other/1.0"})
    assert web.visits == []


async def test_credentials_of_the_session_are_not_for_robots_txt(web: Web, gate: RobotGate) -> None:
    """They go with the page."""
    async with (
        aiohttp.ClientSession(
            connector=web.connector(), middlewares=[gate.middleware], headers={"Authorization": "Bearer x"}
        ) as session,
        session.get(PAGE),
    ):
        pass
    assert web.visit(PAGE).headers["Authorization"] == "Bearer x"
    assert "Authorization" not in web.visit(ROBOTS).headers


@asynccontextmanager
async def gate_on_its_own_crawler(web: Web, *first: ClientMiddlewareType) -> AsyncIterator[RobotGate]:
    """A gate on a session whose middlewares end with the gate's own."""
    gates: list[RobotGate] = []

    async def gated(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        return await gates[0].middleware(request, handler)

    async with crawler(web, *first, gated) as session:
        gate = RobotGate("ExampleBot/1.0", contact="bot@example.org", delay=DELAY, session=session)
        gates.append(gate)
        async with gate, asyncio.timeout(60):
            yield gate


async def test_fetch_through_the_same_session_is_gated_once(web: Web) -> None:
    """One turn for one request: no deadlock, no second delay."""
    async with gate_on_its_own_crawler(web) as gate:
        assert (await gate.fetch(PAGE)).status == 200
        async with gate.fetch(NEXT) as response:
            assert response.status == 200
        assert gate.host(PAGE).visits == 3
    assert web.urls == [ROBOTS, PAGE, NEXT]
    assert min(web.gaps("site.example")) >= DELAY


@pytest.mark.parametrize("body", [b"", b"sorry", LARGE], ids=["none", "small", "large"])
async def test_retries_before_the_gate_are_paced(web: Web, open_gate: OpenGate, body: bytes) -> None:
    """A retry middleware in front of ours: each attempt has its own turn."""
    gate = await open_gate(delay=DELAY)
    web.handle(PAGE, failing_once(body))
    async with (
        crawler(web, Retry(), gate.middleware) as session,
        asyncio.timeout(60),
        session.get(PAGE) as response,
    ):
        assert response.status == 200
        await response.read()
    assert web.counts() == {ROBOTS: 1, PAGE: 2}
    assert min(web.gaps("site.example")) >= DELAY


@pytest.mark.parametrize("door", ["read", "stream"])
async def test_retries_within_a_fetch_are_paced(web: Web, door: str) -> None:
    """The session of `gate.fetch` has the retry middleware and ours: the second attempt waits its turn too."""
    web.handle(PAGE, failing_once())
    async with gate_on_its_own_crawler(web, Retry()) as gate:
        if door == "read":
            assert (await gate.fetch(PAGE)).status == 200
        else:
            async with gate.fetch(PAGE) as response:
                assert response.status == 200
        assert gate.host(PAGE).open_turns == 0
    assert web.counts() == {ROBOTS: 1, PAGE: 2}
    assert min(web.gaps("site.example")) >= DELAY


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
    async with crawler(web, gate.middleware, timeout=0.5) as session:
        async with session.get(PAGE) as response:
            await response.read()
        with pytest.raises(TimeoutError):
            await session.get(NEXT)
    view = gate.host(PAGE)
    assert (view.waiting, view.open_turns) == (0, 0)
    assert web.counts() == {PAGE: 1}


async def test_cancellation_ends_the_turn(web: Web, gate: RobotGate) -> None:
    """While the answer is awaited."""
    never = asyncio.Event()

    async def answer(_: aioweb.Request) -> aioweb.StreamResponse:
        await never.wait()
        raise AssertionError

    web.handle(PAGE, answer)
    async with crawler(web, gate.middleware) as session:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await session.get(PAGE)
    assert gate.host(PAGE).open_turns == 0


async def test_blocks_are_heard(web: Web, open_gate: OpenGate) -> None:
    """429 with Retry-After stops the next request to the host."""
    gate = await open_gate(max_block=10)
    web.serve(PAGE, status=429, headers={"Retry-After": "100"})
    async with crawler(web, gate.middleware) as session:
        async with session.get(PAGE) as response:
            assert response.status == 429
        with pytest.raises(HostUnavailableError):
            await session.get(NEXT)


async def test_private_addresses_are_refused(web: Web, gate: RobotGate) -> None:
    """Before anything is sent."""
    async with crawler(web, gate.middleware) as session:
        with pytest.raises(NonPublicAddressError, match="allow_private_addresses"):
            await session.get(f"http://127.0.0.1:{web.port}/")
        web.redirect(PAGE, f"http://127.0.0.1:{web.port}/")
        with pytest.raises(NonPublicAddressError):
            await session.get(PAGE)
    assert web.urls == [ROBOTS, PAGE]


async def test_params_are_judged_as_sent(web: Web, gate: RobotGate) -> None:
    """By then aiohttp has put them into the URL."""
    web.serve(ROBOTS, "User-agent: *\nDisallow: /*secret=")
    async with crawler(web, gate.middleware) as session:
        with pytest.raises(DisallowedError):
            await session.get(PAGE, params={"secret": "1"})


async def test_closed_gate_lets_nothing_through(web: Web, open_gate: OpenGate) -> None:
    """A forgotten gate does not fail open."""
    unopened = RobotGate("ExampleBot/1.0", contact="bot@example.org")
    closed = await open_gate()
    await closed.aclose()
    for gate in (unopened, closed):
        async with crawler(web, gate.middleware) as session:
            with pytest.raises(GateClosedError):
                await session.get(PAGE)
    assert web.visits == []


async def test_refusal_is_seen_by_handlers_already_written(web: Web, gate: RobotGate) -> None:
    """`except aiohttp.ClientError` catches it, and aiohttp does not send it again."""
    web.serve(ROBOTS, RULES)
    async with crawler(web, gate.middleware) as session:
        with pytest.raises(aiohttp.ClientError) as caught:
            await session.get(f"{SITE}/private")
    assert not isinstance(caught.value, OSError)
    assert type(caught.value) is DisallowedError


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
