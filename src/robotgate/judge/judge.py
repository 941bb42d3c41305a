"""Judges a crawl: compares the log of the server with the plan of the sites, not with counts of the crawler."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

from robotgate.judge.sites import CHANGE_DELAY, OURS, ROBOTS_PATH, SEVERITIES, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from robotgate.judge.servers import Visit
    from robotgate.judge.sites import Access, Kind, Plan, Severity, Site

ROUNDING: Final = 1e-6
"""Seconds by which a gap may seem too short because clock readings are rounded."""
ON_ITS_WAY: Final = 0.1
"""Seconds after an answer within which a request may come that the crawler sent before it had this answer."""
EARLY: Final = 0.9
"""The share of a delay that has to pass: requests of one delay do not arrive at one distance."""
FEW: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What is known of a crawler."""

    agent: str = ""
    """Its product token. Until its first request, it may be unknown."""
    declared: frozenset[str] = frozenset()
    """What it says of itself: `OURS` for robotgate's own, ``ai-train``, ``signatures``."""
    delay: float = 0.0
    """Seconds that it keeps from the end of an answer to the next request to the host; 0: not known."""
    lag: float = 0.0
    """Seconds by which the server's clock readings were late at worst."""


class Result(StrEnum):
    """How a claim fared."""

    HELD = "held"
    BROKEN = "broken"
    UNSEEN = "not seen"
    """The crawler did not request enough to tell."""
    COUNTED = "counted"
    """Nothing could be broken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What the server saw of the sites of one kind, or of all."""

    name: str
    claim: str
    source: str
    severity: Severity
    result: Result
    sites: Sequence[str]
    """`Site.name` of each; of all sites, none."""
    robots: int
    """Requests for robots.txt, and for what it redirects to."""
    pages: int
    blocked: int
    """Closed pages that were not requested."""
    missed: int
    """Open pages that the crawler was given and did not request."""
    told_off: int
    """How many requests were answered with 429."""
    gap: float | None
    """The least seconds from the end of an answer of the host to the next request for a page; None: there was none."""
    broken: Sequence[str]
    """A sentence for each breach, with the request that is its proof."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """How a crawler fared."""

    terms: Terms
    seed: int
    rows: Sequence[Row]
    outside: Mapping[str, int]
    """Requests for names that are no sites."""
    visits: Sequence[Visit]
    """All requests, by time."""
    elapsed: float = 0.0
    """Seconds that the crawl took, the start of its processes included."""
    statuses: Sequence[int | None] = ()
    """Of its processes; None for one that was ended."""

    @property
    def score(self) -> dict[Severity, tuple[int, int]]:
        """How many claims held, and how many could be judged, by their severity."""
        judged = Counter(row.severity for row in self.rows if row.result in {Result.HELD, Result.BROKEN})
        held = Counter(row.severity for row in self.rows if row.result is Result.HELD)
        return {severity: (held[severity], judged[severity]) for severity in SEVERITIES if judged[severity]}

    def fails(self, row: Row) -> bool:
        """Whether a claim was broken that binds this crawler. Only robotgate's own has to keep the conventions."""
        is_binding = row.severity != "CONVENTION" or OURS in self.terms.declared
        return row.result is Result.BROKEN and is_binding

    @property
    def is_whole(self) -> bool:
        """Whether all held that binds the crawler."""
        return not any(map(self.fails, self.rows))


@dataclass(frozen=True, slots=True)
class Seen:
    """What a check has before it: some sites, the requests that they got by time, and who sent them."""

    kind: Kind
    sites: Sequence[Site]
    visits: Sequence[Visit]
    terms: Terms
    known: Mapping[tuple[str, str], Access]
    """What each resource is, by the site's name and the path."""

    def access(self, visit: Visit) -> Access | None:
        """What a request was for; None: there is no such page."""
        return self.known.get((visit.site, visit.path))

    @property
    def pages(self) -> list[Visit]:
        """The requests for pages."""
        return [visit for visit in self.visits if self.access(visit) != "robots"]

    def by_site(self) -> Iterator[tuple[Site, list[Visit]]]:
        """Each site with its requests."""
        seen: dict[str, list[Visit]] = defaultdict(list)
        for visit in self.visits:
            seen[visit.site].append(visit)
        for site in self.sites:
            yield site, seen[site.name]


Breaches: TypeAlias = "Iterator[tuple[Visit | None, str]]"
"""Requests, and what is wrong with each."""


def _closed(seen: Seen) -> Breaches:
    # Where every page is closed, so is what is no page.
    whole = {site.name for site in seen.sites if all(page.access == "closed" for page in site.pages)}
    for visit in seen.visits:
        access = seen.access(visit)
        if access == "closed" or (access is None and visit.site in whole):
            yield visit, "is closed to the crawler"


