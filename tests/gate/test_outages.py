"""Servers that answer late, restart or go away while tasks wait for them: which pages a crawl loses, and which not."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from tests.gate.servers import LOOPBACK, SITE, cut_off, hang_up, silent

from robotgate import GateOptions, HostUnavailableError, RobotGate, RobotGateError
from robotgate.events import TurnBegan

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.conftest import OpenGate
    from tests.gate.servers import Handler, Web

SHORT: Final = 0.2
"""Seconds, for pages that never come."""
PAGES: Final = 50
HERE: Final = GateOptions(session=None, delay=0.01, adaptive=True, allow_private_addresses=True)
"""For servers of this machine."""


async def ending(gate: RobotGate, url: str, *, timeout: float = 60.0, retries: int = 0) -> str:
    """How a fetch ends, as README catches it: ``"page"``, or the name of its error."""
    try:
        await gate.fetch(url, retries=retries, timeout=aiohttp.ClientTimeout(total=timeout))
    except (RobotGateError, aiohttp.ClientError, TimeoutError) as error:
        return type(error).__name__
    return "page"


async def crawl(gate: RobotGate, site: str, *, retries: int = 0) -> Counter[str]:
    """Fetch all pages at once; count how that ends."""
    urls = [f"{site}/{number}" for number in range(PAGES)]
    return Counter(await asyncio.gather(*(ending(gate, url, retries=retries) for url in urls)))


class Server:
    """A server on one port that can be killed and started again. It answers 404 for robots.txt, 200 for pages."""

    def __init__(self) -> None:
        self.port = 0
        self.pages = 0
        self.on_page: Callable[[], object] = lambda: None
        self._listener: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        """Of its root, without the slash."""
        return f"http://{LOOPBACK}:{self.port}"

    async def start(self) -> None:
        """Listen, the second time on the same port."""
        self._listener = await asyncio.start_server(self._serve, LOOPBACK, self.port)
        self.port = int(self._listener.sockets[0].getsockname()[1])

    def kill(self) -> None:
        """Close the port and all connections."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for writer in self._open:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                is_page = not head.startswith(b"GET /robots.txt")
                status = b"200 OK" if is_page else b"404 Not Found"
                writer.write(b"HTTP/1.1 %b\r\nContent-Length: 2\r\n\r\nok" % status)
                await writer.drain()
                if is_page:
                    self.pages += 1
                    self.on_page()
        self._open.discard(writer)
        writer.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """One that runs."""
    server = Server()
    await server.start()
    yield server
    server.kill()


@pytest.mark.parametrize("retries", [0, 1])
async def test_one_late_page_costs_one_page(web: Web, open_gate: OpenGate, retries: int) -> None:
    """The other tasks' turns go on: a host that took the connection was reached."""
    gate = await open_gate()
    late = f"{SITE}/late"
    web.handle(late, silent())
    others = asyncio.create_task(crawl(gate, SITE))
    assert await ending(gate, late, timeout=SHORT, retries=retries) == "TimeoutError"
    assert await others == {"page": PAGES}
    assert web.count(late) == 1 + retries
    assert gate.host(SITE).unreachable_until_at is None


@pytest.mark.parametrize("seed", range(2))
async def test_host_that_fails_now_and_then_loses_those_pages_alone(
    web: Web, open_gate: OpenGate, seed: int
) -> None:
    """One request in twenty gets no answer, half of one, or none in time; all other pages are fetched."""
    chance = random.Random(seed)
    gate = await open_gate(concurrency_per_host=chance.choice([1, 4]))
    urls = [f"{SITE}/{number}" for number in range(200)]
    failures: list[Handler] = [silent(), hang_up(), cut_off(b"half", length=8)]
    failing = {url: chance.choice(failures) for url in urls if chance.random() < 1 / 20}
    for url, handler in failing.items():
        web.handle(url, handler)
    ends = await asyncio.gather(
        *(ending(gate, url, timeout=SHORT if url in failing else 60.0) for url in urls)
    )
    assert {url for url, end in zip(urls, ends, strict=True) if end != "page"} == set(failing)


@pytest.mark.parametrize(
    ("down_for", "concurrency", "retries"),
    [(0.5, 1, 0), (0.5, 4, 2), pytest.param(2.5, 4, 0, marks=pytest.mark.slow)],
)
async def test_restart_of_a_server_costs_no_page(
    server: Server, open_gate: OpenGate, down_for: float, concurrency: int, retries: int
) -> None:
    """Neither those that wait nor the one that finds nobody, which has not been sent: it waits for another turn."""
    loop = asyncio.get_running_loop()
    starting: list[asyncio.Task[None]] = []

    def restart() -> None:
        if server.pages == 10:
            server.kill()
            loop.call_later(down_for, lambda: starting.append(asyncio.create_task(server.start())))

    server.on_page = restart
    gate = await open_gate(**(HERE | GateOptions(concurrency_per_host=concurrency)))
    counts = await crawl(gate, server.url, retries=retries)
    assert gate.host(server.url).unreachable_until_at is None
    lost = PAGES - counts["page"]
    # Where several are open, some may have been sent to the server that is gone: these are no longer ours to repeat.
    assert lost == 0 if concurrency == 1 or retries else lost < concurrency
    assert HostUnavailableError.__name__ not in counts


async def test_host_that_never_comes_back_is_given_up(server: Server, open_gate: OpenGate) -> None:
    """All tasks are told so once it is given up; it was tried a few times, and is tried again later, not at once."""
    gate = await open_gate(**(HERE | GateOptions(give_up_after=0.5)))
    began: list[object] = []
    gate.subscribe(began.append, TurnBegan)
    gate.learn(server.url, b"")
    server.kill()
    assert await crawl(gate, server.url) == {"HostUnavailableError": PAGES}
    assert len(began) == 2
    with pytest.raises(HostUnavailableError, match="it refuses connections; try again in") as refused:
        await gate.fetch(f"{server.url}/page")
    assert 0 < refused.value.retry_after <= 2.2
    assert len(began) == 2


async def test_post_that_was_not_sent_waits_for_another_turn(server: Server, open_gate: OpenGate) -> None:
    """It changes nothing until it reaches the server; the middleware of a session does the same."""

    def restart() -> None:
        server.kill()
        loop.call_later(0.3, lambda: starting.append(asyncio.create_task(server.start())))

    loop, starting = asyncio.get_running_loop(), list[asyncio.Task[None]]()
    gate = await open_gate(**HERE)
    async with aiohttp.ClientSession(middlewares=[gate.middleware]) as session:
        gate.learn(server.url, b"")
        restart()
        assert (await gate.fetch(f"{server.url}/", "POST", data=b"order")).status == 200
        restart()
        async with session.post(f"{server.url}/", data=b"order") as response:
            assert response.status == 200
    assert server.pages == 2
