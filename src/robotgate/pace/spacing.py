"""What a site asks about our speed: the delay between visits, and the times of day it wants visits at (all UTC).

A Visit-time is a window from its first to its last minute, the last included. It runs past midnight where the last
minute comes before the first. 24:00 as a last minute is the end of the day; as a first minute it is midnight.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Final

from robotgate.clock import DAY, MINUTE
from robotgate.rules.grammar import RequestRate, VisitTime

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


DAY_MINUTES: Final = DAY // MINUTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What one site asks about our speed."""

    crawl_delay: float | None = None
    """Seconds."""
    request_rate: RequestRate | None = None
    """The strictest one, which counts at all hours whatever hours it names."""
    visit_times: tuple[VisitTime, ...] = ()
    """As `joined` returns them; empty means any time."""

    delay: float = field(init=False, repr=False, compare=False)
    """Seconds between visits: the longer of Crawl-delay and Request-rate; 0 when the site asks for neither."""

    def __post_init__(self) -> None:
        rate = self.request_rate
        delay = max(self.crawl_delay or 0.0, 0.0 if rate is None else rate.seconds_per_document)
        object.__setattr__(self, "delay", delay)


NOTHING_ASKED: Final = Asked()


def joined(hours: Iterable[VisitTime]) -> tuple[VisitTime, ...]:
    """The same times of day in the fewest windows, ascending, none past midnight. A file may name thousands."""
    windows: list[VisitTime] = []
    for first, last in sorted(chain.from_iterable(map(_runs, hours))):
        if windows and first <= windows[-1].end_minute + 1:
            windows[-1] = VisitTime(windows[-1].start_minute, max(windows[-1].end_minute, last))
        else:
            windows.append(VisitTime(first, last))
    return tuple(windows)


def opens_at(hours: Sequence[VisitTime], *, at: float) -> float:
    """The first instant from `at` on that lies within the hours; `at` itself where there are none.

    Args:
        hours: as `joined` returns them.
    """
    if not hours or math.isinf(at):
        return at
    second = at % DAY
    # Exact at any date: what is left is a multiple of the day.
    midnight_at = at - second
    over = bisect_right(hours, second, key=lambda window: (window.end_minute + 1) * MINUTE)
    if over == len(hours):
        return midnight_at + DAY + hours[0].start_minute * MINUTE
    return max(at, midnight_at + hours[over].start_minute * MINUTE)


def _runs(window: VisitTime) -> tuple[tuple[int, int], ...]:
    """The minutes of one day within a window: one or two runs, each from its first minute to its last."""
    first = window.start_minute % DAY_MINUTES
    ends_with_the_day = window.end_minute == DAY_MINUTES and window.start_minute < DAY_MINUTES
    last = DAY_MINUTES - 1 if ends_with_the_day else window.end_minute % DAY_MINUTES
    if first <= last:
        return ((first, last),)
    return (0, last), (first, DAY_MINUTES - 1)
