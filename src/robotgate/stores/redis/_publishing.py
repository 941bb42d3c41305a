"""What this process has to tell again: leases of open turns before they run out, and all that counts once the server
has forgotten, or could not be reached.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final

from robotgate._errors import StoreError
from robotgate._pacing import FORGIVEN_AFTER
from robotgate.stores.redis._keys import BUCKETS, bucket_of
from robotgate.stores.redis._news import news
from robotgate.stores.redis._wire import NEVER, TURN, Flag, Operation

if TYPE_CHECKING:
    from collections.abc import Collection

    from robotgate._pacing import HostState
    from robotgate._ports import Clock
    from robotgate.stores._hosts import HostMemory
    from robotgate.stores.redis._open_turns import OpenTurn, OpenTurns
    from robotgate.stores.redis._turn_calls import TurnCalls

READINGS: Final = 3
"""Of the server's clock, to begin with."""
HOLDS: Final = 3
"""A lease is renewed this often before it would run out."""


class Publishing:
    """Tells the server what it has to know, until it does.

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
        self._is_surveying = False
        self._timer: asyncio.TimerHandle | None = None

    def __contains__(self, pace_key: object) -> bool:
        """Whether a host's state is still to be told."""
        return pace_key in self._untold

    @property
    def has_news(self) -> bool:
        """Whether there is anything that the server has yet to hear."""
        return bool(self._untold or self._unfinished)

    def start(self) -> None:
        """Hold open turns from now on."""
        if self._timer is None:
            self._hold()

    def stop(self) -> None:
        """Hold them no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def merge(self, pace_key: str, known: HostState | None, state: HostState) -> None:
        """Tell what is news of a host; later, if the server is not to be reached."""
        if not self._calls.server.is_known:
            self._untold.add(pace_key)
            return
        told = news(known, state, self._calls.server)
        if told is not None:
            reply = self._calls.of_host(Operation.MERGE, pace_key, told)
            reply.add_done_callback(partial(self._merged, pace_key))

    def finish(self, turn: OpenTurn, body: bytes, flags: Flag = Flag.NONE) -> None:
        """Tell that a turn is over; again and again, if the server is not to be reached."""
        self._finish(turn.id, (turn.pace_key, body, flags))

    def hold(self, turn: OpenTurn) -> None:
        """Tell that a turn is open."""
        turn.held_at, turn.is_booked = monotonic(), True
        server, began_at = self._calls.server, turn.began_at
        body = TURN.pack(
            turn.delay,
            self._lease,
            server.there(turn.reserved_at),
            NEVER if began_at is None else server.there(began_at),
            NEVER,
        )
        self._calls.of_host(Operation.HOLD, turn.pace_key, body, turn=turn.id)

    async def survey(self) -> None:
        """Hear of all buckets, so that those which are new are begun now and not when they are first needed; and of
        the server's clock, which a few quick replies tell best.

        Raises:
            StoreError: nobody knows.
        """
        await asyncio.shield(asyncio.gather(*(self._calls.look(bucket) for bucket in range(BUCKETS))))
        for bucket in range(READINGS):
            await asyncio.shield(self._calls.look(bucket))

    def renewed(self, bucket: int) -> None:
        """A bucket was begun anew: what we know of it is told as soon as it is known of which others that is so."""
        self._renewed.add(bucket)
        if not self._is_surveying:
            self._is_surveying = True
            asyncio.get_running_loop().create_task(self._survey_again())

    def tell_all(self) -> None:
        """The server is to be reached again, or for the first time."""
        unfinished, self._unfinished = self._unfinished, {}
        for over, end in unfinished.items():
            self._finish(over, end)
        for turn in self._turns:
            self.hold(turn)
        untold, self._untold = self._untold, set()
        self._tell(untold)

    async def _survey_again(self) -> None:
        with suppress(StoreError):
            await self.survey()
        self._is_surveying = False
        renewed, self._renewed = self._renewed, set()
        for turn in self._turns:
            if bucket_of(turn.pace_key) in renewed:
                self.hold(turn)
        now = self._clock.now()
        self._tell(
            [
                pace_key
                for pace_key, state in self._memory.states.items()
                if _binds(state, now=now) and bucket_of(pace_key) in renewed
            ]
        )

    def _tell(self, pace_keys: Collection[str]) -> None:
        for pace_key in pace_keys:
            state = self._memory.states.get(pace_key)
            if state is not None:
                self.merge(pace_key, None, state)

    def _merged(self, pace_key: str, reply: asyncio.Future[bytes]) -> None:
        if reply.cancelled() or reply.exception() is not None:
            self._untold.add(pace_key)

    def _finish(self, turn: bytes, end: tuple[str, bytes, Flag]) -> None:
        pace_key, body, flags = end
        reply = self._calls.of_host(Operation.FINISH, pace_key, body, turn=turn, flags=flags)
        reply.add_done_callback(partial(self._finished, turn, end))

    def _finished(self, turn: bytes, end: tuple[str, bytes, Flag], reply: asyncio.Future[bytes]) -> None:
        if reply.cancelled() or reply.exception() is not None:
            self._unfinished[turn] = end

    def _hold(self) -> None:
        # Looked at twice as often as they are to be held, so that none is held later than it should be.
        pause = self._lease / HOLDS / 2
        due = monotonic() - pause
        for turn in self._turns:
            if turn.is_booked and turn.held_at <= due:
                self.hold(turn)
        self._timer = asyncio.get_running_loop().call_later(pause, self._hold)


def _binds(state: HostState, *, now: float) -> bool:
    """Whether a visit has to come later, or a block to be longer, for what is known of a host."""
    if max(state.next_allowed_at, state.blocked_until_at) > now:
        return True
    return state.failures > 0 and state.blocked_until_at + FORGIVEN_AFTER > now
