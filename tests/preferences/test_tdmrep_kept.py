"""tdmrep.json is kept like robots.txt: how often a server is asked, over restarts, processes and failures."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest
from tests.clocks import LaterClock
from tests.conftest import AGENT, CONTACT
from tests.gate.servers import cut_off
from tests.waiting import until

from robotgate import GateClosedError, MemoryStore, Origin, Outcome, RobotGate, SQLiteStore
from robotgate.preferences import Preference
from robotgate.stores.redis import RedisStore

if TYPE_CHECKING:
    from pathlib import Path

    import aiohttp
    from tests.conftest import OpenGate
    from tests.gate.servers import Web
    from tests.redis_server import RedisServer

    from robotgate import Clock, Store
    from robotgate.preferences import Preferences

SITE: Final = "http://site.example"
ROBOTS: Final = f"{SITE}/robots.txt"
PAGE: Final = f"{SITE}/page"
TDMREP: Final = f"{SITE}/.well-known/tdmrep.json"
RESERVED: Final = '[{"location": "/", "tdm-reservation": 1}]'
DAY: Final = 86_400.0
LONG_RULES: Final = f'[{{"location": "/{"x" * 900_000}", "tdm-reservation": 0}}, {RESERVED[1:]}'


@pytest.fixture(params=["file", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """What a gate is given as its store."""
    if request.param == "file":
        return str(tmp_path / "cache.db")
    server: RedisServer = request.getfixturevalue("server")
    server.settle()
    return server.url


def process(
    session: aiohttp.ClientSession, store: Store | str | Path, clock: Clock | None = None
) -> RobotGate:
    """A gate that starts, and stops."""
    return RobotGate(
        AGENT, contact=CONTACT, session=session, delay=0.0, tdmrep=True, store=store, clock=clock
    )


async def preferences_in_a_new_process(
    session: aiohttp.ClientSession, store: str | Path, clock: Clock | None = None
) -> Preferences:
    """What a process says that fetches one page."""
    async with process(session, store, clock) as gate:
        return (await gate.fetch(PAGE)).preferences


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
async def test_a_restart_requests_nothing_that_is_fresh(  # noqa: PLR0917  # A table and three fixtures.
    web: Web,
    session: aiohttp.ClientSession,
    store: str,
    body: str,
    status: int,
    tdm: Preference,
    problems: int,
) -> None:
    """Whatever the answer was, the next process says the same and asks only for the page."""
    web.serve(TDMREP, body, status=status)
    for _ in range(3):
        preferences = await preferences_in_a_new_process(session, store)
        assert (preferences.tdm, len(preferences.problems)) == (tdm, problems)
    assert web.counts() == {ROBOTS: 1, TDMREP: 1, PAGE: 3}


async def test_two_gates_request_it_once(web: Web, session: aiohttp.ClientSession, store: str) -> None:
    """At the same time, each with a store of its own on the same medium, in many tasks."""
    web.serve(TDMREP, RESERVED, takes=0.2)
    async with process(session, store) as one, process(session, store) as two:
        pages = await asyncio.gather(*(gate.fetch(PAGE) for gate in (one, two) * 5))
    assert {page.preferences.tdm for page in pages} == {Preference.DISALLOWED}
    assert web.counts() == {ROBOTS: 1, TDMREP: 1, PAGE: 10}


async def test_a_redirect_is_followed_once(web: Web, session: aiohttp.ClientSession, store: str) -> None:
    """By the rules of each host on the way."""
    target = "http://other.example/tdm.json"
    web.redirect(TDMREP, target)
    web.serve(target, RESERVED)
    for _ in range(2):
        assert (await preferences_in_a_new_process(session, store)).tdm is Preference.DISALLOWED
    assert web.count(TDMREP) == web.count(target) == web.count("http://other.example/robots.txt") == 1


async def test_a_server_that_breaks_off_is_not_asked_with_every_page(
    web: Web, session: aiohttp.ClientSession, store: str
) -> None:
    """The problem is told, by the next process too."""
    web.handle(TDMREP, cut_off(RESERVED.encode(), length=1000))
    for _ in range(2):
        assert (await preferences_in_a_new_process(session, store)).problems
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


async def test_a_failure_does_not_lift_a_reservation(
    web: Web, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    """The last good copy holds for thirty days, over restarts; the file is tried again after a while."""
    clock = LaterClock()

    async def preferences() -> Preferences:
        return await preferences_in_a_new_process(session, tmp_path / "cache.db", clock)

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


async def test_what_robots_txt_says_to_us_is_not_kept_for_others(
    web: Web, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    """A crawler with another name may request the file that we may not."""
    store = tmp_path / "cache.db"
    web.serve(ROBOTS, "User-agent: examplebot\nDisallow: /.well-known/")
    web.serve(TDMREP, RESERVED)
    async with process(session, store) as gate:
        for _ in range(2):
            assert "robots.txt disallows" in str((await gate.fetch(PAGE)).preferences.problems[0])
    assert web.count(TDMREP) == 0
    async with RobotGate(
        "OtherBot/1.0", contact=CONTACT, session=session, delay=0.0, tdmrep=True, store=store
    ) as other:
        assert (await other.fetch(PAGE)).preferences.tdm is Preference.DISALLOWED
    assert web.count(TDMREP) == 1


async def test_closing_a_gate_that_waits_for_another_process(
    web: Web, session: aiohttp.ClientSession, store: str
) -> None:
    """Its callers are told; the other process goes on."""
    web.serve(TDMREP, RESERVED, takes=0.3)
    async with process(session, store) as one:
        first = asyncio.ensure_future(one.fetch(PAGE))
        await until(lambda: web.count(TDMREP) == 1)
        async with process(session, store) as two:
            second = asyncio.ensure_future(two.fetch(PAGE))
            await asyncio.sleep(0.05)
        with pytest.raises(GateClosedError):
            await second
        assert (await first).preferences.tdm is Preference.DISALLOWED
    assert web.count(TDMREP) == 1


async def test_a_caller_that_goes_away_cancels_nothing(web: Web, open_gate: OpenGate) -> None:
    """The request goes on, and the next caller has its answer."""
    web.serve(TDMREP, RESERVED, takes=0.1)
    gate = await open_gate(tdmrep=True)
    only = asyncio.ensure_future(gate.fetch(PAGE))
    await until(lambda: web.count(TDMREP) == 1)
    only.cancel()
    assert (await gate.fetch(PAGE)).preferences.tdm is Preference.DISALLOWED
    assert web.count(TDMREP) == 1


async def test_lists_of_sites_leave_it_out(
    web: Web, session: aiohttp.ClientSession, tmp_path: Path, server: RedisServer
) -> None:
    """What a store lists are robots.txt files; the record stands beside them, and can be forgotten."""
    server.settle()
    web.serve(TDMREP, RESERVED)
    origin = Origin.of(SITE)
    for kept in (MemoryStore(), SQLiteStore(tmp_path / "cache.db"), RedisStore(server.url)):
        async with kept as store, process(session, store) as gate:
            await gate.fetch(PAGE)
            assert [record.origin async for record in store.records()] == [origin]
            assert await store.origins_of("site.example") == [origin]
            record = await store.load_record(origin.tdmrep)
            assert record is not None
            assert (record.outcome, record.body) == (Outcome.SUCCESS, RESERVED.encode())
            assert await store.forget_record(origin.tdmrep)
            assert await store.load_record(origin) is not None
