"""`gated_client`: no request of the client goes past the gate, whatever it is sent through."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final

import httpx
import pytest
from tests.gate.network import Proxy
from tests.gate.servers import DELAY, PAGE, PRIVATE, ROBOTS, RULES, SITE
from tests.integration.test_httpx import ToTheWeb

from robotgate import DisallowedError, OptionError, ProxyUnavailableError, RobotGate
from robotgate.integrations.httpx import GateTransport, HttpxFetcher, gated_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.conftest import OpenGate
    from tests.gate.servers import Web

    from robotgate.integrations.httpx import ClientOptions

SECURE: Final = "https://site.example"


@pytest.fixture
async def proxy(web: Web, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Proxy]:
    """A proxy that leads to the web of the test. The environment names none."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    proxy = Proxy(web)
    await proxy.open()
    yield proxy
    await proxy.close()


@pytest.mark.parametrize("way", ["proxy", "mounts", "all mounted", "environment"])
async def test_proxied_requests_are_judged_and_paced(
    web: Web, open_gate: OpenGate, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """However the proxy is named: it gets no page that is disallowed, and none too soon."""
    gate = await open_gate(delay=DELAY)
    web.serve(ROBOTS, RULES)
    options: ClientOptions = {}
    if way == "proxy":
        options = {"proxy": proxy.url}
    elif way == "environment":
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
    else:
        pattern = "http://" if way == "mounts" else "all://"
        options = {"mounts": {pattern: httpx.AsyncHTTPTransport(proxy=proxy.url), "all://*.local": None}}
    async with gated_client(gate, **options) as client:
        for _ in range(2):
            assert (await client.get(PAGE)).text == "a page"
        with pytest.raises(DisallowedError):
            await client.get(PRIVATE)
    assert proxy.served == [f"GET {PAGE}"] * 2
    assert web.urls == [ROBOTS, PAGE, PAGE]
    assert min(web.gaps("site.example")) >= DELAY


async def test_tunnels_are_held_to_the_rules_too(web: Web, gate: RobotGate, proxy: Proxy) -> None:
    """For https the proxy sees no URL; the gate does."""
    web.serve(f"{SECURE}/robots.txt", RULES)
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    async with gated_client(gate, proxy=proxy.url, verify=trusting) as client:
        assert (await client.get(f"{SECURE}/page")).status_code == 200
        with pytest.raises(DisallowedError):
            await client.get(f"{SECURE}/private")
    assert web.urls == [f"{SECURE}/robots.txt", f"{SECURE}/page"]


async def test_transport_of_the_caller_is_used(web: Web, gate: RobotGate) -> None:
    """With the other options of httpx."""
    web.serve(ROBOTS, RULES)
    web.redirect(f"{SITE}/moved", PAGE)
    client = gated_client(gate, transport=ToTheWeb(web), follow_redirects=True, base_url=SITE)
    async with client:
        assert (await client.get("/moved")).url == PAGE


async def test_what_sends_nothing_by_itself_is_refused_when_it_is_given(gate: RobotGate) -> None:
    """A gated transport, in which each request would wait for two turns, a client, a class or an address."""
    gated = GateTransport(gate)
    for make in (
        lambda: gated_client(gate, transport=gated),
        lambda: gated_client(gate, mounts={"all://": gated}),
        lambda: GateTransport(gate, gated),
        lambda: HttpxFetcher(gated),
    ):
        with pytest.raises(OptionError, match=r"^transport=.*not a GateTransport"):
            make()
    async with httpx.AsyncClient() as client:
        for given in (httpx.AsyncHTTPTransport, httpx.HTTPTransport(), "http://proxy:3128", None, client):
            with pytest.raises(OptionError, match=r"^transport=.*: give AsyncBaseTransport"):
                HttpxFetcher(given)  # type: ignore[arg-type]  # What type checkers refuse.
        with pytest.raises(OptionError, match=r"^transport="):
            GateTransport(gate, client)  # type: ignore[arg-type]  # As above.
        for no_gate in (client, RobotGate):
            with pytest.raises(OptionError, match=r"^gate=.*: give RobotGate"):
                GateTransport(no_gate)  # type: ignore[arg-type]  # As above.
        with pytest.raises(OptionError, match=r"^fetcher="):
            RobotGate("ExampleBot/1.0", contact="bot@example.org", fetcher=client)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="verifi"):
        gated_client(gate, verifi=False)  # type: ignore[call-arg]


async def test_what_a_proxy_answers_is_no_page(web: Web, open_gate: OpenGate, proxy: Proxy) -> None:
    """A 407 opens no site and is no page, for both libraries' handlers; the next request finds the site as it is."""
    web.serve(ROBOTS, "User-agent: *\nDisallow: /private")
    for url in (ROBOTS, PAGE):
        async with httpx.AsyncHTTPTransport(proxy=proxy.url) as transport:
            gate = await open_gate(fetcher=HttpxFetcher(transport))
            proxy.refuses = url
            async with gated_client(gate, proxy=proxy.url) as client:
                for expected in (ProxyUnavailableError, httpx.ProxyError):
                    with pytest.raises(expected, match=f"{proxy.url.removeprefix('http://')} .*407"):
                        await client.get(PAGE)
                assert gate.host(PAGE).failures == 0
                proxy.refuses = None
                with pytest.raises(DisallowedError):
                    await client.get(f"{SITE}/private")
                assert (await client.get(PAGE)).status_code == 200


async def test_tunnel_that_a_proxy_refuses_closes_no_site(
    web: Web, open_gate: OpenGate, proxy: Proxy
) -> None:
    """An error of proxies to httpx, too, with the proxy's name; and nothing is kept of the site."""
    proxy.refuses = "site.example:443"
    async with httpx.AsyncHTTPTransport(proxy=proxy.url) as transport:
        gate = await open_gate(fetcher=HttpxFetcher(transport))
        async with gated_client(gate, proxy=proxy.url) as client:
            for _ in range(2):
                with pytest.raises(httpx.ProxyError, match="407"):
                    await client.get("https://site.example/page")
                gate.learn("https://site.example", b"")
        assert gate.host("https://site.example").unreachable_until_at is None
    assert web.visits == []
