"""A store that other processes use as well: every turn is reserved in it, and whatever comes between is given back."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.booked_store import POLL, Book, BookedStore
from tests.paced import PAGE, ROBOTS, SITE, asks, everywhere, make_gate, now, refusal, scripted, visit, visits
from tests.waiting import settle

from robotgate import DisallowedError, GateClosedError, HostUnavailableError, StoreError, TooSoonError

if TYPE_CHECKING:
    from robotgate import RobotGate

FREE = b"User-agent: *\nDisallow:\n"


def is_at_rest(book: Book) -> bool:
    """Whether nothing is booked any more."""
    return not any(book.reserved.values()) and not any(book.under_way.values())


def known(gate: RobotGate) -> RobotGate:
    """A gate that need not ask for the site's robots.txt."""
    gate.learn(PAGE, FREE)
    return gate


async def test_two_gates_take_turns_a_delay_after_the_end_of_either_response() -> None:
    """One slot between them, and the delay counts from the other's end: as exact as within one gate."""
    book = Book()
    async with make_gate(store=BookedStore(book)) as one, make_gate(store=BookedStore(book)) as other:
        known(one), known(other)
        starts = await asyncio.gather(visits(one, 4, takes=0.75), visits(other, 4, takes=0.75))
        assert sorted(starts[0] + starts[1]) == [1.75 * turn for turn in range(8)]
        assert book.hosts["a.example"].visits == 8
        assert is_at_rest(book)


async def test_long_response_of_the_other_is_waited_for() -> None:
    """However long it takes, the delay begins with its end; it is asked for once in a delay."""
    book = Book()
    async with make_gate(store=BookedStore(book)) as one, make_gate(store=BookedStore(book)) as other:
        known(one), known(other)
        first = asyncio.create_task(visit(one, takes=10.25))
        await settle()
        assert await visit(other) == 11.25
        await first
        assert len(book.questions) == 1 + 12


async def test_several_slots_count_from_start_to_start() -> None:
    """With slots to spare the other's response holds nobody back; when all are taken, an end is soon noticed."""
    book = Book()
    async with (
        make_gate(store=BookedStore(book), concurrency_per_host=2) as one,
        make_gate(store=BookedStore(book), concurrency_per_host=2) as other,
    ):
        known(one), known(other)
        held = asyncio.create_task(visits(one, 2, takes=5.1))
        await settle()
        assert await visit(other) == pytest.approx(5.1, abs=POLL)
        assert await held == [0.0, 1.0]
        assert is_at_rest(book)


async def test_delay_counts_from_when_a_reserved_request_is_sent() -> None:
    """An answer of the store that takes long makes the next start later: at the host no gap is short."""
    book = Book()
    async with (
        make_gate(store=BookedStore(book, takes=0.4), concurrency_per_host=9) as slow,
        make_gate(store=BookedStore(book), concurrency_per_host=9) as quick,
    ):
        known(slow), known(quick)
        late = asyncio.create_task(visit(slow, takes=9.0))
        await asyncio.sleep(0.5)
        assert await visit(quick) >= 1.8
        assert await late == 0.8


async def test_robots_txt_is_reserved_too() -> None:
    """It counts as a visit, whoever fetches it; and one request serves both."""
    book = Book()
    fetcher = everywhere(FREE, latency=0.25)
    async with (
        make_gate(fetcher, store=BookedStore(book)) as one,
        make_gate(fetcher, store=BookedStore(book)) as other,
    ):
        assert sorted(await asyncio.gather(visit(one), visit(other))) == [1.25, 2.25]
        assert fetcher.requests == [(0.0, ROBOTS)]
        assert [had for _, had in book.questions].count(True) == 3


async def test_block_of_one_keeps_the_other_away() -> None:
    """What a 429 says is known at the next reservation, wherever that is made."""
    book = Book()
    async with make_gate(store=BookedStore(book)) as one, make_gate(store=BookedStore(book)) as other:
        known(one), known(other)
        async with one.turn(PAGE) as turn:
            turn.report(status=429, headers={"Retry-After": "100"})
        assert await visit(other) == 100.0
        async with other.turn(PAGE) as turn:
            turn.report(status=503, headers={"Retry-After": "4000"})
        error, at = await refusal(visit(one), HostUnavailableError)
        assert isinstance(error, HostUnavailableError)
        assert (at, error.retry_after) == (101.0, 4000.0)


