"""However a `gate.fetch` ends, each of its turns ends once: not never, and not twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from tests.gate.servers import cut_off, dripping, endless, hang_up, silent
from tests.waiting import settle, until

from robotgate import RobotGate, RobotGateError
from robotgate.events import TurnBegan, TurnEnded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.conftest import OpenGate
    from tests.gate.servers import Web

    from robotgate.events import Event

    Door = Callable[[RobotGate], Awaitable[object]]

SITE: Final = "http://site.example"
ROBOTS: Final = f"{SITE}/robots.txt"
PAGE: Final = f"{SITE}/page"
THERE: Final = f"{SITE}/there"
LARGE: Final = b"x" * 2_000_000
PATIENCE: Final = aiohttp.ClientTimeout(total=1.5)
"""Where an answer is to be had it comes within this, on a busy machine too: one that does not closes the host."""

FETCHING: Final = (aiohttp.ClientError, RobotGateError, TimeoutError)
"""What a fetch may raise."""


class Ledger:
    """Which turns began, and which ended."""

    def __init__(self, gate: RobotGate) -> None:
        self.began: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        gate.subscribe(self._hear, TurnBegan, TurnEnded)

    def _hear(self, event: Event) -> None:
        if isinstance(event, TurnBegan):
            self.began[event.url] += 1
        elif isinstance(event, TurnEnded):
            self.ended[event.url] += 1

    async def is_balanced(self, gate: RobotGate) -> bool:
        """Whether each turn that began has ended once, and none is open."""
        await settle()
        return self.began == self.ended and all(view.open_turns == 0 for view in gate.hosts())


def redirecting_for_ever(web: Web) -> None:
    """In a circle."""
    web.redirect(PAGE, PAGE)


def redirecting_to_what_is_refused(web: Web) -> None:
    """By its rules."""
    web.redirect(PAGE, "/private")


def redirecting_nowhere(web: Web) -> None:
    """To no URL."""
    web.redirect(PAGE, "mailto:bot@example.org")


def redirecting_endlessly(web: Web) -> None:
    """With a body that does not stop."""
    web.handle(PAGE, endless(b"x" * 65_536, status=302, headers={"Location": "/there"}))


def cutting_off(web: Web) -> None:
    """In the middle of the body."""
    web.handle(PAGE, cut_off(b"half", length=100_000))


def hanging_up(web: Web) -> None:
    """Without an answer, twice."""
    web.handle(PAGE, hang_up())


def saying_nothing(web: Web) -> None:
    """Until the time is up."""
    web.handle(PAGE, silent())


def dripping_on(web: Web) -> None:
    """For longer than there is time."""
    web.handle(PAGE, dripping())


def sending_too_much(web: Web) -> None:
    """More than is read."""
    web.handle(PAGE, endless(b"x" * 65_536))


def failing(web: Web) -> None:
    """With a status that raises."""
    web.serve(PAGE, LARGE, status=500)


def answering(web: Web) -> None:
    """As it should, after a hop."""
    web.redirect(PAGE, "/there")
    web.serve(THERE, LARGE)


SITES: Final = (
    redirecting_for_ever,
    redirecting_to_what_is_refused,
    redirecting_nowhere,
    redirecting_endlessly,
    cutting_off,
    hanging_up,
    saying_nothing,
    dripping_on,
    sending_too_much,
    failing,
    answering,
)


async def read(gate: RobotGate) -> object:
    """Awaited."""
    return await gate.fetch(PAGE, max_bytes=5_000_000, raise_for_status=True, timeout=PATIENCE)


async def stream(gate: RobotGate) -> object:
    """Streamed to the end, or to what is enough."""
    async with gate.fetch(PAGE, raise_for_status=True, timeout=PATIENCE) as response:
        octets = 0
        async for chunk in response.content.iter_any():
            octets += len(chunk)
            if octets > 5_000_000:
                break
        return octets


async def stream_unread(gate: RobotGate) -> object:
    """Streamed, and left at the headers."""
    async with gate.fetch(PAGE, timeout=PATIENCE) as response:
        return response.status


async def stream_and_raise(gate: RobotGate) -> object:
    """Streamed, and left by an error of the block's."""
    async with gate.fetch(PAGE, timeout=PATIENCE):
        raise TimeoutError


DOORS: Final = (read, stream, stream_unread, stream_and_raise)


