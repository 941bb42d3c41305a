"""A gate on the caller's session, or on its own: what of the session counts for pages, redirects and robots.txt."""

from __future__ import annotations

import asyncio
import gzip
from typing import TYPE_CHECKING

import aiohttp
import pytest
from tests.gate.servers import OTHER, PAGE, ROBOTS, RULES, SITE

from robotgate import AccessResult
from robotgate.events import TurnBegan, TurnEnded

if TYPE_CHECKING:
    from types import SimpleNamespace

    from tests.conftest import OpenGate
    from tests.gate.servers import Web

    from robotgate import RobotGate
    from robotgate.events import Event

MEBIBYTE = 1024 * 1024


@pytest.mark.parametrize("origin", [SITE, OTHER])
async def test_session_works_alike_for_every_hop(web: Web, open_gate: OpenGate, origin: str) -> None:
    """Headers, traces, middlewares, `auto_decompress=False`: another origin makes no difference but for credentials."""
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
    target = f"{origin}/there"
    body = gzip.compress(b"a page")
    web.redirect(PAGE, target)
    web.serve(target, body, headers={"Content-Encoding": "gzip"})
    async with aiohttp.ClientSession(
        connector=web.connector(),
        headers=dict.fromkeys(("Authorization", "cookie", "Proxy-Authorization", "X-Other"), "secret"),
        trace_configs=[tracing],
        middlewares=[note],
        auto_decompress=False,
    ) as session:
        gate = await open_gate(session=session)
        assert (await gate.fetch(PAGE)).body == body
    # What goes through the session's proxy and to its traces is all that is sent; its middlewares are for pages.
    assert set(traced) == set(web.urls) - {target}
    assert passed == [PAGE, target]
    for name in ("Authorization", "cookie", "Proxy-Authorization"):
        assert web.visit(PAGE).headers[name] == "secret"
        assert (name in web.visit(target).headers) == (origin == SITE)
    assert [visit.headers["X-Other"] for visit in web.visits[1:] if "robots" not in visit.url] == [
        "secret"
    ] * 2


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


async def test_connections_are_kept_alive(web: Web, gate: RobotGate) -> None:
    """Robots.txt and pages of one origin, redirects included, come over one connection."""
    web.redirect(PAGE, "/there", body=b"moved")
    await gate.fetch(PAGE)
    assert len(web.visits) == 3
    assert len({visit.peer for visit in web.visits}) == 1


async def test_relative_url_is_refused_though_the_session_has_a_base(web: Web, open_gate: OpenGate) -> None:
    """What is judged has to be a whole URL."""
    async with aiohttp.ClientSession(f"{SITE}/", connector=web.connector()) as session:
        gate = await open_gate(session=session)
        with pytest.raises(ValueError, match="not an absolute"):
            await gate.fetch("/page")
        assert (await gate.fetch(PAGE)).url == PAGE


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
