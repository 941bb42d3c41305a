"""The arithmetic of politeness: what is remembered of a host, and when it may be visited next.

Pure functions of a `HostState`, an event and an instant. Every instant only ever moves later: nothing a server
sends, and no order of events, makes a visit come sooner than it was due.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

CLOCK_GRAIN: Final = 1e-6
"""Seconds; instants closer than this are the same. A double holds today's date no finer than a quarter of it."""
BLOCKING_STATUSES: Final = frozenset({429, 503})
"""Statuses by which a server asks for a pause (RFC 6585 §4, RFC 9110 §15.6.4)."""
MIN_BLOCK: Final = 60.0
"""Seconds, when the server does not say how long."""
MIN_REPEATED_BLOCK: Final = 1.0
"""Seconds, doubling, when it says less, twice or more in a row."""
MAX_BLOCK: Final = 24 * 3600.0
"""Seconds; a longer Retry-After is taken as this."""
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
    blocked_until_at: float = 0.0
    """Until when the server asked us to stay away (wall clock)."""
    failures: int = 0
    """Blocks in a row without a good answer between them."""
    visits: int = 0
    """Requests begun, those for robots.txt included."""
    bytes_read: int = 0


def earliest_start_at(state: HostState, *, delay: float) -> float:
    """The instant before which nothing may start; in the past when a visit is due."""
    spaced = 0.0 if state.last_visit_at is None else state.last_visit_at + delay
    return max(state.next_allowed_at, spaced, state.blocked_until_at)


def wait(state: HostState, *, delay: float, now: float) -> float:
    """Seconds until a visit is due; 0 when it is."""
    left = earliest_start_at(state, delay=delay) - now
    return left if left > CLOCK_GRAIN else 0.0


def begun(state: HostState, *, now: float, delay: float) -> HostState:
    """The state once a request is sent."""
    return replace(
        state,
        last_visit_at=_later(state.last_visit_at, now),
        next_allowed_at=max(state.next_allowed_at, now + delay),
        visits=state.visits + 1,
    )


def ended(state: HostState, *, now: float, delay: float, serial: bool, bytes_read: int) -> HostState:
    """The state once a response has ended.

    Args:
        serial: one request at a time: the delay then counts from the end of the response. Where several may be
            under way it counts from start to start, and `begun` has said all there is to say.
    """
    if not serial:
        return replace(state, bytes_read=state.bytes_read + bytes_read)
    return replace(
        state,
        last_visit_at=_later(state.last_visit_at, now),
        next_allowed_at=max(state.next_allowed_at, now + delay),
        bytes_read=state.bytes_read + bytes_read,
    )


def answered(
    state: HostState, *, status: int, retry_after: float | None, now: float, jitter: float
) -> HostState:
    """The state once a status is known: a block for 429 and 503, a clean sheet for a good answer.

    Args:
        retry_after: the seconds that Retry-After asks for; None when it does not say.
        jitter: a random number in [0, 1), so that blocked clients do not all come back together.
    """
    if status not in BLOCKING_STATUSES:
        recovered = state.failures and status < 400 and now >= state.blocked_until_at
        return replace(state, failures=0) if recovered else state
    # Answers to requests sent before the block was known belong to the same incident.
    failures = state.failures if now < state.blocked_until_at else state.failures + 1
    pause = _growing(MIN_BLOCK, failures)
    if retry_after is not None:
        # The first time it is as the server says; a server that says 0 again and again is not taken at its word.
        pause = max(retry_after, _growing(MIN_REPEATED_BLOCK, failures - 1) if failures > 1 else 0.0)
    until = now + min(pause, MAX_BLOCK) * (1 + (BLOCK_JITTER * jitter if retry_after is None else 0.0))
    return replace(state, failures=failures, blocked_until_at=max(state.blocked_until_at, until))


def merged(one: HostState, other: HostState) -> HostState:
    """What two who share a host know together: the later of each instant, the larger of each count."""
    return HostState(
        last_visit_at=_later(one.last_visit_at, other.last_visit_at),
        next_allowed_at=max(one.next_allowed_at, other.next_allowed_at),
        blocked_until_at=max(one.blocked_until_at, other.blocked_until_at),
        failures=max(one.failures, other.failures),
        visits=max(one.visits, other.visits),
        bytes_read=max(one.bytes_read, other.bytes_read),
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


def _later(one: float | None, other: float | None) -> float | None:
    return max((at for at in (one, other) if at is not None), default=None)


def _growing(least: float, times: int) -> float:
    return least * 2.0 ** min(max(times, 1) - 1, 16)
