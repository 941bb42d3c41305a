"""The operator's hours: how they are read, and when they open where a clock changes."""

from __future__ import annotations

import math
from datetime import datetime
from typing import TYPE_CHECKING, Final

import pytest

from robotgate import OpenHours, OptionError

if TYPE_CHECKING:
    from collections.abc import Callable

MAKE: Final[Callable[..., OpenHours]] = OpenHours
"""For arguments that the type checker would not let pass."""


def instant(text: str) -> float:
    """Seconds since the epoch, of UTC."""
    return datetime.fromisoformat(f"{text}+00:00").timestamp()


@pytest.mark.parametrize(
    ("hours", "at", "opens_at"),
    [
        # On 29 March it is 3:00 at once after 1:59:59, which is 1:00 UTC.
        ("02:30-04:00", "2026-03-28 12:00", "2026-03-29 01:00"),
        ("02:15-02:45", "2026-03-28 12:00", "2026-03-30 00:15"),
        ("03:30-04:00", "2026-03-28 12:00", "2026-03-29 01:30"),
        # On 25 October it is 2:00 again after 2:59:59, which is 1:00 UTC.
        ("02:30-02:45", "2026-10-24 12:00", "2026-10-25 00:30"),
        ("02:30-02:45", "2026-10-25 00:45", "2026-10-25 01:30"),
        ("22:00-02:30", "2026-10-25 00:40", "2026-10-25 01:00"),
    ],
)
def test_clock_of_the_zone_counts(hours: str, at: str, opens_at: str) -> None:
    """A window that begins in the hour that is missing opens after it; one in the hour that comes twice, twice."""
    assert OpenHours(hours, "Europe/Berlin").opens_at(instant(at)) == instant(opens_at)


@pytest.mark.parametrize(
    ("hours", "at", "opens_at"),
    [
        ("Mo-Fr 22:00-06:00, Sa-Su", "2026-11-23 12:00", "2026-11-23 22:00"),
        ("Mo-Fr 22:00-06:00, Sa-Su", "2026-11-28 12:00", "2026-11-28 12:00"),
        ("Sa, Su", "2026-11-23 12:00", "2026-11-28 00:00"),
        ("sa-mo 9:00-10:00,12:00-13:00", "2026-11-24 12:00", "2026-11-28 09:00"),
        ("Su 22:00-06:00", "2026-11-23 05:59", "2026-11-23 05:59"),
        ("Su 22:00-06:00", "2026-11-23 06:00", "2026-11-29 22:00"),
    ],
)
def test_days(hours: str, at: str, opens_at: str) -> None:
    """23 November is a Monday. A window past midnight belongs to the day on which it opens."""
    assert OpenHours(hours).opens_at(instant(at)) == instant(opens_at)


@pytest.mark.parametrize("at", [math.inf, 1e300])
def test_hours_of_a_host_that_is_never_to_be_visited(at: float) -> None:
    """An operator may block a host for ever; the hours make nothing of it."""
    assert OpenHours("Mo 22:00-23:00").opens_at(at) == at


def test_hours_are_read_as_they_are_written() -> None:
    """With their zone, which is UTC where none is named."""
    night = OpenHours("Mo-Fr 22:00-06:00, Sa, Su", "Europe/Berlin")
    assert OpenHours.parse(str(night)) == night
    assert OpenHours.parse("22:00-06:00") == OpenHours.parse("22:00-06:00 UTC") == OpenHours("22:00-06:00")


@pytest.mark.parametrize(
    "hours",
    [
        "", "night", "22", "22-06", "22:00", "22:00-25:00", "24:00-06:00", "22:60-23:00", "06:00-06:00", "00:00-00:00",
        "Mon", "Mo-Fr-Su", "Mo 22:00", "Mo22:00-06:00", "Mo-Fr, 22:00-06:00", "22:00-06:00,", "Mo 1:00-2:00; Tu",
        "22:00-06:00 Mo", "٢٢:00-06:00", "-1:00-06:00", None, 22, ["22:00-06:00"],
    ],
)  # fmt: skip
def test_hours_that_make_no_sense_are_refused(hours: object) -> None:
    """By name; the message says how to write them."""
    with pytest.raises(OptionError, match=r"^hours=.*'Mo-Fr 22:00-06:00, Sa-Su'"):
        MAKE(hours)


@pytest.mark.parametrize(
    "zone", ["", "Mars/Olympus", "Europe", "../UTC", "/etc/localtime", "a" * 300, "\0", None, 1, ["UTC"]]
)
def test_zone_that_is_not_known_is_refused(zone: object) -> None:
    """By name. Where no zones are known, as on Windows, the message says what to install."""
    with pytest.raises(OptionError, match=r"^zone=.*pip install tzdata"):
        MAKE("22:00-06:00", zone=zone)
