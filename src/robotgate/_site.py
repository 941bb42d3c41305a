"""An origin with what its record means for us."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from robotgate._access import Standing, standing, standing_until_at
from robotgate._compile import compile_rules
from robotgate._lines import canonical
from robotgate._rules import ALLOW_ALL, DENY_ALL, Rules
from robotgate._status import STATUS_TABLE, Outcome, StatusPolicy
from robotgate._verdict import AccessResult, Reason, Verdict

if TYPE_CHECKING:
    from robotgate._access import RobotsRecord
    from robotgate._urls import Origin


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """An origin as we may use it until `fresh_until_at`."""

    origin: Origin
    key: str
    """The origin as text, as its URLs begin."""
    record: RobotsRecord
    standing: Standing
    rules: Rules
    """What binds us: the file's rules, or all or nothing."""
    crawl_delay: float | None
    """The spacing our group asks for: seconds."""
    delay_is_refused: bool
    """True when that spacing is longer than we are willing to wait; `rules` then allow nothing."""
    fresh_until_at: float

    def verdict(self, target: str, *, now: float) -> Verdict:
        """Whether a path and query may be fetched, and why."""
        decision = self.rules.decide(target)
        has_rules = self.standing in (Standing.RULES, Standing.STALE_RULES) and not self.delay_is_refused
        record = self.record
        return Verdict(
            allowed=decision.allowed,
            reason=decision.reason if has_rules else self._reason(decision.reason),
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
            crawl_delay=self.crawl_delay,
            retry_after=max(0.0, self.fresh_until_at - now) if self.is_unreachable else None,
        )

    @property
    def is_unreachable(self) -> bool:
        """Whether the site is closed only because its robots.txt cannot be read just now."""
        return self.standing is Standing.CLOSED and self.record.outcome is Outcome.FAILURE

    def _reason(self, decided: Reason) -> Reason:
        if decided is Reason.ROBOTS_TXT:
            return decided
        if self.delay_is_refused:
            return Reason.DELAY_TOO_LONG
        access = STATUS_TABLE[self.record.outcome].access
        if access is AccessResult.UNREACHABLE:
            return Reason.ROBOTS_TXT_UNREACHABLE
        if self.standing is Standing.CLOSED:
            return Reason.ROBOTS_TXT_FORBIDDEN
        return Reason.ROBOTS_TXT_UNAVAILABLE


def site_of(record: RobotsRecord, *, token: str, policy: StatusPolicy, max_delay: float, now: float) -> Site:
    """What a record means for a product token now.

    Args:
        max_delay: seconds; a site that asks for a longer spacing is refused.
    """
    position = standing(record, policy, now)
    rules = _rules(record, position, token)
    crawl_delay = rules.crawl_delay
    refused = crawl_delay is not None and crawl_delay > max_delay
    return Site(
        origin=record.origin,
        key=str(record.origin),
        record=record,
        standing=position,
        rules=DENY_ALL if refused else rules,
        crawl_delay=crawl_delay,
        delay_is_refused=refused,
        fresh_until_at=standing_until_at(record, policy, now),
    )


def _rules(record: RobotsRecord, position: Standing, token: str) -> Rules:
    if position is Standing.OPEN:
        return ALLOW_ALL
    if position is Standing.CLOSED:
        return DENY_ALL
    return compile_rules(canonical(record.body), token.lower(), record.origin)
