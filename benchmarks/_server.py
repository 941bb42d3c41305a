"""A web server in a process of its own that notes when what was asked of it came, and when its answers were sent."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aiohttp import web

from benchmarks._client import serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

ROBOTS_PATH: Final = "/robots.txt"
ROBOTS_TXT: Final = "User-agent: *\nDisallow: /private\n"
BACKLOG: Final = 4096


@dataclass(frozen=True, slots=True)
class Visit:
    """One request, as the server saw it: seconds on its monotonic clock."""

    host: str
    path: str
    came_at: float
    """When its bytes were read from the socket, before they were looked at."""
    sent_at: float
    """When the answer, all of it, was about to be handed to the socket."""
    ended_at: float
    """When the last byte of its answer had been handed to the socket."""


class NotingSite:
    """Answers for every host name; `port` is where."""

    def __init__(self, pipe: Connection, port: int) -> None:
        self._pipe = pipe
        self.port = port

    def visits(self) -> list[Visit]:
        """Those since the last time of asking, in the order in which their answers ended."""
        self._pipe.send("visits")
        return list(self._pipe.recv())

    def robots_requests(self) -> Counter[str]:
        """How often each host's robots.txt has been asked for since the last time of asking."""
        return Counter(visit.host for visit in self.visits() if visit.path == ROBOTS_PATH)


@contextmanager
def noting_site(latency: float) -> Iterator[NotingSite]:
    """Serve until the end of the block; every answer takes `latency` seconds."""
    with serving(_serve, latency) as (pipe, port):
        yield NotingSite(pipe, port)


class _Connection(web.RequestHandler):
    """Notes when bytes arrive: a handler runs only when all that arrived together has been parsed."""

    __slots__ = ("came_at",)

    def data_received(self, data: bytes) -> None:
        self.came_at = time.monotonic()
        super().data_received(data)


class _Server(web.Server):
    def __call__(self) -> web.RequestHandler:
        return _Connection(self, loop=asyncio.get_running_loop())


async def _serve(pipe: Connection, latency: float) -> None:
    visits: list[Visit] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        connection = request.protocol
        came_at = connection.came_at if isinstance(connection, _Connection) else time.monotonic()
        if latency:
            await asyncio.sleep(latency)
        response = web.Response(text=ROBOTS_TXT)
        await response.prepare(request)
        sent_at = time.monotonic()
        await response.write_eof()
        visits.append(Visit(request.host, request.path, came_at, sent_at, time.monotonic()))
        return response

    runner = web.ServerRunner(_Server(answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=BACKLOG)
    await site.start()
    pipe.send(runner.addresses[0][1])
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, pipe.recv) == "visits":
        pipe.send(visits.copy())
        visits.clear()
    await runner.cleanup()
