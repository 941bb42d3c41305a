"""Virtual time: an event loop whose hours pass at once, and the clock that reads it.

Nothing sleeps: whenever no task can run, time jumps to the next timer. Instants can therefore be asserted exactly.
"""

from __future__ import annotations

import asyncio
import math
import selectors
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from robotgate.sites.record import Answer, Failure

if TYPE_CHECKING:
    from collections.abc import Mapping


RESOLUTION: Final = 1e-9
"""Seconds; times are multiples of it, so that sums of short decimals compare equal."""
PATIENCE: Final = 1.0
"""Real seconds to wait for a thread or a socket when no timer is set, before giving up."""
STALL: Final = 10_000
"""Turns of the loop without time passing, after which time advances by `RESOLUTION`: rounding may set a timer to the
present again and again."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An asyncio event loop on virtual time, which starts at 0.

    Raises:
        RuntimeError: (out of the loop) every task waits for something that will never come.
    """

    def __init__(self) -> None:
        self._jumper = _JumpingSelector()
        super().__init__(self._jumper)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._jumper.now

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Join the threads of the default executor.

        Args:
            timeout: ignored. `asyncio.Runner` of Python 3.13 and later allows 300 s, which would pass at once on
                virtual time while the threads still run.
        """
        await super().shutdown_default_executor()


class VirtualClock:
    """Tells the running loop's time; a `Clock`."""

    def now(self) -> float:
        """Seconds, as the running event loop counts them."""
        return asyncio.get_running_loop().time()


class ScriptedFetcher:
    """A `Fetcher` that answers from a table and remembers what it was asked, and when.

    Args:
        answers: by URL.
        otherwise: the answer for every other URL.
        latency: seconds each answer takes, on the running loop's time.
    """

    def __init__(
        self, answers: Mapping[str, Answer | Failure], *, otherwise: Answer | Failure, latency: float = 0.0
    ) -> None:
        self._answers = answers
        self._otherwise = otherwise
        self._latency = latency
        self.requests: list[tuple[float, str]] = []
        """When, on the loop's time, and what."""
        self.headers: list[Mapping[str, str]] = []
        """With which headers."""

    async def fetch(
        self, url: str, *, headers: Mapping[str, str], max_bytes: int, timeout: float
    ) -> Answer | Failure:
        """The answer of the table."""
        self.requests.append((asyncio.get_running_loop().time(), url))
        self.headers.append(headers)
        if self._latency > timeout:
            await asyncio.sleep(timeout)
            return Failure(f"no answer within {timeout:.3g} s")
        await asyncio.sleep(self._latency)
        answer = self._answers.get(url, self._otherwise)
        return answer if isinstance(answer, Failure) else replace(answer, body=answer.body[:max_bytes])


class _JumpingSelector(selectors.DefaultSelector):
    """A selector for which waiting takes no time but the loop's."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._turns_at_now = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready; if nothing is, the time has come for which the loop would have waited."""
        events = super().select(0 if timeout is not None else PATIENCE)
        if events:
            return events
        if timeout is None:
            raise RuntimeError("every task waits for something that will never come")
        self._turns_at_now = 0 if timeout > 0 else self._turns_at_now + 1
        if timeout > 0 or self._turns_at_now > STALL:
            # After half a year a double is coarser than the resolution, and still has to move on.
            tick = max(round(self.now + RESOLUTION, 9), math.nextafter(self.now, math.inf))
            self.now = max(round(self.now + timeout, 9), tick)
        return []
