"""What a request leaves behind when it is over: nothing that waits for the garbage collector, or for a timer's end."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from tests.gate.crawlers import crawler, text
from tests.gate.servers import PAGE, SITE

from robotgate.client.turns import PageTurn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import OpenGate
    from tests.gate.servers import Web


@contextmanager
def no_collector() -> Iterator[Callable[[], int]]:
    """Without the collector, only objects without references are freed; yields a count of the turns left."""
    gc.collect()
    # What exists before is not counted: other tests of the process leave many objects, and each count is slow.
    gc.freeze()
    gc.disable()
    try:
        yield lambda: sum(isinstance(known, PageTurn) for known in gc.get_objects())
    finally:
        gc.enable()
        gc.unfreeze()


@pytest.fixture
def site(web: Web) -> Web:
    """A site that any robot may read."""
    web.serve(f"{SITE}/robots.txt", b"")
    web.redirect(f"{SITE}/moved", PAGE)
    web.serve(PAGE, b"a page")
    return web


@pytest.mark.parametrize(
    ("door", "url"), [("fetch", PAGE), ("fetch", f"{SITE}/moved"), ("stream", PAGE), ("middleware", PAGE)]
)
async def test_a_request_leaves_no_turn(site: Web, open_gate: OpenGate, door: str, url: str) -> None:
    """Nor do aiohttp's cancelled timers keep one, which stay in the loop with their contexts."""
    gate = await open_gate()
    async with crawler(site, gate.middleware) as session:
        await text(gate, url, door, session)
        with no_collector() as turns_left:
            for _ in range(20):
                await text(gate, url, door, session)
            assert turns_left() == 0
    assert site.count(PAGE) == 21
