"""examples/metrics.py, run as a user runs it, and scraped while it runs."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web
from tests.examples.conftest import usage

if TYPE_CHECKING:
    from tests.examples.conftest import Program
    from tests.gate.servers import Web


@pytest.mark.slow
async def test_metrics_as_its_docstring_says(run: Program, internet: Web) -> None:
    """A scrape during the crawl shows what has happened so far; a refused URL is told of."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    home_is_fetched, scraped = asyncio.Event(), ""
    internet.serve("https://example.com/robots.txt", "User-agent: *\nDisallow: /private")

    async def home(_: web.Request) -> web.Response:
        home_is_fetched.set()
        return web.Response(text="home")

    async def page(_: web.Request) -> web.Response:
        nonlocal scraped
        await home_is_fetched.wait()
        async with aiohttp.ClientSession() as session:
            while 'robotgate_requests_total{kind="page",outcome="2xx"} 1.0' not in scraped:
                async with session.get(f"http://127.0.0.1:{port}/metrics") as response:
                    scraped = await response.text()
        return web.Response(text="page")

    internet.handle("https://example.org/", home)
    internet.handle("https://example.com/page", page)
    command = usage("metrics.py").replace("9464", str(port)) + " https://example.com/private"
    ran = await run(command)
    assert (ran.status, ran.err) == (0, "")
    assert ran.line("example.org/") == "https://example.org/: 200"
    assert ran.line("com/page") == "https://example.com/page: 200"
    assert "is disallowed by line 2" in ran.line("com/private")
    assert 'robotgate_open_requests{kind="page"} 1.0' in scraped
    assert 'robotgate_requests_total{kind="robots",outcome="2xx"} 1.0' in scraped
