"""The sites of the demonstration: what each one answers, and which of its pages the crawler may fetch.

Whether a page is open is decided here, when the page is drawn. Nothing here parses a robots.txt or matches a path, so
the judge can compare the gate with it.
"""

from __future__ import annotations

import gzip
import random
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

FLOOR_DELAY: Final = 0.15
"""Seconds: the gate's own ``delay`` in the demonstration."""
CRAWLER: Final = "RobotgateDemo"
"""The crawler's product token, which the rules of some sites name."""
ROBOTS_PATH: Final = "/robots.txt"
MIN_PAGES: Final = 4
CLOSED_SHARE: Final = 0.3
"""The share of a site's pages that its rules close."""
_FIRST: Final = """amber brisk calm dusty early fabled gentle hidden idle jolly keen lunar mossy narrow olive
plain quiet rustic silver tidal upper velvet windy young"""
_SECOND: Final = """atlas bakery cinema docks estate forum garden harbour index journal kitchen library museum notes
orchard press quarry records seminar tower union weekly"""
_OPEN_FOLDERS: Final = ["articles", "docs", "maps", "news", "people", "photos", "products", "recipes"]
_CLOSED_FOLDERS: Final = ["private", "tmp"]
"""The folders that most rules close."""


@dataclass
class Bucket:
    """So many requests a second, and some at once."""

    rate: float
    depth: int = 2
    level: float = 0.0
    at: float = 0.0

    def takes(self, now: float) -> bool:
        """Whether a request at this instant is below the limit."""
        self.level, self.at = max(0.0, self.level - (now - self.at) * self.rate), now
        if self.level + 1 > self.depth + 1e-9:
            return False
        self.level += 1
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a server answers at one path."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    size: int | None = None
    """Bytes to which the body is repeated; None: it is sent once."""
    busy_delay: float = 0.0
    """Seconds before the answer begins."""
    is_cut_off: bool = False
    """Whether the connection breaks in the middle of the body."""

    @property
    def content(self) -> bytes:
        """The body as it is sent: repeated, and compressed if the headers say so."""
        body = self.body
        if self.size is not None:
            body = (body * (self.size // len(body) + 1))[: self.size]
        return gzip.compress(body) if self.headers.get("Content-Encoding") == "gzip" else body


@dataclass(frozen=True, slots=True)
class Page:
    """One address of a site."""

    path: str
    answer: Answer
    is_open: bool = True
    """Whether the site's rules allow the demonstration's crawler to fetch it."""
    is_asked: bool = True
    """Whether the crawler is given this URL. The others are reached through redirects only."""


Pages: TypeAlias = tuple[Page, ...]


@dataclass(frozen=True, slots=True)
class Site:
    """One origin of the demonstration."""

    host: str
    story: str
    """What kind of site it is, in a few words."""
    robots: Answer
    pages: Pages = ()
    port: int = 80
    """The port in its URLs."""
    crawl_delay: float = 0.0
    """Seconds that the rules of this origin ask for."""
    limit: float | None = None
    """Requests a second above which it answers 429, and says no more; None: no such limit."""

    @property
    def name(self) -> str:
        """The host, and the port unless it is 80."""
        return self.host if self.port == 80 else f"{self.host}:{self.port}"

    @property
    def delay(self) -> float:
        """Seconds that must pass between the end of one response and the start of the next request."""
        return max(FLOOR_DELAY, self.crawl_delay)

    def url(self, path: str) -> str:
        """The absolute URL of a path."""
        return f"http://{self.name}{path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All sites of one seed, and the URLs in the order in which the crawler is given them."""

    seed: int
    sites: tuple[Site, ...]
    urls: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Draw:
    """What the pages of one group of sites are drawn from."""

    rng: random.Random
    last: str
    """The root of the last site of the group, without a slash."""
    wanted: int
    """About how many pages of each site the crawler is given."""
    numbers: Iterator[int] = field(default_factory=count)
    """The names of pages."""

    def page(self, path: str, *, is_open: bool = True, is_asked: bool = True) -> Page:
        """One page, of any size."""
        delay, size = round(self.rng.uniform(0.002, 0.02), 4), self.rng.randrange(200, 20_000)
        answer = Answer(body=f"This is {path}.\n".encode(), busy_delay=delay, size=size)
        return Page(path, answer, is_open=is_open, is_asked=is_asked)

    def pages(self, amount: int, folders: Sequence[str] = _OPEN_FOLDERS, *, is_open: bool = True) -> Pages:
        """So many pages in these folders."""
        paths = (f"/{self.rng.choice(folders)}/{next(self.numbers)}" for _ in range(amount))
        return tuple(self.page(path, is_open=is_open) for path in paths)

    def ordinary(self, closed: Sequence[str] = _CLOSED_FOLDERS) -> Pages:
        """Pages in many folders, some of which are closed."""
        shut = round(self.wanted * CLOSED_SHARE)
        return self.pages(shut, closed, is_open=False) + self.pages(self.wanted - shut)

    def all_closed(self) -> Pages:
        """Pages of a site of which none may be fetched."""
        return self.pages(MIN_PAGES, is_open=False)

    def shaped(self, *shapes: str) -> Pages:
        """Pages whose paths have these shapes in turn: a closed one, an open one, and so on."""
        return tuple(
            self.page(shapes[number % len(shapes)].format(number), is_open=number % 2 == 1)
            for number in range(self.wanted)
        )

    def signed(self) -> Pages:
        """Ordinary pages that ask for a signature."""
        return tuple(replace(page, answer=replace(page.answer, headers=ASKS)) for page in self.ordinary())

    def redirects(self, path: str, target: str) -> Pages:
        """Four pages that redirect to `targets` of a site, and one that redirects to a closed page there."""
        goals = {f"{path}/{number}": f"{target}/moved/{number}" for number in range(4)}
        goals[f"{path}/trap"] = f"{target}/private/trap"
        return tuple(
            Page(start, Answer(status=self.rng.choice((301, 302, 303, 307, 308)), headers={"Location": goal}))
            for start, goal in goals.items()
        )

    def port_80(self) -> Pages:
        """Pages of which one folder is closed; that of the other port is open."""
        return self.ordinary(["private"]) + self.pages(3, ["tmp"])

    def port_8080(self) -> Pages:
        """As `port_80`, the other way round."""
        return self.ordinary(["tmp"]) + self.pages(3, ["private"])

    def targets(self) -> Pages:
        """The pages to which `redirects` lead."""
        trap = self.page("/private/trap", is_open=False, is_asked=False)
        return (*(self.page(f"/moved/{number}", is_asked=False) for number in range(4)), trap)

    def busy(self, status: int, retry_after: int) -> Pages:
        """Ordinary pages, and one that is answered with Retry-After, in seconds."""
        answer = Answer(status=status, headers={"Retry-After": str(retry_after)})
        return (*self.ordinary(), Page("/news/busy", answer))


def _text(*lines: str) -> Answer:
    return Answer(body="\n".join([*lines, ""]).encode())


def _rules(*lines: str) -> Answer:
    return _text("User-agent: *", *lines)


_BOTH: Final = [f"Disallow: /{folder}/" for folder in _CLOSED_FOLDERS]
_RULES: Final = _rules(*_BOTH)
_PACED: Final = _rules("Crawl-delay: 0.3", *_BOTH)
ASKS: Final = {"Accept-Signature": 'sig1=("@authority" "signature-agent");created;expires;tag="web-bot-auth"'}
"""The header of an answer that only signed requests get (RFC 9421 section 5.1)."""
MISSING: Final = Answer(status=404, body=b"no such page\n")
TOO_FAST: Final = Answer(status=429)
_ARCHIVE: Final = _rules("Disallow: /archive/", "Allow: /archive/press/")
_ESCAPES: Final = Answer(body=b"\xef\xbb\xbfUser-agent: *\rDisallow: /caf%C3%A9/\rDisallow: /%7Eguest/\r")
_ESCAPED: Final = ("/café/{}", "/cafe/{}", "/~guest/{}", "/guest/{}")
_WILDCARDS: Final = _rules("Disallow: /*.pdf$", "Disallow: /*?sort=")
_MATCHED: Final = ("/docs/{}.pdf", "/docs/{}.pdf.html", "/list/{}?sort=up", "/list/{}")
_NOISE: Final = random.Random(1).randbytes(8192).replace(b":", b"")
"""Bytes without a colon: none of their lines can be a rule."""
_COMMENTS: Final = ["# a line of no importance, one of very many"] * 11_736
_LONG: Final = _rules("Disallow: /private/", *_COMMENTS, "Disallow: /tmp/")
"""More than the 512,000 bytes of a robots.txt that are read (RFC 9309 section 2.5)."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One row of the table: a kind of site."""

    story: str
    robots: Answer | None = _RULES
    """None: a redirect to that of the first of the sites that are drawn together."""
    pages: Callable[[Draw], Pages] = Draw.ordinary
    weight: float = 4.0
    """How many pages it gets, compared with the others."""
    crawl_delay: float = 0.0
    """Seconds that its rules ask for."""
    limit: float | None = None
    """Requests a second above which it answers 429."""
    port: int = 80
    """The port in its URLs. A site on another port than 80 has the host of the one before it."""
    others: tuple[Kind, ...] = ()
    """Those that are drawn together with it, because one redirects to another, or both have one host."""


_REDIRECTED: Final = Kind("robots.txt of above", None, weight=3, crawl_delay=0.3)
_PARKED: Final = Kind("parked there", None, weight=3)
_TARGET: Final = Kind("target of redirects", pages=lambda d: d.ordinary() + d.targets())
_PORT_80: Final = _rules("Crawl-delay: 0.2", "Disallow: /private/")
_PORT_8080: Final = _rules("Crawl-delay: 0.2", "Disallow: /tmp/")
_8080: Final = Kind("one pace", _PORT_8080, Draw.port_8080, crawl_delay=0.2, port=8080)
KINDS: Final = (
    Kind("limit: 429 alone", limit=4.0),
    Kind("robots.txt in gzip", replace(_RULES, headers={"Content-Encoding": "gzip"})),
    Kind("only our crawler", _rules("Disallow: /", "", f"User-agent: {CRAWLER}", *_BOTH)),
    Kind("Disallow: /", _rules("Disallow: /"), Draw.all_closed, weight=1),
    Kind("wildcards and $", _WILDCARDS, lambda d: d.shaped(*_MATCHED)),
    Kind("Allow in Disallow", _ARCHIVE, lambda d: d.shaped("/archive/{}", "/archive/press/{}")),
    Kind("BOM, CR, escapes", _ESCAPES, lambda d: d.shaped(*_ESCAPED)),
    Kind("Crawl-delay: 0.3", _PACED, weight=3, crawl_delay=0.3),
    Kind("Crawl-delay: 0.5", _rules("Crawl-delay: 0.5", *_BOTH), weight=2, crawl_delay=0.5),
    Kind("Crawl-delay: 1", _rules("Crawl-delay: 1", *_BOTH), weight=1, crawl_delay=1.0),
    Kind("Crawl-delay: 1.5", _rules("Crawl-delay: 1.5", *_BOTH), weight=0.7, crawl_delay=1.5),
    Kind("robots.txt: 404", MISSING, lambda d: d.pages(d.wanted)),
    Kind("robots.txt: 403", Answer(status=403), Draw.all_closed, weight=1),
    Kind("robots.txt: 500", Answer(status=500), Draw.all_closed, weight=1),
    Kind("robots.txt cut off", replace(_RULES, size=2000, is_cut_off=True), Draw.all_closed, weight=1),
    Kind(
        "robots.txt is HTML", _text("<!doctype html>", "<title>Welcome</title>"), lambda d: d.pages(d.wanted)
    ),
    Kind("robots.txt is binary", Answer(body=_NOISE), lambda d: d.pages(d.wanted)),
    Kind("robots.txt of 516 kB", _LONG, lambda d: d.ordinary(["private"]) + d.pages(2, ["tmp"])),
    Kind("robots.txt in 1.2 s", replace(_RULES, busy_delay=1.2)),
    Kind("robots.txt for two", _PACED, weight=3, crawl_delay=0.3, others=(_REDIRECTED,)),
    Kind("parking host", weight=3, others=(_PARKED,) * 4),
    Kind("redirects within", pages=lambda d: d.ordinary() + d.redirects("/old", "") + d.targets()),
    Kind("redirects to next", pages=lambda d: d.ordinary() + d.redirects("/out", d.last), others=(_TARGET,)),
    Kind("two ports,", _PORT_80, Draw.port_80, weight=1.5, crawl_delay=0.2, others=(_8080,)),
    Kind("429, Retry-After: 2", pages=lambda d: d.busy(429, 2), weight=3),
    Kind("503, Retry-After: 1", pages=lambda d: d.busy(503, 1), weight=3),
    Kind("Content-Usage", _rules(*(f"Content-Usage: /{name}/ train-ai=n" for name in _CLOSED_FOLDERS))),
    Kind("Content-Signal", _rules("Content-Signal: search=yes, ai-train=no"), Draw.all_closed, weight=1),
    Kind("asks for signatures", pages=Draw.signed),
)
"""The table of the sites."""


def draw_plan(seed: int, page_count: int) -> Plan:
    """The sites for a seed, with about `page_count` URLs to fetch. The same arguments draw the same sites.

    Their top-level domain is reserved for tests (RFC 6761 section 6).
    """
    rng = random.Random(seed)
    names = [f"{first}-{second}.test" for first in _FIRST.split() for second in _SECOND.split()]
    groups = [(kind, *kind.others) for kind in KINDS]
    weights = [kind.weight for group in groups for kind in group if kind.port == 80]
    hosts = iter(rng.sample(names, len(weights)))
    sites: list[Site] = []
    for index, group in enumerate(groups):
        drawn: list[str] = []
        for kind in group:
            drawn.append(next(hosts) if kind.port == 80 else drawn[-1])
        wanted = max(MIN_PAGES, round(page_count * group[0].weight / sum(weights)))
        draw = Draw(random.Random(f"{seed}/{index}"), f"http://{drawn[-1]}", wanted)
        redirect = Answer(status=302, headers={"Location": f"http://{drawn[0]}{ROBOTS_PATH}"})
        for kind, host in zip(group, drawn, strict=True):
            robots = kind.robots or redirect
            pages = kind.pages(draw)
            sites.append(Site(host, kind.story, robots, pages, kind.port, kind.crawl_delay, kind.limit))
    urls = [site.url(page.path) for site in sites for page in site.pages if page.is_asked]
    rng.shuffle(urls)
    return Plan(seed=seed, sites=tuple(sites), urls=tuple(urls))


def _html(path: str, title: str, *links: str, **headers: str) -> Page:
    anchors = [f'<p><a href="{link}">{link}</a></p>' for link in links]
    answer = _text("<!doctype html>", f"<title>{title}</title>", *anchors)
    return Page(path, replace(answer, headers={"Content-Type": "text/html", **headers}))


_LATER: Final = Answer(status=429, headers={"Retry-After": "2"}, body=b"later\n")
_BROKEN: Final = Answer(status=500, body=b"out of order\n")
_URLSET: Final = '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
_URLS: Final = (f"<url><loc>http://example.org/{name}</loc></url>" for name in ("", "tea", "coffee"))
_XML: Final = _text('<?xml version="1.0" encoding="UTF-8"?>', _URLSET, *_URLS, "</urlset>")
_SITEMAP: Final = replace(_XML, headers={"Content-Type": "application/xml"})
EXAMPLES: Final = (
    Site(
        "example.org",
        "pages with links; Disallow: /private/",
        _rules("Disallow: /private/", "Sitemap: http://example.org/sitemap.xml"),
        (
            _html("/", "Drinks", "/tea", "/coffee", "/private/diary", "http://example.com/"),
            _html("/tea", "Tea", "/", "/old-tea"),
            Page("/old-tea", Answer(status=301, headers={"Location": "/tea"})),
            _html("/coffee", "Coffee", "/", "/tea", **{"X-Robots-Tag": "noindex"}),
            _html("/private/diary", "Diary", "/"),
            Page("/sitemap.xml", _SITEMAP),
        ),
    ),
    Site(
        "example.com",
        "Crawl-delay: 2.5",
        _rules("Crawl-delay: 2.5"),
        (_html("/", "News", "/today", "http://example.net/"), _html("/today", "Today", "/")),
    ),
    Site(
        "example.net",
        "no robots.txt; /busy answers 429, Retry-After: 2",
        MISSING,
        (_html("/", "Weather", "/busy", "http://www.example.net/"), Page("/busy", _LATER)),
    ),
    Site("www.example.net", "robots.txt answers 500", _BROKEN, (_html("/", "Closed"),)),
)
"""A few sites with links, under names that are reserved for examples (RFC 2606). The tutorial visits them."""
