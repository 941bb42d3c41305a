"""The dashboard in a real browser: what is shown, what a press does, and what sites cannot do."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import pytest
from tests.dashboard.browser import chromium
from tests.dashboard.reader import HOSTILE, HOSTILE_ROBOTS, TOKEN, crawl, paced_as, visit

from robotgate import Budget, HostOverride, RobotGate, dashboard

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import aiohttp
    from tests.dashboard.browser import Tab
    from tests.gate.servers import Web

pytestmark = [pytest.mark.slow, pytest.mark.real("chromium")]
ROWS: Final = "[...document.querySelectorAll('#rows tr')]"
ALL_ARE_SHOWN: Final = f"{ROWS}.length === 6"


@pytest.fixture
async def tab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tab]:
    """A browser with an empty page."""
    async with chromium(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture
async def gate(session: aiohttp.ClientSession) -> AsyncIterator[RobotGate]:
    """A gate whose pace key would be markup for one host."""
    async with RobotGate(
        "ExampleBot/1.0", contact="bot@example.org", session=session, delay=0.0, pace_key=paced_as
    ) as gate:
        yield gate


@asynccontextmanager
async def opened(gate: RobotGate, web: Web, tab: Tab, *, controls: bool = False) -> AsyncIterator[str]:
    """The dashboard of a crawl, shown in the browser, which has nothing to complain about in the end."""
    async with dashboard.serve(gate, port=0, controls=controls) as url:
        await crawl(gate, web)
        await tab.open(url)
        await tab.until(ALL_ARE_SHOWN)
        yield url
    assert tab.told == []


async def rows_of(tab: Tab) -> dict[str, dict[str, str]]:
    """The table as it is shown: the cells by their heads, by host."""
    script = f"""(() => {{
        const heads = [...document.querySelectorAll("#heads th")].map((head) => head.innerText);
        return JSON.stringify(Object.fromEntries({ROWS}.map((row) =>
            [row.querySelector("a").innerText,
             Object.fromEntries(heads.map((head, at) => [head, row.children[at].innerText]))])));
    }})()"""
    found: dict[str, dict[str, str]] = json.loads(str(await tab.run(script)))
    return found


async def test_what_is_shown_is_what_the_gate_knows(gate: RobotGate, web: Web, tab: Tab) -> None:
    """Every host with its numbers, its state and its rules; the totals."""
    async with opened(gate, web, tab):
        rows = await rows_of(tab)
        views = {view.origin: view for view in gate.origins()}
        assert set(rows) == set(views)
        access = {"controlled": "some allowed", "open": "all allowed", "excluded": "nothing allowed"}
        for origin, row in rows.items():
            view = views[origin]
            assert (row["Waiting"], row["Visits"], row["Refused"]) == tuple(
                str(number) for number in (view.waiting, view.visits, view.refused)
            )
            assert view.access is not None
            assert row["Rules"] == access[view.access.value]
        assert rows["http://blocked.example"]["State"] == "blocked by you"
        assert rows["http://blocked.example"]["Next due"] == "never"
        assert rows["http://busy.example"]["State"] == "asked for a pause"
        assert rows["http://down.example"]["State"] == "cannot be reached"
        assert rows["http://quiet.example"]["State"] == "idle"
        troubled = {origin: row["Failures"] for origin, row in rows.items() if row["Failures"] != "0"}
        assert troubled == {"http://busy.example": "1", "http://down.example": "1"}
        await tab.run("location.hash = 'host=http%3A%2F%2Fbusy.example'")
        await tab.until("document.querySelector('#facts').innerText.includes('Learned delay')")
        assert "asked by Retry-After until" in await tab.text("#facts")
        await tab.run("location.hash = ''")
        await tab.until(f"{ROWS}.length === 6")
        stats = gate.stats()
        assert await tab.text("#visits-total") == (
            f"{stats.visits} in all, {stats.robots_requests} for robots.txt"
        )
        assert await tab.text("#hosts-count") == "6"
        # It goes on by itself.
        web.serve("http://new.example/", headers={"RateLimit": '"default";r=1;t=60'})
        await visit(gate, "http://new.example/")
        await tab.until(f"{ROWS}.length === 7")
        assert (await rows_of(tab))["http://new.example"]["State"] == "slowed down"
        gate.override("new.example", HostOverride(budget=Budget(pages=1)))
        await visit(gate, "http://new.example/")
        await tab.run("location.hash = 'host=http%3A%2F%2Fnew.example'")
        await tab.until("document.querySelector('#facts').innerText.includes('0 pages')")


async def test_a_block_that_is_pressed_is_a_block(gate: RobotGate, web: Web, tab: Tab) -> None:
    """The buttons of a host's page block it, lift the block, and request robots.txt again."""
    origin = "http://quiet.example"
    async with opened(gate, web, tab, controls=True):
        await tab.run(f"{ROWS}.find((row) => row.dataset.origin === '{origin}').querySelector('a').click()")
        await tab.until(
            "!document.querySelector('#known').hidden && !document.querySelector('#controls').hidden"
        )
        await tab.click("#block")
        await tab.shows("#host-state", "blocked by you until lifted")
        assert gate.host(origin).blocked_by_operator_until_at is not None
        await tab.click("#unblock")
        await tab.shows("#host-state", "idle")
        assert gate.host(origin).blocked_by_operator_until_at is None
        await tab.click("#refresh")
        await tab.until(
            "document.querySelector('#told').innerText.endsWith('was requested: HTTP status 200.')"
        )
        assert web.count(f"{origin}/robots.txt") == 2


