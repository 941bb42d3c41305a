"""`gated_session`: a session of aiohttp that needs nothing else to stand in front of a gate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp
import pytest
from tests.gate.servers import DELAY, PAGE

from robotgate import PublicConnector, TooSoonError, gated_session

if TYPE_CHECKING:
    from aiohttp import ClientHandlerType, ClientRequest, ClientResponse
    from tests.conftest import OpenGate
    from tests.gate.servers import Web

    from robotgate import RobotGate


async def test_gate_sees_each_request_that_a_middleware_sends(web: Web, open_gate: OpenGate) -> None:
    """It comes behind those that are given: a second attempt has a turn of its own."""
    gate = await open_gate(delay=DELAY)

    async def twice(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        (await handler(request)).close()
        return await handler(request)

    async with (
        gated_session(gate, connector=web.connector(), middlewares=[twice]) as session,
        session.get(PAGE) as response,
    ):
        await response.read()
    assert web.count(PAGE) == 2
    assert min(web.gaps("site.example")) >= DELAY


async def test_turn_that_would_exceed_a_total_timeout_is_refused_at_once(
    web: Web, open_gate: OpenGate
) -> None:
    """The wait counts against the total that is given."""
    gate = await open_gate(delay=60)
    gate.learn(PAGE, b"")
    timeout = aiohttp.ClientTimeout(total=30)
    async with gated_session(gate, connector=web.connector(), timeout=timeout) as session:
        async with session.get(PAGE) as response:
            await response.read()
        with pytest.raises(TooSoonError):
            await session.get(PAGE)


@pytest.mark.parametrize("total", [0, -1])
async def test_total_timeout_of_nothing_is_none(web: Web, gate: RobotGate, total: int) -> None:
    """As to aiohttp."""
    timeout = aiohttp.ClientTimeout(total=total)
    async with (
        gated_session(gate, connector=web.connector(), timeout=timeout) as session,
        session.get(PAGE) as response,
    ):
        assert response.status == 200


async def test_session_is_as_the_gates_own(gate: RobotGate) -> None:
    """It refuses names of private addresses, and no total timeout counts the waits of its tasks."""
    async with gated_session(gate) as session:
        assert session.timeout.total is None
        assert isinstance(session.connector, PublicConnector)
