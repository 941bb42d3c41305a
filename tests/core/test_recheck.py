"""When a robots.txt that still holds is asked for again: three quarters of its life, and the operator's triggers."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Final

import pytest

from robotgate import OptionError, Origin, Recheck
from robotgate.clock import DAY, HOUR, MINUTE
from robotgate.sites import Outcome, RobotsRecord
from robotgate.sites.site import FIRST_REFRESH, LAST_REFRESH, recheck_is_due, refresh_at

ORIGIN: Final = Origin("http", "a.example", 80)
KNOWN: Final = RobotsRecord(
    origin=ORIGIN, outcome=Outcome.SUCCESS, checked_at=1000.0, fresh_until_at=1000.0 + DAY, body=b"x" * 2000
)


@pytest.mark.parametrize("life", [5 * MINUTE, HOUR, DAY, 400 * DAY])
def test_three_quarters_of_a_life_and_some_more(life: float) -> None:
    """Between 0.75 and 0.85 of it, at an instant that is the origin's own."""
    record = replace(KNOWN, fresh_until_at=1000.0 + life)
    at = refresh_at(record, None)
    assert 0.75 * life <= at - 1000.0 <= 0.85 * life
    assert at == refresh_at(replace(record, body=b""), None)
    assert (FIRST_REFRESH, LAST_REFRESH) == (0.75, 0.85)


def test_origins_learnt_together_are_not_refreshed_together() -> None:
    """Of ten thousand, learnt for a day in one second, no more than a handful are due in the same one."""
    due = Counter(
        int(refresh_at(replace(KNOWN, origin=Origin("https", f"{number}.site.example", 443)), None))
        for number in range(10_000)
    )
    assert max(due.values()) <= 12
    assert len(due) > 5000


@pytest.mark.parametrize("outcome", [Outcome.FAILURE, Outcome.NON_PUBLIC_NAME, Outcome.NON_PUBLIC])
def test_who_could_not_be_asked_is_not_asked_sooner(outcome: Outcome) -> None:
    """Its record ends when it may be tried again, and Retry-After is a part of that."""
    record = replace(KNOWN, outcome=outcome, failures=1)
    assert refresh_at(record, Recheck(age=1.0)) == record.fresh_until_at


@pytest.mark.parametrize(
    "outcome", [Outcome.MISSING, Outcome.FORBIDDEN, Outcome.OTHER_CLIENT_ERROR, Outcome.LOST]
)
def test_refusals_are_answers_too(outcome: Outcome) -> None:
    """Nothing that follows them may be waited for either."""
    assert refresh_at(replace(KNOWN, outcome=outcome), None) == refresh_at(KNOWN, None)


@pytest.mark.parametrize(("failures", "delay"), [(1, 60.0), (2, 120.0), (7, 3600.0)])
def test_after_a_failure_it_is_tried_again_as_any_failure(failures: int, delay: float) -> None:
    """A minute, doubling to an hour, with the origin's own jitter; `Recheck` makes that no faster."""
    at = refresh_at(replace(KNOWN, failures=failures), Recheck(age=1.0))
    assert delay <= at - 1000.0 <= 1.25 * delay


def test_no_refresh_comes_after_the_end() -> None:
    """Then it is too late for one."""
    failing = replace(KNOWN, failures=7, fresh_until_at=1010.0)
    assert refresh_at(failing, None) == 1010.0
    over = replace(KNOWN, checked_at=1000.0, fresh_until_at=0.0)
    assert refresh_at(over, None) == 0.0


@pytest.mark.parametrize("size", [0, 10, 1024])
def test_a_small_file_counts_for_1_kib(size: int) -> None:
    """An empty one would be requested again after each page."""
    record = replace(KNOWN, body=b"x" * size)
    for read, expected in ((3 * 1024, False), (3 * 1024 + 1, True)):
        assert recheck_is_due(record, Recheck(bytes_ratio=3.0), visits=87, bytes_read=read) is expected


@pytest.mark.parametrize(
    "record", [replace(KNOWN, failures=1), replace(KNOWN, outcome=Outcome.FAILURE, failures=1)]
)
def test_traffic_shortens_no_pause_after_a_failure(record: RobotsRecord) -> None:
    """A site in trouble is not asked the more the more it is visited."""
    assert not recheck_is_due(record, Recheck(visits=1), visits=100, bytes_read=0)


def test_senseless_triggers_are_refused_by_name(subtests: pytest.Subtests) -> None:
    """What would ask all the time, or never."""
    for options, name in [
        ({"visits": 0}, "visits"),
        ({"visits": -1}, "visits"),
        ({"visits": 1.5}, "visits"),
        ({"visits": True}, "visits"),
        ({"age": 0}, "age"),
        ({"age": -1.0}, "age"),
        ({"age": math.nan}, "age"),
        ({"age": math.inf}, "age"),
        ({"age": "day"}, "age"),
        ({"bytes_ratio": 0.0}, "bytes_ratio"),
        ({"bytes_ratio": math.inf}, "bytes_ratio"),
        ({"bytes_ratio": False}, "bytes_ratio"),
        ({"visits": 5, "age": 0}, "age"),
        ({}, "give visits, age or bytes_ratio"),
    ]:
        with subtests.test(options=options, name=name), pytest.raises(OptionError, match=name):
            Recheck(**options)  # type: ignore[arg-type]
