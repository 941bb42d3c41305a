"""Many things that are each to be looked at once, some seconds from now, and not to the second: one timer for all.

A timer of the loop takes three hundred octets, with the context it is set in. Of those that are cancelled a loop lets
go only when they are the greater part, so that many that wait keep as many others that do not.
"""

from __future__ import annotations

import asyncio
import math
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from robotgate._alarm import LONGEST_TIMER, Alarm

if TYPE_CHECKING:
    from collections.abc import Callable

GRAIN: Final = 1.0
"""Seconds by which a reminder may come late. It never comes early, unless it is later than `LONGEST_TIMER`."""

Thing = TypeVar("Thing")


class Reminders(Generic[Thing]):
    """Has things looked at, in the running loop.

    Args:
        look: looks at one.
    """

    def __init__(self, look: Callable[[Thing], object]) -> None:
        self._look = look
        self._due: dict[int, list[Thing]] = {}
        """By tick: so many `GRAIN` of the loop's time."""
        self._ticks: list[int] = []
        """Of these the least first, as a heap."""
        self._alarm = Alarm(self._ring)

    def remind(self, thing: Thing, delay: float) -> None:
        """Have something looked at after so many seconds."""
        tick = math.ceil((asyncio.get_running_loop().time() + min(delay, LONGEST_TIMER)) / GRAIN)
        things = self._due.get(tick)
        if things is None:
            things = self._due[tick] = []
            heappush(self._ticks, tick)
            self._set()
        things.append(thing)

    def close(self) -> None:
        """Have nothing looked at any more."""
        self._due.clear()
        self._ticks.clear()
        self._alarm.cancel()

    def _set(self) -> None:
        if self._ticks:
            self._alarm.ring_in(self._ticks[0] * GRAIN - asyncio.get_running_loop().time())

    def _ring(self) -> None:
        now = asyncio.get_running_loop().time()
        try:
            while self._ticks and self._ticks[0] * GRAIN <= now:
                tick = self._ticks[0]
                things = self._due[tick]
                while things:
                    self._look(things.pop())
                # Whoever looks may have closed us.
                if self._due.pop(tick, None) is not None:
                    heappop(self._ticks)
        finally:
            self._set()
