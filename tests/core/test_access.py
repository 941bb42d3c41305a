"""The status table, row by row and policy by policy: RFC 9309 §2.3.1 and what the house adds to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robotgate.clock import DAY, HOUR, MINUTE
from robotgate.options import StatusPolicy
from robotgate.rules.grammar import MAX_BYTES
from robotgate.sites.record import (
    Answer,
    Failure,
    FetchResult,
    RobotsRecord,
    Standing,
    follow,
    is_fresh,
    needs_plain_request,
    retry_delay,
    settle,
    standing,
)
from robotgate.sites.status_table import Outcome, outcome_of
from robotgate.urls import Origin

ORIGIN: Final = Origin("http", "a.example", 80)
URL: Final = "http://a.example/robots.txt"
BODY: Final = b"User-agent: *\nDisallow: /private\n"
POLICIES: Final = (
    StatusPolicy.DEFAULT,
    StatusPolicy.RFC9309,
    StatusPolicy.GOOGLE,
    StatusPolicy.CLASSIC,
    StatusPolicy.ARCHIVE,
)

RULES: Final = Standing.RULES
STALE: Final = Standing.STALE_RULES
OPEN: Final = Standing.OPEN
CLOSED: Final = Standing.CLOSED

Standings = tuple[Standing, Standing, Standing, Standing, Standing]
WITHOUT_A_COPY: Final[dict[Outcome, Standings]] = {
    # default, rfc9309, google, classic, archive
    Outcome.SUCCESS: (RULES, RULES, RULES, RULES, RULES),
    Outcome.FORBIDDEN: (CLOSED, OPEN, OPEN, CLOSED, OPEN),
    Outcome.MISSING: (OPEN, OPEN, OPEN, OPEN, OPEN),
    Outcome.OTHER_CLIENT_ERROR: (OPEN, OPEN, OPEN, CLOSED, OPEN),
    Outcome.LOST: (OPEN, OPEN, OPEN, OPEN, OPEN),
    Outcome.NON_PUBLIC: (CLOSED, CLOSED, CLOSED, CLOSED, CLOSED),
    Outcome.NON_PUBLIC_NAME: (CLOSED, CLOSED, CLOSED, CLOSED, CLOSED),
    Outcome.LOST_AGAIN: (CLOSED, CLOSED, CLOSED, CLOSED, CLOSED),
    Outcome.FAILURE: (CLOSED, CLOSED, CLOSED, CLOSED, OPEN),
    Outcome.PROXY: (CLOSED, CLOSED, CLOSED, CLOSED, CLOSED),
}
WITH_A_COPY: Final[dict[Outcome, Standings]] = WITHOUT_A_COPY | {
    Outcome.OTHER_CLIENT_ERROR: (OPEN, OPEN, OPEN, STALE, OPEN),
    Outcome.LOST: (STALE, STALE, STALE, STALE, STALE),
    Outcome.LOST_AGAIN: (STALE, STALE, STALE, STALE, STALE),
    Outcome.FAILURE: (STALE, STALE, STALE, STALE, STALE),
    Outcome.PROXY: (STALE, STALE, STALE, STALE, STALE),
}

STATUS_OF: Final = {
    Outcome.SUCCESS: 200,
    Outcome.FORBIDDEN: 403,
    Outcome.MISSING: 404,
    Outcome.OTHER_CLIENT_ERROR: 418,
    Outcome.LOST: 301,
    Outcome.NON_PUBLIC: 301,
    Outcome.NON_PUBLIC_NAME: 301,
    Outcome.LOST_AGAIN: 304,
    Outcome.FAILURE: 500,
    Outcome.PROXY: 407,
}


def ending(
    outcome: Outcome,
    *,
    status: int | None = None,
    retry_after: float | None = None,
    cache_control: str | None = None,
) -> FetchResult:
    """An attempt that ended so."""
    body = BODY if outcome is Outcome.SUCCESS else b""
    answer = Answer(
        status=STATUS_OF[outcome] if status is None else status,
        body=body,
        headers={} if retry_after is None else {"Retry-After": f"{retry_after:f}"},
        cache_control=cache_control,
        etag='"v1"',
        last_modified="Sat, 21 Nov 2026 00:00:00 GMT",
    )
    return FetchResult(outcome, answer, URL)


def settled(
    outcome: Outcome,
    *,
    previous: RobotsRecord | None = None,
    now: float = 0.0,
    jitter: float = 0.0,
    retry_after: float | None = None,
    cache_control: str | None = None,
) -> RobotsRecord:
    """The record after such an attempt."""
    end = ending(outcome, retry_after=retry_after, cache_control=cache_control)
    return settle(ORIGIN, end, previous=previous, now=now, jitter=jitter)


def cases(table: dict[Outcome, Standings]) -> list[tuple[Outcome, StatusPolicy, Standing]]:
    """A case for each row and policy."""
    return [
        (outcome, policy, expected)
        for outcome, row in table.items()
        for policy, expected in zip(POLICIES, row, strict=True)
    ]


def test_first_attempt(subtests: pytest.Subtests) -> None:
    """What an outcome means for an origin of which nothing is known."""
    for outcome, policy, expected in cases(WITHOUT_A_COPY):
        with subtests.test(outcome=outcome, policy=policy, expected=expected):
            assert standing(settled(outcome, now=100.0), policy, 100.0)[0] is expected


def test_attempt_after_a_good_copy(subtests: pytest.Subtests) -> None:
    """What an outcome means for an origin whose rules were read a day ago."""
    for outcome, policy, expected in cases(WITH_A_COPY):
        with subtests.test(outcome=outcome, policy=policy, expected=expected):
            good = settled(Outcome.SUCCESS)
            later = settled(outcome, previous=good, now=DAY)
            assert standing(later, policy, DAY)[0] is expected
            if expected is STALE:
                assert (later.body, later.fetched_at) == (BODY, 0.0)


@pytest.mark.parametrize(
    ("statuses", "outcome"),
    [
        ((200, 201, 204, 206, 226, 299), Outcome.SUCCESS),
        ((300, 301, 302, 303, 304, 305, 307, 308, 399), Outcome.LOST),
        ((401, 403), Outcome.FORBIDDEN),
        ((404, 410), Outcome.MISSING),
        ((400, 402, 405, 406, 418, 428, 430, 451, 499), Outcome.OTHER_CLIENT_ERROR),
        ((407,), Outcome.PROXY),
        ((408, 421, 425, 429, 500, 502, 503, 504, 520, 599), Outcome.FAILURE),
        ((-1, 0, 100, 101, 199, 600, 999), Outcome.FAILURE),
    ],
)
def test_outcome_of_status(statuses: tuple[int, ...], outcome: Outcome) -> None:
    """Every status that is not followed any further has its row."""
    assert {outcome_of(status) for status in statuses} == {outcome}


@pytest.mark.parametrize(
    "outcome",
    [Outcome.FORBIDDEN, Outcome.MISSING, Outcome.OTHER_CLIENT_ERROR, Outcome.LOST, Outcome.NON_PUBLIC],
)
def test_refusals_hold_for_a_day(outcome: Outcome) -> None:
    """An answer that is no file is taken as known for 24 h, whatever Cache-Control and Retry-After say."""
    record = settled(outcome, now=50.0, cache_control="max-age=1", retry_after=5.0, jitter=0.9)
    assert (record.checked_at, record.fresh_until_at) == (50.0, 50.0 + DAY)


def test_retries_grow_to_an_hour() -> None:
    """A minute, doubling with each failure in a row, at most an hour."""
    delays = [retry_delay(failures, retry_after=None, jitter=0.0) for failures in range(1, 10)]
    assert delays == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    assert retry_delay(10**9, retry_after=None, jitter=0.0) == HOUR


@given(
    failures=st.integers(1, 10**6),
    retry_after=st.none() | st.floats(0, 1e12),
    jitter=st.floats(0, 1, exclude_max=True),
)
def test_retry_jitter_only_lengthens(failures: int, retry_after: float | None, jitter: float) -> None:
    """The jitter adds up to a quarter, and neither it nor anything else cuts what the server asked for (24 h)."""
    plain = retry_delay(failures, retry_after=retry_after, jitter=0.0)
    jittered = retry_delay(failures, retry_after=retry_after, jitter=jitter)
    assert plain <= jittered <= 1.25 * plain
    own = retry_delay(failures, retry_after=None, jitter=0.0)
    assert plain == max(MINUTE, own, min(retry_after or 0.0, DAY))


def test_failures_are_counted_in_a_row() -> None:
    """Failures of either kind add up, keep the instant of the first, and any other outcome forgets them."""
    first = settled(Outcome.FAILURE, now=100.0)
    second = settled(Outcome.NON_PUBLIC_NAME, previous=first, now=200.0)
    third = settled(Outcome.FAILURE, previous=second, now=400.0)
    assert [(record.failures, record.failing_since_at) for record in (first, second, third)] == [
        (1, 100.0),
        (2, 100.0),
        (3, 100.0),
    ]
    assert second.fresh_until_at == 200.0 + 120.0
    assert third.fresh_until_at == 400.0 + 240.0
    for outcome in set(Outcome) - {Outcome.FAILURE, Outcome.NON_PUBLIC_NAME, Outcome.LOST_AGAIN}:
        after = settled(outcome, previous=third, now=700.0)
        assert (after.failures, after.failing_since_at) == (0, None)


def test_last_good_copy_survives_failures_with_all_that_belongs_to_it() -> None:
    """A failure keeps body, validators, time and place of the last good copy."""
    good = replace(
        settled(Outcome.SUCCESS), robots_url="http://b.example/robots.txt", redirects=("http://a.example/r",)
    )
    bad = settled(Outcome.FAILURE, previous=settled(Outcome.FAILURE, previous=good, now=DAY), now=2 * DAY)
    kept = ("body", "fetched_at", "etag", "last_modified", "robots_url", "redirects")
    assert {name: getattr(bad, name) for name in kept} == {name: getattr(good, name) for name in kept}
    assert (bad.outcome, bad.status, bad.cause) == (Outcome.FAILURE, 500, "HTTP status 500")
    assert bad.checked_at == 2 * DAY


def confirmed(known: RobotsRecord, answer: Answer, *, now: float) -> RobotsRecord:
    """The record after a 304 to a request with our conditions."""
    step = follow(known.robots_url, (), answer, is_conditional=True)
    assert isinstance(step, FetchResult)
    return settle(ORIGIN, step, previous=known, now=now, jitter=0.0)


def test_attempts_in_vain_meanwhile_do_not_shorten_the_former_life() -> None:
    """It is counted from when the copy was read."""
    known = settled(Outcome.SUCCESS, cache_control="max-age=7200")
    early = settled(Outcome.FAILURE, previous=known, now=1.5 * HOUR)
    assert confirmed(early, Answer(status=304), now=1.75 * HOUR).fresh_until_at == 3.75 * HOUR


def test_a_304_after_failures_knows_no_former_life() -> None:
    """What a failure was put off by is no life of a copy."""
    failing = settled(Outcome.FAILURE, previous=settled(Outcome.SUCCESS), now=DAY)
    assert confirmed(failing, Answer(status=304), now=2 * DAY).fresh_until_at == 3 * DAY


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Answer(status=412), True),
        (Answer(status=200, etag='"v2"'), False),
        (Answer(status=503), False),
        (Failure("reset"), False),
        (Failure("Bad status line", is_garbled=True), True),
    ],
)
def test_answers_beside_the_point(answer: Answer | Failure, *, expected: bool) -> None:
    """A condition that was refused says nothing of the file, nor does what cannot be read."""
    assert needs_plain_request(settled(Outcome.SUCCESS), answer) is expected


ANSWERED: Final = (
    Outcome.SUCCESS,
    Outcome.MISSING,
    Outcome.FORBIDDEN,
    Outcome.OTHER_CLIENT_ERROR,
    Outcome.LOST,
)


@pytest.mark.parametrize("outcome", ANSWERED)
def test_failure_before_the_end_changes_nothing_yet(outcome: Outcome) -> None:
    """What the site said holds to its end, though it be asked in vain meanwhile; then that is a failure like any."""
    known = settled(outcome)
    early = settled(Outcome.FAILURE, previous=known, now=20 * HOUR)
    again = settled(Outcome.FAILURE, previous=early, now=21 * HOUR)
    for record, failures, at in ((early, 1, 20 * HOUR), (again, 2, 21 * HOUR)):
        assert (record.outcome, record.status, record.body) == (known.outcome, known.status, known.body)
        assert (record.fetched_at, record.fresh_until_at) == (known.fetched_at, known.fresh_until_at)
        assert (record.failures, record.checked_at) == (failures, at)
        assert record.failing_since_at == 20 * HOUR
        assert record.cause == (known.cause or "HTTP status 500")
        for policy in StatusPolicy:
            assert standing(record, policy, at)[0] is standing(known, policy, at)[0]
    late = settled(Outcome.FAILURE, previous=again, now=DAY)
    assert (late.outcome, late.failures, late.failing_since_at) == (Outcome.FAILURE, 3, 20 * HOUR)
    assert late.fresh_until_at == DAY + 240.0
    assert standing(late, StatusPolicy.DEFAULT, DAY)[0] is (STALE if outcome is Outcome.SUCCESS else CLOSED)


@pytest.mark.parametrize("outcome", [Outcome.LOST, Outcome.FAILURE])
def test_fresh_copy_outlives_what_does_not_replace_it(outcome: Outcome) -> None:
    """A redirect to nowhere takes known rules from no site; past their end they hold on, and are asked for again."""
    good = settled(Outcome.SUCCESS)
    early = settled(outcome, previous=good, now=20 * HOUR)
    assert (early.outcome, early.body, early.fresh_until_at) == (Outcome.SUCCESS, BODY, DAY)
    late = settled(outcome, previous=early, now=DAY)
    assert (late.body, late.failures, late.fresh_until_at) == (BODY, 2, DAY + 120.0)
    assert standing(late, StatusPolicy.DEFAULT, DAY)[0] is STALE


def test_redirect_to_nowhere_opens_where_no_copy_is_left() -> None:
    """After thirty days a copy holds no more, and the site has no robots.txt that could be found."""
    lost = settled(Outcome.LOST, previous=settled(Outcome.SUCCESS), now=31 * DAY)
    assert (lost.outcome, standing(lost, StatusPolicy.DEFAULT, 31 * DAY)[0]) == (Outcome.LOST, OPEN)


@pytest.mark.parametrize(
    "outcome", [each for each in Outcome if each not in {Outcome.FAILURE, Outcome.LOST_AGAIN}]
)
def test_answer_before_the_end_counts_at_once(outcome: Outcome) -> None:
    """Only the lack of an answer leaves things as they are: that a name leads inside is no lack of one."""
    previous = settled(Outcome.SUCCESS if outcome is not Outcome.LOST else Outcome.MISSING)
    record = settled(outcome, previous=previous, now=20 * HOUR)
    assert (record.outcome, record.checked_at) == (outcome, 20 * HOUR)


@pytest.mark.parametrize("outcome", [Outcome.FAILURE, Outcome.NON_PUBLIC, Outcome.NON_PUBLIC_NAME])
def test_failure_that_is_asked_again_too_soon_lives_no_longer(outcome: Outcome) -> None:
    """What was no answer of the site's is not held up by another."""
    record = settled(Outcome.FAILURE, previous=settled(outcome, now=0.0), now=1.0)
    assert (record.outcome, record.checked_at) == (Outcome.FAILURE, 1.0)


