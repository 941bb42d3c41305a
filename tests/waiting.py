"""Waiting for a state instead of for a while."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


async def until(is_so: Callable[[], bool]) -> None:
    """Let others run until something is so; a test that waits in vain fails after ten seconds.

    Raises:
        TimeoutError: it never became so.
    """
    async with asyncio.timeout(10):
        while not is_so():  # noqa: ASYNC110  # What is waited for is the state of others, who set no event.
            await asyncio.sleep(0)


async def settle() -> None:
    """Let everything that can run now, run."""
    for _ in range(20):
        await asyncio.sleep(0)
