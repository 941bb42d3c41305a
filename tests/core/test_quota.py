"""An operator's quota: how it is given, and when one more start keeps it."""

from __future__ import annotations

import math
from collections import deque
from typing import Final

import pytest

from robotgate._errors import OptionError
from robotgate._quota import MAX_REQUESTS, Rate, due_at, rate_of

NOW: Final = 1.8e9


@pytest.mark.parametrize(
    ("value", "rate"),
    [
        (None, None),
        ((600, 3600), Rate(600, 3600.0)),
        ([1, 0.5], Rate(1, 0.5)),
        ((MAX_REQUESTS, 1e9), Rate(MAX_REQUESTS, 1e9)),
    ],
)
def test_rate_as_an_option_gives_it(value: object, rate: Rate | None) -> None:
    """A number of requests and of seconds; None is no rate."""
    assert rate_of("rate", value) == rate


@pytest.mark.parametrize(
    "value",
    [
        600,
        "600/3600",
        "ab",
        (),
        (600,),
        (600, 3600, 1),
        (0, 3600),
        (-1, 3600),
        (1.5, 3600),
        (True, 3600),
        (MAX_REQUESTS + 1, 3600),
        ("600", 3600),
        (None, 3600),
        (600, 0),
        (600, -1),
        (600, True),
        (600, "3600"),
        (600, None),
        (600, math.inf),
        (600, math.nan),
        (600, 10**400),
        {600: 3600, 1: 2},
    ],
)
def test_rate_that_makes_no_sense_is_refused_by_name(value: object) -> None:
    """The message names the option and what was given."""
    with pytest.raises(OptionError) as caught:
        rate_of("total_rate", value)
    assert str(caught.value).startswith(f"total_rate={value!r}: give ")


@pytest.mark.parametrize(
    ("starts", "due"),
    [
        ((), 0.0),
        ((0.0,), 0.0),
        ((0.0, 1.0), 0.0),
        ((0.0, 1.0, 2.0), 10.0),
        ((0.0, 1.0, 2.0, 10.0), 11.0),
        ((5.0, 5.0, 5.0), 15.0),
    ],
)
def test_one_more_start_is_due(starts: tuple[float, ...], due: float) -> None:
    """Three in ten seconds: the fourth when the first of the last three is ten seconds ago."""
    rate = Rate(3, 10.0)
    offset = NOW if due else 0.0
    shifted = [offset + start for start in starts]
    assert due_at(shifted, rate) == offset + due
    assert due_at(deque(shifted, maxlen=3), rate) == offset + due


def test_first_hour_holds_no_more_than_the_quota() -> None:
    """Where a bucket that leaks would let a burst through and then the rate on top."""
    rate, now = Rate(600, 3600.0), NOW
    starts: deque[float] = deque(maxlen=rate.requests)
    begun = []
    while now < NOW + 3600:
        starts.append(now)
        begun.append(now)
        now = max(now, due_at(starts, rate))
    assert len(begun) == 600
    assert now == NOW + 3600
