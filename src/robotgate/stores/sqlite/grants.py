"""Grants in SQL, as `robotgate.stores.grants.Grants` has them, and a session that uses them.

All processes that use the file are on one machine, so the file's clock is one for all, and a process that is gone may
be seen before its session expires. No message is lost: a transaction is done or not.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from robotgate.errors import StoreError
from robotgate.pace.state import HostState, merged
from robotgate.stores.base import Grant, Lost, OperatorBlock, Recovered
from robotgate.stores.grants import BEAT, EXPIRY, Item, Leave, Member, Reply, Term
from robotgate.stores.session import GrantSession
from robotgate.stores.sqlite import tables
from robotgate.stores.sqlite.clock import process_runs
from robotgate.stores.sqlite.tables import text, text_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Mapping

    from robotgate.stores.grants import Hold, Request
    from robotgate.stores.sqlite.clock import FileClock, Moment
    from robotgate.stores.sqlite.store import SQLiteStore

RETRY_DELAY: Final = 1.0
"""Seconds until a file that failed is tried again."""
FIRST_LOOK: Final = 0.025
"""Seconds until a session looks whether others have changed the file; half as long again each time nothing happens."""
LAST_LOOK: Final = 0.1
IDLE_LOOK: Final = 0.5
"""Seconds between two looks of a session that is the only one."""
OLD_BLOCK: Final = 3600.0
"""Seconds for which a block that is over is kept, so that every session hears that it was lifted."""

_logger: Final = logging.getLogger("robotgate.stores")

_VISIT_HOSTS_OF: Final = """
INSERT INTO hosts (pace_key, saved_at, last_visit_at, next_allowed_at, blocked_at, blocked_until_at, failures, visits,
    bytes_read)
SELECT key, :at, :at, 0.0, 0.0, 0.0, 0, 0, 0 FROM grants
WHERE session = :session AND token IS NOT NULL AND key NOT GLOB 'robots|*'
ON CONFLICT (pace_key) DO UPDATE SET last_visit_at = max(coalesce(last_visit_at, 0.0), excluded.last_visit_at)
"""
_WANTED_OF: Final = """
SELECT DISTINCT waiting.key FROM grants AS held JOIN grants AS waiting ON waiting.key = held.key
WHERE held.session = ? AND held.token IS NOT NULL AND waiting.token IS NULL AND waiting.session <> held.session
"""
_INBOX: Final = """
SELECT key, token, item, EXISTS (SELECT 1 FROM grants AS w WHERE w.key = g.key AND w.token IS NULL)
FROM grants AS g WHERE session = ? AND item > ? ORDER BY item
"""


@dataclass(frozen=True, slots=True)
class Said:
    """What a session says in one exchange."""

    request: Request
    left: Mapping[str, HostState]
    """The states of the hosts that are left."""
    blocks: tuple[OperatorBlock, ...] = ()
    blocks_after: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a session is told."""

    reply: Reply
    states: Mapping[str, HostState] = field(default_factory=dict)
    """Of the hosts that were granted, as far as they are known."""
    blocks: tuple[OperatorBlock, ...] = ()
    blocks_after: int = 0
    others: int = 0
    """How many other sessions there are."""


