"""Who hears of events: subscribers, who may fail, and the log with its levels."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest
from tests.failing import FailingStore
from tests.paced import (
    PAGE,
    REFUSED,
    SITE,
    asks,
    kinds,
    listen,
    make_gate,
    refusal,
    scripted,
    visit,
    visits,
)
from tests.waiting import settle

from robotgate import DisallowedError, HostUnavailableError, OptionError, Origin, StoreError
from robotgate.events import Event, HostBlocked, TurnBegan, TurnEnded, logger
from robotgate.sites import Failure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


ORIGIN = Origin("http", "a.example", 80)


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


async def test_meter_is_called_with_each_page() -> None:
    """Within the request, with its turn and the seconds it took; not with a robots.txt, nor after its end."""
    counted: list[tuple[int | None, float]] = []
    async with make_gate(scripted({SITE: asks("Disallow: /private")}, latency=0.25)) as gate:
        remove = gate._meter(lambda turn, elapsed: counted.append((turn.status, elapsed)))
        async with gate.turn(PAGE) as turn:
            turn.report(404)
            await asyncio.sleep(2)
        assert counted == [(404, 2.0)]
        remove()
        remove()
        await visit(gate)
        assert len(counted) == 1
        with pytest.raises(OptionError, match="count"):
            gate._meter(asyncio.sleep)  # type: ignore[arg-type]


async def test_subscriber_of_some_kinds() -> None:
    """Hears of no others."""
    async with make_gate() as gate:
        gate.learn(SITE, b"")
        heard: list[Event] = []
        gate.subscribe(heard.append, HostBlocked, TurnEnded)
        async with gate.turn(PAGE) as turn:
            turn.report(status=503)
        with pytest.raises(OptionError, match="kinds"):
            gate.subscribe(heard.append, Exception)  # type: ignore[arg-type, type-var]
        await settle()
    assert kinds(heard) == ["HostBlocked", "TurnEnded"]


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


class Complaining(logging.Handler):
    """Raises at some kinds of events, as a handler does whose disk is full."""

    def __init__(self, *complained_of: type[Event]) -> None:
        super().__init__()
        self._complained_of = complained_of

    def emit(self, record: logging.LogRecord) -> None:
        """Raise."""
        kind = type(record.args[0]) if isinstance(record.args, tuple) else None
        if kind in self._complained_of:
            raise LookupError(str(kind.__name__))


@pytest.fixture
async def complaints() -> AsyncIterator[list[str]]:
    """A handler of the log raises at `TurnBegan` and `HostBlocked`: what the loop's exception handler hears of it."""
    heard: list[str] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: heard.append(str(context["exception"]))
    )
    handler = Complaining(TurnBegan, HostBlocked)
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.DEBUG)
    yield heard
    logger.setLevel(level)
    logger.removeHandler(handler)


async def test_log_that_raises_at_a_turn_breaks_nothing(complaints: list[str]) -> None:
    """The task that asked gets its turn and ends it; the task behind it gets its own."""
    async with make_gate() as gate:
        gate.learn(SITE, b"")
        assert await visits(gate, 3) == [0.0, 1.0, 2.0]
        assert (gate.host(PAGE).open_turns, gate.host(PAGE).waiting) == (0, 0)
    assert complaints == ["TurnBegan"] * 3


@pytest.mark.parametrize("is_outage", [True, False])
async def test_log_that_raises_at_a_block_breaks_nothing(complaints: list[str], is_outage: bool) -> None:  # noqa: FBT001
    """The report returns, the turn ends, and waiting tasks go on or are refused."""
    async with make_gate(give_up_after=0.0) as gate:
        gate.learn(SITE, b"")
        async with gate.turn(PAGE) as turn:
            waiting = [asyncio.create_task(visit(gate)) for _ in range(2)]
            await settle()
            if is_outage:
                turn.report(error=REFUSED)
            else:
                turn.report(status=429, headers={"Retry-After": "60"})
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        if is_outage:
            assert [type(outcome) for outcome in outcomes] == [HostUnavailableError] * 2
        else:
            assert outcomes == [60.0, 61.0]
        assert (gate.host(PAGE).open_turns, gate.host(PAGE).waiting) == (0, 0)
        gate.block("b.example")
        await settle()
    assert complaints.count("HostBlocked") == 2


async def test_levels_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """A line for each event, at its level; the event is the record's argument."""
    fetcher = scripted({SITE: asks("Disallow: /private")})
    with caplog.at_level(logging.DEBUG, logger="robotgate"):
        async with make_gate(fetcher, store=FailingStore("save_record")) as gate:
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
