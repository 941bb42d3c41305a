"""The system's time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from robotgate._ports import Clock

READINGS: Final = 10
"""Of both clocks, one after the other. What comes between makes the epoch too early, so the latest is the best: the
clocks of two processes of one machine then agree to a microsecond, whatever each was interrupted by."""


class SystemClock:
    """Wall-clock seconds that never jump: the epoch is read once, and the monotonic clock counts from there.

    Setting the machine's clock while a gate is open therefore neither shortens nor lengthens any wait.
    """

    __slots__ = ("epoch",)

    def __init__(self) -> None:
        self.epoch = max(time.time() - time.monotonic() for _ in range(READINGS))

    def now(self) -> float:
        """Seconds since the epoch."""
        return self.epoch + time.monotonic()


def epoch_of(clock: Clock) -> float:
    """The instant at which a clock has the monotonic clock begin, so far as both go on alike."""
    return max(clock.now() - time.monotonic() for _ in range(READINGS))


def ticks_of(clock: Clock) -> tuple[Callable[[], float], float]:
    """What tells a clock's time but for a number of seconds, and that number: the sum is `Clock.now`, to the last bit.

    A function of the interpreter's own takes a third as long as a method, where the time is told for every question.
    """
    if type(clock) is SystemClock:
        return time.monotonic, clock.epoch
    return clock.now, 0.0
