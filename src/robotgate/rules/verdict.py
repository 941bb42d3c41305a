"""The words of an answer: a rule, the reason, and the verdict for one URL."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from robotgate.preferences import Preferences
    from robotgate.rules.grammar import RequestRate
    from robotgate.rules.robotstxt import RobotsTxt
    from robotgate.rules.rules import Decision, Rules


class RuleKind(Enum):
    """What a rule does to the paths it matches (RFC 9309 §2.2.2)."""

    ALLOW = "Allow"
    DISALLOW = "Disallow"


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
    robots: tuple[RobotsTxt | bytes, str] | None = field(default=None, repr=False, compare=False)
    """The file that the verdict comes from, empty if there was none to obey, and our product token."""

    @property
    def preferences(self) -> Preferences:
        """What robots.txt says about the use of the page: search, training and others. Sends no request.

        Raises:
            ModuleNotFoundError: the extra ``preferences`` is not installed.
        """
        from robotgate.preferences import parse_preferences  # noqa: PLC0415  # Needs an extra; few ask for it.

        file, agent = self.robots or (None, None)
        return parse_preferences(robots=file, url=self.url, agent=agent)

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


class VerdictDraft:
    """A verdict by a file alone, before it is frozen: setting all attributes of a frozen dataclass takes longer than
    most answers.
    """

    __slots__ = Verdict.__slots__

    allowed: bool
    reason: Reason
    rule: Rule | None
    opposing: Rule | None
    group: tuple[str, ...]
    warnings: tuple[str, ...]
    crawl_delay: float | None
    access: None
    robots_url: None
    status: None
    cause: None
    fetched_at: None
    fresh_until_at: None
    retry_after: None
    asked_delay: None
    request_rate: None
    max_delay: None
    redirects: tuple[()]
    stale: bool

    def __init__(self, url: str, decision: Decision, rules: Rules, robots: tuple[RobotsTxt, str]) -> None:
        """Take a decision, and the rules that it comes from."""
        self.allowed, self.reason = decision.allowed, decision.reason
        self.url = url
        self.rule, self.opposing = decision.rule, decision.opposing
        self.group, self.warnings, self.crawl_delay = rules.agents, rules.warnings, rules.crawl_delay
        self.robots = robots
        self.access = self.robots_url = self.status = self.cause = None
        self.fetched_at = self.fresh_until_at = self.retry_after = None
        self.asked_delay = self.request_rate = self.max_delay = None
        self.redirects = ()
        self.stale = self.proxy_failed = False

    def frozen(self) -> Verdict:
        """The verdict, which this object becomes."""
        self.__class__ = Verdict  # type: ignore[assignment]
        return self  # type: ignore[return-value]
