"""What is kept of an origin's robots.txt, and how one answer for it leads to that record or to the next request.

Pure functions of answers, records and an instant. Headers are not trusted.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Final

from robotgate.clock import DAY, HOUR, MINUTE, parse_http_date
from robotgate.pace.signals import MAX_PAUSE, retry_after_of
from robotgate.pace.state import growing
from robotgate.rules.decode import ENCODED
from robotgate.rules.grammar import MAX_BYTES
from robotgate.rules.verdict import AccessResult
from robotgate.sites.status_table import (
    MAX_REDIRECTS,
    MAX_SKEW,
    MAX_STALE_AGE,
    NOT_MODIFIED,
    REDIRECT_STATUSES,
    STATUS_TABLE,
    WITHOUT_COPY,
    Effect,
    Lifetime,
    Outcome,
    outcome_of,
)
from robotgate.urls import Origin, parse_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robotgate.options import StatusPolicy


MIN_LIFETIME: Final = 5 * MINUTE
MAX_LIFETIME: Final = DAY
"""RFC 9309 §2.4: a copy should not be used for longer than 24 hours."""
GOOGLE_PATIENCE: Final = 12 * HOUR
MIN_RETRY_DELAY: Final = MINUTE
MAX_RETRY_DELAY: Final = HOUR
RETRY_JITTER: Final = 0.25
PRECONDITION_FAILED: Final = 412
MAX_DELTA: Final = 2.0**31
"""Seconds; a longer count is taken as this (RFC 9111 §1.2.2)."""
MAX_HEADER: Final = 1000
"""Characters of Cache-Control and Age that are read."""
MAX_VALIDATOR: Final = 200
"""Characters; a longer ETag or Last-Modified is not sent back."""

_DIRECTIVE: Final = re.compile(r"([\w!#$%&'*+.^`|~-]+)(?:\s*=\s*(?:\"([^\"]*)\"?|([^\s,;\"]*)))?", re.ASCII)
_ENTITY_TAG: Final = re.compile(r"(?:W/)?\"[\x21\x23-\x7e]*\"")
MARK: Final = '-gzip"'
"""The end of the tag of a file that Apache compresses. It knows the tag without the mark, and sends 304 with that."""
_SENDABLE: Final = re.compile(rf"[\x20-\x7e]{{1,{MAX_VALIDATOR}}}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One HTTP response to a request for robots.txt, redirects not followed."""

    status: int
    body: bytes = b""
    """Decoded as Content-Encoding says, at most as many bytes as were asked for."""
    location: str | None = None
    cache_control: str | None = None
    etag: str | None = None
    last_modified: str | None = None
    expires: str | None = None
    date: str | None = None
    age: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Names in any case. What they ask of our speed is read: Retry-After, and the quotas of RateLimit."""

    may_be_of_proxy: bool = False
    """Whether a proxy on the way may have given it in the site's place."""
    is_stale: bool = False
    """Whether it may be meant for a connection that was idle: the same request may be sent once more."""

    def retry_after(self, now: float) -> float:
        """The seconds that Retry-After asks for; 0 where it does not say."""
        return retry_after_of(self.headers, now=now) or 0.0


@dataclass(frozen=True, slots=True)
class Failure:
    """No response, or one that broke off."""

    cause: str
    """In words, for the verdict."""
    is_outage: bool = False
    """Whether the host could not be reached: no name, no connection, no TLS."""
    is_silence: bool = False
    """Whether the request was sent, and no status line came, in time or before the connection was closed. Only several
    in a row mean that the host cannot be reached."""
    is_non_public: bool = False
    """Whether no request was sent because the name resolves to no public address."""
    is_garbled: bool = False
    """Whether what came is not HTTP."""
    is_of_proxy: bool = False
    """Whether a proxy failed, or answered for itself: nothing was heard of the site."""
    is_stale: bool = False
    """Whether the server had closed the connection that was kept: the same request may be sent once more."""


