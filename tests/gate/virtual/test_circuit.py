"""A host that cannot be reached: turns wait until one request finds it back, and are refused once it is given up."""

from __future__ import annotations

import asyncio
import errno
import random
import socket
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey
from tests.paced import (
    JITTER,
    OTHER,
    PAGE,
    REFUSED,
    ROBOTS,
    SECURE,
    SECURE_SITE,
    SITE,
    fail,
    make_gate,
    now,
    refusal,
    retry_at,
    scripted,
    sleep_until,
    visit,
    visits,
)
from tests.waiting import settle

from robotgate import HostUnavailableError
from robotgate.client.robots import outage_of
from robotgate.sites import Failure

if TYPE_CHECKING:
    from robotgate import RobotGate
    from robotgate.client.turns import PageTurn


CONNECTION = ConnectionKey("a.example", 80, False, True, None, None, None)


async def break_off(gate: RobotGate, error: Exception, *, status: int | None) -> None:
    """A turn whose block an error leaves."""
    async with gate.turn(PAGE) as turn:
        turn.report(status=status)
        raise error


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (REFUSED, "it refuses connections"),
        (ConnectionRefusedError(), "it refuses connections"),
        (aiohttp.ConnectionTimeoutError(), "it takes no connection in time"),
        (socket.gaierror(socket.EAI_NONAME, "unknown"), "its name cannot be resolved"),
        (OSError(errno.EHOSTUNREACH, "No route to host"), "it takes no connection (No route to host)"),
    ],
)
async def test_everybody_is_sent_away_where_it_is_given_up_at_once(error: Exception, cause: str) -> None:
    """Waiting and new tasks are refused, with the cause and the seconds until the next try."""
    async with make_gate(give_up_after=0.0) as gate:
        gate.learn(SITE, b"")
        waiting: list[asyncio.Task[float]] = []
        async with gate.turn(PAGE) as turn:
            waiting += [asyncio.create_task(visit(gate)) for _ in range(5)]
            await asyncio.sleep(0.5)
            turn.report(error=error)
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert now() == 0.5
        for outcome in outcomes:
            assert isinstance(outcome, HostUnavailableError)
            assert outcome.cause == cause
            assert 1.0 <= outcome.retry_after <= JITTER
        assert 1.5 <= await retry_at(gate) <= 0.5 + JITTER
        assert gate.host(PAGE).visits == 1


async def test_turns_wait_for_the_next_try() -> None:
    """Nobody is refused: one tries a second later, then two; then all others go on in their order."""
    async with make_gate() as gate:
        gate.learn(SITE, b"")
        failing = [asyncio.create_task(fail(gate)) for _ in range(3)]
        waiting = [asyncio.create_task(visit(gate, status=404)) for _ in range(3)]
        starts = await asyncio.gather(*failing, *waiting)
        pauses = [later - earlier for earlier, later in pairwise(starts)]
        for pause, least in zip(pauses, (1.0, 2.0, 4.0), strict=False):
            assert least - 1e-6 <= pause <= least * JITTER + 1e-6
        assert pauses[3:] == pytest.approx([1.0, 1.0])
        assert gate.host(PAGE).unreachable_until_at is None


async def test_waiting_turns_are_refused_when_the_host_is_given_up() -> None:
    """By the first try that fails a minute after the outage began; no try comes before its pause is over."""
    async with make_gate() as gate:
        gate.learn(SITE, b"")
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


async def test_pause_over_max_block_is_not_waited_for() -> None:
    """Nor is any, where that is 0."""
    for max_block, failures in ((0.0, 1), (3.0, 3)):
        async with make_gate(max_block=max_block) as gate:
            gate.learn(SITE, b"")
            tried = [asyncio.create_task(fail(gate)) for _ in range(failures)]
            await settle()
            await refusal(visit(gate), HostUnavailableError)
            assert await tried[-1] == now()


@pytest.mark.parametrize("error", [TimeoutError(), aiohttp.ServerDisconnectedError()])
@pytest.mark.parametrize(("answers", "silences"), [(0, 3), (1, 10)])
async def test_silences_in_a_row_are_an_outage(error: Exception, answers: int, silences: int) -> None:
    """Ten of a host that has answered; one answer among them, of any status, and the row begins anew."""
    async with make_gate(delay=0.0) as gate:
        gate.learn(SITE, b"")
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


