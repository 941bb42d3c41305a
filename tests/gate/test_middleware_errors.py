"""What `gate.middleware` refuses: each error reaches the caller as it was raised, at once, and nothing is sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, TypeAlias

import aiohttp
import pytest

from robotgate import (
    DisallowedError,
    GateClosedError,
    HostUnavailableError,
    InvalidURLError,
    MemoryStore,
    NestedTurnError,
    NonPublicAddressError,
    OptionError,
    RobotGateError,
    StoreError,
    TooSoonError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp import ClientHandlerType, ClientRequest, ClientResponse
    from tests.conftest import OpenGate
    from tests.gate.servers import Web

    from robotgate import Origin, RobotGate, RobotsRecord

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


@pytest.mark.parametrize(
    ("option", "max_wait"), [(2000, None), (2000, 9000), (9000, 2000), (None, 2000), (0, 2000)]
)
async def test_turn_that_does_not_fit_the_timeout_is_refused_at_once(
    web: Web, open_gate: OpenGate, option: float | None, max_wait: float | None
) -> None:
    """The smaller of `middleware_timeout` and `max_wait` counts; the error says when the turn can come."""
    gate = await open_gate(delay=3000, max_delay=3000, middleware_timeout=option, max_wait=max_wait)
    gate.learn(PAGE, b"")
    async with crawler(web, gate) as session:
        async with session.get(PAGE) as response:
            assert response.status == 200
        with pytest.raises(TooSoonError) as caught:
            await session.get(NEXT)
    assert 2000 < caught.value.retry_after <= 3000
    assert web.counts() == {PAGE: 1}
    assert gate.host(PAGE).waiting == 0


@pytest.mark.parametrize("option", [0, 100, None])
async def test_turn_that_fits_is_waited_for(web: Web, open_gate: OpenGate, option: float | None) -> None:
    """Within `middleware_timeout`; as in aiohttp, 0 is no limit."""
    gate = await open_gate(delay=0.1, middleware_timeout=option)
    gate.learn(PAGE, b"")
    async with crawler(web, gate) as session:
        for url in (PAGE, NEXT):
            async with session.get(url) as response:
                assert response.status == 200
    assert web.gaps("site.example")[0] >= 0.1


async def test_option_does_not_bound_the_other_doors(web: Web, open_gate: OpenGate) -> None:
    """`gate.fetch` waits before aiohttp's clock begins to run."""
    gate = await open_gate(delay=0.1, middleware_timeout=0.01)
    gate.learn(PAGE, b"")
    for url in (PAGE, NEXT):
        assert (await gate.fetch(url)).status == 200
    assert len(web.visits) == 2
