"""Who wants to hear of something, and until when."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Generic, ParamSpec

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")


class Subscribers(Generic[P]):
    """Callbacks, in the order in which they came."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[P, object]] = []

    def add(self, callback: Callable[P, object]) -> Callable[[], None]:
        """Have a callback told from now on. Returns what ends that; a second time changes nothing."""
        # The same callback may be given twice; each ends for itself.
        subscription = partial(callback)
        self._callbacks.append(subscription)

        def unsubscribe() -> None:
            with suppress(ValueError):
                self._callbacks.remove(subscription)

        return unsubscribe

    def tell(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call all who are there now."""
        for callback in list(self._callbacks):
            callback(*args, **kwargs)

    def clear(self) -> None:
        """Nobody wants to hear any more."""
        self._callbacks.clear()
