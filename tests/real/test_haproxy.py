"""Sites behind HAProxy: connections that it closes, a queue that is full, a request that it has not understood."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest
from tests.daemons import haproxy

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import OpenGate
    from tests.gate.servers import Web

pytestmark = pytest.mark.real("haproxy")
IDLE: Final = """
frontend pages
    bind 127.0.0.1:PORT
    timeout http-keep-alive 6ms
    http-request return status 404 if { path /robots.txt }
    http-request return status 200 content-type text/html string "A page"
"""
QUEUE: Final = """
frontend pages
    bind 127.0.0.1:PORT
    default_backend one
backend one
    timeout queue 50ms
    server one 127.0.0.1:UPSTREAM maxconn 1
"""


async def test_idle_connection_that_is_closed(tmp_path: Path, open_gate: OpenGate) -> None:
    """As the next request leaves, or before: every page is read, and asked for once."""
    gate = await open_gate(delay=0.005)
    with haproxy(tmp_path, IDLE) as server:
        for number in range(200):
            assert (await gate.fetch(f"{server.url}/{number}")).text == "A page"
        served = await server.all_served(201)
    assert Counter(each.url for each in served) == Counter(["/robots.txt", *[f"/{at}" for at in range(200)]])


@pytest.mark.slow
async def test_full_queue(web: Web, tmp_path: Path, open_gate: OpenGate) -> None:
    """Its 503 slows the crawl down, so that few others follow; with `retries`, every page comes once in the end."""
    gate = await open_gate(delay=0.02, concurrency_per_host=4, adaptive=True)
    with haproxy(tmp_path, QUEUE.replace("UPSTREAM", str(web.port))) as server:
        pages = [f"{server.url}/{number}" for number in range(12)]
        for page in pages:
            web.serve(page, takes=0.1)
        fetched = await asyncio.gather(*[gate.fetch(page, retries=5) for page in pages])
        served = await server.all_served(gate.host(server.url).visits)
    assert [response.status for response in fetched] == [200] * len(pages)
    assert 0 < sum(each.status == 503 for each in served) <= len(pages)
    assert web.counts() == dict.fromkeys([f"{server.url}/robots.txt", *pages], 1)
