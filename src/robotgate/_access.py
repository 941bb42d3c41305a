"""How asking for a robots.txt ended, what is kept of it, and what that lets us do: the status table applied.

Pure functions of an answer, a record and an instant.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from robotgate._freshness import Validators, clamped, granted_lifetime
from robotgate._status import (
    DAY,
    GOOGLE_PATIENCE,
    MAX_LIFETIME,
    MAX_RETRY_AFTER,
    MAX_RETRY_DELAY,
    MAX_SKEW,
    MAX_STALE_AGE,
    MIN_RETRY_DELAY,
    NOT_MODIFIED,
    RETRY_JITTER,
    STATUS_TABLE,
    WITHOUT_COPY,
    Effect,
    Lifetime,
    Outcome,
    StatusPolicy,
)
from robotgate._verdict import AccessResult

if TYPE_CHECKING:
    from robotgate._urls import Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One HTTP answer to a request for robots.txt, redirects not followed."""

    status: int
    body: bytes = b""
    """Decoded as Content-Encoding says, at most as many octets as were asked for."""
    location: str | None = None
    cache_control: str | None = None
    retry_after: float | None = None
    """Seconds."""
    etag: str | None = None
    last_modified: str | None = None
    expires: str | None = None
    date: str | None = None
    """When the server says it answered."""
    age: str | None = None
    """Seconds it has spent in caches, as they tell."""


@dataclass(frozen=True, slots=True)
class Failure:
    """No answer, or one that broke off."""

    cause: str
    """In words, for the verdict."""
    is_outage: bool = False
    """Whether the host could not be reached at all: no connection, no name, no first line of an answer in time."""
    is_non_public: bool = False
    """Whether it was not asked because its name resolves to no public address."""
    is_garbled: bool = False
    """Whether what came is no HTTP."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How one attempt to read a robots.txt ended, after its redirects."""

    outcome: Outcome
    answer: Answer | Failure
    url: str
    """The last URL asked."""
    redirects: tuple[str, ...] = ()
    """The URLs that redirected, first to last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotsRecord:
    """What is kept of an origin's robots.txt: nothing in it depends on who asks, so that agents can share it."""

    origin: Origin
    outcome: Outcome
    """How the last attempt ended."""
    status: int | None = None
    """The status of the last answer; None when there was none."""
    cause: str | None = None
    """What went wrong with the last attempt, in words."""
    checked_at: float
    """When the last attempt ended (wall clock)."""
    fresh_until_at: float
    """Not asked for again before (wall clock)."""
    failures: int = 0
    """Failed attempts in a row."""
    failing_since_at: float | None = None
    body: bytes = b""
    """The last good copy."""
    fetched_at: float | None = None
    """When that copy was read, or confirmed by a 304 (wall clock); None when there is none."""
    robots_url: str = ""
    """Where it was read from in the end."""
    redirects: tuple[str, ...] = ()
    etag: str | None = None
    last_modified: str | None = None


class Standing(Enum):
    """What an origin's record lets us do now."""

    RULES = "rules"
    STALE_RULES = "stale rules"
    OPEN = "open"
    CLOSED = "closed"


def settle(
    origin: Origin, ending: Ending, *, previous: RobotsRecord | None, now: float, jitter: float
) -> RobotsRecord:
    """What to remember after an attempt.

    Args:
        previous: what was known; where the attempt was conditional, it is what the conditions were taken from.
        jitter: a random number in [0, 1), so that origins that failed together do not all come back together.
    """
    failed = STATUS_TABLE[ending.outcome].lifetime is Lifetime.RETRY
    failures = (previous.failures if previous is not None else 0) + 1 if failed else 0
    if previous is not None and _outlives(previous, ending, now):
        return replace(
            previous,
            cause=previous.cause or cause_of(ending),
            checked_at=now,
            failures=failures,
            failing_since_at=_failing_since(previous, now),
        )
    record = RobotsRecord(
        origin=origin,
        outcome=ending.outcome,
        status=ending.answer.status if isinstance(ending.answer, Answer) else None,
        cause=cause_of(ending),
        checked_at=now,
        fresh_until_at=now + _lifetime(ending, previous, failures=failures, now=now, jitter=jitter),
        failures=failures,
        failing_since_at=_failing_since(previous, now) if failed else None,
        robots_url=ending.url,
        redirects=ending.redirects,
    )
    if ending.outcome is Outcome.SUCCESS and isinstance(ending.answer, Answer):
        return _with_copy(record, ending.answer, previous, now)
    if STATUS_TABLE[ending.outcome].keeps_copy and previous is not None and previous.fetched_at is not None:
        return replace(
            record,
            body=previous.body,
            fetched_at=previous.fetched_at,
            robots_url=previous.robots_url,
            redirects=previous.redirects,
            etag=previous.etag,
            last_modified=previous.last_modified,
        )
    return record


def is_fresh(record: RobotsRecord, now: float) -> bool:
    """Whether nobody need be asked again yet. What was learnt in the future, by a clock that was wrong, has no end that
    means anything.
    """
    return now < record.fresh_until_at and record.checked_at <= now + MAX_SKEW