@pytest.fixture
async def gate_in_its_session(web: Web) -> AsyncIterator[RobotGate]:
    """A gate on a session of the caller's, whose middleware is the gate's: no attempt goes past it."""
    gates: list[RobotGate] = []

    async def gated(
        request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        return await gates[0].middleware(request, handler)

    async with (
        aiohttp.ClientSession(connector=web.connector(), middlewares=[gated]) as session,
        RobotGate("ExampleBot/1.0", contact="bot@example.org", session=session, delay=0) as gate,
    ):
        gates.append(gate)
        yield gate


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
@pytest.mark.parametrize("site", SITES, ids=lambda site: site.__name__)
async def test_every_turn_ends_once(
    web: Web, gate_in_its_session: RobotGate, site: Callable[[Web], None], door: Door
) -> None:
    """Whatever the site does, and however the caller reads it; and what the servers see is that many turns."""
    gate = gate_in_its_session
    web.serve(ROBOTS, "User-agent: *\nDisallow: /private")
    site(web)
    ledger = Ledger(gate)
    async with asyncio.timeout(60):
        with suppress(*FETCHING):
            await door(gate)
    assert await ledger.is_balanced(gate)
    assert sum(ledger.began.values()) == sum(1 for visit in web.visits if visit.url != ROBOTS)


@pytest.mark.parametrize("door", DOORS[:2], ids=lambda door: door.__name__)
async def test_octets_of_redirects_are_counted(web: Web, gate: RobotGate, door: Door) -> None:
    """They were read; and told with the turn they were read in."""
    web.redirect(PAGE, "/there", body=b"moved")
    web.serve(THERE, LARGE)
    ended: list[Event] = []
    gate.subscribe(ended.append, TurnEnded)
    gate.learn(PAGE, b"")
    await door(gate)
    await settle()
    told = [(event.status, event.bytes_read) for event in ended if isinstance(event, TurnEnded)]
    assert told == [(302, len(b"moved")), (200, len(LARGE))]
    assert gate.host(PAGE).bytes_read == len(b"moved") + len(LARGE)


async def limited(limit: asyncio.Timeout, door: Door, gate: RobotGate) -> None:
    """Within a limit that the test sets."""
    async with limit:
        await door(gate)


@pytest.mark.parametrize("door", DOORS[:2], ids=lambda door: door.__name__)
@pytest.mark.parametrize("way", ["cancel", "timeout"])
async def test_every_turn_ends_once_wherever_it_is_broken_off(
    web: Web, gate: RobotGate, door: Door, way: str
) -> None:
    """After so many rounds of the loop: before robots.txt, in it, between the hops, in the headers, in the body."""
    answering(web)
    ledger = Ledger(gate)
    ends: Counter[str] = Counter()
    for rounds in range(120):
        limit = asyncio.timeout(None)
        task = asyncio.create_task(limited(limit, door, gate))
        for _ in range(rounds):
            await asyncio.sleep(0)
        if way == "cancel" or rounds == 0:
            task.cancel()
        elif not task.done():
            limit.reschedule(0)
        try:
            await task
            ends["done"] += 1
        except asyncio.CancelledError:
            ends["cancelled"] += 1
        except TimeoutError:
            ends["out of time"] += 1
        assert gate.host(PAGE).waiting == 0
        # A request for robots.txt goes on without its first caller.
        await until(lambda: all(view.open_turns == 0 for view in gate.hosts()))
    assert await ledger.is_balanced(gate)
    assert ends["cancelled"] + ends["out of time"] >= 20, ends
    assert (await gate.fetch(PAGE)).status == 200


@pytest.mark.parametrize("when", ["before sending", "after answering"])
async def test_middleware_that_raises_ends_the_turn(web: Web, open_gate: OpenGate, when: str) -> None:
    """Once, with whatever error."""

    async def broken(
        request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        if when == "after answering":
            (await handler(request)).close()
        raise ZeroDivisionError

    async with aiohttp.ClientSession(connector=web.connector(), middlewares=[broken]) as session:
        gate = await open_gate(session=session)
        ledger = Ledger(gate)
        with pytest.raises(ZeroDivisionError):
            await gate.fetch(PAGE)
        assert await ledger.is_balanced(gate)
    assert ledger.began == {PAGE: 1}


async def test_rule_for_statuses_that_raises_ends_the_turn(web: Web, gate: RobotGate) -> None:
    """Once, with an error of its own."""

    async def rule(_: aiohttp.ClientResponse) -> None:
        raise ZeroDivisionError

    web.serve(PAGE, LARGE)
    ledger = Ledger(gate)
    with pytest.raises(ZeroDivisionError):
        await gate.fetch(PAGE, raise_for_status=rule)
    with pytest.raises(ZeroDivisionError):
        await gate.fetch(PAGE, raise_for_status=rule).__aenter__()
    assert await ledger.is_balanced(gate)
    assert ledger.began == {PAGE: 2}
