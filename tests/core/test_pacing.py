"""The arithmetic of politeness: every event, every instant."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict
from tests.pace.bench import HOST, OPTIONS, answered

from robotgate.clock import parse_http_date
from robotgate.pace.host import BLOCK_JITTER, MIN_BLOCK, Host, PacedOrigin, PacedTurn
from robotgate.pace.signals import MAX_PAUSE, parse_retry_after, retry_after_of
from robotgate.pace.spacing import opens_at
from robotgate.pace.state import FORGIVEN_AFTER, UNKNOWN, HostState, is_served, merged, moved, visited
from robotgate.rules.grammar import VisitTime
from robotgate.urls import Origin

NEW: Final = HostState()
NOW: Final = datetime(2026, 11, 21, 4, 0, 0, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("state", "is_it"),
    [
        (NEW, True),
        (HostState(last_visit_at=NOW, next_allowed_at=NOW), True),
        (HostState(next_allowed_at=NOW + 0.1), False),
        (HostState(blocked_until_at=NOW + 0.1), False),
        (HostState(blocked_until_at=NOW - 1, failures=1), False),
        (HostState(blocked_until_at=NOW - FORGIVEN_AFTER, failures=1), True),
        (HostState(blocked_until_at=math.inf), False),
    ],
)
def test_wait_is_served_when_nothing_makes_the_next_later(state: HostState, is_it: bool) -> None:  # noqa: FBT001
    """Neither the next visit, nor, by failures not yet forgiven, the next block."""
    assert is_served(state, NOW) is is_it


def test_hours_of_a_host_that_is_never_to_be_visited() -> None:
    """An operator may block a host for ever; its hours make nothing of it."""
    assert opens_at((VisitTime(9 * 60, 17 * 60),), at=math.inf) == math.inf


def blocked(
    state: HostState,
    *,
    status: int = 503,
    retry_after: float | None = None,
    now: float,
    began_at: float | None = None,
    jitter: float = 0.0,
) -> HostState:
    """The state after an answer to a request that took no time, if nothing else is said."""
    return answered(
        state,
        status=status,
        retry_after=retry_after,
        began_at=now if began_at is None else began_at,
        now=now,
        jitter=jitter,
    )


@pytest.mark.parametrize("status", [429, 503])
def test_block_without_retry_after_grows(status: int) -> None:
    """A minute, doubled with each incident, at most a day."""
    state, now, pauses = NEW, 1.0, []
    for _ in range(13):
        state = blocked(state, status=status, now=now)
        pauses.append(state.blocked_until_at - now)
        now = state.blocked_until_at
    assert pauses == [min(MIN_BLOCK * 2**count, MAX_PAUSE) for count in range(13)]
    assert state.failures == 13


def test_first_instant_of_a_clock_is_no_block() -> None:
    """A clock may begin at nought; what is asked then is no answer to a block."""
    state = blocked(NEW, now=0.0)
    assert (state.failures, state.blocked_at, state.blocked_until_at) == (1, 0.0, 60.0)


def test_of_several_retry_afters_the_longest_counts() -> None:
    """Each from its own answer; a shorter one takes nothing away."""
    state = blocked(NEW, retry_after=100.0, now=NOW, began_at=NOW - 1)
    for asked, now, until in ((30.0, 1, 100), (100.0, 5, 105), (None, 50, 105), (1e9, 60, 60 + MAX_PAUSE)):
        state = blocked(state, retry_after=asked, now=NOW + now, began_at=NOW - 1)
        assert (state.failures, state.blocked_at, state.blocked_until_at) == (1, NOW, NOW + until)


def test_request_sent_after_the_block_was_known_is_another_incident() -> None:
    """Although the first has not ended: it was sent before the block was known."""
    state = blocked(NEW, now=NOW, began_at=NOW - 1)
    state = blocked(state, now=NOW + 20, began_at=NOW + 10)
    assert (state.failures, state.blocked_at, state.blocked_until_at) == (2, NOW + 20, NOW + 140)


@pytest.mark.parametrize(("asked", "granted"), [(0.0, 0.0), (5.0, 5.0), (3600.0, 3600.0), (1e9, MAX_PAUSE)])
def test_retry_after_is_taken_as_it_is(asked: float, granted: float) -> None:
    """The server's own word needs no jitter and is bounded by a day."""
    state = blocked(NEW, status=429, retry_after=asked, now=1000.0, jitter=0.99)
    assert (state.blocked_until_at, state.failures) == (1000.0 + granted, 1)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("asked", [0.0, 0.5])
