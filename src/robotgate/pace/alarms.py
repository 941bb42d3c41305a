"""When hosts and scopes are looked at again, and the deadlines of turns: one heap, with one timer."""

from __future__ import annotations

import math
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final, TypeAlias

from robotgate.pace.host import PacedTurn
from robotgate.pace.state import CLOCK_GRAIN
from robotgate.pace.timer import Timer
from robotgate.pace.turn import WAITING

if TYPE_CHECKING:
    from collections.abc import Callable

    from robotgate.pace.host import Host
    from robotgate.pace.scope import Scope

    Alarm: TypeAlias = tuple[float, bool, int, Host | Scope | PacedTurn]
    """When to look at a host or a scope again or to refuse a turn, whether it is for a turn, its place in the order,
    and the host, the scope or the turn. At one instant turns come last."""

MIN_KEPT: Final = 64
"""Alarms below which those that are void are not looked for."""


class Alarms:
    """What happens next, by itself.

    Args:
        ring: called when the timer fires. It takes what is `due`, and calls `set_timer` at its end.
    """

    def __init__(self, ring: Callable[[], object]) -> None:
        self._timer = Timer(ring)
        self._heap: list[Alarm] = []
        self._order = count()
        self._most = MIN_KEPT

    def look_at(self, each: Host | Scope, at: float, now: float) -> None:
        """Look at a host or a scope at an instant, and not at the one that was set before; at infinity: at none."""
        if each.wake_at != at:
            each.wake_at = at
            if at < math.inf:
                self._add((at, False, next(self._order), each), now)

    def refuse_at(self, at: float, turn: PacedTurn, now: float) -> None:
        """Refuse a turn at an instant, if it waits and its deadline is not later by then."""
        self._add((at, True, turn.arrival, turn), now)

    def _add(self, alarm: Alarm, now: float) -> None:
        heap = self._heap
        if len(heap) > self._most:
            heap = self._heap = list({each for each in heap if not _is_void(each)})
            heapify(heap)
            self._most = 2 * len(heap) + MIN_KEPT
        heappush(heap, alarm)
        # For any other alarm the timer is set already.
        if heap[0] is alarm:
            self._timer.set(alarm[0] - now)

    def due(self, now: float) -> tuple[list[Host | Scope], list[PacedTurn]]:
        """Take out what is due: the hosts and scopes to look at, and the turns to refuse after that."""
        due: list[Host | Scope] = []
        late: list[PacedTurn] = []
        heap = self._heap
        while heap:
            alarm = heap[0]
            is_void, whom = _is_void(alarm), alarm[-1]
            if alarm[0] - now > CLOCK_GRAIN and not is_void:
                break
            heappop(heap)
            if is_void:
                continue
            if isinstance(whom, PacedTurn):
                late.append(whom)
            else:
                whom.wake_at = math.inf
                due.append(whom)
        return due, late

    def set_timer(self, now: float) -> None:
        """Set the timer for the first alarm."""
        if self._heap:
            self._timer.set(self._heap[0][0] - now)

    def clear(self) -> None:
        """Forget all: no turn waits."""
        for alarm in self._heap:
            if not isinstance(alarm[-1], PacedTurn):
                # The next turn that waits for it sets another.
                alarm[-1].wake_at = math.inf
        self._heap.clear()
        self._timer.cancel()


def _is_void(alarm: Alarm) -> bool:
    """Return whether a host has another alarm by now, or a turn does not wait, or waits again for a later deadline."""
    at, whom = alarm[0], alarm[-1]
    if isinstance(whom, PacedTurn):
        return whom.state is not WAITING or whom.deadline_at - at > CLOCK_GRAIN
    return whom.wake_at != at
