"""Real aiohttp servers on loopback that play the web: any name and port leads to them, and they note every request.

All instants are the monotonic clock's, read at the server.
"""

from __future__ import annotations

import asyncio
import math
import socket
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

import aiohttp
from aiohttp import web
from aiohttp.abc import AbstractResolver, AbstractStreamWriter, ResolveResult
from yarl import URL

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from multidict import CIMultiDictProxy

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

LOOPBACK: Final = "127.0.0.1"
HTTPS_PORT: Final = 443
SITE: Final = "http://site.example"
ROBOTS: Final = f"{SITE}/robots.txt"
PAGE: Final = f"{SITE}/page"
NEXT: Final = f"{SITE}/next"
PRIVATE: Final = f"{SITE}/private"
OTHER: Final = "http://other.example"
RULES: Final = "User-agent: *\nDisallow: /private"
DELAY: Final = 0.06
LARGE: Final = b"x" * 3_000_000
"""More than sockets, buffers and aiohttp hold: it has not all come when the headers have."""
BASIC: Final = "Basic dXNlcjpzZWNyZXQ="
"""What credentials of ``user`` and ``secret`` look like."""

SELF_SIGNED: Final = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgXRzdocldHU0PXPm8
/yXOz5DX9ZuZfbbH2A56hG+k2+ihRANCAASwTyAQ9PmqrO1Kb0h4y4QTndB85kIL
XKO7L+a0zOzkhgEc75FGYvWA+/aCaMp/oMolr5mnShqUG2wF0K73Fa0z
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIICGDCCAb6gAwIBAgIUddqQhhFwI7e1PDBcbDrmGxp1pN8wCgYIKoZIzj0EAwIw
KDEmMCQGA1UEAwwdcm9ib3RnYXRlIGRvY3VtZW50YXRpb24gdGVzdHMwIBcNMjYx
MTIyMTAzMDUxWhgPMjEyNjEwMjkxMDMwNTFaMCgxJjAkBgNVBAMMHXJvYm90Z2F0
ZSBkb2N1bWVudGF0aW9uIHRlc3RzMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE
sE8gEPT5qqztSm9IeMuEE53QfOZCC1yjuy/mtMzs5IYBHO+RRmL1gPv2gmjKf6DK
Ja+Zp0oalBtsBdCu9xWtM6OBwzCBwDAdBgNVHQ4EFgQUcQxhq4+EEdssLQ9LNEYh
P2O378IwHwYDVR0jBBgwFoAUcQxhq4+EEdssLQ9LNEYhP2O378IwXQYDVR0RBFYw
VIILZXhhbXBsZS5vcmeCDSouZXhhbXBsZS5vcmeCC2V4YW1wbGUuY29tgg0qLmV4
YW1wbGUuY29tggtleGFtcGxlLm5ldIINKi5leGFtcGxlLm5ldDAPBgNVHRMBAf8E
BTADAQH/MA4GA1UdDwEB/wQEAwIChDAKBggqhkjOPQQDAgNIADBFAiAw8LWFW7IT
Ha/C8Z0pD7qH+Bu5iG1uX0oWeeie0SaXWwIhAKHhRwCRFcFF3A3M7ceFNuFufhCF
L+bvuPyJ+2AxTH9z
-----END CERTIFICATE-----
"""
"""A key made for these tests, with a certificate for the names of examples that no client trusts by itself."""


@dataclass(slots=True, kw_only=True)
class Visit:
    """One request, as its server saw it."""

    url: str
    method: str
    headers: CIMultiDictProxy[str]
    body: bytes
    peer: object
    """The other end of its connection."""
    address: str
    """That was connected to."""
    began_at: float
    ended_at: float | None = None
    """When the last octet of the answer was handed to the network, or no more would be; None until then."""

    @property
    def host(self) -> str:
        """The name that was asked, without the port."""
        return URL(self.url).host or ""


def unused_port() -> int:
    """A port of loopback that refuses connections."""
    with socket.socket() as once:
        once.bind((LOOPBACK, 0))
        return int(once.getsockname()[1])


class Web:
    """Every site there is. A site that was told nothing has no robots.txt and one page for every path."""

    def __init__(self) -> None:
        self.visits: list[Visit] = []
        self.names: list[str | None] = []
        """The names that were asked for in the handshakes of TLS (RFC 6066 §3)."""
        self.port = 0
        self.tls_port = 0
        self._handlers: dict[str, Handler] = {}
        self._runner: web.ServerRunner | None = None
        self._quiet = asyncio.Event()

    async def open(self, key_file: Path) -> None:
        """Listen, with and without TLS."""
        server = web.Server(self._answer, handler_cancellation=True)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await self._runner.setup()
        context = _context(key_file)
        context.sni_callback = lambda _socket, name, _context: self.names.append(name)
        for tls in (None, context):
            await web.TCPSite(self._runner, LOOPBACK, 0, backlog=1024, ssl_context=tls).start()
        self.port, self.tls_port = (int(address[1]) for address in self._runner.addresses)

    async def listen(self, *addresses: str) -> None:
        """Listen at further addresses, without TLS."""
        assert self._runner is not None
        for address in addresses:
            await web.TCPSite(self._runner, address, self.port, backlog=1024).start()

    async def close(self) -> None:
        """Stop listening; what is being answered is broken off."""
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def connections(self) -> int:
        """How many are open."""
        return (
            0 if self._runner is None or self._runner.server is None else len(self._runner.server.connections)
        )

    def serve(
        self,
        url: str,
        body: str | bytes = b"",
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        takes: float = 0.0,
    ) -> None:
        """Answer a URL like this from now on, after `takes` seconds."""
        octets = body.encode() if isinstance(body, str) else body

        async def answer(_: web.Request) -> web.StreamResponse:
            await asyncio.sleep(takes)
            return web.Response(status=status, body=octets, headers=headers)

        self.handle(url, answer)

    def redirect(self, url: str, target: str, *, status: int = 302, body: bytes = b"") -> None:
        """Redirect a URL to another one."""
        self.serve(url, body, status=status, headers={"Location": target})

    def handle(self, url: str, handler: Handler) -> None:
        """Leave a URL, without its query, to a handler."""
        self._handlers[str(URL(url))] = handler

    def connector(self, *, limit: int = 0, limit_per_host: int = 0) -> aiohttp.TCPConnector:
        """What connects an aiohttp session to this web, and to nothing else."""
        return aiohttp.TCPConnector(
            resolver=EverywhereHere(self.port, self.tls_port),
            ssl=False,
            limit=limit,
            limit_per_host=limit_per_host,
        )

    def count(self, url: str) -> int:
        """How often a URL was asked for, query included."""
        return sum(visit.url == url for visit in self.visits)

    def counts(self) -> dict[str, int]:
        """How often each URL was asked for."""
        return dict(Counter(visit.url for visit in self.visits))

    @property
    def urls(self) -> list[str]:
        """What was asked for, in the order of arrival."""
        return [visit.url for visit in self.visits]

    def visit(self, url: str) -> Visit:
        """The only request for a URL."""
        (found,) = (visit for visit in self.visits if visit.url == url)
        return found

    def of_address(self, address: str) -> list[Visit]:
        """The requests that came to an address, in the order of their arrival."""
        return [visit for visit in self.visits if visit.address == address]

    def gaps(self, host: str) -> list[float]:
        """Seconds from the end of each answer of a host, on whatever port, to its next request."""
        visits = [visit for visit in self.visits if visit.host == host]
        ends = [visit.ended_at for visit in visits]
        return [
            later.began_at - (end if end is not None else time.monotonic())
            for end, (_, later) in zip(ends, pairwise(visits), strict=False)
        ]

    def peak(self) -> int:
        """How many requests were under way at once, at the most."""
        begins = [(visit.began_at, 1) for visit in self.visits]
        ends = [(visit.ended_at, -1) for visit in self.visits if visit.ended_at is not None]
        running = most = 0
        for _, step in sorted(begins + ends):
            running += step
            most = max(most, running)
        return most

    async def arrivals(self, count: int) -> None:
        """Wait until so many requests have arrived."""
        async with asyncio.timeout(60):
            while len(self.visits) < count:
                self._quiet.clear()
                await self._quiet.wait()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        # What the handlers are given is a request of `web.Server`, which has all that they look at.
        visit = Visit(
            url=str(URL(f"{request.scheme}://{request.host}{request.raw_path}", encoded=True)),
            method=request.method,
            headers=request.headers,
            body=b"",
            peer=None if request.transport is None else request.transport.get_extra_info("peername"),
            address="" if request.transport is None else request.transport.get_extra_info("sockname")[0],
            began_at=time.monotonic(),
        )
        self.visits.append(visit)
        self._quiet.set()
        try:
            visit.body = await request.read()
            handler = self._handlers.get(visit.url.partition("?")[0], _default)
            response = await handler(request)  # type: ignore[arg-type]
            await response.prepare(request)
            await response.write_eof()
        finally:
            visit.ended_at = time.monotonic()
        return response


@cache
def _context(key_file: Path) -> ssl.SSLContext:
    """One for all tests: loading a key takes longer than most of them."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(key_file)
    return context


