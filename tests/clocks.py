"""Clocks for tests at real servers and files, where no loop's time can be put on."""

from __future__ import annotations

from time import sleep

from robotgate import SystemClock


class LaterClock(SystemClock):
    """The system's clock, put on by so many seconds."""

    offset = 0.0

    def now(self) -> float:
        """Seconds since the epoch."""
        return super().now() + self.offset


class InterruptedClock(SystemClock):
    """That of a process which, every other time that it has looked at it, has to wait for the processor."""

    def __init__(self) -> None:
        super().__init__()
        self._looks = 0

    def now(self) -> float:
        """What the time was then."""
        at = super().now()
        self._looks += 1
        if self._looks % 2:
            sleep(0.02)
        return at
