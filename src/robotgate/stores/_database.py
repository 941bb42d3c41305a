"""One connection, on a thread of its own: everything that may block is done there, in transactions."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import threading
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeVar

from robotgate._errors import StoreError
from robotgate.stores import _files, _schema
from robotgate.stores._faults import explained, fault

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

T = TypeVar("T")
V = TypeVar("V")

BUSY_TIMEOUT: Final = 5.0
"""Seconds to wait for another program's lock."""
IDLE_PAUSE: Final = 1.0
"""Seconds until idle work is tried again, where it cannot say itself."""
EXIT_PATIENCE: Final = 5.0
"""Seconds that the end of the interpreter waits for what is still to be written."""

_logger: Final = logging.getLogger("robotgate.stores")


class Database:
    """A file, and the thread that alone touches it. No file is opened, and no thread started, before the first work.

    After a failure the connection is given up: the next work opens the file again, and finds out anew what it is.

    Args:
        opening: the first thing done with a connection, in a transaction that is on the disk when it ends. It is told
            whether this is plainly another file than the one that was open before.
        idle: done now and then, each time in a transaction; returns the seconds until the next time. What it fails
            with is left to the next work to find.
    """

    def __init__(
        self,
        path: Path,
        *,
        opening: Callable[[sqlite3.Connection, bool], None],
        idle: Callable[[sqlite3.Connection], float],
    ) -> None:
        self.path = path
        self._opening = opening
        self._idle = idle
        self._idle_at = 0.0
        self._connection: sqlite3.Connection | None = None
        self._identity: _files.Identity | None = None
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._process = 0
        self.is_ended = False

    @property
    def is_started(self) -> bool:
        """Whether there was any work yet."""
        return self._thread is not None

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do this on the thread, in one transaction that no other process writes in.

        It is done to its end, whether or not somebody still waits for it.

        Raises:
            StoreError: it could not be done; nothing of it is.
        """
        return await self.submit(work)

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """As `run`, of work that only reads: others may write meanwhile, and it sees nothing of that."""
        return await self.submit(work, begin="BEGIN")

    def submit(
        self, work: Callable[[sqlite3.Connection], T], *, begin: str = "BEGIN IMMEDIATE"
    ) -> asyncio.Future[T]:
        """As `run`, without waiting for it.

        Raises:
            StoreError: there is no thread to do it: it has ended, or this process was forked from its own.
        """
        return self._submit(lambda: self._perform(work, begin))

    def closed(self) -> StoreError:
        """The error for whoever comes after the end."""
        return fault(self.path, "the store was closed", "open a new one")

    def end(self, work: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """As `submit`, of the last work: the file is closed after it, and the thread ends."""

        def last() -> T:
            try:
                return self._perform(work, "BEGIN IMMEDIATE")
            finally:
                self._drop()

        future = self._submit(last)
        self.is_ended = True
        self._jobs.put(None)
        return future

    def end_now(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """As `end`, where no event loop runs any more: waits for it, but not for ever."""
        thread = self._thread
        if self.is_ended or thread is None or self._process != os.getpid():
            return

        def job() -> None:
            # Nobody is left to be told. The file tells the next who opens it that something may be missing.
            with suppress(StoreError):
                self._perform(work, "BEGIN IMMEDIATE")

        self.is_ended = True
        self._jobs.put(job)
        self._jobs.put(None)
        thread.join(EXIT_PATIENCE)

    def _submit(self, do: Callable[[], T]) -> asyncio.Future[T]:
        if self.is_ended:
            raise self.closed()
        self._start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def job() -> None:
            try:
                result = do()
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits
                _tell(loop, _fail, future, error)
            else:
                _tell(loop, _resolve, future, result)

        self._jobs.put(job)
        return future

    def _start(self) -> None:
        if self._thread is None:
            self._process = os.getpid()
            self._thread = threading.Thread(
                target=self._work, name=f"robotgate {self.path.name}", daemon=True
            )
            self._thread.start()
        elif self._process != os.getpid():
            raise fault(
                self.path, "the store was opened before this process was forked", "open one in each process"
            )

    def _work(self) -> None:
        while True:
            left = self._idle_at - monotonic()
            if left <= -IDLE_PAUSE:
                # However much is to do, others have to see that we live.
                self._rest()
            try:
                job = self._jobs.get(timeout=max(left, 0.0))
            except Empty:
                self._rest()
                continue
            if job is None:
                self._drop()
                return
            job()

    def _rest(self) -> None:
        pause = IDLE_PAUSE
        if self._connection is not None:
            try:
                pause = self._perform(self._idle, "BEGIN IMMEDIATE")
            except StoreError:
                _logger.debug("idle work failed", exc_info=True)
            except Exception:
                # A thread that ends would leave everybody waiting.
                _logger.exception("a fault of robotgate's own")
        self._idle_at = monotonic() + pause

    def _perform(self, work: Callable[[sqlite3.Connection], T], begin: str) -> T:
        try:
            connection = self._connected()
            connection.execute(begin)
            result = work(connection)
            connection.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            self._drop()
            raise explained(self.path, error) from error
        except BaseException:
            self._drop()
            raise
        return result

    def _connected(self) -> sqlite3.Connection:
        connection = self._connection or self._open()
        # SQLite would go on writing to a file that has no name any more.
        if _files.identity(self.path) != self._identity:
            raise fault(
                self.path,
                "the file has vanished, or another has taken its place",
                "see that its directory exists: a new file is made there, or the other one used",
            )
        return connection

    def _open(self) -> sqlite3.Connection:
        is_first = self._identity is None
        identity = _files.prepare(self.path, makes_directory=is_first)
        # Whatever fails from here on, `_drop` closes it.
        connection = self._connection = sqlite3.connect(
            self.path, timeout=BUSY_TIMEOUT, isolation_level=None, cached_statements=64
        )
        _schema.prepare(connection, self.path)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        _schema.migrate(connection, self.path)
        self._opening(connection, not is_first and identity != self._identity)
        connection.execute("COMMIT")
        # Enough for a process that is killed, and for the file to be whole after a power cut.
        connection.execute("PRAGMA synchronous = NORMAL")
        self._identity = identity
        return connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        # It is given up because it fails; closing it undoes what was begun.
        with suppress(sqlite3.Error):
            connection.close()


def _tell(
    loop: asyncio.AbstractEventLoop,
    how: Callable[[asyncio.Future[T], V], None],
    future: asyncio.Future[T],
    what: V,
) -> None:
    # A loop that was closed meanwhile has nobody to tell.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(how, future, what)


def _resolve(future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[T], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
