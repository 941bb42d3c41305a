"""A request passes through few functions of robotgate, whether its host is known or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from benchmarks.way import DELAY, ROBOTS_TXT, fetch, middleware, way

from robotgate import RobotsTxt

if TYPE_CHECKING:
    from benchmarks.way import Call


@pytest.mark.parametrize("delay", [0.0, DELAY])
@pytest.mark.parametrize(("call", "most"), [(fetch, 34), (middleware, 24)], ids=["fetch", "middleware"])
async def test_warm_request_is_short(call: Call, most: int, delay: float) -> None:
    """To a known and due host, through `RobotGate.fetch` or `RobotGate.middleware`."""
    found = await way(call, delay=delay, is_warm=True)
    assert 0 < found.calls <= most, str(found)


@pytest.mark.parametrize(("call", "most"), [(fetch, 140), (middleware, 125)], ids=["fetch", "middleware"])
async def test_cold_request_is_bounded(call: Call, most: int) -> None:
    """To a host whose robots.txt is requested first; other hosts have the same file."""
    known = RobotsTxt.parse(ROBOTS_TXT, "http://known.example/robots.txt")
    assert known.allowed("http://known.example/page?number=1", "WayBot/1.0")
    found = await way(call, delay=0.0, is_warm=False)
    assert 0 < found.calls <= most, str(found)
