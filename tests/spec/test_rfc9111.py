"""RFC 9111, as far as a cache of one file for each site goes, clause by clause."""

from __future__ import annotations

from typing import Final

import pytest

from robotgate.sites.record import (
    Answer,
    Failure,
    FetchResult,
    RobotsRecord,
    conditions,
    follow,
    granted_lifetime,
    settle,
)
from robotgate.sites.status_table import Outcome, outcome_of
from robotgate.urls import Origin

ORIGIN: Final = Origin("https", "www.example.com", 443)
URL: Final = "https://www.example.com/robots.txt"
NOON: Final = 1_795_262_400.0
AT_NOON: Final = "Sat, 21 Nov 2026 12:00:00 GMT"
AT_ONE: Final = "Sat, 21 Nov 2026 13:00:00 GMT"
HOUR: Final = 3600.0


def life(
    cache_control: str | None = None,
    *,
    expires: str | None = None,
    date: str | None = AT_NOON,
    age: str | None = None,
) -> float | None:
    """The seconds that an answer of noon may be used."""
    answer = Answer(status=200, cache_control=cache_control, expires=expires, date=date, age=age)
    return granted_lifetime(answer, now=NOON)


def read(answer: Answer) -> RobotsRecord:
    """What is kept of an answer of noon."""
    return settle(
        ORIGIN, FetchResult(outcome_of(answer.status), answer, URL), previous=None, now=NOON, jitter=0.0
    )


def validated(known: RobotsRecord, answer: Answer) -> RobotsRecord:
    """What is kept after an answer to a conditional request, an hour after its end."""
    step = follow(URL, (), answer, is_conditional=True)
    assert isinstance(step, FetchResult)
    return settle(ORIGIN, step, previous=known, now=known.fresh_until_at + HOUR, jitter=0.0)


COPY: Final = read(Answer(status=200, body=b"old", etag='"v1"', last_modified=AT_NOON))


def test_4_2_1_order_of_precedence() -> None:
    """max-age, then Expires less Date; s-maxage is for shared caches."""
    assert life("s-maxage=60, max-age=120", expires=AT_ONE) == 120.0
    assert life("s-maxage=60", expires=AT_ONE) == HOUR
    assert life("s-maxage=60") is None


def test_4_2_1_of_several_values_the_first() -> None:
    """Either that, or the answer counts as stale."""
    assert life("max-age=120, max-age=60") == 120.0


@pytest.mark.parametrize("conflicting", ["no-cache, max-age=60", "max-age=60, no-store"])
def test_4_2_1_of_directives_in_conflict_the_most_restrictive(conflicting: str) -> None:
    """What forbids (SHOULD)."""
    assert life(conflicting) == 0.0


@pytest.mark.parametrize("invalid", ["max-age=a", "max-age=1.5", "max-age=-1", "max-age="])
def test_4_2_1_what_is_invalid_is_stale(invalid: str) -> None:
    """It is asked for again soon (caches are encouraged to)."""
    assert life(invalid) == 0.0


@pytest.mark.parametrize("count", ["2147483648", "99999999999999999999", "9" * 400])
def test_1_2_2_an_overflow_is_a_large_number(count: str) -> None:
    """2 to the power of 31, or what is convenient (MUST)."""
    assert life(f"max-age={count}") == 2.0**31


@pytest.mark.parametrize(
    ("age", "seconds"),
    [
        (None, HOUR), ("0", HOUR), ("1800", 1800.0), (" 600 ", 3000.0), ("3599", 1.0), ("3600", 0.0),
        ("9" * 400, 0.0), ("600, 60", 3000.0), ("60, 120", 3540.0),
        *((none, HOUR) for none in ("-600", "600.5", "1.5", "-1", "old", "")),
    ],
)  # fmt: skip
def test_4_2_3_age_is_part_of_the_life(age: str | None, seconds: float) -> None:
    """What lay in another cache has lived already. Of a list the first counts; what is none is ignored (§5.1)."""
    assert life("max-age=3600", age=age) == seconds
    assert life(expires=AT_ONE, age=age) == seconds


def test_4_3_1_all_validators_are_sent() -> None:
    """The ETag (MUST) and the date (SHOULD), as they came."""
    assert conditions(COPY, URL) == {"If-None-Match": '"v1"', "If-Modified-Since": AT_NOON}


def test_4_3_3_not_modified_is_the_copy() -> None:
    """It is updated and used."""
    record = validated(COPY, Answer(status=304, etag='"v1"'))
    assert (record.body, record.fetched_at) == (b"old", COPY.fresh_until_at + HOUR)


def test_4_3_3_a_full_answer_replaces_it() -> None:
    """It is used, and kept in the copy's place (MUST)."""
    record = validated(COPY, Answer(status=200, body=b"new"))
    assert (record.body, record.etag, record.last_modified) == (b"new", None, None)


def test_4_3_3_after_a_server_error_the_copy_may_be_used() -> None:
    """As if the server had not answered (§4.2.4)."""
    record = validated(COPY, Answer(status=503))
    assert (record.outcome, record.body, record.etag) == (Outcome.FAILURE, b"old", '"v1"')


def test_3_2_headers_of_a_304_replace_those_of_the_copy() -> None:
    """Those that it leaves out stay (§4.3.4)."""
    known = read(
        Answer(status=200, body=b"old", etag='"v1"', last_modified=AT_NOON, cache_control="max-age=7200")
    )
    renewed = validated(known, Answer(status=304, etag='"v1"', last_modified=AT_ONE))
    assert (renewed.etag, renewed.last_modified) == ('"v1"', AT_ONE)
    assert renewed.fresh_until_at - renewed.checked_at == 2 * HOUR
    renewed = validated(known, Answer(status=304, cache_control="max-age=600"))
    assert renewed.fresh_until_at - renewed.checked_at == 600.0


def test_4_2_4_no_connection_leaves_the_copy() -> None:
    """A stale answer where no other is to be had."""
    ending = FetchResult(Outcome.FAILURE, Failure("no such name"), URL)
    record = settle(ORIGIN, ending, previous=COPY, now=COPY.fresh_until_at, jitter=0.0)
    assert (record.body, record.fetched_at) == (b"old", NOON)


@pytest.mark.parametrize("expires", ["0", "-1", "soon", "Sat, 21 Nov 2026 11:00:00 GMT"])
def test_5_3_invalid_dates_have_passed(expires: str) -> None:
    """The value 0 above all (MUST)."""
    assert life(expires=expires) == 0.0


@pytest.mark.parametrize(
    ("cache_control", "seconds"),
    [("max-age=60", 60.0), ("no-cache", 0.0), ("max-age=soon", 0.0), ("private", HOUR)],
)
def test_5_3_max_age_has_expires_ignored(cache_control: str, seconds: float) -> None:
    """Even where it is the shorter (MUST), or makes no sense."""
    assert life(cache_control, expires=AT_ONE) == seconds


@pytest.mark.parametrize("date", [None, "today", ""])
def test_without_a_date_the_moment_of_arrival_counts(date: str | None) -> None:
    """RFC 9110 §6.6.1: the recipient's clock is used."""
    assert life(expires=AT_ONE, date=date) == HOUR
