"""The arithmetic of politeness: every event, every instant, and the law that nothing comes sooner."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robotgate._pacing import (
    BLOCK_JITTER,
    MAX_BLOCK,
    MIN_BLOCK,
    HostState,
    answered,
    begun,
    earliest_start_at,
    ended,
    merged,
    parse_retry_after,
)

NEW: Final = HostState()
NOW: Final = datetime(2026, 11, 21, 4, 0, 0, tzinfo=UTC).timestamp()


def test_unknown_host_is_due() -> None:
    """A host nobody visited may be visited at once."""
    assert earliest_start_at(NEW, delay=60.0) == 0.0


def test_request_and_response_set_the_next_instant() -> None:
    """One at a time: the delay counts from the start until the end is known, then from the end."""
    sent = begun(NEW, now=100.0, delay=2.0)
    assert (sent.last_visit_at, sent.next_allowed_at, sent.visits) == (100.0, 102.0, 1)
    read = ended(sent, now=107.5, delay=2.0, serial=True, bytes_read=512)
    assert (read.last_visit_at, read.next_allowed_at) == (107.5, 109.5)
    assert (read.visits, read.bytes_read) == (1, 512)


def test_several_at_a_time_count_from_start_to_start() -> None:
    """Where several requests may be under way, the end of one changes no instant."""
    sent = begun(NEW, now=100.0, delay=2.0)
    read = ended(sent, now=107.5, delay=2.0, serial=False, bytes_read=512)
    assert read == replace(sent, bytes_read=512)


def test_longer_delay_learnt_later_counts_from_the_last_visit() -> None:
    """A Crawl-delay read after a visit holds for the gap that follows it."""
    state = ended(NEW, now=100.0, delay=1.0, serial=True, bytes_read=0)
    assert earliest_start_at(state, delay=1.0) == 101.0
    assert earliest_start_at(state, delay=10.0) == 110.0
    assert earliest_start_at(state, delay=0.0) == 101.0


@pytest.mark.parametrize("status", [429, 503])
def test_block_without_retry_after_grows(status: int) -> None:
    """A minute, doubled with each incident, at most a day."""
    state, now, pauses = NEW, 0.0, []
    for _ in range(13):
        state = answered(state, status=status, retry_after=None, now=now, jitter=0.0)
        pauses.append(state.blocked_until_at - now)
        now = state.blocked_until_at
    assert pauses == [min(MIN_BLOCK * 2**count, MAX_BLOCK) for count in range(13)]
    assert state.failures == 13


def test_answers_within_a_block_are_the_same_incident() -> None:
    """Of ten requests under way, ten refusals are one incident."""
    state = NEW
    for second in range(10):
        state = answered(state, status=503, retry_after=None, now=float(second), jitter=0.0)
    assert (state.failures, state.blocked_until_at) == (1, 69.0)


@pytest.mark.parametrize(("asked", "granted"), [(0.0, 0.0), (5.0, 5.0), (3600.0, 3600.0), (1e9, MAX_BLOCK)])
def test_retry_after_is_taken_as_it_is(asked: float, granted: float) -> None:
    """The server's own word needs no jitter and is bounded by a day."""
    state = answered(NEW, status=429, retry_after=asked, now=1000.0, jitter=0.99)
    assert (state.blocked_until_at, state.failures) == (1000.0 + granted, 1)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("asked", [0.0, 0.5])
def test_server_that_asks_for_nothing_again_and_again_is_not_taken_at_its_word(
    status: int, asked: float
) -> None:
    """The first block is as it says; the second and the later ones grow, up to a day."""
    state, now, pauses = NEW, 1000.0, []
    for _ in range(25):
        state = answered(state, status=status, retry_after=asked, now=now, jitter=0.5)
        pauses.append(state.blocked_until_at - now)
        now = max(state.blocked_until_at, now)
    assert pauses[0] == asked
    assert pauses[1] >= 1.0
    assert all(later > sooner for sooner, later in pairwise(pauses[1:15]))
    assert max(pauses) <= MAX_BLOCK
    assert pauses[-1] >= 3600.0
    assert state.failures == 25


