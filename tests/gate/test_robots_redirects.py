"""robots.txt that redirects: five hops, other hosts included; the result binds the first origin, pace is kept."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from tests.gate.servers import DELAY, OTHER, PAGE, PRIVATE, ROBOTS, RULES, hang_up

from robotgate import AccessResult, HostUnavailableError, Reason

if TYPE_CHECKING:
    from tests.conftest import OpenGate
    from tests.gate.servers import Web

    from robotgate import RobotGate


def chain(web: Web, hops: int, *, to: str) -> list[str]:
    """Redirect a robots.txt over so many hosts to a URL; what was asked on the way, that URL included."""
    urls = [ROBOTS, *(f"http://hop{number}.example/robots.txt" for number in range(1, hops)), to]
    for url, target in pairwise(urls):
        web.redirect(url, target)
    return urls


async def test_five_redirects_across_hosts(web: Web, gate: RobotGate) -> None:
    """RFC 9309 §2.3.1.2: at least five, by every status that redirects. Each host counts the visit that it had."""
    asked = chain(web, 5, to="http://end.example/robots.txt")
    for url, target, status in zip(asked[:-1], asked[1:], (301, 302, 303, 307, 308), strict=False):
        web.redirect(url, target, status=status)
    web.serve(asked[-1], RULES)
    verdict = await gate.check(PRIVATE)
    assert (verdict.allowed, verdict.reason) == (False, Reason.DISALLOWED_BY_RULE)
    assert (verdict.redirects, verdict.robots_url) == (tuple(asked[:-1]), asked[-1])
    assert web.urls == asked
    assert [gate.host(url).visits for url in (*asked, OTHER)] == [1] * 6 + [0]


async def test_sixth_redirect_is_not_followed(web: Web, gate: RobotGate) -> None:
    """More than five, and the site counts as one without a robots.txt."""
    asked = chain(web, 6, to="http://end.example/robots.txt")
    web.serve("http://end.example/robots.txt", "User-agent: *\nDisallow: /")
    verdict = await gate.check(PAGE)
    assert (verdict.allowed, verdict.access) == (True, AccessResult.UNAVAILABLE)
    assert web.urls == asked[:-1]


async def test_rules_bind_the_first_origin_alone(web: Web, gate: RobotGate) -> None:
    """The host that served the file is asked for its own when it is its turn."""
    web.redirect(ROBOTS, "http://elsewhere.example/rules.txt")
    web.serve("http://elsewhere.example/rules.txt", RULES)
    assert not await gate.allowed(PRIVATE)
    assert await gate.allowed("http://elsewhere.example/private")
    assert web.count("http://elsewhere.example/robots.txt") == 1


async def test_location_is_resolved(web: Web, gate: RobotGate, subtests: pytest.Subtests) -> None:
    """Relative or absolute, with or without what is not sent."""
    for number, (location, asked) in enumerate(
        {
            "/other.txt": "http://site0.example/other.txt",
            "other.txt?a=b": "http://site1.example/other.txt?a=b",
            "//elsewhere.example/r": "http://elsewhere.example/r",
            "https://site3.example/robots.txt": "https://site3.example/robots.txt",
            "http://SITE4.example:8080/r": "http://site4.example:8080/r",
            " http://elsewhere.example/r ": "http://elsewhere.example/r",
            "http://user:secret@elsewhere.example/r#top": "http://elsewhere.example/r",
            "http://bücher.example/r": "http://xn--bcher-kva.example/r",
        }.items()
    ):
        site = f"http://site{number}.example"
        web.redirect(f"{site}/robots.txt", location)
        web.serve(asked.partition("?")[0], RULES)
        with subtests.test(location):
            assert not await gate.allowed(f"{site}/private")
            assert web.urls[-2:] == [f"{site}/robots.txt", asked]
            assert "Authorization" not in web.visits[-1].headers


async def test_redirect_to_nowhere_opens_the_site(
    web: Web, gate: RobotGate, subtests: pytest.Subtests
) -> None:
    """A redirect that leads to no http resource is no robots.txt."""
    for number, location in enumerate(
        (
            *("", "ftp://site.example/robots.txt", "javascript:alert(1)", "mailto:bot@example.org"),
            *("http://[::1", "http://site.example:99999/", f"http://{'a' * 300}.example/"),
            *("http://a b.example/", "http://site.example:0/", "data:text/plain,User-agent: *"),
        )
    ):
        site = f"http://site{number}.example"
        web.redirect(f"{site}/robots.txt", location)
        with subtests.test(location):
            verdict = await gate.check(f"{site}/page")
            assert (verdict.allowed, verdict.access) == (True, AccessResult.UNAVAILABLE)
            assert web.urls[number:] == [f"{site}/robots.txt"]


async def test_end_of_the_chain_decides(web: Web, gate: RobotGate) -> None:
    """What the last hop answers stands for the first origin: a refusal, or a failure."""
    chain(web, 2, to="http://end.example/robots.txt")
    web.serve("http://end.example/robots.txt", status=403)
    verdict = await gate.check(PAGE)
    assert (verdict.allowed, verdict.status) == (False, 403)
    web.redirect(f"{OTHER}/robots.txt", "http://end.example/failing.txt")
    web.serve("http://end.example/failing.txt", status=503)
    with pytest.raises(HostUnavailableError):
        await gate.fetch(f"{OTHER}/page")


async def test_parking_host_is_never_hit_without_a_gap(web: Web, open_gate: OpenGate) -> None:
    """Many origins redirect to one host: it is asked one delay apart, and all get their answer."""
    gate = await open_gate(delay=DELAY)
    parking = "http://parking.example/robots.txt"
    sites = [f"http://parked{number}.example" for number in range(12)]
    for site in sites:
        web.redirect(f"{site}/robots.txt", parking)
    web.serve(parking, RULES)
    answers = await asyncio.gather(*(gate.allowed(f"{site}/private") for site in sites))
    assert answers == [False] * 12
    gaps = web.gaps("parking.example")
    assert len(gaps) == 11
    assert min(gaps) >= DELAY
    assert web.counts() == {f"{site}/robots.txt": 1 for site in sites} | {parking: 12}


async def test_redirect_onto_a_busy_host_goes_ahead_of_its_pages(web: Web, open_gate: OpenGate) -> None:
    """At each hop, not only at the first."""
    gate = await open_gate(delay=DELAY)
    busy = "http://busy.example"
    web.redirect(ROBOTS, f"{busy}/shared.txt")
    assert await gate.allowed(f"{busy}/")
    pages = [asyncio.create_task(gate.fetch(f"{busy}/{number}")) for number in range(4)]
    await web.arrivals(2)
    assert await gate.allowed(PAGE)
    await asyncio.gather(*pages)
    order = [visit.url for visit in web.visits if visit.host == "busy.example"]
    assert order.index(f"{busy}/shared.txt") == 2
    assert min(web.gaps("busy.example")) >= DELAY


async def test_robots_txt_that_aiohttp_asks_for_again_is_paced(web: Web, open_gate: OpenGate) -> None:
    """The first origin leaves a connection open, the redirect back over it is not answered: no second try at once."""
    gate = await open_gate(delay=DELAY)
    web.redirect(ROBOTS, "/moved.txt")
    web.handle("http://site.example/moved.txt", hang_up())
    assert not await gate.allowed(PAGE)
    assert min(web.gaps("site.example")) >= DELAY
    assert gate.host(PAGE).visits == len(web.visits)
