"""A gate on the caller's session, or on its own: what of the session counts for pages, redirects and robots.txt."""

from __future__ import annotations

import asyncio
import gzip
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web as aioweb

from robotgate import AccessResult
from robotgate.events import TurnBegan, TurnEnded

if TYPE_CHECKING:
    from pathlib import Path
    from types import SimpleNamespace

    from tests.conftest import OpenGate
    from tests.gate.servers import Web

    from robotgate.events import Event

SITE = "http://site.example"
ROBOTS = f"{SITE}/robots.txt"
PAGE = f"{SITE}/page"
OTHER = "http://other.example"
BASIC = "Basic dXNlcjpzZWNyZXQ="
MEBIBYTE = 1024 * 1024


@pytest.mark.parametrize("name", ["Authorization", "cookie", "Proxy-Authorization"])
async def test_credentials_in_headers_of_the_session_do_not_cross_origins(
    web: Web, open_gate: OpenGate, name: str
) -> None:
    """Its other headers do."""
    async with aiohttp.ClientSession(
        connector=web.connector(), headers={name: "secret", "X-Mine": "1"}
    ) as session:
        gate = await open_gate(session=session)
        web.redirect(PAGE, "/moved")
        web.redirect(f"{SITE}/moved", f"{OTHER}/there")
        await gate.fetch(PAGE)
    for url in (PAGE, f"{SITE}/moved"):
        assert web.visit(url).headers[name] == "secret"
    there = web.visit(f"{OTHER}/there")
    assert there.headers.get(name, "") == ""
    assert there.headers["X-Mine"] == "1"


