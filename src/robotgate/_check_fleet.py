"""What a store has to do that tells gates of itself and of each other: `ReportingStore` and `SharedBlocks`."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final

from robotgate._check_tools import ORIGIN, expect, in_time
from robotgate._clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from robotgate._errors import StoreError
    from robotgate._ports import ReportingStore, SharedBlocks

HOST: Final = ORIGIN.host
BELOW: Final = f"*.{HOST}"
_BLOCK: Final = 3600.0
_ROUNDING: Final = 10.0
"""Seconds by which a block may seem to end later to another process, whose clock and whose messages take their time."""


async def check_reports(store: ReportingStore) -> None:
    """A store that is well says nothing, and whoever does not listen any more hears nothing."""
    heard: list[StoreError | None] = []
    unsubscribe = store.subscribe_losses(heard.append)
    await store.load_record(ORIGIN)
    unsubscribe()
    unsubscribe()
    expect(not heard, f"subscribe_losses: called back with {heard}, though the store is well")


async def check_shared_blocks(store: SharedBlocks, other: SharedBlocks) -> None:
    """What one publishes, the gates of the other hear; what is lifted there is lifted here."""
    here, there = Listener(), Listener()
    ends = [store.subscribe_blocks(here.hear), other.subscribe_blocks(there.hear)]
    until_at = SystemClock().now() + _BLOCK
    store.publish_block(HOST, math.inf)
    store.publish_block(BELOW, until_at)
    await there.hears(
        lambda known: known.get(HOST) == math.inf, "publish_block: no other store hears of a block"
    )
    await there.hears(
        lambda known: BELOW in known, "publish_block: of two words, another store hears but one"
    )
    expect(
        until_at - 1.0 <= there.known[BELOW] <= until_at + _ROUNDING,
        f"publish_block: a block until {until_at} is one until {there.known[BELOW]} to another store",
    )
    late = Listener()
    ends.append(other.subscribe_blocks(late.hear))
    await late.hears(
        lambda known: known.get(HOST) == math.inf,
        "subscribe_blocks: who comes later does not hear what stands",
    )
    other.publish_block(HOST, 0.0)
    await here.hears(
        lambda known: known.get(HOST) == 0.0, "publish_block: no other store hears that a block is lifted"
    )
    await _check_ends(other, late, ends)


async def _check_ends(store: SharedBlocks, gone: Listener, ends: list[Callable[[], None]]) -> None:
    for end in (*ends, *ends):
        end()
    gone.known.clear()
    last = Listener()
    end = store.subscribe_blocks(last.hear)
    store.publish_block(HOST, math.inf)
    await last.hears(
        lambda known: known.get(HOST) == math.inf, "publish_block: a gate of the same store does not hear"
    )
    end()
    expect(not gone.known, "subscribe_blocks: it goes on after its end")


class Listener:
    """A gate, as far as blocks go."""

    def __init__(self) -> None:
        self.known: dict[str, float] = {}
        self._news = asyncio.Event()

    def hear(self, pattern: str, until_at: float) -> None:
        """Heed it."""
        self.known[pattern] = until_at
        self._news.set()

    async def hears(self, is_so: Callable[[dict[str, float]], bool], complaint: str) -> None:
        """Wait for it."""

        async def heard() -> None:
            while not is_so(self.known):
                self._news.clear()
                await self._news.wait()

        await in_time(heard(), complaint)
