"""Grants in a file: the rows of `robotgate.stores.grants.Grants`, and a session that uses them.

All processes that use the file are on one machine. They share one clock, and can tell that a process has ended before
its session expires. No message is lost: a transaction is done or not.
"""

from __future__ import annotations

import asyncio
import math
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from robotgate.errors import StoreError
from robotgate.pace.state import CLOCK_GRAIN, HostState, merged
from robotgate.stores.grants import BEAT, EXPIRY, BlockRow, Grants, HostRow, Member, SessionRow
from robotgate.stores.session import Inbox, Seat
from robotgate.stores.sqlite import database, tables
from robotgate.stores.sqlite.database import WhenLost
from robotgate.stores.sqlite.tables import process_runs, text, text_of

if TYPE_CHECKING:
    import sqlite3

    from robotgate.stores.base import Grant
    from robotgate.stores.grants import Reply, Request
    from robotgate.stores.sqlite.store import SQLiteStore
    from robotgate.stores.sqlite.tables import FileClock, Moment, Value

FIRST_LOOK: Final = 0.025
"""Seconds until a session reads its inbox; half as long again after each time without news."""
LAST_LOOK: Final = 0.1
IDLE_LOOK: Final = 0.5
"""Seconds between two looks into the inbox while there is no other session."""


class FileGrants(Grants):
    """The grants of a file within one transaction: rows are read when they are needed, and `write` writes them back.

    States of hosts are in a table of their own; `known` and `keep` read and write it at once.
    """

    def __init__(self, there: sqlite3.Connection, at: Moment, clock: FileClock) -> None:
        super().__init__(str(tables.read_fact(there, tables.FILE_NUMBER)))
        self._there = there
        self._at = at
        self._clock = clock
        self._serial = int(tables.read_fact(there, tables.SERIAL) or 0)
        for name, joined, seen_at, boot, place, pid in there.execute("SELECT * FROM sessions").fetchall():
            is_gone = boot != clock.boot or (place and place == clock.place and not process_runs(pid))
            age = EXPIRY + CLOCK_GRAIN if is_gone or seen_at > at.uptime else at.uptime - seen_at
            self.sessions[name] = SessionRow(joined, at.now - age)
        for pattern, until_at, said_at, number in there.execute("SELECT * FROM blocks").fetchall():
            self.blocks[pattern] = BlockRow(until_at and until_at - at.ahead, said_at - at.ahead, number)

    def known(self, key: str) -> HostState | None:
        """As `Grants.known`."""
        return known_host(self._there, key, self._at)

    def keep(self, key: str, state: HostState) -> None:
        """As `Grants.keep`."""
        tables.write_hosts(self._there, self._at, {key: state})

    def host(self, key: str) -> HostRow:
        """As `Grants.host`."""
        if key not in self.hosts:
            host = self.hosts[key] = HostRow()
            query = "SELECT session, token, item FROM grants WHERE key = ? ORDER BY place"
            for name, token, item in self._there.execute(query, (text(key),)).fetchall():
                if token is None:
                    host.line.append(name)
                    continue
                host.owner, host.token = name, token
                if name in self.sessions:
                    self.sessions[name].inbox[key] = item
        return self.hosts[key]

    def end(self, name: str, *, visited_at: float | None) -> None:
        """As `Grants.end`."""
        super().end(name, visited_at=visited_at)
        self._there.execute("DELETE FROM sessions WHERE id = ?", (name,))

    def keys_of(self, name: str) -> list[str]:
        """As `Grants.keys_of`."""
        rows = self._there.execute("SELECT key FROM grants WHERE session = ?", (name,)).fetchall()
        return [*{*self.hosts, *(text_of(key) for (key,) in rows)}]

    def take_in(self, request: Request) -> Reply:
        """As `Grants.exchange`, and write all changes."""
        run, name, clock, ahead = self._there.execute, request.session, self._clock, self._at.ahead
        query = "SELECT key FROM grants WHERE session = ? AND item > ?"
        for (key,) in run(query, (name, request.after)).fetchall():
            self.host(text_of(key))
        reply = self.exchange(request, now=self._at.now)
        if name in self.sessions:
            values = name, reply.term.joined, self._at.uptime, clock.boot, clock.place, os.getpid()
            run("REPLACE INTO sessions VALUES (?, ?, ?, ?, ?, ?)", values)
        if request.notices:
            run("DELETE FROM blocks")
            rows = (
                (pattern, until_at and until_at + ahead, said_at + ahead, number)
                for pattern, (until_at, said_at, number) in self.blocks.items()
            )
            self._there.executemany("INSERT INTO blocks VALUES (?, ?, ?, ?)", rows)
        self.write()
        return reply

    def write(self) -> None:
        """Write the owners and lines of hosts."""
        for key, host in self.hosts.items():
            self._there.execute("DELETE FROM grants WHERE key = ?", (text(key),))
            rows: list[tuple[Value, ...]]
            rows = [(text(key), name, place, None, None) for place, name in enumerate(host.line, 1)]
            if host.owner is not None:
                item = self.sessions[host.owner].inbox.get(key, 0)
                rows.append((text(key), host.owner, 0, host.token, item))
            self._there.executemany("INSERT INTO grants VALUES (?, ?, ?, ?, ?)", rows)
        tables.write_fact(self._there, tables.SERIAL, float(self._serial))

    def _forget_free(self, key: str) -> None:
        """Do nothing: `write` deletes the rows."""


