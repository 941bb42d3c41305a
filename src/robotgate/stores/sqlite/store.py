"""The store in a file, and its use of memory while the file fails."""

from __future__ import annotations

import asyncio
import math
import os
import re
import uuid
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from robotgate.clock import DAY, Clock, SystemClock
from robotgate.errors import OptionError, StoreError
from robotgate.options import check_kind, check_seconds, check_whole
from robotgate.stores.base import SERVERS, Grant, OwnStore, Pruned, logger, without_secrets
from robotgate.stores.grants import BEAT, Reply, Request, SessionSide
from robotgate.stores.session import BaseSession, NewsQueue
from robotgate.stores.sqlite import database, tables
from robotgate.stores.sqlite.database import READ, WRITE, Database, WhenLost, fault
from robotgate.stores.sqlite.tables import FileClock, FileGrants, Tables

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Mapping

    from robotgate.pace.state import HostState
    from robotgate.sites.record import RobotsRecord
    from robotgate.urls import Origin

T = TypeVar("T")
Work: TypeAlias = "Callable[[Tables], T]"

MAX_BYTES: Final = 2**30
LEAST_MAX_BYTES: Final = 2**20
MAX_AGE: Final = 90.0 * DAY
STEP: Final = 500
"""Rows that are deleted at a time."""
PRUNE_INTERVAL: Final = float(DAY)
"""Seconds after which rows over `max_age` are deleted."""
UPKEEP_INTERVAL: Final = 60.0
"""Seconds between two checks of the file's size."""
STEP_PAUSE: Final = 0.01
"""Seconds between two steps of a pruning, in which other processes can use the file."""
ROOM: Final = 0.9
"""The share of `max_bytes` to which the file is pruned, so that the next batch does not prune again."""
MOST_ROUNDS: Final = 4
"""Rounds of one pruning: the number of rows to delete is an estimate, and hosts that must stay are skipped."""
WARNING_INTERVAL: Final = 600.0
"""Seconds until another warning is logged."""
FIRST_LOOK: Final = 0.025
"""Seconds until a session reads its inbox; half as long again after each time without news."""
LAST_LOOK: Final = 0.1
IDLE_LOOK: Final = 0.5
"""Seconds between two looks into the inbox while there is no other session."""
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
"""Two letters at least: one letter is a drive."""


