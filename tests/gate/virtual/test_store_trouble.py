"""A store that fails for a while, at each thing it is there for: who asks hears of it, and nobody waits in vain.

However it fails, no visit comes sooner than it is due, and when it works again everything goes on.
"""

from __future__ import annotations

import asyncio
import random
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from tests.failing import FailingStore
from tests.paced import (
    HOUR,
    OTHER,
    PAGE,
    REFUSED,
    SITE,
    asks,
    everywhere,
    kinds,
    listen,
    make_gate,
    now,
    refusal,
    scripted,
    sleep_until,
    visit,
)
from tests.waiting import settle

from robotgate import (
    DisallowedError,
    GateClosedError,
    HostBlocked,
    HostUnavailableError,
    Origin,
    Recheck,
    StoreError,
    StoreLost,
    TooSoonError,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from robotgate import RobotGate

    Door = Callable[[RobotGate, str], Awaitable[None]]

PRIVATE = b"User-agent: *\nDisallow: /private\n"
DUTIES = ["load_record", "save_record", "lease", "end of lease", "load_host", "recall_host", "remember_host"]


async def door_turn(gate: RobotGate, url: str) -> None:
    """``async with gate.turn``."""
    async with gate.turn(url):
        await asyncio.sleep(0.1)


async def door_ready(gate: RobotGate, url: str) -> None:
    """``async for turn in gate.ready``, which tells its callback."""
    refused: list[Exception] = []
    async for turn in gate.ready([url], on_refusal=lambda _, error: refused.append(error)):
        async with turn:
            await asyncio.sleep(0.1)
    if refused:
        raise refused[0]


async def door_check(gate: RobotGate, url: str) -> None:
    """``await gate.check``."""
    await gate.check(url)


async def door_allowed(gate: RobotGate, url: str) -> None:
    """``await gate.allowed``."""
    await gate.allowed(url)


DOORS = [door_turn, door_ready, door_check, door_allowed]


async def is_as_ever(gate: RobotGate, url: str = PAGE) -> None:
    """Nothing is left of the trouble: turns come, a delay apart, and nobody waits or is under way."""
    starts = sorted(await asyncio.gather(*(visit(gate, url, takes=0.5) for _ in range(3))))
    assert all(later - sooner >= 1.5 for sooner, later in pairwise(starts))
    view = gate.host(url)
    assert (view.waiting, view.open_turns) == (0, 0)


@pytest.mark.parametrize("duty", DUTIES)
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("is_known", [False, True])
async def test_failure_is_told_to_who_asks(duty: str, door: Door, *, is_known: bool) -> None:
    """At every door, to everybody who is concerned; nobody else is, and afterwards all is as ever."""
    store = FailingStore()
    async with make_gate(everywhere(PRIVATE, latency=0.25), store=store) as gate, asyncio.timeout(600.0):
        if is_known:
            await visit(gate)
            await asyncio.sleep(60.0)
        store.fails = {duty}
        outcomes = await asyncio.gather(*(door(gate, PAGE) for _ in range(4)), return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} <= {type(None), StoreError}
        assert any(outcomes) == bool(store.failed)
        store.recover()
        await is_as_ever(gate)
        await is_as_ever(gate, OTHER)


@pytest.mark.parametrize("concurrency", [1, 256])
@pytest.mark.parametrize("duty", ["recall_host", "remember_host"])
async def test_failure_leaves_nobody_waiting(duty: str, concurrency: int) -> None:
    """Five wait behind a turn that is open when the store begins to fail: each is told, and later comers are served."""
    store = FailingStore()
    async with make_gate(store=store, concurrency=concurrency) as gate, asyncio.timeout(600.0):
        await visit(gate)
        await asyncio.sleep(5.0)
        waiting = [asyncio.create_task(visit(gate, takes=2.0)) for _ in range(5)]
        await settle()
        store.fails = {duty}
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes][1:] == [StoreError] * 4
        store.recover()
        await is_as_ever(gate)


