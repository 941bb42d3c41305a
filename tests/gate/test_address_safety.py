"""Addresses that no public site has are refused at every door unless the operator permits them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from tests.gate.crawlers import crawler
from tests.gate.doors import DOORS, outcome
from tests.gate.servers import PAGE, raw

from robotgate import InvalidURLError, NonPublicAddressError

if TYPE_CHECKING:
    from tests.conftest import OpenGate
    from tests.gate.servers import Handler, Web

    from robotgate import RobotGate

NON_PUBLIC: Final = {
    "this machine": ("127.0.0.1", "127.255.255.254:8080", "0.0.0.0", "127.0.0.1.", "user:password@127.0.0.1"),
    "its names": ("localhost", "LOCALHOST:8080", "localhost.", "intranet.localhost", "a.b.localhost."),
    "its network": ("10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.0.1", "100.64.0.1"),
    "its cloud": ("169.254.169.254",),
    "others": ("192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "192.0.0.8", "192.88.99.1"),
    "many": ("224.0.0.1", "240.0.0.1", "255.255.255.255"),
    "IPv6": ("[::1]", "[::]", "[fe80::1]", "[fc00::1]", "[fd12:3456::1]", "[ff02::1]", "[2001:db8::1]"),
    "IPv6, others": ("[3fff::1]", "[5f00::1]", "[fec0::1]", "[64:ff9b:1::1]"),
    "mapped": ("[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:FFFF:7F00:0001]", "[::ffff:0:127.0.0.1]"),
    "within": ("[::127.0.0.1]", "[64:ff9b::127.0.0.1]", "[64:ff9b::10.0.0.1]", "[2002:7f00:1::]"),
    "tunnelled": ("[2002:c0a8:101::]", "[2001:0:4136:e378:8000:63bf:3fff:fdd2]"),
    "full-width": ("１２７。０。０。１", "ｌｏｃａｌｈｏｓｔ"),  # noqa: RUF001
    "other characters": ("①②⑦.⓪.⓪.①", "127.0.0.1。", "localhost。"),
}
"""Hosts that no public site has."""
AMBIGUOUS: Final = {
    "numbers": ("2130706433", "0x7f000001", "0", "017700000001", "0177.0.0.1", "127.0.0.01", "0x7f.0.0.0x1"),
    "fewer parts": ("0x7f.1", "127.1", "127。1", "0x7f。1", "[::ffff:0x7f.1]"),
    "more parts": ("1.2.3.4.5", "127.0.0.1..", "localhost.."),
    "other digits": ("١٢٧.0.0.1",),
    "escapes": ("%31%32%37.0.0.1", "127%2e0%2e0%2e1", "127.0.0.1%2e", "loc%61lhost"),
    "escaped ends": ("127.0.0.1%00.example", "127.0.0.1%2f.example"),
    "zones": ("[::1%25lo]", "[fe80::1%25eth0]", "[fe80::1%eth0]"),
}
"""Hosts that one client reads as another address than the next, or as none."""
NON_PUBLIC_URLS: Final = [f"http://{host}/" for hosts in NON_PUBLIC.values() for host in hosts]
AMBIGUOUS_URLS: Final = [f"http://{host}/" for hosts in AMBIGUOUS.values() for host in hosts]


def _redirect_to(url: str) -> Handler:
    """An answer whose Location is as it stands here, octet for octet."""
    return raw(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: " + url.encode() + b"\r\n\r\n")


async def test_non_public_literal_is_refused(web: Web, gate: RobotGate, subtests: pytest.Subtests) -> None:
    """The error names the option that permits it; nothing is sent."""
    for url in NON_PUBLIC_URLS:
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
    for url in AMBIGUOUS_URLS:
        with subtests.test(url=url):
            with pytest.raises(InvalidURLError):
                await gate.fetch(url)
            assert web.visits == []


async def test_middleware_refuses_the_same(web: Web, gate: RobotGate) -> None:
    """Be it asked for or redirected to; some of them aiohttp itself takes for no URL."""
    refusals = (InvalidURLError, aiohttp.InvalidURL, ValueError)
    async with crawler(web, gate.middleware) as session:
        for number, url in enumerate(NON_PUBLIC_URLS + AMBIGUOUS_URLS):
            site = f"http://site{number}.example"
            web.handle(f"{site}/page", _redirect_to(url))
            with pytest.raises(refusals):
                await session.get(url)
            with pytest.raises(refusals):
                await session.get(f"{site}/page")
            assert web.urls[number * 2 :] == [f"{site}/robots.txt", f"{site}/page"]


async def test_redirects_of_page_and_robots_txt_are_refused_the_same(web: Web, gate: RobotGate) -> None:
    """Whatever a server writes into its Location, the caller gets an error and nothing is requested."""
    for number, url in enumerate(NON_PUBLIC_URLS + AMBIGUOUS_URLS):
        site, other = f"http://site{number}.example", f"http://other{number}.example"
        web.handle(f"{site}/page", _redirect_to(url))
        with pytest.raises(InvalidURLError):
            await gate.fetch(f"{site}/page")
        web.handle(f"{other}/robots.txt", _redirect_to(f"{url}robots.txt"))
        verdict = await gate.check(f"{other}/page")
        assert not verdict.allowed or url in AMBIGUOUS_URLS
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