@pytest.mark.parametrize("crosses", [False, True])
@pytest.mark.parametrize("has_credentials", [False, True])
async def test_session_works_alike_for_every_hop(
    web: Web, open_gate: OpenGate, *, crosses: bool, has_credentials: bool
) -> None:
    """Cookies, headers, tracing, middlewares: credentials apart, another origin makes no difference."""
    traced: list[str] = []
    passed: list[str] = []

    async def trace(
        _: aiohttp.ClientSession, __: SimpleNamespace, started: aiohttp.TraceRequestStartParams
    ) -> None:
        traced.append(str(started.url))

    async def note(
        request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        passed.append(str(request.url))
        return await handler(request)

    tracing = aiohttp.TraceConfig()
    tracing.on_request_start.append(trace)
    target = f"{OTHER if crosses else SITE}/there"
    web.redirect(PAGE, target)
    async with aiohttp.ClientSession(
        connector=web.connector(),
        headers={"Authorization": "Bearer x"} if has_credentials else {},
        trace_configs=[tracing],
        middlewares=[note],
    ) as session:
        gate = await open_gate(session=session)
        await gate.fetch(PAGE)
    # What goes through the session's proxy and to its traces is all that is sent; its middlewares are for pages.
    assert set(traced) == set(web.urls) - {target}
    assert passed == [PAGE, target]


@pytest.mark.parametrize("crosses", [False, True])
async def test_proxy_of_the_session_is_used_for_every_hop(
    web: Web, open_gate: OpenGate, *, crosses: bool
) -> None:
    """Who crawls through a proxy has reasons: no page goes past it because its host changed."""
    proxied: list[str] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        url = head.split()[1]
        proxied.append(url)
        location = f"{OTHER if crosses else SITE}/there"
        status = f"302 Found\r\nLocation: {location}" if url == PAGE else "200 OK"
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        writer.close()

    server = await asyncio.start_server(proxy, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with (
        server,
        aiohttp.ClientSession(
            connector=web.connector(), proxy=f"http://127.0.0.1:{port}", headers={"Authorization": "x"}
        ) as session,
    ):
        gate = await open_gate(session=session)
        for url in (PAGE, f"{OTHER}/"):
            gate.learn(url, b"")
        await gate.fetch(PAGE)
    assert proxied == [PAGE, f"{OTHER if crosses else SITE}/there"]
    assert web.visits == []


@pytest.mark.parametrize("crosses", [False, True])
async def test_body_stays_compressed_if_the_session_says_so(
    web: Web, open_gate: OpenGate, *, crosses: bool
) -> None:
    """`auto_decompress=False` is for the pages, of whatever hop; robots.txt is read all the same."""
    octets = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    target = f"{OTHER if crosses else SITE}/there"
    web.redirect(PAGE, target)
    web.serve(target, octets, headers={"Content-Encoding": "gzip"})
    async with aiohttp.ClientSession(
        connector=web.connector(), auto_decompress=False, headers={"Authorization": "x"}
    ) as session:
        gate = await open_gate(session=session)
        response = await gate.fetch(PAGE)
    assert response.body == octets


@pytest.mark.parametrize("limit", [1, 3])
async def test_limit_of_the_connector_bounds_the_gate(web: Web, open_gate: OpenGate, limit: int) -> None:
    """Requests wait in the gate, before their turn, and not in the connector, after it."""
    open_turns = [0]

    def count(event: Event) -> None:
        open_turns.append(open_turns[-1] + (1 if isinstance(event, TurnBegan) else -1))

    async with aiohttp.ClientSession(connector=web.connector(limit=limit)) as session:
        gate = await open_gate(session=session, delay=0.05)
        gate.subscribe(count, TurnBegan, TurnEnded)
        pages = [f"http://host{number}.example/page" for number in range(8)]
        for page in pages:
            web.serve(page, takes=0.02)
        await asyncio.gather(*(gate.fetch(page) for page in pages))
    assert web.peak() == limit
    assert len(open_turns) == 1 + 2 * len(pages)
    assert max(open_turns) <= limit


async def test_limit_per_host_of_the_connector_bounds_the_lane(web: Web, open_gate: OpenGate) -> None:
    """More slots than connections would start turns that cannot be used."""
    async with aiohttp.ClientSession(connector=web.connector(limit_per_host=1)) as session:
        gate = await open_gate(session=session, concurrency_per_host=4)
        for number in range(4):
            web.serve(f"{PAGE}/{number}", takes=0.05)
        await asyncio.gather(*(gate.fetch(f"{PAGE}/{number}") for number in range(4)))
    assert web.peak() == 1


async def test_sites_beyond_the_connectors_limit_all_get_their_answer(web: Web, open_gate: OpenGate) -> None:
    """Robots.txt and pages share a small connector without waiting for each other for ever."""
    async with aiohttp.ClientSession(connector=web.connector(limit=2)) as session:
        gate = await open_gate(session=session)
        async with asyncio.timeout(60):
            pages = await asyncio.gather(*(gate.fetch(f"http://host{n}.example/") for n in range(40)))
    assert {page.status for page in pages} == {200}
    assert len(web.visits) == 80


async def test_own_session_is_opened_and_closed(web: Web, open_gate: OpenGate) -> None:
    """Without a session the gate brings one, and takes it along."""
    gate = await open_gate(session=None, allow_private_addresses=True)
    origin = f"http://127.0.0.1:{web.port}"
    web.serve(f"{origin}/robots.txt", "User-agent: *\nDisallow: /private")
    assert (await gate.fetch(f"{origin}/page")).text == "a page"
    assert not await gate.allowed(f"{origin}/private")
    await gate.aclose()
    assert web.counts() == {f"{origin}/robots.txt": 1, f"{origin}/page": 1}


async def test_own_session_finds_localhost(web: Web, open_gate: OpenGate) -> None:
    """By the system's resolver, a thread for each name."""
    gate = await open_gate(session=None, allow_private_addresses=True)
    response = await gate.fetch(f"http://localhost:{web.port}/page")
    assert response.status == 200
    assert web.urls == [f"http://localhost:{web.port}/robots.txt", f"http://localhost:{web.port}/page"]


async def test_name_that_does_not_exist_is_an_unreachable_host(open_gate: OpenGate) -> None:
    """RFC 6761 §6.4 keeps `.invalid` for this; where no resolver answers, that is a failure too."""
    gate = await open_gate(session=None)
    verdict = await gate.check("http://no-such-host.invalid/")
    assert not verdict.allowed
    assert verdict.status is None


async def test_connections_are_kept_alive(
    web: Web, open_gate: OpenGate, session: aiohttp.ClientSession
) -> None:
    """Robots.txt and pages of one origin, redirects included, come over one connection."""
    peers: set[object] = set()

    async def answer(request: aioweb.Request) -> aioweb.StreamResponse:
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        if request.path == "/page":
            return aioweb.Response(status=302, headers={"Location": "/there"}, body=b"moved")
        return aioweb.Response(text="")

    for path in ("robots.txt", "page", "there"):
        web.handle(f"{SITE}/{path}", answer)
    gate = await open_gate(session=session)
    await gate.fetch(PAGE)
    assert len(web.visits) == 3
    assert len(peers) == 1


async def test_relative_url_is_refused_though_the_session_has_a_base(web: Web, open_gate: OpenGate) -> None:
    """What is judged has to be a whole URL."""
    async with aiohttp.ClientSession(f"{SITE}/", connector=web.connector()) as session:
        gate = await open_gate(session=session)
        with pytest.raises(ValueError, match="not an absolute"):
            await gate.fetch("/page")
        assert (await gate.fetch(PAGE)).url == PAGE


@pytest.mark.filterwarnings("ignore:BasicAuth is deprecated:DeprecationWarning")
async def test_credentials_of_a_netrc_file_are_not_for_robots_txt(
    web: Web, open_gate: OpenGate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that heeds the environment sends them with the page, which shows that they were found."""
    netrc = tmp_path / "netrc"
    netrc.write_text(
        "machine site.example login user password secret\ndefault login user password secret\n",
        encoding="ascii",
    )
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    async with aiohttp.ClientSession(connector=web.connector(), trust_env=True) as session:
        gate = await open_gate(session=session)
        web.redirect(ROBOTS, "/moved.txt")
        await gate.fetch(PAGE)
    assert web.visit(PAGE).headers["Authorization"] == BASIC
    for url in (ROBOTS, f"{SITE}/moved.txt"):
        assert "Authorization" not in web.visit(url).headers


RULES = "User-agent: *\nDisallow: /private"
LONG_HEAD = {"Content-Security-Policy": "x" * 60_000, **{f"X-{number}": "1" for number in range(480)}}


@pytest.mark.filterwarnings("ignore:Inheritance class:DeprecationWarning")
@pytest.mark.parametrize("kind", ["the gate's own", "another", "of another class"])
async def test_long_heads_close_no_site(web: Web, open_gate: OpenGate, kind: str) -> None:
    """The gate's own sessions take lines of 64 KiB and 500 of them; another's robots.txt has its limits."""
    # Beside a session of another class, robots.txt is requested by one of the gate's.
    classes = {
        "another": aiohttp.ClientSession,
        "of another class": type("Own", (aiohttp.ClientSession,), {}),
    }
    site = f"http://127.0.0.1:{web.port}"
    for path in ("robots.txt", "page"):
        web.serve(f"{site}/{path}", RULES, headers=LONG_HEAD)
    session = None
    if kind in classes:
        session = classes[kind](connector=web.connector(), max_field_size=65_536, max_headers=500)
    gate = await open_gate(session=session, allow_private_addresses=True)
    assert not await gate.allowed(f"{site}/private")
    assert (await gate.fetch(f"{site}/page")).status == 200
    if session is not None:
        await session.close()


@pytest.mark.parametrize(
    "headers", [{"Link": "x" * 10_000}, {f"X-{number}": "1" for number in range(150)}], ids=["long", "many"]
)
async def test_long_heads_of_robots_txt_beside_the_middleware(
    web: Web, open_gate: OpenGate, headers: dict[str, str]
) -> None:
    """The session of the pages may have other limits than the gate's."""
    site = f"http://127.0.0.1:{web.port}"
    web.serve(f"{site}/robots.txt", RULES, headers=headers)
    gate = await open_gate(session=None, allow_private_addresses=True)
    async with (
        aiohttp.ClientSession(connector=web.connector(), middlewares=[gate.middleware]) as session,
        session.get(f"{site}/page") as response,
    ):
        assert response.status == 200


async def test_limits_of_a_session_hold_for_robots_txt(web: Web, open_gate: OpenGate) -> None:
    """Lower ones as well: what it does not take is a failure, which opens nothing."""
    web.serve(ROBOTS, RULES, headers={"Link": "x" * 10_000})
    web.serve(f"{OTHER}/robots.txt", RULES, headers={"Link": "x" * 3_000})
    async with aiohttp.ClientSession(connector=web.connector(), max_field_size=5_000) as session:
        gate = await open_gate(session=session)
        assert (await gate.check(PAGE)).access is AccessResult.UNREACHABLE
        assert await gate.allowed(f"{OTHER}/page")


async def test_head_beyond_all_limits_closes_the_site(web: Web, open_gate: OpenGate) -> None:
    """Everything that a site sends has a limit."""
    gate = await open_gate(session=None, allow_private_addresses=True)
    for headers in ({"Link": "x" * 70_000}, {f"X-{number}": "1" for number in range(600)}):
        web.serve(f"http://127.0.0.1:{web.port}/robots.txt", RULES, headers=headers)
        verdict = await gate.check(f"http://127.0.0.1:{web.port}/page")
        assert verdict.access is AccessResult.UNREACHABLE


@pytest.mark.parametrize("is_own", [True, False])
@pytest.mark.parametrize("name", ["utf-8", "none", "gzip, utf-8"])
async def test_robots_txt_with_a_name_of_no_coding_is_read(
    web: Web, open_gate: OpenGate, name: str, *, is_own: bool
) -> None:
    """By the gate's own session and by another's, as their pages are."""
    site = f"http://127.0.0.1:{web.port}"
    body = gzip.compress(RULES.encode()) if "gzip" in name else RULES
    web.serve(f"{site}/robots.txt", body, headers={"Content-Encoding": name})
    web.serve(f"{site}/page", RULES, headers={"Content-Encoding": name.removeprefix("gzip, ")})
    async with aiohttp.ClientSession(connector=web.connector()) as session:
        gate = await open_gate(session=None if is_own else session, allow_private_addresses=True)
        assert not await gate.allowed(f"{site}/private")
        assert (await gate.fetch(f"{site}/page")).text == RULES
