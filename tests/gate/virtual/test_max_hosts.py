"""More hosts than may be kept in memory: the oldest go, nothing is asked for twice, and no wait is shortened."""

from __future__ import annotations

import asyncio
import gc
import random
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pytest
from tests.failing import FailingStore
from tests.pace_law import PaceLaw, Visitor
from tests.paced import (
    DAY,
    HOUR,
    MINUTE,
    PAGE,
    asks,
    everywhere,
    fail,
    make_gate,
    now,
    refusal,
    retry_at,
    scripted,
    seeds,
    sleep_until,
    visit,
)
from tests.waiting import settle

from robotgate import DisallowedError, MemoryStore, PaceKey
from robotgate.pace.host import Host
from robotgate.sites import Answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from robotgate import RobotGate
    from robotgate.testing import ScriptedFetcher

PRIVATE: Final = b"User-agent: *\nDisallow: /private\n"
NOBODY: Final = "http://other{}.example/page"


def sizes(gate: RobotGate) -> dict[str, int]:
    """How much of each kind is kept in memory."""
    scheduler = gate._scheduler
    hosts = scheduler.hosts.values()
    return {
        "sites": len(gate._cache.sites),
        "hosts": len(hosts),
        "origins": sum(len(host.origins) for host in hosts),
        "unsaved": len(scheduler.work.changed),
        "unowned": len(scheduler.work.unowned),
    }


async def crowd_out(gate: RobotGate, count: int = 20) -> None:
    """So many other hosts are added, twice: all second chances of entries are used up."""
    for time in range(2):
        for number in range(count):
            gate.learn(f"http://crowd{time}-{number}.example/", PRIVATE)
    await settle()


def robots_requests(fetcher: ScriptedFetcher) -> Counter[str]:
    """How often each robots.txt was asked for."""
    return Counter(url for _, url in fetcher.requests)


async def test_host_that_comes_again_is_known_from_the_store() -> None:
    """Its rules were evicted; they are loaded, not requested again."""
    fetcher = everywhere(PRIVATE)
    async with make_gate(fetcher, store=MemoryStore(), max_hosts=5) as gate:
        await visit(gate)
        await sleep_until(MINUTE)
        await crowd_out(gate)
        assert gate.allowed_nowait(PAGE) is None
        assert sizes(gate)["sites"] == 5
        assert await gate.allowed("http://a.example/private") is False
        await visit(gate)
        assert gate.host(PAGE).visits == 3
    assert robots_requests(fetcher) == {"http://a.example/robots.txt": 1}


async def test_open_circuit_is_kept() -> None:
    """An unreachable origin is not tried sooner because other hosts were added."""
    async with make_gate(max_hosts=2) as gate:
        await visit(gate)
        for _ in range(5):
            await fail(gate)
        at = await retry_at(gate)
        for number in range(5):
            await visit(gate, NOBODY.format(number))
        await crowd_out(gate)
        assert await retry_at(gate) == at
        await sleep_until(at + 1)
        for number in range(20):
            await visit(gate, NOBODY.format(number))
        await crowd_out(gate)
        assert sizes(gate)["origins"] <= 2


async def test_quota_is_kept() -> None:
    """Three an hour stay three an hour, whatever hosts are visited in between; then the host may go."""
    async with make_gate(store=MemoryStore(), max_hosts=2, rate=(3, HOUR)) as gate:
        starts = [await visit(gate) for _ in range(2)]
        for number in range(3):
            await visit(gate, NOBODY.format(number))
            await crowd_out(gate)
        starts.append(await visit(gate))
        # The first of the three was for robots.txt.
        assert starts[-1] == HOUR
        await sleep_until(3 * HOUR)
        await crowd_out(gate)
        assert gate.allowed_nowait(PAGE) is None


async def test_flight_is_kept() -> None:
    """An open request for robots.txt is not repeated because of other hosts; every waiting task gets its answer."""
    fetcher = everywhere(PRIVATE, latency=5.0)
    async with make_gate(fetcher, max_hosts=1) as gate:
        asking = [asyncio.create_task(gate.allowed(PAGE)) for _ in range(5)]
        await asyncio.sleep(2.5)
        await crowd_out(gate)
        asking += [asyncio.create_task(gate.allowed(PAGE)) for _ in range(5)]
        assert await asyncio.gather(*asking) == [True] * 10
    assert robots_requests(fetcher) == {"http://a.example/robots.txt": 1}


async def test_site_whose_rules_are_asked_for_again_is_kept() -> None:
    """What is known of it serves until better is known, though the store takes its time."""
    store = FailingStore()
    async with make_gate(everywhere(PRIVATE), store=store, max_hosts=1) as gate:
        gate.learn(PAGE, PRIVATE, fresh_until=10.0)
        await sleep_until(20.0)
        store.hangs = {"load_record"}
        asking = asyncio.create_task(gate.allowed(PAGE))
        await settle()
        await crowd_out(gate)
        assert gate.host(PAGE).checked_at == 0.0
        store.recover()
        assert await asking is True


