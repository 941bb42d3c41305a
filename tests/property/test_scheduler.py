"""Whatever happens, and in whatever order: no start comes too soon, and no turn that could start is left waiting.

A state machine drives hosts and their scheduler on virtual time. Beside it stands the law: for each host the plain list
of what happened, from which the instant of the next start is worked out anew for every question.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.outage_law import GRAIN, OutageLaw
from tests.pace.bench import OPTIONS, Bench, OwnLease, heard_of
from tests.waiting import settle

from robotgate.errors import GateClosedError, HostUnavailableError, RobotGateError, StoreError, TooSoonError
from robotgate.hours import OpenHours
from robotgate.options import HostOptions, Rate, limits
from robotgate.pace.answers import note_answer, note_outage
from robotgate.pace.host import Host, PacedOrigin, PacedTurn, Trial
from robotgate.pace.lease import MOST_TURNS, NOT_OWNED
from robotgate.pace.scheduler import STORE_TIMEOUT
from robotgate.pace.scope import UNLIMITED, Scope
from robotgate.pace.spacing import NOTHING_ASKED, Asked
from robotgate.pace.turn import RENEW, TurnState
from robotgate.rules.grammar import VisitTime
from robotgate.sites.packed import pack_host, unpack_host
from robotgate.sites.site import Site
from robotgate.testing import VirtualTimeLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from robotgate.pace.lease import Lease
    from robotgate.pace.scheduler import Scheduler
    from robotgate.urls import Origin

Item = TypeVar("Item")

DAY: Final = 24 * 3600.0
TARDINESS: Final = 0.001 + GRAIN
"""Seconds by which a start may be late: no shorter timer is set."""
SAME: Final = 5e-7
"""Seconds within which two instants surely are the same to the scheduler."""
PORTS: Final = (80, 8080)

delays = st.sampled_from([0.0, 0.0, 1.0, 7.5])
rates = st.sampled_from([None, None, Rate(1, 4.0), Rate(2, 10.0), Rate(3, 60.0)])
hours = st.sampled_from([(), (), (VisitTime(0, 1),), (VisitTime(2, 4),), (VisitTime(3, 1439),)])
OWN_HOURS: Final = {OpenHours("00:01-24:00"): VisitTime(1, 1439), OpenHours("00:00-12:00"): VisitTime(0, 719)}
"""Hours of the operator, as a window. All of a site's have a minute in each of them."""
options = st.builds(
    HostOptions,
    open_hours=st.sampled_from([None, None, None, *OWN_HOURS]),
    delay=delays,
    rate=rates,
    concurrency_per_host=st.sampled_from([1, 1, 1, 2, 3]),
    max_block=st.sampled_from([0.0, 60.0, 300.0]),
    give_up_after=st.sampled_from([0.0, 2.5, 60.0, math.inf]),
    adaptive=st.booleans(),
    max_delay=st.sampled_from([7.5, 30.0, 3600.0]),
).map(OPTIONS.__or__)
asked = st.builds(Asked, crawl_delay=st.sampled_from([None, None, 0.5, 5.0]), visit_times=hours) | st.just(
    NOTHING_ASKED
)
picks = st.integers(0, 2**16)
owners = st.sampled_from(["alone", "owned", "unowned"])
scopes = st.tuples(owners, delays, st.sampled_from([1, 1, 2, UNLIMITED]), rates)
pauses = st.sampled_from([0.0, 0.0005, 0.1, 0.7, 1.0, 4.0, 10.0, 61.0, 130.0, 400.0, 3600.0])
statuses = st.sampled_from([200, 200, 404, 429, 503])
retry_afters = st.sampled_from([None, 0.0, 5.0, 59.0, 400.0])
patience = st.sampled_from([None, None, None, 0.0, 0.5, 5.0, 30.0])
trials = st.sampled_from([None, None, 0.0, 2.0])
"""For how long a turn that does not wait in line may wait if it was promised its place; None: it waits in line."""


def has(*states: TurnState) -> Callable[[SchedulerMachine], bool]:
    """Whether any turn is in one of these states."""
    return lambda machine: any(visitor.turn.state in states for visitor in machine.visitors)


def pick(items: Sequence[Item], number: int) -> Item:
    """One of them."""
    return items[number % len(items)]


def quota_due_at(starts: Iterable[float], rate: Rate) -> float:
    """When the next start keeps a quota."""
    counted = list(starts)
    return 0.0 if len(counted) < rate.requests else counted[-rate.requests] + rate.seconds


def lease_of(kind: str) -> Lease | None:
    """That of a host or a scope that is new."""
    return {"alone": None, "owned": OwnLease(), "unowned": NOT_OWNED}[kind]


def within(paced: PacedOrigin, at: float, *, ahead: bool) -> float:
    """The first instant from then on in the hours of the operator and, for a page, of the site."""
    own = paced.options["open_hours"]
    windows = ([] if own is None else [OWN_HOURS[own]]) + [*(() if ahead else paced.asked.visit_times)]
    before = -math.inf
    while at > before:
        before = at
        for hours in windows:
            second, opens, ends = at % DAY, hours.start_minute * 60, (hours.end_minute + 1) * 60
            if second < opens:
                at += opens - second
            elif second >= ends:
                at += DAY + opens - second
    return at


@dataclass(eq=False, kw_only=True)
class Visitor:
    """A task that asks for one turn."""

    number: int
    law: HostLaw
    turn: PacedTurn
    paced: PacedOrigin
    asked_at: float
    tries_now: bool
    """Whether it asks for a start at once before it waits, as all do but `gate.ready`."""
    dawdles: bool
    """Whether it begins a turn that it was granted only when it is told to."""
    gives_back: bool = False
    asks_again: bool = False
    max_trial: float | None = None
    """As of `trials`."""
    go: asyncio.Event = field(default_factory=asyncio.Event)
    leave: asyncio.Event = field(default_factory=asyncio.Event)
    waits_since: float = 0.0
    """When it began to wait: one that gave its turn back waits anew, though its deadline may have passed."""
    joined: int = 0
    """The number of the event with which it began to wait: no turn passed it before that."""
    began_at: float | None = None
    scopes: tuple[Scope, ...] = ()
    """Those that it began in."""
    task: asyncio.Task[None] | None = None
    is_cancelled: bool = False

    def ask_again(self, scheduler: Scheduler, now: float) -> None:
        """Another attempt: as patient as the first, and at its place."""
        self.asks_again = False
        self.leave.clear()
        scheduler.places.move(self.turn, RENEW)
        self.turn.status = None
        if self.max_trial is None:
            self.turn.deadline_at = now + (self.turn.deadline_at - self.asked_at)
        else:
            self.turn.deadline_at, self.turn.trial = math.inf, Trial(self.max_trial)
        self.asked_at = now

    @property
    def rank(self) -> tuple[bool, int, int]:
        """The least goes first."""
        return not self.turn.ahead, -self.turn.priority, self.number

    @property
    def waits(self) -> bool:
        """Whether it waits for a turn."""
        return self.turn.state is TurnState.WAITING and not self.is_cancelled


