"""A plain store: when a gate asks it, and what turns and rules do while it fails or hangs.

However it fails, no visit comes sooner than it is due, and when it works again everything goes on.
"""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import suppress
from itertools import pairwise, product
from typing import TYPE_CHECKING, Final

import pytest
from tests.failing import FailingStore
from tests.paced import (
    HOUR,
    OTHER,
    PAGE,
    ROBOTS,
    SITE,
    Seen,
    asks,
    everywhere,
    gate_that_knows,
    kinds,
    listen,
    make_gate,
    now,
    refusal,
    scripted,
    seeds,
    sleep_until,
    visit,
)
from tests.waiting import settle

from robotgate import GateClosedError, HostUnavailableError, MemoryStore, StoreError, TooSoonError
from robotgate.events import HostBlocked, StoreLost, StoreRecovered

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from robotgate import RobotGate

    Door = Callable[[RobotGate, str], Awaitable[object]]

PRIVATE = b"User-agent: *\nDisallow: /private\n"
DUTIES = ["load_record", "save_record", "load_host", "save_hosts"]
BATCH = 0.5
"""Seconds for which changes are collected before they are saved."""


async def door_ready(gate: RobotGate, url: str) -> None:
    """``async for turn in gate.ready``, which tells its callback."""
    refused: list[Exception] = []
    async for turn in gate.ready([url], on_refusal=lambda _, error: refused.append(error)):
        async with turn:
            await asyncio.sleep(0.1)
    if refused:
        raise refused[0]


DOORS: Final[dict[str, Door]] = {
    "turn": visit,
    "ready": door_ready,
    "check": lambda gate, url: gate.check(url),
    "allowed": lambda gate, url: gate.allowed(url),
}


async def is_as_ever(gate: RobotGate, url: str = PAGE) -> None:
    """Nothing is left of the trouble: turns come, a delay apart, and none waits or is open."""
    starts = sorted(await asyncio.gather(*(visit(gate, url, takes=0.5) for _ in range(3))))
    assert all(later - sooner >= 1.5 for sooner, later in pairwise(starts))
    view = gate.host(url)
    assert (view.waiting, view.open_turns) == (0, 0)


async def test_store_is_not_asked_for_each_page() -> None:
    """A host is loaded once, and all changes go to the store together, at most twice a second."""
    store = FailingStore()
    async with make_gate(store=store, delay=0.0) as gate:
        for _ in range(100):
            await asyncio.gather(visit(gate), visit(gate, OTHER))
            await asyncio.sleep(0.1)
        assert store.calls["load_record"] == store.calls["save_record"] == 2
        # Once when its rules were asked for, so that `wait_time` knows of it.
        assert store.calls["load_host"] <= 4
        assert len(store.saved) <= 21
        assert {"a.example", "b.example"} in [keys for _, keys in store.saved]
        await asyncio.sleep(HOUR)
        assert len(store.saved) <= 22


async def test_block_is_saved_at_once() -> None:
    """A crash in the next half second does not lose what a site asked for."""
    store = FailingStore()
    async with make_gate(store=store) as gate:
        await visit(gate)
        await asyncio.sleep(10.0)
        async with gate.turn(PAGE) as turn:
            turn.report(status=429, headers={"Retry-After": "100"})
            await settle()
            assert store.saved[-1][0] == now()
            state = await store.memory.load_host("a.example")
    assert state is not None
    assert state.blocked_until_at == 111.0


@pytest.mark.parametrize("duty", DUTIES)
async def test_failure_is_told_to_the_caller(duty: str, subtests: pytest.Subtests) -> None:
    """At every door, to every caller whom it concerns, of a gate that has been at the site before, or has not;
    afterwards all is as ever.
    """
    for door, is_known in product(DOORS, (False, True)):
        store = FailingStore()
        gate = make_gate(everywhere(PRIVATE, latency=0.25), store=store)
        with subtests.test(door=door, is_known=is_known):
            async with gate, asyncio.timeout(600.0):
                if is_known:
                    await visit(gate)
                    await asyncio.sleep(60.0)
                store.fails = {duty}
                asked = (DOORS[door](gate, PAGE) for _ in range(4))
                errors = [
                    each
                    for each in await asyncio.gather(*asked, return_exceptions=True)
                    if isinstance(each, Exception)
                ]
                assert {type(error) for error in errors} <= {StoreError}
                if not is_known and duty in {"load_record", "save_record"}:
                    assert len(errors) == 4
                store.recover()
                await asyncio.sleep(2 * BATCH)
                await is_as_ever(gate)
                await is_as_ever(gate, OTHER)


