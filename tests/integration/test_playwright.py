"""The gate in a real Chromium, driven by Playwright: what reaches the servers, and when."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import aiohttp.web
import pytest
from tests.dashboard.browser import PROGRAM, led_to
from tests.gate.servers import DELAY, OTHER, RULES, SITE, Held
from tests.waiting import until

from robotgate import (
    Budget,
    BudgetExceededError,
    DisallowedError,
    GateClosedError,
    HostUnavailableError,
    NonPublicAddressError,
    RobotGate,
    RobotGateError,
)

playwright = pytest.importorskip("playwright.async_api", reason="no playwright: pip install playwright")

from robotgate.integrations.playwright import BrowserGate  # noqa: E402  # Needs playwright.

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from playwright.async_api import Browser, Page
    from tests.conftest import OpenGate
    from tests.gate.servers import Handler, Web

pytestmark = [pytest.mark.slow, pytest.mark.real("chromium")]
HTML: Final = {"Content-Type": "text/html"}
SCRIPT: Final = {"Content-Type": "text/javascript"}


@pytest.fixture
async def browser(web: Web) -> AsyncIterator[Browser]:
    """A Chromium that finds nothing but the web of the test."""
    secure = f"--unsafely-treat-insecure-origin-as-secure={SITE}"
    async with playwright.async_playwright() as driver:
        yield await driver.chromium.launch(executable_path=PROGRAM, args=[led_to(web), secure])


async def settled(page: Page, script: str) -> None:
    """Wait until a script of a page says so."""
    await page.wait_for_function(script, timeout=60_000)


def slow_body(start: str) -> Handler:
    """A document whose end comes a while later."""

    async def answer(request: aiohttp.web.Request) -> aiohttp.web.StreamResponse:
        response = aiohttp.web.StreamResponse(headers=HTML)
        await response.prepare(request)
        await response.write(start.encode())
        await asyncio.sleep(4 * DELAY)
        await response.write(b"<p>the end")
        return response

    return answer


async def test_what_a_page_loads_is_judged(gate: RobotGate, web: Web, browser: Browser) -> None:
    """By whatever tag or script, in whichever frame, and where a redirect leads; sites see who asks."""
    for site in (SITE, OTHER):
        web.serve(f"{site}/robots.txt", RULES)
    web.serve(
        f"{SITE}/page",
        f"""<link rel=prefetch href=/private/prefetch><link rel=preload as=style href=/private/style>
        <link rel=icon href=/private/icon><img src=/private/image><img src=/image><img src=/moved>
        <iframe src={OTHER}/frame></iframe><iframe src={OTHER}/private/frame></iframe>
        <script src=/private/script></script>
        <script>
        new Worker("/worker");
        navigator.sendBeacon("/private/beacon");
        Promise.allSettled([fetch("/private/fetch"), fetch("{OTHER}/private/fetch"), fetch("{OTHER}/fetch")])
            .then(() => fetch("/fetch")).then(() => document.title = "done");
        </script>""",
        headers=HTML,
    )
    web.serve(f"{SITE}/worker", "fetch('/private/worker').catch(() => fetch('/worked'))", headers=SCRIPT)
    web.serve(f"{OTHER}/frame", "<img src=/private/image><p>", headers=HTML)
    web.serve(f"{OTHER}/fetch", headers={"Access-Control-Allow-Origin": "*"})
    web.redirect(f"{SITE}/moved", f"{OTHER}/private/moved")
    refusals: dict[str, RobotGateError] = {}
    pages = BrowserGate(gate, on_refusal=refusals.__setitem__)
    page = await browser.new_page(user_agent=pages.user_agent)
    response = await pages.goto(page, f"{SITE}/page")
    assert response is not None
    assert response.status == 200
    await settled(page, "document.title === 'done'")
    await web.arrivals(10)
    expected = {
        f"{SITE}/{path}" for path in ("robots.txt", "page", "image", "moved", "worker", "fetch", "worked")
    }
    expected |= {f"{OTHER}/{path}" for path in ("robots.txt", "frame", "fetch")}
    assert web.counts() == dict.fromkeys(expected, 1)
    assert {visit.headers["User-Agent"] for visit in web.visits} == {pages.user_agent}
    assert web.visit(f"{SITE}/page").headers["From"] == "bot@example.org"
    names = ("prefetch", "style", "image", "script", "beacon", "fetch", "worker")
    refused = {f"{SITE}/private/{name}" for name in names}
    refused |= {f"{OTHER}/private/{name}" for name in ("frame", "image", "moved", "fetch")}
    assert refused - set(refusals) == set()
    assert all(isinstance(error, DisallowedError) for error in refusals.values())
    assert await page.evaluate("navigator.userAgent") == pages.user_agent


async def test_documents_take_turns(open_gate: OpenGate, web: Web, browser: Browser) -> None:
    """Each hop of a redirect, frames, pop-ups and what scripts open: from the end of a body to the next request."""
    gate = await open_gate(delay=DELAY)
    web.redirect(f"{SITE}/moved", f"{SITE}/there")
    web.redirect(f"{SITE}/there", f"{SITE}/page")
    web.handle(f"{SITE}/page", slow_body("<iframe src=/frame></iframe><script>open('/pop-up')</script>"))
    pages = BrowserGate(gate)
    page = await browser.new_page()
    async with page.expect_popup() as popup:
        response = await pages.goto(page, f"{SITE}/moved")
    assert response is not None
    assert response.url == page.url == f"{SITE}/page"
    await (await popup.value).wait_for_load_state()
    await page.evaluate("location.href = '/next'")
    await page.wait_for_url("**/next")
    documents = [visit for visit in web.visits if not visit.url.endswith("favicon.ico")]
    assert [visit.url.removeprefix(SITE) for visit in documents[:4]] == [
        "/robots.txt",
        "/moved",
        "/there",
        "/page",
    ]
    assert sorted(visit.url.removeprefix(SITE) for visit in documents[4:]) == ["/frame", "/next", "/pop-up"]
    for earlier, later in pairwise(documents):
        assert earlier.ended_at is not None
        assert later.began_at - earlier.ended_at >= DELAY - 0.01


async def test_pages_are_not_fetched_in_advance(gate: RobotGate, web: Web, browser: Browser) -> None:
    """Rules of speculation in a document, of a script, of a frame and of a header; Chromium shows no such request."""
    rules = '<script type=speculationrules>{"prefetch": [{"urls": ["/1"]}], "prerender": [{"urls": ["/2"]}]}</script>'
    web.serve(
        f"{SITE}/page",
        f"""{rules}<iframe src={OTHER}/frame></iframe><script>
        const late = document.createElement("script");
        late.type = " SpeculationRules";
        late.textContent = '{{"prefetch": [{{"urls": ["/3"]}}]}}';
        const around = document.createElement("p");
        around.append(late);
        document.documentElement.append(around);
        onload = () => setTimeout(() => fetch("/end"), 1000);
        </script>""",
        headers={**HTML, "Speculation-Rules": '"/rules"'},
    )
    web.serve(f"{OTHER}/frame", rules, headers=HTML)
    web.serve(
        f"{SITE}/rules",
        '{"prefetch": [{"urls": ["/4"]}]}',
        headers={"Content-Type": "application/speculationrules+json"},
    )
    pages = BrowserGate(gate)
    await pages.attach(browser)
    page = await browser.new_page()
    async with page.expect_request_finished(lambda told: told.url == f"{SITE}/end"):
        await pages.goto(page, f"{SITE}/page")
    robots = {f"{SITE}/robots.txt", f"{OTHER}/robots.txt"}
    assert set(web.urls) - robots - {f"{SITE}/favicon.ico"} == {
        f"{SITE}/page",
        f"{OTHER}/frame",
        f"{SITE}/end",
    }


async def test_refused_navigation_raises_the_error_of_the_gate(
    gate: RobotGate, web: Web, browser: Browser
) -> None:
    """Of the URL, or of one that it redirects to; it is not requested, and the page can go elsewhere."""
    web.serve(f"{OTHER}/robots.txt", RULES)
    web.redirect(f"{SITE}/moved", f"{SITE}/more")
    web.redirect(f"{SITE}/more", f"{OTHER}/private/page")
    pages = BrowserGate(gate)
    page = await browser.new_page()
    for url in (f"{OTHER}/private/page", f"{SITE}/moved"):
        with pytest.raises(DisallowedError, match=f"{OTHER}/private/page is disallowed by line 2"):
            await pages.goto(page, url)
    with pytest.raises(NonPublicAddressError):
        await pages.goto(page, "http://10.1/")
    response = await pages.goto(page, f"{OTHER}/page#part")
    assert response is not None
    assert await response.text() == "a page"
    assert web.count(f"{OTHER}/private/page") == 0


async def test_playwright_s_own_goto_fails_by_what_the_gate_refuses(
    gate: RobotGate, web: Web, browser: Browser
) -> None:
    """And so does a link that is clicked on; the callback tells why."""
    web.serve(f"{SITE}/robots.txt", RULES)
    web.serve(f"{SITE}/page", "<a href=/private/page>", headers=HTML)
    refusals: dict[str, RobotGateError] = {}
    pages = BrowserGate(gate, on_refusal=refusals.__setitem__)
    await pages.attach(browser)
    page = await browser.new_page()
    with pytest.raises(playwright.Error, match="ERR_BLOCKED_BY_CLIENT"):
        await page.goto(f"{SITE}/private/page")
    await page.wait_for_url("chrome-error://**")
    await page.goto(f"{SITE}/page")
    async with page.expect_event("requestfailed"):
        await page.evaluate("document.links[0].click()")
    assert web.count(f"{SITE}/private/page") == 0
    assert isinstance(refusals[f"{SITE}/private/page"], DisallowedError)


async def test_blocked_host_is_left_alone(open_gate: OpenGate, web: Web, browser: Browser) -> None:
    """By 429 and its Retry-After: by documents and by what pages of other hosts load of it."""
    gate = await open_gate(max_block=5.0)
    web.serve(f"{SITE}/busy", "too fast", status=429, headers={**HTML, "Retry-After": "600"})
    web.serve(f"{OTHER}/page", f"<img src={SITE}/image>", headers=HTML)
    refusals: dict[str, RobotGateError] = {}
    pages = BrowserGate(gate, on_refusal=refusals.__setitem__)
    page = await browser.new_page()
    response = await pages.goto(page, f"{SITE}/busy")
    assert response is not None
    assert response.status == 429
    with pytest.raises(HostUnavailableError, match="asks for a pause"):
        await pages.goto(page, f"{SITE}/page")
    await pages.goto(page, f"{OTHER}/page")
    assert isinstance(refusals[f"{SITE}/image"], HostUnavailableError)
    assert [url for url in web.urls if url.startswith(SITE)] == [f"{SITE}/robots.txt", f"{SITE}/busy"]


async def test_budget_is_not_exceeded(open_gate: OpenGate, web: Web, browser: Browser) -> None:
    """The document beyond it is not requested; `goto` raises the gate's error."""
    gate = await open_gate(budget=Budget(pages=1))
    pages, page = BrowserGate(gate), await browser.new_page()
    await pages.goto(page, f"{SITE}/one")
    with pytest.raises(BudgetExceededError):
        await pages.goto(page, f"{SITE}/two")
    await pages.goto(page, f"{OTHER}/page")
    assert (web.count(f"{SITE}/one"), web.count(f"{SITE}/two")) == (1, 0)