def test_server_that_asks_for_nothing_again_and_again_is_not_taken_at_its_word(
    status: int, asked: float
) -> None:
    """The first block is as it says; the second and the later ones grow, up to what an answer without a word gets."""
    state, now, pauses = NEW, 1000.0, []
    for _ in range(25):
        state = blocked(state, status=status, retry_after=asked, now=now, jitter=0.5)
        pauses.append(state.blocked_until_at - now)
        now = max(state.blocked_until_at, now + 0.25)
    assert pauses[0] == asked
    assert pauses[1] >= 1.0
    assert all(later > sooner for sooner, later in pairwise(pauses[1:8]))
    assert pauses[7:] == [MIN_BLOCK] * 18
    assert state.failures == 25


@given(st.floats(0, 1, exclude_max=True))
def test_block_jitter_only_lengthens(jitter: float) -> None:
    """Jitter adds up to a tenth and takes nothing away."""
    until = blocked(NEW, status=429, now=0.0, jitter=jitter).blocked_until_at
    assert MIN_BLOCK <= until < MIN_BLOCK * (1 + BLOCK_JITTER) + 1e-9


@pytest.mark.parametrize(
    ("status", "now", "failures"),
    [
        (200, 50.0, 3),
        (200, 100.0, 3),
        (200, 100.0 + FORGIVEN_AFTER - 1, 3),
        (200, 100.0 + FORGIVEN_AFTER, 0),
        (304, 100.0 + FORGIVEN_AFTER, 0),
        (399, 100.0 + FORGIVEN_AFTER, 0),
        (404, 100.0 + FORGIVEN_AFTER, 3),
        (500, 100.0 + FORGIVEN_AFTER, 3),
    ],
)
def test_good_answer_forgives_after_good_time(status: int, now: float, failures: int) -> None:
    """Only a good answer clears the sheet, and not before half an hour without a block."""
    state = HostState(failures=3, blocked_at=40.0, blocked_until_at=100.0)
    after = answered(state, status=status, retry_after=None, began_at=now - 1, now=now, jitter=0.0)
    assert (after.failures, after.blocked_until_at) == (failures, 100.0)


def test_block_after_good_time_is_the_first_again() -> None:
    """Even if nothing was asked meanwhile; before that it is one more, whatever was answered between."""
    state = HostState(failures=3, blocked_at=40.0, blocked_until_at=100.0)
    for since, failures, pause in ((FORGIVEN_AFTER, 1, 60.0), (FORGIVEN_AFTER - 1, 4, 480.0)):
        good = answered(state, status=200, retry_after=None, began_at=150.0, now=151.0, jitter=0.0)
        after = blocked(good, now=100.0 + since)
        assert (after.failures, after.blocked_until_at) == (failures, 100.0 + since + pause)


@pytest.mark.parametrize(
    ("known", "status", "took", "latency"),
    [
        (None, 200, 0.5, 0.5),
        (1.0, 200, 0.5, 0.75),
        (1.0, 200, 2.0, 1.5),
        (1.0, 304, 0.0, 0.5),
        (None, 404, 0.5, 0.5),
        (1.0, 404, 0.5, 1.0),
        (1.0, 404, 2.0, 1.5),
        (1.0, 429, 0.001, 1.0),
        (1.0, 503, 3.0, 2.0),
        (1.0, 200, -5.0, 0.5),
    ],
)
def test_latency_is_smoothed_and_errors_never_lower_it(
    known: float | None, status: int, took: float, latency: float
) -> None:
    """The mean of the old and the new; a refusal is quick, and a clock that went back says nothing good."""
    state = HostState(latency=known)
    after = answered(state, status=status, retry_after=None, began_at=1024.0, now=1024.0 + took, jitter=0.0)
    assert after.latency == latency


@pytest.mark.parametrize("is_silence", [False, True])
@pytest.mark.parametrize(("known", "latency"), [(None, 8.0), (2.0, 5.0), (20.0, 20.0)])
def test_request_without_an_answer_is_slow_at_best(
    known: float | None, latency: float, *, is_silence: bool
) -> None:
    """A time-out may raise the latency; nothing else changes."""
    state = HostState(latency=known, failures=2, visits=7)
    host = Host(HOST)
    host.restore(state)
    paced = PacedOrigin(Origin("http", HOST, 80), host, OPTIONS)
    turn = PacedTurn(paced, began_at=100.0)
    host.note_outage(turn, "it is gone", is_silence=is_silence, now=108.0, jitter=0.0)
    assert host.snapshot() == replace(state, latency=latency)


@pytest.mark.parametrize("status", [200, 301, 404, 500, 502])
def test_other_statuses_change_nothing_but_the_latency(status: int) -> None:
    """An answer without a block, of a host that was not blocked."""
    state = HostState(last_visit_at=5.0, visits=3)
    after = answered(state, status=status, retry_after=99.0, began_at=8.0, now=10.0, jitter=0.5)
    assert after == replace(state, latency=2.0)


