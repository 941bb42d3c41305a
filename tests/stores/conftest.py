"""Every connection that a test makes to a file is closed in the end, whatever went wrong with it."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _closed_connections(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Python 3.13 warns of others, where the garbage collector happens to find them."""
    connect, made = sqlite3.connect, []

    def noted(*arguments: object, **options: object) -> sqlite3.Connection:
        connection = connect(*arguments, **options)  # type: ignore[call-overload]
        made.append(connection)
        return connection  # type: ignore[no-any-return]

    monkeypatch.setattr(sqlite3, "connect", noted)
    yield
    for connection in made:
        with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
            _ = connection.total_changes
