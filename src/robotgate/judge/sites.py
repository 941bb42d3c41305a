"""The sites that a crawler is judged by: what each one answers, and which of its pages may be fetched.

``sites.toml`` is the table of the kinds of sites. Whether a page is open is decided there. Nothing here parses a
robots.txt or matches a path, so the judge can compare a crawler with it.
"""

from __future__ import annotations

import random
import re
import tomllib
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from itertools import count, cycle, islice, pairwise
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROBOTS_PATH: Final = "/robots.txt"
OURS: Final = "ours"
"""What the crawler of the demonstration declares: its own rules hold as well."""
MIN_PAGES: Final = 4
CHANGE_DELAY: Final = 1.0
"""Seconds from the first request for a robots.txt to its change."""
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_FILL: Final = re.compile(r"\{fill (\d+)\}")
_COMMENT: Final = "# a line of no importance, one of very many\n"
_LONG: Final = "segment-of-a-long-path-" * 22
_RULES: Final = "User-agent: *\nDisallow: /private/\nDisallow: /tmp/\n"


Severity: TypeAlias = Literal["MUST", "SHOULD", "CONVENTION", "MAY", "OURS"]
"""How binding a claim is. MAY: nothing can be broken, the crawler's choice is counted. OURS: what robotgate adds."""
SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)
Access: TypeAlias = Literal["open", "closed", "may", "robots"]
"""What the rules of a site say of a URL to the crawler that is judged. May: it may be fetched, and need not be. Robots:
it is a robots.txt, or on the way to one."""


def filled(text: str, values: Mapping[str, str]) -> str:
    """A text with values in place of their names in braces."""
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a server answers at one path."""

    text: str = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    charset: str = "utf-8"
    coding: Sequence[str] = ()
    """The codings that are applied to the body, of which each is gzip."""
    size: int | None = None
    """Bytes to which the body is repeated; None: it is sent once."""
    delay: float = 0.0
    """Seconds before the answer begins."""
    pause: float = 0.0
    """Seconds for which its headers ask the crawler to stay away."""
    chain: int = 0
    """Redirects within the site that lead to it."""
    at: Sequence[int] = ()
    """The page requests of its site, counted from 1, which it answers in place of a page."""
    is_cut: bool = False
    """Whether the connection breaks in the middle of the body."""
    is_silent: bool = False
    """Whether the connection breaks without an answer."""

    def content(self, agent: str) -> bytes:
        """The body, before its codings, as it is sent to a crawler with this product token."""
        text = filled(self.text, {"agent": agent, "AGENT": agent.swapcase()})
        text = _FILL.sub(lambda found: (_COMMENT * int(found[1]))[: int(found[1]) - 1] + "\n", text)
        body = text.encode(self.charset)
        return body if self.size is None else (body * (self.size // len(body) + 1))[: self.size]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Answer):
    """One address of a site."""

    path: str
    access: Access = "open"
    is_asked: bool = True
    """Whether the crawler is given this URL. Others lead to the rest."""


Pages: TypeAlias = tuple[Page, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One row of the table."""

    name: str = ""
    """Only the first of a group has one, with a claim."""
    claim: str = ""
    source: str = ""
    severity: Severity = "MAY"
    breaks: str = "closed"
    """The name of the check that finds a breach."""
    declared: str | None = None
    """What a crawler has to declare for this row to hold; None: it holds for all. Pages ask for ``signatures``."""
    robots: Page = field(default_factory=lambda: Page(path=ROBOTS_PATH, access="robots", text=_RULES))
    closed: Sequence[str] = ("/private/{}", "/tmp/{}")  # noqa: S108 - of a URL
    open: Sequence[str] = ("/articles/{}", "/news/{}")
    may: Sequence[str] = ()
    body: str = ""
    """The text of its pages that are asked for; empty: each has its own."""
    page: Pages = ()
    changed: str = ""
    """The text of its robots.txt after its change, which closes the pages that may be fetched; empty: there is none."""
    told: Answer | None = None
    weight: float = 4.0
    """How many pages it gets, compared with others."""
    crawl_delay: float = 0.0
    """Seconds that its rules ask for."""
    limit: float | None = None
    """Requests a second above which it answers 429, and says no more; None: no such limit."""
    scheme: str = "http"
    port: int | None = None
    """None: the default of the scheme."""
    host: str | None = None
    """None: any name."""
    is_direct: bool = False
    """Whether it has addresses of this machine, for a crawler that uses no proxy."""
    same_host: bool = False
    """Whether its host is that of the one before it in its group."""
    under: str = ""
    """What comes before that name."""
    certificate: str | None = None
    """What is wrong with its certificate: ``name``, ``expired`` or ``unknown``."""
    other: tuple[Kind, ...] = ()
    """Those that are drawn together with it."""

    @property
    def group(self) -> tuple[Kind, ...]:
        """Those that are drawn together, itself first."""
        return (self, *self.other)

    def is_had(self, *, directly: bool) -> bool:
        """Whether it can be had at an address and a port of this machine, or else behind a proxy."""
        needs_proxy = any(kind.scheme == "https" or kind.under or kind.host for kind in self.group)
        return self.is_direct or not needs_proxy if directly else not self.is_direct


