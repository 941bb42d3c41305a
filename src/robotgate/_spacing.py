"""What spaces the visits of a lane: the delay at each time of day, and when a visit is due by it."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple

from robotgate._hours import DAY as DAY_SECONDS
from robotgate._hours import DAY_MINUTES, MINUTE, next_time_at, stretches

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from robotgate._speed import RequestRate, VisitTime


class Day(NamedTuple):
    """The delay at each time of day; cut once, so that asking costs the same whatever a file says."""

    seconds: tuple[int, ...]
    """After midnight, ascending from 0: where a delay begins to hold."""
    delays: tuple[float, ...]
    """Each holds until the next does, the last until midnight."""

    def delay_at(self, at: float) -> float:
        """The delay that holds at an instant."""
        if len(self.delays) == 1:
            return self.delays[0]
        return self.delays[bisect_right(self.seconds, at % DAY_SECONDS) - 1]


_IDLE_DAY: Final = Day((0,), (0.0,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What one site asks about our speed."""

    crawl_delay: float | None = None
    """Seconds."""
    request_rates: tuple[RequestRate, ...] = ()
    visit_times: tuple[VisitTime, ...] = ()
    day: Day = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "day", _asked_day(self.crawl_delay or 0.0, self.request_rates))

    def delay_at(self, at: float) -> float:
        """Seconds: the Crawl-delay or what the slowest Request-rate of the hour comes to; 0 asks for nothing."""
        return self.day.delay_at(at)

    def request_rate_at(self, at: float) -> RequestRate | None:
        """The slowest Request-rate that holds at an instant."""
        second = at % DAY_SECONDS
        holding = (
            rate
            for rate in self.request_rates
            if any(first * MINUTE <= second < after * MINUTE for first, after in _stretches(rate))
        )
        return max(holding, key=lambda rate: rate.seconds_per_document, default=None)

    def next_change_at(self, at: float) -> float:
        """The first instant after `at` at which `delay_at` may change; infinity when it never does."""
        return math.inf if len(self.day.seconds) == 1 else next_time_at(self.day.seconds, at=at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spacing:
    """All that spaces the visits of one lane."""

    floor: float = 0.0
    """Seconds, whatever a site asks: the operator's delay, or what the host's latency calls for if that is longer."""
    asked: tuple[Asked, ...] = ()
    """By every site that is paced here."""
    day: Day = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "day", _joint_day(self.floor, [asked.day for asked in self.asked]))

    def delay_at(self, at: float) -> float:
        """Seconds between visits, for one that begins at this instant."""
        return self.day.delay_at(at)

    def due_at(self, *, since: float, at: float) -> float:
        """The first instant from `at` on that has its own delay between it and the last visit.

        The delay is that of the hour of the visit to come, not of the last one: a rate that lapses at six makes a
        visit due at six.

        Args:
            since: when the last visit was.
        """
        day = self.day
        if len(day.delays) == 1:
            spaced_at = since + day.delays[0]
            return spaced_at if spaced_at > at else at  # noqa: FURB136  # `max` takes five times as long.
        due_at = max(at, since + self.steady_delay)
        # Within a day from here comes the hour of the shortest delay, which is over: no file makes this loop longer.
        for _ in range(len(day.delays) + 1):
            spaced_at = max(due_at, since + day.delay_at(due_at))
            change_at = next_time_at(day.seconds, at=due_at)
            if spaced_at < change_at:
                return spaced_at
            due_at = change_at
        # So far off that a double tells no hours apart.
        return max(at, since + max(day.delays))

    def due_within(self, hours: Sequence[VisitTime], *, since: float, at: float) -> float:
        """As `due_at`, within one of these hours, each of which ends on the day it begins.

        Each stretch of the day that has one delay is asked for its own first instant: no file makes this count days.
        """
        if math.isinf(at):
            return at
        day = self.day
        first_due = math.inf
        for window in hours:
            start, end = window.start_minute * MINUTE, (window.end_minute + 1) * MINUTE
            place = bisect_right(day.seconds, start) - 1
            while start < end:
                place += 1
                after = min(end, day.seconds[place]) if place < len(day.seconds) else end
                spaced_at = max(at, since + day.delays[place - 1])
                second = spaced_at % DAY_SECONDS
                if not start <= second < after:
                    spaced_at += start - second + (DAY_SECONDS if second >= after else 0)
                first_due = min(first_due, spaced_at)
                start = after
        return first_due

    @property
    def steady_delay(self) -> float:
        """Seconds: the shortest that `delay_at` is at any time of day, which a constant period may meter."""
        return min(self.day.delays)


def strictest(rates: Sequence[RequestRate]) -> tuple[RequestRate, ...]:
    """Of these rates, those that are the slowest at some time of day: a file may name thousands."""
    if len(rates) < 2:
        return tuple(rates)
    return tuple(dict.fromkeys(rate for _, rate in _slowest_by_minute(rates) if rate is not None))


def _asked_day(floor: float, rates: Sequence[RequestRate]) -> Day:
    if not rates:
        return Day((0,), (floor,)) if floor else _IDLE_DAY
    return _day(
        (minute * MINUTE, floor if rate is None else max(floor, rate.seconds_per_document))
        for minute, rate in _slowest_by_minute(rates)
    )


def _joint_day(floor: float, days: Collection[Day]) -> Day:
    """A day on which each time of day has the longest of its delays."""
    seconds = sorted({0, *(second for day in days for second in day.seconds)})
    return _day((second, max([floor, *(day.delay_at(second) for day in days)])) for second in seconds)


def _day(steps: Iterable[tuple[int, float]]) -> Day:
    """A day of these delays, each from a second on; those that change nothing are left out."""
    seconds: list[int] = []
    delays: list[float] = []
    for second, delay in steps:
        if not delays or delay != delays[-1]:
            seconds.append(second)
            delays.append(delay)
    return Day(tuple(seconds), tuple(delays))


def _slowest_by_minute(rates: Sequence[RequestRate]) -> list[tuple[int, RequestRate | None]]:
    """From each of some minutes of the day on, the slowest of the rates that hold; ascending from 0."""
    beginning: dict[int, list[tuple[float, int, int]]] = {0: []}
    for ordinal, rate in enumerate(rates):
        for first, after in _stretches(rate):
            beginning.setdefault(first, []).append((-rate.seconds_per_document, ordinal, after))
            if after < DAY_MINUTES:
                beginning.setdefault(after, [])
    holding: list[tuple[float, int, int]] = []
    steps: list[tuple[int, RequestRate | None]] = []
    for minute in sorted(beginning):
        for entry in beginning[minute]:
            heappush(holding, entry)
        while holding and holding[0][2] <= minute:
            heappop(holding)
        steps.append((minute, rates[holding[0][1]] if holding else None))
    return steps


def _stretches(rate: RequestRate) -> tuple[tuple[int, int], ...]:
    if rate.start_minute is None or rate.end_minute is None:
        return ((0, DAY_MINUTES),)
    return stretches(rate.start_minute, rate.end_minute)


NOTHING_ASKED: Final = Asked()
UNSPACED: Final = Spacing()
