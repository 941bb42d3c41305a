"""What the tests of fleets share: a server for their stores, and what each worker is told to do."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import pytest
from tests.fleet.worker import Order
from tests.redis_server import RedisServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DELAY: Final = 0.2
ANSWER: Final = 0.02
"""Seconds that a response takes."""
HOSTS: Final = tuple(f"{number}.site.example" for number in range(40))
PAGES: Final = tuple(f"/page/{number}" for number in range(3))
WORKERS: Final = 4

if sys.platform == "win32":
    pytest.skip("processes are set aside by signals", allow_module_level=True)


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A server of its own."""
    with RedisServer(tmp_path) as server:
        yield server


def orders(store: str, port: int, *, lease: float = 60.0, pages: tuple[str, ...] = PAGES) -> list[Order]:
    """The same pages of the same hosts for each worker."""
    return [
        Order(number=number, store=store, port=port, hosts=HOSTS, pages=pages, delay=DELAY, lease=lease)
        for number in range(WORKERS)
    ]
