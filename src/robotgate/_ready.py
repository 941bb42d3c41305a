"""`gate.ready`: many URLs as turns that have begun, whichever host is due first.

The URLs of each pace key stand in a line of their own, whose first waits in the lane like any other task. When its
turn comes and the loop asks for none, it leaves the turn to the next and is put aside, until the loop asks again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable
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
    Demand: TypeAlias = asyncio.Future[tuple[Turn, str] | None]
    """A turn and its URL; None when there are no more."""

DEFAULT_AHEAD: Final = 10_000
"""URLs held while their hosts are not due."""
STRETCH: Final = 100
"""URLs read from a source before others may run."""


class ReadyTurns:
    """An asynchronous iterator of turns that have begun; `RobotGate.ready` tells of its arguments.

    Nothing begins before the loop does. Several tasks may share one. When a loop is left early, the turn it had just
    been given is still its own to end, and no other is taken; a robots.txt that was wanted already may still be asked
    for. `aclose`, or ``async with``, lets go of the URLs that are left.
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
            met = await demand
        except asyncio.CancelledError:
            if demand.done() and not demand.cancelled() and demand.exception() is None:
                self._pass_on(demand.result())
            raise
        if met is None:
            raise StopAsyncIteration
        return met[0]

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
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        self._end_if_done()
        self._on_end(self)
        await asyncio.gather(*tasks, return_exceptions=True)

    def fail(self, error: BaseException) -> None:
        """Let go of everything; whoever asks for more gets an error."""
        self._failure = self._failure or error
        for task in self._tasks:
            task.cancel()
        self._end_if_done()

    def _pass_on(self, late: tuple[Turn, str] | None) -> None:
        """A turn has come for somebody who has just left: another has it, or its URL waits again."""
        if late is None:
            return
        turn, url = late
        other = self.take_demand()
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
            pace_key = self._turns.pace_key(url)
        except RobotGateError as error:
            self._refuse(url, error)
            return
        line = self._lines.get(pace_key)
        if line is not None:
            (line.appendleft if first else line.append)(url)
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
        claim = _Claim(self)
        try:
            while True:
                if not self.is_asked:
                    # Not even its robots.txt is worth a request that nobody may want any more.
                    await self._stand_aside(url)
                try:
                    turn = await self._turns.begin(
                        url, priority=self._priority, max_wait=None, interest=claim
                    )
                except UnwantedError:
                    await self._stand_aside(url)
                    continue
                if claim.claim() and claim.demand is not None:
                    claim.demand.set_result((turn, url))
                    return
                # Whoever asked for it was cancelled in the meantime.
                turn.end()
                await self._stand_aside(url)
        finally:
            claim.release()

    def take_demand(self) -> Demand | None:
        """The next turn that somebody asks for; None when nobody does."""
        while self._demands:
            demand = self._demands.popleft()
            if not demand.done():
                return demand
        return None

    @property
    def is_asked(self) -> bool:
        """Whether the loop asks for a turn that nobody has taken on."""
        return any(not demand.done() for demand in self._demands)

    def give_back(self, demand: Demand) -> None:
        """What was taken is not met by who took it."""
        if not demand.done():
            self._demands.appendleft(demand)
            self._end_if_done()
            self._call_aside()

    async def _stand_aside(self, url: str) -> None:
        """Wait until a turn is asked for; pass that on to the next if this one's host is not due any more."""
        called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._aside.append(called)
        await called
        if not self._turns.is_due(url):
            self._call_aside()

    def _call_aside(self) -> None:
        while self._aside and self.is_asked:
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
        if task.cancelled():
            if not self._is_over and self._failure is None:
                self.fail(RuntimeError("the source of URLs was cancelled"))
        elif (failure := task.exception()) is not None:
            self.fail(failure)

    def _end_if_done(self) -> None:
        if self._failure is None and not self._is_over and not (self._is_read and not self._held):
            return
        if self._failure is None:
            self._on_end(self)
        while (demand := self.take_demand()) is not None:
            if self._failure is not None:
                demand.set_exception(self._failure)
            else:
                demand.set_result(None)


class _Claim:
    """One line's claim to a turn that is asked for. An `Interest`."""

    __slots__ = ("_ready", "demand")

    def __init__(self, ready: ReadyTurns) -> None:
        self._ready = ready
        self.demand: Demand | None = None

    def claim(self) -> bool:
        """Whether anybody asks for a turn."""
        if self.demand is None or self.demand.done():
            self.demand = self._ready.take_demand()
        return self.demand is not None

    def release(self) -> None:
        """Leave it to another line."""
        demand, self.demand = self.demand, None
        if demand is not None:
            self._ready.give_back(demand)


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
