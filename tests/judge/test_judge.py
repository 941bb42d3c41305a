"""The judge: the log of a polite crawler passes, and every way of breaking a claim is found."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from robotgate.judge.judge import Card, Result, Terms, judge
from robotgate.judge.servers import Visit
from robotgate.judge.sites import OURS, ROBOTS_PATH, Access, Kind, Site, draw_plan

if TYPE_CHECKING:
    from collections.abc import Callable

    Log = list[Visit]

PLAN: Final = draw_plan(1, 500)
AGENT: Final = "RobotgateDemo"
TERMS: Final = Terms(agent=AGENT, declared=frozenset({OURS}), delay=0.15)
STRANGER: Final = Terms(agent=AGENT)
BUSY: Final = 0.01
"""Seconds that each answer takes."""
GROUPS: Final = {kind.name: sites for kind, sites in PLAN.groups}
RED: Final = Result.BROKEN


def _site(name: str) -> Site:
    return GROUPS[name][0]


def _log() -> Log:
    """What the server would log of a crawler that breaks nothing, and leaves nothing out."""
    visits: Log = []
    lent = [site.robots.headers.get("Location") for site in PLAN.sites]
    for host in dict.fromkeys(site.host for site in PLAN.sites if not site.kind.certificate):
        sites = [site for site in PLAN.sites if site.host == host]
        delay = max(TERMS.delay, *(site.kind.crawl_delay for site in sites))
        at = 1000.0
        for site in sites:
            for path in (page.path for page in site.resources if page.access == "robots"):
                # The robots.txt of a site is requested for those that redirect there, too.
                for _ in range(1 + lent.count(site.root + path) if path == ROBOTS_PATH else 1):
                    visits.append(_visit(site, path, at))
                    at += BUSY + delay
        # After the robots.txt of every other host, to which this one may redirect.
        at = max(at, 1010.0)
        for site in sites:
            for number, page in enumerate((page for page in site.pages if page.access == "open"), 1):
                told = site.kind.told if site.kind.told and number in site.kind.told.at else None
                pause = told.pause if told else 0.0
                visits.append(
                    replace(_visit(site, page.path, at), status=told.status if told else 200, pause=pause)
                )
                at += BUSY + max(delay, pause)
    return visits


def _visit(site: Site, path: str, at: float = 2000.0) -> Visit:
    return Visit(site.name, path, at, at + BUSY, 200, agent=f"{AGENT}/1.1")


def _path(site: Site, access: Access = "open") -> str:
    return next(page.path for page in site.pages if page.access is access)


def _moved(log: Log, site: Site, path: str, at: float) -> Log:
    """The log with one request at another time."""
    return [*_without(log, site, path), _visit(site, path, at)]


def _without(log: Log, site: Site, path: str | None = None) -> Log:
    """The log without the requests for a path, or for anything, of one site."""
    return [visit for visit in log if visit.site != site.name or path not in {None, visit.path}]


def _broken(log: Log, terms: Terms = TERMS) -> dict[str, str]:
    """The claims that were broken, and how."""
    return {row.name: "\n".join(row.broken) for row in _judged(log, terms).rows if row.result is RED}


def _judged(log: Log, terms: Terms = TERMS) -> Card:
    tunnels = {site.name: 1 for site in PLAN.sites if site.kind.certificate}
    return judge(PLAN, log, terms, tunnels)


def test_a_polite_log_is_whole() -> None:
    """Nothing is found where nothing was broken, every claim was judged, and the counts are the log's."""
    pages = [page for site in PLAN.sites for page in site.pages]

    card = _judged(_log())

    assert _broken(_log()) == {}
    assert {row.result for row in card.rows if row.severity != "MAY"} == {Result.HELD}
    rows = [row for row in card.rows if row.sites]
    assert sum(row.pages for row in rows) == sum(page.access == "open" for page in pages)
    assert sum(row.blocked for row in rows) == sum(page.access == "closed" for page in pages)
    assert all(held == judged for held, judged in card.score.values())
    assert card.is_whole


@pytest.mark.parametrize(
    "kind", [row for row, _ in PLAN.groups if row.breaks == "closed" and row.severity != "MAY"]
)
def test_a_closed_page_is_found(kind: Kind) -> None:
    """At the row of its site and at no other, with the request that proves it."""
    site, path = next(
        (site, page.path) for site in GROUPS[kind.name] for page in site.pages if page.access == "closed"
    )

    broken = _broken([*_log(), _visit(site, path, 3000.0)])

    # What has no valid certificate has no robots.txt, either.
    assert set(broken) - {"robots.txt comes first"} == {kind.name}
    assert f"200 {site.name}{path} is closed to the crawler" in broken[kind.name]


