"""`try_turn`: tasks of a pool of workers, which are told when their own turn comes and do not wait for it."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack, suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pytest
from benchmarks.promises_model import ENGINES
from tests.paced import (
    OTHER,
    PAGE,
    SITE,
    Seen,
    asks,
    everywhere,
    fail,
    gate_that_knows,
    make_gate,
    now,
    scripted,
    sleep_until,
    visit,
)
from tests.waiting import settle

from robotgate import (
    Budget,
    BudgetExceededError,
    DisallowedError,
    Group,
    HostUnavailableError,
    MemoryStore,
    OptionError,
    RobotGate,
    TooSoonError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

TAKES: Final = 0.3
DELAY: Final = 1.0
MAX_WAIT: Final = 2.0


async def told(gate: RobotGate, url: str = PAGE, *, max_wait: float = MAX_WAIT) -> float | None:
    """When a task that asks is to come again; None if it has its turn, which ends at once."""
    try:
        async with gate.try_turn(url, max_wait=max_wait):
            return None
    except TooSoonError as error:
        return now() + error.retry_after


class Pool:
    """Workers of several gates, and an engine that brings tasks back.

    Args:
        lost: the share of the tasks that never come back.
    """

    def __init__(self, gates: Sequence[RobotGate], engine: str, *, lost: float = 0.0) -> None:
        self._gates, self._comes_after, self._lost = gates, ENGINES[engine], lost
        self._chance = random.Random(1)
        self.seen = Seen(self._chance)
        self.vain = self.lost = self.most_refused = 0
        self.longest = 0.0
        """Seconds that a worker had to wait at most, whether for a turn or for a refusal."""

    async def run(self, urls: Sequence[str], seconds: float) -> None:
        """Have a task for each URL, which come in so many seconds."""
        await asyncio.gather(*(self._task(url, self._chance.uniform(0, seconds)) for url in urls))

    async def _task(self, url: str, delay: float) -> None:
        refused = 0
        while True:
            await asyncio.sleep(delay)
            asked_at = now()
            try:
                async with self._chance.choice(self._gates).try_turn(url) as turn:
                    self.longest = max(self.longest, now() - asked_at)
                    began_at = now()
                    await asyncio.sleep(TAKES * self._chance.lognormvariate(-0.125, 0.5))
                    self.seen.visits[turn.url.rpartition("/")[0]].append((began_at, now()))
                    turn.report(status=200)
                    return
            except TooSoonError as error:
                delay = self._comes_after(error.retry_after)
            self.longest = max(self.longest, now() - asked_at)
            self.vain += 1
            refused += 1
            self.most_refused = max(self.most_refused, refused)
            if refused == 1 and self._chance.random() < self._lost:
                self.lost += 1
                return

    @property
    def pages(self) -> int:
        """Those that were got."""
        return sum(map(len, self.seen.visits.values()))

    @property
    def bound(self) -> float:
        """Seconds that the busiest host takes; a place that nobody comes for is lost to all."""
        busy = max(sum(end - begin + DELAY for begin, end in visits) for visits in self.seen.visits.values())
        return busy + self.lost * (TAKES + DELAY)


async def pools(
    engine: str,
    urls: Sequence[str],
    gates: int,
    *,
    lost: float = 0.0,
    seconds: float = 0.3,
    latency: float = TAKES,
) -> tuple[Pool, float]:
    """A pool whose gates share a store, when it has done its work, and the seconds that it took.

    Args:
        latency: of each robots.txt.
    """
    random.seed(1)
    async with AsyncExitStack() as stack:
        store, robots = MemoryStore(), everywhere(b"", latency=latency)
        pool = Pool(
            [await stack.enter_async_context(make_gate(robots, store=store)) for _ in range(gates)],
            engine,
            lost=lost,
        )
        began_at = now()
        await pool.run(urls, seconds)
        assert len(robots.requests) == len({url.rpartition("/")[0] for url in urls})
        return pool, now() - began_at


@pytest.mark.parametrize("gates", [1, 4])
@pytest.mark.parametrize("engine", ENGINES)
async def test_tasks_of_one_host_come_back_spread(engine: str, gates: int) -> None:
    """Nearly each has its turn when it comes the second time, the host is kept busy, and no worker waits for long."""
    pool, seconds = await pools(engine, [f"{SITE}/{number}" for number in range(400)], gates)
    assert pool.pages == 400
    assert pool.seen.short_gaps({}) == []
    assert pool.vain <= 1.2 * pool.pages
    assert seconds <= 1.05 * pool.bound + DELAY
    assert pool.most_refused <= 4
    assert pool.longest <= MAX_WAIT + 0.01


@pytest.mark.parametrize("engine", ENGINES)
async def test_tasks_that_are_lost_and_tasks_that_are_new(engine: str) -> None:
    """A lost task leaves a place idle at most; those that come all the time let the others have theirs."""
    urls = [f"{SITE}/{number}" for number in range(500)]
    pool, seconds = await pools(engine, urls, 4, lost=0.05, seconds=400.0)
    assert pool.pages + pool.lost == 500
    assert pool.lost > 5
    assert pool.seen.short_gaps({}) == []
    assert pool.vain <= 1.2 * pool.pages
    assert seconds <= 1.05 * pool.bound + DELAY
    assert pool.most_refused <= 8


@pytest.mark.parametrize("latency", [TAKES, 2 * TAKES])
@pytest.mark.parametrize("engine", ENGINES)
async def test_few_pages_of_many_hosts(engine: str, latency: float) -> None:
    """As long as the busiest host takes, and a last task that comes late; although a first connection takes time."""
    urls = [f"http://{host}.example/{page}" for host in range(50) for page in range(10 + host // 5)]
    pool, seconds = await pools(engine, urls, 4, latency=latency)
    assert pool.pages == len(urls)
    assert pool.seen.short_gaps({}) == []
    assert pool.vain <= 1.1 * pool.pages
    assert seconds <= 1.05 * pool.bound + 2 * DELAY


async def test_told_its_place_at_once() -> None:
    """The next instant at which the host is due, then those behind; at its instant each has its turn."""
    async with gate_that_knows(SITE) as gate:
        assert await told(gate) is None
        places = [await told(gate) for _ in range(3)]
        assert now() == 0.0
        assert places == pytest.approx([1.0, 2.005, 3.01])
        for place in places:
            assert place is not None
            await sleep_until(place)
            assert await told(gate) is None


async def test_task_without_a_promise_gets_what_others_leave() -> None:
    """The host is due, and will be due again before the first that was told to come; else it comes after the last."""
    async with gate_that_knows(SITE) as gate:
        assert await told(gate) is None
        async with asyncio.timeout(5.0), gate.turn(PAGE):
            await settle()
        promised = await told(gate)
        assert promised == pytest.approx(2.0)
        await sleep_until(1.8)
        assert await told(gate) == pytest.approx(3.005)
        # Nobody comes for either.
        await sleep_until(30.0)
        assert await told(gate) is None


async def test_task_that_comes_in_time_waits_a_little() -> None:
    """If the turn before it takes longer than expected: for as long as it may, else it gets the place behind all."""
    async with gate_that_knows(SITE) as gate:
        assert await told(gate) is None
        assert [await told(gate) for _ in range(3)] == pytest.approx([1.0, 2.005, 3.01])

        async def hold() -> None:
            async with gate.try_turn(PAGE):
                await asyncio.sleep(0.9)

        await sleep_until(1.0)
        holding = asyncio.create_task(hold())
        await sleep_until(2.005)
        later = await told(gate, max_wait=0.5)
        assert now() == 2.005
        assert later is not None
        assert later >= 4.015
        await sleep_until(3.01)
        assert await told(gate) is None
        assert now() == 3.01
        await holding


async def test_two_processes_do_not_promise_the_same_place() -> None:
    """Also where the first of them has kept all promises of its own."""
    store = MemoryStore()
    async with gate_that_knows(SITE, store=store) as one, gate_that_knows(SITE, store=store) as other:
        assert await told(other) is None
        assert await told(one) == pytest.approx(1.0)
        await sleep_until(1.0)
        assert await told(one) is None
        assert await told(other) == pytest.approx(2.0)
        await sleep_until(1.5)
        assert await told(one) == pytest.approx(3.005)


async def test_those_that_come_late_leave_the_promises_of_others_where_they_are() -> None:
    """Whose place is not promised again, as long as its task would have to wait no longer than it may."""
    async with gate_that_knows(SITE, delay=5.0) as gate:
        assert await told(gate) is None
        assert [await told(gate) for _ in range(3)] == pytest.approx([5.0, 10.025, 15.05])
        for at in (7.0, 12.0):
            await sleep_until(at)
            assert await told(gate) is None
        assert await told(gate) == pytest.approx(20.075)


async def test_task_that_comes_in_time_waits_for_the_turn_of_another_process() -> None:
    """And then for its host: for as long as it may in all."""
    store = MemoryStore()
    async with gate_that_knows(SITE, store=store) as one, gate_that_knows(SITE, store=store) as other:
        assert await told(one) is None
        assert [await told(one) for _ in range(2)] == pytest.approx([1.0, 2.005])

        async def hold() -> None:
            async with other.try_turn(PAGE):
                await asyncio.sleep(0.9)

        await sleep_until(2.005)
        holding = asyncio.create_task(hold())
        await settle()
        assert await told(one) is None
        assert now() == pytest.approx(3.905)
        await holding


async def test_task_does_not_come_at_once_while_another_process_has_a_long_turn() -> None:
    """It is not known when that ends: the task comes when a turn that takes as long as others may be over."""
    store, asks = MemoryStore(), 0
    async with gate_that_knows(SITE, store=store) as holder, gate_that_knows(SITE, store=store) as gate:
        async with holder.turn(PAGE):
            while now() < 60.0:
                place = await told(gate)
                assert place is not None
                assert place >= now() + DELAY
                asks += 1
                await sleep_until(place)
        assert asks <= 60.0 / (MAX_WAIT + DELAY)
        assert (await told(gate) or now()) <= now() + DELAY


async def test_place_is_behind_all_that_binds_the_host() -> None:
    """A pause that it asks for, a quota, and a group of hosts: the latest of them."""
    group = {url: Group("all", delay=20.0) for url in ("a.example", "b.example")}
    async with gate_that_knows(SITE, "http://b.example", rate=(1, 50.0), groups=group) as gate:
        assert await told(gate) is None
        assert await told(gate, OTHER) == pytest.approx(20.0)
        assert await told(gate) == pytest.approx(50.0)
        gate.block("a.example", 75.0)
        assert await told(gate) == pytest.approx(75.0)
    async with gate_that_knows(SITE) as gate:
        await visit(gate, status=429, headers={"Retry-After": "30"})
        assert await told(gate) == pytest.approx(30.0)


async def test_what_no_place_helps_against() -> None:
    """Rules, an outage, a budget and a long block are told as `turn` tells them."""
    async with make_gate(scripted({SITE: asks("Disallow: /")}), give_up_after=0.0) as gate:
        with pytest.raises(DisallowedError):
            await told(gate)
        with suppress(HostUnavailableError):
            await fail(gate, OTHER)
        with pytest.raises(HostUnavailableError):
            await told(gate, OTHER)
    async with gate_that_knows(SITE, budget=Budget(pages=1, per=60.0)) as gate:
        assert await told(gate) is None
        with pytest.raises(BudgetExceededError):
            await told(gate)


async def test_unknown_robots_txt_is_waited_for() -> None:
    """It is requested once; its request counts as a visit."""
    fetcher = scripted(latency=5.0)
    async with make_gate(fetcher) as gate:
        places = await asyncio.gather(*(told(gate) for _ in range(3)))
    assert len(fetcher.requests) == 1
    assert now() == 5.0
    assert places[0] == pytest.approx(6.0)
    assert None not in places


async def test_argument_that_makes_no_sense() -> None:
    """As with all others."""
    async with make_gate() as gate:
        with pytest.raises(OptionError):
            gate.try_turn(PAGE, max_wait=-1.0)


async def test_hosts_of_a_group_share_its_places() -> None:
    """Each task is told the latest of its places, and comes back when the group and its host have room."""
    hosts = [f"{number}.example" for number in range(10)]
    groups = {host: Group("all", delay=0.5) for host in hosts}
    random.seed(1)
    async with make_gate(everywhere(b"", latency=TAKES), groups=groups) as gate:
        pool, began_at = Pool([gate], "at once"), now()
        await pool.run([f"http://{host}/{page}" for host in hosts for page in range(20)], 0.3)
        seconds = now() - began_at
    together = sorted(visit for visits in pool.seen.visits.values() for visit in visits)
    assert min(later[0] - earlier[1] for earlier, later in pairwise(together)) >= 0.5 - 1e-6
    assert pool.pages == 200
    assert pool.vain <= 1.4 * pool.pages
    assert seconds <= 1.3 * 210 * (TAKES + 0.5)


@pytest.mark.parametrize("store", [None, MemoryStore()], ids=["alone", "with a store"])
async def test_host_that_is_due_is_taken(store: MemoryStore | None) -> None:
    """Whether the turns before took longer than on average, or less."""
    async with make_gate(scripted({SITE: ""}), store=store) as gate:
        await gate.allowed(PAGE)
        for takes in (0.5, 0.1, 0.0, 0.7, 0.2, 0.0):
            await asyncio.sleep(DELAY)
            async with gate.try_turn(PAGE):
                await asyncio.sleep(takes)
