"""What a door cannot do, where docs/sending.md says so."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from aiohttp import web as aioweb
from tests.failing import FailingStore
from tests.gate.servers import hang_up
from tests.waiting import until

from robotgate import DisallowedError, RobotGate, StoreError

if TYPE_CHECKING:
    from tests.conftest import OpenGate
    from tests.gate.servers import Web
    from yarl import URL

    from robotgate.client.attempt import RequestOptions

SITE: Final = "http://site.example"
ROBOTS: Final = f"{SITE}/robots.txt"
PAGE: Final = f"{SITE}/page"
PRIVATE: Final = f"{SITE}/private"
RULES: Final = "User-agent: *\nDisallow: /private"
DELAY: Final = 0.06
SMALL: Final = b"a page"
LARGE: Final = b"x" * 3_000_000


async def test_middlewares_of_one_request_stand_in_place_of_the_gate(web: Web, gate: RobotGate) -> None:
    """No other is asked: with `middlewares=()` nothing is judged, paced or named."""
    web.serve(ROBOTS, RULES)
    async with aiohttp.ClientSession(connector=web.connector(), middlewares=[gate.middleware]) as session:
        with pytest.raises(DisallowedError):
            await session.get(PRIVATE)
        async with session.get(PRIVATE, middlewares=()) as response:
            assert response.status == 200
        async with session.get(PAGE, middlewares=[gate.middleware]):
            pass
    assert web.urls == [ROBOTS, PRIVATE, PAGE]
    assert "ExampleBot" not in web.visit(PRIVATE).headers["User-Agent"]


async def test_middlewares_of_one_fetch_leave_its_turn_alone(web: Web, gate: RobotGate) -> None:
    """It is had before aiohttp is asked."""
    web.serve(ROBOTS, RULES)
    with pytest.raises(DisallowedError):
        await gate.fetch(PRIVATE, middlewares=())
    assert (await gate.fetch(PAGE, middlewares=())).status == 200
    assert web.visit(PAGE).headers["User-Agent"] == "ExampleBot/1.0"


async def pass_on(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """A middleware of a caller's."""
    return await handler(request)


