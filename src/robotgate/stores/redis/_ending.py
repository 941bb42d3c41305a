"""The end of a task of ours."""

from __future__ import annotations

import asyncio


async def ended(task: asyncio.Task[None], *, within: float) -> None:
    """Cancel a task, and wait until it has ended.

    Once need not be enough: before Python 3.12, what redis-py uses to wait may swallow it.

    Args:
        within: seconds that the task has to end in order before it is cancelled again.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=within)