class EverywhereHere(AbstractResolver):
    """Every name is here, on one port, and another one for TLS."""

    def __init__(self, port: int, tls_port: int = 0) -> None:
        self._port = port
        self._tls_port = tls_port

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Loopback."""
        del family
        here = self._tls_port if port == HTTPS_PORT else self._port
        return [
            ResolveResult(
                hostname=host,
                host=LOOPBACK,
                port=here,
                family=socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
        ]

    async def close(self) -> None:
        """There is nothing to close."""


async def _default(request: web.Request) -> web.StreamResponse:
    if request.path == "/robots.txt":
        return web.Response(status=404)
    return web.Response(text="a page")


class Held:
    """A URL whose server answers when the test says so."""

    def __init__(self, web: Web, url: str, text: str = "") -> None:
        self._go = asyncio.Event()
        self._text = text
        self.come = asyncio.Event()
        web.handle(url, self._answer)

    async def _answer(self, _: web.Request) -> web.StreamResponse:
        self.come.set()
        await self._go.wait()
        return web.Response(text=self._text)

    def release(self) -> None:
        """Answer."""
        self._go.set()


def endless(
    chunk: bytes, *, status: int = 200, headers: Mapping[str, str] | None = None, pause: float = 0.0
) -> Handler:
    """A body without an end, sent as fast as it is taken, or with a pause behind each chunk."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=status, headers=headers)
        await response.prepare(request)
        while True:
            await response.write(chunk)
            # A write waits only where octets pile up. A TLS connection that broke takes all of them, for ever.
            await asyncio.sleep(pause)

    return answer


