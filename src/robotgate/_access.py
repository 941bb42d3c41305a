"""How asking for a robots.txt ended, what is kept of it, and what that lets us do: the status table applied.

Pure functions of an answer, a record and an instant.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum

from robotgate._redirect import REDIRECT_STATUSES
from robotgate._status import (
    DAY,
    GOOGLE_PATIENCE,
    MAX_LIFETIME,
    MAX_REDIRECTS,
    MAX_RETRY_AFTER,
    MAX_RETRY_DELAY,
    MAX_STALE_AGE,
    MIN_LIFETIME,
    MIN_RETRY_DELAY,
    RETRY_JITTER,
    STATUS_TABLE,
    WITHOUT_COPY,
    Effect,
    Lifetime,
    Outcome,
    StatusPolicy,
    outcome_of,
)
from robotgate._urls import Origin, parse_url


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


@dataclass(frozen=True, slots=True)
class Failure:
    """No answer, or one that broke off."""

    cause: str
    """In words, for the verdict."""
    is_outage: bool = False
    """Whether the host could not be reached at all: no connection, no name, no first line of an answer in time."""
    is_non_public: bool = False
    """Whether it was not asked because its name resolves to no public address."""


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
    """When that copy was read (wall clock); None when there is none."""
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


def redirect_target(url: str, answer: Answer) -> str | None:
    """Where an answer sends us, as an absolute URL; None when it does not redirect or names no place.

    The place may still be no http URL at all: asking for it is what finds out.
    """
    if answer.status not in REDIRECT_STATUSES or not answer.location:
        return None
    try:
        target = parse_url(url).join(parse_url(answer.location.strip()))
        return str(target.with_fragment(None).with_user(None) if target.raw_host else target)
    except ValueError:
        return None


def follow(url: str, redirects: tuple[str, ...], answer: Answer | Failure) -> Ending | str:
    """What comes after an answer: the URL to ask next, or the end (RFC 9309 §2.3.1.2).

    Args:
        url: what was asked.
        redirects: the URLs that redirected to it, first to last.
    """
    if isinstance(answer, Failure):
        outcome = Outcome.NON_PUBLIC_NAME if answer.is_non_public else Outcome.FAILURE
        return Ending(outcome, answer, url, redirects)
    target = redirect_target(url, answer)
    if target is None:
        return Ending(outcome_of(answer.status), answer, url, redirects)
    if len(redirects) == MAX_REDIRECTS:
        return Ending(Outcome.LOST, answer, url, redirects)
    return target


def settle(
    origin: Origin, ending: Ending, *, previous: RobotsRecord | None, now: float, jitter: float
) -> RobotsRecord:
    """What to remember after an attempt.

    Args:
        jitter: a random number in [0, 1), so that origins that failed together do not all come back together.
    """
    failed = STATUS_TABLE[ending.outcome].lifetime is Lifetime.RETRY
    failures = (previous.failures if previous is not None else 0) + 1 if failed else 0
    record = RobotsRecord(
        origin=origin,
        outcome=ending.outcome,
        status=ending.answer.status if isinstance(ending.answer, Answer) else None,
        cause=_cause(ending),
        checked_at=now,
        fresh_until_at=now + _lifetime(ending, failures, jitter),
        failures=failures,
        failing_since_at=_failing_since(previous, now) if failed else None,
        robots_url=ending.url,
        redirects=ending.redirects,
    )
    if ending.outcome is Outcome.SUCCESS and isinstance(ending.answer, Answer):
        answer = ending.answer
        return replace(
            record, body=answer.body, fetched_at=now, etag=answer.etag, last_modified=answer.last_modified
        )
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


def _cause(ending: Ending) -> str | None:
    if isinstance(ending.answer, Failure):
        return ending.answer.cause
    if ending.outcome is Outcome.SUCCESS:
        return None
    if ending.outcome in (Outcome.LOST, Outcome.NON_PUBLIC):
        return f"{ending.outcome.value} ({ending.url})"
    return f"HTTP status {ending.answer.status}"


def _lifetime(ending: Ending, failures: int, jitter: float) -> float:
    rule = STATUS_TABLE[ending.outcome].lifetime
    if rule is Lifetime.ONE_DAY:
        return DAY
    answer = ending.answer if isinstance(ending.answer, Answer) else None
    if rule is Lifetime.CACHE_CONTROL:
        age = max_age(answer.cache_control if answer is not None else None)
        return MAX_LIFETIME if age is None else min(max(age, MIN_LIFETIME), MAX_LIFETIME)
    return retry_delay(
        failures, retry_after=answer.retry_after if answer is not None else None, jitter=jitter
    )


def max_age(cache_control: str | None) -> float | None:
    """The seconds a Cache-Control header grants: 0 for ``no-store`` and ``no-cache``; None when it does not say."""
    if cache_control is None:
        return None
    directives = cache_control[:1000].lower()
    if re.search(r"\bno-(?:store|cache)\b", directives):
        return 0.0
    granted = re.search(r"(?<![\w-])max-age\s*=\s*\"?([0-9]{0,12})", directives)
    if granted is None:
        return None
    # What cannot be read is taken as stale (RFC 9111 §4.2.1).
    return float(granted[1] or 0)


def retry_delay(failures: int, *, retry_after: float | None, jitter: float) -> float:
    """Seconds to wait after so many failures in a row; never less than the server asked for, up to 24 h."""
    growing = min(MIN_RETRY_DELAY * 2.0 ** min(failures - 1, 16), MAX_RETRY_DELAY)
    asked = min(retry_after or 0.0, MAX_RETRY_AFTER)
    return max(growing, asked) * (1 + RETRY_JITTER * jitter)
