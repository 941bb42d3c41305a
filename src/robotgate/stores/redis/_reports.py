"""Passes on to several gates that their server is lost, or back."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from robotgate._errors import StoreError
    from robotgate.stores.redis._link import Link


class Reports:
    """Hears of losses from a link."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._callbacks: list[Callable[[StoreError | None], object]] = []
        link.subscribe(self._pass_on)

    def subscribe(self, callback: Callable[[StoreError | None], object]) -> Callable[[], None]:
        """As `ReportingStore.subscribe_losses`."""
        # The same callback may be given twice; each ends for itself.
        subscription = partial(callback)
        self._callbacks.append(subscription)
        if self._link.lost is not None:
            subscription(self._link.lost)

        def unsubscribe() -> None:
            with suppress(ValueError):
                self._callbacks.remove(subscription)

        return unsubscribe

    def _pass_on(self, error: StoreError | None) -> None:
        for callback in list(self._callbacks):
            callback(error)
