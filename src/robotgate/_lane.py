"""One host's queue: who goes next, and when.

A lane is a synchronous machine that its waiters drive. Only the first of them is timed, by the lane's one timer; a
waiter that is cancelled just leaves. A start needs three things: a slot; a token of the `AsyncLimiter`, which meters
starts; and the instant that state, spacing, hours, blocks and quotas agree on, which is the law.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from robotgate import _circuit, _pacing
from robotgate._admission import Admission, OvertakenError, Terms, UnwantedError
from robotgate._alarm import Alarm
from robotgate._errors import GateClosedError, HostUnavailableError, NestedTurnError, StoreError, TooSoonError
from robotgate._health import Health
from robotgate._pacer import Pacer
from robotgate._pacing import CLOCK_GRAIN
from robotgate._queue import Queue
from robotgate._spacing import NOTHING_ASKED

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from robotgate._admission import Interest
    from robotgate._bound import Bound, Place
    from robotgate._events import BlockCause
    from robotgate._listeners import Listeners
    from robotgate._losses import Losses
    from robotgate._member import Member
    from robotgate._overrides import HostOptions
    from robotgate._pacing import HostState
    from robotgate._ports import Clock, Visits
    from robotgate._spacing import Asked
    from robotgate._urls import Origin

LEAST_SWEEP: Final = 64
"""Members; among more, those that nobody needs are let go of when they have become twice as many."""
IDLE_LINGER: Final = 10.0
"""Seconds an idle lane is kept, though its politeness is served: making one costs more than keeping it."""
STORE_PATIENCE: Final = 1.0
"""Seconds that a store may take to answer, though the caller would wait no longer."""
LIMITER_PATIENCE: Final = 0.001
"""Seconds between looks at a limiter that has no token though the instant has come."""


class Lane:
    """The waiters of one pace key, in order, and its slots.

    What is paced together is paced by the strictest of its members: the longest delay, the fewest slots, every quota.

    Args:
        members: by origin as text; shared with the lane's successors, for what they ask outlives it.
        blocked_by: why pace keys are blocked whose recovery is yet to be told of; shared with all lanes.
        new_member: makes the member of an origin.
        max_slots: what a connection pool grants a host at most; None where there is no such limit.
        arrivals: numbers all who come, to whichever lane.
        look_later: has the lane of a pace key asked to `look` after so many seconds: nobody waits in it any more.
    """

    __slots__ = (
        "_alarm",
        "_arrivals",
        "_clock",
        "_health",
        "_is_closed",
        "_is_lingering",
        "_is_starting",
        "_look_later",
        "_max_slots",
        "_new_member",
        "_open",
        "_pacer",
        "_question",
        "_queue",
        "_slots",
        "_starter",
        "_sweep_at",
        "members",
        "pace_key",
    )

    def __init__(
        self,
        pace_key: str,
        *,
        state: HostState,
        members: dict[str, Member],
        blocked_by: dict[str, BlockCause],
        new_member: Callable[[Origin], Member],
        max_slots: int | None,
        arrivals: Iterator[int],
        clock: Clock,
        store: Visits,
        listeners: Listeners,
        losses: Losses,
        look_later: Callable[[str, float], None],
    ) -> None:
        self.pace_key = pace_key
        self.members = members
        self._sweep_at = LEAST_SWEEP
        self._pacer = Pacer(pace_key, state=state, members=members.values(), store=store, losses=losses)
        self._new_member = new_member
        self._max_slots = max_slots
        self._slots = 1
        self._health = Health(
            pace_key, pacer=self._pacer, blocked_by=blocked_by, clock=clock, listeners=listeners
        )
        self._clock = clock
        self._look_later = look_later
        self._arrivals = arrivals
        self._queue = Queue(self._pacer)
        # There are few at a time; an empty set takes four times as much as an empty list.
        self._open: list[Admission] = []
        self._is_starting = False
        self._starter: tuple[Member, Terms, asyncio.Future[Place]] | None = None
        self._question: asyncio.Timeout | None = None
        self._alarm: Alarm | None = None
        self._is_closed = False
        self._is_lingering = False
        if members:
            self.reckon()
        else:
            self._linger(clock.now())

    @property
    def waiting(self) -> int:
        """How many wait for a turn."""
        return len(self._queue)

    @property
    def open_turns(self) -> int:
        """How many requests are under way, or about to be sent."""
        return len(self._open) + self._is_starting

    def is_free_for(self, origin: Origin) -> bool:
        """Whether a slot is to be had for a request to this origin, and nobody waits for it."""
        member = self.members.get(origin.text)
        is_probed = member is not None and member.is_probed(self._clock.now())
        return self.open_turns < self._slots and self._queue.is_empty and not is_probed

    def recall(self) -> HostState:
        """What is remembered of the host, here and by others who share the store.

        Raises:
            StoreError: the store could not tell.
        """
        self._pacer.recall()
        return self._pacer.state

    @property
    def delay(self) -> float:
        """Seconds between visits, as asked for now."""
        return self._pacer.spacing.delay_at(self._clock.now())

    def wait(self, origin: Origin) -> float:
        """Seconds until the next turn of a page of this origin could come at the earliest."""
        self._pacer.recall_if_possible()
        now = self._clock.now()
        member = self.members.get(origin.text) or self._new_member(origin)
        left = self._free_at(member, ahead=False, now=now) - now
        return left if left > CLOCK_GRAIN else 0.0

    def is_held_by(self, task: asyncio.Task[object] | None) -> bool:
        """Whether nobody can have a turn before this task ends one of its own."""
        return len(self._open) >= self._slots and all(turn.holder is task for turn in self._open)

    def nested(self) -> NestedTurnError:
        """The error for a task that `is_held_by` says would wait for itself."""
        return NestedTurnError(
            f"this task already holds a turn of {self.pace_key} and would wait for itself:"
            " read the first response to its end, or leave its block, before asking for the next"
        )

    def reckon(self) -> None:
        """Take in what the members ask and are granted now; whoever waits is held to it from here on."""
        slots = min((member.options.concurrency for member in self.members.values()), default=1)
        self._slots = slots if self._max_slots is None else min(slots, self._max_slots)
        self._pacer.reckon()
        if self._queue.wanted or self._starter is not None:
            self.pump()
        else:
            self._linger(self._clock.now())

    def ask(self, origin: Origin, asked: Asked) -> None:
        """Take in what one of the host's origins asks about our speed."""
        member = self._member(origin)
        if member.asked is not asked and member.asked != asked:
            member.asked = asked
            self.reckon()

    def is_spare(self, now: float) -> bool:
        """Whether a lane made of what the store knows would be as good: nobody is here, and the host is due."""
        return self._is_idle and self._pacer.served_at() - now <= CLOCK_GRAIN

    def look(self) -> bool:
        """Look whether the lane is over: nobody needs it any more. One that is not will be looked at again."""
        self._is_lingering = False
        now = self._clock.now()
        if self.is_spare(now):
            return True
        self._linger(now)
        return False

    def can_spare(self, member: Member, now: float) -> bool:
        """Whether nothing that binds now would be lost with what is known of one member."""
        if self._is_starting or not member.is_spare(now):
            return False
        if member.asked == NOTHING_ASKED or (len(self.members) == 1 and self.is_spare(now)):
            return True
        # What one of them asks binds the others for as long as they come.
        return not self._pacer.is_spaced_by(member)

    def retire(self) -> None:
        """Nobody comes here any more."""
        if self._alarm is not None:
            self._alarm.cancel()
            # It leads back here.
            self._alarm = None

    def admit(
        self,
        origin: Origin,
        *,
        bound: Bound,
        ahead: bool = False,
        priority: int = 0,
        max_wait: float | None = None,
        arrival: int | None = None,
        interest: Interest | None = None,
    ) -> Coroutine[object, None, Admission]:
        """Wait for a turn.

        Args:
            origin: whom the request is for.
            bound: what limits requests over all hosts; taken only when this host's turn has come.
            ahead: for robots.txt, which goes before every page.
            priority: the higher goes first.
            max_wait: seconds; None waits as long as it takes.
            arrival: that of an earlier admission, whose place in the order this one takes.
            interest: asked when the turn has come; no leaves it to the next.

        Raises:
            TooSoonError: the turn comes later than `max_wait`.
            HostUnavailableError: the host cannot be reached, or is to be left alone for longer than `max_block`.
            NestedTurnError: this task holds the host's last slot itself.
            GateClosedError: the gate was closed meanwhile.
            StoreError: the store could not tell what others know of the host, within `max_wait` if it says that it is
                lost, or did not take the visit.
            UnwantedError: `interest` said no.
        """
        if arrival is None:
            arrival = next(self._arrivals)
        terms = Terms(
            bound=bound,
            ahead=ahead,
            priority=priority,
            max_wait=max_wait,
            arrival=arrival,
            interest=interest,
        )
        return self._admit(origin, terms)

    def try_admit(self, origin: Origin, bound: Bound, now: float) -> Admission | None:
        """A turn, where it is plain that it is to be had now; None where `admit` has to look closer.

        Raises:
            StoreError: as `admit`.
        """
        if self._open or self._is_starting or self._is_closed or self._queue.wanted:
            return None
        member = self.members.get(origin.text) or self._member(origin)
        if not self._pacer.is_plainly_due(member, now):
            return None
        place = bound.try_acquire()
        if place is None:
            return None
        try:
            self._pacer.begin_unmetered(now=now)
        except StoreError:
            place.release()
            raise
        arrival = next(self._arrivals)
        return self._began(member, place, arrival=arrival, now=now, is_probe=False)

    async def _admit(self, origin: Origin, terms: Terms) -> Admission:
        if self.is_held_by(asyncio.current_task()):
            raise self.nested()
        try:
            return await self._admitted(origin, terms)
        finally:
            if self._queue.is_empty and not self._is_starting:
                self._pacer.withdraw()
                if not self._open:
                    self._linger(self._clock.now())

    async def _admitted(self, origin: Origin, terms: Terms) -> Admission:
        bound = terms.bound
        deadline_at = None if terms.max_wait is None else self._clock.now() + terms.max_wait
        while True:
            member = self._member(origin)
            await self._granted(member, terms, deadline_at)
            if terms.interest is not None and not terms.interest.claim():
                self._give_back()
                raise UnwantedError(terms.arrival)
            try:
                place = bound.try_acquire() or await self._placed(member, terms, deadline_at)
            except OvertakenError:
                continue
            if self._is_closed:
                place.release()
                raise GateClosedError
            try:
                self._pacer.recall()
            except StoreError:
                place.release()
                self._give_back()
                raise
            now = self._clock.now()
            is_due = self._pacer.start_at(member, ahead=terms.ahead, now=now) - now <= CLOCK_GRAIN
            if is_due and (
                not self._pacer.is_shared or await self._is_ours(member, terms, place, deadline_at)
            ):
                return await self._begin(member, terms, place)
            # A block, the end of the hours, or another gate's or process's visit, came between.
            place.release()
            self._is_starting = False
            if not self._queue.is_empty:
                # Else it is but for us, who come back at once.
                self.pump()
            if terms.interest is not None:
                terms.interest.release()

    def note_answer(self, admission: Admission, status: int, retry_after: float | None) -> None:
        """Take in how the host answered.

        Raises:
            StoreError: the store did not take it; the lane has.
        """
        if self._health.is_as_ever(admission, status):
            admission.latency = self._clock.now() - admission.began_at
            return
        is_news = True
        try:
            is_news = self._health.answered(admission, status, retry_after)
        finally:
            if is_news:
                self.pump()

    def note_outage(self, admission: Admission, outage: str) -> None:
        """Take in that an origin could not be reached: whoever waits for it is sent away.

        Raises:
            StoreError: as `note_answer`.
        """
        try:
            self._health.failed(admission, outage)
        finally:
            self.pump()

    def leave(self, admission: Admission) -> None:
        """A request is over.

        Raises:
            StoreError: as `note_answer`.
        """
        self._open.remove(admission)
        admission.member.open_turns -= 1
        admission.member.probes -= admission.is_probe
        now = self._clock.now()
        try:
            self._pacer.end(
                now=now,
                serial=self._slots == 1,
                bytes_read=admission.bytes_read,
                latency=admission.latency,
            )
        finally:
            if self._queue.wanted or self._starter is not None:
                self.pump()
            elif not self._is_lingering:
                self._linger(now)

    def pump(self) -> None:
        """Start whoever may start, send away who waits in vain, and see to it that somebody pumps again."""
        if self._is_closed:
            return
        self._pacer.recall_if_possible()
        now = self._clock.now()
        self._queue.refuse_hopeless(now)
        if self._starter is not None:
            self._look_after(*self._starter, now=now)
        self._start_if_free(now)
        deadline_at = self._queue.refuse_late(now, self._out_of_patience)
        if deadline_at < math.inf:
            self._pump_in(deadline_at - now)
        self._linger(now)

    def _linger(self, now: float) -> None:
        """Once nothing is left to do, be looked at in a while."""
        if not self._is_lingering and self._is_idle and not self._is_closed:
            self._is_lingering = True
            self._look_later(self.pace_key, max(self._pacer.served_at() - now, IDLE_LINGER))

    def _look_after(self, member: Member, terms: Terms, wish: asyncio.Future[Place], *, now: float) -> None:
        """Whoever holds the grant while he waits for a place is told what others are told, and bars no robots.txt."""
        if wish.done():
            return
        unavailable = self._pacer.unavailable(member, ahead=terms.ahead, now=now)
        if unavailable is not None:
            wish.set_exception(unavailable)
        elif not terms.ahead and self._queue.robots_is_due(now):
            wish.set_exception(OvertakenError())

    def close(self) -> None:
        """Send everybody away with `GateClosedError`."""
        self._is_closed = True
        self.retire()
        self._queue.refuse_all(GateClosedError)
        if self._question is not None and not self._question.expired():
            # A store that takes for ever keeps nobody.
            self._question.reschedule(asyncio.get_running_loop().time())

    def _member(self, origin: Origin) -> Member:
        member = self.members.get(origin.text)
        if member is None:
            if len(self.members) >= self._sweep_at and not self._is_starting:
                self._sweep(self._clock.now())
            member = self.members[origin.text] = self._new_member(origin)
            self.reckon()
        return member

    def _sweep(self, now: float) -> None:
        """Let go of members that nobody needs: a domain that is never idle can have any number of hosts."""
        granted: set[HostOptions] = set()
        for key, member in list(self.members.items()):
            if member.options in granted and member.asked == NOTHING_ASKED and member.is_spare(now):
                del self.members[key]
            # What is granted to any of them binds all: one stays for each.
            granted.add(member.options)
        self._sweep_at = max(LEAST_SWEEP, 2 * len(self.members))

    async def _granted(self, member: Member, terms: Terms, deadline_at: float | None) -> None:
        """Wait until the host's next start is ours."""
        if self._is_closed:
            raise GateClosedError
        self._pacer.recall()
        now = self._clock.now()
        unavailable = self._pacer.unavailable(member, ahead=terms.ahead, now=now)
        if unavailable is not None:
            self.pump()
            raise unavailable
        if self._is_free_for(member, terms, now):
            self._is_starting = True
            return
        rank = terms.rank
        if deadline_at is not None:
            free_at = self._free_at(member, ahead=terms.ahead, now=now)
            start_at = self._queue.start_behind(member, rank, free_at=free_at)
            # The clock may have gone on since the deadline was set: what is due now is in time.
            if start_at - max(deadline_at, now) > CLOCK_GRAIN:
                raise self._too_soon(member, start_at - now)
        turn = self._queue.join(member, rank, deadline_at)
        try:
            # Behind others nothing changes for anybody: the lane waits for the first of them.
            is_first = member.waiters.first() == rank
            if deadline_at is not None or (is_first and self._starter is not None):
                self.pump()
            elif is_first:
                self._start_if_free(now)
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._give_back()
            raise
        finally:
            member.waiters.leave(rank, turn)

    def _is_free_for(self, member: Member, terms: Terms, now: float) -> bool:
        """Whether a newcomer may start at once."""
        return (
            self._is_idle
            and not member.is_probed(now)
            and self._pacer.start_at(member, ahead=terms.ahead, now=now) - now <= CLOCK_GRAIN
            and self._pacer.has_token()
        )

    async def _placed(self, member: Member, terms: Terms, deadline_at: float | None) -> Place:
        """Wait for a place within the bound over all hosts, while holding this lane's grant."""
        bound = terms.bound
        if bound.is_held_by(asyncio.current_task()):
            self._give_back()
            raise bound.nested()
        now = self._clock.now()
        unavailable = self._pacer.unavailable(member, ahead=terms.ahead, now=now)
        if unavailable is not None:
            # Since the grant, which only now was heard of.
            self._give_back()
            raise unavailable
        left = None if deadline_at is None else deadline_at - now
        wish = bound.ask()
        self._starter = member, terms, wish
        try:
            async with asyncio.timeout(left):
                return await bound.wait_for(wish)
        except TimeoutError as error:
            self._give_back()
            raise self._too_soon(member) from error
        except (asyncio.CancelledError, HostUnavailableError, OvertakenError):
            self._give_back()
            raise
        finally:
            self._starter = None

    async def _is_ours(self, member: Member, terms: Terms, place: Place, deadline_at: float | None) -> bool:
        """Whether all who share the store leave us the start; the lane's grant is held while they are asked."""
        now, before = self._clock.now(), self._pacer.state
        left = None if deadline_at is None else max(deadline_at - now, STORE_PATIENCE)
        try:
            async with asyncio.timeout(left) as self._question:
                is_reserved = await self._pacer.reserve(slots=self._slots, now=now)
            return is_reserved and self._is_still_due(member, terms, before)
        except TimeoutError as error:
            refusal = self._out_of_patience(member)
            place.release()
            self._give_back()
            if self._is_closed:
                raise GateClosedError from None
            raise refusal from error
        except (asyncio.CancelledError, StoreError, UnwantedError):
            place.release()
            self._give_back()
            raise
        finally:
            self._question = None

    def _is_still_due(self, member: Member, terms: Terms, before: HostState) -> bool:
        """Whether what was reserved may still begin; else it is given back.

        Args:
            before: what was known of the host without the reservation.

        Raises:
            UnwantedError: nobody wants it.
        """
        self._pacer.recall()
        now = self._clock.now()
        state = replace(before, blocked_until_at=self._pacer.state.blocked_until_at)
        start_at = member.start_at(state, spacing=self._pacer.spacing, ahead=terms.ahead, now=now)
        is_wanted = terms.interest is None or terms.interest.claim()
        if is_wanted and start_at - now <= CLOCK_GRAIN and not self._is_closed:
            return True
        self._pacer.give_back()
        if not is_wanted:
            raise UnwantedError(terms.arrival)
        return False

    async def _begin(self, member: Member, terms: Terms, place: Place) -> Admission:
        now = self._clock.now()
        try:
            # The pump saw the limiter's token, and nobody else starts meanwhile: this does not wait.
            await self._pacer.begin(now=now)
        except StoreError:
            place.release()
            self._give_back()
            raise
        self._is_starting = False
        is_probe = _circuit.is_half_open(member.circuit, now=now)
        return self._began(member, place, arrival=terms.arrival, now=now, is_probe=is_probe)

    def _began(self, member: Member, place: Place, *, arrival: int, now: float, is_probe: bool) -> Admission:
        admission = Admission(
            lane=self, member=member, place=place, arrival=arrival, began_at=now, is_probe=is_probe
        )
        self._open.append(admission)
        member.is_used = True
        member.open_turns += 1
        member.probes += is_probe
        place.begin(now)
        if self._slots > 1 and self.open_turns < self._slots:
            self.pump()
        return admission

    def _give_back(self) -> None:
        self._is_starting = False
        self.pump()

    def _start_if_free(self, now: float) -> None:
        if self._is_starting or self.open_turns >= self._slots:
            # Whoever begins or ends a turn, or gives his start back, pumps.
            return
        following = self._queue.next_start(now)
        if following is None:
            return
        at, member, rank = following
        if at > now:
            self._pump_in(at - now)
        elif not self._pacer.has_token():
            self._pump_in(LIMITER_PATIENCE)
        else:
            self._is_starting = True
            member.waiters.grant(rank)

    def _free_at(self, member: Member, *, ahead: bool, now: float) -> float:
        """When the next request may start, counting what the end of the one under way is sure to bring."""
        if self._slots == 1 and self.open_turns:
            now = self._pacer.spacing.due_at(since=now, at=now)
        return self._pacer.start_at(member, ahead=ahead, now=now)

    @property
    def _is_idle(self) -> bool:
        """Whether there is nobody who would pump."""
        return not self._open and not self._is_starting and self._queue.is_empty

    def _pump_in(self, delay: float) -> None:
        if self._alarm is None:
            # In most lanes of a crawl without delays nobody ever waits.
            self._alarm = Alarm(self.pump)
        self._alarm.ring_in(delay)

    def _out_of_patience(self, member: Member) -> TooSoonError | StoreError:
        """Why somebody waited in vain: for a store that is lost and is being asked, or for the pace."""
        lost = self._pacer.lost if self._is_starting else None
        # Each has an error of his own: what is raised twice tells of both.
        return self._too_soon(member) if lost is None else StoreError(str(lost))

    def _too_soon(self, member: Member, wait: float | None = None) -> TooSoonError:
        wait = wait or self.wait(member.origin) or max(self.delay, _pacing.MIN_RETRY_AFTER)
        return TooSoonError(self.pace_key, wait)
