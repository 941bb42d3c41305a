"""The right to fetch a robots.txt, among the tasks of one event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from robotgate._urls import Origin


class Lock:
    """Whose users are counted, so that it is forgotten with the last."""

    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0
        """Who holds it or waits for it."""


class Lease:
    """The lock of one origin, for as long as somebody wants it."""

    __slots__ = ("_locks", "_origin")

    def __init__(self, locks: dict[Origin, Lock], origin: Origin) -> None:
        self._locks = locks
        self._origin = origin

    async def __aenter__(self) -> None:
        held = self._locks.setdefault(self._origin, Lock())
        held.users += 1
        try:
            await held.lock.acquire()
        except asyncio.CancelledError:
            self._leave(held)
            raise

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        held = self._locks[self._origin]
        held.lock.release()
        self._leave(held)

    def _leave(self, held: Lock) -> None:
        held.users -= 1
        if not held.users:
            del self._locks[self._origin]
