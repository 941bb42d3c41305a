"""How many requests may be under way over all hosts."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TypeAlias

    Task: TypeAlias = asyncio.Task[object] | None


class Bound:
    """A semaphore that knows who holds its places, so that a task is told when it would wait for itself."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._semaphore = asyncio.Semaphore(places)
        self._holders: Counter[Task] = Counter()

    def is_held_by(self, task: Task) -> bool:
        """Whether every place is this task's own: nobody else could ever give one back."""
        return self._semaphore.locked() and set(self._holders) == {task}

    @property
    def free(self) -> int:
        """How many places nobody holds."""
        return self._places - self._holders.total()

    @property
    def is_free(self) -> bool:
        """Whether `acquire` would return at once."""
        return not self._semaphore.locked()

    async def acquire(self) -> None:
        """Take a place, in order of arrival."""
        await self._semaphore.acquire()
        self._holders[asyncio.current_task()] += 1

    def release(self, holder: Task) -> None:
        """Give back a place that this task took."""
        self._holders[holder] -= 1
        if not self._holders[holder]:
            del self._holders[holder]
        self._semaphore.release()

    def open_for_all(self) -> None:
        """Let everybody through who waits: each gives his place to the next."""
        self._semaphore.release()