def _first(seen: Seen) -> Breaches:
    for _, visits in seen.by_site():
        known_at = min(
            (visit.ended_at for visit in visits if visit.path == ROBOTS_PATH), default=float("inf")
        )
        for visit in visits:
            if seen.access(visit) != "robots" and visit.started_at < known_at:
                yield visit, "was requested before robots.txt had been answered"


def _changed(seen: Seen) -> Breaches:
    asked_at = [visit.started_at for visit in seen.visits if seen.access(visit) == "robots"]
    known_at = float("inf")
    for visit in seen.visits:
        if seen.access(visit) == "robots" and visit.started_at - asked_at[0] >= CHANGE_DELAY:
            known_at = min(known_at, visit.ended_at + ON_ITS_WAY + seen.terms.lag)
        elif seen.access(visit) == "may" and visit.started_at > known_at:
            yield visit, "is closed to the crawler since it requested robots.txt again"


def _delay(seen: Seen) -> Breaches:
    delay = seen.kind.crawl_delay
    for before, visit in pairwise(seen.pages):
        gap = visit.started_at - before.started_at
        if gap + seen.terms.lag < EARLY * delay:
            yield visit, f"came {gap:.2f} s after the request before it, not {delay:g} s"


def _pause(seen: Seen) -> Breaches:
    asking = sorted((visit for visit in seen.pages if visit.pause), key=lambda visit: -visit.ended_at)
    # The latest end, less what may be missing from the pause, and that end itself.
    over_at = until_at = float("-inf")
    for visit in seen.pages:
        while asking and asking[-1].ended_at < visit.started_at - ON_ITS_WAY - seen.terms.lag:
            asked = asking.pop()
            ends = asked.ended_at + EARLY * asked.pause, asked.ended_at + asked.pause
            over_at, until_at = max((over_at, until_at), ends)
        if over_at - seen.terms.lag > visit.started_at:
            early = until_at - visit.started_at
            yield visit, f"came {early:.2f} s before the pause was over that the host had asked for"


def _limit(seen: Seen) -> Breaches:
    told = [visit for visit in seen.pages if visit.status == 429]
    if len(told) > FEW and 2 * len(told) > len(seen.pages):
        yield told[-1], f"was the last of {len(told)} requests that were told 429, of {len(seen.pages)}"


def _rate(seen: Seen) -> Breaches:
    pages, delay = seen.pages, seen.kind.crawl_delay
    took = pages[-1].started_at - pages[0].started_at if pages else 0.0
    if took + seen.terms.lag < EARLY * delay * (len(pages) - 1):
        yield pages[-1], f"was the last of {len(pages)} requests within {took:.2f} s, not one in {delay:g} s"


def _signed(seen: Seen) -> Breaches:
    for visit in seen.pages:
        if visit.status == 403:
            yield visit, "was requested without a valid signature"


def _name(seen: Seen) -> Breaches:
    for visit in seen.visits:
        if seen.terms.agent.casefold() not in visit.agent.casefold():
            yield visit, f"has the User-Agent {visit.agent!r}, without {seen.terms.agent}"


def _kept(seen: Seen) -> Breaches:
    lent = {site.robots.headers.get("Location") for site in seen.sites}
    for site, visits in seen.by_site():
        pages = sum(visit.path != ROBOTS_PATH for visit in visits)
        asked = len(visits) - pages
        # Where others redirect to it, it cannot be told for which of them it was requested.
        if asked > max(FEW, pages) and site.root + ROBOTS_PATH not in lent:
            yield None, f"{site.name}{ROBOTS_PATH} was requested {asked} times, for {pages} pages"


def _once(seen: Seen) -> Breaches:
    # A robots.txt to which those of others redirect is requested for each of them as well.
    redirects = Counter(
        site.robots.headers.get("Location")
        for site, visits in seen.by_site()
        for visit in visits
        if visit.path == ROBOTS_PATH
    )
    for site, visits in seen.by_site():
        own = sum(visit.path == ROBOTS_PATH for visit in visits) - redirects[site.root + ROBOTS_PATH]
        # What a connection did not bring is asked for again, nothing comes of a bad certificate, and workers do not
        # tell each other of a 503, which may be the proxy's.
        is_there = not (site.robots.is_silent or site.kind.certificate or site.robots.status == 503)
        is_its_own = site.robots.headers.get("Location") != site.root + ROBOTS_PATH
        if own != 1 and is_there and is_its_own and any(page.is_asked for page in site.pages):
            yield None, f"{site.name}{ROBOTS_PATH} was requested {max(own, 0)} times, not once"


def _complete(seen: Seen) -> Breaches:
    asked = {(visit.site, visit.path) for visit in seen.visits}
    for (site, path), access in seen.known.items():
        if access == "open" and (site, path) not in asked:
            yield None, f"{site}{path} was not requested, but it is open"
    for visit in seen.visits:
        if seen.access(visit) is None:
            yield visit, "was requested, but there is no such page"


