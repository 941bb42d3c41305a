"""One turn, one request on the wire: what becomes of a request that is sent a second time.

aiohttp sends a GET once more when a kept connection turns out to be closed, and so do retry middlewares. Whoever has
a turn says so in a context variable; the middleware lets the first attempt pass and makes every other wait again.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING
from weakref import ref

from yarl import URL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType
    from typing import Self

    from aiohttp import ClientResponse


class Attempts:
    """The attempts to send one request whose turn has come: those within ``with Attempts(…):``.

    Args:
        url: where the request goes.
        again: ends the turn and waits for another.
    """

    __slots__ = ("_again", "_answer", "_is_first", "_token", "_url")

    def __init__(self, url: str | URL, again: Callable[[], Awaitable[None]]) -> None:
        self._url = url
        self._again = again
        self._is_first = True
        # The connection, whose handles remember this context, outlives the response.
        self._answer: ref[ClientResponse] | None = None

    def __enter__(self) -> Self:
        self._token = _current.set(self)
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _current.reset(self._token)

    def are_for(self, url: URL) -> bool:
        """Whether a request for `url` is one of them."""
        return url == self._url or url == URL(self._url).with_user(None).with_fragment(None)

    async def begin(self) -> None:
        """Go on at once with the first attempt; with another when its turn has come."""
        if not self._is_first:
            self._break_off()
            await self._again()
        self._is_first = False

    def answered(self, response: ClientResponse) -> None:
        """An attempt has come to its headers."""
        self._answer = ref(response)

    def _break_off(self) -> None:
        """Close the answer to the last attempt: who sends again has done with it, and may not have read it."""
        answer = None if self._answer is None else self._answer()
        if answer is not None:
            answer.close()


_current: ContextVar[Attempts | None] = ContextVar("robotgate_attempts", default=None)


def attempts_at(url: URL) -> Attempts | None:
    """The attempts that a request for `url` belongs to, if it has had its turn."""
    current = _current.get()
    return current if current is not None and current.are_for(url) else None