class Exchange:
    """One exchange, or the end of sessions, within a transaction."""

    def __init__(self, connection: sqlite3.Connection, moment: Moment, clock: FileClock) -> None:
        self._connection = connection
        self._moment = moment
        self._clock = clock
        self._serial = int(tables.read_fact(connection, tables.SERIAL) or 0)

    def take_in(self, said: Said) -> Answer:
        """As `Grants.exchange`."""
        run, request, uptime = self._connection.execute, said.request, self._moment.uptime
        name = request.session
        self.expire()
        row = run("SELECT joined FROM sessions WHERE id = ?", (name,)).fetchone()
        joined = self._next() if row is None else int(row[0])
        if row is None:
            clock = self._clock
            values = (name, joined, uptime, clock.boot, clock.place, os.getpid())
            run("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)", values)
        epoch = tables.read_fact(self._connection, tables.FILE_NUMBER)
        term = Term(str(epoch), joined)
        is_current = request.term == term
        self._leave(name, request.leaves, said.left, is_current=is_current)
        if is_current:
            run("UPDATE sessions SET seen_at = ? WHERE id = ?", (uptime, name))
            for key in request.withdrawals:
                run("DELETE FROM grants WHERE key = ? AND session = ? AND token IS NULL", (text(key), name))
            for key in (*request.asks, *request.claims):
                self._ask(name, text(key), is_claim=key in request.claims)
        blocks, blocks_after = self._exchange_blocks(said)
        if is_current and request.is_last:
            self.end(name, visited_at=None)
        items = self._inbox(name, request.after) if is_current else ()
        states = known_hosts(self._connection, [item.key for item in items], self._moment)
        (others,) = run("SELECT count(*) FROM sessions WHERE id <> ?", (name,)).fetchone()
        tables.write_fact(self._connection, tables.SERIAL, float(self._serial))
        return Answer(Reply(request.number, term, items), states, blocks, blocks_after, int(others))

    def expire(self) -> None:
        """End sessions of processes that are gone, and those not heard of for `EXPIRY`."""
        clock, now, uptime = self._clock, self._moment.now, self._moment.uptime
        for name, seen_at, boot, place, pid in self._connection.execute(
            "SELECT id, seen_at, boot, place, pid FROM sessions ORDER BY seen_at"
        ).fetchall():
            is_gone = boot != clock.boot or (place and place == clock.place and not process_runs(pid))
            ended_ago = uptime - seen_at - EXPIRY
            if is_gone or seen_at > uptime:
                self.end(name, visited_at=now)
            elif ended_ago >= 0:
                self.end(name, visited_at=now - ended_ago)

    def end(self, name: str, *, visited_at: float | None) -> None:
        """As `Grants.end`."""
        run = self._connection.execute
        if visited_at is not None:
            run(_VISIT_HOSTS_OF, {"at": visited_at, "session": name})
        wanted = run(_WANTED_OF, (name,)).fetchall()
        run("DELETE FROM grants WHERE session = ?", (name,))
        run("DELETE FROM sessions WHERE id = ?", (name,))
        for (key,) in wanted:
            self._grant_next(key)

    def _leave(
        self, name: str, leaves: Iterable[Leave], left: Mapping[str, HostState], *, is_current: bool
    ) -> None:
        query = "DELETE FROM grants WHERE key = ? AND session = ? AND token = ?"
        held = {
            leave.key
            for leave in leaves
            if is_current and self._connection.execute(query, (text(leave.key), name, leave.token)).rowcount
        }
        for replaces in (True, False):
            states = {key: state for key, state in left.items() if (key in held) is replaces}
            save_hosts(self._connection, states, self._moment, replaces=replaces)
        for key in held:
            self._grant_next(text(key))

    def _ask(self, name: str, key: str | bytes, *, is_claim: bool) -> None:
        run = self._connection.execute
        rows = run("SELECT session, token FROM grants WHERE key = ?", (key,)).fetchall()
        if any(session == name for session, _ in rows) or (is_claim and rows):
            return
        run("INSERT INTO grants (key, session, place) VALUES (?, ?, ?)", (key, name, self._next()))
        if not rows:
            self._grant_next(key)
        elif len(rows) == 1:
            run("UPDATE grants SET item = ? WHERE key = ? AND token IS NOT NULL", (self._next(), key))

    def _grant_next(self, key: str | bytes) -> None:
        query = (
            "UPDATE grants SET token = ?, item = ? WHERE key = ? AND session = "
            "(SELECT session FROM grants WHERE key = ? ORDER BY place LIMIT 1)"
        )
        self._connection.execute(query, (self._next(), self._next(), key, key))

    def _inbox(self, name: str, after: int) -> tuple[Item, ...]:
        rows = self._connection.execute(_INBOX, (name, after)).fetchall()
        return tuple(Item(item, text_of(key), token, bool(wanted)) for key, token, item, wanted in rows)

    def _exchange_blocks(self, said: Said) -> tuple[tuple[OperatorBlock, ...], int]:
        """Hear the blocks of others, then tell our own: nobody hears what it said itself."""
        run, now, ahead = self._connection.execute, self._moment.now, self._moment.ahead
        query = "SELECT pattern, until_at FROM blocks WHERE serial > ? ORDER BY serial"
        rows = run(query, (said.blocks_after,)).fetchall()
        for block in said.blocks:
            run("DELETE FROM blocks WHERE until_at < ?", (now - OLD_BLOCK,))
            until_at = block.until_at + ahead if block.until_at else now
            run("REPLACE INTO blocks VALUES (?, ?, ?)", (block.pattern, until_at, self._next()))
        (last,) = run("SELECT coalesce(max(serial), 0) FROM blocks").fetchone()
        heard = (OperatorBlock(pattern, at - ahead if at > now else 0.0) for pattern, at in rows)
        return tuple(heard), max(int(last), said.blocks_after)

    def _next(self) -> int:
        self._serial += 1
        return self._serial


