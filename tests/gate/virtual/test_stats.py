"""`gate.stats()`: what a gate has done, and how its hosts are doing."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import pickle

from tests.paced import (
    OTHER,
    PAGE,
    REFUSED,
    SECURE,
    SITE,
    asks,
    gate_that_knows,
    make_gate,
    refusal,
    scripted,
    visit,
)
from tests.waiting import settle

from robotgate import DisallowedError, GateStats, HostUnavailableError, MemoryStore, TooSoonError

NOTHING = GateStats(**dict.fromkeys([field.name for field in dataclasses.fields(GateStats)], 0))


def told(stats: GateStats) -> dict[str, int]:
    """What differs from a gate that has done nothing."""
    return {name: value for name, value in dataclasses.asdict(stats).items() if value}


async def test_gate_that_has_done_nothing() -> None:
    """All is 0, before it is opened, while it is open, and after it was closed; the value can be kept and shown."""
    gate = make_gate()
    assert gate.stats() == NOTHING
    async with gate:
        assert gate.stats() == NOTHING
    assert gate.stats() == NOTHING
    assert pickle.loads(pickle.dumps(gate.stats())) == NOTHING
    assert "\n" not in str(NOTHING)


async def test_a_turn_is_under_way_once_it_has_begun() -> None:
    """While it is granted and its task has not run yet, neither the gate nor its host counts it as open."""
    async with gate_that_knows(delay=0) as gate:
        first = gate.turn(PAGE)
        async with first:
            waiting = asyncio.create_task(visit(gate))
            await settle()
            first.end()
            assert (gate.stats().open_turns, gate.host(PAGE).open_turns, gate.host(PAGE).waiting) == (0, 0, 0)
        await waiting


async def test_turns_and_bytes_are_counted() -> None:
    """Those of robots.txt too, and what the rules or the wait refuse; the totals are there after the end."""
    robots = asks("Disallow: /private")
    async with make_gate(scripted({SITE: robots})) as gate:
        async with gate.turn(PAGE) as turn:
            turn.report(200, bytes=100)
            waiting = [asyncio.create_task(visit(gate)) for _ in range(3)]
            await settle()
            now = told(gate.stats())
            assert (now["open_turns"], now["waiting"], now["hosts_waiting"], now["visits"]) == (1, 3, 1, 2)
        await asyncio.gather(*waiting)
        await refusal(visit(gate, f"{SITE}/private"), DisallowedError)
        await refusal(visit(gate, max_wait=0), TooSoonError)
        assert told(gate.stats()) == {
            "visits": 5,
            "robots_requests": 1,
            "bytes_read": 100 + len(robots),
            "refused": 1,
            "turned_away": 1,
            "hosts": 1,
            "origins": 1,
            "origins_known": 1,
        }
    assert told(gate.stats())["visits"] == 5


async def test_hosts_are_counted_by_state() -> None:
    """Two origins of a host that is blocked, one host that cannot be reached, one that the operator blocked."""
    async with gate_that_knows(PAGE, SECURE, OTHER, give_up_after=0.0) as gate:
        await gate.allowed("http://c.example/")
        await visit(gate, PAGE, status=429)
        await visit(gate, OTHER, error=REFUSED)
        gate.block("c.example", math.inf)
        await refusal(visit(gate, OTHER), HostUnavailableError)
        now = told(gate.stats())
        assert (now["hosts"], now["origins"], now["origins_known"]) == (3, 4, 4)
        assert (now["hosts_blocked"], now["origins_unreachable"], now["origins_blocked"]) == (1, 1, 1)
        assert now["turned_away"] == 1
        gate.unblock("c.example")
        await asyncio.sleep(100_000)
        assert not {"hosts_blocked", "origins_unreachable", "origins_blocked"} & set(told(gate.stats()))


async def test_totals_never_shrink() -> None:
    """Hosts that memory has no room for are counted on; those of other gates and earlier runs are not."""
    store = MemoryStore()
    seen: list[int] = []
    async with make_gate(store=store, max_hosts=2, delay=0.0) as gate:
        for number in range(50):
            await visit(gate, f"http://h{number}.example/", status=200)
            await asyncio.sleep(10)
            seen.append(gate.stats().visits)
        assert seen == [2 * number for number in range(1, 51)]
        assert gate.stats().hosts < 10
    async with make_gate(store=store) as gate:
        await visit(gate, "http://h1.example/")
        assert gate.stats().visits == 1
        assert gate.host("http://h1.example/").visits == 3
