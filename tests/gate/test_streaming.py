"""`async with gate.fetch(url)` and `gate.turn(url)`: a turn lasts as long as its body or its block, and no longer."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web as aioweb
from tests.gate.servers import cut_off, endless
from tests.waiting import until

from robotgate import (
    DisallowedError,
    HostUnavailableError,
    NestedTurnError,
    Reason,
    TooSoonError,
)

if TYPE_CHECKING:
    from tests.conftest import OpenGate
    from tests.gate.servers import Handler, Web

    from robotgate import RobotGate
    from robotgate.client.fetch import PageFetch

SITE = "http://site.example"
ROBOTS = f"{SITE}/robots.txt"
PAGE = f"{SITE}/page"
NEXT = f"{SITE}/next"
RULES = "User-agent: *\nDisallow: /private"
DELAY = 0.06
LARGE = b"x" * 2_000_000
"""More than sockets and buffers hold: it has not all come when the headers have."""


def in_two_halves(may_go_on: asyncio.Event) -> Handler:
    """A body whose second half is sent when the test says so."""

    async def answer(request: aioweb.Request) -> aioweb.StreamResponse:
        response = aioweb.StreamResponse()
        await response.prepare(request)
        await response.write(b"first ")
        await may_go_on.wait()
        await response.write(b"second")
        return response

    return answer


async def test_response_is_aiohttps_own(web: Web, gate: RobotGate) -> None:
    """With all that streaming code uses."""
    web.serve(PAGE, "streamed", headers={"X-Kind": "page"})
    async with gate.fetch(PAGE) as response:
        assert isinstance(response, aiohttp.ClientResponse)
        assert (response.status, response.headers["X-Kind"]) == (200, "page")
        assert await response.text() == "streamed"


async def test_body_comes_as_it_is_sent(web: Web, gate: RobotGate) -> None:
    """The first half can be read before the second is sent; the turn is open until then."""
    may_go_on = asyncio.Event()
    web.handle(PAGE, in_two_halves(may_go_on))
    async with gate.fetch(PAGE) as response:
        assert await response.content.readany() == b"first "
        assert gate.host(PAGE).open_turns == 1
        may_go_on.set()
        assert await response.content.read() == b"second"
        assert gate.host(PAGE).open_turns == 0
    assert gate.host(PAGE).bytes_read == 12


async def test_turn_ends_with_the_body(web: Web, gate: RobotGate) -> None:
    """Once it has been read, the same task may ask for the host's next page, still within the block."""
    web.serve(PAGE, LARGE)
    async with gate.fetch(PAGE) as response:
        assert len(await response.read()) == len(LARGE)
        async with gate.fetch(NEXT) as following:
            assert following.status == 200
    assert gate.host(PAGE).open_turns == 0


async def test_turn_ends_with_the_block(web: Web, gate: RobotGate) -> None:
    """Though the body was not read."""
    web.serve(PAGE, LARGE)
    async with gate.fetch(PAGE) as response:
        assert response.status == 200
    assert gate.host(PAGE).open_turns == 0
    assert (await gate.fetch(NEXT)).status == 200


async def test_endless_stream_can_be_left(web: Web, gate: RobotGate) -> None:
    """As much of it as was wanted."""
    web.handle(PAGE, endless(b"x" * 65_536))
    async with gate.fetch(PAGE) as response:
        assert len(await response.content.readexactly(100_000)) == 100_000
    assert gate.host(PAGE).open_turns == 0
    assert (await gate.fetch(NEXT)).status == 200


async def test_host_waits_for_the_end_of_the_stream(web: Web, open_gate: OpenGate) -> None:
    """Another task's page is sent a delay after the body has come, not after the headers have."""
    gate = await open_gate(delay=DELAY)
    may_go_on = asyncio.Event()
    web.handle(PAGE, in_two_halves(may_go_on))
    async with gate.fetch(PAGE) as response:
        following = asyncio.create_task(gate.fetch(NEXT))
        due_at = time.monotonic() + 2 * DELAY
        await until(lambda: gate.host(PAGE).waiting == 1 and time.monotonic() > due_at)
        assert not following.done()
        assert gate.host(PAGE).waiting == 1
        may_go_on.set()
        await response.read()
    await following
    assert min(web.gaps("site.example")) >= DELAY
    assert web.urls == [ROBOTS, PAGE, NEXT]


async def test_exception_in_the_block_ends_the_turn(web: Web, gate: RobotGate) -> None:
    """And is not swallowed."""
    web.serve(PAGE, LARGE)
    with pytest.raises(LookupError, match="mine"):
        async with gate.fetch(PAGE):
            raise LookupError("mine")
    assert gate.host(PAGE).open_turns == 0