@dataclass(frozen=True, slots=True)
class Site:
    """One origin."""

    host: str
    kind: Kind
    robots: Page
    pages: Pages = ()
    port: int = 80

    @property
    def root(self) -> str:
        """Its URL without a path."""
        port = "" if _DEFAULT_PORTS[self.kind.scheme] == self.port else f":{self.port}"
        return f"{self.kind.scheme}://{self.host}{port}"

    @property
    def name(self) -> str:
        """The host, and the port and the scheme unless they are 80 and http."""
        return self.root.removeprefix("http://")

    @property
    def resources(self) -> Pages:
        """All that it answers: its pages, its robots.txt, and the way there."""
        names = [ROBOTS_PATH, *(f"/robots-{hop}.txt" for hop in range(self.robots.chain))]
        moved = [
            Page(path=path, access="robots", status=301, headers={"Location": location})
            for path, location in pairwise(names)
        ]
        return (*moved, replace(self.robots, path=names[-1]), *self.pages)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All sites of one seed, and the URLs in the order in which the crawler is given them."""

    seed: int
    groups: tuple[tuple[Kind, tuple[Site, ...]], ...]
    """The sites of each row."""
    urls: tuple[str, ...]

    @property
    def sites(self) -> tuple[Site, ...]:
        """All sites."""
        return tuple(site for _, sites in self.groups for site in sites)


@cache
def table(name: str) -> tuple[Kind, ...]:
    """The rows of ``sites.toml`` that are called so: kind, everywhere or example."""
    text = resources.files("robotgate.judge").joinpath("sites.toml").read_text(encoding="utf-8")
    rows = tomllib.loads(text)[name]
    for row in rows:
        for each in (row, *row.get("other", ())):
            robots = {"path": ROBOTS_PATH, "access": "robots", "text": _RULES, **each.get("robots", {})}
            each["robots"] = Page(**robots)
            each["told"] = Answer(**each["told"]) if "told" in each else None
            each["page"] = tuple(Page(**page) for page in each.get("page", ()))
        row["other"] = tuple(Kind(**each) for each in row.get("other", ()))
    return tuple(Kind(**row) for row in rows)


def examples() -> tuple[Site, ...]:
    """A few sites with links, under names that are reserved for examples (RFC 2606). The tutorial visits them."""
    return tuple(Site(kind.host or "", kind, kind.robots, kind.page) for kind in table("example"))


def draw_plan(
    seed: int, page_count: int, only: Sequence[str] = (), ports: Mapping[int, int] | None = None
) -> Plan:
    """The sites for a seed, with about `page_count` URLs to fetch. The same arguments draw the same sites.

    Their top-level domain is reserved for tests (RFC 6761 section 6).

    Args:
        only: parts of the names of the rows that are drawn; without them, all.
        ports: where those on port 80 and others listen, each site at an address of this machine; None: they have names.
    """
    rng = random.Random(seed)
    name = "site-{0}.test" if ports is None else "127.0.{1}.{2}"
    hosts = (name.format(number, number // 250 + 1, number % 250) for number in count(1))
    kinds = [
        kind
        for kind in table("kind")
        if kind.is_had(directly=ports is not None)
        and (not only or any(part.casefold() in kind.name.casefold() for part in only))
    ]
    total = sum(kind.weight for each in kinds for kind in each.group) or 1.0
    groups = tuple(
        (kind, _drawn(kind, hosts, random.Random(f"{seed}/{kind.name}"), page_count / total, ports or {}))
        for kind in kinds
    )
    urls = [
        site.root + page.path for _, sites in groups for site in sites for page in site.pages if page.is_asked
    ]
    rng.shuffle(urls)
    return Plan(seed=seed, groups=groups, urls=tuple(urls))


def _drawn(
    row: Kind, hosts: Iterator[str], rng: random.Random, share: float, ports: Mapping[int, int]
) -> tuple[Site, ...]:
    """The sites of a row."""
    sites: list[Site] = []
    numbers = count()
    for kind in row.group:
        host = sites[-1].host if kind.same_host else kind.host or next(hosts)
        pages = tuple(_pages(kind, rng, max(MIN_PAGES, round(share * kind.weight)), numbers))
        port = kind.port or _DEFAULT_PORTS[kind.scheme]
        sites.append(Site(kind.under + host, kind, kind.robots, pages, ports.get(port, port)))
    values = {"long": _LONG, **{str(number): site.root for number, site in enumerate(sites)}}
    return tuple(
        replace(
            site,
            robots=_placed(site.robots, values),
            pages=tuple(_placed(page, values) for page in site.pages),
        )
        for site in sites
    )


def _pages(kind: Kind, rng: random.Random, wanted: int, numbers: Iterator[int]) -> Iterator[Page]:
    """The pages of a site: its shapes in turn, each of any size."""
    accesses: tuple[Access, ...] = ("closed", "open", "may")
    shapes = [(path, access) for access in accesses for path in getattr(kind, access)]
    drawn = [
        Page(path=path.format(next(numbers), long=_LONG), access=access)
        for path, access in islice(cycle(shapes), max(wanted, len(shapes)))
    ]
    for page in (*drawn, *kind.page):
        if kind.body and page.is_asked:
            yield replace(page, text=kind.body)
        elif page.status == 200 and not page.text:
            delay, size = round(rng.uniform(0.002, 0.02), 4), rng.randrange(200, 20_000)
            yield replace(page, text=f"This is {page.path}.\n", delay=delay, size=size)
        else:
            yield page


def _placed(page: Page, values: Mapping[str, str]) -> Page:
    """A page with the roots of its group."""
    headers = {name: filled(value, values) for name, value in page.headers.items()}
    return replace(page, text=filled(page.text, values), headers=headers)
