"""What a request leaves behind when it is over: nothing that waits for the garbage collector, or for a timer's end."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest

from robotgate.client.turns import PageTurn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import OpenGate
    from tests.gate.servers import Web

    from robotgate import RobotGate

SITE: Final = "http://site.example"
PAGES: Final = 20


@contextmanager
def no_collector() -> Iterator[Callable[[], int]]:
    """Without the collector, only objects without references are freed; yields a count of the turns left."""
    gc.collect()
    before = turns()
    gc.disable()
    try:
        yield lambda: turns() - before
    finally:
        gc.enable()


def turns() -> int:
    """How many there are in memory, those that earlier tests have left there included."""
    return sum(isinstance(known, PageTurn) for known in gc.get_objects())


async def streamed(gate: RobotGate) -> None:
    """One page, as a stream."""
    async with gate.fetch(f"{SITE}/page") as response:
        assert await response.read() == b"a page"


async def got(session: aiohttp.ClientSession) -> None:
    """One page, by aiohttp."""
    async with session.get(f"{SITE}/page") as response:
        assert await response.read() == b"a page"


@pytest.fixture
def site(web: Web) -> Web:
    """A site that any robot may read."""
    web.serve(f"{SITE}/robots.txt", b"")
    web.redirect(f"{SITE}/moved", f"{SITE}/page")
    web.serve(f"{SITE}/page", b"a page")
    return web


@pytest.mark.parametrize("path", ["/page", "/moved"])
async def test_a_fetch_leaves_no_turn(site: Web, open_gate: OpenGate, path: str) -> None:
    """Nor do aiohttp's cancelled timers keep one, which stay in the loop with their contexts."""
    gate = await open_gate(delay=0)
    await gate.fetch(f"{SITE}{path}")
    with no_collector() as turns_left:
        for _ in range(PAGES):
            await gate.fetch(f"{SITE}{path}")
        assert turns_left() == 0
    assert site.count(f"{SITE}/page") == PAGES + 1


async def test_a_streamed_fetch_leaves_no_turn(site: Web, open_gate: OpenGate) -> None:
    """As one that is read whole."""
    gate = await open_gate(delay=0)
    with no_collector() as turns_left:
        for _ in range(PAGES):
            await streamed(gate)
        assert turns_left() == 0
    assert site.count(f"{SITE}/page") == PAGES


async def test_a_request_through_the_middleware_leaves_no_turn(site: Web, open_gate: OpenGate) -> None:
    """As one of `gate.fetch`."""
    gate = await open_gate(delay=0)
    with no_collector() as turns_left:
        async with aiohttp.ClientSession(
            connector=site.connector(), middlewares=[gate.middleware]
        ) as session:
            for _ in range(PAGES):
                await got(session)
            assert turns_left() == 0
    assert site.count(f"{SITE}/page") == PAGES
