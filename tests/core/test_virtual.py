"""Virtual time: exact instants, no sleeping, and an end to waiting for what never comes."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, TypeVar

import pytest

from robotgate.sites.record import Answer, Failure
from robotgate.testing.clock import RESOLUTION, STALL, ScriptedFetcher, VirtualClock, VirtualTimeLoop

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")
DAY = 24 * 3600.0


def run(main: Coroutine[object, object, T]) -> T:
    """Run it on virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


def now() -> float:
    """The running loop's time."""
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize("days", [1, 30, 100, 365])
def test_days_pass_at_once(days: int) -> None:
    """Time starts at 0 and jumps to the next timer, however far; nothing is waited for."""

    async def main() -> list[float]:
        instants = [now()]
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        # Should time not pass at all, the test is to fail, not to hang.
        guard = threading.Timer(3.0, loop.call_soon_threadsafe, [task.cancel])
        guard.start()
        try:
            await asyncio.sleep(days * DAY)
        finally:
            guard.cancel()
            guard.join()
        return [*instants, now()]

    assert run(main()) == pytest.approx([0.0, days * DAY], rel=0.0, abs=1e-8)


def test_sums_of_short_decimals_are_exact() -> None:
    """A thousand tenths are a hundred."""

    async def main() -> float:
        for _ in range(1000):
            await asyncio.sleep(0.1)
        return now()

    assert run(main()) == 100.0


def test_timers_fire_in_order_at_their_instants() -> None:
    """Tasks wake when they asked to, the sooner first."""

    async def main() -> list[tuple[float, float]]:
        woken: list[tuple[float, float]] = []

        async def sleeper(delay: float) -> None:
            await asyncio.sleep(delay)
            woken.append((delay, now()))

        await asyncio.gather(*(sleeper(delay) for delay in (3.0, 0.5, 2.25, 1e-3)))
        return woken

    assert run(main()) == [(delay, delay) for delay in (1e-3, 0.5, 2.25, 3.0)]


def test_timeouts_run_on_virtual_time() -> None:
    """Asyncio's own time-outs are exact too."""

    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(12.5):
                await asyncio.Event().wait()
        return now()

    assert run(main()) == 12.5


def test_waiting_for_nothing_is_an_error() -> None:
    """A deadlock ends the loop instead of hanging the tests."""
    loop = VirtualTimeLoop()
    waiting = loop.create_task(asyncio.Event().wait())
    try:
        with pytest.raises(RuntimeError, match="never come"):
            loop.run_until_complete(waiting)
    finally:
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            loop.run_until_complete(waiting)
        loop.close()


def test_threads_are_waited_for() -> None:
    """With no timer set, work in a thread gets real time to end."""

    async def main() -> tuple[str, float]:
        return await asyncio.to_thread(lambda: "done"), now()

    assert run(main()) == ("done", 0.0)


def test_threads_are_joined_when_the_loop_is_closed() -> None:
    """A thread that still runs at the end is joined: the limit that `asyncio.Runner` sets is not virtual time."""
    ended = threading.Event()

    def work() -> None:
        time.sleep(0.1)
        ended.set()

    async def main() -> None:
        asyncio.get_running_loop().run_in_executor(None, work)

    run(main())
    assert ended.is_set()


def test_time_creeps_when_it_stalls() -> None:
    """A timer that is set to the present again and again ends at last: rounding cannot stop the loop for ever."""

    async def main() -> int:
        turns = 0
        while now() == 0.0:
            turns += 1
            await asyncio.sleep(0)
        assert now() == RESOLUTION
        return turns

    assert STALL <= run(main()) <= STALL + 10


def test_clock_is_the_loops() -> None:
    """The virtual clock tells the time of whichever loop runs."""

    async def main() -> tuple[float, float]:
        await asyncio.sleep(7)
        return VirtualClock().now(), now()

    assert run(main()) == (7.0, 7.0)


def test_scripted_answers() -> None:
    """A table by URL, an answer for the rest, latency, and a log of what was asked."""
    fetcher = ScriptedFetcher(
        {"http://a.example/robots.txt": Answer(status=200, body=b"0123456789")},
        otherwise=Failure("no such name"),
        latency=0.25,
    )

    async def main() -> list[Answer | Failure]:
        urls = ["http://a.example/robots.txt", "http://b.example/robots.txt"]
        return [
            await fetcher.fetch(url, headers={"User-Agent": url}, max_bytes=4, timeout=10.0) for url in urls
        ]

    assert run(main()) == [Answer(status=200, body=b"0123"), Failure("no such name")]
    assert fetcher.requests == [(0.0, "http://a.example/robots.txt"), (0.25, "http://b.example/robots.txt")]
    assert [headers["User-Agent"] for headers in fetcher.headers] == [url for _, url in fetcher.requests]


def test_scripted_answer_that_is_too_slow() -> None:
    """Latency beyond the time-out is a failure, and takes the time-out."""
    fetcher = ScriptedFetcher({}, otherwise=Answer(status=200), latency=60.0)

    async def main() -> tuple[Answer | Failure, float]:
        answer = await fetcher.fetch("http://a.example/robots.txt", headers={}, max_bytes=1, timeout=10.0)
        return answer, now()

    answer, ended_at = run(main())
    assert isinstance(answer, Failure)
    assert ended_at == 10.0
