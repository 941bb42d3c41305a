"""The arithmetic of the pace beside the slowest way to do it: by the minute, by the list, by trying.

And its law: whatever happens, in whatever order, no visit comes sooner than was promised.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Final

from hypothesis import example, given
from hypothesis import strategies as st

from robotgate._hours import holds, joined, opens_at
from robotgate._pacing import (
    HostState,
    answered,
    begun,
    earliest_start_at,
    ended,
    is_due,
    merged,
    timed_out,
)
from robotgate._quota import Rate
from robotgate._quota import due_at as quota_due_at
from robotgate._spacing import Asked, Spacing, strictest
from robotgate._speed import RequestRate, VisitTime

if TYPE_CHECKING:
    from collections.abc import Iterator

TODAY: Final = 20_778 * 86_400.0
MINUTE: Final = 60.0
DAY_MINUTES: Final = 24 * 60

minutes = st.integers(0, DAY_MINUTES) | st.sampled_from([0, 1, 719, 720, 1438, 1439, 1440])
visit_times = st.builds(VisitTime, minutes, minutes)
rates = st.builds(RequestRate, st.integers(1, 50), st.integers(1, 100_000)) | st.builds(
    RequestRate, st.integers(1, 50), st.integers(1, 300_000), minutes, minutes
)
askings = st.builds(
    Asked,
    crawl_delay=st.none() | st.integers(0, 7_200).map(lambda quarters: quarters / 4),
    request_rates=st.lists(rates, max_size=4).map(tuple),
)
spacings = st.builds(
    Spacing, floor=st.sampled_from([0.0, 0.25, 1.0, 90.0]), asked=st.lists(askings, max_size=3).map(tuple)
)
instants = st.integers(0, 3 * 86_400 * 4).map(lambda quarters: TODAY + quarters / 4) | st.floats(
    TODAY, TODAY + 3 * 86_400
)


def minutes_within(start_minute: int, end_minute: int) -> Iterator[int]:
    """A window's minutes of the day, counted off from its first to its last."""
    minute, last = start_minute % DAY_MINUTES, end_minute
    if end_minute == DAY_MINUTES:
        last = 0 if start_minute == DAY_MINUTES else DAY_MINUTES - 1
    yield minute
    while minute != last:
        minute = (minute + 1) % DAY_MINUTES
        yield minute


def slow_delays(spacing: Spacing) -> list[float]:
    """The longest of all that is asked at each minute of the day."""
    delays = [spacing.floor] * DAY_MINUTES
    for asked in spacing.asked:
        delays = [max(delay, asked.crawl_delay or 0.0) for delay in delays]
        for rate in asked.request_rates:
            start, end = rate.start_minute, rate.end_minute
            within = range(DAY_MINUTES) if start is None or end is None else minutes_within(start, end)
            for minute in within:
                delays[minute] = max(delays[minute], rate.seconds / rate.documents)
    return delays


