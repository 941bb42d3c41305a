"""A worker's signs of life, by which it hears how many there are, and whether the server may throw keys out."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from robotgate.stores.redis._wire import BEAT, Flag

if TYPE_CHECKING:
    from robotgate.stores.redis._turn_calls import TurnCalls

PAUSE: Final = 1.0
"""Seconds between two signs of life."""
LOOK: Final = 60
"""How many of them to one look at what the server does when its memory is full."""

_logger: Final = logging.getLogger("robotgate.stores")


class Heartbeat:
    """Beats by the loop's own timer: it keeps no program alive, and ends with its loop.

    Args:
        server: its name, for the log.
    """

    def __init__(self, calls: TurnCalls, *, server: str) -> None:
        self.workers = 1
        """How many there were when the server was last heard of, we among them."""
        self._calls = calls
        self._server = server
        self._beats = 0
        self._timer: asyncio.TimerHandle | None = None
        self._reply: asyncio.Future[bytes] | None = None

    def start(self) -> None:
        """Beat from now on."""
        if self._timer is None:
            self._beat()

    def stop(self) -> None:
        """Beat no more, and tell so."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._calls.beat(Flag.LEAVING)

    def rebind(self) -> None:
        """The event loop is gone, and another goes on."""
        self._timer = self._reply = None

    def _beat(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(PAUSE, self._beat)
        if self._reply is not None:
            # While the server is away, one question is enough.
            return
        flags = Flag.NONE if self._beats % LOOK else Flag.LOOKING
        self._beats += 1
        self._reply = self._calls.beat(flags)
        self._reply.add_done_callback(self._heard)

    def _heard(self, reply: asyncio.Future[bytes]) -> None:
        self._reply = None
        if reply.cancelled() or reply.exception() is not None:
            # The policy may be another's when it is back.
            self._beats = 0
            return
        _, _, _, workers, evicts = BEAT.unpack(reply.result())
        self.workers = max(int(workers), 1)
        if evicts >= 0:
            self._take_in(may_evict=bool(evicts))

    def _take_in(self, *, may_evict: bool) -> None:
        if may_evict and not self._calls.may_evict:
            _logger.warning(
                "%s may throw hosts out when its memory is full, or does not let this user see whether it does"
                " (INFO memory): whatever is missing there counts as visited now, and blocks can be lost."
                " Set maxmemory-policy to noeviction",
                self._server,
            )
        self._calls.may_evict = may_evict
