"""The arithmetic of the pace against the slowest way to do it, and its law.

The law: whatever happens, in whatever order, no visit comes sooner than was promised.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, fields, replace
from datetime import datetime
from itertools import pairwise, product
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from hypothesis import example, given
from hypothesis import strategies as st
from tests.pace.bench import OPTIONS, answered, heard_of

from robotgate.hours import OpenHours
from robotgate.options import HostOptions, Rate
from robotgate.pace.host import Host, PacedOrigin, PacedTurn
from robotgate.pace.quota import StartWindow
from robotgate.pace.spacing import Asked, joined, opens_at
from robotgate.pace.state import CLOCK_GRAIN, GOOD_BELOW, HostState, merged, moved, visited
from robotgate.rules.grammar import VisitTime
from robotgate.urls import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator

TODAY: Final = 20_778 * 86_400.0
MINUTE: Final = 60.0
DAY_MINUTES: Final = 24 * 60
WEEK_MINUTES: Final = 7 * DAY_MINUTES
DAYS: Final = ("Mo", "Tu", "We", "Th", "Fr", "Sa", "Su")

minutes = st.integers(0, DAY_MINUTES) | st.sampled_from([0, 1, 719, 720, 1438, 1439, 1440])
visit_times = st.builds(VisitTime, minutes, minutes)
delays = st.sampled_from([0.0, 0.25, 1.0, 90.0]) | st.floats(0, 1e6)
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


@given(st.lists(visit_times, max_size=4), instants)
@example([VisitTime(0, 0)], math.nextafter(TODAY, 0))
@example([VisitTime(1440, 1440)], TODAY + 60)
@example([VisitTime(360, 1440)], TODAY)
@example([VisitTime(720, 720)], TODAY + 721 * MINUTE)
def test_hours_open_at_the_first_minute_that_is_theirs(hours: list[VisitTime], at: float) -> None:
    """As found by looking at one minute after the other."""
    open_minutes = {
        minute for window in hours for minute in minutes_within(window.start_minute, window.end_minute)
    }
    expected = at
    while hours and int(expected // MINUTE) % DAY_MINUTES not in open_minutes:
        expected = expected - expected % MINUTE + MINUTE
    assert opens_at(joined(hours), at=at) == expected


weekdays = st.sets(st.integers(0, 6), min_size=1)
windows = st.tuples(st.integers(0, 1439), st.integers(1, 1440)).filter(lambda ends: ends[0] != ends[1])
changes = st.sampled_from(
    ["2026-03-08", "2026-03-29", "2026-04-05", "2026-10-04", "2026-10-25", "2026-11-01", "2028-02-29"]
).map(lambda day: datetime.fromisoformat(f"{day}T00:00+00:00").timestamp())
"""Days on which clocks change, about."""


@given(
    st.lists(st.tuples(weekdays, st.lists(windows, min_size=1, max_size=2)), min_size=1, max_size=2),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]),
    changes,
    st.floats(-2 * 86_400, 2 * 86_400) | st.integers(-96, 96).map(lambda halves: halves * 1800.0),
)
def test_own_hours_open_at_the_first_minute_that_the_clock_shows(
    rules: list[tuple[set[int], list[tuple[int, int]]]], zone: str, day: float, since: float
) -> None:
    """As found by looking at a clock of the zone, one minute after the other."""
    texts, open_minutes = [], set()
    for days, spans in rules:
        times = ["-".join(f"{minute // 60}:{minute % 60:02}" for minute in span) for span in spans]
        texts.append(f"{','.join(DAYS[each] for each in days)} {','.join(times)}")
        for each, (opens, closes) in product(days, spans):
            length = (closes - opens) % DAY_MINUTES or DAY_MINUTES
            open_minutes |= {(each * DAY_MINUTES + opens + minute) % WEEK_MINUTES for minute in range(length)}
    at = expected = day + since
    while True:
        clock = datetime.fromtimestamp(expected, ZoneInfo(zone))
        if clock.weekday() * DAY_MINUTES + clock.hour * 60 + clock.minute in open_minutes:
            break
        expected = expected - expected % MINUTE + MINUTE
    assert OpenHours(", ".join(texts), zone).opens_at(at) == expected


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
    window = StartWindow([Rate(requests, seconds)])
    now = TODAY
    for gap in gaps:
        now += gap
        due = now
        while sum(due - start < seconds for start in starts) >= requests:
            due += 0.25
        assert max(now, window.due_at(now)) == due
        now = due
        starts.append(now)
        window.count(now)


@given(st.integers(0, 2**32), st.sampled_from([1, 5, 20, 33, 90, 400]), st.booleans())
@example(seed=73782, requests=20, may_die=True)
def test_quota_is_kept_by_processes_that_hand_a_host_on_and_die(
    seed: int,
    requests: int,
    may_die: bool,  # noqa: FBT001
) -> None:
    """Never one more than the quota in any stretch; what is joined on the way costs a sixteenth of it at most."""
    chance, rate, joined = random.Random(seed), Rate(requests, 10.0), math.ceil(requests / 16)
    hurry = chance.choice([0.0, 0.3, 1.0])
    starts: list[float] = []
    window, known, now = StartWindow([rate]), HostState(), TODAY
    for _ in range(3 * requests + 20):
        now += chance.choice([0.0, 2.0 * hurry * chance.random() * rate.seconds / requests])
        if window.is_spent() or chance.random() < 0.01:
            window.note_saved(window.tell())
            known = HostState(last_visit_at=now, starts=window.kept())
        due_at = window.due_at(now)
        if not may_die and len(starts) > requests - joined:
            assert due_at <= starts[joined - 1 - requests] + rate.seconds
        now = max(now, due_at)
        if len(starts) >= requests:
            assert now - starts[-requests] >= rate.seconds - CLOCK_GRAIN
        starts.append(now)
        window.is_kept = True
        window.count(now)
        if chance.random() < (0.03 if may_die else 0.2):
            # On its way through the clocks of others an instant may become later by more than that takes.
            known = moved(HostState(last_visit_at=now, starts=window.kept()), 0.002 * may_die)
            now += 0.0019 * may_die
            window = StartWindow([rate])
            window.restore(known.starts)
            assert window.kept() == known.starts
        elif may_die and chance.random() < 0.03:
            # It takes others longer than that to notice.
            now += 0.01
            known = merged(known, visited(now))
            window = StartWindow([rate])
            window.restore(known.starts)
        assert len(known.starts) <= 40
        assert all(before <= after for (before, _), (after, _) in pairwise(known.starts))


def host_in(state: HostState) -> PacedOrigin:
    """The one origin of a host in this state."""
    host = Host("a.example")
    paced = PacedOrigin(Origin("http", "a.example", 80), host, OPTIONS | HostOptions(delay=0.0))
    host.origins += (paced,)
    host.update_limits(None)
    host.restore(state)
    return paced


def set_delay(paced: PacedOrigin, delay: float, *, slots: int = 1) -> None:
    """Have the site ask for a delay, and the operator permit so many slots."""
    paced.asked = Asked(crawl_delay=delay)
    paced.options = paced.options | HostOptions(concurrency_per_host=slots)
    paced.host.update_limits(None)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens to a host; ``kind`` is what."""

    kind: str
    now: float
    took: float
    delay: float
    serial: bool
    status: int
    retry_after: float | None
    jitter: float
    other: HostState

    def happen(self, paced: PacedOrigin) -> None:
        """Change the host."""
        set_delay(paced, self.delay, slots=1 if self.serial else 2)
        host, turn = paced.host, PacedTurn(paced)
        turn.began_at = self.now - self.took
        if self.kind == "begun":
            host.begin(turn, self.now)
        elif self.kind == "ended":
            host.end(turn, self.now)
        elif self.kind == "merged":
            host.merge(self.other)
        elif self.kind == "answered":
            host.note_latency(turn, self.now, self.status < GOOD_BELOW)
            heard, is_good = heard_of(self.status, self.retry_after), self.status < GOOD_BELOW
            host.note_answer(turn, heard, is_good=is_good, now=self.now, jitter=self.jitter)
        else:
            is_silence = self.status < GOOD_BELOW
            host.note_outage(turn, "it is gone", is_silence=is_silence, now=self.now, jitter=self.jitter)


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
    kind=st.sampled_from(["begun", "ended", "answered", "merged", "unreachable"]),
    now=instants | st.floats(0, 1e10),
    took=st.floats(-10, 1e5),
    delay=delays,
    serial=st.booleans(),
    status=st.sampled_from([200, 304, 404, 429, 500, 503]),
    retry_after=st.none() | st.floats(-1e9, 1e9),
    jitter=st.floats(0, 1, exclude_max=True),
    other=states,
)