def later(one: RobotsRecord | None, other: RobotsRecord | None) -> RobotsRecord | None:
    """The record of the later attempt: a store may have let go of what memory still has."""
    if one is None or other is None:
        return one or other
    return other if other.checked_at > one.checked_at else one


def is_answered(record: RobotsRecord) -> bool:
    """Whether the record tells what the site wants, and not that it could not be asked."""
    return STATUS_TABLE[record.outcome].access is not AccessResult.UNREACHABLE


def standing(record: RobotsRecord, policy: StatusPolicy, now: float) -> Standing:
    """What a record means under a policy."""
    effect = STATUS_TABLE[record.outcome].effect_under(policy)
    if effect is Effect.RULES:
        return Standing.RULES
    if effect is Effect.OPEN:
        return Standing.OPEN
    if effect is Effect.CLOSED:
        return Standing.CLOSED
    if record.fetched_at is not None and now - record.fetched_at < MAX_STALE_AGE:
        return Standing.STALE_RULES
    if effect is Effect.LAST_GOOD_ELSE_OPEN:
        return Standing.OPEN
    patience_is_over = (
        record.failing_since_at is not None and now - record.failing_since_at >= GOOGLE_PATIENCE
    )
    if effect is Effect.LAST_GOOD_ELSE_CLOSED_12_HOURS and patience_is_over:
        return Standing.OPEN
    return Standing.CLOSED


def standing_until_at(record: RobotsRecord, policy: StatusPolicy, now: float) -> float:
    """Until when a record means what it means now, and need not be asked for again."""
    effect = STATUS_TABLE[record.outcome].effect_under(policy)
    changes = []
    if effect not in WITHOUT_COPY and record.fetched_at is not None:
        changes.append(record.fetched_at + MAX_STALE_AGE)
    if effect is Effect.LAST_GOOD_ELSE_CLOSED_12_HOURS and record.failing_since_at is not None:
        changes.append(record.failing_since_at + GOOGLE_PATIENCE)
    return min([record.fresh_until_at, *(at for at in changes if at > now)])


def _failing_since(previous: RobotsRecord | None, now: float) -> float:
    if previous is None or previous.failing_since_at is None:
        return now
    return previous.failing_since_at


def _outlives(previous: RobotsRecord, ending: Ending, now: float) -> bool:
    """Whether what was known has not come to its end yet, and the attempt tells nothing in its place."""
    row = STATUS_TABLE[ending.outcome]
    tells_nothing = row.lifetime is Lifetime.RETRY and row.keeps_copy
    return tells_nothing and is_answered(previous) and is_fresh(previous, now)


def _with_copy(
    record: RobotsRecord, answer: Answer, previous: RobotsRecord | None, now: float
) -> RobotsRecord:
    """The record with the copy that an answer brought, or confirmed."""
    body, validators = answer.body, Validators(answer.etag, answer.last_modified)
    if answer.status == NOT_MODIFIED and previous is not None:
        body = previous.body
        validators = Validators(previous.etag, previous.last_modified).renewed_by(validators)
    return replace(
        record, body=body, fetched_at=now, etag=validators.etag, last_modified=validators.last_modified
    )


def cause_of(ending: Ending) -> str | None:
    """What went wrong with an attempt, in words; None when nothing did."""
    if isinstance(ending.answer, Failure):
        return ending.answer.cause
    if ending.outcome is Outcome.SUCCESS:
        return None
    if ending.outcome in (Outcome.LOST, Outcome.NON_PUBLIC):
        return f"{ending.outcome.value} ({ending.url})"
    return f"HTTP status {ending.answer.status}"


def _lifetime(
    ending: Ending, previous: RobotsRecord | None, *, failures: int, now: float, jitter: float
) -> float:
    rule = STATUS_TABLE[ending.outcome].lifetime
    if rule is Lifetime.ONE_DAY:
        return DAY
    answer = ending.answer if isinstance(ending.answer, Answer) else None
    if rule is Lifetime.RETRY:
        return retry_delay(
            failures, retry_after=answer.retry_after if answer is not None else None, jitter=jitter
        )
    if answer is None:
        return MAX_LIFETIME
    granted = granted_lifetime(
        cache_control=answer.cache_control,
        expires=answer.expires,
        date=answer.date,
        age=answer.age,
        now=now,
    )
    if granted is not None:
        return clamped(granted)
    if answer.status != NOT_MODIFIED or previous is None or previous.outcome is not Outcome.SUCCESS:
        return MAX_LIFETIME
    # What a 304 leaves out is as it was (RFC 9111 §3.2).
    read_at = now if previous.fetched_at is None else previous.fetched_at
    return clamped(previous.fresh_until_at - read_at)


def retry_delay(failures: int, *, retry_after: float | None, jitter: float) -> float:
    """Seconds to wait after so many failures in a row; never less than the server asked for, up to 24 h."""
    growing = min(MIN_RETRY_DELAY * 2.0 ** min(failures - 1, 16), MAX_RETRY_DELAY)
    asked = min(retry_after or 0.0, MAX_RETRY_AFTER)
    return max(growing, asked) * (1 + RETRY_JITTER * jitter)