@pytest.mark.parametrize("concurrency", [1, 256])
async def test_turns_are_refused_while_nothing_can_be_saved(concurrency: int) -> None:
    """Those that wait and those that come, at any host: a crash would forget their visits. Then they go on."""
    store = FailingStore()
    async with make_gate(store=store, concurrency=concurrency) as gate, asyncio.timeout(600.0):
        await visit(gate)
        await visit(gate, OTHER)
        await asyncio.sleep(5.0)
        heard = listen(gate, StoreLost, StoreRecovered)
        store.fails = {"save_hosts"}
        first, *waiting = (asyncio.create_task(visit(gate, takes=2.0)) for _ in range(5))
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [StoreError] * 4
        assert "make room" in str(outcomes[0])
        assert len({id(outcome) for outcome in outcomes}) == 4
        for url in (PAGE, OTHER):
            _, at = await refusal(visit(gate, url), StoreError)
            assert at == now()
        # The turn under way ends as ever, and its end counts.
        assert now() < await first + 2.0 <= now() + 2.0
        ended_at = now()
        assert gate.allowed_nowait(PAGE) is True
        await asyncio.sleep(0.1)
        store.recover()
        await asyncio.sleep(2 * BATCH)
        assert await visit(gate) == ended_at + 0.1 + 2 * BATCH
        await is_as_ever(gate)
    assert kinds(heard) == ["StoreLost", "StoreRecovered"]


async def test_store_that_fails_once_is_tried_again() -> None:
    """Within half a second, whether or not there is anything new to save; no visit is forgotten."""
    store = FailingStore()
    async with make_gate(store=store) as gate:
        await visit(gate)
        await asyncio.sleep(5.0)
        store.fails = {"save_hosts"}
        ended_at = await visit(gate)
        await asyncio.sleep(0.7)
        store.recover()
        await asyncio.sleep(2 * BATCH)
        state = await store.memory.load_host("a.example")
        assert state is not None
        assert (state.visits, state.last_visit_at) == (3, ended_at)


async def test_block_is_heeded_though_the_store_fails() -> None:
    """A 503 that cannot be saved holds here all the same, and is reported as ever."""
    store = FailingStore()
    async with make_gate(store=store) as gate, asyncio.timeout(3000.0):
        await visit(gate)
        heard = listen(gate, HostBlocked)
        async with gate.turn(PAGE) as turn:
            store.fails = {"save_hosts"}
            turn.report(status=503, headers={"Retry-After": "1000"})
            until_at = now() + 1000.0
        await refusal(visit(gate), HostUnavailableError)
        await asyncio.sleep(5.0)
        store.recover()
        await asyncio.sleep(5.0)
        assert [event.until_at for event in heard if isinstance(event, HostBlocked)] == [until_at]
        await refusal(visit(gate), HostUnavailableError)
        await sleep_until(until_at)
        assert await visit(gate) == until_at


async def test_views_need_no_store() -> None:
    """What memory knows of a host is told while the store fails."""
    store = FailingStore()
    async with make_gate(store=store) as gate:
        await visit(gate)
        store.fails = set(DUTIES)
        assert (gate.wait_time(PAGE), gate.wait_time(OTHER)) == (1.0, 0.0)
        assert (gate.host(PAGE).visits, gate.host(OTHER).visits) == (2, 0)
        store.recover()


async def test_rules_that_cannot_be_saved_are_used_all_the_same() -> None:
    """The caller hears of it once; the rules are known, and are not requested again."""
    fetcher = everywhere(PRIVATE, latency=0.25)
    async with make_gate(fetcher, store=FailingStore("save_record")) as gate:
        with pytest.raises(StoreError, match="make room"):
            await gate.allowed(PAGE)
        assert gate.allowed_nowait(PAGE) is True
        assert await gate.allowed(f"{SITE}/private") is False
        assert await visit(gate, takes=0.5) == 1.25
    assert [url for _, url in fetcher.requests] == [ROBOTS]


async def test_learnt_rules_that_cannot_be_saved_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """`learn` waits for no store: what goes wrong is in the log, with the cause, and the rules hold."""
    async with make_gate(store=FailingStore("save_record")) as gate:
        with caplog.at_level(logging.ERROR, logger="robotgate"):
            gate.learn(PAGE, PRIVATE)
            await settle()
        assert gate.allowed_nowait(f"{SITE}/private") is False
    (entry,) = (record for record in caplog.records if record.name.startswith("robotgate"))
    assert "make room" in entry.getMessage()
    assert entry.levelno == logging.ERROR


