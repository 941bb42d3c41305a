"""Budgets and bandwidth: so many pages and bytes of a host, and of all hosts together."""

from __future__ import annotations

import asyncio
import random

import pytest
from tests.outage_law import GRAIN
from tests.paced import (
    HOUR,
    OTHER,
    PAGE,
    ROBOTS,
    SECURE,
    gate_that_knows,
    make_gate,
    now,
    scripted,
    seeds,
    visit,
    visits,
)

from robotgate import (
    Budget,
    BudgetExceededError,
    GateOptions,
    Group,
    HostOverride,
    MemoryStore,
    RobotGate,
    TooSoonError,
)
from robotgate.events import TurnRefused


async def fetched(gate: RobotGate, count: int, url: str = PAGE, *, size: int = 0) -> list[float | None]:
    """So many turns one after the other, each with a body of this size: their starts, None for those refused."""
    starts: list[float | None] = []
    for _ in range(count):
        try:
            async with gate.turn(url) as turn:
                starts.append(now())
                turn.report(200, bytes=size)
        except BudgetExceededError:
            starts.append(None)
    return starts


async def test_pages_of_a_budget() -> None:
    """Three an hour: the others are refused at once, and told when there are more. robots.txt is none of them."""
    fetcher = scripted()
    async with make_gate(fetcher, budget=Budget(pages=3, per=HOUR)) as gate:
        assert await fetched(gate, 5) == [1.0, 2.0, 3.0, None, None]
        with pytest.raises(BudgetExceededError) as caught:
            await visit(gate)
        assert (caught.value.host, caught.value.retry_after) == ("a.example", HOUR - 2.0)
        assert gate.wait_time(PAGE) == HOUR - 2.0
        await asyncio.sleep(HOUR - 2.0)
        assert await fetched(gate, 4) == [HOUR + 1.0, HOUR + 2.0, HOUR + 3.0, None]
    assert fetcher.requests == [(0.0, ROBOTS)]


async def test_budget_without_a_period_is_there_once() -> None:
    """It says so, and in words."""
    async with gate_that_knows(PAGE, budget=Budget(pages=1)) as gate:
        await visit(gate)
        await asyncio.sleep(1000 * HOUR)
        with pytest.raises(
            BudgetExceededError, match=r"^the budget of a.example is used up: 1 page$"
        ) as caught:
            await visit(gate)
    assert caught.value.retry_after is None


async def test_no_robots_txt_is_requested_beyond_a_budget() -> None:
    """A day later that of the host is old."""
    fetcher = scripted()
    async with make_gate(fetcher, budget=Budget(pages=1)) as gate:
        await visit(gate)
        await asyncio.sleep(30 * HOUR)
        before = len(fetcher.requests)
        assert await fetched(gate, 1) == [None]
        assert len(fetcher.requests) == before


async def test_bytes_of_a_budget() -> None:
    """The response that exceeds it is read to its end; the next page is refused."""
    async with gate_that_knows(PAGE, budget=Budget(bytes=1000, per=HOUR)) as gate:
        assert await fetched(gate, 4, size=400) == [0.0, 1.0, 2.0, None]
        await asyncio.sleep(HOUR)
        assert await fetched(gate, 2, size=1000) == [HOUR + 2.0, None]


@pytest.mark.parametrize("slots", [1, 4])
async def test_turns_that_wait_are_refused_when_a_budget_is_used_up(slots: int) -> None:
    """At the start of the last page, however many may be open; each is an event, and is counted."""
    async with gate_that_knows(PAGE, budget=Budget(pages=3), concurrency_per_host=slots) as gate:
        events: list[TurnRefused] = []
        gate.subscribe(events.append, TurnRefused)
        found = await asyncio.gather(*(visit(gate) for _ in range(10)), return_exceptions=True)
        assert now() == 2.0
        assert [each for each in found if isinstance(each, float)] == [0.0, 1.0, 2.0]
        await asyncio.sleep(0)
        assert [type(event.error) for event in events] == [BudgetExceededError] * 7
        assert gate.stats().turned_away == 7


async def test_total_budget() -> None:
    """Of the pages of ten hosts that are all due at once, three begin; no page of another host does later."""
    async with make_gate(total_budget=Budget(pages=3, per=HOUR)) as gate:
        pages = [visit(gate, f"http://{number}.example/") for number in range(10)]
        found = await asyncio.gather(*pages, return_exceptions=True)
        assert sum(isinstance(each, float) for each in found) == 3
        assert gate.stats().budget_pages == 3
        with pytest.raises(BudgetExceededError, match="all hosts") as caught:
            await visit(gate, OTHER)
        assert caught.value.retry_after is not None
        await asyncio.sleep(caught.value.retry_after)
        await visit(gate, OTHER)