async def test_priority_and_arrival_rank_within_a_process() -> None:
    """Who is sent back by the store keeps his place."""
    book = Book()
    order: list[str] = []

    async def come(gate: RobotGate, name: str, priority: int) -> None:
        await visit(gate, priority=priority, takes=0.5)
        order.append(name)

    async with (
        make_gate(store=BookedStore(book, takes=0.01)) as one,
        make_gate(store=BookedStore(book, takes=0.01)) as other,
    ):
        known(one), known(other)
        first = asyncio.create_task(visit(other, takes=5.0))
        await asyncio.sleep(0.1)
        names = [("a", 0), ("b", 0), ("urgent", 1), ("last", -1)]
        tasks = [asyncio.create_task(come(one, name, priority)) for name, priority in names]
        await asyncio.gather(first, *tasks)
    assert order == ["urgent", "a", "b", "last"]


async def test_lane_of_who_is_sent_back_and_has_no_time_left_is_dropped() -> None:
    """Nobody comes after him who would see to it."""
    book = Book()
    async with (
        make_gate(store=BookedStore(book), delay=30.0) as one,
        make_gate(store=BookedStore(book), delay=30.0) as other,
    ):
        known(one), known(other)
        await visit(one)
        waiting = asyncio.create_task(visit(one, max_wait=40.0))
        await asyncio.sleep(25.0)
        # Told of by nobody: the first is sent back when his turn has come.
        book.hosts["a.example"] = replace(book.hosts["a.example"], next_allowed_at=1000.0)
        error, at = await refusal(waiting, TooSoonError)
        assert isinstance(error, TooSoonError)
        assert at == 30.0
        assert "lanes=1" in repr(one)
        await asyncio.sleep(1000.0)
        assert "lanes=0" in repr(one)


async def test_one_that_waits_alone_is_not_shared() -> None:
    """While nobody else is there nothing is asked, but what is under way is booked for whoever comes."""
    book = Book()
    alone = BookedStore(book)
    alone.is_shared = False
    async with make_gate(store=alone) as one, make_gate(store=BookedStore(book)) as other:
        known(one), known(other)
        assert await visit(one) == 0.0
        held = asyncio.create_task(visit(one, takes=6.0))
        await asyncio.sleep(2.0)
        assert not book.questions
        alone.is_shared = True
        assert await visit(other) == 8.0
        await held
        assert is_at_rest(book)


@pytest.mark.parametrize("after", [0.1, 0.3, 0.5, 0.7])
async def test_cancelled_while_asking_takes_nothing(after: float) -> None:
    """Before or after the store has said yes: the next waiter goes on as if nobody had come."""
    book = Book()
    async with make_gate(store=BookedStore(book, takes=0.4)) as gate:
        known(gate)
        first, second = (asyncio.create_task(visit(gate)) for _ in range(2))
        await asyncio.sleep(after)
        first.cancel()
        assert await second == after + 0.8
        assert first.cancelled()
        view = gate.host(PAGE)
        assert (view.visits, view.waiting, view.open_turns) == (1, 0, 0)
        assert is_at_rest(book)


async def test_cancelled_in_the_instant_of_the_answer() -> None:
    """The store has said yes, and he is cancelled before he runs: what was reserved is given back."""
    book = Book()
    async with make_gate(store=BookedStore(book, takes=0.5)) as gate:
        known(gate)
        first, second = (asyncio.create_task(visit(gate)) for _ in range(2))
        await settle()
        asyncio.get_running_loop().call_at(1.0, first.cancel)
        await second
        assert gate.host(PAGE).visits == 1
        assert is_at_rest(book)


async def test_gate_closed_while_asking() -> None:
    """Everybody is told; what the store has granted meanwhile goes back."""
    book = Book()
    gate = make_gate(store=BookedStore(book, takes=0.4))
    async with gate:
        known(gate)
        tasks = [asyncio.create_task(visit(gate)) for _ in range(3)]
        await asyncio.sleep(0.5)
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [GateClosedError] * 3
    assert book.hosts["a.example"].visits == 0
    assert is_at_rest(book)


async def test_operator_block_while_asking() -> None:
    """A block that comes between is heeded: the start goes back, and is asked for when the block is over."""
    book = Book()
    async with make_gate(store=BookedStore(book, takes=0.4)) as gate:
        known(gate)
        first = asyncio.create_task(visit(gate))
        await asyncio.sleep(0.6)
        gate.block("a.example", 30.6)
        assert await first == pytest.approx(31.4)
        assert gate.host(PAGE).visits == 1
        assert is_at_rest(book)


