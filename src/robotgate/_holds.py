"""Turns of responses that are still being read: each ends with its response, or when nothing more comes of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from aiohttp import ClientRequest, ClientResponse
    from aiohttp.connector import Connection

    from robotgate._turn import OwnTurn

MAX_HOLD: Final = 60.0
"""Seconds without an octet after which a turn ends though its response is neither read nor released: whoever holds it
may be waiting for the very next turn."""


class Holds:
    """The responses of a middleware that are neither read to their ends nor let go of. One timer looks after all."""

    def __init__(self) -> None:
        self._by_request: dict[ClientRequest, Hold] = {}
        # All are looked at after the same time, so that who came first is due first.
        self._open: dict[Hold, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def keep(
        self, turn: OwnTurn, request: ClientRequest, response: ClientResponse, connection: Connection
    ) -> None:
        """End a turn when the connection of its response is let go of; or soon, if nobody does."""
        loop = asyncio.get_running_loop()
        hold = Hold(self, turn, request, response, loop.time() + MAX_HOLD)
        self._by_request[request] = hold
        self._open[hold] = None
        connection.add_callback(hold.end)
        if self._timer is None:
            self._timer = loop.call_at(hold.look_at, self._look)

    def break_off(self, request: ClientRequest) -> None:
        """Close the response that a request has had already, if it is unread.

        Who sends a request again has done with its first answer, and may hold with it the connection that it needs.
        """
        hold = self._by_request.get(request)
        if hold is not None:
            hold.break_off()

    def let_go(self, hold: Hold) -> None:
        """A response is over."""
        self._open.pop(hold, None)
        if self._by_request.get(hold.request) is hold:
            del self._by_request[hold.request]

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        try:
            self._end_idle(loop.time())
        finally:
            # A store that fails raises here, when a turn ends; the others are looked at all the same.
            if self._open:
                self._timer = loop.call_at(next(iter(self._open)).look_at, self._look)

    def _end_idle(self, now: float) -> None:
        for hold in list(self._open):
            if hold.look_at > now:
                return
            del self._open[hold]
            if hold.has_moved():
                hold.look_at = now + MAX_HOLD
                self._open[hold] = None
            else:
                hold.end()


class Hold:
    """One of them."""

    __slots__ = ("_among", "_read_so_far", "_response", "_turn", "look_at", "request")

    def __init__(
        self, among: Holds, turn: OwnTurn, request: ClientRequest, response: ClientResponse, look_at: float
    ) -> None:
        self.request = request
        self.look_at = look_at
        """When to see whether it moves, by the loop's clock."""
        self._turn = turn
        self._response = response
        self._among = among
        self._read_so_far = 0

    def has_moved(self) -> bool:
        """Whether octets came since this was last asked."""
        before = self._read_so_far
        self._read_so_far = self._response.content.total_bytes
        return self._read_so_far > before

    def break_off(self) -> None:
        """Close the response, if it is still open, and with it the turn."""
        self._response.close()
        self.end()

    def end(self) -> None:
        """The response is over; ending twice is ending once.

        Raises:
            StoreError: as `Turn.end`. Of a connection's callbacks aiohttp tells nobody what they raise: a store that
                still fails is heard of at the host's next turn.
        """
        self._among.let_go(self)
        self._turn.finish(self._response)
