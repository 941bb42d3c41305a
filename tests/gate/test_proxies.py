"""Proxies: what goes through them, robots.txt included, and who gets whose credentials. A real forward proxy counts."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from aiohttp import web as aioweb
from multidict import CIMultiDict
from yarl import URL

from robotgate import RobotGate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path
    from types import SimpleNamespace

    from tests.conftest import OpenGate
    from tests.gate.servers import Web

SITE: Final = "http://site.example"
ROBOTS: Final = f"{SITE}/robots.txt"
PAGE: Final = f"{SITE}/page"
SECURE: Final = "https://site.example"
OTHER: Final = "http://other.example"
BASIC: Final = "Basic dXNlcjpzZWNyZXQ="

pytestmark = [
    # aiohttp 3.14 deprecates what crawlers still use, and what works until aiohttp 4.
    pytest.mark.filterwarnings("ignore:BasicAuth is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The 'proxy_auth' parameter is deprecated:DeprecationWarning"),
]


@dataclass(slots=True)
class Proxy:
    """Passes requests on to the web of a test, and tunnels; it tells all sites from each other, as a proxy does."""

    web: Web
    port: int = 0
    asked: list[str] = field(default_factory=list)
    """What it was asked for, in order; of a tunnel, the host and the port."""
    heads: list[CIMultiDict[str]] = field(default_factory=list)
    """The headers it was asked with."""

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, one request."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            method, target, headers = parsed((await reader.readuntil(b"\r\n\r\n")).decode())
            self.asked.append(target)
            self.heads.append(headers)
            port = self.web.tls_port if method == "CONNECT" else self.web.port
            from_site, to_site = await asyncio.open_connection("127.0.0.1", port)
            if method == "CONNECT":
                writer.write(b"HTTP/1.1 200 Go on\r\n\r\n")
            else:
                kept = [f"{name}: {value}" for name, value in headers.items() if not is_for_us(name)]
                path = URL(target).raw_path_qs
                head = [f"{method} {path} HTTP/1.1", *kept, "Connection: close", "", ""]
                to_site.write("\r\n".join(head).encode())
            await asyncio.gather(relay(reader, to_site), relay(from_site, writer))
        writer.close()


def parsed(head: str) -> tuple[str, str, CIMultiDict[str]]:
    """Method, target and headers of a request."""
    first, *lines = head.strip().split("\r\n")
    method, target, _ = first.split()
    headers: CIMultiDict[str] = CIMultiDict()
    for line in lines:
        name, _, value = line.partition(": ")
        headers.add(name, value)
    return method, target, headers


def is_for_us(name: str) -> bool:
    """Whether a header ends at the proxy."""
    return name.lower() in {"proxy-authorization", "proxy-connection", "connection"}


async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes on until there are no more."""
    with suppress(ConnectionError):
        while octets := await reader.read(65_536):
            writer.write(octets)
            await writer.drain()
    writer.close()


@pytest.fixture
async def proxy(web: Web) -> AsyncIterator[Proxy]:
    """A proxy, and every site behind it."""
    proxy = Proxy(web)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    async with server:
        yield proxy


@asynccontextmanager
async def crawler(
    web: Web, gate: RobotGate, *, proxy: str | None = None, trust_env: bool = False
) -> AsyncIterator[aiohttp.ClientSession]:
    """A session with the gate's middleware."""
    async with aiohttp.ClientSession(
        connector=web.connector(), middlewares=[gate.middleware], proxy=proxy, trust_env=trust_env
    ) as session:
        yield session


async def read(session: aiohttp.ClientSession, url: str, *, proxy: str | None = None) -> int:
    """A page's status."""
    async with asyncio.timeout(60), session.get(url, proxy=proxy) as response:
        await response.read()
        return response.status


# ── the session of the gate


async def test_proxy_of_the_session_serves_pages_and_robots_txt(
    web: Web, open_gate: OpenGate, proxy: Proxy
) -> None:
    """The gate sends nothing past the proxy of a request, hops and other hosts included."""
    web.redirect(PAGE, f"{OTHER}/there")
    async with aiohttp.ClientSession(connector=web.connector(), proxy=proxy.url) as session:
        gate = await open_gate(session=session)
        assert (await gate.fetch(PAGE)).status == 200
    assert proxy.asked == [ROBOTS, PAGE, f"{OTHER}/robots.txt", f"{OTHER}/there"]
    assert web.urls == proxy.asked


