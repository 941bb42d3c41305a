"""The store in a file, which outlives its process."""

from __future__ import annotations

import asyncio
import atexit
import logging
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final

from robotgate import _pacing
from robotgate._checks import check_choice, check_seconds, check_whole
from robotgate._clock import READINGS, SystemClock
from robotgate._errors import StoreError
from robotgate.stores import _booking, _tables
from robotgate.stores._database import Database
from robotgate.stores._faults import WhenLost, fault
from robotgate.stores._file_clock import NOISE
from robotgate.stores._lease import Lease
from robotgate.stores._managed import Managed
from robotgate.stores._path import file_path
from robotgate.stores._pulse import Pulse
from robotgate.stores._shared_lease import SharedLease
from robotgate.stores._sharing import Sharing
from robotgate.stores._together import Together
from robotgate.stores._upkeep import HEARTBEAT, Upkeep
from robotgate.stores._write_behind import Batch, WriteBehind

if TYPE_CHECKING:
    import os
    import sqlite3
    from collections.abc import AsyncIterator, Collection, Mapping
    from contextlib import AbstractAsyncContextManager

    from robotgate._access import RobotsRecord
    from robotgate._pacing import HostState
    from robotgate._ports import Clock, Postponed, Pruned
    from robotgate._urls import Origin
    from robotgate.stores._lease import Lock
    from robotgate.stores._ledger import News
    from robotgate.stores._processes import Census

MAX_BYTES: Final = 2**30
LEAST_MAX_BYTES: Final = 2**20
MAX_AGE: Final = 90 * 24 * 3600.0
MAX_HOSTS: Final = 100_000
PAGE: Final = 500
"""Rows read at a time where all are asked for."""

_logger: Final = logging.getLogger("robotgate.stores")


