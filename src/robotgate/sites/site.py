"""One origin in memory: what its record means for our product token and options, and when it is requested again."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Final

from robotgate.pace.host import LONG_AGO, PacedOrigin
from robotgate.pace.spacing import NOTHING_ASKED, Asked, joined
from robotgate.rules.parser import RulesCompiler, compile_rules
from robotgate.rules.robotstxt import UnreadFile
from robotgate.rules.rules import ALLOW_ALL, DENY_ALL, Rules
from robotgate.rules.verdict import Reason, Verdict
from robotgate.sites.record import RobotsRecord, Standing, is_answered, is_fresh, retry_delay, standing
from robotgate.sites.status_table import STATUS_TABLE, Lifetime, Outcome

if TYPE_CHECKING:
    from robotgate.options import HostOptions, Recheck
    from robotgate.preferences.tdmrep import TdmRep
    from robotgate.urls import Origin


FIRST_REFRESH: Final = 0.75
"""The share of a record's lifetime after which the next use of the site requests robots.txt again."""
LAST_REFRESH: Final = 0.85
"""Origins learnt together are spread between the first share and this one."""
TDMREP_PATH: Final = "/.well-known/tdmrep.json"
MIN_SIZE: Final = 1024
"""Bytes that a smaller robots.txt counts for in `Recheck.bytes_ratio`, an empty or missing one included."""
WITHOUT_RULES: Final = {Standing.OPEN: ALLOW_ALL, Standing.CLOSED: DENY_ALL}
NO_FILE: Final = UnreadFile(b"")
REASONS: Final = {Standing.OPEN: Reason.ROBOTS_TXT_UNAVAILABLE, Standing.CLOSED: Reason.ROBOTS_TXT_FORBIDDEN}
"""Where the site answered."""


class HostAccess(Enum):
    """How much of a site may be fetched."""

    EXCLUDED = "excluded"
    """Nothing may be fetched: its rules say so, or it refuses its robots.txt."""
    UNREACHABLE = "unreachable"
    """Nothing may be fetched, because its robots.txt cannot be read and no good copy is held."""
    OPEN = "open"
    """Everything may be fetched."""
    CONTROLLED = "controlled"
    """Its rules say what may be fetched."""


@dataclass(slots=True, eq=False, kw_only=True)
class Ruling:
    """What an origin's record means for us until `fresh_until_at`.

    Without a record, it is that of a host with `ignore_robots`: robots.txt is neither requested nor obeyed.
    """

    origin: Origin
    record: RobotsRecord | None = None
    """None for a host with `ignore_robots`."""
    standing: Standing = Standing.OPEN
    rules: Rules = ALLOW_ALL
    """What binds us: the file's rules, or all or nothing."""
    reason: Reason | None = Reason.ROBOTS_TXT_IGNORED
    """Why all or nothing may be fetched; None where the file's rules decide."""
    written: Asked = NOTHING_ASKED
    """What our group in the file asks about our speed."""
    asked: Asked = NOTHING_ASKED
    """The part of `written` that the operator's options obey."""
    max_delay: float | None = None
    """Where `asked.delay` is refused for being longer, so that `rules` allow nothing: the operator's limit, seconds."""
    fresh_until_at: float = math.inf
    token: str = ""
    """Our product token."""

    def verdict(self, target: str, *, now: float) -> Verdict:
        """Whether a path and query may be fetched, and why."""
        decision, record, written = self.rules.decide(target), self.record, self.written
        has_rules, url = self.reason is None, f"{self.origin}{target}"
        # robots.txt itself may always be fetched.
        reason = decision.reason if decision.reason is Reason.ROBOTS_TXT else self.reason or decision.reason
        if record is None:
            return Verdict(allowed=decision.allowed, reason=reason, url=url, robots=(NO_FILE, self.token))
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
            proxy_failed=self.is_of_proxy,
            stale=self.standing is Standing.STALE_RULES,
            crawl_delay=written.crawl_delay,
            # A Crawl-delay of 0 is reported as 0.
            asked_delay=written.delay or written.crawl_delay,
            request_rate=written.request_rate,
            max_delay=self.max_delay,
            retry_after=max(0.0, self.fresh_until_at - now) if self.is_unreachable else None,
            robots=(NO_FILE if self.standing in WITHOUT_RULES else UnreadFile(record.body), self.token),
        )

    @property
    def access(self) -> HostAccess:
        """How much of the site may be fetched."""
        if self.standing is Standing.CLOSED and self.reason is Reason.ROBOTS_TXT_UNREACHABLE:
            return HostAccess.UNREACHABLE
        if self.rules.disallows_nothing:
            return HostAccess.OPEN
        return HostAccess.EXCLUDED if self.rules.disallows_everything else HostAccess.CONTROLLED

    @property
    def is_unreachable(self) -> bool:
        """Whether the site is closed only because its robots.txt could not be read, and will be tried again."""
        if self.record is None or self.standing is not Standing.CLOSED:
            return False
        return STATUS_TABLE[self.record.outcome].lifetime in (Lifetime.RETRY, Lifetime.NOT_KEPT)

    @property
    def is_of_proxy(self) -> bool:
        """Whether the site is closed because a proxy failed on the way to its robots.txt."""
        record = self.record
        return self.standing is Standing.CLOSED and record is not None and record.outcome is Outcome.PROXY

    @property
    def is_non_public(self) -> bool:
        """Whether the site's own name resolved to no public address, so that nothing can be fetched from it."""
        record = self.record
        return record is not None and record.outcome is Outcome.NON_PUBLIC_NAME and not record.redirects


