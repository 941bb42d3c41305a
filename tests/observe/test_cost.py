"""What metrics cost: the functions that a page enters with them, and without."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry

import robotgate
from robotgate.events import Event
from robotgate.observe import opentelemetry, prometheus

if TYPE_CHECKING:
    from types import FrameType

    from tests.conftest import OpenGate

    from robotgate import RobotGate

SITE: Final = "http://site.example"
OURS: Final = str(Path(robotgate.__file__).parent)
TURNS: Final = 50


async def calls(gate: RobotGate) -> int:
    """How many functions of robotgate so many turns enter, and how many events they make."""
    found = 0

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal found
        is_ours = frame.f_code.co_filename.startswith(OURS) or isinstance(frame.f_locals.get("self"), Event)
        found += event == "call" and is_ours

    sys.setprofile(profile)
    try:
        for _ in range(TURNS):
            async with gate.turn(f"{SITE}/") as turn:
                turn.report(200)
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize("way", ["prometheus", "opentelemetry"])
async def test_page_enters_few_functions_for_metrics(open_gate: OpenGate, way: str) -> None:
    """Steps to count it, and no event: metrics slow a crawl by 3 % at most."""
    gate = await open_gate()
    gate.learn(SITE, b"")
    before = await calls(gate)
    meters = MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False)
    with (
        prometheus(gate, CollectorRegistry())
        if way == "prometheus"
        else opentelemetry(gate, meter_provider=meters)
    ):
        with_metrics = await calls(gate)
    meters.shutdown()
    assert with_metrics - before <= 4 * TURNS
    assert await calls(gate) <= before
