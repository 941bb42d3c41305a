"""The system's time."""

from __future__ import annotations

import time
from typing import Final

READINGS: Final = 10
"""Of both clocks, one after the other. What comes between makes the epoch too early, so the latest is the best: the
clocks of two processes of one machine then agree to a microsecond, whatever each was interrupted by."""


class SystemClock:
    """Wall-clock seconds that never jump: the epoch is read once, and the monotonic clock counts from there.

    Setting the machine's clock while a gate is open therefore neither shortens nor lengthens any wait.
    """

    __slots__ = ("_epoch",)

    def __init__(self) -> None:
        self._epoch = max(time.time() - time.monotonic() for _ in range(READINGS))

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._epoch + time.monotonic()
