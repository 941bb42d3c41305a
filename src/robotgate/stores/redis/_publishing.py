"""What this process has to tell again: leases of open turns before they run out, and all that counts once the server
has forgotten, or could not be reached.
"""

from __future__ import annotations

import asyncio
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final

from robotgate._pacing import FORGIVEN_AFTER
from robotgate.stores.redis import _bodies
from robotgate.stores.redis._keys import BUCKETS, bucket_of
from robotgate.stores.redis._news import news
from robotgate.stores.redis._wire import Flag, Operation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from robotgate._pacing import HostState
    from robotgate._ports import Clock
    from robotgate.stores._hosts import HostMemory
    from robotgate.stores.redis._open_turns import OpenTurn, OpenTurns
    from robotgate.stores.redis._turn_calls import TurnCalls

HOLDS: Final = 3
"""A lease is renewed this often before it would run out."""


class Publishing:
    """Tells the server what it has to know, until it does. While it is lost, nothing is sent: it is told all at once.

    Args:
        lease: of a turn, in seconds.
    """

    def __init__(
        self, calls: TurnCalls, *, turns: OpenTurns, memory: HostMemory, clock: Clock, lease: float
    ) -> None:
        self._calls = calls
        self._turns = turns
        self._memory = memory
        self._clock = clock
        self._lease = lease
        self._untold: set[str] = set()
        """Hosts whose states are to be told as a whole."""
        self._unfinished: dict[bytes, tuple[str, bytes, Flag]] = {}
        """Turns that are over, by their octets, of which the server has not heard that."""
        self._renewed: set[int] = set()
        """Buckets that were begun anew."""
        self._surveying: asyncio.Future[list[bytes]] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __contains__(self, pace_key: object) -> bool:
        """Whether a host's state is still to be told."""
        return pace_key in self._untold

    @property
    def news(self) -> int:
        """How many hosts and ends of turns the server has yet to hear of."""
        return len(self._untold) + len(self._unfinished)

    def start(self) -> None:
        """Hold open turns from now on."""
        if self._timer is None:
            self._hold_again()

    def stop(self) -> None:
        """Hold them no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def rebind(self) -> None:
        """The event loop is gone, and another goes on."""
        self._timer = self._surveying = None

    def merge(self, pace_key: str, known: HostState | None, state: HostState) -> None:
        """Tell what is news of a host."""
        if not self._calls.can_tell:
            self._untold.add(pace_key)
            return
        told = news(known, state, self._calls.server)
        if told is not None:
            on_failure = partial(self._untold.add, pace_key)
            self._calls.tell(Operation.MERGE, pace_key, told, on_failure=on_failure)

    def defer(self, pace_key: str) -> None:
        """Tell all that is known of a host once the server is back."""
        self._untold.add(pace_key)

    def finish(self, turn: OpenTurn, body: bytes, flags: Flag = Flag.NONE) -> None:
        """Tell that a turn is over."""
        self._finish(turn.id, turn.pace_key, body, flags)

    def hold(self, turn: OpenTurn) -> None:
        """Tell that a turn is open."""
        if not self._calls.can_tell:
            return
        turn.held_at, turn.is_booked = monotonic(), True
        body = _bodies.open_turn(turn, self._calls.server, lease=self._lease)
        self._calls.tell(Operation.HOLD, turn.pace_key, body, turn=turn.id)

    def survey(self) -> asyncio.Future[list[bytes]]:
        """Hear of all buckets, so that those which are new are begun now and not when they are first needed; then tell
        what is news there.
        """
        if self._surveying is None:
            self._surveying = asyncio.gather(*map(self._calls.look, range(BUCKETS)))
            self._surveying.add_done_callback(self._surveyed)
        return self._surveying

    def renewed(self, bucket: int) -> None:
        """A bucket was begun anew: what we know of it is told as soon as it is known of which others that is so."""
        self._renewed.add(bucket)
        self.survey()

    def _surveyed(self, survey: asyncio.Future[list[bytes]]) -> None:
        self._surveying = None
        if survey.cancelled() or survey.exception() is not None:
            # There will be another once the server is back; what was begun anew is kept in mind.
            return
        renewed, self._renewed = self._renewed, set()
        self._finish_all()
        # All: one that was taken up by ourselves, meanwhile, is news everywhere.
        for turn in self._turns:
            if not (turn.is_booked and turn.held_at) or bucket_of(turn.pace_key) in renewed:
                self.hold(turn)
        untold = set(self._untold)
        self._untold.clear()
        untold.update(self._binding(renewed))
        self._merge_all(untold)

    def _binding(self, buckets: set[int]) -> Iterable[str]:
        """Hosts of some buckets that may not be visited now, as far as we know."""
        if not buckets:
            return
        now = self._clock.now()
        for pace_key, state in self._memory.states.items():
            if _binds(state, now=now) and bucket_of(pace_key) in buckets:
                yield pace_key

    def _merge_all(self, pace_keys: Iterable[str]) -> None:
        for pace_key in pace_keys:
            state = self._memory.states.get(pace_key)
            if state is not None:
                self.merge(pace_key, None, state)

    def _finish_all(self) -> None:
        unfinished, self._unfinished = self._unfinished, {}
        for turn, (pace_key, body, flags) in unfinished.items():
            self._finish(turn, pace_key, body, flags)

    def _finish(self, turn: bytes, pace_key: str, body: bytes, flags: Flag) -> None:
        on_failure = partial(self._unfinish, turn, pace_key, body, flags)
        if self._calls.can_tell:
            self._calls.tell(Operation.FINISH, pace_key, body, turn=turn, flags=flags, on_failure=on_failure)
        else:
            on_failure()

    def _unfinish(self, turn: bytes, pace_key: str, body: bytes, flags: Flag) -> None:
        self._unfinished[turn] = pace_key, body, flags

    def _hold_again(self) -> None:
        # Looked at twice as often as they are to be held, so that none is held later than it should be.
        pause = self._lease / HOLDS / 2
        due = monotonic() - pause
        for turn in self._turns:
            if turn.is_booked and turn.held_at <= due:
                self.hold(turn)
        self._timer = asyncio.get_running_loop().call_later(pause, self._hold_again)


def _binds(state: HostState, *, now: float) -> bool:
    """Whether a visit has to come later, or a block to be longer, for what is known of a host."""
    if max(state.next_allowed_at, state.blocked_until_at) > now:
        return True
    return state.failures > 0 and state.blocked_until_at + FORGIVEN_AFTER > now
