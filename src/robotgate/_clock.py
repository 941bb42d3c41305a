"""The system's time."""

from __future__ import annotations

import time


class SystemClock:
    """Wall-clock seconds that never jump: the epoch is read once, and the monotonic clock counts from there.

    Setting the machine's clock while a gate is open therefore neither shortens nor lengthens any wait.
    """

    __slots__ = ("_epoch",)

    def __init__(self) -> None:
        self._epoch = time.time() - time.monotonic()

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._epoch + time.monotonic()
