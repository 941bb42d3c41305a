"""What `gate.middleware` refuses: each error reaches the caller as it was raised, at once, and nothing is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, TypeAlias

import aiohttp
import pytest
from tests.waiting import until

from robotgate import (
    DisallowedError,
    GateClosedError,
    HostUnavailableError,
    InvalidURLError,
    MemoryStore,
    NestedTurnError,
    NonPublicAddressError,
    OptionError,
    RobotGate,
    RobotGateError,
    StoreError,
    TooSoonError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp import ClientHandlerType, ClientRequest, ClientResponse
    from tests.conftest import OpenGate
    from tests.gate.servers import Web

    from robotgate import Origin
    from robotgate.sites import RobotsRecord

SITE = "http://site.example"
ROBOTS = f"{SITE}/robots.txt"
PAGE = f"{SITE}/page"
NEXT = f"{SITE}/next"

Refusal: TypeAlias = Callable[["Web", "OpenGate", AsyncExitStack], Awaitable["RobotGate"]]
"""Opens a gate that refuses the page."""


class Recorder:
    """A middleware before ours that notes what passes it, out and back."""

    def __init__(self) -> None:
        self.calls = 0
        self.raised: BaseException | None = None

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        """Count the call, and look at what it ends in."""
        self.calls += 1
        try:
            return await handler(request)
        except BaseException as error:
            self.raised = error
            raise


class LostStore(MemoryStore):
    """Cannot be read."""

    async def load_record(self, origin: Origin) -> RobotsRecord | None:
        """Fail."""
        raise StoreError("the disk is gone: plug it in")


async def disallowed(web: Web, open_gate: OpenGate, _: AsyncExitStack) -> RobotGate:
    """The site's rules say no."""
    web.serve(ROBOTS, "User-agent: *\nDisallow: /page")
    return await open_gate()


async def unreachable(web: Web, open_gate: OpenGate, _: AsyncExitStack) -> RobotGate:
    """The site's rules cannot be read."""
    web.serve(ROBOTS, status=500)
    return await open_gate()


async def blocked(_: Web, open_gate: OpenGate, __: AsyncExitStack) -> RobotGate:
    """The operator wants the host left alone."""
    gate = await open_gate()
    gate.block("site.example")
    return gate


async def too_soon(_: Web, open_gate: OpenGate, __: AsyncExitStack) -> RobotGate:
    """The host was visited just now."""
    gate = await open_gate(delay=30, max_wait=0)
    gate.learn(PAGE, b"")
    async with gate.turn(PAGE):
        return gate


async def closed(_: Web, open_gate: OpenGate, __: AsyncExitStack) -> RobotGate:
    """No turn waits or is open."""
    gate = await open_gate()
    await gate.aclose()
    return gate


async def nested(_: Web, open_gate: OpenGate, stack: AsyncExitStack) -> RobotGate:
    """The caller has the turn that he asks for."""
    gate = await open_gate()
    gate.learn(PAGE, b"")
    await stack.enter_async_context(gate.turn(PAGE))
    return gate


async def lost_store(_: Web, open_gate: OpenGate, __: AsyncExitStack) -> RobotGate:
    """What is known cannot be read."""
    return await open_gate(store=LostStore())


async def open_only(_: Web, open_gate: OpenGate, __: AsyncExitStack) -> RobotGate:
    """A gate that has nothing against the page; the request is wrong."""
    return await open_gate()


async def read(session: aiohttp.ClientSession, url: str) -> None:
    """Request a page and read it."""
    async with session.get(url) as response:
        await response.read()