async def test_cancellation_in_the_block_ends_the_turn(web: Web, gate: RobotGate) -> None:
    """However it comes."""
    web.handle(PAGE, in_two_halves(asyncio.Event()))

    async def read() -> None:
        async with gate.fetch(PAGE) as response:
            await response.read()

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(read(), 0.1)
    assert gate.host(PAGE).open_turns == 0


async def test_body_that_breaks_off_ends_the_turn(web: Web, gate: RobotGate) -> None:
    """With aiohttp's own error."""
    web.handle(PAGE, cut_off(b"half", length=1000))
    with pytest.raises(aiohttp.ClientPayloadError):
        async with gate.fetch(PAGE) as response:
            await response.read()
    assert gate.host(PAGE).open_turns == 0


async def test_redirects_are_followed(web: Web, gate: RobotGate) -> None:
    """Each hop judged and paced; the response is the last one's."""
    web.redirect(PAGE, "http://other.example/there", body=LARGE)
    async with gate.fetch(PAGE) as response:
        assert str(response.url) == "http://other.example/there"
    web.serve("http://third.example/robots.txt", RULES)
    web.redirect("http://other.example/there", "http://third.example/private")
    with pytest.raises(DisallowedError) as caught:
        async with gate.fetch(PAGE):
            raise AssertionError
    assert caught.value.chain == (PAGE, "http://other.example/there")
    assert gate.host(PAGE).open_turns == gate.host("http://other.example/").open_turns == 0


async def test_refusal_comes_on_entering(web: Web, gate: RobotGate) -> None:
    """Before the block, and nothing is left behind."""
    web.serve(ROBOTS, RULES)
    with pytest.raises(DisallowedError):
        async with gate.fetch(f"{SITE}/private"):
            raise AssertionError
    gc.collect()
    assert web.urls == [ROBOTS]


@pytest.mark.parametrize("first", ["awaited", "entered"])
@pytest.mark.parametrize("then", ["awaited", "entered"])
async def test_fetch_is_one_request(web: Web, gate: RobotGate, first: str, then: str) -> None:
    """Entered again, it would lose hold of the response it has."""

    async def use(fetch: PageFetch, how: str) -> None:
        if how == "awaited":
            await fetch
            return
        async with fetch as response:
            assert response.status == 200

    fetch = gate.fetch(PAGE)
    await use(fetch, first)
    with pytest.raises(RuntimeError):
        await use(fetch, then)
    assert web.urls == [ROBOTS, PAGE]
    assert gate.host(PAGE).open_turns == 0


async def test_raise_for_status_comes_on_entering(web: Web, gate: RobotGate) -> None:
    """As with aiohttp."""
    web.serve(PAGE, LARGE, status=500)
    with pytest.raises(aiohttp.ClientResponseError):
        async with gate.fetch(PAGE, raise_for_status=True):
            raise AssertionError
    assert gate.host(PAGE).open_turns == 0


async def test_max_bytes_does_not_bound_a_stream(web: Web, gate: RobotGate) -> None:
    """Who streams counts for himself."""
    web.serve(PAGE, LARGE)
    async with gate.fetch(PAGE, max_bytes=10) as response:
        assert len(await response.read()) == len(LARGE)


@pytest.mark.parametrize("status", [204, 304])
async def test_answer_without_a_body_ends_its_turn_at_once(web: Web, gate: RobotGate, status: int) -> None:
    """There is nothing to read to its end."""
    web.serve(PAGE, status=status)
    async with gate.fetch(PAGE) as response:
        assert response.status == status
        assert gate.host(PAGE).open_turns == 0


async def test_head_ends_its_turn_at_once(web: Web, gate: RobotGate) -> None:
    """Whatever length it tells of."""
    web.serve(PAGE, LARGE)
    async with gate.fetch(PAGE, "HEAD") as response:
        assert response.content_length == len(LARGE)
        assert gate.host(PAGE).open_turns == 0


# ── nested turns


async def test_nested_fetch_of_a_host_is_an_error(web: Web, gate: RobotGate) -> None:
    """Not a deadlock: the task would wait for a turn that only it can end."""
    web.serve(PAGE, LARGE)
    async with asyncio.timeout(60), gate.fetch(PAGE):
        with pytest.raises(NestedTurnError, match=r"site\.example"):
            await gate.fetch(NEXT)
        with pytest.raises(NestedTurnError):
            async with gate.fetch(NEXT):
                raise AssertionError
        with pytest.raises(NestedTurnError):
            async with gate.turn(NEXT):
                raise AssertionError
    assert (await gate.fetch(NEXT)).status == 200


async def test_nested_turn_of_a_host_is_an_error(gate: RobotGate) -> None:
    """Also across origins of the host: it has one pace."""
    assert await gate.allowed(f"{SITE}:8080/")
    async with asyncio.timeout(60), gate.turn(PAGE):
        for url in (NEXT, f"{SITE}:8080/page"):
            with pytest.raises(NestedTurnError):
                await gate.fetch(url)


