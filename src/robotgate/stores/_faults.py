"""What can go wrong with a database file, each said once: the cause, and the remedy."""

from __future__ import annotations

import errno
import sqlite3
from enum import Enum
from typing import TYPE_CHECKING, Final

from robotgate._errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path

_PRIMARY_CODE: Final = 0xFF
"""The part of an extended result code that names the kind of failure."""
_SPACE: Final = "free some space"
_WRITABLE: Final = "make the file and its directory writable"
_LOOK: Final = "close other programs that use it, look at the disk, or name another file"
_CAUSES: Final = {
    sqlite3.SQLITE_FULL: ("the disk is full", _SPACE),
    sqlite3.SQLITE_IOERR: ("reading or writing failed", "look at the disk"),
    sqlite3.SQLITE_READONLY: ("it cannot be written", _WRITABLE),
    sqlite3.SQLITE_PERM: ("access is refused", _WRITABLE),
    sqlite3.SQLITE_AUTH: ("access is refused", _WRITABLE),
    sqlite3.SQLITE_CANTOPEN: (
        "it cannot be opened",
        "see that its directory exists and that this user may write there",
    ),
    sqlite3.SQLITE_BUSY: ("another program keeps it locked", "end that program"),
    sqlite3.SQLITE_LOCKED: ("another program keeps it locked", "end that program"),
    sqlite3.SQLITE_PROTOCOL: (
        "its locks do not work",
        "put it on a disk of this machine: network file systems cannot share a write-ahead log",
    ),
    sqlite3.SQLITE_CORRUPT: (
        "it is damaged",
        "delete it, and all will be learnt again, or restore it from a copy",
    ),
    sqlite3.SQLITE_NOTADB: (
        "it is no SQLite database",
        "name another file, or delete this one if nobody needs it",
    ),
    sqlite3.SQLITE_TOOBIG: (
        "a value is too large for SQLite",
        "report this to robotgate: it keeps no value so large",
    ),
}
_REMEDIES: Final = {
    errno.ENOENT: "see that its directory exists",
    errno.ENOTDIR: "see that its directory exists",
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.EROFS: _WRITABLE,
    errno.EACCES: _WRITABLE,
    errno.EPERM: _WRITABLE,
    errno.EMFILE: "let this program open fewer files at once, or more (ulimit -n)",
    errno.EIO: "look at the disk",
}
"""For what the system says where a file is looked at, made or opened."""


class WhenLost(Enum):
    """What a store does once it can neither read nor write."""

    RAISE = "raise"
    """`StoreError` wherever it is asked, until it can again: nothing is fetched that could not be remembered."""
    MEMORY = "memory"
    """One warning, and on with memory alone, until it can again."""


def fault(path: Path, cause: str, remedy: str) -> StoreError:
    """The error for a file of which this is true."""
    return StoreError(f"{path}: {cause}; {remedy}")


def explained(path: Path, error: sqlite3.Error | OSError) -> StoreError:
    """The error for what SQLite or the system said of a file."""
    if isinstance(error, OSError):
        remedy = _REMEDIES.get(error.errno or 0, _LOOK)
        return fault(path, f"it cannot be opened ({error.strerror or error})", remedy)
    # An error of the module itself, such as text that is no UTF-8, has no code.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & _PRIMARY_CODE
    cause, remedy = _CAUSES.get(code, ("SQLite failed", _LOOK))
    return fault(path, f"{cause} ({error})", remedy)
