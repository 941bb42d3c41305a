"""The sites of the demonstration are what their table says."""

from __future__ import annotations

import pytest

from robotgate import RobotsTxt
from robotgate.demo.sites import CRAWLER, Answer, Plan, Site, draw_plan
from robotgate.preferences import Preference

SEEDS = range(5)


def test_a_seed_draws_the_same_sites() -> None:
    """The same seed draws the same sites, another seed draws others."""
    assert draw_plan(7, 300) == draw_plan(7, 300)
    assert draw_plan(7, 300) != draw_plan(8, 300)


@pytest.mark.parametrize("pages", [1, 500, 3000])
def test_there_are_about_as_many_urls_as_asked_for(pages: int) -> None:
    """Every site has a few, however few are asked for."""
    assert pages * 0.8 <= len(draw_plan(1, pages).urls) <= pages * 1.2 + 200


@pytest.mark.parametrize("seed", SEEDS)
def test_the_rules_say_what_the_pages_are(seed: int) -> None:
    """What the table says of a page, which comes from no parser, is what robots.txt says to a crawler that trains."""
    plan = draw_plan(seed, 300)
    for site in plan.sites:
        robots = _robots(plan, site)
        if robots.status in {403, 500} or robots.is_cut_off:
            assert not any(page.is_open for page in site.pages)
            continue
        rules = RobotsTxt.parse(robots.body if robots.status == 200 else b"")
        for page in site.pages:
            url = site.url(page.path)
            is_for_us = rules.preferences(url, CRAWLER).ai_train is not Preference.DISALLOWED
            assert (rules.allowed(url, CRAWLER) and is_for_us) == page.is_open, url
        assert (rules.crawl_delay(CRAWLER) or 0.0) == site.crawl_delay


def _robots(plan: Plan, site: Site) -> Answer:
    location = site.robots.headers.get("Location")
    if location is None:
        return site.robots
    return next(other.robots for other in plan.sites if other.url("/robots.txt") == location)
