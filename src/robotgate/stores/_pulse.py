"""Whether the event loop runs: only there are newcomers answered, however well the database's thread may be."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

PATIENCE: Final = 5.0
"""Seconds that an event loop may take to answer. One that takes longer is in a long computation, in a debugger, or
between two calls of `run_until_complete`."""


class Pulse:
    """Asks an event loop whether it runs. It is asked on the database's thread, and answers when it comes to it.

    No timer is needed in the loop, and never does more than one question wait there.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._asked_at: float | None = None

    def is_felt(self) -> bool:
        """Whether it runs, as far as can be told now."""
        if self._loop.is_closed():
            return False
        now = monotonic()
        if self._asked_at is not None:
            return now - self._asked_at <= PATIENCE
        self._asked_at = now
        try:
            self._loop.call_soon_threadsafe(self._answer)
        except RuntimeError:
            # It was closed just now.
            return False
        return True

    def _answer(self) -> None:
        self._asked_at = None
