"""Passes on to several gates that their server is lost, or back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robotgate.stores.redis._subscribers import Subscribers

if TYPE_CHECKING:
    from collections.abc import Callable

    from robotgate._errors import StoreError
    from robotgate.stores.redis._link import Link


class Reports:
    """Hears of losses from a link."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._subscribers: Subscribers[[StoreError | None]] = Subscribers()
        link.subscribe(self._subscribers.tell)

    def subscribe(self, callback: Callable[[StoreError | None], object]) -> Callable[[], None]:
        """As `ReportingStore.subscribe_losses`."""
        unsubscribe = self._subscribers.add(callback)
        if self._link.lost is not None:
            callback(self._link.lost)
        return unsubscribe