def _apart(seen: Seen) -> Breaches:
    sites = {site.name: site for site in seen.sites}
    by_host: dict[str, list[Visit]] = defaultdict(list)
    for visit in seen.visits:
        by_host[sites[visit.site].host].append(visit)
    for visits in by_host.values():
        free_at = blocked_until_at = float("-inf")
        delay = seen.terms.delay
        for visit in visits:
            # A site's delay is known once its robots.txt has been read, which its pages must wait for. Before the first
            # page, only the crawler's own delay holds.
            if seen.access(visit) != "robots":
                delay = max(delay, sites[visit.site].kind.crawl_delay)
            gap = visit.started_at - free_at
            if gap < delay - ROUNDING:
                yield visit, f"came {gap:.4f} s after the host's last answer, not {delay:g} s"
            if visit.started_at < blocked_until_at - ROUNDING:
                early = blocked_until_at - visit.started_at
                yield visit, f"came {early:.4f} s before the pause was over that the host had asked for"
            free_at = max(free_at, visit.ended_at)
            # After a bare 429, twice the delay is the least pause.
            pause = visit.pause or (2 * delay if visit.status == 429 else 0)
            blocked_until_at = max(blocked_until_at, visit.ended_at + pause)


CHECKS: Final[Mapping[str, Callable[[Seen], Breaches]]] = {
    check.__name__.removeprefix("_"): check
    for check in (
        *(_apart, _changed, _closed, _complete, _delay, _first, _kept),
        *(_limit, _name, _once, _pause, _rate, _signed),
    )
}
"""What finds the breaches of a claim, by the name that the table has for it."""


def judge(
    plan: Plan, visits: Iterable[Visit], terms: Terms, tunnels: Mapping[str, int] | None = None
) -> Card:
    """Compare a log with its plan.

    Args:
        tunnels: the names for which a CONNECT asked, and how often: TLS may have come no further.
    """
    tunnels = tunnels or {}
    names = {site.name for site in plan.sites}
    ordered = sorted(visits, key=lambda visit: visit.started_at)
    inside = [visit for visit in ordered if visit.site in names]
    outside = Counter(tunnels) + Counter(visit.site for visit in ordered if visit.status == 502)
    known = {(site.name, page.path): page.access for site in plan.sites for page in site.resources}
    rows, began_at = [], ordered[0].started_at if ordered else 0.0
    everywhere = table("everywhere")
    for kind, sites in (*plan.groups, *((kind, plan.sites) for kind in everywhere)):
        if kind.declared is None or not terms.declared.isdisjoint({kind.declared, OURS}):
            own = {site.name for site in sites}
            seen = Seen(kind, sites, [visit for visit in inside if visit.site in own], terms, known)
            row = _row(seen, began_at, is_met=not own.isdisjoint(tunnels))
            rows.append(replace(row, sites=()) if kind in everywhere else row)
    strangers = {name: count for name, count in outside.items() if name not in names}
    return Card(terms=terms, seed=plan.seed, rows=rows, outside=strangers, visits=ordered)


def _row(seen: Seen, began_at: float, *, is_met: bool) -> Row:
    """What became of a claim.

    Args:
        is_met: whether the crawler has begun a connection with TLS, even if no request came.
    """
    kind, pages = seen.kind, seen.pages
    asked = {(visit.site, visit.path) for visit in pages}
    left = [page for site in seen.sites for page in site.pages if (site.name, page.path) not in asked]
    broken = [
        text
        if visit is None
        else f"{visit.started_at - began_at:.2f} s {visit.status} {visit.site}{visit.path} {text}"
        for visit, text in CHECKS[kind.breaks](seen)
    ]
    # A site with open pages of which none was requested proves nothing.
    has_open = any(page.access == "open" for site in seen.sites for page in site.pages)
    proof: Sequence[Visit] = pages if has_open else seen.visits
    if kind.breaks in {"delay", "limit", "rate"}:
        proof = pages[1:]
    elif kind.breaks == "pause":
        proof = [visit for visit in pages if visit.pause]
    elif kind.breaks == "changed" and len(pages) == len(seen.visits):
        # It has read no robots.txt.
        proof = []
    if kind.severity == "MAY":
        result = Result.COUNTED
    elif broken:
        result = Result.BROKEN
    else:
        result = Result.HELD if proof or (is_met and kind.certificate) else Result.UNSEEN
    gaps = (
        visit.started_at - before.ended_at
        for _, visits in seen.by_site()
        for before, visit in pairwise(visits)
        if seen.access(visit) != "robots"
    )
    return Row(
        name=kind.name,
        claim=kind.claim,
        source=kind.source,
        severity=kind.severity,
        result=result,
        sites=[site.name for site in seen.sites],
        robots=len(seen.visits) - len(pages),
        pages=len(pages),
        blocked=sum(page.access == "closed" for page in left),
        missed=sum(page.access == "open" and page.is_asked for page in left),
        told_off=sum(visit.status == 429 for visit in pages),
        gap=min(gaps, default=None),
        broken=broken,
    )
