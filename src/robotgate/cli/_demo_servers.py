"""The demonstration's servers: a process of its own that plays every site on 127.0.0.1 and logs what it is asked.

Run as ``python -m robotgate.cli._demo_servers SEED PAGES``. It draws the same plan as its parent, writes one line of
JSON with each site's port to standard output, serves until its standard input ends, writes the log as a second JSON
document, and is gone.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from aiohttp import web
from yarl import URL

from robotgate.cli._demo_plan import draw_plan
from robotgate.cli._demo_process import tell
from robotgate.cli._demo_sites import ROBOTS_PATH, Page, RobotsReply, Site, Visit, worker_of

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableSequence, Sequence

LOOPBACK: Final = "127.0.0.1"
TICK: Final = 0.005
"""Seconds between two looks at how late the servers' own event loop is."""
SHUTDOWN_TIMEOUT: Final = 0.5
"""Seconds that a connection which is not idle gets at the end."""
CHUNK_SIZE: Final = 65_536


class SiteServer:
    """One site: answers as its plan says and writes down when."""

    def __init__(self, site: Site, log: MutableSequence[Visit]) -> None:
        self._site = site
        self._log = log
        # What arrives is the path as the client escaped it.
        self._pages = {URL(site.url(page.path)).raw_path_qs: page for page in site.pages}

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        started_at = time.monotonic()
        path = request.rel_url.raw_path_qs
        page = self._pages.get(path)
        if path == ROBOTS_PATH:
            return await self._send_robots(request, self._site.robots, started_at)
        if page is None:
            return await self._send(
                request, web.StreamResponse(status=404), b"no such page\n", path, started_at
            )
        await asyncio.sleep(page.busy_delay)
        response = web.StreamResponse(status=page.status, headers=_headers(page.location, page.retry_after))
        return await self._send(request, response, _filler(page), page.path, started_at)

    async def _send_robots(
        self, request: web.BaseRequest, reply: RobotsReply, started_at: float
    ) -> web.StreamResponse:
        await asyncio.sleep(reply.busy_delay)
        response = web.StreamResponse(status=reply.status, headers=_headers(reply.location, None))
        if not reply.is_cut_off:
            return await self._send(request, response, reply.body, ROBOTS_PATH, started_at)
        response.content_length = len(reply.body)
        # Who is gone already need not be cut off.
        with suppress(ConnectionError):
            await response.prepare(request)
            self._note(request, ROBOTS_PATH, started_at, time.monotonic(), reply.status)
            await response.write(reply.body[: len(reply.body) // 2])
        if request.transport is not None:
            request.transport.close()
        return response

    async def _send(
        self,
        request: web.BaseRequest,
        response: web.StreamResponse,
        body: bytes,
        path: str,
        started_at: float,
    ) -> web.StreamResponse:
        response.content_type = "text/plain"
        response.content_length = len(body)
        ended_at = time.monotonic()
        try:
            await response.prepare(request)
            for start in range(0, len(body), CHUNK_SIZE):
                # A client may have enough with the head alone, so only further chunks make the end any later.
                ended_at = time.monotonic() if start else ended_at
                await response.write(body[start : start + CHUNK_SIZE])
            await response.write_eof()
        except ConnectionError:
            # The client has read enough; the answer ended with the last octets it was sent.
            return response
        finally:
            self._note(request, path, started_at, ended_at, response.status)
        return response

    def _note(
        self, request: web.BaseRequest, path: str, started_at: float, ended_at: float, status: int
    ) -> None:
        self._log.append(
            Visit(
                site=self._site.name,
                path=path,
                started_at=started_at,
                ended_at=ended_at,
                status=status,
                worker=worker_of(request.headers.get("User-Agent", "")),
            )
        )


class Ticker:
    """Measures how late the servers themselves are: what their clock readings are worth."""

    def __init__(self) -> None:
        self.worst_lag = 0.0
        """Seconds."""

    async def run(self) -> None:
        """Tick until cancelled."""
        while True:
            due_at = time.monotonic() + TICK
            await asyncio.sleep(TICK)
            self.worst_lag = max(self.worst_lag, time.monotonic() - due_at)


def _headers(location: str | None, retry_after: int | None) -> Mapping[str, str]:
    headers = {} if location is None else {"Location": location}
    return headers if retry_after is None else {**headers, "Retry-After": str(retry_after)}


def _filler(page: Page) -> bytes:
    line = f"This is {page.path}.\n".encode()
    return (line * (page.size // len(line) + 1))[: page.size]


async def serve(sites: Sequence[Site]) -> None:
    """Play the sites until standard input ends; ports and log go to standard output."""
    log: list[Visit] = []
    ticker = Ticker()
    loop = asyncio.get_running_loop()
    ports: dict[str, int] = {}
    async with AsyncExitStack() as stack:
        for site in sites:
            server = web.Server(SiteServer(site, log).answer)
            stack.push_async_callback(server.shutdown, SHUTDOWN_TIMEOUT)
            listener = await loop.create_server(server, LOOPBACK, 0)
            stack.callback(listener.close)
            ports[site.name] = listener.sockets[0].getsockname()[1]
        tell(ports)
        ticking = loop.create_task(ticker.run())
        await asyncio.to_thread(sys.stdin.buffer.read)
        ticking.cancel()
    tell({"worst_lag": ticker.worst_lag, "visits": [asdict(visit) for visit in log]})


def main() -> None:
    """Play the sites of the seed and page count given as arguments."""
    # Ctrl-C at a terminal reaches both processes; it is the parent that decides when this one ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    seed, page_count = (int(argument) for argument in sys.argv[1:3])
    asyncio.run(serve(draw_plan(seed, page_count).sites))


if __name__ == "__main__":
    main()
