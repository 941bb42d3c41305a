"""What is to be written goes to the file in batches, behind those who said it; and what happens when it cannot."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from robotgate._alarm import Alarm
from robotgate._errors import StoreError
from robotgate._pacing import HostState
from robotgate.stores._faults import WhenLost
from robotgate.stores._hosts import HostMemory

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Mapping

    from robotgate._access import RobotsRecord
    from robotgate._ports import Clock
    from robotgate._urls import Origin
    from robotgate.stores._database import Database

LEARNT_AT_A_TIME: Final = 1_000
"""Hosts read from the file after which the bound of memory is looked at, though nothing was written."""
FLUSH_DELAY: Final = 0.5
"""Seconds that a host's new state waits for others, at most."""
RETRY_DELAY: Final = 1.0
"""Seconds until a file that failed is tried again."""
WARNING_INTERVAL: Final = 600.0
"""Seconds until the same fault is worth another warning."""
MAX_LOST_RECORDS: Final = 256
"""Kept in memory while there is no file to take them; what is more is fetched again."""

_logger: Final = logging.getLogger("robotgate.stores")


@dataclass(frozen=True, slots=True)
class Batch:
    """What goes into one transaction."""

    at: float
    """When it was put together."""
    hosts: Mapping[str, HostState]
    records: Mapping[Origin, RobotsRecord]
    guessed: frozenset[str] = frozenset()
    """Hosts whose rows are to be read and taken in first."""
    has_company: bool = False
    """Whether others may have written what we do not know: it is put together with that."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What was found when the file was opened."""

    assumed_visit_at: float | None
    """When every host is taken to have been visited, known or not: something may have been lost then."""
    files: int
    """How many files it has been since the store was made: a new one lacks all that was written before."""
    found_dead_at: float | None = None
    """When another process was last found dead that may not have written all it knew, if ever."""


