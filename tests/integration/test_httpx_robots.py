"""`HttpxFetcher` fetches robots.txt through the transport of the pages. What counts is what the servers saw."""

from __future__ import annotations

import gzip
import socket
import zlib
from typing import TYPE_CHECKING, Final

import httpx
import pytest
from tests.gate.servers import LOOPBACK, cut_off, dripping, endless, hang_up, silent

from robotgate import Fetcher, OptionError, RobotGate
from robotgate.integrations.httpx import GateTransport, HttpxFetcher
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


def raw_deflate(body: bytes) -> bytes:
    """Deflate without the zlib header, as some servers send it."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


def test_fetcher_is_one(transport: httpx.AsyncHTTPTransport) -> None:
    """An `HttpxFetcher` is a `Fetcher`, and takes a transport that is not a `GateTransport`."""
    assert isinstance(HttpxFetcher(transport), Fetcher)
    gate = RobotGate("ExampleBot/1.0", contact="bot@example.org")
    with pytest.raises(OptionError, match=r"^transport=.*not a GateTransport"):
        HttpxFetcher(GateTransport(gate))


@pytest.mark.parametrize(
    "given", [httpx.AsyncHTTPTransport, httpx.HTTPTransport(), "http://proxy:3128", None]
)
async def test_what_sends_nothing_is_refused_when_it_is_given(given: object) -> None:
    """A client or a class: not by each robots.txt, which would close its site."""
    async with httpx.AsyncClient() as client:
        for wrong in (given, client):
            with pytest.raises(OptionError, match=r"^transport=.*: give AsyncBaseTransport"):
                HttpxFetcher(wrong)  # type: ignore[arg-type]  # What type checkers refuse.
        gate = RobotGate("ExampleBot/1.0", contact="bot@example.org")
        with pytest.raises(OptionError, match=r"^transport="):
            GateTransport(gate, client)  # type: ignore[arg-type]  # As above.
        for no_gate in (client, RobotGate):
            with pytest.raises(OptionError, match=r"^gate=.*: give RobotGate"):
                GateTransport(no_gate)  # type: ignore[arg-type]  # As above.
        with pytest.raises(OptionError, match=r"^fetcher="):
            RobotGate("ExampleBot/1.0", contact="bot@example.org", fetcher=client)  # type: ignore[arg-type]


async def test_answer_has_what_matters(web: Web, transport: httpx.AsyncHTTPTransport, robots: str) -> None:
    """The answer has the body, the validators and the lifetimes. The request has only the headers it needs."""
    headers = {
        "ETag": '"1"',
        "Cache-Control": "max-age=600",
        "Last-Modified": "then",
        "Expires": "0",
        "Date": "now",
        "Age": "7",
    }
    web.serve(robots, RULES, headers=headers)
    assert await answer(transport, robots) == Answer(
        status=200,
        body=RULES,
        cache_control="max-age=600",
        etag='"1"',
        last_modified="then",
        expires="0",
        date="now",
        age="7",
    )
    sent = web.visit(robots).headers
    assert set(sent) == {"Host", "Accept", "Accept-Encoding", "User-Agent"}
    assert sent["User-Agent"] == "ExampleBot/1.0"
    assert sent["Accept-Encoding"] == "gzip, deflate"


async def test_what_is_no_page_is_an_answer(
    web: Web, transport: httpx.AsyncHTTPTransport, robots: str
) -> None:
    """A redirect, which the gate follows and judges, and an unavailable site with its Retry-After."""
    web.redirect(robots, "/elsewhere")
    given = await answer(transport, robots)
    assert (given.status, given.location, given.body) == (302, "/elsewhere", b"")
    web.serve(robots, status=503, headers={"Retry-After": "120"})
    given = await answer(transport, robots)
    assert (given.status, given.headers["Retry-After"]) == (503, "120")
    assert web.urls == [robots] * 2


@pytest.mark.parametrize(
    ("coding", "pack"),
    [("gzip", gzip.compress), ("deflate", zlib.compress), ("deflate", raw_deflate)],
    ids=["gzip", "zlib", "raw"],
)
async def test_body_is_decoded(
    web: Web, transport: httpx.AsyncHTTPTransport, robots: str, coding: str, pack: object
) -> None:
    """A body is decoded as its Content-Encoding says."""
    assert callable(pack)
    web.serve(robots, pack(RULES), headers={"Content-Encoding": coding})
    assert (await answer(transport, robots)).body == RULES


@pytest.mark.parametrize("name", ["utf-8", "none", "binary"])
async def test_name_of_no_coding_changes_nothing(
    web: Web, transport: httpx.AsyncHTTPTransport, robots: str, name: str
) -> None:
    """As for a page of httpx; what is then no text is a failure."""
    web.serve(robots, RULES, headers={"Content-Encoding": name})
    assert (await answer(transport, robots)).body == RULES
    web.serve(robots, gzip.compress(RULES), headers={"Content-Encoding": f"gzip, {name}"})
    assert (await answer(transport, robots)).body == RULES
    web.serve(robots, bytes(range(256)), headers={"Content-Encoding": name})
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
    given = await failure(transport, f"http://{LOOPBACK}:{free_port()}/robots.txt")
    assert given.is_outage
    assert given.cause.startswith("ConnectError: ")


async def test_dead_proxy_is_no_outage() -> None:
    """A proxy that refuses connections is no outage of the host."""
    async with httpx.AsyncHTTPTransport(proxy=f"http://{LOOPBACK}:{free_port()}") as proxied:
        assert not (await failure(proxied, "http://site.example/robots.txt")).is_outage


def free_port() -> int:
    """A port of loopback without a listener."""
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        return int(taken.getsockname()[1])
