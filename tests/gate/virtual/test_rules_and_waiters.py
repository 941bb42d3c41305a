"""Rules that change, expire or come late while pages wait in the lane; on virtual time."""

from __future__ import annotations

import asyncio

import pytest
from tests.paced import HOUR, PAGE, ROBOTS, SECURE, SITE, asks, everywhere, make_gate, now, scripted, visit
from tests.waiting import settle

from robotgate import DisallowedError, RobotGate, TooSoonError
from robotgate.events import RobotsFetched

SECURE_ROBOTS = "https://a.example/robots.txt"
CLOSED = b"User-agent: *\nDisallow: /\n"
PRIVATE = b"User-agent: *\nDisallow: /private\n"


# ── rules that change


async def test_rules_learnt_meanwhile_bind_only_what_they_name() -> None:
    """Pages that are still allowed go on, in their order."""
    order: list[str] = []

    async def go(gate: RobotGate, path: str) -> None:
        async with gate.turn(f"{SITE}{path}"):
            order.append(path)

    async with make_gate(scripted()) as gate:
        gate.learn(SITE, b"")
        paths = ["/one", "/private/two", "/three", "/private/four", "/five"]
        tasks = [asyncio.create_task(go(gate, path)) for path in paths]
        await settle()
        gate.learn(SITE, PRIVATE)
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(outcome, DisallowedError) for outcome in outcomes] == [False, True, False, True, False]
    assert order == ["/one", "/three", "/five"]


async def test_rules_that_expire_meanwhile_and_close_the_site_bind_who_waits() -> None:
    """No request is sent by expired rules."""
    fetcher = everywhere(CLOSED)
    async with make_gate(fetcher) as gate:
        gate.learn(SITE, b"", fresh_until=1.5)
        outcomes = await asyncio.gather(*(visit(gate) for _ in range(6)), return_exceptions=True)
    assert outcomes[:2] == [0.0, 1.0]
    assert [type(outcome) for outcome in outcomes[2:]] == [DisallowedError] * 4
    assert [url for _, url in fetcher.requests] == [ROBOTS]


async def test_rules_learnt_as_others_come_bind_who_waited_for_those() -> None:
    """Who hears of a robots.txt and knows better is heeded, though its page could start at that very moment."""
    fetcher = everywhere(b"", latency=1.0)
    async with make_gate(fetcher, delay=0.0) as gate:
        gate.subscribe(lambda _: gate.learn(SITE, CLOSED), RobotsFetched)
        with pytest.raises(DisallowedError):
            await visit(gate)
        view = gate.host(PAGE)
        assert (view.visits, view.open_turns) == (1, 0)


async def test_rules_learnt_while_stale_ones_are_renewed_win() -> None:
    """Also over the answer that would renew what had run out."""
    fetcher = everywhere(CLOSED, latency=5.0)
    async with make_gate(fetcher) as gate:
        gate.learn(SITE, b"", fresh_until=10.0)
        await asyncio.sleep(20.0)
        asking = asyncio.create_task(gate.allowed(PAGE))
        await asyncio.sleep(1.0)
        gate.learn(SITE, PRIVATE)
        assert await asking is True
        assert await gate.allowed(f"{SITE}/private") is False


# ── max_wait


async def test_max_wait_is_one_budget() -> None:
    """What asking for the rules took is no longer there for the page."""
    for max_wait in (0.0, 0.5, 1.2, 1.25, 10.0):
        async with make_gate(scripted(latency=0.25), max_wait=max_wait) as gate:
            asked_at = now()
            if max_wait >= 1.25:
                assert await visit(gate, max_wait=max_wait) == asked_at + 1.25
                continue
            with pytest.raises(TooSoonError) as refusal:
                await visit(gate, max_wait=max_wait)
            assert now() - asked_at <= max_wait + 0.25
            assert refusal.value.retry_after > 0


async def test_page_behind_a_turn_that_does_not_end_is_told_when_to_come_again() -> None:
    """Not in zero seconds, though no delay is owed any more."""
    async with make_gate(scripted()) as gate, gate.turn(PAGE):
        asked_at = now()
        with pytest.raises(TooSoonError) as refusal:
            await asyncio.create_task(visit(gate, max_wait=5.0))
        assert now() - asked_at == 5.0
        assert refusal.value.retry_after > 0


async def test_max_wait_counts_rules_that_are_asked_for_again() -> None:
    """Rules that expire while a page waits leave it what is left of its budget."""
    async with make_gate(scripted()) as gate:
        gate.learn(SITE, b"", fresh_until=0.5)
        async with gate.turn(PAGE):
            pass
        with pytest.raises(TooSoonError) as refusal:
            await visit(gate, max_wait=1.5)
        assert now() <= 1.5
        assert refusal.value.retry_after > 0


# ── lanes that come and go


async def test_crawl_delay_outlives_its_lane() -> None:
    """The robots.txt of the host's other scheme, asked for after the lane was dropped, is followed by the gap."""
    fetcher = scripted({SITE: asks("Crawl-delay: 30")})
    async with make_gate(fetcher) as gate:
        assert await visit(gate) == 30.0
        await asyncio.sleep(100.0)
        assert await visit(gate, SECURE) == 160.0
        assert await visit(gate, SECURE) == 190.0
        assert await visit(gate) == 220.0
    assert fetcher.requests == [(0.0, ROBOTS), (130.0, SECURE_ROBOTS)]


# ── rules within one's own turn


async def test_rules_that_expired_answer_within_ones_own_turn() -> None:
    """The last that is known: they cannot be renewed before the turn has ended."""
    fetcher = everywhere(PRIVATE)
    async with make_gate(fetcher) as gate:
        async with gate.turn(PAGE), asyncio.timeout(48 * HOUR):
            await asyncio.sleep(25 * HOUR)
            assert gate.allowed_nowait(PAGE) is None
            assert await gate.allowed(f"{SITE}/other") is True
            assert await gate.allowed(f"{SITE}/private") is False
            assert now() < 26 * HOUR
        await asyncio.sleep(HOUR)
        assert await gate.allowed(f"{SITE}/private") is False
    assert [url for _, url in fetcher.requests] == [ROBOTS, ROBOTS]
