"""A store that fails, or takes for ever, at what it is told to and for as long as it is told to."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from robotgate import MemoryStore, StoreError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from robotgate import HostState, Origin, RobotsRecord


class FailingStore(MemoryStore):
    """Remembers as memory does, where it neither fails nor hangs."""

    def __init__(self) -> None:
        super().__init__()
        self.fails: set[str] = set()
        """The names of the methods that fail."""
        self.hangs: set[str] = set()
        """The names of those that do not come back before `recover`."""
        self.failed: list[str] = []
        """Which have, in order."""
        self._well = asyncio.Event()

    def recover(self) -> None:
        """Be well again; what hangs goes on."""
        self.fails.clear()
        self.hangs.clear()
        self._well.set()
        self._well = asyncio.Event()

    async def load_record(self, origin: Origin) -> RobotsRecord | None:
        """As memory."""
        await self._tried("load_record")
        return await super().load_record(origin)

    async def save_record(self, record: RobotsRecord) -> None:
        """As memory."""
        await self._tried("save_record")
        await super().save_record(record)

    @asynccontextmanager
    async def lease(self, origin: Origin) -> AsyncIterator[None]:
        """As memory; the lease is not had when it fails, and given back when giving it back fails."""
        await self._tried("lease")
        async with super().lease(origin):
            yield
        self._try("end of lease")

    async def load_host(self, pace_key: str) -> HostState | None:
        """As memory."""
        await self._tried("load_host")
        return await super().load_host(pace_key)

    def recall_host(self, pace_key: str) -> HostState | None:
        """As memory; it has no right to fail."""
        self._try("recall_host")
        return super().recall_host(pace_key)

    def remember_host(self, pace_key: str, state: HostState) -> None:
        """As memory."""
        self._try("remember_host")
        super().remember_host(pace_key, state)

    def _try(self, name: str) -> None:
        if name in self.fails:
            self.failed.append(name)
            raise StoreError(f"{name}: the disk is full; make room")

    async def _tried(self, name: str) -> None:
        while name in self.hangs:
            await self._well.wait()
        self._try(name)


class ReportingMemory(FailingStore):
    """One that says by itself when it is lost and when it is back."""

    def __init__(self) -> None:
        super().__init__()
        self._error: StoreError | None = None
        self.callbacks: list[Callable[[StoreError | None], object]] = []
        """Who is told."""

    def subscribe_losses(self, callback: Callable[[StoreError | None], object]) -> Callable[[], None]:
        """As the protocol has it."""
        self.callbacks.append(callback)
        if self._error is not None:
            callback(self._error)
        return lambda: self.callbacks.remove(callback) if callback in self.callbacks else None

    def report(self, error: StoreError | None) -> None:
        """Tell everybody."""
        self._error = error
        for callback in list(self.callbacks):
            callback(error)


class FleetMemory(MemoryStore):
    """One process's view of blocks that a fleet shares: `told` is what others hear, `tell` is their word."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[str, float]] = []
        self.standing: dict[str, float] = {}
        self.callbacks: list[Callable[[str, float], object]] = []
        self.others: list[FleetMemory] = []
        """Those of other processes."""

    def publish_block(self, pattern: str, until_at: float) -> None:
        """As the protocol has it; who published hears of it as well."""
        self.told.append((pattern, until_at))
        for store in (self, *self.others):
            store.tell(pattern, until_at)

    def subscribe_blocks(self, callback: Callable[[str, float], object]) -> Callable[[], None]:
        """As the protocol has it."""
        self.callbacks.append(callback)
        for pattern, until_at in self.standing.items():
            callback(pattern, until_at)
        return lambda: self.callbacks.remove(callback) if callback in self.callbacks else None

    def tell(self, pattern: str, until_at: float) -> None:
        """What a gate somewhere was told."""
        self.standing[pattern] = until_at
        for callback in list(self.callbacks):
            callback(pattern, until_at)