@dataclass(eq=False)
class HostLaw:
    """What one host's visitors may do, and when."""

    host: Host
    max_slots: int | None
    visitors: list[Visitor] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)
    quotas: dict[Rate, int] = field(default_factory=dict)
    """The quotas that hold, and how many starts came before each."""
    last_visit_at: float = -math.inf
    promised_at: float = 0.0
    """The latest of the instants that past delays promised."""
    blocked_until_at: float = 0.0
    outages: OutageLaw = field(default_factory=OutageLaw)

    @property
    def delay(self) -> float:
        """The longest that holds for one of its origins, or what the host has taught."""
        origins = self.host.origins
        learned = min([self.host.learned_delay, *(paced.options["max_delay"] for paced in origins)])
        if not all(paced.options["adaptive"] for paced in origins):
            learned = 0.0
        return max(learned, *(max(paced.options["delay"], paced.asked.delay) for paced in origins))

    @property
    def slots(self) -> int:
        """Turns that may be open at once."""
        return min(
            [paced.options["concurrency_per_host"] for paced in self.host.origins] + [self.max_slots or 99]
        )

    @property
    def waiting(self) -> list[Visitor]:
        """Who waits."""
        return [visitor for visitor in self.visitors if visitor.waits]

    @property
    def open(self) -> list[Visitor]:
        """Whose request may be under way."""
        return [visitor for visitor in self.visitors if visitor.turn.state is TurnState.OPEN]

    @property
    def granted(self) -> list[Visitor]:
        """Who was granted a turn and has not begun."""
        return [visitor for visitor in self.visitors if visitor.turn.state is TurnState.GRANTED]

    def note_quotas(self) -> None:
        """Other options hold."""
        rates = limits(paced.options["rate"] for paced in self.host.origins)
        self.quotas = {rate: self.quotas.get(rate, len(self.starts)) for rate in rates}

    def due_at(self, paced: PacedOrigin, *, ahead: bool, strictly: bool, at_any_hour: bool = False) -> float:
        """Before this none of an origin's requests may start.

        Args:
            strictly: whether starts count against a quota that came before the quota did: they may count.
        """
        at = max(
            self.last_visit_at + self.delay,
            self.promised_at,
            self.blocked_until_at,
            paced.operator_until_at,
            self.outages.retry_at(paced.origin.text),
        )
        for rate, before in self.quotas.items():
            starts = self.starts if strictly else self.starts[before:]
            at = max(at, quota_due_at(starts, rate))
        return at if at_any_hour else within(paced, at, ahead=ahead)

    def is_barred(self, visitor: Visitor, now: float) -> bool:
        """Whether its origin cannot be reached, and is not to be tried by it."""
        return self.outages.bars(visitor.paced.origin.text, at=now)

    def could_start(self, visitor: Visitor, now: float, *, since: float = 0.0) -> bool:
        """Whether its host lets it start, slots aside, and has for so many seconds."""
        due_at = self.due_at(visitor.paced, ahead=visitor.turn.ahead, strictly=True)
        due_at = max(due_at, within(visitor.paced, now - since, ahead=visitor.turn.ahead))
        return due_at + since <= now + SAME and not self.is_barred(visitor, now)

    def visited(self, now: float) -> None:
        """A request started, or ended where one is open at a time."""
        self.last_visit_at = max(self.last_visit_at, now)
        self.promised_at = max(self.promised_at, now + self.delay)

    def is_closed_to(self, paced: PacedOrigin, now: float) -> bool:
        """Whether an origin's turns are refused, robots.txt included."""
        max_block = paced.options["max_block"]
        longest = max(self.blocked_until_at, paced.operator_until_at) - now
        return longest > max_block or self.outages.refuses(paced.origin.text, at=now, max_block=max_block)


@dataclass(eq=False)
class ScopeLaw:
    """What all visitors to one scope may do, and when."""

    scope: Scope
    rate: Rate | None
    starts: list[float] = field(default_factory=list)
    last_visit_at: float = -math.inf
    promised_at: float = 0.0

    def due_at(self) -> float:
        """Before this none may start."""
        at = max(self.last_visit_at + self.scope.delay, self.promised_at)
        return at if self.rate is None else max(at, quota_due_at(self.starts, self.rate))

    def is_free(
        self, turn: PacedTurn, now: float, *, since: float = 0.0, but: PacedTurn | None = None
    ) -> bool:
        """Whether a turn may start as far as the scope goes, and for so many seconds, and it is kept for no other.

        Args:
            but: a turn that has a place in it since just now, which does not count.
        """
        scope, held = self.scope, self.scope.held - {but}
        is_starting = any(other.state is TurnState.GRANTED for other in held)
        is_kept = scope.kept_for not in {None, turn} and now - since < scope.kept_until_at + GRAIN
        return (
            len(held) < scope.slots
            and not (is_starting and (scope.delay or self.rate))
            and self.due_at() + since <= now + SAME
            and not (is_kept and scope.kept_for and scope.order(scope.kept_for) < scope.order(turn))
        )

    def soonest_behind(self, visitor: Visitor, waiting: Iterable[Visitor], now: float) -> float:
        """When a visitor would have started if all others were as quick as they may."""
        scope, at = self.scope, self.due_at()
        if scope.granted or len(scope.held) >= scope.slots:
            at = max(at, now + scope.delay)
        if self.rate is not None:
            at = max(at, quota_due_at([*self.starts, *[now] * scope.granted], self.rate))
        before = [
            other
            for other in waiting
            if scope in other.paced.scopes and scope.order(other.turn) < scope.order(visitor.turn)
        ]
        return max(at, now) + scope.delay * len(before)


