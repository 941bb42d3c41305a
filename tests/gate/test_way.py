"""A warm request passes through few functions of robotgate, whether its host has a delay or not."""

from __future__ import annotations

from typing import Final

import pytest
from benchmarks.way import DELAY, fetch, middleware, way

MAX_FETCH: Final = 34
MAX_MIDDLEWARE: Final = 24


@pytest.mark.parametrize("delay", [0.0, DELAY])
async def test_fetch_is_short(delay: float) -> None:
    """`RobotGate.fetch` of a known and due host calls at most 34 functions of robotgate."""
    found = await way(fetch, delay=delay, is_warm=True)
    assert 0 < found.calls <= MAX_FETCH, str(found)


@pytest.mark.parametrize("delay", [0.0, DELAY])
async def test_middleware_is_short(delay: float) -> None:
    """A request through `RobotGate.middleware` to a known and due host calls at most 24 functions of robotgate."""
    found = await way(middleware, delay=delay, is_warm=True)
    assert 0 < found.calls <= MAX_MIDDLEWARE, str(found)
