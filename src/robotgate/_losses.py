"""Tells of a store that fails, once, and once when it works again: not for every turn that meets it while it is down.

A store may fail at one thing and do another. Who succeeds at something says only so much of the rest::

    what succeeds            it works again at
    what had not failed      nothing that it was known to fail at
    a reading that failed    that alone: a full disk, or a server without its master, is read as ever
    a writing that failed    everything: what failed together has one cause, and nobody may ask for the rest in hours
    the store says so        everything
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from robotgate._events import StoreLost, StoreRecovered

if TYPE_CHECKING:
    from robotgate._errors import StoreError
    from robotgate._listeners import Listeners
    from robotgate._ports import Clock


class Task(Enum):
    """What a store is there for; it may do one and fail at another."""

    LOAD = "load"
    SAVE = "save"
    REMEMBER = "remember"
    RECALL = "recall"


_WRITES: Final = frozenset({Task.SAVE, Task.REMEMBER})


class Losses:
    """What the store of a gate fails at now."""

    def __init__(self, *, clock: Clock, listeners: Listeners) -> None:
        self._clock = clock
        self._listeners = listeners
        self.tasks: set[Task] = set()
        """At what it failed when last asked; empty while it is well."""
        self.away: StoreError | None = None
        """What it says itself is wrong with it; None while it says nothing."""

    def begin(self, task: Task, error: StoreError) -> None:
        """The store has failed at this; that is told, unless it was known to fail."""
        is_news = not self.tasks and self.away is None
        self.tasks.add(task)
        if is_news:
            self._tell_lost(error)

    def end(self, task: Task) -> None:
        """The store has done this. Where it was to be told that it failed, see above what works again."""
        if task not in self.tasks:
            return
        if task in _WRITES:
            self.tasks.clear()
        else:
            self.tasks.discard(task)
        if not self.tasks and self.away is None:
            self._tell_recovered()

    def report(self, error: StoreError | None) -> None:
        """The store says that it is lost, or back: sooner than those can who wait for it."""
        was_lost = bool(self.tasks) or self.away is not None
        self.away = error
        if error is not None:
            if not was_lost:
                self._tell_lost(error)
            return
        self.tasks.clear()
        if was_lost:
            self._tell_recovered()

    def _tell_lost(self, error: StoreError) -> None:
        if self._listeners.is_heard(StoreLost):
            self._listeners.emit(StoreLost(at=self._clock.now(), error=error))

    def _tell_recovered(self) -> None:
        if self._listeners.is_heard(StoreRecovered):
            self._listeners.emit(StoreRecovered(at=self._clock.now()))
