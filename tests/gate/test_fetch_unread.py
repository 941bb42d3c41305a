"""What `gate.fetch` does with answers that nobody reads: they cost neither octets nor connections."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest
from aiohttp import web as aioweb
from tests.waiting import until

from robotgate import InvalidURLError
from robotgate._open_page import MAX_UNWANTED_BYTES

if TYPE_CHECKING:
    from tests.gate.servers import Handler, Web

    from robotgate import RobotGate

SITE: Final = "http://site.example"
PAGE: Final = f"{SITE}/page"
THERE: Final = f"{SITE}/there"
CHUNK: Final = 16 * 1024


class Pouring:
    """A redirect with a long body, and how much of it was taken."""

    def __init__(self, *, location: str = "/there") -> None:
        self.written = 0
        self.is_over = False
        self._location = location

    def handler(self, *, least: int, then: asyncio.Event) -> Handler:
        """At first so many octets, a chunk at a time; the rest of the body comes after an event."""

        async def answer(request: aioweb.Request) -> aioweb.StreamResponse:
            response = aioweb.StreamResponse(status=302, headers={"Location": self._location})
            try:
                await response.prepare(request)
                while self.written < least:
                    await response.write(b"x" * CHUNK)
                    self.written += CHUNK
                await then.wait()
            finally:
                self.is_over = True
            return response

        return answer


async def test_long_body_of_a_redirect_is_not_waited_for(web: Web, gate: RobotGate) -> None:
    """Once it is longer than is worth reading, the connection is closed: the server sees it, and the fetch goes on."""
    pouring, never = Pouring(), asyncio.Event()
    web.handle(PAGE, pouring.handler(least=2 * MAX_UNWANTED_BYTES, then=never))
    async with asyncio.timeout(0.9):
        assert (await gate.fetch(PAGE)).url == THERE
    await until(lambda: pouring.is_over)


async def test_redirect_that_cannot_be_followed_keeps_no_connection(web: Web, gate: RobotGate) -> None:
    """Its body would go on: the server sees the end at once, though the error, and what it knows of, is kept."""
    pouring, never = Pouring(location="http://[::1"), asyncio.Event()
    web.handle(PAGE, pouring.handler(least=CHUNK, then=never))
    with pytest.raises(InvalidURLError, match="redirected to no URL") as caught:
        await gate.fetch(PAGE)
    await until(lambda: pouring.is_over)
    assert caught.value.__traceback__ is not None
    assert gate.host(PAGE).open_turns == 0
