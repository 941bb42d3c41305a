"""`Reminders`: many things are looked at in their time, and have one timer among them."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING

from robotgate._alarm import LONGEST_TIMER
from robotgate._reminders import GRAIN, Reminders

if TYPE_CHECKING:
    from collections.abc import Callable

DELAYS = (0.0, 0.3, 1.0, 1.5, 10.0, 10.2, 99.9, LONGEST_TIMER)


def elapsed(since: float) -> float:
    """Seconds of the loop."""
    return asyncio.get_running_loop().time() - since


async def test_each_is_looked_at_in_its_time_and_once(pending_timers: Callable[[], int]) -> None:
    """Never early, and late by a grain at the most, in whatever order they were named."""
    began_at = asyncio.get_running_loop().time()
    seen: list[tuple[float, float]] = []
    reminders = Reminders[float](lambda delay: seen.append((delay, elapsed(began_at))))
    for delay in (*DELAYS[::2], *DELAYS[1::2]):
        reminders.remind(delay, delay)
    await asyncio.sleep(LONGEST_TIMER + 2 * GRAIN)
    assert sorted(delay for delay, _ in seen) == list(DELAYS)
    assert [(delay, at) for delay, at in seen if not delay <= at <= delay + GRAIN + 0.01] == []
    assert pending_timers() == 0


async def test_ten_thousand_are_one_timer(pending_timers: Callable[[], int]) -> None:
    """Whatever their instants."""
    reminders = Reminders[int](lambda _: None)
    for number in range(10_000):
        reminders.remind(number, 10.0 + number / 100)
    assert pending_timers() == 1
    reminders.close()
    assert pending_timers() == 0


async def test_who_is_looked_at_may_ask_for_another_look() -> None:
    """As a lane does that is not served yet."""
    began_at = asyncio.get_running_loop().time()
    seen: list[float] = []

    def look(times_left: int) -> None:
        seen.append(elapsed(began_at))
        if times_left:
            reminders.remind(times_left - 1, 10.0)

    reminders = Reminders[int](look)
    reminders.remind(2, 10.0)
    await asyncio.sleep(40.0)
    assert len(seen) == 3
    assert all(later - earlier >= 10.0 for earlier, later in pairwise(seen))


async def test_a_look_that_fails_keeps_the_others_from_nothing() -> None:
    """The loop hears of the error, and those that were due with it are looked at all the same."""
    seen: list[int] = []
    told: list[object] = []

    def look(number: int) -> None:
        if number == 1:
            raise LookupError(number)
        seen.append(number)

    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
    reminders = Reminders[int](look)
    for number in range(3):
        reminders.remind(number, 1.0)
    reminders.remind(3, 5.0)
    await asyncio.sleep(10.0)
    assert sorted(seen) == [0, 2, 3]
    assert [type(error) for error in told] == [LookupError]
