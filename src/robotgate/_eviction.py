"""What a gate keeps in memory, within a bound: the oldest go first, and nothing goes that is still needed.

Who enters a table that is full makes room for himself: a few of its oldest are looked at, those that may go go, and
those that may not are put behind the others, to be looked at again when all of them have been. That costs the same
however many are kept. A table that stays too full, because none of those few could go, is looked at by and by.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from robotgate._alarm import Alarm

if TYPE_CHECKING:
    from collections.abc import Callable

LOOKS: Final = 4
"""Entries looked at for each that enters. One that was used is looked at twice before it goes; the rest catches up."""
STRETCH: Final = 500
"""Entries looked at in one go while a table is too full; a millisecond or two."""
PAUSE: Final = 1.0
"""Seconds between such stretches."""

Kept = TypeVar("Kept")


class Table(Generic[Kept]):
    """Entries of one kind, the oldest first.

    Args:
        entries: what is kept, for whoever reads it. An `OrderedDict` tells the order itself, and anybody may take away
            from it. A plain dict is read a third faster, where that counts; its order is kept beside it, and who takes
            away from it does so by `take`.
        limit: how many there may be, but for those that may not go.
        may_go: whether nothing is lost with an entry that cannot be had again.
        let_go: takes an entry away, or what of it can be spared.
        is_over: called when there are too many all the same.
    """

    def __init__(
        self,
        entries: dict[str, Kept],
        *,
        limit: int,
        may_go: Callable[[str], bool],
        let_go: Callable[[str], object],
        is_over: Callable[[], object],
    ) -> None:
        self._entries = entries
        self._beside: OrderedDict[str, None] | None = None
        self._order: OrderedDict[str, Kept] | OrderedDict[str, None]
        if isinstance(entries, OrderedDict):
            self._order = entries
        else:
            self._order = self._beside = OrderedDict()
        self._limit = limit
        self._may_go = may_go
        self._let_go = let_go
        self._is_over = is_over

    def put(self, key: str, entry: Kept) -> None:
        """Keep an entry, as the youngest."""
        self.make_room(key)
        self._entries[key] = entry
        if self._beside is not None:
            self._beside[key] = None
        self._order.move_to_end(key)

    def take(self, key: str) -> Kept:
        """Keep an entry no longer."""
        if self._beside is not None:
            del self._beside[key]
        return self._entries.pop(key)

    def clear(self) -> None:
        """Keep nothing."""
        self._order.clear()
        self._entries.clear()

    def make_room(self, key: str) -> None:
        """Let go of what is in the way of an entry about to be kept; it is not itself in danger that way."""
        if key not in self._entries and len(self._entries) >= self._limit:
            self._shrink(self._limit - 1, LOOKS)
            if len(self._entries) >= self._limit:
                self._is_over()

    def sweep(self) -> bool:
        """Look at a stretch of a table that is too full. Returns whether it still is."""
        self._shrink(self._limit, STRETCH)
        return len(self._entries) > self._limit

    def _shrink(self, size: int, looks: int) -> None:
        for _ in range(min(looks, len(self._entries))):
            if len(self._entries) <= size:
                return
            key = next(iter(self._order))
            if self._may_go(key):
                self._let_go(key)
            if key in self._order:
                self._order.move_to_end(key)


class Eviction:
    """The tables of a gate, and the alarm for those that are too full."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._tables: list[Callable[[], bool]] = []
        self._alarm = Alarm(self._sweep)

    def table(
        self,
        entries: dict[str, Kept],
        *,
        may_go: Callable[[str], bool],
        let_go: Callable[[str], object],
    ) -> Table[Kept]:
        """One more table, with the bound of the others."""
        table = Table(entries, limit=self._limit, may_go=may_go, let_go=let_go, is_over=self._look_again_soon)
        self._tables.append(table.sweep)
        return table

    def close(self) -> None:
        """Look at nothing any more."""
        self._tables.clear()
        self._alarm.cancel()

    def _look_again_soon(self) -> None:
        if self._tables:
            self._alarm.ring_in(PAUSE)

    def _sweep(self) -> None:
        are_over = [sweep() for sweep in self._tables]
        if any(are_over):
            self._look_again_soon()
