"""Workers of a fleet in one process, each with a store and connections of its own: as lanes, without the gate."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Final

from robotgate import HostState, SystemClock, _pacing
from robotgate._spacing import Spacing
from robotgate.stores.redis import RedisStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.redis_server import RedisServer

    from robotgate import Postponed

HOST: Final = "shop.example"
PATIENCE: Final = 20.0
_prefixes: Final = count(1)


@dataclass(slots=True)
class Worker:
    """Visits hosts by what its store says."""

    store: RedisStore
    clock: SystemClock = field(default_factory=SystemClock)
    asks: int = 0
    """Questions asked so far."""
    _reserved: dict[str, list[HostState]] = field(default_factory=dict)

    async def ask(self, host: str = HOST, *, slots: int = 1, delay: float = 0.1) -> Postponed | None:
        """Ask once."""
        self.asks += 1
        now = self.clock.now()
        state = _pacing.begun(self._known(host), now=now, spacing=Spacing(floor=delay))
        answer = await self.store.reserve(host, state=state, now=now, slots=slots, delay=delay)
        if answer is None:
            self._reserved.setdefault(host, []).append(state)
        return answer

    async def get(self, host: str = HOST, *, slots: int = 1, delay: float = 0.1) -> float:
        """Ask, whenever it is told to, until it may go. Returns when."""
        async with asyncio.timeout(PATIENCE):
            while True:
                answer = await self.ask(host, slots=slots, delay=delay)
                if answer is None:
                    return self.clock.now()
                await asyncio.sleep(max(answer.again_at - self.clock.now(), 0.0))

    def begin(self, host: str = HOST, *, delay: float = 0.1) -> float:
        """Send what was reserved. Returns when, just before."""
        now = self.clock.now()
        state = _pacing.merged(self._known(host), self._reserved[host].pop())
        self.store.begin_visit(host, _pacing.sent(state, now=now, spacing=Spacing(floor=delay)))
        return now

    def end(
        self,
        host: str = HOST,
        *,
        delay: float = 0.1,
        slots: int = 1,
        bytes_read: int = 0,
        latency: float | None = None,
    ) -> float:
        """What was sent has ended. Returns when, just before."""
        now = self.clock.now()
        state = _pacing.ended(
            self._known(host),
            now=now,
            spacing=Spacing(floor=delay),
            serial=slots == 1,
            bytes_read=bytes_read,
            latency=latency,
        )
        self.store.end_visit(host, state)
        return now

    def give_back(self, host: str = HOST) -> None:
        """What was reserved will not be sent."""
        state = _pacing.merged(self._known(host), self._reserved[host].pop())
        self.store.end_visit(host, replace(state, visits=state.visits - 1))

    async def visit(
        self, host: str = HOST, *, delay: float = 0.1, seconds: float = 0.0
    ) -> tuple[float, float]:
        """A whole visit, one at a time. Returns when it began and ended."""
        await self.get(host, delay=delay)
        began_at = self.begin(host, delay=delay)
        await asyncio.sleep(seconds)
        return began_at, self.end(host, delay=delay)

    async def heard(self) -> None:
        """Wait until the server has heard all that was told so far."""
        await self.store._turns.calls.look(0)

    def _known(self, host: str) -> HostState:
        return self.store.recall_host(host) or HostState()


@dataclass(slots=True)
class Fleet:
    """Workers of one server and one prefix."""

    server: RedisServer
    prefix: str = field(default_factory=lambda: f"fleet-{next(_prefixes)}:")
    workers: list[Worker] = field(default_factory=list)

    async def join(self, *, lease: float = 60.0, patience: float = 10.0, degraded: str = "wait") -> Worker:
        """One more worker, which has opened its store."""
        store = RedisStore(
            self.server.url, prefix=self.prefix, lease=lease, patience=patience, degraded=degraded
        )
        worker = Worker(store)
        self.workers.append(worker)
        await store.open()
        return worker


@asynccontextmanager
async def fleet_of(server: RedisServer) -> AsyncIterator[Fleet]:
    """A fleet without workers, all of whom have left when it is over."""
    fleet = Fleet(server)
    try:
        yield fleet
    finally:
        for worker in fleet.workers:
            await worker.store.aclose()
