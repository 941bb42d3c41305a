"""Every request of a gate with a signer is verified by the server that gets it, whichever door it came through."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, cast

import aiohttp
import httpx
import pytest
from aiohttp import web as aioweb
from crawlee.crawlers import HttpCrawler
from crawlee.storage_clients import MemoryStorageClient
from multidict import CIMultiDict
from tests.conftest import AGENT, CONTACT
from tests.documents import blocks_of, defined_by
from tests.gate.servers import hang_up
from tests.integration.test_httpx import ToTheWeb
from tests.integration.test_scrapy import crawl
from tests.signing.verifier import SIGNED_BY, Request, Verifier, public_half
from tests.test_readme import ROOT

from robotgate import OptionError, RobotGate
from robotgate.integrations.crawlee import GateHttpClient
from robotgate.integrations.httpx import GateTransport, HttpxFetcher
from robotgate.signing import AgentForm, Ed25519Signer, SigningKey
from robotgate.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from aiohttp import ClientHandlerType, ClientRequest, ClientResponse
    from tests.conftest import OpenGate
    from tests.gate.servers import Handler, Web

    from robotgate import Response
    from robotgate.events import Event

SITE: Final = "http://site.example"
ROBOTS: Final = f"{SITE}/robots.txt"
PAGE: Final = f"{SITE}/page"
OTHER: Final = "http://other.example"
BOT: Final = "https://bot.example"
KEY: Final = SigningKey.generate()
STALE: Final = dict.fromkeys(SIGNED_BY, "stale")
"""Headers of a signature that must not be sent beside ours."""


def signer(form: AgentForm = AgentForm.LEGACY) -> Ed25519Signer:
    """A signer that covers all of a request's target."""
    return Ed25519Signer(
        KEY, agent_url=BOT, form=form, components=("@method", "@authority", "@path", "@query")
    )


def verifier(form: AgentForm = AgentForm.LEGACY) -> Verifier:
    """A site that knows the key."""
    return Verifier(dict([public_half(KEY)]), form)


@pytest.fixture
async def gate(open_gate: OpenGate) -> RobotGate:
    """A gate that signs, without delay."""
    return await open_gate(signer=signer())


def only_for(known: Verifier) -> Handler:
    """A page that only verified crawlers get."""

    async def answer(request: aioweb.Request) -> aioweb.StreamResponse:
        url = f"{request.scheme}://{request.host}{request.raw_path}"
        known.check(Request(request.method, url, CIMultiDict(request.headers)))
        return aioweb.Response(text="for you")

    return answer


class Twice:
    """A middleware that sends every request a second time."""

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        """Send it, and send it again."""
        (await handler(request)).release()
        return await handler(request)


@pytest.mark.parametrize("form", AgentForm)
async def test_each_hop_of_a_fetch_is_verified(web: Web, open_gate: OpenGate, form: AgentForm) -> None:
    """robots.txt, its redirects, the page and its redirects: each signed for its own URL, in each form."""
    web.redirect(ROBOTS, f"{OTHER}/rules?a=1&b")
    web.redirect(PAGE, f"{OTHER}/there")
    web.redirect(f"{OTHER}/there", "https://third.example/%7Ehere?q=x%20y")
    web.handle("https://third.example/~here", only_for(verifier(form)))
    gate = await open_gate(signer=signer(form))
    response = await gate.fetch(PAGE, headers=STALE)
    assert response.text == "for you"
    assert len(web.visits) == 7
    found = verifier(form).check_visits(web.visits)
    assert {each.key_id for each in found} == {KEY.thumbprint}
    assert all(each.agent.startswith(BOT) for each in found)


async def test_page_is_refused_without_the_signature(web: Web, open_gate: OpenGate) -> None:
    """The server of these tests does look: a gate without a signer gets an error from it, and sends no such header."""
    web.handle(PAGE, only_for(verifier()))
    gate = await open_gate()
    response = await gate.fetch(PAGE)
    async with gate.turn(PAGE) as turn:
        assert turn.headers() == dict(gate._identity.headers)
    assert response.status == 500
    assert not [name for visit in web.visits for name in SIGNED_BY if name in visit.headers]


