"""The server of all benchmarks, which does as little as it can and notes what it was asked and when; and what is asked.

It runs in a process of its own on the first core, and answers for every host name, which clients send to the loopback
interface.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import re
import socket
import time
from collections import Counter
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from aiohttp.abc import AbstractResolver, ResolveResult
from tests.heads import Heads

from benchmarks._bench import prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.connection import Connection

ROBOTS_PATH: Final = "/robots.txt"
BACKLOG: Final = 4096
OWN: Final = "own"
"""The name of a host that has a robots.txt of its own begins with this."""
_HOST: Final = re.compile(rb"\r\nhost: ([^\r:]+)", re.IGNORECASE)
RULES: Final = """\
Disallow: /api/section-{0}/
Disallow: /account/department-{0}/orders
Allow: /account/department-{0}/help
Disallow: /*/compare-{0}/
Disallow: /shop/category-{0}/*?sort=
Disallow: /*.feed{0}$
Disallow: /search*facet{0}=
"""
SHOP: Final = f"""\
User-agent: GreedyBot
Disallow: /

User-agent: *
{"".join(map(RULES.format, range(8)))}
Sitemap: https://shop.example/sitemap.xml
""".encode()
"""As a large shop's: 57 rules, 32 of them with wildcards, 2.4 KB."""
SMALL: Final = b"""\
User-agent: GreedyBot
Disallow: /

User-agent: *
Allow: /search/about
Allow: /account/help$
Disallow: /search
Disallow: /account
Disallow: /cart
Disallow: /checkout/
Disallow: /internal/
Disallow: /print/
Disallow: /cgi-bin/
Disallow: /*?sort=
Disallow: /*.json$
Disallow: /*/reviews/

Sitemap: https://site.example/sitemap.xml
"""
"""As small sites have it."""
PATHS: Final = (
    "/", "/search?q=a", "/search/about", "/item/%d", "/item/%d?sort=price", "/news/2026/%d.html", "/cart",
)  # fmt: skip


def urls_over(hosts: int, count: int) -> list[str]:
    """So many URLs, spread over hosts in no order."""
    chance = random.Random(hosts)
    paths = [path % number if "%d" in path else path for number in range(1000) for path in PATHS]
    return [f"https://{chance.randrange(hosts)}.site.example{chance.choice(paths)}" for _ in range(count)]


def page_urls(hosts: int, pages: int, port: int, name: Callable[[int], str]) -> list[str]:
    """Each host's first page, then each host's second, and so on."""
    return [f"http://{name(host)}:{port}/page/{page}" for page in range(pages) for host in range(hosts)]


class LoopbackResolver(AbstractResolver):
    """Every name is this machine."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The loopback address."""
        del family
        return [
            ResolveResult(hostname=host, host="127.0.0.1", port=port, family=socket.AF_INET, proto=0, flags=0)
        ]

    async def close(self) -> None:
        """Nothing is held."""


class Visit(NamedTuple):
    """One request, as the server saw it: seconds on its monotonic clock."""

    host: str
    path: str
    came_at: float
    """When its bytes were read from the socket, before they were looked at."""
    sent_at: float
    """When the answer was about to be handed to the socket: whoever asked cannot have had it earlier."""


class Site:
    """The server; `port` is where."""

    def __init__(self, pipe: Connection, port: int) -> None:
        self._pipe = pipe
        self.port = port

    def visits(self) -> list[Visit]:
        """Those since the last time of asking, in the order in which they were answered."""
        self._pipe.send("visits")
        return list(self._pipe.recv())

    def robots_requests(self) -> Counter[str]:
        """How often each host's robots.txt has been requested since the last time of asking."""
        return Counter(visit.host for visit in self.visits() if visit.path == ROBOTS_PATH)


@contextmanager
def serving(robots: bytes = SHOP, *, response: float = 0.0, addresses: Sequence[str] = ()) -> Iterator[Site]:
    """Serve until the end of the block.

    Args:
        robots: the robots.txt of all hosts; those whose names begin with `OWN` have their numbers in its rules.
        response: seconds that each answer takes.
        addresses: where besides 127.0.0.1, on the same port: for clients that cannot be told what a name means.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, robots, response, addresses), daemon=True)
    process.start()
    try:
        yield Site(ours, ours.recv())
    finally:
        ours.send("stop")
        process.join()


def _serve(pipe: Connection, robots: bytes, response: float, addresses: Sequence[str]) -> None:
    prepare(0)
    asyncio.run(_answer_all(pipe, robots, response, addresses))


async def _answer_all(pipe: Connection, robots: bytes, response: float, addresses: Sequence[str]) -> None:
    seen: list[tuple[bytes, float, float]] = []
    loop = asyncio.get_running_loop()
    connection = partial(_Connection, robots, response, seen)
    server = await loop.create_server(connection, "127.0.0.1", 0, backlog=BACKLOG)
    port = server.sockets[0].getsockname()[1]
    also = [await loop.create_server(connection, addresses, port, backlog=BACKLOG)] if addresses else []
    pipe.send(port)
    while await loop.run_in_executor(None, pipe.recv) == "visits":
        pipe.send([Visit(_host_of(head), head.split(b" ", 2)[1].decode(), *at) for head, *at in seen])
        seen.clear()
    for each in (server, *also):
        each.close()


def _answer(content_type: bytes, body: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n" % (content_type, len(body))
    return head + body


PAGE: Final = _answer(
    b"text/html; charset=utf-8",
    b"<!doctype html><title>A page</title>" + b"<p>Something to read.</p>\n" * 60,
)


def _host_of(head: bytes) -> str:
    named = _HOST.search(head)
    return named[1].decode() if named else ""


class _Connection(Heads):
    """Heads are looked into only when somebody asks for visits."""

    def __init__(self, robots: bytes, response: float, seen: list[tuple[bytes, float, float]]) -> None:
        super().__init__()
        self._robots = robots
        self._response = response
        self._seen = seen
        self._came_at = 0.0

    def data_received(self, data: bytes) -> None:
        self._came_at = time.monotonic()
        super().data_received(data)

    def asked(self, head: bytes) -> None:
        answer = PAGE
        if head.startswith(b"GET /robots.txt "):
            host, robots = _host_of(head), self._robots
            if host.startswith(OWN):
                robots = re.sub(rb"-(?=\d)", b"-" + re.sub(r"\D", "", host).encode(), robots)
            answer = _answer(b"text/plain", robots)
        if self._response:
            end = partial(self._end, head, self._came_at, answer)
            asyncio.get_running_loop().call_later(self._response, end)
        else:
            self._end(head, self._came_at, answer)

    def _end(self, head: bytes, came_at: float, answer: bytes) -> None:
        self._seen.append((head, came_at, time.monotonic()))
        self.answer(answer)
