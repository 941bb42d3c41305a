"""The tests of this folder run on real time, on each event loop that crawlers use: asyncio's and uvloop's."""

from __future__ import annotations

import asyncio
import sys
from functools import wraps
from typing import TYPE_CHECKING, Protocol, TypeVarTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextvars import Context

Ts = TypeVarTuple("Ts")


class Wakes(Protocol):
    """An event loop that counts how often a timer of robotgate fired."""

    wakes: int


def _counted(loop: Wakes, callback: Callable[[*Ts], object]) -> Callable[[*Ts], object]:
    """The callback, counted when it is robotgate's own: timers of aiohttp and of sleeping tasks are not."""
    if not str(getattr(callback, "__module__", "")).startswith("robotgate."):
        return callback

    @wraps(callback)
    def fire(*args: *Ts) -> object:
        loop.wakes += 1
        return callback(*args)

    return fire


class CountingLoop(asyncio.SelectorEventLoop):
    """asyncio's loop."""

    wakes = 0

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As asyncio's, whose `call_later` comes by here as well."""
        return super().call_at(when, _counted(self, callback), *args, context=context)


LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": CountingLoop}

if sys.platform != "win32":
    import uvloop

    class CountingUvloop(uvloop.Loop):
        """uvloop's loop: its timers are whole milliseconds, and fire up to one and a half early."""

        wakes = 0

        def call_later(
            self, delay: float, callback: Callable[..., object], *args: object, context: Context | None = None
        ) -> asyncio.TimerHandle:
            """As uvloop's, whose `call_at` comes by here as well."""
            return super().call_later(delay, _counted(self, callback), *args, context=context)

    LOOPS["uvloop"] = CountingUvloop


@pytest.hookimpl(tryfirst=True)
def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loops of the tests beside this file, and of no others: each test runs on each of them."""
    return LOOPS


@pytest.fixture
def wakes() -> Callable[[], int]:
    """Counts how often timers of robotgate have fired on the running loop."""

    def count() -> int:
        loop = asyncio.get_running_loop()
        known = getattr(loop, "wakes", None)
        assert isinstance(known, int)
        return known

    return count
