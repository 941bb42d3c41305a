"""RFC 9309 §2.4: for how long a robots.txt is kept. That a server may use cache control (MAY) is RFC 9111."""

from __future__ import annotations

from itertools import product
from typing import Final

import pytest
from tests.spec.test_rfc9111 import ORIGIN, URL

from robotgate.options import StatusPolicy
from robotgate.sites.record import (
    Answer,
    Failure,
    FetchResult,
    RobotsRecord,
    Standing,
    follow,
    settle,
    standing,
)
from robotgate.sites.status_table import Outcome, outcome_of

BODY: Final = b"User-agent: *\nDisallow: /private\n"
DAY: Final = 24 * 3600.0
A_YEAR: Final = "max-age=31536000, immutable"
NEXT_CENTURY: Final = "Fri, 01 Jan 2100 00:00:00 GMT"


def read(answer: Answer, *, at: float = 0.0) -> RobotsRecord:
    """What is kept of an answer."""
    return settle(
        ORIGIN, FetchResult(outcome_of(answer.status), answer, URL), previous=None, now=at, jitter=0.0
    )


def failed(previous: RobotsRecord, *, at: float) -> RobotsRecord:
    """What is kept after the server could not be reached."""
    ending = FetchResult(Outcome.FAILURE, Failure("connection refused"), URL)
    return settle(ORIGIN, ending, previous=previous, now=at, jitter=0.0)


def test_nothing_is_used_for_more_than_24_hours(subtests: pytest.Subtests) -> None:
    """Whatever the server says of it (SHOULD NOT)."""
    for status in [200, 206, 301, 304, 401, 403, 404, 410, 451]:
        for cache_control, expires, age in product(
            (None, A_YEAR, "public"), (None, NEXT_CENTURY), (None, "60", "-1")
        ):
            with subtests.test(status=status, cache_control=cache_control, expires=expires, age=age):
                answer = Answer(
                    status=status, body=BODY, cache_control=cache_control, expires=expires, age=age
                )
                assert read(answer).fresh_until_at <= DAY


def test_a_confirmed_copy_is_used_for_no_more_than_24_hours_either() -> None:
    """It is asked about each day."""
    known = read(Answer(status=200, body=BODY, etag='"v1"'))
    step = follow(URL, (), Answer(status=304, cache_control=A_YEAR), is_conditional=True)
    assert isinstance(step, FetchResult)
    assert settle(ORIGIN, step, previous=known, now=DAY, jitter=0.0).fresh_until_at == 2 * DAY


@pytest.mark.parametrize("policy", StatusPolicy)
def test_unless_the_file_is_unreachable(policy: StatusPolicy) -> None:
    """Then the cached version goes on, for as long as §2.3.1.4 has it."""
    known = read(Answer(status=200, body=BODY))
    for day in (1, 2, 29):
        known = failed(known, at=day * DAY)
        assert standing(known, policy, day * DAY)[0] is Standing.STALE_RULES
        assert known.body == BODY
