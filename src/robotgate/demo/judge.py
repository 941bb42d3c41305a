"""Judges a demonstration: compares the log of the server with the plan of the sites, not with counts of the crawler."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from robotgate.demo.sites import FLOOR_DELAY, ROBOTS_PATH

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from robotgate.demo.servers import Visit
    from robotgate.demo.sites import Plan, Site

ROUNDING: Final = 1e-6
"""Seconds by which a gap may seem too short because clock readings are rounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteReport:
    """What the server saw of one site."""

    site: str
    """`Site.name`."""
    story: str
    robots_requests: int
    """Requests for its robots.txt on its own account."""
    robots_requests_for_others: int
    """Requests for its robots.txt because the robots.txt of another site redirects there."""
    pages: int
    """Requests for pages."""
    blocked: int
    """Closed pages that were not requested."""
    told_off: int
    """How many requests it answered with a bare 429."""
    delay: float
    """Seconds that must pass between two requests."""
    smallest_gap: float | None
    """The least seconds from the end of an answer of the host to the next request, where the site's own delay holds;
    None if there was no such request."""
    broken: Sequence[str]
    """One sentence for each rule or delay that was broken."""


def judge(plan: Plan, visits: Iterable[Visit]) -> list[SiteReport]:
    """Compare a log with its plan."""
    ordered = sorted(visits, key=lambda visit: visit.started_at)
    seen: dict[str, list[Visit]] = {site.name: [] for site in plan.sites}
    for visit in ordered:
        seen[visit.site].append(visit)
    # Requests for each site's robots.txt that come from redirects of other sites' robots.txt.
    redirects = Counter(
        site.robots.headers.get("Location")
        for site in plan.sites
        for visit in seen[site.name]
        if visit.path == ROBOTS_PATH
    )
    for_others = {site.name: redirects[site.url(ROBOTS_PATH)] for site in plan.sites}
    broken = {site.name: _broken_rules(site, seen[site.name], for_others[site.name]) for site in plan.sites}
    gaps: dict[str, list[float]] = defaultdict(list)
    for host in {site.host for site in plan.sites}:
        sites = {site.name: site for site in plan.sites if site.host == host}
        _judge_pace(sites, [visit for visit in ordered if visit.site in sites], broken, gaps)
    reports = []
    for site in plan.sites:
        paths = Counter(visit.path for visit in seen[site.name])
        reports.append(
            SiteReport(
                site=site.name,
                story=site.story,
                robots_requests=paths[ROBOTS_PATH] - for_others[site.name],
                robots_requests_for_others=for_others[site.name],
                pages=paths.total() - paths[ROBOTS_PATH],
                blocked=sum(not page.is_open and not paths[page.path] for page in site.pages),
                told_off=sum(visit.status == 429 for visit in seen[site.name]) if site.limit else 0,
                delay=site.delay,
                smallest_gap=min(gaps[site.name], default=None),
                broken=broken[site.name],
            )
        )
    return reports


def _broken_rules(site: Site, visits: Sequence[Visit], for_others: int) -> list[str]:
    """What is wrong with the choice of requests, and with their order."""
    paths = Counter(visit.path for visit in visits)
    own = paths.pop(ROBOTS_PATH, 0) - for_others
    findings = [] if own == 1 else [f"its robots.txt was requested {max(own, 0)} times, not once"]
    known = {page.path for page in site.pages}
    findings += [f"{path} was requested, but there is no such page" for path in paths if path not in known]
    for page in site.pages:
        if page.is_open and not paths[page.path]:
            findings.append(f"{page.path} was not fetched, but it is open")
        elif not page.is_open and paths[page.path]:
            findings.append(f"{page.path} was fetched, but the site does not allow it")
    known_at = min((visit.ended_at for visit in visits if visit.path == ROBOTS_PATH), default=float("inf"))
    for visit in visits:
        if visit.path != ROBOTS_PATH and visit.started_at < known_at:
            findings.append(f"{visit.path} was requested before robots.txt had been answered")
        if visit.path != ROBOTS_PATH and visit.status == 403:
            findings.append(f"{visit.path} was requested without a valid signature")
    return findings


def _judge_pace(
    sites: Mapping[str, Site],
    visits: Iterable[Visit],
    broken: Mapping[str, list[str]],
    gaps: Mapping[str, list[float]],
) -> None:
    """Find what came too early at one host, and note the gaps.

    Args:
        sites: those of the host, by name.
        visits: those of the host, by time.
        broken: takes what was found, by site.
        gaps: takes the seconds between requests where the site's own delay holds, by site.
    """
    pages = {(site.name, page.path): page for site in sites.values() for page in site.pages}
    free_at = blocked_until_at = float("-inf")
    delay = FLOOR_DELAY
    for visit in visits:
        # A site's delay is known once its robots.txt has been read, which its pages must wait for. Before the first
        # page, only the crawler's own delay holds.
        if visit.path != ROBOTS_PATH:
            delay = max(delay, sites[visit.site].delay)
        gap = visit.started_at - free_at
        if gap < delay - ROUNDING:
            broken[visit.site].append(
                f"{visit.path} came {gap:.4f} s after the host's last answer, not {delay:g} s"
            )
        if delay >= sites[visit.site].delay and gap != float("inf"):
            gaps[visit.site].append(gap)
        if visit.started_at < blocked_until_at - ROUNDING:
            early = blocked_until_at - visit.started_at
            broken[visit.site].append(
                f"{visit.path} came {early:.4f} s before the pause after a 429 or 503 was over"
            )
        free_at = max(free_at, visit.ended_at)
        page = pages.get((visit.site, visit.path))
        if page is not None and "Retry-After" in page.answer.headers:
            pause = float(page.answer.headers["Retry-After"])
            blocked_until_at = max(blocked_until_at, visit.ended_at + pause)
        elif visit.status == 429:
            # It says no more. What it bears is learned; twice the delay is the least pause.
            blocked_until_at = max(blocked_until_at, visit.ended_at + 2 * delay)
