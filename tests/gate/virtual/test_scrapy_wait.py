"""How long the add-on for Scrapy waits for a host, and what for: a real gate on virtual time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest
from tests.paced import HOUR, JITTER, PAGE, ROBOTS, SITE, make_gate, now, scripted

from robotgate import Failure, HostUnavailableError, TooSoonError
from robotgate.integrations.scrapy.handler import MAX_OUTAGE_WAIT, send_in_turn

if TYPE_CHECKING:
    from robotgate import RobotGate, Turn

OUTAGE: Final = 10.0
"""Seconds, at least and by jitter a tenth more: how long a host is left alone that was not found once."""


class Host:
    """One that is not found for its first so many requests."""

    def __init__(self, *, down_for: int = 0) -> None:
        self._down_for = down_for
        self.asked_at: list[float] = []

    async def answer(self, turn: Turn) -> str:
        """As a download handler: an outage is reported, and Scrapy's own retries come later."""
        self.asked_at.append(now())
        if len(self.asked_at) <= self._down_for:
            turn.report_unreachable("it does not answer in time")
            return "nobody"
        turn.report(status=200)
        return "a page"


async def send(gate: RobotGate, host: Host, *, max_wait: float | None = None) -> str:
    """Ask for the page."""
    return await send_in_turn(gate, PAGE, host.answer, priority=0, max_wait=max_wait)


async def test_outage_is_waited_out() -> None:
    """None of a host's pages is lost for one that timed out, nor for a second one."""
    host = Host(down_for=2)
    async with make_gate(delay=0) as gate:
        gate.learn(PAGE, b"")
        assert sorted(await asyncio.gather(*(send(gate, host) for _ in range(5)))) == [
            *["a page"] * 3,
            *["nobody"] * 2,
        ]
    first, second, third, *_ = host.asked_at
    assert OUTAGE <= second - first <= OUTAGE * JITTER + 1
    assert 2 * OUTAGE <= third - second <= 2 * OUTAGE * JITTER + 1


async def test_host_that_stays_away_is_given_up() -> None:
    """Once it is to be left alone for longer than a minute at a time."""
    host = Host(down_for=100)
    async with make_gate(delay=0) as gate:
        gate.learn(PAGE, b"")
        assert [await send(gate, host) for _ in range(4)] == ["nobody"] * 4
        with pytest.raises(HostUnavailableError) as caught:
            await send(gate, host)
    assert caught.value.retry_after > MAX_OUTAGE_WAIT


async def test_block_that_is_refused_is_not_waited_out() -> None:
    """`max_block` says how long a host may ask us to stay away; not the patience with an outage."""
    host = Host()
    async with make_gate(delay=0, max_block=1) as gate:
        gate.learn(PAGE, b"")
        async with gate.turn(PAGE) as turn:
            turn.report(status=429, headers={"Retry-After": "5"})
        asked_at = now()
        with pytest.raises(HostUnavailableError, match="answered 429 or 503"):
            await send(gate, host)
        assert now() == asked_at
    assert host.asked_at == []


async def test_block_by_the_operator_is_not_waited_out() -> None:
    """As one that the host asks for."""
    host = Host()
    async with make_gate(delay=0, max_block=1) as gate:
        gate.learn(PAGE, b"")
        gate.block("*", now() + 5)
        asked_at = now()
        with pytest.raises(HostUnavailableError, match="the operator blocks it"):
            await send(gate, host)
        assert now() == asked_at


async def test_block_that_is_waited_out_by_the_gate_still_is() -> None:
    """One no longer than `max_block`."""
    host = Host()
    async with make_gate(delay=0, max_block=10) as gate:
        gate.learn(PAGE, b"")
        async with gate.turn(PAGE) as turn:
            turn.report(status=429, headers={"Retry-After": "5"})
        blocked_at = now()
        assert await send(gate, host) == "a page"
    assert host.asked_at[0] >= blocked_at + 5


async def test_unreadable_robots_txt_is_not_waited_for() -> None:
    """If it is requested again soon and cannot be reached, no page is sent, even if it answers by then."""
    host = Host()
    async with make_gate(scripted({SITE: Failure("garbage")}), delay=0) as gate:
        assert not await gate.allowed(PAGE)
        await asyncio.sleep(MAX_OUTAGE_WAIT / 2)
        async with gate.turn(ROBOTS) as turn:
            turn.report_unreachable("it does not answer in time")
        asked_at = now()
        with pytest.raises(HostUnavailableError, match=r"robots\.txt cannot be read") as caught:
            await send(gate, host)
        assert now() == asked_at
    assert caught.value.retry_after < MAX_OUTAGE_WAIT
    assert host.asked_at == []


@pytest.mark.parametrize("max_wait", [0, 9, 25])
async def test_all_waits_together_are_bounded(max_wait: float) -> None:
    """A request that waits out two outages has one `max_wait` for both."""
    host = Host(down_for=100)
    async with make_gate(delay=0) as gate:
        gate.learn(PAGE, b"")
        await send(gate, host)
        waiting = [asyncio.create_task(send(gate, host, max_wait=max_wait)) for _ in range(5)]
        began_at = now()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert now() - began_at <= max_wait
    refused = [result for result in results if result != "nobody"]
    assert {type(error) for error in refused} == {HostUnavailableError}
    assert len(refused) >= 4


async def test_turn_after_an_outage_is_waited_for_with_what_is_left() -> None:
    """Of `max_wait`: a turn that comes later is none."""
    host = Host()
    async with make_gate(delay=HOUR, max_delay=HOUR) as gate:
        gate.learn(PAGE, b"")
        async with gate.turn(PAGE) as turn:
            turn.report_unreachable("it does not answer in time")
        began_at = now()
        with pytest.raises(TooSoonError):
            await send(gate, host, max_wait=HOUR - 1)
        assert OUTAGE <= now() - began_at <= OUTAGE * JITTER + 1
    assert host.asked_at == []