PLAIN: Final = _site("no group of its name")
PATIENT: Final = _site("Crawl-delay: 1")
BUSY_SITE: Final = _site("503, Retry-After: 1")
SIGNED: Final = _site("asks for signatures")
LIMITED: Final = _site("limit: 429 alone")
DEAF: Final = _site("429 again and again")


def _last(log: Log, site: Site) -> Visit:
    return max((visit for visit in log if visit.site == site.name), key=lambda visit: visit.started_at)


def _sooner(log: Log, site: Site, by: float) -> Log:
    last = _last(log, site)
    return _moved(log, site, last.path, last.started_at - by)


def _told_at(log: Log) -> float:
    return next(visit.ended_at for visit in log if visit.site == BUSY_SITE.name and visit.pause)


def _told_off(log: Log) -> Log:
    return [
        replace(visit, status=429) if visit.site == LIMITED.name and visit.path != ROBOTS_PATH else visit
        for visit in log
    ]


BREACHES: Final[dict[str, tuple[Callable[[Log], Log], str, str]]] = {
    "robots.txt twice": (
        lambda log: [*log, _visit(PLAIN, ROBOTS_PATH)],
        "robots.txt once",
        "robots.txt was requested 2 times",
    ),
    "robots.txt of a site that lends it, twice": (
        lambda log: [*log, _visit(_site("parking host"), ROBOTS_PATH)],
        "robots.txt once",
        "robots.txt was requested 2 times",
    ),
    "robots.txt again and again": (
        lambda log: [*log, *(_visit(PLAIN, ROBOTS_PATH, 3000.0 + number) for number in range(9))],
        "robots.txt is kept",
        "was requested 10 times, for 3 pages",
    ),
    "a closed site not visited at all": (
        lambda log: _without(log, _site("Disallow: /")),
        "robots.txt once",
        "robots.txt was requested 0 times",
    ),
    "a page before robots.txt": (
        lambda log: _moved(log, PLAIN, _path(PLAIN), 990.0),
        "robots.txt comes first",
        "before robots.txt had been answered",
    ),
    "a page while robots.txt is on its way": (
        lambda log: _moved(log, _site("robots.txt in 1.2 s"), _path(_site("robots.txt in 1.2 s")), 1000.005),
        "robots.txt in 1.2 s",
        "before robots.txt had been answered",
    ),
    "a millisecond too early": (
        lambda log: _sooner(log, PATIENT, 0.001),
        "its own delay",
        "came 0.9990 s after the host's last answer, not 1 s",
    ),
    "far too early": (
        lambda log: _sooner(log, PATIENT, 0.5),
        "Crawl-delay: 1",
        "came 0.51 s after the request before it, not 1 s",
    ),
    "two requests at once": (
        lambda log: [replace(v, ended_at=v.ended_at + 5.0) if v.site == PLAIN.name else v for v in log],
        "its own delay",
        "s after the host's last answer, not 0.15 s",
    ),
    "two ports of a host at two paces": (
        lambda log: _sooner(log, GROUPS["one pace of two ports"][1], 0.3),
        "one pace of two ports",
        "came 0.21 s after the request before it, not 0.5 s",
    ),
    "Retry-After not kept": (
        lambda log: [*log, _visit(BUSY_SITE, _path(BUSY_SITE), _told_at(log) + 0.5)],
        "503, Retry-After: 1",
        "came 0.50 s before the pause was over that the host had asked for",
    ),
    "a pause at which each 429 follows the one before it": (
        lambda log: [
            *_without(log, DEAF, _path(DEAF)),
            *(
                replace(_visit(DEAF, _path(DEAF), 2000.0 + 0.08 * number), status=429, pause=1.0)
                for number in range(4)
            ),
        ],
        "429 again and again",
        "came 0.85 s before the pause was over",
    ),
    "the home page of a site that is closed": (
        lambda log: [*log, _visit(_site("Disallow: /"), "/")],
        "Disallow: /",
        "/ is closed to the crawler",
    ),
    "no pause after a bare 429": (
        lambda log: [
            replace(v, status=429) if (v.site, v.path) == (PLAIN.name, _path(PLAIN)) else v for v in log
        ],
        "its own delay",
        "came 0.1500 s before the pause was over",
    ),
    "told off, and none the slower": (
        _told_off,
        "limit: 429 alone",
        "was the last of 9 requests that were told 429, of 9",
    ),
    "an open page left out": (
        lambda log: _without(log, _site("redirects within"), "/moved/1"),
        "each open page",
        "/moved/1 was not requested, but it is open",
    ),
    "a page without the signature that it asks for": (
        lambda log: [
            replace(v, status=403) if v.site == SIGNED.name and v.path != ROBOTS_PATH else v for v in log
        ],
        "asks for signatures",
        "was requested without a valid signature",
    ),
    "a page that does not exist": (
        lambda log: [*log, _visit(PLAIN, "/guessed")],
        "each open page",
        "/guessed was requested, but there is no such page",
    ),
    "another name": (
        lambda log: [*log, replace(_visit(PLAIN, _path(PLAIN)), agent="Mozilla/5.0")],
        "it gives its name",
        "has the User-Agent 'Mozilla/5.0', without RobotgateDemo",
    ),
}


