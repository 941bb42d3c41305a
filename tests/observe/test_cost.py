"""What metrics cost: the functions that a page enters with them, and without."""

from __future__ import annotations

import sys
from collections import Counter
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


async def entered(gate: RobotGate) -> Counter[str]:
    """The functions of robotgate that so many turns enter, by name."""
    found: Counter[str] = Counter()

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            if isinstance(made := frame.f_locals.get("self"), Event):
                found[type(made).__name__] += 1
            elif frame.f_code.co_filename.startswith(OURS):
                found[frame.f_code.co_qualname] += 1

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
    """One step to count it, and no event: metrics slow a crawl by 3 % at most."""
    gate = await open_gate()
    gate.learn(SITE, b"")
    before = await entered(gate)
    meters = MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False)
    with (
        prometheus(gate, CollectorRegistry())
        if way == "prometheus"
        else opentelemetry(gate, meter_provider=meters)
    ):
        more = await entered(gate) - before
    meters.shutdown()
    assert more.total() <= 4 * TURNS, more
    assert not {"TurnBegan", "TurnEnded"} & more.keys()
    assert not (await entered(gate) - before)
