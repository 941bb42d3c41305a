"""The time: a protocol that tests can replace, the system's own clock, and dates as sites write them."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable


MINUTE: Final = 60
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
"""Seconds. Unix time has no leap seconds, so every day has this length."""
MAX_DATE: Final = 100
"""Characters of a date that are read."""
READINGS: Final = 10
"""Of both clocks, one after the other. An interruption between the two makes the epoch too early, so the latest reading
is the best: the clocks of two processes of one machine then agree to a microsecond."""


@runtime_checkable
class Clock(Protocol):
    """Tells the time."""

    def now(self) -> float:
        """Seconds since the epoch; it must never go backwards while a gate is open."""


class SystemClock:
    """Wall-clock seconds that never jump: the epoch is read once, and the monotonic clock counts from there.

    A change of the machine's clock while a gate is open neither shortens nor lengthens a wait.
    """

    __slots__ = ("epoch",)

    def __init__(self) -> None:
        self.epoch: float = max(time.time() - time.monotonic() for _ in range(READINGS))

    def now(self) -> float:
        """Seconds since the epoch."""
        return self.epoch + time.monotonic()


class SteadyClock:
    """Another clock, without its steps back: a clock that is set back goes on from where it was."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._added = 0.0
        self._last = -math.inf

    def now(self) -> float:
        """Seconds since the epoch, never less than at the last call."""
        at = self._clock.now() + self._added
        if at < self._last:
            self._added += self._last - at
            at = self._last
        self._last = at
        return at


def ticks_of(clock: Clock) -> tuple[Callable[[], float], float]:
    """A function and a number of seconds whose sum is `Clock.now`, to the last bit.

    Of the system's clock it is a built-in function, which takes a third of the time of a method.
    """
    if type(clock) is SystemClock:
        return time.monotonic, clock.epoch
    return clock.now, 0.0


def parse_http_date(text: str) -> datetime | None:
    """A date of HTTP (RFC 9110 §5.6.7), in UTC if it names no time zone; None when it cannot be read."""
    # For what it does not expect, it raises any of these.
    with suppress(ValueError, OverflowError, TypeError, IndexError):
        found = parsedate_to_datetime(text[:MAX_DATE])
        return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return None


def parse_date(text: str) -> datetime | None:
    """A date of ISO 8601 or of HTTP, in UTC if it names no time zone; None when it cannot be read."""
    with suppress(ValueError):
        found = datetime.fromisoformat(text[:MAX_DATE])
        return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return parse_http_date(text)
