"""The store in a file: what it keeps, and what happens when the file fails."""

from __future__ import annotations

import asyncio
import logging
import uuid
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from robotgate.clock import SystemClock
from robotgate.errors import StoreError
from robotgate.options import check_kind, check_seconds, check_whole
from robotgate.pace.state import HostState, merged
from robotgate.stores.base import Managed
from robotgate.stores.path import file_path
from robotgate.stores.sqlite import tables
from robotgate.stores.sqlite.clock import FileClock, Moment
from robotgate.stores.sqlite.database import Database, WhenLost, fault
from robotgate.stores.sqlite.grants import Exchange, SQLiteSession, has_news, known_hosts, save_hosts

if TYPE_CHECKING:
    import os
    import sqlite3
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping

    from robotgate.clock import Clock
    from robotgate.sites.record import RobotsRecord
    from robotgate.stores.base import Pruned
    from robotgate.stores.sqlite.grants import Answer, Said
    from robotgate.urls import Origin

T = TypeVar("T")

MAX_BYTES: Final = 2**30
LEAST_MAX_BYTES: Final = 2**20
MAX_AGE: Final = 90 * 24 * 3600.0
PAGE: Final = 500
"""Rows read at a time where all are asked for."""
PRUNE_INTERVAL: Final = 24 * 3600.0
"""Seconds after which rows are looked for that have grown too old."""
UPKEEP_INTERVAL: Final = 60.0
"""Seconds between two looks at the size of the file."""
STEP_PAUSE: Final = 0.01
"""Seconds between two steps of a pruning, for other processes that want the file."""
MAX_LOST_RECORDS: Final = 256
"""Kept in memory while there is no file to take them; others are fetched again."""
WARNING_INTERVAL: Final = 600.0
"""Seconds until the same fault is worth another warning."""

_logger: Final = logging.getLogger("robotgate.stores")


