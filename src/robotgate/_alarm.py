"""One timer, whoever asks: it rings at the earliest instant it was set to, and is set anew from there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

COARSEST_TIMER: Final = 0.001
"""Seconds; some loops (uvloop) round timers to this, and fire up to one and a half of it early."""
LONGEST_TIMER: Final = 24 * 3600.0
"""Seconds; what is later is looked at again by then. No loop has timers without end."""


class Alarm:
    """A timer of the running loop that calls one function.

    A loop may ring early. What is set in answer to such a ring, for less than the loop can tell, would ring early
    again and again; the second such timer in a row is therefore set to `COARSEST_TIMER`.
    """

    __slots__ = ("_callback", "_handle", "_is_hasty", "_is_ringing", "_rings_at")

    def __init__(self, callback: Callable[[], object]) -> None:
        self._callback = callback
        self._handle: asyncio.Handle | None = None
        self._rings_at = 0.0
        self._is_ringing = False
        self._is_hasty = False

    def ring_in(self, delay: float) -> None:
        """Ring after so many seconds, or earlier if it was set to do so."""
        loop = asyncio.get_running_loop()
        if self._is_ringing:
            was_hasty, self._is_hasty = self._is_hasty, delay < COARSEST_TIMER
            if was_hasty and self._is_hasty:
                delay = COARSEST_TIMER
        # Not every loop's handle tells its time: uvloop has no timers under a millisecond.
        rings_at = loop.time() + min(delay, LONGEST_TIMER)
        if self._handle is not None:
            if self._rings_at <= rings_at:
                return
            self._handle.cancel()
        self._rings_at = rings_at
        self._handle = loop.call_at(rings_at, self._ring)

    def cancel(self) -> None:
        """Do not ring."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _ring(self) -> None:
        self._handle = None
        self._is_ringing = True
        try:
            self._callback()
        finally:
            self._is_ringing = False
