"""The whole gate on virtual time: rules and pace together, at exact instants."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.paced import PAGE, ROBOTS, SITE, asks, make_gate, now, scripted, visit

from robotgate import DisallowedError, GateClosedError, HostUnavailableError, NestedTurnError, TooSoonError
from robotgate.sites import Answer

if TYPE_CHECKING:
    from collections.abc import Callable


async def test_robots_counts_as_a_visit() -> None:
    """The first page waits the delay after robots.txt has been read."""
    fetcher = scripted(latency=0.25)
    async with make_gate(fetcher) as gate:
        starts = await asyncio.gather(*(visit(gate, takes=0.5) for _ in range(3)))
        assert starts == [1.25, 2.75, 4.25]
        assert fetcher.requests == [(0.0, ROBOTS)]
        assert gate.host(PAGE).visits == 4


async def test_crawl_delay_lengthens_and_never_shortens() -> None:
    """The group's Crawl-delay holds where it is longer than ours, also for the first page."""
    fetcher = scripted({SITE: asks("Crawl-delay: 7"), "http://b.example": asks("Crawl-delay: 0.1")})
    async with make_gate(fetcher) as gate:
        assert await asyncio.gather(*(visit(gate) for _ in range(3))) == [7.0, 14.0, 21.0]
        base = now()
        other = "http://b.example/"
        assert await asyncio.gather(*(visit(gate, other) for _ in range(2))) == [base + 1.0, base + 2.0]


async def test_crawl_delay_of_another_group_is_not_ours() -> None:
    """Only our own group's delay binds."""
    text = "User-agent: otherbot\nCrawl-delay: 30\n\nUser-agent: *\nDisallow: /x\n"
    async with make_gate(scripted({SITE: text})) as gate:
        assert await visit(gate) == 1.0


async def test_crawl_delay_over_max_delay_is_refused() -> None:
    """A site that asks for more than `max_delay` is refused with the reason, and never visited sooner."""
    fetcher = scripted({SITE: asks("Crawl-delay: 61")})
    async with make_gate(fetcher, max_delay=60.0) as gate:
        verdict = await gate.check(PAGE)
        assert (verdict.allowed, verdict.reason.name, verdict.crawl_delay) == (False, "DELAY_TOO_LONG", 61.0)
        with pytest.raises(DisallowedError):
            await visit(gate)
        assert (await gate.check(ROBOTS)).allowed
    async with make_gate(fetcher, max_delay=61.0) as gate:
        assert (await gate.check(PAGE)).allowed


async def test_both_schemes_of_a_host_share_the_pace() -> None:
    """Http and https have rules of their own and one lane; robots.txt goes ahead of pages that wait."""
    fetcher = scripted()
    async with make_gate(fetcher, delay=2.0) as gate:
        assert await gate.allowed(PAGE)
        pages = [asyncio.create_task(visit(gate)) for _ in range(3)]
        await asyncio.sleep(0.5)
        secure = asyncio.create_task(visit(gate, "https://a.example/"))
        assert await asyncio.gather(*pages) == [4.0, 6.0, 8.0]
        assert await secure == 10.0
        assert fetcher.requests == [(0.0, ROBOTS), (2.0, "https://a.example/robots.txt")]


async def test_thousand_origins_that_redirect_to_one_host_do_not_flood_it() -> None:
    """Every hop of a robots.txt waits its turn at the hop's host."""
    sites = {
        f"http://{number}.example": Answer(status=302, location=f"http://parking.example/{number}")
        for number in range(50)
    }
    fetcher = scripted(sites, latency=0.5)
    async with make_gate(fetcher) as gate:
        assert all(await asyncio.gather(*(gate.allowed(f"http://{number}.example/") for number in range(50))))
    parked = [at for at, url in fetcher.requests if "parking" in url]
    assert parked == [0.5 + 1.5 * number for number in range(50)]


async def test_several_slots_count_from_start_to_start() -> None:
    """`concurrency_per_host` above 1: pages overlap, starts stay a delay apart."""
    async with make_gate(concurrency_per_host=3) as gate:
        assert await asyncio.gather(*(visit(gate, takes=2.5) for _ in range(4))) == [1.0, 2.0, 3.0, 4.0]


async def test_overall_concurrency() -> None:
    """No more pages under way than `concurrency`, over all hosts."""
    async with make_gate(concurrency=2) as gate:
        starts = await asyncio.gather(
            *(visit(gate, f"http://{number}.example/", takes=10.0) for number in range(5))
        )
        assert sorted(starts) == [1.0, 1.0, 11.0, 11.0, 21.0]


async def test_priority_of_pages() -> None:
    """The higher priority goes first."""
    async with make_gate() as gate:
        await gate.allowed(PAGE)
        low, high = await asyncio.gather(visit(gate, priority=-1), visit(gate, priority=9))
        assert (high, low) == (1.0, 2.0)


async def test_max_wait_of_gate_and_turn() -> None:
    """The turn's `max_wait` stands in place of the gate's."""
    async with make_gate(max_wait=0.0) as gate:
        await gate.allowed(PAGE)
        with pytest.raises(TooSoonError) as refusal:
            await gate.turn(PAGE).__aenter__()
        assert (now(), refusal.value.retry_after) == (0.0, 1.0)
        async with gate.turn(PAGE, max_wait=None) as turn:
            assert (now(), turn.waited) == (1.0, 1.0)


