"""A web server in a process of its own that does as little as it can: what a client achieves is the client's own."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tests.heads import Heads

from benchmarks._client import serving

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from multiprocessing.connection import Connection

BACKLOG: Final = 4096
PAGE: Final = b"<!doctype html><title>A page</title>" + b"<p>Something to read.</p>\n" * 60


def robots_txt() -> bytes:
    """As a large shop's: 57 rules, 32 of them with wildcards, 2.4 KB."""
    lines = ["User-agent: GreedyBot", "Disallow: /", "", "User-agent: *"]
    for number in range(8):
        lines += [
            f"Disallow: /api/section-{number}/",
            f"Disallow: /account/department-{number}/orders",
            f"Allow: /account/department-{number}/help",
            f"Disallow: /*/compare-{number}/",
            f"Disallow: /shop/category-{number}/*?sort=",
            f"Disallow: /*.feed{number}$",
            f"Disallow: /search*facet{number}=",
        ]
    return "\n".join([*lines, "", "Sitemap: https://shop.example/sitemap.xml", ""]).encode()


def robots_of(host: str, robots: bytes) -> bytes:
    """A file that no other host has: its rules have the host's number in them."""
    digits = re.sub(r"\D", "", host.partition(".")[0]).encode()
    return re.sub(rb"-(?=\d)", b"-" + digits, robots)


OWN: Final = "own"
"""The name of a host that has a robots.txt of its own begins with this."""


class PlainSite:
    """Answers for every host name with the same page, and with a robots.txt; `port` is where."""

    def __init__(self, pipe: Connection, port: int) -> None:
        self._pipe = pipe
        self.port = port

    def robots_requests(self) -> Counter[str]:
        """How often each host's robots.txt has been asked for since the last time of asking."""
        self._pipe.send("robots")
        return Counter(self._pipe.recv())


@contextmanager
def plain_site(*, robots: bytes, page: bytes, addresses: Sequence[str] = ()) -> Iterator[PlainSite]:
    """Serve until the end of the block.

    Args:
        addresses: where besides 127.0.0.1, on the same port: for clients that cannot be told what a name means.
    """
    with serving(_serve, robots, page, addresses) as (pipe, port):
        yield PlainSite(pipe, port)


async def _serve(pipe: Connection, robots: bytes, page: bytes, addresses: Sequence[str]) -> None:
    asked: Counter[str] = Counter()
    answers = robots, _answer(b"text/html; charset=utf-8", page)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Plain(*answers, asked), "127.0.0.1", 0, backlog=BACKLOG)
    port = server.sockets[0].getsockname()[1]
    servers = [server]
    if addresses:
        servers.append(
            await loop.create_server(lambda: _Plain(*answers, asked), addresses, port, backlog=BACKLOG)
        )
    pipe.send(port)
    while await loop.run_in_executor(None, pipe.recv) == "robots":
        pipe.send(asked.copy())
        asked.clear()
    for each in servers:
        each.close()


def _answer(content_type: bytes, body: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n" % (content_type, len(body))
    return head + body


class _Plain(Heads):
    def __init__(self, robots: bytes, page: bytes, asked: Counter[str]) -> None:
        super().__init__()
        self._robots = robots
        self._page = page
        self._asked = asked

    def asked(self, head: bytes) -> None:
        if head.startswith(b"GET /robots.txt "):
            host = head.lower().partition(b"\r\nhost: ")[2].partition(b"\r\n")[0].decode()
            self._asked[host] += 1
            robots = robots_of(host, self._robots) if host.startswith(OWN) else self._robots
            self.answer(_answer(b"text/plain; charset=utf-8", robots))
        else:
            self.answer(self._page)
