"""The addresses of names: one answer for connections and for what they are paced by, and the scopes' names."""

from __future__ import annotations

import asyncio
import math
import socket
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from aiohttp_socks import ProxyConnector
from tests.gate.network import Proxy, Zone
from tests.gate.servers import LOOPBACK
from tests.stores.files import HandClock
from tests.waiting import settle

from robotgate import PublicConnector
from robotgate.client.addresses import (
    DNS_TTL,
    FAILURE_TTL,
    MAX_ADDRESSES,
    MAX_CACHED_NAMES,
    AddressBook,
    AddressScopes,
    ConnectorResolver,
)

if TYPE_CHECKING:
    from aiohttp.abc import ResolveResult
    from tests.gate.servers import Web

HOST: Final = "site.example"
ONE, TWO, THREE = "192.0.2.1", "192.0.2.2", "192.0.2.3"


class Names(Zone):
    """The names of a test, and what goes wrong with them."""

    def __init__(self) -> None:
        super().__init__(ONE)
        self.answers = asyncio.Event()
        """Not set: no look-up ends."""
        self.answers.set()
        self.fails: OSError | None = None

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """What the name means now."""
        found = await super().resolve(host, port, family)
        await self.answers.wait()
        if self.fails is not None:
            raise self.fails
        return found


@pytest.fixture
def names() -> Names:
    """Every name has one address until it is given others."""
    return Names()


@pytest.fixture
def clock() -> HandClock:
    """The time of the book."""
    return HandClock(0.0)


@pytest.fixture
def book(names: Names, clock: HandClock) -> AddressBook:
    """A book without exempt addresses."""
    return AddressBook(names, scopes=AddressScopes(), now=clock.now)


async def connected(book: AddressBook, host: str = HOST) -> list[str]:
    """The addresses that a connection is made to, the first first."""
    return [found["host"] for found in await book.resolve(host, 443, socket.AF_UNSPEC)]


@pytest.mark.parametrize(
    ("addresses", "scopes"),
    [
        (["192.0.2.7"], ["192.0.2.7"]),
        (["192.0.2.9", "192.0.2.7", "192.0.2.9"], ["192.0.2.7", "192.0.2.9"]),
        (["2001:db8:0:7:1::1", "2001:db8:0:7:ffff::2"], ["2001:db8:0:7::/64"]),
        (["2001:db8::1", "2001:db8:0:1::1"], ["2001:db8:0:1::/64", "2001:db8::/64"]),
        (["::ffff:192.0.2.7", "64:ff9b::c000:207", "192.0.2.7"], ["192.0.2.7"]),
        (["fe80::1%eth0"], ["fe80::/64"]),
        (["no address"], []),
    ],
)
def test_scopes_of_addresses(addresses: list[str], scopes: list[str]) -> None:
    """One for each IPv4 address, one for 64 bits of IPv6, the same whatever the order.

    An IPv6 address that stands for an IPv4 one counts as that: behind NAT64 all sites of IPv4 share their 64 bits.
    """
    for given in (addresses, addresses[::-1]):
        assert AddressScopes().names(given) == tuple(f"address|{scope}" for scope in scopes)


def test_exempt_addresses_have_no_scope() -> None:
    """By network or single; of a name with others, those count."""
    scopes = AddressScopes(["203.0.113.0/24", "198.51.100.7", "2001:db8::/32", "0.0.0.0/8"])
    exempt = ["203.0.113.255", "198.51.100.7", "2001:db8:ffff::1", "::ffff:203.0.113.1", "0.1.2.3"]
    others = ["203.0.112.255", "198.51.100.6", "2001:db7::1", "::1"]
    assert scopes.names(exempt) == ()
    assert scopes.names([*exempt, *others]) == AddressScopes().names(others)


async def test_connection_goes_where_the_scopes_say(
    names: Names, clock: HandClock, book: AddressBook
) -> None:
    """However often the name changes. Only when the scopes are asked for again, both see the next answer."""
    names.give(HOST, (ONE,), (TWO,), (THREE,))
    for address in (ONE, TWO, THREE):
        until_at = clock.at + DNS_TTL
        assert await book.scopes_of(HOST, 443) == ((f"address|{address}",), until_at)
        # A turn that begins at the last moment connects after it.
        for clock.at in (until_at - 0.001, until_at):
            assert await connected(book) == [address]
    assert len(names.asked) == 3
    clock.at += DNS_TTL
    await connected(book, f"{HOST}.")
    assert len(names.asked) == 4


