"""Answers that must be awaited: their truth value raises, so that a forgotten ``await`` does not count as True."""

from __future__ import annotations

import sys
from collections.abc import Coroutine, Generator
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeVar

T_co = TypeVar("T_co", covariant=True)

PRINTS_TASKS: Final = "asyncio.base_tasks"
"""The module that prints a task: since Python 3.12 it asks whether the task's coroutine is true, to see if there is
one."""


class Awaited(Coroutine[object, None, T_co]):
    """A coroutine that has no truth value."""

    __slots__ = ()

    # Type checkers are told of no `__bool__`: mypy's `truthy-bool` then reports the condition, and what follows it is
    # checked, which a `NoReturn` would make unreachable.
    if not TYPE_CHECKING:

        def __bool__(self) -> bool:
            # It changes nothing: a task may be running this coroutine.
            if sys._getframe(1).f_globals.get("__name__") == PRINTS_TASKS:  # Public, but for its name.
                return True
            raise TypeError("this is a coroutine, not yet an answer: write `await` before the call")


class Known(Awaited[bool]):
    """An answer that is known: to await it suspends nothing. It may be awaited any number of times.

    Each is another object: some functions of asyncio take equal coroutines for one. It holds nothing, and the answer is
    its class's: to make one with a value takes as long as a coroutine.
    """

    __slots__ = ()

    if not TYPE_CHECKING:
        # How a task of it is printed.
        __name__ = "RobotGate.allowed"

    def send(self, value: None, /) -> object:
        """End with the answer, as any coroutine."""
        return self.__await__().send(None)

    def throw(self, *error: object) -> object:
        """Raise the error, as a coroutine that has not begun."""
        return self.__await__().throw(*error)  # type: ignore[call-overload]

    def close(self) -> None:
        """Change nothing: it holds nothing."""


# The `yield` that is never reached makes each a generator, which is the quickest to await.


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

    if not TYPE_CHECKING:
        # What asyncio, `inspect` and debuggers look at.
        __name__ = property(attrgetter("_coroutine.__qualname__"))
        cr_await = property(attrgetter("_coroutine.cr_await"))
        cr_code = property(attrgetter("_coroutine.cr_code"))
        cr_frame = property(attrgetter("_coroutine.cr_frame"))
        cr_origin = property(attrgetter("_coroutine.cr_origin"))
        cr_running = property(attrgetter("_coroutine.cr_running"))
        cr_suspended = property(attrgetter("_coroutine.cr_suspended"))

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
