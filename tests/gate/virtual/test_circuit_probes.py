"""One request finds out whether a host can be reached again; all others wait for its outcome."""

from __future__ import annotations

import asyncio

import pytest
from tests.paced import (
    JITTER,
    OTHER,
    PAGE,
    SITE,
    fail,
    make_gate,
    now,
    refusal,
    retry_at,
    sleep_until,
    together,
    visit,
)
from tests.waiting import settle

from robotgate import HostUnavailableError, TooSoonError


@pytest.mark.parametrize(("slots", "delay"), [(1, 1.0), (3, 1.0), (3, 0.0)])
async def test_one_probe_and_the_others_wait_for_it(slots: int, delay: float) -> None:
    """It answers after five seconds; then they go on in their order, with the usual spacing."""
    async with make_gate(delay=delay, concurrency_per_host=slots) as gate:
        gate.learn(SITE, b"")
        await fail(gate)
        await sleep_until(await retry_at(gate))
        probe_at = now()
        probe = asyncio.create_task(visit(gate, takes=5.0, status=200))
        others = [asyncio.create_task(visit(gate, takes=0.25, status=200)) for _ in range(6)]
        await asyncio.sleep(4.9)
        assert (gate.host(PAGE).open_turns, gate.host(PAGE).waiting) == (1, 6)
        starts = [await probe, *await asyncio.gather(*others)]
        if slots == 1:
            expected = [0.0, 6.0, 7.25, 8.5, 9.75, 11.0, 12.25]
        elif delay:
            expected = [0.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]
        else:
            expected = [0.0, 5.0, 5.0, 5.0, 5.25, 5.25, 5.25]
        assert [at - probe_at for at in starts] == pytest.approx(expected, abs=1e-6)


async def test_probe_that_fails_doubles_the_pause() -> None:
    """Up to an hour, jittered by a tenth at most; who waited for the probe is sent away if the host is given up."""
    async with make_gate(give_up_after=0.0) as gate:
        gate.learn(SITE, b"")
        await fail(gate)
        for failures in range(1, 15):
            pause = min(2.0 ** (failures - 1), 3600.0)
            assert pause - 1e-6 <= await retry_at(gate) - now() <= pause * JITTER + 1e-6
            await sleep_until(await retry_at(gate))
            probe = asyncio.create_task(fail(gate))
            other = asyncio.create_task(visit(gate))
            await probe
            error, _ = await refusal(other, HostUnavailableError)
            assert error.args


async def test_probe_that_succeeds_ends_it_all() -> None:
    """The next outage is the first again."""
    async with make_gate() as gate:
        gate.learn(SITE, b"")
        for _ in range(3):
            await fail(gate)
            assert 1.0 <= await retry_at(gate) - now() <= JITTER
            await sleep_until(await retry_at(gate))
            # Any answer will do.
            await visit(gate, status=500)
            assert gate.host(PAGE).unreachable_until_at is None
            await asyncio.sleep(1.0)


@pytest.mark.parametrize("ending", ["cancelled", "silent", "other error"])
async def test_probe_that_tells_nothing_leaves_the_next_to_try(ending: str) -> None:
    """One after the other, the usual delay apart, until one tells."""
    async with make_gate() as gate:
        gate.learn(SITE, b"")
        await fail(gate)
        await sleep_until(await retry_at(gate))
        probe_at = now()
        error = ValueError() if ending == "other error" else None
        probe = asyncio.create_task(visit(gate, takes=3.0, error=error))
        others = [asyncio.create_task(visit(gate, takes=1.0, status=200)) for _ in range(3)]
        await asyncio.sleep(2.0)
        if ending == "cancelled":
            probe.cancel()
        starts = [at - probe_at for at in await asyncio.gather(*others)]
        first = 3.0 if ending == "cancelled" else 4.0
        assert starts == pytest.approx([first, first + 2.0, first + 4.0], abs=1e-6)


async def test_who_waits_for_the_probe_has_his_own_patience() -> None:
    """`max_wait` ends his wait, and not the probe."""
    async with make_gate(concurrency_per_host=2) as gate:
        gate.learn(SITE, b"")
        await fail(gate)
        await sleep_until(await retry_at(gate))
        probe_at = now()
        probe = asyncio.create_task(visit(gate, takes=30.0, status=200))
        await settle()
        error, at = await refusal(visit(gate, max_wait=5.0), TooSoonError)
        assert at == pytest.approx(probe_at + 5.0)
        assert error.args
        await probe
        assert await visit(gate) == pytest.approx(probe_at + 30.0)


async def test_outage_that_is_noticed_while_one_waits_for_a_place() -> None:
    """His host's turn had come, but no place was free: he is not sent either."""
    async with make_gate(delay=0.0, concurrency=2, concurrency_per_host=2, give_up_after=0.0) as gate:
        gate.learn(PAGE, b"")
        gate.learn(OTHER, b"")
        elsewhere = asyncio.create_task(visit(gate, OTHER, takes=5.0))
        failing = asyncio.create_task(fail(gate, takes=1.0))
        await settle()
        error, at = await refusal(visit(gate), HostUnavailableError)
        assert isinstance(error, HostUnavailableError)
        assert (at, error.cause) == (1.0, "it refuses connections")
        assert await together(failing, elsewhere) == [0.0, 0.0]
        assert gate.host(PAGE).visits == 1


async def test_probes_that_wait_for_a_place_are_one() -> None:
    """Two whose host's turn has come wait for a place of `concurrency`: one of them tries, the other waits for it."""
    async with make_gate(delay=0.0, concurrency=2, concurrency_per_host=2) as gate:
        gate.learn(PAGE, b"")
        gate.learn(OTHER, b"")
        gate.learn("http://c.example/", b"")
        await fail(gate)
        await sleep_until(await retry_at(gate))
        back_at = now()
        elsewhere = [asyncio.create_task(visit(gate, url, takes=5.0)) for url in (OTHER, "http://c.example/")]
        await settle()
        tasks = [asyncio.create_task(visit(gate, takes=3.0, status=200)) for _ in range(3)]
        await asyncio.gather(*elsewhere)
        assert [await task - back_at for task in tasks] == pytest.approx([5.0, 8.0, 8.0], abs=1e-6)
