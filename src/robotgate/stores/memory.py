"""The store that lives as long as its process."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from robotgate._access import RobotsRecord
    from robotgate._pacing import HostState
    from robotgate._urls import Origin


@dataclass(slots=True)
class _Lease:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
    """Who holds it or waits for it."""


class MemoryStore:
    """Remembers in dictionaries. Gates of one event loop may share it.

    They then ask for each robots.txt once between them, heed each other's blocks, and leave the delay between any two
    starts. A response that is still under way at one gate does not keep the other from starting.
    """

    def __init__(self) -> None:
        self._records: dict[Origin, RobotsRecord] = {}
        self._hosts: dict[str, HostState] = {}
        self._leases: dict[Origin, _Lease] = {}

    async def load_record(self, origin: Origin) -> RobotsRecord | None:
        """The origin's record, fresh or not."""
        return self._records.get(origin)

    async def save_record(self, record: RobotsRecord) -> None:
        """Remember a record in place of the origin's earlier one."""
        self._records[record.origin] = record

    @asynccontextmanager
    async def lease(self, origin: Origin) -> AsyncIterator[None]:
        """The sole right to fetch this origin's robots.txt."""
        lease = self._leases.setdefault(origin, _Lease())
        lease.users += 1
        try:
            async with lease.lock:
                yield
        finally:
            lease.users -= 1
            if not lease.users:
                del self._leases[origin]

    async def load_host(self, pace_key: str) -> HostState | None:
        """The host's state, if it was ever visited."""
        return self._hosts.get(pace_key)

    def recall_host(self, pace_key: str) -> HostState | None:
        """The host's state, if it was ever visited."""
        return self._hosts.get(pace_key)

    def remember_host(self, pace_key: str, state: HostState) -> None:
        """Take in a host's new state."""
        self._hosts[pace_key] = state

    async def aclose(self) -> None:
        """Nothing to let go of: what is remembered serves the next gate."""

    def __repr__(self) -> str:
        return f"<MemoryStore records={len(self._records)} hosts={len(self._hosts)}>"
