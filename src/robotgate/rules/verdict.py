"""The words of an answer: a rule, the reason, and the verdict for one URL."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from robotgate.statements import Preferences

if TYPE_CHECKING:
    from robotgate.rules.grammar import RequestRate, RuleKind


@dataclass(frozen=True, slots=True)
class Rule:
    """One Allow or Disallow line of a robots.txt."""

    kind: RuleKind
    path_pattern: str
    """The pattern as written, without surrounding blanks; bytes that are not UTF-8 appear as ``%XX``."""
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
    DISALLOWED_BY_PREFERENCE = "robots.txt disallows a purpose that we declare"
    URL_TOO_LONG = "the URL is too long to be matched against a rule, and refused to be safe"
    NO_RULE_MATCHES = "no rule of our group matches"
    NO_GROUP = "no group names us, and none is for everybody"
    ROBOTS_TXT = "robots.txt itself may always be fetched"
    ROBOTS_TXT_UNAVAILABLE = "the site has no robots.txt"
    ROBOTS_TXT_FORBIDDEN = "the site refuses its robots.txt"
    ROBOTS_TXT_UNREACHABLE = "robots.txt could not be read"
    ROBOTS_TXT_IGNORED = "the operator's own host: its robots.txt is not asked"
    DELAY_TOO_LONG = "the site asks for a longer delay than we are willing to wait"


class PreferenceFile(Protocol):
    """A robots.txt that a verdict comes from, such as a `RobotsTxt`."""

    def preferences(self, url: str, agent: str) -> Preferences:
        """As `RobotsTxt.preferences`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether one URL may be fetched, and why.

    A verdict has no truth value: ``if await gate.check(url)`` would be true for every answer, so ``bool()`` raises.
    Use `allowed`.
    """

    allowed: bool
    reason: Reason
    url: str
    rule: Rule | None = None
    """The rule that decided, of equally long ones the first in the file; None if none did."""
    opposing: Rule | None = None
    """The best matching rule of the other kind, which lost; None if none matched."""
    group: tuple[str, ...] = ()
    """The values of the User-agent lines of our group; ``("*",)`` if no group names us."""
    warnings: tuple[str, ...] = ()
    """Places where we follow RFC 9309, but other crawlers, and perhaps the author, read the file differently."""
    access: AccessResult | None = None
    """How robots.txt was reached; None if the file was not fetched by a gate."""
    robots_url: str | None = None
    """The URL that the rules were read from, after redirects."""
    redirects: tuple[str, ...] = ()
    """The robots.txt URLs that redirected, first to last."""
    status: int | None = None
    """The HTTP status of the last response for robots.txt; None if there was none."""
    cause: str | None = None
    """Why the last attempt to read robots.txt failed, in words."""
    fetched_at: float | None = None
    """When the rules were read: seconds since the epoch."""
    fresh_until_at: float | None = None
    """Until when they are used without another request: seconds since the epoch."""
    proxy_failed: bool = False
    """True if robots.txt could not be read because a proxy failed: the next question requests it again."""
    stale: bool = False
    """True if a newer copy could not be read and these are the last good rules."""
    crawl_delay: float | None = None
    """The Crawl-delay that our group asks for, whether or not the operator obeys it: seconds."""
    asked_delay: float | None = None
    """What our group asks for by Crawl-delay or Request-rate, whichever is longer: seconds. None if it asks for
    neither, or if the file was not fetched by a gate."""
    request_rate: RequestRate | None = None
    """The slowest Request-rate that our group asks for."""
    max_delay: float | None = None
    """The longest delay that we are willing to wait: seconds; set if the site asks for a longer one."""
    retry_after: float | None = None
    """If robots.txt is unreachable: seconds, counted from the verdict, until it is requested again."""
    robots: tuple[PreferenceFile, str] | None = field(default=None, repr=False, compare=False)
    """The file that the verdict comes from, empty if there was none to obey, and our product token."""

    @property
    def preferences(self) -> Preferences:
        """What robots.txt says about the use of the page: search, training and others. Sends no request.

        Raises:
            ModuleNotFoundError: the extra ``preferences`` is not installed.
        """
        if self.robots is None:
            return Preferences()
        file, agent = self.robots
        return file.preferences(self.url, agent)

    # Not for type checkers, as in `client.awaited`: they report the condition, and check what follows it.
    if not TYPE_CHECKING:

        def __bool__(self) -> bool:
            raise TypeError("a Verdict has no truth value; use verdict.allowed")

    def __str__(self) -> str:
        answer = "allowed" if self.allowed else "disallowed"
        if self.rule is not None:
            return f"{self.url} is {answer} by line {self.rule.line} of its robots.txt: {self.rule}"
        detail = ""
        if self.reason is Reason.DELAY_TOO_LONG and self.max_delay is not None:
            asked, rate = f"Crawl-delay {self.crawl_delay or 0.0:g} s", self.request_rate
            if rate is not None and rate.seconds_per_document > (self.crawl_delay or 0.0):
                asked = (
                    f"Request-rate {rate.documents}/{rate.seconds:.10g}, {self.asked_delay:g} s a document,"
                )
            detail = f" ({asked} is over max_delay={self.max_delay:g} s)"
        elif self.cause is not None and not self.allowed:
            detail = f" ({self.cause})"
        return f"{self.url} is {answer}: {self.reason.value}{detail}"