async def test_tunnel_serves_pages_and_robots_txt(web: Web, open_gate: OpenGate, proxy: Proxy) -> None:
    """What goes by TLS goes through a tunnel."""
    async with aiohttp.ClientSession(connector=web.connector(), proxy=proxy.url) as session:
        gate = await open_gate(session=session)
        assert (await gate.fetch(f"{SECURE}/page")).status == 200
    assert set(proxy.asked) == {"site.example:443"}
    assert web.urls == [f"{SECURE}/robots.txt", f"{SECURE}/page"]


async def test_proxy_of_the_session_is_told_its_credentials(
    web: Web, open_gate: OpenGate, proxy: Proxy
) -> None:
    """For robots.txt as for pages; no site hears them."""
    async with aiohttp.ClientSession(
        connector=web.connector(), proxy=proxy.url, proxy_auth=aiohttp.BasicAuth("user", "secret")
    ) as session:
        gate = await open_gate(session=session)
        assert (await gate.fetch(PAGE)).status == 200
    assert [head["Proxy-Authorization"] for head in proxy.heads] == [BASIC, BASIC]
    assert not any("Proxy-Authorization" in visit.headers for visit in web.visits)


async def test_proxy_of_the_environment_serves_both(
    web: Web, open_gate: OpenGate, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the session heeds it."""
    monkeypatch.setenv("http_proxy", proxy.url)
    async with aiohttp.ClientSession(connector=web.connector(), trust_env=True) as session:
        gate = await open_gate(session=session)
        assert (await gate.fetch(PAGE)).status == 200
    assert proxy.asked == [ROBOTS, PAGE]
    assert web.urls == proxy.asked


async def test_proxy_of_one_fetch_serves_its_tdmrep_file(web: Web, open_gate: OpenGate, proxy: Proxy) -> None:
    """With `tdmrep=True`, in the same way as robots.txt."""
    gate = await open_gate(tdmrep=True)
    assert (await gate.fetch(PAGE, proxy=proxy.url)).status == 200
    assert proxy.asked == [ROBOTS, f"{SITE}/.well-known/tdmrep.json", PAGE]
    assert len(web.urls) == 3


async def test_proxy_of_one_fetch_serves_its_robots_txt(
    web: Web, open_gate: OpenGate, session: aiohttp.ClientSession, proxy: Proxy
) -> None:
    """As through the middleware; the next fetch goes its own way."""
    gate = await open_gate(session=session, delay=0)
    assert (await gate.fetch(PAGE, proxy=proxy.url)).status == 200
    assert proxy.asked == [ROBOTS, PAGE]
    assert (await gate.fetch(PAGE)).status == 200
    assert proxy.asked == [ROBOTS, PAGE]
    assert web.urls == [ROBOTS, PAGE, PAGE]


class MovingClock:
    """The day's time, which the test puts forward."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time() + self.ahead


async def test_proxy_of_one_fetch_serves_what_a_second_attempt_asks_for(web: Web, proxy: Proxy) -> None:
    """Rules that are out of date by then are asked for by the way of the page as well."""
    clock = MovingClock()

    async def answer(_: aioweb.Request) -> aioweb.StreamResponse:
        if web.count(PAGE) > 1:
            return aioweb.Response(text="a page")
        clock.ahead = 100_000.0
        return aioweb.Response(status=500)

    async def once_more(
        request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        response = await handler(request)
        return response if response.status < 500 else await handler(request)

    web.handle(PAGE, answer)
    async with (
        aiohttp.ClientSession(connector=web.connector()) as session,
        RobotGate("ExampleBot/1.0", contact="bot@example.org", session=session, delay=0, clock=clock) as gate,
    ):
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
        async with crawler(web, gate) as crawling:
            assert (await gate.fetch(PAGE, proxy=proxy.url)).status == 200
            assert await tasks[0] == 200
    assert proxy.asked == [ROBOTS, PAGE]
    assert web.count(f"{OTHER}/robots.txt") == 1


# ── the middleware


@pytest.mark.parametrize("given_to", ["session", "request"])
async def test_proxy_of_a_request_serves_its_robots_txt(
    web: Web, gate: RobotGate, proxy: Proxy, given_to: str
) -> None:
    """The gate's own session knows nothing of it: the request that asks tells."""
    web.redirect(PAGE, f"{OTHER}/there")
    of_session, of_request = (proxy.url, None) if given_to == "session" else (None, proxy.url)
    async with crawler(web, gate, proxy=of_session) as session:
        assert await read(session, PAGE, proxy=of_request) == 200
    assert proxy.asked == [ROBOTS, PAGE, f"{OTHER}/robots.txt", f"{OTHER}/there"]
    assert web.urls == proxy.asked


async def test_proxy_that_redirected_robots_txt_goes_through(web: Web, gate: RobotGate, proxy: Proxy) -> None:
    """At every hop."""
    web.redirect(ROBOTS, f"{OTHER}/rules")
    async with crawler(web, gate, proxy=proxy.url) as session:
        assert await read(session, PAGE) == 200
    assert proxy.asked == [ROBOTS, f"{OTHER}/rules", PAGE]
    assert web.urls == proxy.asked


async def test_tunnel_of_a_request_serves_its_robots_txt(web: Web, gate: RobotGate, proxy: Proxy) -> None:
    """By TLS."""
    async with crawler(web, gate, proxy=proxy.url) as session:
        assert await read(session, f"{SECURE}/page") == 200
    assert proxy.asked == ["site.example:443"] * 2
    assert web.urls == [f"{SECURE}/robots.txt", f"{SECURE}/page"]


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
        crawler(web, gate) as session,
        session.get(f"{origin}/page", proxy=url, proxy_auth=auth, proxy_headers=headers) as response,
    ):
        assert response.status == 200
    told = [head.get("Proxy-Authorization") for head in proxy.heads]
    assert told == [None if given_as == "header" and origin == SITE else BASIC] * 2
    assert web.urls == [f"{origin}/robots.txt", f"{origin}/page"]
    assert not any("Proxy-Authorization" in visit.headers for visit in web.visits)


async def test_proxy_of_the_environment_serves_the_robots_txt_of_a_request(
    web: Web, gate: RobotGate, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the crawler's session heeds it, though that of the gate does not."""
    monkeypatch.setenv("http_proxy", proxy.url)
    async with crawler(web, gate, trust_env=True) as session:
        assert await read(session, PAGE) == 200
    assert proxy.asked == [ROBOTS, PAGE]
    assert web.urls == proxy.asked


async def test_proxy_of_one_request_is_not_that_of_the_next(web: Web, gate: RobotGate, proxy: Proxy) -> None:
    """In the same task."""
    async with crawler(web, gate) as session:
        assert await read(session, PAGE, proxy=proxy.url) == 200
        assert await read(session, f"{OTHER}/page") == 200
        assert await gate.allowed("http://third.example/")
    assert proxy.asked == [ROBOTS, PAGE]
    assert web.urls[2:] == [f"{OTHER}/robots.txt", f"{OTHER}/page", "http://third.example/robots.txt"]


@pytest.mark.parametrize("question", ["allowed", "check", "robots", "sitemaps", "turn", "ready"])
async def test_proxy_of_a_session_is_not_known_to_the_gates_own_questions(
    web: Web, gate: RobotGate, proxy: Proxy, question: str
) -> None:
    """As docs/proxies.md says: no request has shown it yet, and they ask directly."""
    async with crawler(web, gate, proxy=proxy.url) as session:
        if question == "turn":
            async with gate.turn(PAGE):
                pass
        elif question == "ready":
            async for turn in gate.ready([PAGE]):
                turn.end()
        else:
            await getattr(gate, question)(PAGE)
        assert (proxy.asked, web.urls) == ([], [ROBOTS])
        assert await read(session, PAGE) == 200
    assert proxy.asked == [PAGE]


async def test_proxy_that_is_gone_closes_the_site(web: Web, gate: RobotGate, proxy: Proxy) -> None:
    """Nothing goes past it."""
    async with crawler(web, gate, proxy="http://127.0.0.1:9") as session:
        with pytest.raises(aiohttp.ClientError):
            await read(session, PAGE)
    assert web.visits == []
    assert proxy.asked == []


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


@pytest.mark.parametrize("session_kind", ["own", "passed in"])
async def test_cookies_of_robots_txt_are_forgotten_by_the_gates_own_session(
    web: Web, open_gate: OpenGate, session_kind: str
) -> None:
    """Which keeps those of pages."""
    origin = f"http://127.0.0.1:{web.port}"
    web.serve(f"{origin}/robots.txt", headers={"Set-Cookie": "robots=1; Path=/"})
    web.serve(f"{origin}/page", headers={"Set-Cookie": "page=1; Path=/"})
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        gate = await open_gate(
            session=None if session_kind == "own" else session, allow_private_addresses=True
        )
        await gate.fetch(f"{origin}/page")
        await gate.fetch(f"{origin}/next")
    sent = web.visit(f"{origin}/next").headers.get("Cookie")
    # A jar is for names, unless it is told otherwise.
    assert sent == (None if session_kind == "own" else "page=1")


@pytest.mark.parametrize("name", ["Authorization", "Cookie", "X-Api-Key", "Proxy-Authorization", "Referer"])
async def test_headers_of_the_session_are_not_for_robots_txt(
    web: Web, open_gate: OpenGate, name: str
) -> None:
    """None of them, by whatever name a site wants its keys; pages get them, at the first hop and within its origin."""
    web.redirect(ROBOTS, "/rules")
    async with aiohttp.ClientSession(connector=web.connector(), headers={name: "secret"}) as session:
        gate = await open_gate(session=session)
        await gate.fetch(PAGE)
    assert web.visit(PAGE).headers[name] == "secret"
    for url in (ROBOTS, f"{SITE}/rules"):
        assert set(web.visit(url).headers) - {"Connection"} == {
            "Host",
            "Accept",
            "Accept-Encoding",
            "User-Agent",
            "From",
        }


async def test_session_that_raises_for_status_reads_robots_txt(web: Web, open_gate: OpenGate) -> None:
    """A file that is missing is an answer."""
    async with aiohttp.ClientSession(connector=web.connector(), raise_for_status=True) as session:
        gate = await open_gate(session=session)
        assert (await gate.fetch(PAGE)).status == 200
    assert web.urls == [ROBOTS, PAGE]


async def test_session_with_a_base_reads_robots_txt(web: Web, open_gate: OpenGate) -> None:
    """Of whatever host."""
    async with aiohttp.ClientSession(f"{SITE}/base/", connector=web.connector()) as session:
        gate = await open_gate(session=session)
        for url in (PAGE, f"{OTHER}/page"):
            assert (await gate.fetch(url)).status == 200
    assert web.urls == [ROBOTS, PAGE, f"{OTHER}/robots.txt", f"{OTHER}/page"]


async def test_middlewares_of_the_session_are_not_for_robots_txt(web: Web, open_gate: OpenGate) -> None:
    """One that signs requests, say, or that sends some elsewhere."""

    async def sign(
        request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        request.headers["Authorization"] = "signed"
        return await handler(request)

    async with aiohttp.ClientSession(connector=web.connector(), middlewares=[sign]) as session:
        gate = await open_gate(session=session)
        await gate.fetch(PAGE)
    assert web.visit(PAGE).headers["Authorization"] == "signed"
    assert "Authorization" not in web.visit(ROBOTS).headers


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
async def test_netrc_is_not_for_robots_txt_of_the_middleware(
    web: Web, gate: RobotGate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes with the page."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine site.example login user password secret\n", encoding="ascii")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    async with crawler(web, gate, trust_env=True) as session:
        assert await read(session, PAGE) == 200
    assert web.visit(PAGE).headers["Authorization"] == BASIC
    assert "Authorization" not in web.visit(ROBOTS).headers


async def test_robots_txt_of_a_redirect_through_the_proxy_keeps_cookies_apart(
    web: Web, gate: RobotGate, proxy: Proxy
) -> None:
    """A crawler's cookies are for its pages, whichever way they go."""

    async def answer(request: aioweb.Request) -> aioweb.StreamResponse:
        assert "Cookie" not in request.headers
        return aioweb.Response(text="User-agent: *\nDisallow: /private")

    web.handle(ROBOTS, answer)
    async with aiohttp.ClientSession(
        connector=web.connector(), middlewares=[gate.middleware], proxy=proxy.url, cookies={"mine": "1"}
    ) as session:
        assert await read(session, PAGE) == 200
    assert proxy.asked == [ROBOTS, PAGE]
    assert web.visit(PAGE).headers["Cookie"] == "mine=1"