async def test_sites_run_no_script(gate: RobotGate, web: Web, tab: Tab) -> None:
    """What a site writes is shown as it is written: in its robots.txt, its URLs and its name."""
    async with opened(gate, web, tab, controls=True) as url:
        assert HOSTILE in await tab.text("#rows")
        await tab.open(f"{url}#host=http%3A%2F%2Fevil.example")
        await tab.until("document.querySelector('#robots li.refused')")
        lines = await tab.run("[...document.querySelectorAll('#robots li')].map((line) => line.textContent)")
        assert lines == HOSTILE_ROBOTS.splitlines()
        assert "line 3" in await tab.text("#rules")
        assert "Disallow: /<script>" in await tab.text("#rules")
        assert "onerror" in await tab.text("#last")
        # A host that is asked for by the address of the page is text, too.
        await tab.open(f"{url}#host=%3Cimg%20src%3Dx%20onerror%3D%22window.hacked%3D5%22%3E")
        await tab.until("document.querySelector('#host-title').innerText.includes('hacked=5')")
        assert await tab.run("window.hacked === undefined") is True
        assert await tab.run("document.querySelectorAll('img').length") == 1
        assert await tab.run("document.querySelectorAll('script').length") == 1


async def test_keys_are_enough(gate: RobotGate, web: Web, tab: Tab) -> None:
    """Tab reaches a host, with a visible focus that updates do not take away; Enter opens its page."""
    async with opened(gate, web, tab):
        for _ in range(30):
            await tab.press("Tab")
            if await tab.run("document.activeElement.closest('#rows') !== null"):
                break
        focused = await tab.run("document.activeElement.innerText")
        assert await tab.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        # New hosts come, and the order changes.
        await visit(gate, *[f"http://new-{number}.example/" for number in range(5)])
        await tab.until(f"{ROWS}.length === 11")
        assert await tab.run("document.activeElement.innerText") == focused
        await tab.press("Enter")
        await tab.until("!document.querySelector('#host').hidden")
        assert await tab.run("document.activeElement.id") == "host-title"
        assert await tab.text("#host-title") == focused


async def test_focus_is_not_lost(gate: RobotGate, web: Web, tab: Tab) -> None:
    """Not where a button has done what it is for, the last page is reached, or the host in focus leaves the page."""
    async with opened(gate, web, tab, controls=True) as url:
        await tab.open(f"{url}#host=http%3A%2F%2Fblocked.example")
        await tab.until("document.querySelector('#unblock').checkVisibility()")
        await tab.run("document.querySelector('#unblock').focus()")
        await tab.press("Enter")
        await tab.until("document.querySelector('#unblock').disabled")
        assert await tab.run("document.activeElement.id") == "block"
        for number in range(60):
            gate.learn(f"http://host-{number}.example/", b"")
        await tab.open(f"{url}#order=waiting&search=host-")
        await tab.until(f"{ROWS}.length === 50")
        await tab.run("document.querySelector('#next').focus()")
        await tab.press("Enter")
        await tab.until(f"{ROWS}.length === 10")
        assert await tab.run("document.activeElement.id") == "previous"
        await tab.press("Enter")
        await tab.until(f"{ROWS}.length === 50")
        assert await tab.run("document.activeElement.id") == "next"
        await tab.click("[data-order=visits]")
        await tab.until("document.querySelector('[data-order=visits]').ariaPressed === 'true'")
        await tab.until(f"{ROWS}[49]")
        left = await tab.run(
            f"(() => {{ {ROWS}[49].querySelector('a').focus(); return {ROWS}[49].innerText }})()"
        )
        await visit(gate, "http://host-59.example/", "http://host-58.example/")
        await tab.until(
            f"{ROWS}[0].dataset.origin.startsWith('http://host-5') && {ROWS}[49].innerText !== `{left}`"
        )
        assert await tab.run(f"document.activeElement === {ROWS}[49].querySelector('a')")


