"""Times of day: windows that wrap, that end with the day, and that never do."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Final

import pytest

from robotgate.pace.spacing import joined, opens_at
from robotgate.rules.grammar import VisitTime

MIDNIGHT: Final = datetime(2026, 11, 21, tzinfo=UTC).timestamp()


def clock(text: str) -> float:
    """An instant of that day, from ``HH:MM`` or ``HH:MM:SS``."""
    hours, minutes, *seconds = map(float, text.split(":"))
    return MIDNIGHT + hours * 3600 + minutes * 60 + (seconds[0] if seconds else 0.0)


def minutes(window: str) -> tuple[int, int]:
    """A window, from ``HHMM-HHMM``."""
    first, last = window.split("-")
    return int(first[:2]) * 60 + int(first[2:]), int(last[:2]) * 60 + int(last[2:])


def visits(*windows: str) -> tuple[VisitTime, ...]:
    """Hours, from ``HHMM-HHMM`` each."""
    return tuple(VisitTime(*minutes(window)) for window in windows)


def test_window_holds_from_its_first_minute_to_the_end_of_its_last(subtests: pytest.Subtests) -> None:
    """The last minute is within; a window may wrap midnight; 24:00 ends a day and begins the next."""
    for window, within, without in [
        ("0900-1700", ["09:00", "17:00:59.999"], ["08:59:59.999", "17:01"]),
        ("2300-0100", ["23:00", "23:59:59.999", "00:00", "01:00:59"], ["22:59:59", "01:01"]),
        ("0000-0000", ["00:00:59"], ["00:01"]),
        ("1200-1200", ["12:00:30"], []),
        ("1200-1159", ["11:59:59", "12:00"], []),
        ("0000-2359", ["23:59:59.999"], []),
        ("0600-2400", ["23:59:59.999"], ["00:00"]),
        ("0000-2400", ["00:00"], []),
        ("2400-0100", ["00:30"], ["23:59:59"]),
        ("2400-2400", ["00:00:59"], ["00:01"]),
    ]:
        for at in [*within, *without]:
            with subtests.test(window=window, at=at):
                assert (opens_at(joined(visits(window)), at=clock(at)) == clock(at)) is (at in within)


def test_hours_of_a_host_that_is_never_to_be_visited() -> None:
    """An operator may block a host for ever; its hours make nothing of it."""
    assert opens_at(visits("0900-1700"), at=math.inf) == math.inf


@pytest.mark.parametrize(
    ("hours", "expected"),
    [
        ((), ()),
        (("0900-1700",), ("0900-1700",)),
        (("0900-1700", "0900-1700"), ("0900-1700",)),
        (("1400-1500", "0900-1000"), ("0900-1000", "1400-1500")),
        (("0900-1000", "1001-1100"), ("0900-1100",)),
        (("0900-1000", "1002-1100"), ("0900-1000", "1002-1100")),
        (("0900-1700", "1000-1100"), ("0900-1700",)),
        (("2300-0100",), ("0000-0100", "2300-2359")),
        (("2300-0100", "0000-2400"), ("0000-2359",)),
        (("2400-2400",), ("0000-0000",)),
    ],
)
def test_hours_join(hours: tuple[str, ...], expected: tuple[str, ...]) -> None:
    """What touches or overlaps becomes one; what passes midnight is cut there."""
    assert joined(visits(*hours)) == visits(*expected)