async def test_loss_is_told_once() -> None:
    """A full disk is one piece of news, whatever it keeps from being saved; and again if it had worked in between."""
    store = FailingStore()
    async with make_gate(store=store) as gate:
        await visit(gate)
        heard = listen(gate, StoreLost, StoreRecovered)
        for _ in range(2):
            store.fails = {"save_record", "save_hosts"}
            for number in range(5):
                gate.learn(f"http://learnt{number}.example/", PRIVATE)
                await settle()
                await asyncio.gather(visit(gate), visit(gate, SITE), return_exceptions=True)
            store.recover()
            await asyncio.sleep(2 * BATCH)
            gate.learn(OTHER, b"")
            await asyncio.sleep(2 * BATCH)
    assert kinds(heard) == ["StoreLost", "StoreRecovered"] * 2


async def test_store_that_can_be_read_may_be_full() -> None:
    """Records that can be loaded again say nothing of what cannot be saved."""
    store = FailingStore("load_record", "save_record")
    async with make_gate(store=store) as gate:
        heard = listen(gate, StoreLost, StoreRecovered)
        gate.learn(OTHER, b"")
        with pytest.raises(StoreError):
            await gate.robots(PAGE)
        store.fails = {"save_record"}
        with pytest.raises(StoreError):
            await gate.robots(PAGE)
        await settle()
        assert kinds(heard) == ["StoreLost"]
        store.recover()
        await gate.refresh(PAGE)
        await settle()
    assert kinds(heard) == ["StoreLost", "StoreRecovered"]


@pytest.mark.parametrize("duty", ["load_record", "load_host"])
async def test_store_that_takes_its_time_is_waited_for(duty: str) -> None:
    """No turn without a deadline is refused for it; all come when it answers."""
    store = FailingStore()
    store.hangs = {duty}
    async with make_gate(store=store) as gate, asyncio.timeout(600.0):
        waiting = [asyncio.create_task(visit(gate)) for _ in range(3)]
        await asyncio.sleep(100.0)
        store.recover()
        assert await asyncio.gather(*waiting) == [101.0, 102.0, 103.0]


async def test_saving_that_takes_its_time_holds_no_turn_up() -> None:
    """Turns go on at hosts that are known, and others are loaded meanwhile."""
    store = FailingStore()
    async with make_gate(store=store) as gate, asyncio.timeout(600.0):
        await visit(gate)
        store.hangs = {"save_hosts"}
        await asyncio.sleep(5.0)
        assert await visit(gate) == 6.0
        assert await visit(gate, OTHER) == 7.0
        store.recover()
        await asyncio.sleep(2 * BATCH)
        state = await store.memory.load_host("b.example")
        assert state is not None
        assert state.last_visit_at == 7.0


async def test_what_is_being_saved_when_the_gate_is_closed_is_saved() -> None:
    """The saving under way is broken off, and made up for."""
    store = FailingStore()
    async with make_gate(store=store, delay=0.0) as gate:
        await visit(gate)
        store.hangs = {"save_hosts"}
        await asyncio.sleep(2 * BATCH)
        assert store.calls["save_hosts"] == 1
        store.hangs.clear()
    assert [keys for _, keys in store.saved] == [{"a.example"}]


async def test_closing_says_what_could_not_be_saved() -> None:
    """After everything else was closed."""
    store = FailingStore()
    gate = make_gate(store=store)
    await gate.__aenter__()
    await visit(gate)
    store.fails = {"save_hosts"}
    with pytest.raises(StoreError, match="make room"):
        await gate.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await gate.aclose()


@pytest.mark.parametrize(
    ("duty", "is_learnt"), [("load_record", False), ("load_host", False), ("load_host", True)]
)
async def test_store_that_takes_its_time_outlasts_no_patience(duty: str, *, is_learnt: bool) -> None:
    """A call with `max_wait` ends soon after it, even if the store never answers."""
    store = FailingStore()
    store.hangs = {duty}
    async with make_gate(store=store) as gate, asyncio.timeout(600.0):
        if is_learnt:
            gate.learn(PAGE, PRIVATE)
        for max_wait in (0.0, 5.0):
            asked_at = now()
            _, at = await refusal(visit(gate, max_wait=max_wait), TooSoonError)
            assert at - asked_at <= max_wait + 2.0
        store.recover()
        await is_as_ever(gate)


