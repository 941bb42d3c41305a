"""Options of single hosts, given at the beginning and changed while tasks wait."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

import pytest
from tests.paced import (
    OTHER,
    PAGE,
    ROBOTS,
    SITE,
    asks,
    make_gate,
    now,
    refusal,
    scripted,
    together,
    visit,
    visits,
)
from tests.waiting import settle

from robotgate import (
    DisallowedError,
    GateClosedError,
    HostOverride,
    HostUnavailableError,
    OptionError,
    Reason,
    StatusPolicy,
)
from robotgate.sites import Answer

if TYPE_CHECKING:
    from robotgate import RobotGate

HOST = "a.example"
CLOSED = asks("Disallow: /")


async def test_given_at_the_beginning() -> None:
    """One host's delay, another's as the gate has it."""
    async with make_gate(overrides={HOST: HostOverride(delay=5.0)}) as gate:
        assert await together(visits(gate, 2), visits(gate, 2, OTHER)) == [[5.0, 10.0], [1.0, 2.0]]


async def test_longer_delay_binds_who_waits() -> None:
    """From the last visit on, not from the change; and is lifted again the same way."""
    async with make_gate() as gate:
        gate.learn(SITE, b"")
        tasks = [asyncio.create_task(visit(gate)) for _ in range(5)]
        await asyncio.sleep(1.5)
        gate.override(HOST, HostOverride(delay=5.0))
        assert gate.host(PAGE).delay == 5.0
        await asyncio.sleep(10.0)
        gate.override(HOST, None)
        # What was promised to the host at eleven, five seconds, is kept.
        assert await asyncio.gather(*tasks) == [0.0, 1.0, 6.0, 11.0, 16.0]


async def test_shorter_delay_counts_from_the_next_visit() -> None:
    """No instant ever moves earlier; from the next start on, visits are closer."""
    async with make_gate(delay=10.0) as gate:
        gate.learn(SITE, b"")
        tasks = [asyncio.create_task(visit(gate)) for _ in range(4)]
        await asyncio.sleep(3.0)
        gate.override(HOST, HostOverride(delay=2.0))
        assert await asyncio.gather(*tasks) == [0.0, 10.0, 12.0, 14.0]


async def test_shorter_delay_never_undercuts_the_site() -> None:
    """The Crawl-delay holds whatever the override says of ours."""
    async with make_gate(scripted({SITE: asks("Crawl-delay: 4")}), delay=10.0) as gate:
        await gate.allowed(PAGE)
        gate.override(HOST, HostOverride(delay=0.0))
        assert await visits(gate, 3) == [10.0, 14.0, 18.0]


async def test_concurrency_grows_while_tasks_wait() -> None:
    """Three at once instead of one; delays then count from start to start."""
    async with make_gate() as gate:
        gate.learn(SITE, b"")
        tasks = [asyncio.create_task(visit(gate, takes=10.0)) for _ in range(5)]
        await asyncio.sleep(5.0)
        gate.override(HOST, HostOverride(concurrency_per_host=3))
        assert await asyncio.gather(*tasks) == [0.0, 5.0, 6.0, 10.0, 15.0]


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
        assert isinstance(error, DisallowedError)
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


async def test_crawl_delay_that_does_not_count() -> None:
    """Taken out for one host while its tasks wait."""
    async with make_gate(scripted({SITE: asks("Crawl-delay: 20")})) as gate:
        tasks = [asyncio.create_task(visit(gate)) for _ in range(4)]
        await asyncio.sleep(45.0)
        gate.override(HOST, HostOverride(obey_crawl_delay=False))
        assert await asyncio.gather(*tasks) == [20.0, 40.0, 60.0, 61.0]


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
        async with gate.turn(PAGE) as turn:
            turn.report(status=503, headers={"Retry-After": "30"})
        assert await visits(gate, 2) == [30.0, 30.0]


async def test_host_that_is_no_longer_own() -> None:
    """A turn that waits there is judged by robots.txt before its request is sent."""
    fetcher = scripted({SITE: CLOSED})
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


@pytest.mark.parametrize("override", [HostOverride(ignore_robots=True), HostOverride.own()])
async def test_not_every_host_is_ones_own(override: HostOverride) -> None:
    """Refused, when the gate is made and while it runs; rules hold as they did."""
    with pytest.raises(OptionError, match=r"'\*'.*ignore_robots.*your own"):
        make_gate(overrides={"*": override})
    async with make_gate(scripted({SITE: asks("Disallow: /")})) as gate:
        with pytest.raises(OptionError, match=r"'\*'.*ignore_robots.*your own"):
            gate.override("*", override)
        assert not await gate.allowed(PAGE)


async def test_most_specific_wins_field_by_field() -> None:
    """The host, then the longer domain, then ``*``, then the gate."""
    async with make_gate(delay=1.0, rate=(9, 9)) as gate:
        gate.override("*", HostOverride(delay=2.0, latency_factor=3.0))
        gate.override("*.example.org", HostOverride(delay=3.0))
        gate.override("*.www.example.org", HostOverride(concurrency_per_host=2))
        gate.override("a.www.example.org", HostOverride(delay=5.0))
        delays = {
            "http://a.www.example.org/": 5.0,
            "http://b.www.example.org/": 3.0,
            "http://www.example.org/": 3.0,
            "http://example.org/": 2.0,
            "http://example.com/": 2.0,
        }
        assert {url: gate.host(url).delay for url in delays} == delays
        gate.override("*.example.org", None)
        assert gate.host("http://b.www.example.org/").delay == 2.0
        assert gate.host("http://a.www.example.org/").delay == 5.0


async def test_max_block_of_one_host() -> None:
    """A turn that waits out a block is refused when the host's `max_block` is shortened; others go on waiting."""
    async with make_gate(max_block=300.0) as gate:
        gate.learn(SITE, b"")
        await visit(gate, status=200)
        async with gate.turn(PAGE) as turn:
            turn.report(status=429, headers={"Retry-After": "200"})
        waiting = asyncio.create_task(visit(gate))
        await asyncio.sleep(50.0)
        gate.override(HOST, HostOverride(max_block=60.0))
        error, at = await refusal(waiting, HostUnavailableError)
        assert isinstance(error, HostUnavailableError)
        assert (at, error.retry_after) == (51.0, 150.0)
        gate.override(HOST, HostOverride(max_block=math.inf))
        assert await visit(gate) == 201.0


