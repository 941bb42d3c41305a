"""Turns of responses that are still being read: each ends with its response, or when nothing more comes of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from robotgate._turn import finish

if TYPE_CHECKING:
    from aiohttp import ClientRequest, ClientResponse
    from aiohttp.connector import Connection

    from robotgate._turn import Turn

MAX_HOLD: Final = 60.0
"""Seconds without an octet after which a turn ends though its response is neither read nor released: whoever holds it
may be waiting for the very next turn."""


class Holds:
    """The responses of a middleware that are neither read to their ends nor let go of. One timer looks after all."""

    def __init__(self) -> None:
        self._by_request: WeakKeyDictionary[ClientRequest, Hold] = WeakKeyDictionary()
        # All are looked at after the same time, so that who came first is due first.
        self._open: dict[Hold, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def keep(
        self, turn: Turn, request: ClientRequest, response: ClientResponse, connection: Connection
    ) -> None:
        """End a turn when the connection of its response is let go of; or soon, if nobody does."""
        loop = asyncio.get_running_loop()
        hold = self._by_request[request] = Hold(turn, response, self._open)
        hold.look_at = loop.time() + MAX_HOLD
        self._open[hold] = None
        connection.add_callback(hold.end)
        if self._timer is None:
            self._timer = loop.call_at(hold.look_at, self._look)

    def break_off(self, request: ClientRequest) -> None:
        """Close the response that a request has had already, if it is unread.

        Who sends a request again has done with its first answer, and may hold with it the connection that it needs.
        """
        hold = self._by_request.pop(request, None)
        if hold is not None:
            hold.break_off()

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

    __slots__ = ("_among", "_read_so_far", "_response", "_turn", "look_at")

    def __init__(self, turn: Turn, response: ClientResponse, among: dict[Hold, None]) -> None:
        self._turn = turn
        self._response = response
        self._among = among
        self._read_so_far = 0
        self.look_at = 0.0

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
        self._among.pop(self, None)
        finish(self._turn, self._response)
