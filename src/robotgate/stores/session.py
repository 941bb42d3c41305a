"""The common part of the sessions of all shared stores: tasks that wait for hosts, leases, and news.

A `BaseSession` has the session's side of the protocol (`grants.SessionSide`) and the tasks that wait for hosts. The
gate gets each host as a `Grant` with a `Lease`.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from robotgate.errors import OptionError, StoreError
from robotgate.stores.base import Grant, Lost, News, OperatorBlock, Recovered, Wanted, logger
from robotgate.stores.grants import BlockNotice, Hold, Reply, SessionSide, not_before
from robotgate.urls import HostPattern

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from robotgate.pace.state import HostState

_UPTIME: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
"""On macOS, CLOCK_MONOTONIC counts suspension; on Windows, `time.monotonic` does."""


def uptime() -> float:
    """Seconds by the clock of leases. Where there is such a clock, it runs while the machine is suspended.

    All processes of the machine share it.
    """
    return time.monotonic() if _UPTIME is None else time.clock_gettime(_UPTIME)


class NewsQueue:
    """The news of a session, until a task reads them.

    Args:
        has_parts: whether the store can be lost in part.
    """

    def __init__(self, *, has_parts: bool = False) -> None:
        self._has_parts = has_parts
        self._news: list[News] = []
        self._arrived = asyncio.Event()
        self._is_lost = False

    async def news(self) -> Sequence[News]:
        """As `Session.news`."""
        await self._arrived.wait()
        self._arrived.clear()
        news, self._news = self._news, []
        return news

    def add(self, *news: News) -> None:
        """Add news."""
        if news:
            self._news += news
            self._arrived.set()

    def report(self, error: StoreError | None) -> None:
        """Add news if the store was lost by an error, or is found again."""
        if self._is_lost != (error is not None):
            self._is_lost = error is not None
            self.add(Recovered() if error is None else Lost(error, self._has_parts))

    def drop_blocks(self, pattern: str) -> None:
        """Drop unread news of a pattern that this session has blocked, or unblocked, since."""
        self._news = [
            news for news in self._news if not (isinstance(news, OperatorBlock) and news.pattern == pattern)
        ]


@dataclass(frozen=True, slots=True)
class HeldLease:
    """The lease of one grant: valid while the session holds the host, and the store has answered recently."""

    session: BaseSession
    hold: Hold

    def is_valid(self) -> bool:
        """As `Lease.is_valid`."""
        return self.session.side.is_valid(self.hold, now=self.session.uptime())


@dataclass(slots=True, eq=False)
class Waiter:
    """A task that waits for a host."""

    obtained: asyncio.Future[Grant]
    """Done when the host is granted to the session."""
    since: float
    """By the clock of leases."""
    pace: float | None = None
    """Seconds between two visits of the host; None: not known."""
    least_pace: float = 0.0
    """As `Session.obtain` is given it."""


class BaseSession:
    """A session's side of the protocol, and the tasks that wait for its hosts. In Redis there is one for each hash tag.

    Args:
        queue: receives which hosts other sessions want, and blocks of their operators.
        uptime: the clock of leases, which runs while the machine is suspended.
    """

    def __init__(self, side: SessionSide, queue: NewsQueue, uptime: Callable[[], float]) -> None:
        self.side = side
        self.uptime = uptime
        self.waiting: dict[str, Waiter] = {}
        self.is_closed = False
        self._queue = queue
        self._is_due = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        """Sends requests; None: it has not started, or they are sent at once, as by a `MemorySession`."""

    def send_soon(self) -> None:
        """Have a request sent soon."""
        self._is_due.set()

    def start(self, work: Coroutine[object, None, None], stopped: Callable[[], StoreError]) -> None:
        """Start the task that sends requests.

        Args:
            stopped: makes the error for tasks that wait when it has ended.
        """

        def ended(task: asyncio.Task[None]) -> None:
            self.fail(stopped())
            if not task.cancelled() and (error := task.exception()) is not None:
                logger.error("a session has failed", exc_info=error)

        # Not by the loop's task factory, which may begin a task at once.
        self._task = asyncio.Task(work)
        self._task.add_done_callback(ended)

    def stop(self) -> asyncio.Future[list[BaseException | None]]:
        """Cancel the task. The future ends when the task has."""
        tasks = [] if self._task is None else [self._task]
        for task in tasks:
            task.cancel()
        return asyncio.gather(*tasks, return_exceptions=True)

    def ask(self, key: str) -> None:
        """Ask for a host."""
        self.side.ask(key)
        self.send_soon()

    async def obtain(self, key: str, *, pace: float = 0.0) -> Grant:
        """As `Session.obtain`. One task at a time may wait for a host."""
        if self.is_closed:
            raise StoreError("the session was closed; open another")
        if key in self.side.holds:
            self.leave(key, None)
        obtained: asyncio.Future[Grant] = asyncio.get_running_loop().create_future()
        waiter = self.waiting[key] = Waiter(obtained, self.uptime(), least_pace=pace)
        self.ask(key)
        try:
            return await obtained
        except asyncio.CancelledError:
            if self.waiting.get(key) is waiter:
                self._forget(key)
            elif not obtained.cancelled():
                # The host was granted before this task ran again.
                self.leave(key, None)
            raise

    def leave(self, key: str, state: HostState | None) -> None:
        """As `Session.leave`."""
        self.side.leave(key, state)
        self.send_soon()

    def publish_block(self, pattern: str, until_at: float) -> None:
        """As `Session.publish_block`."""
        self._queue.drop_blocks(pattern)
        self.side.publish_block(pattern, until_at, now=self.uptime())
        self.send_soon()

    def receive(self, reply: Reply) -> None:
        """Process a reply: wake tasks whose hosts are granted, and add news."""
        wanted = set()
        items, notices = self.side.receive(reply)
        for item in items:
            waiter = self.waiting.pop(item.key, None)
            if waiter is not None and waiter.obtained.done():
                # The task was cancelled, and has not run since.
                self.leave(item.key, None)
                continue
            if waiter is not None:
                lease = HeldLease(self, self.side.holds[item.key])
                due_at = 0.0 if item.state is None else not_before(item.state)
                waiter.obtained.set_result(Grant(lease, item.state, due_at))
            if item.is_wanted:
                wanted.add(item.key)
        if wanted:
            self._queue.add(Wanted(frozenset(wanted)))
        self._queue.add(
            *(OperatorBlock(notice.pattern, notice.until_at) for notice in notices if _is_valid(notice))
        )

    def fail(self, error: StoreError) -> None:
        """Raise an error in all tasks that wait."""
        for key, waiter in list(self.waiting.items()):
            self._forget(key)
            if not waiter.obtained.done():
                # A new error for each task: one that is raised twice collects both tracebacks.
                waiter.obtained.set_exception(StoreError(*error.args))

    def _forget(self, key: str) -> None:
        del self.waiting[key]
        self.side.withdraw(key)
        self.send_soon()


def _is_valid(notice: BlockNotice) -> bool:
    try:
        HostPattern.parse(notice.pattern)
    except OptionError as error:
        logger.warning("an operator block in the store is ignored: %s", error)
        return False
    return True
