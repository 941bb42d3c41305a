"""`gate.threadsafe`: a gate for threads. Each call runs in the gate's event loop, and the thread waits for it.

While a thread holds a turn, one task in the loop holds it for the thread, and makes the thread's further calls: so a
call that would wait for itself is refused, as it is in a task.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, InvalidStateError, wait
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, Self, TypeVar, Unpack

from robotgate.client.attempt import MAX_PAGE_REDIRECTS, RequestOptions
from robotgate.errors import EventLoopError, GateClosedError
from robotgate.options import BY_OPTION, ByOption
from robotgate.pace.promises import MAX_WAIT
from robotgate.pace.timer import is_running

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from yarl import URL

    from robotgate.client.response import Response
    from robotgate.client.turn import Turn
    from robotgate.client.turns import Turns
    from robotgate.rules.verdict import Verdict

__all__ = ["ThreadTurn", "ThreadsafeGate"]

T = TypeVar("T")

LOOK_DELAY: Final = 1.0
"""Seconds between two looks whether the gate's event loop still runs."""


class FetchOptions(RequestOptions, total=False):
    """The options of `RobotGate.fetch`."""

    priority: int
    max_wait: float | ByOption | None
    max_bytes: int | None
    allow_redirects: bool
    max_redirects: int
    retries: int


class Doors(Protocol):
    """What a gate offers to tasks; `RobotGate` describes it."""

    def allowed(self, url: str | URL) -> Awaitable[bool]:
        """As `RobotGate.allowed`."""

    def check(self, url: str | URL) -> Awaitable[Verdict]:
        """As `RobotGate.check`."""

    def fetch(
        self, url: str | URL, method: str = "GET", **options: Unpack[FetchOptions]
    ) -> Awaitable[Response]:
        """As `RobotGate.fetch`."""

    def turn(
        self, url: str | URL, *, priority: int = 0, max_wait: float | ByOption | None = BY_OPTION
    ) -> Turn:
        """As `RobotGate.turn`."""

    def try_turn(self, url: str | URL, *, max_wait: float = MAX_WAIT) -> Turn:
        """As `RobotGate.try_turn`."""


class ThreadsafeGate:
    """A gate's questions and requests as plain calls, for threads: each returns when it is answered.

    The gate's event loop has to run in another thread meanwhile. A call that is interrupted, by `KeyboardInterrupt`
    for one, is cancelled in the loop, and its place in the host's queue is given back.

    Raises (of each call):
        EventLoopError: this thread runs the gate's event loop, and would wait for itself: use the gate with ``await``.
        GateClosedError: the gate is not open, was closed meanwhile, or its event loop has ended.
        as the method of `RobotGate` with the same name.
    """

    def __init__(self, gate: Doors, turns: Turns) -> None:
        self._gate = gate
        self._turns = turns
        self._blocks = _Blocks()

    def allowed(self, url: str | URL) -> bool:
        """Whether a URL may be fetched: `RobotGate.allowed`."""
        return self._run(lambda: self._gate.allowed(url))

    def check(self, url: str | URL) -> Verdict:
        """Whether a URL may be fetched, and why: `RobotGate.check`."""
        return self._run(lambda: self._gate.check(url))

    def fetch(self, url: str | URL, method: str = "GET", **options: Unpack[FetchOptions]) -> Response:
        """Fetch a page in its host's turn and read it, by the gate's session: `RobotGate.fetch`."""
        return self._run(lambda: self._gate.fetch(url, method, **options))

    def turn(
        self, url: str | URL, *, priority: int = 0, max_wait: float | ByOption | None = BY_OPTION
    ) -> ThreadTurn:
        """``with`` waits for the host's turn to fetch this URL, with any client: `RobotGate.turn`."""
        make = partial(self._gate.turn, url, priority=priority, max_wait=max_wait)
        return ThreadTurn(self._turns, make, self._blocks)

    def try_turn(self, url: str | URL, *, max_wait: float = MAX_WAIT) -> ThreadTurn:
        """``with`` takes the host's turn to fetch this URL, or raises `TooSoonError` at once: `RobotGate.try_turn`."""
        return ThreadTurn(self._turns, partial(self._gate.try_turn, url, max_wait=max_wait), self._blocks)

    def _run(self, make: Callable[[], Awaitable[T]]) -> T:
        loop = _loop_of(self._turns)
        return _result(_begin(make, loop, self._blocks.open), loop)


