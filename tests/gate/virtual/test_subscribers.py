"""Who hears of events: subscribers, who may fail, and the log with its levels."""

from __future__ import annotations

import asyncio

from tests.paced import SITE, gate_that_knows, kinds, listen, make_gate, visit

from robotgate.events import Event, TurnBegan


async def test_subscribing_before_the_gate_is_open() -> None:
    """As good as later; the end of the last turn is heard though the gate closes at once."""
    gate = make_gate()
    heard = listen(gate)
    async with gate:
        gate.learn(SITE, b"")
        await visit(gate)
    assert kinds(heard) == ["TurnBegan", "TurnEnded"]


async def test_subscriber_may_use_the_gate() -> None:
    """What it starts is no part of the turn it heard of."""
    started: list[asyncio.Task[float]] = []
    async with gate_that_knows(SITE) as gate:

        def follow(event: Event) -> None:
            if isinstance(event, TurnBegan) and len(started) < 3:
                started.append(asyncio.get_running_loop().create_task(visit(gate)))

        gate.subscribe(follow)
        assert await visit(gate, takes=0.5) == 0.0
        await asyncio.sleep(10.0)
        assert [task.result() for task in started] == [1.5, 2.5, 3.5]