class SQLiteStore(Managed):
    """Remembers in a file, which outlives the process. Gates of one event loop may share it.

    Nothing here blocks the event loop: one thread does all that touches the file. A host's new state counts at once,
    and is in the file half a second later; a block, as soon as the thread can. A process that is killed loses no more
    than that, and whoever opens the file next takes every host, known or not, to have been visited at that moment: no
    delay is shortened.

    The file is opened by the first use, by `open` or by ``async with``, which closes it; nothing is touched before. It
    is made with mode 0600, and so, for this user alone, is its directory, if only the one above exists. Symbolic links,
    files of other users and directories in which everybody may exchange files are refused.

    Args:
        path: of the file.
        max_bytes: of the file, in bytes, 1 MiB at least; what was written longest ago goes first. Hosts whose wait is
            unserved stay all the same.
        max_age: in seconds; what was written longer ago goes, once a day.
        max_hosts: how many hosts are kept in this process's memory; the oldest go first, and are read from the file
            again when they are wanted. Hosts whose wait is unserved, or which are not written yet, stay all the same.
        when_lost: what to do once the file can neither be read nor written. It is tried again every second.
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
        max_hosts: int = MAX_HOSTS,
        when_lost: WhenLost = WhenLost.RAISE,
        clock: Clock | None = None,
    ) -> None:
        self.path = file_path(path, option="path")
        check_whole("max_bytes", max_bytes, least=LEAST_MAX_BYTES)
        check_seconds("max_age", max_age)
        check_whole("max_hosts", max_hosts, least=1)
        check_choice("when_lost", when_lost, WhenLost)
        clock = SystemClock() if clock is None else clock
        self._clock: Clock = clock if type(clock) is SystemClock else _SharedClock(clock)
        self._upkeep = Upkeep(
            clock=self._clock,
            max_bytes=max_bytes,
            max_age=max_age,
            is_steady=isinstance(clock, SystemClock),
            tell=self._tell,
        )
        self._database = Database(self.path, opening=self._upkeep.opening, idle=self._idle)
        self._behind = WriteBehind(
            self._database,
            write=self._write,
            opened=lambda: self._upkeep.opened,
            max_hosts=max_hosts,
            when_lost=when_lost,
            clock=self._clock,
        )
        self._sharing = Sharing(
            database=self._database,
            behind=self._behind,
            presence=self._upkeep.presence,
            attend=self._upkeep.attend,
            assumed_visit_at=self._assumed_visit_at,
            clock=self._clock,
        )
        self._when_lost = when_lost
        self._hosts = Together(self._read_hosts)
        self._records = Together(self._read_records)
        self._leases: dict[Origin, Lock] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pulse: Pulse | None = None
        self._closing: asyncio.Future[None] | None = None
        self._is_closed = False

    async def open(self) -> None:
        """Open the file now rather than at the first use.

        Raises:
            StoreError: it cannot be opened, and memory is not enough.
        """
        self._bind()
        try:
            await self._database.read(_nothing)
        except StoreError as error:
            self._lose(error)
        self._behind.notice()

    async def load_record(self, origin: Origin) -> RobotsRecord | None:
        """The origin's record, fresh or not.

        Raises:
            StoreError: the file cannot be read, and memory is not enough.
        """
        self._bind()
        record = self._behind.record(origin)
        if record is not None or self._behind.lost is not None:
            return record
        try:
            return await self._records.get(origin)
        except StoreError as error:
            self._lose(error)
            return None
        finally:
            self._behind.notice()

    async def save_record(self, record: RobotsRecord) -> None:
        """Remember a record in place of the origin's earlier one; returns when it is in the file.

        Raises:
            StoreError: it cannot be written, and memory is not enough.
        """
        self._bind()
        await self._behind.save(record)

    def lease(self, origin: Origin) -> AbstractAsyncContextManager[None]:
        """The sole right to fetch this origin's robots.txt, among all processes that use the file."""
        self._bind()
        return SharedLease(Lease(self._leases, origin), self._sharing, origin)

    async def load_host(self, pace_key: str) -> HostState | None:
        """The host's state, from memory or from the file.

        Raises:
            StoreError: the file cannot be read, and memory is not enough.
        """
        self._bind()
        memory = self._behind.memory
        state = memory.states.get(pace_key)
        if state is not None:
            return state
        if self._behind.lost is not None:
            return self._behind.guess(pace_key)
        try:
            found = await self._hosts.get(pace_key)
        except StoreError as error:
            self._lose(error)
            return memory.states.get(pace_key) or self._behind.guess(pace_key)
        self._behind.notice()
        if found is None or pace_key in memory.states:
            return memory.states.get(pace_key, self._behind.assumed)
        state, is_set_back = found
        if self._behind.assumed is not None:
            state = _pacing.merged(state, self._behind.assumed)
        return self._behind.learn(pace_key, state, is_to_be_written=is_set_back)

    def recall_host(self, pace_key: str) -> HostState | None:
        """The host's state, as far as it is in memory."""
        return self._behind.memory.states.get(pace_key, self._behind.assumed)

    def remember_host(self, pace_key: str, state: HostState) -> None:
        """Take in a host's new state; it is written with others, half a second later at most.

        Raises:
            StoreError: the file cannot be written, and memory is not enough; or the store was closed.
        """
        self._sharing.remember(pace_key, state)

    @property
    def is_shared(self) -> bool:
        """Whether another process uses the file now, or may: turns are then reserved."""
        return self._sharing.is_shared

    async def reserve(
        self, pace_key: str, *, state: HostState, now: float, slots: int, delay: float
    ) -> Postponed | None:
        """Take one of a host's slots, if it is due as far as all processes know. Cancelled, it leaves nothing taken.

        Who has just opened the file waits here until everybody else knows of him: a second at most.

        Raises:
            StoreError: the file cannot be written, and memory is not enough.
        """
        self._bind()
        return await self._sharing.reserve(pace_key, state=state, now=now, slots=slots, delay=delay)

    def withdraw(self, pace_key: str) -> None:
        """Nothing: whoever asks when the host is due has its slot, in whatever order."""

    def begin_visit(self, pace_key: str, state: HostState) -> None:
        """As `remember_host`, of a request that is sent.

        Raises:
            StoreError: as `remember_host`.
        """
        self._sharing.begin(pace_key, state)

    def end_visit(self, pace_key: str, state: HostState) -> None:
        """As `remember_host`, of a request that has ended, or will not be sent after all.

        Raises:
            StoreError: as `remember_host`.
        """
        self._sharing.end(pace_key, state)

    async def records(self) -> AsyncIterator[RobotsRecord]:
        """All records, by host, port and scheme.

        Raises:
            StoreError: the file cannot be read.
        """
        place: _tables.Place | None = _tables.FIRST_PLACE
        await self._caught_up()
        while place is not None:
            page, place = await self._database.read(
                partial(_tables.records_after, after=place, limit=PAGE, now=self._clock.now())
            )
            for record in page:
                yield record

    async def hosts(self) -> AsyncIterator[tuple[str, HostState]]:
        """All hosts with their states, by pace key.

        Raises:
            StoreError: the file cannot be read.
        """
        last: str | None = None
        await self._caught_up()
        while page := await self._database.read(partial(self._hosts_after, last)):
            for pace_key, state in page:
                yield pace_key, self._behind.memory.states.get(pace_key, state)
            last = page[-1][0]

    async def origins_of(self, host: str) -> list[Origin]:
        """The origins of one host of which there is a record, by port and scheme.

        Raises:
            StoreError: the file cannot be read.
        """
        await self._caught_up()
        return await self._database.read(partial(_tables.origins_of, host=host))

    async def host(self, pace_key: str) -> HostState | None:
        """What the file has of a host, and nothing that is merely taken to have happened, as after a crash.

        Raises:
            StoreError: the file cannot be read.
        """
        await self._caught_up()
        found = await self._hosts.get(pace_key)
        return None if found is None else found[0]

    async def forget_record(self, origin: Origin) -> bool:
        """Let go of an origin's record. Returns whether there was one.

        Raises:
            StoreError: the file cannot be written.
        """
        await self._caught_up()
        return await self._database.run(partial(_tables.forget_record, origin=origin))

    async def forget_host(self, pace_key: str) -> bool:
        """Let go of a host's state, its wait unserved or not. Returns whether there was any.

        Raises:
            StoreError: the file cannot be written.
        """
        await self._caught_up()
        memory = self._behind.memory
        was_known = memory.forget(pace_key)
        was_written = await self._database.run(partial(_tables.forget_host, pace_key=pace_key))
        if pace_key not in memory.pending:
            # Somebody may have read it just before it went.
            memory.forget(pace_key)
        return was_known or was_written

    async def prune(self, *, now: float) -> Pruned:
        """Keep `max_bytes` and `max_age`: the oldest go first, and no host whose wait is unserved.

        The store does so by itself as well, in small steps between other work.

        Raises:
            StoreError: the file cannot be written.
        """
        await self._caught_up()
        pruning = self._upkeep.pruning(now)
        while not await self._database.run(pruning.step):
            pass
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
        self._bind_only()
        self._is_closed = True
        atexit.unregister(self._at_exit)
        was_lost = self._behind.lost is not None
        news, batch = self._sharing.close(), self._behind.close()
        if not (self._database.is_started or batch.hosts or batch.records):
            return
        self._closing = self._database.end(partial(self._leave, batch, news))
        self._closing.add_done_callback(self._closed)
        # Whoever is cancelled here ends nothing but his own waiting.
        await asyncio.wait({self._closing})
        error = self._closing.exception()
        if error is None:
            return
        self._upkeep.presence.give_up()
        if not isinstance(error, StoreError) or self._when_lost is WhenLost.RAISE:
            raise error
        # Who has been warned that memory has to do knows as much.
        level = logging.INFO if was_lost else logging.WARNING
        _logger.log(level, "%s. What was learnt since is lost", error)

    def _bind(self) -> None:
        """See that the store can be used here."""
        self._bind_only()
        self._behind.check()

    def _bind_only(self) -> None:
        """See that the store is used in one event loop at a time."""
        loop = asyncio.get_running_loop()
        # Read here, for the thread may not: there it goes on from this reading.
        self._clock.now()
        if loop is not self._loop:
            if self._loop is None:
                atexit.register(self._at_exit)
            elif not self._loop.is_closed():
                raise fault(self.path, "another event loop uses this store", "open one in each event loop")
            else:
                self._behind.rebind()
                self._hosts, self._records = Together(self._read_hosts), Together(self._read_records)
                self._leases = {}
            self._loop = loop
            self._pulse = Pulse(loop)
            self._sharing.bind(loop)

    def _lose(self, error: StoreError) -> None:
        self._behind.lose(error)
        self._behind.check()

    async def _caught_up(self) -> None:
        """Wait until the file has all that is known: it is the file that is asked next."""
        self._bind()
        await self._behind.settle()

    def _read_hosts(self, pace_keys: Collection[str]) -> asyncio.Future[dict[str, tuple[HostState, bool]]]:
        return self._database.submit(partial(self._hosts_read, tuple(pace_keys)), begin="BEGIN")

    def _hosts_read(
        self, pace_keys: Collection[str], connection: sqlite3.Connection
    ) -> dict[str, tuple[HostState, bool]]:
        presence = self._upkeep.presence
        shift = presence.shift or 0.0
        found = _tables.read_hosts(
            connection,
            pace_keys,
            now=self._clock.now() - shift,
            # What others have written a moment ago comes from no clock that was set back.
            trusts_clock=presence.has_company,
        )
        return {key: (_pacing.moved(state, shift), is_back) for key, (state, is_back) in found.items()}

    def _hosts_after(self, last: str | None, connection: sqlite3.Connection) -> list[tuple[str, HostState]]:
        presence = self._upkeep.presence
        shift = presence.shift or 0.0
        found = _tables.hosts_after(
            connection,
            last,
            limit=PAGE,
            now=self._clock.now() - shift,
            trusts_clock=presence.has_company,
        )
        return [(key, _pacing.moved(state, shift)) for key, state in found]

    def _read_records(self, origins: Collection[Origin]) -> asyncio.Future[dict[Origin, RobotsRecord]]:
        work = partial(_tables.read_records, origins=origins, now=self._clock.now())
        return self._database.submit(work, begin="BEGIN")

    def _write(self, connection: sqlite3.Connection, batch: Batch) -> Mapping[str, HostState]:
        """Write a batch. Returns what the file knew of hosts that were guessed."""
        census = self._upkeep.attend(connection)
        self._sharing.tell(census)
        shift = self._upkeep.presence.shift or 0.0
        now = batch.at
        known = {key: state for key, (state, _) in self._hosts_read(batch.guessed, connection).items()}
        hosts = dict(batch.hosts)
        for pace_key in hosts.keys() & known.keys():
            hosts[pace_key] = _pacing.merged(known[pace_key], hosts[pace_key])
        if census.others or shift or batch.has_company:
            moved = {pace_key: _pacing.moved(state, -shift) for pace_key, state in hosts.items()}
            # By the time it is written: what others have written since is of no later clock.
            _booking.write_merged(connection, moved, now=self._clock.now() - shift)
        else:
            _tables.write_hosts(connection, hosts.items(), now=now)
        _tables.write_records(connection, batch.records.values(), now=now)
        return known

    def _idle(self, connection: sqlite3.Connection) -> float:
        if self._pulse is not None and not self._pulse.is_felt():
            # Nobody here would answer those who come: let them take us for gone, which we are until somebody asks.
            return HEARTBEAT
        return self._upkeep.idle(connection)

    def _assumed_visit_at(self) -> float | None:
        opened = self._upkeep.opened
        return None if opened is None else opened.assumed_visit_at

    def _tell(self, census: Census) -> None:
        self._sharing.tell(census)

    def _leave(self, batch: Batch, news: News, connection: sqlite3.Connection) -> None:
        self._write(connection, batch)
        self._sharing.write(connection, news)
        presence = self._upkeep.presence
        _booking.depart(connection, presence.id, now=self._clock.now() - (presence.shift or 0.0))

    def _closed(self, closing: asyncio.Future[None]) -> None:
        self._behind.closed(closing.exception())

    def _at_exit(self) -> None:
        """The interpreter ends, and nobody closed us."""
        self._database.end_now(partial(self._leave, self._behind.close(), self._sharing.close()))

    def __repr__(self) -> str:
        return f"<SQLiteStore {str(self.path)!r}>"


class _SharedClock:
    """A clock that is told on the database's thread too: there its last reading in the event loop goes on by itself.

    A clock may count as its event loop does, or bear one thread alone; the thread never asks it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._reading: tuple[float, float] | None = None
        """What it told, and when that was (monotonic)."""

    def now(self) -> float:
        """Seconds since the epoch."""
        if self._reading is None or _is_in_event_loop():
            return self._read()
        told, at = self._reading
        return told + (monotonic() - at)

    def _read(self) -> float:
        left = READINGS
        while True:
            before, told, at = monotonic(), self._clock.now(), monotonic()
            left -= 1
            # Else the process was interrupted, and the thread's time would be behind by that.
            if at - before <= NOISE or not left:
                self._reading = told, at
                return told


def _is_in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _nothing(connection: sqlite3.Connection) -> None:
    """Work that needs no more than an open file."""