class ThreadTurn:
    """One request of a thread: within ``with turn:`` it may be sent, and its host waits for the end.

    Leave the block in the thread that entered it. As with `Turn`, report what came of the request, and take no other
    turn within the block.
    """

    _held: Future[None]
    """Done when the turn has ended."""

    def __init__(self, turns: Turns, make: Callable[[], Turn], blocks: _Blocks) -> None:
        self._turns, self._make, self._blocks = turns, make, blocks
        self._calls: asyncio.Queue[Callable[[], Awaitable[None]] | None] = asyncio.Queue()
        """What the task that holds the turn makes for the thread; None ends the turn."""

    def __enter__(self) -> Self:
        loop = self._loop = _loop_of(self._turns)
        entered: Future[None] = Future()
        held = self._held = _begin(partial(self._hold, entered), loop, self._blocks.open)
        try:
            _wait_for(loop, entered, held)
            if held.done():
                # It was refused.
                _result(held, loop)
            self._blocks.open.append(self)
        except BaseException:
            # Interrupted, perhaps when the turn had begun.
            held.cancel()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        if not self._blocks.open or self._blocks.open[-1] is not self:
            raise RuntimeError(
                "leave the blocks of turns in the thread that entered them, the last one first"
            )
        self._blocks.open.pop()
        if self._held.done():
            return
        self._put(None)
        _result(self._held, self._loop)

    @property
    def url(self) -> str:
        """What may be fetched, without fragment and credentials."""
        return self._turn.url

    @property
    def waited(self) -> float:
        """Seconds from asking for the turn until it began, robots.txt included."""
        return self._turn.waited

    @property
    def verdict(self) -> Verdict:
        """Why it may be fetched."""
        return self._turn.verdict

    def headers(self, method: str = "GET", sent: Mapping[str, str] | None = None) -> dict[str, str]:
        """The headers of this request: User-Agent, From, and with a signer a signature. As `Turn.headers`."""
        return self._turn.headers(method, sent)

    def fetch(
        self,
        method: str = "GET",
        *,
        max_bytes: int | None = None,
        allow_redirects: bool = True,
        max_redirects: int = MAX_PAGE_REDIRECTS,
        **options: Unpack[RequestOptions],
    ) -> Response:
        """Fetch the turn's URL by the gate's session and read it, in this turn, which ends with it: `Turn.fetch`."""

        async def call() -> Response:
            return await self._turn.fetch(
                method,
                max_bytes=max_bytes,
                allow_redirects=allow_redirects,
                max_redirects=max_redirects,
                **options,
            )

        return _result(self.begin(call), self._loop)

    def report(
        self,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        bytes: int = 0,  # noqa: A002  # As `Turn.report`.
        *,
        error: BaseException | None = None,
        body: bytes = b"",
    ) -> None:
        """Report what came of the request: `Turn.report`."""
        self._make_report(partial(self._turn.report, status, headers, bytes, error=error, body=body))

    def report_unreachable(self, cause: str) -> None:
        """Report that the origin could not be reached: `Turn.report_unreachable`."""
        self._make_report(partial(self._turn.report_unreachable, cause))

    def _make_report(self, report: Callable[[], None]) -> None:
        async def call() -> None:
            report()

        _result(self.begin(call), self._loop)

    def begin(self, make: Callable[[], Awaitable[T]]) -> Future[T]:
        """Have the task that holds the turn make a call. If it is cancelled, the turn ends as well."""
        future: Future[T] = Future()

        async def call() -> None:
            # It may have been cancelled meanwhile.
            with suppress(InvalidStateError):
                try:
                    future.set_result(await make())
                except Exception as error:  # noqa: BLE001  # It is the calling thread's.
                    future.set_exception(error)
                finally:
                    future.cancel()

        future.add_done_callback(lambda _: self._held.cancel() if future.cancelled() else None)
        self._put(call)
        return future

    def _put(self, call: Callable[[], Awaitable[None]] | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._calls.put_nowait, call)
        except RuntimeError as error:
            raise GateClosedError("the gate's event loop has ended") from error

    async def _hold(self, entered: Future[None]) -> None:
        async with self._make() as self._turn:
            entered.set_result(None)
            while (call := await self._calls.get()) is not None:
                await call()


class _Blocks(threading.local):
    """The blocks that this thread is in, the innermost last."""

    def __init__(self) -> None:
        self.open: deque[ThreadTurn] = deque()


def _loop_of(turns: Turns) -> asyncio.AbstractEventLoop:
    loop = turns.scheduler.loop
    if not turns.is_open or loop is None:
        raise GateClosedError("the gate is not open")
    if is_running(loop):
        raise EventLoopError(
            "this thread runs the gate's event loop, and would wait for itself: await the gate"
        )
    return loop


def _begin(
    make: Callable[[], Awaitable[T]], loop: asyncio.AbstractEventLoop, blocks: deque[ThreadTurn]
) -> Future[T]:
    """Begin a call in the loop; by the task that holds the thread's turn, if there is one."""
    if blocks:
        return blocks[-1].begin(make)

    async def call() -> T:
        return await make()

    calling = call()
    try:
        return asyncio.run_coroutine_threadsafe(calling, loop)
    except RuntimeError as error:
        calling.close()
        raise GateClosedError("the gate's event loop has ended") from error


def _wait_for(loop: asyncio.AbstractEventLoop, *futures: Future[T]) -> None:
    """Wait for the first of them; cancel the last, which is the whole call, if this is interrupted."""
    is_done = False
    try:
        while not (is_done := bool(wait(futures, LOOK_DELAY, FIRST_COMPLETED).done)):
            if not loop.is_running():
                raise GateClosedError("the gate's event loop does not run")
    finally:
        if not is_done:
            futures[-1].cancel()


def _result(future: Future[T], loop: asyncio.AbstractEventLoop) -> T:
    _wait_for(loop, future)
    try:
        return future.result()
    except CancelledError as error:
        raise GateClosedError("the gate's event loop has ended") from error
