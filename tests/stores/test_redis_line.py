"""Who comes next at a host that many workers want: in turn, without idle moments, and in few questions."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest
from tests.stores.redis_workers import HOST, Worker

from robotgate import SystemClock

if TYPE_CHECKING:
    from tests.redis_server import RedisServer
    from tests.stores.redis_workers import Fleet

    from robotgate.stores.redis import RedisStore

GRACE: Final = 0.25
"""As the script has it."""
GRAIN: Final = 1e-5


@pytest.fixture
def server(every_server: RedisServer) -> RedisServer:
    """One for all tests of this file."""
    return every_server


def check_gaps(visits: list[tuple[float, float]], delay: float) -> None:
    """No visit begins before the one before has ended, and the delay has passed."""
    visits.sort()
    gaps = [after[0] - before[1] for before, after in itertools.pairwise(visits)]
    assert min(gaps) >= delay - GRAIN


@pytest.mark.parametrize("seconds", [0.0, 0.05])
async def test_in_turn_and_in_few_questions(fleet: Fleet, seconds: float) -> None:
    """Workers that all want the same host have the same number of turns, lose little time, and need some three
    questions each; or six, where a request takes as long as the delay.
    """
    delay, rounds = 0.05, 6
    workers = [await fleet.join() for _ in range(8)]
    visits: list[tuple[float, float]] = []
    order: list[int] = []

    async def crawl(number: int, worker: Worker) -> None:
        for _ in range(rounds):
            visits.append(await worker.visit(delay=delay, seconds=seconds))
            order.append(number)

    clock = SystemClock()
    began_at = clock.now()
    await asyncio.gather(*(crawl(number, worker) for number, worker in enumerate(workers)))
    took = clock.now() - began_at
    check_gaps(visits, delay)
    turns = len(visits)
    assert sum(worker.asks for worker in workers) / turns <= (4 if not seconds else 7)
    assert took <= turns * (delay + seconds) * 1.35
    # Nobody has had two turns more than anybody else, at any time.
    for end in range(turns - len(workers)):
        counts = Counter(order[:end])
        assert max(counts.values(), default=0) - min(counts[number] for number in range(8)) <= 2


async def test_place_that_is_withdrawn(fleet: Fleet) -> None:
    """Who does not want to wait any more makes place at once."""
    one, two = await fleet.join(), await fleet.join()
    delay = 0.3
    await one.get(delay=delay)
    one.give_back()
    await one.heard()
    # Out of the line before his instant has come.
    one.store.remember_host(HOST, one._known(HOST))
    await two.get(delay=0.0)
    two.begin(delay=delay)
    two.end(delay=delay)
    await two.heard()
    assert await one.ask(delay=delay) is not None
    answer = await two.ask(delay=delay)
    assert answer is not None
    assert answer.again_at - two.clock.now() > delay
    one.store.withdraw(HOST)
    await one.heard()
    answer = await two.ask(delay=delay)
    assert answer is not None
    assert answer.again_at - two.clock.now() <= delay


async def test_place_of_the_dead(fleet: Fleet) -> None:
    """Who waits for a place and never comes costs the others a moment, once."""
    delay = 0.1
    one, two, dead = [await fleet.join() for _ in range(3)]
    await one.visit(delay=delay)
    await one.heard()
    assert await dead.ask(delay=delay) is not None
    began_at = two.clock.now()
    await two.visit(delay=delay)
    assert two.clock.now() - began_at <= 2 * delay + GRACE
    began_at = two.clock.now()
    for _ in range(3):
        await two.visit(delay=delay)
    assert two.clock.now() - began_at <= 3 * delay + 0.1


async def test_late_waker_queues_again(fleet: Fleet) -> None:
    """Who oversleeps has lost his place, and does not stand in anybody's way."""
    delay = 0.05
    one, two = await fleet.join(), await fleet.join()
    await one.visit(delay=delay)
    await one.heard()
    late = await one.ask(delay=delay)
    assert late is not None
    await asyncio.sleep(delay + 2 * GRACE)
    assert await two.ask(delay=delay) is None
    two.begin(delay=delay)
    assert await one.ask(delay=delay) is not None
    two.end(delay=delay)
    await one.get(delay=delay)


