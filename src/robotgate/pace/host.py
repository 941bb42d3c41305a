"""One host: its state, its limits, the turns that wait for it and those that are open.

Everything that shares a pace key is one `Host`. Its origins each have a `PacedOrigin`. Both are mutable and do no I/O.
Methods that need the time take `now` (seconds since the epoch); only a lease and the limiter have clocks of their own.
A start needs a free slot, the instant that state, delay, hours, blocks and quotas agree on, and, where starts are
metered, a token of the `AsyncLimiter`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from heapq import heappop
from itertools import islice
from typing import TYPE_CHECKING, Final, cast

from aiolimiter import AsyncLimiter

from robotgate.clock import DAY
from robotgate.errors import HostUnavailableError, NestedTurnError
from robotgate.options import Budget, HostOptions, limits
from robotgate.pace.budget import count_bytes, count_page, read_by, strictest
from robotgate.pace.learned import LATE, SLOWER, Learner, taught_from
from robotgate.pace.lease import Leased
from robotgate.pace.promises import averaged
from robotgate.pace.quota import StartWindow
from robotgate.pace.scope import MAX_COUNTED, Scope, holds_back
from robotgate.pace.signals import MAX_PAUSE, Heard
from robotgate.pace.spacing import NOTHING_ASKED, Asked, opens_at
from robotgate.pace.state import (
    CLOCK_GRAIN,
    FIELDS,
    UNTRIED,
    HostState,
    circuit_failed,
    circuit_silent,
    growing,
    is_forgiven,
    is_half_open,
    is_open,
    is_served,
    merged,
)
from robotgate.pace.turn import WAITING, HostPlaces, OriginPlaces, Rank, TurnPlace, waits

if TYPE_CHECKING:
    import asyncio

    from robotgate.events import BlockCause
    from robotgate.pace.lease import Lease
    from robotgate.pace.state import Circuit, Starts

LONG_AGO: Final = -math.inf
MAX_LATENCY_DELAY: Final = 60.0
"""Seconds; the longest delay that `latency_factor` causes."""
MIN_BLOCK: Final = 60.0
"""Seconds, when the server does not say how long and `adaptive` is off. A learner's pause of at least so many counts as
an outage does."""
IDLE: Final = 30.0
"""Seconds after which a host that nobody visits counts as left alone: how fast it was visited is counted anew."""
ROUNDING: Final = 1.0
"""Seconds: servers round the time until a quota is renewed up to whole ones. Of two such times that differ by less, the
earlier instant is the nearer one."""
MIN_REPEATED_BLOCK: Final = 1.0
"""Seconds, doubling up to `MIN_BLOCK`, when it says less, twice or more in a row, and `adaptive` is off."""
BLOCK_JITTER: Final = 0.1
LIMITER_SLACK: Final = 1e-6
"""The share by which the limiter's period is shorter than the delay, so that the rounding of its leak never holds back
a start that the instant allows."""
HOURS_SEARCHED: Final = 8.0 * DAY
"""Seconds, more than a week: what does not meet in it meets only when a clock changes."""


@dataclass(slots=True, eq=False, repr=False)
class Trial:
    """Of a turn that does not wait in line: what is known of its place. `pace.trying` has how."""

    max_wait: float
    """Seconds that it waits at most, if it was promised a place."""
    is_expected: bool = False
    """Whether it has redeemed a promise of its host."""
    admitted: dict[Host | Scope, float] = field(default_factory=dict)
    """The host and the scopes in whose lines it may stand, and when the next turn is expected to be due there."""


@dataclass(slots=True, eq=False, repr=False)
class PacedTurn(TurnPlace):
    """One request, from the moment it asks for its host until its response has ended."""

    paced: PacedOrigin
    began_at: float = 0.0
    status: int | None = None
    bytes_read: int = 0
    scopes: tuple[Scope, ...] = ()
    trial: Trial | None = None
    """None: it waits in line; else it is refused if its place has not come."""


@dataclass(slots=True, eq=False, repr=False)
class PacedOrigin(OriginPlaces):
    """One origin of a host: what holds for it, whether it can be reached, and the turns that wait for it."""

    host: Host
    options: HostOptions
    asked: Asked = NOTHING_ASKED
    """What its robots.txt asks about our speed, as far as the operator lets it count."""
    operator_until_at: float = 0.0
    """Until when the operator blocks it; 0.0 or a past instant: not at all."""
    circuit: Circuit = UNTRIED
    outage: str = ""
    """Why it could not be reached the last time, in words."""
    probe: PacedTurn | None = None
    """The open turn that tries whether it can be reached again."""
    is_used: bool = False
    """Whether a turn began since eviction last looked."""
    scopes: tuple[Scope, ...] = field(default=(), kw_only=True)
    """In the same order in every process: all hosts, the group, the origin, and addresses by their names."""
    scopes_until_at: float = math.inf
    """When its addresses, which are scopes, have to be looked up again."""
    spenders: tuple[Scope, ...] = field(default=(), kw_only=True)
    """Those of its scopes that have a budget."""

    def enter(self, scopes: tuple[Scope, ...], until_at: float = math.inf) -> None:
        """Take on scopes, which are known until an instant."""
        self.scopes, self.scopes_until_at = scopes, until_at
        self.spenders = tuple([scope for scope in scopes if scope.budget is not None])

    def first(self) -> tuple[Rank, PacedTurn] | None:
        """Return the waiting turn that ranks first, as (rank, turn)."""
        queue = self.queue
        while queue and not waits(queue[0][1]):
            heappop(queue)
        return cast("tuple[Rank, PacedTurn]", queue[0]) if queue else None

    def all_waiting(self) -> list[PacedTurn]:
        """Return the waiting turns, in no order."""
        return cast("list[PacedTurn]", [turn for _, turn in self.queue or () if turn.state is WAITING])

    def ahead_of(self, turn: PacedTurn) -> int:
        """Return how many waiting turns surely go before this one, were it to join; more may go first."""
        rank = turn.rank
        # A heap begins with those that rank first, though not in their order.
        first = islice(self.queue or (), MAX_COUNTED)
        return sum(other < rank and waits(waiter) for other, waiter in first)

    def is_probed(self, now: float) -> bool:
        """Return whether one request tries the origin while all others wait for its outcome."""
        return self.probe is not None and is_half_open(self.circuit, now=now)


def nested_error(host: str | None = None) -> NestedTurnError:
    """Return the error for a task that would wait for itself: for its host's turn, or for a permit of `concurrency`."""
    what = "every turn that `concurrency` allows" if host is None else f"a turn of {host}"
    return NestedTurnError(
        f"this task already holds {what} and would wait for itself:"
        " read the first response to its end, or leave its block, before asking for the next"
    )


