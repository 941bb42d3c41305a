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
HOSTS: Final = tuple(f"{number}.site.example" for number in range(20))
PAGES: Final = tuple(f"/page/{number}" for number in range(3))
WORKERS: Final = 4
LEASE: Final = 3.0
"""Seconds; a server that may have lost its memory grants nothing for as long."""

if sys.platform == "win32":
    pytest.skip("processes are set aside by signals", allow_module_level=True)


@pytest.fixture(params=["server", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a server of its own, or the path of a file."""
    if request.param == "file":
        return str(tmp_path / "store.db")
    server: RedisServer = request.getfixturevalue("redis")
    return server.url


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A server of its own."""
    with RedisServer(tmp_path) as server:
        server.settle()
        yield server


def orders(store: str, port: int, *, lease: float = LEASE, pages: tuple[str, ...] = PAGES) -> list[Order]:
    """The same pages of the same hosts for each worker."""
    return [
        Order(number=number, store=store, port=port, hosts=HOSTS, pages=pages, delay=DELAY, lease=lease)
        for number in range(WORKERS)
    ]
