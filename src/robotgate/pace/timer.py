"""Timers of the running loop, no finer than any loop has them."""

from __future__ import annotations

import asyncio
import math
from asyncio import _get_running_loop
from typing import TYPE_CHECKING, Final

from robotgate.clock import DAY

if TYPE_CHECKING:
    from collections.abc import Callable

COARSEST_TIMER: Final = 0.001
"""Seconds. Some loops (uvloop) round timers to this, and fire up to one and a half of it early."""
LONGEST_TIMER: Final = float(DAY)
"""Seconds; a later instant is looked at again by then. No loop has timers without end."""


def is_running(loop: asyncio.AbstractEventLoop | None) -> bool:
    """Return whether this thread runs this event loop now; for None, whether it runs none."""
    return _get_running_loop() is loop


class Timer:
    """One timer of the running loop: it fires at the earliest instant it was set to.

    A loop may fire a timer early. A new timer for the rest, shorter than the loop's resolution, would fire early again.
    So no timer is shorter than `COARSEST_TIMER`, which also lets one firing serve all hosts that are due by then.
    """

    __slots__ = ("_callback", "_handle", "fires_at")

    def __init__(self, callback: Callable[[], object]) -> None:
        self._callback = callback
        self._handle: asyncio.Handle | None = None
        self.fires_at: float = math.inf
        """By the loop's clock; infinity while it is not set."""

    def set(self, delay: float) -> None:
        """Fire after so many seconds, or earlier if it was set to do so."""
        loop = asyncio.get_running_loop()
        fires_at = loop.time() + min(max(delay, COARSEST_TIMER), LONGEST_TIMER)
        if fires_at < self.fires_at:
            if self._handle is not None:
                self._handle.cancel()
            self.fires_at = fires_at
            self._handle = loop.call_at(fires_at, self._fire)

    def cancel(self) -> None:
        """Do not fire."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle, self.fires_at = None, math.inf

    def _fire(self) -> None:
        self._handle, self.fires_at = None, math.inf
        self._callback()
