"""Draws the demonstration's web from a seed: some thirty sites that behave as the web does."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from robotgate.cli._demo_draw import MIN_PAGES, Draw, draw_hosts
from robotgate.cli._demo_sites import CRAWLER, ROBOTS_PATH, Page, Plan, RobotsReply, Site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ROBOTS_LIMIT: Final = 512_000
"""Octets of a robots.txt that the gate reads (RFC 9309 §2.5 asks for 500 KiB at least)."""


def draw_plan(seed: int, page_count: int) -> Plan:
    """The demonstration's web for a seed, with about `page_count` URLs to fetch; the same each time."""
    rng = random.Random(seed)
    hosts = iter(draw_hosts(rng, sum(kind.hosts for kind in KINDS)))
    total = sum(kind.weight * kind.hosts for kind in KINDS)
    sites: list[Site] = []
    for index, kind in enumerate(KINDS):
        share = round(page_count * kind.weight / total)
        names = tuple(next(hosts) for _ in range(kind.hosts))
        sites += kind.make(Draw(random.Random(f"{seed}/{index}"), names, max(MIN_PAGES, share)))
    urls = [site.url(page.path) for site in sites for page in site.pages if page.is_asked]
    rng.shuffle(urls)
    return Plan(seed=seed, sites=tuple(sites), urls=tuple(urls))


def _rules(closed: Iterable[str], *extra: str, agent: str = "*") -> bytes:
    lines = [f"User-agent: {agent}", *extra, *(f"Disallow: /{folder}/" for folder in closed)]
    return "\n".join([*lines, ""]).encode()


def _plain(draw: Draw) -> list[Site]:
    closed = draw.closed_folders()
    robots = RobotsReply(body=_rules(closed))
    return [Site(host=draw.host, story="ordinary rules", robots=robots, pages=draw.pages(closed))]


def _patient(draw: Draw, *, crawl_delay: float) -> list[Site]:
    closed = draw.closed_folders()
    return [
        Site(
            host=draw.host,
            story=f"Crawl-delay: {crawl_delay:g}",
            robots=RobotsReply(body=_rules(closed, f"Crawl-delay: {crawl_delay:g}")),
            pages=draw.pages(closed),
            crawl_delay=crawl_delay,
        )
    ]


def _named(draw: Draw) -> list[Site]:
    closed = draw.closed_folders()
    body = _rules([], "Disallow: /") + b"\n" + _rules(closed, agent=CRAWLER)
    return [
        Site(
            host=draw.host,
            story="nobody but us let in",
            robots=RobotsReply(body=body),
            pages=draw.pages(closed),
        )
    ]


def _shut(draw: Draw) -> list[Site]:
    robots = RobotsReply(body=_rules([], "Disallow: /"))
    return [Site(host=draw.host, story="Disallow: /", robots=robots, pages=draw.shut_pages())]


def _wildcards(draw: Draw) -> list[Site]:
    body = b"User-agent: *\nDisallow: /*.pdf$\nDisallow: /*?sort=\n"
    shapes = (
        ("/docs/{}.pdf", False),
        ("/docs/{}.pdf.html", True),
        ("/list/{}?sort=up", False),
        ("/list/{}", True),
    )
    pages = tuple(
        draw.page(shapes[n % 4][0].format(n), is_open=shapes[n % 4][1])
        for n in range(max(draw.wanted, len(shapes)))
    )
    return [Site(host=draw.host, story="wildcards and $", robots=RobotsReply(body=body), pages=pages)]


def _exception(draw: Draw) -> list[Site]:
    body = b"User-agent: *\nDisallow: /archive/\nAllow: /archive/press/\n"
    pages = tuple(
        draw.page(f"/archive/press/{n}" if n % 2 else f"/archive/{n}", is_open=n % 2 == 1)
        for n in range(draw.wanted)
    )
    return [Site(host=draw.host, story="Allow within Disallow", robots=RobotsReply(body=body), pages=pages)]


