"""robots.txt as hostile or broken servers send it: an answer of the status table, in bounded time and memory."""

from __future__ import annotations

import asyncio
import gzip
import random
import time
import tracemalloc
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web as aioweb
from tests.client.hostile_answers import compressed
from tests.gate.servers import cut_off, dripping, endless

from robotgate import AccessResult, Reason, ResponseTooLargeError, RobotsTxt, SQLiteStore, SystemClock
from robotgate.client.robots import AiohttpFetcher
from robotgate.sites import Answer, Failure

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import OpenGate
    from tests.gate.servers import Handler, Web

    from robotgate import RobotGate

ROBOTS = "http://site.example/robots.txt"
PAGE = "http://site.example/page"
PRIVATE = "http://site.example/private"
RULES = b"User-agent: *\nDisallow: /private\n"
MAX_BYTES = 512_000
MEBIBYTE = 1024 * 1024
MODEST = 48 * MEBIBYTE


def bomb(begin: bytes, filler: bytes, *, mebibytes: int) -> Handler:
    """So much of one octet after a begin, as gzip makes it small; sent in pieces."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    head = deflate.compress(begin) + deflate.flush(zlib.Z_FULL_FLUSH)
    # After a full flush what follows does not look back: the same mebibyte can be said again and again.
    piece = deflate.compress(filler * MEBIBYTE) + deflate.flush(zlib.Z_FULL_FLUSH)
    octets = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff" + head + piece * mebibytes

    async def answer(request: aioweb.Request) -> aioweb.StreamResponse:
        response = aioweb.StreamResponse(headers={"Content-Encoding": "gzip"})
        await response.prepare(request)
        for start in range(0, len(octets), 65_536):
            await response.write(octets[start : start + 65_536])
        return response

    return answer


@pytest.mark.parametrize("filler", [b"\x00", b"\n", b"a"])
async def test_gzip_of_a_gigabyte(web: Web, gate: RobotGate, filler: bytes) -> None:
    """The first 512,000 bytes count; the rest is neither waited for nor kept."""
    web.handle(ROBOTS, bomb(RULES, filler, mebibytes=1024))
    tracemalloc.start()
    try:
        verdict = await gate.check(PRIVATE)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (verdict.allowed, verdict.reason) == (False, Reason.DISALLOWED_BY_RULE)
    assert peak < MODEST
    assert (await gate.check(PAGE)).allowed


@pytest.mark.parametrize(
    "chunk",
    [
        pytest.param(b"\n" * 65_536, id="newlines"),
        pytest.param(b"\x00" * 65_536, id="zeros"),
        pytest.param(b"User-agent: x\nDisallow: /x\n" * 2_000, id="groups"),
        pytest.param(b"Disallow: /" + b"*a" * 30_000, id="one line"),
    ],
)
async def test_endless_body(web: Web, gate: RobotGate, chunk: bytes) -> None:
    """A body without an end is left after 512,000 bytes."""
    web.handle(ROBOTS, endless(chunk))
    verdict = await gate.check(PAGE)
    assert verdict.access is AccessResult.SUCCESSFUL
    assert verdict.allowed
    assert len((await gate.robots(PAGE)).body) <= MAX_BYTES


async def test_endless_bodies_side_by_side_stall_nobody(web: Web, gate: RobotGate) -> None:
    """Twenty firehoses, and an ordinary site among them gets its answer."""
    hosts = [f"http://hose{number}.example" for number in range(20)]
    for host in hosts:
        web.handle(f"{host}/robots.txt", endless(RULES + b"#" * 65_536 + b"\n"))
    web.serve(ROBOTS, RULES)
    answers = await asyncio.gather(
        *(gate.allowed(f"{host}/private") for host in hosts), gate.allowed(PRIVATE), gate.allowed(PAGE)
    )
    assert answers == [False] * 21 + [True]


@pytest.mark.parametrize(
    ("body", "allowed"),
    [
        pytest.param(RULES.ljust(MAX_BYTES, b"#"), False, id="rules, then exactly to the limit"),
        pytest.param(RULES.ljust(2 * MAX_BYTES, b"#"), False, id="rules, then over the limit"),
        pytest.param(b"#".ljust(MAX_BYTES, b"#") + b"\n" + RULES, True, id="rules beyond the limit"),
        pytest.param(
            (b"User-agent: *\n" + b"#\n" * MAX_BYTES)[: MAX_BYTES - 9] + b"Disallow: /private/sub\n",
            True,
            id="a rule that the limit cuts",
        ),
    ],
)
async def test_limit_is_512_000_octets(web: Web, gate: RobotGate, body: bytes, *, allowed: bool) -> None:
    """RFC 9309 §2.5; a line that the limit cuts is not read."""
    web.serve(ROBOTS, body)
    assert await gate.allowed(PRIVATE) is allowed
    assert len((await gate.robots(PAGE)).body) <= MAX_BYTES


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_limit_counts_after_decompression(web: Web, gate: RobotGate, encoding: str) -> None:
    """However small it came."""
    body = RULES + b"#" * MAX_BYTES
    compressed = gzip.compress(body) if encoding == "gzip" else zlib.compress(body)
    web.serve(ROBOTS, compressed, headers={"Content-Encoding": encoding})
    assert not await gate.allowed(PRIVATE)
    assert (await gate.robots(PAGE)).body == RULES


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_compressed_robots_txt_is_read(web: Web, gate: RobotGate, encoding: str) -> None:
    """As ordinary servers send it."""
    compressed = gzip.compress(RULES) if encoding == "gzip" else zlib.compress(RULES)
    web.serve(ROBOTS, compressed, headers={"Content-Encoding": encoding})
    assert not await gate.allowed(PRIVATE)
    assert (await gate.robots(PAGE)).body == RULES


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"<!DOCTYPE html><html><body><h1>Welcome</h1></body></html>", id="HTML"),
        pytest.param(bytes(range(256)) * 500, id="binary"),
        pytest.param(b"\x89PNG\r\n\x1a\n" + b"\x00\xff" * 1000, id="picture"),
        pytest.param(RULES.decode().encode("utf-16-be"), id="UTF-16 without a mark"),
        pytest.param(b"\xff" * 100_000, id="no UTF-8"),
        pytest.param(b"\r" * 10_000, id="carriage returns"),
        pytest.param(b":" * 100_000, id="colons"),
        pytest.param(b"User-agent: " + b"*" * 200_000, id="long name"),
    ],
)
async def test_body_without_rules_opens_the_site(web: Web, gate: RobotGate, body: bytes) -> None:
    """Nothing in it can be read as a rule for us: an answer, never an exception."""
    web.serve(ROBOTS, body)
    verdict = await gate.check(PRIVATE)
    assert (verdict.allowed, verdict.access) == (True, AccessResult.SUCCESSFUL)


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        pytest.param(b"<html>\n" + RULES + b"</html>", {"Content-Type": "text/html"}, id="in HTML"),
        pytest.param(b"\xef\xbb\xbf" + RULES, {}, id="after a byte order mark"),
        pytest.param(b"# joined\n\xef\xbb\xbf" + RULES, {}, id="behind a byte order mark of a later line"),
        pytest.param(RULES.decode().encode("utf-16"), {}, id="in UTF-16"),
        pytest.param(
            gzip.compress(RULES), {"Content-Type": "application/gzip"}, id="in gzip that nothing names"
        ),
        pytest.param(
            gzip.compress(gzip.compress(RULES)),
            {"Content-Encoding": "gzip"},
            id="in gzip that is named once of twice",
        ),
        pytest.param(RULES, {"Content-Encoding": "utf-8"}, id="with a charset as encoding"),
        pytest.param(RULES.replace(b"\n", b"\r\n"), {}, id="with CRLF"),
        pytest.param(RULES.replace(b"\n", b"\r"), {}, id="with CR"),
        pytest.param(b"\x00\x01\n" + RULES + b"\xff\xfe", {}, id="among octets"),
        pytest.param(RULES, {"Content-Type": "application/octet-stream"}, id="with a strange type"),
        pytest.param(RULES, {"Content-Type": "text/plain; charset=nonsense"}, id="with a strange charset"),
    ],
)
async def test_rules_are_found(web: Web, gate: RobotGate, body: bytes, headers: dict[str, str]) -> None:
    """Whatever lines can be parsed bind (RFC 9309 §2.2)."""
    web.serve(ROBOTS, body, headers=headers)
    assert not await gate.allowed(PRIVATE)
    assert await gate.allowed(PAGE)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(RULES.decode().encode("utf-16"), id="UTF-16"),
        pytest.param(gzip.compress(RULES), id="gzip"),
        pytest.param(b"\n\xef\xbb\xbf" + RULES, id="a later mark"),
    ],
)
async def test_stores_keep_what_was_served(
    web: Web, open_gate: OpenGate, tmp_path: Path, body: bytes
) -> None:
    """As it came; after a restart it is read as before."""
    web.serve(ROBOTS, body)
    for _ in range(2):
        async with SQLiteStore(tmp_path / "cache.db") as store:
            gate = await open_gate(store=store)
            assert not await gate.allowed(PRIVATE)
            assert (await gate.robots(PAGE)).body == body
            await gate.aclose()
    assert web.urls == [ROBOTS]


@pytest.mark.parametrize(
    "encode", [gzip.compress, lambda text: text.decode().encode("utf-16")], ids=["gzip", "UTF-16"]
)
async def test_of_a_long_file_in_another_form_whole_lines_are_read(
    web: Web, gate: RobotGate, encode: Callable[[bytes], bytes]
) -> None:
    """The limit is that of other files, for what is kept as well."""
    noise = random.Random(1)
    lines = b"".join(b"Allow: /%032x\n" % noise.getrandbits(128) for _ in range(60_000))
    body = encode(RULES + lines)
    web.serve(ROBOTS, body)
    assert not await gate.allowed(PRIVATE)
    record = await gate.robots(PAGE)
    assert len(record.body) <= MAX_BYTES
    assert RobotsTxt.parse(record.body).groups == RobotsTxt.parse(body).groups


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        pytest.param(gzip.compress(RULES)[:-6], {}, id="gzip that breaks off"),
        pytest.param(gzip.compress(RULES)[:-8] + bytes(8), {}, id="gzip with a bad checksum"),
        pytest.param(gzip.compress(RULES) + RULES, {}, id="gzip with more behind it"),
        pytest.param(gzip.compress(b"") * 200, {}, id="gzip of many members"),
        pytest.param(compressed(RULES, 5), {}, id="gzip of gzip of gzip"),
        pytest.param(zlib.compress(RULES * 9), {"Content-Encoding": "none"}, id="zlib that is none"),
        pytest.param(bytes(range(256)), {"Content-Encoding": "utf-8"}, id="binary that is UTF-8"),
        pytest.param(b"\x0b\x02\x80abc\x03", {"Content-Encoding": "brotli"}, id="another name of br"),
    ],
)
async def test_body_that_cannot_be_decoded_closes_the_site(
    web: Web, gate: RobotGate, body: bytes, headers: dict[str, str]
) -> None:
    """As one that is not what Content-Encoding says."""
    web.serve(ROBOTS, body, headers=headers)
    verdict = await gate.check(PAGE)
    assert (verdict.allowed, verdict.access) == (False, AccessResult.UNREACHABLE)


async def test_chunks_that_break_off_close_the_site(web: Web, gate: RobotGate) -> None:
    """Without the last chunk a body is half a body, though every line of it is whole."""

    async def answer(request: aioweb.Request) -> aioweb.StreamResponse:
        response = aioweb.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(RULES)
        assert request.transport is not None
        request.transport.close()
        return response

    web.handle(ROBOTS, answer)
    verdict = await gate.check(PAGE)
    assert (verdict.allowed, verdict.access) == (False, AccessResult.UNREACHABLE)


async def test_compressed_body_that_breaks_off_closes_the_site(web: Web, gate: RobotGate) -> None:
    """Half the promised bytes of a gzip file."""
    octets = gzip.compress(RULES * 100)
    web.handle(
        ROBOTS,
        cut_off(octets[: len(octets) // 2], length=len(octets), headers={"Content-Encoding": "gzip"}),
    )
    verdict = await gate.check(PAGE)
    assert (verdict.allowed, verdict.access) == (False, AccessResult.UNREACHABLE)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_compressed_body_without_its_end_closes_the_site(
    web: Web, gate: RobotGate, encoding: str
) -> None:
    """HTTP says that all came, the compression says it did not: half a file opens nothing."""
    body = b"User-agent: *\n" + b"".join(b"Disallow: /%d\n" % number for number in range(1000)) + RULES
    octets = gzip.compress(body) if encoding == "gzip" else zlib.compress(body)
    web.serve(ROBOTS, octets[: len(octets) // 2], headers={"Content-Encoding": encoding})
    assert not await gate.allowed(PRIVATE)


async def test_body_that_drips_is_given_up(web: Web, session: aiohttp.ClientSession) -> None:
    """The timeout counts the whole answer, not the pause between bytes."""
    web.handle(ROBOTS, dripping())
    began_at = time.monotonic()
    outcome = await AiohttpFetcher(session, SystemClock()).fetch(
        ROBOTS, headers={}, max_bytes=MAX_BYTES, timeout=0.2
    )
    assert isinstance(outcome, Failure)
    assert "within 0.2 s" in outcome.cause
    assert time.monotonic() - began_at >= 0.2


@pytest.mark.parametrize("status", [301, 404, 500])
async def test_endless_body_of_another_status_is_not_read(
    web: Web, session: aiohttp.ClientSession, status: int
) -> None:
    """The status decides; the body is left where it is."""
    web.handle(ROBOTS, endless(b"x" * 65_536, status=status))
    outcome = await AiohttpFetcher(session, SystemClock()).fetch(
        ROBOTS, headers={}, max_bytes=MAX_BYTES, timeout=5
    )
    assert isinstance(outcome, Answer)
    assert replace(outcome, date=None) == Answer(status=status)


@pytest.mark.skipif(
    aiohttp.__version__ == "3.14.0",
    reason="aiohttp 3.14.0 unfolds much more of a page than is read, before the gate sees any of it",
)
async def test_page_that_is_a_gzip_of_a_gigabyte(web: Web, gate: RobotGate) -> None:
    """`max_bytes` counts after decompression, too."""
    web.handle(PAGE, bomb(b"", b"a", mebibytes=1024))
    assert await gate.allowed(PAGE)
    tracemalloc.start()
    try:
        with pytest.raises(ResponseTooLargeError):
            await gate.fetch(PAGE, max_bytes=4 * MEBIBYTE)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MODEST
    assert gate.host(PAGE).open_turns == 0


async def test_connection_of_a_bomb_is_closed(web: Web, open_gate: OpenGate) -> None:
    """The server is not left sending: it sees us go."""
    gone = asyncio.Event()

    async def answer(request: aioweb.Request) -> aioweb.StreamResponse:
        try:
            return await endless(RULES * 1000)(request)
        finally:
            gone.set()

    gate = await open_gate()
    web.handle(ROBOTS, answer)
    assert not await gate.allowed(PRIVATE)
    async with asyncio.timeout(60):
        await gone.wait()