async def test_origin_that_takes_no_connection_is_reported(
    open_gate: OpenGate, web: Web, browser: Browser
) -> None:
    """Its robots.txt was there a moment ago; other turns of the origin wait, until it is given up."""
    gate = await open_gate(allow_private_addresses=True, give_up_after=0.0)
    pages = BrowserGate(gate)
    page = await browser.new_page()
    url = f"http://127.0.0.1:{web.port}/"
    await gate.allowed(url)
    await web.close()
    with pytest.raises(playwright.Error, match="ERR_CONNECTION_REFUSED"):
        await pages.goto(page, url)
    assert gate.host(url).unreachable_until_at is not None


async def test_service_workers_and_web_sockets_are_refused(
    gate: RobotGate, web: Web, browser: Browser
) -> None:
    """In contexts that are made later, too; and in pop-ups."""
    web.serve(
        f"{SITE}/page",
        """<script>
        const closed = new Promise((done) => new WebSocket("ws://site.example/socket").onclose = done);
        const failed = navigator.serviceWorker.register("/worker").then(() => "registered", () => "failed");
        Promise.all([closed, failed]).then(([_, worker]) => document.title = worker);
        </script>""",
        headers=HTML,
    )
    web.serve(f"{SITE}/worker", "fetch('/worked')", headers=SCRIPT)
    refusals: dict[str, RobotGateError] = {}
    pages = BrowserGate(gate, on_refusal=refusals.__setitem__)
    await pages.attach(browser)
    page = await browser.new_page()
    await page.goto(f"{SITE}/page")
    await settled(page, "document.title === 'failed'")
    async with page.expect_popup() as popup:
        await page.evaluate("open('/page')")
    await settled(await popup.value, "document.title === 'failed'")
    assert set(web.urls) - {f"{SITE}/favicon.ico"} == {f"{SITE}/robots.txt", f"{SITE}/page"}
    assert {f"{SITE}/worker", "ws://site.example/socket"} <= set(refusals)