@asynccontextmanager
async def crawler(web: Web, gate: RobotGate, *first: Recorder) -> AsyncIterator[aiohttp.ClientSession]:
    """A session as crawlers have them."""
    async with aiohttp.ClientSession(
        connector=web.connector(), middlewares=[*first, gate.middleware]
    ) as session:
        yield session


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    ("refuse", "url", "headers", "error"),
    [
        (disallowed, PAGE, {}, DisallowedError),
        (unreachable, PAGE, {}, HostUnavailableError),
        (blocked, PAGE, {}, HostUnavailableError),
        (too_soon, PAGE, {}, TooSoonError),
        (closed, PAGE, {}, GateClosedError),
        (nested, PAGE, {}, NestedTurnError),
        (lost_store, PAGE, {}, StoreError),
        (open_only, "http://site.example:0/page", {}, InvalidURLError),
        (open_only, "http://10.0.0.1/page", {}, NonPublicAddressError),
        (open_only, PAGE, {"User-Agent": "Other/1.0"}, OptionError),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_refusal_reaches_the_caller_unchanged(  # noqa: PLR0917  # Parameters of pytest's have names.
    web: Web,
    open_gate: OpenGate,
    refuse: Refusal,
    url: str,
    headers: dict[str, str],
    error: type[RobotGateError],
    method: str,
) -> None:
    """The very error that ours raised; aiohttp sends a GET again after some errors, and rewraps others."""
    recorder = Recorder()
    async with AsyncExitStack() as stack:
        gate = await refuse(web, open_gate, stack)
        async with crawler(web, gate, recorder) as session:
            with pytest.raises(error) as caught:
                await session.request(method, url, headers=headers)
    assert type(caught.value) is error
    assert caught.value is recorder.raised
    assert recorder.calls == 1
    assert [visit for visit in web.visits if visit.url != ROBOTS] == []


async def test_retry_of_every_client_error_leaves_refusals_out(web: Web, open_gate: OpenGate) -> None:
    """What the site refuses is not asked again."""
    web.serve(ROBOTS, "User-agent: *\nDisallow: /page")
    gate = await open_gate()
    recorder = Recorder()
    async with crawler(web, gate, recorder) as session:
        for _ in range(3):
            try:
                await session.get(PAGE)
            except RobotGateError:
                break
            except aiohttp.ClientError:
                continue
    assert recorder.calls == 1
    assert web.urls == [ROBOTS]


# ── the wait and the request's total timeout


async def test_turn_that_does_not_fit_the_timeout_is_refused_at_once(web: Web, open_gate: OpenGate) -> None:
    """The `max_wait` of `middleware_with` counts in place of the gate's; the error says when the turn can come."""
    gate = await open_gate(delay=3000, max_delay=3000, max_wait=9000)
    gate.learn(PAGE, b"")
    middleware = gate.middleware_with(max_wait=2000)
    async with aiohttp.ClientSession(connector=web.connector(), middlewares=[middleware]) as session:
        async with session.get(PAGE) as response:
            assert response.status == 200
        with pytest.raises(TooSoonError) as caught:
            await session.get(NEXT)
    assert 2000 < caught.value.retry_after <= 3000
    assert web.counts() == {PAGE: 1}
    assert gate.host(PAGE).waiting == 0


@pytest.mark.parametrize("max_wait", [100, None])
async def test_turn_that_fits_is_waited_for(web: Web, open_gate: OpenGate, max_wait: float | None) -> None:
    """Within the `max_wait` of `middleware_with`, which may be longer than the gate's; other sessions keep that."""
    gate = await open_gate(delay=0.1, max_wait=0)
    gate.learn(PAGE, b"")
    middleware = gate.middleware_with(max_wait=max_wait)
    async with aiohttp.ClientSession(connector=web.connector(), middlewares=[middleware]) as session:
        for url in (PAGE, NEXT):
            async with session.get(url) as response:
                assert response.status == 200
    assert web.gaps("site.example")[0] >= 0.1
    async with crawler(web, gate) as other:
        with pytest.raises(TooSoonError):
            await other.get(PAGE)


async def test_higher_priority_of_a_session_goes_first(web: Web, open_gate: OpenGate) -> None:
    """Of the waiting requests of one host, that of the session whose middleware has the higher priority."""
    gate = await open_gate(delay=0.2)
    gate.learn(PAGE, b"")
    urgent = gate.middleware_with(priority=1)
    async with (
        crawler(web, gate) as session,
        aiohttp.ClientSession(connector=web.connector(), middlewares=[urgent]) as other,
        asyncio.TaskGroup() as tasks,
    ):
        await read(session, PAGE)
        tasks.create_task(read(session, f"{PAGE}?2"))
        await until(lambda: gate.host(PAGE).waiting == 1)
        tasks.create_task(read(other, f"{PAGE}?1"))
    assert web.urls == [PAGE, f"{PAGE}?1", f"{PAGE}?2"]


async def test_two_middlewares_of_a_gate_take_one_turn(web: Web, open_gate: OpenGate) -> None:
    """A session that already has one is passed to the gate: `gate.fetch` sends each page once, in one turn."""
    gates: list[RobotGate] = []

    async def middleware(
        request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        return await gates[0].middleware_with(max_wait=1)(request, handler)

    async with aiohttp.ClientSession(connector=web.connector(), middlewares=[middleware]) as session:
        gates.append(await open_gate(delay=0.1, session=session))
        gates[0].learn(PAGE, b"")
        for url in (PAGE, NEXT):
            assert (await gates[0].fetch(url)).status == 200
    assert gates[0].stats().visits == 2


@pytest.mark.parametrize(
    "given", [{"max_wait": -1}, {"max_wait": "1"}, {"priority": 1.0}, {"priority": None}]
)
def test_middleware_that_makes_no_sense_is_refused(given: dict[str, object]) -> None:
    """When it is made, by the name of the argument."""
    make: Callable[..., object] = RobotGate("ExampleBot/1.0", contact="bot@example.org").middleware_with
    (name,) = given
    with pytest.raises(OptionError, match=f"^{name}="):
        make(**given)