async def test_signature_has_the_time_of_the_machine(web: Web, open_gate: OpenGate) -> None:
    """Whatever clock paces the gate, and however long it has been open: verifiers compare with their own."""
    gate = await open_gate(clock=VirtualClock(), signer=signer())
    await gate.fetch(PAGE)
    assert len(verifier().check_visits(web.visits)) == 2


async def test_posts_and_other_methods_are_verified(web: Web, gate: RobotGate) -> None:
    """The method is signed as it is sent, also where a redirect changes it."""
    web.redirect(PAGE, f"{SITE}/done", status=303)
    await gate.fetch(PAGE, "POST", data=b"x")
    await gate.fetch(f"{SITE}/head", "HEAD")
    assert [visit.method for visit in web.visits] == ["GET", "POST", "GET", "HEAD"]
    verifier().check_visits(web.visits)


@pytest.mark.parametrize("is_inside", [False, True])
async def test_each_attempt_of_a_session_has_its_own_signature(
    web: Web, gate: RobotGate, *, is_inside: bool
) -> None:
    """A retry replaces the signature of the first attempt, also where the middleware stands in the chain twice."""
    chain: list[aiohttp.ClientMiddlewareType] = [Twice(), gate.middleware]
    if is_inside:
        chain.insert(0, gate.middleware)
    async with (
        aiohttp.ClientSession(connector=web.connector(), middlewares=chain, headers=STALE) as crawler,
        crawler.get(PAGE) as response,
    ):
        assert response.status == 200
    assert web.counts() == {ROBOTS: 1, PAGE: 2}
    verifier().check_visits(web.visits)


async def test_request_that_aiohttp_repeats_is_signed_anew(web: Web, gate: RobotGate) -> None:
    """A kept connection that the server has closed makes aiohttp send again, after a turn."""
    drop = hang_up()
    first = iter([drop])

    async def answer(request: aioweb.Request) -> aioweb.StreamResponse:
        return await next(first, only_for(verifier()))(request)

    web.handle(f"{SITE}/dropped", answer)
    await gate.fetch(PAGE)
    response = await gate.fetch(f"{SITE}/dropped")
    assert response.text == "for you"
    assert web.count(f"{SITE}/dropped") == 2
    verifier().check_visits(web.visits)


async def test_handshake_of_a_websocket_is_verified(web: Web, gate: RobotGate) -> None:
    """It is a GET of http, and signed as one."""
    async with aiohttp.ClientSession(connector=web.connector(), middlewares=[gate.middleware]) as crawler:
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await crawler.ws_connect("ws://site.example/socket?x=1")
    assert web.count(f"{SITE}/socket?x=1") == 1
    verifier().check_visits(web.visits)


async def test_what_the_gate_requests_besides_pages_is_verified(web: Web, open_gate: OpenGate) -> None:
    """tdmrep.json and its redirect, sitemaps, repeated attempts, streams and the fetch of a ready turn."""
    tdmrep, sitemap = f"{SITE}/.well-known/tdmrep.json", f"{SITE}/sitemap.xml"
    web.redirect(tdmrep, f"{OTHER}/tdmrep.json")
    web.serve(f"{OTHER}/tdmrep.json", '[{"location": "/", "tdm-reservation": 1}]')
    web.serve(ROBOTS, f"User-agent: *\nAllow: /\nSitemap: {sitemap}")
    web.serve(sitemap, f"<urlset><url><loc>{PAGE}</loc></url></urlset>")
    answers = iter([503, 503])

    async def busy(request: aioweb.Request) -> aioweb.StreamResponse:
        status = next(answers, 0)
        if status:
            return aioweb.Response(status=status, headers={"Retry-After": "0"})
        return await only_for(verifier())(request)

    web.handle(f"{SITE}/busy", busy)
    gate = await open_gate(signer=signer(), tdmrep=True)
    assert (await gate.fetch(f"{SITE}/busy", retries=2)).text == "for you"
    assert [entry.loc async for entry in gate.sitemap_urls(SITE)] == [PAGE]
    async with gate.fetch(PAGE) as stream:
        assert stream.status == 200
    async with gate.turn(f"{SITE}/turn") as turn:
        await turn.fetch()
    assert web.counts() == {
        ROBOTS: 1,
        tdmrep: 1,
        f"{OTHER}/robots.txt": 1,
        f"{OTHER}/tdmrep.json": 1,
        f"{SITE}/busy": 3,
        sitemap: 1,
        PAGE: 1,
        f"{SITE}/turn": 1,
    }
    verifier().check_visits(web.visits)


