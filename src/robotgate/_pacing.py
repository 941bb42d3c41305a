"""The arithmetic of politeness: what is remembered of a host, and when it may be visited next.

Pure functions of a `HostState`, an event and an instant; `_spacing` tells the delay of the hour. Every instant only
ever moves later: nothing a server sends, and no order of events, makes a visit come sooner than it was due.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from robotgate._spacing import Spacing

CLOCK_GRAIN: Final = 1e-6
"""Seconds; instants closer than this are the same. A double holds today's date no finer than a quarter of it."""
BLOCKING_STATUSES: Final = frozenset({429, 503})
"""Statuses by which a server asks for a pause (RFC 6585 §4, RFC 9110 §15.6.4)."""
MIN_BLOCK: Final = 60.0
"""Seconds, when the server does not say how long."""
MIN_REPEATED_BLOCK: Final = 1.0
"""Seconds, doubling up to `MIN_BLOCK`, when it says less, twice or more in a row."""
MAX_BLOCK: Final = 24 * 3600.0
"""Seconds; a longer Retry-After is taken as this."""
FORGIVEN_AFTER: Final = 1800.0
"""Seconds without a block after which the next is the first again. A good answer alone shows little: a server that
lets one request through and refuses the next would always be asked again in a minute."""
MIN_RETRY_AFTER: Final = 1.0
"""Seconds told to a caller who came too soon, when nothing tells when a turn will be free."""
BLOCK_JITTER: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class HostState:
    """What must never be forgotten of a host."""

    last_visit_at: float | None = None
    """When the last response ended, or the last request began if that came later (wall clock)."""
    next_allowed_at: float = 0.0
    """Nothing starts before (wall clock)."""
    blocked_at: float = 0.0
    """When the last block began (wall clock)."""
    blocked_until_at: float = 0.0
    """Until when the server asked us to stay away (wall clock)."""
    failures: int = 0
    """Blocks, one soon after the other."""
    visits: int = 0
    """Requests begun, those for robots.txt included."""
    bytes_read: int = 0
    latency: float | None = None
    """Seconds a response takes to begin, smoothed; None until one has."""


def earliest_start_at(state: HostState, *, spacing: Spacing, now: float) -> float:
    """The first instant from now on at which a visit may start."""
    at = max(now, state.next_allowed_at, state.blocked_until_at)
    return at if state.last_visit_at is None else spacing.due_at(since=state.last_visit_at, at=at)


def is_due(state: HostState, *, spacing: Spacing, now: float) -> bool:
    """Whether that instant is now: asked for every request, of which most need not know what it is otherwise."""
    if state.next_allowed_at > now or state.blocked_until_at > now:
        return False
    since = state.last_visit_at
    return since is None or spacing.due_at(since=since, at=now) <= now


def is_good(status: int) -> bool:
    """Whether an answer says that the host is well."""
    return status < 400


def begun(state: HostState, *, now: float, spacing: Spacing) -> HostState:
    """The state once a request is sent."""
    return _visited(state, now, spacing, visits=1, bytes_read=0, latency=state.latency)


def sent(state: HostState, *, now: float, spacing: Spacing) -> HostState:
    """The state once a request is sent that `begun` was told of before: nothing changes but the instants."""
    return _visited(state, now, spacing, visits=0, bytes_read=0, latency=state.latency)


def ended(
    state: HostState,
    *,
    now: float,
    spacing: Spacing,
    serial: bool,
    bytes_read: int,
    latency: float | None = None,
) -> HostState:
    """The state once a response has ended.

    Args:
        serial: one request at a time: the delay then counts from the end of the response. Where several may be
            under way it counts from start to start, and `begun` has said all there is to say.
        latency: what a good answer took to begin, where `answered` was not told of it.
    """
    known = state.latency
    if latency is not None:
        known = _smoothed(known, latency, may_fall=True)
    if not serial:
        return replace(state, bytes_read=state.bytes_read + bytes_read, latency=known)
    return _visited(state, now, spacing, visits=0, bytes_read=bytes_read, latency=known)


def answered(
    state: HostState, *, status: int, retry_after: float | None, began_at: float, now: float, jitter: float
) -> HostState:
    """The state once a status is known: a block for 429 and 503; for a good answer, forgiveness when it is time.

    Args:
        retry_after: the seconds that Retry-After asks for; None when it does not say.
        began_at: when the request was sent.
        jitter: a random number in [0, 1), so that blocked clients do not all come back together.
    """
    state = replace(state, latency=_smoothed(state.latency, now - began_at, may_fall=is_good(status)))
    if status in BLOCKING_STATUSES:
        # What was sent before the block was known belongs to the same incident.
        is_known = state.failures > 0 and began_at <= state.blocked_at
        return (
            _blocked_longer(state, retry_after, now)
            if is_known
            else _blocked(state, retry_after, now, jitter)
        )
    if is_good(status) and state.failures and _is_forgiven(state, now):
        return replace(state, failures=0)
    return state


def timed_out(state: HostState, *, began_at: float, now: float) -> HostState:
    """The state once a request has ended without an answer."""
    return replace(state, latency=_smoothed(state.latency, now - began_at, may_fall=False))


def latency_delay(state: HostState, *, factor: float, ceiling: float) -> float:
    """Seconds between visits that the host's latency calls for; 0 when it is not known, or does not count.

    Args:
        factor: how many times the latency; 0 lets it not count.
        ceiling: the most it can come to.
    """
    return 0.0 if state.latency is None else min(factor * state.latency, ceiling)