def known_host(there: sqlite3.Connection, key: str, at: Moment) -> HostState | None:
    """Return the state of a host, with the visit that is assumed for all hosts after a crash."""
    state = tables.read_host(there, key, at)
    assumed_at = tables.read_fact(there, tables.ASSUMED_VISIT_AT)
    if assumed_at is not None:
        assumed = HostState(last_visit_at=min(assumed_at - at.ahead, at.now))
        state = assumed if state is None else merged(state, assumed)
    return state


class SQLiteSession(Inbox, Seat):
    """The session of a gate in a file. Its task exchanges messages and sends the signs of life."""

    def __init__(self, store: SQLiteStore, name: str, clock: FileClock) -> None:
        Inbox.__init__(self)
        Seat.__init__(self, Member(name), self, clock.uptime)
        self._store = store
        self._beat_at = -math.inf
        self._look = FIRST_LOOK

    async def join(self) -> None:
        """Open the session, and start its task.

        Raises:
            StoreError: the file cannot be used.
        """
        while self.member.has_to_send:
            await self._exchange()
        self.start(self._run(), self._store._closed)

    async def obtain(self, key: str) -> Grant:
        """As `Session.obtain`."""
        self._store._bind()
        return await super().obtain(key)

    async def aclose(self) -> None:
        """As `Session.aclose`.

        Raises:
            StoreError: the file cannot be written, and `when_lost` is `WhenLost.RAISE`.
        """
        if self.is_closed:
            return
        self.is_closed = True
        await self.stop()
        try:
            await self._exchange(is_last=True)
        finally:
            self._store._ended(self)

    async def _run(self) -> None:
        while True:
            try:
                if not self._has_to_send():
                    await self._wait()
                if self._has_to_send() or await self._store._read(self._has_news):
                    await self._exchange()
                    self.report(None)
            except StoreError as error:
                self.report(error)
                if self._store.when_lost is WhenLost.RAISE:
                    self.fail(error)
                await asyncio.sleep(database.RETRY_DELAY)

    async def _wait(self) -> None:
        """Wait until there may be something to do."""
        pause, self._look = self._look, min(self._look * 1.5, LAST_LOOK)
        if not self._store._is_shared:
            pause = IDLE_LOOK
        with suppress(TimeoutError):
            async with asyncio.timeout(max(min(pause, self._beat_at - self.uptime()), 0.0)):
                await self._is_due.wait()
        self._is_due.clear()

    def _has_news(self, there: sqlite3.Connection, _: Moment) -> bool:
        """Whether there is something in the inbox, or the session's row was deleted."""
        query = (
            "SELECT EXISTS (SELECT 1 FROM grants WHERE session = :name AND item > :after) "
            "OR EXISTS (SELECT 1 FROM blocks WHERE number > :after) "
            "OR NOT EXISTS (SELECT 1 FROM sessions WHERE id = :name)"
        )
        values = {"name": self.member.session, "after": self.member.after}
        return bool(there.execute(query, values).fetchone()[0])

    def _has_to_send(self) -> bool:
        return self.member.has_to_send or self.uptime() >= self._beat_at

    async def _exchange(self, *, is_last: bool = False) -> None:
        now = self.uptime()
        request = self.member.request(now=now, is_last=is_last)
        reply = await self._store._exchange(request)
        # An owner whose process was killed changes nothing in the file: an exchange of another session frees its hosts.
        self._beat_at = now + (IDLE_LOOK if self.member.wants else BEAT)
        if reply.items or request.leaves or request.asks:
            self._look = FIRST_LOOK
        self.receive(reply)
