"""The operator's own hours, such as a night in which hosts are visited: days and times of one time zone.

A window opens at its first minute and closes at its last. One that runs past midnight belongs to the day it opens on.
The clock of the zone counts: what it shows twice as daylight saving time ends is open both times, and what it never
shows as that begins is not open that day.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Final, NoReturn, Self

from robotgate.clock import DAY, HOUR, MINUTE
from robotgate.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator

WEEK: Final = 7 * DAY
_DAYS: Final = ("mo", "tu", "we", "th", "fr", "sa", "su")
_DAY: Final = f"({'|'.join(_DAYS)})"
_TIME: Final = "([0-9]{1,2}):([0-5][0-9])"
_PART: Final = re.compile(rf"(?:{_DAY}(?:-{_DAY})?)?(?:(?:^|\s+){_TIME}-{_TIME})?")
"""What stands between two commas: days, a window or both."""
_WITH_ZONE: Final = re.compile(r"(.*\S)\s+([A-Za-z]{3}\S*)", re.DOTALL)
"""Days have two letters."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MONDAY: Final = 3 * DAY
"""Seconds from the beginning of a week to that of the epoch, which is a Thursday."""
_END: Final = 250_000_000_000
"""In the year 9892: the calendar does not go on for ever."""


@dataclass(frozen=True, slots=True)
class OpenHours:
    """Hours in which hosts are visited, as ``OpenHours("Mo-Fr 22:00-06:00, Sa-Su", zone="Europe/Berlin")``.

    Days are Mo, Tu, We, Th, Fr, Sa and Su. Windows without days are those of each day, days without a window are open
    throughout. Commas separate days, windows, and days with their windows. ``OpenHours("00:00-24:00")`` is always.

    Raises:
        OptionError: the hours or the zone make no sense.
    """

    hours: str
    zone: str = "UTC"
    """A name of the IANA time zone database."""
    _zone: tzinfo = field(init=False, repr=False, compare=False)
    _windows: tuple[tuple[int, int], ...] = field(init=False, repr=False, compare=False)
    """From when until when it is open, in seconds since the beginning of a week; ascending, none meets the next."""

    def __post_init__(self) -> None:
        if not isinstance(self.hours, str):
            _refuse(self.hours)
        object.__setattr__(self, "_windows", tuple(_joined(_windows(self.hours))))
        object.__setattr__(self, "_zone", _zone(self.zone))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `str` returns: the hours, and the zone if it is not UTC.

        Raises:
            OptionError: the hours or the zone make no sense.
        """
        found = _WITH_ZONE.fullmatch(text.strip())
        return cls(text) if found is None else cls(found[1], found[2])

    def __str__(self) -> str:
        """As `parse` reads it."""
        return f"{self.hours} {self.zone}"

    def opens_at(self, at: float) -> float:
        """Return the first instant from `at` on that lies within the hours; `at` itself after the year 9000."""
        while abs(at) < _END:
            whole = math.floor(at)
            offset = self._offset(whole)
            second = (whole + offset + _MONDAY) % WEEK
            over = bisect_right(self._windows, second, key=lambda window: window[1])
            opens, _ = self._windows[over] if over < len(self._windows) else (self._windows[0][0] + WEEK, 0)
            if opens <= second:
                return at
            # Not more than a day, so that no two changes of the clock cancel each other out.
            until_at = whole + min(opens - second, DAY)
            if self._offset(until_at) != offset:
                # The clock changes before: what it shows from then on is looked at.
                between = range(whole, until_at)
                until_at = whole + bisect_left(between, True, key=lambda each: self._offset(each) != offset)
            at = float(until_at)
        return at

    def _offset(self, at: int) -> int:
        """Return by how many seconds the clock of the zone is ahead of UTC."""
        offset = (_EPOCH + timedelta(seconds=at)).astimezone(self._zone).utcoffset() or timedelta()
        return offset // timedelta(seconds=1)


def _windows(hours: str) -> Iterator[tuple[int, int]]:
    """Yield the windows of a week, in no order; none runs past its end."""
    days, has_windows = set(range(7)), True
    for part in hours.lower().split(","):
        found = _PART.fullmatch(part.strip())
        if found is None or not found[0]:
            _refuse(hours)
        first, last, *time = found.groups()
        if first is not None:
            # Before a comma without a window the days go on.
            days = (set() if has_windows else days) | _days(first, last or first)
        elif not has_windows:
            _refuse(hours)
        has_windows = time[0] is not None
        if has_windows:
            yield from _of_days(days, *_window(hours, *map(int, time)))
    if not has_windows:
        yield from _of_days(days, 0, DAY)


def _days(first: str, last: str) -> set[int]:
    begin, end = _DAYS.index(first), _DAYS.index(last)
    return {(begin + count) % 7 for count in range((end - begin) % 7 + 1)}


def _window(hours: str, hour: int, minute: int, last_hour: int, last_minute: int) -> tuple[int, int]:
    """From when until when a window is open, in seconds since midnight; until 24 hours later if it runs past that."""
    begin, end = hour * HOUR + minute * MINUTE, last_hour * HOUR + last_minute * MINUTE
    if begin >= DAY or end > DAY or begin == end:
        _refuse(hours)
    return begin, end if end > begin else end + DAY


def _of_days(days: set[int], begin: int, end: int) -> Iterator[tuple[int, int]]:
    for day in days:
        opens, closes = day * DAY + begin, day * DAY + end
        yield opens, min(closes, WEEK)
        if closes > WEEK:
            yield 0, closes - WEEK


def _joined(windows: Iterator[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for opens, closes in sorted(windows):
        if joined and opens <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], closes)
        else:
            joined.append((opens, closes))
    return joined


def _refuse(hours: object) -> NoReturn:
    raise OptionError(
        f"hours={hours!r}: give windows, as '22:00-06:00' or 'Mo-Fr 22:00-06:00, Sa-Su'; always is '00:00-24:00'"
    )


def _zone(name: str) -> tzinfo:
    """Return a time zone.

    Raises:
        OptionError: there is none of this name, or no database of them.
    """
    if name == "UTC":
        # Known without a database.
        return UTC
    # It takes milliseconds that most programs need not spend.
    from zoneinfo import ZoneInfo  # noqa: PLC0415

    try:
        return ZoneInfo(name)
    except (TypeError, LookupError, ValueError, OSError) as error:
        raise OptionError(
            f"zone={name!r}: there is no such time zone; give a name such as 'Europe/Berlin'. Windows knows none of"
            " them without a package: pip install tzdata"
        ) from error
