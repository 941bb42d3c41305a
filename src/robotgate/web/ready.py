"""`gate.ready`: many URLs as turns that have begun, whichever host is due first.

The URLs of each host stand in a line of their own, whose first waits for its turn like any other. A turn that is
granted while the loop asks for none is given back, and its line pauses until the loop asks again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable
from typing import TYPE_CHECKING, Final, Self

from robotgate.errors import GateClosedError, OptionError, RobotGateError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
    from types import TracebackType
    from typing import TypeAlias

    from yarl import URL

    from robotgate.pace.scheduler import Scheduler
    from robotgate.web.cache import SiteCache
    from robotgate.web.turns import Turn, Turns

    Urls: TypeAlias = Iterable[str | URL] | AsyncIterable[str | URL]
    Demand: TypeAlias = asyncio.Future[tuple[Turn, str] | None]
    """A turn and its URL; None when there are no more."""

DEFAULT_AHEAD: Final = 10_000
"""URLs held while their hosts are not due."""
STRETCH: Final = 100
"""URLs read from a source before other tasks may run."""


class ReadyTurns:
    """An asynchronous iterator of turns that have begun; `RobotGate.ready` describes its arguments.

    Nothing begins before the loop does. Several tasks may share one. When a loop is left early, the turn it was given
    last is still its own to end, and no other begins. Dropping the iterator, `aclose` and ``async with`` release the
    URLs that are left.
    """

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Turn:
        turn = await self._lines.next()
        if turn is None:
            raise StopAsyncIteration
        return turn

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Release the URLs that are left; turns that have begun go on. Further iteration yields none."""
        await self._lines.aclose()

    def __del__(self) -> None:
        # A loop that was left by `break` drops its iterator.
        self._lines.abandon()