@pytest.mark.parametrize(
    ("duty", "is_learnt"), [("load_record", False), ("load_host", False), ("load_host", True)]
)
async def test_closing_waits_for_no_answer(duty: str, *, is_learnt: bool) -> None:
    """Turns that wait for a store that never answers are refused because the gate is closed."""
    store = FailingStore()
    store.hangs = {duty}
    async with asyncio.timeout(600.0):
        async with make_gate(store=store) as gate:
            if is_learnt:
                gate.learn(PAGE, PRIVATE)
            waiting = [asyncio.create_task(visit(gate)) for _ in range(3)]
            await settle()
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {GateClosedError}


@pytest.mark.parametrize("max_hosts", [1, 100])
async def test_host_whose_waiters_leave_while_it_is_loaded(max_hosts: int) -> None:
    """It may be evicted and come back meanwhile: turns that ask for it then are served."""
    store = FailingStore()
    store.hangs = {"load_host"}
    async with gate_that_knows(PAGE, store=store, max_hosts=max_hosts) as gate, asyncio.timeout(600.0):
        first = asyncio.create_task(visit(gate))
        await settle()
        first.cancel()
        for number in range(10):
            gate.learn(f"http://{number}.example/", b"")
        await settle()
        gate.learn(PAGE, b"")
        second = asyncio.create_task(visit(gate))
        await asyncio.sleep(1.0)
        store.recover()
        assert await second == 1.0


@pytest.mark.parametrize("seed", seeds(4, 30))
async def test_no_wait_is_shortened_whatever_fails(seed: int) -> None:
    """A store that fails at this and that now and then: every gap is kept, and every caller is answered."""
    chance = random.Random(seed)
    store, slots = FailingStore(), chance.choice([1, 2])
    hosts = [f"http://{letter}.example" for letter in "abc"]
    fetcher = scripted(
        {hosts[0]: asks("Crawl-delay: 3"), hosts[1]: asks("Disallow: /no")}, latency=chance.choice([0.0, 0.3])
    )
    seen = Seen(chance)

    async def come(gate: RobotGate, host: str) -> None:
        with suppress(StoreError, TooSoonError, HostUnavailableError):
            await seen.visit(gate, host, max_wait=chance.choice([None, None, 4.0]))

    async with (
        make_gate(
            fetcher,
            store=store,
            concurrency=chance.choice([1, 256]),
            concurrency_per_host=slots,
            max_hosts=chance.choice([1, 100]),
        ) as gate,
        asyncio.timeout(100_000.0),
    ):
        tasks: list[asyncio.Task[None]] = []
        for _ in range(200):
            await asyncio.sleep(chance.choice([0.0, 0.1, 1.0, 3.0]))
            if chance.random() < 0.2:
                store.recover()
            if chance.random() < 0.15:
                store.fails.add(chance.choice(DUTIES))
            if chance.random() < 0.03:
                store.hangs.add(chance.choice(DUTIES))
            tasks.append(asyncio.create_task(come(gate, chance.choice(hosts))))
        store.recover()
        await asyncio.gather(*tasks)
        await asyncio.sleep(2 * BATCH)
        for host in hosts:
            await asyncio.gather(*(seen.visit(gate, host) for _ in range(4)))
            assert gate.host(host).open_turns == 0
    assert seen.short_gaps({hosts[0]: 3.0}, from_starts=slots > 1) == []


async def test_subscriber_that_raises_breaks_no_work_of_the_store() -> None:
    """Not even one that is called at once: no request is to fail, and the event loop's handler gets the error."""
    store, errors = FailingStore("load_host", "save_hosts"), list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context["exception"]))
    async with make_gate(store=store) as gate:

        def fail(event: StoreLost | StoreRecovered) -> None:
            raise ZeroDivisionError(type(event).__name__)

        gate.subscribe(fail, StoreLost, StoreRecovered, at_once=True)
        with pytest.raises(StoreError):
            await visit(gate)
        store.recover()
        await is_as_ever(gate)
        await asyncio.sleep(10.0)
        assert {"a.example"} in [keys for _, keys in store.saved]
    assert list(map(str, errors)) == ["StoreLost", "StoreRecovered"]


async def test_subscriber_that_raises_hides_no_block() -> None:
    """Of another gate: what the store passes on later is heard, too."""
    store, errors = MemoryStore(), list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context["exception"]))
    async with make_gate(store=store) as one, make_gate(store=store) as other:

        def fail(_: HostBlocked) -> None:
            raise ZeroDivisionError

        other.subscribe(fail, HostBlocked, at_once=True)
        one.block("b.example")
        await settle()
        one.block("a.example")
        await settle()
        with pytest.raises(HostUnavailableError):
            await visit(other)
    assert list(map(type, errors)) == [ZeroDivisionError] * 2
