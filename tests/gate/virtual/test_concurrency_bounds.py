"""How many requests may be under way: over all hosts, at one host, and within a connector that is not ours."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiohttp
import pytest
from tests.paced import OTHER, PAGE, SITE, make_gate, now, scripted, sleep_until, visit, visits
from tests.waiting import settle

from robotgate import HostOverride
from robotgate.sites import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robotgate import RobotGate


class Crowd:
    """Counts open requests: of each host, and of all."""

    def __init__(self) -> None:
        self.under_way: dict[str, int] = {}
        self.most_at: dict[str, int] = {}
        self.most = 0

    async def stay(self, host: str, seconds: float) -> None:
        """Be under way for so long."""
        self.under_way[host] = self.under_way.get(host, 0) + 1
        self.most_at[host] = max(self.most_at.get(host, 0), self.under_way[host])
        self.most = max(self.most, sum(self.under_way.values()))
        await asyncio.sleep(seconds)
        self.under_way[host] -= 1

    async def visit(self, gate: RobotGate, host: str, *, takes: float = 5.0) -> float:
        """A page of a host."""
        async with gate.turn(f"http://{host}.example/"):
            started_at = now()
            await self.stay(host, takes)
        return started_at


class CrowdedFetcher:
    """Every robots.txt is missing, which takes a while."""

    def __init__(self, crowd: Crowd, *, takes: float) -> None:
        self._crowd = crowd
        self._takes = takes

    async def fetch(self, url: str, *, headers: Mapping[str, str], max_bytes: int, timeout: float) -> Answer:
        """Missing."""
        await self._crowd.stay("robots.txt", self._takes)
        return Answer(status=404)


def learn(gate: RobotGate, hosts: str) -> None:
    """None of these has rules."""
    for host in hosts:
        gate.learn(f"http://{host}.example/", b"")


async def test_who_waits_for_a_host_holds_no_place() -> None:
    """One permit for all; a host that is not due for long does not hold it."""
    async with make_gate(delay=100.0, max_delay=100.0, concurrency=1) as gate:
        learn(gate, "ab")
        gate.override("b.example", HostOverride(delay=1.0))
        slow = [asyncio.create_task(visit(gate)) for _ in range(3)]
        assert await visits(gate, 4, OTHER) == [0.0, 1.0, 2.0, 3.0]
        assert await asyncio.gather(*slow) == [0.0, 100.0, 200.0]


async def test_who_waits_out_a_block_holds_no_place() -> None:
    """Nor does a turn that waits for a blocked host."""
    async with make_gate(concurrency=1) as gate:
        learn(gate, "ab")
        gate.block("a.example", 300.0)
        slow = [asyncio.create_task(visit(gate)) for _ in range(3)]
        await settle()
        assert await visits(gate, 3, OTHER) == [0.0, 1.0, 2.0]
        assert await asyncio.gather(*slow) == [300.0, 301.0, 302.0]


@pytest.mark.parametrize("slots", [1, 2, 3])
async def test_slots_of_a_host_when_places_are_scarce(slots: int) -> None:
    """Those whose host is due and who wait for a place count: no host gets more slots by that."""
    crowd = Crowd()
    async with make_gate(delay=0.0, concurrency=3, concurrency_per_host=slots) as gate:
        learn(gate, "abcd")
        others = [asyncio.create_task(crowd.visit(gate, host, takes=10.0)) for host in "bcd"]
        await settle()
        tasks = [asyncio.create_task(crowd.visit(gate, "a")) for _ in range(7)]
        await asyncio.gather(*others, *tasks)
    assert crowd.most_at["a"] == slots
    assert crowd.most == 3


@pytest.mark.parametrize("slots", [1, 2, 3, 5])
async def test_slots_that_are_freed_together(slots: int) -> None:
    """Without a delay, all that end at one instant let as many in, and no more."""
    crowd = Crowd()
    async with make_gate(delay=0.0, concurrency_per_host=slots) as gate:
        learn(gate, "a")
        starts = await asyncio.gather(*(crowd.visit(gate, "a", takes=2.0) for _ in range(4 * slots)))
    assert starts == [2.0 * (number // slots) for number in range(4 * slots)]
    assert crowd.most == slots


async def test_places_go_by_arrival() -> None:
    """Hosts that are due get them in the order in which they were."""
    async with make_gate(concurrency=1) as gate:
        learn(gate, "abcd")
        given = await asyncio.gather(*(visit(gate, f"http://{host}.example/", takes=5.0) for host in "dbca"))
        assert given == [0.0, 5.0, 10.0, 15.0]


@pytest.mark.parametrize("limit", [1, 2, 5])
async def test_limit_of_a_connector_bounds_pages_and_robots_txt_together(limit: int) -> None:
    """None of them would get a connection anyway, and would wait for it after its turn."""
    crowd = Crowd()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=limit)) as session:
        gate = make_gate(CrowdedFetcher(crowd, takes=2.0), session=session)
        async with gate:
            learn(gate, "abcdefgh")
            await asyncio.gather(*(crowd.visit(gate, host) for host in "abcdefghijklmnop"))
    assert crowd.most == limit


async def test_limit_of_a_connector_over_our_own() -> None:
    """Pages as `concurrency` says; robots.txt gets what is left of the connector."""
    crowd = Crowd()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=10)) as session:
        gate = make_gate(CrowdedFetcher(crowd, takes=2.0), session=session, concurrency=7)
        async with gate:
            learn(gate, "abcdefgh")
            tasks = [crowd.visit(gate, host) for host in "abcdefgh"]
            tasks += [crowd.visit(gate, f"h{number}") for number in range(20)]
            await asyncio.gather(*tasks)
    assert crowd.most == 10
    assert crowd.most_at["robots.txt"] == 3


async def test_limit_per_host_of_a_connector_bounds_the_slots() -> None:
    """Whatever the gate's options and overrides grant."""
    crowd = Crowd()
    connector = aiohttp.TCPConnector(limit_per_host=2)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        make_gate(session=session, delay=0.0, concurrency_per_host=5) as gate,
    ):
        learn(gate, "a")
        gate.override("a.example", HostOverride(concurrency_per_host=4))
        await asyncio.gather(*(crowd.visit(gate, "a") for _ in range(6)))
    assert crowd.most == 2


