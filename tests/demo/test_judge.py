"""The demonstration's judge: a polite log passes, and every way of breaking a law is found."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from robotgate.cli.demo import conclude
from robotgate.cli.output import Screen
from robotgate.demo.crawl import Run
from robotgate.demo.judge import judge
from robotgate.demo.servers import Visit
from robotgate.demo.sites import ROBOTS_PATH, Site, draw_plan

if TYPE_CHECKING:
    from collections.abc import Callable

    Log = list[Visit]

PLAN: Final = draw_plan(1, 100)
BUSY: Final = 0.01
"""Seconds that each answer takes."""


def _site(story: str) -> Site:
    return next(site for site in PLAN.sites if site.story.startswith(story))


PLAIN: Final = _site("limit: 429 alone")
PATIENT: Final = _site("Crawl-delay: 1.5")
BUSY_SITE: Final = _site("429")
SIGNED: Final = _site("asks for signatures")


def _log() -> Log:
    """What the server would log of a crawler that breaks nothing."""
    visits: Log = []
    for host in dict.fromkeys(site.host for site in PLAN.sites):
        sites = [site for site in PLAN.sites if site.host == host]
        delay = max(site.delay for site in sites)
        at = 1000.0
        for site in sites:
            borrowers = sum(
                other.robots.headers.get("Location") == site.url(ROBOTS_PATH) for other in PLAN.sites
            )
            for _ in range(1 + borrowers):
                visits.append(_visit(site, ROBOTS_PATH, at))
                at += BUSY + delay
        for site in sites:
            # After the robots.txt of every other host, to which this one may redirect.
            at += 10.0
            for page in site.pages:
                if page.is_open:
                    visits.append(_visit(site, page.path, at))
                    at += BUSY + max(delay, float(page.answer.headers.get("Retry-After", 0)))
    return visits


def _visit(site: Site, path: str, at: float = 2000.0) -> Visit:
    return Visit(site=site.name, path=path, started_at=at, ended_at=at + BUSY, status=200)


def _path(site: Site, *, is_open: bool = True, has: str = "") -> str:
    return next(page.path for page in site.pages if page.is_open == is_open and has in page.path)


def _moved(log: Log, site: Site, path: str, at: float) -> Log:
    """The log with one request at another time."""
    return [*_without(log, site, path), _visit(site, path, at)]


def _without(log: Log, site: Site, path: str | None = None) -> Log:
    """The log without the requests for a path, or for anything, of one site."""
    return [visit for visit in log if visit.site != site.name or path not in {None, visit.path}]


def _last_page_early(log: Log) -> Log:
    last = max((visit for visit in log if visit.site == PATIENT.name), key=lambda visit: visit.started_at)
    return _moved(log, PATIENT, last.path, last.started_at - 0.001)


def _retry_after_broken(log: Log) -> Log:
    (end,) = (v.ended_at for v in log if (v.site, v.path) == (BUSY_SITE.name, "/news/busy"))
    return [*log, _visit(BUSY_SITE, _path(BUSY_SITE), end + 1.9)]


def _ports_apart(log: Log) -> Log:
    site = _site("one pace")
    other_end = max(visit.ended_at for visit in log if visit.site == site.host)
    return [*log, _visit(site, _path(site), other_end + 0.1)]


BREACHES: Final[dict[str, tuple[Callable[[Log], Log], str, str]]] = {
    "a closed page": (
        lambda log: [*log, _visit(PLAIN, _path(PLAIN, is_open=False))],
        "limit: 429 alone",
        "was fetched, but the site does not allow it",
    ),
    "robots.txt twice": (
        lambda log: [*log, _visit(PLAIN, ROBOTS_PATH)],
        "limit: 429 alone",
        "robots.txt was requested 2 times",
    ),
    "robots.txt of a site that lends it, twice": (
        lambda log: [*log, _visit(_site("parking host"), ROBOTS_PATH)],
        "parking host",
        "robots.txt was requested 2 times",
    ),
    "a closed site not visited at all": (
        lambda log: _without(log, _site("Disallow: /")),
        "Disallow: /",
        "robots.txt was requested 0 times",
    ),
    "a page before robots.txt": (
        lambda log: _moved(log, PLAIN, _path(PLAIN), 990.0),
        "limit: 429 alone",
        "before robots.txt had been answered",
    ),
    "a millisecond too early": (
        _last_page_early,
        "Crawl-delay: 1.5",
        "came 1.4990 s after the host's last answer, not 1.5 s",
    ),
    "two requests at once": (
        lambda log: [replace(v, ended_at=v.ended_at + 5.0) if v.site == PLAIN.name else v for v in log],
        "limit: 429 alone",
        "s after the host's last answer, not 0.15 s",
    ),
    "two ports of a host at two paces": (
        _ports_apart,
        "one pace",
        "came 0.1000 s after the host's last answer, not 0.2 s",
    ),
    "Retry-After not kept": (
        _retry_after_broken,
        "429",
        "came 0.1000 s before the pause after a 429 or 503 was over",
    ),
    "no pause after a bare 429": (
        lambda log: [
            replace(v, status=429) if (v.site, v.path) == (PLAIN.name, _path(PLAIN)) else v for v in log
        ],
        "limit: 429 alone",
        "came 0.1500 s before the pause after a 429 or 503 was over",
    ),
    "an open page left out": (
        lambda log: _without(log, _site("redirects within"), "/moved/1"),
        "redirects within",
        "/moved/1 was not fetched, but it is open",
    ),
    "a page without the signature that it asks for": (
        lambda log: [
            *_without(log, SIGNED, _path(SIGNED)),
            *(replace(v, status=403) for v in log if (v.site, v.path) == (SIGNED.name, _path(SIGNED))),
        ],
        "asks for signatures",
        "was requested without a valid signature",
    ),
    "a page that does not exist": (
        lambda log: [*log, _visit(PLAIN, "/guessed")],
        "limit: 429 alone",
        "/guessed was requested, but there is no such page",
    ),
}


def test_a_polite_log_is_clean() -> None:
    """Nothing is found where nothing was broken, and the counts are the log's."""
    pages = [page for site in PLAN.sites for page in site.pages]

    sites = judge(PLAN, _log())

    assert [site.broken for site in sites if site.broken] == []
    assert sum(site.pages for site in sites) == sum(page.is_open for page in pages)
    assert sum(site.blocked for site in sites) == sum(not page.is_open for page in pages)
    assert {site.robots_requests for site in sites} == {1}
    assert sum(site.robots_requests_for_others for site in sites) == 5
    assert _report(_log(), width=100)[0] == 0


@pytest.mark.parametrize("name", BREACHES)
def test_every_breach_is_found(name: str) -> None:
    """It is found at the site that suffered it and at no other, it is printed, and the exit status is 1."""
    breach, story, finding = BREACHES[name]
    log = breach(_log())

    broken = {site.site: site.broken for site in judge(PLAN, log) if site.broken}

    assert set(broken) == {_site(story).name}
    assert any(finding in text for text in broken[_site(story).name]), broken
    status, printed = _report(log, width=120)
    assert status == 1
    assert f"BROKEN  {_site(story).name}: " in printed
    assert "nothing broken" not in printed


def test_an_empty_log_is_no_success() -> None:
    """A crawler that fetches nothing has broken something as well."""
    assert _report([], width=100)[0] == 1


def _report(visits: Log, *, width: int) -> tuple[int, str]:
    """The exit status, and what a terminal of so many columns shows."""
    screen, printed = Screen(), io.StringIO()
    screen.file, screen.width, screen.folds = printed, width, True
    status = conclude(Run(plan=PLAN, visits=tuple(visits), worst_lag=0.0, elapsed=1.0), screen)
    return status, printed.getvalue()
