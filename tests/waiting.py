"""Waiting for a state instead of for a while."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable


TURNS: Final = 200
"""Turns of the loop within which whatever needs nothing but the loop has happened."""
PAUSE: Final = 0.002
"""Seconds between two looks after that: a thread or a process is awaited, which needs the processor more than we do."""


async def until(is_so: Callable[[], bool]) -> None:
    """Let others run until something is so; a test that waits in vain fails after a minute.

    Raises:
        TimeoutError: it never became so.
    """
    async with asyncio.timeout(60):
        for turn in count():
            if is_so():
                return
            await asyncio.sleep(0 if turn < TURNS else PAUSE)


async def settle() -> None:
    """Let everything that can run now, run."""
    for _ in range(20):
        await asyncio.sleep(0)
