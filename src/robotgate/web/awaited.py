"""Answers that must be awaited: their truth value raises, so that a forgotten ``await`` is no consent."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import Generic, NoReturn, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Awaited(Coroutine[object, None, T_co]):
    """A coroutine that has no truth value."""

    __slots__ = ()

    def __bool__(self) -> NoReturn:
        self.close()
        raise TypeError("this is a coroutine, not yet an answer: write `await` before the call")


class Known(Awaited[T], Generic[T]):
    """An answer that is known: to await it suspends nothing. It may be awaited any number of times."""

    __slots__ = ("_value",)

    def __init__(self, value: T) -> None:
        self._value = value

    def __await__(self) -> Generator[object, None, T]:
        return self._value
        # Makes this a generator, which is awaited faster than other iterators are.
        yield  # type: ignore[unreachable]

    def send(self, value: None, /) -> NoReturn:
        """End with the answer, as any coroutine."""
        raise StopIteration(self._value)

    def throw(self, *error: object) -> NoReturn:
        """Raise the error, as a coroutine that has not begun."""
        # A generator knows all that may be given here.
        self.__await__().throw(*error)  # type: ignore[call-overload]
        raise RuntimeError("a generator that was thrown an error went on")

    def close(self) -> None:
        """Change nothing: it holds nothing."""


class Pending(Awaited[T], Generic[T]):
    """An answer that a coroutine finds out. It is awaited once, as that coroutine."""

    __slots__ = ("_coroutine",)

    def __init__(self, coroutine: Coroutine[object, None, T]) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Generator[object, None, T]:
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
