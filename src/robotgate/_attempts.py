"""One turn, one request on the wire: what becomes of a request that is sent a second time.

aiohttp sends a GET once more when a kept connection turns out to be closed, and so do retry middlewares. Whoever has
a turn says so in a context variable; the middleware lets the first attempt pass and makes every other wait again. It
tells the turn what came of each: of an answer that is followed by another attempt the caller never hears.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

from aiohttp import ClientError
from yarl import URL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from types import TracebackType
    from typing import Self

    from aiohttp import ClientResponse


class Report(Protocol):
    """Takes in what came of a request, as `Turn.report`."""

    def __call__(
        self,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        bytes: int = 0,  # noqa: A002  # As `Turn.report` has it.
        *,
        error: BaseException | None = None,
    ) -> None:
        """Tell it."""


class Attempts:
    """The attempts to send one request whose turn has come: those within ``with Attempts(…):``.

    Args:
        url: where the request goes.
        again: ends the turn and waits for another.
        report: told of each attempt once; without it, whoever has the turn has to hear of them by himself.
    """

    __slots__ = ("_again", "_answer", "_is_told", "_outer", "_report", "_sender", "_url", "is_used")

    def __init__(
        self, url: str | URL, again: Callable[[], Awaitable[None]], report: Report | None = None
    ) -> None:
        self._url = url
        self._again = again
        self._report = report
        self._is_told = False
        self._answer: ClientResponse | None = None
        self.is_used = False
        """As of a `Passage`: the first is opened by the holder of the turn, and is the attempts themselves."""

    @property
    def attempts(self) -> Self:
        """As of a `Passage`."""
        return self

    def __enter__(self) -> Self:
        self._sender = sender = _running_sender()
        self._outer = sender.passage
        sender.passage = self
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._sender.passage = self._outer
        if error_type is not None:
            self.failed(error)
            self._break_off()
        self._answer = None

    def are_for(self, url: URL) -> bool:
        """Whether a request for `url` is one of them."""
        return url == self._url or url == URL(self._url).with_user(None).with_fragment(None)

    async def again(self) -> None:
        """Wait for the turn of one more."""
        self._break_off()
        await self._again()
        self._is_told = False

    def answered(self, response: ClientResponse) -> None:
        """The attempt in hand has come to its headers; of what passes several of us, the first to say so is heard."""
        if self._is_told:
            return
        self._is_told = True
        self._answer = response
        if self._report is not None:
            self._report(response.status, response.headers)

    def failed(self, error: BaseException | None) -> None:
        """What the attempt in hand has raised, if anything; an error of the way to the host is heard as `answered`."""
        if self._is_told or not isinstance(error, ClientError | OSError):
            return
        self._is_told = True
        if self._report is not None:
            self._report(error=error)

    def _break_off(self) -> None:
        """Close the last answer: who sends again, or raises, has done with it, and may not have read it."""
        answer, self._answer = self._answer, None
        if answer is None:
            return
        answer.close()
        if self._report is not None:
            self._report(bytes=answer.content.total_bytes)


class Passage:
    """Lets one attempt pass, and sees what comes of it: what is sent within ``with Passage(…):``.

    The middleware opens one around whatever it lets pass: where it stands twice in a chain, one attempt takes one turn.
    """

    __slots__ = ("_outer", "_sender", "attempts", "is_used")

    def __init__(self, attempts: Attempts) -> None:
        self.attempts = attempts
        self.is_used = False
        """Whether an attempt has come through; all others wait for turns of their own."""

    def __enter__(self) -> Self:
        self._sender = _running_sender()
        self._outer = self._sender.passage
        self._sender.passage = self
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._sender.passage = self._outer
        self.attempts.failed(error)


class _Sender:
    """A task that sends, for those that it begins meanwhile to know what they send for.

    There is one for each task, not one for each request: aiohttp's timers copy the context they are set in, and stay in
    the loop for a while when they are cancelled, with all that it holds.
    """

    __slots__ = ("passage", "task_id")

    def __init__(self, task_id: int) -> None:
        self.task_id = task_id
        """No reference, which would lead from the task to itself."""
        self.passage: Passage | Attempts | None = None


_current: ContextVar[_Sender | None] = ContextVar("robotgate_sender", default=None)


def _running_sender() -> _Sender:
    task_id = id(asyncio.current_task())
    sender = _current.get()
    if sender is None or sender.task_id != task_id:
        sender = _Sender(task_id)
        _current.set(sender)
    return sender


def passage_to(url: URL) -> Passage | Attempts | None:
    """What a request for `url` comes upon, if it has had its turn."""
    sender = _current.get()
    passage = None if sender is None else sender.passage
    return passage if passage is not None and passage.attempts.are_for(url) else None
