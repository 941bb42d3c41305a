"""Who hears of events: subscribers, who may fail, and the log with its levels."""

from __future__ import annotations

import asyncio
import errno
import logging
from typing import TYPE_CHECKING

from tests.paced import PAGE, SITE, asks, make_gate, refusal, scripted, visit
from tests.waiting import settle

from robotgate import (
    DisallowedError,
    Event,
    Failure,
    MemoryStore,
    Origin,
    RobotsRecord,
    StoreError,
    TurnBegan,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from robotgate import RobotGate

ORIGIN = Origin("http", "a.example", 80)
REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")


class UnwritableStore(MemoryStore):
    """Keeps no records."""

    async def save_record(self, record: RobotsRecord) -> None:
        """Fail."""
        raise StoreError("the disk is full: make room")


def listen(gate: RobotGate) -> list[Event]:
    """Everything that happens from now on."""
    heard: list[Event] = []
    gate.subscribe(heard.append)
    return heard


def kinds(heard: Sequence[Event]) -> list[str]:
    """What happened, by name."""
    return [type(event).__name__ for event in heard]


async def test_unsubscribing() -> None:
    """Nothing more is heard, not even of what has just happened; others hear on."""
    async with make_gate() as gate:
        gate.learn(SITE, b"")
        first: list[Event] = []
        unsubscribe = gate.subscribe(first.append)
        second = listen(gate)
        await visit(gate)
        unsubscribe()
        unsubscribe()
        await visit(gate)
        await settle()
    assert kinds(first) == ["TurnBegan"]
    assert kinds(second) == ["TurnBegan", "TurnEnded"] * 2


async def test_subscribing_before_the_gate_is_open() -> None:
    """As good as later; the end of the last turn is heard though the gate closes at once."""
    gate = make_gate()
    heard = listen(gate)
    async with gate:
        gate.learn(SITE, b"")
        await visit(gate)
    assert kinds(heard) == ["TurnBegan", "TurnEnded"]


async def test_subscriber_that_raises_breaks_nothing() -> None:
    """The loop's exception handler hears of it; turns and other subscribers go on."""
    loop = asyncio.get_running_loop()
    complaints: list[object] = []
    loop.set_exception_handler(lambda _, context: complaints.append(context["exception"]))

    def complain(event: Event) -> None:
        raise LookupError(type(event).__name__)

    async with make_gate() as gate:
        gate.learn(SITE, b"")
        gate.subscribe(complain)
        heard = listen(gate)
        assert await visit(gate) == 0.0
        assert await visit(gate) == 1.0
        await settle()
    assert kinds(heard) == ["TurnBegan", "TurnEnded"] * 2
    assert [str(complaint) for complaint in complaints] == kinds(heard)


async def test_subscriber_may_use_the_gate() -> None:
    """What it starts is no part of the turn it heard of."""
    started: list[asyncio.Task[float]] = []
    async with make_gate() as gate:
        gate.learn(SITE, b"")

        def follow(event: Event) -> None:
            if isinstance(event, TurnBegan) and len(started) < 3:
                started.append(asyncio.get_running_loop().create_task(visit(gate)))

        gate.subscribe(follow)
        assert await visit(gate, takes=0.5) == 0.0
        await asyncio.sleep(10.0)
        assert [task.result() for task in started] == [1.5, 2.5, 3.5]


async def test_levels_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """A line for each event, at its level; the event is the record's argument."""
    fetcher = scripted({SITE: asks("Disallow: /private")})
    with caplog.at_level(logging.DEBUG, logger="robotgate"):
        async with make_gate(fetcher, store=UnwritableStore()) as gate:
            heard = listen(gate)
            await refusal(visit(gate), StoreError)
            await refusal(visit(gate, f"{SITE}/private"), DisallowedError)
            async with gate.turn(PAGE) as turn:
                turn.report(status=503, headers={"Retry-After": "60"})
            await visit(gate, status=200)
            gate.block("b.example")
    lines = [record for record in caplog.records if record.name == "robotgate"]
    assert [(record.levelname, record.args) for record in lines] == [
        (level, (event,))
        for level, event in zip(
            [
                "INFO",
                "ERROR",
                "INFO",
                "INFO",
                "DEBUG",
                "WARNING",
                "DEBUG",
                "DEBUG",
                "INFO",
                "DEBUG",
                "WARNING",
            ],
            heard,
            strict=True,
        )
    ]
    assert all("\n" not in record.getMessage() for record in lines)


async def test_unreachable_robots_txt_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """The site stays closed meanwhile."""
    with caplog.at_level(logging.INFO, logger="robotgate"):
        async with make_gate(scripted({SITE: Failure("cut off")})) as gate:
            assert not await gate.allowed(PAGE)
    assert [record.levelname for record in caplog.records if record.name == "robotgate"] == ["WARNING"]
