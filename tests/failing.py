"""Stores that fail, hang or cannot be reached, when a test says so."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from robotgate import MemoryStore, StoreError
from robotgate.stores import Grant, Lost, Recovered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from robotgate import Origin
    from robotgate.sites import RobotsRecord
    from robotgate.stores import HostState, Lease, News
    from robotgate.stores.memory import MemorySession

LEASE = 16.0
"""Seconds for which a grant of a `LosableStore` is valid after it was lost."""


class FailingStore:
    """A plain `Store`, which knows no grants: it keeps all in memory, but for what fails or hangs.

    Args:
        fails: the names of the methods that fail at first.
    """

    def __init__(self, *fails: str) -> None:
        self.memory = MemoryStore()
        self.fails = set(fails)
        """The names of the methods that fail."""
        self.hangs: set[str] = set()
        """The names of the methods that do not return before `recover`."""
        self.calls: Counter[str] = Counter()
        """How often each method was called."""
        self.failed: list[str] = []
        """The calls that failed, in order."""
        self.saved: list[tuple[float, frozenset[str]]] = []
        """When hosts were saved, by the running loop's time, and which."""
        self._works = asyncio.Event()

    def recover(self) -> None:
        """Work again; what hangs goes on."""
        self.fails.clear()
        self.hangs.clear()
        self._works.set()
        self._works = asyncio.Event()

    async def load_record(self, origin: Origin) -> RobotsRecord | None:
        """As `Store.load_record`."""
        await self._called("load_record")
        return await self.memory.load_record(origin)

    async def save_record(self, record: RobotsRecord) -> None:
        """As `Store.save_record`."""
        await self._called("save_record")
        await self.memory.save_record(record)

    async def load_host(self, pace_key: str) -> HostState | None:
        """As `Store.load_host`."""
        await self._called("load_host")
        return await self.memory.load_host(pace_key)

    async def save_hosts(self, states: Mapping[str, HostState]) -> None:
        """As `Store.save_hosts`."""
        await self._called("save_hosts")
        self.saved.append((asyncio.get_running_loop().time(), frozenset(states)))
        await self.memory.save_hosts(states)

    async def aclose(self) -> None:
        """As `Store.aclose`."""

    async def _called(self, name: str) -> None:
        self.calls[name] += 1
        while name in self.hangs:
            await self._works.wait()
        if name in self.fails:
            self.failed.append(name)
            raise StoreError(f"{name}: the disk is full; make room")


class LosableStore(FailingStore):
    """A `SharedStore` that cannot be reached for a while, as a server: its sessions tell so."""

    def __init__(self) -> None:
        super().__init__()
        self.error: StoreError | None = None
        self.gives_up = False
        self.lost_at = 0.0
        self.found = asyncio.Event()
        self._sessions: list[LosableSession] = []

    async def session(self) -> LosableSession:
        """As `SharedStore.session`."""
        inner = await self.memory.session()
        session = LosableSession(self, inner)
        self._sessions.append(session)
        if self.error is not None:
            inner.add(Lost(self.error))
        return session

    def lose(self, error: StoreError) -> None:
        """Not be reached from now on."""
        if self.error is None:
            self.lost_at = asyncio.get_running_loop().time()
        self.error = error
        self.fails, self.hangs = {"save_record", "save_hosts"}, {"load_record", "load_host"}
        for session in self._sessions:
            session.inner.add(Lost(error))

    def give_up(self) -> None:
        """Raise from now on, while it is lost, instead of waiting."""
        self.gives_up = True
        self.fails |= self.hangs
        self.hangs = set()

    def find(self) -> None:
        """Be reached again."""
        self.error = None
        self.gives_up = False
        self.recover()
        self.found.set()
        self.found = asyncio.Event()
        for session in self._sessions:
            session.send()
            session.inner.add(Recovered())


class LosableSession:
    """A session of a `LosableStore`. What is said while the store is lost is sent when it is found."""

    def __init__(self, store: LosableStore, inner: MemorySession) -> None:
        self.inner = inner
        self._store = store
        self._unsent: list[tuple[str, HostState | None]] = []

    async def obtain(self, key: str, *, pace: float = 0.0) -> Grant:
        """As `Session.obtain`."""
        self._store.calls["obtain"] += 1
        while self._store.error is not None:
            if self._store.gives_up:
                raise StoreError(*self._store.error.args)
            await self._store.found.wait()
        grant = await self.inner.obtain(key, pace=pace)
        return Grant(LosableLease(self._store, grant.lease), grant.state, grant.not_before_at)

    def leave(self, key: str, state: HostState | None) -> None:
        """As `Session.leave`."""
        self._unsent.append((key, state))
        self.send()

    def send(self) -> None:
        """Send what can be sent."""
        if self._store.error is None:
            unsent, self._unsent = self._unsent, []
            for key, state in unsent:
                self.inner.leave(key, state)

    async def news(self) -> Sequence[News]:
        """As `Session.news`."""
        return await self.inner.news()

    def publish_block(self, pattern: str, until_at: float) -> None:
        """As `Session.publish_block`."""
        self.inner.publish_block(pattern, until_at)

    async def aclose(self) -> None:
        """As `Session.aclose`."""
        await self.inner.aclose()


@dataclass(frozen=True, slots=True)
class LosableLease:
    """A lease that runs out some time after its store was lost, and is renewed when it is found."""

    store: LosableStore
    inner: Lease

    def is_valid(self) -> bool:
        """As `Lease.is_valid`."""
        is_renewed = self.store.error is None
        return self.inner.is_valid() and (
            is_renewed or asyncio.get_running_loop().time() < self.store.lost_at + LEASE
        )