async def test_total_budget_refuses_who_waits_for_another_host() -> None:
    """As soon as it is used up, not when their host is due."""
    async with gate_that_knows(PAGE, OTHER, total_budget=Budget(bytes=100)) as gate:
        await visit(gate, OTHER)
        waiting = asyncio.create_task(visit(gate, OTHER))
        await asyncio.sleep(0.5)
        await fetched(gate, 1, size=100)
        with pytest.raises(BudgetExceededError):
            await waiting
        assert now() == 0.5


async def test_budget_of_a_group() -> None:
    """Of all its hosts together; the error has its name."""
    shops = {"*.shops.example": Group("shops", budget=Budget(pages=3))}
    async with make_gate(groups=shops, budget=Budget(pages=2)) as gate:
        found = [await fetched(gate, 3, f"http://{host}.example/") for host in ("a.shops", "b.shops", "c")]
        assert [starts.count(None) for starts in found] == [1, 2, 1]
        with pytest.raises(BudgetExceededError, match=r"^the budget of the group shops is used up: 3 pages$"):
            await visit(gate, "http://c.shops.example/")
        assert gate.host("http://c.shops.example/").beyond_budget_of == "the group shops"


async def test_group_without_limits_at_once_is_handed_on() -> None:
    """To a gate that wants it, although the other one always has requests to it under way."""
    options = GateOptions(groups={"*": Group("all", budget=Budget(pages=999))}, store=MemoryStore())
    async with make_gate(**options) as busy, make_gate(**options) as other:

        async def crawl(number: int) -> None:
            for _ in range(20):
                await visit(busy, f"http://{number}.example/", takes=1.0 + 0.037 * number)

        crawls = [asyncio.create_task(crawl(number)) for number in range(10)]
        await asyncio.sleep(5.0)
        assert await visit(other) < 10.0
        await asyncio.gather(*crawls)
        assert busy.stats().visits - busy.stats().robots_requests == 200


async def test_bandwidth_of_a_group() -> None:
    """What is read of one of its hosts moves the requests to the others."""
    async with make_gate(groups={"*": Group("all", bytes_per_second=100.0)}) as gate:
        assert await fetched(gate, 1, size=1000) == [1.0]
        assert await visit(gate, OTHER) == 12.0


async def test_budget_of_each_origin() -> None:
    """The two of a host have one each, beside that of the host."""
    async with make_gate(origin_budget=Budget(pages=2), budget=Budget(pages=3)) as gate:
        assert (await fetched(gate, 3)).count(None) == 1
        assert (await fetched(gate, 3, SECURE)).count(None) == 2
        with pytest.raises(BudgetExceededError, match=r"^the budget of http://a\.example is used up"):
            await visit(gate)


async def test_budget_of_an_override() -> None:
    """One host has less, another one no budget at all."""
    overrides = {
        "a.example": HostOverride(budget=Budget(pages=1)),
        "b.example": HostOverride(budget=Budget.UNLIMITED),
    }
    async with make_gate(budget=Budget(pages=2), overrides=overrides) as gate:
        found = [await fetched(gate, 3, f"http://{host}.example/") for host in "abc"]
    assert [starts.count(None) for starts in found] == [2, 0, 1]


async def test_strictest_budget_of_those_who_are_paced_together_holds() -> None:
    """The fewest pages, over the longest period."""
    overrides = {
        "a.example": HostOverride(budget=Budget(pages=2, per=60.0)),
        "b.example": HostOverride(budget=Budget(pages=9, per=HOUR)),
    }
    async with gate_that_knows(PAGE, OTHER, pace_key=lambda _: "one", overrides=overrides) as gate:
        assert await fetched(gate, 1) == [0.0]
        assert await fetched(gate, 2, OTHER) == [1.0, None]
        await asyncio.sleep(61.0)
        assert await fetched(gate, 1) == [None]


async def test_budget_can_be_raised_later() -> None:
    """What was used stays used."""
    async with gate_that_knows(PAGE, budget=Budget(pages=2)) as gate:
        assert await fetched(gate, 3) == [0.0, 1.0, None]
        gate.override("*", HostOverride(budget=Budget(pages=3)))
        assert await fetched(gate, 2) == [2.0, None]


@pytest.mark.parametrize("has_store", [False, True])
async def test_host_with_a_budget_is_not_forgotten(*, has_store: bool) -> None:
    """Without a store, it stays in memory until its period is over."""
    store = MemoryStore(max_hosts=1) if has_store else None
    async with make_gate(budget=Budget(pages=1, per=HOUR), max_hosts=1, store=store) as gate:
        await visit(gate)
        await asyncio.sleep(60.0)
        for number in range(20):
            await visit(gate, f"http://{number}.example/")
            await asyncio.sleep(60.0)
        assert len(gate.hosts()) == (1 if has_store else 21)
        assert await fetched(gate, 1) == [None]
        await asyncio.sleep(2 * HOUR)
        await visit(gate, OTHER)
        await asyncio.sleep(60.0)
        assert len(gate.hosts()) == 1


