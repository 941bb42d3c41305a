"""`gate.ready`: many URLs as turns that have begun, whichever host is due first.

The URLs of each pace key stand in a line of their own, whose first waits in the lane like any other task. When its
turn comes and the loop asks for none, it leaves the turn to the next and is put aside, until the loop asks again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable
from typing import TYPE_CHECKING, Final, Self

from robotgate._admission import UnwantedError
from robotgate._errors import GateClosedError, OptionError, RobotGateError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
    from types import TracebackType
    from typing import TypeAlias

    from yarl import URL

    from robotgate._turn import Turn
    from robotgate._turns import Turns

    Urls: TypeAlias = Iterable[str | URL] | AsyncIterable[str | URL]
    Demand: TypeAlias = asyncio.Future[Turn | None]

DEFAULT_AHEAD: Final = 10_000
"""URLs held while their hosts are not due."""
STRETCH: Final = 100
"""URLs read from a source before others may run."""


class ReadyTurns:
    """An asynchronous iterator of turns that have begun; `RobotGate.ready` tells of its arguments.

    Nothing begins before the loop does. Several tasks may share one. When a loop is left early, the turn it had just
    been given is still its own to end; no other is taken, and nothing more is asked for. `aclose`, or ``async with``,
    lets go of the URLs that are left.
    """

    def __init__(
        self,
        turns: Turns,
        urls: Urls,
        *,
        priority: int,
        ahead: int,
        on_refusal: Callable[[str, RobotGateError], object] | None,
        on_end: Callable[[ReadyTurns], object],
    ) -> None:
        self._turns = turns
        self._urls = _source(urls)
        self._priority = priority
        self._ahead = ahead
        self._on_refusal = on_refusal
        self._on_end = on_end
        self._lines: dict[str, deque[str]] = {}
        self._held = 0
        self._room = asyncio.Event()
        self._demands: deque[Demand] = deque()
        self._aside: deque[asyncio.Future[None]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._is_begun = False
        self._is_read = False
        self._is_over = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Turn:
        demand: Demand = asyncio.get_running_loop().create_future()
        self._demands.append(demand)
        if not self._is_begun:
            self._is_begun = True
            self._begin(self._read())
        self._end_if_done()
        self._call_aside()
        try:
            turn = await demand
        except asyncio.CancelledError:
            if demand.done() and not demand.cancelled() and demand.exception() is None:
                late = demand.result()
                if late is not None:
                    late.end()
            raise
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
        """Let go of the URLs that are left; turns that have begun go on. Whoever asks for more gets none."""
        self._is_over = True
        await self._stop()

    async def break_off(self, error: RobotGateError) -> None:
        """As `aclose`; whoever asks for more gets an error."""
        self._failure = self._failure or error
        await self._stop()

    async def _stop(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._end_if_done()
        self._on_end(self)

    async def _read(self) -> None:
        count = 0
        async for url in self._urls:
            count += 1
            if count % STRETCH == 0:
                await asyncio.sleep(0)
            while self._held >= self._ahead:
                self._room.clear()
                await self._room.wait()
            self._enlist(str(url))
        self._is_read = True
        self._end_if_done()

    def _enlist(self, url: str) -> None:
        self._held += 1
        try:
            pace_key = self._turns.pace_key(url)
        except RobotGateError as error:
            self._refuse(url, error)
            return
        line = self._lines.get(pace_key)
        if line is not None:
            line.append(url)
            return
        line = self._lines[pace_key] = deque([url])
        self._begin(self._serve(pace_key, line))

    async def _serve(self, pace_key: str, line: deque[str]) -> None:
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
                self._let_go()
        del self._lines[pace_key]

    async def _have_turn(self, url: str) -> None:
        """Wait for a turn and hand it over.

        Raises:
            RobotGateError: as `RobotGate.turn`.
        """
        demand: Demand | None = None

        def is_wanted() -> bool:
            nonlocal demand
            if demand is None or demand.done():
                demand = self._take_demand()
            return demand is not None

        try:
            while True:
                if not self._is_asked:
                    # Not even its robots.txt is worth a request that nobody may want any more.
                    await self._stand_aside(url)
                try:
                    turn = await self._turns.begin(
                        url, priority=self._priority, max_wait=None, is_wanted=is_wanted
                    )
                except UnwantedError:
                    await self._stand_aside(url)
                    continue
                if is_wanted() and demand is not None:
                    demand.set_result(turn)
                    return
                # Whoever asked for it was cancelled in the meantime.
                turn.end()
                await self._stand_aside(url)
        finally:
            if demand is not None and not demand.done():
                self._demands.appendleft(demand)
                self._call_aside()

    def _take_demand(self) -> Demand | None:
        while self._demands:
            demand = self._demands.popleft()
            if not demand.done():
                return demand
        return None

    @property
    def _is_asked(self) -> bool:
        """Whether the loop asks for a turn that nobody has taken on."""
        return any(not demand.done() for demand in self._demands)

    async def _stand_aside(self, url: str) -> None:
        """Wait until a turn is asked for; pass that on to the next if this one's host is not due any more."""
        called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._aside.append(called)
        await called
        if not self._turns.is_due(url):
            self._call_aside()

    def _call_aside(self) -> None:
        while self._aside and self._is_asked:
            called = self._aside.popleft()
            if not called.done():
                called.set_result(None)
                return

    def _refuse(self, url: str, error: RobotGateError) -> None:
        if self._on_refusal is not None:
            self._on_refusal(url, error)
        self._let_go()

    def _let_go(self) -> None:
        self._held -= 1
        self._room.set()
        self._end_if_done()

    def _begin(self, work: Coroutine[object, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self._failure = self._failure or failure
            self._end_if_done()

    def _end_if_done(self) -> None:
        if self._failure is None and not self._is_over and not (self._is_read and not self._held):
            return
        if self._failure is None:
            self._on_end(self)
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
