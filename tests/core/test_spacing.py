"""What spaces visits: the longest of what is asked at the hour, and when a visit is due by it."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Final

import pytest

from robotgate._spacing import NOTHING_ASKED, Asked, Spacing, strictest
from robotgate._speed import RequestRate

MIDNIGHT: Final = datetime(2026, 11, 21, tzinfo=UTC).timestamp()
HOUR: Final = 3600.0
DAY: Final = 24 * HOUR
BY_DAY: Final = RequestRate(1, 60, 9 * 60, 17 * 60 - 1)
BY_NIGHT: Final = RequestRate(1, 30, 22 * 60, 6 * 60 - 1)
ALWAYS: Final = RequestRate(1, 10)
HUGE: Final = RequestRate(1, 999_999_999 * 86_400, 0, 12 * 60 - 1)


@pytest.mark.parametrize(
    ("asked", "hour", "delay"),
    [
        (NOTHING_ASKED, 12, 0.0),
        (Asked(crawl_delay=0.25), 12, 0.25),
        (Asked(crawl_delay=0.0), 12, 0.0),
        (Asked(request_rates=(RequestRate(3, 10),)), 12, 10 / 3),
        (Asked(request_rates=(BY_DAY, ALWAYS)), 8, 10.0),
        (Asked(request_rates=(BY_DAY, ALWAYS)), 9, 60.0),
        (Asked(request_rates=(BY_DAY, ALWAYS)), 17, 10.0),
        (Asked(request_rates=(BY_DAY, BY_NIGHT)), 23, 30.0),
        (Asked(request_rates=(BY_DAY, BY_NIGHT)), 5, 30.0),
        (Asked(request_rates=(BY_DAY, BY_NIGHT)), 7, 0.0),
        (Asked(crawl_delay=45.0, request_rates=(BY_DAY, BY_NIGHT)), 23, 45.0),
        (Asked(crawl_delay=45.0, request_rates=(BY_DAY, BY_NIGHT)), 9, 60.0),
        (Asked(request_rates=(RequestRate(1, 7, 0, 1440), BY_NIGHT)), 24, 30.0),
    ],
)
def test_longest_of_what_is_asked_counts(asked: Asked, hour: int, delay: float) -> None:
    """Crawl-delay or the slowest rate of the hour, fractions and all."""
    at = MIDNIGHT + hour * HOUR
    assert asked.delay_at(at) == delay
    slowest = asked.request_rate_at(at)
    assert max(asked.crawl_delay or 0.0, 0.0 if slowest is None else slowest.seconds_per_document) == delay


@pytest.mark.parametrize(
    ("asked", "hour", "change"),
    [
        (NOTHING_ASKED, 3, math.inf),
        (Asked(crawl_delay=5.0, request_rates=(ALWAYS,)), 3, math.inf),
        (Asked(request_rates=(RequestRate(1, 9, 0, 1440),)), 3, math.inf),
        (Asked(request_rates=(BY_DAY,)), 3, 9),
        (Asked(request_rates=(BY_DAY,)), 9, 17),
        (Asked(request_rates=(BY_NIGHT,)), 23, 24),
        (Asked(crawl_delay=60.0, request_rates=(BY_DAY,)), 3, math.inf),
    ],
)
def test_delay_changes_with_the_hours_of_a_rate(asked: Asked, hour: int, change: float) -> None:
    """Never where nothing is for hours only, or where it is covered by something longer."""
    assert asked.next_change_at(MIDNIGHT + hour * HOUR) == MIDNIGHT + change * HOUR


def test_all_who_are_paced_together_are_heard() -> None:
    """The floor and every site: the longest counts, at each hour its own."""
    spacing = Spacing(floor=15.0, asked=(Asked(crawl_delay=5.0), Asked(request_rates=(BY_DAY, BY_NIGHT))))
    assert [spacing.delay_at(MIDNIGHT + hour * HOUR) for hour in (0, 7, 9, 17, 22)] == [30, 15, 60, 15, 30]


@pytest.mark.parametrize(
    ("since", "at", "due"),
    [
        (12 * HOUR, 12 * HOUR, 12 * HOUR + 60),
        (12 * HOUR, 12 * HOUR + 90, 12 * HOUR + 90),
        (9 * HOUR - 1, 9 * HOUR - 1, 9 * HOUR - 0.5),
        (9 * HOUR - 0.25, 9 * HOUR - 0.25, 9 * HOUR + 59.75),
        (17 * HOUR - 10, 17 * HOUR - 10, 17 * HOUR),
        (17 * HOUR - 60, 17 * HOUR - 60, 17 * HOUR),
        (17 * HOUR - 61, 17 * HOUR - 61, 17 * HOUR - 1),
    ],
)
def test_due_by_the_delay_of_the_hour_of_the_visit(since: float, at: float, due: float) -> None:
    """A rate that begins holds the visit back that would fall into its hours; one that lapses lets it go."""
    spacing = Spacing(floor=0.5, asked=(Asked(request_rates=(BY_DAY,)),))
    assert spacing.due_at(since=MIDNIGHT + since, at=MIDNIGHT + at) == MIDNIGHT + due


def test_visit_that_a_rate_can_never_grant_waits_for_its_hours_to_end() -> None:
    """Two million years a document, but in the morning only."""
    spacing = Spacing(floor=1.0, asked=(Asked(request_rates=(HUGE,)),))
    morning = MIDNIGHT + 6 * HOUR
    assert spacing.due_at(since=morning, at=morning) == MIDNIGHT + 12 * HOUR
    evening = MIDNIGHT + DAY - 0.5
    assert spacing.due_at(since=evening, at=evening) == MIDNIGHT + DAY + 12 * HOUR


@pytest.mark.parametrize("delay", [86_400.0 * 400, 8.6e13, 1e16, 1e40, 1e64])
def test_absurd_delay_is_neither_infinite_nor_forgotten(delay: float) -> None:
    """Whether to wait so long is decided elsewhere; the instant is true."""
    for rates in ((), (BY_DAY,), (HUGE, BY_NIGHT)):
        spacing = Spacing(asked=(Asked(crawl_delay=delay, request_rates=rates),))
        due = spacing.due_at(since=MIDNIGHT, at=MIDNIGHT)
        assert MIDNIGHT + delay <= due < math.inf


def test_never_is_never() -> None:
    """What is blocked for ever is due for ever later."""
    for rates in ((), (BY_DAY,)):
        spacing = Spacing(floor=1.0, asked=(Asked(request_rates=rates),))
        assert spacing.due_at(since=MIDNIGHT, at=math.inf) == math.inf


def test_of_many_rates_those_count_that_are_the_slowest_somewhere() -> None:
    """The others can be dropped without changing any hour."""
    hidden = RequestRate(1, 20, 10 * 60, 11 * 60)
    assert strictest((hidden, ALWAYS, BY_DAY, BY_NIGHT)) == (BY_NIGHT, ALWAYS, BY_DAY)
    assert strictest((ALWAYS, RequestRate(2, 20))) == (ALWAYS,)
    assert strictest(()) == ()


def test_file_of_nothing_but_rates_is_cut_down() -> None:
    """Half a megabyte of rates, of all hours: what is kept, and searched at each visit, is a day's minutes at most."""
    rates = [
        RequestRate(1, 1 + number % 977, number * 7 % 1440, number * 11 % 1440) for number in range(25_000)
    ]
    kept = strictest(rates)
    spacing = Spacing(asked=(Asked(request_rates=kept), Asked(crawl_delay=5.0)))
    assert len(kept) <= 1440
    assert len(spacing.day.seconds) <= 1440
    assert spacing.steady_delay >= 5.0