def test_good_answer_ends_the_growing() -> None:
    """The next server that asks for nothing is taken at its word again."""
    state = NEW
    for now in (0.0, 10.0, 20.0):
        state = answered(state, status=429, retry_after=0.0, now=now, jitter=0.0)
    state = answered(state, status=200, retry_after=None, now=100.0, jitter=0.0)
    assert answered(state, status=429, retry_after=0.0, now=200.0, jitter=0.0).blocked_until_at == 200.0


def test_shorter_retry_after_never_shortens_a_block() -> None:
    """A later and shorter word does not undo a longer one."""
    blocked = answered(NEW, status=429, retry_after=600.0, now=0.0, jitter=0.0)
    assert answered(blocked, status=429, retry_after=1.0, now=10.0, jitter=0.0).blocked_until_at == 600.0


@given(st.floats(0, 1, exclude_max=True))
def test_block_jitter_only_lengthens(jitter: float) -> None:
    """Jitter adds up to a tenth and takes nothing away."""
    until = answered(NEW, status=429, retry_after=None, now=0.0, jitter=jitter).blocked_until_at
    assert MIN_BLOCK <= until < MIN_BLOCK * (1 + BLOCK_JITTER) + 1e-9


@pytest.mark.parametrize(
    ("status", "now", "failures"),
    [(200, 50.0, 3), (200, 100.0, 0), (304, 100.0, 0), (399, 100.0, 0), (404, 100.0, 3), (500, 100.0, 3)],
)
def test_good_answer_after_the_block_clears_the_sheet(status: int, now: float, failures: int) -> None:
    """Only a good answer forgives, and none that was under way before the block had ended."""
    state = HostState(failures=3, blocked_until_at=100.0)
    after = answered(state, status=status, retry_after=None, now=now, jitter=0.0)
    assert (after.failures, after.blocked_until_at) == (failures, 100.0)


@pytest.mark.parametrize("status", [200, 301, 404, 500, 502])
def test_other_statuses_change_nothing(status: int) -> None:
    """An answer that blocks nobody, of a host that owes nothing, leaves the very same state."""
    state = HostState(last_visit_at=5.0, visits=3)
    assert answered(state, status=status, retry_after=99.0, now=10.0, jitter=0.5) is state


