"""A response of `gate.fetch` whose headers have come: how it is read, or let go of."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import aiohttp

from robotgate._errors import ResponseTooLargeError

if TYPE_CHECKING:
    from robotgate._page import PageRequest, RaiseForStatus
    from robotgate._response import Hop
    from robotgate._turn import OwnTurn

MAX_UNWANTED_BYTES: Final = 64 * 1024
"""The longest body of a redirect that is read to its end; behind it, closing the connection is cheaper."""
UNWANTED_TIMEOUT: Final = 1.0
"""Seconds for that."""


class OpenPage:
    """A page whose headers have come, in its turn.

    Args:
        among: the responses that are open; this one joins them, and leaves them when it is closed.
    """

    __slots__ = ("_among", "history", "request", "response", "turn", "waited")

    def __init__(
        self,
        *,
        request: PageRequest,
        response: aiohttp.ClientResponse,
        turn: OwnTurn,
        history: tuple[Hop, ...],
        waited: float,
        among: set[aiohttp.ClientResponse],
    ) -> None:
        self.request = request
        """Of the last hop."""
        self.response = response
        self.turn = turn
        self.history = history
        self.waited = waited
        self._among = among
        connection = response.connection
        if connection is None:
            self.end_turn()
        else:
            connection.add_callback(self.end_turn)
        # Not before a store that fails has had its say.
        among.add(response)

    def end_turn(self) -> None:
        """The body has come to its end, or will not; ending twice is ending once."""
        self.turn.finish(self.response)

    def close(self) -> None:
        """Let go of a response of which nothing is left."""
        self._among.discard(self.response)
        self.turn.finish(self.response)

    async def aclose(self) -> None:
        """Let go of the response, whatever is left of it."""
        if self.response.connection is None:
            self.close()
            return
        self._among.discard(self.response)
        try:
            self.response.release()
            await self.response.wait_for_close()
        finally:
            self.end_turn()


async def let_go(response: aiohttp.ClientResponse) -> None:
    """Read an answer that nobody wants, so that its turn ends with it and its connection serves again."""
    try:
        async with asyncio.timeout(UNWANTED_TIMEOUT):
            async for _ in response.content.iter_any():
                if response.content.total_bytes > MAX_UNWANTED_BYTES:
                    break
    except (aiohttp.ClientError, TimeoutError):
        # What the redirect says stands in its headers; its body may end as it likes.
        pass
    # With octets left unread, this closes the connection.
    response.release()


async def read_body(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    """The whole of it.

    Raises:
        ResponseTooLargeError: it is longer; the connection is closed.
    """
    content = response.content
    chunks: list[bytes] = []
    left = max_bytes
    while not content.at_eof():
        chunk = await content.readany()
        chunks.append(chunk)
        left -= len(chunk)
        if left < 0:
            response.close()
            raise ResponseTooLargeError(str(response.url), max_bytes)
    return b"".join(chunks)


async def raise_for_status(page: OpenPage, rule: RaiseForStatus) -> None:
    """Hold a page to a rule as aiohttp knows them; one that is not welcome is let go of."""
    is_welcome = False
    try:
        if callable(rule):
            await rule(page.response)
        else:
            page.response.raise_for_status()
        is_welcome = True
    finally:
        if not is_welcome:
            await page.aclose()