@pytest.mark.parametrize("duty", ["recall_host", "remember_host"])
async def test_waiters_go_on_when_the_store_does(duty: str) -> None:
    """It fails and recovers while a turn is open: who waits has lost nothing, and comes a delay after its end."""
    store = FailingStore()
    async with make_gate(store=store) as gate, asyncio.timeout(600.0):
        await visit(gate)
        await asyncio.sleep(5.0)
        first, *others = (asyncio.create_task(visit(gate, takes=2.0)) for _ in range(3))
        await settle()
        store.fails = {duty}
        await asyncio.sleep(1.9)
        store.recover()
        started_at = await first
        assert await asyncio.gather(*others) == [started_at + 3.0, started_at + 6.0]


@pytest.mark.parametrize("duty", ["recall_host", "remember_host"])
@pytest.mark.parametrize("max_wait", [0.0, 3.0])
async def test_patience_ends_while_the_store_fails(duty: str, max_wait: float) -> None:
    """Who waits no longer than so long is answered by then, whatever the store does."""
    store = FailingStore()
    async with make_gate(store=store) as gate, asyncio.timeout(600.0), gate.turn(PAGE):
        waiting = asyncio.create_task(visit(gate, max_wait=max_wait))
        await asyncio.sleep(max_wait / 2)
        store.fails = {duty}
        begun_at = now()
        outcome = await asyncio.gather(waiting, return_exceptions=True)
        assert isinstance(outcome[0], TooSoonError)
        assert now() - begun_at <= max_wait
        store.recover()


@pytest.mark.parametrize("duty", ["recall_host", "remember_host"])
async def test_block_is_heeded_though_the_store_fails(duty: str) -> None:
    """A 503 that cannot be remembered holds here all the same, and who waits for longer than he would is told."""
    store = FailingStore()
    async with make_gate(store=store) as gate, asyncio.timeout(6000.0):
        await visit(gate)
        turn = await gate.turn(PAGE).__aenter__()
        waiting = asyncio.create_task(visit(gate))
        await settle()
        heard = listen(gate)
        store.fails = {duty}
        until_at = now() + 1000.0
        try:
            turn.report(status=503, headers={"Retry-After": "1000"})
        except StoreError:
            assert duty == "remember_host"
        await refusal(waiting, HostUnavailableError)
        assert now() == until_at - 1000.0
        store.recover()
        turn.end()
        assert [event.until_at for event in heard if isinstance(event, HostBlocked)] == [until_at]
        await refusal(visit(gate), HostUnavailableError)
        await sleep_until(until_at)
        assert await visit(gate) == until_at


@pytest.mark.parametrize("duty", ["recall_host", "remember_host"])
async def test_outage_is_heeded_though_the_store_fails(duty: str) -> None:
    """Who waits for an origin that is down is told, and nobody tries it before its time."""
    store = FailingStore()
    async with make_gate(store=store) as gate, asyncio.timeout(600.0):
        await visit(gate)
        turn = await gate.turn(PAGE).__aenter__()
        waiting = asyncio.create_task(visit(gate))
        await settle()
        store.fails = {duty}
        try:
            turn.report(error=REFUSED)
        except StoreError:
            assert duty == "remember_host"
        store.recover()
        turn.end()
        await refusal(waiting, HostUnavailableError)
        await refusal(visit(gate), HostUnavailableError)
        retry_at = gate.host(PAGE).unreachable_until_at
        assert retry_at is not None
        await sleep_until(retry_at)
        assert await visit(gate) == pytest.approx(retry_at)