async def test_connections_begin_with_each_address_in_turn(names: Names, book: AddressBook) -> None:
    """As with aiohttp's cache; all others follow, for when it is down."""
    names.give(HOST, (ONE, TWO, THREE))
    seen = [await connected(book) for _ in range(4)]
    assert seen == [[ONE, TWO, THREE], [TWO, THREE, ONE], [THREE, ONE, TWO], [ONE, TWO, THREE]]


async def test_callers_share_a_look_up(names: Names, book: AddressBook) -> None:
    """One that gives up leaves it to the others."""
    names.answers.clear()
    callers = [asyncio.create_task(connected(book)) for _ in range(50)]
    scopes = asyncio.create_task(book.scopes_of(HOST, 443))
    await settle()
    callers.pop(0).cancel()
    await settle()
    names.answers.set()
    assert await asyncio.gather(*callers) == [[ONE]] * 49
    assert (await scopes).names == (f"address|{ONE}",)
    assert names.asked == [HOST]


@pytest.mark.parametrize("host", ["192.0.2.7", "2001:db8::7"])
async def test_address_is_not_looked_up(names: Names, book: AddressBook, host: str) -> None:
    """It stays what it is."""
    assert await book.scopes_of(host, 443) == (AddressScopes().names([host]), math.inf)
    assert names.asked == []


@pytest.mark.parametrize(
    "error", [socket.gaierror(socket.EAI_NONAME, "unknown"), OSError("network down"), None]
)
async def test_name_without_addresses_has_no_scope(
    names: Names, clock: HandClock, book: AddressBook, error: OSError | None
) -> None:
    """For a second, and for as long no connection to it is made; then it is looked up again."""
    names.fails = error
    names.give(HOST, (), (ONE,))
    assert await book.scopes_of(HOST, 443) == ((), FAILURE_TTL)
    names.fails = None
    for _ in range(2):
        with pytest.raises(type(error or OSError()), match=HOST if error is None else str(error.args[-1])):
            await connected(book)
    clock.at += FAILURE_TTL
    assert (await book.scopes_of(HOST, 443)).names == (f"address|{ONE}",)
    assert await connected(book) == [ONE]


async def test_silent_name_servers_change_nothing(names: Names, clock: HandClock, book: AddressBook) -> None:
    """What they said last holds; they are asked again after a second."""
    await book.scopes_of(HOST, 443)
    clock.at += DNS_TTL
    names.fails = socket.gaierror(socket.EAI_AGAIN, "no answer")
    assert await book.scopes_of(HOST, 443) == ((f"address|{ONE}",), clock.at + FAILURE_TTL)
    assert await connected(book) == [ONE]
    clock.at += FAILURE_TTL
    names.fails = socket.gaierror(socket.EAI_NONAME, "unknown")
    assert (await book.scopes_of(HOST, 443)).names == ()


async def test_answer_is_bounded(names: Names, book: AddressBook) -> None:
    """A name may have thousands of addresses. Those that are left have scopes, and no others are connected to."""
    names.give(HOST, tuple(f"10.0.{at // 256}.{at % 256}" for at in range(5000)))
    addresses = await connected(book)
    assert len(addresses) == MAX_ADDRESSES
    assert (await book.scopes_of(HOST, 443)).names == AddressScopes().names(addresses)


async def test_names_are_bounded(names: Names, book: AddressBook) -> None:
    """That which was used longest ago is forgotten."""
    await connected(book)
    for number in range(MAX_CACHED_NAMES):
        await connected(book, f"host{number}.example")
        if number == 7:
            await connected(book)
    for host in ("host8.example", HOST, "host0.example"):
        await connected(book, host)
    assert names.asked[MAX_CACHED_NAMES + 1 :] == ["host0.example"]


