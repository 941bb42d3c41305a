"""The program of docs/scrapy.md runs, and its tables name the statistics and options that exist."""

from __future__ import annotations

import asyncio
import inspect
import re
import sys
from typing import TYPE_CHECKING, Final

from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.test_readme import ROOT, blocks

from robotgate import RobotGate
from robotgate.integrations.scrapy import addon

if TYPE_CHECKING:
    from pathlib import Path

PAGE: Final = (ROOT / "docs" / "scrapy.md").read_text(encoding="utf-8")
(PROGRAM,) = (program for program in blocks(PAGE, "python") if "__main__" in program)
OPTIONS: Final = '"ROBOTGATE_OPTIONS": {"delay": 1, '
TO_LOOPBACK: Final = '"ROBOTGATE_OPTIONS": {"delay": 0.1, "allow_private_addresses": True, '


async def answer(request: web.Request) -> web.Response:
    """A site with a rule, links out of it, and a page that is no HTML."""
    if request.path == "/robots.txt":
        return web.Response(text="User-agent: *\nDisallow: /private\n")
    if request.path == "/page":
        return web.Response(body=b"\x00\x01", content_type="application/octet-stream")
    elsewhere = f"http://localhost:{request.url.port}/elsewhere"
    hrefs = ("/private/1", "/page", elsewhere, "mailto:bot@example.org", "http://[", "javascript:void(0)")
    return web.Response(text=" ".join(f'<a href="{href}">x</a>' for href in hrefs), content_type="text/html")


async def test_program_crawls(tmp_path: Path) -> None:
    """The program visits what it may of a site, and prints which line forbids the rest. Only options differ."""
    assert PROGRAM.count(OPTIONS) == 1
    program = tmp_path / "links.py"
    program.write_text(PROGRAM.replace(OPTIONS, TO_LOOPBACK), encoding="utf-8")
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with TestServer(app) as site, asyncio.timeout(60):
        root = str(site.make_url("/"))
        process = await asyncio.create_subprocess_exec(
            sys.executable, program, root, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, log = await process.communicate()
    assert sorted(out.decode().splitlines()) == [
        f"200 {root}",
        f"200 {root}page",
        f"refused: {root}private/1 is disallowed by line 2 of its robots.txt: Disallow: /private",
    ], log.decode()
    assert "'robotgate/disallowed': 1" in log.decode()
    assert "Traceback" not in log.decode()


def test_statistics_are_these() -> None:
    """The page names exactly the statistics that the add-on counts."""
    counted = set(re.findall(r'"(robotgate/\w+)"', inspect.getsource(addon)))
    assert counted == set(re.findall(r"`(robotgate/\w+)`", PAGE))


def test_options_that_the_page_names_can_be_given() -> None:
    """The options that the page names are options of `RobotGate`."""
    (row,) = (line for line in PAGE.splitlines() if line.startswith("| `ROBOTGATE_OPTIONS`"))
    named = set(re.findall(r"`([a-z_]+)`", row))
    assert len(named) > 5
    assert named <= inspect.signature(RobotGate).parameters.keys()
