"""`HttpxFetcher` fetches robots.txt through the transport of the pages. What counts is what the servers saw."""

from __future__ import annotations

import gzip
import zlib
from typing import TYPE_CHECKING, Final

import httpx
import pytest
from tests.gate.servers import LOOPBACK, cut_off, dripping, endless, hang_up, silent, unused_port

from robotgate.integrations.httpx import HttpxFetcher
from robotgate.sites import Answer, Failure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.gate.servers import Handler, Web

RULES: Final = b"User-agent: *\nDisallow: /private"
MAX_BYTES: Final = 1000


@pytest.fixture
async def transport() -> AsyncIterator[httpx.AsyncHTTPTransport]:
    """A transport of httpx. Closing it warns of every connection that is still open."""
    async with httpx.AsyncHTTPTransport() as transport:
        yield transport


@pytest.fixture
def robots(web: Web) -> str:
    """The robots.txt of the only site."""
    return f"http://{LOOPBACK}:{web.port}/robots.txt"


async def fetch(transport: httpx.AsyncBaseTransport, url: str, *, timeout: float = 5) -> Answer | Failure:
    """Fetch a robots.txt."""
    headers = {"User-Agent": "ExampleBot/1.0"}
    return await HttpxFetcher(transport).fetch(url, headers=headers, max_bytes=MAX_BYTES, timeout=timeout)


async def answer(transport: httpx.AsyncBaseTransport, url: str) -> Answer:
    """Fetch a robots.txt that has an answer."""
    given = await fetch(transport, url)
    assert isinstance(given, Answer), given
    return given


async def failure(transport: httpx.AsyncBaseTransport, url: str, *, timeout: float = 5) -> Failure:
    """Fetch a robots.txt that has no answer."""
    given = await fetch(transport, url, timeout=timeout)
    assert isinstance(given, Failure), given
    return given


async def test_answer_has_what_matters(web: Web, transport: httpx.AsyncHTTPTransport, robots: str) -> None:
    """The answer has the body and its headers, and follows no redirect. The request has only the headers it needs."""
    web.serve(robots, RULES, headers={"ETag": '"1"', "Cache-Control": "max-age=600"})
    given = await answer(transport, robots)
    assert (given.status, given.body, given.etag, given.cache_control) == (200, RULES, '"1"', "max-age=600")
    sent = web.visit(robots).headers
    assert set(sent) == {"Host", "Accept", "Accept-Encoding", "Cache-Control", "User-Agent"}
    assert sent["User-Agent"] == "ExampleBot/1.0"
    assert sent["Accept-Encoding"] == "gzip, deflate"
    web.redirect(robots, "/elsewhere")
    given = await answer(transport, robots)
    assert (given.status, given.location, given.body) == (302, "/elsewhere", b"")
    assert web.urls == [robots] * 2


@pytest.mark.parametrize("headers", [{}, {"Content-Encoding": "gzip"}], ids=["plain", "gzip"])
async def test_response_that_was_read_before_is_an_answer(robots: str, headers: dict[str, str]) -> None:
    """As one of `httpx.MockTransport`, or of a cache, which httpx has decoded."""
    body = gzip.compress(RULES) if headers else RULES
    transport = httpx.MockTransport(lambda _: httpx.Response(200, headers=headers, content=body))
    assert (await answer(transport, robots)).body == RULES
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=b"#" * (MAX_BYTES + 5)))
    assert (await answer(transport, robots)).body == b"#" * MAX_BYTES


async def test_body_is_decoded_as_its_headers_say(
    web: Web, transport: httpx.AsyncHTTPTransport, robots: str
) -> None:
    """The name of no coding changes nothing, as for a page of httpx; what is then no text is a failure."""
    for name, body in (
        ("gzip", gzip.compress(RULES)),
        ("deflate", zlib.compress(RULES)),
        ("utf-8", RULES),
        ("gzip, binary", gzip.compress(RULES)),
    ):
        web.serve(robots, body, headers={"Content-Encoding": name})
        assert (await answer(transport, robots)).body == RULES, name
    web.serve(robots, bytes(range(256)), headers={"Content-Encoding": "none"})
    assert "no text" in (await failure(transport, robots)).cause


@pytest.mark.parametrize(
    "handler",
    [
        endless(b"#" * 1000),
        endless(gzip.compress(b"#" * 10_000_000, 1), headers={"Content-Encoding": "gzip"}),
    ],
    ids=["plain", "bomb"],
)
async def test_body_is_bounded(
    web: Web, transport: httpx.AsyncHTTPTransport, robots: str, handler: Handler
) -> None:
    """A body is read and decompressed up to the limit only, and its connection is closed."""
    web.handle(robots, handler)
    assert (await answer(transport, robots)).body == b"#" * MAX_BYTES


@pytest.mark.parametrize(
    ("handler", "timeout", "is_silence"),
    [
        (silent(), 0.2, True),
        # Enough time for the first byte; a timeout that starts again with each would never end.
        (dripping(), 0.5, False),
        (hang_up(), 30, True),
        (cut_off(b"User-agent: *\n", length=500), 30, False),
        (cut_off(b"", length=500, headers={"Content-Encoding": "zstd"}), 30, False),
    ],
    ids=["silent", "dripping", "hang up", "cut off", "not asked for"],
)
async def test_host_that_begins_to_answer_is_there(
    web: Web,
    transport: httpx.AsyncHTTPTransport,
    robots: str,
    handler: Handler,
    *,
    timeout: float,
    is_silence: bool,
) -> None:
    """No answer is an outage of the host only if several fail so; a failure after the first byte is none."""
    web.handle(robots, handler)
    given = await failure(transport, robots, timeout=timeout)
    assert (given.is_outage, given.is_silence) == (False, is_silence)


async def test_refused_connection_is_an_outage(transport: httpx.AsyncHTTPTransport) -> None:
    """A refused connection is an outage of the host."""
    given = await failure(transport, f"http://{LOOPBACK}:{unused_port()}/robots.txt")
    assert given.is_outage
    assert given.cause.startswith("ConnectError: ")


async def test_dead_proxy_is_no_outage() -> None:
    """A proxy that refuses connections is no outage of the host."""
    async with httpx.AsyncHTTPTransport(proxy=f"http://{LOOPBACK}:{unused_port()}") as proxied:
        assert not (await failure(proxied, "http://site.example/robots.txt")).is_outage
