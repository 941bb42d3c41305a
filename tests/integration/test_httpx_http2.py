"""HTTP/2, where many requests share a connection, is paced like HTTP/1.1."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import httpx
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived
from tests.conftest import AGENT, CONTACT
from tests.gate.servers import LOOPBACK

from robotgate import RobotGate
from robotgate.integrations.httpx import GateTransport, HttpxFetcher

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

DELAY: Final = 0.05
TAKES: Final = 0.02


class Http2Site:
    """A server that speaks only HTTP/2, and has a page for every path."""

    def __init__(self) -> None:
        self.visits: list[tuple[str, float, float]] = []
        """The path, the instant of the request, and the instant at which the response was written."""
        self.connections = 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """Listen, and give the address."""
        async with await asyncio.start_server(self._speak, LOOPBACK, 0) as server:
            yield f"http://{LOOPBACK}:{server.sockets[0].getsockname()[1]}"

    async def _speak(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        connection = H2Connection(H2Configuration(client_side=False))
        connection.initiate_connection()
        async with asyncio.TaskGroup() as answering:
            while received := await reader.read(65536):
                for event in connection.receive_data(received):
                    if isinstance(event, RequestReceived):
                        answering.create_task(self._answer(event, connection, writer))
                writer.write(connection.data_to_send())
        writer.close()

    async def _answer(
        self, request: RequestReceived, connection: H2Connection, writer: asyncio.StreamWriter
    ) -> None:
        began_at = time.monotonic()
        await asyncio.sleep(TAKES)
        path = dict(request.headers)[b":path"].decode()
        status = "404" if path == "/robots.txt" else "200"
        connection.send_headers(request.stream_id, [(":status", status)])
        connection.send_data(request.stream_id, b"a page", end_stream=True)
        self.visits.append((path, began_at, time.monotonic()))
        writer.write(connection.data_to_send())


async def test_requests_over_one_connection_are_paced() -> None:
    """The delay holds between requests that share one HTTP/2 connection, robots.txt included."""
    site = Http2Site()
    transport = httpx.AsyncHTTPTransport(http1=False, http2=True)
    async with (
        site.listening() as url,
        RobotGate(
            AGENT, contact=CONTACT, delay=DELAY, fetcher=HttpxFetcher(transport), allow_private_addresses=True
        ) as gate,
        httpx.AsyncClient(transport=GateTransport(gate, transport)) as client,
    ):
        pages = await asyncio.gather(*(client.get(f"{url}/{number}") for number in range(8)))
        assert gate.host(url).open_turns == 0
    assert {(page.http_version, page.text) for page in pages} == {("HTTP/2", "a page")}
    assert site.connections == 1
    assert next(path for path, _, _ in site.visits) == "/robots.txt"
    gaps = [began_at - ended_at for (_, _, ended_at), (_, began_at, _) in pairwise(site.visits)]
    assert len(gaps) == 8
    assert min(gaps) >= DELAY