@pytest.mark.parametrize("seed", range(20))
async def test_host_that_fails_one_request_in_twenty_loses_those_alone(seed: int) -> None:
    """However they fail, nobody else is refused, and a request that was not sent is sent again."""
    chance = random.Random(seed)
    errors = [REFUSED, TimeoutError(), aiohttp.ServerDisconnectedError(), aiohttp.ConnectionTimeoutError()]
    async with make_gate(delay=0.1, concurrency_per_host=chance.choice([1, 1, 3])) as gate:
        gate.learn(SITE, b"")

        async def page() -> bool:
            async with cast("PageTurn", gate.turn(PAGE)) as turn:
                while True:
                    await asyncio.sleep(chance.random())
                    error = chance.choice(errors) if chance.random() < 1 / 20 else None
                    if error is None:
                        turn.report(status=200)
                        return True
                    if not turn.note_outage(outage_of(error)):
                        lost.append(error)
                        return False
                    await turn.wait_again()

        lost: list[Exception] = []
        pages = await asyncio.gather(*(page() for _ in range(500)))
        assert pages.count(False) == len(lost) < gate.host(PAGE).visits / 10


@pytest.mark.parametrize(
    ("error", "is_outage"),
    [
        (aiohttp.ClientConnectorError(CONNECTION, REFUSED), True),
        (aiohttp.ConnectionTimeoutError(), True),
        (aiohttp.ServerDisconnectedError(), False),
        (aiohttp.ClientPayloadError(), False),
        # These may be of whatever else is done within the block.
        (REFUSED, False),
        (TimeoutError(), False),
        (socket.gaierror(socket.EAI_NONAME, "unknown"), False),
        (ValueError("the page makes no sense"), False),
    ],
)
@pytest.mark.parametrize("answered", [False, True])
async def test_error_that_leaves_the_block(error: Exception, is_outage: bool, answered: bool) -> None:  # noqa: FBT001
    """An error of aiohttp's is reported by itself, as by `report`; a host that answered was reached."""
    async with make_gate() as gate:
        gate.learn(SITE, b"")
        with pytest.raises(type(error)):
            await break_off(gate, error, status=200 if answered else None)
        assert gate.host(PAGE).open_turns == 0
        assert (gate.host(PAGE).unreachable_until_at is not None) == (is_outage and not answered)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("the page makes no sense"),
        ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
        OSError(errno.EMFILE, "Too many open files"),
        asyncio.CancelledError(),
    ],
)
async def test_other_errors_say_nothing_of_the_host(error: BaseException) -> None:
    """A server that hangs up was reached; our own mistakes are ours."""
    async with make_gate() as gate:
        gate.learn(SITE, b"")
        assert await visit(gate, error=error) == 0.0
        assert await visits(gate, 2) == [1.0, 2.0]
        assert gate.host(PAGE).unreachable_until_at is None


async def test_cause_in_words() -> None:
    """`report_unreachable` is for clients whose errors the gate does not know."""
    async with make_gate(give_up_after=0.0) as gate:
        gate.learn(SITE, b"")
        async with gate.turn(PAGE) as turn:
            turn.report_unreachable("its gopher hole has caved in")
        error, _ = await refusal(visit(gate), HostUnavailableError)
        assert isinstance(error, HostUnavailableError)
        assert error.cause == "its gopher hole has caved in"


@pytest.mark.parametrize("status", [200, 404, 500, 502])
async def test_error_after_an_answer_says_nothing(status: int) -> None:
    """A host that answered was reached, although its body never came; in one report or another, by any method."""
    async with make_gate() as gate:
        gate.learn(SITE, b"")
        assert await visit(gate, status=status, error=TimeoutError()) == 0.0
        async with gate.turn(PAGE) as turn:
            turn.report(status=status)
            turn.report(error=REFUSED)
            turn.report_unreachable("the line went dead")
        assert await visit(gate) == 2.0


async def test_outage_is_over_when_somebody_may_try() -> None:
    """From then on the view has no instant, before a try and during one."""
    async with make_gate() as gate:
        gate.learn(SITE, b"")
        await fail(gate)
        await sleep_until(await retry_at(gate) + 0.001)
        assert gate.host(PAGE).unreachable_until_at is None
        await fail(gate, takes=1.0)
        assert await retry_at(gate) >= now() + 2.0


