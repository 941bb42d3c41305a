"""What a lane remembers of its host, and when that lets the next request start: state, spacing, tokens and quotas."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from aiolimiter import AsyncLimiter

from robotgate import _pacing, _quota
from robotgate._circuit import CLOSED
from robotgate._errors import StoreError
from robotgate._losses import Task
from robotgate._member import spacing_of
from robotgate._pacing import CLOCK_GRAIN
from robotgate._spacing import UNSPACED

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from robotgate._errors import HostUnavailableError
    from robotgate._losses import Losses
    from robotgate._member import Member
    from robotgate._pacing import HostState
    from robotgate._ports import Visits
    from robotgate._quota import Rate

LEAST_RETRY: Final = 0.001
"""Seconds after which a store is asked again that says no and names no later instant."""
LIMITER_SLACK: Final = 1e-6
"""The share by which the limiter's period is shorter than the delay: the rounding of its leak must not hold back a
start that the instant allows."""


class Pacer:
    """Performs the arithmetic of `_pacing` for one pace key, and sees to it that the store hears of every step.

    Args:
        members: what is paced together; the strictest of them binds all.
        losses: hears of it when the store fails.
    """

    __slots__ = (
        "_again_at",
        "_limiter",
        "_losses",
        "_members",
        "_pace_key",
        "_rates",
        "_reserved",
        "_starts",
        "_store",
        "heeds_latency",
        "spacing",
        "state",
    )

    def __init__(
        self,
        pace_key: str,
        *,
        state: HostState,
        members: Collection[Member],
        store: Visits,
        losses: Losses,
    ) -> None:
        self.state = state
        self.spacing = UNSPACED
        self._pace_key = pace_key
        self._members = members
        self._store = store
        self._losses = losses
        self._reserved: HostState | None = None
        self._again_at: float | None = None
        self._limiter: AsyncLimiter | None = None
        self.heeds_latency = False
        """Whether the delay grows with the time that responses take."""
        self._rates: tuple[Rate, ...] = ()
        self._starts: deque[float] | None = None

    def reckon(self) -> None:
        """Take in what the members ask and are granted now."""
        rates = dict.fromkeys(
            member.options.rate for member in self._members if member.options.rate is not None
        )
        self._rates = tuple(rates)
        self.heeds_latency = any(member.options.latency_factor for member in self._members)
        # An empty deque takes as much memory as all the rest here, and most lanes have no quota.
        # What has been counted stays: a quota that is lifted for a while is kept all the same when it is back.
        known = self._starts.maxlen if self._starts is not None else None
        most = max(known or 0, *(rate.requests for rate in rates), 0)
        self._starts = deque(self._starts or (), maxlen=most) if most else None
        self._space()

    def start_at(self, member: Member, *, ahead: bool, now: float) -> float:
        """The first instant from now on at which a request of this member may start, as far as time alone tells."""
        if self._again_at is not None:
            now = max(now, self._again_at)
        starts = self._starts
        if starts is not None and self._rates:
            now = max(now, *(_quota.due_at(starts, rate) for rate in self._rates))
        return member.start_at(self.state, spacing=self.spacing, ahead=ahead, now=now)

    def is_plainly_due(self, member: Member, now: float) -> bool:
        """Whether a page of this member may start now, where that takes no closer look: nobody to share the host with,
        no limiter, no quotas, no hours, and nothing ever wrong with it. No says nothing.

        Raises:
            StoreError: as `recall`.
        """
        if (
            self._limiter is not None
            or self._rates
            or self._again_at is not None
            or member.circuit is not CLOSED
            or member.asked.visit_times
            or member.blocked_until_at > now
            or self._store.is_shared
        ):
            return False
        self.recall()
        return _pacing.is_due(self.state, spacing=self.spacing, now=now)

    def unavailable(self, member: Member, *, ahead: bool, now: float) -> HostUnavailableError | None:
        """The error for a request of this member that is not worth waiting with; None when it is."""
        return member.unavailable(self.state, spacing=self.spacing, ahead=ahead, now=now)

    def served_at(self) -> float:
        """From when on nothing that is remembered here alone will matter."""
        at = _pacing.earliest_start_at(self.state, spacing=self.spacing, now=0.0)
        if not self._starts:
            return at
        return max(at, self._starts[-1] + max((rate.seconds for rate in self._rates), default=0.0))

    def has_token(self) -> bool:
        """Whether the limiter agrees that it is time."""
        return self._limiter is None or self._limiter.has_capacity()

    async def begin(self, *, now: float) -> None:
        """A request is sent; its token was there.

        Raises:
            StoreError: the store did not take it, so it must not be sent.
        """
        if self._limiter is not None:
            await self._limiter.acquire()
        self.begin_unmetered(now=now)

    def begin_unmetered(self, *, now: float) -> None:
        """As `begin`, where there is no limiter.

        Raises:
            StoreError: as `begin`.
        """
        reserved, self._reserved = self._reserved, None
        if reserved is None:
            state = _pacing.begun(self.state, now=now, spacing=self.spacing)
        else:
            # It is counted; but its instants are those of the question, and the answer took a while.
            state = _pacing.sent(_pacing.merged(self.state, reserved), now=now, spacing=self.spacing)
        self._keep(state, self._store.begin_visit)
        if self._starts is not None:
            self._starts.append(now)

    def end(self, *, now: float, serial: bool, bytes_read: int, latency: float | None) -> None:
        """A request is over.

        Args:
            serial, bytes_read, latency: as `_pacing.ended`.

        Raises:
            StoreError: as `remember`.
        """
        self.recall_if_possible()
        state = _pacing.ended(
            self.state,
            now=now,
            spacing=self.spacing,
            serial=serial,
            bytes_read=bytes_read,
            latency=latency,
        )
        self._keep(state, self._store.end_visit)

    @property
    def is_shared(self) -> bool:
        """Whether others may be at the host of whom this process does not know: a start is then to be reserved."""
        return self._store.is_shared

    @property
    def lost(self) -> StoreError | None:
        """What is wrong with the store, if it says itself that it is lost and that turns wait for it."""
        return self._losses.away

    async def reserve(self, *, slots: int, now: float) -> bool:
        """Ask all who share the store for the next start. If the answer is no, the state tells when to ask again.

        What was reserved either begins, or is given back.

        Raises:
            StoreError: nobody knows.
        """
        delay = self.spacing.delay_at(now)
        state = _pacing.begun(self.state, now=now, spacing=self.spacing)
        try:
            known = await self._store.reserve(self._pace_key, state=state, now=now, slots=slots, delay=delay)
        except StoreError as error:
            self._losses.begin(Task.REMEMBER, error)
            raise
        if known is None:
            self._reserved, self._again_at = state, None
            return True
        self.state = _pacing.merged(self.state, known.state)
        self._again_at = max(known.again_at, now + LEAST_RETRY)
        return False

    def withdraw(self) -> None:
        """Nobody waits any more who would ask again."""
        if self._again_at is not None:
            self._again_at = None
            self._store.withdraw(self._pace_key)

    def give_back(self) -> None:
        """What was reserved will not begin. The delay behind it stays: others may have been told of it.

        Raises:
            StoreError: as `remember`.
        """
        reserved, self._reserved = self._reserved, None
        if reserved is None:
            return
        self.recall_if_possible()
        state = _pacing.merged(self.state, reserved)
        self._keep(replace(state, visits=state.visits - 1), self._store.end_visit)

    def recall(self) -> None:
        """Take in what others, who share the store, have learnt of the host.

        Raises:
            StoreError: nobody knows what they have learnt, so nothing must be sent.
        """
        try:
            known = self._store.recall_host(self._pace_key)
        except StoreError as error:
            self._losses.begin(Task.RECALL, error)
            raise
        if self._losses.tasks:
            self._losses.end(Task.RECALL)
        if known is not None and known is not self.state:
            self.state = _pacing.merged(self.state, known)

    def recall_if_possible(self) -> None:
        """As `recall`, where nothing is sent by what is known: who is to send looks again, and hears of the store."""
        try:  # noqa: SIM105  # Done twice for every request: `suppress` takes longer than what is done in it.
            self.recall()
        except StoreError:
            pass

    def is_spaced_by(self, member: Member) -> bool:
        """Whether visits would be closer together if one of several members asked for nothing."""
        others = [other for other in self._members if other is not member]
        without = replace(spacing_of(others, self.state), floor=self.spacing.floor)
        return without.day != self.spacing.day

    def remember(self, state: HostState) -> None:
        """Go on from a new state.

        Raises:
            StoreError: the store did not take it; the lane has.
        """
        if state is self.state:
            return
        self._keep(state, self._store.remember_host)

    def _keep(self, state: HostState, tell: Callable[[str, HostState], None]) -> None:
        """Go on from a state, and tell the store of it."""
        self.state = state
        if self.heeds_latency:
            self._space()
        try:
            tell(self._pace_key, state)
        except StoreError as error:
            self._losses.begin(Task.REMEMBER, error)
            raise
        if self._losses.tasks:
            self._losses.end(Task.REMEMBER)

    def _space(self) -> None:
        spacing = spacing_of(self._members, self.state)
        if spacing == self.spacing:
            return
        if spacing.steady_delay != self.spacing.steady_delay:
            # A limiter's period cannot be changed; the debt that a new one does not know, the instant does.
            delay = spacing.steady_delay
            self._limiter = AsyncLimiter(1, delay * (1 - LIMITER_SLACK)) if delay > CLOCK_GRAIN else None
        self.spacing = spacing