async def test_end_that_cannot_be_remembered_is_kept_here() -> None:
    """The delay counts from the end of the turn, though the store has not heard of it."""
    store = FailingStore()
    async with make_gate(store=store) as gate:
        await visit(gate)
        turn = await gate.turn(PAGE).__aenter__()
        await asyncio.sleep(7.0)
        store.fails = {"remember_host"}
        with pytest.raises(StoreError, match="make room"):
            turn.end()
        store.recover()
        ended_at = now()
        assert await visit(gate) == ended_at + 1.0


async def test_what_cannot_be_recalled_is_not_made_up() -> None:
    """The view of a host says that the store fails; the wait, which is a lower bound, is what is known here."""
    store = FailingStore()
    async with make_gate(store=store) as gate:
        await visit(gate)
        store.fails = {"recall_host"}
        assert gate.wait_time(PAGE) == 1.0
        assert gate.wait_time(OTHER) == 0.0
        with pytest.raises(StoreError, match="recall_host"):
            gate.host(PAGE)


async def test_rules_that_are_due_are_put_off_while_nobody_knows_of_blocks() -> None:
    """Whoever asks is answered as ever by rules that are fresh; their renewal comes once the store can tell again."""
    store = FailingStore()
    fetcher = scripted({SITE: asks("Disallow: /private")})
    async with make_gate(fetcher, store=store) as gate:
        await gate.allowed(PAGE)
        await asyncio.sleep(23 * HOUR)
        store.fails = {"recall_host"}
        assert gate.allowed_nowait(PAGE) is True
        assert await gate.allowed(f"{SITE}/private") is False
        await settle()
        assert store.failed == ["recall_host"]
        assert len(fetcher.requests) == 1
        store.recover()
        await asyncio.sleep(HOUR / 2)
        assert gate.allowed_nowait(PAGE) is True
        await settle()
        assert len(fetcher.requests) == 2


async def test_end_of_a_turn_is_none_of_rechecks_business() -> None:
    """Visits that cannot be counted call for nothing, and raise nothing; the next that can are counted."""
    store = FailingStore()
    fetcher = scripted()
    async with make_gate(fetcher, store=store, recheck=Recheck(visits=1)) as gate:
        async with gate.turn(PAGE):
            store.fails = {"recall_host"}
        assert "recall_host" in store.failed
        store.recover()
        await visit(gate)
        await visit(gate)
    assert len(fetcher.requests) == 2


async def test_what_was_read_is_kept_though_nobody_counts() -> None:
    """A store that begins to fail at counting while a robots.txt is on its way has it saved all the same."""
    store = FailingStore()
    async with make_gate(everywhere(b"", latency=1.0), store=store, recheck=Recheck(visits=1)) as gate:
        asking = asyncio.create_task(gate.allowed(PAGE))
        await asyncio.sleep(0.5)
        store.fails = {"recall_host"}
        assert await asking
        assert await store.load_record(Origin.of(PAGE)) is not None


async def test_loss_is_told_once() -> None:
    """Not for every turn; and again when the store had worked in between."""
    store = FailingStore()
    async with make_gate(store=store) as gate:
        await visit(gate)
        await visit(gate, OTHER)
        heard = listen(gate)
        for _ in range(2):
            store.fails = {"remember_host"}
            for _ in range(5):
                await refusal(visit(gate), StoreError)
                await refusal(visit(gate, OTHER), StoreError)
            store.recover()
            await visit(gate)
        await settle()
    assert kinds(heard).count("StoreLost") == 2
    assert kinds(heard).count("TurnRefused") == 20


async def test_loss_of_records_is_told_once() -> None:
    """A full disk is one piece of news, however many sites are read meanwhile."""
    store = FailingStore()
    store.fails = {"save_record"}
    async with make_gate(store=store) as gate:
        heard = listen(gate)
        for number in range(5):
            with pytest.raises(StoreError):
                await gate.allowed(f"http://{number}.example/")
            gate.learn(f"http://learnt{number}.example/", PRIVATE)
            await settle()
        store.recover()
        await gate.allowed(PAGE)
        store.fails = {"save_record"}
        with pytest.raises(StoreError):
            await gate.allowed(OTHER)
        await settle()
    assert sum(isinstance(event, StoreLost) for event in heard) == 2


