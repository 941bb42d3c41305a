r"""`RobotsTxt`: a parsed robots.txt as a value, without I/O.

>>> robots = RobotsTxt.parse(b"User-agent: *\nDisallow: /private")
>>> robots.allowed("/private/diary", "ExampleBot/1.0")
False
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from robotgate.rules.grammar import RequestRate, canonical, product_token
from robotgate.rules.normal import as_sent, is_plain, is_plain_reference
from robotgate.rules.parser import (
    Dialect,
    Group,
    ParsedFile,
    Record,
    compile_classic,
    compile_rules,
    parse_classic,
    parse_text,
)
from robotgate.rules.verdict import Reason, Rule, Verdict
from robotgate.urls import Origin, parse_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from robotgate.rules.rules import Decision, Rules
    from robotgate.statements import Preferences


_MAX_COMPILED: Final = 64
_PLAIN_AUTHORITY: Final = re.compile(
    r"https?://(?:[a-z0-9][a-z0-9-]{0,60}+\.){1,3}+[a-z][a-z0-9-]{0,60}+(?=/)"  # Any such authority is valid.
)
_AUTHORITY: Final = re.compile(r"[^:/?#]*://[^/?#]*")


@dataclass(frozen=True, slots=True)
class CleanParam:
    """A Clean-param: query parameters that make no difference to the page."""

    parameters: tuple[str, ...]
    path_prefix: str
    """The beginning of the paths that it applies to; empty for all paths."""


@dataclass(frozen=True, slots=True)
class RobotsTxt:
    """One robots.txt, read by RFC 9309 or another `dialect`. Each part is parsed when it is first needed.

    An `agent` argument is a product token, or a full identification string that begins with it.
    """

    url: str | None
    """The URL of the file. Without it, rules that are absolute URLs are ignored."""
    dialect: Dialect
    """The standard by which the file is read."""
    _text: str = field(repr=False)
    _site: str = field(repr=False, compare=False)
    """What the site's URLs have before their paths; empty if `url` is unknown or needs a full parse."""
    _compiled: dict[str, Rules] = field(default_factory=dict, init=False, repr=False, compare=False)
    _parsed: list[ParsedFile] = field(default_factory=list, init=False, repr=False, compare=False)

    @classmethod
    def parse(cls, body: bytes, url: str | None = None, *, dialect: Dialect = Dialect.RFC9309) -> RobotsTxt:
        """Read a file as it was served. Any bytes are accepted; at most the first 512,000 count (RFC 9309 §2.5).

        Args:
            body: the file.
            url: any URL of the origin that the file belongs to.
            dialect: the standard to read it by. `Dialect.CLASSIC` knows only User-agent and Disallow.

        Raises:
            InvalidURLError: `url` is not an absolute http or https URL.
        """
        plain = _PLAIN_AUTHORITY.match(url) if isinstance(url, str) else None
        if url is not None and (plain is None or not is_plain(url, plain.end())):
            Origin.of(parse_url(url))
        return cls(url, dialect, canonical(body), plain[0] if plain is not None else "")

    @property
    def groups(self) -> tuple[Group, ...]:
        """All groups, in their order."""
        return self._file.groups

    @property
    def sitemaps(self) -> tuple[str, ...]:
        """The values of the Sitemap lines, each once."""
        return self._file.sitemaps

    @property
    def records(self) -> tuple[Record, ...]:
        """Every record that is not User-agent, Allow, Disallow or Sitemap, as written; the first 100,000 of a file."""
        return self._file.records

    @property
    def host(self) -> str | None:
        """The first Host value: the preferred name or URL of the site. Not in RFC 9309."""
        return next(self._values("host"), None)

    @property
    def clean_params(self) -> tuple[CleanParam, ...]:
        """The Clean-param lines. Not in RFC 9309."""
        words = (re.split(r"[ \t]+", value, maxsplit=1) for value in self._values("clean-param"))
        return tuple(
            CleanParam(tuple(filter(None, parameters.split("&"))), "".join(path))
            for parameters, *path in words
        )

    def rules(self, agent: str) -> Rules:
        """The rules that bind an agent (RFC 9309 §2.2.1): of all groups that name it, else of the groups for ``*``."""
        rules = self._compiled.get(agent)
        if rules is None:
            if len(self._compiled) >= _MAX_COMPILED:
                self._compiled.clear()
            compiler = compile_classic if self.dialect is Dialect.CLASSIC else compile_rules
            rules = self._compiled[agent] = compiler(self._text, product_token(agent).lower(), self.url)
        return rules

    def allowed(self, url: str, agent: str) -> bool:
        """Whether an agent may fetch a URL, absolute or beginning with its path. The host of the URL is not compared.

        Dot segments are resolved, as clients do before they send. What begins with ``//`` is a URL without its scheme,
        which is that of the file's own URL.

        Raises:
            InvalidURLError: `url` is neither an absolute http or https URL nor a path beginning with ``/``, or has no
                scheme while the file's own URL is unknown.
        """
        rules = self._compiled.get(agent) or self.rules(agent)
        return rules._allows_units(self._units_of(url))

    def verdict(self, url: str, agent: str) -> Verdict:
        """Like `allowed`, with the rule that decides and the group it stands in.

        Raises:
            InvalidURLError: see `allowed`.
        """
        rules = self._compiled.get(agent) or self.rules(agent)
        return VerdictDraft(url, rules._decide_units(self._units_of(url)), rules, (self, agent)).frozen()

    def preferences(self, url: str, agent: str) -> Preferences:
        """What the file says about the use of a page: search, AI input, training and others.

        Content-Usage, Content-Signal and License lines are read; none changes what `allowed` answers.

        Raises:
            InvalidURLError: see `allowed`.
            ModuleNotFoundError: the extra ``preferences`` is not installed.
        """
        from robotgate.preferences.robots import preferences_in  # noqa: PLC0415  # Needs an extra; few ask for it.

        target = self._units_of(url)
        is_allowed = self.rules(agent)._allows_units(target)
        return preferences_in(self._file, product_token(agent).lower(), target, is_allowed=is_allowed)

    def crawl_delay(self, agent: str) -> float | None:
        """The largest Crawl-delay asked of an agent: seconds. Not in RFC 9309."""
        return self.rules(agent).crawl_delay

    def request_rate(self, agent: str) -> RequestRate | None:
        """The slowest Request-rate asked of an agent, regardless of its hours. Not in RFC 9309."""
        return self.rules(agent).request_rate

    def _units_of(self, url: str) -> str:
        """The path and query of a URL in units (see `rules.normal`), with dot segments resolved.

        Raises:
            InvalidURLError: see `allowed`.
        """
        try:
            target = url.removeprefix(self._site)
        except (AttributeError, TypeError):
            # Its error says what a URL is.
            parse_url(url)
            raise
        if is_plain_reference(target) and ("." not in target or "/." not in target):
            return target
        if len(target) == len(url) or not target.startswith("/"):
            if url.startswith("/") and not url.startswith("//"):
                return as_sent(url)
            plain = _PLAIN_AUTHORITY.match(url)
            if plain is None:
                if url.startswith("//") and self.url is not None:
                    # A scheme-relative reference (RFC 3986 §4.2).
                    url = f"{self.url.partition('//')[0]}{url}"
                Origin.of(url)
                # Cut from the text, because yarl unescapes more than the normal form does.
                target = _AUTHORITY.sub("", url, count=1)
                return as_sent(target if target.startswith("/") else f"/{target}")
            target = url[plain.end() :]
        if not url.isprintable() or url[-1] == " ":
            Origin.of(url)
        return as_sent(target)

    @property
    def _file(self) -> ParsedFile:
        if not self._parsed:
            read = parse_classic if self.dialect is Dialect.CLASSIC else parse_text
            self._parsed.append(read(self._text))
        return self._parsed[0]

    def _values(self, name: str) -> Iterator[str]:
        return (record.value for record in self.records if record.value and record.field.lower() == name)


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """A robots.txt as it was served, which is parsed when its preferences are asked for."""

    body: bytes

    def preferences(self, url: str, agent: str) -> Preferences:
        """As `RobotsTxt.preferences`."""
        from robotgate.preferences.robots import FIELDS  # noqa: PLC0415  # As above.

        # Most files have no statements, and need not be parsed.
        body = self.body if FIELDS.search(self.body) else b""
        return RobotsTxt.parse(body, url).preferences(url, agent)


class VerdictDraft:
    """A verdict by a file alone, before it is frozen: setting all attributes of a frozen dataclass takes longer than
    most answers.
    """

    __slots__ = Verdict.__slots__
    allowed: bool
    reason: Reason
    rule: Rule | None
    opposing: Rule | None
    url: str
    group: tuple[str, ...]
    warnings: tuple[str, ...]
    crawl_delay: float | None
    robots: tuple[RobotsTxt, str]
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
    proxy_failed: bool

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
