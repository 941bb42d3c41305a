"""A warm request passes through few functions of robotgate, whether its host has a delay or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from benchmarks.way import DELAY, fetch, middleware, way

if TYPE_CHECKING:
    from benchmarks.way import Call


@pytest.mark.parametrize("delay", [0.0, DELAY])
@pytest.mark.parametrize(("call", "most"), [(fetch, 34), (middleware, 24)], ids=["fetch", "middleware"])
async def test_warm_request_is_short(call: Call, most: int, delay: float) -> None:
    """To a known and due host, through `RobotGate.fetch` or `RobotGate.middleware`."""
    found = await way(call, delay=delay, is_warm=True)
    assert 0 < found.calls <= most, str(found)