instants = st.floats(0, 1e10)
delays = st.floats(0, 1e5)
counts = st.integers(0, 10**9)
states = st.builds(
    HostState,
    last_visit_at=st.none() | instants,
    next_allowed_at=instants,
    blocked_until_at=instants,
    failures=counts,
    visits=counts,
    bytes_read=counts,
)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens to a host; ``kind`` is the name of the transition."""

    kind: str
    now: float
    delay: float
    serial: bool
    status: int
    retry_after: float | None
    jitter: float
    other: HostState

    def after(self, state: HostState) -> HostState:
        """The state it leaves."""
        if self.kind == "begun":
            return begun(state, now=self.now, delay=self.delay)
        if self.kind == "ended":
            return ended(state, now=self.now, delay=self.delay, serial=self.serial, bytes_read=1)
        if self.kind == "merged":
            return merged(state, self.other)
        return answered(
            state, status=self.status, retry_after=self.retry_after, now=self.now, jitter=self.jitter
        )


events = st.builds(
    Event,
    kind=st.sampled_from(["begun", "ended", "answered", "merged"]),
    now=instants,
    delay=delays,
    serial=st.booleans(),
    status=st.sampled_from([200, 304, 404, 429, 500, 503]),
    retry_after=st.none() | st.floats(-1e9, 1e9),
    jitter=st.floats(0, 1, exclude_max=True),
    other=states,
)


@given(states, st.lists(events, max_size=10), delays)
def test_no_event_makes_a_visit_come_sooner(state: HostState, happenings: list[Event], delay: float) -> None:
    """Whatever happens, in whatever order and by whosever clock, the next start only ever moves later."""
    for event in happenings:
        after = event.after(state)
        assert earliest_start_at(after, delay=delay) >= earliest_start_at(state, delay=delay)
        state = after


@given(states, st.lists(events, max_size=10), delays)
def test_no_event_makes_a_visit_come_sooner_by_one_clock(
    state: HostState, happenings: list[Event], delay: float
) -> None:
    """The same where one clock, that never goes back, tells the instants."""
    now = max(state.last_visit_at or 0.0, 0.0)
    for event in happenings:
        now = max(now, event.now)
        after = replace(event, now=now).after(state)
        assert earliest_start_at(after, delay=delay) >= earliest_start_at(state, delay=delay)
        state = after
        now = max(now, state.last_visit_at or 0.0)


@given(states, instants, delays, st.booleans())
def test_start_and_end_keep_the_delay(state: HostState, now: float, delay: float, serial: bool) -> None:  # noqa: FBT001
    """After a start, and after an end where one is served at a time, at least the delay passes."""
    sent = begun(state, now=now, delay=delay)
    assert earliest_start_at(sent, delay=delay) >= now + delay
    assert sent.visits == state.visits + 1
    read = ended(sent, now=now + 1, delay=delay, serial=serial, bytes_read=7)
    assert earliest_start_at(read, delay=delay) >= now + delay + (1 if serial else 0)
    assert read.bytes_read == state.bytes_read + 7


@given(states, states, states)
def test_merging_needs_no_order(one: HostState, other: HostState, third: HostState) -> None:
    """Commutative, associative, idempotent: news may come in any order and any number of times."""
    assert merged(one, other) == merged(other, one)
    assert merged(merged(one, other), third) == merged(one, merged(other, third))
    assert merged(one, one) == one
    assert merged(merged(one, other), other) == merged(one, other)
    assert merged(one, NEW) == one


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("0", 0.0),
        ("120", 120.0),
        ("  120\t", 120.0),
        ("00007", 7.0),
        ("1.5", 1.5),
        ("86400", MAX_BLOCK),
        ("86401", MAX_BLOCK),
        ("9" * 50, MAX_BLOCK),
        ("9" * 5000, MAX_BLOCK),
        ("Sat, 21 Nov 2026 04:01:00 GMT", 60.0),
        ("Saturday, 21-Nov-26 04:01:00 GMT", 60.0),
        ("Sat Nov 21 04:01:00 2026", 60.0),
        ("Sat, 21 Nov 2026 06:01:00 +0200", 60.0),
        ("Sat, 21 Nov 2026 04:00:00 GMT", 0.0),
        ("Fri, 20 Nov 2026 04:00:00 GMT", 0.0),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0.0),
        ("Sat, 21 Nov 2037 04:00:00 GMT", MAX_BLOCK),
        ("Fri, 31 Dec 9999 23:59:59 GMT", MAX_BLOCK),
        ("", None),
        ("   ", None),
        ("-1", None),
        ("+5", None),
        ("1e3", None),
        ("1.", None),
        (".5", None),
        ("0x10", None),
        ("inf", None),
        ("nan", None),
        ("٣", None),
        ("12 seconds", None),
        ("soon", None),
        ("Sat, 31 Feb 2026 04:00:00 GMT", None),
        ("Sat, 21 Nov 2026 25:00:00 GMT", None),
        ("Sat, 21 Nov 2026", None),
        ("Sat, 21 Nov 99999999 04:00:00 GMT", None),
        ("Sat, 21 Nov 2026 04:01:00 +99999999", None),
        ("\x00", None),
        ("120, 240", None),
    ],
)
def test_retry_after(value: str | None, seconds: float | None) -> None:
    """RFC 9110 §10.2.3: a count, or a date in any of the three formats of §5.6.7; all else says nothing."""
    assert parse_retry_after(value, now=NOW) == seconds


DATE_WORDS: Final = '0123456789:+-., ()<>@JanFebMarSunMonGMTUTCZ\t\\"\x00é'


@given(st.text(max_size=200) | st.text(alphabet=DATE_WORDS, max_size=60))
def test_any_retry_after_is_read_or_ignored(value: str) -> None:
    """No header value raises, and what is read lies within 0 and a day."""
    seconds = parse_retry_after(value, now=NOW)
    assert seconds is None or 0.0 <= seconds <= MAX_BLOCK