async def test_crawl_delay_binds_what_another_gate_has_visited() -> None:
    """A gate that never visited the host itself keeps what it asks, until that is served."""
    fetcher, store = scripted({"http://a.example": asks("Crawl-delay: 30")}), MemoryStore()
    async with (
        make_gate(fetcher, store=store, obey_crawl_delay=False) as one,
        make_gate(fetcher, store=store, max_hosts=2) as other,
    ):
        assert await visit(one) == 1.0
        await asyncio.sleep(1.0)
        assert await other.allowed(PAGE)
        await crowd_out(other)
        assert other.wait_time("https://a.example/page") == 29.0
        await sleep_until(31.0)
        await crowd_out(other)
        assert sizes(other)["hosts"] <= 3


async def test_host_in_use_has_a_second_chance() -> None:
    """One that is visited now and then stays, while those that came later and are not, go."""
    async with make_gate(max_hosts=10) as gate:
        await visit(gate)
        for number in range(100):
            gate.learn(f"http://crowd{number}.example/", PRIVATE)
            if number % 5 == 0:
                await asyncio.sleep(1.0)
                await visit(gate)
            assert gate.allowed_nowait(PAGE) is True
        assert sizes(gate)["sites"] == 10
        assert gate.allowed_nowait("http://crowd80.example/") is None


async def test_refusals_are_counted_within_the_bound() -> None:
    """How many turns a site refused is told while it is known, and forgotten with the oldest."""
    async with make_gate(everywhere(PRIVATE), max_hosts=5, delay=0.0) as gate:
        for number in range(50):
            url = f"http://{number}.example/private"
            for _ in range(2):
                await refusal(visit(gate, url), DisallowedError)
            assert gate.host(url).refused == 2
        assert sizes(gate)["sites"] <= 10


async def test_domain_that_is_never_idle_keeps_its_longest_delay() -> None:
    """A trap with a host for each page, of which one asks for more than all others: that binds them for as long as they
    come. Rules, and the origins that are paced together, go as they come, and no robots.txt is asked for twice.
    """
    slow = {"http://slow.example": asks("Crawl-delay: 7")}
    fetcher = scripted(slow, otherwise=Answer(status=200, body=b"User-agent: *\nCrawl-delay: 2\n"))
    async with make_gate(fetcher, max_hosts=20, pace_key=lambda _: "trap") as gate:
        await visit(gate, "http://slow.example/page")
        starts = []
        for number in range(100):
            starts.append(await visit(gate, f"http://{number}.example/page"))
            found = sizes(gate)
            assert found["sites"] <= 20, found
            assert found["origins"] <= 80, found
        assert all(later - sooner >= 7.0 for sooner, later in pairwise(starts))
    assert set(robots_requests(fetcher).values()) == {1}


async def test_too_many_go_by_themselves(pending_timers: Callable[[], int]) -> None:
    """What could not be evicted is evicted later, although no further host is added. Hosts that come again are known
    from the store; closing leaves no timer.
    """
    fetcher = everywhere(b"User-agent: *\nCrawl-delay: 20\n")
    urls = [f"http://{number}.example/page" for number in range(200)]
    async with make_gate(fetcher, store=MemoryStore(), max_hosts=10) as gate:
        for come_at in (20.0, 45.0):
            assert set(await asyncio.gather(*(visit(gate, url) for url in urls))) == {come_at}
            assert sizes(gate)["sites"] == len(urls)
            await asyncio.sleep(25.0)
            assert max(sizes(gate).values()) <= 10
        assert pending_timers() > 0
    assert pending_timers() == 0
    assert set(robots_requests(fetcher).values()) == {1}


