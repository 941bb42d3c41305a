"""The database's file, before SQLite sees it: private, ours, and no way to somewhere else."""

from __future__ import annotations

import os
import stat
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeAlias

from robotgate.stores._faults import fault

if TYPE_CHECKING:
    from pathlib import Path

Identity: TypeAlias = tuple[int, int]
"""Device and number of a file: not its name, which may come to name another."""

_COMPANIONS: Final = ("-wal", "-shm", "-journal")
"""What SQLite writes beside the file, with the mode that the file has."""
_DIRECTORY_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_EXCLUSIVELY: Final = (
    os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
)
_creating: Final = threading.Lock()
"""Held while a file that we have just made is open: closing it would take SQLite's locks from whoever opened it
meanwhile in this process (POSIX has locks by process, and drops them all with the first descriptor)."""


def prepare(path: Path, *, makes_directory: bool) -> Identity:
    """Make the file if there is none, and make sure of it if there is.

    Its directory is made too, for this user alone, where the one above exists: a whole path that is missing is rather
    a mistake, or a disk that is not there.

    Raises:
        StoreError: it could be another's: a link, no plain file, of another user, or where everybody may put one.
        OSError: the system does not let us.
    """
    _check_directory(path, makes_directory=makes_directory)
    for companion in _COMPANIONS:
        with suppress(FileNotFoundError):
            _check_file(path.with_name(path.name + companion), path)
    with _creating:
        with suppress(FileExistsError):
            os.close(os.open(path, _EXCLUSIVELY, _FILE_MODE))
        # Looked at, not opened: see `_creating`. Nobody else can exchange it in such a directory.
        found = _check_file(path, path)
    if sys.platform != "win32" and stat.S_IMODE(found.st_mode) & ~_FILE_MODE:
        path.chmod(_FILE_MODE)
    return found.st_dev, found.st_ino


def identity(path: Path) -> Identity | None:
    """Which file the name leads to now; None when to none."""
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


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
    if stat.S_ISLNK(found.st_mode):
        raise fault(path, f"{file.name} is a symbolic link", "name the file itself")
    if not stat.S_ISREG(found.st_mode):
        raise fault(path, f"{file.name} is no plain file", "name another file")
    if sys.platform != "win32" and found.st_uid != os.geteuid():
        raise fault(path, f"{file.name} belongs to another user", "name a file of your own, or run chown")
    return found