@pytest.mark.parametrize(
    "options",
    [{}, {"middlewares": None}, {"middlewares": ()}, {"middlewares": [pass_on]}],
    ids=["none given", "none", "no others", "another"],
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


@pytest.mark.parametrize("ours", ["plain", "wrapped"])
async def test_fetch_that_is_given_the_gates_middleware_takes_one_turn(
    web: Web, open_gate: OpenGate, ours: str
) -> None:
    """It has it twice then."""

    async def gated(
        request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        return await gate.middleware(request, handler)

    gate = await open_gate(delay=DELAY)
    given = gate.middleware if ours == "plain" else gated
    assert (await gate.fetch(PAGE, middlewares=[given])).status == 200
    assert gate.host(PAGE).visits == 2
    assert web.urls == [ROBOTS, PAGE]


async def test_turn_sees_nothing_of_what_its_client_does(
    web: Web, gate: RobotGate, session: aiohttp.ClientSession
) -> None:
    """A client that follows redirects by itself goes where the gate did not let it."""
    web.serve(ROBOTS, RULES)
    web.redirect(PAGE, "/private")
    async with gate.turn(PAGE) as turn, session.get(turn.url, headers=turn.headers()) as response:
        assert str(response.url) == PRIVATE
    assert gate.host(PAGE).visits == 2
    assert len(web.visits) == 3


async def test_turn_for_each_hop_is_the_clients_to_take(
    web: Web, gate: RobotGate, session: aiohttp.ClientSession
) -> None:
    """One that is told not to follow, and asks for the next hop's turn, is stopped there."""
    web.serve(ROBOTS, RULES)
    web.redirect(PAGE, "/private")
    async with (
        gate.turn(PAGE) as turn,
        session.get(turn.url, headers=turn.headers(), allow_redirects=False) as response,
    ):
        turn.report(response.status, response.headers)
    with pytest.raises(DisallowedError):
        async with gate.turn(f"{SITE}{response.headers['Location']}"):
            raise AssertionError
    assert web.count(PRIVATE) == 0


@pytest.mark.filterwarnings("ignore:Inheritance class .* is discouraged:DeprecationWarning")
@pytest.mark.parametrize(("door", "turns"), [("session", 3), ("middleware", 1)])
async def test_page_from_a_cache_takes_a_turn_where_the_session_is_the_gates(
    web: Web, open_gate: OpenGate, door: str, turns: int
) -> None:
    """The gate asks the session after the wait; its middleware is asked only for what is sent."""
    kept: dict[str, aiohttp.ClientResponse] = {}

    class Caching(aiohttp.ClientSession):
        """Keeps every page, as the session of aiohttp-client-cache does."""

        async def _request(self, method: str, str_or_url: str | URL, **_: object) -> aiohttp.ClientResponse:
            url = str(str_or_url)
            if url not in kept:
                kept[url] = await super()._request(method, str_or_url)
            return kept[url]

    if door == "session":
        async with Caching(connector=web.connector()) as session:
            gate = await open_gate(session=session, delay=DELAY)
            for _ in range(3):
                await gate.fetch(PAGE)
    else:
        gate = await open_gate(delay=DELAY)
        async with Caching(connector=web.connector(), middlewares=[gate.middleware]) as session:
            for _ in range(3):
                await (await session.get(PAGE)).read()
    assert web.urls == [ROBOTS, PAGE]
    assert gate.host(PAGE).visits == 1 + turns


@pytest.mark.parametrize("body", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("door", ["read", "stream", "middleware"])
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

    async def read(session: aiohttp.ClientSession) -> bytes:
        if door == "read":
            return (await gate.fetch(PAGE)).body
        async with gate.fetch(PAGE) if door == "stream" else session.get(PAGE) as response:
            return await response.read()

    web.handle(PAGE, fail)
    async with aiohttp.ClientSession(connector=web.connector(), middlewares=[gate.middleware]) as session:
        assert await read(session) == body
        assert gate.host(PAGE).open_turns == 0
        await until(lambda: bool(store.failed))
        with pytest.raises(StoreError):
            await read(session)
    assert web.count(PAGE) == 1
    store.recover()


async def test_turn_that_is_disallowed_is_refused_on_entering(web: Web, gate: RobotGate) -> None:
    """Before the block."""
    web.serve(ROBOTS, RULES)
    with pytest.raises(DisallowedError):
        async with gate.turn(PRIVATE):
            raise AssertionError
    assert gate.host(PAGE).open_turns == 0


async def test_wait_for_a_turn_counts_against_no_timeout(
    web: Web, open_gate: OpenGate, session: aiohttp.ClientSession
) -> None:
    """It is over when the request begins."""
    gate = await open_gate(delay=1)
    gate.learn(PAGE, b"")
    for _ in range(2):
        async with (
            gate.turn(PAGE) as turn,
            session.get(turn.url, timeout=aiohttp.ClientTimeout(total=0.8)) as response,
        ):
            assert response.status == 200
    assert web.gaps("site.example")[0] >= 1


async def test_total_timeout_of_a_fetch_counts_no_wait(
    web: Web, open_gate: OpenGate, session: aiohttp.ClientSession
) -> None:
    """All hops count together, as aiohttp counts them; the waits for their turns do not."""
    timeout = aiohttp.ClientTimeout(total=0.5)
    web.redirect(PAGE, "/there")
    gate = await open_gate(delay=0.6)
    gate.learn(PAGE, b"")
    assert (await gate.fetch(PAGE, timeout=timeout)).status == 200
    web.serve(PAGE, status=302, headers={"Location": "/there"}, takes=0.3)
    web.serve(f"{SITE}/there", takes=0.3)
    with pytest.raises(TimeoutError):
        await gate.fetch(PAGE, timeout=timeout)
    with pytest.raises(TimeoutError):
        await session.get(PAGE, timeout=timeout)


async def test_session_of_the_caller_may_run_the_gate_that_is_given_it(web: Web) -> None:
    """Each is made before the other is used."""

    async def gated(
        request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        return await gate.middleware(request, handler)

    web.handle(PAGE, hang_up())
    async with (
        asyncio.timeout(60),
        aiohttp.ClientSession(connector=web.connector(), middlewares=[gated]) as session,
        RobotGate("ExampleBot/1.0", contact="bot@example.org", session=session, delay=DELAY) as gate,
    ):
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await gate.fetch(PAGE)
        async with session.get(f"{SITE}/next") as response:
            assert response.status == 200
    assert web.urls == [ROBOTS, PAGE, PAGE, f"{SITE}/next"]
    assert min(web.gaps("site.example")) >= DELAY
