"""Real servers that limit requests and do not say how many they take: nginx and HAProxy, as Debian has them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import pytest
from tests.limiting_servers import limiting_haproxy, limiting_nginx

from robotgate import RobotGate

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.daemons import Daemon

RATE: Final = 2.0
"""Requests a second that each of them takes, on average."""
SECONDS: Final = 45.0
COLD: Final = 15.0
"""Seconds in which the speed is being found."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("serve", "share"),
    [
        pytest.param(limiting_nginx, 0.5, marks=pytest.mark.real("nginx")),
        pytest.param(limiting_haproxy, 0.4, marks=pytest.mark.real("haproxy")),
    ],
)
async def test_speed_of_real_servers_is_found(
    serve: Callable[[Path], AbstractContextManager[Daemon]], share: float, tmp_path: Path
) -> None:
    """A good part of what each takes is fetched, and a tenth of the answers refuse at most, by its own log.

    HAProxy counts the requests that it refuses, so that the first refusals last until its ten seconds have passed.
    """
    began_at = time.time()
    with serve(tmp_path) as server:
        async with RobotGate(
            "ExampleBot/1.0", contact="bot@example.org", delay=0.02, allow_private_addresses=True
        ) as gate:
            while time.time() < began_at + SECONDS:
                await gate.fetch(f"{server.url}/page")
        warm = [each.status for each in server.served() if each.ended_at >= began_at + COLD]
    good = warm.count(200)
    assert good >= share * RATE * (SECONDS - COLD), (good, len(warm))
    assert len(warm) - good <= 0.1 * len(warm), (good, len(warm))
