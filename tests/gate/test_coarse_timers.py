"""Event loops whose timers are coarse, as uvloop's are: early, and no timers at all under a millisecond."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from robotgate import RobotGate
from robotgate.sites import Answer
from robotgate.testing import ScriptedFetcher, VirtualClock, VirtualTimeLoop

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context


class CoarseLoop(VirtualTimeLoop):
    """Fires what is due within a millisecond at once, and hands out a handle that does not tell its time."""

    def __init__(self) -> None:
        super().__init__()
        self._looked = 0.0

    def time(self) -> float:
        """Time passes while it is looked at: a loop that fires early has to look again and again."""
        self._looked += 1e-6
        return super().time() + self._looked

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.Handle:
        """As the base class, but coarse."""
        if when - self.time() < 0.001:
            return self.call_soon(callback, *args, context=context)
        return super().call_at(when - 0.0005, callback, *args, context=context)


@pytest.mark.parametrize("delay", [0.0004, 0.05, 1.0])
def test_early_timers_start_nothing_early(delay: float) -> None:
    """Every turn comes, none before its delay, and the lane does not stand still."""
    starts: list[float] = []

    async def visit(gate: RobotGate, number: int) -> None:
        async with gate.turn(f"http://a.example/{number}"):
            starts.append(asyncio.get_running_loop().time())

    async def crawl() -> None:
        fetcher = ScriptedFetcher({}, otherwise=Answer(status=404))
        async with RobotGate(
            "ExampleBot", contact="bot@example.org", delay=delay, clock=VirtualClock(), fetcher=fetcher
        ) as gate:
            await asyncio.gather(*(visit(gate, number) for number in range(20)))

    loop = CoarseLoop()
    try:
        loop.run_until_complete(asyncio.wait_for(crawl(), 1000))
    finally:
        loop.close()
    assert len(starts) == 20
    assert (
        min(later - earlier for earlier, later in zip([0.0, *starts], starts, strict=False)) >= delay - 1e-6
    )
