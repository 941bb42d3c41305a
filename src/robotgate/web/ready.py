"""`gate.ready`: many URLs as turns that have begun, whichever host is due first.

The URLs of each host stand in a line of their own, whose first waits for its turn like any other. A turn that is
granted while the loop asks for none is given back, and its line pauses until the loop asks again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from typing import TYPE_CHECKING, Final, Self

from robotgate.errors import GateClosedError, OptionError, RobotGateError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from typing import TypeAlias

    from yarl import URL

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
        return await self._lines.next()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Release the URLs that are left; turns that have begun go on. Further iteration yields none."""
        await self._lines.aclose()

    def __del__(self) -> None:
        # A loop that was left by `break` drops its iterator.
        self._lines.stop()


class Lines:
    """What runs behind one `ReadyTurns`: its tasks hold this, and nothing but the loop holds the iterator."""

    def __init__(
        self,
        turns: Turns,
        urls: Urls,
        *,
        priority: int,
        ahead: int,
        on_refusal: Callable[[str, RobotGateError], object] | None,
    ) -> None:
        if isinstance(urls, str) or not isinstance(urls, Iterable | AsyncIterable):
            raise OptionError(f"urls={urls!r}: give an iterable of URLs, or an asynchronous one")
        self._turns = turns
        self._urls = urls if isinstance(urls, AsyncIterable) else _each(urls)
        self._priority = priority
        self._ahead = ahead
        self._on_refusal = on_refusal or (lambda _url, _error: None)
        self._lines: dict[str, deque[str]] = {}
        """By pace key; each has a task, which ends with it."""
        self._held = 0
        self._room = asyncio.Event()
        self._demands: deque[Demand] = deque()
        self._resumed = asyncio.Semaphore(0)
        """What paused lines wait for."""
        self._tasks: set[asyncio.Task[None]] = set()
        """One that reads, and one for each line."""
        self._failure: BaseException | None = None
        self._has_begun = False
        self._is_stopped = False

    async def next(self) -> Turn:
        """As `ReadyTurns.__anext__`."""
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
            # A turn may have begun for this task meanwhile.
            if not demand.cancelled() and (late := demand.result()) is not None:
                self._hand_over(*late)
            raise
        if met is None:
            raise StopAsyncIteration if self._failure is None else self._failure
        return met[0]

    async def aclose(self) -> None:
        """As `ReadyTurns.aclose`."""
        tasks = list(self._tasks)
        self.stop()
        await asyncio.gather(*tasks, return_exceptions=True)

    def stop(self, failure: BaseException | None = None) -> None:
        """Release everything; further iteration raises the failure, unless it was over, and yields none without."""
        if not self._is_over:
            self._failure = failure
        self._is_stopped = True
        for task in self._tasks:
            if not task.get_loop().is_closed():
                task.cancel()
        self._end_if_done()

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

    def _enlist(self, url: str, *, first: bool = False) -> None:
        try:
            key = self._turns.locate(url)[0].host.key
        except RobotGateError as error:
            self._on_refusal(url, error)
            return
        self._held += 1
        if key not in self._lines:
            self._lines[key] = deque()
            self._begin(self._serve(key))
        line = self._lines[key]
        line.insert(0 if first else len(line), url)

    async def _serve(self, key: str) -> None:
        """Have the turns of one line, one by one."""
        line = self._lines[key]
        while line:
            url = line.popleft()
            try:
                await self._have_turn(url)
            except GateClosedError:
                raise
            except RobotGateError as error:
                self._on_refusal(url, error)
            self._held -= 1
            self._room.set()
        del self._lines[key]

    async def _have_turn(self, url: str) -> None:
        """Wait for a turn and hand it over.

        Raises:
            RobotGateError: as `RobotGate.turn`.
        """
        turn = self._turns.make(url, self._priority)
        while True:
            # Nothing is requested for a turn that no task waits for any more, not even robots.txt.
            while not self._is_asked():
                await self._pause()
            await self._turns.judge_and_wait(turn)
            if self._is_asked():
                await self._turns.begin(turn)
                self._hand_over(turn, url)
                return
            self._turns.scheduler.give_back(turn)

    def _hand_over(self, turn: Turn, url: str) -> None:
        """Give a turn that has begun to the first task that asks; if none does any more, its URL waits again."""
        if self._is_asked():
            turn.holder = None
            self._demands.popleft().set_result((turn, url))
            return
        turn.end()
        if not self._is_stopped:
            self._enlist(url, first=True)

    def _is_asked(self) -> bool:
        """Whether the loop asks for a turn. Demands of tasks that were cancelled are dropped."""
        while self._demands and self._demands[0].done():
            self._demands.popleft()
        return bool(self._demands)

    async def _pause(self) -> None:
        """Wait until a turn is asked for; unless this line has its turn at once, let another go on as well."""
        await self._resumed.acquire()
        asyncio.get_running_loop().call_soon(self._resume_one)

    def _resume_one(self) -> None:
        if self._is_asked() and self._resumed.locked():
            self._resumed.release()

    def _begin(self, work: Coroutine[object, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        failure = RuntimeError("the source of URLs was cancelled") if task.cancelled() else task.exception()
        if failure is not None and not self._is_stopped:
            self.stop(failure)
        self._tasks.discard(task)
        self._end_if_done()

    @property
    def _is_over(self) -> bool:
        return self._is_stopped or (self._has_begun and not self._tasks)

    def _end_if_done(self) -> None:
        while self._is_over and self._is_asked():
            self._demands.popleft().set_result(None)


async def _each(urls: Iterable[str | URL]) -> AsyncIterator[str | URL]:
    for url in urls:
        yield url
