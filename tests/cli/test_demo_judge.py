"""The demonstration's judge: a polite log passes, and every way of breaking it is found."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
from rich.console import Console

from robotgate.cli._demo import Run
from robotgate.cli._demo_command import conclude
from robotgate.cli._demo_crawl import CONTACT
from robotgate.cli._demo_judge import judge
from robotgate.cli._demo_plan import draw_plan
from robotgate.cli._demo_sites import ROBOTS_PATH, Page, Site, Visit, agent_of, worker_of
from robotgate.cli._progress import Tally

if TYPE_CHECKING:
    from collections.abc import Callable

PLAN: Final = draw_plan(1, 100)
BUSY: Final = 0.01


def _log() -> list[Visit]:
    """What the servers of `PLAN` would log of a crawler that breaks nothing."""
    visits: list[Visit] = []
    for host in dict.fromkeys(site.host for site in PLAN.sites):
        visits += _host_log([site for site in PLAN.sites if site.host == host])
    return visits


def _host_log(sites: list[Site]) -> list[Visit]:
    visits: list[Visit] = []
    at = 1000.0
    delay = max(site.delay for site in sites)
    for site in sites:
        for _ in range(1 + _borrowers(site)):
            visits.append(_visit(site, ROBOTS_PATH, at))
            at += BUSY + delay
    for site in sites:
        # Where robots.txt stands elsewhere, it is read after the redirect; pages come well after both.
        at += 10.0
        for page in site.pages:
            if page.is_open:
                visits.append(_visit(site, page.path, at))
                at += BUSY + max(delay, page.retry_after or 0)
    return visits


def _borrowers(site: Site) -> int:
    return sum(other.robots.location == site.url(ROBOTS_PATH) for other in PLAN.sites)


def _visit(site: Site, path: str, at: float) -> Visit:
    return Visit(site=site.name, path=path, started_at=at, ended_at=at + BUSY, status=200)


def _site(story: str) -> Site:
    return next(site for site in PLAN.sites if site.story.startswith(story))


def _page(site: Site, *, is_open: bool) -> Page:
    return next(page for page in site.pages if page.is_open == is_open)


def _late(site: Site, path: str) -> Visit:
    return _visit(site, path, 2000.0)


def _closed_page(visits: list[Visit]) -> list[Visit]:
    site = _site("ordinary rules")
    return [*visits, _late(site, _page(site, is_open=False).path)]


def _page_of_closed_site(visits: list[Visit]) -> list[Visit]:
    site = _site("robots.txt: 500")
    return [*visits, _late(site, site.pages[0].path)]


def _closed_target_of_redirect(visits: list[Visit]) -> list[Visit]:
    site = _site("where they lead")
    return [*visits, _late(site, next(page.path for page in site.pages if page.path.endswith("/trap")))]


def _second_robots(visits: list[Visit]) -> list[Visit]:
    return [*visits, _late(_site("ordinary rules"), ROBOTS_PATH)]


def _second_robots_of_lender(visits: list[Visit]) -> list[Visit]:
    return [*visits, _late(_site("parking host"), ROBOTS_PATH)]


def _no_robots(visits: list[Visit]) -> list[Visit]:
    name = _site("ordinary rules").name
    return [visit for visit in visits if (visit.site, visit.path) != (name, ROBOTS_PATH)]


def _unvisited_site(visits: list[Visit]) -> list[Visit]:
    name = _site("Disallow: /").name
    return [visit for visit in visits if visit.site != name]


def _page_before_robots(visits: list[Visit]) -> list[Visit]:
    site = _site("ordinary rules")
    early = _page(site, is_open=True).path
    moved = [visit for visit in visits if (visit.site, visit.path) != (site.name, early)]
    return [*moved, _visit(site, early, 990.0)]


def _short_gap(visits: list[Visit]) -> list[Visit]:
    return _hurried(visits, _site("Crawl-delay: 1.5").name, 0.001)


def _short_gap_after_robots(visits: list[Visit]) -> list[Visit]:
    site = _site("Crawl-delay: 1.5")
    first = next(visit for visit in visits if visit.site == site.name and visit.path != ROBOTS_PATH)
    robots = next(visit for visit in visits if visit.site == site.name and visit.path == ROBOTS_PATH)
    hurried = replace(first, started_at=robots.ended_at + 1.0, ended_at=robots.ended_at + 1.0)
    return [hurried if visit is first else visit for visit in visits]


def _two_at_once(visits: list[Visit]) -> list[Visit]:
    name = _site("ordinary rules").name
    return [
        replace(visit, ended_at=visit.ended_at + 5.0) if visit.site == name else visit for visit in visits
    ]


def _two_paces(visits: list[Visit]) -> list[Visit]:
    site = _site("one pace")
    other = max((visit for visit in visits if visit.site == site.host), key=lambda visit: visit.started_at)
    return [*visits, replace(_late(site, _page(site, is_open=True).path), started_at=other.ended_at + 0.1)]


def _retry_after_not_kept(visits: list[Visit]) -> list[Visit]:
    site = _site("429")
    busy = next(visit for visit in visits if visit.site == site.name and visit.path == "/news/busy")
    return [*visits, _visit(site, _page(site, is_open=True).path, busy.ended_at + 1.9)]


def _open_page_left_out(visits: list[Visit]) -> list[Visit]:
    return [
        visit for visit in visits if (visit.site, visit.path) != (_site("redirects within").name, "/moved/1")
    ]


def _page_nobody_has(visits: list[Visit]) -> list[Visit]:
    return [*visits, _late(_site("ordinary rules"), "/guessed")]


def _hurried(visits: list[Visit], name: str, by: float) -> list[Visit]:
    """The last request of a site, come too early."""
    last = max((visit for visit in visits if visit.site == name), key=lambda visit: visit.started_at)
    return [replace(visit, started_at=visit.started_at - by) if visit is last else visit for visit in visits]


def test_a_polite_log_is_clean() -> None:
    """Nothing is found where nothing was broken, and the counts are the log's."""
    report = judge(PLAN, _log())

    assert [site.findings for site in report.sites if site.findings] == []
    assert report.is_clean
    assert sum(site.pages for site in report.sites) == sum(
        page.is_open for site in PLAN.sites for page in site.pages
    )
    assert sum(site.blocked for site in report.sites) == sum(
        not page.is_open for site in PLAN.sites for page in site.pages
    )
    assert {site.own_robots for site in report.sites} == {1}
    assert sum(site.lent_robots for site in report.sites) == 5


