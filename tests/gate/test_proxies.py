"""Proxies: what goes through them, robots.txt included, and who gets whose credentials. A real forward proxy counts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Unpack

import aiohttp
import pytest
from aiohttp import web as aioweb
from aiohttp_socks import ProxyConnector
from tests.clocks import LaterClock
from tests.gate.crawlers import crawler, read, text
from tests.gate.network import ASKS, Proxy
from tests.gate.servers import BASIC, OTHER, PAGE, PRIVATE, ROBOTS, RULES, SITE, hang_up, unused_port
from yarl import URL

from robotgate import (
    DisallowedError,
    GateOptions,
    HostUnavailableError,
    ProxyUnavailableError,
    Reason,
    RobotGate,
    StatusPolicy,
)
from robotgate.sites import HostAccess, Outcome

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path
    from types import SimpleNamespace

    from tests.conftest import OpenGate
    from tests.gate.servers import Web

SECURE: Final = "https://site.example"

pytestmark = [
    # aiohttp 3.14 deprecates what crawlers still use, and what works until aiohttp 4.
    pytest.mark.filterwarnings("ignore:BasicAuth is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The 'proxy_auth' parameter is deprecated:DeprecationWarning"),
]


@pytest.fixture
async def proxy(web: Web) -> AsyncIterator[Proxy]:
    """A proxy, and every site behind it."""
    proxy = Proxy(web)
    await proxy.open()
    yield proxy
    await proxy.close()


@pytest.fixture
async def through(web: Web, open_gate: OpenGate, proxy: Proxy) -> AsyncIterator[OpenGate]:
    """Opens gates on a session that has the proxy."""
    async with crawler(web, proxy=proxy.url) as session:

        async def open_one(**options: Unpack[GateOptions]) -> RobotGate:
            chosen = GateOptions(session=session)
            chosen.update(options)
            return await open_gate(**chosen)

        yield open_one


# ── the session of the gate


@pytest.mark.parametrize("origin", [SITE, SECURE])
async def test_proxy_of_the_session_serves_pages_and_robots_txt(
    web: Web, open_gate: OpenGate, proxy: Proxy, origin: str
) -> None:
    """The gate sends nothing past it, hops and other hosts included; it alone is told its credentials."""
    web.redirect(f"{origin}/page", f"{OTHER}/there")
    auth = aiohttp.BasicAuth("user", "secret")
    async with crawler(web, proxy=proxy.url, proxy_auth=auth, headers={"Authorization": "x"}) as session:
        gate = await open_gate(session=session)
        assert (await gate.fetch(f"{origin}/page")).status == 200
    first = [ROBOTS, PAGE] if origin == SITE else ["site.example:443"] * len(proxy.asked[:-2])
    assert proxy.asked == [*first, f"{OTHER}/robots.txt", f"{OTHER}/there"]
    assert web.urls == [f"{origin}/robots.txt", f"{origin}/page", f"{OTHER}/robots.txt", f"{OTHER}/there"]
    assert [head["Proxy-Authorization"] for head in proxy.heads] == [BASIC] * len(proxy.heads)
    assert not any("Proxy-Authorization" in visit.headers for visit in web.visits)


async def test_proxy_of_one_fetch_serves_its_robots_txt(web: Web, open_gate: OpenGate, proxy: Proxy) -> None:
    """And its tdmrep.json, as through the middleware; the next fetch goes its own way."""
    gate = await open_gate(tdmrep=True)
    assert (await gate.fetch(PAGE, proxy=proxy.url)).status == 200
    assert proxy.asked == [ROBOTS, f"{SITE}/.well-known/tdmrep.json", PAGE]
    assert (await gate.fetch(PAGE)).status == 200
    assert web.urls == [*proxy.asked, PAGE]


async def test_proxy_of_one_fetch_serves_what_a_second_attempt_asks_for(
    web: Web, open_gate: OpenGate, proxy: Proxy
) -> None:
    """Rules that are out of date by then are asked for by the way of the page as well."""
    clock = LaterClock()

    async def answer(_: aioweb.Request) -> aioweb.StreamResponse:
        if web.count(PAGE) > 1:
            return aioweb.Response(text="a page")
        clock.offset = 100_000.0
        return aioweb.Response(status=500)

    async def once_more(
        request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        response = await handler(request)
        return response if response.status < 500 else await handler(request)

    web.handle(PAGE, answer)
    gate = await open_gate(clock=clock)
    assert (await gate.fetch(PAGE, proxy=proxy.url, middlewares=[once_more])).status == 200
    assert proxy.asked == [ROBOTS, PAGE, ROBOTS, PAGE]
    assert web.urls == proxy.asked


@pytest.mark.parametrize("door", ["fetch", "middleware"])
async def test_proxy_is_not_that_of_what_is_begun_meanwhile(
    web: Web, open_gate: OpenGate, proxy: Proxy, door: str
) -> None:
    """A trace that sees a robots.txt and goes on to another site, say, does so in its context."""
    tasks: list[asyncio.Task[int]] = []

    async def go_on(
        _: aiohttp.ClientSession, __: SimpleNamespace, ___: aiohttp.TraceRequestEndParams
    ) -> None:
        async def fetch() -> int:
            return (await gate.fetch(f"{OTHER}/page")).status

        if not tasks:
            tasks.append(asyncio.create_task(fetch() if door == "fetch" else read(crawling, f"{OTHER}/page")))

    trace = aiohttp.TraceConfig()
    trace.on_request_end.append(go_on)
    async with aiohttp.ClientSession(connector=web.connector(), trace_configs=[trace]) as session:
        gate = await open_gate(session=session)
        async with crawler(web, gate.middleware) as crawling:
            assert (await gate.fetch(PAGE, proxy=proxy.url)).status == 200
            assert await tasks[0] == 200
    assert proxy.asked == [ROBOTS, PAGE]
    assert web.count(f"{OTHER}/robots.txt") == 1


# ── the middleware


@pytest.mark.parametrize("given_to", ["session", "request"])
async def test_proxy_of_a_request_serves_its_robots_txt(
    web: Web, gate: RobotGate, proxy: Proxy, given_to: str
) -> None:
    """The gate's own session knows nothing of it: the request that asks tells, at every hop of page and robots.txt."""
    web.redirect(PAGE, f"{OTHER}/there")
    web.redirect(ROBOTS, "http://third.example/rules")
    of_session, of_request = (proxy.url, None) if given_to == "session" else (None, proxy.url)
    async with crawler(web, gate.middleware, proxy=of_session) as session:
        assert await read(session, PAGE, proxy=of_request) == 200
    way = [ROBOTS, "http://third.example/rules", PAGE, f"{OTHER}/robots.txt", f"{OTHER}/there"]
    assert proxy.asked == web.urls == way


