"""Request-rate: documents in a time, as the seconds between two of them, at the hours it names (UTC)."""

from __future__ import annotations

import asyncio
import math

import pytest
from tests.paced import (
    HOUR,
    PAGE,
    ROBOTS,
    SITE,
    asks,
    make_gate,
    now,
    refusal,
    scripted,
    sleep_until,
    visit,
    visits,
)
from tests.waiting import settle

from robotgate import DisallowedError, Reason, RequestRate

NIGHT = "Request-rate: 1/10m 0000-0559"


@pytest.mark.parametrize(
    ("lines", "spacing"),
    [
        (["Request-rate: 1/5s"], 5.0),
        (["Request-rate: 1/5"], 5.0),
        (["Request-rate: 30/1m"], 2.0),
        (["Request-rate: 7/1m"], 60 / 7),
        (["Request-rate: 2/5"], 2.5),
        (["Request-rate: 60/1h"], 60.0),
        (["Request-rate: 100/1"], 1.0),
        (["Request-rate: 0/1"], 1.0),
        (["Request-rate: 1/5", "Crawl-delay: 3"], 5.0),
        (["Request-rate: 1/5", "Crawl-delay: 7.5"], 7.5),
        (["Request-rate: 1/5", "Request-rate: 1/8", "Request-rate: 1/3"], 8.0),
    ],
)
async def test_rate_is_a_spacing(lines: list[str], spacing: float) -> None:
    """The seconds for one document, fractions kept; the longest of all that is asked for, and never under ours."""
    async with make_gate(scripted({SITE: asks(*lines)}), delay=1.0) as gate:
        starts = await visits(gate, 4)
        assert starts == pytest.approx([spacing, 2 * spacing, 3 * spacing, 4 * spacing], abs=2e-6)
        assert gate.host(PAGE).delay == spacing


async def test_fractions_are_not_short() -> None:
    """A hundred documents at seven a minute: no gap is under sixty sevenths."""
    async with make_gate(scripted({SITE: asks("Request-rate: 7/1m")})) as gate:
        starts = await visits(gate, 100)
    # The virtual clock tells a billionth of a second.
    assert min(later - sooner for sooner, later in zip([0.0, *starts], starts, strict=False)) > 60 / 7 - 1e-6
    assert starts[-1] == pytest.approx(100 * 60 / 7, abs=1e-4)


async def test_rate_too_slow_is_refused() -> None:
    """Over `max_delay`: disallowed, with what was asked and what we are willing to wait; nothing is sent."""
    async with make_gate(scripted({SITE: asks("Request-rate: 1/10m")})) as gate:
        verdict = await gate.check(PAGE)
        assert (verdict.allowed, verdict.reason) == (False, Reason.DELAY_TOO_LONG)
        assert (verdict.asked_delay, verdict.max_delay, verdict.crawl_delay) == (600.0, 60.0, None)
        assert str(verdict) == (
            f"{PAGE} is disallowed: the site asks for a longer delay than we are willing to wait"
            " (Request-rate 1/600, 600 s a document, is over max_delay=60 s)"
        )
        error, at = await refusal(visit(gate), DisallowedError)
        assert (str(error), at) == (str(verdict), 0.0)
        assert (await gate.check(ROBOTS)).allowed
        assert gate.host(PAGE).visits == 1


@pytest.mark.parametrize(("max_delay", "allowed"), [(599.999, False), (600.0, True), (math.inf, True)])
async def test_who_is_willing_waits(max_delay: float, allowed: bool) -> None:  # noqa: FBT001
    """A rate of just `max_delay` is no longer than that; `math.inf` waits however long."""
    async with make_gate(scripted({SITE: asks("Request-rate: 1/10m")}), max_delay=max_delay) as gate:
        assert await gate.allowed(PAGE) is allowed
        if allowed:
            assert await visits(gate, 3) == [600.0, 1200.0, 1800.0]


async def test_rate_that_begins_slows_from_its_minute_on() -> None:
    """A visit just before it is spaced as before; one from its first second on as it asks."""
    text = asks("Request-rate: 1/10 0100-0159")
    async with make_gate(scripted({SITE: text}), delay=1.0) as gate:
        await gate.allowed(PAGE)
        await sleep_until(HOUR - 2)
        assert await visits(gate, 4) == [HOUR - 2, HOUR - 1, HOUR + 9, HOUR + 19]


async def test_rate_that_ends_lets_a_visit_come_at_that_minute() -> None:
    """0159 is the last minute of it: at 02:00:00 a visit has only our own delay between it and the last one."""
    text = asks("Request-rate: 1/50 0100-0159")
    async with make_gate(scripted({SITE: text}), delay=1.0) as gate:
        await gate.allowed(PAGE)
        await sleep_until(2 * HOUR - 80)
        assert await visits(gate, 5) == [2 * HOUR - at for at in (80, 30, 0, -1, -2)]


