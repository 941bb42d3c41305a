"""An origin with what its record means for us."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from robotgate._access import Standing, standing, standing_until_at
from robotgate._compile import compile_rules
from robotgate._host import HostAccess
from robotgate._hours import DAY, joined
from robotgate._recheck import refresh_at
from robotgate._rules import ALLOW_ALL, DENY_ALL, Rules
from robotgate._spacing import NOTHING_ASKED, Asked, strictest
from robotgate._status import STATUS_TABLE, Outcome
from robotgate._verdict import AccessResult, Reason, Verdict

if TYPE_CHECKING:
    from robotgate._access import RobotsRecord
    from robotgate._overrides import HostOptions
    from robotgate._recheck import Recheck, Traffic
    from robotgate._rules import Decision
    from robotgate._urls import Origin

_PASSING: Final = frozenset({Outcome.FAILURE, Outcome.NON_PUBLIC_NAME})
"""What may be otherwise in a while."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Site:
    """An origin as we may use it until `fresh_until_at`."""

    origin: Origin
    key: str
    """The origin as text, as its URLs begin."""
    record: RobotsRecord | None
    """None for an operator's own host, whose robots.txt is not asked."""
    standing: Standing
    rules: Rules
    """What binds us: the file's rules, or all or nothing."""
    written: Asked
    """What our group asks about our speed."""
    asked: Asked
    """What of it counts; the operator decides."""
    max_delay: float
    """Seconds; a longer delay is refused."""
    delay_is_refused: bool
    """True when the delay that counts is longer; `rules` then allow nothing."""
    fresh_until_at: float
    """Until when all this holds, the refusal of the delay included: a Request-rate is for its hours."""
    refresh_at: float
    """From when on whoever asks has it asked for again, though it answers him; no later than `fresh_until_at`. All
    that is asked of memory is compared with this alone."""
    since: Traffic | None = None
    """What the host had seen when its robots.txt was asked for; None while nobody has looked."""

    def verdict(self, target: str, *, now: float) -> Verdict:
        """Whether a path and query may be fetched, and why."""
        decision = self.rules.decide(target)
        record = self.record
        if record is None:
            return Verdict(allowed=decision.allowed, reason=self._reason(decision), url=f"{self.key}{target}")
        has_rules = self._has_rules
        written = self.written
        return Verdict(
            allowed=decision.allowed,
            reason=self._reason(decision),
            url=f"{self.key}{target}",
            rule=decision.rule if has_rules else None,
            opposing=decision.opposing if has_rules else None,
            group=self.rules.agents if has_rules else (),
            warnings=self.rules.warnings if has_rules else (),
            access=STATUS_TABLE[record.outcome].access,
            robots_url=record.robots_url,
            redirects=record.redirects,
            status=record.status,
            cause=record.cause,
            fetched_at=record.fetched_at,
            fresh_until_at=self.fresh_until_at,
            stale=self.standing is Standing.STALE_RULES,
            crawl_delay=written.crawl_delay,
            asked_delay=written.delay_at(now) or written.crawl_delay,
            request_rate=written.request_rate_at(now),
            max_delay=self.max_delay if self.delay_is_refused else None,
            retry_after=max(0.0, self.fresh_until_at - now) if self.is_unreachable else None,
        )

    @property
    def access(self) -> HostAccess:
        """How far the site lets us in."""
        if self.standing is Standing.CLOSED or self.delay_is_refused:
            return HostAccess.EXCLUDED
        if self.rules.disallows_nothing:
            return HostAccess.OPEN
        return HostAccess.EXCLUDED if self.rules.disallows_everything else HostAccess.CONTROLLED

    @property
    def is_unreachable(self) -> bool:
        """Whether the site is closed only because its robots.txt cannot be read just now."""
        record = self.record
        return record is not None and self.standing is Standing.CLOSED and record.outcome in _PASSING

    @property
    def is_non_public(self) -> bool:
        """Whether the site's own name resolved to no public address: there is nothing that could be fetched."""
        record = self.record
        return record is not None and record.outcome is Outcome.NON_PUBLIC_NAME and not record.redirects

    @property
    def _has_rules(self) -> bool:
        return self.standing in (Standing.RULES, Standing.STALE_RULES) and not self.delay_is_refused

    def _reason(self, decision: Decision) -> Reason:
        if self._has_rules or decision.reason is Reason.ROBOTS_TXT:
            return decision.reason
        if self.record is None:
            return Reason.ROBOTS_TXT_IGNORED
        if self.delay_is_refused:
            return Reason.DELAY_TOO_LONG
        if STATUS_TABLE[self.record.outcome].access is AccessResult.UNREACHABLE:
            return Reason.ROBOTS_TXT_UNREACHABLE
        if self.standing is Standing.CLOSED:
            return Reason.ROBOTS_TXT_FORBIDDEN
        return Reason.ROBOTS_TXT_UNAVAILABLE


