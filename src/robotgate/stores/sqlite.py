"""The store in a file, which outlives its process."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from robotgate._checks import check_choice, check_seconds, check_whole
from robotgate._clock import SystemClock
from robotgate.stores import _processes, _tables
from robotgate.stores._database import Database
from robotgate.stores._faults import WhenLost
from robotgate.stores._lease import Lease

if TYPE_CHECKING:
    import sqlite3
    from contextlib import AbstractAsyncContextManager

    from robotgate._access import RobotsRecord
    from robotgate._pacing import HostState
    from robotgate._ports import Clock
    from robotgate._urls import Origin
    from robotgate.stores._lease import Lock

MAX_BYTES: Final = 2**30
MAX_AGE: Final = 90 * 24 * 3600.0
HEARTBEAT: Final = 1.0
"""Seconds between two signs of life."""


class SQLiteStore:
    """Remembers in a file. Gates of one event loop may share it."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_bytes: int = MAX_BYTES,
        max_age: float = MAX_AGE,
        when_lost: WhenLost = WhenLost.RAISE,
        clock: Clock | None = None,
    ) -> None:
        check_whole("max_bytes", max_bytes, least=1)
        check_seconds("max_age", max_age)
        check_choice("when_lost", when_lost, WhenLost)
        self.path = Path(os.path.abspath(path))
        self._clock = clock if clock is not None else SystemClock()
        self._me = _processes.Me(self._clock.now())
        self._database = Database(self.path, opening=self._opening, idle=self._idle)
        self._hosts: dict[str, HostState] = {}
        self._leases: dict[Origin, Lock] = {}

    async def open(self) -> None:
        """Open the file now rather than at the first use."""
        await self._database.read(lambda connection: None)

    async def load_record(self, origin: Origin) -> RobotsRecord | None:
        """The origin's record, fresh or not."""
        found = await self._database.read(
            partial(_tables.read_records, origins=[origin], now=self._clock.now())
        )
        return found.get(origin)

    async def save_record(self, record: RobotsRecord) -> None:
        """Remember a record in place of the origin's earlier one."""
        await self._database.run(partial(_tables.write_records, records=[record], now=self._clock.now()))

    def lease(self, origin: Origin) -> AbstractAsyncContextManager[None]:
        """The sole right to fetch this origin's robots.txt."""
        return Lease(self._leases, origin)

    async def load_host(self, pace_key: str) -> HostState | None:
        """The host's state, if it was ever visited."""
        if pace_key in self._hosts:
            return self._hosts[pace_key]
        found = await self._database.read(
            partial(_tables.read_hosts, pace_keys=[pace_key], now=self._clock.now())
        )
        return self._hosts.get(pace_key) or found.get(pace_key)

    def recall_host(self, pace_key: str) -> HostState | None:
        """The host's state, as far as it is in memory."""
        return self._hosts.get(pace_key)

    def remember_host(self, pace_key: str, state: HostState) -> None:
        """Take in a host's new state."""
        self._hosts[pace_key] = state

    async def aclose(self) -> None:
        """Write what is pending, and close the file."""
        if self._database.is_started and not self._database.is_ended:
            await self._database.end(self._leave)

    def _opening(self, connection: sqlite3.Connection, is_other: bool) -> None:  # noqa: FBT001
        now = self._clock.now()
        _processes.bury(connection, self._me)
        _processes.enter(connection, self._me, now=now)

    def _idle(self, connection: sqlite3.Connection) -> float:
        _processes.enter(connection, self._me, now=self._clock.now())
        return HEARTBEAT

    def _leave(self, connection: sqlite3.Connection) -> None:
        _tables.write_hosts(connection, self._hosts.items(), now=self._clock.now())
        _processes.leave(connection, self._me)
