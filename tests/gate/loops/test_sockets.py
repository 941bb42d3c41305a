"""A bound on idle sockets, counted at a server that closes none by itself, whatever it is asked."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web as aioweb
from tests.gate.network import Zone
from tests.gate.servers import LOOPBACK
from tests.stores.files import HandClock
from tests.waiting import settle, until

from robotgate.client.addresses import AddressBook, AddressScopes
from robotgate.client.connector import AddressedConnector, BudgetedConnector

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from tests.gate.servers import Web


@dataclass
class Crawl:
    """A session that asks many hosts, and how many sockets that takes."""

    web: Web
    connector: BudgetedConnector
    session: aiohttp.ClientSession
    peak: int = 0
    """The most connections that were open at the server when a page had come."""

    def url(self, host: str) -> str:
        """A page of a host."""
        return f"http://{host}.example:{self.web.port}/"

    @property
    def accepted(self) -> int:
        """How many connections there have been."""
        return len({visit.peer for visit in self.web.visits})

    async def read(self, hosts: Iterable[str], *, at_once: int) -> None:
        """Read a page of each host, so many at a time."""
        left = iter(hosts)

        async def work() -> None:
            for host in left:
                async with self.session.get(self.url(host)) as response:
                    assert await response.text() == "a page"
                self.peak = max(self.peak, self.web.connections, len(self.connector.open_sockets))

        await asyncio.gather(*(work() for _ in range(at_once)))

    async def has_open(self, least: int, most: int) -> None:
        """Wait until so many are open, at both ends."""
        await until(lambda: least <= self.web.connections == len(self.connector.open_sockets) <= most)


@asynccontextmanager
async def crawling(web: Web, max_idle: int) -> AsyncIterator[Crawl]:
    """Keep so many idle sockets; none when it is over."""
    connector = BudgetedConnector(
        max_look_ups=1, max_idle=max_idle, resolver=Zone(LOOPBACK), allow_private_addresses=True
    )
    async with aiohttp.ClientSession(connector=connector) as session:
        crawl = Crawl(web, connector, session)
        yield crawl
    await crawl.has_open(0, 0)


def hosts(count: int) -> list[str]:
    """So many hosts."""
    return [f"host{number}" for number in range(count)]


async def test_idle_sockets_are_bounded(web: Web) -> None:
    """Three hundred hosts, ten at a time, twenty idle: never many more than thirty sockets."""
    async with crawling(web, 20) as crawl:
        await crawl.read(hosts(300), at_once=10)
        assert len(web.visits) == 300
        # A connection that is closed has its socket until the loop's next iteration.
        assert crawl.peak <= 40
        await crawl.has_open(20, 30)


async def test_connections_are_kept_below_the_bound(web: Web) -> None:
    """Five hosts, ten requests to each in turn: five connections."""
    async with crawling(web, 5) as crawl:
        for _ in range(10):
            await crawl.read(hosts(5), at_once=5)
        assert (len(web.visits), crawl.accepted) == (50, 5)


async def test_what_is_under_way_leaves_the_idle_their_places(web: Web) -> None:
    """The bound is on idle sockets: with twice as many requests under way as it, connections are still kept."""
    async with crawling(web, 4) as crawl:
        await asyncio.gather(*(crawl.read([host] * 3, at_once=1) for host in hosts(8)))
        await crawl.has_open(4, 4)
        before = crawl.accepted
        await crawl.read(hosts(8), at_once=1)
        assert crawl.accepted - before <= 4
        assert crawl.peak <= 12


async def test_places_of_connections_that_servers_close_are_free_again(web: Web) -> None:
    """Other hosts' connections are kept in their stead."""
    transports: list[asyncio.Transport] = []

    async def answer(request: aioweb.Request) -> aioweb.StreamResponse:
        assert request.transport is not None
        transports.append(request.transport)
        return aioweb.Response(text="a page")

    async with crawling(web, 3) as crawl:
        for host in hosts(4):
            web.handle(crawl.url(host), answer)
        await crawl.read(hosts(4), at_once=1)
        await crawl.has_open(3, 3)
        for transport in transports:
            transport.close()
        await crawl.has_open(0, 0)
        before = crawl.accepted
        await crawl.read(["five", "six"] * 5, at_once=1)
        assert crawl.accepted - before == 2


async def test_connections_that_fail_are_counted_no_more(web: Web) -> None:
    """Neither refused nor abandoned connections are left."""
    with socket.socket() as deaf:
        deaf.bind((LOOPBACK, 0))
        url = f"http://host.example:{deaf.getsockname()[1]}/"
        async with crawling(web, 10) as crawl:
            with pytest.raises(aiohttp.ClientConnectorError):
                await crawl.session.get(url)
            assert len(crawl.connector.open_sockets) == 0
            given_up = asyncio.ensure_future(crawl.session.get(url))
            await settle()
            given_up.cancel()
            await asyncio.wait([given_up])
            await until(lambda: len(crawl.connector.open_sockets) == 0)


async def test_response_that_is_let_go_unread_gives_its_place_back(web: Web) -> None:
    """However a response ends, it is under way no more."""
    async with crawling(web, 0) as crawl:
        url = crawl.url("host")
        (await crawl.session.get(url)).release()
        (await crawl.session.get(url)).close()
        async with crawl.session.get(url):
            pass
        await crawl.has_open(0, 0)


async def test_tls_connections_are_bounded_too(web: Web) -> None:
    """They live on sockets as others do."""
    async with crawling(web, 2) as crawl:
        for host in hosts(6):
            async with crawl.session.get(f"https://{host}.example:{web.tls_port}/", ssl=False) as response:
                await response.read()
        await until(lambda: len(crawl.connector.open_sockets) == 2)


async def test_kept_connection_is_not_used_when_its_name_has_moved(web: Web) -> None:
    """The next request was paced for the new address, and goes there; an address in a URL does not move."""
    zone, clock = Zone(LOOPBACK), HandClock()
    zone.give("host.example", (LOOPBACK,), (LOOPBACK, "127.0.0.2"), ("127.0.0.2",))
    book = AddressBook(zone, scopes=AddressScopes(), now=clock.now)
    connector = AddressedConnector(book=book, allow_private_addresses=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        crawl = Crawl(web, connector, session)
        for _ in range(2):
            for _ in range(3):
                await crawl.read(["host"], at_once=1)
                async with session.get(f"http://{LOOPBACK}:{web.port}/"):
                    pass
            assert crawl.accepted == 2
            clock.at = (await book.scopes_of("host.example", web.port)).until_at
        await book.scopes_of("host.example", web.port)
        # Nothing listens there.
        with pytest.raises(aiohttp.ClientConnectorError, match=r"host\.example"):
            await session.get(crawl.url("host"))
    assert zone.asked == ["host.example"] * 3
