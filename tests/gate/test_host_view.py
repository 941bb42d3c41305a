"""What the gate tells without asking anyone: `host`, `wait_time`, `allowed_nowait`, and what `learn` told it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from tests.clocks import LaterClock
from tests.gate.servers import PAGE, ROBOTS, RULES, SITE
from yarl import URL

from robotgate import AccessResult, DisallowedError, Reason
from robotgate.sites import HostAccess

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import OpenGate
    from tests.gate.servers import Web

    from robotgate import RobotGate


async def test_unknown_host(web: Web, gate: RobotGate) -> None:
    """Nothing is known, and nothing is asked."""
    view = gate.host(PAGE)
    assert (view.host, view.access, view.checked_at) == ("site.example", None, None)
    assert (view.visits, view.bytes_read, view.failures, view.waiting, view.open_turns) == (0, 0, 0, 0, 0)
    assert (view.last_visit_at, view.blocked_until_at) == (None, None)
    assert (view.fresh_until_at, view.stale) == (None, False)
    assert gate.wait_time(PAGE) == 0
    assert gate.allowed_nowait(PAGE) is None
    assert web.visits == []


async def test_access(gate: RobotGate, subtests: pytest.Subtests) -> None:
    """Excluded, open or controlled, as LWP::ElephantUA told hosts apart."""
    for robots, access in {
        "": HostAccess.OPEN,
        "User-agent: *\nDisallow:": HostAccess.OPEN,
        "User-agent: *\nAllow: /": HostAccess.OPEN,
        "User-agent: Other\nDisallow: /": HostAccess.OPEN,
        "User-agent: *\nDisallow: /": HostAccess.EXCLUDED,
        # The rules of the group that names us, and no others.
        "User-agent: ExampleBot\nDisallow: /\nAllow: /some\n\nUser-agent: *\nAllow: /": HostAccess.CONTROLLED,
        "User-agent: *\nDisallow: /private": HostAccess.CONTROLLED,
        "User-agent: *\nDisallow: /\nAllow: /public": HostAccess.CONTROLLED,
        "User-agent: *\nCrawl-delay: 1000": HostAccess.EXCLUDED,
    }.items():
        with subtests.test(robots):
            gate.learn(PAGE, robots.encode())
            assert gate.host(PAGE).access is access


async def test_freshness(web: Web, open_gate: OpenGate) -> None:
    """Until when what is known holds, and whether it is only the last good copy."""
    clock = LaterClock()
    gate = await open_gate(clock=clock)
    web.serve(ROBOTS, RULES, headers={"Cache-Control": "max-age=7200"})
    await gate.allowed(PAGE)
    view = gate.host(PAGE)
    assert view.checked_at is not None
    assert view.fresh_until_at == pytest.approx(view.checked_at + 7200)
    assert not view.stale
    web.serve(ROBOTS, status=500)
    clock.offset = 7201
    await gate.allowed(PAGE)
    view = gate.host(PAGE)
    assert view.checked_at is not None
    assert view.fresh_until_at is not None
    assert 60 <= view.fresh_until_at - view.checked_at <= 75
    assert (view.access, view.stale) == (HostAccess.CONTROLLED, True)


async def test_access_is_the_origins_and_pace_is_the_hosts(gate: RobotGate) -> None:
    """Two ports, two sets of rules, one host."""
    gate.learn(PAGE, b"User-agent: *\nDisallow: /")
    assert await gate.allowed(f"{SITE}:8080/")
    one, other = gate.host(PAGE), gate.host(f"{SITE}:8080/")
    assert (one.access, other.access) == (HostAccess.EXCLUDED, HostAccess.OPEN)
    assert one.visits == other.visits == 1


# ── allowed_nowait


SPELLINGS = [
    (SITE, True),
    (f"{SITE}/", True),
    (f"{SITE}?private", True),
    (f"{SITE}#private", True),
    (f"{SITE}/private", False),
    (f"{SITE}/private?x=1", False),
    (f"{SITE}/private#top", False),
    (f"{SITE}/x/../private", False),
    (f"{SITE}/./private", False),
    (f"{SITE}/x/%2e%2e/private", False),
    (f"{SITE}/%70rivate", False),
    (f"{SITE}/private%20x", False),
    (f"{SITE}:80/private", False),
    ("HTTP://SITE.EXAMPLE/private", False),
    ("http://site.example./private", False),
    ("http://user:secret@site.example/private", False),
    (f"{SITE}//private", True),
    (f"{SITE}/PRIVATE", True),
    (f"{SITE}/bücher", False),
    (f"{SITE}/b%C3%BCcher", False),
    (f"{SITE}/b%c3%bccher/x", False),
    (f"{SITE}/a|b", False),
    (f"{SITE}/a b", False),
    (f"{SITE}/public/..", True),
    (f"{SITE}/.private", True),
]


async def test_memory_and_doors_agree_on_spellings(gate: RobotGate, subtests: pytest.Subtests) -> None:
    """The short way through memory answers as the long way does, and a refusal costs no turn."""
    rules = "User-agent: *\nDisallow: /private\nDisallow: /bücher\nDisallow: /a%7Cb\nDisallow: /a%20b\n"
    gate.learn(SITE, rules.encode())
    for url, allowed in SPELLINGS:
        for spelling in (url, URL(url)):
            with subtests.test(spelling=spelling, allowed=allowed):
                assert gate.allowed_nowait(spelling) is allowed
                assert await gate.allowed(spelling) is allowed
                assert (await gate.check(spelling)).allowed is allowed
                if not allowed:
                    with pytest.raises(DisallowedError):
                        await gate.fetch(spelling)
    assert gate.host(SITE).visits == 0


async def test_longer_name_is_another_host(web: Web, gate: RobotGate) -> None:
    """Nothing is known of a host whose name merely begins like that of a known one: it is asked for its own rules."""
    gate.learn(SITE, b"")
    for name in ("site.examplep", "site.example:8", "site.exampl", "site.example.org"):
        other = f"http://{name}"
        web.serve(f"{other}/robots.txt", "User-agent: *\nDisallow: /")
        assert gate.allowed_nowait(other) is None
        assert gate.allowed_nowait(f"{other}/") is None
        assert not await gate.allowed(other)
        assert gate.allowed_nowait(SITE) is True


# ── learn


async def test_learnt_rules_are_used(web: Web, gate: RobotGate) -> None:
    """Nothing is requested for a file that the caller has passed in."""
    gate.learn(PAGE, RULES.encode() + b"\nSitemap: http://site.example/map.xml")
    verdict = await gate.check(f"{SITE}/private")
    assert (verdict.allowed, verdict.reason) == (False, Reason.DISALLOWED_BY_RULE)
    assert verdict.access is AccessResult.SUCCESSFUL
    assert await gate.sitemaps(PAGE) == ("http://site.example/map.xml",)
    assert (await gate.fetch(PAGE)).status == 200
    assert web.counts() == {PAGE: 1}


async def test_learnt_rules_hold_until_their_time(web: Web, gate: RobotGate) -> None:
    """What was fresh until yesterday is asked for again; what nothing was said of holds a day."""
    gate.learn(PAGE, RULES.encode(), fresh_until=time.time() - 1)
    assert gate.allowed_nowait(PAGE) is None
    assert await gate.allowed(f"{SITE}/private")
    assert web.counts() == {ROBOTS: 1}
    gate.learn("http://other.example/", b"")
    verdict = await gate.check("http://other.example/")
    assert verdict.fresh_until_at == pytest.approx(time.time() + 86_400, abs=5)


async def test_what_an_earlier_gate_learnt_is_told_before_any_turn(
    tmp_path: Path, web: Web, open_gate: OpenGate
) -> None:
    """After a restart a blocked host is not due, also for a caller that used only its rules."""
    web.serve(PAGE, status=429, headers={"Retry-After": "200"})
    gate = await open_gate(store=tmp_path / "cache.db")
    await gate.fetch(PAGE)
    before = gate.host(PAGE)
    await gate.aclose()
    gate = await open_gate(store=tmp_path / "cache.db")
    assert await gate.allowed(PAGE)
    after = gate.host(PAGE)
    assert gate.wait_time(PAGE) > 190
    assert after.blocked_until_at == before.blocked_until_at is not None
    assert (after.visits, after.failures) == (2, 1)
    assert [view.visits for view in gate.hosts()] == [2]
    assert web.urls == [ROBOTS, PAGE]


async def test_hosts_and_origins_are_counted_as_they_are_listed(gate: RobotGate) -> None:
    """What is paced together is one host, and each scheme and port of it an origin."""
    for url in ("http://site.example/", "https://site.example/", "https://site.example:8443/"):
        gate.learn(url, b"")
    await gate.fetch("http://site.example/")
    gate.host("http://other.example/")
    hosts, origins, stats = gate.hosts(), gate.origins(), gate.stats()
    assert (len(hosts), len(origins)) == (stats.hosts, stats.origins) == (2, 4)
    assert [(view.host, view.visits) for view in hosts] == [("site.example", 1), ("other.example", 0)]
    assert hosts[0].origins == tuple(view.origin for view in origins if view.host == "site.example")
    assert all(len(str(view).splitlines()) == 1 for view in (*hosts, *origins))
    assert origins[3].access is None
