"""`max_wait`: turns that are surely too late are refused at once, others wait, and no turn is wasted."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from tests.paced import (
    OTHER,
    PAGE,
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

from robotgate import GateOptions, HostOverride, OptionError, TooSoonError

if TYPE_CHECKING:
    from collections.abc import Callable

    from robotgate import RobotGate

CRAWL_DELAY = asks("Crawl-delay: 40")


async def too_soon(
    gate: RobotGate, max_wait: float, url: str = PAGE, *, priority: int = 0
) -> tuple[float, float]:
    """How long a refused visitor waited, and when he is told to come again."""
    asked_at = now()
    error, at = await refusal(visit(gate, url, max_wait=max_wait, priority=priority), TooSoonError)
    assert isinstance(error, TooSoonError)
    return at - asked_at, at + error.retry_after


@pytest.mark.parametrize(
    ("text", "options", "due_at"),
    [
        ("", GateOptions(), 1.0),
        (CRAWL_DELAY, GateOptions(), 40.0),
        (asks("Request-rate: 1/30"), GateOptions(), 30.0),
        ("", GateOptions(rate=(1, 100)), 100.0),
        (asks("Visit-time: 0002-0010"), GateOptions(obey_visit_time=True), 120.0),
        ("", GateOptions(overrides={"a.example": HostOverride(delay=7.0)}), 7.0),
    ],
)
async def test_told_at_once_by_what_is_due(text: str, options: GateOptions, due_at: float) -> None:
    """A start is sure to come no sooner; a wait of just so long is in time."""
    async with make_gate(scripted({SITE: text}), **options) as gate:
        await gate.allowed(PAGE)
        assert await too_soon(gate, due_at - 0.5) == (0.0, due_at)
        assert await visit(gate, max_wait=due_at) == due_at


async def test_told_at_once_by_a_block() -> None:
    """The server's and the operator's, whichever is longer."""
    async with make_gate() as gate:
        gate.learn(SITE, b"")
        async with gate.turn(PAGE) as turn:
            turn.report(status=503, headers={"Retry-After": "120"})
        assert await too_soon(gate, 119.0) == (0.0, 120.0)
        gate.block("*", 200.0)
        assert await too_soon(gate, 199.0) == (0.0, 200.0)
        assert await visit(gate, max_wait=200.0) == 200.0


async def test_block_that_comes_while_one_waits() -> None:
    """A turn that could be in time when it was asked for is refused at the end of its `max_wait`, not of the block."""
    async with make_gate(concurrency_per_host=2) as gate:
        gate.learn(SITE, b"")
        waiting = [asyncio.create_task(visit(gate)) for _ in range(3)]
        await settle()
        late = asyncio.create_task(too_soon(gate, 10.0))
        await asyncio.sleep(0.5)
        gate.block("a.example", 100.0)
        assert await late == (10.0, 100.0)
        assert await asyncio.gather(*waiting) == [0.0, 100.0, 101.0]


async def test_told_at_once_by_those_ahead() -> None:
    """Ten go before, each a second after the other at best."""
    async with make_gate() as gate:
        gate.learn(SITE, b"")
        ahead = [asyncio.create_task(visit(gate)) for _ in range(11)]
        await settle()
        assert await too_soon(gate, 10.5) == (0.0, 11.0)
        assert await too_soon(gate, 10.5, priority=-1) == (0.0, 11.0)
        in_time = asyncio.create_task(visit(gate, max_wait=11.0))
        urgent = asyncio.create_task(visit(gate, max_wait=1.0, priority=1))
        assert await urgent == 1.0
        # Whoever has priority may make others late who were in time.
        error, at = await refusal(in_time, TooSoonError)
        assert (at, type(error)) == (11.0, TooSoonError)
        assert await asyncio.gather(*ahead) == [0.0, *(2.0 + number for number in range(10))]


async def test_those_ahead_of_another_origin_count() -> None:
    """They share a pace; a turn that has to wait for its origin's own hours does not count."""
    fetcher = scripted({SITE: asks("Visit-time: 0600-0700")})
    async with make_gate(fetcher, obey_visit_time=True, max_block=1e6) as gate:
        await gate.allowed(PAGE)
        secure = "https://a.example/"
        gate.learn(secure, b"")
        by_day = [asyncio.create_task(visit(gate)) for _ in range(10)]
        ahead = [asyncio.create_task(visit(gate, secure)) for _ in range(3)]
        await settle()
        assert await too_soon(gate, 3.5, secure) == (0.0, 4.0)
        assert await visit(gate, secure, max_wait=4.0) == 4.0
        assert await asyncio.gather(*ahead) == [1.0, 2.0, 3.0]
        for task in by_day:
            task.cancel()
        await asyncio.gather(*by_day, return_exceptions=True)


async def test_told_at_the_end_where_it_was_not_sure() -> None:
    """Those ahead took longer than they had to."""
    async with make_gate() as gate:
        gate.learn(SITE, b"")
        ahead = [asyncio.create_task(visit(gate, takes=5.0)) for _ in range(3)]
        await settle()
        waited, again_at = await too_soon(gate, 10.0)
        assert waited == 10.0
        assert 10.0 < again_at <= 12.0
        assert await asyncio.gather(*ahead) == [0.0, 6.0, 12.0]


async def test_just_in_time() -> None:
    """A turn that comes at the very end of the wait is had."""
    async with make_gate() as gate:
        gate.learn(SITE, b"")
        ahead = [asyncio.create_task(visit(gate, takes=4.0)) for _ in range(2)]
        await settle()
        assert await visit(gate, max_wait=10.0) == 10.0
        assert await asyncio.gather(*ahead) == [0.0, 5.0]


