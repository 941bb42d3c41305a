"""`gate.block`: the switch for the day a site complains."""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, datetime, timedelta, timezone

import pytest
from tests.paced import (
    HOUR,
    OTHER,
    PAGE,
    ROBOTS,
    SITE,
    asks,
    gate_that_knows,
    listen,
    make_gate,
    refusal,
    scripted,
    together,
    visit,
    visits,
)
from tests.waiting import settle

from robotgate import GateClosedError, HostOverride, HostUnavailableError, MemoryStore, OptionError
from robotgate.events import BlockCause, HostBlocked, HostRecovered
from robotgate.sites import Answer

HOST = "a.example"


@pytest.mark.parametrize("until", [200, datetime(1970, 1, 1, 2, 3, 20, tzinfo=timezone(timedelta(hours=2)))])
async def test_waits_until_the_instant(until: float | datetime) -> None:
    """Given in seconds or as a date of any zone; then in order, a delay apart."""
    async with gate_that_knows(SITE) as gate:
        gate.block(HOST, until)
        assert gate.wait_time(PAGE) == 200.0
        assert gate.host(PAGE).blocked_by_operator_until_at == 200.0
        assert gate.host(PAGE).blocked_until_at is None
        assert await together(visits(gate, 2), visits(gate, 2, OTHER)) == [[200.0, 201.0], [1.0, 2.0]]
        assert gate.host(PAGE).blocked_by_operator_until_at is None


async def test_what_is_no_instant_is_refused() -> None:
    """The error names the argument, and no host is blocked. A date without a time zone is refused."""
    async with gate_that_knows(SITE) as gate:
        for until in (datetime(2030, 1, 1), -1.0, math.nan, True, "tomorrow", None):  # noqa: DTZ001
            with pytest.raises(OptionError, match="until="):
                gate.block(HOST, until)  # type: ignore[arg-type]
        assert await visit(gate) == 0.0


@pytest.mark.parametrize("is_blocked", [True, False])
async def test_instant_that_has_passed_is_refused(*, is_blocked: bool) -> None:
    """Seconds from now are a mistake that would block no host; the error says what to write, and nothing changes."""
    async with gate_that_knows(SITE) as gate:
        await asyncio.sleep(60.0)
        if is_blocked:
            gate.block(HOST, 100.0)
        for until in (0, 60.0, datetime(1970, 1, 1, 0, 1, tzinfo=UTC)):
            with pytest.raises(OptionError, match=r"until=.* has passed.*unblock"):
                gate.block(HOST, until)
        assert await visit(gate) == (100.0 if is_blocked else 60.0)


async def test_block_for_longer_and_for_shorter() -> None:
    """A pattern's new instant stands in place of its old one."""
    async with gate_that_knows(SITE) as gate:
        gate.block(HOST, 100.0)
        waiting = asyncio.create_task(visit(gate))
        await asyncio.sleep(50.0)
        gate.block(HOST, 250.0)
        await asyncio.sleep(100.0)
        gate.block(HOST, 200.0)
        assert await waiting == 200.0


async def test_robots_txt_is_not_asked_for_and_nothing_is_remembered_of_it() -> None:
    """A blocked site is not visited for its robots.txt either, and is not taken for one that cannot be reached."""
    fetcher, store = scripted({SITE: asks("Disallow: /private")}), MemoryStore()
    async with make_gate(fetcher, store=store) as gate:
        gate.block(HOST)
        for ask in (gate.allowed, gate.check, gate.robots):
            with pytest.raises(HostUnavailableError):
                await ask(PAGE)
        error, at = await refusal(visit(gate), HostUnavailableError)
        assert (at, error.retry_after, error.verdict) == (0.0, math.inf, None)
        assert gate.allowed_nowait(PAGE) is None
        assert gate.host(PAGE).access is None
        assert "records=0" in repr(store)
        gate.unblock(HOST)
        assert await gate.allowed(PAGE)
        assert await visit(gate) == 1.0
    assert fetcher.requests == [(0.0, ROBOTS)]


async def test_robots_txt_waits_for_the_end_of_a_short_block() -> None:
    """Then it goes first."""
    fetcher = scripted()
    async with make_gate(fetcher) as gate:
        gate.block(HOST, 100.0)
        assert await visits(gate, 2) == [101.0, 102.0]
    assert fetcher.requests == [(100.0, ROBOTS)]


async def test_known_rules_are_told_all_the_same() -> None:
    """That sends no request, and the rules outlast the block."""
    async with make_gate(scripted({SITE: asks("Disallow: /private")})) as gate:
        await gate.allowed(PAGE)
        gate.block(HOST)
        assert await gate.allowed(PAGE)
        assert not await gate.allowed(f"{SITE}/private")


async def test_host_that_was_never_met() -> None:
    """What there is to wait is known of another origin of a host that is met, and of one that shares its pace."""
    async with gate_that_knows(
        SITE, pace_key=lambda _: "all", obey_visit_time=True, max_block=math.inf
    ) as gate:
        await visit(gate)
        gate.block("b.example", 100.0)
        assert gate.wait_time(OTHER) == 100.0
        gate.learn("http://c.example", asks("Visit-time: 0100-0200").encode())
        assert gate.wait_time("http://c.example/page") == HOUR
        assert gate.wait_time(PAGE) == 1.0


async def test_redirect_of_robots_txt_to_a_blocked_host() -> None:
    """The blocked host is left alone, and the first is none the worse for it once the block is lifted."""
    fetcher = scripted({SITE: Answer(status=301, location="http://b.example/robots.txt")})
    async with make_gate(fetcher) as gate:
        gate.block("b.example")
        with pytest.raises(HostUnavailableError):
            await gate.allowed(PAGE)
        assert [url for _, url in fetcher.requests] == [ROBOTS]
        gate.unblock("b.example")
        assert await gate.allowed(PAGE)
    assert [url for _, url in fetcher.requests] == [ROBOTS, ROBOTS, "http://b.example/robots.txt"]


async def test_closed_gate_takes_no_word() -> None:
    """Nor does one that was not opened yet."""
    gate = make_gate()
    for is_over in (False, True):
        with pytest.raises(GateClosedError):
            gate.block(HOST)
        with pytest.raises(GateClosedError):
            gate.unblock(HOST)
        with pytest.raises(GateClosedError):
            gate.override(HOST, HostOverride(delay=7.0))
        if not is_over:
            await (await gate.__aenter__()).aclose()


async def test_events() -> None:
    """The operator hears of his own word, with the pattern as he gave it."""
    async with make_gate() as gate:
        heard = listen(gate)
        gate.block("*.example", 100.0)
        gate.block("*.example")
        gate.unblock("*.example")
        await settle()
    cause = BlockCause.OPERATOR
    assert heard == [
        HostBlocked(at=0.0, host="*.example", until_at=100.0, cause=cause),
        HostBlocked(at=0.0, host="*.example", until_at=math.inf, cause=cause),
        HostRecovered(at=0.0, host="*.example", cause=cause),
    ]
