"""One pace for a whole fleet, as one of its processes sees it: turns are asked for, and told of."""

from __future__ import annotations

import asyncio
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from robotgate._errors import StoreError
from robotgate._pacing import HostState
from robotgate._ports import Postponed
from robotgate.stores._hosts import HostMemory
from robotgate.stores.redis import _bodies
from robotgate.stores.redis._alone import Alone
from robotgate.stores.redis._heartbeat import Heartbeat
from robotgate.stores.redis._news import blocks_differ, is_mere_latency
from robotgate.stores.redis._open_turns import OpenTurns
from robotgate.stores.redis._publishing import Publishing
from robotgate.stores.redis._server_clock import READINGS
from robotgate.stores.redis._turn_calls import TurnCalls
from robotgate.stores.redis._wire import RESERVE, Flag, Operation, Status, told
from robotgate.stores.redis._wishes import Wishes

if TYPE_CHECKING:
    from robotgate._ports import Clock
    from robotgate.stores.redis._keys import Keys
    from robotgate.stores.redis._link import Link
    from robotgate.stores.redis._open_turns import OpenTurn
    from robotgate.stores.redis._wire import Told


class Turns:
    """What of a store concerns hosts.

    Args:
        lease: seconds after which a turn is over of which nothing was heard.
        max_age: seconds for which the server keeps a host that binds nobody any more.
        max_hosts: how many are kept in this process's memory.
        goes_on: whether turns go on by what we know ourselves while the server is lost.
    """

    def __init__(
        self,
        link: Link,
        keys: Keys,
        *,
        clock: Clock,
        lease: float,
        max_age: float,
        max_hosts: int,
        goes_on: bool,
    ) -> None:
        self.memory = HostMemory(max_hosts=max_hosts)
        self.open = OpenTurns()
        self.calls = TurnCalls(link, keys, worker=self.open.worker, clock=clock, keep=max_age)
        self.publishing = Publishing(
            self.calls, turns=self.open, memory=self.memory, clock=clock, lease=lease
        )
        self.heartbeat = Heartbeat(self.calls, server=link.server)
        self.calls.on_epoch = self.publishing.renewed
        self._link = link
        self._clock = clock
        self._lease = lease
        self._wishes = Wishes()
        self._alone = Alone(self.open) if goes_on else None
        link.subscribe(self._hear_of_link)

    async def start(self) -> None:
        """Be one of the fleet.

        Raises:
            StoreError: the server is not to be reached.
        """
        self.publishing.start()
        self.heartbeat.start()
        await self._wishes.get(self.publishing.survey())
        for bucket in range(READINGS):
            await self._wishes.get(self.calls.look(bucket))

    @property
    def is_alone(self) -> bool:
        """Whether turns go on by what we know ourselves."""
        return self._alone is not None and self._link.lost is not None

    async def load(self, pace_key: str) -> HostState | None:
        """What is known of a host, here or by the server.

        Raises:
            StoreError: nobody knows.
        """
        known = self.memory.states.get(pace_key)
        if known is not None or self.is_alone:
            return known
        try:
            answer = self._told(await self._wishes.get(self.calls.of_host(Operation.LOAD, pace_key)))
        except StoreError:
            if self._alone is None or self._link.lost is None:
                raise
            return self.memory.states.get(pace_key)
        if answer.status == Status.MISSING:
            return self.memory.states.get(pace_key)
        return self._learn(pace_key, answer)

    async def caught_up(self) -> None:
        """Wait until the server has what it was told.

        Raises:
            StoreError: it cannot be reached.
        """
        # Calls of one script arrive in their order.
        await self.calls.look(0)

    async def written(self, pace_key: str) -> HostState | None:
        """What the server has of a host.

        Raises:
            StoreError: nobody knows.
        """
        answer = self._told(await self.calls.of_host(Operation.LOAD, pace_key))
        return None if answer.status == Status.MISSING else answer.state

    async def reserve(self, pace_key: str, *, slots: int, delay: float) -> Postponed | None:
        """As `SharedStore.reserve`."""
        while True:
            turn = self.open.new(pace_key, slots=slots, delay=delay, at=self._clock.now())
            if self._alone is not None and self._link.lost is not None:
                return self._alone.reserve(turn, self.memory.states.get(pace_key, HostState()))
            asked = monotonic()
            try:
                answer = await self._ask_for(turn)
            except StoreError:
                if not self.is_alone:
                    raise
                continue
            known = self._learn(pace_key, answer)
            if answer.status == Status.WAIT:
                return Postponed(known, self._again_at(answer))
            if monotonic() - asked <= self._lease / 2:
                turn.held_at = asked
                self.open.add(turn)
                return None
            # The lease may run out before the request is sent.
            self._undo(turn)

    def withdraw(self, pace_key: str) -> None:
        """As `SharedStore.withdraw`."""
        if self.calls.can_tell:
            self.calls.tell(Operation.WITHDRAW, pace_key)

    def remember(self, pace_key: str, state: HostState) -> None:
        """Take in a host's state, and tell the server what of it is news."""
        known = self._keep(pace_key, state)
        if not (pace_key in self.open and is_mere_latency(known, state)):
            self.publishing.merge(pace_key, known, state)

    def begin(self, pace_key: str, state: HostState) -> None:
        """Take in that a request is sent."""
        now = self._clock.now()
        known = self._keep(pace_key, state)
        turn = self.open.begin(pace_key, at=now)
        if turn is None:
            self._begin_unreserved(pace_key, known, state, now)
            return
        if turn.slots == 1 or not turn.delay or not turn.is_booked:
            # With one slot the delay counts from the end, and the next has to wait for that anyhow.
            return
        if not self.calls.can_tell:
            _forget_held(turn)
            return
        next_after = _bodies.after(known, state, now)
        body = _bodies.open_turn(turn, self.calls.server, lease=self._lease, next_after=next_after)
        on_failure = partial(_forget_held, turn)
        self.calls.tell(Operation.BEGAN, pace_key, body, turn=turn.id, on_failure=on_failure)

    def end(self, pace_key: str, state: HostState) -> None:
        """Take in that a request has ended, or will not be sent."""
        now = self._clock.now()
        known = self._keep(pace_key, state)
        is_unused = known is not None and state.visits < known.visits
        turn = self.open.end(pace_key, is_unused=is_unused)
        if turn is None:
            self.publishing.merge(pace_key, known, state)
            return
        self._end(turn, known, state, now)
        if known is None or blocks_differ(known, state):
            self.publishing.merge(pace_key, known, state)

    def rebind(self) -> None:
        """The event loop is gone in which all was under way; another goes on."""
        self.publishing.rebind()
        self.heartbeat.rebind()
        self._end_all()

    def close(self) -> None:
        """Nothing is under way any more."""
        self.publishing.stop()
        self.heartbeat.stop()
        self._end_all()

    def _end_all(self) -> None:
        now = self._clock.now()
        for turn in self.open:
            self.open.end(turn.pace_key, is_unused=turn.began_at is None)
            state = self.memory.states.get(turn.pace_key)
            self._end(turn, state, state, now)

    async def _ask_for(self, turn: OpenTurn) -> Told:
        body = RESERVE.pack(turn.slots, turn.delay, self._lease)
        reply = self.calls.of_host(Operation.RESERVE, turn.pace_key, body, turn=turn.id)
        if reply.done():
            # The server has been lost for long: nothing was asked of it.
            return self._told(reply.result())
        try:
            # Who stops waiting stops no call. None waits in vain, unless we may go on by ourselves.
            return self._told(await (reply if self._alone is None else self._wishes.get(reply)))
        except (asyncio.CancelledError, StoreError):
            # The call goes its way all the same, and is undone behind it.
            self._undo(turn, Flag.LEAVING)
            raise

    def _end(self, turn: OpenTurn, known: HostState | None, state: HostState | None, now: float) -> None:
        if not turn.is_booked:
            # The server never heard of it; what became of the host, it is told.
            self.publishing.defer(turn.pace_key)
        elif turn.began_at is None:
            self._undo(turn)
        else:
            body = _bodies.ended_turn(turn, self.calls.server, known=known, state=state, now=now)
            self.publishing.finish(turn, body)

    def _told(self, reply: bytes) -> Told:
        return told(reply, ahead=self.calls.server.ahead)

    def _undo(self, turn: OpenTurn, flags: Flag = Flag.NONE) -> None:
        """Give back what was booked, if it was."""
        self.publishing.finish(turn, _bodies.unused_turn(turn), Flag.UNUSED | flags)

    def _begin_unreserved(self, pace_key: str, known: HostState | None, state: HostState, now: float) -> None:
        delay = max(state.next_allowed_at - now, 0.0)
        turn = self.open.new(pace_key, slots=1, delay=delay, at=now)
        turn.began_at = now
        self.open.add(turn)
        self.publishing.hold(turn)
        self.publishing.merge(pace_key, known, state)

    def _again_at(self, answer: Told) -> float:
        """When it is worth asking again, by our clock: if that has passed, later by what the server says is left."""
        now = self._clock.now()
        at = self.calls.server.here(answer.again_at)
        return at if at > now else now + answer.again_at - answer.now

    def _learn(self, pace_key: str, answer: Told) -> HostState:
        state = self.memory.learn(pace_key, answer.state)
        self._evict()
        return state

    def _keep(self, pace_key: str, state: HostState) -> HostState | None:
        """Take in a state. Returns what was known before."""
        known = self.memory.states.get(pace_key)
        self.memory.states[pace_key] = state
        if known is None:
            self._evict()
        return known

    def _evict(self) -> None:
        memory = self.memory
        # Seldom, and some at a time.
        if len(memory.states) > memory.max_hosts + memory.max_hosts // 64:
            memory.evict(now=self._clock.now(), keep=self)

    def __contains__(self, pace_key: object) -> bool:
        """Whether a host must not be forgotten here."""
        return pace_key in self.open or pace_key in self.publishing

    def _hear_of_link(self, error: StoreError | None) -> None:
        if error is None:
            self.publishing.survey()
        elif self._alone is not None:
            self._alone.begin(now=self._clock.now(), workers=self.heartbeat.workers)
            self._wishes.fail(error)


def _forget_held(turn: OpenTurn) -> None:
    """The server does not know all of it: it is told as soon as may be."""
    turn.held_at = 0.0