@pytest.mark.parametrize("door", ["allowed", "check", "sitemaps", "fetch", "turn"])
async def test_robots_txt_that_waits_for_its_asker_is_an_error(gate: RobotGate, door: str) -> None:
    """Within the host's own turn its other origin cannot be asked for its rules: an error, not a deadlock."""
    other = f"{SITE}:8080/page"
    asked = gate.turn(other).__aenter__() if door == "turn" else getattr(gate, door)(other)
    async with asyncio.timeout(60), gate.turn(PAGE):
        with pytest.raises(NestedTurnError):
            await asked


async def test_robots_txt_that_redirects_to_its_askers_host_is_an_error(web: Web, gate: RobotGate) -> None:
    """The wait is the same, though it begins at another host."""
    web.redirect("http://other.example/robots.txt", f"{SITE}/shared.txt")
    async with asyncio.timeout(60), gate.turn(PAGE):
        with pytest.raises(NestedTurnError):
            await gate.allowed("http://other.example/")


async def test_nested_turn_of_another_host_is_fine(web: Web, gate: RobotGate) -> None:
    """Pages of other hosts may be read meanwhile."""
    web.serve(PAGE, LARGE)
    async with gate.fetch(PAGE), gate.fetch("http://other.example/page") as other:
        assert other.status == 200


async def test_nested_turn_is_fine_where_there_are_two_slots(web: Web, open_gate: OpenGate) -> None:
    """The second slot is free; the third is not there."""
    gate = await open_gate(concurrency_per_host=2)
    web.serve(PAGE, LARGE)
    async with asyncio.timeout(60), gate.fetch(PAGE), gate.fetch(PAGE):
        with pytest.raises(NestedTurnError):
            await gate.fetch(NEXT)


async def test_other_tasks_wait_for_an_open_turn(gate: RobotGate) -> None:
    """Only the task that holds it would wait for itself."""
    async with gate.turn(PAGE):
        other = asyncio.create_task(gate.fetch(NEXT))
        await until(lambda: gate.host(PAGE).waiting == 1)
        assert not other.done()
    assert (await other).status == 200


# ── turns


async def test_turn_paces_any_client(web: Web, open_gate: OpenGate, session: aiohttp.ClientSession) -> None:
    """The block is the request, from its start to its end."""
    gate = await open_gate(delay=DELAY)

    async def read(url: str) -> float:
        async with gate.turn(url) as turn, session.get(turn.url) as response:
            await response.read()
        return turn.waited

    waits = await asyncio.gather(*(read(f"{PAGE}/{number}") for number in range(4)))
    assert min(web.gaps("site.example")) >= DELAY
    assert len(web.visits) == 5
    assert waits == sorted(waits)
    assert waits[0] >= DELAY - 0.02


async def test_turn_tells_why(web: Web, gate: RobotGate) -> None:
    """The URL without what is not sent, and the verdict."""
    web.serve(ROBOTS, RULES)
    async with gate.turn("http://user:secret@SITE.example:80/x/../page?q#top") as turn:
        assert turn.url == f"{PAGE}?q"
        assert turn.verdict.allowed
        assert turn.verdict.reason is Reason.NO_RULE_MATCHES
    with pytest.raises(DisallowedError):
        async with gate.turn(f"{SITE}/private"):
            raise AssertionError


async def test_report_feeds_the_pace(open_gate: OpenGate) -> None:
    """What another client was answered blocks the host as if we had asked."""
    gate = await open_gate(max_block=10)
    async with gate.turn(PAGE) as turn:
        turn.report(bytes=100)
        turn.report(status=503, headers={"retry-AFTER": "100"}, bytes=20)
    view = gate.host(PAGE)
    assert (view.bytes_read, view.failures) == (120, 1)
    with pytest.raises(HostUnavailableError):
        async with gate.turn(PAGE):
            raise AssertionError
    turn.report(status=200, bytes=1000)
    assert gate.host(PAGE).bytes_read == 120


async def test_turn_takes_priority_and_patience(open_gate: OpenGate) -> None:
    """As fetch does."""
    gate = await open_gate(delay=0.5)
    order: list[int] = []

    async def queue(priority: int) -> None:
        async with gate.turn(PAGE, priority=priority, max_wait=None):
            order.append(priority)

    gate.learn(PAGE, b"")
    async with gate.turn(PAGE):
        waiting = [asyncio.create_task(queue(priority)) for priority in (1, 3, 2)]
        await asyncio.sleep(0)
        with pytest.raises(NestedTurnError):
            async with gate.turn(PAGE, max_wait=0):
                raise AssertionError
    with pytest.raises(TooSoonError):
        async with gate.turn(PAGE, max_wait=0.1):
            raise AssertionError
    async with asyncio.timeout(60):
        await waiting[1]
    assert order == [3]
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert gate.host(PAGE).waiting == 0
