"""`gate.ready`: many URLs as turns that have begun, whichever host is due first.

The URLs of each host stand in a line of their own, whose first waits for its turn like any other. A turn that is
granted while the loop asks for none is given back, and its line pauses until the loop asks again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final, TypeAlias

from robotgate.client.turn import Turn
from robotgate.errors import GateClosedError, InvalidURLError, OptionError, RobotGateError

if TYPE_CHECKING:
    from yarl import URL

    from robotgate.client.fetch import PageFetcher
    from robotgate.client.turns import PageTurn, Turns

    OnRefusal: TypeAlias = Callable[[str, RobotGateError], object]
    Urls: TypeAlias = Iterable[str | URL] | AsyncIterable[str | URL]
    Demand: TypeAlias = asyncio.Future[tuple[PageTurn, asyncio.Future[bool]] | None]
    """A turn, and what tells its line whether it was taken; None when there are no more turns."""

DEFAULT_AHEAD: Final = 10_000
"""URLs held while their hosts are not due."""
STRETCH: Final = 100
"""URLs read from a source before other tasks may run."""


class ReadyTurns(AsyncIterator[Turn], AbstractAsyncContextManager["ReadyTurns"]):
    """An asynchronous iterator of turns that have begun; `RobotGate.ready` describes its arguments.

    Nothing begins before the loop does. Several tasks may share one. When a loop is left early, the turn it was given
    last is still its own to end, and no other begins. Dropping the iterator, `aclose` and ``async with`` release the
    URLs that are left.
    """

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    async def __anext__(self) -> Turn:
        return await self._lines.next()

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
        pages: PageFetcher,
        urls: Urls,
        *,
        priority: int,
        ahead: int,
        on_refusal: OnRefusal | None,
    ) -> None:
        if isinstance(urls, str) or not isinstance(urls, Iterable | AsyncIterable):
            raise OptionError(f"urls={urls!r}: give an iterable of URLs, or an asynchronous one")
        self._urls = urls if isinstance(urls, AsyncIterable) else _each(urls)
        self._on_refusal = on_refusal or (lambda _url, _error: None)
        self._turns, self._pages = turns, pages
        self._priority = priority
        self._lines: dict[str, deque[str]] = {}
        """By pace key; each has a task, which ends with it."""
        self._demands: deque[Demand] = deque()
        self._runner: asyncio.Task[None] | None = None
        """It reads, and has the tasks of the lines in a group; None until a turn is asked for."""
        self._is_over = False
        self._failure: BaseException | None = None
        """What ended it, if that was an error."""
        self._room = asyncio.Semaphore(ahead)
        """Of it, each URL that is held takes one."""
        self._resumed = asyncio.Semaphore(0)
        """What paused lines wait for."""

    async def next(self) -> Turn:
        """As `ReadyTurns.__anext__`."""
        self._turns.scheduler.check_loop()
        demand: Demand = asyncio.get_running_loop().create_future()
        self._demands.append(demand)
        if self._is_over:
            self._end()
        elif self._runner is None:
            # Not by the loop's task factory, which may begin a task at once.
            self._runner = asyncio.Task(self._run())
            self._runner.add_done_callback(self._done)
        self._resume_one()
        try:
            met = await demand
        except (asyncio.CancelledError, GeneratorExit):
            # A turn may have begun for this task meanwhile.
            if not demand.cancel() and not demand.cancelled() and (met := demand.result()) is not None:
                self._tell(*met, is_taken=False)
            raise
        if met is None:
            raise StopAsyncIteration if self._failure is None else self._failure
        self._tell(*met, is_taken=True)
        return Turn(met[0], self._pages)

    def _tell(self, turn: PageTurn, taken: asyncio.Future[bool], *, is_taken: bool) -> None:
        """Tell a line whether the turn that it handed over was taken."""
        if not taken.done():
            taken.set_result(is_taken)
        elif not is_taken:
            # The line has been stopped.
            turn.end()

    async def aclose(self) -> None:
        """As `ReadyTurns.aclose`."""
        self._turns.scheduler.check_loop()
        self.stop()
        if self._runner is not None:
            await asyncio.wait([self._runner])

    def stop(self, failure: BaseException | None = None) -> None:
        """Release everything; further iteration raises the failure, unless it was over, and yields none without."""
        if self._runner is not None and not self._runner.get_loop().is_closed():
            self._runner.cancel()
        self._end(failure)

    def _done(self, runner: asyncio.Task[None]) -> None:
        failure = (
            RuntimeError("the source of URLs was cancelled") if runner.cancelled() else runner.exception()
        )
        # The group of tasks wraps what one of them raises.
        self._end(failure.exceptions[0] if isinstance(failure, BaseExceptionGroup) else failure)

    def _end(self, failure: BaseException | None = None) -> None:
        if not self._is_over:
            self._is_over, self._failure = True, failure
        while self._is_asked():
            self._demands.popleft().set_result(None)

    async def _run(self) -> None:
        """Put each URL into the line of its host, and wait for all lines."""
        count = 0
        try:
            async with asyncio.TaskGroup() as tasks:
                async for given in self._urls:
                    count += 1
                    if count % STRETCH == 0:
                        await asyncio.sleep(0)
                    await self._room.acquire()
                    try:
                        key = self._turns.locate(given)[0].host.key
                    except RobotGateError as error:
                        url = error.url if isinstance(error, InvalidURLError) else str(given)
                        self._on_refusal(url, error)
                        self._room.release()
                        continue
                    if key in self._lines:
                        self._lines[key].append(str(given))
                    else:
                        self._lines[key] = deque([str(given)])
                        # It may begin at once, and end: the loop's task factory decides.
                        tasks.create_task(self._serve(key))
        finally:
            if isinstance(self._urls, AsyncGenerator):
                await self._urls.aclose()

    async def _serve(self, key: str) -> None:
        """Have the turns of one line, one by one."""
        line = self._lines[key]
        while line:
            url = line.popleft()
            try:
                while not await self._had_turn(url):
                    pass
            except GateClosedError:
                raise
            except RobotGateError as error:
                self._on_refusal(url, error)
            self._room.release()
        del self._lines[key]

    async def _had_turn(self, url: str) -> bool:
        """Wait for a turn and hand it over; return whether a task has taken it.

        Raises:
            RobotGateError: as `RobotGate.turn`.
        """
        turn = self._turns.make(url, self._priority)
        loop = asyncio.get_running_loop()
        while True:
            # Nothing is requested for a turn that no task waits for any more, not even robots.txt.
            while not self._is_asked():
                await self._resumed.acquire()
                # Unless this line has its turn at once, another one may go on as well.
                loop.call_soon(self._resume_one)
            await self._turns.judge_and_wait(turn)
            if self._is_asked():
                break
            self._turns.scheduler.give_back(turn)
        await self._turns.begin(turn)
        turn.holder = None
        while self._is_asked():
            taken: asyncio.Future[bool] = loop.create_future()
            self._demands.popleft().set_result((turn, taken))
            if await taken:
                return True
        turn.end()
        return False

    def _is_asked(self) -> bool:
        """Whether the loop asks for a turn. Demands of tasks that were cancelled are dropped."""
        while self._demands and self._demands[0].done():
            self._demands.popleft()
        return bool(self._demands)

    def _resume_one(self) -> None:
        """Let a paused line go on if a turn is asked for."""
        if self._is_asked() and self._resumed.locked():
            self._resumed.release()


async def _each(urls: Iterable[str | URL]) -> AsyncIterator[str | URL]:
    for url in urls:
        yield url