async def test_longer_operator_block_while_asking_sends_away() -> None:
    """As anybody who waits for the host is."""
    book = Book()
    async with make_gate(store=BookedStore(book, takes=0.4)) as gate:
        known(gate)
        first = asyncio.create_task(visit(gate))
        await asyncio.sleep(0.6)
        gate.block("a.example", 1000.6)
        error, at = await refusal(first, HostUnavailableError)
        assert (at, "told to leave it alone" in str(error)) == (0.8, True)
        assert is_at_rest(book)


async def test_rules_that_change_while_asking() -> None:
    """What the new rules refuse does not begin; what was reserved goes back, and the next one has his turn."""
    book = Book()
    async with make_gate(store=BookedStore(book, takes=0.4)) as gate:
        known(gate)
        first = asyncio.create_task(visit(gate))
        second = asyncio.create_task(visit(gate, f"{SITE}/other"))
        await asyncio.sleep(0.6)
        gate.learn(PAGE, b"User-agent: *\nDisallow: /page\n")
        with pytest.raises(DisallowedError, match="page"):
            await first
        await second
        assert gate.host(PAGE).visits == 1
        assert is_at_rest(book)


async def test_no_wait_means_no_wait_for_others() -> None:
    """`max_wait=0` has a start that is due, though asking takes a moment; and hears at once of one that is not."""
    book = Book()
    async with (
        make_gate(store=BookedStore(book, takes=0.05)) as one,
        make_gate(store=BookedStore(book, takes=0.05)) as other,
    ):
        known(one), known(other)
        assert other.wait_time(PAGE) == 0.0
        held = asyncio.create_task(visit(one, takes=3.0, max_wait=0.0))
        await asyncio.sleep(1.5)
        error, at = await refusal(visit(other, max_wait=0.0), TooSoonError)
        assert isinstance(error, TooSoonError)
        assert [at, error.retry_after] == pytest.approx([1.6, 0.9])
        assert await held == 0.1
        assert is_at_rest(book)


async def test_store_that_does_not_answer_is_not_waited_for_longer_than_asked() -> None:
    """Nor is what it says in the end lost."""
    book = Book()
    async with make_gate(store=BookedStore(book, takes=50.0)) as gate:
        known(gate)
        _, at = await refusal(visit(gate, max_wait=0.0), TooSoonError)
        assert at == 1.0
        _, at = await refusal(visit(gate, max_wait=60.0), TooSoonError)
        assert at == 61.0
        assert await visit(gate) == 161.0
        assert gate.host(PAGE).visits == 1
        assert is_at_rest(book)


@pytest.mark.parametrize("concurrency", [1, 256])
async def test_store_that_fails_to_reserve_fails_whom_it_served(concurrency: int) -> None:
    """One caller hears of it; the next asks, and has his turn."""
    book = Book()
    async with make_gate(store=BookedStore(book, takes=0.25, fails=2), concurrency=concurrency) as gate:
        known(gate)
        outcomes = await asyncio.gather(*(visit(gate) for _ in range(4)), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [StoreError, StoreError, float, float]
        assert outcomes[2:] == [1.0, 2.5]
        assert is_at_rest(book)


async def test_hours_and_delays_of_the_site_hold_for_what_is_reserved() -> None:
    """What a site asks is what is asked of the store."""
    book = Book()
    fetcher = scripted({SITE: asks("Crawl-delay: 7")}, latency=0.5)
    async with (
        make_gate(fetcher, store=BookedStore(book)) as one,
        make_gate(fetcher, store=BookedStore(book)) as other,
    ):
        starts = sorted(await asyncio.gather(visit(one, takes=1.0), visit(other, takes=1.0)))
        assert starts == [7.5, 15.5]


async def test_store_that_says_no_and_not_when_is_asked_again_soon_but_not_at_once() -> None:
    """A store of that kind costs a question in a millisecond, and no endless loop."""

    class Reluctant(BookedStore):
        def _again_at(self, *args: object, **others: object) -> float | None:
            return 0.0 if now() < 0.1 else None

    book = Book()
    async with make_gate(store=Reluctant(book)) as gate:
        known(gate)
        assert await visit(gate) == pytest.approx(0.1, abs=0.002)
        assert len(book.questions) <= 102