class WriteBehind:
    """Takes in, and sees to it that the file hears of it. Used in one event loop.

    Args:
        write: writes a batch, on the database's thread; returns what the file knew of the hosts that were guessed.
        opened: what the file was found to be, the last time it was opened.
    """

    def __init__(
        self,
        database: Database,
        *,
        write: Callable[[sqlite3.Connection, Batch], Mapping[str, HostState]],
        opened: Callable[[], Opened | None],
        max_hosts: int,
        when_lost: WhenLost,
        clock: Clock,
    ) -> None:
        self.memory = HostMemory(max_hosts=max_hosts)
        self.records: dict[Origin, RobotsRecord] = {}
        """Not written, nor about to be."""
        self.assumed: HostState | None = None
        """What is taken to be true of a host of which nothing is known."""
        self.lost: StoreError | None = None
        self.has_company = False
        """Whether somebody else was there since we last knew that we were alone, and knew all that was written."""
        self.neighbours = 0
        """Other processes that had the file open, the last time that it could tell."""
        self._database = database
        self._write = write
        self._opened = opened
        self._when_lost = when_lost
        self._clock = clock
        self._noticed: Opened | None = None
        self._alarm = Alarm(self.flush)
        self._writing: Batch | None = None
        self._is_hurried = False
        self._savers: list[asyncio.Future[None]] = []
        self._is_closed = False
        self._learnt = 0
        self._warned: tuple[str, float] | None = None

    def remember(self, pace_key: str, state: HostState) -> None:
        """Take in a host's state.

        Raises:
            StoreError: it is only in memory, and that is not enough.
        """
        was_clean = not self.memory.pending
        is_block = self.memory.remember(pace_key, state)
        if self.lost is not None or self._is_closed:
            self.check()
        elif is_block:
            self._hurry()
        elif was_clean and self._writing is None:
            self._alarm.ring_in(FLUSH_DELAY)

    async def save(self, record: RobotsRecord) -> None:
        """Take in a record; returns when it is in the file.

        Raises:
            StoreError: it is not, and memory is not enough.
        """
        self.check()
        self.records[record.origin] = record
        if self.lost is not None:
            self._bound_records()
            return
        saver: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._savers.append(saver)
        self._hurry()
        await saver

    async def settle(self) -> None:
        """Wait until the file has all that is known now, or is lost."""
        if self.lost is None and (self._writing is not None or self.memory.pending or self.records):
            # The next batch has all of it, however much is said meanwhile.
            saver: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._savers.append(saver)
            self._hurry()
            await saver
        self.check()

    def record(self, origin: Origin) -> RobotsRecord | None:
        """A record that the file does not have yet."""
        record = self.records.get(origin)
        if record is None and self._writing is not None:
            record = self._writing.records.get(origin)
        return record

    def check(self) -> None:
        """See that there is somewhere to keep things.

        Raises:
            StoreError: the file is lost, and memory is not enough; or the store was closed.
        """
        if self._is_closed:
            raise self._database.closed()
        if self.lost is not None and self._when_lost is WhenLost.RAISE:
            raise StoreError(*self.lost.args) from self.lost

    def flush(self) -> None:
        """Write all that is pending, once what is being written is."""
        if self._writing is not None:
            self._is_hurried = True
            return
        self._is_hurried = False
        batch = Batch(
            self._clock.now(),
            self.memory.pending,
            self.records,
            frozenset(self.memory.guessed),
            has_company=self.has_company,
        )
        future = self._database.submit(partial(self._written, batch))
        self.memory.pending, self.records = {}, {}
        savers, self._savers = self._savers, []
        self._writing = batch
        future.add_done_callback(partial(self._flushed, batch, savers))

    def lose(self, error: StoreError) -> None:
        """The file failed: the next who ask are told, or served from memory, and it is tried again now and then."""
        if self._is_closed:
            return
        if self.lost is None:
            self.assumed = HostState(last_visit_at=self._clock.now())
            if self._when_lost is WhenLost.MEMORY:
                self._warn(self._with_neighbours(error))
        self.lost = error
        savers, self._savers = self._savers, []
        _settle(savers, None if self._when_lost is WhenLost.MEMORY else error)
        self._alarm.cancel()
        self._alarm.ring_in(RETRY_DELAY)

    def learn(self, pace_key: str, state: HostState, *, is_to_be_written: bool) -> HostState:
        """Take in what the file knows of a host. Returns what is known now."""
        state = self.memory.learn(pace_key, state)
        self._learnt += 1
        if self._learnt % LEARNT_AT_A_TIME == 0:
            self.evict()
        if is_to_be_written:
            self.memory.pending[pace_key] = state
            self._alarm.ring_in(FLUSH_DELAY)
        return state

    def guess(self, pace_key: str) -> HostState | None:
        """What is assumed of a host whose row cannot be read; it is read as soon as it can."""
        if self.assumed is not None:
            self.memory.states[pace_key] = self.assumed
            self.memory.guessed.add(pace_key)
        return self.assumed

    def evict(self) -> None:
        """Keep the bound of the hosts in memory."""
        self.memory.evict(
            now=self._clock.now(),
            keep=self._writing.hosts if self._writing is not None else (),
            pending_too=self.lost is not None and self._when_lost is WhenLost.MEMORY,
        )

    def notice(self) -> None:
        """Take in what the file was found to be."""
        opened = self._opened()
        if opened is None or opened is self._noticed:
            return
        before, self._noticed = self._noticed, opened
        if self.lost is None:
            self._assume(opened)
        if opened.found_dead_at is not None:
            # It may have been at hosts that we know as well.
            self.memory.visit_all(opened.found_dead_at)
        if before is not None and opened.files > before.files:
            self.memory.pending = dict(self.memory.states)
            if self.lost is None and self._writing is None and not self._is_closed:
                self._alarm.ring_in(FLUSH_DELAY)

    def rebind(self) -> None:
        """Go on in another event loop: whatever the one before was to do, nobody does any more."""
        rest = self._rest()
        self.memory.pending, self.records = dict(rest.hosts), dict(rest.records)
        self._writing, self._is_hurried, self._savers = None, False, []
        self._alarm = Alarm(self.flush)
        if self.memory.pending or self.records or self.lost is not None:
            self._alarm.ring_in(FLUSH_DELAY)

    def close(self) -> Batch:
        """Take in nothing any more. Returns what is to be written last."""
        self._is_closed = True
        self._alarm.cancel()
        return self._rest()

    def closed(self, error: BaseException | None) -> None:
        """The last batch was written, or failed: tell those who wait for it."""
        _settle(self._savers, error)

    def _rest(self) -> Batch:
        """All that is not known to be in the file. What is being written is written again, rather than lost."""
        now = self._clock.now()
        writing = self._writing or Batch(now, {}, {})
        return Batch(
            now,
            {**writing.hosts, **self.memory.pending},
            {**writing.records, **self.records},
            frozenset(self.memory.guessed),
            has_company=self.has_company or writing.has_company,
        )

    def _hurry(self) -> None:
        self._is_hurried = True
        if self._writing is None and self.lost is None:
            self._alarm.ring_in(0.0)

    def _written(self, batch: Batch, connection: sqlite3.Connection) -> Mapping[str, HostState]:
        return self._write(connection, batch)

    def _flushed(
        self,
        batch: Batch,
        savers: list[asyncio.Future[None]],
        flushed: asyncio.Future[Mapping[str, HostState]],
    ) -> None:
        if self._writing is not batch:
            # The store was rebound meanwhile, and has this batch before it.
            return
        self._writing = None
        error = flushed.exception()
        if error is None:
            self._kept(batch, flushed.result())
            _settle(savers, None)
            return
        self.memory.pending = {**batch.hosts, **self.memory.pending}
        is_kept = isinstance(error, StoreError) and self._when_lost is WhenLost.MEMORY
        if is_kept:
            self.records = {**batch.records, **self.records}
            self._bound_records()
        _settle(savers, None if is_kept else error)
        if not isinstance(error, StoreError):
            raise error
        self.lose(error)
        self.evict()

    def _kept(self, batch: Batch, known: Mapping[str, HostState]) -> None:
        self.memory.guessed -= batch.guessed
        for pace_key, state in known.items():
            self.memory.learn(pace_key, state)
        if self.lost is not None:
            self.lost = None
            _logger.info("%s: the file can be written again", self._database.path)
            if self._noticed is not None:
                self._assume(self._noticed)
        self.notice()
        self.evict()
        if self._is_closed:
            return
        if self._is_hurried:
            self.flush()
        elif self.memory.pending or self.records:
            self._alarm.ring_in(FLUSH_DELAY)

    def _with_neighbours(self, error: StoreError) -> StoreError:
        """The error, and what it means for the pace that others have it as well."""
        if not self.neighbours:
            return error
        many = self.neighbours + 1
        return StoreError(f"{error}. {many} processes share it: each leaves {many} times a host's delay")

    def _warn(self, error: StoreError) -> None:
        """Say it once: a file that fails in one place only is back, and lost again, every other second."""
        said, now = (str(error), self._clock.now())
        level = logging.WARNING
        if self._warned is not None and self._warned[0] == said and now - self._warned[1] < WARNING_INTERVAL:
            level = logging.DEBUG
        else:
            self._warned = said, now
        _logger.log(level, "%s. On with memory alone until it can be used again", error)

    def _assume(self, opened: Opened) -> None:
        at = opened.assumed_visit_at
        self.assumed = None if at is None else HostState(last_visit_at=at)

    def _bound_records(self) -> None:
        while len(self.records) > MAX_LOST_RECORDS:
            del self.records[next(iter(self.records))]


def _settle(savers: list[asyncio.Future[None]], error: BaseException | None) -> None:
    for saver in savers:
        # Whoever was cancelled does not wait any more.
        if saver.done():
            continue
        if error is None:
            saver.set_result(None)
        else:
            saver.set_exception(error)
