"""`gate.middleware`: the gate inside an aiohttp session, for crawlers whose call sites should not change."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from aiohttp import ClientError
from aiohttp.http import SERVER_SOFTWARE

from robotgate._attempts import attempts_at

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp import ClientHandlerType, ClientRequest, ClientResponse
    from yarl import URL

    from robotgate._identity import Identity
    from robotgate._turn import Turn

    BeginTurn = Callable[[URL], Awaitable[Turn]]

MAX_HOLD: Final = 60.0
"""Seconds without an octet after which a turn ends though its response is neither read nor released: whoever holds it
may be waiting for the very next turn."""


class GateMiddleware:
    """Judges and paces every hop, and every attempt, of every request of a session."""

    def __init__(self, begin: BeginTurn, identity: Identity) -> None:
        self._begin = begin
        self._identity = identity
        self._held: WeakKeyDictionary[ClientRequest, Hold] = WeakKeyDictionary()

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        """Send one request in its turn.

        Raises:
            RobotGateError: as `RobotGate.turn`, before anything is sent.
        """
        attempts = attempts_at(request.url)
        if attempts is not None:
            await attempts.begin()
            return await handler(request)
        self._identify(request)
        unread = self._held.pop(request, None)
        if unread is not None:
            # A retry middleware sends the same request again, and may never read the first answer.
            unread.end()
        turn = await self._begin(request.url)
        with ExitStack() as failing:
            failing.callback(turn.end)
            try:
                response = await handler(request)
            except (ClientError, OSError) as error:
                turn.report(error=error)
                raise
            turn.report(status=response.status, headers=response.headers)
            failing.pop_all()
        self._held[request] = Hold(turn, response)
        return response

    def _identify(self, request: ClientRequest) -> None:
        if request.headers.get("User-Agent") == SERVER_SOFTWARE:
            # aiohttp's own, which says nothing of who crawls.
            del request.headers["User-Agent"]
        self._identity.complete(request.headers)


class Hold:
    """Keeps a turn until its response has been read to the end, or is let go of."""

    def __init__(self, turn: Turn, response: ClientResponse) -> None:
        self._turn = turn
        self._response = response
        connection = response.connection
        self._limit: asyncio.TimerHandle | None = None
        if connection is None:
            self.end()
            return
        self._read_so_far = 0
        self._limit = asyncio.get_running_loop().call_later(MAX_HOLD, self._look)
        connection.add_callback(self.end)

    def _look(self) -> None:
        received = self._response.content.total_bytes
        if received == self._read_so_far:
            self.end()
            return
        self._read_so_far = received
        self._limit = asyncio.get_running_loop().call_later(MAX_HOLD, self._look)

    def end(self) -> None:
        """The response is over; ending twice is ending once."""
        if self._limit is not None:
            self._limit.cancel()
        self._turn.report(bytes=self._response.content.total_bytes)
        self._turn.end()