def _escapes(draw: Draw) -> list[Site]:
    body = b"\xef\xbb\xbfUser-agent: *\rDisallow: /caf%C3%A9/\rDisallow: /%7Eguest/\r"
    folders = (("café", False), ("cafe", True), ("~guest", False), ("guest", True))
    pages = tuple(
        draw.page(f"/{folders[n % 4][0]}/{n}", is_open=folders[n % 4][1]) for n in range(draw.wanted)
    )
    return [Site(host=draw.host, story="BOM, CR lines, escapes", robots=RobotsReply(body=body), pages=pages)]


def _open(draw: Draw, *, status: int) -> list[Site]:
    robots = RobotsReply(status=status, body=b"there is no such file")
    return [Site(host=draw.host, story=f"robots.txt: {status}", robots=robots, pages=draw.pages())]


def _closed(draw: Draw, *, story: str, robots: RobotsReply) -> list[Site]:
    return [Site(host=draw.host, story=story, robots=robots, pages=draw.shut_pages(), is_closed=True)]


def _html(draw: Draw) -> list[Site]:
    body = b"<!doctype html>\n<html><head><title>Welcome</title></head>\n<body><p>Hello</p></body></html>\n"
    return [
        Site(host=draw.host, story="robots.txt is HTML", robots=RobotsReply(body=body), pages=draw.pages())
    ]


def _binary(draw: Draw) -> list[Site]:
    # Without a colon no line of it can be a rule.
    body = draw.rng.randbytes(8192).replace(b":", b"")
    return [
        Site(host=draw.host, story="robots.txt is binary", robots=RobotsReply(body=body), pages=draw.pages())
    ]


