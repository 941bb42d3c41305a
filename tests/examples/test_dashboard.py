"""examples/dashboard.py, run as a user runs it, and read while it runs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web
from tests.dashboard.reader import reading
from tests.examples.conftest import usage

if TYPE_CHECKING:
    from tests.examples.conftest import Program
    from tests.gate.servers import Web


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