async def test_closed_book_leaves_nobody_waiting(names: Names, book: AddressBook) -> None:
    """Callers get an error that says why; they are not cancelled."""
    names.answers.clear()
    callers = [asyncio.create_task(connected(book, host)) for host in (HOST, HOST, "other.example")]
    await settle()
    await book.close()
    errors = await asyncio.gather(*callers, return_exceptions=True)
    assert [str(error).partition(" ")[2] for error in errors] == ["is not looked up: the gate is closed"] * 3
    assert not any(isinstance(error, asyncio.CancelledError) for error in errors)


# ── sessions that resolve elsewhere: the address is that of the socket


async def peers(
    connector: aiohttp.BaseConnector, *urls: str, scopes: AddressScopes, proxy: str | None = None
) -> list[str | None]:
    """The scopes that the pages come from, as a middleware sees them."""
    found: list[str | None] = []

    async def middleware(
        request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        scopes.measure(request)
        response = await handler(request)
        found.append(scopes.of_peer(request, response))
        return response

    async with aiohttp.ClientSession(connector=connector, middlewares=[middleware]) as session:
        for url in urls:
            async with session.get(url, proxy=proxy) as response:
                assert await response.text() == "a page"
    return found


async def test_connector_is_asked_what_it_would_connect_to(web: Web, names: Names, clock: HandClock) -> None:
    """Its look-up serves both. Nothing is known from one that is closed, or whose proxy looks names up."""
    names.give(HOST, (LOOPBACK,), (ONE,))
    connector = aiohttp.TCPConnector(resolver=names)
    book = AddressBook(ConnectorResolver(connector), scopes=AddressScopes(), now=clock.now)
    scopes = (f"address|{LOOPBACK}",)
    assert (await book.scopes_of(HOST, web.port)).names == scopes
    url = f"http://{HOST}:{web.port}/"
    assert await peers(connector, url, scopes=AddressScopes()) == list(scopes)
    assert names.asked == [HOST]
    for unknowing in (aiohttp.TCPConnector(resolver=names, use_dns_cache=False), ProxyConnector(LOOPBACK, 1)):
        await unknowing.close()
        book = AddressBook(ConnectorResolver(unknowing), scopes=AddressScopes(), now=clock.now)
        assert (await book.scopes_of(HOST, web.port)).names == ()


async def test_address_is_measured_at_the_socket(web: Web) -> None:
    """Whatever the name; with TLS, and where the server closes the connection before the response is returned."""
    site = f"http://{HOST}"
    web.serve(f"{site}/closed", "a page", headers={"Connection": "close"})
    urls = (f"{site}/1", f"{site}/2", f"{site}/closed", f"https://{HOST}/")
    assert await peers(web.connector(), *urls, scopes=AddressScopes()) == [f"address|{LOOPBACK}"] * 4
    assert await peers(web.connector(), *urls, scopes=AddressScopes(["127.0.0.0/8"])) == [None] * 4


async def test_address_behind_a_proxy_is_unknown(web: Web, caplog: pytest.LogCaptureFixture) -> None:
    """It has no scope, not that of the proxy. The log says so once, without the proxy's password."""
    proxy, scopes = Proxy(web), AddressScopes()
    await proxy.open()
    hosts = [f"http://site{number}.example/" for number in range(3)]
    url = proxy.url
    through = url.replace("//", "//user:secret@")
    seen = await peers(PublicConnector(), *hosts, scopes=scopes, proxy=through)
    await proxy.close()
    assert seen == [None] * 3
    assert [record.getMessage().partition(",")[0] for record in caplog.records] == [
        f"site0.example is requested through the proxy {url}"
    ]


async def test_address_behind_the_proxy_of_a_connector_is_unknown(caplog: pytest.LogCaptureFixture) -> None:
    """A SOCKS library has connectors of which aiohttp does not know that they lead through a proxy."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.write(b"\x05\x00")
        await reader.read(1000)
        writer.write(b"\x05\x00\x00\x01\0\0\0\0\0\0")
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\na page")
        writer.close()

    server = await asyncio.start_server(serve, LOOPBACK, 0)
    connector = ProxyConnector(LOOPBACK, server.sockets[0].getsockname()[1])
    async with server:
        assert await peers(connector, f"http://{HOST}/", scopes=AddressScopes()) == [None]
    assert f"{HOST} is requested through a proxy" in caplog.text