@pytest.mark.parametrize("origin", [SITE, SECURE])
@pytest.mark.parametrize("given_as", ["auth", "url", "header"])
async def test_proxy_of_a_request_is_told_its_credentials(
    web: Web, gate: RobotGate, proxy: Proxy, given_as: str, origin: str
) -> None:
    """However the crawler gives them, robots.txt is asked for with the same; no site hears them.

    aiohttp sends `proxy_headers` with tunnels alone.
    """
    url = URL(proxy.url)
    auth = aiohttp.BasicAuth("user", "secret") if given_as == "auth" else None
    headers = {"Proxy-Authorization": BASIC} if given_as == "header" else None
    if given_as == "url":
        url = url.with_user("user").with_password("secret")
    async with (
        crawler(web, gate.middleware) as session,
        session.get(f"{origin}/page", proxy=url, proxy_auth=auth, proxy_headers=headers) as response,
    ):
        assert response.status == 200
    told = [head.get("Proxy-Authorization") for head in proxy.heads]
    assert told == [None if given_as == "header" and origin == SITE else BASIC] * 2
    assert web.urls == [f"{origin}/robots.txt", f"{origin}/page"]
    assert not any("Proxy-Authorization" in visit.headers for visit in web.visits)


@pytest.mark.parametrize("door", ["fetch", "middleware"])
async def test_proxy_of_the_environment_serves_robots_txt(
    web: Web, open_gate: OpenGate, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, door: str
) -> None:
    """Where the crawler's session heeds it, though the gate may have another."""
    monkeypatch.setenv("http_proxy", proxy.url)
    if door == "fetch":
        async with crawler(web, trust_env=True) as session:
            assert (await (await open_gate(session=session)).fetch(PAGE)).status == 200
    else:
        async with crawler(web, (await open_gate()).middleware, trust_env=True) as session:
            assert await read(session, PAGE) == 200
    assert proxy.asked == web.urls == [ROBOTS, PAGE]


