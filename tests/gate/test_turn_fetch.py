"""`await turn.fetch()`: the page of a turn that has begun, with nothing else to do for the turn."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from tests.gate.servers import PAGE, ROBOTS, SITE, endless
from yarl import URL

from robotgate import (
    DisallowedError,
    GateClosedError,
    OptionError,
    RobotGate,
)
from robotgate.events import TurnEnded

if TYPE_CHECKING:
    from tests.conftest import OpenGate
    from tests.gate.servers import Web


OTHER: Final = "http://other.example/page"


async def test_ready_turns_are_fetched(web: Web, open_gate: OpenGate) -> None:
    """A crawl in three lines: every page once, in its host's turn, with a delay between."""
    gate = await open_gate(delay=0.05)
    urls = [f"http://{name}.example/{number}?q=%C3%A9" for name in "ab" for number in range(3)]
    async with asyncio.TaskGroup() as tasks:
        visits = [tasks.create_task(turn.fetch()) async for turn in gate.ready(urls)]
    pages = [visit.result() for visit in visits]
    assert sorted(page.url for page in pages) == sorted(urls)
    assert {page.status for page in pages} == {200}
    assert all(web.count(url) == 1 for url in urls)
    assert min(web.gaps("a.example") + web.gaps("b.example")) >= 0.05 - 0.005
    assert all(gate.host(url).open_turns == 0 for url in urls)


async def test_page_is_fetched_within_the_block_of_a_turn(web: Web, gate: RobotGate) -> None:
    """The same as `gate.fetch`; the turn is over with it, and counts as one."""
    web.serve(PAGE, "grüße", headers={"Content-Type": "text/plain; charset=utf-8"})
    ended: list[TurnEnded] = []
    gate.subscribe(ended.append, TurnEnded)
    async with gate.turn(PAGE) as turn:
        response = await turn.fetch(headers={"X-Kind": "test"})
        assert gate.host(PAGE).open_turns == 0
    assert (response.status, response.url, response.text) == (200, PAGE, "grüße")
    assert web.visit(PAGE).headers["X-Kind"] == "test"
    await asyncio.sleep(0)
    assert [(event.status, event.bytes_read) for event in ended] == [(200, len(response.body))]
    assert response.verdict == turn.verdict


async def test_page_of_a_turn_is_streamed(web: Web, gate: RobotGate) -> None:
    """With ``async with``; the turn is open until the body has ended."""
    web.handle(PAGE, endless(b"#" * 65536))
    async with gate.turn(PAGE) as turn, turn.fetch() as response:
        assert response.status == 200
        assert await response.content.readexactly(100_000)
        assert gate.host(PAGE).open_turns == 1
    assert gate.host(PAGE).open_turns == 0


async def test_later_hops_take_turns_of_their_own(web: Web, gate: RobotGate) -> None:
    """Judged by their own host's rules."""
    web.redirect(PAGE, OTHER)
    web.redirect(OTHER, "/private")
    web.serve("http://other.example/robots.txt", "User-agent: *\nDisallow: /private")
    ended: list[TurnEnded] = []
    gate.subscribe(ended.append, TurnEnded)
    async with gate.turn(PAGE) as turn:
        with pytest.raises(DisallowedError) as refused:
            await turn.fetch()
    assert refused.value.chain == (PAGE, OTHER)
    await asyncio.sleep(0)
    assert [event.url for event in ended] == [PAGE, OTHER]
    async with gate.turn(PAGE) as turn:
        assert (await turn.fetch(allow_redirects=False)).status == 302
    async with gate.turn(PAGE) as turn:
        with pytest.raises(aiohttp.TooManyRedirects):
            await turn.fetch(max_redirects=0)


async def test_turn_is_one_request(web: Web, gate: RobotGate) -> None:
    """A second fetch, one at the same time, and one before the turn has begun are refused, and send nothing."""
    turn = gate.turn(PAGE)
    with pytest.raises(RuntimeError):
        await turn.fetch()
    async with turn:
        first, second = await asyncio.gather(turn.fetch(), turn.fetch(), return_exceptions=True)
        assert not isinstance(first, BaseException)
        assert isinstance(second, RuntimeError)
        with pytest.raises(RuntimeError):
            await turn.fetch()
    assert web.count(PAGE) == 1


async def test_arguments_that_make_no_sense(gate: RobotGate) -> None:
    """They are refused at once, and the turn is still there; a wrong name ends it."""
    async with gate.turn(PAGE) as turn:
        with pytest.raises(TypeError, match="params"):
            turn.fetch(params={"a": "b"})
        with pytest.raises(OptionError):
            turn.fetch(max_bytes=0)
        with pytest.raises(OptionError):
            turn.fetch(max_redirects=-1)
        assert (await turn.fetch()).status == 200
    async with gate.turn(PAGE) as turn:
        with pytest.raises(OptionError):
            await turn.fetch(headers={"User-Agent": "Other/1.0"})
        assert gate.host(PAGE).open_turns == 0


async def test_turn_of_a_closed_gate_is_not_fetched(gate: RobotGate) -> None:
    """`GateClosedError`, at once."""
    turn = gate.turn(PAGE)
    await gate.aclose()
    with pytest.raises(GateClosedError):
        turn.fetch()


async def test_url_of_a_turn_is_sent_as_it_was_judged(web: Web, gate: RobotGate) -> None:
    """Also one that yarl was told to leave as it is."""
    async with gate.turn(URL(f"{SITE}/%zz", encoded=True)) as turn:
        await turn.fetch()
    assert web.urls == [ROBOTS, turn.url]
