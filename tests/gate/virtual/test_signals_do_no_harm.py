"""What one host says about our speed concerns no other host, and a host that says nothing is never slowed."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
from typing import TYPE_CHECKING, Final

import pytest
from tests.paced import DAY, OTHER, PAGE, SITE, gate_that_knows, now, sleep_until, visit

from robotgate import HostUnavailableError, TooSoonError

if TYPE_CHECKING:
    from collections.abc import Callable

    from robotgate import RobotGate

DRIPS: Final[list[tuple[int, dict[str, str]]]] = [
    (429, {"RateLimit": '"q";r=0;t=1000000000'}),
    (429, {"Retry-After": "9" * 300}),
    (200, {"RateLimit-Remaining": "0", "RateLimit-Reset": "9" * 15}),
    (200, {"RateLimit": "limit=1, remaining=1, reset=1000000000"}),
    (503, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "Fri, 31 Dec 9999 23:59:59 GMT"}),
    (403, {"RateLimit": ", ".join(f'"{number}";r=0;t={number}' for number in range(300))}),
    (429, {"RateLimit": "\x00" * 9000}),
    (429, {}),
]


async def drip(gate: RobotGate, number: int) -> bool:
    """Ask the hostile host for a page, if it is to be had. Return whether it was."""
    try:
        async with gate.turn(PAGE, max_wait=60.0) as turn:
            await asyncio.sleep(random.random())
            turn.report(*DRIPS[number % len(DRIPS)])
    except (HostUnavailableError, TooSoonError):
        return False
    return True


def kept() -> int:
    """How many objects of ours there are."""
    gc.collect()
    return sum(str(type(each).__module__).startswith("robotgate") for each in gc.get_objects())


@pytest.mark.usefixtures("few_objects")
@pytest.mark.parametrize("adaptive", [False, True])
async def test_hostile_host_stops_no_other(
    pending_timers: Callable[[], int], caplog: pytest.LogCaptureFixture, *, adaptive: bool
) -> None:
    """However long the pauses that it asks for: the other is visited as if it were not there, and nothing piles up."""
    random.seed(3)
    caplog.set_level(logging.CRITICAL, "robotgate")  # Captured records keep their events.
    objects, timers = list[int](), list[int]()
    answers, alone, beside = 0, list[float](), list[float]()
    for drips, starts in ((0, alone), (6, beside)):
        async with gate_that_knows(SITE, OTHER, adaptive=adaptive, concurrency_per_host=4) as gate:
            began_at = now()
            for day in range(3 * len(DRIPS) + 1):
                await sleep_until(began_at + 1.2 * DAY * day)
                crawl = asyncio.create_task(_crawl(gate, 12))
                answers += sum(await asyncio.gather(*(drip(gate, day + number) for number in range(drips))))
                starts += [at - began_at for at in await crawl]
                if drips and day % len(DRIPS) == 0:
                    objects.append(kept())
                    timers.append(pending_timers())
    assert beside == pytest.approx(alone, abs=1e-6)
    assert answers >= 3 * len(DRIPS)
    # Events and caches are made in the first round.
    assert max(objects[2:]) <= objects[1]
    assert max(timers[2:]) <= timers[1]


async def _crawl(gate: RobotGate, count: int) -> list[float]:
    return [await visit(gate, OTHER, status=200) for _ in range(count)]


@pytest.mark.parametrize("slots", [1, 3])
async def test_host_without_limits_is_visited_as_if_nothing_were_learned(slots: int) -> None:
    """Its answers take up to a second, and some are errors that say nothing of our speed."""
    starts = list[list[float]]()
    for adaptive in (False, True):
        chance = random.Random(11)
        async with gate_that_knows(SITE, adaptive=adaptive, concurrency_per_host=slots, delay=0.3) as gate:
            began_at, found = now(), list[float]()

            async def crawl(
                gate: RobotGate = gate, found: list[float] = found, chance: random.Random = chance
            ) -> None:
                while len(found) < 500:
                    takes, status = chance.uniform(0.0, 0.99), chance.choice([200, 200, 200, 304, 404, 500])
                    found.append(await visit(gate, takes=takes, status=status))

            await asyncio.gather(*(crawl() for _ in range(slots)))
            starts.append([at - began_at for at in found])
            assert gate.host(PAGE).learned_delay == 0.0
    assert starts[0] == pytest.approx(starts[1], abs=1e-6)
