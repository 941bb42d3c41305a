"""What `gate.middleware` refuses: each error reaches the caller as it was raised, at once, and nothing is sent."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest
from tests.conftest import AGENT, CONTACT
from tests.failing import FailingStore
from tests.gate.crawlers import crawler, read
from tests.gate.servers import NEXT, OTHER, PAGE, RULES
from tests.waiting import until

from robotgate import (
    DisallowedError,
    GateClosedError,
    HostUnavailableError,
    InvalidURLError,
    NestedTurnError,
    NonPublicAddressError,
    OptionError,
    RobotGate,
    RobotGateError,
    StoreError,
    TooSoonError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import ClientHandlerType, ClientRequest, ClientResponse
    from tests.conftest import OpenGate
    from tests.gate.servers import Web


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


async def refusing(why: str, open_gate: OpenGate, stack: AsyncExitStack) -> RobotGate:
    """A gate that has something against the page, or nothing."""
    match why:
        case "unopened":
            return RobotGate(AGENT, contact=CONTACT)
        case "lost store":
            return await open_gate(store=FailingStore("load_record"))
        case "too soon":
            gate = await open_gate(delay=30, max_wait=0)
            gate.learn(PAGE, b"")
            async with gate.turn(PAGE):
                return gate
    gate = await open_gate()
    match why:
        case "blocked":
            gate.block("site.example")
        case "closed":
            await gate.aclose()
        case "nested":
            gate.learn(PAGE, b"")
            await stack.enter_async_context(gate.turn(PAGE))
    return gate


@pytest.mark.parametrize(
    ("why", "url", "error"),
    [
        ("disallowed", f"{OTHER}/private", DisallowedError),
        ("unreachable", "http://failing.example/", HostUnavailableError),
        ("blocked", PAGE, HostUnavailableError),
        ("too soon", PAGE, TooSoonError),
        ("unopened", PAGE, GateClosedError),
        ("closed", PAGE, GateClosedError),
        ("nested", PAGE, NestedTurnError),
        ("lost store", PAGE, StoreError),
        ("no URL", "http://site.example:0/page", InvalidURLError),
        ("private address", "http://10.0.0.1/page", NonPublicAddressError),
        ("another name", PAGE, OptionError),
    ],
)
async def test_refusal_reaches_the_caller_unchanged(
    web: Web, open_gate: OpenGate, why: str, url: str, error: type[RobotGateError]
) -> None:
    """The very error that ours raised; aiohttp sends a GET again after some errors, and rewraps others."""
    web.serve(f"{OTHER}/robots.txt", RULES)
    web.serve("http://failing.example/robots.txt", status=500)
    recorder = Recorder()
    async with AsyncExitStack() as stack:
        gate = await refusing(why, open_gate, stack)
        async with crawler(web, recorder, gate.middleware) as session:
            headers = {"User-Agent": "Other/1.0"} if why == "another name" else {}
            for calls, method in enumerate(("GET", "POST"), 1):
                with pytest.raises(error) as caught:
                    await session.request(method, url, headers=headers)
                assert type(caught.value) is error
                assert caught.value is recorder.raised
                assert recorder.calls == calls
    assert all(visited.endswith("/robots.txt") for visited in web.urls)


# ── the wait and the request's total timeout


async def test_turn_that_does_not_fit_the_timeout_is_refused_at_once(web: Web, open_gate: OpenGate) -> None:
    """The `max_wait` of `middleware_with` counts in place of the gate's; the error says when the turn can come."""
    gate = await open_gate(delay=3000, max_delay=3000, max_wait=9000)
    gate.learn(PAGE, b"")
    middleware = gate.middleware_with(max_wait=2000)
    async with crawler(web, middleware) as session:
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
    async with crawler(web, middleware) as session:
        for url in (PAGE, NEXT):
            async with session.get(url) as response:
                assert response.status == 200
    assert web.gaps("site.example")[0] >= 0.1
    async with crawler(web, gate.middleware) as other:
        with pytest.raises(TooSoonError):
            await other.get(PAGE)


async def test_higher_priority_of_a_session_goes_first(web: Web, open_gate: OpenGate) -> None:
    """Of the waiting requests of one host, that of the session whose middleware has the higher priority."""
    gate = await open_gate(delay=0.2)
    gate.learn(PAGE, b"")
    urgent = gate.middleware_with(priority=1)
    async with (
        crawler(web, gate.middleware) as session,
        crawler(web, urgent) as other,
        asyncio.TaskGroup() as tasks,
    ):
        await read(session, PAGE)
        tasks.create_task(read(session, f"{PAGE}?2"))
        await until(lambda: gate.host(PAGE).waiting == 1)
        tasks.create_task(read(other, f"{PAGE}?1"))
    assert web.urls == [PAGE, f"{PAGE}?1", f"{PAGE}?2"]


def test_middleware_that_makes_no_sense_is_refused() -> None:
    """When it is made, by the name of the argument."""
    make: Callable[..., object] = RobotGate(AGENT, contact=CONTACT).middleware_with
    for name, value in (("max_wait", -1), ("max_wait", "1"), ("priority", 1.0), ("priority", None)):
        with pytest.raises(OptionError, match=f"^{name}="):
            make(**{name: value})