def known_hosts(
    connection: sqlite3.Connection, keys: Collection[str], moment: Moment
) -> dict[str, HostState]:
    """What is known of these hosts by the store's clock, with what is assumed of all hosts after a crash."""
    assumed_at = tables.read_fact(connection, tables.ASSUMED_VISIT_AT)
    assumed = HostState() if assumed_at is None else HostState(last_visit_at=min(assumed_at, moment.now))
    states = tables.read_hosts(connection, keys, now=moment.now)
    if assumed_at is not None:
        states = {key: merged(states.get(key, assumed), assumed) for key in keys}
    return {key: moment.from_file(state) for key, state in states.items()}


def save_hosts(
    connection: sqlite3.Connection,
    states: Mapping[str, HostState],
    moment: Moment,
    *,
    replaces: bool | None = None,
) -> None:
    """Write states, which are by the store's clock, or merge them with what is known.

    Args:
        replaces: None: if there are not several sessions.
    """
    ours = {key: moment.to_file(state) for key, state in states.items()}
    if replaces is None:
        (sessions,) = connection.execute("SELECT count(*) FROM sessions").fetchone()
        replaces = int(sessions) <= 1
    if not replaces:
        known = tables.read_hosts(connection, ours, now=moment.now)
        ours = {key: merged(known[key], state) if key in known else state for key, state in ours.items()}
    tables.write_hosts(connection, ours.items(), now=moment.now)


def has_news(connection: sqlite3.Connection, name: str, *, after: int, blocks_after: int) -> bool:
    """Whether a session's inbox has something, or its row is gone."""
    query = (
        "SELECT EXISTS (SELECT 1 FROM grants WHERE session = :name AND item > :after) "
        "OR EXISTS (SELECT 1 FROM blocks WHERE serial > :blocks_after) "
        "OR NOT EXISTS (SELECT 1 FROM sessions WHERE id = :name)"
    )
    values = {"name": name, "after": after, "blocks_after": blocks_after}
    return bool(connection.execute(query, values).fetchone()[0])


