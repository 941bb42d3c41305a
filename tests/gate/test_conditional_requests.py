"""ETag, Last-Modified and 304 at real servers: a copy that is only confirmed, and servers that lie about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from aiohttp import web as aioweb
from tests.clocks import LaterClock
from tests.gate.servers import PAGE, PRIVATE, ROBOTS, RULES, raw

from robotgate import AccessResult

if TYPE_CHECKING:
    from tests.conftest import OpenGate
    from tests.gate.servers import Web

ELSEWHERE: Final = "http://elsewhere.example/rules"
DATE: Final = "Sat, 21 Nov 2026 00:00:00 GMT"
DAY: Final = 86_400.0


class File:
    """A file as honest servers serve it, with whatever validators it has."""

    def __init__(self, body: str, *, etag: str | None = None, last_modified: str | None = None) -> None:
        self.body = body
        self.etag = etag
        self.last_modified = last_modified
        self.more: dict[str, str] = {}
        self.statuses: list[int] = []

    async def answer(self, request: aioweb.Request) -> aioweb.StreamResponse:
        """The file, or that it is the one the client has (RFC 9110 §13.2.2)."""
        headers = {"ETag": self.etag, "Last-Modified": self.last_modified}
        given = {name: value for name, value in headers.items() if value is not None} | self.more
        asked, since = request.headers.get("If-None-Match"), request.headers.get("If-Modified-Since")
        if asked is not None:
            is_known = self.etag is not None and asked.removeprefix("W/") == self.etag.removeprefix("W/")
        else:
            is_known = since is not None and since == self.last_modified
        status = 304 if is_known else 200
        self.statuses.append(status)
        return aioweb.Response(status=status, body=None if is_known else self.body.encode(), headers=given)


def asked_with(web: Web, url: str) -> list[tuple[str | None, str | None]]:
    """The conditions of each request for a URL."""
    return [
        (visit.headers.get("If-None-Match"), visit.headers.get("If-Modified-Since"))
        for visit in web.visits
        if visit.url == url
    ]


@pytest.mark.parametrize(
    ("etag", "last_modified"),
    [('"v1"', None), ('W/"v1"', None), (None, DATE), ('"v1"', DATE), ('"' + "x" * 190 + '"', None)],
)
async def test_copy_is_confirmed(
    web: Web, open_gate: OpenGate, etag: str | None, last_modified: str | None
) -> None:
    """The second request has the copy's validators, its answer no body, and the rules are as before."""
    file = File(RULES, etag=etag, last_modified=last_modified)
    web.handle(ROBOTS, file.answer)
    clock = LaterClock()
    gate = await open_gate(clock=clock)
    before = await gate.check(PRIVATE)
    clock.offset = DAY + 1
    file.more = {"Cache-Control": "max-age=7200"}
    after = await gate.check(PRIVATE)
    assert file.statuses == [200, 304]
    assert asked_with(web, ROBOTS) == [(None, None), (etag, last_modified)]
    assert (after.allowed, after.rule, after.access) == (False, before.rule, AccessResult.SUCCESSFUL)
    assert (after.status, after.stale, after.cause) == (304, False, None)
    assert before.fetched_at is not None
    assert after.fetched_at is not None
    assert after.fresh_until_at is not None
    assert after.fetched_at - before.fetched_at >= DAY
    assert after.fresh_until_at - after.fetched_at == pytest.approx(7200)
    assert (await gate.check(PAGE)).allowed


@pytest.mark.parametrize("tag", ['"v1"', 'W/"v1"'])
async def test_copy_that_apache_compressed_is_confirmed(web: Web, open_gate: OpenGate, tag: str) -> None:
    """Apache puts a mark into the tag of a file that it compresses, and knows the tag only without it (bug 45023)."""
    file = File(RULES, etag=tag)

    async def compressed(request: aioweb.Request) -> aioweb.StreamResponse:
        known = [each.strip() for each in request.headers.get("If-None-Match", "").split(",")]
        file.statuses.append(304 if tag in known else 200)
        if file.statuses[-1] == 304:
            return aioweb.Response(status=304, headers={"ETag": tag})
        return aioweb.Response(text=file.body, headers={"ETag": f'{tag[:-1]}-gzip"'})

    web.handle(ROBOTS, compressed)
    gate = await open_gate()
    for _ in range(3):
        await gate.refresh(PAGE)
        assert not await gate.allowed(PRIVATE)
    assert file.statuses == [200, 304, 304]