async def test_ready_goes_on_with_other_hosts() -> None:
    """The URLs beyond a budget are refused, with the error."""
    refused: list[tuple[str, type]] = []
    urls = [f"{PAGE}{number}" for number in range(3)] + [OTHER]
    async with gate_that_knows(PAGE, OTHER, budget=Budget(pages=1)) as gate:
        begun = []
        async for turn in gate.ready(urls, on_refusal=lambda url, error: refused.append((url, type(error)))):
            begun.append(turn.url)
            turn.end()
    assert sorted(begun) == [urls[0], OTHER]
    assert refused == [(url, BudgetExceededError) for url in urls[1:3]]


async def test_bytes_per_second() -> None:
    """A response moves the next request by its size, and never makes it come sooner than the delay does."""
    async with gate_that_knows(PAGE, bytes_per_second=100.0) as gate:
        assert await fetched(gate, 3, size=1000) == [0.0, 10.0, 20.0]
        assert await fetched(gate, 2, size=10) == [30.0, 31.0]
        with pytest.raises(TooSoonError):
            await visit(gate, max_wait=0.5)


async def test_bytes_per_second_of_responses_side_by_side() -> None:
    """Two at once take as long as one after the other."""
    async with gate_that_knows(PAGE, delay=0.0, concurrency_per_host=2, bytes_per_second=100.0) as gate:
        await asyncio.gather(fetched(gate, 1, size=500), fetched(gate, 1, size=500))
        assert await visit(gate) == 10.0


async def test_total_bytes_per_second() -> None:
    """What is read of one host moves the requests to all others; a due one waits no longer than that."""
    async with make_gate(total_bytes_per_second=100.0) as gate:
        assert await fetched(gate, 1, size=1000) == [1.0]
        assert await visits(gate, 2, OTHER) == [12.0, 13.0]


class Law:
    """The pages of one budget, as a server counts them."""

    def __init__(self, pages: int, per: float) -> None:
        self.pages, self.per = pages, per
        self.starts: list[float] = []

    def period(self, at: float) -> list[float]:
        """The starts of the period that an instant lies in; periods begin with a page."""
        left, found = self.starts, list[float]()
        while left:
            found = [start for start in left if start < left[0] + self.per - GRAIN]
            if at < left[0] + self.per - GRAIN:
                return found
            left = left[len(found) :]
        return []


@pytest.mark.parametrize("seed", seeds(6, 60))
async def test_crowd_keeps_all_budgets_at_once(seed: int) -> None:
    """Of hosts, origins, a group and the gate: none has a page too many, and none is refused that is within all."""
    chance = random.Random(seed)
    per = {kind: chance.choice([7.0, 20.0, 60.0]) for kind in ("host", "origin", "group", "total")}
    most = {kind: chance.randint(1, 6) * (3 if kind == "total" else 1) for kind in per}
    budgets = {kind: Budget(pages=most[kind], per=per[kind]) for kind in per}
    laws: dict[tuple[str, str], Law] = {}

    def laws_of(url: str) -> list[Law]:
        origin, host = url.rpartition("/")[0], url.split("/")[2]
        keys = [("host", host), ("origin", origin), ("total", ""), *[("group", "")] * (host in "ab")]
        return [laws.setdefault(key, Law(most[key[0]], per[key[0]])) for key in keys]

    async def crawl(gate: RobotGate) -> None:
        for _ in range(12):
            await asyncio.sleep(chance.choice([0.0, 0.0, 0.3, 1.0, 8.0]))
            url = f"{chance.choice(['http', 'https'])}://{chance.choice('abcd')}/page"
            try:
                async with gate.turn(url):
                    for law in laws_of(url):
                        law.starts.append(now())
                        assert len(law.period(now())) <= law.pages
                    await asyncio.sleep(chance.choice([0.0, 0.5, 2.0]))
            except BudgetExceededError:
                assert any(len(law.period(now())) == law.pages for law in laws_of(url))

    options = GateOptions(
        delay=chance.choice([0.0, 0.4]),
        concurrency_per_host=chance.choice([1, 3]),
        budget=budgets["host"],
        origin_budget=budgets["origin"],
        total_budget=budgets["total"],
        groups={host: Group("ab", budget=budgets["group"]) for host in "ab"},
        store=chance.choice([None, MemoryStore()]),
    )
    async with make_gate(**options) as gate:
        await asyncio.gather(*(crawl(gate) for _ in range(8)))
        stats = gate.stats()
        assert (stats.waiting, stats.open_turns) == (0, 0)
        assert stats.turned_away > 0
