"""The system's time, told so that it never jumps."""

from __future__ import annotations

import asyncio
import time

import pytest

from robotgate import RobotGate
from robotgate.clock import SystemClock, ticks_of
from robotgate.sites import Answer
from robotgate.testing import ScriptedFetcher


def test_tells_seconds_since_the_epoch() -> None:
    """A new clock agrees with the machine's."""
    before = time.time()
    told = SystemClock().now()
    assert before - 0.1 <= told <= time.time() + 0.1


def test_never_goes_backwards() -> None:
    """Each instant is as late as the one before, or later."""
    clock = SystemClock()
    told = [clock.now() for _ in range(10_000)]
    assert told == sorted(told)


def test_ticks_are_the_time_to_the_last_bit() -> None:
    """What the shortest way reads in place of a clock is that clock, one of the caller's own included."""

    class Slow(SystemClock):
        def now(self) -> float:
            return super().now() - 1e6

    for clock in (SystemClock(), Slow()):
        ticks, epoch = ticks_of(clock)
        low = clock.now()
        told = ticks() + epoch
        assert low <= told <= clock.now()


def test_counts_as_the_monotonic_clock_does() -> None:
    """Between two instants pass as many seconds as the monotonic clock counts, whatever the machine's date does."""
    clock = SystemClock()
    low = time.monotonic()
    first = clock.now()
    high = time.monotonic()
    while time.monotonic() < high + 0.01:
        pass
    passed = time.monotonic() - high
    assert passed - 1e-6 <= clock.now() - first <= time.monotonic() - low + 1e-6


@pytest.mark.parametrize("date", [0.0, 1_000_000_000.0, 4_000_000_000.0])
def test_date_that_is_set_changes_nothing(monkeypatch: pytest.MonkeyPatch, date: float) -> None:
    """The epoch is read once: the machine's date may be set to whatever afterwards."""
    clock = SystemClock()
    before = clock.now()
    monkeypatch.setattr(time, "time", lambda: date)
    assert 0.0 <= clock.now() - before < 3600.0


@pytest.mark.parametrize("date", [0.0, 4_000_000_000.0])
async def test_date_that_is_set_shortens_no_wait(monkeypatch: pytest.MonkeyPatch, date: float) -> None:
    """A gate by the system's clock, a waiter, and a date that jumps: the delay is kept by the loop's time."""
    delay = 0.3
    fetcher = ScriptedFetcher({}, otherwise=Answer(status=404))
    async with RobotGate("ExampleBot", contact="bot@example.org", delay=delay, fetcher=fetcher) as gate:
        loop = asyncio.get_running_loop()
        gate.learn("http://a.example/", b"")
        async with gate.turn("http://a.example/1"):
            waiting = asyncio.create_task(gate.turn("http://a.example/2").__aenter__())
            await asyncio.sleep(0)
            # Not after the block: a busy machine may stop the test there.
            ended_at = loop.time()
        monkeypatch.setattr(time, "time", lambda: date)
        turn = await waiting
        assert loop.time() - ended_at >= delay - 0.002
        turn.end()
