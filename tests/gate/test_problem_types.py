"""An error whose body says that we were too fast slows its host down, where the body is read anyway."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import httpx
import pytest
from aiohttp import web as aioweb
from tests.gate.servers import PAGE, SITE
from tests.integration.test_httpx import ToTheWeb

from robotgate.events import BlockCause, HostBlocked
from robotgate.integrations.httpx import GateTransport

if TYPE_CHECKING:
    from tests.conftest import OpenGate
    from tests.gate.servers import Web

    from robotgate import RobotGate

BODY: Final = json.dumps({"type": "https://iana.org/assignments/http-problem-types#quota-exceeded"}).encode()
KIND: Final = {"Content-Type": "application/problem+json"}


async def by_fetch(gate: RobotGate, web: Web) -> None:
    """The body has come with the headers, or not."""
    del web
    assert (await gate.fetch(PAGE)).status == 403


async def by_httpx(gate: RobotGate, web: Web) -> None:
    """A client of httpx reads it through the transport."""
    async with httpx.AsyncClient(transport=GateTransport(gate, ToTheWeb(web))) as client:
        assert (await client.get(PAGE)).status_code == 403


async def by_turn(gate: RobotGate, web: Web) -> None:
    """The caller has read it, and says so while the turn is open."""
    async with gate.turn(PAGE) as turn, httpx.AsyncClient(transport=ToTheWeb(web)) as client:
        response = await client.get(turn.url)
        turn.report(response.status_code, response.headers, len(response.content), body=response.content)


async def by_late_report(gate: RobotGate, web: Web) -> None:
    """The caller reads it after the turn has ended."""
    del web
    async with gate.turn(PAGE) as turn:
        turn.report(403, KIND)
    turn.report(403, KIND, body=BODY)


@pytest.mark.parametrize("door", [by_fetch, by_httpx, by_turn, by_late_report])
@pytest.mark.parametrize("is_chunked", [False, True])
async def test_problem_type_blocks_the_host(
    web: Web, open_gate: OpenGate, door: object, *, is_chunked: bool
) -> None:
    """As a 429 does: the delay is raised, and the host gets a pause. A 403 without it asks for nothing."""
    assert callable(door)

    async def answer(request: aioweb.Request) -> aioweb.StreamResponse:
        if not is_chunked:
            return aioweb.Response(status=403, body=BODY, headers=KIND)
        response = aioweb.StreamResponse(status=403, headers=KIND)
        await response.prepare(request)
        for at in range(0, len(BODY), 20):
            await response.write(BODY[at : at + 20])
        return response

    web.handle(PAGE, answer)
    web.serve(f"{SITE}/forbidden", b'{"type": "about:blank"}', status=403, headers=KIND)
    gate = await open_gate(adaptive=True)
    heard: list[HostBlocked] = []
    gate.subscribe(heard.append, HostBlocked, at_once=True)
    assert (await gate.fetch(f"{SITE}/forbidden")).status == 403
    assert (gate.host(PAGE).failures, heard) == (0, [])
    await door(gate, web)
    view = gate.host(PAGE)
    assert (view.failures, view.learned_delay > 0) == (1, True)
    assert [event.cause for event in heard] == [BlockCause.OVERLOADED]


async def test_retry_after_of_the_answer_holds(web: Web, open_gate: OpenGate) -> None:
    """Also where the body alone tells us off."""
    web.serve(PAGE, BODY, status=403, headers=KIND | {"Retry-After": "100"})
    gate = await open_gate()
    await gate.fetch(PAGE)
    view = gate.host(PAGE)
    assert view.blocked_until_at is not None
    assert view.last_visit_at is not None
    assert 99 < view.blocked_until_at - view.last_visit_at < 101
    assert view.failures == 1
