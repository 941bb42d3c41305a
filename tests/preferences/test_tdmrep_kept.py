"""tdmrep.json is kept in memory as long as a robots.txt: how often a server is asked, and what failures change."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest
from tests.clocks import LaterClock
from tests.gate.servers import PAGE, ROBOTS, SITE, cut_off
from tests.preferences.test_gate_preferences import RESERVED, TDMREP
from tests.waiting import until

from robotgate import GateClosedError, MemoryStore, Origin
from robotgate.preferences import Preference

if TYPE_CHECKING:
    from tests.conftest import OpenGate
    from tests.gate.servers import Web

    from robotgate.preferences import Preferences

DAY: Final = 86_400.0
LONG_RULES: Final = f'[{{"location": "/{"x" * 900_000}", "tdm-reservation": 0}}, {RESERVED[1:]}'


@pytest.mark.parametrize(
    ("body", "status", "tdm", "problems"),
    [
        (RESERVED, 200, Preference.DISALLOWED, 0),
        (LONG_RULES, 200, Preference.DISALLOWED, 0),
        ("<html>", 200, Preference.UNKNOWN, 1),
        (" " * 1_100_000, 200, Preference.UNKNOWN, 1),
        ("", 404, Preference.UNKNOWN, 0),
        ("", 403, Preference.UNKNOWN, 0),
        ("", 500, Preference.UNKNOWN, 1),
        ("", 304, Preference.UNKNOWN, 1),
    ],
    ids=["rules", "many bytes", "no JSON", "too long", "404", "403", "500", "304"],
)
async def test_what_is_fresh_is_requested_once(
    web: Web, open_gate: OpenGate, *, body: str, status: int, tdm: Preference, problems: int
) -> None:
    """Whatever the answer was, later pages are told the same."""
    web.serve(TDMREP, body, status=status)
    gate = await open_gate(tdmrep=True)
    for _ in range(3):
        preferences = (await gate.fetch(PAGE)).preferences
        assert (preferences.tdm, len(preferences.problems)) == (tdm, problems)
    assert web.counts() == {ROBOTS: 1, TDMREP: 1, PAGE: 3}


async def test_a_store_keeps_no_tdmrep_file(web: Web, open_gate: OpenGate) -> None:
    """The next gate requests it again, and what a store lists are robots.txt files."""
    web.serve(TDMREP, RESERVED)
    store = MemoryStore()
    for _ in range(2):
        gate = await open_gate(tdmrep=True, store=store)
        assert (await gate.fetch(PAGE)).preferences.tdm is Preference.DISALLOWED
        await gate.aclose()
    assert [record.origin async for record in store.records()] == [Origin.of(SITE)]
    assert web.counts() == {ROBOTS: 1, TDMREP: 2, PAGE: 2}


async def test_a_redirect_is_followed_once(web: Web, open_gate: OpenGate) -> None:
    """By the rules of each host on the way."""
    target = "http://other.example/tdm.json"
    web.redirect(TDMREP, target)
    web.serve(target, RESERVED)
    gate = await open_gate(tdmrep=True)
    for _ in range(2):
        assert (await gate.fetch(PAGE)).preferences.tdm is Preference.DISALLOWED
    assert web.count(TDMREP) == web.count(target) == web.count("http://other.example/robots.txt") == 1


async def test_a_server_that_breaks_off_is_not_asked_with_every_page(web: Web, open_gate: OpenGate) -> None:
    """The problem is told with each."""
    web.handle(TDMREP, cut_off(RESERVED.encode(), length=1000))
    gate = await open_gate(tdmrep=True)
    for _ in range(2):
        assert (await gate.fetch(PAGE)).preferences.problems
    assert web.count(TDMREP) == 1


async def test_it_is_requested_again_when_its_time_is_over(web: Web, open_gate: OpenGate) -> None:
    """A day later, or as soon as the site says; a reservation that was lifted is lifted."""
    clock = LaterClock()
    gate = await open_gate(tdmrep=True, clock=clock)
    web.serve(TDMREP, RESERVED, headers={"Cache-Control": "max-age=600"})
    assert (await gate.fetch(PAGE)).preferences.tdm is Preference.DISALLOWED
    clock.offset = 590.0
    web.serve(TDMREP, RESERVED.replace("1", "0"))
    assert (await gate.fetch(PAGE)).preferences.tdm is Preference.DISALLOWED
    clock.offset = 610.0
    assert (await gate.fetch(PAGE)).preferences.tdm is Preference.ALLOWED
    clock.offset += DAY - 20
    await gate.fetch(PAGE)
    assert web.count(TDMREP) == 2
    clock.offset += 40
    await gate.fetch(PAGE)
    assert web.count(TDMREP) == 3


async def test_a_failure_does_not_lift_a_reservation(web: Web, open_gate: OpenGate) -> None:
    """The last good copy holds for thirty days; the file is tried again after a while."""
    clock = LaterClock()
    gate = await open_gate(tdmrep=True, clock=clock)

    async def preferences() -> Preferences:
        return (await gate.fetch(PAGE)).preferences

    web.serve(TDMREP, RESERVED)
    assert (await preferences()).tdm is Preference.DISALLOWED
    web.serve(TDMREP, status=500)
    clock.offset = DAY + 60
    assert [(await preferences()).tdm for _ in range(2)] == [Preference.DISALLOWED] * 2
    assert web.count(TDMREP) == 2
    clock.offset = 31 * DAY
    found = await preferences()
    assert found.tdm is Preference.UNKNOWN
    assert found.problems
    assert web.count(TDMREP) == 3


async def test_closing_a_gate_that_requests_it(web: Web, open_gate: OpenGate) -> None:
    """Its callers are told."""
    web.serve(TDMREP, RESERVED, takes=0.3)
    gate = await open_gate(tdmrep=True)
    page = asyncio.ensure_future(gate.fetch(PAGE))
    await until(lambda: web.count(TDMREP) == 1)
    await gate.aclose()
    with pytest.raises(GateClosedError):
        await page


async def test_a_caller_that_goes_away_cancels_nothing(web: Web, open_gate: OpenGate) -> None:
    """The request goes on, and the next caller has its answer."""
    web.serve(TDMREP, RESERVED, takes=0.1)
    gate = await open_gate(tdmrep=True)
    only = asyncio.ensure_future(gate.fetch(PAGE))
    await until(lambda: web.count(TDMREP) == 1)
    only.cancel()
    assert (await gate.fetch(PAGE)).preferences.tdm is Preference.DISALLOWED
    assert web.count(TDMREP) == 1