async def test_requests_of_crawlee_are_verified(web: Web, gate: RobotGate) -> None:
    """robots.txt and pages, whose second attempt Crawlee sends itself."""
    web.serve(PAGE, status=500)
    client = GateHttpClient(gate)
    crawler = HttpCrawler(
        http_client=client,
        max_request_retries=1,
        storage_client=MemoryStorageClient(),
        configure_logging=False,
    )
    await crawler.run([PAGE])
    assert web.counts() == {ROBOTS: 1, PAGE: 2}
    verifier().check_visits(web.visits)


async def test_turn_has_headers_for_another_client(web: Web, gate: RobotGate) -> None:
    """Two attempts in one turn, each with headers of its own; outside the turn there are none."""
    turn = gate.turn(f"{PAGE}?x=1#part")
    with pytest.raises(RuntimeError):
        turn.headers()
    async with aiohttp.ClientSession(connector=web.connector()) as client, turn:
        for method in ("GET", "POST"):
            async with client.request(method, turn.url, headers=turn.headers(method)) as response:
                turn.report(response.status)
    with pytest.raises(RuntimeError):
        turn.headers()
    assert web.visits[-1].headers["User-Agent"] == AGENT
    assert len(verifier().check_visits(web.visits)) == 3


async def test_requests_of_httpx_are_verified(web: Web) -> None:
    """robots.txt, each hop and each round of an authentication; the caller's own request is left as it was."""
    web.redirect(PAGE, f"{OTHER}/there")
    web.serve(
        f"{OTHER}/there", status=401, headers={"WWW-Authenticate": 'Digest realm="a", nonce="b", qop="auth"'}
    )
    inner = ToTheWeb(web)
    async with (
        RobotGate(AGENT, contact=CONTACT, delay=0, fetcher=HttpxFetcher(inner), signer=signer()) as gate,
        httpx.AsyncClient(
            transport=GateTransport(gate, inner), follow_redirects=True, headers=STALE
        ) as client,
    ):
        response = await client.get(PAGE, auth=httpx.DigestAuth("user", "password"))
    assert response.status_code == 401
    assert web.counts() == {ROBOTS: 1, PAGE: 2, f"{OTHER}/robots.txt": 1, f"{OTHER}/there": 2}
    verifier().check_visits(web.visits)


async def test_price_that_is_paid_is_covered(web: Web, open_gate: OpenGate) -> None:
    """The header that a caller gives to one request is signed with it, whichever client sends it. What has no such
    header is signed without it: robots.txt, and the first request, whose answer names the price.
    """
    known, paying = verifier(), "crawler-exact-price"

    async def answer(request: aioweb.Request) -> aioweb.StreamResponse:
        url = f"{request.scheme}://{request.host}{request.raw_path}"
        found = known.check(Request(request.method, url, CIMultiDict(request.headers)))
        if request.headers.get(paying) == "USD 0.01" and f'"{paying}"' in found.components:
            return aioweb.Response(text="for you", headers={"crawler-charged": "USD 0.01"})
        return aioweb.Response(status=402, headers={"crawler-price": "USD 0.01"})

    web.handle(PAGE, answer)
    paid = Ed25519Signer(KEY, agent_url=BOT, components=("@authority", paying))
    gate = await open_gate(signer=paid)
    async with (
        aiohttp.ClientSession(connector=web.connector(), middlewares=[gate.middleware]) as crawler,
        httpx.AsyncClient(transport=GateTransport(gate, ToTheWeb(web))) as other,
    ):
        price = (await gate.fetch(PAGE)).price
        assert price is not None
        offer = {"Crawler-Exact-Price": f"{price.currency} {price.amount}"}
        assert (await gate.fetch(PAGE, headers=offer)).text == "for you"
        async with crawler.get(PAGE, headers=offer) as response:
            assert response.status == 200
        assert (await other.get(PAGE, headers=offer)).text == "for you"
        async with gate.turn(PAGE) as turn, aiohttp.ClientSession(connector=web.connector()) as client:
            headers = turn.headers("GET", offer) | offer
            async with client.get(turn.url, headers=headers) as response:
                assert response.status == 200
        assert (await gate.fetch(PAGE)).status == 402
    assert web.counts() == {ROBOTS: 1, PAGE: 6}
    asked = [visit for visit in web.visits if paying not in visit.headers]
    assert len(asked) == 3
    verifier().check_visits(asked)


