"""What a record means for us at a host with its own options: what counts of the file, and what is refused."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Final

import pytest

from robotgate.options import DEFAULTS, HostOptions, StatusPolicy
from robotgate.pace.spacing import NOTHING_ASKED, Asked
from robotgate.rules.grammar import RequestRate, VisitTime
from robotgate.rules.verdict import Reason
from robotgate.sites.record import Answer, Failure, FetchResult, RobotsRecord, Standing, settle
from robotgate.sites.site import Ruling, ruling_of
from robotgate.sites.status_table import Outcome
from robotgate.urls import Origin

ORIGIN: Final = Origin("http", "a.example", 80)
URL: Final = "http://a.example/robots.txt"
MIDNIGHT: Final = datetime(2026, 11, 21, tzinfo=UTC).timestamp()
HOUR: Final = 3600.0
OPTIONS: Final = DEFAULTS | HostOptions(
    delay=1.0,
    rate=None,
    concurrency_per_host=1,
    max_delay=60.0,
    max_block=300.0,
    latency_factor=0.0,
    obey_crawl_delay=True,
    obey_visit_time=True,
    status_policy=StatusPolicy.DEFAULT,
    ignore_robots=False,
)
BY_DAY: Final = RequestRate(1, 120, 9 * 60, 17 * 60 - 1)
BUSINESS_HOURS: Final = b"Request-rate: 1/2m 0900 - 1659"


def record_of(*lines: bytes, at: float) -> RobotsRecord:
    """What was read at an instant: these lines, in a group ``*``."""
    body = b"\n".join((b"User-agent: *", b"Disallow: /private", *lines, b""))
    ending = FetchResult(Outcome.SUCCESS, Answer(status=200, body=body), URL)
    return settle(ORIGIN, ending, previous=None, now=at, jitter=0.0)


def read(*lines: bytes, options: HostOptions = OPTIONS, at: float = MIDNIGHT) -> Ruling:
    """What a robots.txt means that has these lines in a group ``*``."""
    return ruling_of(record_of(*lines, at=at), token="foobot", options=options, now=at)


def test_what_is_asked_is_taken_from_the_file() -> None:
    """All that our group asks, in as few words as say it."""
    ruling = read(
        b"Crawl-delay: 2.5",
        b"Crawl-delay: 1",
        b"Request-rate: 1/10",
        b"Request-rate: 1/5 0100-0200",
        BUSINESS_HOURS,
        b"Visit-time: 0100-0200",
        b"Visit-time: 0201-0300",
    )
    assert ruling.asked == Asked(crawl_delay=2.5, request_rate=BY_DAY, visit_times=(VisitTime(60, 180),))
    assert ruling.written.crawl_delay == 2.5


@pytest.mark.parametrize(
    ("obey_crawl_delay", "obey_visit_time", "asked"),
    [
        (True, True, Asked(crawl_delay=90.0, request_rate=BY_DAY, visit_times=(VisitTime(60, 120),))),
        (True, False, Asked(crawl_delay=90.0, request_rate=BY_DAY)),
        (False, True, Asked(visit_times=(VisitTime(60, 120),))),
        (False, False, NOTHING_ASKED),
    ],
)
def test_operator_decides_what_counts(
    obey_crawl_delay: bool,  # noqa: FBT001
    obey_visit_time: bool,  # noqa: FBT001
    asked: Asked,
) -> None:
    """What does not count is not refused either, and the verdict still tells what was asked."""
    options = OPTIONS | HostOptions(obey_crawl_delay=obey_crawl_delay, obey_visit_time=obey_visit_time)
    ruling = read(b"Crawl-delay: 90", BUSINESS_HOURS, b"Visit-time: 0100-0200", options=options)
    assert (ruling.asked, ruling.reason is Reason.DELAY_TOO_LONG) == (asked, obey_crawl_delay)
    verdict = ruling.verdict("/", now=MIDNIGHT)
    assert (verdict.allowed, verdict.crawl_delay, verdict.asked_delay) == (not obey_crawl_delay, 90.0, 120.0)


@pytest.mark.parametrize(("max_delay", "is_refused"), [(89.9, True), (90.0, False), (math.inf, False)])
def test_delay_over_max_delay_is_refused(max_delay: float, is_refused: bool) -> None:  # noqa: FBT001
    """Exactly that long is waited for; an operator may wait however long."""
    ruling = read(b"Crawl-delay: 90", options=OPTIONS | HostOptions(max_delay=max_delay))
    assert (ruling.reason is Reason.DELAY_TOO_LONG) is is_refused
    verdict = ruling.verdict("/", now=MIDNIGHT)
    assert verdict.allowed is not is_refused
    assert (verdict.reason is Reason.DELAY_TOO_LONG) is is_refused
    assert verdict.max_delay == (max_delay if is_refused else None)
    assert ruling.verdict("/robots.txt", now=MIDNIGHT).allowed


@pytest.mark.parametrize("hour", [0, 9, 12, 23])
def test_rate_of_some_hours_is_refused_at_all(hour: float) -> None:
    """Whether the site may be used does not change with the hour: the file is used for as long as it is fresh."""
    at = MIDNIGHT + hour * HOUR
    ruling = read(b"Crawl-delay: 5", BUSINESS_HOURS, at=at)
    assert (ruling.reason, ruling.fresh_until_at) == (Reason.DELAY_TOO_LONG, at + 24 * HOUR)


@pytest.mark.parametrize(
    ("lines", "asked_delay", "rate", "words"),
    [
        ((), None, None, None),
        ((b"Crawl-delay: 0",), 0.0, None, None),
        ((b"Crawl-delay: 7.5",), 7.5, None, None),
        ((b"Crawl-delay: 90",), 90.0, None, "(Crawl-delay 90 s is over max_delay=60 s)"),
        ((BUSINESS_HOURS,), 120.0, BY_DAY, "(Request-rate 1/120, 120 s a document, is over max_delay=60 s)"),
        ((BUSINESS_HOURS, b"Crawl-delay: 130"), 130.0, BY_DAY, "(Crawl-delay 130 s is over max_delay=60 s)"),
        ((b"Request-rate: 2/15", b"Crawl-delay: 5"), 7.5, RequestRate(2, 15), None),
        ((b"Request-rate: 1/30", b"Crawl-delay: 45"), 45.0, RequestRate(1, 30), None),
        ((b"Crawl-delay: 1" + b"0" * 63,), 1e63, None, "(Crawl-delay 1e+63 s is over max_delay=60 s)"),
    ],
)
def test_verdict_tells_what_the_site_asks(
    lines: tuple[bytes, ...], asked_delay: float | None, rate: RequestRate | None, words: str | None
) -> None:
    """The longer of the two; a refusal says which it was."""
    verdict = read(*lines).verdict("/", now=MIDNIGHT)
    assert (verdict.asked_delay, verdict.request_rate) == (asked_delay, rate)
    assert verdict.allowed is (words is None)
    if words is not None:
        assert str(verdict) == f"http://a.example/ is disallowed: {Reason.DELAY_TOO_LONG.value} {words}"


def test_stale_rules_still_ask_for_their_delay() -> None:
    """The last good copy binds in all its lines."""
    ending = FetchResult(Outcome.FAILURE, Failure("timed out"), URL)
    known = record_of(b"Crawl-delay: 9", at=MIDNIGHT)
    record = settle(ORIGIN, ending, previous=known, now=MIDNIGHT + 24 * HOUR, jitter=0.0)
    ruling = ruling_of(record, token="foobot", options=OPTIONS, now=MIDNIGHT + 24 * HOUR)
    assert (ruling.standing, ruling.asked.crawl_delay) == (Standing.STALE_RULES, 9.0)
    assert not ruling.verdict("/private", now=MIDNIGHT + 24 * HOUR).allowed
