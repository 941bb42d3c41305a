"""One origin in memory: what its record means for our product token and options, and when it is requested again."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from robotgate.pace.host import PacedOrigin
from robotgate.pace.spacing import NOTHING_ASKED, Asked, joined
from robotgate.rules.parser import compile_rules
from robotgate.rules.rules import ALLOW_ALL, DENY_ALL, Rules
from robotgate.rules.verdict import AccessResult, Reason, Verdict
from robotgate.sites.record import Standing, is_answered, retry_delay, standing, standing_until_at
from robotgate.sites.status import STATUS_TABLE, Outcome
from robotgate.sites.view import HostAccess

if TYPE_CHECKING:
    from robotgate.options import HostOptions, Recheck
    from robotgate.pace.host import Host
    from robotgate.rules.rules import Decision
    from robotgate.sites.record import RobotsRecord
    from robotgate.urls import Origin


FIRST_REFRESH: Final = 0.75
"""The share of a record's lifetime after which the next use of the site requests robots.txt again."""
LAST_REFRESH: Final = 0.85
"""Origins learnt together are spread between the first share and this one."""
MIN_SIZE: Final = 1024
"""Bytes that a smaller robots.txt counts for in `Recheck.bytes_ratio`, an empty or missing one included."""
_TEMPORARY: Final = frozenset({Outcome.FAILURE, Outcome.NON_PUBLIC_NAME})


@dataclass(frozen=True, slots=True)
class Traffic:
    """`HostState.visits` and `HostState.bytes_read` at one moment."""

    visits: int
    bytes_read: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Ruling:
    """What an origin's record means for us until `fresh_until_at`."""

    origin: Origin
    record: RobotsRecord | None
    """None for a host of the operator's own, whose robots.txt is not requested."""
    standing: Standing
    rules: Rules
    """What binds us: the file's rules, or all or nothing."""
    written: Asked
    """What our group in the file asks about our speed."""
    asked: Asked
    """The part of `written` that the operator's options obey."""
    max_delay: float
    """Seconds; a longer delay is refused."""
    delay_is_refused: bool
    """Whether `asked.delay` is longer than `max_delay`; `rules` then allow nothing."""
    fresh_until_at: float
    refresh_at: float
    """From when on the next use requests robots.txt again, without waiting for it; no later than `fresh_until_at`."""

    def verdict(self, target: str, *, now: float) -> Verdict:
        """Whether a path and query may be fetched, and why."""
        decision = self.rules.decide(target)
        record, reason, url = self.record, self._reason(decision), f"{self.origin}{target}"
        if record is None:
            return Verdict(allowed=decision.allowed, reason=reason, url=url)
        has_rules, written = self._has_rules, self.written
        return Verdict(
            allowed=decision.allowed,
            reason=reason,
            url=url,
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
            # A Crawl-delay of 0 is told as such.
            asked_delay=written.delay or written.crawl_delay,
            request_rate=written.request_rate,
            max_delay=self.max_delay if self.delay_is_refused else None,
            retry_after=max(0.0, self.fresh_until_at - now) if self.is_unreachable else None,
        )

    @property
    def access(self) -> HostAccess:
        """How much of the site may be fetched."""
        if self.standing is Standing.CLOSED or self.delay_is_refused:
            return HostAccess.EXCLUDED
        if self.rules.disallows_nothing:
            return HostAccess.OPEN
        return HostAccess.EXCLUDED if self.rules.disallows_everything else HostAccess.CONTROLLED

    @property
    def is_unreachable(self) -> bool:
        """Whether the site is closed only because its robots.txt could not be read, and will be tried again."""
        record = self.record
        return record is not None and self.standing is Standing.CLOSED and record.outcome in _TEMPORARY

    @property
    def is_non_public(self) -> bool:
        """Whether the site's own name resolved to no public address, so that nothing can be fetched from it."""
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