class SQLiteStore(OwnStore):
    """Keeps records and host states in a file. Gates of several processes of one machine may share it.

    One thread does all work on the file, so the event loop is not blocked. Every process that crawls has a session in
    the file, and is granted the hosts that it visits. The hosts of a process that was killed count as visited when this
    is noticed, or when its session expires: no delay is shortened. After a crash of the machine all hosts, known or
    not, count as visited when the file is opened next.

    The file is opened by the first use, by `open` or by ``async with``, which closes it. It is made with mode 0600. If
    only its directory is missing, that is made with mode 0700. Symbolic links, devices, named pipes, files of other
    users, databases of other programs, and directories in which everybody may exchange files are refused.

    Args:
        path: of the file.
        max_bytes: of the file, in bytes, 1 MiB at least. Rows that were written longest ago are deleted first; hosts
            whose delay or block is not over stay.
        max_age: in seconds; older rows are deleted once a day.
        when_lost: what to do while the file can neither be read nor written. It is tried again every second. Hosts that
            another process may hold also wait with `WhenLost.MEMORY`.
        clock: as the gate's.

    Raises:
        OptionError: the value of an option is not valid.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_bytes: int = MAX_BYTES,
        max_age: float = MAX_AGE,
        when_lost: WhenLost = WhenLost.RAISE,
        clock: Clock | None = None,
    ) -> None:
        self.path: Path = file_path(path)
        check_whole("max_bytes", max_bytes, least=LEAST_MAX_BYTES)
        check_seconds("max_age", max_age)
        check_kind("when_lost", when_lost, WhenLost)
        self._max_bytes = max_bytes
        self._max_age = max_age
        self.when_lost = when_lost
        self._clock = FileClock(SystemClock() if clock is None else clock)
        spare = self._fill_spare if when_lost is WhenLost.MEMORY else None
        self._database = Database(
            self.path, opening=self._opening, fill_spare=spare, give_back=self._give_back
        )
        self._reading = 0.0
        self._file_number: float | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sessions: dict[str, SQLiteSession] = {}
        self._others = 0
        """Sessions of other stores, as of the last exchange."""
        self._warned_at = -WARNING_INTERVAL
        self._questions: list[Work[None]] = []
        self._asking: asyncio.Task[None] | None = None
        self._upkeep: asyncio.Task[None] | None = None
        self._closing: asyncio.Future[None] | None = None
        self._is_closed = False

    async def open(self) -> None:
        """Open the file now rather than at the first use.

        Raises:
            StoreError: it cannot be opened, and `when_lost` is `WhenLost.RAISE`. So with all other methods.
        """
        await self._do(lambda *_: None)

    async def load_record(self, origin: Origin) -> RobotsRecord | None:
        """As `Store.load_record`."""
        return await self._read(lambda file: file.read_record(origin))

    async def save_record(self, record: RobotsRecord) -> None:
        """As `Store.save_record`; returns when it is in the file."""
        await self._do(lambda file: file.write_records((record,)))

    async def load_host(self, pace_key: str) -> HostState | None:
        """As `Store.load_host`, with the visit that is assumed after a crash."""
        return await self._read(lambda file: file.known_host(pace_key))

    async def save_hosts(self, states: Mapping[str, HostState]) -> None:
        """As `Store.save_hosts`; among several sessions the later instants count."""
        await self._do(lambda file: file.save_hosts(states, replaces=file.sessions() <= 1))

    async def session(self) -> SQLiteSession:
        """As `SharedStore.session`.

        Raises:
            StoreError: the file cannot be used, and `when_lost` is `WhenLost.RAISE`.
        """
        self._bind()
        session = SQLiteSession(self, uuid.uuid4().hex, self._clock)
        self._sessions[session.side.name] = session
        try:
            await session.join()
        except BaseException:
            self._ended(session)
            raise
        if self._upkeep is None or self._upkeep.done():
            self._upkeep = asyncio.get_running_loop().create_task(self._keep_bounds())
        return session

    async def origins(self, host: str | None = None) -> list[Origin]:
        """Return the origins that have a record, of all hosts or of one, by host, then port, then scheme.

        Raises:
            StoreError: the file cannot be read. So with all methods that list.
        """
        return await self._read(lambda file: file.origins(host))

    async def pace_keys(self) -> list[str]:
        """Return the pace keys of all hosts, in order."""
        return await self._read(Tables.pace_keys)

    async def host(self, pace_key: str) -> HostState | None:
        """As `Catalogue.host`."""
        return await self._read(lambda file: file.read_host(pace_key))

    async def forget_record(self, origin: Origin) -> bool:
        """As `Catalogue.forget_record`.

        Raises:
            StoreError: the file cannot be written.
        """
        return await self._do(lambda file: file.forget_record(origin))

    async def forget_host(self, pace_key: str) -> bool:
        """As `Catalogue.forget_host`.

        Raises:
            StoreError: the file cannot be written.
        """
        return await self._do(lambda file: file.forget_host(pace_key))

    async def prune(self, *, now: float) -> Pruned:
        """As `Catalogue.prune`, by `max_bytes` and `max_age`. While a session is open, the store does this by itself.

        Raises:
            StoreError: the file cannot be written.
        """
        at = now + await self._read(lambda file: file.ahead)
        gone = await self._delete(before=at - self._max_age, share=1.0, now=at)
        for _ in range(MOST_ROUNDS):
            used = await self._read(Tables.used_bytes)
            if used <= self._max_bytes:
                break
            gone += await self._delete(before=math.inf, share=1.0 - self._max_bytes * ROOM / used, now=at)
        while await self._do(Tables.vacuum):  # noqa: ASYNC110 - other processes use the file meanwhile
            await asyncio.sleep(STEP_PAUSE)
        return Pruned(records=gone[tables.PRUNED_RECORDS], hosts=gone[tables.PRUNED_HOSTS])

    async def aclose(self) -> None:
        """Write what is pending, and close the file. A second call does nothing.

        Raises:
            StoreError: not all could be written, and `when_lost` is `WhenLost.RAISE`.
        """
        if self._is_closed:
            if self._closing is not None:
                await asyncio.wait({self._closing})
            return
        self._bind()
        self._is_closed = True
        has_sessions = bool(self._sessions)
        for session in self._sessions.values():
            session.is_closed = True
            session.stop()
        if self._upkeep is not None:
            self._upkeep.cancel()
        self._closing = self._database.end(self._timed(self._leave))
        if self._closing is None:
            return
        # A cancellation ends only the wait for it.
        await asyncio.wait({self._closing})
        error = self._closing.exception()
        if error is not None and (has_sessions or not isinstance(error, StoreError)):
            raise error
        if error is None and self._database.lost is not None and self._file_number is not None:
            logger.warning("%s. Records and states since then are lost", self._database.lost)

    # For the sessions.

    def _closed(self) -> StoreError:
        """Return the error for use after the end."""
        return fault(self.path, "the store was closed", "open a new one")

    async def _exchange(self, request: Request, sent_at: float) -> Reply:
        """Process a session's request; in memory, if the file fails and no other process can hold a host.

        Args:
            sent_at: by the clock of leases.

        Raises:
            StoreError: the file cannot be written.
        """

        def work(file: Tables) -> tuple[Reply, set[str]]:
            grants = FileGrants(file, self._clock)
            return grants.take_in(request, sent_at), set(grants.sessions)

        reply, names = await self._do(work, needs_file=self._others > 0)
        self._others = len(names - self._sessions.keys())
        return reply

    def _ended(self, session: SQLiteSession) -> None:
        """Forget a session that has ended."""
        self._sessions.pop(session.side.name, None)
        if not self._sessions and self._upkeep is not None:
            self._upkeep.cancel()

    # Work on the file.

    def _opening(self, connection: sqlite3.Connection, is_other: bool) -> None:  # noqa: FBT001 - as `Database` calls it
        """Prepare the file, end sessions that have expired, and note whether the machine has crashed."""
        tables.prepare(connection, self.path)
        connection.execute("BEGIN IMMEDIATE")
        (sessions,) = connection.execute("SELECT count(*) FROM sessions").fetchone()
        file = self._clock.tables(connection, self._reading, is_alone=not sessions)
        grants = FileGrants(file, self._clock)
        grants.expire(file.now)
        grants.write()
        # The mark is on the disk before any write that the next power cut may undo.
        mark = f"{tables.OPENED} {self._clock.boot}"
        found = connection.execute("SELECT name FROM facts WHERE name GLOB ?", (f"{tables.OPENED} *",))
        marks = {name for (name,) in found}
        is_crash = bool(marks - {mark}) or bool(marks and not sessions and not self._clock.boot)
        if self._file_number is not None:
            # This store opened a file before. The system may give the number of a deleted file to the next.
            is_crash = False
            is_other = is_other or self._file_number != tables.read_fact(connection, tables.FILE_NUMBER)
        if is_other:
            # The sessions of this store are of another file.
            tables.renew_number(connection)
            if self._others:
                grants.lose()
        self._file_number = tables.read_fact(connection, tables.FILE_NUMBER)
        if is_other or is_crash:
            tables.write_fact(connection, tables.ASSUMED_VISIT_AT, file.in_file)
        tables.forget_facts(connection, f"{tables.OPENED} *")
        tables.write_fact(connection, mark, file.now)
        connection.execute("COMMIT")

    def _bind(self) -> None:
        """Check that the store can be used in this event loop.

        Raises:
            StoreError: it was closed, or belongs to another event loop.
        """
        if self._is_closed:
            raise self._closed()
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            if self._loop is not None and not self._loop.is_closed():
                raise fault(self.path, "another event loop uses this store", "open one in each event loop")
            self._loop = loop
            self._sessions.clear()
            self._upkeep = None
            self._questions, self._asking = [], None
        self._reading = self._clock.clock.now()

    def _timed(self, work: Work[T]) -> Callable[[sqlite3.Connection], T]:
        reading = self._reading
        return lambda connection: work(self._clock.tables(connection, reading))

    async def _do(self, work: Work[T], begin: str = WRITE, *, needs_file: bool = False) -> T:
        """Do this in a transaction."""
        self._bind()
        return await self._database.run(self._timed(work), begin, needs_file=needs_file)

    async def _read(self, work: Work[T]) -> T:
        """Do this in a transaction that reads, with all other reads of this turn of the event loop."""
        self._bind()
        found: list[T] = []
        self._questions.append(lambda file: found.append(work(file)))
        if self._asking is None:
            # Not by the loop's task factory, which may begin the task at once.
            self._asking = asyncio.Task(self._answer())
            # The error of cancelled callers is not logged as never retrieved.
            self._asking.add_done_callback(lambda asking: asking.cancelled() or asking.exception())
        # A cancellation ends only the wait.
        await asyncio.shield(self._asking)
        return found[0]

    async def _answer(self) -> None:
        questions, self._questions, self._asking = self._questions, [], None

        def work(file: Tables) -> None:
            for question in questions:
                question(file)

        await self._do(work, READ)

    def _fill_spare(self, spare: sqlite3.Connection, error: StoreError) -> None:
        """Prepare a database in memory in place of the file, which has failed."""
        if self._reading - self._warned_at >= WARNING_INTERVAL:
            self._warned_at = self._reading
            what = "Hosts that others may hold wait" if self._others else "Memory is used"
            logger.warning("%s. %s until the file works again; nothing is saved before", error, what)
        tables.prepare(spare, self.path)
        spare.execute(tables.BOUND_RECORDS)
        file = self._clock.tables(spare, self._reading)
        tables.write_fact(spare, tables.ASSUMED_VISIT_AT, file.in_file)

    def _give_back(self, connection: sqlite3.Connection, spare: sqlite3.Connection) -> None:
        """Write the contents of the database in memory to the file, which works again."""
        kept, file = (self._clock.tables(each, self._reading) for each in (spare, connection))
        found = {key: kept.read_host(key) for key in kept.pace_keys()}
        file.save_hosts({key: state for key, state in found.items() if state}, replaces=False)
        file.write_records(filter(None, map(kept.read_record, kept.origins(None))))
        logger.info("%s: the file can be used again", self.path)

    def _leave(self, file: Tables) -> None:
        grants = FileGrants(file, self._clock)
        for name in self._sessions.keys() & grants.sessions.keys():
            grants.end(name, visited_at=file.now)
        grants.write()
        if not grants.sessions:
            tables.forget_facts(file.connection, f"{tables.OPENED} *")

    async def _delete(self, **bounds: float) -> Counter[tables.Pruning]:
        """Delete rows that need not stay, some at a time."""
        gone: Counter[tables.Pruning] = Counter()
        for table in (tables.PRUNED_RECORDS, tables.PRUNED_HOSTS):
            keys = await self._read(partial(table.keys, bounds=bounds))
            for start in range(0, len(keys), STEP):
                step = partial(table.go, keys=keys[start : start + STEP], bounds=bounds)
                gone[table] += await self._do(step)
                await asyncio.sleep(STEP_PAUSE)
        return gone

    async def _keep_bounds(self) -> None:
        """Prune the file when that is due."""
        while True:
            try:
                if await self._read(self._has_to_prune):
                    await self.prune(now=self._clock.clock.now())
                    await self._do(
                        lambda file: tables.write_fact(file.connection, tables.PRUNED_AT, file.now)
                    )
            except StoreError:
                # The sessions report it.
                logger.debug("pruning failed", exc_info=True)
            await asyncio.sleep(UPKEEP_INTERVAL)

    def _has_to_prune(self, file: Tables) -> bool:
        pruned_at = tables.read_fact(file.connection, tables.PRUNED_AT)
        # If the clock was set back, the last pruning is in the future.
        is_due = pruned_at is None or not 0 <= file.now - pruned_at < PRUNE_INTERVAL
        return is_due or file.used_bytes() > self._max_bytes

    def __repr__(self) -> str:
        return f"<SQLiteStore {str(self.path)!r}>"


class SQLiteSession(NewsQueue, BaseSession):
    """The session of a gate in a file. Its task exchanges messages and sends the signs of life."""

    def __init__(self, store: SQLiteStore, name: str, clock: FileClock) -> None:
        NewsQueue.__init__(self)
        BaseSession.__init__(self, SessionSide(name), self, clock.uptime)
        self._store = store
        self._beat_at = -math.inf
        self._look = FIRST_LOOK

    async def join(self) -> None:
        """Open the session, and start its task.

        Raises:
            StoreError: the file cannot be used.
        """
        while self.side.has_to_send:
            await self._exchange()
        self.start(self._run(), self._store._closed)

    async def obtain(self, key: str, *, pace: float = 0.0) -> Grant:
        """As `Session.obtain`."""
        self._store._bind()
        return await super().obtain(key, pace=pace)

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
        except StoreError as error:
            if self._store.when_lost is WhenLost.RAISE:
                raise
            # Others free the hosts of this session when they have not heard of it for long enough.
            logger.info("a session ended without a word to others: %s", error)
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
        if not self._store._others and len(self._store._sessions) <= 1:
            pause = IDLE_LOOK
        with suppress(TimeoutError):
            async with asyncio.timeout(max(min(pause, self._beat_at - self.uptime()), 0.0)):
                await self._is_due.wait()
        self._is_due.clear()

    def _has_news(self, file: Tables) -> bool:
        """Whether there is something in the inbox, or the session's row was deleted."""
        query = (
            "SELECT EXISTS (SELECT 1 FROM grants WHERE session = :name AND item > :after) "
            "OR EXISTS (SELECT 1 FROM blocks WHERE number > :after) "
            "OR NOT EXISTS (SELECT 1 FROM sessions WHERE id = :name)"
        )
        values = {"name": self.side.name, "after": self.side.after}
        return bool(file.connection.execute(query, values).fetchone()[0])

    def _has_to_send(self) -> bool:
        return self.side.has_to_send or self.uptime() >= self._beat_at

    async def _exchange(self, *, is_last: bool = False) -> None:
        now = self.uptime()
        request = self.side.request(now=now, is_last=is_last)
        reply = await self._store._exchange(request, now)
        # An owner whose process was killed changes nothing in the file: an exchange of another session frees its hosts.
        self._beat_at = now + (IDLE_LOOK if self.side.awaited else BEAT)
        if reply.items or request.leaves or request.asks:
            self._look = FIRST_LOOK
        self.receive(reply)


def file_path(given: object) -> Path:
    """Return the absolute path of a file: the program may change its directory later. Symbolic links are kept.

    Raises:
        OptionError: it is not the path of a file.
    """
    path: object = os.fspath(given) if isinstance(given, os.PathLike) else given
    if not isinstance(path, str) or not path or "\0" in path:
        raise OptionError(f"path={given!r}: give the path of a file, as text")
    if path == ":memory:":
        raise OptionError(f"path={given!r}: give the path of a file, or use a MemoryStore")
    if _SCHEME.match(path):
        server = "; a RedisStore takes the URL of a server, and so does store= of a gate"
        why = server if SERVERS.match(path) else ", not a URL"
        raise OptionError(f"path={without_secrets(path)!r}: give the path of a file{why}")
    file = Path(path).absolute()
    if not file.name:
        raise OptionError(f"path={given!r}: give the path of a file, not of a directory")
    return file
