"""A file, and the one thread that uses it: everything that may block is done there, in transactions.

The file is checked before SQLite opens it: a plain file of this user, not a link, and empty or a robotgate database.
Before that, neither the file nor its mode is changed.
"""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
import stat
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from robotgate.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

T = TypeVar("T")
Work: TypeAlias = "Callable[[sqlite3.Connection], T]"
Identity: TypeAlias = tuple[int, int]
"""Device and number of a file. Its name may lead to another file later."""
_LOST: Final[Identity] = (0, 0)
"""No file is this one."""

READ: Final = "BEGIN"
WRITE: Final = "BEGIN IMMEDIATE"
"""The beginning of a transaction; while one writes, no other process does."""
RETRY_DELAY: Final = 1.0
"""Seconds until a file that failed is tried again."""
BUSY_TIMEOUT: Final = 5.0
"""Seconds to wait for another program's lock."""

_COMPANIONS: Final = ("-wal", "-shm", "-journal")
"""Files that SQLite writes beside the file, with the same mode."""
_DIRECTORY_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
APPLICATION_ID: Final = 0x52476174
"""``RGat``: marks a file as ours."""
VERSION: Final = 3
"""The version of the tables. Earlier versions were never released."""
LOOKS: Final = 50
"""How often a file is read while another process writes it, before it is refused."""
LOOK_PAUSE: Final = 0.05
"""Seconds between two looks."""
_PRIMARY_CODE: Final = 0xFF
"""The part of an extended result code that names the kind of failure."""
_SPACE: Final = "free some space"
_WRITABLE: Final = "make the file and its directory writable"
_LOOK: Final = "close other programs that use it, check the disk, or name another file"
_CAUSES: Final = {
    sqlite3.SQLITE_FULL: ("the disk is full", _SPACE),
    sqlite3.SQLITE_IOERR: ("reading or writing failed", "check the disk and its free space"),
    sqlite3.SQLITE_READONLY: ("it cannot be written", _WRITABLE),
    sqlite3.SQLITE_PERM: ("access is refused", _WRITABLE),
    sqlite3.SQLITE_CANTOPEN: ("it cannot be opened", "check that its directory exists and can be written"),
    sqlite3.SQLITE_BUSY: ("another program keeps it locked", "end that program"),
    sqlite3.SQLITE_PROTOCOL: ("its locks do not work", "put it on a disk of this machine, not of a network"),
    sqlite3.SQLITE_CORRUPT: ("it is damaged", "delete it, or restore it from a copy"),
}
_REMEDIES: Final = {
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR), "check that its directory exists"),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), _SPACE),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), _WRITABLE),
    errno.EMFILE: "let this program open fewer files at once, or more (ulimit -n)",
    errno.EIO: "check the disk",
}
"""For errors of the system when a file is examined, made or opened."""
DAMAGE: Final = (ValueError, TypeError, LookupError, ArithmeticError)
"""What Python raises at values of a damaged file: SQLite checks neither the type and the encoding of values nor, in its
messages, the encoding of names.
"""
FAULTS: Final = (sqlite3.Error, OSError, StoreError, *DAMAGE)
"""What work on a file may raise."""


class WhenLost(Enum):
    """What a store does when it can neither read nor write its file."""

    RAISE = "raise"
    """Raise `StoreError` until the file works again: nothing is fetched that could not be saved."""
    MEMORY = "memory"
    """Log one warning, and use memory alone until the file works again."""


def fault(path: Path, cause: str, remedy: str) -> StoreError:
    """Return the error for a file."""
    return StoreError(f"{path}: {cause}; {remedy}")


def explained(path: Path, error: Exception) -> StoreError:
    """Return the error for one of `FAULTS`."""
    if isinstance(error, StoreError):
        return error
    if isinstance(error, OSError):
        remedy = _REMEDIES.get(error.errno or 0, _LOOK)
        return fault(path, f"it cannot be opened ({error.strerror or error})", remedy)
    # An error of Python or of the module itself, such as text that is no UTF-8, has no code.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & _PRIMARY_CODE
    cause, remedy = _CAUSES.get(code, ("SQLite failed", _LOOK))
    return fault(path, f"{cause} ({error})", remedy)


def _anothers(path: Path) -> StoreError:
    return fault(path, "it is another program's database", "name another file")


