"""The demonstration's web."""

from __future__ import annotations

import pytest

from robotgate import RobotsTxt
from robotgate.cli._demo_plan import KINDS, draw_plan
from robotgate.cli._demo_sites import CRAWLER, FLOOR_DELAY, Plan, Site

SEEDS = range(5)


def test_a_seed_is_one_web() -> None:
    """The same seed draws the same sites, another draws others."""
    assert draw_plan(7, 300) == draw_plan(7, 300)
    assert draw_plan(7, 300) != draw_plan(8, 300)


@pytest.mark.parametrize("seed", SEEDS)
def test_it_has_some_thirty_sites_of_every_kind(seed: int) -> None:
    """Whatever the seed: names under nobody's domains, and hosts that two sites share only by design."""
    plan = draw_plan(seed, 300)

    assert len(plan.sites) == sum(kind.hosts for kind in KINDS) + 1 == 35
    assert len({site.name for site in plan.sites}) == len(plan.sites)
    assert all(site.host.endswith((".example", ".test")) for site in plan.sites)
    assert {site.delay for site in plan.sites} == {FLOOR_DELAY, 0.2, 0.3, 0.5, 1.0, 1.5}
    assert len(plan.urls) == len(set(plan.urls))


@pytest.mark.parametrize("pages", [1, 500, 3000])
def test_it_has_about_as_many_pages_as_asked(pages: int) -> None:
    """Every site has a few, however few are asked for."""
    assert pages * 0.8 <= len(draw_plan(1, pages).urls) <= pages * 1.2 + 200


@pytest.mark.parametrize("seed", SEEDS)
def test_the_rules_say_what_the_pages_are(seed: int) -> None:
    """The truth of the plan, which comes from no parser, is the truth of the files that the servers send."""
    plan = draw_plan(seed, 300)
    for site in plan.sites:
        rules = _rules(plan, site)
        if rules is None:
            continue
        for page in site.pages:
            assert rules.allowed(site.url(page.path), CRAWLER) == page.is_open, site.url(page.path)
        assert (rules.crawl_delay(CRAWLER) or 0.0) == site.crawl_delay


def test_a_site_whose_robots_txt_cannot_be_had_has_no_open_page() -> None:
    """403, 500, and one that is cut off."""
    closed = [site for site in draw_plan(1, 300).sites if site.is_closed]

    assert len(closed) == 3
    assert not any(page.is_open for site in closed for page in site.pages)


@pytest.mark.parametrize("seed", SEEDS)
def test_redirects_lead_to_pages_that_exist(seed: int) -> None:
    """Open ones, and one that is closed on each side."""
    plan = draw_plan(seed, 300)
    pages = {site.url(page.path): page for site in plan.sites for page in site.pages}
    targets = [
        pages[page.location if page.location.startswith("http") else site.url(page.location)]
        for site in plan.sites
        for page in site.pages
        if page.location is not None
    ]

    assert sorted(target.is_open for target in targets) == [False] * 2 + [True] * 8
    assert not any(target.is_asked for target in targets)


def _rules(plan: Plan, site: Site) -> RobotsTxt | None:
    reply = site.robots
    if reply.location is not None:
        reply = next(other.robots for other in plan.sites if other.url("/robots.txt") == reply.location)
    if reply.status != 200 or reply.is_cut_off:
        return None
    return RobotsTxt.parse(reply.body)
