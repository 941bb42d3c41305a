"""The tests of this folder run on virtual time: instants are exact, and hours pass at once."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, TypeVarTuple

import pytest

from robotgate.testing.clock import VirtualTimeLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextvars import Context

Ts = TypeVarTuple("Ts")


class CountingLoop(VirtualTimeLoop):
    """Virtual time that remembers which timers were set."""

    def __init__(self) -> None:
        super().__init__()
        self._set: list[asyncio.TimerHandle] = []
        self._sweep_at = 64

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As asyncio's."""
        handle = super().call_at(when, callback, *args, context=context)
        self._set.append(handle)
        if len(self._set) >= self._sweep_at:
            self._set = [known for known in self._set if self._is_pending(known)]
            self._sweep_at = 64 + 2 * len(self._set)
        return handle

    def pending_timers(self) -> int:
        """How many timers are neither cancelled nor due."""
        return sum(self._is_pending(handle) for handle in self._set)

    def _is_pending(self, handle: asyncio.TimerHandle) -> bool:
        return not handle.cancelled() and handle.when() > self.time()


@pytest.hookimpl(tryfirst=True)
def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop of the tests beside this file, and of no others."""
    return {"virtual": CountingLoop}


@pytest.fixture
def few_objects() -> Iterator[None]:
    """Leave out what exists before the test: other tests of the process leave many objects, and each count is slow."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def pending_timers() -> Callable[[], int]:
    """Counts the timers of the running loop that have yet to fire."""

    def count() -> int:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, CountingLoop)
        return loop.pending_timers()

    return count