async def test_override_lowers_the_slots_while_turns_are_open() -> None:
    """No request is broken off; the next starts when few enough are open, and the delay counts from the end again."""
    async with make_gate(delay=1.0, concurrency_per_host=3) as gate:
        learn(gate, "a")
        tasks = [asyncio.create_task(visit(gate, takes=10.0)) for _ in range(6)]
        await sleep_until(5.0)
        assert gate.host(PAGE).open_turns == 3
        gate.override("a.example", HostOverride(concurrency_per_host=1))
        assert gate.host(PAGE).open_turns == 3
        assert await asyncio.gather(*tasks) == [0.0, 1.0, 2.0, 13.0, 24.0, 35.0]


async def test_override_raises_the_slots_at_once() -> None:
    """Those who wait for one and are due go then and there."""
    async with make_gate(delay=0.0) as gate:
        learn(gate, "a")
        tasks = [asyncio.create_task(visit(gate, takes=10.0)) for _ in range(5)]
        await sleep_until(5.0)
        gate.override("*", HostOverride(concurrency_per_host=3))
        assert await asyncio.gather(*tasks) == [0.0, 5.0, 5.0, 10.0, 15.0]


async def test_robots_concurrency() -> None:
    """Bounds robots.txt alone: pages of known hosts are not held up."""
    fetcher = scripted(latency=5.0)
    async with make_gate(fetcher, robots_concurrency=2) as gate:
        learn(gate, "a")
        tasks = [asyncio.create_task(visit(gate, f"http://h{number}.example/")) for number in range(5)]
        await settle()
        assert await visits(gate, 2) == [0.0, 1.0]
        assert await asyncio.gather(*tasks) == [6.0, 6.0, 11.0, 11.0, 16.0]
    assert [at for at, _ in fetcher.requests] == [0.0, 0.0, 5.0, 5.0, 10.0]


async def test_cancelled_while_waiting_for_a_place() -> None:
    """The host's next goes on in his stead."""
    async with make_gate(delay=0.0, concurrency=1) as gate:
        learn(gate, "ab")
        holding = asyncio.create_task(visit(gate, OTHER, takes=10.0))
        await settle()
        first, second = (asyncio.create_task(visit(gate, SITE + "/")) for _ in range(2))
        await asyncio.sleep(5.0)
        first.cancel()
        assert await second == 10.0
        assert await holding == 0.0
        view = gate.host(PAGE)
        assert (view.open_turns, view.waiting, view.visits) == (0, 0, 1)