@dataclass(slots=True, eq=False, repr=False)
class Site(PacedOrigin):
    """One origin in memory: its rules, when they are due again, and, as a `PacedOrigin`, its host and its waiters."""

    key: str = ""
    """The origin as text."""
    record: RobotsRecord | None = None
    """What is known of its robots.txt, obeyed or not."""
    ruling: Ruling | None = None
    """None while its robots.txt is not known, and while nothing uses it. Another object after each change."""
    rules: Rules = DENY_ALL
    """Those of the ruling."""
    refresh_at: float = LONG_AGO
    """From then on the next use has robots.txt requested again."""
    ready_until_at: float = LONG_AGO
    """Until then a use needs only the rules: until `refresh_at`. `LONG_AGO` from each look for unused rules to the next
    use, which then takes the longer way once."""
    since: tuple[int, int] | None = None
    """The host's visits and bytes read when robots.txt was last requested; None until they are counted."""
    refused: int = 0
    """Turns that the rules refused."""
    proxy: str = ""
    """What it was last requested through, where addresses are paced; empty: nothing, or it is not looked at."""
    peers: tuple[str, ...] = ()
    """Names of the address scopes that its responses came from and its name did not lead to."""
    tdmrep: tuple[RobotsRecord, TdmRep] | None = None
    """How its tdmrep.json was last requested, and its last good copy; None while nothing asks for it."""

    def adopt(self, ruling: Ruling, refresh_at: float = math.inf) -> Ruling:
        """Use a ruling until `drop_ruling`, and have robots.txt requested by the first use from an instant on."""
        self.ruling = ruling
        self.rules = ruling.rules
        self.refresh_at = self.ready_until_at = min(refresh_at, ruling.fresh_until_at)
        return ruling

    def drop_ruling(self) -> None:
        """Drop the ruling, which takes three times the memory of the file; the next use reads it from the record."""
        self.ruling, self.rules = None, DENY_ALL
        self.ready_until_at = LONG_AGO


def ruling_of(
    record: RobotsRecord,
    *,
    token: str,
    options: HostOptions,
    now: float,
    compiler: RulesCompiler = compile_rules,
) -> Ruling:
    """What a record means now for a product token, at a host with these options.

    Args:
        compiler: makes the rules of a file for the token.
    """
    position, fresh_until_at = standing(record, options["status_policy"], now)
    reason, rules = None, WITHOUT_RULES.get(position)
    if rules is not None:
        reason = REASONS[position] if is_answered(record) else Reason.ROBOTS_TXT_UNREACHABLE
    else:
        rules = compiler(record.body, token.lower(), record.origin)
    written, asked, max_delay = NOTHING_ASKED, NOTHING_ASKED, None
    # Most sites ask for nothing, and share one object that says so.
    if rules.crawl_delay is not None or rules.request_rates or rules.visit_times:
        hours = joined(rules.visit_times)
        written = asked = Asked(
            crawl_delay=rules.crawl_delay, request_rate=rules.request_rate, visit_times=hours
        )
        if not options["obey_crawl_delay"]:
            asked = replace(asked, crawl_delay=None, request_rate=None)
        if not options["obey_visit_time"]:
            asked = replace(asked, visit_times=())
        if asked.delay > options["max_delay"]:
            reason, rules, max_delay = Reason.DELAY_TOO_LONG, DENY_ALL, options["max_delay"]
    return Ruling(
        origin=record.origin,
        record=record,
        standing=position,
        rules=rules,
        reason=reason,
        written=written,
        asked=asked,
        max_delay=max_delay,
        fresh_until_at=fresh_until_at,
        token=token,
    )


def is_closed_unread(site: Site, now: float) -> bool:
    """Whether a site is closed now only because its robots.txt cannot be read. No rules are read."""
    record, options = site.record, site.options
    if record is None or is_answered(record) or options["ignore_robots"] or not is_fresh(record, now):
        return False
    return standing(record, options["status_policy"], now)[0] is Standing.CLOSED


def refresh_at(record: RobotsRecord, recheck: Recheck | None) -> float:
    """From when on the next use of a record requests robots.txt again before the record ends.

    A record that says only that the site could not be asked is kept to its end: that is when it may be asked again.
    """
    if not is_answered(record):
        return record.fresh_until_at
    # The same in every process.
    chance = zlib.crc32(record.origin.text.encode()) / 2**32
    lifetime = record.fresh_until_at - record.checked_at
    delay = lifetime * (FIRST_REFRESH + (LAST_REFRESH - FIRST_REFRESH) * chance)
    if record.failures:
        delay = retry_delay(record.failures, retry_after=None, jitter=chance)
    elif recheck is not None and recheck.age is not None:
        delay = min(delay, recheck.age)
    return min(record.checked_at + delay, record.fresh_until_at)


def recheck_is_due(record: RobotsRecord, recheck: Recheck, *, visits: int, bytes_read: int) -> bool:
    """Whether the traffic since robots.txt was last requested calls for another request."""
    if record.failures or not is_answered(record):
        return False
    size = max(len(record.body), MIN_SIZE)
    return visits >= (recheck.visits or math.inf) or bytes_read > (recheck.bytes_ratio or math.inf) * size
