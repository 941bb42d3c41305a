"""`gate.fetch(url, retries=…)` at real servers: each attempt is a turn, and the last one is what is returned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from aiohttp import web as aioweb
from tests.gate.servers import NEXT, PAGE, ROBOTS, SITE, cut_off, hang_up

from robotgate import DisallowedError, RobotGate
from robotgate.events import TurnBegan

if TYPE_CHECKING:
    from tests.conftest import OpenGate
    from tests.gate.servers import Handler, Web

OTHER: Final = "http://other.example/page"
AT_ONCE: Final = {"Retry-After": "0"}


def in_turn(*answers: Handler | int) -> Handler:
    """One answer after another, with a status that is asked to be repeated at once; the last one stays."""
    left = list(answers)

    async def answer(request: aioweb.Request) -> aioweb.StreamResponse:
        now = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(now, int):
            return aioweb.Response(status=now, text=str(now), headers=AT_ONCE if now >= 400 else None)
        return await now(request)

    return answer


async def test_awaited_page_is_that_of_the_last_attempt(web: Web, gate: RobotGate) -> None:
    """A site that is asked too soon, then hangs up: every attempt has a turn of its own."""
    began: list[object] = []
    gate.subscribe(began.append, TurnBegan)
    web.handle(PAGE, in_turn(429, cut_off(b"half", length=8), 200))
    response = await gate.fetch(PAGE, retries=2)
    assert (response.status, response.text) == (200, "200")
    assert web.count(PAGE) == len(began) == 3
    assert gate.host(PAGE).open_turns == 0


async def test_stream_is_that_of_the_last_attempt(web: Web, open_gate: OpenGate) -> None:
    """The answers before it are released, and their turns have ended; its own ends with the block."""
    gate = await open_gate(concurrency=1)
    web.handle(PAGE, in_turn(503, 200, 503))
    for status in (200, 503):
        async with gate.fetch(PAGE, retries=1) as response:
            assert (response.status, await response.text()) == (status, str(status))
        assert gate.host(PAGE).open_turns == 0
    assert web.count(PAGE) == 2 + 2


async def test_status_that_is_to_raise_is_repeated(web: Web, gate: RobotGate) -> None:
    """With aiohttp's `raise_for_status`, too, and the same body; what is raised in the end is aiohttp's error."""
    web.handle(PAGE, in_turn(503, 200))
    response = await gate.fetch(PAGE, "PUT", data=b"octets", retries=1, raise_for_status=True)
    assert response.status == 200
    assert [visit.body for visit in web.visits if visit.url == PAGE] == [b"octets"] * 2
    web.serve(NEXT, status=404)
    with pytest.raises(aiohttp.ClientResponseError):
        await gate.fetch(NEXT, retries=1, raise_for_status=True)
    assert web.count(NEXT) == 1


async def test_redirect_is_followed_from_its_first_hop(web: Web, gate: RobotGate) -> None:
    """A failing target is asked for by way of the page that names it; only the last way is told."""
    web.redirect(PAGE, OTHER)
    web.handle(OTHER, in_turn(429, 200))
    response = await gate.fetch(PAGE, retries=1)
    assert (response.url, len(response.history)) == (OTHER, 1)
    assert (web.count(PAGE), web.count(OTHER)) == (2, 2)


async def test_disallowed_page_is_not_asked_for_again(web: Web, gate: RobotGate) -> None:
    """It stays disallowed, at whichever hop and attempt."""
    web.serve(ROBOTS, "User-agent: *\nDisallow: /private")
    with pytest.raises(DisallowedError):
        await gate.fetch(f"{SITE}/private", retries=5)
    web.redirect(PAGE, "/private")
    with pytest.raises(DisallowedError):
        await gate.fetch(PAGE, retries=5)
    assert web.urls == [ROBOTS, PAGE]


async def test_total_timeout_is_that_of_one_attempt(web: Web, open_gate: OpenGate) -> None:
    """It does not count the pause."""
    gate = await open_gate()
    web.handle(PAGE, in_turn(hang_up(), 200))
    assert (await gate.fetch(PAGE, retries=1, timeout=aiohttp.ClientTimeout(total=0.9))).status == 200