def test_retry_after(subtests: pytest.Subtests) -> None:
    """RFC 9110 §10.2.3: a count, or a date in any of the three formats of §5.6.7; all else says nothing."""
    for seconds, values in {
        0.0: ("0", "Sat, 21 Nov 2026 04:00:00 GMT", "Fri, 20 Nov 2026 04:00:00 GMT", "Sun, 06 Nov 1994 08:49:37 GMT"),
        1.5: ("1.5",),
        7.0: ("00007",),
        60.0: (
            "Sat, 21 Nov 2026 04:01:00 GMT", "Saturday, 21-Nov-26 04:01:00 GMT", "Sat Nov 21 04:01:00 2026",
            "Sat, 21 Nov 2026 06:01:00 +0200",
        ),
        120.0: ("120", "  120\t"),
        240.0: ("120, 240", "240 ,120"),
        MAX_PAUSE: (
            "86400", "86401", "9" * 50, "9" * 5000, "Sat, 21 Nov 2037 04:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT",
        ),
        None: (
            "", "   ", "-1", "+5", "1e3", "1.", ".5", "0x10", "inf", "nan", "٣", "12 seconds", "soon", "120,",
            "120, soon", "\x00", "Sat, 31 Feb 2026 04:00:00 GMT", "Sat, 21 Nov 2026 25:00:00 GMT",
            "Sat, 21 Nov 2026", "Sat, 21 Nov 99999999 04:00:00 GMT", "Sat, 21 Nov 2026 04:01:00 +99999999",
        ),
    }.items():  # fmt: skip
        for value in values:
            with subtests.test(value=value, seconds=seconds):
                assert parse_retry_after(value, now=NOW) == seconds


def test_what_was_learned_last_counts() -> None:
    """Of two states, a learned delay is that of the later visit, up or down; no visit forgets it."""
    before = HostState(last_visit_at=NOW, learned_delay=5.0, limit_delay=4.0)
    after = HostState(last_visit_at=NOW + 1, learned_delay=2.0, limit_delay=1.9)
    assert merged(before, after) == merged(after, before) == after
    assumed = HostState(last_visit_at=NOW + 9)
    assert merged(before, assumed) == replace(before, last_visit_at=NOW + 9)


def test_starts_that_were_counted_last_count() -> None:
    """And those of a process that ended before it had saved them, once, unless somebody has begun with them."""
    before = HostState(last_visit_at=NOW, visits=3, starts=((NOW - 9, 2), (NOW, 1)))
    # A response may end after another process has gone on.
    late = replace(before, last_visit_at=NOW + 5)
    after = HostState(last_visit_at=NOW + 1, visits=4, starts=((NOW - 9, 2), (NOW, 1), (NOW + 1, 1)))
    assert merged(late, after).starts == merged(after, late).starts == after.starts
    # Through the clock of a server, the last start of those that are known to fewer may seem to be the later one.
    burst = replace(before, visits=5, starts=((NOW - 9, 2), (NOW + 0.01, 3)))
    stale = moved(before, 0.03)
    assert merged(stale, burst).starts == merged(burst, stale).starts == burst.starts
    crashed = merged(before, visited(NOW + 0.5))
    assert crashed.starts == (*before.starts, (NOW + 0.5, UNKNOWN))
    assert merged(visited(NOW + 0.5), crashed) == crashed
    assert merged(crashed, after).starts == after.starts
    assert merged(HostState(), visited(NOW)) == visited(NOW)


@pytest.mark.parametrize(
    ("lines", "seconds"),
    [
        ((), None),
        (("5", "3600"), 3600.0),
        (("3600", "5"), 3600.0),
        (("soon", "7"), 7.0),
        (("5", "Sat, 21 Nov 2026 04:01:00 GMT"), 60.0),
    ],
)
def test_of_several_lines_the_longest_counts(lines: tuple[str, ...], seconds: float | None) -> None:
    """A server that asks twice is obeyed in the stricter word."""
    headers = CIMultiDict([("Server", "x"), *(("retry-AFTER", line) for line in lines)])
    assert retry_after_of(headers, now=NOW) == seconds


DATE_WORDS: Final = '0123456789:+-., ()<>@JanFebMarSunMonGMTUTCZ\t\\"\x00é'


@given(st.text(max_size=200) | st.text(alphabet=DATE_WORDS, max_size=60))
def test_any_retry_after_is_read_or_ignored(value: str) -> None:
    """No header value raises, and what is read lies within 0 and a day."""
    seconds = parse_retry_after(value, now=NOW)
    assert seconds is None or 0.0 <= seconds <= MAX_PAUSE
    date = parse_http_date(value)
    assert date is None or math.isfinite(date.timestamp())