def _oversized(draw: Draw) -> list[Site]:
    filler = b"# a line of no importance, one of very many\n"
    first, last = draw.closed_folders()
    body = _rules([first]) + filler * (ROBOTS_LIMIT // len(filler) + 100) + f"Disallow: /{last}/\n".encode()
    beyond = tuple(draw.page(f"/{last}/late-{n}") for n in range(2))
    return [
        Site(
            host=draw.host,
            story=f"robots.txt of {len(body) // 1000} kB",
            robots=RobotsReply(body=body),
            pages=draw.pages([first]) + beyond,
        )
    ]


def _slow_robots(draw: Draw) -> list[Site]:
    closed = draw.closed_folders()
    robots = RobotsReply(body=_rules(closed), busy_delay=1.2)
    return [Site(host=draw.host, story="robots.txt takes 1.2 s", robots=robots, pages=draw.pages(closed))]


def _slow_pages(draw: Draw) -> list[Site]:
    closed = draw.closed_folders()
    pages = tuple(
        replace(page, busy_delay=round(draw.rng.uniform(0.2, 0.5), 3)) for page in draw.pages(closed)
    )
    return [Site(host=draw.host, story="slow pages", robots=RobotsReply(body=_rules(closed)), pages=pages)]


def _borrowed(draw: Draw) -> list[Site]:
    closed = draw.closed_folders()
    lender, borrower = draw.hosts
    crawl_delay = 0.3
    own = RobotsReply(body=_rules(closed, f"Crawl-delay: {crawl_delay}"))
    lent = RobotsReply(status=301, location=f"http://{lender}{ROBOTS_PATH}")
    return [
        Site(
            host=lender,
            story="lends its robots.txt",
            robots=own,
            pages=draw.pages(closed),
            crawl_delay=crawl_delay,
        ),
        Site(
            host=borrower,
            story="robots.txt of the above",
            robots=lent,
            pages=draw.pages(closed),
            crawl_delay=crawl_delay,
        ),
    ]


def _parking(draw: Draw) -> list[Site]:
    closed = draw.closed_folders()
    park, *parked = draw.hosts
    moved = RobotsReply(status=302, location=f"http://{park}{ROBOTS_PATH}")
    own = RobotsReply(body=_rules(closed))
    return [
        Site(host=park, story="parking host", robots=own, pages=draw.pages(closed)),
        *(Site(host=host, story="parked there", robots=moved, pages=draw.pages(closed)) for host in parked),
    ]


def _hops_within(draw: Draw) -> list[Site]:
    closed = draw.closed_folders()
    hops = tuple(draw.hop(f"/old/{n}", f"/moved/{n}") for n in range(4))
    targets = tuple(draw.page(f"/moved/{n}", is_asked=False) for n in range(4))
    trap = draw.hop("/old/trap", f"/{closed[0]}/trap")
    secret = draw.page(f"/{closed[0]}/trap", is_open=False, is_asked=False)
    pages = (*draw.pages(closed), *hops, *targets, trap, secret)
    return [
        Site(host=draw.host, story="redirects within", robots=RobotsReply(body=_rules(closed)), pages=pages)
    ]


def _hops_across(draw: Draw) -> list[Site]:
    closed = draw.closed_folders()
    start, goal = draw.hosts
    hops = tuple(draw.hop(f"/out/{n}", f"http://{goal}/landing/{n}") for n in range(4))
    trap = draw.hop("/out/trap", f"http://{goal}/{closed[0]}/trap")
    targets = tuple(draw.page(f"/landing/{n}", is_asked=False) for n in range(4))
    secret = draw.page(f"/{closed[0]}/trap", is_open=False, is_asked=False)
    robots = RobotsReply(body=_rules(closed))
    return [
        Site(
            host=start, story="redirects to the next", robots=robots, pages=(*draw.pages(closed), *hops, trap)
        ),
        Site(
            host=goal, story="where they lead", robots=robots, pages=(*draw.pages(closed), *targets, secret)
        ),
    ]


def _two_ports(draw: Draw) -> list[Site]:
    first, second = draw.closed_folders()
    return [
        _one_port(draw, port=80, story="two ports,", mine=first, other=second),
        _one_port(draw, port=8080, story="one pace", mine=second, other=first),
    ]


def _one_port(draw: Draw, *, port: int, story: str, mine: str, other: str) -> Site:
    return Site(
        host=draw.host,
        port=port,
        story=story,
        robots=RobotsReply(body=_rules([mine], "Crawl-delay: 0.2")),
        # Each port closes one of the two folders, and has pages in both.
        pages=(*draw.pages([mine]), *(draw.page(f"/{other}/open-{n}") for n in range(3))),
        crawl_delay=0.2,
    )


def _busy(draw: Draw, *, status: int, retry_after: int) -> list[Site]:
    closed = draw.closed_folders()
    full = Page(path="/news/busy", status=status, retry_after=retry_after)
    return [
        Site(
            host=draw.host,
            story=f"{status}, Retry-After: {retry_after}",
            robots=RobotsReply(body=_rules(closed)),
            pages=(*draw.pages(closed), full),
        )
    ]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of site: who makes it, of how many hosts, and how many pages it gets beside the others."""

    make: Callable[[Draw], list[Site]]
    hosts: int = 1
    weight: float = 4.0


_TORN: Final = RobotsReply(body=_rules(["private"]) * 50, is_cut_off=True)

KINDS: Final = (
    Kind(_plain),
    Kind(_plain),
    Kind(_named),
    Kind(_shut, weight=1),
    Kind(_wildcards),
    Kind(_exception),
    Kind(_escapes),
    Kind(partial(_patient, crawl_delay=0.3), weight=3),
    Kind(partial(_patient, crawl_delay=0.5), weight=2),
    Kind(partial(_patient, crawl_delay=1.0), weight=1),
    Kind(partial(_patient, crawl_delay=1.5), weight=0.7),
    Kind(partial(_open, status=404)),
    Kind(partial(_open, status=410)),
    Kind(partial(_closed, story="robots.txt: 403", robots=RobotsReply(status=403)), weight=1),
    Kind(partial(_closed, story="robots.txt: 500", robots=RobotsReply(status=500)), weight=1),
    Kind(partial(_closed, story="robots.txt cut off", robots=_TORN), weight=1),
    Kind(_html),
    Kind(_binary),
    Kind(_oversized),
    Kind(_slow_robots),
    Kind(_slow_pages, weight=2),
    Kind(_borrowed, hosts=2, weight=3),
    Kind(_parking, hosts=5, weight=3),
    Kind(_hops_within),
    Kind(_hops_across, hosts=2),
    Kind(_two_ports, weight=1.5),
    Kind(partial(_busy, status=429, retry_after=2), weight=3),
    Kind(partial(_busy, status=503, retry_after=1), weight=3),
)
