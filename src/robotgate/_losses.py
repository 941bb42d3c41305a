"""Tells of a store that fails, once: not for every turn that meets it while it is down."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from robotgate._events import StoreLost

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


class Losses:
    """What the store of a gate fails at now."""

    def __init__(self, *, clock: Clock, listeners: Listeners) -> None:
        self._clock = clock
        self._listeners = listeners
        self.tasks: set[Task] = set()
        """At what it failed when last asked; empty while it is well."""

    def begin(self, task: Task, error: StoreError) -> None:
        """The store has failed; that is told, unless it was known to fail at this."""
        is_news = task not in self.tasks
        self.tasks.add(task)
        if is_news and self._listeners.is_heard(StoreLost):
            self._listeners.emit(StoreLost(at=self._clock.now(), error=error))

    def end(self, task: Task) -> None:
        """The store has done this again: the next failure is another loss."""
        self.tasks.discard(task)
