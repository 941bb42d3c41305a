"""What the dashboard is told: the gate's hosts, a page of them at a time, while the crawl goes on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import aiohttp
from aiohttp import web as aiohttp_web
from tests.dashboard.reader import as_shown, crawl, paced_as, reading, visit

from robotgate import RobotGate, dashboard
from robotgate.dashboard.application import MAX_STREAMS, PAGE

if TYPE_CHECKING:
    from tests.conftest import OpenGate
    from tests.gate.servers import Web

MANY: Final = 300
RULES: Final = b"User-agent: *\nDisallow: /private/\n"


async def test_rows_are_the_hosts_of_the_gate(session: aiohttp.ClientSession, web: Web) -> None:
    """Every value of a row is that of `gate.origins()`, and the totals are those of `gate.stats()`."""
    async with (
        RobotGate(
            "ExampleBot/1.0", contact="bot@example.org", session=session, delay=0.0, pace_key=paced_as
        ) as gate,
        dashboard.serve(gate, port=0) as url,
    ):
        await crawl(gate, web)
        async with reading(url) as reader:
            message = await reader.next()
            hosts = message["origins"]
            assert isinstance(hosts, dict)
            views = {view.origin: as_shown(view) for view in gate.origins()}
            rows = {row["origin"]: row for row in hosts["rows"]}
            assert {
                origin: {name: rows[origin][name] for name in view} for origin, view in views.items()
            } == views
            assert hosts["matches"] == len(views) == len(rows) == 6
            stats = gate.stats()
            assert message["stats"] == {name: getattr(stats, name) for name in stats.__slots__}


async def test_hosts_are_sorted_as_asked(gate: RobotGate, web: Web) -> None:
    """The host that leads by a value is the first row."""
    await crawl(gate, web)
    web.serve("http://slow.example/", "slow", takes=2.0)
    await visit(gate, *["http://quiet.example/"] * 3, "http://slow.example/")
    async with dashboard.serve(gate, port=0) as url:
        for order, first in (
            ("blocked", "http://blocked.example"),
            ("failing", "http://busy.example"),
            ("refused", "http://refusing.example"),
            ("visits", "http://quiet.example"),
            ("slow", "http://slow.example"),
        ):
            async with reading(url, order=order) as reader:
                assert (await reader.rows())[0]["origin"] == first, order


async def test_hosts_for_which_turns_wait_come_first(open_gate: OpenGate) -> None:
    """As many as they are; and a host that is looked at and not known sends nothing, and stays unknown."""
    gate = await open_gate(delay=60.0)
    for name in ("a", "fast"):
        gate.learn(f"http://{name}.example/", RULES)
        await visit(gate, f"http://{name}.example/")
    tasks = [asyncio.create_task(visit(gate, f"http://fast.example/{number}")) for number in range(3)]
    async with dashboard.serve(gate, port=0) as url:
        async with reading(url, order="waiting") as reader:
            first = (await reader.rows())[0]
            assert (first["origin"], first["waiting"]) == ("http://fast.example", 3)
        async with reading(url, host="http://nobody.example") as reader:
            assert (await reader.next())["host"] == {"origin": "http://nobody.example", "is_known": False}
    assert gate.stats().origins == 2
    for task in tasks:
        task.cancel()


async def test_many_hosts_come_by_pages_of_fifty(gate: RobotGate) -> None:
    """Pages do not overlap; a search looks at all hosts."""
    for number in range(MANY):
        gate.learn(f"http://host-{number}.example/", RULES)
    async with dashboard.serve(gate, port=0) as url:
        async with reading(url, page="0") as first, reading(url, page="1") as second:
            shown = [row["origin"] for reader in (first, second) for row in await reader.rows()]
            assert len(shown) == len(set(shown)) == 2 * PAGE
        async with reading(url, search="HOST-299") as reader:
            assert [row["origin"] for row in await reader.rows()] == ["http://host-299.example"]


async def test_a_host_has_a_page_of_its_own(gate: RobotGate, web: Web) -> None:
    """Its state, the rule that refused most, its last answers, and its robots.txt line by line."""
    origin = "http://refusing.example"
    async with dashboard.serve(gate, port=0) as url:
        await crawl(gate, web)
        await visit(gate, f"{origin}/page")
        async with reading(url, host=origin) as reader:
            host = (await reader.next())["host"]
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{url}robots", params={"host": origin}) as robots,
        ):
            assert (await robots.json())["lines"] == ["User-agent: *", "Disallow: /private/"]
    assert isinstance(host, dict)
    assert host["rules"] == [{"line": 2, "text": "Disallow: /private/", "count": 3}]
    assert [(answer["url"], answer["status"]) for answer in host["answers"]] == [
        (f"{origin}/page", 200),
        (f"{origin}/robots.txt", 200),
    ]
    assert (host["origin"], host["refused"], host["visits"]) == (origin, 3, 2)
    assert host["robots"]["status"] == 200


async def test_there_are_so_many_readers_and_no_more(gate: RobotGate) -> None:
    """One too many is told so; one that leaves makes room."""
    async with dashboard.serve(gate, port=0) as url, aiohttp.ClientSession() as session:
        held = [await session.get(f"{url}events") for _ in range(MAX_STREAMS)]
        async with session.get(f"{url}events") as response:
            assert response.status == 503
        held[0].close()
        async with asyncio.timeout(60):
            while (response := await session.get(f"{url}events")).status == 503:
                response.release()
        for each in (*held, response):
            each.close()


async def test_a_reader_that_takes_nothing_is_sent_the_newest(gate: RobotGate) -> None:
    """It holds up neither the others nor the end, and nothing piles up for it."""
    for number in range(2 * PAGE):
        gate.learn(f"http://{'x' * 50}-{number}.example/", RULES)
    async with dashboard.serve(gate, port=0) as url, aiohttp.ClientSession(read_bufsize=1) as session:
        stuck = await session.get(f"{url}events")
        async with reading(url) as reader:
            for _ in range(3):
                await reader.next()
        stuck.close()


async def test_events_end_with_the_application(gate: RobotGate) -> None:
    """A reader does not keep the program from ending."""
    async with dashboard.serve(gate, port=0) as url:
        session = aiohttp.ClientSession()
        response = await session.get(f"{url}events")
        await response.content.readline()
    async with asyncio.timeout(60):
        await response.content.read()
    await session.close()


async def test_a_closed_gate_is_told_of(session: aiohttp.ClientSession) -> None:
    """The page may outlive the gate, and begin before it; what happens is shown by a later message."""
    gate = RobotGate("ExampleBot/1.0", contact="bot@example.org", session=session, delay=0.0)
    async with dashboard.serve(gate, port=0, controls=True) as url, reading(url) as reader:
        assert await reader.next() == {"closed": True}
        async with gate:
            while "closed" in await reader.next():
                pass
            await visit(gate, "http://a.example/")
            while not (rows := await reader.rows()):
                pass
            assert rows[0]["visits"] == 2
        while "closed" not in await reader.next():
            pass


async def test_the_application_can_be_mounted(gate: RobotGate) -> None:
    """Below a path of another application, with its own checks and headers there alone."""
    main = aiohttp_web.Application()
    main.add_subapp("/status", dashboard.app(gate))
    runner = aiohttp_web.AppRunner(main, access_log=None)
    await runner.setup()
    await aiohttp_web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/status/"
    await visit(gate, "http://a.example/")
    async with reading(url) as reader:
        assert [row["origin"] for row in await reader.rows()] == ["http://a.example"]
    async with aiohttp.ClientSession() as session:
        for name, kind in (("", "text/html"), ("page.js", "text/javascript"), ("page.css", "text/css")):
            async with session.get(url + name) as response:
                assert (response.status, response.content_type) == (200, kind)
    await runner.cleanup()