async def test_proxy_of_one_request_is_not_that_of_the_next(web: Web, gate: RobotGate, proxy: Proxy) -> None:
    """In the same task."""
    async with crawler(web, gate.middleware) as session:
        assert await read(session, PAGE, proxy=proxy.url) == 200
        assert await read(session, f"{OTHER}/page") == 200
        assert await gate.allowed("http://third.example/")
    assert proxy.asked == [ROBOTS, PAGE]
    assert web.urls[2:] == [f"{OTHER}/robots.txt", f"{OTHER}/page", "http://third.example/robots.txt"]


async def test_proxy_of_a_session_is_not_known_to_the_gates_own_questions(
    web: Web, gate: RobotGate, proxy: Proxy
) -> None:
    """As docs/proxies.md says: no request has shown it yet, and they ask directly."""
    sites = [f"http://site{number}.example" for number in range(6)]
    async with crawler(web, gate.middleware, proxy=proxy.url) as session:
        await gate.allowed(sites[0])
        await gate.check(sites[1])
        await gate.robots(sites[2])
        await gate.sitemaps(sites[3])
        async with gate.turn(sites[4]):
            pass
        async for turn in gate.ready([sites[5]]):
            turn.end()
        assert (proxy.asked, web.urls) == ([], [f"{site}/robots.txt" for site in sites])
        assert await read(session, f"{sites[0]}/page") == 200
    assert proxy.asked == [f"{sites[0]}/page"]


# ── robots.txt by the session itself


async def test_cookies_of_robots_txt_are_forgotten(web: Web, open_gate: OpenGate) -> None:
    """Neither stored, nor sent; those of pages are, to pages alone."""
    web.serve(ROBOTS, headers={"Set-Cookie": "robots=1; Path=/"})
    web.serve(PAGE, headers={"Set-Cookie": "page=1; Path=/"})
    async with aiohttp.ClientSession(connector=web.connector(), cookies={"mine": "1"}) as session:
        gate = await open_gate(session=session)
        await gate.fetch(PAGE)
        kept = {cookie.key for cookie in session.cookie_jar}
        await gate.fetch(f"{SITE}/next")
        await gate.robots(f"{SITE}:8080/")
    assert kept == {"mine", "page"}
    assert {
        part.partition("=")[0] for part in web.visit(f"{SITE}/next").headers["Cookie"].split("; ")
    } == kept
    for visit in web.visits:
        assert ("Cookie" in visit.headers) == (not visit.url.endswith("/robots.txt"))


async def test_headers_of_the_session_are_not_for_robots_txt(web: Web, open_gate: OpenGate) -> None:
    """Nor are those of the fetch; pages get them, by whatever name a site wants its keys."""
    web.redirect(ROBOTS, "/rules")
    web.redirect(f"{SITE}/rules", f"{OTHER}/rules")
    names = ["Authorization", "Cookie", "X-Api-Key", "Proxy-Authorization", "If-None-Match"]
    async with crawler(web, headers=dict.fromkeys([*names, "User-Agent", "From"], "secret")) as session:
        gate = await open_gate(session=session)
        await gate.fetch(PAGE, headers={"X-Mine": "secret"})
    assert [web.visit(PAGE).headers[name] for name in (*names, "X-Mine")] == ["secret"] * 6
    for url in (ROBOTS, f"{SITE}/rules", f"{OTHER}/rules"):
        headers = web.visit(url).headers
        ours = {"Host", "Accept", "Accept-Encoding", "Cache-Control", "User-Agent", "From"}
        assert set(headers) - {"Connection"} == ours
        assert "secret" not in headers.values()
        assert headers["Accept"].startswith("text/plain")


@pytest.mark.filterwarnings("ignore:Inheritance class .* is discouraged:DeprecationWarning")
async def test_session_of_another_class_is_not_asked_for_robots_txt(web: Web, open_gate: OpenGate) -> None:
    """It may answer from a cache of its own: its connector serves, and its proxy does not."""
    asked: list[str] = []

    class Caching(aiohttp.ClientSession):
        """Remembers too long."""

        async def _request(self, method: str, str_or_url: str | URL, **_: object) -> aiohttp.ClientResponse:
            asked.append(str(str_or_url))
            return await super()._request(method, str_or_url)

    async with Caching(connector=web.connector()) as session:
        gate = await open_gate(session=session)
        assert (await gate.fetch(PAGE)).status == 200
    assert asked == [PAGE]
    assert web.urls == [ROBOTS, PAGE]