async def test_outage_of_an_origin_that_the_lane_has_not_met() -> None:
    """It is known, though the lane that met it is gone, and another origin has made the present one."""
    async with make_gate() as gate:
        for site in (SITE, SECURE_SITE):
            gate.learn(site, b"")
        for _ in range(5):
            await fail(gate, SECURE)
            await sleep_until(await retry_at(gate, SECURE))
        await fail(gate, SECURE)
        await asyncio.sleep(15.0)
        await visit(gate)
        assert await retry_at(gate, SECURE) > now()


async def test_other_origins_of_the_host_go_on() -> None:
    """A refused port says nothing of another; the pace is still the host's."""
    async with make_gate(give_up_after=0.0) as gate:
        for site in (SITE, SECURE_SITE):
            gate.learn(site, b"")
        failing = asyncio.create_task(fail(gate, takes=0.5))
        await settle()
        waiting = [asyncio.create_task(visit(gate, url)) for url in (SECURE, PAGE, SECURE, PAGE)]
        outcomes = await asyncio.gather(failing, *waiting, return_exceptions=True)
        assert [outcome for outcome in outcomes if isinstance(outcome, float)] == [0.0, 1.5, 2.5]
        assert [type(outcome) for outcome in outcomes[2::2]] == [HostUnavailableError] * 2
        assert gate.host(SECURE).unreachable_until_at is None


async def test_fifty_failures_in_flight_are_one_outage() -> None:
    """They were all sent before it was known."""
    async with make_gate(delay=0.0, concurrency_per_host=50) as gate:
        gate.learn(SITE, b"")
        starts = await asyncio.gather(*(fail(gate, takes=number * 0.1) for number in range(50)))
        assert starts == [0.0] * 50
        assert now() == 4.9
        assert gate.host(PAGE).unreachable_until_at is None
        await fail(gate)
        assert 2.0 <= await retry_at(gate) - now() <= 2.0 * JITTER


async def test_answer_among_fifty_failures_closes_the_circuit() -> None:
    """It was reached after all."""
    async with make_gate(delay=0.0, concurrency_per_host=50) as gate:
        gate.learn(SITE, b"")
        answered = asyncio.create_task(visit(gate, takes=2.0, status=200))
        failed = [asyncio.create_task(fail(gate, takes=1.0)) for _ in range(49)]
        await asyncio.gather(*failed)
        assert 2.0 <= await retry_at(gate) <= 1.0 + JITTER
        await answered
        assert await visit(gate) == 2.0


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


async def test_robots_txt_that_breaks_off_opens_nothing() -> None:
    """The server answered."""
    fetcher = scripted({SITE: Failure("cut off")})
    async with make_gate(fetcher) as gate:
        await refusal(visit(gate), HostUnavailableError)
        assert gate.host(PAGE).unreachable_until_at is None


async def test_robots_txt_is_the_probe_where_it_has_to_be_read() -> None:
    """It goes before the pages, and its answer lets them go on."""
    fetcher = scripted()
    async with make_gate(fetcher) as gate:
        gate.learn(SITE, b"", fresh_until=0.5)
        await fail(gate)
        back_at = await retry_at(gate)
        await asyncio.sleep(0.7)
        starts = await visits(gate, 2)
        assert starts == pytest.approx([back_at + 1.0, back_at + 2.0])
    ((asked_at, asked_for),) = fetcher.requests
    assert asked_for == ROBOTS
    assert asked_at == pytest.approx(back_at)


async def test_other_hosts_know_nothing_of_it() -> None:
    """An outage is of one origin."""
    async with make_gate() as gate:
        gate.learn(PAGE, b"")
        gate.learn(OTHER, b"")
        await fail(gate)
        assert await visits(gate, 2, OTHER) == [0.0, 1.0]


async def test_outage_outlives_the_lane() -> None:
    """An idle lane is dropped; that the origin was down is not forgotten with it."""
    async with make_gate() as gate:
        gate.learn(SITE, b"")
        for _ in range(7):
            await fail(gate)
            await sleep_until(await retry_at(gate))
        await fail(gate)
        await asyncio.sleep(60.0)
        assert await retry_at(gate) - now() > 60.0
