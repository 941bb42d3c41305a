"""The server of all benchmarks, which does as little as it can and notes what it was asked and when; and what is asked.

It runs in a process of its own on the first core, and answers for every host name, which clients send to the loopback
interface.
"""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import random
import re
import socket
import ssl
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from aiohttp.abc import AbstractResolver, ResolveResult
from tests.heads import Heads

from benchmarks._bench import prepare
from benchmarks.limits_model import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from multiprocessing.connection import Connection
    from pathlib import Path

    from benchmarks.limits_model import Limit

    Seen = tuple[bytes, float, float, int]

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


def page_urls(
    hosts: int, pages: int, port: int, name: Callable[[int], str], *, scheme: str = "http"
) -> list[str]:
    """Each host's first page, then each host's second, and so on."""
    return [f"{scheme}://{name(host)}:{port}/page/{page}" for page in range(pages) for host in range(hosts)]


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
    status: int = 200


@dataclass(slots=True)
class Hidden:
    """How a host limits its pages, which it does not tell beforehand."""

    limit: Limit
    refusal: bytes = b"429 Too Many Requests"
    """The status line of what it does not take, and further fields of that."""
    fields: bytes = b""
    """Of each answer, with room for how many pages are left and for the seconds until there are more; of windows."""
    response: float = 0.0
    """Seconds that a page takes."""
    began_at: float = 0.0
    """When it was first asked, from which on its limit counts."""

    def judged(self, came_at: float) -> tuple[int, bytes]:
        """The status of an answer, and all of it."""
        self.began_at = self.began_at or came_at
        now = came_at - self.began_at
        is_taken = self.limit.takes(now)
        fields = self.fields
        if isinstance(self.limit, Window) and fields:
            fields %= (max(0, self.limit.left), math.ceil(self.limit.seconds - now % self.limit.seconds))
        if is_taken:
            return 200, _answer(b"text/html; charset=utf-8", BODY, b"200 OK" + fields)
        return int(self.refusal[:3]), _answer(b"text/plain", b"", self.refusal + fields)


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
def serving(
    *,
    addresses: Sequence[str] = (),
    hidden: Mapping[str, Hidden] = MappingProxyType({}),
    certificate: Path | None = None,
    body: bytes | None = None,
    fields: bytes = b"",
) -> Iterator[Site]:
    """Serve until the end of the block. Hosts whose names begin with `OWN` have their numbers in their rules.

    Args:
        addresses: where besides 127.0.0.1, on the same port: for clients that cannot be told what a name means.
        hidden: the limits of some hosts, by their names.
        certificate: a file with the certificate and the key of all hosts, which are served by TLS then.
        body: that of each page; None: `BODY`.
        fields: further ones of each page with such a body.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    page = PAGE if body is None else _answer(b"text/html; charset=utf-8", body, b"200 OK" + fields)
    process = context.Process(
        target=_serve, args=(theirs, addresses, dict(hidden), certificate, page), daemon=True
    )
    process.start()
    try:
        yield Site(ours, ours.recv())
    finally:
        ours.send("stop")
        process.join()


def _serve(
    pipe: Connection,
    addresses: Sequence[str],
    hidden: Mapping[str, Hidden],
    certificate: Path | None,
    page: bytes,
) -> None:
    prepare(0)
    tls = None
    if certificate is not None:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(certificate)
    seen: list[Seen] = []
    asyncio.run(_answer_all(pipe, addresses, partial(Talk, SHOP, seen, hidden, page), seen, tls))


async def _answer_all(
    pipe: Connection,
    addresses: Sequence[str],
    talk: Callable[[], Talk],
    seen: list[Seen],
    tls: ssl.SSLContext | None,
) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(talk, "127.0.0.1", 0, backlog=BACKLOG, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    also = [await loop.create_server(talk, addresses, port, backlog=BACKLOG, ssl=tls)] if addresses else []
    pipe.send(port)
    while await loop.run_in_executor(None, pipe.recv) == "visits":
        pipe.send([Visit(_host_of(each[0]), each[0].split(b" ", 2)[1].decode(), *each[1:]) for each in seen])
        seen.clear()
    for each in (server, *also):
        each.close()


def _answer(content_type: bytes, body: bytes, status: bytes = b"200 OK") -> bytes:
    head = b"HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
    return head % (status, content_type, len(body)) + body


BODY: Final = b"<!doctype html><title>A page</title>" + b"<p>Something to read.</p>\n" * 60
PAGE: Final = _answer(b"text/html; charset=utf-8", BODY)


def _host_of(head: bytes) -> str:
    named = _HOST.search(head)
    return named[1].decode() if named else ""


class Talk(Heads):
    """A connection. Heads are looked into only when somebody asks for visits, and where hosts have limits."""

    def __init__(
        self, robots: bytes, seen: list[Seen], hidden: Mapping[str, Hidden], page: bytes = PAGE
    ) -> None:
        super().__init__()
        self._robots = robots
        self._page = page
        self._seen = seen
        self._hidden = hidden
        self._came_at = 0.0

    def data_received(self, data: bytes) -> None:
        self._came_at = time.monotonic()
        super().data_received(data)

    def asked(self, head: bytes) -> None:
        status, answer = 200, self._page
        if head.startswith(b"GET /robots.txt "):
            host, robots = _host_of(head), self._robots
            if host.startswith(OWN):
                robots = re.sub(rb"-(?=\d)", b"-" + re.sub(r"\D", "", host).encode(), robots)
            answer = _answer(b"text/plain", robots)
        elif self._hidden and (hidden := self._hidden.get(_host_of(head))):
            status, answer = hidden.judged(self._came_at)
            if hidden.response and status == 200:
                end = partial(self._end, head, self._came_at, answer, status)
                asyncio.get_running_loop().call_later(hidden.response, end)
                return
        self._end(head, self._came_at, answer, status)

    def _end(self, head: bytes, came_at: float, answer: bytes, status: int) -> None:
        self._seen.append((head, came_at, time.monotonic(), status))
        self.answer(answer)