def test_record_of_the_future_is_not_fresh() -> None:
    """It was written by a clock that was wrong, and would hold for as many years; small differences are none."""
    known = settled(Outcome.SUCCESS, now=10_000 * DAY)
    assert not is_fresh(known, DAY)
    assert is_fresh(known, 10_000 * DAY - 5 * MINUTE)
    assert not is_fresh(known, 10_000 * DAY - 5 * MINUTE - 1)
    assert not is_fresh(known, 10_001 * DAY)
    failing = settled(Outcome.FAILURE, previous=known, now=DAY)
    assert (failing.outcome, failing.fresh_until_at) == (Outcome.FAILURE, DAY + MINUTE)
    assert failing.body == BODY


@pytest.mark.parametrize("policy", StatusPolicy)
def test_stale_copy_serves_thirty_days(policy: StatusPolicy) -> None:
    """So long the last good copy holds; then the site is closed, or open under the policies that open failing sites."""
    failing = settled(Outcome.FAILURE, previous=settled(Outcome.SUCCESS, now=1000.0), now=1000.0 + DAY)
    assert standing(failing, policy, 1000.0 + 30 * DAY - 1)[0] is STALE
    then = OPEN if policy in {StatusPolicy.GOOGLE, StatusPolicy.ARCHIVE} else CLOSED
    assert standing(failing, policy, 1000.0 + 30 * DAY)[0] is then


