"""However a `gate.fetch` ends, each of its turns ends once: not never, and not twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from tests.gate.crawlers import GATED, crawler, gate_within
from tests.gate.servers import LARGE, PAGE, ROBOTS, RULES, SITE, cut_off, dripping, endless, hang_up, silent
from tests.waiting import settle, until

from robotgate import RobotGate, RobotGateError
from robotgate.events import HostBlocked, RobotsFetched, TurnBegan, TurnEnded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.conftest import OpenGate
    from tests.gate.servers import Web

    from robotgate.events import Event

    Door = Callable[[RobotGate, aiohttp.ClientTimeout], Awaitable[object]]

THERE: Final = f"{SITE}/there"
PATIENT: Final = aiohttp.ClientTimeout(total=60)
ENDLESS: Final = {"says nothing", "drips on"}
"""Sites whose fetches end with their time alone."""

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


def answering(web: Web) -> None:
    """As it should."""
    web.redirect(PAGE, "/there")
    web.serve(THERE, LARGE)


SITES: Final[dict[str, Callable[[Web], None]]] = {
    "redirects for ever": lambda web: web.redirect(PAGE, PAGE),
    "redirects to what is refused": lambda web: web.redirect(PAGE, "/private"),
    "redirects nowhere": lambda web: web.redirect(PAGE, "mailto:bot@example.org"),
    "redirects endlessly": lambda web: web.handle(
        PAGE, endless(b"x" * 65_536, status=302, headers={"Location": "/there"})
    ),
    "breaks off": lambda web: web.handle(PAGE, cut_off(b"half", length=100_000)),
    "hangs up": lambda web: web.handle(PAGE, hang_up()),
    "says nothing": lambda web: web.handle(PAGE, silent()),
    "drips on": lambda web: web.handle(PAGE, dripping()),
    "sends too much": lambda web: web.handle(PAGE, endless(b"x" * 65_536)),
    "fails": lambda web: web.serve(PAGE, LARGE, status=500),
    "answers after a hop": answering,
}


async def read(gate: RobotGate, timeout: aiohttp.ClientTimeout = PATIENT) -> object:
    """Awaited."""
    return await gate.fetch(PAGE, max_bytes=5_000_000, raise_for_status=True, timeout=timeout)


async def read_ready(gate: RobotGate, timeout: aiohttp.ClientTimeout = PATIENT) -> object:
    """Awaited, in a turn that was ready."""
    turn = await anext(gate.ready([PAGE]))
    return await turn.fetch(max_bytes=5_000_000, raise_for_status=True, timeout=timeout)


async def stream(gate: RobotGate, timeout: aiohttp.ClientTimeout = PATIENT) -> object:
    """Streamed to the end, or to what is enough."""
    async with gate.fetch(PAGE, raise_for_status=True, timeout=timeout) as response:
        octets = 0
        async for chunk in response.content.iter_any():
            octets += len(chunk)
            if octets > 5_000_000:
                break
        return octets


async def stream_unread(gate: RobotGate, timeout: aiohttp.ClientTimeout = PATIENT) -> object:
    """Streamed, and left at the headers."""
    async with gate.fetch(PAGE, timeout=timeout) as response:
        return response.status


async def stream_and_raise(gate: RobotGate, timeout: aiohttp.ClientTimeout = PATIENT) -> object:
    """Streamed, and left by an error of the block's."""
    async with gate.fetch(PAGE, timeout=timeout):
        raise TimeoutError


DOORS: Final = (read, stream, read_ready, stream_unread, stream_and_raise)


@pytest.mark.parametrize("site", SITES)
async def test_every_turn_ends_once(web: Web, site: str, subtests: pytest.Subtests) -> None:
    """Whatever the site does, and however the caller reads it; and what the servers see is that many turns."""
    web.serve(ROBOTS, RULES)
    SITES[site](web)
    for door in DOORS:
        web.visits.clear()
        with subtests.test(door=door):
            async with asyncio.timeout(60), gate_within(web, GATED) as gate:
                ledger = Ledger(gate)
                with suppress(*FETCHING):
                    await door(gate, aiohttp.ClientTimeout(total=0.2) if site in ENDLESS else PATIENT)
                assert await ledger.is_balanced(gate)
            assert sum(ledger.began.values()) == sum(visit.url != ROBOTS for visit in web.visits)


@pytest.mark.parametrize("door", DOORS[:2], ids=lambda door: door.__name__)
async def test_octets_of_redirects_are_counted(web: Web, gate: RobotGate, door: Door) -> None:
    """They were read; and told with the turn they were read in."""
    web.redirect(PAGE, "/there", body=b"moved")
    web.serve(THERE, LARGE)
    ended: list[TurnEnded] = []
    gate.subscribe(ended.append, TurnEnded)
    gate.learn(PAGE, b"")
    await door(gate, PATIENT)
    await settle()
    told = [(event.status, event.bytes_read) for event in ended]
    assert told == [(302, len(b"moved")), (200, len(LARGE))]
    assert gate.host(PAGE).bytes_read == len(b"moved") + len(LARGE)


async def limited(limit: asyncio.Timeout, door: Door, gate: RobotGate) -> None:
    """Within a limit that the test sets."""
    async with limit:
        await door(gate, PATIENT)


@pytest.mark.parametrize(
    ("way", "door"),
    [("cancel", read), ("cancel", stream), ("timeout", stream)],
    ids=["read", "stream", "timeout"],
)
async def test_every_turn_ends_once_wherever_it_is_broken_off(
    web: Web, gate: RobotGate, door: Door, way: str
) -> None:
    """After so many rounds of the loop: before robots.txt, in it, between the hops, in the headers, in the body."""
    answering(web)
    ledger = Ledger(gate)
    ends: Counter[str] = Counter()
    for rounds in range(120):
        if ends["done"] == 20:
            break
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

    async with crawler(web, broken) as session:
        gate = await open_gate(session=session)
        ledger = Ledger(gate)
        with pytest.raises(ZeroDivisionError):
            await gate.fetch(PAGE)
        assert await ledger.is_balanced(gate)
    assert ledger.began == {PAGE: 1}


@pytest.mark.parametrize("door", [read, stream, read_ready])
async def test_subscriber_that_raises_fails_no_request(web: Web, gate: RobotGate, door: Door) -> None:
    """Though it is called at once: the event loop's handler gets the errors, and each turn ends."""
    errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context["exception"]))
    heard: list[Event] = []

    def fail(event: Event) -> None:
        heard.append(event)
        raise ZeroDivisionError

    gate.subscribe(fail, at_once=True)
    answering(web)
    await door(gate, PATIENT)
    web.serve(THERE, LARGE, status=429, headers={"Retry-After": "1"})
    with pytest.raises(aiohttp.ClientResponseError):
        await door(gate, PATIENT)
    await settle()
    assert [view.open_turns for view in gate.hosts()] == [0]
    assert {type(event) for event in heard} == {RobotsFetched, TurnBegan, TurnEnded, HostBlocked}
    assert list(map(type, errors)) == [ZeroDivisionError] * len(heard)
