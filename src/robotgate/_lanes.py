"""The lanes of a gate: one for each pace key somebody waits for, or whose politeness is not yet served."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING

from robotgate import _pacing
from robotgate._errors import GateClosedError, StoreError
from robotgate._lane import Lane
from robotgate._member import Member, spacing_of
from robotgate._overrides import HostBlocks
from robotgate._pacing import HostState
from robotgate._reminders import Reminders
from robotgate._spacing import NOTHING_ASKED
from robotgate._unshared import visits_of
from robotgate._urls import ROBOTS_PATH

if TYPE_CHECKING:
    from robotgate._events import BlockCause
    from robotgate._eviction import Eviction
    from robotgate._listeners import Listeners
    from robotgate._losses import Losses
    from robotgate._overrides import HostPattern, Overrides
    from robotgate._pace_key import PaceKeyFunction
    from robotgate._ports import Clock, Store
    from robotgate._spacing import Asked, Spacing
    from robotgate._urls import Origin


class Lanes:
    """Makes lanes of what the store remembers, and drops them once they are idle and served.

    Args:
        pace_key: which lane a request belongs to, by its origin and its path and query.
        parts_paths: whether it may part the paths of one origin.
        max_slots: what a connection pool grants a host at most; None where there is no such limit.
        losses: hears of it when the store fails.
        eviction: bounds how many hosts are kept here.
    """

    def __init__(
        self,
        *,
        overrides: Overrides,
        pace_key: PaceKeyFunction,
        parts_paths: bool,
        max_slots: int | None,
        clock: Clock,
        store: Store,
        listeners: Listeners,
        losses: Losses,
        eviction: Eviction,
    ) -> None:
        self._overrides = overrides
        self.pace_key = pace_key
        self._parts_paths = parts_paths
        self._max_slots = max_slots
        self._clock = clock
        self._store = store
        self._visits = visits_of(store)
        self._listeners = listeners
        self._losses = losses
        self._blocks = HostBlocks()
        self._lanes: dict[str, Lane] = {}
        self.peek = self._lanes.get
        """The lane of a pace key, if there is one."""
        self._members: OrderedDict[str, dict[str, Member]] = OrderedDict()
        """By pace key, the oldest first; every lane's are among them."""
        self._arrivals = count()
        self._asked: dict[str, Asked] = {}
        self._blocked_by: OrderedDict[str, BlockCause] = OrderedDict()
        self._hosts = eviction.table(self._members, may_go=self._may_go, let_go=self._let_go)
        self._causes = eviction.table(
            self._blocked_by, may_go=lambda key: key not in self._lanes, let_go=self._blocked_by.pop
        )
        self._loading: set[asyncio.Timeout] = set()
        self._idle = Reminders(self._look_at)
        # Bound once, not for each lane.
        self._bound_new_member, self._look_later = self._new_member, self._idle.remind
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
        state = await self._load(pace_key)
        # Another task may have made the lane while the store was asked.
        lane = self._lanes.get(pace_key)
        if lane is None:
            # Before it is there: nobody has asked for anything yet, and it would seem to be needed by nobody.
            self._causes.make_room(pace_key)
            lane = self._lanes[pace_key] = Lane(
                pace_key,
                state=state or HostState(),
                members=self._members_of(pace_key),
                blocked_by=self._blocked_by,
                new_member=self._bound_new_member,
                max_slots=self._max_slots,
                arrivals=self._arrivals,
                clock=self._clock,
                store=self._visits,
                listeners=self._listeners,
                losses=self._losses,
                look_later=self._look_later,
            )
        return lane

    def ask(self, origin: Origin, asked: Asked) -> None:
        """Take in what an origin asks about our speed: whoever waits is held to it, and it outlives the lane."""
        if asked == NOTHING_ASKED:
            self._asked.pop(origin.text, None)
        else:
            self._asked[origin.text] = asked
        for pace_key in self._pace_keys_of(origin):
            if pace_key in self._lanes:
                self._lanes[pace_key].ask(origin, asked)
                continue
            if asked == NOTHING_ASKED and pace_key not in self._members:
                continue
            # It binds the other members of a lane to come, though nobody asks for this origin again.
            members = self._members_of(pace_key)
            if origin.text not in members:
                members[origin.text] = self._new_member(origin)
            members[origin.text].asked = asked
            self._forget(pace_key)

    async def load(self, origin: Origin) -> None:
        """Have at hand what the store knows of an origin's host, for those who look before anybody comes for a turn.

        Where it fails, nobody knows; who comes for a turn will hear of it.

        Raises:
            GateClosedError: the gate was closed.
        """
        pace_key = self.pace_key(origin, ROBOTS_PATH)
        if pace_key not in self._lanes:
            with suppress(StoreError):
                await self._load(pace_key)

    def can_spare(self, origin: Origin) -> bool:
        """Whether what an origin asks may be forgotten now: nobody comes or waits for it, and it binds no wait.

        One that had a turn since it was last asked about is not to be spared this time.
        """
        now = self._clock.now()
        # Each of them is asked, whatever the first says: asking is what gives a second chance no third.
        can_spare = [self._can_spare(pace_key, origin, now) for pace_key in self._pace_keys_of(origin)]
        return all(can_spare)

    def forget(self, origin: Origin) -> None:
        """Let go of what an origin asks."""
        if self._asked.pop(origin.text, None) is None:
            return
        for pace_key in self._pace_keys_of(origin):
            member = self._members.get(pace_key, {}).get(origin.text)
            if member is None:
                continue
            member.asked = NOTHING_ASKED
            if pace_key in self._lanes:
                self._lanes[pace_key].reckon()
            else:
                self._forget(pace_key)

    def wait(self, origin: Origin, target: str) -> float:
        """Seconds until the next turn of a page, at the least, as far as memory tells."""
        pace_key = self.pace_key(origin, target)
        lane = self._lanes.get(pace_key)
        if lane is not None:
            return lane.wait(origin)
        now = self._clock.now()
        try:
            state, member, spacing = self.recall(pace_key, origin)
        except StoreError:
            # Nobody knows; who comes for a turn will hear of it.
            return 0.0
        left = member.start_at(state, spacing=spacing, ahead=False, now=now) - now
        return left if left > _pacing.CLOCK_GRAIN else 0.0

    def is_shut(self, origin: Origin, target: str) -> bool:
        """Whether nobody would be let through now: the host is blocked, the operator's word is, or nobody is there; or
        the store cannot tell.
        """
        try:
            state, member, _ = self.recall(self.pace_key(origin, target), origin)
        except StoreError:
            return True
        return (
            max(state.blocked_until_at, member.blocked_until_at, member.circuit.retry_at) > self._clock.now()
        )

    def recall(self, pace_key: str, origin: Origin) -> tuple[HostState, Member, Spacing]:
        """What this process remembers of a host, of one of its origins, and what spaces visits to them.

        Raises:
            StoreError: the store could not tell.
        """
        lane = self._lanes.get(pace_key)
        # A store may have let go of what the lane still knows.
        state = lane.recall() if lane is not None else self._store.recall_host(pace_key) or HostState()
        members = self._members.get(pace_key, {})
        member = members.get(origin.text) or self._new_member(origin)
        return state, member, spacing_of({member, *members.values()}, state)

    @property
    def lost(self) -> StoreError | None:
        """As `Pacer.lost`."""
        return self._losses.away

    def operator_until_at(self, pattern: str) -> float:
        """Until when the operator wants left alone what this very pattern names; 0 where he does not.

        Raises:
            OptionError: it makes no sense.
        """
        now = self._clock.now()
        self._blocks.prune(now)
        until_at = self._blocks.get(pattern)
        return until_at if until_at > now else 0.0

    def blocked_until_at(self, host: str) -> float:
        """Until when the operator wants a host left alone."""
        return self._blocks.until_at(host)

    def block(self, pattern: str, until_at: float) -> HostPattern:
        """Leave hosts alone, at the operator's word; who waits for one is told. An instant that has passed lifts it.

        Returns the pattern, as read.

        Raises:
            OptionError: the pattern or the instant makes no sense.
        """
        blocked = self._blocks.set(pattern, until_at)
        for pace_key, members in self._named_by(blocked):
            for member in members:
                member.blocked_until_at = self._blocks.until_at(member.origin.host)
            if pace_key in self._lanes:
                self._lanes[pace_key].pump()
        return blocked

    def grant(self, pattern: HostPattern) -> None:
        """Hold hosts to options that were changed while running, from the next `reckon` on."""
        for _, members in self._named_by(pattern):
            for member in members:
                member.options = self._overrides.options(member.origin.host)

    def reckon(self, pattern: HostPattern) -> None:
        """Take in what hosts ask, and are granted, now."""
        for pace_key, _ in self._named_by(pattern):
            if pace_key in self._lanes:
                self._lanes[pace_key].reckon()

    def close(self) -> None:
        """Send every waiter away with `GateClosedError`."""
        self._is_closed = True
        self._idle.close()
        lanes = list(self._lanes.values())
        self._lanes.clear()
        for lane in lanes:
            lane.close()
        for limit in self._loading:
            limit.reschedule(asyncio.get_running_loop().time())

    async def _load(self, pace_key: str) -> HostState | None:
        """What the store knows of a host; a store that takes for ever keeps nobody once the gate is closed.

        Raises:
            GateClosedError: the gate was closed.
            StoreError: it could not be read.
        """
        limit = asyncio.timeout(None)
        self._loading.add(limit)
        try:
            async with limit:
                state = await self._store.load_host(pace_key)
        except TimeoutError:
            if limit.expired():
                raise GateClosedError from None
            raise
        finally:
            self._loading.discard(limit)
        if self._is_closed:
            raise GateClosedError
        return state

    def _members_of(self, pace_key: str) -> dict[str, Member]:
        members = self._members.get(pace_key, {})
        self._hosts.put(pace_key, members)
        return members

    def _may_go(self, pace_key: str) -> bool:
        """Whether what is kept of a host can be spared; what its sites ask is kept for as long as they are."""
        now = self._clock.now()
        lane, members = self._lanes.get(pace_key), self._members[pace_key].values()
        if lane is not None and not lane.is_spare(now):
            return False
        return all(member.is_spare(now) for member in members)

    def _let_go(self, pace_key: str) -> None:
        lane = self._lanes.pop(pace_key, None)
        if lane is not None:
            lane.retire()
        members = self._members[pace_key]
        for origin, member in list(members.items()):
            if member.asked == NOTHING_ASKED:
                del members[origin]
        if not members:
            del self._members[pace_key]

    def _can_spare(self, pace_key: str, origin: Origin, now: float) -> bool:
        member = self._members.get(pace_key, {}).get(origin.text)
        if member is None:
            return True
        if member.is_used:
            member.is_used = False
            return False
        lane = self._lanes.get(pace_key)
        if lane is not None:
            return lane.can_spare(member, now)
        if not member.is_spare(now):
            return False
        if member.asked == NOTHING_ASKED:
            return True
        try:
            state, _, spacing = self.recall(pace_key, origin)
        except StoreError:
            return False
        return _pacing.earliest_start_at(state, spacing=spacing, now=now) - now <= _pacing.CLOCK_GRAIN

    def _new_member(self, origin: Origin) -> Member:
        return Member(
            origin,
            self._overrides.options(origin.host),
            asked=self._asked.get(origin.text, NOTHING_ASKED),
            blocked_until_at=self._blocks.until_at(origin.host),
        )

    def _pace_keys_of(self, origin: Origin) -> list[str]:
        """The lanes that an origin is a member of: one, unless a function of the operator's parts its paths."""
        if not self._parts_paths:
            return [self.pace_key(origin, ROBOTS_PATH)]
        return [pace_key for pace_key, members in self._members.items() if origin.text in members]

    def _named_by(self, pattern: HostPattern) -> list[tuple[str, list[Member]]]:
        """The members that a pattern names, by pace key."""
        named = (
            (pace_key, [member for member in members.values() if pattern.matches(member.origin.host)])
            for pace_key, members in self._members.items()
        )
        return [(pace_key, members) for pace_key, members in named if members]

    def _look_at(self, pace_key: str) -> None:
        """Drop a lane that nobody needs any more; it may be another by now than the one that asked for this."""
        lane = self._lanes.get(pace_key)
        if lane is not None and lane.look():
            del self._lanes[pace_key]
            lane.retire()
            self._forget(pace_key)

    def _forget(self, pace_key: str) -> None:
        """Let go of members that a new one would replace as well."""
        members = self._members[pace_key]
        for origin, member in list(members.items()):
            if member.is_forgettable:
                del members[origin]
        if not members:
            del self._members[pace_key]