class SQLiteStore(Managed):
    """Keeps all in a file, which outlives the process. Gates of several processes of one machine may share it.

    Nothing here blocks the event loop: one thread does all that touches the file. Every process that crawls has a
    session in the file, and is granted the hosts that it visits. When a process is killed, the hosts that were granted
    to it count as visited at the moment at which that is found, or its session expires: no delay is shortened. After a
    crash of the machine all hosts, known or not, count as visited when the file is opened next.

    The file is opened by the first use, by `open` or by ``async with``, which closes it; nothing is touched before. It
    is made with mode 0600, and so, for this user alone, is its directory, if only the one above exists. Symbolic links,
    devices, named pipes, files of other users, databases of other programs, and directories in which everybody may
    exchange files are refused as they are.

    Args:
        path: of the file.
        max_bytes: of the file, in bytes, 1 MiB at least; what was written longest ago goes first. Hosts that must not
            be visited yet stay all the same.
        max_age: in seconds; what was written longer ago goes, once a day.
        when_lost: what to do while the file can neither be read nor written. It is tried again every second. With
            `WhenLost.MEMORY`, hosts that another process may hold wait all the same.
        clock: tells the time, as the gate's own does.

    Raises:
        OptionError: an option makes no sense.
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
        self.path = file_path(path, option="path")
        check_whole("max_bytes", max_bytes, least=LEAST_MAX_BYTES)
        check_seconds("max_age", max_age)
        check_kind("when_lost", when_lost, WhenLost)
        self._max_bytes = max_bytes
        self._max_age = max_age
        self._when_lost = when_lost
        self._clock = FileClock(SystemClock() if clock is None else clock)
        self._database = Database(
            self.path, examine=partial(tables.examine, path=self.path), opening=self._opening
        )
        self._reading = 0.0
        self._file_number: float | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sessions: dict[str, SQLiteSession] = {}
        self._others = 0
        """Sessions of other stores, when the file last told."""
        self._versions: dict[str, tuple[int, int]] = {}
        """For each session, what the file was like when it last looked."""
        self._exchanges = 0
        self._lost: StoreError | None = None
        self._lost_at = 0.0
        self._warned: tuple[str, float] | None = None
        self._states: dict[str, HostState] = {}
        """Saved while the file was lost."""
        self._records: dict[Origin, RobotsRecord] = {}
        """As `_states`."""
        self._hosts = _Batch(self._load_hosts)
        self._origins = _Batch(self._load_records)
        self._upkeep: asyncio.Task[None] | None = None
        self._closing: asyncio.Future[None] | None = None
        self._is_closed = False

    async def open(self) -> None:
        """Open the file now rather than at the first use.

        Raises:
            StoreError: it cannot be opened, and memory is not enough.
        """
        await self._or_else(partial(self._do, _nothing), None)

    async def load_record(self, origin: Origin) -> RobotsRecord | None:
        """As `Store.load_record`.

        Raises:
            StoreError: the file cannot be read, and memory is not enough.
        """
        known = self._records.get(origin)
        return await self._or_else(partial(self._origins.get, origin), known) if known is None else known

    async def save_record(self, record: RobotsRecord) -> None:
        """As `Store.save_record`; returns when it is in the file.

        Raises:
            StoreError: it cannot be written, and memory is not enough.
        """

        async def save() -> bool:
            await self._do(lambda there, at: tables.write_records(there, (record,), now=at.now))
            return True

        if not await self._or_else(save, False):
            self._records[record.origin] = record
            while len(self._records) > MAX_LOST_RECORDS:
                del self._records[next(iter(self._records))]

    async def load_host(self, pace_key: str) -> HostState | None:
        """As `Store.load_host`, with what is assumed after a crash.

        Raises:
            StoreError: the file cannot be read, and memory is not enough.
        """
        known = self._states.get(pace_key)
        return (
            await self._or_else(partial(self._hosts.get, pace_key), self.guess(pace_key))
            if known is None
            else known
        )

    async def save_hosts(self, states: Mapping[str, HostState]) -> None:
        """As `Store.save_hosts`; among several sessions the later instants count.

        Raises:
            StoreError: they cannot be written, and memory is not enough.
        """

        async def save() -> bool:
            await self._do(lambda there, at: save_hosts(there, states, at))
            return True

        if not await self._or_else(save, False):
            self._states |= {
                key: merged(self._states[key], state) if key in self._states else state
                for key, state in states.items()
            }

    async def session(self) -> SQLiteSession:
        """As `SharedStore.session`.

        Raises:
            StoreError: the file cannot be used, and memory is not enough.
        """
        self._bind()
        session = SQLiteSession(self, uuid.uuid4().hex, self._clock)
        self._sessions[session.member.session] = session
        try:
            await session.join()
        except BaseException:
            self.ended(session)
            raise
        if self._upkeep is None:
            self._upkeep = asyncio.get_running_loop().create_task(self._keep_bounds())
        return session

    async def records(self) -> AsyncIterator[RobotsRecord]:
        """As `Catalogue.records`.

        Raises:
            StoreError: the file cannot be read.
        """
        place: tables.Place | None = tables.FIRST_PLACE
        while place is not None:
            page, place = await self._read(partial(_records_after, place))
            for record in page:
                yield record

    async def hosts(self) -> AsyncIterator[tuple[str, HostState]]:
        """As `Catalogue.hosts`.

        Raises:
            StoreError: the file cannot be read.
        """
        last: str | None = None
        while page := await self._read(partial(_hosts_after, last)):
            for pace_key, state in page:
                yield pace_key, state
            last = page[-1][0]

    async def origins_of(self, host: str) -> list[Origin]:
        """As `Catalogue.origins_of`.

        Raises:
            StoreError: the file cannot be read.
        """
        return await self._read(lambda there, _: tables.origins_of(there, host))

    async def host(self, pace_key: str) -> HostState | None:
        """As `Catalogue.host`.

        Raises:
            StoreError: the file cannot be read.
        """
        return await self._read(partial(_host, pace_key))

    async def forget_record(self, origin: Origin) -> bool:
        """As `Catalogue.forget_record`.

        Raises:
            StoreError: the file cannot be written.
        """
        return await self._do(lambda there, _: tables.forget_record(there, origin))

    async def forget_host(self, pace_key: str) -> bool:
        """As `Catalogue.forget_host`.

        Raises:
            StoreError: the file cannot be written.
        """
        return await self._do(lambda there, _: tables.forget_host(there, pace_key))

    async def prune(self, *, now: float) -> Pruned:
        """As `Catalogue.prune`, by `max_bytes` and `max_age`. While a session is open, the store does so by itself.

        Raises:
            StoreError: the file cannot be written.
        """
        ahead = await self._read(lambda _, at: at.ahead)
        pruning = tables.Pruning(now=now + ahead, max_bytes=self._max_bytes, max_age=self._max_age)
        while not await self._do(lambda there, _: pruning.step(there)):  # noqa: ASYNC110 - it leaves time to others
            await asyncio.sleep(STEP_PAUSE)
        return pruning.pruned

    async def aclose(self) -> None:
        """Write what is pending, and close the file. A second time changes nothing.

        Raises:
            StoreError: not all could be written, and memory was not enough.
        """
        if self._is_closed:
            if self._closing is not None and self._closing.get_loop() is asyncio.get_running_loop():
                await asyncio.wait({self._closing})
            return
        self._is_closed = True
        for session in self._sessions.values():
            session.stop()
        if self._upkeep is not None:
            self._upkeep.cancel()
        is_pending = bool(self._states or self._records or self._sessions)
        if not (self._database.is_started or is_pending):
            return
        self._bind_loop()
        self._closing = self._database.end(self._timed(self._leave))
        # A cancellation ends only the wait for it.
        await asyncio.wait({self._closing})
        error = self._closing.exception()
        if error is None or (isinstance(error, StoreError) and not is_pending):
            return
        if not isinstance(error, StoreError) or self._when_lost is WhenLost.RAISE:
            raise error
        _logger.warning("%s. What was learnt since is lost", error)

    # What the sessions use.

    @property
    def is_on_memory(self) -> bool:
        """Whether the file is lost, memory is enough, and no other session may hold a host."""
        return self._lost is not None and self._when_lost is WhenLost.MEMORY and not self.is_shared

    @property
    def waits_for_others(self) -> bool:
        """Whether the file is lost, memory would be enough, but other sessions may hold hosts."""
        return self._lost is not None and self._when_lost is WhenLost.MEMORY and self.is_shared

    @property
    def is_shared(self) -> bool:
        """Whether there are several sessions, as far as is known."""
        return self._others > 0 or len(self._sessions) > 1

    def check(self) -> None:
        """See that there is somewhere to keep things.

        Raises:
            StoreError: the file is lost, and memory is not enough; or the store was closed.
        """
        self._bind()
        if self._lost is not None and self._when_lost is WhenLost.RAISE:
            raise StoreError(*self._lost.args) from self._lost

    def closed(self) -> StoreError:
        """The error for use after the end."""
        return self._database.closed()

    def guess(self, pace_key: str) -> HostState | None:
        """What is assumed of a host while the file is lost."""
        visited = HostState(last_visit_at=self._lost_at)
        return merged(self._states.get(pace_key, visited), visited) if self._lost is not None else None

    def lose(self, error: StoreError, *, by: SQLiteSession | None = None) -> None:
        """The file failed. The sessions try it again."""
        if self._is_closed:
            return
        if self._lost is None:
            self._lost_at = self._clock.clock.now()
            if self._when_lost is WhenLost.MEMORY:
                self._warn(error)
        self._lost = error
        for session in self._sessions.values():
            if session is not by:
                session.probe()

    async def exchange(self, said: Said) -> Answer:
        """Let a session say and hear what there is.

        Raises:
            StoreError: the file cannot be written.
        """
        states, records = dict(self._states), dict(self._records)

        def work(there: sqlite3.Connection, at: Moment) -> Answer:
            self._write_pending(there, at, states, records)
            return Exchange(there, at, self._clock).take_in(said)

        answer = await self._do(work)
        # More may have been saved meanwhile.
        self._states = {key: state for key, state in self._states.items() if states.get(key) is not state}
        self._records = {
            key: record for key, record in self._records.items() if records.get(key) is not record
        }
        self._exchanges += 1
        ours = sum(name != said.request.session for name in self._sessions)
        self._others = max(answer.others - ours, 0)
        return answer

    async def has_news(self, session: SQLiteSession) -> bool:
        """Whether the file has something for a session to hear. The whole file is looked at only if it was changed.

        Raises:
            StoreError: the file cannot be read.
        """
        name, exchanges = session.member.session, self._exchanges
        look = partial(has_news, name=name, after=session.member.after, blocks_after=session.blocks_after)

        def work(there: sqlite3.Connection, _: Moment) -> bool:
            version = int(there.execute("PRAGMA data_version").fetchone()[0]), exchanges
            is_same = self._versions.get(name) == version
            self._versions[name] = version
            return not is_same and look(there)

        return await self._read(work)

    def ended(self, session: SQLiteSession) -> None:
        """A session is over."""
        name = session.member.session
        self._sessions.pop(name, None)
        self._versions.pop(name, None)
        if not self._sessions and self._upkeep is not None:
            self._upkeep.cancel()
            self._upkeep = None

    # Work on the file.

    def _opening(self, there: sqlite3.Connection, is_other: bool) -> None:  # noqa: FBT001 - the database's word
        """Make the file ours, and see what those before us left."""
        tables.prepare(there, self.path)
        there.execute("BEGIN IMMEDIATE")
        (sessions,) = there.execute("SELECT count(*) FROM sessions").fetchone()
        self._clock.attach(there, is_alone=not sessions)
        at = self._clock.moment(self._reading)
        Exchange(there, at, self._clock).expire()
        # The mark is on the disk before anything that the next power cut may undo.
        mark = f"{tables.OPENED} {self._clock.boot}"
        found = there.execute("SELECT name FROM facts WHERE name GLOB ?", (f"{tables.OPENED} *",))
        marks = {name for (name,) in found}
        is_crash = bool(marks - {mark}) or bool(marks and not sessions and not self._clock.boot)
        if self._file_number is not None:
            # We opened it before. Of a file that was deleted, the next may have the number with the system as well.
            is_crash = False
            is_other = is_other or self._file_number != tables.read_fact(there, tables.FILE_NUMBER)
        if is_other:
            # The sessions in it are of another file.
            tables.renew_number(there)
        self._file_number = tables.read_fact(there, tables.FILE_NUMBER)
        if is_other or is_crash:
            tables.write_fact(there, tables.ASSUMED_VISIT_AT, at.now)
        tables.forget_facts(there, f"{tables.OPENED} *")
        tables.write_fact(there, mark, at.now)
        if tables.read_fact(there, tables.PRUNED_AT) is None:
            tables.write_fact(there, tables.PRUNED_AT, at.now)
        there.execute("COMMIT")

    def _bind(self) -> None:
        """See that the store can be used here."""
        if self._is_closed:
            raise self._database.closed()
        self._bind_loop()

    def _bind_loop(self) -> None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            if self._loop is not None and not self._loop.is_closed():
                raise fault(self.path, "another event loop uses this store", "open one in each event loop")
            self._loop = loop
            self._sessions.clear()
            self._upkeep = None
            self._hosts, self._origins = _Batch(self._load_hosts), _Batch(self._load_records)
        self._reading = self._clock.reading()

    def _timed(self, work: Callable[[sqlite3.Connection, Moment], T]) -> Callable[[sqlite3.Connection], T]:
        reading = self._reading
        return lambda there: work(there, self._clock.moment(reading))

    async def _do(self, work: Callable[[sqlite3.Connection, Moment], T]) -> T:
        """Do something in a transaction that writes; that it can shows that the file is not lost."""
        self._bind()
        result = await self._database.run(self._timed(work))
        if self._lost is not None:
            self._lost = None
            _logger.info("%s: the file can be used again", self.path)
        return result

    async def _read(self, work: Callable[[sqlite3.Connection, Moment], T]) -> T:
        self._bind()
        return await self._database.read(self._timed(work))

    async def _or_else(self, work: Callable[[], Awaitable[T]], otherwise: T) -> T:
        """Do something; where the file is lost and memory is enough, take something else for its result."""
        self._bind()
        if self._lost is not None and self._sessions:
            # The sessions try it: nobody else waits for that.
            self.check()
            return otherwise
        try:
            return await work()
        except StoreError as error:
            if self._is_closed:
                raise
            self.lose(error)
            if self._when_lost is WhenLost.RAISE:
                if not self._sessions:
                    self._lost = None
                raise
            return otherwise

    async def _load_hosts(self, pace_keys: Collection[str]) -> dict[str, HostState]:
        return await self._read(lambda there, at: known_hosts(there, pace_keys, at))

    async def _load_records(self, origins: Collection[Origin]) -> dict[Origin, RobotsRecord]:
        return await self._read(lambda there, at: tables.read_records(there, origins, now=at.now))

    def _write_pending(
        self,
        there: sqlite3.Connection,
        at: Moment,
        states: Mapping[str, HostState],
        records: Mapping[Origin, RobotsRecord],
    ) -> None:
        if states:
            save_hosts(there, states, at, replaces=False)
        if records:
            tables.write_records(there, records.values(), now=at.now)

    def _leave(self, there: sqlite3.Connection, at: Moment) -> None:
        self._write_pending(there, at, self._states, self._records)
        exchange = Exchange(there, at, self._clock)
        for name in self._sessions:
            exchange.end(name, visited_at=at.now)
        if not there.execute("SELECT count(*) FROM sessions").fetchone()[0]:
            tables.forget_facts(there, f"{tables.OPENED} *")

    async def _keep_bounds(self) -> None:
        """Prune the file when it is time."""
        while True:
            try:
                if await self._read(self._has_to_prune):
                    await self.prune(now=self._clock.clock.now())
                    await self._do(lambda there, at: tables.write_fact(there, tables.PRUNED_AT, at.now))
            except StoreError:
                # The sessions find out, and tell.
                _logger.debug("pruning failed", exc_info=True)
            await asyncio.sleep(UPKEEP_INTERVAL)

    def _has_to_prune(self, there: sqlite3.Connection, at: Moment) -> bool:
        pruned_at = tables.read_fact(there, tables.PRUNED_AT)
        # Of a clock that was set back, the last time lies in the future.
        is_due = pruned_at is None or not 0 <= at.now - pruned_at < PRUNE_INTERVAL
        return is_due or tables.used_bytes(there) > self._max_bytes

    def _warn(self, error: StoreError) -> None:
        """Say it once: a file that fails in one place only is back, and lost again, every other second."""
        said, now = str(error), self._lost_at
        level = logging.WARNING
        if self._warned is not None and self._warned[0] == said and now - self._warned[1] < WARNING_INTERVAL:
            level = logging.DEBUG
        else:
            self._warned = said, now
        what = "Hosts that others may hold wait" if self.is_shared else "On with memory alone"
        _logger.log(level, "%s. %s until it can be used again", error, what)

    def __repr__(self) -> str:
        return f"<SQLiteStore {str(self.path)!r}>"


K = TypeVar("K")
V = TypeVar("V")


class _Batch(Generic[K, V]):
    """Questions that are asked in the same turn of the event loop are put to the file together."""

    def __init__(self, load: Callable[[Collection[K]], Coroutine[object, object, dict[K, V]]]) -> None:
        self._load = load
        self._keys: dict[K, None] = {}
        self._loading: asyncio.Task[dict[K, V]] | None = None

    async def get(self, key: K) -> V | None:
        """What is known of this one.

        Raises:
            StoreError: it could not be asked for.
        """
        if self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(self._go())
        self._keys[key] = None
        # A cancellation ends only the wait for it.
        return (await asyncio.shield(self._loading)).get(key)

    async def _go(self) -> dict[K, V]:
        keys, self._keys, self._loading = self._keys, {}, None
        return await self._load(keys)


def _nothing(there: sqlite3.Connection, at: Moment) -> None:
    """Work that needs no more than an open file."""


def _host(pace_key: str, there: sqlite3.Connection, at: Moment) -> HostState | None:
    state = tables.read_hosts(there, (pace_key,), now=at.now).get(pace_key)
    return None if state is None else at.from_file(state)


def _hosts_after(last: str | None, there: sqlite3.Connection, at: Moment) -> list[tuple[str, HostState]]:
    found = tables.hosts_after(there, last, limit=PAGE, now=at.now)
    return [(pace_key, at.from_file(state)) for pace_key, state in found]


def _records_after(
    place: tables.Place, there: sqlite3.Connection, at: Moment
) -> tuple[list[RobotsRecord], tables.Place | None]:
    return tables.records_after(there, place, limit=PAGE, now=at.now)
