"""A host that cannot be reached: turns wait until one request finds it back, and are refused once it is given up."""

from __future__ import annotations

import asyncio
import socket
from itertools import product
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey
from tests.paced import (
    JITTER,
    PAGE,
    REFUSED,
    ROBOTS,
    SECURE,
    SECURE_SITE,
    SITE,
    fail,
    gate_that_knows,
    make_gate,
    now,
    refusal,
    retry_at,
    scripted,
    sleep_until,
    visit,
    visits,
)

from robotgate import HostUnavailableError
from robotgate.sites import Failure

if TYPE_CHECKING:
    from robotgate import RobotGate


CONNECTION = ConnectionKey("a.example", 80, False, True, None, None, None)


async def break_off(gate: RobotGate, error: Exception, *, status: int | None) -> None:
    """A turn whose block an error leaves."""
    async with gate.turn(PAGE) as turn:
        turn.report(status=status)
        raise error


async def test_waiting_turns_are_refused_when_the_host_is_given_up() -> None:
    """By the first try that fails a minute after the outage began; no try comes before its pause is over."""
    async with gate_that_knows(SITE) as gate:
        tried = [asyncio.create_task(fail(gate)) for _ in range(7)]
        waiting = [asyncio.create_task(visit(gate)) for _ in range(50)]
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert 63.0 <= now() == await tried[-1] <= 63.0 * JITTER
        for outcome in outcomes:
            assert isinstance(outcome, HostUnavailableError)
            assert outcome.cause == "it refuses connections"
            assert 64.0 <= outcome.retry_after <= 64.0 * JITTER
        # As are new ones until the next try is due, whatever they would wait.
        for max_wait in (None, 0.0, 100.0):
            _, at = await refusal(visit(gate, max_wait=max_wait), HostUnavailableError)
            assert at == now()
        assert gate.host(PAGE).visits == 7
        await sleep_until(await retry_at(gate))
        assert await visit(gate, status=200) == now()
        assert await visit(gate) == now()


@pytest.mark.parametrize("error", [TimeoutError(), aiohttp.ServerDisconnectedError()])
@pytest.mark.parametrize(("answers", "silences"), [(0, 3), (1, 10)])
async def test_silences_in_a_row_are_an_outage(error: Exception, answers: int, silences: int) -> None:
    """Ten of a host that has answered; one answer among them, of any status, and the row begins anew."""
    async with gate_that_knows(SITE, delay=0.0) as gate:
        rows = [silences - 1, silences] if answers else [silences]
        for row in rows:
            if answers:
                await visit(gate, status=404)
            for _ in range(row):
                assert gate.host(PAGE).unreachable_until_at is None
                await visit(gate, error=error)
        assert 1.0 <= await retry_at(gate) - now() <= JITTER
        # Turns wait as after any outage, and the next one that gets no answer fails as a try.
        await visit(gate, error=error)
        assert 2.0 <= await retry_at(gate) - now() <= 2.0 * JITTER
        assert await visit(gate, status=200) == now()
        assert gate.host(PAGE).unreachable_until_at is None


ERRORS: Final[list[tuple[Exception, bool]]] = [
    (aiohttp.ClientConnectorError(CONNECTION, REFUSED), True),
    (aiohttp.ConnectionTimeoutError(), True),
    (aiohttp.ServerDisconnectedError(), False),
    (aiohttp.ClientPayloadError(), False),
    # These may be of whatever else is done within the block.
    (REFUSED, False),
    (TimeoutError(), False),
    (socket.gaierror(socket.EAI_NONAME, "unknown"), False),
    (ValueError("the page makes no sense"), False),
]


async def test_error_that_leaves_the_block() -> None:
    """An error of aiohttp's is reported by itself, as by `report`; a host that answered was reached."""
    for (error, is_outage), status in product(ERRORS, (200, None)):
        async with gate_that_knows(SITE) as gate:
            with pytest.raises(type(error)):
                await break_off(gate, error, status=status)
            assert gate.host(PAGE).open_turns == 0
            assert (gate.host(PAGE).unreachable_until_at is not None) == (is_outage and status is None)


async def test_cause_in_words() -> None:
    """`report_unreachable` is for clients whose errors the gate does not know."""
    async with gate_that_knows(SITE, give_up_after=0.0) as gate:
        async with gate.turn(PAGE) as turn:
            turn.report_unreachable("its gopher hole has caved in")
        error, _ = await refusal(visit(gate), HostUnavailableError)
        assert error.cause == "its gopher hole has caved in"


async def test_error_after_an_answer_says_nothing() -> None:
    """A host that answered was reached, although its body never came; in one report or another, by any method."""
    async with gate_that_knows(SITE) as gate:
        assert await visit(gate, status=502, error=TimeoutError()) == 0.0
        async with gate.turn(PAGE) as turn:
            turn.report(status=404)
            turn.report(error=REFUSED)
            turn.report_unreachable("the line went dead")
        assert await visit(gate) == 2.0


async def test_outage_is_over_when_somebody_may_try() -> None:
    """From then on the view has no instant, before a try and during one."""
    async with gate_that_knows(SITE) as gate:
        await fail(gate)
        await sleep_until(await retry_at(gate) + 0.001)
        assert gate.host(PAGE).unreachable_until_at is None
        await fail(gate, takes=1.0)
        assert await retry_at(gate) >= now() + 2.0


async def test_outage_of_an_origin_that_the_lane_has_not_met() -> None:
    """It is known, though the lane that met it is gone, and another origin has made the present one."""
    async with gate_that_knows(SITE, SECURE_SITE) as gate:
        for _ in range(5):
            await fail(gate, SECURE)
            await sleep_until(await retry_at(gate, SECURE))
        await fail(gate, SECURE)
        await asyncio.sleep(15.0)
        await visit(gate)
        assert await retry_at(gate, SECURE) > now()


async def test_robots_txt_that_finds_nobody_opens_it() -> None:
    """Pages that wait are sent away with what is known; the site is tried again with its robots.txt first."""
    fetcher = scripted({SITE: Failure("connection refused", is_outage=True)}, latency=0.5)
    async with make_gate(fetcher) as gate:
        outcomes = await asyncio.gather(*(visit(gate) for _ in range(3)), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [HostUnavailableError] * 3
        assert now() == 0.5
        until_at = gate.host(PAGE).unreachable_until_at
        assert until_at is not None
        assert 1.5 <= until_at <= 0.5 + JITTER
        assert fetcher.requests == [(0.0, ROBOTS)]


async def test_robots_txt_is_the_probe_where_it_has_to_be_read() -> None:
    """It goes before the pages, and its answer lets them go on."""
    fetcher = scripted()
    async with make_gate(fetcher) as gate:
        gate.learn(SITE, b"", fresh_until=0.5)
        await fail(gate)
        back_at = await retry_at(gate)
        await asyncio.sleep(0.7)
        starts = await visits(gate, 2)
        assert starts == pytest.approx([back_at + 1.0, back_at + 2.0], abs=0.002)
    ((asked_at, asked_for),) = fetcher.requests
    assert asked_for == ROBOTS
    assert asked_at == pytest.approx(back_at, abs=0.002)