def dripping(*, status: int = 200, headers: Mapping[str, str] | None = None) -> Handler:
    """A body without an end, an octet at a time."""
    return endless(b"#", status=status, headers=headers, pause=0.01)


def silent() -> Handler:
    """An answer that never comes."""

    async def answer(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    return answer


def cut_off(
    body: bytes, *, length: int | None, status: int = 200, headers: Mapping[str, str] | None = None
) -> Handler:
    """A body that breaks off: `length` bytes were promised, or of chunks a last one."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=status, headers=headers)
        response.content_length = length
        if length is None:
            response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(body)
        _transport(request).close()
        return response

    return answer


class _Sent(web.StreamResponse):
    """What stands for an answer that was sent already."""

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """There is nothing to send."""
        del request
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """Nor here."""


def raw(octets: bytes) -> Handler:
    """An answer that is these octets, and nothing more: the connection stays open."""

    async def answer(request: web.Request) -> web.StreamResponse:
        _transport(request).write(octets)
        return _Sent()

    return answer


def hang_up(*, times: float = math.inf) -> Handler:
    """No answer: the connection is closed, so many times."""

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal times
        times -= 1
        if times >= 0:
            _transport(request).close()
        return web.Response()

    return answer


def _transport(request: web.Request) -> asyncio.Transport:
    assert request.transport is not None
    return request.transport
