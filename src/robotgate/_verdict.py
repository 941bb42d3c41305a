"""The words of an answer: a rule, the group it stands in, how robots.txt was reached, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from robotgate._speed import RequestRate


class RuleKind(Enum):
    """What a rule does to the paths it matches (RFC 9309 §2.2.2)."""

    ALLOW = "Allow"
    DISALLOW = "Disallow"


@dataclass(frozen=True, slots=True)
class Rule:
    """One Allow or Disallow line of a robots.txt."""

    kind: RuleKind
    path_pattern: str
    """The pattern as the file has it, without surrounding blanks; octets that are not UTF-8 appear as ``%XX``."""
    line: int
    """The line's number in the file, from 1."""

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.path_pattern}"


class AccessResult(Enum):
    """How the attempt to read a robots.txt ended (RFC 9309 §2.3.1)."""

    SUCCESSFUL = "successful"
    UNAVAILABLE = "unavailable"
    UNREACHABLE = "unreachable"


class Reason(Enum):
    """Why a URL may or may not be fetched."""

    ALLOWED_BY_RULE = "allowed by a rule"
    DISALLOWED_BY_RULE = "disallowed by a rule"
    NO_RULE_MATCHES = "no rule of our group matches"
    NO_GROUP = "no group names us, and none is for everybody"
    ROBOTS_TXT = "robots.txt itself may always be fetched"
    ROBOTS_TXT_UNAVAILABLE = "the site has no robots.txt"
    ROBOTS_TXT_FORBIDDEN = "the site refuses its robots.txt"
    ROBOTS_TXT_UNREACHABLE = "robots.txt could not be read"
    ROBOTS_TXT_IGNORED = "the operator's own host: its robots.txt is not asked"
    DELAY_TOO_LONG = "the site asks for a longer delay than we are willing to wait"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether one URL may be fetched, and why.

    A verdict has no truth value: ``if await gate.check(url)`` would hold for every answer, so it raises.
    Ask for `allowed`.
    """

    allowed: bool
    reason: Reason
    url: str
    rule: Rule | None = None
    """The rule that decided; None where none did."""
    opposing: Rule | None = None
    """The best matching rule of the other kind, which lost; None where none matched."""
    group: tuple[str, ...] = ()
    """The product tokens of the User-agent lines that the deciding rules stand under; ``("*",)`` for everybody's."""
    warnings: tuple[str, ...] = ()
    """What binds us by RFC 9309, but not as other crawlers, and perhaps the author, read the file."""
    access: AccessResult | None = None
    """How robots.txt was reached; None for a verdict of a file that nobody fetched."""
    robots_url: str | None = None
    """Where the rules were read from in the end, after redirects."""
    redirects: tuple[str, ...] = ()
    """The robots.txt URLs that redirected, first to last."""
    status: int | None = None
    """The HTTP status of the last answer for robots.txt; None when there was none."""
    cause: str | None = None
    """What went wrong with the last attempt to read robots.txt, in words."""
    fetched_at: float | None = None
    """When the rules were read: seconds since the epoch."""
    fresh_until_at: float | None = None
    """Until when they are used without asking again: seconds since the epoch."""
    stale: bool = False
    """True when a newer copy was asked for in vain and these are the last good rules."""
    crawl_delay: float | None = None
    """The Crawl-delay our group asks for, whether or not the operator lets it count: seconds."""
    asked_delay: float | None = None
    """What our group asks for at this hour, by Crawl-delay or Request-rate, whichever is longer: seconds. None where it
    asks for nothing, and for a verdict of a file that nobody fetched."""
    request_rate: RequestRate | None = None
    """The slowest Request-rate that our group is asked to keep at this hour."""
    max_delay: float | None = None
    """The longest delay that we are willing to wait: seconds; given where the site asks for a longer one."""
    retry_after: float | None = None
    """For an unreachable robots.txt: seconds, counted from the verdict, until it is asked for again."""

    def __bool__(self) -> NoReturn:
        raise TypeError("a Verdict has no truth value; ask for verdict.allowed")

    def __str__(self) -> str:
        answer = "allowed" if self.allowed else "disallowed"
        if self.reason is Reason.DELAY_TOO_LONG:
            return f"{self.url} is {answer}: {self.reason.value}{self._asked_too_much()}"
        if self.rule is None:
            cause = f" ({self.cause})" if self.cause is not None and not self.allowed else ""
            return f"{self.url} is {answer}: {self.reason.value}{cause}"
        return f"{self.url} is {answer} by line {self.rule.line} of its robots.txt: {self.rule}"

    def _asked_too_much(self) -> str:
        delay, limit, rate = self.asked_delay, self.max_delay, self.request_rate
        if delay is None or limit is None or delay <= limit:
            return ""
        asked = f"Crawl-delay {delay:g} s"
        if rate is not None and rate.seconds_per_document > (self.crawl_delay or 0.0):
            asked = f"Request-rate {rate.documents}/{rate.seconds}, {delay:g} s a document,"
        return f" ({asked} is over max_delay={limit:g} s)"