def slow_due_at(spacing: Spacing, *, since: float, at: float) -> float:
    """Looks at every minute from `at` on, until one has an instant that is late enough."""
    delays = slow_delays(spacing)
    minute_at = at - at % MINUTE
    while True:
        due = max(at, minute_at, since + delays[int(minute_at // MINUTE) % DAY_MINUTES])
        if due < minute_at + MINUTE:
            return due
        minute_at += MINUTE


@given(minutes, minutes, st.floats(TODAY, TODAY + 86_400))
def test_window_is_its_minutes(start: int, end: int, at: float) -> None:
    """As counted off on the clock."""
    assert holds(start, end, at=at) is (int(at // MINUTE) % DAY_MINUTES in minutes_within(start, end))


@given(st.lists(visit_times, max_size=4), instants)
@example([VisitTime(0, 0)], math.nextafter(TODAY, 0))
@example([VisitTime(1440, 1440)], TODAY + 60)
def test_hours_open_at_the_first_minute_that_is_theirs(hours: list[VisitTime], at: float) -> None:
    """As found by looking at one minute after the other; joining the hours makes no difference."""
    open_minutes = {
        minute for window in hours for minute in minutes_within(window.start_minute, window.end_minute)
    }
    expected = at
    while hours and int(expected // MINUTE) % DAY_MINUTES not in open_minutes:
        expected = expected - expected % MINUTE + MINUTE
    assert opens_at(hours, at=at) == expected
    assert opens_at(joined(hours), at=at) == expected


@given(spacings)
def test_delay_of_every_minute(spacing: Spacing) -> None:
    """And the shortest of the day; dropping the rates that are never the slowest changes none."""
    kept = replace(
        spacing,
        asked=tuple(replace(asked, request_rates=strictest(asked.request_rates)) for asked in spacing.asked),
    )
    delays = slow_delays(spacing)
    for minute, delay in enumerate(delays):
        at = TODAY + minute * MINUTE
        assert spacing.delay_at(at) == kept.delay_at(at) == spacing.delay_at(at + 59.999) == delay
    assert spacing.steady_delay == min(delays)


@given(askings, instants)
def test_next_change_is_the_first(asked: Asked, at: float) -> None:
    """Nothing changes before, and where nothing is said to change, nothing does."""
    change = asked.next_change_at(at)
    assert change > at
    end = min(change, at + 86_400 + MINUTE)
    while at < end:
        assert asked.delay_at(at) == asked.delay_at(math.nextafter(end, 0))
        at = at - at % MINUTE + MINUTE


@given(spacings, instants, st.none() | instants)
def test_visit_is_due_at_the_first_instant_of_all(
    spacing: Spacing, since: float, later: float | None
) -> None:
    """As found by looking at one minute after the other."""
    at = since if later is None else later
    due = spacing.due_at(since=since, at=at)
    assert due == slow_due_at(spacing, since=since, at=at)
    assert due >= at
    assert due >= since + spacing.delay_at(due)


@given(
    st.lists(st.integers(0, 40).map(lambda quarters: quarters / 4), max_size=40),
    st.integers(1, 5),
    st.sampled_from([0.25, 1.0, 7.5, 100.0]),
)
def test_quota_is_kept_in_every_stretch_and_no_start_waits_for_nothing(
    gaps: list[float], requests: int, seconds: float
) -> None:
    """As found by counting, quarter second by quarter second, the starts of the stretch that would end there."""
    starts: list[float] = []
    recent: deque[float] = deque(maxlen=requests)
    now = TODAY
    for gap in gaps:
        now += gap
        due = now
        while sum(due - start < seconds for start in starts) >= requests:
            due += 0.25
        assert max(now, quota_due_at(recent, Rate(requests, seconds))) == due
        now = due
        starts.append(now)
        recent.append(now)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens to a host; ``kind`` is the name of the transition."""

    kind: str
    now: float
    took: float
    spacing: Spacing
    serial: bool
    status: int
    retry_after: float | None
    jitter: float
    other: HostState

    def after(self, state: HostState) -> HostState:
        """The state it leaves."""
        began_at = self.now - self.took
        if self.kind == "begun":
            return begun(state, now=self.now, spacing=self.spacing)
        if self.kind == "ended":
            return ended(state, now=self.now, spacing=self.spacing, serial=self.serial, bytes_read=1)
        if self.kind == "merged":
            return merged(state, self.other)
        if self.kind == "timed out":
            return timed_out(state, began_at=began_at, now=self.now)
        return answered(
            state,
            status=self.status,
            retry_after=self.retry_after,
            began_at=began_at,
            now=self.now,
            jitter=self.jitter,
        )


counts = st.integers(0, 10**9)
states = st.builds(
    HostState,
    last_visit_at=st.none() | instants,
    next_allowed_at=st.just(0.0) | instants,
    blocked_at=st.just(0.0) | instants,
    blocked_until_at=st.just(0.0) | instants,
    failures=st.integers(0, 5) | counts,
    visits=counts,
    bytes_read=counts,
    latency=st.none() | st.floats(0, 1e5),
)
events = st.builds(
    Event,
    kind=st.sampled_from(["begun", "ended", "answered", "merged", "timed out"]),
    now=instants | st.floats(0, 1e10),
    took=st.floats(-10, 1e5),
    spacing=spacings,
    serial=st.booleans(),
    status=st.sampled_from([200, 304, 404, 429, 500, 503]),
    retry_after=st.none() | st.floats(-1e9, 1e9),
    jitter=st.floats(0, 1, exclude_max=True),
    other=states,
)


@given(states, st.lists(events, max_size=10), spacings, instants)
def test_no_event_makes_a_visit_come_sooner(
    state: HostState, happenings: list[Event], spacing: Spacing, now: float
) -> None:
    """Whatever happens, in whatever order and by whosever clock, the next start only ever moves later."""
    for event in happenings:
        after = event.after(state)
        promised = earliest_start_at(state, spacing=spacing, now=now)
        assert earliest_start_at(after, spacing=spacing, now=now) >= promised
        state = after


@given(states, st.lists(events, max_size=10), spacings, instants)
def test_start_is_promised_whatever_is_asked_afterwards(
    state: HostState, happenings: list[Event], later_spacing: Spacing, now: float
) -> None:
    """What begins or ends by one spacing is kept to by it, though the site, or its latency, asks for less by then."""
    state = begun(state, now=now, spacing=(promised_by := happenings[0].spacing if happenings else Spacing()))
    promised = promised_by.due_at(since=now, at=now)
    for event in happenings:
        state = event.after(state)
    assert earliest_start_at(state, spacing=later_spacing, now=now) >= promised


@given(states, instants, spacings, st.booleans(), st.floats(0, 1e5))
def test_start_and_end_keep_the_delay(
    state: HostState,
    now: float,
    spacing: Spacing,
    serial: bool,  # noqa: FBT001
    took: float,
) -> None:
    """After a start, and after an end where one is served at a time, the delay of the next visit's hour passes."""
    sent = begun(state, now=now, spacing=spacing)
    at = earliest_start_at(sent, spacing=spacing, now=now)
    assert at >= now + spacing.delay_at(at)
    assert sent.visits == state.visits + 1
    end = now + took
    read = ended(sent, now=end, spacing=spacing, serial=serial, bytes_read=7)
    at = earliest_start_at(read, spacing=spacing, now=end)
    assert at >= max(end, (end if serial else now) + spacing.delay_at(at))
    assert read.bytes_read == state.bytes_read + 7


def larger(one: float | None, other: float | None) -> float | None:
    """The larger of two that may never have been."""
    known = [each for each in (one, other) if each is not None]
    return max(known, default=None)


@given(states, states, st.sets(st.sampled_from([field.name for field in fields(HostState)])))
def test_merged_is_the_larger_of_each(one: HostState, drawn: HostState, alike: set[str]) -> None:
    """Field by field, however few of them differ; and what holds nothing new is no new object."""
    other = replace(drawn, **{name: getattr(one, name) for name in alike})
    both = merged(one, other)
    for field in fields(HostState):
        assert getattr(both, field.name) == larger(getattr(one, field.name), getattr(other, field.name))
    for known in (one, other):
        assert both != known or merged(both, known) is known
        assert merged(known, both) is both


@given(st.lists(st.tuples(st.floats(0, 30), st.sampled_from([429, 503])), min_size=1, max_size=50), st.data())
def test_all_answers_to_what_was_under_way_are_one_incident(
    refusals: list[tuple[float, int]], data: st.DataObject
) -> None:
    """However many, in whatever order and how late: one failure, one pause."""
    state = HostState()
    for delay, status in refusals:
        began_at = data.draw(st.floats(TODAY - 100, TODAY))
        now = TODAY + delay
        state = answered(state, status=status, retry_after=None, began_at=began_at, now=now, jitter=0.0)
    assert state.failures == 1
    assert state.blocked_until_at == TODAY + refusals[0][0] + 60


@given(spacings, st.none() | instants, st.just(0.0) | instants, st.just(0.0) | instants, instants)
def test_what_is_due_now_is_due_at_the_earliest(
    spacing: Spacing, visited_at: float | None, allowed_at: float, blocked_until_at: float, now: float
) -> None:
    """The short question has the answer of the long one, at that instant and at the first that is due."""
    state = HostState(last_visit_at=visited_at, next_allowed_at=allowed_at, blocked_until_at=blocked_until_at)
    due_at = earliest_start_at(state, spacing=spacing, now=now)
    assert is_due(state, spacing=spacing, now=now) is (due_at == now)
    assert is_due(state, spacing=spacing, now=due_at)