@dataclass(slots=True)
class FetchResult:
    """How one attempt to read a robots.txt ended, after its redirects."""

    outcome: Outcome
    answer: Answer | Failure
    url: str
    """The last URL requested."""
    redirects: tuple[str, ...] = ()
    """The URLs that redirected, first to last."""
    response: Answer | None = field(init=False, default=None)
    """The last response; None when there was none, or it broke off."""
    cause: str | None = field(init=False, default=None)
    """What went wrong, in words; None when nothing did."""

    def __post_init__(self) -> None:
        if isinstance(self.answer, Failure):
            self.cause = self.answer.cause
            return
        self.response = self.answer
        if self.outcome is Outcome.LOST:
            self.cause = f"a redirect to nowhere, or more than {MAX_REDIRECTS} ({self.url})"
        elif self.outcome is Outcome.PROXY:
            self.cause = f"a proxy asks for credentials, HTTP status {self.answer.status}"
        elif self.outcome is not Outcome.SUCCESS:
            self.cause = f"HTTP status {self.answer.status}"

    def outcome_with(self, previous: RobotsRecord | None, now: float) -> Outcome:
        """The row of the table, which for a redirect to nowhere depends on the copy that is held."""
        held_at = None if previous is None else previous.fetched_at
        is_held = held_at is not None and now < held_at + MAX_STALE_AGE
        return Outcome.LOST_AGAIN if self.outcome is Outcome.LOST and is_held else self.outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotsRecord:
    """What is kept of an origin's robots.txt, or in memory, without the body, of its tdmrep.json.

    Nothing in it depends on the user agent, so that agents can share it. Instants are seconds since the epoch, by
    the wall clock.
    """

    origin: Origin
    outcome: Outcome
    """How the last attempt ended."""
    status: int | None = None
    """The status of the last response; None when there was none."""
    cause: str | None = None
    """What went wrong with the last attempt, in words."""
    checked_at: float
    """When the last attempt ended."""
    fresh_until_at: float
    """Until when the record is used without another request."""
    failures: int = 0
    """Failed attempts in a row."""
    failing_since_at: float | None = None
    """When the first of these failed."""
    body: bytes = b""
    """The last good copy: at most `MAX_BYTES`."""
    fetched_at: float | None = None
    """When that copy was read, or confirmed by a 304; None when there is no copy."""
    robots_url: str = ""
    """The last URL requested: where the copy was read from, if there is one."""
    redirects: tuple[str, ...] = ()
    """The URLs that redirected there, first to last."""
    etag: str | None = None
    last_modified: str | None = None


class Standing(Enum):
    """What a record means under a policy at an instant."""

    RULES = "rules"
    STALE_RULES = "stale rules"
    OPEN = "open"
    CLOSED = "closed"


def settle(
    origin: Origin, result: FetchResult, *, previous: RobotsRecord | None, now: float, jitter: float
) -> RobotsRecord:
    """The record after an attempt.

    Args:
        previous: the record before it; of a conditional request, the one the conditions were taken from.
        jitter: a random number in [0, 1), so that origins that failed together are not retried together.
    """
    outcome, response = result.outcome_with(previous, now), result.response
    row = STATUS_TABLE[outcome]
    failures, failing_since_at = 0, None
    if row.lifetime is Lifetime.RETRY:
        failures, failing_since_at = 1, now
        if previous is not None and previous.failures:
            failures, failing_since_at = previous.failures + 1, previous.failing_since_at
        if previous is not None and row.keeps_copy and is_answered(previous) and is_fresh(previous, now):
            # The copy is used until it expires: the failure replaces nothing.
            return replace(
                previous,
                cause=previous.cause or result.cause,
                checked_at=now,
                failures=failures,
                failing_since_at=failing_since_at,
            )
    body, fetched_at, etag, last_modified = b"", None, None, None
    url, redirects = result.url, result.redirects
    if outcome is Outcome.SUCCESS and response is not None:
        copy = previous if response.status == NOT_MODIFIED and previous is not None else response
        body, fetched_at = whole_lines(copy.body), now
        etag, last_modified = response.etag or copy.etag, response.last_modified or copy.last_modified
    elif previous is not None and previous.fetched_at is not None and row.keeps_copy:
        body, fetched_at = previous.body, previous.fetched_at
        etag, last_modified = previous.etag, previous.last_modified
        url, redirects = previous.robots_url, previous.redirects
    return RobotsRecord(
        origin=origin,
        outcome=outcome,
        status=None if response is None else response.status,
        cause=result.cause,
        checked_at=now,
        fresh_until_at=now
        + _lifetime(row.lifetime, response, previous, failures=failures, now=now, jitter=jitter),
        failures=failures,
        failing_since_at=failing_since_at,
        body=body,
        fetched_at=fetched_at,
        robots_url=url,
        redirects=redirects,
        etag=etag,
        last_modified=last_modified,
    )