def site_of(
    record: RobotsRecord, *, token: str, options: HostOptions, now: float, recheck: Recheck | None = None
) -> Site:
    """What a record means for a product token now, at a host with these options."""
    position = standing(record, options.status_policy, now)
    rules = _rules(record, position, token)
    written = _written(rules)
    asked = _that_counts(written, options)
    is_refused = asked.delay_at(now) > options.max_delay
    fresh_until_at = min(
        standing_until_at(record, options.status_policy, now),
        _refusal_until_at(asked, options.max_delay, now),
    )
    return Site(
        origin=record.origin,
        key=str(record.origin),
        record=record,
        standing=position,
        rules=DENY_ALL if is_refused else rules,
        written=written,
        asked=asked,
        max_delay=options.max_delay,
        delay_is_refused=is_refused,
        fresh_until_at=fresh_until_at,
        refresh_at=min(refresh_at(record, recheck), fresh_until_at),
    )


def own_site(origin: Origin) -> Site:
    """A host of the operator's own: its robots.txt is neither asked for nor obeyed."""
    return Site(
        origin=origin,
        key=origin.text,
        record=None,
        standing=Standing.OPEN,
        rules=ALLOW_ALL,
        written=NOTHING_ASKED,
        asked=NOTHING_ASKED,
        max_delay=math.inf,
        delay_is_refused=False,
        fresh_until_at=math.inf,
        refresh_at=math.inf,
    )


def _rules(record: RobotsRecord, position: Standing, token: str) -> Rules:
    if position is Standing.OPEN:
        return ALLOW_ALL
    if position is Standing.CLOSED:
        return DENY_ALL
    return compile_rules(record.body, token.lower(), record.origin)


def _written(rules: Rules) -> Asked:
    if rules.crawl_delay is None and not rules.request_rates and not rules.visit_times:
        return NOTHING_ASKED
    return Asked(
        crawl_delay=rules.crawl_delay,
        request_rates=strictest(rules.request_rates),
        visit_times=joined(rules.visit_times),
    )


def _that_counts(written: Asked, options: HostOptions) -> Asked:
    if written is NOTHING_ASKED or (options.obey_crawl_delay and options.obey_visit_time):
        return written
    obeyed = written if options.obey_crawl_delay else NOTHING_ASKED
    return Asked(
        crawl_delay=obeyed.crawl_delay,
        request_rates=obeyed.request_rates,
        visit_times=written.visit_times if options.obey_visit_time else (),
    )


def _refusal_until_at(asked: Asked, max_delay: float, now: float) -> float:
    """Until when a delay is refused, or not refused, as it is now; infinity where the hour makes no difference."""
    is_refused = asked.delay_at(now) > max_delay
    at = asked.next_change_at(now)
    while at < now + DAY and (asked.delay_at(at) > max_delay) == is_refused:
        at = asked.next_change_at(at)
    return at if at < now + DAY else math.inf
