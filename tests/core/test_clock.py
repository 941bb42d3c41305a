"""The system's time, told so that it never jumps."""

from __future__ import annotations

import time

from robotgate._clock import SystemClock


def test_tells_seconds_since_the_epoch() -> None:
    """A new clock agrees with the machine's."""
    before = time.time()
    told = SystemClock().now()
    assert before - 0.1 <= told <= time.time() + 0.1


def test_never_goes_backwards() -> None:
    """Each instant is as late as the one before, or later."""
    clock = SystemClock()
    told = [clock.now() for _ in range(10_000)]
    assert told == sorted(told)


def test_counts_as_the_monotonic_clock_does() -> None:
    """Between two instants pass as many seconds as the monotonic clock counts, whatever the machine's date does."""
    clock = SystemClock()
    low = time.monotonic()
    first = clock.now()
    high = time.monotonic()
    while time.monotonic() < high + 0.01:
        pass
    passed = time.monotonic() - high
    assert passed - 1e-6 <= clock.now() - first <= time.monotonic() - low + 1e-6
