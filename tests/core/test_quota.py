"""An operator's quota, as it is given."""

from __future__ import annotations

import math

import pytest

from robotgate.errors import OptionError
from robotgate.options import MAX_REQUESTS, Rate, check_rate, limits


@pytest.mark.parametrize(
    ("value", "rate"),
    [
        (None, None),
        (Rate.UNLIMITED, None),
        (Rate(600, 3600), Rate(600, 3600)),
        ((600, 3600), Rate(600, 3600.0)),
        ([1, 0.5], Rate(1, 0.5)),
        ((MAX_REQUESTS, 1e9), Rate(MAX_REQUESTS, 1e9)),
    ],
)
def test_rate_as_an_option_gives_it(value: tuple[int, float] | None, rate: Rate | None) -> None:
    """A number of requests and of seconds; None and `Rate.UNLIMITED` are no rate."""
    check_rate("rate", value)
    assert limits([value]) == ([] if rate is None else [rate])


def test_rate_that_makes_no_sense_is_refused_by_name(subtests: pytest.Subtests) -> None:
    """The message names the option and what was given."""
    for value in [
        *(600, "600/3600", "ab", (), (600,), (600, 3600, 1), {600: 3600, 1: 2}),
        *((count, 3600) for count in (0, -1, 1.5, True, MAX_REQUESTS + 1, "600", None)),
        *((600, seconds) for seconds in (0, -1, True, "3600", None, math.inf, math.nan, 10**400)),
    ]:
        with subtests.test(value=value):
            with pytest.raises(OptionError) as caught:
                check_rate("total_rate", value)
            assert str(caught.value).startswith(f"total_rate={value!r}: give ")
