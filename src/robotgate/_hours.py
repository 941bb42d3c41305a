"""Times of day: when a Visit-time or the hours of a Request-rate hold, in UTC.

A window is named by its first and its last minute after midnight, the last included; it runs past midnight where the
last comes before the first. 24:00 is the end of a day as a last minute, and midnight as a first one.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from itertools import chain
from typing import TYPE_CHECKING, Final

from robotgate._speed import VisitTime

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MINUTE: Final = 60
DAY: Final = 24 * 3600
"""Seconds; the clock of an epoch knows no longer and no shorter day."""
DAY_MINUTES: Final = 24 * 60


def stretches(start_minute: int, end_minute: int) -> tuple[tuple[int, int], ...]:
    """The minutes of one day within a window: one run or two, each from its first to the one after its last."""
    first = start_minute % DAY_MINUTES
    ends_with_the_day = end_minute == DAY_MINUTES and start_minute < DAY_MINUTES
    last = DAY_MINUTES - 1 if ends_with_the_day else end_minute % DAY_MINUTES
    if first <= last:
        return ((first, last + 1),)
    return (0, last + 1), (first, DAY_MINUTES)


def holds(start_minute: int, end_minute: int, *, at: float) -> bool:
    """Whether an instant lies within a window."""
    second = at % DAY
    return any(
        first * MINUTE <= second < after * MINUTE for first, after in stretches(start_minute, end_minute)
    )


def opens_at(hours: Sequence[VisitTime], *, at: float) -> float:
    """The first instant from `at` on that lies within one of the hours; `at` itself where there are none."""
    if not hours or any(holds(window.start_minute, window.end_minute, at=at) for window in hours):
        return at
    return next_time_at(sorted(window.start_minute % DAY_MINUTES * MINUTE for window in hours), at=at)


def next_time_at(seconds: Sequence[int], *, at: float) -> float:
    """The first instant after `at` at one of these times of day.

    Args:
        seconds: after midnight, ascending; at least one.
    """
    if math.isinf(at):
        return at
    second = at % DAY
    # Exact at any date: what is left is a multiple of the day.
    midnight = at - second
    following = bisect_right(seconds, second)
    if following < len(seconds):
        return midnight + seconds[following]
    return midnight + DAY + seconds[0]


def joined(hours: Iterable[VisitTime]) -> tuple[VisitTime, ...]:
    """The same times of day in as few windows as say it, none past midnight: a file may name thousands."""
    runs = sorted(chain.from_iterable(stretches(window.start_minute, window.end_minute) for window in hours))
    whole: list[tuple[int, int]] = []
    for first, after in runs:
        if whole and first <= whole[-1][1]:
            whole[-1] = whole[-1][0], max(whole[-1][1], after)
        else:
            whole.append((first, after))
    return tuple(VisitTime(first, after - 1) for first, after in whole)
