"""A model of `RedisStore` on virtual time: the law of its line, the way there and back, and the server's own time.

The law is that of ``lua/turns.lua`` for one request per host at a time. Each worker has one batch on its way, and what
it asks meanwhile goes with the next; the server does one batch after the other.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from robotgate import HostState, MemoryStore, Postponed
from robotgate._pacing import CLOCK_GRAIN, merged

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from robotgate import Origin, RobotsRecord

GRACE: Final = 0.25
LEAST_POLL: Final = 0.02
"""Seconds, both."""
LENGTHENING: Final = 1.25
"""These as in ``turns.lua``."""


@dataclass(slots=True)
class Place:
    """A worker's place in a host's line."""

    since: float
    asks_at: float


@dataclass(slots=True)
class Line:
    """One host."""

    state: HostState = field(default_factory=HostState)
    taken_at: float | None = None
    """Since when a request is under way."""
    reckons: bool = False
    """Whether those who wait allow for how long requests have taken, besides the delay."""
    took: float | None = None
    """Seconds that requests take at the least, where others wait; None while nobody reckons."""
    places: dict[int, Place] = field(default_factory=dict)

    def reserve(self, worker: int, *, delay: float, now: float) -> float | None:
        """When to ask again; None is go."""
        rank = self._rank_of(worker, delay=delay, now=now)
        at = max(now, self.state.next_allowed_at)
        if self.taken_at is not None:
            # It could end now, and the delay counts from its end.
            at = max(at, now + max(delay, LEAST_POLL))
        if rank == 0 and at - now <= CLOCK_GRAIN:
            self.places.pop(worker, None)
            self.taken_at = now
            self._visit(now, delay)
            return None
        again_at = at + rank * (delay + (self.took or 0.0))
        self.places.setdefault(worker, Place(now, again_at)).asks_at = again_at
        return again_at

    def finish(self, state: HostState) -> None:
        """The request is over; the instants of the state are those of its end."""
        ended_at = state.last_visit_at or 0.0
        if self.reckons and self.places and self.taken_at is not None:
            took = max(ended_at - self.taken_at, 0.0)
            self.took = took if self.took is None else min(took, LENGTHENING * self.took)
        self.taken_at = None
        self.state = replace(merged(self.state, state), visits=self.state.visits)

    def _visit(self, now: float, delay: float) -> None:
        visits = self.state.visits + 1
        self.state = replace(self.state, last_visit_at=now, next_allowed_at=now + delay, visits=visits)

    def _rank_of(self, worker: int, *, delay: float, now: float) -> int:
        latest = now - min(GRACE, max(delay, LEAST_POLL))
        for name, place in list(self.places.items()):
            if place.asks_at < latest:
                del self.places[name]
        own = self.places.get(worker)
        return sum(
            name != worker and (own is None or (place.since, name) < (own.since, worker))
            for name, place in self.places.items()
        )


class Server:
    """One Redis.

    Args:
        per_call: seconds that it works for each call, and `per_batch` besides for each batch.
        way: seconds there, and as many back.
        reckons: as `Line` has it.
    """

    def __init__(self, *, per_call: float, per_batch: float, way: float, reckons: bool) -> None:
        self.lines: defaultdict[str, Line] = defaultdict(lambda: Line(reckons=reckons))
        self.records = MemoryStore()
        self.way = way
        self.calls = 0
        self.busy = 0.0
        """Seconds that it has worked."""
        self._per_call = per_call
        self._per_batch = per_batch
        self._free_at = 0.0

    async def work(self, calls: int) -> None:
        """Come back when so many calls, of one batch, have been done."""
        now = asyncio.get_running_loop().time()
        cost = self._per_batch + calls * self._per_call
        self.calls += calls
        self.busy += cost
        self._free_at = max(self._free_at, now) + cost
        await asyncio.sleep(self._free_at - now)


class ModelStore(MemoryStore):
    """One worker's store."""

    is_shared = True

    def __init__(self, server: Server, worker: int, *, max_hosts: int) -> None:
        super().__init__(max_hosts=max_hosts)
        self._server = server
        self._worker = worker
        self._calls: list[tuple[Callable[[float], float | None], asyncio.Future[float | None]]] = []
        self._sending: asyncio.Task[None] | None = None

    async def reserve(
        self, pace_key: str, *, state: HostState, now: float, slots: int, delay: float
    ) -> Postponed | None:
        """As the script has it, for one request at a time."""
        if slots != 1:
            raise NotImplementedError("the law is only modelled for one request at a time")
        line = self._server.lines[pace_key]
        again_at = await self._ask(lambda at: line.reserve(self._worker, delay=delay, now=at))
        return None if again_at is None else Postponed(line.state, again_at)

    def withdraw(self, pace_key: str) -> None:
        """Leave the line."""
        line = self._server.lines[pace_key]

        def leave(_at: float) -> None:
            line.places.pop(self._worker, None)

        self._ask(leave)

    def begin_visit(self, pace_key: str, state: HostState) -> None:
        """With one request at a time the server has nothing to hear of it."""
        super().remember_host(pace_key, state)

    def end_visit(self, pace_key: str, state: HostState) -> None:
        """The server hears of it behind the caller's back."""
        super().remember_host(pace_key, state)
        line = self._server.lines[pace_key]

        def finish(_at: float) -> None:
            line.finish(state)

        self._ask(finish)

    def remember_host(self, pace_key: str, state: HostState) -> None:
        """Everybody hears of it."""
        super().remember_host(pace_key, state)
        line = self._server.lines[pace_key]
        line.state = replace(merged(line.state, state), visits=line.state.visits)

    def lease(self, origin: Origin) -> AbstractAsyncContextManager[None]:
        """One for all."""
        return self._server.records.lease(origin)

    async def load_record(self, origin: Origin) -> RobotsRecord | None:
        """What all know."""
        return await self._server.records.load_record(origin)

    async def save_record(self, record: RobotsRecord) -> None:
        """All know it."""
        await self._server.records.save_record(record)

    def _ask(self, call: Callable[[float], float | None]) -> asyncio.Future[float | None]:
        reply: asyncio.Future[float | None] = asyncio.get_running_loop().create_future()
        self._calls.append((call, reply))
        if self._sending is None:
            self._sending = asyncio.create_task(self._send())
        return reply

    async def _send(self) -> None:
        loop = asyncio.get_running_loop()
        while self._calls:
            calls, self._calls = self._calls, []
            await asyncio.sleep(self._server.way)
            await self._server.work(len(calls))
            replies = [call(loop.time()) for call, _ in calls]
            await asyncio.sleep(self._server.way)
            for (_, waiting), reply in zip(calls, replies, strict=True):
                if not waiting.done():
                    waiting.set_result(reply)
        self._sending = None
