r"""A robots.txt as a value: ask it anything, it does no I/O.

>>> robots = RobotsTxt.parse(b"User-agent: *\nDisallow: /private")
>>> robots.allowed("/private/diary", "ExampleBot/1.0")
False
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from robotgate._match import Rules
from robotgate._normal import normalise_target
from robotgate._parse import EVERYBODY, Group, Pace, Record, RequestRate, parse
from robotgate._urls import Origin
from robotgate._verdict import Verdict

_MAX_COMPILED: Final = 64
_PLAIN_URL: Final = re.compile(
    r"https?://(?:[a-z0-9][a-z0-9-]{0,60}+\.){1,3}+[a-z][a-z0-9-]{0,60}+"  # A host that needs no closer look,
    r"(/[!&-)+-;=?-Z_a-z~]*+)"  # and a path and query in the normal form.
)
_AUTHORITY: Final = re.compile(r"[^:/?#]*://[^/?#]*")
_AGENT_END: Final = re.compile(r"[/\s]")


def product_token(agent: str) -> str:
    """The crawler's own name: the text of its identification string before the first ``/`` or blank."""
    return _AGENT_END.split(agent.strip(), maxsplit=1)[0]


@dataclass(frozen=True, slots=True)
class RobotsTxt:
    """One parsed robots.txt (RFC 9309).

    Wherever an `agent` is asked for, give the product token, or a full identification string that begins with it.
    """

    groups: tuple[Group, ...] = ()
    sitemaps: tuple[str, ...] = ()
    """The values of the Sitemap lines, each once."""
    records: tuple[Record, ...] = ()
    """Every line that is neither of User-agent, Allow, Disallow or Sitemap, as it was written."""
    url: str | None = None
    """Where the file stands. Without it, rules that are absolute URLs are passed over."""
    _compiled: dict[str, Rules] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def parse(cls, body: bytes, url: str | None = None) -> RobotsTxt:
        """Read a file as it was served: any bytes will do. At most the first 512,000 count (RFC 9309 §2.5).

        Args:
            body: the file.
            url: any URL of the origin whose file this is.

        Raises:
            InvalidURLError: `url` is not an absolute http or https URL.
        """
        if url is not None:
            Origin.of(url)
        parsed = parse(body)
        return cls(parsed.groups, parsed.sitemaps, parsed.records, url)

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
        return self.rules(agent).allows_normal(_normal_target(url))

    def verdict(self, url: str, agent: str) -> Verdict:
        """As `allowed`, with the rule that decides and the group it stands in.

        Raises:
            InvalidURLError: as `allowed`.
        """
        rules = self.rules(agent)
        decision = rules.decide(_normal_target(url))
        return Verdict(
            allowed=decision.allowed,
            reason=decision.reason,
            url=url,
            rule=decision.rule,
            group=rules.agents,
            crawl_delay=rules.crawl_delay,
        )

    def crawl_delay(self, agent: str) -> float | None:
        """The largest Crawl-delay asked of an agent: seconds. Not in RFC 9309."""
        return self.rules(agent).crawl_delay

    def request_rate(self, agent: str) -> RequestRate | None:
        """The slowest Request-rate asked of an agent, whatever its hours. Not in RFC 9309."""
        return self.rules(agent).request_rate

    def _compile(self, token: str) -> Rules:
        groups = [group for group in self.groups if group.names(token)]
        if not groups:
            token = EVERYBODY
            groups = [group for group in self.groups if group.names(token)]
        paces = [pace for group in groups for pace in group.paces if pace.names(token)]
        return Rules(
            (rule for group in groups for rule in group.rules),
            agents=dict.fromkeys(agent for group in groups for agent in group.agents),
            crawl_delay=_largest_delay(paces),
            request_rates=dict.fromkeys(rate for pace in paces for rate in pace.request_rates),
            visit_times=dict.fromkeys(time for pace in paces for time in pace.visit_times),
            origin=None if self.url is None else Origin.of(self.url),
        )


def _largest_delay(paces: list[Pace]) -> float | None:
    return max((pace.crawl_delay for pace in paces if pace.crawl_delay is not None), default=None)


def _normal_target(url: str) -> str:
    plain = _PLAIN_URL.fullmatch(url)
    if plain:
        target = plain[1]
    elif url.startswith("/"):
        target = normalise_target(url)
    else:
        Origin.of(url)
        # Cut from the text: yarl unescapes more than the normal form does.
        target = normalise_target(_AUTHORITY.sub("", url, count=1))
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