def known(gate: RobotGate) -> tuple[float, float]:
    """The delays that hold for two hosts."""
    return gate.host(PAGE).delay, gate.host("http://sub.b.example/").delay


@pytest.mark.parametrize(
    "pattern", ["", "http://a.example", "a.example:80", "a.example/x", "a*.example", "*.*"]
)
async def test_wrong_pattern_changes_nothing(pattern: str) -> None:
    """It is refused by name."""
    async with make_gate(overrides={HOST: HostOverride(delay=3.0)}) as gate:
        before = known(gate)
        with pytest.raises(OptionError, match="overrides: pattern="):
            gate.override(pattern, HostOverride(delay=7.0))
        assert known(gate) == before


async def test_wrong_override_changes_nothing() -> None:
    """A delay over the `max_delay` that would hold, there or further below; and what is no override at all."""
    async with make_gate(overrides={"sub.b.example": HostOverride(max_delay=20.0)}) as gate:
        before = known(gate)
        for pattern in ("a.example", "*", "*.b.example"):
            with pytest.raises(OptionError, match="max_delay"):
                gate.override(pattern, HostOverride(delay=61.0))
        with pytest.raises(OptionError, match="max_delay"):
            gate.override("*.b.example", HostOverride(delay=21.0))
        with pytest.raises(OptionError, match="HostOverride"):
            gate.override(HOST, {"delay": 3.0})  # type: ignore[arg-type]
        assert known(gate) == before
        assert await visits(gate, 2) == [1.0, 2.0]


async def test_closed_gate_takes_no_override() -> None:
    """Neither before it is opened."""
    gate = make_gate()
    with pytest.raises(GateClosedError):
        gate.override(HOST, HostOverride(delay=7.0))
    async with gate:
        assert now() == 0.0
    with pytest.raises(GateClosedError):
        gate.override(HOST, None)
