"""Judges a demonstration by what the servers logged and what the plan says, and by nothing the crawler claims."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from robotgate.cli._demo_sites import FLOOR_DELAY, ROBOTS_PATH, Page, Plan, Site, Visit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ROUNDING: Final = 1e-6
"""Seconds by which a gap may seem short through the rounding of clock readings."""

Findings: TypeAlias = dict[str, list[str]]
"""What was broken, by `Site.name`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteReport:
    """What one site's server saw."""

    site: Site
    own_robots: int
    """Requests for its robots.txt on its own account."""
    lent_robots: int
    """Requests for its robots.txt to which other sites' robots.txt redirected."""
    pages: int
    """Requests for pages."""
    blocked: int
    """Closed pages that nobody asked for."""
    smallest_gap: float | None
    """Seconds from the end of one answer of the host to the next request, the least of those that the site's own delay
    governs; None where there was no such request."""
    findings: tuple[str, ...]
    """What was broken; empty when all is well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one of the crawler's processes asked for."""

    worker: int
    hosts: int
    pages: int
    robots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What all servers saw."""

    sites: tuple[SiteReport, ...]
    visits: tuple[Visit, ...]

    @property
    def is_clean(self) -> bool:
        """Whether no rule and no delay was broken."""
        return not any(report.findings for report in self.sites)

    def shares(self, workers: int) -> list[Share]:
        """What each of so many processes asked for, by the name that its requests bore."""
        hosts = {report.site.name: report.site.host for report in self.sites}
        return [_share(number, self.visits, hosts) for number in range(1, workers + 1)]


@dataclass(frozen=True, slots=True)
class _Gap:
    """What lay between a request and whatever its host did last."""

    visit: Visit
    seconds: float
    asked: float


def judge(plan: Plan, visits: Iterable[Visit]) -> Report:
    """Hold a log against its plan."""
    ordered = tuple(sorted(visits, key=lambda visit: visit.started_at))
    by_site: dict[str, list[Visit]] = {site.name: [] for site in plan.sites}
    for visit in ordered:
        by_site[visit.site].append(visit)
    gaps = [gap for sites in _hosts(plan) for gap in _gaps(sites, ordered)]
    findings: Findings = defaultdict(list)
    for site in plan.sites:
        findings[site.name] += _broken_rules(site, by_site[site.name])
    _find_short_gaps(gaps, findings)
    for sites in _hosts(plan):
        _find_unkept_blocks(sites, ordered, findings)
    lent = _lent_robots(plan, by_site)
    reports = [_site_report(site, by_site[site.name], lent[site.name], gaps, findings) for site in plan.sites]
    return Report(sites=tuple(reports), visits=ordered)


def _share(worker: int, visits: Iterable[Visit], hosts: Mapping[str, str]) -> Share:
    mine = [visit for visit in visits if visit.worker == worker]
    robots = sum(visit.path == ROBOTS_PATH for visit in mine)
    return Share(
        worker=worker,
        hosts=len({hosts[visit.site] for visit in mine}),
        pages=len(mine) - robots,
        robots=robots,
    )


def _site_report(
    site: Site, visits: Sequence[Visit], lent: int, gaps: Iterable[_Gap], findings: Findings
) -> SiteReport:
    own = sum(visit.path == ROBOTS_PATH for visit in visits) - lent
    seen = {visit.path for visit in visits}
    broken = findings[site.name]
    if own != 1:
        broken.insert(0, f"its robots.txt was asked for {max(own, 0)} times, not once")
    return SiteReport(
        site=site,
        own_robots=own,
        lent_robots=lent,
        pages=sum(visit.path != ROBOTS_PATH for visit in visits),
        blocked=sum(not page.is_open and page.path not in seen for page in site.pages),
        smallest_gap=min(
            (gap.seconds for gap in gaps if gap.visit.site == site.name and gap.asked >= site.delay),
            default=None,
        ),
        findings=tuple(broken),
    )


def _broken_rules(site: Site, visits: Sequence[Visit]) -> list[str]:
    pages: dict[str, Page] = {page.path: page for page in site.pages}
    seen = Counter(visit.path for visit in visits if visit.path != ROBOTS_PATH)
    why = "though its robots.txt could not be had" if site.is_closed else "though its rules close it"
    findings = [f"{path} was fetched {why}" for path in seen if path in pages and not pages[path].is_open]
    findings += [f"{path} was asked for, which no page is" for path in seen if path not in pages]
    findings += [
        f"{page.path} was not fetched, though it is open" for page in site.pages if _is_missing(page, seen)
    ]
    return findings + _pages_before_robots(visits)


def _is_missing(page: Page, seen: Counter[str]) -> bool:
    return page.is_open and not seen[page.path]


def _pages_before_robots(visits: Sequence[Visit]) -> list[str]:
    known_at = min((visit.ended_at for visit in visits if visit.path == ROBOTS_PATH), default=float("inf"))
    early = [visit for visit in visits if visit.path != ROBOTS_PATH and visit.started_at < known_at]
    return [f"{visit.path} was asked for before robots.txt had been answered" for visit in early]


def _lent_robots(plan: Plan, by_site: dict[str, list[Visit]]) -> Counter[str]:
    """How many robots.txt requests each site owes to redirects, by the redirecting answers that were sent."""
    lenders = {site.url(ROBOTS_PATH): site.name for site in plan.sites}
    lent: Counter[str] = Counter()
    for site in plan.sites:
        if site.robots.location is not None:
            sent = sum(visit.path == ROBOTS_PATH for visit in by_site[site.name])
            lent[lenders[site.robots.location]] += sent
    return lent


def _hosts(plan: Plan) -> list[dict[str, Site]]:
    """The sites of each host, by name."""
    hosts: dict[str, dict[str, Site]] = defaultdict(dict)
    for site in plan.sites:
        hosts[site.host][site.name] = site
    return list(hosts.values())


def _gaps(sites: dict[str, Site], visits: Iterable[Visit]) -> list[_Gap]:
    gaps: list[_Gap] = []
    free_at: float | None = None
    known_delay = FLOOR_DELAY
    for visit in visits:
        if visit.site not in sites:
            continue
        if visit.path != ROBOTS_PATH:
            # A site's delay is known once its robots.txt has been read, which its pages have to wait for; before
            # its first page a host owes nobody more than the crawler's own delay.
            known_delay = max(known_delay, sites[visit.site].delay)
        if free_at is not None:
            gaps.append(_Gap(visit, visit.started_at - free_at, known_delay))
        free_at = max(visit.ended_at, free_at or 0.0)
    return gaps


def _find_short_gaps(gaps: Iterable[_Gap], findings: Findings) -> None:
    for gap in gaps:
        if gap.seconds < gap.asked - ROUNDING:
            findings[gap.visit.site].append(
                f"{gap.visit.path} came {gap.seconds:.4f} s after the host's last answer, not {gap.asked:g} s"
            )


def _find_unkept_blocks(sites: dict[str, Site], visits: Iterable[Visit], findings: Findings) -> None:
    pauses = {(name, page.path): page.retry_after for name, site in sites.items() for page in site.pages}
    blocked_until_at = 0.0
    for visit in visits:
        if visit.site not in sites:
            continue
        if visit.started_at < blocked_until_at - ROUNDING:
            early = blocked_until_at - visit.started_at
            findings[visit.site].append(f"{visit.path} came {early:.4f} s before Retry-After was over")
        blocked_until_at = max(blocked_until_at, visit.ended_at + (pauses.get((visit.site, visit.path)) or 0))
