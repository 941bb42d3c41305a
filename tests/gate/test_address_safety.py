"""Addresses that no public site has are refused at every door unless the operator permits them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web as aioweb
from tests.gate.doors import DOORS, outcome
from tests.gate.servers import PAGE

from robotgate import InvalidURLError, NonPublicAddressError

if TYPE_CHECKING:
    from tests.conftest import OpenGate
    from tests.gate.servers import Handler, Web

    from robotgate import RobotGate

NON_PUBLIC = [
    "http://127.0.0.1/",
    "http://127.255.255.254:8080/",
    "http://0.0.0.0/",
    "http://10.0.0.1/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.0.1/",
    "http://100.64.0.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://192.0.2.1/",
    "http://198.18.0.1/",
    "http://198.51.100.1/",
    "http://203.0.113.1/",
    "http://224.0.0.1/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    "http://127.0.0.1./",
    "http://[::1]/",
    "http://[::]/",
    "http://[fe80::1]/",
    "http://[fc00::1]/",
    "http://[fd12:3456::1]/",
    "http://[ff02::1]/",
    "http://[2001:db8::1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[64:ff9b::127.0.0.1]/",
    "http://[2002:7f00:1::]/",
    "http://localhost/",
    "http://LOCALHOST:8080/",
    "http://localhost./",
    "http://intranet.localhost/",
    "http://user:password@127.0.0.1/",
    "http://192.0.0.8/",
    "http://192.88.99.1/",
    "http://[::127.0.0.1]/",
    "http://[::ffff:0:127.0.0.1]/",
    "http://[0:0:0:0:0:FFFF:7F00:0001]/",
    "http://[64:ff9b::10.0.0.1]/",
    "http://[64:ff9b:1::1]/",
    "http://[2002:c0a8:101::]/",
    "http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/",
    "http://[3fff::1]/",
    "http://[5f00::1]/",
    "http://[fec0::1]/",
    "http://１２７。０。０。１/",  # noqa: RUF001  # Full-width.
    "http://①②⑦.⓪.⓪.①/",
    "http://127.0.0.1。/",
    "http://ｌｏｃａｌｈｏｓｔ/",  # noqa: RUF001  # Full-width.
    "http://localhost。/",
    "http://a.b.localhost./",
]
AMBIGUOUS = [
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.1/",
    "http://127.1/",
    "http://0177.0.0.1/",
    "http://127.0.0.01/",
    "http://127。1/",
    "http://0/",
    "http://017700000001/",
    "http://0x7f.0.0.0x1/",
    "http://0x7f。1/",
    "http://127.0.0.1../",
    "http://localhost../",
    "http://١٢٧.0.0.1/",
    "http://%31%32%37.0.0.1/",
    "http://127%2e0%2e0%2e1/",
    "http://127.0.0.1%2e/",
    "http://loc%61lhost/",
    "http://127.0.0.1%00.example/",
    "http://127.0.0.1%2f.example/",
    "http://[::1%25lo]/",
    "http://[::ffff:0x7f.1]/",
    "http://1.2.3.4.5/",
    "http://[fe80::1%25eth0]/",
    "http://[fe80::1%eth0]/",
]


def _redirect_to(url: str) -> Handler:
    """An answer whose Location is as it stands here, octet for octet."""

    async def answer(request: aioweb.Request) -> aioweb.StreamResponse:
        assert request.transport is not None
        request.transport.write(
            b"HTTP/1.1 302 Found\r\nConnection: close\r\nLocation: " + url.encode() + b"\r\n\r\n"
        )
        request.transport.close()
        return aioweb.Response()

    return answer


async def test_non_public_literal_is_refused(web: Web, gate: RobotGate, subtests: pytest.Subtests) -> None:
    """The error names the option that permits it; nothing is sent."""
    for url in NON_PUBLIC:
        with subtests.test(url=url):
            with pytest.raises(NonPublicAddressError, match="allow_private_addresses"):
                await gate.allowed(url)
            with pytest.raises(NonPublicAddressError):
                await gate.fetch(url)
            assert web.visits == []


async def test_spelling_that_clients_read_differently_is_no_url(
    web: Web, gate: RobotGate, subtests: pytest.Subtests
) -> None:
    """Whether or not private addresses are permitted."""
    for url in AMBIGUOUS:
        with subtests.test(url=url):
            with pytest.raises(InvalidURLError):
                await gate.fetch(url)
            assert web.visits == []


async def test_middleware_refuses_the_same(web: Web, session: aiohttp.ClientSession, gate: RobotGate) -> None:
    """Be it asked for or redirected to; some of them aiohttp itself takes for no URL."""
    refusals = (InvalidURLError, aiohttp.InvalidURL, ValueError)
    async with aiohttp.ClientSession(
        connector=session.connector, connector_owner=False, middlewares=[gate.middleware]
    ) as crawler:
        for number, url in enumerate(NON_PUBLIC + AMBIGUOUS):
            site = f"http://site{number}.example"
            web.handle(f"{site}/page", _redirect_to(url))
            with pytest.raises(refusals):
                await crawler.get(url)
            with pytest.raises(refusals):
                await crawler.get(f"{site}/page")
            assert web.urls[number * 2 :] == [f"{site}/robots.txt", f"{site}/page"]


async def test_redirects_of_page_and_robots_txt_are_refused_the_same(web: Web, gate: RobotGate) -> None:
    """Whatever a server writes into its Location, the caller gets an error and nothing is requested."""
    for number, url in enumerate(NON_PUBLIC + AMBIGUOUS):
        site, other = f"http://site{number}.example", f"http://other{number}.example"
        web.handle(f"{site}/page", _redirect_to(url))
        with pytest.raises(InvalidURLError):
            await gate.fetch(f"{site}/page")
        web.handle(f"{other}/robots.txt", _redirect_to(f"{url}robots.txt"))
        verdict = await gate.check(f"{other}/page")
        assert not verdict.allowed or url in AMBIGUOUS
        assert web.urls[number * 3 :] == [f"{site}/robots.txt", f"{site}/page", f"{other}/robots.txt"]


async def test_every_door_refuses(web: Web, gate: RobotGate) -> None:
    """Whatever is wanted of the address, at once or after a wait."""
    for door in DOORS.values():
        with pytest.raises(NonPublicAddressError):
            await outcome(door, gate, f"http://127.0.0.1:{web.port}/")
    assert web.visits == []


async def test_operator_may_permit_them(web: Web, open_gate: OpenGate) -> None:
    """Rules and pace hold there as anywhere."""
    gate = await open_gate(allow_private_addresses=True, delay=0.05)
    origin = f"http://127.0.0.1:{web.port}"
    web.serve(f"{origin}/robots.txt", "User-agent: *\nDisallow: /private")
    for number in range(3):
        assert (await gate.fetch(f"{origin}/{number}")).status == 200
    assert not await gate.allowed(f"{origin}/private")
    assert min(web.gaps("127.0.0.1")) >= 0.05


async def test_each_hop_of_a_redirect_is_checked(web: Web, gate: RobotGate) -> None:
    """A public page cannot lead into the network that the crawler runs in, nor can its rules: their site is closed."""
    inside = f"http://127.0.0.1:{web.port}/secret"
    web.redirect(PAGE, "http://other.example/two")
    web.redirect("http://other.example/two", inside)
    with pytest.raises(NonPublicAddressError):
        await gate.fetch(PAGE)
    web.redirect("http://third.example/robots.txt", "http://other.example/two")
    assert not await gate.allowed("http://third.example/")
    assert web.count(inside) == 0
