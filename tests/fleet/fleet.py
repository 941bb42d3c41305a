"""Workers, each a process of its own, and what they say; they can be killed, and set aside for a while."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from typing import TYPE_CHECKING, Final

from tests.fleet.worker import GOT, Done, Fetched, Order, Ready, Said, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from multiprocessing.process import BaseProcess
    from types import TracebackType
    from typing import Self

PATIENCE: Final = 60.0
PROCESSES: Final = multiprocessing.get_context("forkserver")
"""Importing takes most of a second, which a process that lives for a few had better not spend so."""
PROCESSES.set_forkserver_preload(["robotgate", "tests.fleet.worker"])


class Worker:
    """One process."""

    def __init__(self, order: Order, changed: Callable[[], None]) -> None:
        self.order = order
        self.said: list[Said] = []
        self.has_ended = False
        self._changed = changed
        self._pipe, theirs = PROCESSES.Pipe()
        self._process: BaseProcess = PROCESSES.Process(target=run, args=(order, theirs), daemon=True)
        self._process.start()
        theirs.close()
        asyncio.get_running_loop().add_reader(self._pipe.fileno(), self._listen)

    @property
    def is_ready(self) -> bool:
        """Whether it waits for the word."""
        return bool(self.said)

    @property
    def pages(self) -> list[Fetched]:
        """What became of its pages so far."""
        return [each for each in self.said if isinstance(each, Fetched)]

    @property
    def failures(self) -> list[Fetched]:
        """Pages that it did not get."""
        return [page for page in self.pages if page.outcome != GOT]

    @property
    def done(self) -> Done | None:
        """Its last word, if it came to that."""
        last = self.said[-1] if self.said else Ready()
        return last if isinstance(last, Done) else None

    def go(self) -> None:
        """The word."""
        self._pipe.send("go")

    def kill(self) -> None:
        """End it at once; it can do nothing about it."""
        self._process.kill()

    def freeze(self) -> None:
        """Let it do nothing, without its knowing."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on, as if nothing had been."""
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """End it if need be, and let go of it."""
        self._process.kill()
        self._process.join()
        self._leave()
        self._pipe.close()

    def _signal(self, number: int) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def _listen(self) -> None:
        try:
            while self._pipe.poll():
                self.said.append(self._pipe.recv())
        except (EOFError, OSError):
            self._leave()
        self._changed()

    def _leave(self) -> None:
        if not self.has_ended:
            self.has_ended = True
            asyncio.get_running_loop().remove_reader(self._pipe.fileno())


class Fleet:
    """Workers that begin together; all of them are gone when the block ends.

    Args:
        patience: how long anything that is waited for may take: seconds.
    """

    def __init__(self, orders: Iterable[Order], *, patience: float = PATIENCE) -> None:
        self.workers: list[Worker] = []
        self._orders = orders
        self._patience = patience
        self._news = asyncio.Event()

    async def __aenter__(self) -> Self:
        try:
            self.workers = [Worker(order, self._news.set) for order in self._orders]
            await self.until(lambda: all(worker.is_ready for worker in self.workers))
        except BaseException:
            self._close()
            raise
        for worker in self.workers:
            worker.go()
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._close()

    @property
    def page_count(self) -> int:
        """Pages that have ended, of all workers."""
        return sum(len(worker.pages) for worker in self.workers)

    @property
    def failures(self) -> list[Fetched]:
        """Pages that were not got, of all workers."""
        return [page for worker in self.workers for page in worker.failures]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds that can only come to hold when a worker says something.

        Raises:
            TimeoutError: it does not.
        """
        async with asyncio.timeout(self._patience):
            while not holds():
                self._news.clear()
                await self._news.wait()

    async def pages(self, count: int) -> None:
        """Wait until so many pages have ended."""
        await self.until(lambda: self.page_count >= count)

    async def ended(self) -> None:
        """Wait until every worker has ended, by itself or not."""
        await self.until(lambda: all(worker.has_ended for worker in self.workers))

    def _close(self) -> None:
        for worker in self.workers:
            worker.close()
