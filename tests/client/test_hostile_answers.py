"""Answers for robots.txt that no honest server sends: `AiohttpFetcher` returns, and nothing hostile opens a site."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from tests.client.hostile_answers import BODY, HOSTILE, answer, compressed, serving

from robotgate.client.robots import AiohttpFetcher
from robotgate.sites.record import Answer, Failure

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_BYTES: Final = 512_001


async def fetched(
    raw: bytes, headers: Mapping[str, str] | None = None, *, pause: float = 0.0, timeout: float = 5.0
) -> Answer | Failure:
    """What comes of one request that is answered so; the session is left as it was."""
    async with serving(raw, pause=pause) as port, aiohttp.ClientSession() as session:
        result = await AiohttpFetcher(session).fetch(
            f"http://127.0.0.1:{port}/robots.txt", headers=headers or {}, max_bytes=MAX_BYTES, timeout=timeout
        )
        assert not list(session.cookie_jar)
        assert session.connector is not None
        assert not session.connector._acquired  # The public way to it is a trace of every request.
    return result


async def test_any_answer_is_an_answer_or_a_failure(subtests: pytest.Subtests) -> None:
    """No exception, whatever a server sends, at once or piece by piece; and a cause in words that can be stored."""
    for pause in [0.0, 0.01]:
        # aiohttp does not notice some broken chunks; the timeout does.
        fetching = [fetched(raw, pause=pause, timeout=0.5) for raw in HOSTILE.values()]
        results = await asyncio.gather(*fetching, return_exceptions=True)
        for name, result in zip(HOSTILE, results, strict=True):
            with subtests.test(pause=pause, name=name):
                if isinstance(result, Failure):
                    assert 0 < len(result.cause.encode()) < 1000
                else:
                    assert isinstance(result, Answer)
                    assert len(result.body) <= MAX_BYTES


@pytest.mark.parametrize(
    ("lines", "body"),
    [
        ((b"Content-Encoding: gzip", b"Content-Encoding: gzip"), compressed(times=2)),
        ((b"Content-Encoding: gzip, gzip",), compressed(times=2)),
        ((b"Content-Encoding: identity", b"Content-Encoding: gzip"), compressed()),
        ((b"Content-Encoding: gzip", b"content-encoding: identity"), compressed()),
        ((b"Content-Encoding: ,", b"Content-Encoding: GZIP ,"), compressed()),
        ((b"Content-Encoding:",), BODY),
        ((b"Content-Encoding: deflate", b"Content-Encoding: gzip"), compressed(BODY)),
        ((b"Content-Encoding: br", b"Content-Encoding: gzip"), compressed()),
        ((b"Content-Encoding: gzip", b"Content-Encoding: br"), compressed()),
        ((b"Transfer-Encoding: gzip",), compressed()),
    ],
)
async def test_file_in_several_codings_is_read_or_a_failure(lines: tuple[bytes, ...], body: bytes) -> None:
    """All lines count, as one list in order: compressed bytes are never read as a file that allows everything."""
    result = await fetched(answer(*lines, body=body))
    assert isinstance(result, Failure) or result.body == BODY


async def test_file_in_two_codings_is_read_up_to_the_bound() -> None:
    """As its header lines say; decoded octets count."""
    twice = answer(b"Content-Encoding: gzip", b"Content-Encoding: gzip", body=compressed(BODY * 30_000, 2))
    result = await fetched(twice)
    assert isinstance(result, Answer)
    assert result.body == (BODY * 30_000)[:MAX_BYTES]


async def test_redirect_to_two_places_is_a_failure() -> None:
    """Neither is followed; twice the same place is one."""
    result = await fetched(answer(b"Location: /a", b"Location: /b", status=b"302 Found"))
    assert isinstance(result, Failure)
    assert "2 places" in result.cause
    result = await fetched(answer(b"Location: /a", b"location:  /a ", status=b"302 Found"))
    assert isinstance(result, Answer)
    assert result.location == "/a"


@pytest.mark.parametrize("status", [b"200 OK", b"503 Busy"])
async def test_repeated_headers_are_read_in_the_stricter_way(status: bytes) -> None:
    """The longest Retry-After, on any status, all of Cache-Control, and no validator where there are two."""
    result = await fetched(
        answer(
            b"Retry-After: 5",
            b"Retry-After: 3600",
            b"Cache-Control: public",
            b"Cache-Control: max-age=600",
            b'ETag: "a"',
            b'ETag: "b"',
            b"Last-Modified: Sat, 21 Nov 2026 12:00:00 GMT",
            b"Last-Modified: Sat, 21 Nov 2026 12:00:00 GMT",
            status=status,
        )
    )
    assert isinstance(result, Answer)
    assert result.retry_after(0.0) == 3600.0
    assert (result.cache_control, result.etag) == ("public, max-age=600", None)
    assert result.last_modified == "Sat, 21 Nov 2026 12:00:00 GMT"


@pytest.mark.parametrize("name", ["gzip of empty members", "gzip of empty blocks"])
async def test_gzip_of_nothing_does_not_hold_the_loop(name: str) -> None:
    """It is given up as soon as that is seen, not at the timeout."""
    result = await fetched(HOSTILE[name], timeout=60.0)
    assert isinstance(result, Failure)
    assert "within" not in result.cause