def merged(one: HostState, other: HostState) -> HostState:
    """What two who share a host know together: the later of each instant, the larger of each count.

    Who knows all of it is returned himself: most of the time there is no news, and who has taken it in sees by that.
    """
    if _knows_all_of(other, one):
        return other
    if _knows_all_of(one, other):
        return one
    return HostState(
        last_visit_at=_later(one.last_visit_at, other.last_visit_at),
        next_allowed_at=max(one.next_allowed_at, other.next_allowed_at),
        blocked_at=max(one.blocked_at, other.blocked_at),
        blocked_until_at=max(one.blocked_until_at, other.blocked_until_at),
        failures=max(one.failures, other.failures),
        visits=max(one.visits, other.visits),
        bytes_read=max(one.bytes_read, other.bytes_read),
        latency=_later(one.latency, other.latency),
    )


def _knows_all_of(one: HostState, other: HostState) -> bool:
    """Whether nothing of the other is later, or larger."""
    last_visit_at, latency = other.last_visit_at, other.latency
    return (
        one.visits >= other.visits
        and one.next_allowed_at >= other.next_allowed_at
        and one.bytes_read >= other.bytes_read
        and one.blocked_until_at >= other.blocked_until_at
        and one.blocked_at >= other.blocked_at
        and one.failures >= other.failures
        and (last_visit_at is None or (one.last_visit_at is not None and one.last_visit_at >= last_visit_at))
        and (latency is None or (one.latency is not None and one.latency >= latency))
    )


def restored(state: HostState, *, saved_at: float, now: float) -> HostState:
    """A state as its clock tells it now, of a machine whose clock may have been set back since.

    What was saved in the future was saved at the latest now: its instants move back with it, so that no wait is longer
    than it was then, and none shorter. A clock that went forward looks like time that passed.
    """
    ahead = saved_at - now
    if ahead <= 0:
        return state
    return moved(state, -ahead)


def moved(state: HostState, seconds: float) -> HostState:
    """A state as a clock tells it that is so many seconds ahead. What never was stays so."""
    if not seconds:
        return state
    return replace(
        state,
        last_visit_at=None if state.last_visit_at is None else state.last_visit_at + seconds,
        next_allowed_at=state.next_allowed_at and state.next_allowed_at + seconds,
        blocked_at=state.blocked_at and state.blocked_at + seconds,
        blocked_until_at=state.blocked_until_at and state.blocked_until_at + seconds,
    )


def parse_retry_after(value: str | None, *, now: float) -> float | None:
    """The seconds a Retry-After header asks for (RFC 9110 §10.2.3), as a count or as a date; at most 24 hours.

    None when there is no header or it cannot be read. A date in the past asks for nothing: 0.
    """
    if value is None:
        return None
    text = value.strip()[:100]
    if re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", text, re.ASCII):
        return min(float(text), MAX_BLOCK)
    try:
        moment = parsedate_to_datetime(text)
        asked = moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() - now
    except (ValueError, OverflowError):
        return None
    return min(max(asked, 0.0), MAX_BLOCK)


def _visited(
    state: HostState, now: float, spacing: Spacing, *, visits: int, bytes_read: int, latency: float | None
) -> HostState:
    # Spelt out: `replace` takes thrice as long, `max` five times, and this is done twice for every request.
    last_visit_at, next_allowed_at = state.last_visit_at, state.next_allowed_at
    due_at = spacing.due_at(since=now, at=now)
    return HostState(
        last_visit_at=now if last_visit_at is None or last_visit_at < now else last_visit_at,
        next_allowed_at=due_at if next_allowed_at < due_at else next_allowed_at,  # noqa: FURB136
        blocked_at=state.blocked_at,
        blocked_until_at=state.blocked_until_at,
        failures=state.failures,
        visits=state.visits + visits,
        bytes_read=state.bytes_read + bytes_read,
        latency=latency,
    )


def _blocked(state: HostState, retry_after: float | None, now: float, jitter: float) -> HostState:
    """The state after the first answer of a new incident."""
    failures = 1 if _is_forgiven(state, now) else state.failures + 1
    if retry_after is None:
        pause = min(_growing(MIN_BLOCK, failures), MAX_BLOCK) * (1 + BLOCK_JITTER * jitter)
    else:
        # The first time it is as the server says; a server that says 0 again and again is not taken at its word.
        least = min(_growing(MIN_REPEATED_BLOCK, failures - 1), MIN_BLOCK) if failures > 1 else 0.0
        pause = min(max(retry_after, least), MAX_BLOCK)
    return replace(
        state,
        failures=failures,
        blocked_at=max(state.blocked_at, now),
        blocked_until_at=max(state.blocked_until_at, now + pause),
    )


def _blocked_longer(state: HostState, retry_after: float | None, now: float) -> HostState:
    """The state after another answer of the same incident: the longest Retry-After counts."""
    if retry_after is None:
        return state
    until = now + min(retry_after, MAX_BLOCK)
    return replace(state, blocked_until_at=max(state.blocked_until_at, until))


def _is_forgiven(state: HostState, now: float) -> bool:
    return now - state.blocked_until_at >= FORGIVEN_AFTER


def _smoothed(latency: float | None, took: float, *, may_fall: bool) -> float:
    """The mean of what was known and what is new. A failure is often quick, and never makes us faster."""
    took = max(took, 0.0)
    if latency is None:
        return took
    return (latency + took) / 2 if may_fall or took > latency else latency


def _later(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return one if other is None else other
    return max(one, other)


def _growing(least: float, times: int) -> float:
    return least * 2.0 ** min(max(times, 1) - 1, 16)
