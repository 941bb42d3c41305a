"""The lanes of a gate: one for each pace key somebody waits for, or whose politeness is not yet served."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robotgate import _pacing
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
        self._asked_delays: dict[str, dict[str, float]] = {}
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
                asked_delays=self._asked_delays.setdefault(pace_key, {}),
            )
        return lane

    def ask_delay(self, pace_key: str, origin: str, delay: float) -> None:
        """Take in the delay that one of a host's origins asks for; it outlives the lane. 0 asks for none."""
        lane = self._lanes.get(pace_key)
        if lane is not None:
            lane.ask_delay(origin, delay)
        elif delay:
            self._asked_delays.setdefault(pace_key, {})[origin] = delay
        else:
            self._asked_delays.get(pace_key, {}).pop(origin, None)

    def wait(self, pace_key: str) -> float:
        """Seconds until the next turn of a pace key, at the least, as far as memory tells."""
        lane = self._lanes.get(pace_key)
        if lane is not None:
            return lane.wait()
        state = self._store.recall_host(pace_key) or HostState()
        delay = self._rules.longest_delay(self._asked_delays.get(pace_key, {}))
        return _pacing.wait(state, delay=delay, now=self._clock.now())

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
        if self._lanes.get(lane.pace_key) is not lane:
            return
        del self._lanes[lane.pace_key]
        if not self._asked_delays[lane.pace_key]:
            del self._asked_delays[lane.pace_key]