@pytest.mark.parametrize("duty", ["lease", "load_record", "load_host"])
async def test_store_that_takes_its_time_is_waited_for(duty: str) -> None:
    """Nobody is refused for it who has patience; all are served when it comes back."""
    store = FailingStore()
    store.hangs = {duty}
    async with make_gate(store=store) as gate, asyncio.timeout(600.0):
        waiting = [asyncio.create_task(visit(gate)) for _ in range(3)]
        await asyncio.sleep(100.0)
        store.recover()
        assert await asyncio.gather(*waiting) == [101.0, 102.0, 103.0]


@pytest.mark.parametrize(
    ("duty", "is_learnt"),
    [("lease", False), ("load_record", False), ("load_host", False), ("load_host", True)],
)
@pytest.mark.parametrize("max_wait", [0.0, 5.0])
async def test_store_that_takes_its_time_outlasts_no_patience(
    duty: str, max_wait: float, *, is_learnt: bool
) -> None:
    """Who waits no longer than so long is answered soon after, though the store never comes back."""
    store = FailingStore()
    store.hangs = {duty}
    async with make_gate(store=store) as gate, asyncio.timeout(600.0):
        if is_learnt:
            gate.learn(PAGE, PRIVATE)
        _, at = await refusal(visit(gate, max_wait=max_wait), TooSoonError)
        assert at <= max_wait + 11.0
        store.recover()
        await is_as_ever(gate)


@pytest.mark.parametrize(
    ("duty", "is_learnt"),
    [("lease", False), ("load_record", False), ("load_host", False), ("load_host", True)],
)
async def test_closing_waits_for_no_store(duty: str, *, is_learnt: bool) -> None:
    """Who waits for a store that never comes back is told that the gate is closed."""
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


# In the days of the last five, rules once made room for others while the store was asked about their host.
@pytest.mark.parametrize("seed", [*range(40), 591, 807, 845, 887, 1417])
async def test_no_wait_is_shortened_whatever_fails(seed: int) -> None:
    """A store that fails at this and that now and then: every gap is kept, everybody is answered, all is well after."""
    chance = random.Random(seed)
    store, slots = FailingStore(), chance.choice([1, 2])
    hosts = [f"http://{letter}.example" for letter in "abc"]
    fetcher = scripted(
        {hosts[0]: asks("Crawl-delay: 3"), hosts[1]: asks("Disallow: /no")}, latency=chance.choice([0.0, 0.3])
    )
    seen: dict[str, list[tuple[float, float]]] = {host: [] for host in hosts}

    async def come(gate: RobotGate, host: str) -> None:
        try:
            async with gate.turn(f"{host}/page", max_wait=chance.choice([None, None, 4.0])) as turn:
                began_at = now()
                await asyncio.sleep(chance.choice([0.0, 0.5, 2.0]))
                seen[host].append((began_at, now()))
                turn.report(status=200)
        except (StoreError, TooSoonError, HostUnavailableError, DisallowedError):
            return

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
                store.hangs.add(chance.choice(["lease", "load_record", "load_host"]))
            tasks.append(asyncio.create_task(come(gate, chance.choice(hosts))))
        store.recover()
        await asyncio.gather(*tasks)
        for host in hosts:
            starts = await asyncio.gather(*(visit(gate, f"{host}/page", takes=0.5) for _ in range(4)))
            delay = 3.0 if host == hosts[0] else 1.0
            seen[host] += [(start, start + 0.5) for start in starts]
            visited = sorted(seen[host])
            for earlier, later in pairwise(visited):
                gap = later[0] - (earlier[1] if slots == 1 else earlier[0])
                assert gap >= delay - 1e-6, (host, earlier, later)
            assert gate.host(f"{host}/page").open_turns == 0
