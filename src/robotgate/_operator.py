"""The operator's word on hosts that are to be left alone: heeded here, and at every gate that shares the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robotgate._events import BlockCause, HostBlocked, HostRecovered
from robotgate._pacing import CLOCK_GRAIN
from robotgate._ports import SharedBlocks

if TYPE_CHECKING:
    from robotgate._lanes import Lanes
    from robotgate._listeners import Listeners
    from robotgate._ports import Clock, Store


class OperatorBlocks:
    """Takes the operator's word in, from whichever process of a fleet it comes."""

    def __init__(self, *, lanes: Lanes, store: Store, clock: Clock, listeners: Listeners) -> None:
        self._lanes = lanes
        self._clock = clock
        self._listeners = listeners
        self._fleet = store if isinstance(store, SharedBlocks) else None
        self._unsubscribe = None if self._fleet is None else self._fleet.subscribe_blocks(self._hear)

    def block(self, pattern: str, until_at: float) -> None:
        """Leave hosts alone until an instant, at all gates of the fleet. One that has passed lifts it.

        Raises:
            OptionError: the pattern or the instant makes no sense.
        """
        known = self._take(pattern, until_at)
        if self._fleet is not None:
            # Lifted, too, if nothing was blocked here: another process may know of what this one does not yet.
            self._fleet.publish_block(known, until_at)

    def close(self) -> None:
        """Hear of no other gate's word any more."""
        if self._unsubscribe is not None:
            self._unsubscribe()

    def _hear(self, pattern: str, until_at: float) -> None:
        """Another gate was told so, or this one was, and hears of it again."""
        known_at, now = self._lanes.operator_until_at(pattern), self._clock.now()
        is_known = until_at == known_at or abs(until_at - known_at) <= CLOCK_GRAIN
        if not is_known and max(until_at, known_at) > now:
            self._take(pattern, until_at)

    def _take(self, pattern: str, until_at: float) -> str:
        was_blocked = self._lanes.operator_until_at(pattern) > 0
        host = str(self._lanes.block(pattern, until_at))
        now, cause = self._clock.now(), BlockCause.OPERATOR
        if until_at > now and self._listeners.is_heard(HostBlocked):
            self._listeners.emit(HostBlocked(at=now, host=host, until_at=until_at, cause=cause))
        elif until_at <= now and was_blocked and self._listeners.is_heard(HostRecovered):
            self._listeners.emit(HostRecovered(at=now, host=host, cause=cause))
        return host