@pytest.mark.parametrize(
    ("breach", "story", "finding"),
    [
        (_closed_page, "ordinary rules", "was fetched though its rules close it"),
        (_page_of_closed_site, "robots.txt: 500", "was fetched though its robots.txt could not be had"),
        (_closed_target_of_redirect, "where they lead", "was fetched though its rules close it"),
        (_second_robots, "ordinary rules", "robots.txt was asked for 2 times"),
        (_second_robots_of_lender, "parking host", "robots.txt was asked for 2 times"),
        (_no_robots, "ordinary rules", "robots.txt was asked for 0 times"),
        (_unvisited_site, "Disallow: /", "robots.txt was asked for 0 times"),
        (_page_before_robots, "ordinary rules", "before robots.txt had been answered"),
        (_short_gap, "Crawl-delay: 1.5", "came 1.4990 s after the host's last answer, not 1.5 s"),
        (
            _short_gap_after_robots,
            "Crawl-delay: 1.5",
            "came 1.0000 s after the host's last answer, not 1.5 s",
        ),
        (_two_at_once, "ordinary rules", "s after the host's last answer, not 0.15 s"),
        (_two_paces, "one pace", "came 0.1000 s after the host's last answer, not 0.2 s"),
        (_retry_after_not_kept, "429", "came 0.1000 s before Retry-After was over"),
        (_open_page_left_out, "redirects within", "/moved/1 was not fetched, though it is open"),
        (_page_nobody_has, "ordinary rules", "/guessed was asked for, which no page is"),
    ],
)
def test_every_breach_is_found(
    breach: Callable[[list[Visit]], list[Visit]], story: str, finding: str
) -> None:
    """It is laid to the site that suffered it, and the program exits with 1."""
    visits = breach(_log())

    broken = {site.site.name: site.findings for site in judge(PLAN, visits).sites if site.findings}

    assert set(broken) == {_site(story).name}
    assert any(finding in text for text in broken[_site(story).name]), broken
    assert _exit_status(visits) == 1


def test_nothing_broken_exits_with_0() -> None:
    """As a script wants to know it."""
    assert _exit_status(_log()) == 0


def test_pages_are_counted_by_who_asked() -> None:
    """By the name on the request: robots.txt apart, and of every worker, idle ones too."""
    names = [agent_of(number % 2 + 1) for number in range(len(_log()))]
    visits = [
        replace(visit, worker=worker_of(f"{name} (+{CONTACT})"))
        for visit, name in zip(_log(), names, strict=True)
    ]

    first, second, idle = judge(PLAN, visits).shares(3)

    assert first.pages + second.pages + first.robots + second.robots == len(visits)
    assert first.robots == [visit.worker for visit in visits if visit.path == ROBOTS_PATH].count(1)
    assert 30 <= first.hosts <= 34
    assert (idle.worker, idle.hosts, idle.pages, idle.robots) == (3, 0, 0, 0)
    assert worker_of("Somebody/1.2") == 0


def test_an_empty_log_is_no_success() -> None:
    """A crawler that refuses everything has broken something as well."""
    assert _exit_status([]) == 1


def _exit_status(visits: list[Visit]) -> int:
    run = Run(plan=PLAN, visits=tuple(visits), worst_lag=0.0, tally=Tally(), elapsed=1.0)
    return conclude(run, Console(file=io.StringIO(), width=100))
