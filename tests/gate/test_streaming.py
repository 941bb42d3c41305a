"""`async with gate.fetch(url)` and `gate.turn(url)`: a turn lasts as long as its body or its block, and no longer."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest
from aiohttp import web as aioweb
from tests.gate.servers import DELAY, LARGE, NEXT, OTHER, PAGE, ROBOTS, RULES, SITE
from tests.waiting import until

from robotgate import DisallowedError, HostUnavailableError, NestedTurnError, Reason

if TYPE_CHECKING:
    from tests.conftest import OpenGate
    from tests.gate.servers import Handler, Web

    from robotgate import RobotGate


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


async def test_fetch_is_one_request(web: Web, gate: RobotGate) -> None:
    """Entered again, it would lose hold of the response it has."""
    awaited, entered = gate.fetch(PAGE), gate.fetch(PAGE)
    await awaited
    async with entered as response:
        assert response.status == 200
    for fetch in (awaited, entered):
        with pytest.raises(RuntimeError):
            await fetch
        with pytest.raises(RuntimeError):
            await fetch.__aenter__()
    assert web.urls == [ROBOTS, PAGE, PAGE]
    assert gate.host(PAGE).open_turns == 0


async def test_max_bytes_does_not_bound_a_stream(web: Web, gate: RobotGate) -> None:
    """Who streams counts for himself."""
    web.serve(PAGE, LARGE)
    async with gate.fetch(PAGE, max_bytes=10) as response:
        assert len(await response.read()) == len(LARGE)


@pytest.mark.parametrize(("method", "status"), [("GET", 204), ("GET", 304), ("HEAD", 200)])
async def test_answer_without_a_body_ends_its_turn_at_once(
    web: Web, gate: RobotGate, method: str, status: int
) -> None:
    """There is nothing to read to its end, whatever length it tells of."""
    web.serve(PAGE, LARGE if status == 200 else b"", status=status)
    async with gate.fetch(PAGE, method) as response:
        assert response.status == status
        assert response.content_length == (len(LARGE) if status == 200 else None)
        assert gate.host(PAGE).open_turns == 0


# ── nested turns


async def test_nested_fetch_of_a_host_is_an_error(web: Web, gate: RobotGate) -> None:
    """Not a deadlock: the task would wait for a turn that only it can end. A host's other origins have its pace."""
    web.serve(PAGE, LARGE)
    assert await gate.allowed(f"{SITE}:8080/")
    async with asyncio.timeout(60), gate.fetch(PAGE):
        for url in (NEXT, f"{SITE}:8080/page"):
            for asked in (gate.fetch(url), gate.fetch(url).__aenter__(), gate.turn(url).__aenter__()):
                with pytest.raises(NestedTurnError, match=r"site\.example"):
                    await asked
        async with gate.fetch(f"{OTHER}/page") as other:
            assert other.status == 200
    assert (await gate.fetch(NEXT)).status == 200


async def test_robots_txt_that_waits_for_its_asker_is_an_error(gate: RobotGate) -> None:
    """Within the host's own turn its other origin cannot be asked for its rules: an error, not a deadlock."""
    other = f"{SITE}:8080/page"
    async with asyncio.timeout(60), gate.turn(PAGE):
        for ask in (
            gate.allowed,
            gate.check,
            gate.sitemaps,
            gate.fetch,
            lambda url: gate.turn(url).__aenter__(),
        ):
            with pytest.raises(NestedTurnError):
                await ask(other)


async def test_robots_txt_that_redirects_to_its_askers_host_is_an_error(web: Web, gate: RobotGate) -> None:
    """The wait is the same, though it begins at another host."""
    web.redirect("http://other.example/robots.txt", f"{SITE}/shared.txt")
    async with asyncio.timeout(60), gate.turn(PAGE):
        with pytest.raises(NestedTurnError):
            await gate.allowed("http://other.example/")


# ── turns


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
