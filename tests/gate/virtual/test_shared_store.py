"""Gates that share a store: one paces a host at a time, and hands it on when another one wants it."""

from __future__ import annotations

import asyncio
import random
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from tests.failing import LosableStore
from tests.paced import (
    HOUR,
    OTHER,
    PAGE,
    SECURE,
    SITE,
    Seen,
    asks,
    everywhere,
    make_gate,
    now,
    refusal,
    scripted,
    seeds,
    sleep_until,
    visit,
    visits,
)
from tests.waiting import settle

from robotgate import HostUnavailableError, MemoryStore, NestedTurnError, TooSoonError

if TYPE_CHECKING:
    from robotgate import RobotGate

THIRD = "http://c.example/page"


async def test_gates_take_turns_at_a_host() -> None:
    """One robots.txt serves all, no two starts are closer than the delay, and no gate waits for another's queue."""
    store, fetcher = MemoryStore(), scripted(latency=0.5)
    async with (
        make_gate(fetcher, store=store) as one,
        make_gate(fetcher, store=store) as two,
        make_gate(fetcher, store=store) as three,
    ):
        served = await asyncio.gather(*(visits(gate, 4) for gate in (one, two, three)))
    assert len(fetcher.requests) == 1
    assert sorted(at for starts in served for at in starts) == [1.5 + n for n in range(12)]
    # Each had one of every three turns.
    for starts in served:
        assert [int((at - 1.5) // 3) for at in sorted(starts)] == [0, 1, 2, 3]


async def test_gate_that_is_alone_keeps_its_hosts() -> None:
    """A gate without competitors asks for a host, and for the right to request its robots.txt, once."""
    store = LosableStore()
    async with make_gate(store=store) as one, make_gate(store=store) as two:
        await asyncio.gather(visits(one, 20), visits(two, 20, OTHER))
        await asyncio.sleep(HOUR)
        await visit(one)
    assert store.calls["obtain"] == 4
    assert store.calls["load_host"] <= 2


async def test_host_is_handed_on_after_the_turn_under_way() -> None:
    """The gate that asks waits for the end of that turn and the delay; what else waits here comes after it."""
    store = MemoryStore()
    async with make_gate(store=store) as one, make_gate(store=store) as two:
        holding = asyncio.create_task(visit(one, takes=20.0))
        waiting = asyncio.create_task(visit(one))
        await asyncio.sleep(5.0)
        other = asyncio.create_task(visit(two))
        assert (await holding, await other, await waiting) == (1.0, 22.0, 23.0)


async def test_gate_that_may_not_use_a_host_hands_it_on() -> None:
    """All its requests are under way elsewhere, or its quota is used up: others do not wait for that."""
    store = MemoryStore()
    async with (
        make_gate(store=store, concurrency=1) as busy,
        make_gate(store=store, rate=(2, 3600)) as used_up,
        make_gate(store=store) as free,
    ):
        for gate in (busy, used_up, free):
            gate.learn(SITE, b"")
            gate.learn(OTHER, b"")
        holding = asyncio.create_task(visit(busy, OTHER, takes=HOUR / 2))
        await settle()
        waiting = [asyncio.create_task(visit(busy)), *(asyncio.create_task(visit(used_up)) for _ in range(3))]
        await asyncio.sleep(10.0)
        assert await visit(free) == 10.0
        await asyncio.sleep(10.0)
        assert await visit(free) == 20.0
        await holding
        # No place is lost for it: a turn comes as soon as the gate itself allows it.
        assert await asyncio.gather(*waiting) == [HOUR / 2, 0.0, 1.0, HOUR]


async def test_patience_ends_while_another_gate_has_the_host() -> None:
    """A turn is refused when its time is up, and at once where the host is known to be due later."""
    store = MemoryStore()
    async with make_gate(store=store) as one, make_gate(store=store) as two:
        for gate in (one, two):
            gate.learn(SITE, b"")
        holding = asyncio.create_task(visit(one, takes=20.0))
        await settle()
        _, at = await refusal(visit(two, max_wait=5.0), TooSoonError)
        assert at == 5.0
        await holding
        assert await visit(two, max_wait=1.0) == 21.0
        error, at = await refusal(visit(one, max_wait=0.5), TooSoonError)
        assert (at, error.retry_after) == (21.0, 1.0)


async def test_block_of_one_gate_holds_at_all() -> None:
    """A 429 that one of them got keeps the others away, and each can say for how long."""
    store = MemoryStore()
    async with make_gate(store=store, max_block=10.0) as one, make_gate(store=store) as two:
        async with one.turn(PAGE) as turn:
            waiting = [asyncio.create_task(visit(gate)) for gate in (one, two)]
            await settle()
            turn.report(status=429, headers={"Retry-After": "100"})
            blocked_until_at = now() + 100.0
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [HostUnavailableError, float]
        assert outcomes[1] == blocked_until_at
        assert two.wait_time(PAGE) == 1.0


async def test_several_turns_at_a_host_are_handed_on_together() -> None:
    """Starts are a delay apart wherever they come from, and as many are under way as one gate may have, never more."""
    store, under_way, most = MemoryStore(), 0, 0
    starts: list[float] = []

    async def come(gate: RobotGate) -> None:
        nonlocal under_way, most
        async with gate.turn(PAGE):
            starts.append(now())
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(3.5)
            under_way -= 1

    async with (
        make_gate(store=store, concurrency_per_host=2) as one,
        make_gate(store=store, concurrency_per_host=2) as two,
        asyncio.timeout(200.0),
    ):
        await asyncio.gather(*(come(gate) for _ in range(8) for gate in (one, two)))
    assert most == 2
    assert all(later - sooner >= 1.0 - 1e-6 for sooner, later in pairwise(sorted(starts)))
    # One that hands the host on with each turn would take 56 seconds.
    assert max(starts) <= 40.0


async def test_closing_hands_everything_on() -> None:
    """What the gate held and what it waited for: the next one waits for the delay alone."""
    store = MemoryStore()
    async with make_gate(store=store) as two:
        two.learn(SITE, b"")
        async with make_gate(store=store, delay=5.0) as one:
            one.learn(SITE, b"")
            await visit(one, takes=1.0)
            waiting = asyncio.create_task(visit(one))
            last = asyncio.create_task(visit(two))
            await asyncio.sleep(1.0)
        assert (await last) == 6.0
        assert isinstance((await asyncio.gather(waiting, return_exceptions=True))[0], Exception)


async def test_host_that_is_evicted_is_handed_on() -> None:
    """A gate with room for one host keeps no other from its neighbours, nor forgets a wait."""
    store = MemoryStore()
    async with make_gate(store=store, max_hosts=1) as one, make_gate(store=store) as two:
        for url in (PAGE, OTHER, THIRD) * 3:
            await visit(one, url)
        at = now()
        assert await visits(two, 2, PAGE) == [at, at + 1.0]
        assert await visit(two, THIRD) == at + 1.0


async def test_robots_txt_is_requested_by_the_next_when_a_gate_closes() -> None:
    """The one that was about to do so has gone."""
    store, fetcher = MemoryStore(), everywhere(b"", latency=5.0)
    async with make_gate(fetcher, store=store) as two:
        async with make_gate(fetcher, store=store) as one:
            asking = [asyncio.create_task(gate.allowed(PAGE)) for gate in (one, two)]
            await asyncio.sleep(1.0)
        assert await asking[1]
        assert isinstance((await asyncio.gather(asking[0], return_exceptions=True))[0], Exception)
    assert len(fetcher.requests) == 2


async def test_task_that_would_wait_for_itself_by_way_of_another_gate() -> None:
    """It holds the host's turn, for which the other gate waits in order to request the robots.txt that it asks for."""
    store = MemoryStore()
    async with make_gate(store=store) as one, make_gate(store=store) as two, asyncio.timeout(60.0):
        one.learn(SITE, b"")
        async with one.turn(PAGE):
            asking = asyncio.create_task(two.allowed(SECURE))
            await asyncio.sleep(2.0)
            with pytest.raises(NestedTurnError):
                await one.allowed(SECURE)
        assert await asking
        assert await one.allowed(SECURE)


async def test_wait_time_knows_what_the_last_gate_did() -> None:
    """Once the rules were asked for, whatever the store knows of the host is known as well."""
    store = MemoryStore()
    fetcher = scripted({SITE: asks("Crawl-delay: 30")})
    async with make_gate(fetcher, store=store) as gate:
        assert await visit(gate, takes=1.0) == 30.0
    async with make_gate(fetcher, store=store) as gate:
        assert await gate.allowed(PAGE)
        assert gate.wait_time(PAGE) == 30.0
        assert await visit(gate) == 61.0
    assert len(fetcher.requests) == 1


@pytest.mark.parametrize("seed", seeds(4, 30))
async def test_no_gap_is_short_whoever_comes(seed: int) -> None:
    """Gates with options of their own come and go, and so do their visitors: the delay is kept, and all are served."""
    chance = random.Random(seed)
    store = MemoryStore()
    urls = [PAGE, OTHER, THIRD]
    seen = Seen(chance)

    async def crawl(begins_at: float) -> None:
        await sleep_until(begins_at)
        async with make_gate(
            scripted(latency=chance.choice([0.0, 0.4])),
            store=store,
            concurrency=chance.choice([1, 2, 256]),
            max_hosts=chance.choice([1, 100]),
            rate=chance.choice([None, None, (5, 20)]),
        ) as gate:
            coming = []
            for _ in range(chance.randint(5, 30)):
                await asyncio.sleep(chance.choice([0.0, 0.0, 0.4, 3.0]))
                task = asyncio.create_task(seen.visit(gate, chance.choice(urls)))
                coming.append(task)
                if chance.random() < 0.2:
                    await asyncio.sleep(chance.choice([0.0, 0.5]))
                    task.cancel()
            await asyncio.gather(*coming, return_exceptions=True)
            assert all(task.cancelled() or task.exception() is None for task in coming)

    async with asyncio.timeout(2000.0):
        await asyncio.gather(*(crawl(chance.choice([0.0, 0.0, 5.0, 30.0])) for _ in range(4)))
    assert set(seen.visits) == set(urls)
    assert seen.short_gaps({}) == []
