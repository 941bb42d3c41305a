"""``robotgate demo --serve``: sites for a program of the reader's own, and what they say of it."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from click.testing import CliRunner
from tests.cli.conftest import CONTACT

from robotgate import DisallowedError, RobotGate
from robotgate.cli._commands import robotgate
from robotgate.cli._demo_examples import EXAMPLES
from robotgate.cli._demo_plan import draw_plan
from robotgate.cli._demo_serve import serve_plan

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.cli.conftest import Program

PROXY: Final = re.compile(r"http://127\.0\.0\.1:\d+")


@asynccontextmanager
async def serving() -> AsyncIterator[aiohttp.ClientSession]:
    """A session whose proxy is in front of the sites, which are played in this process."""
    told: asyncio.Queue[str] = asyncio.Queue()
    playing = asyncio.create_task(serve_plan(draw_plan(1, 500), 0, told.put_nowait))
    try:
        proxy = PROXY.search(await told.get())
        assert proxy is not None
        async with aiohttp.ClientSession(proxy=proxy[0]) as session:
            yield session
    finally:
        playing.cancel()
        await asyncio.wait([playing])


async def said(process: asyncio.subprocess.Process) -> list[str]:
    """What is told of the next request, without when it came."""
    assert process.stdout is not None
    instant, unit, *told = (await process.stdout.readline()).decode().split()
    assert float(instant) >= 0
    assert unit == "s"
    return told


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT cannot be sent to another process there")
async def test_program_of_ones_own_crawls_the_sites(program: Program) -> None:
    """By their names, with nothing but a proxy. Each request is told of as it comes, and Ctrl-C is how it ends."""
    plan = draw_plan(1, 500)
    process = await program.start("demo", "--serve", "--port", "0")
    assert process.stdout is not None
    greeting = [(await process.stdout.readline()).decode().rstrip() for _ in range(len(EXAMPLES) + 3)]
    proxy = PROXY.search(greeting[0])
    assert proxy is not None
    async with (
        aiohttp.ClientSession(proxy=proxy[0]) as session,
        RobotGate("ExampleBot/1.0", contact=CONTACT, session=session, delay=0.01) as gate,
    ):
        assert greeting[1].split(maxsplit=1) == ["http://example.org/", EXAMPLES["example.org"].story]
        assert f"{len(plan.sites)} sites" in greeting[-2]
        with pytest.raises(DisallowedError) as refused:
            await gate.fetch("http://example.org/private/diary")
        page = await gate.fetch("http://example.org/old-tea")
        other = await gate.fetch(greeting[-2].split()[-1])

    assert str(refused.value.verdict.rule) == "Disallow: /private/"
    assert (page.url, page.status) == ("http://example.org/tea", 200)
    assert other.status == 200
    assert [await said(process) for _ in range(5)] == [
        ["200", "GET", "http://example.org/robots.txt", "ExampleBot/1.0"],
        ["301", "GET", "http://example.org/old-tea", "ExampleBot/1.0"],
        ["200", "GET", "http://example.org/tea", "ExampleBot/1.0"],
        ["200", "GET", plan.sites[0].url("/robots.txt"), "ExampleBot/1.0"],
        ["200", "GET", other.url, "ExampleBot/1.0"],
    ]
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(30):
        rest = await process.communicate()
    assert (process.returncode, rest) == (0, (b"", b""))


async def test_pages_are_confirmed_to_who_has_them() -> None:
    """With an ETag, as a reader who learns about conditional requests needs it."""
    async with serving() as session:
        async with session.get("http://example.org/") as response:
            etag = response.headers["ETag"]
        async with session.get("http://example.org/", headers={"If-None-Match": etag}) as response:
            assert (response.status, await response.read()) == (304, b"")
        async with session.get("http://example.org/tea", headers={"If-None-Match": etag}) as response:
            assert response.status == 200


async def test_what_there_is_not_is_an_answer_too() -> None:
    """Never a proxy that hangs up: the reader would look for the mistake in his program."""
    wanted = {
        "http://example.com/no-such-page": 404,
        "http://no-such-site.example/": 502,
        "http://www.example.net/robots.txt": 500,
        "http://example.net/busy": 429,
    }
    async with serving() as session:
        for url, status in wanted.items():
            async with session.get(url) as response:
                assert response.status == status
        # A tunnel would lead to no site.
        with pytest.raises(aiohttp.ClientHttpProxyError) as refused:
            await session.get("https://example.org/")
        assert refused.value.status == 501


def test_port_that_is_taken() -> None:
    """One line, and what to do; no traceback."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        ended = CliRunner().invoke(robotgate, ["demo", "--serve", "--port", port])
    assert ended.exit_code == 1
    assert f"port {port} cannot be had" in ended.output
    assert "--port" in ended.output


@pytest.mark.parametrize("option", [("--workers", "2"), ("--store", "demo.db"), ("--json", "report.json")])
def test_options_of_a_crawl_do_not_go_with_it(
    option: tuple[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nothing is crawled, so that nothing could be shared or reported."""
    monkeypatch.chdir(tmp_path)
    ended = CliRunner().invoke(robotgate, ["demo", "--serve", *option])
    assert ended.exit_code == 2
    assert "--serve crawls nothing" in ended.output
