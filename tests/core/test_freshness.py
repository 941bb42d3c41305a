"""What headers say of a file's life, and what asks whether it still holds: RFC 9111 §4.2, §4.3, §5.1 to §5.3."""

from __future__ import annotations

import math
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.spec.test_rfc9111 import AT_NOON, AT_ONE, NOON, life

from robotgate.clock import DAY, MINUTE
from robotgate.sites.record import (
    MAX_DELTA,
    MAX_VALIDATOR,
    Answer,
    FetchResult,
    RobotsRecord,
    conditions,
    max_age,
    needs_plain_request,
    settle,
)
from robotgate.sites.status_table import Outcome
from robotgate.urls import Origin

URL: Final = "http://a.example/robots.txt"
AN_HOUR_SOONER: Final = "Sat, 21 Nov 2026 11:00:00 GMT"
TEXTS: Final = (
    st.none() | st.text(max_size=300) | st.sampled_from([AT_NOON, "9" * 400, "-1", "0", "max-age=1"])
)


def used_for(answer: Answer) -> float:
    """The seconds for which an answer that came at noon is used."""
    result = FetchResult(Outcome.SUCCESS, answer, URL)
    record = settle(Origin("http", "a.example", 80), result, previous=None, now=NOON, jitter=0.0)
    return record.fresh_until_at - NOON


def copy_with(etag: str | None, last_modified: str | None) -> RobotsRecord:
    """A copy that came with these validators."""
    return RobotsRecord(
        origin=Origin("http", "a.example", 80),
        outcome=Outcome.SUCCESS,
        checked_at=NOON,
        fresh_until_at=NOON,
        fetched_at=NOON,
        robots_url=URL,
        etag=etag,
        last_modified=last_modified,
    )


def test_cache_control(subtests: pytest.Subtests) -> None:
    """What forbids goes before what grants, the first of several counts, and what cannot be read is stale."""
    for seconds, headers in {
        None: (None, "", ",,, ,", "private", "public, must-revalidate", "s-maxage=600", "x-max-age=600"),
        0.0: (
            "no-store", "max-age=600, no-cache", 'no-cache="Set-Cookie", max-age=600', "max-age", "max-age=",
            "max-age=-5", "max-age=6.5", "max-age=1e3", "max-age=soon", "max-age=\u0663\u0663",
        ),
        1.0: ("max-age=1, max-age=2",),
        2.0: ("max-age=2, max-age=1",),
        60.0: (
            "max-age=60", "Public,Max-Age=60;foo", "max-age = 60", 'max-age="60"', 'max-age="60',
            "max-age=" + "0" * 30 + "60",
        ),
        600.0: ("x-no-cache, max-age=600", 'private="no-store", max-age=600'),
        MAX_DELTA: ("max-age=" + "9" * 900,),
    }.items():  # fmt: skip
        for header in headers:
            with subtests.test(header=header, seconds=seconds):
                assert max_age(header) == seconds


def test_expires(subtests: pytest.Subtests) -> None:
    """It counts from the answer's own date; where that cannot be read, from now; and without sense it has expired."""
    for expires, date, seconds in [
        (AT_ONE, AT_NOON, 3600.0), (AT_ONE, AN_HOUR_SOONER, 7200.0),
        (AT_ONE, None, 3600.0), (AT_ONE, "yesterday", 3600.0), (AT_ONE, "", 3600.0),
        (AT_NOON, AT_NOON, 0.0), (AN_HOUR_SOONER, AT_NOON, 0.0), ("0", AT_NOON, 0.0), ("-1", None, 0.0),
        ("", None, 0.0), ("never", None, 0.0), ("Saturday, 21-Nov-26 13:00:00 GMT", AT_NOON, 3600.0),
        ("Sat Nov 21 13:00:00 2026", AT_NOON, 3600.0), ("Sat, 21 Nov 99999 13:00:00 GMT", AT_NOON, 0.0),
    ]:  # fmt: skip
        with subtests.test(expires=expires, date=date, seconds=seconds):
            assert life(expires=expires, date=date) == seconds


@given(cache_control=TEXTS, expires=TEXTS, date=TEXTS, age=TEXTS)
def test_no_headers_raise_or_leave_the_bounds(
    cache_control: str | None, expires: str | None, date: str | None, age: str | None
) -> None:
    """Whatever a server writes."""
    seconds = life(cache_control, expires=expires, date=date, age=age)
    if seconds is not None:
        assert math.isfinite(seconds)
    answer = Answer(status=200, cache_control=cache_control, expires=expires, date=date, age=age)
    assert 5 * MINUTE <= used_for(answer) <= DAY


def test_only_validators_that_are_some_are_sent_back(subtests: pytest.Subtests) -> None:
    """ETags weak or not (RFC 9110 §13.1.2), but not ``*``, which would match whatever there is. A line end would be a
    header of the server's own choice.
    """
    for etag in ('"v1"', '""', 'W/"v1"', '"a,b"', '"*"', '"!#~"'):
        with subtests.test(etag=etag):
            assert conditions(copy_with(etag, None), URL) == {"If-None-Match": etag}
    for etag in (
        "*", "v1", "", '"v1', 'w/"v1"', '"a", *', '"a"b"', '"a b"', '"a\r\nX-Evil: 1"', '"a\n"', '"a"\n',
        '"a\0"', '"\x7f"', '"\xe9"', '"\udce9"', f'"{"a" * MAX_VALIDATOR}"',
    ):  # fmt: skip
        with subtests.test(etag=etag):
            assert conditions(copy_with(etag, None), URL) == {}
    for date in (
        "",
        "yesterday",
        "0",
        f"{AT_NOON}\r\nX-Evil: 1",
        f"{AT_NOON}\n",
        f"{AT_NOON}{' ' * MAX_VALIDATOR}",
    ):
        with subtests.test(date=date):
            assert conditions(copy_with(None, date), URL) == {}


@given(etag=TEXTS, date=TEXTS)
def test_no_validator_breaks_a_header(etag: str | None, date: str | None) -> None:
    """What is sent is printable ASCII of bounded length."""
    for value in conditions(copy_with(etag, date), URL).values():
        assert value.isascii()
        assert value.isprintable()
        assert len(value) <= MAX_VALIDATOR


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (('"a"', None), ('"a"', None), True),
        (('W/"a"', None), ('"a"', None), True),
        (('"a"', None), ('W/"a"', None), True),
        (('"a"', None), ('"b"', None), False),
        (('"a"', None), (None, None), True),
        ((None, AT_NOON), (None, AT_NOON), True),
        ((None, AT_NOON), (None, AT_ONE), False),
        (('"a"', AT_NOON), ('"a"', AT_ONE), True),
        (('"a"', AT_NOON), (None, AT_ONE), False),
        ((None, AT_NOON), ('"a"', None), True),
    ],
)
def test_4_3_4_a_304_that_names_none_of_our_copies_updates_none(
    ours: tuple[str | None, str | None], theirs: tuple[str | None, str | None], *, expected: bool
) -> None:
    """RFC 9111 §4.3.4 (MUST NOT): it names ours, or none."""
    answer = Answer(status=304, etag=theirs[0], last_modified=theirs[1])
    assert needs_plain_request(copy_with(*ours), answer) is not expected
