"""The store that lives as long as its process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robotgate.stores._lease import Lease

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from robotgate._access import RobotsRecord
    from robotgate._pacing import HostState
    from robotgate._urls import Origin
    from robotgate.stores._lease import Lock


class MemoryStore:
    """Remembers in dictionaries. Gates of one event loop may share it.

    They then ask for each robots.txt once between them, heed each other's blocks, and leave the delay between any two
    starts. A response that is still under way at one gate does not keep the other from starting.
    """

    def __init__(self) -> None:
        self._records: dict[Origin, RobotsRecord] = {}
        self._hosts: dict[str, HostState] = {}
        self._leases: dict[Origin, Lock] = {}

    async def load_record(self, origin: Origin) -> RobotsRecord | None:
        """The origin's record, fresh or not."""
        return self._records.get(origin)

    async def save_record(self, record: RobotsRecord) -> None:
        """Remember a record in place of the origin's earlier one."""
        self._records[record.origin] = record

    def lease(self, origin: Origin) -> AbstractAsyncContextManager[None]:
        """The sole right to fetch this origin's robots.txt."""
        return Lease(self._leases, origin)

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