async def test_copy_behind_redirects_is_confirmed_where_it_was_read(web: Web, open_gate: OpenGate) -> None:
    """Only its own URL is asked about it; the way there is asked as ever, and may be another today."""
    file = File(RULES, etag='"v1"')
    web.handle(ELSEWHERE, file.answer)
    web.redirect(ROBOTS, ELSEWHERE)
    clock = LaterClock()
    gate = await open_gate(clock=clock)
    assert not await gate.allowed(PRIVATE)
    web.redirect(ROBOTS, "http://between.example/r")
    web.redirect("http://between.example/r", ELSEWHERE)
    clock.offset = DAY + 1
    verdict = await gate.check(PRIVATE)
    assert (verdict.allowed, verdict.status, verdict.robots_url) == (False, 304, ELSEWHERE)
    assert verdict.redirects == (ROBOTS, "http://between.example/r")
    assert asked_with(web, ROBOTS) == [(None, None)] * 2
    assert asked_with(web, "http://between.example/r") == [(None, None)]
    assert asked_with(web, ELSEWHERE) == [(None, None), ('"v1"', None)]


async def test_file_that_has_moved_is_read_without_conditions(web: Web, open_gate: OpenGate) -> None:
    """Another URL's file with the same ETag is another file."""
    old, new = File(RULES, etag='"v1"'), File("", etag='"v1"')
    web.handle(ROBOTS, old.answer)
    web.handle(ELSEWHERE, new.answer)
    clock = LaterClock()
    gate = await open_gate(clock=clock)
    assert not await gate.allowed(PRIVATE)
    web.redirect(ROBOTS, ELSEWHERE)
    clock.offset = DAY + 1
    assert await gate.allowed(PRIVATE)
    assert asked_with(web, ELSEWHERE) == [(None, None)]
    assert new.statuses == [200]


async def test_304_about_another_copy_is_not_believed(web: Web, open_gate: OpenGate) -> None:
    """It would have us keep the old rules under the new ETag for ever; the file is read instead."""
    file = File(RULES, etag='"v1"')
    web.handle(ROBOTS, file.answer)
    clock = LaterClock()
    gate = await open_gate(clock=clock)
    assert not await gate.allowed(PRIVATE)
    file.body, file.etag = "", '"v2"'

    async def muddled(request: aioweb.Request) -> aioweb.StreamResponse:
        if "If-None-Match" in request.headers:
            return aioweb.Response(status=304, headers={"ETag": '"v2"'})
        return await file.answer(request)

    web.handle(ROBOTS, muddled)
    clock.offset = DAY + 1
    assert await gate.allowed(PRIVATE)
    assert asked_with(web, ROBOTS) == [(None, None), ('"v1"', None), (None, None)]


@pytest.mark.parametrize("length", [b"", b"Content-Length: 26\r\n"])
async def test_304_with_a_body_leaves_the_rules_as_they_are(
    web: Web, open_gate: OpenGate, length: bytes
) -> None:
    """The bytes behind it are not read; where aiohttp cannot tell, the request is repeated without conditions."""
    file = File(RULES, etag='"v1"')
    muddled = raw(b"HTTP/1.1 304 Not Modified\r\n" + length + b"\r\nUser-agent: *\nDisallow: /\n")

    async def answer(request: aioweb.Request) -> aioweb.StreamResponse:
        return await (muddled if "If-None-Match" in request.headers else file.answer)(request)

    web.handle(ROBOTS, answer)
    clock = LaterClock()
    gate = await open_gate(clock=clock)
    assert await gate.allowed(PAGE)
    clock.offset = DAY + 1
    verdict = await gate.check(PRIVATE)
    assert (verdict.allowed, verdict.stale, verdict.rule is not None) == (False, False, True)
    assert (await gate.fetch(PAGE)).text == "a page"
    assert len(web.visits) in (3, 4)
