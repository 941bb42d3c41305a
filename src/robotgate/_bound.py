"""How many requests may be under way over all hosts, and how many may start in what time."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from itertools import count
from typing import TYPE_CHECKING, Final

from robotgate import _quota
from robotgate._alarm import Alarm
from robotgate._errors import NestedTurnError
from robotgate._pacing import CLOCK_GRAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import TypeAlias

    from robotgate._ports import Clock
    from robotgate._quota import Rate

    Task: TypeAlias = asyncio.Task[object] | None


_arrivals: Final = count()


class Meter:
    """Counts starts against a rate. A place that was taken counts from then on, though its request starts later."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._starts: deque[float] = deque(maxlen=rate.requests)
        self._reserved = 0
        self._watchers: list[Callable[[], None]] = []

    def watch(self, callback: Callable[[], None]) -> None:
        """Call whenever the next start may have become due at another instant."""
        self._watchers.append(callback)

    def due_at(self) -> float:
        """When one more may start; infinity while that depends on a start that is yet to come."""
        free = self._rate.requests - self._reserved
        if free <= 0:
            return math.inf
        return _quota.due_at(self._starts, _quota.Rate(free, self._rate.seconds))

    def reserve(self) -> None:
        """Count one that will start soon."""
        self._reserved += 1

    def start(self, now: float) -> None:
        """One of the reserved starts."""
        self._reserved -= 1
        self._starts.append(now)
        self._tell()

    def give_back(self) -> None:
        """One of the reserved will not start."""
        self._reserved -= 1
        self._tell()

    def _tell(self) -> None:
        for callback in self._watchers:
            callback()


class Place:
    """The right to one request under way, from the moment it is granted until `release`."""

    __slots__ = ("_bound", "_has_begun", "holder")

    def __init__(self, bound: Bound, holder: Task) -> None:
        self._bound = bound
        self._has_begun = False
        self.holder = holder

    def begin(self, now: float) -> None:
        """The request starts."""
        self._has_begun = True
        for meter in self._bound.meters:
            meter.start(now)

    def release(self) -> None:
        """The request is over, or will not start."""
        if not self._has_begun:
            for meter in self._bound.meters:
                meter.give_back()
        self._bound.places.let_go(self)


class Places:
    """So many places; several bounds may share them, and keep the order of arrival by `Bound.share_with`."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._held: dict[Place, None] = {}
        self._sharers: list[Bound] = []

    @property
    def free(self) -> int:
        """How many places nobody holds."""
        return self._total - len(self._held)

    def share_with(self, bound: Bound) -> None:
        """Serve whoever waits at this bound when a place is free again."""
        self._sharers.append(bound)

    def are_held_by(self, task: Task) -> bool:
        """Whether every place is this task's own: nobody else could ever give one back."""
        return self.free <= 0 and all(place.holder is task for place in self._held)

    def hold(self, place: Place) -> None:
        """One place less."""
        self._held[place] = None

    def let_go(self, place: Place) -> None:
        """One place more."""
        del self._held[place]
        for bound in self._sharers:
            if bound.queue:
                bound.serve()


class Bound:
    """Grants places in order of arrival, and knows who holds them: a task is told when it would wait for itself.

    Args:
        places: how many requests may be under way.
        meters: the rates that every start has to keep; several bounds may share one.
        clock: tells the time.
    """

    def __init__(self, places: Places, *, clock: Clock, meters: Sequence[Meter] = ()) -> None:
        self.places = places
        self.meters = meters
        self.queue: deque[tuple[int, asyncio.Future[Place], Task]] = deque()
        """Who waits, in order of arrival, those among them who have left."""
        self._clock = clock
        self._rivals: tuple[Bound, ...] = ()
        self._alarm = Alarm(self.serve)
        self._is_open_for_all = False
        places.share_with(self)
        for meter in meters:
            meter.watch(self.serve)

    @property
    def free(self) -> int:
        """How many places nobody holds."""
        return self.places.free

    def is_held_by(self, task: Task) -> bool:
        """Whether every place is this task's own: nobody else could ever give one back."""
        return self.places.are_held_by(task)

    def nested(self) -> NestedTurnError:
        """The error for a task that `is_held_by` says would wait for itself."""
        return NestedTurnError(
            "this task holds every turn that `concurrency` allows and would wait for itself:"
            " read the first response to its end, or leave its block, before asking for the next"
        )

    def share_with(self, rivals: Iterable[Bound]) -> None:
        """Keep the order of arrival among those who ask for the same places, or by the same meter."""
        self._rivals = tuple(rivals)

    def try_acquire(self) -> Place | None:
        """A place, if one is to be had at once."""
        while self.queue and self.queue[0][1].done():
            self.queue.popleft()
        if self.queue or ((self.meters or self.places.free <= 0) and self._wait() > 0):
            return None
        return self._grant(asyncio.current_task())

    def ask(self) -> asyncio.Future[Place]:
        """A place to come, in order of arrival; await it by `wait_for`. Whoever fails it takes the wish back."""
        turn: asyncio.Future[Place] = asyncio.get_running_loop().create_future()
        self.queue.append((next(_arrivals), turn, asyncio.current_task()))
        self.serve()
        return turn

    async def wait_for(self, turn: asyncio.Future[Place]) -> Place:
        """The place that was asked for.

        Raises:
            whatever the wish was failed with.
        """
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                turn.result().release()
            raise

    async def acquire(self) -> Place:
        """A place, in order of arrival."""
        return self.try_acquire() or await self.wait_for(self.ask())

    def open_for_all(self) -> None:
        """Let everybody through who waits, and who comes."""
        self._is_open_for_all = True
        self._alarm.cancel()
        self.serve()

    def _wait(self) -> float:
        """Seconds until a place is to be had; infinity while somebody has to give one back first."""
        if self._is_open_for_all:
            return 0.0
        if self.places.free <= 0:
            return math.inf
        if not self.meters:
            return 0.0
        wait = max(meter.due_at() for meter in self.meters) - self._clock.now()
        return wait if wait > CLOCK_GRAIN else 0.0

    def _grant(self, holder: Task) -> Place:
        place = Place(self, holder)
        self.places.hold(place)
        for meter in self.meters:
            meter.reserve()
        return place

    def grant_before(self, arrival: int) -> None:
        """Serve those who came before a rival's head, as far as they may be served."""
        while self.queue and self.queue[0][0] < arrival and self._grant_first():
            pass

    def serve(self) -> None:
        """Let through whoever may be."""
        while self.queue:
            arrival, turn, _ = self.queue[0]
            if not turn.done():
                for rival in self._rivals:
                    rival.grant_before(arrival)
            if not self._grant_first():
                wait = self._wait()
                if wait < math.inf:
                    self._alarm.ring_in(wait)
                return

    def _grant_first(self) -> bool:
        """Serve the first, or pass over him if he has left; no when he has to wait."""
        _, turn, holder = self.queue[0]
        if not turn.done():
            if self._wait() > 0:
                return False
            turn.set_result(self._grant(holder))
        self.queue.popleft()
        return True
