"""HTTP/2, where many requests share a connection, is paced like HTTP/1.1."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise
from typing import Final

import httpx
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived
from tests.conftest import AGENT, CONTACT
from tests.gate.servers import LOOPBACK

from robotgate import RobotGate
from robotgate.integrations.httpx import GateTransport, HttpxFetcher

DELAY: Final = 0.05


async def test_requests_over_one_connection_are_paced() -> None:
    """The delay holds between requests that share one HTTP/2 connection, robots.txt included."""
    connections: list[list[tuple[str, float]]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visits: list[tuple[str, float]] = []
        connections.append(visits)
        connection = H2Connection(H2Configuration(client_side=False))
        connection.initiate_connection()
        while received := await reader.read(65536):
            for event in connection.receive_data(received):
                if isinstance(event, RequestReceived):
                    path = dict(event.headers)[b":path"].decode()
                    visits.append((path, time.monotonic()))
                    status = "404" if path == "/robots.txt" else "200"
                    connection.send_headers(event.stream_id, [(":status", status)])
                    connection.send_data(event.stream_id, b"a page", end_stream=True)
            writer.write(connection.data_to_send())
        writer.close()

    transport = httpx.AsyncHTTPTransport(http1=False, http2=True)
    async with (
        await asyncio.start_server(answer, LOOPBACK, 0) as server,
        RobotGate(
            AGENT, contact=CONTACT, delay=DELAY, fetcher=HttpxFetcher(transport), allow_private_addresses=True
        ) as gate,
        httpx.AsyncClient(transport=GateTransport(gate, transport)) as client,
    ):
        url = f"http://{LOOPBACK}:{server.sockets[0].getsockname()[1]}"
        pages = await asyncio.gather(*(client.get(f"{url}/{number}") for number in range(8)))
        assert gate.host(url).open_turns == 0
    assert {(page.http_version, page.text) for page in pages} == {("HTTP/2", "a page")}
    (visits,) = connections
    assert len(visits) == 9
    assert visits[0][0] == "/robots.txt"
    assert min(later - sooner for (_, sooner), (_, later) in pairwise(visits)) >= DELAY
