"""Scopes on virtual time: what hosts share, and who may have it next."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

import pytest
from tests.pace.bench import Bench, OwnLease
from tests.paced import now
from tests.waiting import settle

from robotgate.errors import BudgetExceededError, StoreError
from robotgate.options import Budget
from robotgate.pace.host import PacedTurn
from robotgate.pace.lease import NOT_OWNED
from robotgate.pace.scope import UNLIMITED, Scope
from robotgate.pace.state import HostState

if TYPE_CHECKING:
    from robotgate.pace.host import PacedOrigin
    from robotgate.pace.lease import Lease


def scope(bench: Bench, key: str, delay: float = 0.0, *, slots: int = 1, lease: Lease | None = None) -> Scope:
    """One that the scheduler knows."""
    made = bench.scheduler.scopes[key] = Scope(key, delay=delay, slots=slots, lease=lease)
    return made


def origin(bench: Bench, name: str, *scopes: Scope) -> PacedOrigin:
    """An origin of a host without delay."""
    paced = bench.origin(name, delay=0.0)
    paced.enter(scopes)
    return paced


async def leave(task: asyncio.Task[None]) -> None:
    """A task gives up."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_turn_is_granted_though_all_that_waited_before_have_left() -> None:
    """A scope is looked at for it as it would have been for them."""
    bench = Bench()
    paced = origin(bench, "a.example", scope(bench, "a", 10.0))
    await bench.visit("first", paced)
    (gone,) = bench.visits(paced, "gone")
    await asyncio.sleep(5.0)
    await leave(gone)
    async with asyncio.timeout(60.0):
        await bench.visit("second", paced)
    assert now() == 10.0


async def test_wanted_scope_goes_when_the_last_that_waits_for_it_leaves() -> None:
    """Nobody here could use it."""
    bench = Bench(has_store=True)
    shared = scope(bench, "a", 10.0, lease=OwnLease())
    paced = origin(bench, "a.example", shared)
    await bench.visit("first", paced)
    shared.owned_visits = shared.visits
    (gone,) = bench.visits(paced, "gone")
    await settle()
    bench.scheduler.note_wanted(shared)
    assert bench.scheduler.work.leaving == []
    await leave(gone)
    assert bench.scheduler.work.leaving == [shared]


async def test_scope_is_not_kept_for_one_that_comes_before_it() -> None:
    """Two processes that each kept what the other asks for would wait for ever: the one that asks for less waits."""
    bench = Bench(has_store=True)
    before, after = scope(bench, "a", lease=NOT_OWNED), scope(bench, "b", lease=OwnLease())
    (task,) = bench.visits(origin(bench, "a.example", before, after), "both")
    await settle()
    assert before in bench.scheduler.work.unowned
    bench.scheduler.note_wanted(after)
    assert bench.scheduler.work.leaving == [after]
    await leave(task)


async def test_scope_is_not_kept_for_a_turn_whose_host_has_been_handed_on() -> None:
    """The process that has the host may wait for the scope."""
    bench = Bench(has_store=True)
    before, after = scope(bench, "a", slots=2, lease=OwnLease()), scope(bench, "b", lease=NOT_OWNED)
    quick = bench.origin("a.example", lease=OwnLease(), delay=0.0, concurrency_per_host=2)
    both = bench.origin("a.example", port=8080, delay=0.0, concurrency_per_host=2)
    quick.scopes, both.scopes = (before,), (before, after)
    turns = [PacedTurn(quick), PacedTurn(quick)]
    await bench.begin(turns[0])
    (task,) = bench.visits(both, "both")
    await settle()
    await bench.begin(turns[1])
    for wanted in (quick.host, before):
        bench.scheduler.note_wanted(wanted)
    for turn in turns:
        bench.scheduler.end(turn, bench.scheduler.now())
    assert bench.scheduler.work.leaving == [quick.host, before]
    await leave(task)


async def test_all_that_wait_for_a_scope_are_refused_with_it() -> None:
    """Where its state cannot be loaded, not only the first of each host."""
    bench = Bench(has_store=True)
    unknown = scope(bench, "a", lease=NOT_OWNED)
    tasks = bench.visits(origin(bench, "a.example", unknown), *"abc")
    await settle()
    bench.scheduler.refuse_all(unknown, StoreError("it is gone"))
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [str(outcome) for outcome in outcomes] == ["it is gone"] * 3


