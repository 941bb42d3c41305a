"""robots.txt as hostile or broken servers send it: an answer of the status table, in bounded time and memory."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
import zlib
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web as aioweb
from tests.client.hostile_answers import compressed
from tests.gate.servers import PAGE, PRIVATE, ROBOTS, cut_off, endless, hang_up

from robotgate import AccessResult, Reason, ResponseTooLargeError, SQLiteStore
from robotgate.client.robots import AiohttpFetcher
from robotgate.sites import Answer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import OpenGate
    from tests.gate.servers import Handler, Web

    from robotgate import RobotGate

RULES = b"User-agent: *\nDisallow: /private\n"
MAX_BYTES = 512_000
MEBIBYTE = 1024 * 1024


@contextmanager
def memory_is_modest() -> Iterator[None]:
    """Check that what runs within has never held much."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 48 * MEBIBYTE
    finally:
        tracemalloc.stop()


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


async def test_gzip_of_a_gigabyte(web: Web, gate: RobotGate) -> None:
    """The first 512,000 bytes count; the rest is neither waited for nor kept."""
    web.handle(ROBOTS, bomb(RULES, b"\n", mebibytes=1024))
    with memory_is_modest():
        verdict = await gate.check(PRIVATE)
    assert (verdict.allowed, verdict.reason) == (False, Reason.DISALLOWED_BY_RULE)
    assert (await gate.check(PAGE)).allowed


@pytest.mark.parametrize(
    "chunk",
    [b"User-agent: x\nDisallow: /x\n" * 2_000, b"Disallow: /" + b"*a" * 30_000],
    ids=["groups", "one line"],
)
async def test_endless_body(web: Web, gate: RobotGate, chunk: bytes) -> None:
    """A body without an end is left after 512,000 bytes."""
    web.handle(ROBOTS, endless(chunk))
    verdict = await gate.check(PAGE)
    assert (verdict.allowed, verdict.access) == (True, AccessResult.SUCCESSFUL)
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


async def test_rules_are_found(web: Web, gate: RobotGate, subtests: pytest.Subtests) -> None:
    """Whatever lines can be parsed bind (RFC 9309 §2.2)."""
    files: dict[str, tuple[bytes, dict[str, str]]] = {
        "HTML": (b"<html>\n" + RULES + b"</html>", {"Content-Type": "text/html"}),
        "a later mark": (b"# joined\n\xef\xbb\xbf" + RULES, {}),
        "UTF-16": (RULES.decode().encode("utf-16"), {}),
        "gzip": (gzip.compress(RULES), {"Content-Type": "application/gzip"}),
        "gzip twice": (gzip.compress(gzip.compress(RULES)), {"Content-Encoding": "gzip"}),
        "wrong coding": (RULES, {"Content-Encoding": "utf-8"}),
        "octets": (b"\x00\x01\n" + RULES + b"\xff\xfe", {}),
        "wrong charset": (RULES, {"Content-Type": "text/plain; charset=nonsense"}),
    }
    for number, (name, (body, headers)) in enumerate(files.items()):
        site = f"http://site{number}.example"
        web.serve(f"{site}/robots.txt", body, headers=headers)
        with subtests.test(name):
            assert not await gate.allowed(f"{site}/private")
            assert await gate.allowed(f"{site}/page")


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


GZIP = {"Content-Encoding": "gzip"}
ZIPPED = gzip.compress(RULES)
UNREADABLE: dict[str, Handler | tuple[bytes, dict[str, str]]] = {
    "gzip that breaks off": (ZIPPED[:-6], {}),
    "named gzip that breaks off": (ZIPPED[:-6], GZIP),
    "gzip with a bad checksum": (ZIPPED[:-8] + bytes(8), {}),
    "gzip with more behind it": (ZIPPED + RULES, {}),
    "gzip of many members": (gzip.compress(b"") * 200, {}),
    "gzip of gzip of gzip": (compressed(RULES, 5), {}),
    "zlib that is none": (zlib.compress(RULES * 9), {"Content-Encoding": "none"}),
    "binary that is UTF-8": (bytes(range(256)), {"Content-Encoding": "utf-8"}),
    "another name of br": (b"\x0b\x02\x80abc\x03", {"Content-Encoding": "brotli"}),
    "no answer": hang_up(),
    "half of what was promised": cut_off(RULES, length=500),
    "half of a gzip": cut_off(ZIPPED[:20], length=len(ZIPPED), headers=GZIP),
    "chunks without an end": cut_off(RULES, length=None),
}


async def test_body_that_cannot_be_read_closes_the_site(
    web: Web, gate: RobotGate, subtests: pytest.Subtests
) -> None:
    """One that breaks off, or that is not what Content-Encoding says: half a file opens nothing."""
    for number, (name, answer) in enumerate(UNREADABLE.items()):
        site = f"http://site{number}.example"
        if isinstance(answer, tuple):
            web.serve(f"{site}/robots.txt", answer[0], headers=answer[1])
        else:
            web.handle(f"{site}/robots.txt", answer)
        with subtests.test(name):
            verdict = await gate.check(f"{site}/page")
            assert (verdict.allowed, verdict.access, verdict.status) == (
                False,
                AccessResult.UNREACHABLE,
                None,
            )
            assert verdict.cause


@pytest.mark.parametrize("status", [301, 404, 500])
async def test_endless_body_of_another_status_is_not_read(
    web: Web, session: aiohttp.ClientSession, status: int
) -> None:
    """The status decides; the body is left where it is."""
    web.handle(ROBOTS, endless(b"x" * 65_536, status=status))
    outcome = await AiohttpFetcher(session).fetch(ROBOTS, headers={}, max_bytes=MAX_BYTES, timeout=5)
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
    with memory_is_modest(), pytest.raises(ResponseTooLargeError):
        await gate.fetch(PAGE, max_bytes=4 * MEBIBYTE)
    assert gate.host(PAGE).open_turns == 0