def is_ours(connection: sqlite3.Connection, path: Path) -> bool:
    """Check that a database is ours, and of this version. Returns False if it is empty.

    Raises:
        StoreError: it is not.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not (application or version or tables):
        return False
    if application != APPLICATION_ID:
        raise _anothers(path)
    versions = f"version {version} of its tables; this one knows {VERSION}"
    if version > VERSION:
        remedy = "upgrade robotgate, or name another file"
        raise fault(path, f"it was written by a newer robotgate ({versions})", remedy)
    if version < VERSION:
        raise fault(path, f"it was written by an older robotgate ({versions})", "delete it")
    return True


class Database:
    """A file, and the one thread that uses it. No file is opened, and no thread started, before the first work.

    After a failure the connection is closed. The next work opens the file and checks it again.

    Args:
        opening: called first with a new connection, and whether this is another file than the one before. Its writes
            are on the disk when it returns.
        fill_spare: prepares a database in memory, which is used while the file fails with this error; None: errors are
            raised.
        give_back: writes the contents of the database in memory to the file.
    """

    def __init__(
        self,
        path: Path,
        *,
        opening: Callable[[sqlite3.Connection, bool], None],
        fill_spare: Callable[[sqlite3.Connection, StoreError], None] | None,
        give_back: Callable[[sqlite3.Connection, sqlite3.Connection], None],
    ) -> None:
        self.path = path
        self.lost: StoreError | None = None
        """The error of the last work; None: it was done."""
        self._opening = opening
        self._fill_spare = fill_spare
        self._give_back = give_back
        self._spare: sqlite3.Connection | None = None
        self._retry_at = 0.0
        """When the file is tried again, by the monotonic clock."""
        self._connection: sqlite3.Connection | None = None
        self._identity: Identity | None = None
        self._log = path.with_name(f"{path.name}-wal")
        self._log_identity: Identity | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._process = 0

    def run(self, work: Work[T], begin: str = WRITE, *, needs_file: bool = False) -> asyncio.Future[T]:
        """Do this on the thread, in one transaction. It is done even if the caller is cancelled.

        Args:
            begin: `READ` or `WRITE`.
            needs_file: raise an error rather than use the database in memory.

        Raises:
            StoreError: (also from the future) the work failed, and changed nothing.
        """
        return self._submit(lambda: self._perform(work, begin, needs_file=needs_file))

    def end(self, work: Work[T]) -> asyncio.Future[T] | None:
        """As `run`, of the last work: the file is closed after it, and the thread ends. None: there was no work yet."""

        def last() -> T:
            # What is in memory alone is lost after this.
            self._retry_at = 0.0
            try:
                return self._perform(work, WRITE)
            finally:
                self._drop()
                self._drop_spare()

        if self._thread is None:
            return None
        future = self._submit(last)
        self._thread.shutdown(wait=False)
        return future

    def _submit(self, do: Callable[[], T]) -> asyncio.Future[T]:
        if self._thread is None:
            self._process = os.getpid()
            self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"robotgate {self.path.name}")
        elif self._process != os.getpid():
            raise fault(
                self.path, "the store was opened before this process was forked", "open one in each process"
            )
        done = asyncio.get_running_loop().run_in_executor(self._thread, do)
        # The error of cancelled callers is not logged as never retrieved.
        done.add_done_callback(lambda done: done.cancelled() or done.exception())
        return asyncio.shield(done)

    def _perform(self, work: Work[T], begin: str, *, needs_file: bool = False) -> T:
        if self._spare is None or time.monotonic() >= self._retry_at:
            try:
                return self._perform_in_file(work, begin)
            except FAULTS as error:
                self._drop()
                self.lost = explained(self.path, error)
                self._open_spare(self.lost)
                self._retry_at = time.monotonic() + RETRY_DELAY
                if self._spare is None or needs_file:
                    raise StoreError(*self.lost.args) from error
            except BaseException:
                self._drop()
                raise
        elif needs_file and self.lost is not None:
            raise StoreError(*self.lost.args) from self.lost
        try:
            with self._spare:
                self._spare.execute("BEGIN")
                return work(self._spare)
        except (sqlite3.Error, OSError) as error:
            raise fault(
                self.path, f"it fails, and so does memory in its place ({error})", "free some memory"
            ) from error

    def _perform_in_file(self, work: Work[T], begin: str) -> T:
        connection = self._connected()
        connection.execute(begin if self._spare is None else WRITE)
        if self._spare is not None:
            self._give_back(connection, self._spare)
        result = work(connection)
        connection.execute("COMMIT")
        self._drop_spare()
        self.lost = None
        return result

    def _connected(self) -> sqlite3.Connection:
        connection = self._connection or self._open()
        # SQLite would write to a file that was deleted or renamed, or to its log: others would not read that.
        identity = _identity(self.path)
        if identity == self._identity and _identity(self._log) != self._log_identity:
            self._identity = _LOST
        if identity != self._identity:
            self._drop()
            connection = self._open()
        return connection

    def _open(self) -> sqlite3.Connection:
        before = self._identity
        identity = self._prepare(makes_directory=before is None)
        connection = sqlite3.connect(
            self.path, timeout=BUSY_TIMEOUT, isolation_level=None, cached_statements=64
        )
        # `_drop` closes it after any failure.
        self._connection, self._identity = connection, identity
        connection.execute("PRAGMA synchronous = FULL")
        self._opening(connection, before not in (None, identity))
        # A killed process loses nothing, and the file stays whole after a power cut.
        connection.execute("PRAGMA synchronous = NORMAL")
        self._log_identity = _identity(self._log)
        return connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            # Closing rolls the transaction back.
            with suppress(sqlite3.Error):
                connection.close()

    def _open_spare(self, lost: StoreError) -> None:
        if self._spare is None and self._fill_spare is not None:
            try:
                self._spare = sqlite3.connect(":memory:", isolation_level=None)
                self._fill_spare(self._spare, lost)
            except (sqlite3.Error, OSError):
                self._drop_spare()

    def _drop_spare(self) -> None:
        spare, self._spare = self._spare, None
        if spare is not None:
            spare.close()

    def _prepare(self, *, makes_directory: bool) -> Identity:
        """Make the file if there is none, and check it if there is.

        Its directory is made too, for this user alone, if the one above exists: a path of which more is missing is
        usually a mistake, or a disk that is not mounted.

        Raises:
            StoreError: it is a link, not a plain file, of another user, or in a directory that everybody may write.
            OSError: the system refuses.
        """
        path = self.path
        _check_directory(path, makes_directory=makes_directory)
        for companion in _COMPANIONS:
            with suppress(FileNotFoundError):
                _check_file(path.with_name(path.name + companion), path)
        with suppress(FileExistsError):
            path.touch(_FILE_MODE, exist_ok=False)
        # In such a directory no other user can exchange the file.
        found = _check_file(path, path)
        self._look_into()
        if sys.platform != "win32" and stat.S_IMODE(found.st_mode) & ~_FILE_MODE:
            path.chmod(_FILE_MODE)
        return found.st_dev, found.st_ino

    def _look_into(self) -> None:
        """Check that the file is ours. If another process is just making it, wait for that.

        SQLite reads an immutable file without a lock and without its log, and changes nothing.
        """
        log, journal = (self.path.with_name(f"{self.path.name}{end}") for end in ("-wal", "-journal"))
        for look in range(LOOKS):
            try:
                with closing(sqlite3.connect(f"{self.path.as_uri()}?mode=ro&immutable=1", uri=True)) as file:
                    # Where the disk was full, some pages may be in the log alone; `prepare` reads it.
                    file.execute("PRAGMA writable_schema = ON")
                    # A file with pages but without tables is empty, unless its tables are in the log.
                    has_pages, has_log = file.execute("PRAGMA page_count").fetchone()[0], _size(log) > 0
                    if has_pages and not is_ours(file, self.path) and has_log:
                        raise _anothers(self.path)
            except (StoreError, sqlite3.DatabaseError, *DAMAGE) as error:
                if look < LOOKS - 1 and (not look or journal.exists()):
                    time.sleep(LOOK_PAUSE)
                    continue
                if journal.exists():
                    # A process was killed as it wrote. SQLite undoes that, and `prepare` checks the file then.
                    return
                if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_NOTADB:
                    raise
                remedy = "name another file, or delete this one if nobody needs it"
                raise fault(self.path, "it is no SQLite database", remedy) from error
            return


def _identity(path: Path) -> Identity | None:
    """Return the file that the name leads to now; None if there is none."""
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def _check_directory(path: Path, *, makes_directory: bool) -> None:
    directory = path.parent
    if makes_directory:
        with suppress(FileExistsError):
            directory.mkdir(_DIRECTORY_MODE)
    mode = directory.stat().st_mode
    if not stat.S_ISDIR(mode):
        raise fault(path, f"{directory} is no directory", "name a file in a directory")
    if sys.platform != "win32" and mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise fault(
            path,
            f"everybody may exchange files in {directory}",
            f"put it into a directory of its own, or run chmod o-w {directory}",
        )


def _check_file(file: Path, path: Path) -> os.stat_result:
    found = os.lstat(file)
    if not stat.S_ISREG(found.st_mode):
        raise fault(path, f"{file.name} is a link, or no plain file", "name the file itself, or another")
    if sys.platform != "win32" and found.st_uid != os.geteuid():
        raise fault(path, f"{file.name} belongs to another user", "name a file of your own, or run chown")
    return found
