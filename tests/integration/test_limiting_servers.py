"""Real servers that limit requests and do not say how many they take: nginx and HAProxy, as Debian has them."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from tests.limiting_servers import HAPROXY, NGINX, haproxy, nginx

from robotgate import PaceKey, RobotGate

if TYPE_CHECKING:
    from tests.limiting_servers import LimitingServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path(NGINX).exists(), reason="no nginx: apt-get install nginx-light"),
    pytest.mark.skipif(not Path(HAPROXY).exists(), reason="no HAProxy: apt-get install haproxy"),
]
RATE: Final = 2.0
"""Requests a second that each of them takes, on average."""
SECONDS: Final = 45.0
COLD: Final = 15.0
"""Seconds in which the speed is being found."""


async def test_speed_of_real_servers_is_found(tmp_path: Path) -> None:
    """A good part of what each takes is fetched, and a tenth of the answers refuse at most, by its own log.

    HAProxy counts the requests that it refuses, so that the first refusals last until its ten seconds have passed.
    """
    for name in ("nginx", "haproxy"):
        (tmp_path / name).mkdir()
    began_at = time.time()

    async def crawl(gate: RobotGate, server: LimitingServer) -> None:
        while time.time() < began_at + SECONDS:
            await gate.fetch(f"{server.url}/page")

    with nginx(tmp_path / "nginx") as one, haproxy(tmp_path / "haproxy") as other:
        async with RobotGate(
            "ExampleBot/1.0",
            contact="bot@example.org",
            delay=0.02,
            allow_private_addresses=True,
            pace_key=PaceKey.ORIGIN,
        ) as gate:
            await asyncio.gather(crawl(gate, one), crawl(gate, other))
        for server, share in ((one, 0.5), (other, 0.3)):
            warm = [status for at, status in server.answers() if at >= began_at + COLD]
            good = warm.count(200)
            assert good >= share * RATE * (SECONDS - COLD), (server.url, good, len(warm))
            assert len(warm) - good <= 0.1 * len(warm), (server.url, good, len(warm))