async def test_session_that_is_closed_reads_no_robots_txt(web: Web, open_gate: OpenGate) -> None:
    """Its sites are closed, as those that cannot be reached; nothing breaks."""
    session = aiohttp.ClientSession(connector=web.connector())
    gate = await open_gate(session=session)
    await session.close()
    verdict = await gate.check(PAGE)
    assert not verdict.allowed
    assert "closed" in str(verdict.cause)
    assert web.visits == []


@pytest.mark.filterwarnings("ignore:BasicAuth is deprecated:DeprecationWarning")
@pytest.mark.parametrize("door", ["fetch", "middleware"])
async def test_netrc_is_not_for_robots_txt(
    web: Web, open_gate: OpenGate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, door: str
) -> None:
    """It goes with the page, where the session heeds the environment."""
    netrc = tmp_path / "netrc"
    netrc.write_text("default login user password secret\n", encoding="ascii")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    web.redirect(ROBOTS, "/moved.txt")
    if door == "fetch":
        async with crawler(web, trust_env=True) as session:
            await (await open_gate(session=session)).fetch(PAGE)
    else:
        async with crawler(web, (await open_gate()).middleware, trust_env=True) as session:
            await read(session, PAGE)
    assert [visit.headers.get("Authorization") for visit in web.visits] == [None, None, BASIC]


# ── what fails on the way

SQUID: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nX-Squid-Error: ERR_CONNECT_FAIL 111\r\nVia: 1.1 proxy (squid/5.7)\r\n"
    b"Content-Length: 0\r\n\r\n"
)
DENIED: Final = SQUID.replace(b"503 Service Unavailable", b"403 Forbidden").replace(
    b"CONNECT_FAIL 111", b"ACCESS_DENIED 0"
)
BAD_GATEWAY: Final = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"
NOTHING: Final = b""
FAULTS: Final = {"407": ASKS, "squid": SQUID, "denied": DENIED, "silence": NOTHING, "502": BAD_GATEWAY}


@pytest.mark.parametrize(
    ("page", "says"),
    # A 502 that is no answer to CONNECT may be the site's.
    [
        (PRIVATE, "407"),
        (PRIVATE, "squid"),
        (PRIVATE, "denied"),
        (PRIVATE, "silence"),
        *((f"{SECURE}/private", says) for says in FAULTS),
    ],
)
async def test_what_a_proxy_says_is_not_the_sites(  # noqa: PLR0917  # Fixtures.
    web: Web, open_gate: OpenGate, through: OpenGate, proxy: Proxy, tmp_path: Path, page: str, says: str
) -> None:
    """The site is closed for now, and asked again by the next page and by the next run: nothing is recorded of it."""
    web.serve(f"{page.removesuffix('private')}robots.txt", RULES)
    proxy.says = FAULTS[says]
    store = tmp_path / "cache.db"
    gate = await through(store=store)
    with pytest.raises(ProxyUnavailableError, match=rf"site\.example .* the proxy {proxy.url}") as caught:
        await gate.fetch(page)
    assert not isinstance(caught.value, HostUnavailableError)
    verdict = await gate.check(page)
    assert (verdict.allowed, verdict.reason) == (False, Reason.ROBOTS_TXT_UNREACHABLE)
    assert (verdict.proxy_failed, verdict.retry_after) == (True, 0)
    assert (await gate.refresh(page)).outcome is Outcome.PROXY
    view = gate.host(page)
    assert (view.access, view.unreachable_until_at, view.blocked_until_at) == (None, None, None)
    assert (view.failures, view.latency) == (0, None)
    assert gate.stats().origins_known == 0
    await gate.aclose()
    assert web.visits == []
    gate = await open_gate(store=store)
    with pytest.raises(DisallowedError):
        await gate.fetch(page)
    assert len(web.visits) == 1