@pytest.mark.parametrize("name", BREACHES)
def test_every_breach_is_found(name: str) -> None:
    """At the claim that was broken."""
    breach, claim, finding = BREACHES[name]

    broken = _broken(breach(_log()))

    assert finding in broken[claim], broken


def test_a_stranger_is_judged_by_what_sites_ask_for() -> None:
    """Not by our delay, our completeness, our declarations or our thrift; what arrives a little early is no breach."""
    hasty = [replace(visit, started_at=visit.started_at - 0.03) for visit in _log()]
    log = [*_without(hasty, PLAIN, _path(PLAIN)), _visit(PLAIN, "/guessed"), _visit(PLAIN, ROBOTS_PATH)]
    log = [*log, _visit(_site("Content-Usage"), _path(_site("Content-Usage"), "closed"))]

    card = _judged(log, Terms(agent=AGENT, lag=0.02))

    assert _broken(log, Terms(agent=AGENT, lag=0.02)) == {}
    assert "OURS" not in card.score
    (row,) = (row for row in card.rows if row.sites == [PLAIN.name])
    assert (row.missed, row.result) == (1, Result.HELD)


def test_a_convention_binds_only_us() -> None:
    """A stranger that breaks one has kept the standards; the demonstration has failed."""
    site, stranger = _site("Content-Usage"), Terms(agent=AGENT, declared=frozenset({"ai-train"}))
    log = [*_log(), _visit(site, _path(site, "closed"), 3000.0)]
    assert set(_broken(log, stranger)) == set(_broken(log)) == {"Content-Usage"}
    assert _judged(log, stranger).is_whole
    assert not _judged(log).is_whole


def test_a_robots_txt_may_be_kept_but_a_new_one_holds() -> None:
    """For 24 hours (RFC 9309 section 2.4), until the crawler has requested one that says more.

    That is no fault: of several workers, each may have a copy of its own.
    """
    site = _site("robots.txt that changes")
    began_at = next(visit.started_at for visit in _log() if visit.site == site.name)
    page, again = _visit(site, _path(site, "may"), 3000.0), _visit(site, ROBOTS_PATH, 2000.0)

    kept = [*_log(), page]
    same = [*kept, replace(again, started_at=began_at + 0.5, ended_at=began_at + 0.6)]
    assert (
        _broken(kept, STRANGER)
        == _broken(same, STRANGER)
        == _broken([*kept, replace(again, started_at=3000.0, ended_at=3000.0)], STRANGER)
        == {}
    )
    assert "since" in _broken([*kept, again], STRANGER)[site.kind.name]
    assert _judged([*kept, again], STRANGER).is_whole
    unread = [visit for visit in kept if visit.path != ROBOTS_PATH]
    results = {row.name: row.result for row in _judged(unread, STRANGER).rows}
    assert results[site.kind.name] is Result.UNSEEN


def test_what_was_not_seen_did_not_hold() -> None:
    """A crawler that requests nothing is not judged, and one request for a page proves no pace."""
    assert not _judged([]).score or all(
        row.name.startswith("certificate") for row in _judged([]).rows if row.result is Result.HELD
    )
    log = [_visit(PATIENT, ROBOTS_PATH, 1000.0), _visit(PATIENT, _path(PATIENT), 1001.0)]
    results = {row.name: row.result for row in _judged(log, Terms(agent=AGENT)).rows}
    assert results["Crawl-delay: 1"] is Result.UNSEEN
    assert results["robots.txt comes first"] is Result.HELD


def test_names_that_are_no_sites_are_listed() -> None:
    """A crawler that asks for the rest of the world is answered 502, and it is told."""
    log = [Visit("elsewhere.example", "/", 1000.0, 1000.1, 502)]
    assert _judged(log).outside["elsewhere.example"] == 1


def test_names_of_an_address_share_its_pace() -> None:
    """A crawler that paces each name alone is too fast for the address."""
    plan = draw_plan(1, 20, ["names of an address"], {80: 8000, 8080: 8001})
    pages = [(site, page.path) for site in plan.sites for page in site.pages]
    assert {site.root for site, _ in pages} == {"http://localhost:8001", "http://127.0.0.1:8001"}
    for seconds, result in ((0.5, Result.HELD), (0.25, Result.BROKEN)):
        log = [_visit(site, path, 1000.0 + seconds * number) for number, (site, path) in enumerate(pages)]
        assert judge(plan, log, Terms(agent=AGENT)).rows[0].result is result