async def test_a_screen_reader_finds_its_way(gate: RobotGate, web: Web, tab: Tab) -> None:
    """Every control has a name; the table has heads, on a phone as well; the sorted column says so."""
    async with opened(gate, web, tab, controls=True) as url:
        for width in (1280, 390):
            await tab.resize(width, 844)
            await tab.open("about:blank")
            await tab.open(url)
            await tab.until(ALL_ARE_SHOWN)
            told = await tab.send("Accessibility.getFullAXTree")
            nodes = told["nodes"]
            assert isinstance(nodes, list)
            seen = [
                (node["role"]["value"], node.get("name", {}).get("value", ""))
                for node in nodes
                if not node["ignored"] and "role" in node
            ]
            controls = {"button", "link", "searchbox", "textbox", "combobox"}
            assert all(name for role, name in seen if role in controls), seen
            assert ("searchbox", "Find") in seen
            assert ("table", "Origins") in seen
            assert sum(role == "row" for role, _ in seen) == 7
            assert sum(role == "columnheader" for role, _ in seen) == 9
            assert {"banner", "main", "search", "heading"} <= {role for role, _ in seen}
        assert await tab.text("th[aria-sort]") == "Waiting"


async def test_nothing_is_cut_off(gate: RobotGate, web: Web, tab: Tab) -> None:
    """At the width of a phone and of a desk, light and dark, no page is wider than its window."""
    long = f"http://{'-'.join(['long'] * 12)}.{'-'.join(['name'] * 12)}.example"
    hosts = ("", "#host=http%3A%2F%2Fevil.example", f"#host={long}")
    async with opened(gate, web, tab, controls=True) as url:
        await visit(gate, f"{long}/{'x' * 300}")
        for width in (1280, 390):
            for is_dark in (False, True):
                await tab.resize(width, 844, is_dark=is_dark)
                for host in hosts:
                    await tab.open("about:blank")
                    await tab.open(url + host)
                    shown = "!document.querySelector('#known').hidden" if host else f"{ROWS}.length === 7"
                    await tab.until(shown)
                    assert await tab.run("document.documentElement.scrollWidth <= innerWidth"), (width, host)
                back = await tab.run("getComputedStyle(document.body).backgroundColor")
                assert back == ("rgb(18, 23, 22)" if is_dark else "rgb(246, 247, 247)")


async def test_sorting_searching_and_pausing(gate: RobotGate, web: Web, tab: Tab) -> None:
    """A press sorts, typing searches, and a paused page stays as it is."""
    async with opened(gate, web, tab):
        await tab.click("[data-order=refused]")
        await tab.until(f"{ROWS}[0].dataset.origin === 'http://refusing.example'")
        await tab.run(
            "(() => { const box = document.querySelector('#search'); box.value = 'QUIET';"
            " box.dispatchEvent(new Event('input')); })()"
        )
        await tab.until(f"{ROWS}.length === 1")
        assert set(await rows_of(tab)) == {"http://quiet.example"}
        await tab.click("#pause")
        assert await tab.text("#connection") == "Paused"
        await visit(gate, "http://quiet.example/again")
        before = await rows_of(tab)
        # The server has nobody to inform.
        await tab.run("new Promise((done) => setTimeout(done, 1500))")
        assert await rows_of(tab) == before
        await tab.click("#pause")
        await tab.until(f"{ROWS}[0].children[6].innerText === '3'")


async def test_the_page_asks_for_the_token(gate: RobotGate, web: Web, tab: Tab) -> None:
    """It shows nothing without it, and keeps it out of the address."""
    await crawl(gate, web)
    async with dashboard.serve(gate, port=0, token=TOKEN) as url:
        await tab.open(url)
        await tab.until("!document.querySelector('#token-form').hidden")
        assert await tab.run("document.querySelector('main').hidden") is True
        await tab.run(
            f"(() => {{ document.querySelector('#token').value = {json.dumps(TOKEN)};"
            " document.querySelector('#token-form button').click(); })()"
        )
        await tab.until(ALL_ARE_SHOWN)
        assert TOKEN not in str(await tab.run("document.documentElement.outerHTML + location.href"))
        await tab.run("sessionStorage.clear()")
        await tab.open("about:blank")
        await tab.open(f"{url}#token={TOKEN.replace(' ', '+')}")
        await tab.until(ALL_ARE_SHOWN)
        assert await tab.run("location.hash") == ""


async def test_the_end_is_told(gate: RobotGate, web: Web, tab: Tab) -> None:
    """A page whose gate was closed, or whose server has gone, says so and keeps what it showed."""
    await crawl(gate, web)
    async with dashboard.serve(gate, port=0) as url:
        await tab.open(url)
        await tab.until(ALL_ARE_SHOWN)
        await gate.aclose()
        await tab.shows("#connection", "The gate is not open")
    await tab.shows("#connection", "No connection; trying again")
    assert await tab.run(f"{ROWS}.length") == 6
