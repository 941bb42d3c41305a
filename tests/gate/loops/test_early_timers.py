"""Timers of a real loop fire early or late: no request is sent early, and the loop does not spin."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import OpenGate
    from tests.gate.servers import Web

    from robotgate import RobotGate

GRAIN: Final = 1e-6
"""Seconds; what the gate takes for the same instant."""
MOST_WAKES: Final = 3
"""For each start: the timer, once more if it came early, and one to spare."""


def names(hosts: int) -> list[str]:
    """So many hosts."""
    return [f"{number}.example" for number in range(hosts)]


async def crawl(gate: RobotGate, count: int, *, hosts: int = 1) -> None:
    """Fetch so many pages of each host, asked for all at once."""
    urls = [f"http://{name}/{page}" for name in names(hosts) for page in range(count)]
    await asyncio.gather(*(gate.fetch(url) for url in urls))


@pytest.mark.parametrize(
    ("delay", "pages", "hosts"), [(0.0004, 50, 1), (0.0015, 50, 1), (0.0305, 10, 1), (0.0507, 3, 20)]
)
async def test_waiting_costs_a_few_wakes(  # noqa: PLR0917  # Fixtures.
    web: Web, open_gate: OpenGate, wakes: Callable[[], int], delay: float, pages: int, hosts: int
) -> None:
    """However early timers fire, however many hosts: a start takes three looks at the clock, and is never early."""
    gate = await open_gate(delay=delay)
    await crawl(gate, pages, hosts=hosts)
    woken = wakes()
    assert len(web.visits) == hosts * (pages + 1)
    assert min(gap for name in names(hosts) for gap in web.gaps(name)) >= delay - GRAIN
    assert woken <= MOST_WAKES * len(web.visits)


async def test_a_long_wait_costs_no_more(web: Web, open_gate: OpenGate, wakes: Callable[[], int]) -> None:
    """The same few wakes, though others come and go meanwhile."""
    gate = await open_gate(delay=0.3)
    await gate.allowed("http://0.example/")
    before = wakes()
    patient = asyncio.create_task(crawl(gate, 1))
    # On a busy machine it is over before 200 others have come.
    while not patient.done():
        fickle = asyncio.create_task(crawl(gate, 1))
        await asyncio.sleep(0.001)
        fickle.cancel()
        await asyncio.gather(fickle, return_exceptions=True)
    await patient
    assert web.gaps("0.example")[0] >= 0.3 - GRAIN
    assert wakes() - before <= MOST_WAKES