def _within_hours(paced: PacedOrigin, at: float, *, ahead: bool) -> float:
    """Return the first instant from `at` on within the operator's hours and, for a page, the origin's Visit-time.

    Where these do not meet for `HOURS_SEARCHED`, it is one after that, at which to look again.
    """
    asked, own = () if ahead else paced.asked.visit_times, paced.options["open_hours"]
    if own is None:
        return opens_at(asked, at=at)
    searched_until_at = at + HOURS_SEARCHED
    while True:
        start_at = opens_at(asked, at=at)
        at = own.opens_at(start_at)
        if at == start_at or at > searched_until_at:
            return at


@dataclass(slots=True, eq=False, repr=False)
class Host(HostPlaces, Leased):
    """What is paced together: the strictest of its origins binds all."""

    lease: Lease | None = None
    # As in `HostPlaces`, tuples.
    origins: tuple[PacedOrigin, ...] = ()
    is_wanted: bool = False
    owned_visits: int = 0
    last_visit_at: float = LONG_AGO
    next_allowed_at: float = 0.0
    """No request starts earlier, whatever the delay is now."""
    blocked_at: float = 0.0
    blocked_until_at: float = 0.0
    failures: int = 0
    visits: int = 0
    bytes_read: int = 0
    latency: float | None = None
    learned_delay: float = 0.0
    limit_delay: float = 0.0
    eases_at: float = 0.0
    turn_time: float = 0.0
    promised_from_at: float = 0.0
    promised_until_at: float = 0.0
    promised_step: float = 0.0
    admitted_until_at: float = 0.0
    floor: float = 0.0
    """Seconds between visits: the longest that the operator, any of its sites or its latency asks for."""
    delay: float = 0.0
    """Seconds between visits: as `floor`, or those learned where these are more."""
    learner: Learner | None = None
    """None: this process had nothing to learn of it yet."""
    is_adaptive: bool = False
    max_learned: float = math.inf
    """Seconds; the longest delay that is learned."""
    run_began_at: float = math.inf
    """When the present run of visits began, of which each came within `IDLE` of being due."""
    run_visits: int = 0
    """How many visits there were before that run."""
    best_latency: float = math.inf
    """Seconds its fastest good answer took to begin."""
    quota_left: int = 0
    quota_renewed_at: float = 0.0
    """The quota that it reported last, and when that is renewed."""
    asked_by: str = ""
    """The header by which it asked for a pause or a spacing last, and until when that lasts."""
    asked_until_at: float = 0.0
    visit_delay: float = LONG_AGO
    """What the delay was at the last visit; minus infinity if `next_allowed_at` has it."""
    slots: int = 1
    """Turns that may be open at once. With one, the delay counts from the end of a response, else from starts."""
    heeds_latency: bool = False
    budget: Budget | None = None
    budget_began_at: float | None = None
    budget_ends_at: float = 0.0
    budget_pages: int = 0
    budget_bytes: int = 0
    bytes_per_second: float = math.inf
    read_until_at: float = 0.0
    has_hours: bool = False
    """Whether any of its sites, or the operator, names hours in which it may be visited."""
    limiter: AsyncLimiter | None = None
    _limiter_delay: float = 0.0
    window: StartWindow | None = None
    in_slots: tuple[PacedTurn, ...] = field(default=(), kw_only=True)
    starting: PacedTurn | None = field(default=None, kw_only=True)
    waiting_origins: tuple[PacedOrigin, ...] = field(default=(), kw_only=True)
    wake_at: float = math.inf
    """When the scheduler looks at the host again."""
    blocked_by: BlockCause | None = None
    """Why it is blocked, if the end of the block is yet to be reported."""

    # What it is held to.

    def update_limits(self, max_slots: int | None) -> None:
        """Take in what its origins ask for and are granted now.

        Args:
            max_slots: connections that the connector opens to one host at most; None: no such limit.
        """
        origins = self.origins
        # Lists and a loop: they are quicker than generators, and this is done for each new host.
        slots = min([paced.options["concurrency_per_host"] for paced in origins], default=1)
        self.slots = slots if max_slots is None else min(slots, max_slots)
        rates = limits([paced.options["rate"] for paced in origins])
        self.heeds_latency = self.has_hours = False
        self.is_adaptive, self.max_learned, self.bytes_per_second = True, math.inf, math.inf
        budgets: list[Budget] = []
        for paced in origins:
            if not paced.options["adaptive"]:
                self.is_adaptive = False
            if paced.options["max_delay"] < self.max_learned:
                self.max_learned = paced.options["max_delay"]
            if paced.options["latency_factor"]:
                self.heeds_latency = True
            speed = paced.options["bytes_per_second"]
            if speed is not None and speed < self.bytes_per_second:
                self.bytes_per_second = speed
            if paced.options["budget"] is not None:
                budgets.append(paced.options["budget"])
            if paced.asked.visit_times or paced.options["open_hours"] is not None:
                self.has_hours = True
        self.budget = strictest(budgets) if budgets else None
        if self.window is not None:
            self.window.change(rates)
        elif rates:
            self.window = StartWindow(rates)
        self._update_delay()

    def _update_delay(self) -> None:
        delay, latency = 0.0, self.latency or 0.0
        for paced in self.origins:
            options = paced.options
            slowness = min(options["latency_factor"] * latency, options["max_delay"], MAX_LATENCY_DELAY)
            delay = max(delay, options["delay"], paced.asked.delay, slowness)
        self.floor = delay
        if self.is_adaptive and self.learned_delay > delay:
            # What a store knows, and an operator's change, may be beyond the most.
            delay = max(delay, min(self.learned_delay, self.max_learned))
        if delay < self.visit_delay:
            # A shorter one does not count from the visit that is recorded. With one slot, `end` records another.
            self.next_allowed_at = max(self.next_allowed_at, self.last_visit_at + self.visit_delay)
            self.visit_delay = LONG_AGO
        self.delay = delay
        metered = delay if self.slots > 1 else 0.0
        if metered != self._limiter_delay:
            # A limiter's period cannot be changed. The instants know what a new limiter does not.
            self._limiter_delay = metered
            self.limiter = AsyncLimiter(1, metered * (1 - LIMITER_SLACK)) if metered > CLOCK_GRAIN else None

    @property
    def starts(self) -> Starts:
        """The starts that count against its quotas."""
        return () if self.window is None else self.window.kept()

    @starts.setter
    def starts(self, kept: Starts) -> None:
        if self.window is not None:
            self.window.restore(kept)

    def snapshot(self) -> HostState:
        """Return the state as a value for a store."""
        values = {name: getattr(self, name) for name in FIELDS}
        # Other processes may not know the delay.
        values["next_allowed_at"] = max(self.next_allowed_at, self.last_visit_at + self.visit_delay)
        if self.last_visit_at == LONG_AGO:
            values["last_visit_at"] = None
        return HostState(**values)

    def restore(self, state: HostState) -> None:
        """Take on a state."""
        for name in FIELDS:
            setattr(self, name, getattr(state, name))
        if state.last_visit_at is None:
            self.last_visit_at = LONG_AGO
        self.visit_delay = LONG_AGO
        if self.heeds_latency or self.learned_delay:
            self._update_delay()

    def merge(self, state: HostState | None) -> None:
        """Take in what a store knows: instants only move later, counts only grow."""
        if state is not None:
            self.restore(merged(self.snapshot(), state))

    # When the next request may start.

    def earliest_start(  # A keyword takes twice as long.
        self,
        paced: PacedOrigin,
        now: float,
        ahead: bool = False,  # noqa: FBT001, FBT002
        is_granted: bool = False,  # noqa: FBT001, FBT002
        *,
        at_any_hour: bool = False,
    ) -> float:
        """Return the first instant from now on at which a request of an origin may start, slots and permits aside.

        Args:
            is_granted: its turn is the one that is starting.
            at_any_hour: whether hours are left aside, too.
        """
        at = self.last_visit_at + self.delay
        if self.next_allowed_at > at:
            at = self.next_allowed_at
        if self.blocked_until_at > at:
            at = self.blocked_until_at
        if paced.operator_until_at > at:
            at = paced.operator_until_at
        if paced.circuit.retry_at > at:
            at = paced.circuit.retry_at
        if self.window is not None:
            reserved = self.starting is not None and not is_granted
            at = max(at, self.window.start_at(now, reserved=reserved))
        if now > at:
            at = now
        return _within_hours(paced, at, ahead=ahead) if self.has_hours and not at_any_hour else at

    def quota_due_at(self, now: float) -> float:
        """Return the first instant at which one more start keeps its quotas; 0.0 if any instant would.

        Where another process paces the host, it may have to be later, but not earlier.
        """
        return 0.0 if self.window is None else self.window.due_at(now)

    def shared_due_at(self) -> float:
        """Return when the delay and the server's block let the next request start: what every process knows of it.

        Quotas, outages, hours and the operator's blocks may make it later here.
        """
        return max(self.last_visit_at + self.delay, self.next_allowed_at, self.blocked_until_at)

    def free_at(self, paced: PacedOrigin, now: float, *, ahead: bool) -> float:
        """Return when a new request may start if no other waits; with one slot, an open turn ends first."""
        at = self.earliest_start(paced, now, ahead)
        if self.slots == 1 and self.in_slots:
            at = max(at, _within_hours(paced, now + self.delay, ahead=ahead))
        return at

    def start_behind(self, turn: PacedTurn, now: float) -> float:
        """Return when a new turn would start if the turns that go before it went as fast as they may."""
        paced = turn.paced
        free_at = self.free_at(paced, now, ahead=turn.ahead)
        before = sum(
            other.ahead_of(turn)
            for other in self.waiting_origins
            if other is paced
            or (not other.is_probed(free_at) and self.earliest_start(other, free_at) <= free_at)
        )
        return free_at + before * self.delay

    def next_turn(
        self, now: float, held_back: list[tuple[Scope | None, PacedTurn]]
    ) -> tuple[float, Rank, PacedTurn] | None:
        """Return when the next waiting turn may start, its rank and the turn; None if none waits that could be let go.

        Of the turns that may start now it is the one that ranks first, else the one that may start first.

        Args:
            held_back: gets the turns whose scopes hold them back though their host's instant has come, each with the
                scope; with None where the scopes are not known.
        """
        best: tuple[float, Rank, PacedTurn] | None = None
        for paced in self.waiting_origins:
            first = paced.first()
            if first is None or (paced.probe is not None and paced.is_probed(now)):
                continue
            rank, turn = first
            at = self.earliest_start(paced, now, turn.ahead)
            if at - now <= CLOCK_GRAIN:
                at = now
                if now >= paced.scopes_until_at:
                    held_back.append((None, turn))
                    continue
                if paced.scopes and (scope := holds_back(paced.scopes, turn, now)) is not None:
                    held_back.append((scope, turn))
                    continue
            # No two have the same rank.
            found = at, rank, turn
            if best is None or found < best:
                best = found
        return best

    def unavailable(self, paced: PacedOrigin, now: float, *, ahead: bool) -> HostUnavailableError | None:
        """Return the error for a request that should not wait; None if it may."""
        name, patience = paced.origin.host, paced.options["max_block"]
        circuit = paced.circuit
        if circuit.retry_at - now > (CLOCK_GRAIN if circuit.is_gone else max(patience, CLOCK_GRAIN)):
            return HostUnavailableError(name, circuit.retry_at - now, paced.outage)
        if paced.operator_until_at - now > patience:
            return HostUnavailableError(name, paced.operator_until_at - now, "the operator blocks it")
        if self.blocked_until_at - now > patience:
            asked = f" by {self.asked_by}" if self.asked_by else ""
            return HostUnavailableError(name, self.blocked_until_at - now, f"it asks for a pause{asked}")
        if not self.has_hours:
            return None
        due_at = self.earliest_start(paced, now, at_any_hour=True)
        start_at = _within_hours(paced, due_at, ahead=ahead)
        # By the time the next visit is due, the hours may be over. The wait for the delay or a quota does not count as
        # waiting for the hours.
        if start_at == due_at or start_at - now <= patience:
            return None
        over = []
        if not ahead and opens_at(paced.asked.visit_times, at=due_at) > due_at:
            over.append("its Visit-time is over for now")
        if self.is_off_hours(paced, now):
            over.append("the operator's open_hours are over for now")
        return HostUnavailableError(name, start_at - now, " and ".join(over))

    def is_off_hours(self, paced: PacedOrigin, now: float) -> bool:
        """Return whether the operator's hours are over when the next request of an origin is due."""
        own, due_at = paced.options["open_hours"], self.earliest_start(paced, now, at_any_hour=True)
        return own is not None and own.opens_at(due_at) > due_at

    # Its turns.

    @property
    def waiting(self) -> int:
        """How many turns wait."""
        return sum(paced.waiting for paced in self.waiting_origins)

    def all_waiting(self) -> list[PacedTurn]:
        """Return the waiting turns of all origins, in no order."""
        return [turn for paced in self.waiting_origins for turn in paced.all_waiting()]

    def has_waiters(self) -> bool:
        """Return whether any turn waits; those of cancelled tasks do not."""
        # A loop: it is quicker than a generator.
        for paced in self.waiting_origins:  # noqa: SIM110
            if paced.first() is not None:
                return True
        return False

    def is_held_by(self, task: asyncio.Task[object] | None) -> bool:
        """Return whether no slot is free and this task holds all of them: it would wait for itself."""
        return len(self.in_slots) >= self.slots and all(turn.holder is task for turn in self.in_slots)

    def begin(self, turn: PacedTurn, now: float) -> None:
        """Record that a turn's request is sent now."""
        paced = turn.paced
        turn.began_at = now
        paced.is_used = True
        if paced.circuit.outages and is_half_open(paced.circuit, now=now):
            paced.probe = turn
        idle_at = now - IDLE
        if now < self.run_began_at or (
            idle_at > self.last_visit_at + self.delay and idle_at > self.blocked_until_at
        ):
            # A robots.txt need not count to the host's limit.
            self.run_began_at, self.run_visits = now, self.visits + turn.ahead
        self.visits += 1
        if now > self.last_visit_at:
            self.last_visit_at = now
        self.visit_delay = self.delay
        if self.window is not None:
            self.window.count(now)
        if self.budget is not None and not turn.ahead:
            count_page(self, now)

    def end(self, turn: PacedTurn, now: float) -> bool:
        """Record that an open turn's response has ended, or that its request is abandoned.

        Returns:
            whether the turn tried if its origin can be reached: the origin's other turns waited for that.
        """
        self.bytes_read += turn.bytes_read
        if self.budget is not None:
            count_bytes(self, turn.bytes_read, now)
        if self.bytes_per_second < math.inf:
            self.next_allowed_at = max(self.next_allowed_at, read_by(self, turn.bytes_read, now))
        if self.slots == 1:
            if now > self.last_visit_at:
                self.last_visit_at = now
            self.visit_delay = self.delay
        if turn.trial is not None:
            self.turn_time = averaged(self.turn_time or None, now - turn.began_at, turns=self.visits)
        if turn.paced.probe is not turn:
            return False
        turn.paced.probe = None
        return True

    # How it is doing.

    def note_answer(self, turn: PacedTurn, heard: Heard, *, is_good: bool, now: float, jitter: float) -> None:
        """Take in what an answer says about our speed; no instant that is recorded moves earlier by it.

        Args:
            is_good: whether its status says that the host is well.
            jitter: a random number in [0, 1), so that clients that were told off do not all come back together.
        """
        if heard.left is not None and heard.renewed_after is not None:
            heard = self._with_renewal(heard, heard.left, now + heard.renewed_after, now)
        if heard.spacing:
            self.next_allowed_at = max(self.next_allowed_at, now + min(heard.spacing, self.max_learned))
        if heard.tells_off:
            self._block(turn, heard.pause, now, jitter)
        elif heard.pause:
            self.blocked_at = max(self.blocked_at, now)
            self.blocked_until_at = max(self.blocked_until_at, now + heard.pause)
        elif is_good and not (self.failures and turn.began_at <= self.blocked_at):
            # One that was sent before the block was known says nothing of the pause.
            if self.is_adaptive and (self.learner is not None or self.learned_delay):
                # How often it told us off in a row is the learner's now.
                self.failures = 0
                if self._teach(now).answered(self, now=now, most=self.max_learned):
                    self._update_delay()
            elif is_forgiven(self.blocked_until_at, now):
                self.failures = 0
        if heard.field:
            self.asked_by = heard.field
            self.asked_until_at = max(self.blocked_until_at, self.next_allowed_at)

    def _with_renewal(self, heard: Heard, left: int, at: float, now: float) -> Heard:
        """Return what was heard, with the nearer instant at which a quota is renewed, if two answers have told it.

        Servers round seconds up: of `t=30`, and `t=30` again 0.4 s later, the first instant holds.
        """
        if left < self.quota_left and 0.0 <= at - self.quota_renewed_at < ROUNDING:
            less = at - self.quota_renewed_at
            at = self.quota_renewed_at
            # A Retry-After beside it holds.
            if heard.field != "Retry-After":
                pause = None if heard.pause is None else max(heard.pause - less, 0.0)
                heard = replace(heard, pause=pause, spacing=max(heard.spacing - less / (left + 1), 0.0))
        self.quota_left, self.quota_renewed_at = left, at
        return heard

    def note_latency(self, turn: PacedTurn, now: float, is_good: bool) -> None:  # noqa: FBT001  # A keyword takes twice as long.
        """Take in how long the first answer in a turn took."""
        known = self.latency
        took = latency = now - turn.began_at if now > turn.began_at else 0.0
        if known is not None:
            latency = (known + latency) / 2
        # A failure is often quick, and never lowers it.
        if known is None or is_good or latency > known:
            self.latency = latency
        if is_good and not turn.ahead:
            # Pages: a robots.txt takes a server no work.
            if took < self.best_latency:
                self.best_latency = took
            elif (
                self.is_adaptive
                and took > LATE
                and min(took, latency) > max(LATE, SLOWER * self.best_latency)
            ):
                # What it takes longer than at its best it needs to recover. One answer at most doubles the delay.
                slowness = min(latency - self.best_latency, 2 * taught_from(self))
                self._teach(now).raise_to(self, slowness, now=now, most=self.max_learned)
        if self.heeds_latency or self.learner is not None:
            self._update_delay()

    def _teach(self, now: float) -> Learner:
        """Return the host's learner, which is made when its delay is first to be raised or lowered."""
        if self.learner is None:
            self.run_began_at = min(self.run_began_at, now)
            self.learner = Learner(self)
        return self.learner

    def come_back(self, now: float) -> None:
        """Take in that the host can be reached again: it is visited at half the speed first."""
        if self.is_adaptive:
            self._teach(now).raise_to(self, 2 * taught_from(self), now=now, most=self.max_learned)
            self._update_delay()

    def _block(self, turn: PacedTurn, asked: float | None, now: float, jitter: float) -> None:
        """Take in that the host tells us off.

        Args:
            asked: seconds; None when it does not say.
        """
        told_at = self.blocked_at if self.failures else LONG_AGO
        if self.learner is not None:
            told_at = max(told_at, self.learner.told_at)
        if turn.began_at <= told_at:
            # It was sent before the block was known: the same incident, of which the longest pause counts.
            if asked is not None:
                self.blocked_until_at = max(self.blocked_until_at, now + min(asked, MAX_PAUSE))
            return
        self.failures = 1 if is_forgiven(self.blocked_until_at, now) else self.failures + 1
        if self.is_adaptive:
            factor, most = 1 + BLOCK_JITTER * jitter, self.max_learned
            learner, twice = self._teach(now), 2 * taught_from(self)
            pause = learner.told_off(self, asked or 0.0, now=now, most=most, factor=factor)
            if pause >= MIN_BLOCK:
                # As after an outage: what it bears may have changed meanwhile.
                learner.raise_to(self, twice, now=now, most=most)
            self._update_delay()
        elif asked is None:
            pause = growing(MIN_BLOCK, self.failures) * (1 + BLOCK_JITTER * jitter)
        else:
            # The first block lasts as the server says. A server that says 0 again and again gets longer pauses.
            repeated = min(growing(MIN_REPEATED_BLOCK, self.failures - 1), MIN_BLOCK)
            pause = max(asked, repeated) if self.failures > 1 else asked
        self.blocked_at = max(self.blocked_at, now)
        self.blocked_until_at = max(self.blocked_until_at, now + min(pause, MAX_PAUSE))

    def note_outage(
        self, turn: PacedTurn, outage: str, *, is_silence: bool, now: float, jitter: float
    ) -> bool:
        """Take in that a turn's origin could not be reached, or that it did not answer.

        Returns:
            whether it counts as unreachable now, and that was not known.
        """
        self.note_latency(turn, now, is_good=False)
        paced, known = turn.paced, turn.paced.circuit
        failed = circuit_silent if is_silence else circuit_failed
        paced.circuit = failed(
            known,
            began_at=turn.began_at,
            now=now,
            jitter=jitter,
            give_up_after=paced.options["give_up_after"],
        )
        if paced.circuit.outages == known.outages:
            return False
        paced.outage = outage
        return True

    # When it may be evicted.

    def may_drop(self, paced: PacedOrigin, now: float, *, is_saved: bool) -> bool:
        """Return whether nothing that binds now would be lost with one of its origins.

        With the last of them the host itself goes: no delay, block or quota may bind its next turn.

        Args:
            is_saved: a store knows its state, so that blocks which are over need not be remembered here.
        """
        has_turns = paced.first() is not None or any(turn.paced is paced for turn in self.in_slots)
        if has_turns or is_open(paced.circuit, now=now):
            return False
        others = [other for other in self.origins if other is not paced]
        if others:
            delay, options = paced.asked.delay, paced.options
            return any(other.asked.delay >= delay and other.options == options for other in others)
        return (
            (is_saved or is_served(self.snapshot(), now=now))
            and self.shared_due_at() - now <= CLOCK_GRAIN
            and (self.window is None or self.window.served_at() - now <= CLOCK_GRAIN)
        )
