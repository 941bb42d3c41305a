"""What the examples tell of a crawl while it goes on: each is run as a user runs it."""

from __future__ import annotations

import asyncio
import json
import socket
from collections import defaultdict
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web
from tests.dashboard.reader import reading
from tests.examples.conftest import usage

if TYPE_CHECKING:
    from tests.examples.conftest import Program
    from tests.gate.servers import Web


@pytest.mark.slow
async def test_log_as_its_docstring_says(run: Program, internet: Web) -> None:
    """Each line is an object; a refusal has the line of its rule, a turn its status and its wait."""
    internet.serve("https://example.com/robots.txt", "User-agent: *\nDisallow: /page")
    ran = await run(usage("json_log.py"))
    assert (ran.status, ran.err) == (0, "")
    records = [json.loads(line) for line in ran.lines]
    found = {(each.get("robotgate_event"), each.get("robotgate_url")): each for each in records}
    refused = found["VerdictRefused", "https://example.com/page"]
    assert (refused["level"], refused["robotgate_rule_line"]) == ("INFO", 2)
    assert found["TurnBegan", "https://example.org/"]["robotgate_waited"] > 0
    assert found["TurnEnded", "https://example.org/"]["robotgate_status"] == 200


@pytest.mark.slow
async def test_tracing_as_its_docstring_says(run: Program, internet: Web) -> None:
    """Each page is one trace, with what happened on its behalf."""
    internet.serve("https://example.com/robots.txt", "User-agent: *\nDisallow: /page")
    ran = await run(usage("tracing.py"))
    assert (ran.status, ran.err) == (0, "")
    traces: dict[str, set[tuple[str, str]]] = defaultdict(set)
    *spans, rest = "\n".join([*ran.lines, ""]).split("\n}\n")
    assert rest == ""
    for text in spans:
        span = json.loads(f"{text}}}")
        traces[span["context"]["trace_id"]].add((span["name"], span["attributes"].get("url.full", "")))
    assert sorted(traces.values(), key=len) == [
        {
            ("page", ""),
            ("robotgate.robots", "https://example.com/robots.txt"),
            ("robotgate.refusal", "https://example.com/page"),
        },
        {
            ("page", ""),
            ("robotgate.robots", "https://example.org/robots.txt"),
            ("robotgate.wait", "https://example.org/"),
            ("robotgate.request", "https://example.org/"),
        },
    ]


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


async def test_status_as_its_docstring_says(run: Program, internet: Web) -> None:
    """The page names the hosts of the crawl while it goes on."""
    is_read = asyncio.Event()
    internet.serve("https://example.com/robots.txt", "User-agent: *\nDisallow: /private")

    async def page(_: web.Request) -> web.Response:
        await is_read.wait()
        return web.Response(text="page")

    internet.handle("https://example.com/page", page)
    command = usage("dashboard.py").replace("8099", "0") + " https://example.com/private"
    process = await run.start(command)
    assert process.stdout is not None
    url = (await process.stdout.readline()).decode().removeprefix("dashboard: ").strip()
    async with reading(url) as reader:
        while len(rows := await reader.rows()) < 2 or not any(row["refused"] for row in rows):
            pass
        assert {row["origin"] for row in rows} == {"https://example.org", "https://example.com"}
        assert (await reader.next())["controls"] is True
    is_read.set()
    ran = await run.end(process)
    assert (ran.status, ran.err) == (0, "")
    assert ran.line("com/page") == "https://example.com/page: 200"
    assert "is disallowed by line 2" in ran.line("com/private")
