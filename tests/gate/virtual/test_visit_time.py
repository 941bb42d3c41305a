"""Visit-time: the hours (UTC) in which a site welcomes us, for who opts to heed them."""

from __future__ import annotations

import asyncio
import math

from tests.paced import HOUR, PAGE, SITE, asks, make_gate, now, scripted, sleep_until, visit, visits
from tests.waiting import settle

from robotgate import HostOverride, HostUnavailableError

OPENS_AT = 6 * HOUR
CLOSES_AT = 8 * HOUR + 46 * 60
"""The last minute counts."""
MORNING = asks("Visit-time: 0600-0845")
TWICE_A_DAY = asks("Visit-time: 0600-0845", "Visit-time: 1200-1259")
NOON = 12 * HOUR


async def test_hours_that_end_while_tasks_wait() -> None:
    """Those who do not come in are told at the end of the hours at the latest, not the next morning."""
    async with make_gate(scripted({SITE: MORNING}), obey_visit_time=True) as gate:
        await gate.allowed(PAGE)
        await sleep_until(CLOSES_AT - 2)
        tasks = [asyncio.create_task(visit(gate)) for _ in range(5)]
        await asyncio.sleep(2)
        await settle()
        assert [task.done() for task in tasks] == [True] * 5
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert outcomes[:2] == [CLOSES_AT - 2, CLOSES_AT - 1]
        assert [type(outcome) for outcome in outcomes[2:]] == [HostUnavailableError] * 3
        assert now() == CLOSES_AT


async def test_hours_that_end_while_patient_tasks_wait() -> None:
    """Tasks without `max_wait` go on in the next hours, in order."""
    async with make_gate(scripted({SITE: TWICE_A_DAY}), obey_visit_time=True, max_block=math.inf) as gate:
        await gate.allowed(PAGE)
        await sleep_until(CLOSES_AT - 2)
        assert await visits(gate, 4) == [CLOSES_AT - 2, CLOSES_AT - 1, NOON, NOON + 1]


async def test_wait_time_runs_to_the_start() -> None:
    """As long as the lane is there, and once it is dropped; nothing within the hours."""
    async with make_gate(scripted({SITE: MORNING}), obey_visit_time=True) as gate:
        await gate.allowed(PAGE)
        assert gate.wait_time(PAGE) == OPENS_AT
        assert gate.host(PAGE).next_allowed_at == OPENS_AT
        await sleep_until(HOUR)
        assert gate.wait_time(PAGE) == 5 * HOUR
        await sleep_until(OPENS_AT)
        assert gate.wait_time(PAGE) == 0.0


async def test_block_that_ends_outside_the_hours() -> None:
    """A pause the server asked for ends after closing time: the next turn is that of the next hours."""
    async with make_gate(scripted({SITE: TWICE_A_DAY}), obey_visit_time=True, max_block=math.inf) as gate:
        await gate.allowed(PAGE)
        await sleep_until(CLOSES_AT - 100)
        await visit(gate, status=503, headers={"Retry-After": "200"})
        assert gate.wait_time(PAGE) == NOON - now()
        assert await visit(gate) == NOON


async def test_hours_taken_up_and_given_up_while_running() -> None:
    """By an override: a turn that waits for the hours is granted at once when they no longer count."""
    async with make_gate(scripted({SITE: MORNING}), max_block=math.inf) as gate:
        assert await visit(gate) == 1.0
        gate.override("a.example", HostOverride(obey_visit_time=True))
        waiting = [asyncio.create_task(visit(gate)) for _ in range(2)]
        await sleep_until(100.0)
        gate.override("a.example", None)
        assert await asyncio.gather(*waiting) == [100.0, 101.0]