async def test_page_is_bought_as_the_docs_show(
    web: Web, open_gate: OpenGate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The functions of docs/signing.md pay what a 402 asks for, if that is not too much, and follow no redirect."""
    monkeypatch.chdir(tmp_path)
    KEY.write(tmp_path / "bot.pem")
    program = next(block.text for block in blocks_of(ROOT / "docs/signing.md") if "def buy(" in block.text)
    shown = defined_by(program, "docs/signing.md")
    make = cast("Callable[[], Ed25519Signer]", shown["paying_signer"])
    buy = cast("Callable[[RobotGate, str, float], Awaitable[Response]]", shown["buy"])

    async def answer(request: aioweb.Request) -> aioweb.StreamResponse:
        if request.headers.get("crawler-exact-price") != "USD 0.25":
            return aioweb.Response(status=402, headers={"crawler-price": "USD 0.25"})
        return aioweb.Response(status=302, headers={"Location": OTHER})

    web.handle(PAGE, answer)
    gate = await open_gate(signer=make())
    assert (await buy(gate, PAGE, 0.1)).status == 402
    assert (await buy(gate, PAGE, 0.5)).status == 302
    assert (await buy(gate, f"{SITE}/free", 0.5)).status == 200
    assert web.counts() == {ROBOTS: 1, PAGE: 3, f"{SITE}/free": 1}
    *_, paid, _ = web.visits
    assert '"crawler-exact-price"' in paid.headers["Signature-Input"]


async def test_header_that_cannot_be_signed_is_refused_by_name(web: Web, open_gate: OpenGate) -> None:
    """A signature is of ASCII: a caller that gives anything else is told, and nothing is sent."""
    paid = Ed25519Signer(KEY, agent_url=BOT, components=("@authority", "crawler-max-price"))
    gate = await open_gate(signer=paid)
    for price in ("€ 0.01", "USD 1\nx: y", "\udcff"):
        with pytest.raises(OptionError, match="crawler-max-price"):
            await gate.fetch(PAGE, headers={"crawler-max-price": price})
    assert web.counts() == {ROBOTS: 1}


@pytest.mark.slow
async def test_requests_of_scrapy_are_verified(web: Web, tmp_path: Path) -> None:
    """robots.txt, redirects and retries of a crawl, and pages that are requested without obeying."""
    file = tmp_path / "key.pem"
    key = SigningKey.generate()
    key.write(file)
    site, other = f"http://one.test:{web.port}", f"http://two.test:{web.port}"
    web.redirect(f"{site}/moved", f"{other}/there")
    web.serve(f"{other}/there", status=500)
    own: dict[str, object] = {
        "url": f"{site}/own?x=1",
        "meta": {"dont_obey_robotstxt": True},
        "headers": STALE,
    }
    await crawl(f"{site}/moved", own, key=file, ROBOTGATE_OPTIONS={"delay": 0}, RETRY_TIMES=1)
    assert web.counts() == {
        f"{site}/robots.txt": 1,
        f"{site}/moved": 1,
        f"{site}/own?x=1": 1,
        f"{other}/robots.txt": 1,
        f"{other}/there": 2,
    }
    Verifier(dict([public_half(key)])).check_visits(web.visits)


async def test_key_is_in_no_text(web: Web, open_gate: OpenGate, caplog: pytest.LogCaptureFixture) -> None:
    """Neither logs nor events nor the text of any object shows the private half."""
    caplog.set_level(logging.DEBUG)
    key = SigningKey.generate()
    chosen = Ed25519Signer(key, agent_url=BOT)
    told: list[Event] = []
    gate = await open_gate(signer=chosen)
    gate.subscribe(told.append)
    await gate.fetch(PAGE)
    shown = f"{gate!r}{chosen!r}{key!r}{told!r}{caplog.text}{web.visits!r}"
    secret = key._private.private_bytes_raw()
    for text in (secret.hex(), repr(secret), str(list(secret))):
        assert text.strip("b'") not in shown
    assert key.thumbprint in repr(chosen)
