"""The lanes of a gate: one for each pace key somebody waits for, or whose politeness is not yet served."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robotgate._errors import GateClosedError
from robotgate._lane import Lane, LaneRules
from robotgate._pacing import HostState

if TYPE_CHECKING:
    from robotgate._ports import Clock, Store


class Lanes:
    """Makes lanes of what the store remembers, and drops them once they are idle and served."""

    def __init__(self, *, rules: LaneRules, clock: Clock, store: Store) -> None:
        self._rules = rules
        self._clock = clock
        self._store = store
        self._lanes: dict[str, Lane] = {}
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._lanes)

    async def lane(self, pace_key: str) -> Lane:
        """The lane of a pace key.

        Raises:
            GateClosedError: the gate was closed.
            StoreError: the host's state could not be read.
        """
        lane = self._lanes.get(pace_key)
        if lane is not None:
            return lane
        state = await self._store.load_host(pace_key)
        if self._is_closed:
            raise GateClosedError("the gate was closed")
        # Another task may have made the lane while the store was asked.
        lane = self._lanes.get(pace_key)
        if lane is None:
            lane = self._lanes[pace_key] = Lane(
                pace_key,
                state=state or HostState(),
                rules=self._rules,
                clock=self._clock,
                store=self._store,
                on_idle=self._drop,
            )
        return lane

    def peek(self, pace_key: str) -> Lane | None:
        """The lane, if there is one."""
        return self._lanes.get(pace_key)

    def close(self) -> None:
        """Send every waiter away with `GateClosedError`."""
        self._is_closed = True
        lanes, self._lanes = self._lanes, {}
        for lane in lanes.values():
            lane.close()

    def _drop(self, lane: Lane) -> None:
        if self._lanes.get(lane.pace_key) is lane:
            del self._lanes[lane.pace_key]
