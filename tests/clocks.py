"""Clocks for tests at real servers and files, where no loop's time can be put on."""

from __future__ import annotations

from robotgate import SystemClock


class LaterClock(SystemClock):
    """The system's clock, put on by so many seconds."""

    offset = 0.0

    def now(self) -> float:
        """Seconds since the epoch."""
        return super().now() + self.offset