def test_google_waits_twelve_hours() -> None:
    """Without a copy, Google's policy opens the site twelve hours after the first failure in a row."""
    first = settled(Outcome.FAILURE, now=100.0)
    again = settled(Outcome.FAILURE, previous=first, now=100.0 + 11 * HOUR)
    for record in (first, again):
        assert standing(record, StatusPolicy.GOOGLE, 100.0 + 12 * HOUR - 1)[0] is CLOSED
        assert standing(record, StatusPolicy.GOOGLE, 100.0 + 12 * HOUR)[0] is OPEN
        assert standing(record, StatusPolicy.DEFAULT, 100.0 + 12 * HOUR)[0] is CLOSED


def test_redirect_is_kept_without_credentials() -> None:
    """What is requested next is stored, and told with verdicts."""
    answer = Answer(status=301, location="https://user:pass@b.example/r#part")
    assert follow(URL, (), answer) == "https://b.example/r"


@pytest.mark.parametrize(
    ("status", "location"),
    [(301, None), *((status, "http://b.example/") for status in (200, 300, 304, 305, 306, 404, 500))],
)
def test_what_is_no_redirect_leads_nowhere(status: int, location: str | None) -> None:
    """A redirect has a Location, and one of the statuses that redirect."""
    step = follow(URL, (), Answer(status=status, location=location))
    assert isinstance(step, FetchResult)
    assert step.outcome is outcome_of(status)


@given(st.text(max_size=300))
def test_no_location_raises(location: str) -> None:
    """Whatever a server writes into Location, there is an answer and no exception."""
    step = follow(URL, (), Answer(status=301, location=location))
    assert isinstance(step, str | FetchResult)


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (b"#" * MAX_BYTES, MAX_BYTES),
        (b"#" * MAX_BYTES + b"x", 0),
        (b"a\r" + b"#" * MAX_BYTES, 2),
        (b"#" * (MAX_BYTES - 1) + b"\r\n", MAX_BYTES),
    ],
    ids=["whole", "one line", "cut", "between CR and LF"],
)
def test_only_whole_lines_are_kept_of_a_long_file(body: bytes, kept: int) -> None:
    """Half a rule is no rule, and what is kept is read again as a whole file."""
    end = FetchResult(Outcome.SUCCESS, Answer(status=200, body=body), URL)
    assert settle(ORIGIN, end, previous=None, now=0.0, jitter=0.0).body == body[:kept]