@pytest.mark.parametrize("seed", seeds(4, 40))
async def test_law_of_the_pace_holds_whoever_is_let_go_of(seed: int) -> None:
    """Hosts that come, go, block, and are blocked, through a gate that remembers one, two or three of them.

    Outages are left out: of one that is over nothing is kept, and the next one counts as the first.
    """
    chance = random.Random(seed)
    hosts = [f"{letter}.example" for letter in "abcdefgh"]
    slots, delay = chance.choice([1, 1, 2]), chance.choice([0.0, 0.5, 1.0, 3.3])
    fetcher, store = scripted(), MemoryStore(max_hosts=chance.choice([8, 100]))
    laws = {host: PaceLaw(floor=delay, slots=slots, max_block=300.0) for host in hosts}
    async with make_gate(
        fetcher,
        store=store,
        max_hosts=chance.choice([1, 2, 3]),
        delay=delay,
        concurrency_per_host=slots,
        pace_key=chance.choice([PaceKey.HOST, PaceKey.ORIGIN]),
    ) as gate:
        for host in hosts:
            crawl_delay = chance.choice([0.0, 0.0, 0.7, 5.5, 20.0])
            body = asks(f"Crawl-delay: {crawl_delay}") if crawl_delay else ""
            gate.learn(f"http://{host}/", body.encode(), fresh_until=30 * DAY)
            laws[host].asks(now(), f"http://{host}", crawl_delay)
        await settle()
        tasks: list[asyncio.Task[None]] = []
        for who in range(150):
            await asyncio.sleep(chance.choice([0.00007, 0.00007, 0.3001, 4.0003, 40.0007, 700.0003]))
            host = chance.choice(hosts)
            status, retry_after = chance.choice([(200, None)] * 6 + [(503, "20"), (429, "3"), (None, None)])
            visitor = Visitor(
                who=who,
                url=f"http://{host}/page",
                max_wait=chance.choice([None, None, None, 0.0, 7.0173]),
                takes=chance.choice([0.0, 0.25, 2.5]),
                status=status,
                retry_after=retry_after,
            )
            tasks.append(asyncio.create_task(visitor.visit(gate, laws[host])))
            if chance.random() < 0.1:
                blocked = chance.choice(hosts)
                until_at = now() + chance.choice([7.3, 299.0, 400.0])
                gate.block(blocked, until_at)
                laws[blocked].is_left_alone(now(), until_at)
            if chance.random() < 0.05:
                lifted = chance.choice(hosts)
                gate.unblock(lifted)
                laws[lifted].is_left_alone(now(), 0.0)
        await asyncio.gather(*tasks)
        for host, law in laws.items():
            await gate.allowed(f"http://{host}/page")
            assert law.visits == gate.host(f"http://{host}/page").visits
    for law in laws.values():
        law.pass_to(now())
        assert law.violations == []
    assert fetcher.requests == []


async def test_memory_is_bounded_as_a_whole() -> None:
    """Without a store nothing is kept beside the gate: a robots.txt that was evicted is requested again."""
    fetcher = everywhere(PRIVATE)
    async with make_gate(fetcher, max_hosts=5) as gate:
        await gate.allowed(PAGE)
        await sleep_until(MINUTE)
        await crowd_out(gate)
        await gate.allowed(PAGE)
    assert len(robots_requests(fetcher)) == 1
    assert robots_requests(fetcher).total() == 2


async def test_site_is_kept_while_its_host_is_loaded() -> None:
    """Turns that wait for what the store knows of the host are held to the rules that let them pass."""
    store = FailingStore()
    async with make_gate(scripted(), store=store, max_hosts=1) as gate:
        gate.learn(PAGE, b"User-agent: *\nCrawl-delay: 3\n")
        store.hangs = {"load_host"}
        coming = [asyncio.create_task(visit(gate)) for _ in range(3)]
        await settle()
        await crowd_out(gate)
        assert gate.allowed_nowait(PAGE) is True
        store.recover()
        assert await asyncio.gather(*coming) == [0.0, 3.0, 6.0]


async def test_host_is_kept_while_its_state_is_saved() -> None:
    """The store does not know it yet, and may fail."""
    store = FailingStore()
    async with make_gate(store=store, max_hosts=2) as gate:
        await visit(gate)
        await sleep_until(MINUTE)
        store.hangs = {"save_hosts"}
        await visit(gate)
        await sleep_until(2 * MINUTE)
        await crowd_out(gate)
        assert gate.host(PAGE).visits == 3
        store.recover()


@pytest.mark.usefixtures("few_objects")
async def test_hosts_that_were_evicted_are_gone() -> None:
    """Not merely out of reach: no timer holds them."""
    async with make_gate(everywhere(PRIVATE), delay=0.0, max_hosts=5) as gate:
        for number in range(100):
            await visit(gate, f"http://soon-gone{number}.example/page")
        gc.collect()
        hosts = [thing for thing in gc.get_objects() if type(thing) is Host]
        assert sum(host.key.startswith("soon-gone") for host in hosts) <= 10


async def test_late_body_says_nothing_of_a_forgotten_host() -> None:
    """The host was evicted after the turn whose body is handed over: it is known anew, without a block."""
    kind = {"Content-Type": "application/problem+json"}
    body = b'{"type": "https://iana.org/assignments/http-problem-types#quota-exceeded"}'
    async with make_gate(delay=0, max_hosts=4) as gate:
        async with gate.turn(PAGE) as turn:
            turn.report(403, kind)
        await crowd_out(gate)
        assert "a.example" not in {view.host for view in gate.hosts()}
        turn.report(403, kind, body=body)
        assert gate.stats().hosts_blocked == 0
        assert await visit(gate) == now()
        assert gate.host(PAGE).failures == 0
