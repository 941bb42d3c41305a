"""A bound on idle sockets, counted at a server that closes none by itself, whatever it is asked."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self, cast

import aiohttp
import pytest
from tests.gate.network import Zone
from tests.gate.servers import LOOPBACK
from tests.waiting import settle, until

from robotgate.client.connector import BudgetedConnector

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiohappyeyeballs import AddrInfoType
    from tests.gate.servers import Web


RESPONSE: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: keep-alive\r\n\r\na page"


@dataclass(eq=False)
class Talk(asyncio.Protocol):
    """One connection to the server: an answer in one piece for each request, and never a word of closing."""

    server: Server
    transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A connection was made."""
        # Both loops give what they give for a connection; uvloop's is no subclass.
        self.transport = cast("asyncio.Transport", transport)
        self.server.open.append(self)
        self.server.accepted += 1
        self.server.peak = max(self.server.peak, len(self.server.open))

    def data_received(self, data: bytes) -> None:
        """A request is short enough to come in one piece."""
        self.server.requests += 1
        assert self.transport is not None
        self.transport.write(RESPONSE)

    def connection_lost(self, exc: Exception | None) -> None:
        """All connections are closed."""
        self.server.open.remove(self)


@dataclass
class Server:
    """Counts open connections."""

    open: list[Talk] = field(default_factory=list)
    accepted: int = 0
    requests: int = 0
    peak: int = 0
    port: int = 0
    _listening: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(lambda: Talk(self), LOOPBACK, 0, backlog=1024)
        self.port = self._listening.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._listening is not None
        self._listening.close()
        for talk in self.open:
            assert talk.transport is not None
            talk.transport.close()
        await until(lambda: not self.open)


class WatchedConnector(BudgetedConnector):
    """Remembers the highest number of sockets that were open at the same time."""

    def __init__(self, max_idle: int) -> None:
        self.peak = 0
        super().__init__(
            max_look_ups=1, max_idle=max_idle, resolver=Zone(LOOPBACK), allow_private_addresses=True
        )

    def _counted_socket(self, info: AddrInfoType) -> socket.socket:
        made = super()._counted_socket(info)
        self.peak = max(self.peak, len(self.open_sockets))
        return made


async def read(session: aiohttp.ClientSession, server: Server, host: str) -> None:
    """Ask a host for a page, and read it."""
    async with session.get(f"http://{host}.example:{server.port}/") as response:
        assert await response.text() == "a page"


async def crawl(
    session: aiohttp.ClientSession, server: Server, hosts: Iterable[str], *, at_once: int
) -> None:
    """Ask many hosts, so many at a time."""
    left = iter(hosts)

    async def work() -> None:
        for host in left:
            await read(session, server, host)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(work())


async def test_idle_sockets_are_bounded() -> None:
    """Three hundred hosts, ten at a time, twenty idle: never many more than thirty sockets."""
    connector = WatchedConnector(20)
    async with Server() as server, aiohttp.ClientSession(connector=connector) as session:
        await crawl(session, server, (f"host{number}" for number in range(300)), at_once=10)
        assert server.requests == 300
        # A connection that is closed has its socket until the loop's next iteration.
        assert max(connector.peak, server.peak) <= 40
        await until(lambda: 20 <= len(server.open) == len(connector.open_sockets) <= 30)


async def test_connections_are_kept_below_the_bound() -> None:
    """Five hosts, ten requests to each in turn: five connections."""
    connector = WatchedConnector(5)
    async with Server() as server, aiohttp.ClientSession(connector=connector) as session:
        for _ in range(10):
            await crawl(session, server, (f"host{number}" for number in range(5)), at_once=5)
        assert (server.requests, server.accepted) == (50, 5)


async def test_what_is_under_way_leaves_the_idle_their_places() -> None:
    """The bound is on idle sockets: with twice as many requests under way as it, connections are still kept."""
    connector = WatchedConnector(4)
    async with Server() as server, aiohttp.ClientSession(connector=connector) as session:
        async with asyncio.TaskGroup() as group:
            for number in range(8):
                group.create_task(crawl(session, server, [f"host{number}"] * 3, at_once=1))
        await until(lambda: len(server.open) == 4)
        before = server.accepted
        await crawl(session, server, (f"host{number}" for number in range(8)), at_once=1)
        assert server.accepted - before <= 4
        assert connector.peak <= 12


async def test_places_of_connections_that_servers_close_are_free_again() -> None:
    """Other hosts' connections are kept in their stead."""
    connector = WatchedConnector(3)
    async with Server() as server, aiohttp.ClientSession(connector=connector) as session:
        await crawl(session, server, ["one", "two", "three", "four"], at_once=1)
        await until(lambda: len(connector.open_sockets) == 3)
        for talk in server.open:
            assert talk.transport is not None
            talk.transport.close()
        await until(lambda: len(connector.open_sockets) == 0)
        before = server.accepted
        await crawl(session, server, ["five", "six"] * 5, at_once=1)
        assert server.accepted - before == 2


async def test_closed_session_leaves_no_socket() -> None:
    """What was kept is closed, and counted no more."""
    connector = WatchedConnector(10)
    async with Server() as server:
        async with aiohttp.ClientSession(connector=connector) as session:
            await crawl(session, server, (f"host{number}" for number in range(10)), at_once=10)
            assert len(connector.open_sockets) == 10
        await until(lambda: len(connector.open_sockets) == 0 and not server.open)


async def test_connections_that_fail_are_counted_no_more() -> None:
    """Neither refused nor abandoned connections are left."""
    connector = WatchedConnector(10)
    with socket.socket() as deaf:
        deaf.bind((LOOPBACK, 0))
        url = f"http://host.example:{deaf.getsockname()[1]}/"
        async with aiohttp.ClientSession(connector=connector) as session:
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.get(url)
            assert len(connector.open_sockets) == 0
            given_up = asyncio.ensure_future(session.get(url))
            await settle()
            given_up.cancel()
            await asyncio.wait([given_up])
            await until(lambda: len(connector.open_sockets) == 0)


async def test_response_that_is_let_go_unread_gives_its_place_back() -> None:
    """However a response ends, it is under way no more."""
    connector = WatchedConnector(0)
    async with Server() as server, aiohttp.ClientSession(connector=connector) as session:
        url = f"http://host.example:{server.port}/"
        (await session.get(url)).release()
        (await session.get(url)).close()
        async with session.get(url):
            pass
        await until(lambda: len(connector.open_sockets) == 0 and not server.open)


async def test_tls_connections_are_bounded_too(web: Web) -> None:
    """They live on sockets as others do."""
    connector = WatchedConnector(2)
    async with aiohttp.ClientSession(connector=connector) as session:
        for number in range(6):
            url = f"https://host{number}.example:{web.tls_port}/"
            async with session.get(url, ssl=False) as response:
                await response.read()
        await until(lambda: len(connector.open_sockets) == 2)
    await until(lambda: len(connector.open_sockets) == 0)