async def test_turn_of_a_download_ends_when_it_begins(gate: RobotGate, web: Web, browser: Browser) -> None:
    """It is judged and waits for its turn as a document does; the next one can be opened."""
    web.serve(f"{SITE}/file", b"x" * 1000, headers={"Content-Disposition": "attachment"})
    pages = BrowserGate(gate)
    page = await browser.new_page()
    async with page.expect_download() as download:
        with pytest.raises(playwright.Error, match="Download is starting"):
            await pages.goto(page, f"{SITE}/file")
    assert len((await (await download.value).path()).read_bytes()) == 1000
    await pages.goto(page, f"{SITE}/page")
    assert gate.host(SITE).visits == 3


async def test_all_requests_take_turns_on_request(open_gate: OpenGate, web: Web, browser: Browser) -> None:
    """Images, scripts, their fetches and the icon: none begins before the delay is over."""
    gate = await open_gate(delay=DELAY)
    web.serve(
        f"{SITE}/page",
        """<img src=/1><img src=/moved><script src=/2></script>
        <script>Promise.all([fetch("/3"), fetch("/4")]).then(() => document.title = "done")</script>""",
        headers=HTML,
    )
    web.redirect(f"{SITE}/moved", "/there")
    web.serve(f"{SITE}/3", "slow", takes=0.2)
    pages = BrowserGate(gate, pace_all=True)
    page = await browser.new_page()
    await pages.goto(page, f"{SITE}/page")
    await settled(page, "document.title === 'done'")
    await web.arrivals(9)
    names = ("robots.txt", "page", "1", "moved", "there", "2", "3", "4", "favicon.ico")
    assert web.counts() == {f"{SITE}/{name}": 1 for name in names}
    assert min(web.gaps("site.example")) >= DELAY - 0.01


