r"""A robots.txt as a value: ask it anything, it does no I/O.

>>> robots = RobotsTxt.parse(b"User-agent: *\nDisallow: /private")
>>> robots.allowed("/private/diary", "ExampleBot/1.0")
False
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from robotgate._classic import Dialect, classic_rules, parse_classic
from robotgate._compile import compile_rules
from robotgate._lines import canonical
from robotgate._normal import PLAIN_TARGET, target_units
from robotgate._parse import Group, ParsedFile, Record, parse_text
from robotgate._urls import Origin
from robotgate._verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from robotgate._rules import Rules
    from robotgate._speed import RequestRate

_MAX_COMPILED: Final = 64
_PLAIN_AUTHORITY: Final = re.compile(
    r"https?://(?:[a-z0-9][a-z0-9-]{0,60}+\.){1,3}+[a-z][a-z0-9-]{0,60}+(?=/)"  # A host that needs no closer look.
)
_AUTHORITY: Final = re.compile(r"[^:/?#]*://[^/?#]*")
_PRINTABLE: Final = re.compile(r"[!-~]*+")
_ODD: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]|\s$")
"""What makes a URL no URL, wherever it points."""
_AGENT_END: Final = re.compile(r"[/\s]")


def product_token(agent: str) -> str:
    """The crawler's own name: the text of its identification string before the first ``/`` or blank."""
    return _AGENT_END.split(agent.strip(), maxsplit=1)[0]


@dataclass(frozen=True, slots=True)
class CleanParam:
    """A Clean-param: parameters of queries that make no difference to the page."""

    parameters: tuple[str, ...]
    path_prefix: str
    """The paths it is about; empty for all."""


@dataclass(frozen=True, slots=True)
class RobotsTxt:
    """One robots.txt (RFC 9309, or as its `dialect` has it), read as far as it is asked for.

    Wherever an `agent` is asked for, give the product token, or a full identification string that begins with it.
    """

    url: str | None
    """Where the file stands. Without it, rules that are absolute URLs are passed over."""
    dialect: Dialect
    """How the file is read."""
    _text: str = field(repr=False)
    _site: str | None = field(repr=False, compare=False)
    """How the URLs of the site begin, the path's slash included; None if that needs a closer look."""
    _compiled: dict[str, Rules] = field(default_factory=dict, init=False, repr=False, compare=False)
    _parsed: list[ParsedFile] = field(default_factory=list, init=False, repr=False, compare=False)

    @classmethod
    def parse(cls, body: bytes, url: str | None = None, *, dialect: Dialect = Dialect.RFC9309) -> RobotsTxt:
        """Read a file as it was served: any bytes will do. At most the first 512,000 count (RFC 9309 §2.5).

        Args:
            body: the file.
            url: any URL of the origin whose file this is.
            dialect: how to read it. `Dialect.CLASSIC` knows records of User-agent and Disallow, nothing else.

        Raises:
            InvalidURLError: `url` is not an absolute http or https URL.
        """
        if url is None:
            return cls(None, dialect, canonical(body), None)
        plain = _PLAIN_AUTHORITY.match(url)
        if plain is None or not PLAIN_TARGET.fullmatch(url, plain.end()):
            Origin.of(url)
        return cls(url, dialect, canonical(body), None if plain is None else f"{plain[0]}/")

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
        """Every line that is neither of User-agent, Allow, Disallow or Sitemap, as it was written."""
        return self._file.records

    @property
    def host(self) -> str | None:
        """The first Host: the name, or its beginning of a URL, that the site wants to be known by. Not in RFC 9309."""
        return next((record.value for record in self._named("host") if record.value), None)

    @property
    def clean_params(self) -> tuple[CleanParam, ...]:
        """The Clean-param lines. Not in RFC 9309."""
        words = (record.value.split(None, 1) for record in self._named("clean-param"))
        return tuple(
            CleanParam(tuple(filter(None, parameters.split("&"))), path[0] if path else "")
            for parameters, *path in filter(None, words)
        )

    def rules(self, agent: str) -> Rules:
        """The rules that bind an agent (RFC 9309 §2.2.1): of all groups that name it, else of those for ``*``."""
        rules = self._compiled.get(agent)
        if rules is None:
            if len(self._compiled) >= _MAX_COMPILED:
                self._compiled.clear()
            rules = self._compiled[agent] = self._compile(product_token(agent).lower())
        return rules

    def allowed(self, url: str, agent: str) -> bool:
        """Whether an agent may fetch a URL, absolute or from its path on. Which host it names makes no difference.

        Dot segments are resolved, as clients do before they send; nothing else a client may change is foreseen.

        Raises:
            InvalidURLError: `url` is neither an absolute http or https URL nor a path beginning with ``/``.
        """
        rules = self._compiled.get(agent) or self.rules(agent)
        site = self._site
        if site is not None and url.startswith(site) and "/." not in url:
            plain = PLAIN_TARGET.fullmatch(url, len(site) - 1)
            if plain is not None:
                return rules.allows_units(plain[0])
        return rules.allows_units(_target(url, site))

    def verdict(self, url: str, agent: str) -> Verdict:
        """As `allowed`, with the rule that decides and the group it stands in.

        Raises:
            InvalidURLError: as `allowed`.
        """
        rules = self.rules(agent)
        decision = rules.decide_units(_target(url, self._site))
        return Verdict(
            allowed=decision.allowed,
            reason=decision.reason,
            url=url,
            rule=decision.rule,
            opposing=decision.opposing,
            group=rules.agents,
            warnings=rules.warnings,
            crawl_delay=rules.crawl_delay,
        )

    def crawl_delay(self, agent: str) -> float | None:
        """The largest Crawl-delay asked of an agent: seconds. Not in RFC 9309."""
        return self.rules(agent).crawl_delay

    def request_rate(self, agent: str) -> RequestRate | None:
        """The slowest Request-rate asked of an agent, whatever its hours. Not in RFC 9309."""
        return self.rules(agent).request_rate

    def _compile(self, token: str) -> Rules:
        if self.dialect is Dialect.CLASSIC:
            return classic_rules(self.groups, token, self.url)
        return compile_rules(self._text, token, self.url)

    @property
    def _file(self) -> ParsedFile:
        if not self._parsed:
            read = parse_classic if self.dialect is Dialect.CLASSIC else parse_text
            self._parsed.append(read(self._text))
        return self._parsed[0]

    def _named(self, name: str) -> Iterator[Record]:
        return (record for record in self.records if record.field.lower() == name)


def _target(url: str, site: str | None) -> str:
    """The path and query, dot segments resolved; in units."""
    if site is not None and url.startswith(site):
        path_at = len(site) - 1
    else:
        plain = _PLAIN_AUTHORITY.match(url)
        path_at = 0 if plain is None else plain.end()
    if path_at:
        target = url[path_at:]
        if not _PRINTABLE.fullmatch(target) and _ODD.search(target):
            Origin.of(url)
    elif url.startswith("/"):
        target = url
    else:
        Origin.of(url)
        # Cut from the text: yarl unescapes more than the normal form does.
        target = _AUTHORITY.sub("", url, count=1)
    target = target_units(target)
    return _without_dot_segments(target) if "/." in target else target


def _without_dot_segments(target: str) -> str:
    path, mark, query = target.partition("?")
    kept: list[str] = []
    for segment in path.split("/")[1:]:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if path.endswith(("/.", "/..")):
        kept.append("")
    return f"/{'/'.join(kept)}{mark}{query}"
