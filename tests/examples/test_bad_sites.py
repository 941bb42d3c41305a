"""Every program of examples/ goes on when a site fails: each bad site costs a line, and no other page."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Final

import pytest
from aiohttp import web
from redis.asyncio import Redis
from tests.examples.conftest import HTML, links, usage
from tests.gate.servers import cut_off, endless, hang_up

if TYPE_CHECKING:
    from pathlib import Path

    from tests.examples.conftest import Program
    from tests.gate.servers import Web
    from tests.redis_server import RedisServer

GOOD: Final = "https://example.com/"
HANGS_UP: Final = "https://hangs-up.example.org/"
TOO_LONG: Final = "https://too-long.example.org/"
CUT_OFF: Final = "https://cut-off.example.org/"
GARBLED: Final = "https://garbled.example.org/"
NO_NAME: Final = "https://nobody.invalid/"
BAD: Final = (HANGS_UP, TOO_LONG, CUT_OFF, GARBLED, NO_NAME)


async def garbled(request: web.Request) -> web.StreamResponse:
    """A body whose second chunk has no length."""
    response = web.StreamResponse(headers=HTML)
    response.enable_chunked_encoding()
    await response.prepare(request)
    await response.write(b"first")
    assert request.transport is not None
    request.transport.write(b"no length\r\n\r\n")
    request.transport.close()
    return response


@pytest.fixture
def sites(internet: Web) -> Web:
    """The bad sites among a good one."""
    internet.handle(HANGS_UP, hang_up())
    internet.handle(TOO_LONG, endless(b"#" * 65536, headers=HTML))
    internet.handle(CUT_OFF, cut_off(b"half", length=8, headers=HTML))
    internet.handle(GARBLED, garbled)
    return internet


@pytest.mark.parametrize(
    "name",
    [
        "spider.py",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("json_log.py", "metrics.py", "dashboard.py", "tracing.py", "with_crawlee.py")
        ),
    ],
)
async def test_fetching_a_list(run: Program, sites: Web, name: str) -> None:
    """The examples that fetch the URLs of their command line; Crawlee logs failures with their tracebacks."""
    if name == "with_crawlee.py":
        pytest.importorskip("crawlee")
    command = usage(name).partition(" https://")[0].replace("9464", "0").replace("8099", "0")
    ran = await run(f"{command} {' '.join(BAD)} {GOOD}")
    assert ran.status == 0, ran.err
    assert "Traceback" not in ran.err or name == "with_crawlee.py"
    assert sites.count(GOOD) == 1
    if name == "spider.py":
        assert all(ran.line(f"{url}: ") for url in BAD)


@pytest.mark.slow
async def test_link_checker(run: Program, sites: Web) -> None:
    """examples/link_checker.py, of a page that links to all."""
    page = links(*BAD, "/hangs-up", "/too-long", "/garbled", "/next")
    sites.serve("https://example.org/", page, headers=HTML)
    sites.handle("https://example.org/hangs-up", hang_up())
    sites.handle("https://example.org/too-long", endless(b"#" * 65536, headers=HTML))
    sites.handle("https://example.org/garbled", garbled)
    ran = await run(usage("link_checker.py"))
    assert ran.status == 1, ran.err
    assert "Traceback" not in ran.err
    for url in (HANGS_UP, NO_NAME, "https://example.org/hangs-up", "https://example.org/garbled"):
        assert ran.line(f"{url}: unreachable")
    assert sites.count("https://example.org/next") == 1


@pytest.mark.slow
@pytest.mark.usefixtures("sites")
async def test_archive(run: Program, tmp_path: Path) -> None:
    """examples/archive.py."""
    pytest.importorskip("warcio")
    (tmp_path / "archive").mkdir()
    command = usage("archive.py").replace(" archive <", " --max-bytes 1000000 archive <")
    ran = await run.ended_well(command, stdin=" ".join((*BAD, GOOD)))
    for url in BAD:
        assert ran.line(f"{url}: ").endswith("Error")
    assert ran.line(GOOD).endswith("6 bytes kept")


@pytest.mark.slow
async def test_fleet_worker(run: Program, sites: Web, server: RedisServer) -> None:
    """examples/fleet_worker.py."""
    command = usage("fleet_worker.py").replace("redis://localhost:6379/0", f"--lease 2 {server.url}")
    worker = await run.start(command, stdin=" ".join((*BAD, GOOD)))
    async with Redis.from_url(server.url) as redis, asyncio.timeout(60):
        while GOOD not in sites.urls or await redis.zcard("example:urls"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    worker.send_signal(signal.SIGTERM)
    ran = await run.end(worker)
    assert ran.status == 0, ran.err
    assert "Traceback" not in ran.err
    assert len(ran.lines) == len(BAD) + 1
    assert ran.line(GOOD) == f"200 {GOOD}"
    assert ran.line(HANGS_UP) == f"ServerDisconnectedError {HANGS_UP}"