async def test_what_may_be_a_proxys_is_not_for_the_next_run(
    web: Web, open_gate: OpenGate, through: OpenGate, proxy: Proxy, tmp_path: Path
) -> None:
    """A plain 502 for http closes the site for this run, which asks again in a minute; the store is not told."""
    web.serve(ROBOTS, RULES)
    proxy.says = BAD_GATEWAY
    store = tmp_path / "cache.db"
    gate = await through(store=store)
    for _ in range(2):
        with pytest.raises(HostUnavailableError, match="HTTP status 502"):
            await gate.fetch(PRIVATE)
    await gate.aclose()
    gate = await open_gate(store=store)
    with pytest.raises(DisallowedError):
        await gate.fetch(PRIVATE)
    assert len(web.visits) == 1


@pytest.mark.parametrize("policy", StatusPolicy)
async def test_known_rules_outlive_a_proxys_407(
    web: Web, through: OpenGate, proxy: Proxy, policy: StatusPolicy
) -> None:
    """At a refresh they stay as they are, and once they have expired they hold on as the last good copy."""
    web.serve(ROBOTS, RULES)
    clock = LaterClock()
    gate = await through(clock=clock, status_policy=policy)
    fresh = await gate.refresh(PAGE)
    proxy.says = ASKS
    assert (await gate.refresh(PAGE)).cause is not None
    view = gate.host(PAGE)
    assert (view.access, view.fresh_until_at) == (HostAccess.CONTROLLED, fresh.fresh_until_at)
    clock.offset = 100_000
    with pytest.raises(DisallowedError) as caught:
        await gate.fetch(PRIVATE)
    assert caught.value.verdict.stale
    with pytest.raises(ProxyUnavailableError):
        await gate.fetch(PAGE)
    proxy.says = None
    assert (await gate.fetch(PAGE)).status == 200
    assert gate.host(PAGE).checked_at == pytest.approx(clock.now(), abs=1000)


@pytest.mark.parametrize("page", [PAGE, f"{SECURE}/page"])
async def test_dead_proxy_closes_no_site(web: Web, gate: RobotGate, page: str) -> None:
    """Whichever way is taken next finds the site as it is."""
    dead = f"http://user:secret@127.0.0.1:{unused_port()}"
    with pytest.raises(ProxyUnavailableError) as caught:
        await gate.fetch(page, proxy=dead)
    assert dead.replace("user:secret@", "") in str(caught.value)
    assert "secret" not in str(caught.value)
    assert web.visits == []
    assert (await gate.fetch(page)).status == 200
    with pytest.raises(ProxyUnavailableError):
        await gate.fetch(page, proxy=dead)
    assert gate.host(page).unreachable_until_at is None
    assert (await gate.fetch(page)).status == 200


async def test_site_that_hangs_up_within_tls_is_not_its_proxy(web: Web, through: OpenGate) -> None:
    """The tunnel and the handshake were made: it is the site that does not answer, and it is left alone for a while."""
    web.handle(f"{SECURE}/robots.txt", hang_up())
    gate = await through()
    for _ in range(3):
        verdict = await gate.check(f"{SECURE}/page")
        assert (verdict.reason, verdict.proxy_failed) == (Reason.ROBOTS_TXT_UNREACHABLE, False)
    # aiohttp's kept connections may have been closed meanwhile: one more attempt.
    assert web.count(f"{SECURE}/robots.txt") == 2


async def test_page_that_hangs_up_within_tls_is_not_its_proxys(web: Web, through: OpenGate) -> None:
    """Another proxy would not help: the error is that of a page without a proxy."""
    web.handle(f"{SECURE}/page", hang_up())
    gate = await through()
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await gate.fetch(f"{SECURE}/page")


async def test_page_is_answered_by_its_own_proxy(gate: RobotGate, proxy: Proxy) -> None:
    """Of two pages that ask for a robots.txt at once, one has a proxy that is down: the other is fetched."""
    dead = f"http://127.0.0.1:{unused_port()}"
    failed, fetched = await asyncio.gather(
        gate.fetch(PAGE, proxy=dead), gate.fetch(PAGE, proxy=proxy.url), return_exceptions=True
    )
    assert isinstance(failed, ProxyUnavailableError)
    assert dead in str(failed)
    assert not isinstance(fetched, BaseException)
    assert fetched.status == 200