async def test_page_that_is_closed_frees_its_host(gate: RobotGate, web: Web, browser: Browser) -> None:
    """While its document waits for an answer, and while another one waits for the turn."""
    silent = Held(web, f"{SITE}/silent")
    pages = BrowserGate(gate)
    first, second, third = [await browser.new_page() for _ in range(3)]
    going = [asyncio.ensure_future(pages.goto(first, f"{SITE}/silent"))]
    await silent.come.wait()
    going.append(asyncio.ensure_future(pages.goto(second, f"{SITE}/never")))
    await until(lambda: gate.host(SITE).waiting == 1)
    await second.close()
    await first.close()
    done = await asyncio.gather(*going, return_exceptions=True)
    assert all(isinstance(each, playwright.Error) for each in done)
    async with asyncio.timeout(30):
        await pages.goto(third, f"{SITE}/page")
    assert web.count(f"{SITE}/never") == 0


async def test_closed_gate_lets_nothing_pass(open_gate: OpenGate, web: Web, browser: Browser) -> None:
    """Not even where the browser is left open."""
    gate = await open_gate()
    pages = BrowserGate(gate)
    page = await browser.new_page()
    await pages.goto(page, f"{SITE}/page")
    seen = len(web.visits)
    await gate.aclose()
    with pytest.raises(GateClosedError):
        await pages.goto(page, f"{SITE}/next")
    assert await page.evaluate("fetch('/').then(() => 'sent', () => 'refused')") != "sent"
    assert len(web.visits) == seen


async def test_requests_are_the_browser_s_in_all_else(gate: RobotGate, web: Web, browser: Browser) -> None:
    """Cookies, the referrer and a form's body go with them; no other origin is asked for leave by OPTIONS.

    Routes of yours go on working, and what they answer is no request.
    """
    web.serve(
        f"{SITE}/page",
        "<form method=post action=/form><input name=a value=b>",
        headers={**HTML, "Set-Cookie": "a=1"},
    )
    web.serve(f"{OTHER}/data", "[]", headers={"Access-Control-Allow-Origin": "*"})
    pages = BrowserGate(gate)
    page = await browser.new_page()
    await page.route("**/mock", lambda route: route.fulfill(body="mocked"))
    await pages.goto(page, f"{SITE}/page")
    assert await page.evaluate(f"fetch('{OTHER}/data').then((answer) => answer.json())") == []
    assert await page.evaluate("fetch('/mock').then((answer) => answer.text())") == "mocked"
    async with page.expect_navigation():
        await page.evaluate("document.forms[0].submit()")
    form = web.visit(f"{SITE}/form")
    assert (form.method, form.body) == ("POST", b"a=b")
    assert form.headers["Cookie"] == "a=1"
    assert form.headers["Referer"] == f"{SITE}/page"
    assert web.visit(f"{OTHER}/data").method == "GET"
    assert web.count(f"{SITE}/mock") == 0
