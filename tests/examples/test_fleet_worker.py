"""examples/fleet_worker.py, run as a user runs it: two at once, of which one is killed and one is told to end."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Final

import pytest
from aiohttp import web
from redis.asyncio import Redis
from tests.examples.conftest import DELAY, usage

if TYPE_CHECKING:
    from tests.examples.conftest import Program
    from tests.gate.servers import Web
    from tests.redis_server import RedisServer

HOME: Final = "https://example.org"
OTHER: Final = "https://example.com"


@pytest.mark.slow
async def test_worker_as_its_docstring_says(run: Program, internet: Web, server: RedisServer) -> None:
    """No page is lost or requested twice when workers are killed; SIGTERM lets open requests end."""
    command = usage("fleet_worker.py").replace("redis://localhost:6379/0", f"--lease 2 {server.url}")
    slow_begun, held_begun, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def hold(request: web.Request) -> web.Response:
        begun = slow_begun if request.path == "/slow" else held_begun
        is_first = not begun.is_set()
        begun.set()
        if is_first:
            await go_on.wait()
        return web.Response(text="at last")

    for url in (f"{HOME}/slow", f"{OTHER}/a-held"):
        internet.handle(url, hold)
    internet.serve(f"{HOME}/z-broken", status=500)
    internet.redirect(f"{OTHER}/circle", "/circle")
    internet.serve(f"{OTHER}/robots.txt", "User-agent: *\nDisallow: /private")
    killed = await run.start(command, stdin=f"{HOME}/slow {HOME}/z-broken")
    await asyncio.wait_for(slow_begun.wait(), 60)
    killed.kill()
    await killed.wait()
    ended = await run.start(
        command, stdin=f"{OTHER}/a-held {OTHER}/private {OTHER}/circle https://nobody.invalid/"
    )
    await asyncio.wait_for(held_begun.wait(), 60)
    ended.send_signal(signal.SIGTERM)
    go_on.set()
    first = await run.end(ended)
    assert first.status == 0, first.err
    assert f"200 {OTHER}/a-held" in first.lines
    workers = [await run.start(command, stdin="https://example.net/"), await run.start(command)]
    async with Redis.from_url(server.url) as redis, asyncio.timeout(60):
        while "https://example.net/" not in internet.urls or await redis.zcard("example:urls"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
    ran = [first, *await asyncio.gather(*map(run.end, workers))]
    assert [one.status for one in ran] == [0, 0, 0], [one.err for one in ran]
    counts = internet.counts()
    assert counts.pop(f"{HOME}/slow") == 2  # the killed one's, and another's
    assert max(counts.values()) == 1
    assert f"{OTHER}/private" not in counts
    assert min(internet.gaps("example.com")) >= DELAY
    assert sorted(line for one in ran for line in one.lines) == sorted(
        [
            f"200 {OTHER}/a-held",
            "200 https://example.net/",
            f"200 {HOME}/slow",
            f"302 {OTHER}/circle",
            f"500 {HOME}/z-broken",
            f"DisallowedError {OTHER}/private",
            "HostUnavailableError https://nobody.invalid/",
        ]
    )
