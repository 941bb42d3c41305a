"""A store that nobody else uses, in the terms of one that others do: lanes know but one kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robotgate._ports import SharedStore

if TYPE_CHECKING:
    from robotgate._pacing import HostState
    from robotgate._ports import Postponed, Store, Visits


class Unshared:
    """The host states of a `Store`, of which nothing has to be reserved."""

    __slots__ = ("_store", "begin_visit", "end_visit", "recall_host", "remember_host")

    is_shared = False

    def __init__(self, store: Store) -> None:
        self._store = store
        # What is called for every request goes straight to the store.
        self.recall_host = store.recall_host
        self.remember_host = self.begin_visit = self.end_visit = store.remember_host

    async def reserve(
        self, pace_key: str, *, state: HostState, now: float, slots: int, delay: float
    ) -> Postponed | None:
        """Yes: who asks knows all that there is to know."""

    def withdraw(self, pace_key: str) -> None:
        """There is no line: nobody was ever told to ask again."""


def visits_of(store: Store) -> Visits:
    """What a store is told of visits, whichever kind it is."""
    return store if isinstance(store, SharedStore) else Unshared(store)