class SQLiteSession(GrantSession):
    """One gate of those that share a file. A task of its own talks to the file, and beats."""

    def __init__(self, store: SQLiteStore, name: str, clock: FileClock) -> None:
        super().__init__(Member(name))
        self.blocks_after = 0
        self._store = store
        self._clock = clock
        self._states: dict[str, HostState] = {}
        """Of hosts that were granted and not yet taken over."""
        self._left: dict[str, HostState] = {}
        self._blocks: list[OperatorBlock] = []
        self._poked = asyncio.Event()
        self._exchanged = asyncio.Event()
        self._beat_at = -math.inf
        self._look = FIRST_LOOK
        self._is_lost = False
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def join(self) -> None:
        """Enter the session, and begin to work.

        Raises:
            StoreError: the file cannot be used.
        """
        try:
            await self._exchange()
        except StoreError as error:
            self._lose(error)
            if not self._store.is_on_memory:
                raise
        self._task = asyncio.get_running_loop().create_task(self._run())

    def poke(self) -> None:
        """Have it sent: together with all else that is said in this turn of the event loop."""
        self._poked.set()

    async def obtain(self, key: str) -> Grant:
        """As `Session.obtain`. While the file is lost and memory is enough, the host is this session's."""
        while not self._store.is_on_memory:
            self._store.check()
            try:
                return await super().obtain(key)
            except StoreError:
                if not self._store.is_on_memory:
                    raise
        return Grant(_MemoryLease(self._store), self._store.guess(key))

    def probe(self) -> None:
        """See at once whether the file can be used."""
        self._beat_at = -math.inf
        self.poke()

    async def confirm(self) -> None:
        """As `GrantSession.confirm`: a lease that has run out may be renewed."""
        while self.member.holds and self._clock.lease_now() >= self.member.valid_until_at:
            self._store.check()
            self._exchanged.clear()
            self.probe()
            await self._exchanged.wait()

    def grant_of(self, key: str, hold: Hold) -> Grant:
        """As `GrantSession.grant_of`."""
        return Grant(_Lease(self, hold), self._states.pop(key, None))

    def leave(self, key: str, state: HostState | None) -> None:
        """As `Session.leave`."""
        self._states.pop(key, None)
        if state is not None:
            self._left[key] = state
        # The file takes the instants from the state.
        self.member.leave(Leave(key, None if state is None else 0.0), now=self._clock.lease_now())
        self.poke()

    def publish_block(self, pattern: str, until_at: float) -> None:
        """As `Session.publish_block`."""
        self.overrule({pattern})
        self._blocks.append(OperatorBlock(pattern, until_at))
        self.poke()

    def is_valid(self, hold: Hold) -> bool:
        """Whether a grant holds."""
        return self.member.is_valid(hold, now=self._clock.lease_now())

    def stop(self) -> None:
        """The store is closed, and ends the session."""
        self._closing.set()
        if self._task is not None:
            self._task.cancel()

    async def aclose(self) -> None:
        """As `Session.aclose`.

        Raises:
            StoreError: the file cannot be written, and memory is not enough.
        """
        if self._closing.is_set():
            return
        self._closing.set()
        if self._task is not None:
            self.poke()
            await asyncio.wait({self._task})
        try:
            await self._exchange(is_last=True)
        except StoreError:
            if not self._store.is_on_memory:
                raise
        finally:
            self._store.ended(self)

    async def _run(self) -> None:
        try:
            while not self._closing.is_set():
                try:
                    await self._wait()
                    if self._has_to_send() or await self._store.has_news(self):
                        await self._exchange()
                        self._recover()
                except StoreError as error:
                    self._lose(error)
                    with suppress(TimeoutError):
                        async with asyncio.timeout(RETRY_DELAY):
                            await self._closing.wait()
        finally:
            self.fail(self._store.closed())

    async def _wait(self) -> None:
        """Until there may be something to do."""
        if self._closing.is_set() or self._has_to_send():
            return
        pause, self._look = self._look, min(self._look * 1.5, LAST_LOOK)
        if not self._store.is_shared:
            pause = IDLE_LOOK
        try:
            async with asyncio.timeout(max(min(pause, self._beat_at - self._clock.lease_now()), 0.0)):
                await self._poked.wait()
        except TimeoutError:
            return
        finally:
            self._poked.clear()

    def _has_to_send(self) -> bool:
        now = self._clock.lease_now()
        return self.member.has_to_send or bool(self._blocks) or now >= self._beat_at

    async def _exchange(self, *, is_last: bool = False) -> None:
        now = self._clock.lease_now()
        request = self.member.request(now=now, is_last=is_last)
        left = {leave.key: self._left[leave.key] for leave in request.leaves if leave.key in self._left}
        blocks = tuple(self._blocks)
        answer = await self._store.exchange(Said(request, left, blocks, self.blocks_after))
        # A session that waits hears of owners that are gone by asking: they change nothing in the file.
        self._beat_at = now + (IDLE_LOOK if self.member.wants else BEAT)
        for key, state in left.items():
            if self._left.get(key) is state:
                del self._left[key]
        del self._blocks[: len(blocks)]
        self.blocks_after = answer.blocks_after
        if answer.reply.items or left or request.asks:
            self._look = FIRST_LOOK
        self._states |= {key: state for key, state in answer.states.items() if key in self.member.wants}
        self.receive(answer.reply)
        self.tell(*answer.blocks)
        # What was heard is older than what was said in the same exchange, or is yet to be said.
        self.overrule({block.pattern for block in (*blocks, *self._blocks)})
        self._exchanged.set()

    def _lose(self, error: StoreError) -> None:
        self._store.lose(error, by=self)
        self._beat_at = -math.inf
        self._exchanged.set()
        if self._store.waits_for_others:
            is_told = True
        else:
            is_told = not self._store.is_on_memory
            self.fail(error)
        if is_told and not self._is_lost:
            self._is_lost = True
            self.tell(Lost(error))

    def _recover(self) -> None:
        if self._is_lost:
            self._is_lost = False
            self.tell(Recovered())


class _Lease:
    """Valid while the session holds the host, and its own lease is."""

    __slots__ = ("_hold", "_session")

    def __init__(self, session: SQLiteSession, hold: Hold) -> None:
        self._session = session
        self._hold = hold

    def is_valid(self) -> bool:
        """As `Lease.is_valid`."""
        return self._session.is_valid(self._hold)


class _MemoryLease:
    """Valid while the file is lost, and memory is enough."""

    __slots__ = ("_store",)

    def __init__(self, store: SQLiteStore) -> None:
        self._store = store

    def is_valid(self) -> bool:
        """As `Lease.is_valid`."""
        return self._store.is_on_memory