class Site(PacedOrigin):
    """One origin in memory: its rules, when they are due again, and, as a `PacedOrigin`, its host and its waiters."""

    __slots__ = ("key", "record", "refresh_at", "refused", "rules", "ruling", "since")

    def __init__(
        self, origin: Origin, host: Host, options: HostOptions, *, operator_until_at: float = 0.0
    ) -> None:
        super().__init__(origin, host, options, operator_until_at=operator_until_at)
        self.key = origin.text
        self.record: RobotsRecord | None = None
        """What is known of its robots.txt, obeyed or not."""
        self.ruling: Ruling | None = None
        """None while its robots.txt is not known. Another object after each change of the rules."""
        self.rules: Rules = DENY_ALL
        """Those of the ruling."""
        self.refresh_at = -math.inf
        """Until then every use is answered from memory; from then on the next use has robots.txt requested again."""
        self.since: Traffic | None = None
        """The host's traffic when robots.txt was last requested; None until it is counted."""
        self.refused = 0
        """Turns that the rules refused."""

    def adopt(self, ruling: Ruling) -> None:
        """Use a ruling from now on."""
        self.ruling = ruling
        self.rules = ruling.rules
        self.refresh_at = ruling.refresh_at


def ruling_of(
    record: RobotsRecord, *, token: str, options: HostOptions, now: float, recheck: Recheck | None = None
) -> Ruling:
    """What a record means now for a product token, at a host with these options."""
    position = standing(record, options.status_policy, now)
    rules = _rules(record, position, token)
    written = _written(rules)
    asked = _obeyed(written, options)
    delay_is_refused = asked.delay > options.max_delay
    fresh_until_at = standing_until_at(record, options.status_policy, now)
    return Ruling(
        origin=record.origin,
        record=record,
        standing=position,
        rules=DENY_ALL if delay_is_refused else rules,
        written=written,
        asked=asked,
        max_delay=options.max_delay,
        delay_is_refused=delay_is_refused,
        fresh_until_at=fresh_until_at,
        refresh_at=min(refresh_at(record, recheck), fresh_until_at),
    )


def own_ruling(origin: Origin) -> Ruling:
    """A host of the operator's own: its robots.txt is neither requested nor obeyed."""
    return Ruling(
        origin=origin,
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


def refresh_at(record: RobotsRecord, recheck: Recheck | None) -> float:
    """From when on the next use of a record requests robots.txt again before the record ends.

    A record that says only that the site could not be asked is kept to its end: that is when it may be asked again.
    """
    if not is_answered(record):
        return record.fresh_until_at
    # The same in every process.
    chance = zlib.crc32(record.origin.text.encode()) / 2**32
    if record.failures:
        delay = retry_delay(record.failures, retry_after=None, jitter=chance)
        return min(record.checked_at + delay, record.fresh_until_at)
    lifetime = record.fresh_until_at - record.checked_at
    at = record.checked_at + lifetime * (FIRST_REFRESH + (LAST_REFRESH - FIRST_REFRESH) * chance)
    if recheck is not None and recheck.age is not None:
        at = min(at, record.checked_at + recheck.age)
    return min(at, record.fresh_until_at)


def recheck_is_due(record: RobotsRecord, recheck: Recheck, *, since: Traffic, now: Traffic) -> bool:
    """Whether the traffic since robots.txt was last requested calls for another request."""
    if record.failures or not is_answered(record):
        return False
    if recheck.visits is not None and now.visits - since.visits >= recheck.visits:
        return True
    if recheck.bytes_ratio is None:
        return False
    return now.bytes_read - since.bytes_read > recheck.bytes_ratio * max(len(record.body), MIN_SIZE)


def _rules(record: RobotsRecord, position: Standing, token: str) -> Rules:
    if position is Standing.OPEN:
        return ALLOW_ALL
    if position is Standing.CLOSED:
        return DENY_ALL
    return compile_rules(record.body, token.lower(), record.origin)


def _written(rules: Rules) -> Asked:
    crawl_delay, rate, visit_times = rules.crawl_delay, rules.request_rate, rules.visit_times
    if crawl_delay is None and rate is None and not visit_times:
        return NOTHING_ASKED
    return Asked(crawl_delay=crawl_delay, request_rate=rate, visit_times=joined(visit_times))


def _obeyed(written: Asked, options: HostOptions) -> Asked:
    if written is NOTHING_ASKED or (options.obey_crawl_delay and options.obey_visit_time):
        return written
    obeyed = written if options.obey_crawl_delay else NOTHING_ASKED
    return Asked(
        crawl_delay=obeyed.crawl_delay,
        request_rate=obeyed.request_rate,
        visit_times=written.visit_times if options.obey_visit_time else (),
    )
