"""Answers that must be awaited: their truth value raises, so that a forgotten ``await`` does not count as True."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import NoReturn, TypeVar

T_co = TypeVar("T_co", covariant=True)


class Awaited(Coroutine[object, None, T_co]):
    """A coroutine that has no truth value."""

    __slots__ = ()

    def __bool__(self) -> NoReturn:
        self.close()
        raise TypeError("this is a coroutine, not yet an answer: write `await` before the call")


class Known(Awaited[bool]):
    """An answer that is known: to await it suspends nothing. It may be awaited any number of times.

    Each is another object: some functions of asyncio take equal coroutines for one. It holds nothing, and the answer is
    its class's: to make one with a value takes as long as a coroutine.
    """

    __slots__ = ()

    def send(self, value: None, /) -> object:
        """End with the answer, as any coroutine."""
        return self.__await__().send(None)

    def throw(self, *error: object) -> object:
        """Raise the error, as a coroutine that has not begun."""
        return self.__await__().throw(*error)  # type: ignore[call-overload]

    def close(self) -> None:
        """Change nothing: it holds nothing."""


# The `yield` that is never reached makes each a generator: nothing is awaited faster.


class Yes(Known):
    """True."""

    __slots__ = ()

    def __await__(self) -> Generator[object, None, bool]:
        return True
        yield  # type: ignore[unreachable]


class No(Known):
    """False."""

    __slots__ = ()

    def __await__(self) -> Generator[object, None, bool]:
        return False
        yield  # type: ignore[unreachable]


class Pending(Awaited[T_co]):
    """An answer that a coroutine finds out. It is awaited once, as that coroutine."""

    __slots__ = ("_coroutine",)

    def __init__(self, coroutine: Coroutine[object, None, T_co]) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Generator[object, None, T_co]:
        return self._coroutine.__await__()

    def send(self, value: None, /) -> object:
        """Run until the next suspension, as any coroutine."""
        return self._coroutine.send(value)

    def throw(self, *error: object) -> object:
        """Raise where the coroutine is suspended, as any coroutine."""
        return self._coroutine.throw(*error)  # type: ignore[call-overload]

    def close(self) -> None:
        """Abandon it, as any coroutine."""
        self._coroutine.close()
