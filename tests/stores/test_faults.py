"""What is said of a file that fails: a remedy that helps against the cause."""

from __future__ import annotations

import errno
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from robotgate.stores._faults import explained

PATH: Final = Path("cache.db")


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOENT, "see that its directory exists"),
        (errno.ENOTDIR, "see that its directory exists"),
        (errno.ENOSPC, "free some space"),
        (errno.EROFS, "make the file and its directory writable"),
        (errno.EACCES, "make the file and its directory writable"),
        (errno.EPERM, "make the file and its directory writable"),
        (errno.EMFILE, "let this program open fewer files at once, or more (ulimit -n)"),
        (errno.EIO, "look at the disk"),
        (errno.ELOOP, "close other programs that use it, look at the disk, or name another file"),
    ],
)
def test_remedy_for_what_the_system_says(number: int, remedy: str) -> None:
    """One that helps, for what is usual; one to begin with, for the rest."""
    error = OSError(number, os.strerror(number))
    assert str(explained(PATH, error)) == f"cache.db: it cannot be opened ({os.strerror(number)}); {remedy}"


def test_remedy_for_what_nobody_foresaw() -> None:
    """There is something to try all the same."""
    with (
        closing(sqlite3.connect(":memory:")) as connection,
        pytest.raises(sqlite3.OperationalError) as caught,
    ):
        connection.execute("SELECT missing")
    assert str(explained(PATH, caught.value)) == (
        "cache.db: SQLite failed (no such column: missing); "
        "close other programs that use it, look at the disk, or name another file"
    )


def test_remedy_for_a_value_too_large() -> None:
    """It is ours to mend: the message says whose."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 10)
        with pytest.raises(sqlite3.DataError) as caught:
            connection.execute("SELECT ?", (b"x" * 100,))
    assert str(explained(PATH, caught.value)).endswith(
        "; report this to robotgate: it keeps no value so large"
    )