def whole_lines(body: bytes) -> bytes:
    """A file of up to `MAX_BYTES`; of a longer one, the lines that end within.

    A part of a rule may allow, or refuse, what the whole rule does not. What is not in UTF-8 yet is cut at the limit.
    """
    if len(body) <= MAX_BYTES or body.startswith(ENCODED):
        return body[:MAX_BYTES]
    return body[: max(body.rfind(b"\n", 0, MAX_BYTES), body.rfind(b"\r", 0, MAX_BYTES)) + 1]


def is_fresh(record: RobotsRecord, now: float) -> bool:
    """Whether the record may be used without another request.

    A record of the future was written by a clock that was wrong, so its end means nothing.
    """
    return now < record.fresh_until_at and record.checked_at <= now + MAX_SKEW


def is_answered(record: RobotsRecord) -> bool:
    """Whether the record tells what the site wants, and not that the site could not be asked."""
    return STATUS_TABLE[record.outcome].access is not AccessResult.UNREACHABLE


def newer(one: RobotsRecord | None, other: RobotsRecord | None) -> RobotsRecord | None:
    """The record of the later attempt: a store may have dropped what memory still has."""
    return max(filter(None, (one, other)), key=lambda record: record.checked_at, default=None)


def standing(record: RobotsRecord, policy: StatusPolicy, now: float) -> tuple[Standing, float]:
    """What a record means under a policy, and until when it means that and is fresh."""
    effect, until_at = STATUS_TABLE[record.outcome].effect_under(policy), record.fresh_until_at
    if effect in WITHOUT_COPY:
        return Standing[effect.name], until_at
    if record.fetched_at is not None and now < record.fetched_at + MAX_STALE_AGE:
        return Standing.STALE_RULES, min(until_at, record.fetched_at + MAX_STALE_AGE)
    if effect is Effect.LAST_GOOD_ELSE_OPEN:
        return Standing.OPEN, until_at
    if effect is Effect.LAST_GOOD_ELSE_CLOSED_12_HOURS and record.failing_since_at is not None:
        opens_at = record.failing_since_at + GOOGLE_PATIENCE
        return (Standing.OPEN, until_at) if now >= opens_at else (Standing.CLOSED, min(until_at, opens_at))
    return Standing.CLOSED, until_at


def retry_delay(failures: int, *, retry_after: float | None, jitter: float) -> float:
    """Seconds to wait after so many failures in a row; never less than the server asked for, up to 24 h."""
    asked = min(retry_after or 0.0, MAX_PAUSE)
    return max(min(growing(MIN_RETRY_DELAY, failures), MAX_RETRY_DELAY), asked) * (1 + RETRY_JITTER * jitter)


def _lifetime(
    rule: Lifetime,
    response: Answer | None,
    previous: RobotsRecord | None,
    *,
    failures: int,
    now: float,
    jitter: float,
) -> float:
    """Seconds for which the record of a result is used without another request."""
    if rule is Lifetime.NOT_KEPT:
        return 0.0
    if rule is Lifetime.RETRY:
        retry_after = None if response is None else response.retry_after(now)
        return retry_delay(failures, retry_after=retry_after, jitter=jitter)
    if rule is Lifetime.ONE_DAY or response is None:
        return DAY
    granted = granted_lifetime(response, now=now)
    known = previous if response.status == NOT_MODIFIED else None
    if granted is None and known is not None and known.outcome is Outcome.SUCCESS:
        # The headers that a 304 leaves out keep their former values (RFC 9111 §3.2).
        granted = known.fresh_until_at - (now if known.fetched_at is None else known.fetched_at)
    return MAX_LIFETIME if granted is None else min(max(granted, MIN_LIFETIME), MAX_LIFETIME)