async def test_max_wait_of_nothing_does_not_wait_for_robots_txt_either() -> None:
    """`max_wait=0` on a host whose lane is blocked does not sit the block out to read its robots.txt."""
    async with make_gate() as gate:
        async with gate.turn(PAGE) as turn:
            turn.report(status=429, headers={"Retry-After": "100"})
        asked_at = now()
        with pytest.raises((TooSoonError, HostUnavailableError)):
            async with gate.turn("https://a.example/", max_wait=0.0):
                pass
        assert now() == asked_at


async def test_waited_counts_from_asking() -> None:
    """`Turn.waited` is all the time from asking for the turn to having it, reading robots.txt included."""
    async with (
        make_gate(scripted(latency=0.25)) as gate,
        gate.turn(PAGE) as turn,
    ):
        assert (now(), turn.waited) == (1.25, 1.25)


async def test_reported_block_is_waited_out() -> None:
    """A 429 that the caller reports holds the host back for as long as Retry-After says."""
    async with make_gate() as gate:
        async with gate.turn(PAGE) as turn:
            turn.report(status=429, headers={"retry-after": "120"})
        assert gate.wait_time(PAGE) == 120.0
        assert gate.host(PAGE).blocked_until_at == 121.0
        assert await visit(gate) == 121.0


async def test_block_too_long_is_an_error() -> None:
    """A block over `max_block` is refused at once, with the seconds that are left."""
    async with make_gate() as gate:
        async with gate.turn(PAGE) as turn:
            turn.report(status=503, headers={"Retry-After": "301"})
        with pytest.raises(HostUnavailableError) as refusal:
            await visit(gate)
        assert refusal.value.retry_after == 301.0


async def test_turn_is_entered_once() -> None:
    """Twice is a mistake that would lose a turn: neither within its block nor after."""
    async with make_gate() as gate:
        gate.learn(SITE, b"")
        pending = gate.turn(PAGE)
        async with pending:
            with pytest.raises(RuntimeError, match="once"):
                await pending.__aenter__()
            assert gate.host(PAGE).open_turns == 1
        with pytest.raises(RuntimeError, match="once"):
            await pending.__aenter__()
        assert (gate.host(PAGE).open_turns, gate.host(PAGE).waiting, gate.host(PAGE).visits) == (0, 0, 1)


async def test_turn_that_was_refused_is_not_entered_again() -> None:
    """The gate is asked for another."""
    async with make_gate() as gate:
        gate.learn(SITE, b"")
        await visit(gate)
        pending = gate.turn(PAGE, max_wait=0.0)
        with pytest.raises(TooSoonError):
            await pending.__aenter__()
        await asyncio.sleep(5.0)
        with pytest.raises(RuntimeError, match="once"):
            await pending.__aenter__()


async def test_nested_turn_is_an_error() -> None:
    """Asking for the same host inside its own turn says so."""
    async with make_gate() as gate, gate.turn(PAGE):
        with pytest.raises(NestedTurnError):
            await visit(gate, "http://a.example/other")


async def test_rules_asked_for_inside_a_turn_are_no_deadlock() -> None:
    """Asking for the rules of the host's other scheme inside its only turn ends, be it with an error."""
    async with (
        make_gate() as gate,
        gate.turn(PAGE),
        asyncio.timeout(3600.0),
    ):
        try:
            await gate.allowed("https://a.example/")
        except NestedTurnError:
            return
        assert now() < 60.0


async def test_rules_that_expire_inside_a_turn_are_no_deadlock() -> None:
    """A page link judged inside a long turn, when the rules have just run out, gets an answer or an error."""
    async with make_gate() as gate, gate.turn(PAGE):
        await asyncio.sleep(25 * 3600.0)
        async with asyncio.timeout(3600.0):
            try:
                await gate.allowed("http://a.example/other")
            except NestedTurnError:
                return


async def test_close_ends_every_wait(pending_timers: Callable[[], int]) -> None:
    """Tasks that wait for rules, a turn or a permit get GateClosedError, and no task is left."""
    fetcher = scripted(latency=5.0)
    gate = make_gate(fetcher, concurrency=1, delay=10.0)
    async with gate:
        gate.learn("http://b.example/", b"")
        gate.learn("http://c.example/", b"")
        holding = asyncio.create_task(visit(gate, "http://b.example/", takes=100.0))
        waiting = [
            asyncio.create_task(visit(gate, url)) for url in (PAGE, "http://b.example/", "http://c.example/")
        ]
        await asyncio.sleep(1.0)
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [GateClosedError] * 3
    assert await holding == 0.0
    assert pending_timers() == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_cancelled_waiters_leave_nothing(pending_timers: Callable[[], int]) -> None:
    """After a storm of cancellations there is one timer a lane and one for the idle, and no task but ours."""
    async with make_gate() as gate:
        tasks = [asyncio.create_task(visit(gate, f"http://{n % 10}.example/")) for n in range(500)]
        await asyncio.sleep(1.5)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert pending_timers() <= 10 + 1
        assert asyncio.all_tasks() == {asyncio.current_task()}
        await asyncio.sleep(60.0)
        assert pending_timers() == 0
