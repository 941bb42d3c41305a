"""Odd options: endless waits, today's date, hours that never meet, closing at any moment."""

from __future__ import annotations

import asyncio
import math
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pytest
from tests.paced import (
    DAY,
    HOUR,
    OTHER,
    PAGE,
    SITE,
    asks,
    gate_that_knows,
    make_gate,
    now,
    refusal,
    scripted,
    together,
    visit,
    visits,
)
from tests.waiting import settle

from robotgate import GateClosedError, HostOverride, TooSoonError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from robotgate import RobotGate

TODAY = 1_800_000_000.123456789
"""Where a double tells no instants apart that are closer than a quarter of a microsecond."""
UNMET = asks("Visit-time: 0600-0600", "Request-rate: 1/300000d 0600-0600")


class ShiftedClock:
    """The loop's time, at another date."""

    def __init__(self, epoch: float) -> None:
        self._epoch = epoch

    def now(self) -> float:
        """Seconds."""
        return self._epoch + asyncio.get_running_loop().time()


# ── today


@pytest.mark.parametrize(
    ("text", "delay", "spacing"),
    [
        ("", 1.0, 1.0),
        ("", 0.0003, 0.0003),
        (asks("Request-rate: 7/1m"), 1.0, 60 / 7),
        (asks("Request-rate: 3/10"), 0.1, 10 / 3),
        (asks("Crawl-delay: 0.7"), 0.1, 0.7),
    ],
)
async def test_todays_date_makes_no_gap_short(text: str, delay: float, spacing: float) -> None:
    """Nor any more than a little late, nor does the lane look at the clock again and again."""
    async with make_gate(scripted({SITE: text}), delay=delay, clock=ShiftedClock(TODAY)) as gate:
        starts = await visits(gate, 100)
    gaps = [later - sooner for sooner, later in pairwise(starts)]
    assert min(gaps) >= spacing - 2e-6
    assert max(gaps) <= spacing + 0.002


# ── without end


async def test_delay_beyond_all_time() -> None:
    """Sixty-four nines of Crawl-delay, where the operator waits however long: until he thinks better of it."""
    async with make_gate(scripted({SITE: asks(f"Crawl-delay: {'9' * 64}")}), max_delay=math.inf) as gate:
        assert await gate.allowed(PAGE)
        assert gate.wait_time(PAGE) == 1e64
        await refusal(visit(gate, max_wait=1e9), TooSoonError)
        waiting = [asyncio.create_task(visit(gate, priority=priority)) for priority in (0, 1)]
        await asyncio.sleep(17 * HOUR)
        gate.override("a.example", HostOverride(obey_crawl_delay=False))
        assert await asyncio.gather(*waiting) == [17 * HOUR + 1, 17 * HOUR]


async def test_block_without_end() -> None:
    """Waited for without end, by robots.txt as well; lifted, all go on."""
    async with gate_that_knows(SITE, max_block=math.inf) as gate:
        gate.block("*")
        assert gate.wait_time(PAGE) == math.inf
        assert gate.host(PAGE).next_allowed_at == math.inf
        error, _ = await refusal(visit(gate, max_wait=1e9), TooSoonError)
        assert error.retry_after == math.inf
        waiting = [asyncio.create_task(visit(gate, url)) for url in (PAGE, PAGE, OTHER)]
        await asyncio.sleep(DAY / 2)
        gate.unblock("*")
        assert await asyncio.gather(*waiting) == [DAY / 2, DAY / 2 + 1, DAY / 2 + 1]


# ── closing


async def block_and_wait(gate: RobotGate) -> None:
    """For an operator's block to end."""
    gate.block("b.example", 200.0)
    await visit(gate, OTHER)


async def wait_for_ready_turns(gate: RobotGate) -> None:
    """One that is not due, and one whose rules are not known."""
    async for turn in gate.ready([PAGE, "http://slow.example/"]):
        turn.end()


WAITS: Final[dict[str, Callable[[RobotGate], Coroutine[object, None, object]]]] = {
    "robots.txt is under way": lambda gate: visit(gate, "http://slow.example/"),
    "robots.txt waits for its turn": lambda gate: visit(gate, "https://a.example/"),
    "in the lane": lambda gate: visit(gate, max_wait=500.0),
    "for a place of concurrency": lambda gate: visit(gate, "http://idle.example/"),
    "for the end of a block": block_and_wait,
    "for a quota": lambda gate: together(
        *(gate.allowed(f"http://{number}.example/") for number in range(20))
    ),
    "ready": wait_for_ready_turns,
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
async def test_closing_in_every_state(
    wait: Callable[[RobotGate], Coroutine[object, None, object]], pending_timers: Callable[[], int]
) -> None:
    """Waiting tasks get the error; open turns end as usual; no task and no timer is left."""
    fetcher = scripted(latency=3.0)
    gate = make_gate(fetcher, delay=20.0, concurrency=2, total_rate=(20, 3000))
    async with gate:
        for host in ("a", "b", "c", "idle"):
            gate.learn(f"http://{host}.example/", b"")
        holding = [asyncio.create_task(visit(gate, url, takes=50.0)) for url in (PAGE, "http://c.example/")]
        await settle()
        waiting = asyncio.create_task(wait(gate))
        await asyncio.sleep(1.0)
        assert not waiting.done()
    with pytest.raises(GateClosedError):
        await waiting
    assert now() == 1.0
    assert await asyncio.gather(*holding) == [0.0, 0.0]
    assert pending_timers() == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}
