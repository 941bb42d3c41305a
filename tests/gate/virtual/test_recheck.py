"""The operator's triggers: robots.txt is requested again after so many visits, seconds or bytes."""

from __future__ import annotations

import asyncio

import pytest
from tests.gate.virtual.site import OPEN, Site
from tests.paced import PAGE, SECURE, SITE, make_gate, now, sleep_until, visit
from tests.waiting import settle

from robotgate import HostOverride, MemoryStore, OptionError, Recheck, RobotGate
from robotgate.sites import Answer


async def read(gate: RobotGate, octets: int) -> float:
    """A visit that reads so much; its start."""
    async with gate.turn(PAGE) as turn:
        turn.report(200, bytes=octets)
        return now()


async def test_after_so_many_visits() -> None:
    """After the fifth page it goes before the sixth, and so on; it does not count itself."""
    site = Site(recheck=Recheck(visits=5))
    async with site.gate as gate:
        pages = await asyncio.gather(*(visit(gate) for _ in range(12)))
    assert site.asked_at == [0.0, 6.0, 12.0]
    assert pages == [1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 8.0, 9.0, 10.0, 11.0, 13.0, 14.0]


async def test_after_every_visit() -> None:
    """Its own visit calls for no other: there are as many as pages, and none when there are none."""
    site = Site(recheck=Recheck(visits=1))
    async with site.gate as gate:
        for _ in range(3):
            await visit(gate)
        await asyncio.sleep(100.0)
        assert gate.allowed_nowait(PAGE) is True
        await asyncio.sleep(100.0)
    assert site.asked_at == [0.0, 2.0, 4.0, 6.0]


async def test_visits_are_those_of_the_host() -> None:
    """What is paced together is counted together: the other scheme's visits are visits to the host, too."""
    site = Site(recheck=Recheck(visits=4))
    async with site.gate as gate:
        await visit(gate)
        for _ in range(2):
            await visit(gate, SECURE)
        assert site.asked_at == [0.0]
        assert gate.host(PAGE).visits == 5
        await visit(gate)
        await asyncio.sleep(5.0)
    assert len(site.asked_at) == 2


async def test_after_so_many_octets() -> None:
    """More than twice the file's size; its own bytes do not count."""
    site, octets = Site(Answer(status=200, body=b"#" * 2000), recheck=Recheck(bytes_ratio=2.0)), 4000
    async with site.gate as gate:
        for _ in range(2):
            await read(gate, octets // 2)
        await asyncio.sleep(5.0)
        assert len(site.asked_at) == 1
        await read(gate, 1)
        await asyncio.sleep(5.0)
        assert len(site.asked_at) == 2
        await read(gate, octets)
        await asyncio.sleep(5.0)
        assert len(site.asked_at) == 2
        await read(gate, 1)
        await asyncio.sleep(5.0)
        assert len(site.asked_at) == 3


async def test_after_so_much_time() -> None:
    """At the first question from then on, to the instant."""
    site = Site(recheck=Recheck(age=100.0))
    async with site.gate as gate:
        await gate.allowed(PAGE)
        for instant in (99.9, 100.0, 199.9, 250.0, 349.9, 350.0):
            await sleep_until(instant)
            assert gate.allowed_nowait(PAGE) is True
            await settle()
    assert site.asked_at == [0.0, 100.0, 250.0, 350.0]


async def test_next_run_counts_from_what_the_store_knows() -> None:
    """A million visits of the past are no reason to ask; the first of this run is the first that counts."""
    store = MemoryStore()
    before = Site(store=store)
    async with before.gate as gate:
        for _ in range(10):
            await read(gate, 10_000)
    site = Site(recheck=Recheck(visits=3, bytes_ratio=1.0), store=store)
    async with site.gate as gate:
        for _ in range(3):
            assert site.asked_at == []
            await read(gate, 10)
        await settle()
        await asyncio.sleep(5.0)
    assert len(site.asked_at) == 1


async def test_override_forgets_no_count() -> None:
    """The options of the host change; what it has seen does not."""
    site = Site(recheck=Recheck(visits=3))
    async with site.gate as gate:
        for _ in range(2):
            await visit(gate)
        gate.override("a.example", HostOverride(delay=0.5))
        await visit(gate)
        await asyncio.sleep(5.0)
    assert len(site.asked_at) == 2


async def test_rules_that_ended_are_waited_for_as_ever() -> None:
    """A visit that began before their end calls for nothing after it."""
    site = Site(recheck=Recheck(visits=1))
    async with site.gate as gate:
        gate.learn(SITE, OPEN.body, fresh_until=10.0)
        assert await visit(gate, takes=20.0) == 0.0
        assert (gate.allowed_nowait(PAGE), site.asked_at) == (None, [])
        assert await gate.allowed(PAGE)
    assert site.asked_at == [21.0]


async def test_robots_txt_that_is_not_obeyed_is_not_requested_again() -> None:
    """Nor is it requested at all for the gate's own use: it was here because the operator asked for it."""
    site = Site(recheck=Recheck(visits=1))
    async with site.gate as gate:
        gate.override("a.example", HostOverride(ignore_robots=True))
        assert (await gate.robots(PAGE)).body
        for _ in range(3):
            await visit(gate)
        await asyncio.sleep(100.0)
    assert len(site.asked_at) == 1


def test_what_is_no_recheck_is_refused_by_name() -> None:
    """Before anything is asked."""
    with pytest.raises(OptionError, match="recheck"):
        make_gate(recheck=10)  # type: ignore[arg-type]