class SchedulerMachine(RuleBasedStateMachine):
    """Visitors, operators, servers and stores, each doing what it likes."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualTimeLoop()
        self.laws: list[HostLaw] = []
        self.stuck: list[Visitor] = []
        """Those that could start but for a permit or the total rate, when all had last come to rest."""
        self.held_up: list[tuple[Visitor, ScopeLaw]] = []
        """The same for one scope that is not free."""
        self.scopes: dict[Scope, ScopeLaw] = {}
        self.obtaining: set[Host | Scope] = set()
        self.wanted: set[Host | Scope] = set()
        """Those that another process has asked for. Others are handed on because turns were tried there."""
        self.total: Rate | None = None
        self.starts: list[float] = []
        self.promised: list[tuple[PacedOrigin, float, float]] = []
        """Tasks that were told when to come: where, when, and for how long they may wait then."""
        self.came = 0
        self.events = 0
        self.errors: list[BaseException] = []
        self.closed: set[asyncio.Task[None]] = set()
        """Tasks whose coroutine was closed by other code: asyncio reports that as an error of theirs."""
        self.is_closed = False
        self.has_failed = False
        """Whether the store could not tell of a host or a scope."""

    # The world.

    @property
    def now(self) -> float:
        """Seconds."""
        return self.loop.time()

    @property
    def visitors(self) -> list[Visitor]:
        """All that have not gone."""
        return [visitor for law in self.laws for visitor in law.visitors]

    def run(self, *events: Callable[[], object]) -> None:
        """Have something happen within the loop, and let everything that can run now, run."""
        self.events += 1

        async def run() -> None:
            for event in events:
                event()
            await settle()

        self.loop.run_until_complete(run())
        if self.errors:
            raise self.errors[0]

    @initialize(
        concurrency=st.sampled_from([1, 1, 2, 3, 9]),
        robots=st.sampled_from([None, 1, 2]),
        total=st.sampled_from([None, None, Rate(1, 3.0), Rate(2, 5.0)]),
        max_slots=st.sampled_from([None, None, 2]),
        learned=st.sampled_from([0.0, 20.0]),
        hosts=st.lists(
            st.tuples(owners, st.lists(st.tuples(options, picks), min_size=1, max_size=2)),
            min_size=1,
            max_size=3,
        ),
        scopes=st.lists(scopes, max_size=3),
    )
    def open(
        self,
        *,
        concurrency: int,
        robots: int | None,
        total: Rate | None,
        max_slots: int | None,
        learned: float,
        hosts: list[tuple[str, list[tuple[HostOptions, int]]]],
        scopes: list[tuple[str, float, int, Rate | None]],
    ) -> None:
        """Make the hosts."""
        self.bench = Bench(
            concurrency=concurrency,
            robots=robots,
            total=total,
            max_slots=max_slots,
            has_store=True,
            loop=self.loop,
        )
        self.scheduler = self.bench.scheduler
        self.total = total
        for name, (kind, delay, slots, rate) in zip("abc", scopes, strict=False):
            scope = Scope(name, slots=slots, delay=delay, rates=limits([rate]), lease=lease_of(kind))
            self.scheduler.scopes[name], self.scopes[scope] = scope, ScopeLaw(scope, rate)
        for name, (kind, origins) in zip("abc", hosts, strict=False):
            lease = lease_of(kind)
            key = f"{name}.example"
            for port, (given, which) in zip(PORTS, origins, strict=False):
                paced = self.bench.origin(key, port=port, lease=lease)
                paced.options = given
                paced.enter(self.some_scopes(which))
            host = self.scheduler.hosts[key]
            self.run(partial(self.scheduler.update_limits, host))
            law = HostLaw(host, max_slots)
            if learned:
                # It was visited just now, and had told its visitor off before.
                law.last_visit_at = self.now
                state = replace(host.snapshot(), last_visit_at=self.now, learned_delay=learned)
                host.restore(replace(state, limit_delay=learned))
            law.note_quotas()
            self.laws.append(law)
        # A host that was never visited has been due for a while.
        self.wait(1.0)

    def some_scopes(self, which: int) -> tuple[Scope, ...]:
        """Any of them, in their order, behind that of all hosts."""
        return (
            *self.bench.scopes,
            *(scope for number, scope in enumerate(self.scopes) if which >> number & 1),
        )

    async def visit(self, visitor: Visitor) -> None:
        """What a visitor does, as the gate's turns do it."""
        try:
            while True:
                await self.begin(visitor)
                try:
                    await visitor.leave.wait()
                finally:
                    self.end_turn(visitor)
                if not visitor.asks_again:
                    return
                visitor.ask_again(self.scheduler, self.now)
        except RobotGateError as error:
            self.note_refusal(visitor, error)
        finally:
            visitor.law.visitors.remove(visitor)

    def end_turn(self, visitor: Visitor) -> None:
        """A visitor's turn is over, if it is not already."""
        if visitor.turn.state is TurnState.OPEN:
            self.scheduler.end(visitor.turn, self.scheduler.now())
            visitor.law.outages.ends(visitor.number)
            if visitor.law.slots == 1:
                visitor.law.visited(self.now)
            for scope in visitor.scopes:
                if scope in self.scopes and scope.slots == 1:
                    self.scopes[scope].last_visit_at = self.now

    async def begin(self, visitor: Visitor) -> None:
        """Have a turn begin: at once, or when it is granted."""
        scheduler, turn = self.scheduler, visitor.turn
        is_straight = visitor.tries_now and scheduler.try_begin(turn, scheduler.now())
        if is_straight:
            self.check_order(visitor)
        while not is_straight:
            visitor.joined, visitor.waits_since = self.events, self.now
            await scheduler.wait(turn)
            self.check_order(visitor)
            if visitor.dawdles:
                try:
                    await visitor.go.wait()
                except (asyncio.CancelledError, GeneratorExit):
                    scheduler.end(turn, scheduler.now())
                    raise
                visitor.go.clear()
                if visitor.gives_back:
                    visitor.gives_back = False
                    scheduler.give_back(turn)
                    continue
            if scheduler.begin_granted(turn):
                break
        self.note_start(visitor)

    def heed(self, task: asyncio.Task[None]) -> None:
        """A visitor has gone: what it found wrong fails the test."""
        if not task.cancelled() and task.exception() is not None and task not in self.closed:
            self.errors.append(task.exception() or AssertionError())

    # What must hold when something happens.

    def check_order(self, visitor: Visitor) -> None:
        """Hold a grant, or a start at once, against the order of the waiters."""
        law, now = visitor.law, self.now
        passed = [
            other.number
            for other in law.waiting
            if other.rank < visitor.rank
            and other.joined < self.events
            and law.could_start(other, now)
            and now < other.paced.scopes_until_at
            and not self.taken(other, now, but=visitor.turn)
            # In the line of all hosts, arrival alone counts.
            and not (other.turn.in_line in self.bench.scopes and visitor.number < other.number)
        ]
        assert not passed, f"{visitor.number} was granted before {passed}"
        passed = [
            other.number
            for other in self.stuck
            if other.waits
            and other.law is not law
            and other.number < visitor.number
            and (other.turn.ahead == visitor.turn.ahead or self.bench.pages is self.bench.robots)
            and len(other.law.open) + len(other.law.granted) < other.law.slots
            and other.law.host.may_pace()
            and other is min(other.law.waiting, key=lambda waiter: waiter.rank)
            and other.law.could_start(other, self.now)
            and now < other.paced.scopes_until_at
            and not self.taken(other, now, but=visitor.turn)
        ]
        assert not passed, f"{visitor.number} has the permit for which {passed} waited"
        passed = [
            other.number
            for other, law in self.held_up
            if law.scope in visitor.turn.scopes
            and law.scope.order(other.turn) < law.scope.order(visitor.turn)
            and other.waits
            and other.joined < self.events
            and other in self.next_of(other.law)
            and other.law.host.may_pace()
            and now < other.paced.scopes_until_at
            and not self.taken(other, now, but=visitor.turn)
        ]
        assert not passed, f"{visitor.number} has the scope for which {passed} waited"

    def note_start(self, visitor: Visitor) -> None:
        """Hold a start against the law."""
        law, now = visitor.law, self.now
        due_at = law.due_at(visitor.paced, ahead=visitor.turn.ahead, strictly=False)
        assert now >= due_at - GRAIN, f"{visitor.number} started at {now}, before {due_at}"
        opens_at = within(visitor.paced, now + GRAIN, ahead=visitor.turn.ahead)
        assert opens_at <= now + GRAIN, f"{visitor.number} started outside of the hours"
        assert not law.is_barred(visitor, now), f"{visitor.number} started though its origin is barred"
        assert len(law.open) <= law.slots or len(law.open) == 1, f"{len(law.open)} are open of {law.slots}"
        host = law.host
        assert host.lease is None or host.lease.is_valid(), (
            f"{visitor.number} started at another process's host"
        )
        assert not host.is_wanted or host.visits <= host.owned_visits + host.slots, (
            "a host that is wanted has more turns than slots"
        )
        if self.total is not None:
            assert now >= quota_due_at(self.starts, self.total) - GRAIN, "the total rate is exceeded"
        visitor.began_at, visitor.scopes = now, visitor.turn.scopes
        for scope in visitor.scopes:
            self.note_start_in(scope, visitor)
        law.outages.starts(visitor.number, visitor.paced.origin.text)
        law.visited(now)
        law.starts.append(now)
        self.starts.append(now)
        if host.window is not None:
            # The store is as quick as can be.
            self.scheduler.note_saved(host, host.window.tell())

    def note_start_in(self, scope: Scope, visitor: Visitor) -> None:
        """Hold a start against the law of a scope."""
        scope_law = self.scopes.get(scope)
        if scope_law is None:
            return
        what, now = f"{visitor.number} started in {scope.key}", self.now
        assert now >= scope_law.due_at() - GRAIN, f"{what} at {now}, before {scope_law.due_at()}"
        assert len(scope.held) <= scope.slots, f"{what}, where {len(scope.held)} are open"
        assert scope.lease is None or scope.lease.is_valid(), f"{what}, which is another process's"
        assert not scope.is_wanted or scope.visits <= scope.owned_visits + min(scope.slots, MOST_TURNS), (
            f"{what}, which is wanted"
        )
        scope_law.last_visit_at = now
        scope_law.starts.append(now)

    def note_refusal(self, visitor: Visitor, error: RobotGateError) -> None:
        """Hold a refusal against its cause."""
        law, paced, now = visitor.law, visitor.paced, self.now
        if isinstance(error, GateClosedError):
            assert self.is_closed
        elif isinstance(error, StoreError):
            assert self.has_failed
        elif isinstance(error, HostUnavailableError):
            is_over = False
            for strictly in (True, False):
                due_at = self.soonest_at(visitor, strictly=strictly)
                opens_at = within(paced, due_at, ahead=visitor.turn.ahead)
                is_over |= due_at < opens_at and opens_at > now + paced.options["max_block"] - GRAIN
            assert is_over or law.is_closed_to(paced, now), f"{visitor.number} was refused at {now}: {error}"
        elif visitor.max_trial is not None:
            assert isinstance(error, TooSoonError), error
            self.note_promise(visitor, now + error.retry_after, visitor.max_trial)
        else:
            assert isinstance(error, TooSoonError), error
            soonest_at = self.soonest_behind(visitor)
            assert max(soonest_at, now) >= visitor.turn.deadline_at - GRAIN, (
                f"{visitor.number} was refused at {now}, though it could start at {soonest_at}"
            )

    def note_promise(self, visitor: Visitor, at: float, max_wait: float) -> None:
        """Hold against the law when a task is told to come: not before it could start, as far as is known."""
        law, paced = visitor.law, visitor.paced
        self.promised.append((paced, at, max_wait))
        if law.host.is_ours():
            due_at = law.due_at(paced, ahead=visitor.turn.ahead, strictly=False)
            assert at >= due_at - GRAIN, f"{visitor.number} is to come at {at}, before {due_at}"
        for scope in paced.scopes:
            if scope in self.scopes and scope.is_ours():
                due_at = self.scopes[scope].due_at()
                assert at >= due_at - GRAIN, f"{visitor.number} is to come at {at}, before {due_at}"

    def soonest_at(self, visitor: Visitor, *, strictly: bool = True) -> float:
        """When a visitor that has been refused would have started, all others, slots and hours aside."""
        law, now = visitor.law, self.now
        at = max(now, law.due_at(visitor.paced, ahead=True, strictly=strictly, at_any_hour=True))
        if not strictly:
            return at
        return max(
            at, *(quota_due_at([*law.starts, *[now for _ in law.granted]], rate) for rate in law.quotas), 0.0
        )

    def soonest_behind(self, visitor: Visitor) -> float:
        """When it would have started if all others were as quick as they may."""
        law, at = visitor.law, self.soonest_at(visitor)
        if law.granted or (law.slots == 1 and law.open):
            at = max(at, self.now + law.delay)
        if self.total is not None:
            granted = sum(len(each.granted) for each in self.laws)
            at = max(at, quota_due_at([*self.starts, *[self.now] * granted], self.total))
        waiting = [other for each in self.laws for other in each.waiting]
        for scope in visitor.paced.scopes:
            if scope in self.scopes:
                at = max(at, self.scopes[scope].soonest_behind(visitor, waiting, self.now))
        at = within(visitor.paced, at, ahead=visitor.turn.ahead)
        return at + law.delay * sum(other.rank < visitor.rank for other in law.waiting)

    # What must hold when all have come to rest.

    @invariant()
    def all_is_well(self) -> None:
        """Everything that is claimed of the moments between events."""
        if self.laws:
            self.permits_and_slots_belong_to_turns()
            self.nobody_waits_without_cause()
            self.hosts_are_handed_on_without_turns()
            self.states_are_told()

    def permits_and_slots_belong_to_turns(self) -> None:
        """Nothing is left behind, and nothing is given twice."""
        held = {True: set[PacedTurn](), False: set[PacedTurn]()}
        for law in self.laws:
            mine = {visitor.turn for visitor in law.open + law.granted}
            assert set(law.host.in_slots) == mine
            assert len(law.host.in_slots) == len(mine)
            starting = [] if law.host.starting is None else [law.host.starting]
            assert starting == [visitor.turn for visitor in law.granted]
            waiting = Counter(visitor.paced for visitor in law.waiting)
            assert all(paced.waiting == waiting[paced] for paced in law.host.origins)
            for turn in mine:
                held[turn.ahead].add(turn)
            assert not any(visitor.turn.scopes for visitor in law.waiting)
        for scope in self.scopes:
            mine = {visitor.turn for visitor in self.visitors if scope in visitor.turn.scopes}
            assert scope.held == mine
            assert scope.granted == sum(turn.state is TurnState.GRANTED for turn in mine)
        pages, robots = self.bench.pages, self.bench.robots
        if pages is robots:
            held[False] |= held[True]
        assert held[False] == pages.held
        assert len(held[False]) <= pages.slots
        if pages is not robots:
            assert held[True] == robots.held
            assert len(held[True]) <= robots.slots

    def nobody_waits_without_cause(self) -> None:
        """Turns that could start have started; turns that had to be refused are refused."""
        now, self.stuck, self.held_up = self.now, [], []
        for law in self.laws:
            for visitor in law.waiting:
                late_at = max(visitor.turn.deadline_at, visitor.waits_since)
                if law.host.may_pace():
                    assert now <= late_at + STORE_TIMEOUT + TARDINESS
                if law.host.lease is None and not self.scopes:
                    assert now <= late_at + TARDINESS, f"{visitor.number} waits too long"
                assert not law.is_closed_to(visitor.paced, now), f"{visitor.number} is left to wait in vain"
            free = [visitor for visitor in self.next_of(law, since=TARDINESS) if not self.is_held_up(visitor)]
            if free:
                self.check_first(law, min(free, key=lambda visitor: visitor.rank))

    def next_of(self, law: HostLaw, *, since: float = 0.0) -> list[Visitor]:
        """The first waiter of each origin of a host, where the host has let it start for so many seconds."""
        if law.granted or len(law.open) >= law.slots:
            return []
        first: dict[PacedOrigin, Visitor] = {}
        for visitor in sorted(law.waiting, key=lambda visitor: visitor.rank):
            first.setdefault(visitor.paced, visitor)
        return [visitor for visitor in first.values() if law.could_start(visitor, self.now, since=since)]

    def taken(
        self, visitor: Visitor, now: float, *, since: float = 0.0, but: PacedTurn | None = None
    ) -> list[Scope]:
        """The scopes that hold a turn up, or that are yet to be obtained. The total rate is looked at elsewhere.

        Args:
            since, but: as `ScopeLaw.is_free`; with `but`, turns before it in any line hold it up, too.
        """
        in_line = [other for law in self.laws for other in law.waiting if but and other.turn.is_in_line]
        return [
            scope
            for scope in visitor.paced.scopes
            if scope in self.scopes
            and (
                not scope.may_pace()
                or not self.scopes[scope].is_free(visitor.turn, now, since=since, but=but)
                or any(
                    scope in other.paced.scopes and scope.order(other.turn) < scope.order(visitor.turn)
                    for other in in_line
                )
            )
        ]

    def is_held_up(self, visitor: Visitor) -> bool:
        """Whether scopes hold up a turn that its host lets start; then it is seen to that they are looked at again."""
        paced, host, work = visitor.paced, visitor.law.host, self.scheduler.work
        if host.lease is NOT_OWNED or host in work.unowned:
            # If it was handed on since the turn stands in a line, it is asked for when the scope is there.
            line = visitor.turn.in_line
            return isinstance(line, Scope) and line in self.scopes and self.is_seen_to(line, visitor)
        if paced in work.unplaced:
            return True
        # One that stands in a line finds out when it has come to its end, and then the others of its host do.
        assert self.now < paced.scopes_until_at or any(
            other.turn.is_in_line for other in visitor.law.waiting
        ), f"{visitor.number} waits for nobody"
        taken = self.taken(visitor, self.now, since=TARDINESS)
        # Those of other processes are asked for one after the other, and in time for the one that is free last.
        assert (
            not taken
            or visitor.turn.in_line in self.bench.scopes
            or any(self.is_seen_to(scope, visitor) for scope in taken)
        ), f"{visitor.number} waits for nobody"
        if len(taken) == 1:
            self.held_up.append((visitor, self.scopes[taken[0]]))
        return bool(taken)

    def is_seen_to(self, scope: Scope, visitor: Visitor) -> bool:
        """Whether a scope is asked for, or is not free for a turn yet."""
        return (
            scope in self.scheduler.work.unowned
            or scope in self.obtaining
            or (scope.is_wanted and bool(scope.held))
            or not self.scopes[scope].is_free(visitor.turn, self.now, since=TARDINESS)
        )

    def check_first(self, law: HostLaw, visitor: Visitor) -> None:
        """Only another process, a permit or the total rate may hold back the first of a host's waiters."""
        host = law.host
        permits = self.bench.robots if visitor.turn.ahead else self.bench.pages
        is_metered = self.total is not None and (
            quota_due_at(self.starts, self.total) > self.now - TARDINESS
            or any(other.granted for other in self.laws)
        )
        if is_metered or len(permits.held) >= permits.slots:
            self.stuck.append(visitor)
        elif not host.may_pace():
            is_asked_for = host in self.scheduler.work.unowned or host in self.obtaining
            assert is_asked_for or (host.is_wanted and law.open), f"{visitor.number} waits for nobody"
        else:
            raise AssertionError(f"{visitor.number} could start, and waits")

    def hosts_are_handed_on_without_turns(self) -> None:
        """A host that another process asks for leaves after a turn, or at once if no turn can use it."""
        for host in self.scheduler.work.leaving:
            assert not (host.in_slots if isinstance(host, Host) else host.held)
            self.wanted.discard(host)
        self.scheduler.work.leaving.clear()
        for law in self.laws:
            host = law.host
            if host.is_wanted and host in self.wanted and not host.in_slots:
                assert law.waiting, "no turn needs the host, and another process does"
                assert host.visits < host.owned_visits + host.slots, "a host is kept after its turns"
        for scope in self.scopes:
            if scope.is_wanted and scope in self.wanted and not scope.held:
                is_used = any(self.may_use(visitor, scope) for law in self.laws for visitor in law.waiting)
                assert is_used, f"no turn can use {scope.key} now, and another process can"
                assert scope.visits < scope.owned_visits + min(scope.slots, MOST_TURNS), (
                    "a scope is kept after its turns"
                )

    def may_use(self, visitor: Visitor, scope: Scope) -> bool:
        """Whether a turn needs a scope that this process has, and is not in want of what comes before it."""
        if visitor.turn.in_line is scope and self.scopes[scope].due_at() > self.now - TARDINESS:
            # That the lease of something else has ended is found out when the scope is ready.
            return True
        scopes = visitor.paced.scopes
        needed = [visitor.law.host, *(before for before in scopes if before.key < scope.key)]
        return scope in scopes and all(each.lease is not NOT_OWNED for each in needed)

    def states_are_told(self) -> None:
        """What is handed to a store is what happened."""
        for law in self.laws:
            state = law.host.snapshot()
            assert state.visits == len(law.starts)
            assert (-math.inf if state.last_visit_at is None else state.last_visit_at) == law.last_visit_at
            assert not law.open or law.host in self.scheduler.work.changed

    # What may happen.

    def pick_visitor(self, number: int, *states: TurnState) -> Visitor | None:
        """A visitor whose turn is in one of these states."""
        known = [visitor for visitor in self.visitors if visitor.turn.state in states]
        return pick(known, number) if known else None

    def pick_origin(self, number: int) -> PacedOrigin:
        """Any origin."""
        return pick([paced for law in self.laws for paced in law.host.origins], number)

    def law_of(self, paced: PacedOrigin) -> HostLaw:
        """The law of its host."""
        return next(law for law in self.laws if law.host is paced.host)

    @rule(
        where=picks,
        count=st.sampled_from([1, 1, 2, 4]),
        ahead=st.sampled_from([False, False, False, True]),
        priority=st.sampled_from([0, 0, 0, 1, -1]),
        max_wait=patience,
        tries_now=st.booleans(),
        dawdles=st.sampled_from([False, False, True]),
        step=st.sampled_from([0, 1]),
        moves=st.sampled_from([0, 0, 50, 5000]),
        max_trial=trials,
    )
    def arrive(
        self,
        *,
        where: int,
        count: int,
        ahead: bool,
        priority: int,
        max_wait: float | None,
        tries_now: bool,
        dawdles: bool,
        step: int = 0,
        moves: int = 0,
        max_trial: float | None = None,
    ) -> None:
        """Tasks ask for turns of one origin, or of one after the other.

        Args:
            moves: from line to line, which they have made already.
        """
        if ahead or max_wait is not None:
            max_trial = None
        for number in [where + each * step for each in range(count)]:
            paced = self.pick_origin(number)
            law = self.law_of(paced)
            self.came += 1
            turn = PacedTurn(
                paced,
                ahead=ahead,
                priority=0 if ahead or max_trial is not None else priority,
                deadline_at=math.inf if max_wait is None or ahead else self.now + max_wait,
                moves=moves,
                trial=None if max_trial is None else Trial(max_trial),
            )
            visitor = Visitor(
                number=self.came,
                law=law,
                turn=turn,
                paced=paced,
                asked_at=self.now,
                tries_now=tries_now,
                dawdles=dawdles,
                max_trial=max_trial,
            )
            law.visitors.append(visitor)
            visitor.task = self.loop.create_task(self.visit(visitor))
            visitor.task.add_done_callback(self.heed)
            self.run()

    @precondition(lambda self: self.promised)
    @rule(who=picks, late=st.sampled_from([-0.04, 0.0, 0.0, 0.0, 0.3, 3.0, 30.0]), dawdles=st.booleans())
    def come_back(self, who: int, late: float, *, dawdles: bool) -> None:
        """A task comes when it was told to, or late. Others never do."""
        told = pick(self.promised, who)
        paced, at, max_wait = told
        if at + late > self.now + 2 * DAY:
            return
        self.promised.remove(told)
        if self.now < at + late:
            self.loop.run_until_complete(asyncio.sleep(at + late - self.now))
        where = [paced for law in self.laws for paced in law.host.origins].index(paced)
        self.arrive(
            where=where,
            count=1,
            ahead=False,
            priority=0,
            max_wait=None,
            tries_now=True,
            dawdles=dawdles,
            max_trial=max_wait,
        )

    @precondition(has(TurnState.OPEN))
    @rule(who=picks, status=statuses, retry_after=retry_afters, ends=st.booleans())
    def answer(self, who: int, status: int, retry_after: float | None, *, ends: bool) -> None:
        """A server answers; the response is read at once, or is not."""
        visitor = self.pick_visitor(who, TurnState.OPEN)
        if visitor is not None:
            self.run(partial(self.note_answer, visitor, status, retry_after, ends=ends))

    def note_answer(self, visitor: Visitor, status: int, retry_after: float | None, *, ends: bool) -> None:
        """Report an answer, and hold what comes of it against what was asked."""
        law, now = visitor.law, self.now
        before = max(law.host.blocked_until_at, now)
        # The law hears first: a block's end, or a turn, may follow at once.
        law.outages.answers(visitor.paced.origin.text)
        note_answer(self.scheduler, visitor.turn, status, heard_of(status, retry_after), self.scheduler.now())
        law.blocked_until_at = law.host.blocked_until_at
        after = max(law.blocked_until_at, now)
        assert after >= before
        if status not in {429, 503}:
            assert after == before
        elif retry_after is not None:
            assert after >= now + retry_after - GRAIN
        if ends:
            visitor.leave.set()

    @precondition(has(TurnState.OPEN))
    @rule(who=picks, is_silence=st.booleans())
    def fail(self, who: int, *, is_silence: bool) -> None:
        """No server is reached, or one does not answer."""
        visitor = self.pick_visitor(who, TurnState.OPEN)
        if visitor is not None and visitor.turn.status is None:
            self.run(partial(self.note_outage, visitor, is_silence=is_silence))

    @precondition(has(TurnState.WAITING, TurnState.OPEN))
    @rule(where=picks, count=st.integers(2, 12), is_silence=st.booleans())
    def fail_in_a_row(self, where: int, count: int, *, is_silence: bool) -> None:
        """Those that wait for an origin have no luck, one after the other."""
        paced = self.pick_origin(where)
        for _ in range(count):
            mine = [each for each in self.law_of(paced).open if each.paced is paced and not each.turn.status]
            if not mine:
                return
            self.run(partial(self.note_outage, mine[0], is_silence=is_silence))
            self.loop.run_until_complete(asyncio.sleep(10.0))
            self.run()

    def note_outage(self, visitor: Visitor, *, is_silence: bool) -> None:
        """Report an outage, and hold what comes of it against the law."""
        assert visitor.began_at is not None
        before = visitor.paced.circuit
        note_outage(self.scheduler, visitor.turn, "it cannot be reached", is_silence=is_silence)
        after = visitor.paced.circuit
        assert after.retry_at >= before.retry_at
        wrong = visitor.law.outages.fails(
            visitor.paced.origin.text,
            began_at=visitor.began_at,
            at=self.now,
            retry_at=after.retry_at,
            give_up_after=visitor.paced.options["give_up_after"],
            is_silence=is_silence,
        )
        assert wrong is None, wrong
        visitor.leave.set()

    @precondition(has(TurnState.OPEN))
    @rule(who=picks, again=st.booleans())
    def end(self, who: int, *, again: bool) -> None:
        """A response has been read, or is abandoned; its visitor may ask again."""
        visitor = self.pick_visitor(who, TurnState.OPEN)
        if visitor is not None:
            visitor.asks_again = again
            visitor.leave.set()
            self.run()

    @precondition(has(TurnState.GRANTED))
    @rule(who=picks, gives_back=st.booleans())
    def go_on(self, who: int, *, gives_back: bool) -> None:
        """A granted turn begins, or is given back and waited for again."""
        visitor = self.pick_visitor(who, TurnState.GRANTED)
        if visitor is not None:
            visitor.gives_back = gives_back
            visitor.go.set()
            self.run()

    def cancel_one(self, who: int, *states: TurnState) -> None:
        """Cancel a task."""
        visitor = self.pick_visitor(who, *states)
        if visitor is not None and visitor.task is not None:
            visitor.is_cancelled = visitor.turn.state is TurnState.WAITING
            visitor.task.cancel()

    @precondition(has(TurnState.WAITING, TurnState.GRANTED, TurnState.OPEN))
    @rule(who=picks)
    def cancel(self, who: int) -> None:
        """A task is cancelled."""
        self.cancel_one(who, TurnState.WAITING, TurnState.GRANTED, TurnState.OPEN)
        self.run()

    @precondition(has(TurnState.WAITING, TurnState.GRANTED, TurnState.OPEN))
    @rule(who=picks)
    def close_one(self, who: int) -> None:
        """A task's coroutine is closed by other code, outside of the loop."""
        visitor = self.pick_visitor(who, TurnState.WAITING, TurnState.GRANTED, TurnState.OPEN)
        if visitor is not None and visitor.task is not None:
            coroutine = visitor.task.get_coro()
            assert isinstance(coroutine, Coroutine)
            self.closed.add(visitor.task)
            coroutine.close()
            visitor.task.cancel()
            self.run()

    @precondition(has(TurnState.OPEN))
    @rule(first=picks, second=picks)
    def cancel_as_a_turn_ends(self, first: int, second: int) -> None:
        """A turn ends, and in the same instant those that were granted theirs by it are cancelled."""
        visitor = self.pick_visitor(first, TurnState.OPEN)
        if visitor is not None:
            self.run(
                partial(self.end_turn, visitor),
                visitor.leave.set,
                partial(self.cancel_one, second, TurnState.GRANTED),
            )

    @rule(pause=pauses)
    def wait(self, pause: float) -> None:
        """Time passes."""
        self.loop.run_until_complete(asyncio.sleep(pause))
        self.run()

    @precondition(lambda self: any(law.waiting for law in self.laws))
    @rule(who=picks, late=st.sampled_from([-2e-3, -4e-7, 0.0, 0.0, 0.01]))
    def wait_until_due(self, who: int, late: float) -> None:
        """Time passes until a turn is due, or nearly."""
        visitor = pick([visitor for law in self.laws for visitor in law.waiting], who)
        at = visitor.law.due_at(visitor.paced, ahead=visitor.turn.ahead, strictly=True)
        if self.now < at + late < self.now + 2 * DAY:
            self.loop.run_until_complete(asyncio.sleep(at + late - self.now))
        self.run()

    @precondition(lambda self: self.total is not None and bool(self.starts))
    @rule(late=st.sampled_from([-4e-7, 0.0]))
    def wait_until_total_due(self, late: float) -> None:
        """Time passes until the total rate permits a start, or nearly."""
        at = 0.0 if self.total is None else quota_due_at(self.starts, self.total) + late
        if self.now < at:
            self.loop.run_until_complete(asyncio.sleep(at - self.now))
        self.run()

    @precondition(lambda self: any(law.outages.known for law in self.laws))
    @rule(where=picks)
    def wait_until_tried_again(self, where: int) -> None:
        """Time passes until an origin that could not be reached may be tried."""
        at = pick([law.outages.retry_at(origin) for law in self.laws for origin in law.outages.known], where)
        if self.now < at:
            self.loop.run_until_complete(asyncio.sleep(at - self.now))
        self.run()

    @rule(where=picks, given=options, keeps=st.booleans())
    def change_options(self, where: int, given: HostOptions, *, keeps: bool) -> None:
        """The operator wants other options."""
        paced = self.pick_origin(where)
        paced.options = given | HostOptions(rate=paced.options["rate"]) if keeps else given
        self.law_of(paced).note_quotas()
        self.run(partial(self.scheduler.update_limits, paced.host))

    @rule(where=picks, asks=asked)
    def learn(self, where: int, asks: Asked) -> None:
        """A robots.txt asks for something else."""
        paced = self.pick_origin(where)
        paced.asked = asks
        self.run(partial(self.scheduler.update_limits, paced.host))

    @rule(where=picks, seconds=st.sampled_from([0.0, 0.0, 3.0, 200.0, math.inf]))
    def leave_alone(self, where: int, seconds: float) -> None:
        """The operator blocks an origin, or lifts the block."""
        paced = self.pick_origin(where)
        paced.operator_until_at = self.now + seconds if seconds else 0.0
        self.run(partial(self.scheduler.reconsider, paced.host))

    @precondition(lambda self: self.scopes)
    @rule(where=picks, which=picks, when=st.sampled_from(["now", "now", "later"]))
    def move(self, where: int, which: int, *, when: str) -> None:
        """An origin has other scopes, or is found to have, when a turn needs them."""
        paced = self.pick_origin(where)
        if when == "later":
            paced.scopes_until_at = -math.inf
        else:
            self.scheduler.work.unplaced.discard(paced)
            until_at = math.inf if which % 3 else self.now + 5.0
            self.run(partial(self.scheduler.place, paced, self.some_scopes(which), until_at))

    @precondition(lambda self: self.scheduler.work.unplaced)
    @rule(which=picks)
    def find(self, which: int) -> None:
        """The scopes that turns wait for are looked up."""
        for paced in sorted(self.scheduler.work.unplaced, key=lambda paced: paced.origin.text):
            self.scheduler.work.unplaced.discard(paced)
            self.run(partial(self.scheduler.place, paced, self.some_scopes(which), math.inf))

    @rule(where=picks, late=st.booleans())
    def want(self, where: int, *, late: bool) -> None:
        """Another process asks for a host, or has it already because a lease has ended."""
        known: list[Host | Scope] = [*(law.host for law in self.laws), *self.scopes]
        host = pick(known, where)
        if host.lease is None or host.lease is NOT_OWNED:
            return
        if late and isinstance(host.lease, OwnLease):
            host.lease.valid = False
        else:
            self.wanted.add(host)
            self.run(partial(self.scheduler.note_wanted, host))

    @precondition(lambda self: self.scheduler.work.unowned)
    @rule()
    def take_unowned(self) -> None:
        """The store is asked for the hosts that are to be obtained."""
        for host in self.scheduler.work.unowned:
            if not host.may_pace():
                host.lease = NOT_OWNED
                self.obtaining.add(host)
        self.scheduler.work.unowned.clear()

    @precondition(lambda self: self.obtaining)
    @rule(
        where=picks,
        not_before=st.sampled_from([0.0, 0.0, 2.0, 20.0]),
        fails=st.sampled_from([False] * 4 + [True]),
        is_wanted=st.booleans(),
    )
    def obtain(self, where: int, not_before: float, *, fails: bool, is_wanted: bool) -> None:
        """The store hands a host over, or cannot."""
        host = pick(sorted(self.obtaining, key=lambda host: host.key), where)
        self.obtaining.discard(host)
        self.scheduler.work.unowned.discard(host)
        law = (
            self.scopes[host]
            if isinstance(host, Scope)
            else next(law for law in self.laws if law.host is host)
        )
        if fails:
            self.has_failed = True
            self.run(partial(self.scheduler.refuse_all, host, StoreError("it is gone")))
            self.has_failed = False
            return
        law.promised_at = max(law.promised_at, self.now + not_before)
        host.next_allowed_at = max(host.next_allowed_at, self.now + not_before)
        host.lease = OwnLease()
        wants = [partial(self.scheduler.note_wanted, host)] if is_wanted else []
        self.wanted.update({host} if is_wanted else ())
        self.run(partial(self.scheduler.own, host), *wants)

    @rule(where=picks)
    def set_aside(self, where: int) -> None:
        """A host that no turn uses is packed, and comes back as it was."""
        law, work = pick(self.laws, where), self.scheduler.work
        before = law.host
        if law.visitors or before.is_wanted or before in self.obtaining or before in work.unowned:
            return
        if before.limiter is not None and before.last_visit_at + before.delay > self.now:
            return
        paced = {site.origin: site for site in before.origins}

        def new_site(origin: Origin, host: Host) -> Site:
            site = Site(origin, host, paced[origin].options, key=origin.text)
            site.operator_until_at = paced[origin].operator_until_at
            site.enter(paced[origin].scopes, paced[origin].scopes_until_at)
            host.origins += (site,)
            return site

        host = law.host = unpack_host(before.key, pack_host(before), new_site)
        self.scheduler.hosts[host.key] = host
        if before in work.changed:
            work.changed.remove(before)
            work.changed.add(host)
        self.run(partial(self.scheduler.update_limits, host))
        self.promised = [
            (next((each for each in host.origins if each.origin == place.origin), place), at, max_wait)
            for place, at, max_wait in self.promised
        ]
        pairs = [(before, host, Host), *((paced[site.origin], site, Site) for site in host.origins)]
        for one, other, kind in pairs:
            for kept in {each.name for each in fields(kind)} - {"host", "origins", "limiter"}:
                assert getattr(other, kept) == getattr(one, kept), kept

    # The end.

    def teardown(self) -> None:
        """All tasks leave; then every host can be visited again, with its full concurrency."""
        try:
            if self.laws and not self.errors:
                self.come_to_an_end()
        finally:
            tasks = [visitor.task for visitor in self.visitors if visitor.task is not None]
            for task in tasks:
                task.cancel()
            if tasks:
                self.loop.run_until_complete(asyncio.wait(tasks))
            self.loop.close()

    def come_to_an_end(self) -> None:
        """All tasks leave; later ones get turns; closing refuses the rest."""
        for visitor in self.visitors:
            if visitor.task is not None:
                visitor.is_cancelled = True
                visitor.task.cancel()
        self.run()
        assert self.visitors == []
        self.permits_and_slots_belong_to_turns()
        assert not any(scope.first() for scope in self.scopes)
        for scope in self.scopes:
            scope.lease, scope.is_wanted = None, False
        for law in self.laws:
            law.host.lease = None
            law.host.is_wanted = False
            for paced in law.host.origins:
                paced.operator_until_at, paced.scopes_until_at = 0.0, math.inf
                paced.options = OPTIONS | HostOptions(delay=paced.options["delay"], concurrency_per_host=9)
            law.note_quotas()
            self.run(partial(self.scheduler.update_limits, law.host))
        self.wait(2 * DAY)
        for number in range(sum(len(law.host.origins) for law in self.laws)):
            self.arrive(
                where=number, count=1, ahead=True, priority=0, max_wait=None, tries_now=False, dawdles=False
            )
            self.wait(60.0)
            assert len(self.visitors) == 1
            self.end(0, again=False)
        for paced in [paced for law in self.laws for paced in law.host.origins]:
            paced.enter(self.bench.scopes)
        self.arrive(where=0, count=6, ahead=True, priority=0, max_wait=None, tries_now=False, dawdles=True)
        self.is_closed = True
        self.scheduler.close()
        for visitor in self.visitors:
            visitor.go.set()
        self.run()
        assert all(visitor.turn.state is TurnState.OPEN for visitor in self.visitors)
        for visitor in self.visitors:
            visitor.leave.set()
        self.run()
        self.permits_and_slots_belong_to_turns()
        assert not self.bench.pages.held
        assert not self.bench.robots.held
        assert not any(scope.held or scope.granted or scope.first() for scope in self.scopes)


TestScheduler = SchedulerMachine.TestCase
TestScheduler.settings = settings(
    max_examples=settings().max_examples * 4 // 5,
    stateful_step_count=100,
    suppress_health_check=list(HealthCheck),
)