class Lines:
    """What runs behind one `ReadyTurns`."""

    def __init__(
        self,
        turns: Turns,
        cache: SiteCache,
        scheduler: Scheduler,
        urls: Urls,
        *,
        priority: int,
        ahead: int,
        on_refusal: Callable[[str, RobotGateError], object] | None,
        running: set[Lines],
    ) -> None:
        self._turns = turns
        self._cache = cache
        self._scheduler = scheduler
        self._urls = _source(urls)
        self._priority = priority
        self._ahead = ahead
        self._on_refusal = on_refusal
        self._running = running
        """Those of the gate, for its end: this joins them, and leaves them when it is over."""
        self._lines: dict[str, deque[str]] = {}
        self._held = 0
        self._room = asyncio.Event()
        self._demands: deque[Demand] = deque()
        self._paused: deque[asyncio.Future[None]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._has_begun = False
        self._is_read = False
        self._is_over = False
        running.add(self)

    async def next(self) -> Turn | None:
        """Return the next turn; None when there are no more."""
        demand: Demand = asyncio.get_running_loop().create_future()
        self._demands.append(demand)
        if not self._has_begun:
            self._has_begun = True
            self._begin(self._read())
        self._end_if_done()
        self._resume_one()
        try:
            met = await demand
        except asyncio.CancelledError:
            if demand.done() and not demand.cancelled() and demand.exception() is None:
                self._pass_on(demand.result())
            raise
        return None if met is None else met[0]

    async def aclose(self) -> None:
        """As `ReadyTurns.aclose`."""
        tasks = list(self._tasks)
        self.abandon()
        await asyncio.gather(*tasks, return_exceptions=True)

    def abandon(self) -> None:
        """As `aclose`, without waiting for the tasks to end."""
        self._is_over = True
        self._running.discard(self)
        for task in self._tasks:
            if not task.get_loop().is_closed():
                task.cancel()
        self._end_if_done()

    def fail(self, error: BaseException) -> None:
        """Release everything; further iteration raises an error."""
        self._failure = self._failure or error
        for task in self._tasks:
            task.cancel()
        self._end_if_done()

    def _pass_on(self, late: tuple[Turn, str] | None) -> None:
        """A turn began for a task that was cancelled meanwhile: another has it, or its URL waits again."""
        if late is None:
            return
        turn, url = late
        other = self._take_demand()
        if other is not None:
            other.set_result(late)
            return
        turn.end()
        self._enlist(url, first=True)

    async def _read(self) -> None:
        count = 0
        try:
            async for url in self._urls:
                count += 1
                if count % STRETCH == 0:
                    await asyncio.sleep(0)
                while self._held >= self._ahead:
                    self._room.clear()
                    await self._room.wait()
                self._enlist(str(url))
        finally:
            if isinstance(self._urls, AsyncGenerator):
                await self._urls.aclose()
        self._is_read = True
        self._end_if_done()

    def _enlist(self, url: str, *, first: bool = False) -> None:
        self._held += 1
        try:
            key = self._turns.locate(url)[0].host.key
        except RobotGateError as error:
            self._refuse(url, error)
            return
        line = self._lines.get(key)
        if line is not None:
            (line.appendleft if first else line.append)(url)
            return
        line = self._lines[key] = deque([url])
        self._begin(self._serve(key, line))

    async def _serve(self, key: str, line: deque[str]) -> None:
        """Have the turns of one line, one by one."""
        while line:
            url = line.popleft()
            try:
                await self._have_turn(url)
            except GateClosedError:
                raise
            except RobotGateError as error:
                self._refuse(url, error)
            else:
                self._release_one()
        del self._lines[key]

    async def _have_turn(self, url: str) -> None:
        """Wait for a turn and hand it over.

        Raises:
            RobotGateError: as `RobotGate.turn`.
        """
        turn = self._turns.make(url, self._priority)
        while True:
            if not self._is_asked:
                # Not even robots.txt is requested for a turn that nobody asks for any more.
                await self._pause(turn)
            await self._turns.grant(turn, may_begin=False)
            demand = self._take_demand()
            if demand is None:
                self._scheduler.give_back(turn)
                await self._pause(turn)
                continue
            try:
                await self._turns.begin(turn)
            except BaseException:
                self._return_demand(demand)
                raise
            if demand.done():
                # The task that asked for it was cancelled while the turn began.
                demand = self._take_demand()
            if demand is None:
                turn.end()
                turn = self._turns.make(url, self._priority)
                continue
            turn.holder = None
            demand.set_result((turn, url))
            return

    def _take_demand(self) -> Demand | None:
        while self._demands:
            demand = self._demands.popleft()
            if not demand.done():
                return demand
        return None

    def _return_demand(self, demand: Demand) -> None:
        if not demand.done():
            self._demands.appendleft(demand)
            self._end_if_done()
            self._resume_one()

    @property
    def _is_asked(self) -> bool:
        """Whether the loop asks for a turn."""
        return any(not demand.done() for demand in self._demands)

    async def _pause(self, turn: Turn) -> None:
        """Wait until a turn is asked for; if this one's host is not due any more, let another line go on as well."""
        resumed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._paused.append(resumed)
        await resumed
        if not self._is_due(turn):
            self._resume_one()

    def _is_due(self, turn: Turn) -> bool:
        site = turn.paced
        host = site.host
        return (
            self._cache.fresh(site) is not None
            and self._scheduler.wait_time(site) <= 0
            and len(host.open) < host.slots
            and not host.has_waiters()
        )

    def _resume_one(self) -> None:
        while self._paused and self._is_asked:
            resumed = self._paused.popleft()
            if not resumed.done():
                resumed.set_result(None)
                return

    def _refuse(self, url: str, error: RobotGateError) -> None:
        if self._on_refusal is not None:
            self._on_refusal(url, error)
        self._release_one()

    def _release_one(self) -> None:
        self._held -= 1
        self._room.set()
        self._end_if_done()

    def _begin(self, work: Coroutine[object, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            if not self._is_over and self._failure is None:
                self.fail(RuntimeError("the source of URLs was cancelled"))
        elif (failure := task.exception()) is not None:
            self.fail(failure)

    def _end_if_done(self) -> None:
        if self._failure is None and not self._is_over and not (self._is_read and not self._held):
            return
        if self._failure is None:
            self._running.discard(self)
        while (demand := self._take_demand()) is not None:
            if self._failure is not None:
                demand.set_exception(self._failure)
            else:
                demand.set_result(None)


async def _each(urls: Iterable[str | URL]) -> AsyncIterator[str | URL]:
    for url in urls:
        yield url


def _source(urls: Urls) -> AsyncIterable[str | URL]:
    if isinstance(urls, str):
        raise OptionError(f"urls={urls!r}: give an iterable of URLs")
    if isinstance(urls, AsyncIterable):
        return urls
    try:
        return _each(iter(urls))
    except TypeError as error:
        raise OptionError(f"urls={urls!r}: give an iterable of URLs, or an asynchronous one") from error
