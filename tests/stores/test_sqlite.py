"""The store in a file."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from robotgate._check_store import check_store
from robotgate.stores.sqlite import SQLiteStore

if TYPE_CHECKING:
    from pathlib import Path


async def test_passes_the_suite(tmp_path: Path) -> None:
    """Everything a gate asks of a store, it does."""
    numbers = count()
    await check_store(lambda: SQLiteStore(tmp_path / f"{next(numbers)}.db"))
