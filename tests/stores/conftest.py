"""What the tests of stores share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.stores.redis_workers import fleet_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.redis_server import RedisServer
    from tests.stores.redis_workers import Fleet


@pytest.fixture
async def fleet(server: RedisServer) -> AsyncIterator[Fleet]:
    """A fleet without workers."""
    async with fleet_of(server) as fleet:
        yield fleet