@pytest.mark.parametrize("says", [ASKS, SQUID, DENIED], ids=["407", "squid", "denied"])
@pytest.mark.parametrize("door", ["fetch", "stream", "middleware", "turn"])
async def test_page_that_a_proxy_answers_is_none(
    web: Web, through: OpenGate, proxy: Proxy, door: str, says: bytes
) -> None:
    """It is an error, or for a client of yours a report that is not heard: no block, no latency, no status."""
    gate = await through()
    gate.learn(PAGE, b"")
    proxy.says = says
    async with crawler(web, gate.middleware, proxy=proxy.url) as session:
        if door == "turn":
            async with gate.turn(PAGE) as turn:
                turn.report(407, {"Retry-After": "100"})
                assert turn.status is None
        else:
            with pytest.raises(ProxyUnavailableError, match=proxy.url):
                await text(gate, PAGE, door, session)
    view = gate.host(PAGE)
    assert (view.open_turns, view.failures, view.latency) == (0, 0, None)
    assert (view.blocked_until_at, view.unreachable_until_at) == (None, None)


async def test_407_is_no_answer_of_a_site_that_nobody_stands_before(web: Web, gate: RobotGate) -> None:
    """RFC 9110 §15.5.8: whoever sends it speaks as a proxy, and it opens no site."""
    web.serve(ROBOTS, RULES, status=407)
    with pytest.raises(ProxyUnavailableError, match="a proxy on the way asks for credentials"):
        await gate.fetch(PAGE)
    assert not await gate.allowed(PAGE)
    web.serve(ROBOTS, RULES)
    assert await gate.allowed(PAGE)


async def test_503_of_a_site_behind_a_proxy_is_the_sites(through: OpenGate, proxy: Proxy) -> None:
    """What may be the site's own counts as that: a page of a Squid at the site, or one that asks for a pause."""
    gate = await through(max_block=1)
    for number, more in enumerate((b"Retry-After: 100\r\nX-Squid", b"Via: 1.1 site (squid)\r\nX-Squid")):
        page = f"http://s{number}.example/page"
        gate.learn(page, b"")
        proxy.says = SQUID.replace(b"X-Squid", more)
        assert (await gate.fetch(page)).status == 503
        assert gate.host(page).blocked_until_at is not None


async def test_failing_proxy_is_tried_again(through: OpenGate, proxy: Proxy) -> None:
    """By `retries`, after a pause."""
    proxy.says = ASKS
    asyncio.get_running_loop().call_later(0.5, setattr, proxy, "says", None)
    gate = await through()
    assert (await gate.fetch(PAGE, retries=5)).status == 200


NO_WAY: Final = (b"\x05\x00", b"\x05\x04\x00\x01\0\0\0\0\0\0")


@pytest.mark.parametrize("replies", [(), (b"\x05\xff",), NO_WAY], ids=["hangs up", "credentials", "no way"])
async def test_socks_errors_are_the_proxys(open_gate: OpenGate, replies: tuple[bytes, ...]) -> None:
    """Those of a SOCKS library, too, which are no errors of aiohttp."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # What is not read would reset the connection.
        await reader.read(1000 if not replies else 0)
        for reply in replies:
            await reader.read(1000)
            writer.write(reply)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, aiohttp.ClientSession(connector=ProxyConnector("127.0.0.1", port)) as session:
        gate = await open_gate(session=session, delay=0)
        for _ in range(2):
            with pytest.raises(ProxyUnavailableError, match=f"127.0.0.1:{port}"):
                await gate.fetch(PAGE)
            assert gate.host(PAGE).unreachable_until_at is None
            gate.learn(PAGE, b"")


async def test_proxy_that_fails_leaves_the_tdmrep_file_unknown(
    web: Web, through: OpenGate, proxy: Proxy
) -> None:
    """As a robots.txt: the next page asks for it again."""
    web.serve(f"{SITE}/.well-known/tdmrep.json", '[{"location": "/page", "tdm-reservation": 1}]')
    gate = await through(tdmrep=True)
    gate.learn(PAGE, b"")
    proxy.says = ASKS
    with pytest.raises(ProxyUnavailableError):
        await gate.fetch(PAGE)
    proxy.says = None
    tdmrep = (await gate.fetch(PAGE)).tdmrep
    assert tdmrep is not None
    assert len(tdmrep.rules) == 1