async def test_rate_holds_every_day() -> None:
    """A window over midnight: eleven at night to one in the morning."""
    text = asks("Request-rate: 1/20 2300-0059")
    async with make_gate(scripted({SITE: text}), delay=1.0) as gate:
        await gate.allowed(PAGE)
        assert await visits(gate, 2) == [20.0, 40.0]
        await sleep_until(HOUR)
        assert await visits(gate, 2) == [HOUR, HOUR + 1]
        await sleep_until(22 * HOUR)
        assert await gate.allowed(PAGE), "which has the file asked for again, by day"
        await sleep_until(23 * HOUR - 1)
        assert await visits(gate, 3) == [23 * HOUR - 1, 23 * HOUR + 19, 23 * HOUR + 39]


async def test_slowest_of_the_hour_counts() -> None:
    """Two rates by night, one by day."""
    text = asks("Request-rate: 1/5", "Request-rate: 1/8 0000-0559", "Request-rate: 1/3 0600-2359")
    async with make_gate(scripted({SITE: text}), delay=1.0) as gate:
        await gate.allowed(PAGE)
        assert await visits(gate, 2) == [8.0, 16.0]
        assert (await gate.check(PAGE)).request_rate == RequestRate(1, 8, 0, 359)
        await sleep_until(6 * HOUR)
        assert await visits(gate, 2) == [6 * HOUR, 6 * HOUR + 5]


async def test_host_refused_by_night_is_let_in_by_day() -> None:
    """At six, without a second robots.txt; the verdict of the night says until when it holds."""
    fetcher = scripted({SITE: asks(NIGHT)})
    async with make_gate(fetcher) as gate:
        verdict = await gate.check(PAGE)
        assert (verdict.allowed, verdict.fresh_until_at) == (False, 6 * HOUR)
        await sleep_until(6 * HOUR - 1)
        assert gate.allowed_nowait(PAGE) is False
        await sleep_until(6 * HOUR)
        assert gate.allowed_nowait(PAGE) is None
        assert await visits(gate, 2) == [6 * HOUR, 6 * HOUR + 1]
    assert fetcher.requests == [(0.0, ROBOTS)]


async def test_host_let_in_by_day_is_refused_by_night() -> None:
    """The other way round, and back, all on one robots.txt."""
    fetcher = scripted({SITE: asks("Request-rate: 1/10m 0600-1159")})
    async with make_gate(fetcher) as gate:
        for at, allowed in [(0.0, True), (6 * HOUR, False), (12 * HOUR - 1, False), (12 * HOUR, True)]:
            await sleep_until(at)
            assert await gate.allowed(PAGE) is allowed
    assert fetcher.requests == [(0.0, ROBOTS)]


async def test_waiter_across_the_hour_is_refused() -> None:
    """Who comes by day, and whose turn would come in the night that refuses, is not sent; nor is he sent sooner."""
    text = asks("Crawl-delay: 40", "Request-rate: 1/10m 0100-0559")
    fetcher = scripted({SITE: text})
    async with make_gate(fetcher) as gate:
        await gate.allowed(PAGE)
        await sleep_until(HOUR - 50)
        waiting = [asyncio.create_task(visit(gate)) for _ in range(4)]
        await settle()
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert outcomes[:2] == [HOUR - 50, HOUR - 10]
        assert [type(outcome) for outcome in outcomes[2:]] == [DisallowedError] * 2
        view = gate.host(PAGE)
        assert (view.waiting, view.open_turns) == (0, 0)
    assert len(fetcher.requests) == 1


async def test_waiter_across_the_hour_goes_when_it_turns() -> None:
    """Who waits for a slow rate of the night goes at six, not when the rate of the night would have let him."""
    async with make_gate(scripted({SITE: asks(NIGHT)}), max_delay=math.inf) as gate:
        await gate.allowed(PAGE)
        await sleep_until(6 * HOUR - 100)
        assert await visits(gate, 3) == [6 * HOUR - 100, 6 * HOUR, 6 * HOUR + 1]


@pytest.mark.parametrize("text", [asks("Request-rate: 1/5"), asks("Request-rate: 1/10m", "Crawl-delay: 900")])
async def test_rates_that_do_not_count(text: str) -> None:
    """Without `obey_crawl_delay` neither spaces nor refuses; what was asked for can still be read."""
    async with make_gate(scripted({SITE: text}), delay=1.0, obey_crawl_delay=False) as gate:
        assert await visits(gate, 3) == [1.0, 2.0, 3.0]
        verdict = await gate.check(PAGE)
        assert verdict.allowed
        assert verdict.asked_delay in {5.0, 900.0}


async def test_rate_outlives_its_lane() -> None:
    """An idle lane is dropped, and what the site asked for is not forgotten with it."""
    async with make_gate(scripted({SITE: asks("Request-rate: 1/30")})) as gate:
        assert await visit(gate) == 30.0
        await sleep_until(HOUR)
        assert "lanes=0" in repr(gate)
        assert await visits(gate, 2) == [HOUR, HOUR + 30]
        assert now() == HOUR + 30