async def test_far_worker_is_not_starved(fleet: Fleet) -> None:
    """Who is always later than the delay is long, for the way to the server takes that, has his turn all the same."""
    delay, late = 0.02, 0.06
    far, *near = [await fleet.join() for _ in range(3)]

    async def hurry(worker: Worker) -> None:
        while True:
            await worker.visit(delay=delay)

    hurrying = [asyncio.create_task(hurry(worker)) for worker in near]
    try:
        async with asyncio.timeout(10):
            for _ in range(3):
                while (answer := await far.ask(delay=delay)) is not None:  # noqa: ASYNC110  # As it was told.
                    await asyncio.sleep(max(answer.again_at - far.clock.now(), 0.0) + late)
                far.begin(delay=delay)
                far.end(delay=delay)
    finally:
        for task in hurrying:
            task.cancel()
        await asyncio.wait(hurrying)


async def test_longer_delay_is_not_starved(fleet: Fleet) -> None:
    """A worker that keeps a longer delay than the others, as it knows more of the site, has its turn all the same."""
    patient, hasty = await fleet.join(), await fleet.join()
    turns = 0

    async def hurry() -> None:
        nonlocal turns
        while True:
            await hasty.visit(delay=0.05)
            turns += 1

    hurrying = asyncio.create_task(hurry())
    try:
        for _ in range(3):
            await patient.visit(delay=0.3)
    finally:
        hurrying.cancel()
        await asyncio.wait({hurrying})
    assert turns >= 2


@pytest.mark.parametrize("seed", range(3))
async def test_law(fleet: Fleet, seed: int) -> None:
    """Whatever workers do at random, two hosts see no more at a time than they grant, and no gap under the delay; and
    in the end nothing is left behind.
    """
    rng = random.Random(seed)
    hosts = {"one.example": (1, 0.03), "three.example": (3, 0.02)}
    workers = [await fleet.join() for _ in range(5)]
    starts: dict[str, list[float]] = {host: [] for host in hosts}
    ends: dict[str, list[float]] = {host: [] for host in hosts}
    open_now: Counter[str] = Counter()

    async def act(worker: Worker, host: str) -> None:
        slots, delay = hosts[host]
        asking = asyncio.create_task(worker.get(host, slots=slots, delay=delay))
        if rng.random() < 0.2:
            await asyncio.wait({asking}, timeout=rng.random() * 0.02)
            asking.cancel()
        try:
            await asking
        except asyncio.CancelledError:
            worker.store.withdraw(host)
            return
        if rng.random() < 0.2:
            worker.give_back(host)
            return
        open_now[host] += 1
        assert open_now[host] <= slots
        starts[host].append(worker.begin(host, delay=delay))
        await asyncio.sleep(rng.choice((0.0, 0.01, 0.04)))
        open_now[host] -= 1
        ends[host].append(worker.end(host, slots=slots, delay=delay))

    async def crawl(worker: Worker, host: str) -> None:
        for _ in range(8):
            await act(worker, host)

    await asyncio.gather(*(crawl(worker, host) for worker in workers for host in hosts))
    check_gaps(list(zip(starts["one.example"], ends["one.example"], strict=True)), 0.03)
    begun = sorted(starts["three.example"])
    assert min(after - before for before, after in itertools.pairwise(begun)) >= 0.02 - GRAIN
    for host in hosts:
        assert await open_turns(workers[0].store, host) == 0, "a turn was left behind"
        state = await (await fleet.join()).store.load_host(host)
        assert state is not None
        assert state.visits == len(starts[host])


async def open_turns(store: RedisStore, host: str) -> int:
    """How many the server has of a host."""
    await store._turns.calls.look(0)
    octets = await store._client.get(store._turns.calls._keys.host(host))
    assert isinstance(octets, bytes)
    # Its layout and whether its state is known stand before.
    return int.from_bytes(octets[2:4], "little")