@given(states, st.lists(events, max_size=10), delays, instants)
def test_no_event_makes_a_visit_come_sooner(
    state: HostState, happenings: list[Event], delay: float, now: float
) -> None:
    """Whatever happens, in whatever order and by whosever clock, the next start only ever moves later."""
    paced = host_in(state)
    set_delay(paced, delay)
    promised = paced.host.earliest_start(paced, now)
    for event in happenings:
        event.happen(paced)
        set_delay(paced, delay)
        start_at = paced.host.earliest_start(paced, now)
        assert start_at >= promised
        promised = start_at


@given(states, st.lists(events, max_size=10), delays, delays, instants)
def test_start_is_promised_whatever_is_asked_afterwards(
    state: HostState, happenings: list[Event], delay: float, later_delay: float, now: float
) -> None:
    """The delay that counted at the start counts to its end, though the site, or its latency, asks for less by then."""
    paced = host_in(state)
    set_delay(paced, delay)
    paced.host.begin(PacedTurn(paced), now)
    for event in happenings:
        event.happen(paced)
    set_delay(paced, later_delay)
    assert paced.host.earliest_start(paced, now) >= now + delay


@given(states, instants, delays, st.booleans(), st.floats(0, 1e5))
def test_start_and_end_keep_the_delay(
    state: HostState,
    now: float,
    delay: float,
    serial: bool,  # noqa: FBT001  # Hypothesis passes it by position.
    took: float,
) -> None:
    """After a start, and after an end where one is served at a time, the delay passes."""
    paced = host_in(state)
    set_delay(paced, delay, slots=1 if serial else 3)
    host, turn = paced.host, PacedTurn(paced)
    host.begin(turn, now)
    assert host.earliest_start(paced, now) >= now + delay
    assert host.visits == state.visits + 1
    end, turn.bytes_read = now + took, 7
    host.end(turn, end)
    assert host.earliest_start(paced, end) >= max(end, (end if serial else now) + delay)
    assert host.bytes_read == state.bytes_read + 7


def larger(one: float | None, other: float | None) -> float | None:
    """The larger of two that may never have been."""
    known = [each for each in (one, other) if each is not None]
    return max(known, default=None)


@given(states, states, st.sets(st.sampled_from([field.name for field in fields(HostState)])))
def test_merged_is_the_larger_of_each(one: HostState, drawn: HostState, alike: set[str]) -> None:
    """Field by field, however few of them differ."""
    other = replace(drawn, **{name: getattr(one, name) for name in alike})
    both = merged(one, other)
    for field in fields(HostState):
        assert getattr(both, field.name) == larger(getattr(one, field.name), getattr(other, field.name))
    for known in (one, other):
        assert merged(both, known) == merged(known, both) == both


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


@given(states)
def test_state_survives_the_way_through_a_host(state: HostState) -> None:
    """What is loaded is what would be saved."""
    assert host_in(state).host.snapshot() == state
