"""Which waiting turn is granted next, over all hosts, with one timer.

A turn is granted when everything it needs is there: its host's slot and instant, its quota, the slots and instants of
its scopes, and a permit. No turn holds a host while it waits for a scope or a permit: it stands in a line of theirs.
"""

from __future__ import annotations

import asyncio
import math
from asyncio import _get_running_loop
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final, cast

from robotgate.errors import EventLoopError, GateClosedError, StoreError, TooSoonError
from robotgate.pace.alarms import Alarms
from robotgate.pace.budget import SAVED_PAGES, exceeded, renewed_at
from robotgate.pace.host import Host, PacedOrigin, PacedTurn, nested_error
from robotgate.pace.lease import NOT_OWNED
from robotgate.pace.promises import LATEST
from robotgate.pace.scope import Scope, holds_back, keep
from robotgate.pace.shares import STEP, Share, SharedTotal
from robotgate.pace.state import CLOCK_GRAIN, MIN_RETRY_AFTER
from robotgate.pace.timer import is_running
from robotgate.pace.trying import needed, note_end, promised, refusal
from robotgate.pace.turn import (
    ABANDON,
    BEGIN,
    END,
    GIVE_BACK,
    GRANT,
    GRANTED,
    LEAVE,
    NEW,
    OPEN,
    START,
    WAIT,
    WAITING,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from robotgate.errors import BudgetExceededError, NestedTurnError, RobotGateError
    from robotgate.events import Events
    from robotgate.pace.store_work import StoreWork
    from robotgate.pace.turn import Move, Permits, Places


LIMITER_RETRY_DELAY: Final = 0.001
"""Seconds between looks at a limiter that has no token though the instant has come."""
STORE_TIMEOUT: Final = 1.0
"""Seconds that a store may take to answer, although the caller would wait no longer for its turn."""
KEPT: Final = 0.05
"""Seconds for which a host is kept for a turn that was promised the next place."""


def _nobody(_key: str) -> None:
    """Return that no host is set aside."""


@dataclass(slots=True, eq=False)
class Totals:
    """What a gate has done since it was made, over all hosts that it ever knew."""

    visits: int = 0
    """Turns that began, robots.txt included."""
    robots_requests: int = 0
    """Those for robots.txt."""
    bytes_read: int = 0
    """By turns that have ended."""
    refused: int = 0
    """Turns that rules refused: the event `VerdictRefused`."""
    turned_away: int = 0
    """Turns that were refused for another reason: the event `TurnRefused`."""
    told_off: int = 0
    """Answers that said we were too fast."""
    malformed: int = 0
    """Header fields about our speed that could not be read."""


@dataclass(slots=True, eq=False, repr=False, kw_only=True)
class Scheduler:
    """Grants turns."""

    ticks: Callable[[], float]
    epoch: float
    """`ticks` and `epoch` add up to the time, in seconds since the epoch. It never goes backwards."""
    places: Places
    max_slots: int | None
    """Connections that the connector opens to one host at most; None: no such limit."""
    events: Events
    """Gets blocks and recoveries."""
    work: StoreWork
    loop: asyncio.AbstractEventLoop | None = None
    """That of the gate, once it is open. To look for the running one takes a system call in Python 3.11."""
    hosts: dict[str, Host] = field(default_factory=dict)
    scopes: dict[str, Scope] = field(default_factory=dict)
    wake: Callable[[str], Host | None] = _nobody
    """Returns the host of a pace key, which is among `hosts` from then on, if it was set aside because it was idle."""
    shared: SharedTotal | None = None
    """The total of a fleet."""
    totals: Totals = field(default_factory=Totals)
    _kept: set[str] | None = None
    """Hosts and scopes that others want, while the store is lost; None: it is not."""
    _arrivals: Iterator[int] = field(default_factory=partial(count, 1))
    _is_closed: bool = False
    _alarms: Alarms = field(init=False)

    def __post_init__(self) -> None:
        self._alarms = Alarms(self._ring)

    def now(self) -> float:
        """Return the seconds since the epoch."""
        return self.ticks() + self.epoch

    def check_loop(self) -> None:
        """Check that the gate's event loop runs here: asyncio's objects wake tasks of their own loop alone.

        A gate that was never opened has none; whoever asks it for something is told that.

        Raises:
            EventLoopError: another one does, or none.
        """
        if _get_running_loop() is not self.loop and self.loop is not None:
            raise EventLoopError(
                "this gate was opened in another event loop: open one in each, or use `gate.threadsafe` in threads"
            )

    # Asking for a turn.

    def try_begin(self, turn: PacedTurn, now: float) -> bool:
        """Begin a turn at once if its host is due, no turn waits, and a permit is free. Return whether it began."""
        paced = turn.paced
        host = paced.host
        permits = self.places.robots if turn.ahead else self.places.pages
        if (
            turn.trial is not None
            or len(host.in_slots) >= host.slots
            or host.starting is not None
            or host.earliest_start(paced, now, turn.ahead) - now > CLOCK_GRAIN
            or (host.waiting_origins and host.has_waiters())
            or (host.lease is not None and not host.may_pace())
            or len(permits.held) >= permits.slots
            or (paced.probe is not None and paced.is_probed(now))
            or (host.limiter is not None and not host.limiter.has_capacity())
            or now >= paced.scopes_until_at
            or (paced.scopes and holds_back(paced.scopes, turn, now) is not None)
            or ((host.budget is not None or paced.spenders) and self._is_beyond_budget(turn, now))
            or permits.line
            or self._is_closed
            or self.work.save_error is not None
        ):
            return False
        if not turn.arrival:
            turn.arrival = next(self._arrivals)
        turn.holder = asyncio.current_task(self.loop)
        self.places.move(turn, BEGIN)
        self._start(turn, host, now)
        return True

    async def wait(self, turn: PacedTurn) -> None:
        """Wait until a turn is granted. `begin_granted` begins it; `give_back` leaves it to the next.

        Raises:
            TooSoonError: it would be granted after its deadline, or its place has not come.
            HostUnavailableError: the origin is given up, or is blocked for longer than `max_block`.
            BudgetExceededError: it is beyond a budget.
            NestedTurnError: this task holds what the turn would wait for.
            GateClosedError: the scheduler was closed.
            StoreError: the host's state cannot be loaded.
        """
        granted = self._join(turn, self.now())
        try:
            await granted
        except asyncio.CancelledError:
            self._withdraw(turn, granted)
            raise
        except GeneratorExit:
            # The coroutine was closed or dropped: by any code, in any thread, perhaps when the loop has ended.
            loop = granted.get_loop()
            if is_running(loop):
                self._withdraw(turn, granted)
            elif not loop.is_closed():
                loop.call_soon_threadsafe(self._withdraw, turn, granted)
            raise

    def _withdraw(self, turn: PacedTurn, granted: asyncio.Future[None]) -> None:
        """Give back the place of a turn that nobody waits for any more, whether it was granted meanwhile or not."""
        if turn.granted is not granted:
            return
        # A task whose coroutine was closed still waits for it.
        granted.cancel()
        if turn.state is WAITING:
            self._stop_waiting(turn, LEAVE)
            # The host's next turn may need another permit, and a wanted host may be handed on.
            self.dispatch(turn.paced.host, self.now())
        self.give_back(turn)

    def begin_granted(self, turn: PacedTurn) -> bool:
        """Start a granted turn, or give it back and return False if it may not start now after all."""
        paced, now = turn.paced, self.now()
        if self._is_closed:
            self.give_back(turn)
            raise GateClosedError
        host, scopes = paced.host, turn.scopes
        if (
            host.earliest_start(paced, now, turn.ahead, True) - now > CLOCK_GRAIN
            # The turn itself is among them.
            or len(host.in_slots) > host.slots
            or (host.lease is not None and not host.may_pace())
            or (scopes and not all([scope.may_start(now) for scope in scopes]))  # noqa: C419  # It is quicker.
            or ((host.budget is not None or paced.spenders) and self._is_beyond_budget(turn, now))
        ):
            # A block, a lower limit, the end of the hours, of the lease or of a budget came between.
            self.give_back(turn)
            return False
        self.places.move(turn, START)
        self._start(turn, host, now)
        if host.waiting_origins and (len(host.in_slots) < host.slots or host.budget is not None):
            self.dispatch(host, now)
        for scope in scopes:
            if len(scope.held) < scope.slots:
                self.serve(scope, now)
        if self.shared is not None:
            self._hand_shares_on(self.shared, now)
        return True

    def _start(self, turn: PacedTurn, host: Host, now: float) -> None:
        """Count a turn whose request is sent now."""
        host.begin(turn, now)
        self.totals.visits += 1
        if turn.ahead:
            self.totals.robots_requests += 1
        if host.limiter is not None:
            # The token is there: the coroutine ends with its first step.
            with suppress(StopIteration):
                host.limiter.acquire().send(None)
        if self.work.has_store:
            self.work.note_change(host)
            if _is_urgent(host):
                self.work.is_urgent.set()
        for scope in turn.scopes:
            changed = scope.begin(now, is_page=not turn.ahead)
            if scope.budget is not None:
                self._refuse_if_spent(scope, now)
            if changed.is_kept:
                self.work.note_change(changed)
                if _is_urgent(changed):
                    self.work.is_urgent.set()

    def check_budget(self, paced: PacedOrigin, now: float) -> None:
        """Check that a page of an origin may be requested.

        Raises:
            BudgetExceededError: the budget of its host, or of a scope, is used up.
        """
        error = self._beyond_budget(paced, now)
        if error is not None:
            raise error

    def _beyond_budget(self, paced: PacedOrigin, now: float) -> BudgetExceededError | None:
        for scope in paced.spenders:
            if scope.budget is not None and (at := scope.renewed_at(now)) > now:
                return exceeded(scope.budget, scope.name, at - now)
        host = paced.host
        if host.budget is not None and (at := renewed_at(host, now)) > now:
            return exceeded(host.budget, host.key, at - now)
        return None

    def _is_beyond_budget(self, turn: PacedTurn, now: float) -> bool:
        return not turn.ahead and self._beyond_budget(turn.paced, now) is not None

    def _refuse_if_spent(self, scope: Scope, now: float) -> None:
        """Refuse the pages that wait for any host if the budget of a scope of theirs is used up."""
        if self.places.waiting and scope.renewed_at(now) > now:
            for host in self.hosts.values():
                if any(scope in paced.spenders for paced in host.waiting_origins):
                    # Another process may want the host.
                    self.reconsider(host)

    def nested(self, turn: PacedTurn, task: asyncio.Task[object] | None) -> NestedTurnError | None:
        """Return the error for a task that waits for a turn which only this task itself can make possible."""
        paced = turn.paced
        if paced.host.is_held_by(task):
            return nested_error(paced.host.key)
        for scope in paced.scopes:
            if scope.is_held_by(task):
                return nested_error(scope.name)
        return nested_error() if self.places.permits(turn).is_held_by(task) else None

    def give_back(self, turn: PacedTurn) -> None:
        """Leave a granted turn to the next. Waiting again keeps its place in the order of arrival."""
        if turn.state is GRANTED:
            scopes = turn.scopes
            self.places.move(turn, GIVE_BACK)
            self._go_on(turn.paced.host, scopes)

    def end(self, turn: PacedTurn, now: float) -> bool:
        """Record that a turn's response has ended, or that its request is abandoned. Return whether it was open."""
        if turn.state is not OPEN:
            if turn.state is WAITING:
                self._refuse(turn, RuntimeError("the turn was ended while a task waited for it"))
            self.give_back(turn)
            if turn.state is NEW:
                self.places.move(turn, ABANDON)
            return False
        scopes = turn.scopes
        self.places.move(turn, END)
        host = turn.paced.host
        if turn.trial is not None:
            note_end(turn.trial, turn, now)
        was_probe = host.end(turn, now)
        self.totals.bytes_read += turn.bytes_read
        for scope in scopes:
            changed = scope.end(turn.bytes_read, now)
            if scope.budget is not None:
                self._refuse_if_spent(scope, now)
            if changed.is_kept:
                self.work.note_change(changed)
        if self.work.has_store:
            self.work.note_change(host)
        permits = self.places.robots if turn.ahead else self.places.pages
        if host.waiting_origins or was_probe or host.is_wanted or permits.line or scopes:
            self._go_on(host, scopes)
        return True

    def _go_on(self, host: Host, scopes: tuple[Scope, ...]) -> None:
        """Grant what may start now that a turn has left its places."""
        loop = self.loop
        if loop is None or is_running(loop):
            now = self.now()
            self.dispatch(host, now)
            for scope in scopes:
                self.serve(scope, now)
            self._serve_permits(now)
            if self.shared is not None:
                self._hand_shares_on(self.shared, now)
        elif not loop.is_closed():
            # Its coroutine was closed from outside.
            loop.call_soon_threadsafe(self._go_on, host, scopes)

    def _join(self, turn: PacedTurn, now: float) -> asyncio.Future[None]:
        paced = turn.paced
        if self._is_closed:
            raise GateClosedError
        host, task = paced.host, asyncio.current_task(self.loop)
        if host.is_held_by(task):
            raise nested_error(host.key)
        if self.work.save_error is not None:
            raise StoreError(str(self.work.save_error))
        if (host.budget is not None or paced.spenders) and not turn.ahead:
            self.check_budget(paced, now)
        unavailable = host.unavailable(paced, now, ahead=turn.ahead)
        if unavailable is not None:
            raise unavailable
        if not turn.arrival:
            turn.arrival = next(self._arrivals)
        turn.holder = task
        owned = host.may_pace()
        if turn.trial is not None:
            turn.deadline_at = min(turn.deadline_at, now + turn.trial.max_wait)
            owned = host.is_ours()
        if turn.deadline_at < math.inf:
            if (error := self._lateness(turn, now)) is not None:
                self._offer(turn, now)
                raise error
            refused_at = turn.deadline_at if owned else max(turn.deadline_at, now + STORE_TIMEOUT)
            self._alarms.refuse_at(refused_at, turn, now)
        turn.granted = granted = (self.loop or asyncio.get_running_loop()).create_future()
        self.places.move(turn, WAIT)
        self._offer(turn, now)
        self.dispatch(host, now)
        return granted

    def _lateness(self, turn: PacedTurn, now: float) -> TooSoonError | None:
        """Return the error for a turn that would start after its deadline; None if it may be in time."""
        if turn.trial is not None:
            return refusal(turn, turn.trial, now)
        paced = turn.paced
        if paced.host.may_pace():
            start_at = paced.host.start_behind(turn, now)
            for scope in paced.scopes:
                start_at = max(start_at, scope.start_behind(turn, now))
        else:
            # All else may be different by now.
            start_at = paced.host.quota_due_at(now)
        # The clock may have gone on since the deadline was set: a turn that is due now is in time.
        is_late = start_at - max(turn.deadline_at, now) > CLOCK_GRAIN
        return TooSoonError(paced.host.key, start_at - now) if is_late else None

    def _look_at_places(self, turns: Iterable[PacedTurn], now: float) -> None:
        """Refuse those that would start too late, by what is known now and was not when they came."""
        # In their order: a refused turn does not count against later ones.
        turns = sorted(turns, key=lambda turn: turn.rank)
        for turn in turns:
            error = self._lateness(turn, now)
            if error is not None:
                self._refuse(turn, error)
            else:
                self._alarms.refuse_at(turn.deadline_at, turn, now)
        for turn in turns:
            self._offer(turn, now)

    def _offer(self, turn: PacedTurn, now: float) -> None:
        """Have what a tried turn needs handed on as soon as it is not used here: now, if the turn was refused.

        Where a process tries turns, others do so at any time, and each of them waits until it is told its place.
        """
        if turn.trial is None or self._kept is not None:
            return
        for each in needed(turn):
            if each.lease is None or each.lease is NOT_OWNED:
                continue
            each.is_wanted = True
            if turn.state is not NEW:
                continue
            if isinstance(each, Scope):
                self.serve(each, now)
            else:
                self.dispatch(each, now)

    def _stop_waiting(self, turn: PacedTurn, move: Move) -> None:
        """A turn does not wait any more."""
        line = turn.in_line
        self.places.move(turn, move)
        host = turn.paced.host
        if not host.waiting_origins:
            host.wake_at = math.inf
        if not self.places.waiting:
            self._alarms.clear()
        if line is not None and move is LEAVE:
            self._hand_on_unused((line, *turn.paced.scopes))
            if self.shared is not None:
                self._hand_shares_on(self.shared, self.now())

    # Granting turns.

    def dispatch(self, host: Host, now: float) -> None:  # noqa: C901, PLR0912  # The cases of one look at a host.
        """Grant a host's turns as far as they may start now, and see to it that the host is looked at again.

        It is looked at until it has no free slot, a turn is starting, or one of these cases holds:

        1. The host's state has not been loaded, or another process paces it: it is asked for if turns wait, and if its
           quota, as far as it is known here, lets one start.
        2. No turn of the host may start yet, or none waits that may be let go: the timer or an event looks again.
        3. Scopes hold turns back whose host's instant has come: they stand in the lines of these scopes.
        4. The first turn may not start yet. If a quota, an outage or hours of its own hold it back, another process may
           use the host meanwhile. Of a host that another process wants, it may be the delay. Where the turn was
           promised its place, other processes may admit turns behind it.
        5. The limiter has no token yet.
        6. No permit is free, or another host's turn is before it: the turn stands in the line for permits, and another
           process may use the host meanwhile.
        7. The turn is granted. The next one is looked at when it has begun, or was given back.
        """
        if host.has_hours or host.budget is not None:
            # The budget of a scope is seen to where it is counted: `_refuse_if_spent`.
            self.refuse_unavailable(host, now)
        while host.starting is None and len(host.in_slots) < host.slots:
            if host.is_wanted and not (host.has_waiters() and host.may_pace()):
                self._hand_on_if_wanted(host)
            if host.lease is not None and not host.may_pace():  # 1.
                if host.has_waiters() and not host.is_wanted:
                    due_at = host.quota_due_at(now)
                    if due_at - now > CLOCK_GRAIN:
                        self._alarms.look_at(host, due_at, now)
                    else:
                        self.work.obtain(host)
                return
            host_due_at = host.shared_due_at()
            if host.waiting_origins and host_due_at - now > CLOCK_GRAIN and not host.is_wanted:  # 2.
                # No turn of any origin starts earlier: which one is next need not be known before.
                self._alarms.look_at(host, host_due_at, now)
                return
            held_back: list[tuple[Scope | None, PacedTurn]] = []
            found = host.next_turn(now, held_back)
            if held_back and self._stand_in_lines(held_back, now):  # 3.
                continue
            if found is None:  # 2.
                return
            at, _, turn = found
            if at > now:  # 4.
                self._alarms.look_at(host, at, now)
                if at - host_due_at > CLOCK_GRAIN or (turn.trial is not None and at - now > KEPT):
                    self._hand_on_if_wanted(host)
                return
            if host.limiter is not None and not host.limiter.has_capacity():  # 5.
                self._alarms.look_at(host, now + LIMITER_RETRY_DELAY, now)
                return
            permits = self.places.permits(turn)
            if len(permits.held) >= permits.slots or permits.comes_before(turn):  # 6.
                if permits.is_held_by(turn.holder):
                    self._refuse(turn, nested_error())
                    continue
                self._join_line(turn, permits)
                if permits is self.places.pages:
                    self._wait_for_places(now)
                self._hand_on_if_wanted(host)
                return
            self._stop_waiting(turn, GRANT)  # 7.
            if turn.granted is not None:
                turn.granted.set_result(None)

    def _stand_in_lines(self, held_back: list[tuple[Scope | None, PacedTurn]], now: float) -> bool:
        """Have turns stand in the lines of the scopes that hold them back, of each line the one that ranks first.

        Returns:
            whether any was refused instead, because it would wait for its own task.
        """
        first: dict[Scope, PacedTurn] = {}
        has_refused = False
        for scope, turn in held_back:
            if scope is None:
                self.work.locate(turn.paced)
            elif scope.is_held_by(turn.holder):
                self._refuse(turn, nested_error(scope.name))
                has_refused = True
            elif scope not in first or turn.rank < first[scope].rank:
                first[scope] = turn
        for scope, turn in first.items():
            self._join_line(turn, scope)
            # Behind others, it changes nothing for them. A fleet's total may need a further share for it.
            if (ahead := _first(scope)) is turn or scope is self.shared:
                self._look_again(scope, ahead or turn, now)
        return has_refused

    def _join_line(self, turn: PacedTurn, line: Permits) -> None:
        """Have a turn stand in a line; that which it leaves for it may be of no use here any more."""
        left = turn.in_line
        line.join(turn)
        if left is not None and left is not line:
            self._hand_on_unused((left,))

    def look_at(self, host: Host | Scope, now: float) -> None:
        """Grant the turns of a host or a scope that may start now, and see to it that it is looked at again."""
        if isinstance(host, Host):
            self.dispatch(host, now)
        elif isinstance(host, Share):
            if self.shared is not None:
                self._hand_shares_on(self.shared, now)
        else:
            self.serve(host, now)
            if host is self.shared:
                self._serve_permits(now)

    def _look_again(self, scope: Scope, first: PacedTurn, now: float) -> bool:
        """See to it that a scope in whose line turns stand is looked at again. Return whether it is ready now.

        1. Another process paces it, or its state is not known: it is asked for.
        2. It is not ready yet, or kept for a turn that stands in another line: the timer looks again. Where a turn has
           to begin or end before it is ready, that looks again.
        """
        if scope.lease is not None and not scope.may_pace():  # 1.
            self._hand_on_if_wanted(scope)
            if not scope.is_wanted:
                # It has been handed on just now, or was not ours: this process stands in line for it.
                self.work.obtain(scope)
            return False
        at = scope.due_at(now)
        if scope.kept_for is not None and scope.is_kept_from(first, now):
            at = max(at, scope.kept_until_at)
        if at - now > CLOCK_GRAIN:  # 2.
            if scope is self.shared:
                at = min(at, self._ask_for_shares(now))
            if at < math.inf:
                self._alarms.look_at(scope, at, now)
                if first.trial is not None and at - now > KEPT:
                    self._hand_on_if_wanted(scope)
            return False
        return True

    # The shares of a fleet's total.

    def _ask_for_shares(self, now: float) -> float:
        """Ask for further shares of the total, for which a turn waits. Return when to do so again."""
        if self.shared is None:
            return math.inf
        for share in self.shared.asks(now):
            self.work.obtain(share)
        return self.shared.asks_at if self.shared.asks_at - now > CLOCK_GRAIN else math.inf

    def _wait_for_places(self, now: float) -> None:
        """A turn waits for a permit that a further share would have."""
        at = self._ask_for_shares(now)
        if self.shared is not None and at < self.shared.wake_at:
            self._alarms.look_at(self.shared, at, now)

    def is_useless(self, share: Share) -> bool:
        """Return whether a share need not be obtained, because its budget is used up; then another is asked for."""
        shared, now = self.shared, self.now()
        if shared is None:
            return False
        self._refuse_if_spent(shared, now)
        if shared.is_of_use(share, now):
            return False
        shared.fail(share, now)
        self.look_at(shared, now)
        return True

    def _hand_shares_on(self, shared: SharedTotal, now: float) -> None:
        """Hand those on that others want, and that this process has had for long enough or has no use for."""
        leaving, later = shared.handed_on(now)
        for share, at in later:
            self._alarms.look_at(share, at, now)
        for share in leaving:
            self._hand_on_if_wanted(share)

    def serve(self, scope: Scope, now: float) -> None:
        """Look at the turns in a scope's line, the first in front, until one has taken it or none is left."""
        # Where all its slots are taken, the end of a turn looks again.
        while scope.line and len(scope.held) < scope.slots and (turn := _first(scope)) is not None:
            if not self._look_again(scope, turn, now):
                return
            turn.in_line = None
            paced = turn.paced
            self.dispatch(paced.host, now)
            if turn.is_in_line and len(paced.scopes) > 1:
                until_at = keep(turn, paced.scopes, scope, now)
                if until_at is not None:
                    for kept in paced.scopes:
                        if (first := _first(kept)) is not None:
                            self._look_again(kept, first, now)
        if scope.is_wanted:
            self._hand_on_unused((scope,))

    def _hand_on_unused(self, lines: Iterable[Permits]) -> None:
        """Hand on those scopes that another process asks for, and that no turn here can use now."""
        for scope in lines:
            if (
                isinstance(scope, Scope)
                and scope.is_wanted
                and _first(scope) is None
                and not self._is_needed(scope)
            ):
                self._hand_on_if_wanted(scope)

    def _is_needed(self, scope: Scope) -> bool:
        """Return whether a turn here is first in line for another scope, which it has to obtain after this one.

        This one is kept for it then, while its host is here. For one that is obtained before it, it is not: two
        processes could each keep what the other waits for.
        """
        for other in self.scopes.values():
            if other.lease is NOT_OWNED and (turn := _first(other)) is not None:
                scopes = turn.paced.scopes
                has_host = turn.paced.host.lease is not NOT_OWNED
                if has_host and other in scopes and scope in scopes[: scopes.index(other)]:
                    return True
        return False

    def _serve_permits(self, now: float) -> None:
        """Give free permits to the turns that wait for them, in the order of their arrival."""
        for permits in (self.places.robots, self.places.pages):
            while (
                permits.line and len(permits.held) < permits.slots and (turn := _first(permits)) is not None
            ):
                turn.in_line = None
                self.dispatch(turn.paced.host, now)
        if self.shared is not None and self.places.pages.first() is not None:
            self._wait_for_places(now)

    def _ring(self) -> None:
        """The timer fired: look at what is due, refuse late turns, and set the timer anew."""
        now = self.now()
        due, late = self._alarms.due(now)
        for each in due:
            self.look_at(each, now)
        self._serve_permits(now)
        self._refuse_late(late, now)
        self._alarms.set_timer(self.now())

    # Refusing turns.

    def _refuse_late(self, late: Iterable[PacedTurn], now: float) -> None:
        """Refuse the turns whose deadline is now, but for those that a store or a look-up has yet to answer for."""
        # A turn that could start at its very deadline has been granted.
        for turn in late:
            if turn.state is WAITING:
                paced, host = turn.paced, turn.paced.host
                has_scopes = _has_scopes(paced, now)
                if turn.deadline_at + STORE_TIMEOUT > now and not has_scopes:
                    self._alarms.refuse_at(turn.deadline_at + STORE_TIMEOUT, turn, now)
                    continue
                if self.work.lost is not None and not (host.may_pace() and has_scopes):
                    error: Exception = StoreError(str(self.work.lost))
                elif turn.trial is not None:
                    error = promised(turn, turn.trial, now)
                else:
                    wait = self.wait_time(paced) or max(host.delay, MIN_RETRY_AFTER)
                    error = TooSoonError(host.key, wait)
                self._refuse(turn, error)
                self.dispatch(host, now)

    def _refuse(self, turn: PacedTurn, error: Exception) -> None:
        self._stop_waiting(turn, LEAVE)
        if turn.granted is not None and not turn.granted.done():
            # A copy: each task that waits adds its own frames.
            turn.granted.set_exception(copy(error))

    def refuse_unavailable(self, host: Host, now: float) -> None:
        """Refuse the waiting turns of a host that is given up, blocked for too long, or beyond a budget."""
        for paced in host.waiting_origins:
            # Whatever refuses a robots.txt refuses pages, too; a budget and Visit-time refuse pages only.
            of_pages = self._beyond_budget(paced, now) or host.unavailable(paced, now, ahead=False)
            of_robots = host.unavailable(paced, now, ahead=True)
            for turn in paced.all_waiting() if of_pages or of_robots else ():
                if (error := of_robots if turn.ahead else of_pages) is not None:
                    self._refuse(turn, error)

    def refuse_all(self, host: Host | Scope, error: RobotGateError) -> None:
        """Refuse the turns that wait for a host or need a scope, such as one whose state cannot be loaded."""
        if isinstance(host, Share) and self.shared is not None:
            if self.shared.fail(host, self.now() + STEP):
                return
            host = self.shared
        hosts = self.hosts.values() if isinstance(host, Scope) else [host]
        for each in hosts:
            for paced in each.waiting_origins:
                if each is host or host in paced.scopes:
                    for turn in paced.all_waiting():
                        self._refuse(turn, error)
            if each is not host and not each.waiting_origins:
                self._hand_on_if_wanted(each)

    def fail(self, error: StoreError) -> None:
        """Refuse all turns: states cannot be saved, so that a crash would forget visits."""
        self.work.save_error = error
        for host in self.hosts.values():
            self.refuse_all(host, error)

    def wait_time(self, paced: PacedOrigin) -> float:
        """Return the seconds until the next turn of a page of an origin could start at the earliest."""
        now = self.now()
        at = paced.host.free_at(paced, now, ahead=False)
        for scope in paced.scopes:
            at = max(at, scope.ready_at(now), scope.renewed_at(now))
        left = max(at, renewed_at(paced.host, now)) - now
        return left if left > CLOCK_GRAIN else 0.0

    # Hosts and the store.

    def reconsider(self, host: Host) -> None:
        """Look at a host's waiters again: its limits, blocks or state have changed."""
        if host.waiting_origins:
            now = self.now()
            self.refuse_unavailable(host, now)
            self.dispatch(host, now)

    def update_limits(self, host: Host) -> None:
        """Take in what a host's origins ask for and are granted now."""
        host.update_limits(self.max_slots)
        if host.window is not None:
            host.window.is_kept = self.work.has_store
        self.reconsider(host)

    def find(self, key: str) -> Host | Scope | None:
        """Return the host or the scope in memory that a store knows by this key."""
        return self.hosts.get(key) or self.wake(key) or self.scopes.get(key)

    def place(self, paced: PacedOrigin, scopes: tuple[Scope, ...], until_at: float) -> None:
        """The scopes of an origin are known, until an instant: grant its turns, which may have waited for that."""
        left = paced.scopes
        paced.enter(scopes, until_at)
        self._look_at_places((turn for turn in paced.all_waiting() if turn.trial is not None), self.now())
        self.reconsider(paced.host)
        self._hand_on_unused(left)

    def own(self, host: Host | Scope) -> None:
        """A state has been loaded, and this process may pace a host or a scope: grant its turns.

        Turns of a host that are late are refused at once, those in a scope's line at their deadline.
        """
        now = self.now()
        # Where tasks were told to come, other processes ask at any time: it is not kept here, as by `_offer`.
        is_tried = host.promised_step > 0 and now - host.promised_until_at < LATEST
        host.is_wanted = is_tried and host.lease is not None
        host.owned_visits = host.visits
        if host.window is not None:
            # Those before this went to the store with the host.
            host.window.note_saved(host.window.tell())
        if isinstance(host, Share) and self.shared is not None:
            self.shared.take(host, now)
            self._refuse_if_spent(self.shared, now)
            self.look_at(self.shared, now)
            return
        if isinstance(host, Scope):
            in_line = [cast("PacedTurn", turn) for _, turn in host.line if turn.in_line is host]
            self._look_at_places((turn for turn in in_line if turn.trial is not None), now)
            if host.budget is not None:
                # Another process may have used it up.
                self._refuse_if_spent(host, now)
            self.serve(host, now)
            return
        waiting = [turn for turn in host.all_waiting() if turn.deadline_at < math.inf]
        self._look_at_places(waiting, now)
        self.reconsider(host)
        if host.is_wanted and not host.waiting_origins:
            self.dispatch(host, now)

    def note_saved(self, host: Host | Scope, counted: int) -> None:
        """The store knows of so many starts: a turn that waited for that may go on."""
        if host.window is not None:
            was_spent = host.window.is_spent()
            host.window.note_saved(counted)
            if was_spent:
                self.look_at(host, self.now())

    def note_wanted(self, host: Host | Scope) -> None:
        """Another process asks for a host or a scope: hand it on when each slot has had a turn since it was obtained,
        and none is open.

        Where none waits here, or the first is held back, it is handed on earlier: see `dispatch` and `serve`.
        """
        if self._kept is not None:
            self._kept.add(host.key)
            return
        host.is_wanted = True
        self.look_at(host, self.now())

    def note_lost(self, error: StoreError, *, is_partial: bool) -> None:
        """The store is lost. What other processes want they cannot obtain, so it is used here until it is found.

        Args:
            is_partial: they may still obtain some of it.
        """
        self.work.lost = error
        if is_partial or self._kept is not None:
            return
        self._kept, now = set(), self.now()
        known: list[Host | Scope] = [*self.hosts.values(), *self.scopes.values()]
        for each in known:
            if each.is_wanted:
                each.is_wanted = False
                self._kept.add(each.key)
                self.look_at(each, now)

    def note_found(self) -> None:
        """The store is found: hand on what other processes want."""
        self.work.lost = None
        kept, self._kept = self._kept or (), None
        for key in kept:
            each = self.find(key)
            if each is not None and each.lease is not NOT_OWNED:
                self.note_wanted(each)

    def _hand_on_if_wanted(self, host: Host | Scope) -> None:
        """Hand a host on to the process that wants it, unless a turn is granted or open here."""
        if host.is_wanted and not (host.held if isinstance(host, Scope) else host.in_slots):
            host.lease = NOT_OWNED
            host.is_wanted = False
            self.work.hand_on(host)

    def close(self) -> None:
        """Refuse all waiting turns with `GateClosedError`."""
        self._is_closed = True
        for host in self.hosts.values():
            self.refuse_all(host, GateClosedError())


def _first(permits: Permits) -> PacedTurn | None:
    return cast("PacedTurn | None", permits.first())


def _has_scopes(paced: PacedOrigin, now: float) -> bool:
    """Return whether the scopes of an origin are known, and this process paces them."""
    return now < paced.scopes_until_at and all(scope.may_pace() for scope in paced.scopes)


def _is_urgent(host: Host | Scope) -> bool:
    """Return whether a store should know soon what has been counted: a crash would lose it."""
    window = host.window
    if window is not None and window.is_kept and window.is_urgent():
        return True
    return host.budget is not None and not host.budget_pages % SAVED_PAGES
