"""Options of single hosts, given at the beginning and changed while tasks wait."""

from __future__ import annotations

import asyncio
import math

import pytest
from tests.paced import PAGE, ROBOTS, SITE, asks, make_gate, refusal, scripted, visit, visits
from tests.waiting import settle

from robotgate import DisallowedError, HostOverride, Reason, StatusPolicy
from robotgate.sites import Answer

HOST = "a.example"


async def test_max_delay_lets_a_refused_site_in_and_out_again() -> None:
    """Without asking for robots.txt again."""
    fetcher = scripted({SITE: asks("Crawl-delay: 90")})
    async with make_gate(fetcher) as gate:
        assert await gate.allowed(PAGE) is False
        gate.override(HOST, HostOverride(max_delay=120.0))
        assert gate.allowed_nowait(PAGE) is True
        assert await visits(gate, 2) == [90.0, 180.0]
        waiting = asyncio.create_task(visit(gate))
        await settle()
        gate.override(HOST, None)
        assert gate.allowed_nowait(PAGE) is False
        error, at = await refusal(waiting, DisallowedError)
        assert error.verdict.reason is Reason.DELAY_TOO_LONG
        assert at <= 270.0
        gate.override(HOST, HostOverride(max_delay=math.inf))
        assert gate.allowed_nowait(PAGE) is True
    assert fetcher.requests == [(0.0, ROBOTS)]


@pytest.mark.parametrize(
    ("answer", "policy", "allowed"),
    [
        (Answer(status=403), StatusPolicy.RFC9309, True),
        (Answer(status=403), StatusPolicy.CLASSIC, False),
        (Answer(status=500), StatusPolicy.ARCHIVE, True),
        (Answer(status=400), StatusPolicy.CLASSIC, False),
    ],
)
async def test_status_policy(answer: Answer, policy: StatusPolicy, allowed: bool) -> None:  # noqa: FBT001
    """What is known of robots.txt is judged by the new policy, and by the old one again when that is back."""
    fetcher = scripted({SITE: answer})
    async with make_gate(fetcher) as gate:
        before = await gate.allowed(PAGE)
        gate.override("*.example", HostOverride(status_policy=policy))
        assert await gate.allowed(PAGE) is allowed
        gate.override("*.example", None)
        assert await gate.allowed(PAGE) is before
    assert fetcher.requests == [(0.0, ROBOTS)]


async def test_own_host_is_not_asked_and_not_slowed() -> None:
    """No robots.txt, no delay, no quota; `check` says why."""
    fetcher = scripted({SITE: asks("Disallow: /", "Crawl-delay: 50")})
    async with make_gate(fetcher, overrides={HOST: HostOverride.own()}, rate=(2, 60)) as gate:
        assert await visits(gate, 5) == [0.0] * 5
        verdict = await gate.check(PAGE)
        assert (verdict.allowed, verdict.reason) == (True, Reason.ROBOTS_TXT_IGNORED)
    assert fetcher.requests == []


async def test_own_host_still_has_a_robots_txt_to_show() -> None:
    """`robots` and `sitemaps` request it, once; it binds no turn."""
    fetcher = scripted({SITE: asks("Disallow: /") + "Sitemap: http://a.example/map.xml\n"})
    async with make_gate(fetcher, overrides={HOST: HostOverride.own()}) as gate:
        assert await gate.allowed(PAGE)
        assert (await gate.robots(PAGE)).status == 200
        assert await gate.sitemaps(PAGE) == ("http://a.example/map.xml",)
        assert await gate.allowed(PAGE)
        assert await visits(gate, 2) == [0.0, 0.0]
    assert fetcher.requests == [(0.0, ROBOTS)]


async def test_own_host_that_asks_for_a_pause_gets_it() -> None:
    """A 503 is the server's own word."""
    async with make_gate(overrides={HOST: HostOverride.own()}) as gate:
        await visit(gate, status=503, headers={"Retry-After": "30"})
        assert await visits(gate, 2) == [30.0, 30.0]


async def test_host_that_is_no_longer_own() -> None:
    """A turn that waits there is judged by robots.txt before its request is sent."""
    fetcher = scripted({SITE: asks("Disallow: /")})
    overrides = {HOST: HostOverride(ignore_robots=True)}
    async with make_gate(fetcher, delay=10.0, overrides=overrides) as gate:
        assert await visit(gate) == 0.0
        waiting = [asyncio.create_task(visit(gate)) for _ in range(2)]
        await asyncio.sleep(5.0)
        gate.override(HOST, None)
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [DisallowedError] * 2
        assert [url for _, url in fetcher.requests] == [ROBOTS]
        assert fetcher.requests[0][0] >= 10.0


async def test_host_that_becomes_own() -> None:
    """What its robots.txt refuses and asks for is nothing any more, at once; and everything again."""
    fetcher = scripted({SITE: asks("Disallow: /", "Crawl-delay: 9")})
    async with make_gate(fetcher) as gate:
        assert await gate.allowed(PAGE) is False
        gate.override("*.example", HostOverride(ignore_robots=True))
        assert await gate.allowed(PAGE) is True
        assert await visits(gate, 2) == [1.0, 2.0]
        gate.override("*.example", None)
        assert await gate.allowed(PAGE) is False
        assert gate.host(PAGE).delay == 9.0
    assert fetcher.requests == [(0.0, ROBOTS)]