async def test_thousand_who_want_a_turn_within_a_minute() -> None:
    """Forty tasks get a turn; those that were sure to be late are refused at once, and no turn is wasted."""
    async with make_gate() as gate:
        gate.learn(SITE, b"")
        tasks = [asyncio.create_task(visit(gate, takes=0.5, max_wait=60.0)) for _ in range(1000)]
        await settle()
        assert sum(task.done() for task in tasks) == 939
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert now() == 60.5
        starts = [outcome for outcome in outcomes if isinstance(outcome, float)]
        assert starts == [1.5 * number for number in range(41)]
        refused = [outcome for outcome in outcomes if isinstance(outcome, TooSoonError)]
        assert len(starts) + len(refused) == 1000
        assert gate.host(PAGE).visits == len(starts)
        assert gate.host(PAGE).waiting == 0
        assert await visit(gate) == 61.5


async def test_refused_waiters_hold_up_nobody() -> None:
    """A waiter that is refused passes its turn to the next at once."""
    async with make_gate() as gate:
        gate.learn(SITE, b"")
        first = asyncio.create_task(visit(gate, takes=9.0))
        await settle()
        leaving = [asyncio.create_task(too_soon(gate, 5.0 + number)) for number in range(3)]
        await settle()
        staying = [asyncio.create_task(visit(gate)) for _ in range(2)]
        assert [waited for waited, _ in await asyncio.gather(*leaving)] == [5.0, 6.0, 7.0]
        assert await asyncio.gather(first, *staying) == [0.0, 10.0, 11.0]


async def test_ten_thousand_deadlines_are_one_timer(pending_timers: Callable[[], int]) -> None:
    """All of one host, each at another instant; they are told in time."""
    async with make_gate(delay=0.001) as gate:
        gate.learn(SITE, b"")
        async with gate.turn(PAGE):
            tasks = [
                asyncio.create_task(refusal(visit(gate, max_wait=20.0 + number / 1000), TooSoonError))
                for number in range(10_000)
            ]
            await settle()
            assert gate.host(PAGE).waiting == 10_000
            # Theirs, and that of all lanes which are idle.
            assert pending_timers() == 2
            await asyncio.sleep(40.0)
            assert gate.host(PAGE).waiting == 0
        told_at = [at for _, at in await asyncio.gather(*tasks)]
        assert told_at == pytest.approx([20.0 + number / 1000 for number in range(10_000)], abs=1e-5)
        assert gate.host(PAGE).visits == 1


async def test_waiting_for_a_place_is_part_of_it() -> None:
    """Of `concurrency`; the host is free for the next as soon as one gives up."""
    async with make_gate(concurrency=1) as gate:
        gate.learn(PAGE, b"")
        gate.learn(OTHER, b"")
        holding = asyncio.create_task(visit(gate, OTHER, takes=30.0))
        await settle()
        patient = asyncio.create_task(visit(gate))
        waited, again_at = await too_soon(gate, 20.0)
        assert waited == 20.0
        assert again_at > 20.0
        patient.cancel()
        await settle()
        waited, again_at = await too_soon(gate, 5.0)
        assert (waited, again_at > 25.0) == (5.0, True)
        view = gate.host(PAGE)
        assert (view.waiting, view.open_turns, view.visits) == (0, 0, 0)
        assert await holding == 0.0


async def test_nothing_at_all() -> None:
    """0 takes what is to be had at once, and nothing else."""
    async with make_gate(max_wait=0.0) as gate:
        gate.learn(SITE, b"")
        async with gate.turn(PAGE):
            pass
        assert await too_soon(gate, 0.0) == (0.0, 1.0)
        await sleep_until(1.0)
        assert await visit(gate, max_wait=0.0) == 1.0


async def test_refused_at_random_keeps_order_and_gaps() -> None:
    """Visitors of many patiences: those who have a turn have it in their order, the delay apart, and in time."""
    async with make_gate() as gate:
        gate.learn(SITE, b"")
        asked: list[tuple[float, float]] = []

        async def come(number: int) -> float:
            await asyncio.sleep(number * 0.37)
            asked.append((now(), number * 7 % 13 + 0.5))
            return await visit(gate, takes=number % 4 * 0.3, max_wait=asked[-1][1])

        outcomes = await asyncio.gather(*(come(number) for number in range(100)), return_exceptions=True)
    starts = [(at, *asked[number]) for number, at in enumerate(outcomes) if isinstance(at, float)]
    assert all(type(outcome) in {float, TooSoonError} for outcome in outcomes)
    assert all(asked_at <= at <= asked_at + max_wait for at, asked_at, max_wait in starts)
    assert all(later[0] - sooner[0] >= 1.0 - 1e-6 for sooner, later in pairwise(starts))
    assert 20 < len(starts) < 100


@pytest.mark.parametrize("max_wait", [-1.0, float("nan"), float("inf"), True, "1"])
async def test_what_is_no_patience(max_wait: float) -> None:
    """Refused by name; None is how long it takes."""
    async with make_gate() as gate:
        with pytest.raises(OptionError, match="max_wait="):
            gate.turn(PAGE, max_wait=max_wait)
        with pytest.raises(OptionError, match="max_wait="):
            make_gate(max_wait=max_wait)
        assert await visits(gate, 1) == [1.0]
