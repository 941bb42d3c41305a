"""One host's queue: who goes next, and when.

A lane is a synchronous machine that its waiters drive. Only the first of them is timed, by the lane's one timer; a
waiter that is cancelled just leaves. A start needs two things: a token of the lane's `AsyncLimiter`, which meters
starts, and the instant of `_pacing.earliest_start_at`, which is the law.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final, TypeAlias

from aiolimiter import AsyncLimiter

from robotgate import _pacing
from robotgate._errors import (
    GateClosedError,
    HostUnavailableError,
    NestedTurnError,
    StoreError,
    TooSoonError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from robotgate._bound import Bound
    from robotgate._pacing import HostState
    from robotgate._ports import Clock, Store

IDLE_LINGER: Final = 10.0
"""Seconds an idle lane is kept, though its politeness is served: making one costs more than keeping it."""
LIMITER_SLACK: Final = 1e-6
"""The share by which the limiter's period is shorter than the delay: the rounding of its leak must not hold back a
start that the instant allows."""
LIMITER_PATIENCE: Final = 0.001
"""Seconds between looks at a limiter that has no token though the instant has come."""

Rank: TypeAlias = tuple[int, int, int]
"""Robots.txt before pages, then priority, then arrival; the least goes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRules:
    """What an operator grants every lane."""

    delay: float
    """Seconds, at least."""
    slots: int
    """Requests under way at once."""
    max_block: float
    """Seconds; a longer block is not waited out."""

    def longest_delay(self, asked: Mapping[str, float]) -> float:
        """The longest of our own delay and those that a host's origins ask for: seconds."""
        return max(self.delay, *asked.values(), 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a turn is asked for; `Lane.admit` tells of each."""

    bound: Bound
    ahead: bool
    priority: int
    max_wait: float | None
    arrival: int

    @property
    def rank(self) -> Rank:
        """Whose turn comes first."""
        return 0 if self.ahead else 1, -self.priority, self.arrival


@dataclass(slots=True, eq=False, kw_only=True)
class Admission:
    """The right to one request, from the moment it may be sent until `end`."""

    lane: Lane
    terms: Terms
    holder: asyncio.Task[object] | None
    bytes_read: int = 0
    is_open: bool = field(default=True)

    def report(self, *, status: int | None, retry_after: float | None, bytes_read: int) -> None:
        """Tell the lane what came of the request so far; nothing is heard after its end."""
        if not self.is_open:
            return
        self.bytes_read += bytes_read
        if status is not None:
            self.lane.note_answer(status, retry_after)

    async def again(self) -> Admission:
        """End this turn and wait for another, on the same terms.

        Raises:
            as `Lane.admit`.
        """
        self.end()
        return await self.lane.readmit(self.terms)

    def end(self) -> None:
        """The request is over; ending twice is ending once."""
        if self.is_open:
            self.is_open = False
            self.terms.bound.release(self.holder)
            self.lane.leave(self)


class Lane:
    """The waiters of one pace key, in order, with its slots and its limiter."""

    def __init__(
        self,
        pace_key: str,
        *,
        state: HostState,
        rules: LaneRules,
        clock: Clock,
        store: Store,
        on_idle: Callable[[Lane], None],
        asked_delays: dict[str, float] | None = None,
    ) -> None:
        self.pace_key = pace_key
        self.state = state
        self._asked_delays = {} if asked_delays is None else asked_delays
        self.delay = rules.longest_delay(self._asked_delays)
        self._rules = rules
        self._clock = clock
        self._store = store
        self._on_idle = on_idle
        self._limiter = _limiter(self.delay)
        self._heap: list[tuple[Rank, int, asyncio.Future[None]]] = []
        self._entries = count()
        self._arrivals = count()
        self._waiting = 0
        self._open: set[Admission] = set()
        self._is_starting = False
        self._timer: asyncio.Handle | None = None
        self._wakes_at = 0.0
        self._is_closed = False
        self._wake_in(max(self.wait(), IDLE_LINGER))

    @property
    def waiting(self) -> int:
        """How many wait for a turn."""
        return self._waiting

    @property
    def open_turns(self) -> int:
        """How many requests are under way, or about to be sent."""
        return len(self._open) + self._is_starting

    def wait(self) -> float:
        """Seconds until the next turn could come at the earliest."""
        return _pacing.wait(self.state, delay=self.delay, now=self._clock.now())

    def is_held_by(self, task: asyncio.Task[object] | None) -> bool:
        """Whether nobody can have a turn before this task ends one of its own."""
        return len(self._open) >= self._rules.slots and all(turn.holder is task for turn in self._open)

    def nested(self) -> NestedTurnError:
        """The error for a task that `is_held_by` says would wait for itself."""
        return NestedTurnError(
            f"this task already holds a turn of {self.pace_key} and would wait for itself:"
            " read the first response to its end, or leave its block, before asking for the next"
        )

    def ask_delay(self, origin: str, delay: float) -> None:
        """Take in the delay that one of the host's origins asks for; the longest of them and of our own holds."""
        if self._asked_delays.get(origin, 0.0) == delay:
            return
        self._asked_delays[origin] = delay
        if not delay:
            del self._asked_delays[origin]
        longest = self._rules.longest_delay(self._asked_delays)
        if longest != self.delay:
            self.delay = longest
            self._limiter = _limiter(longest)
            self._pump()

    async def admit(
        self,
        *,
        bound: Bound,
        ahead: bool = False,
        priority: int = 0,
        max_wait: float | None = None,
        arrival: int | None = None,
    ) -> Admission:
        """Wait for a turn.

        Args:
            bound: what limits requests over all hosts; taken only when this host's turn has come.
            ahead: for robots.txt, which goes before every page.
            priority: the higher goes first.
            max_wait: seconds; None waits as long as it takes.
            arrival: that of an earlier admission, whose place in the order this one takes.

        Raises:
            TooSoonError: the turn comes later than `max_wait`.
            HostUnavailableError: the host asked us to stay away for longer than `max_block`.
            NestedTurnError: this task holds the host's last slot itself.
            GateClosedError: the gate was closed meanwhile.
        """
        if arrival is None:
            arrival = next(self._arrivals)
        return await self.readmit(
            Terms(bound=bound, ahead=ahead, priority=priority, max_wait=max_wait, arrival=arrival)
        )

    async def readmit(self, terms: Terms) -> Admission:
        """As `admit`, on terms that are settled."""
        self._refuse_nested()
        deadline_at = None if terms.max_wait is None else self._clock.now() + terms.max_wait
        while True:
            await self._granted(terms.rank, deadline_at)
            await self._bounded(terms.bound, deadline_at)
            if self._is_closed:
                terms.bound.release(asyncio.current_task())
                raise _closed()
            self._recall()
            if self.wait() <= 0:
                return await self._begin(terms)
            # A block, or another gate's visit, came between.
            terms.bound.release(asyncio.current_task())
            self._give_back()

    def note_answer(self, status: int, retry_after: float | None) -> None:
        """Take in how the host answered."""
        self._recall()
        state = _pacing.answered(
            self.state, status=status, retry_after=retry_after, now=self._clock.now(), jitter=random.random()
        )
        if state is not self.state:
            self._remember(state)
            self._pump()

    def leave(self, admission: Admission) -> None:
        """A request is over."""
        self._open.discard(admission)
        try:
            self._recall()
            self._remember(
                _pacing.ended(
                    self.state,
                    now=self._clock.now(),
                    delay=self.delay,
                    serial=self._rules.slots == 1,
                    bytes_read=admission.bytes_read,
                )
            )
        finally:
            self._pump()

    def close(self) -> None:
        """Send everybody away with `GateClosedError`."""
        self._is_closed = True
        self._refuse_waiters(_closed)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _granted(self, rank: Rank, deadline_at: float | None) -> None:
        if self._is_closed:
            raise _closed()
        self._recall()
        self._refuse_blocked()
        if not self._waiting and self._may_start():
            self._is_starting = True
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        too_late = None if deadline_at is None else self._refuse_at(deadline_at, turn)
        heappush(self._heap, (rank, next(self._entries), turn))
        self._waiting += 1
        try:
            self._pump()
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._give_back()
            raise
        finally:
            self._waiting -= 1
            self._compact()
            if too_late is not None:
                too_late.cancel()

    def _refuse_at(self, deadline_at: float, turn: asyncio.Future[None]) -> asyncio.Handle:
        left = deadline_at - self._clock.now()
        if left <= 0 or self.wait() > left:
            raise self._too_soon()
        return asyncio.get_running_loop().call_later(left, self._refuse_late, turn)

    async def _bounded(self, bound: Bound, deadline_at: float | None) -> None:
        """Take a place within the bound over all hosts, while holding this lane's grant."""
        if bound.is_free:
            await bound.acquire()
            return
        if bound.is_held_by(asyncio.current_task()):
            self._give_back()
            raise NestedTurnError(
                "this task holds every turn that `concurrency` allows and would wait for itself:"
                " read the first response to its end, or leave its block, before asking for the next"
            )
        left = None if deadline_at is None else deadline_at - self._clock.now()
        try:
            async with asyncio.timeout(left):
                await bound.acquire()
        except TimeoutError as error:
            self._give_back()
            raise self._too_soon() from error
        except asyncio.CancelledError:
            self._give_back()
            raise

    def _may_start(self) -> bool:
        """Whether the next waiter may start now; if not, whatever would let it start will pump the lane."""
        if self._is_starting or len(self._open) >= self._rules.slots:
            return False
        wait = self.wait()
        if wait > 0:
            self._wake_in(wait)
            return False
        if self._limiter is not None and not self._limiter.has_capacity():
            self._wake_in(LIMITER_PATIENCE)
            return False
        return True

    async def _begin(self, terms: Terms) -> Admission:
        if self._limiter is not None:
            # `_may_start` saw its capacity, and nobody else starts meanwhile: this does not wait.
            await self._limiter.acquire()
        admission = Admission(lane=self, terms=terms, holder=asyncio.current_task())
        try:
            self._remember(_pacing.begun(self.state, now=self._clock.now(), delay=self.delay))
        except StoreError:
            terms.bound.release(admission.holder)
            self._give_back()
            raise
        self._is_starting = False
        self._open.add(admission)
        self._pump()
        return admission

    def _give_back(self) -> None:
        self._is_starting = False
        self._pump()

    def _compact(self) -> None:
        """Let go of those who left, once they are the greater part."""
        left = len(self._heap) - self._waiting
        if left > 64 and left > self._waiting:
            self._heap = [entry for entry in self._heap if not entry[-1].done()]
            heapify(self._heap)

    def _pump(self) -> None:
        """Start whoever may start; otherwise see to it that somebody pumps again."""
        while self._heap and self._heap[0][-1].done():
            heappop(self._heap)
        self._recall()
        if self._block_is_too_long():
            self._refuse_waiters(self._blocked)
        if not self._heap:
            if not self.open_turns:
                self._wake_in(max(self.wait(), IDLE_LINGER))
            return
        if self._may_start():
            self._is_starting = True
            heappop(self._heap)[-1].set_result(None)

    def _wake_in(self, delay: float) -> None:
        if self._is_closed:
            return
        loop = asyncio.get_running_loop()
        when = loop.time() + delay
        if self._timer is not None:
            if self._wakes_at <= when:
                return
            self._timer.cancel()
        # Not every loop's handle tells its time: uvloop has no timers under a millisecond.
        self._wakes_at = when
        self._timer = loop.call_at(when, self._wake)

    def _wake(self) -> None:
        self._timer = None
        if self._heap or self.open_turns or self.wait() > 0:
            self._pump()
            return
        self._on_idle(self)

    def _recall(self) -> None:
        known = self._store.recall_host(self.pace_key)
        if known is not None and known is not self.state:
            self.state = _pacing.merged(self.state, known)

    def _remember(self, state: HostState) -> None:
        self.state = state
        self._store.remember_host(self.pace_key, state)

    def _refuse_nested(self) -> None:
        if self.is_held_by(asyncio.current_task()):
            raise self.nested()

    def _refuse_blocked(self) -> None:
        if self._block_is_too_long():
            self._pump()
            raise self._blocked()

    def _block_is_too_long(self) -> bool:
        return self.state.blocked_until_at - self._clock.now() > self._rules.max_block

    def _refuse_late(self, turn: asyncio.Future[None]) -> None:
        if not turn.done():
            turn.set_exception(self._too_soon())

    def _refuse_waiters(self, error: Callable[[], Exception]) -> None:
        heap, self._heap = self._heap, []
        for *_, turn in heap:
            if not turn.done():
                turn.set_exception(error())

    def _too_soon(self) -> TooSoonError:
        return TooSoonError(self.pace_key, self.wait() or max(self.delay, _pacing.MIN_RETRY_AFTER))

    def _blocked(self) -> HostUnavailableError:
        retry_after = self.state.blocked_until_at - self._clock.now()
        return HostUnavailableError(self.pace_key, retry_after, "it asked us to stay away")


def _closed() -> GateClosedError:
    return GateClosedError("the gate was closed")


def _limiter(delay: float) -> AsyncLimiter | None:
    return AsyncLimiter(1, delay * (1 - LIMITER_SLACK)) if delay > 0 else None
