"""The sites of the judge are what their table says."""

from __future__ import annotations

from urllib.parse import urljoin

import pytest

from robotgate import RobotsTxt
from robotgate.judge.judge import CHECKS
from robotgate.judge.sites import ROBOTS_PATH, Answer, Plan, Site, draw_plan, table
from robotgate.preferences import Preference

AGENT = "RobotgateDemo"
SEEDS = range(3)


def test_a_seed_draws_the_same_sites() -> None:
    """The same seed draws the same sites, another seed draws others."""
    assert draw_plan(7, 300) == draw_plan(7, 300)
    assert draw_plan(7, 300) != draw_plan(8, 300)


@pytest.mark.parametrize("pages", [1, 500, 3000])
def test_there_are_about_as_many_urls_as_asked_for(pages: int) -> None:
    """Every site has a few, however few are asked for."""
    assert pages * 0.8 <= len(draw_plan(1, pages).urls) <= pages * 1.2 + 530


def test_every_row_states_a_claim() -> None:
    """And who says so, how binding it is, and what breaks it; there are at least sixty that can be broken."""
    rows = [*table("kind"), *table("everywhere")]
    assert all(row.name and row.claim and row.source and row.breaks in CHECKS for row in rows)
    assert len({row.name for row in rows}) == len(rows)
    assert sum(row.severity in {"MUST", "SHOULD"} for row in rows) >= 60


def test_some_kinds_can_be_chosen() -> None:
    """By a part of their names."""
    assert {kind.name for kind, _ in draw_plan(1, 100, ["utf-16", "robots.txt: 5"]).groups} == {
        *("UTF-16", "robots.txt: 500", "robots.txt: 503", "robots.txt: 500 with rules")
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_the_rules_say_what_the_pages_are(seed: int) -> None:
    """What the table says of a page, which comes from no parser, is what robots.txt says to a crawler that trains."""
    plan = draw_plan(seed, 300)
    for site in plan.sites:
        robots = _robots(plan, site)
        if robots is None or robots.status in {401, 403, 429, 500, 503} or robots.is_cut or robots.is_silent:
            assert not any(page.access == "open" for page in site.pages)
            continue
        body = robots.content(AGENT)
        rules = RobotsTxt.parse(body if robots.status in {200, 203} else b"")
        for page in site.pages:
            url = site.root + page.path
            is_for_us = rules.preferences(url, AGENT).ai_train is not Preference.DISALLOWED
            if page.access != "may":
                assert (rules.allowed(url, AGENT) and is_for_us) == (page.access == "open"), url
        if site.kind.crawl_delay and b"Request-rate" not in body:
            assert rules.crawl_delay(AGENT) == site.kind.crawl_delay


def test_a_redirect_leads_to_a_page_that_is_judged() -> None:
    """Else a crawler that follows it into a trap would not be found out."""
    plan = draw_plan(1, 300)
    known = {site.root + page.path for site in plan.sites for page in site.resources}
    led = {
        urljoin(site.root, page.headers["Location"])
        for site in plan.sites
        for page in site.pages
        if "Location" in page.headers
    }
    assert led < known


def test_half_a_robots_txt_would_open_a_page() -> None:
    """So a crawler that takes it for the whole is found out."""
    ((_, (site,)),) = draw_plan(1, 1, ["cut off"]).groups
    body = site.robots.content(AGENT)
    half = RobotsTxt.parse(body[: len(body) // 2])
    assert {half.allowed(site.root + page.path, AGENT) for page in site.pages} == {True, False}


def _robots(plan: Plan, site: Site) -> Answer | None:
    """The answer at the end of the redirects; None: there is none, or only behind a bad certificate."""
    location = site.robots.headers.get("Location")
    if location is None:
        return None if site.kind.certificate else site.robots
    if location == site.root + ROBOTS_PATH:
        return None
    return next(_robots(plan, other) for other in plan.sites if other.root + ROBOTS_PATH == location)