def granted_lifetime(answer: Answer, *, now: float) -> float | None:
    """The seconds from now on for which an answer's headers let it be used; None when they do not say.

    Cache-Control goes before Expires (RFC 9111 §5.3). Age, the time spent in caches on the way, is subtracted
    (§4.2.3). The time the response took to arrive is not: it is at most the request's timeout.
    """
    granted = max_age(answer.cache_control)
    if granted is None:
        if answer.expires is None:
            return None
        # The server's clock may be wrong, but it wrote both. "0", as many servers write it, has expired (§5.3).
        expires, sent = parse_http_date(answer.expires), parse_http_date(answer.date or "")
        sent_at = now if sent is None else sent.timestamp()
        granted = 0.0 if expires is None else expires.timestamp() - sent_at
    # Of a list the first counts, and what is not a number is ignored (RFC 9111 §5.1).
    age = _seconds((answer.age or "")[:MAX_HEADER].partition(",")[0])
    return max(granted - (age or 0.0), 0.0)


def max_age(cache_control: str | None) -> float | None:
    """The seconds a Cache-Control header grants: 0 for ``no-store`` and ``no-cache``; None when it does not say.

    A value that cannot be read counts as 0, and of several values the first counts (RFC 9111 §4.2.1). ``s-maxage`` is
    for shared caches and not read.
    """
    granted: float | None = None
    for name, quoted, bare in _DIRECTIVE.findall((cache_control or "")[:MAX_HEADER].lower()):
        if name in ("no-store", "no-cache"):
            return 0.0
        if name == "max-age" and granted is None:
            granted = _seconds(quoted or bare) or 0.0
    return granted


def _seconds(text: str) -> float | None:
    return min(float(text), MAX_DELTA) if re.fullmatch(r"\s*[0-9]+\s*", text) else None


def conditions(known: RobotsRecord | None, url: str) -> Mapping[str, str]:
    """The headers that ask a URL for a file only if it differs from our copy; none where there is no copy of that URL.

    A validator that cannot be sent back safely is left out: ``*`` as an ETag would match any file.
    """
    if known is None or known.fetched_at is None or known.robots_url != url:
        return {}
    headers = {}
    etag, date = known.etag, known.last_modified
    if etag is not None and len(etag) <= MAX_VALIDATOR and _ENTITY_TAG.fullmatch(etag):
        bare = _without_mark(etag)
        headers["If-None-Match"] = etag if bare == etag else f"{etag}, {bare}"
    if date is not None and _SENDABLE.fullmatch(date) and parse_http_date(date) is not None:
        # As it came: servers compare the text (RFC 9110 §13.1.3).
        headers["If-Modified-Since"] = date
    return headers


def _without_mark(etag: str) -> str:
    return f'{etag.removesuffix(MARK)}"' if etag.endswith(MARK) else etag


def needs_plain_request(known: RobotsRecord, answer: Answer | Failure) -> bool:
    """Whether the answer to a request with `conditions` is useless, so that it is sent again without them.

    That is a 304 that confirms another copy (RFC 9111 §4.3.4); a 304 with a body, which aiohttp reads as the start of a
    second response; and a 412, which does not belong to these conditions.
    """
    if isinstance(answer, Failure):
        return answer.is_garbled
    if answer.status != NOT_MODIFIED:
        return answer.status == PRECONDITION_FAILED
    if known.etag is not None and answer.etag is not None:
        # Compared weakly.
        tags = [_without_mark(each).removeprefix("W/") for each in (known.etag, answer.etag)]
        return tags[0] != tags[1]
    dates = known.last_modified, answer.last_modified
    return None not in dates and dates[0] != dates[1]


def follow(
    url: str, redirects: tuple[str, ...], answer: Answer | Failure, *, is_conditional: bool = False
) -> FetchResult | str:
    """What follows an answer: the URL to request next, or the result (RFC 9309 §2.3.1.2).

    Args:
        url: the URL that was requested.
        redirects: the URLs that redirected to it, first to last.
        is_conditional: whether it was requested with `conditions`, so that a 304 has a meaning.
    """
    if isinstance(answer, Failure):
        outcome = Outcome.NON_PUBLIC_NAME if answer.is_non_public else Outcome.FAILURE
        return FetchResult(Outcome.PROXY if answer.is_of_proxy else outcome, answer, url, redirects)
    if answer.status in REDIRECT_STATUSES and answer.location and len(redirects) < MAX_REDIRECTS:
        # The scheme may be any: `split_url` refuses all but http and https.
        with suppress(ValueError):
            target = parse_url(url).join(parse_url(answer.location.strip()))
            return str(target.with_fragment(None).with_user(None) if target.raw_host else target)
    outcome = outcome_of(answer.status, is_conditional=is_conditional)
    return FetchResult(outcome, answer, url, redirects)