async def test_wanted_host_goes_when_a_scope_of_its_last_turn_cannot_be_loaded() -> None:
    """Nobody here could use it."""
    bench = Bench(has_store=True)
    unknown, paced = scope(bench, "a", lease=NOT_OWNED), bench.origin("a.example", lease=OwnLease())
    paced.scopes = (unknown,)
    (task,) = bench.visits(paced, "one")
    await settle()
    bench.scheduler.note_wanted(paced.host)
    assert bench.scheduler.work.leaving == []
    bench.scheduler.refuse_all(unknown, StoreError("it is gone"))
    assert bench.scheduler.work.leaving == [paced.host]
    await asyncio.gather(task, return_exceptions=True)


async def test_budget_that_another_process_used_up_refuses_at_once() -> None:
    """All turns that need the scope, those of hosts that are not due included."""
    bench = Bench(has_store=True)
    shared = scope(bench, "group|a", lease=NOT_OWNED)
    shared.budget = Budget(pages=1)
    spent = HostState(last_visit_at=now(), budget_began_at=now(), budget_ends_at=math.inf, budget_pages=1)
    first, later = origin(bench, "a.example", shared), origin(bench, "b.example", shared)
    later.host.next_allowed_at = now() + 60.0
    tasks = [*bench.visits(first, "1", "2"), *bench.visits(later, "3")]
    await settle()
    shared.merge(spent)
    shared.lease = OwnLease()
    bench.scheduler.own(shared)
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(error) for error in found] == [BudgetExceededError] * 3
    assert now() < 60.0


async def test_turn_that_another_passes_delays_none_that_came_before_it() -> None:
    """A scope that is kept for it is theirs as soon as it is ready."""
    bench = Bench()
    one, two, three = (scope(bench, key, delay) for key, delay in (("1", 60.0), ("2", 1.0), ("3", 61.0)))
    first, second, both = (
        origin(bench, name, *scopes)
        for name, scopes in (("a.example", [two]), ("b.example", [two]), ("c.example", [one, two, three]))
    )
    await asyncio.gather(
        *(bench.visit("", origin(bench, f"{each.key}.example", each)) for each in (one, two, three))
    )
    await asyncio.sleep(59.5)
    await bench.visit("", first)
    tasks = [*bench.visits(second, "second"), *bench.visits(both, "both")]
    await asyncio.gather(*tasks)
    assert bench.starts[-2:] == [(60.5, "second"), (61.5, "both")]


@pytest.mark.parametrize("delay", [0.0, 0.1, 1.0])
async def test_turn_that_needs_two_busy_scopes_is_not_passed_for_ever(delay: float) -> None:
    """Neither is ever free when the other is, until both are kept for it; with and without delays."""
    bench = Bench()
    one, two = scope(bench, "1", delay), scope(bench, "2", delay)

    async def busy(name: str, *scopes: Scope) -> None:
        paced = origin(bench, name, *scopes)
        while True:
            await bench.begin(turn := PacedTurn(paced))
            await asyncio.sleep(1.0)
            bench.scheduler.end(turn, bench.scheduler.now())

    tasks: list[asyncio.Task[None]] = []
    for name in "abcd":
        tasks += [asyncio.create_task(busy(f"{name}.example", [one, two][len(tasks) % 2]))]
        await asyncio.sleep((1.0 + delay) / 2)
    async with asyncio.timeout(600.0):
        await bench.visit("both", origin(bench, "both.example", one, two))
    for task in tasks:
        await leave(task)


@pytest.mark.parametrize("slots", [1, 4, UNLIMITED])
async def test_wanted_scope_is_handed_on_though_many_use_it(slots: int) -> None:
    """After a turn for each slot, and after some where it has any number of them."""
    bench = Bench(has_store=True)
    shared = scope(bench, "a", slots=slots, lease=OwnLease())
    turns = [PacedTurn(origin(bench, f"{number}.example", shared)) for number in range(99)]
    for turn in turns:
        await bench.begin(turn)
        bench.scheduler.note_wanted(shared)
        if not shared.may_pace():
            break
    for turn in turns:
        bench.scheduler.end(turn, bench.scheduler.now())
    assert bench.scheduler.work.leaving == [shared]
    assert shared.visits == min(slots, 16)
