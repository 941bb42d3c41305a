"""Grants in a file: the rows of `robotgate.stores.grants.Grants`.

All processes that use the file are on one machine. They share one clock, and can tell that a process has ended before
its session expires. No message is lost: a transaction is done or not.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from robotgate.pace.state import CLOCK_GRAIN
from robotgate.stores.grants import EXPIRY, BlockRow, Grants, HostRow, SessionRow
from robotgate.stores.sqlite import tables
from robotgate.stores.sqlite.tables import process_runs, text, text_of

if TYPE_CHECKING:
    import sqlite3

    from robotgate.pace.state import HostState
    from robotgate.stores.grants import Reply, Request
    from robotgate.stores.sqlite.tables import FileClock, Moment, Value


class FileGrants(Grants):
    """The grants of a file within one transaction: rows are read when they are needed, and `write` writes them back.

    States of hosts are in a table of their own; `known` and `keep` read and write it at once.
    """

    def __init__(self, connection: sqlite3.Connection, at: Moment, clock: FileClock) -> None:
        super().__init__(str(tables.read_fact(connection, tables.FILE_NUMBER)))
        self._connection = connection
        self._at = at
        self._clock = clock
        self._serial = int(tables.read_fact(connection, tables.SERIAL) or 0)
        for name, joined, seen_at, boot, place, pid in connection.execute(
            "SELECT * FROM sessions"
        ).fetchall():
            is_gone = boot != clock.boot or (place and place == clock.place and not process_runs(pid))
            age = EXPIRY + CLOCK_GRAIN if is_gone or seen_at > at.uptime else at.uptime - seen_at
            self.sessions[name] = SessionRow(joined, at.now - age)
        for pattern, until_at, said_at, number in connection.execute("SELECT * FROM blocks").fetchall():
            self.blocks[pattern] = BlockRow(until_at and until_at - at.ahead, said_at - at.ahead, number)

    def known(self, key: str) -> HostState | None:
        """As `Grants.known`."""
        return tables.known_host(self._connection, key, self._at)

    def keep(self, key: str, state: HostState) -> None:
        """As `Grants.keep`."""
        tables.write_hosts(self._connection, self._at, {key: state})

    def host(self, key: str) -> HostRow:
        """As `Grants.host`."""
        if key not in self.hosts:
            host = self.hosts[key] = HostRow()
            query = "SELECT session, token, item FROM grants WHERE key = ? ORDER BY place"
            for name, token, item in self._connection.execute(query, (text(key),)).fetchall():
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
        self._connection.execute("DELETE FROM sessions WHERE id = ?", (name,))

    def keys_of(self, name: str) -> list[str]:
        """As `Grants.keys_of`."""
        rows = self._connection.execute("SELECT key FROM grants WHERE session = ?", (name,)).fetchall()
        return [*{*self.hosts, *(text_of(key) for (key,) in rows)}]

    def take_in(self, request: Request) -> Reply:
        """As `Grants.exchange`, and write all changes."""
        run, name, clock, ahead = self._connection.execute, request.session, self._clock, self._at.ahead
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
            self._connection.executemany("INSERT INTO blocks VALUES (?, ?, ?, ?)", rows)
        self.write()
        return reply

    def write(self) -> None:
        """Write the owners and lines of hosts."""
        for key, host in self.hosts.items():
            self._connection.execute("DELETE FROM grants WHERE key = ?", (text(key),))
            rows: list[tuple[Value, ...]]
            rows = [(text(key), name, place, None, None) for place, name in enumerate(host.line, 1)]
            if host.owner is not None:
                item = self.sessions[host.owner].inbox.get(key, 0)
                rows.append((text(key), host.owner, 0, host.token, item))
            self._connection.executemany("INSERT INTO grants VALUES (?, ?, ?, ?, ?)", rows)
        tables.write_fact(self._connection, tables.SERIAL, float(self._serial))

    def _forget_free(self, key: str) -> None:
        """Do nothing: `write` deletes the rows."""
