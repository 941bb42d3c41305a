"""A web server in a process of its own that counts what it is asked."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

ROBOTS_TXT: Final = "User-agent: *\nDisallow: /private\n"
BACKLOG: Final = 4096


class CountingSite:
    """Answers for every host name; `port` is where."""

    def __init__(self, pipe: Connection, port: int) -> None:
        self._pipe = pipe
        self.port = port

    def robots_requests(self) -> Counter[str]:
        """How often each host's robots.txt has been asked for since the last time of asking."""
        self._pipe.send("count")
        return Counter(self._pipe.recv())


@contextmanager
def counting_site(latency: float) -> Iterator[CountingSite]:
    """Serve until the end of the block; every answer takes `latency` seconds."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(theirs, latency), daemon=True)
    process.start()
    try:
        yield CountingSite(ours, ours.recv())
    finally:
        ours.send("stop")
        process.join()


def _run(pipe: Connection, latency: float) -> None:
    asyncio.run(_serve(pipe, latency))


async def _serve(pipe: Connection, latency: float) -> None:
    counts: Counter[str] = Counter()

    async def answer(request: web.BaseRequest) -> web.Response:
        if request.path == "/robots.txt":
            counts[request.host] += 1
        await asyncio.sleep(latency)
        return web.Response(text=ROBOTS_TXT)

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=BACKLOG)
    await site.start()
    pipe.send(runner.addresses[0][1])
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, pipe.recv) == "count":
        pipe.send(counts.copy())
        counts.clear()
    await runner.cleanup()
