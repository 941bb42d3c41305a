"""The way a turn takes that is plainly to be had at once: nothing that the long way looks at is lost on it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.paced import (
    DAY,
    HOUR,
    MINUTE,
    OTHER,
    PAGE,
    ROBOTS,
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
    Answer,
    BlockCause,
    DisallowedError,
    HostBlocked,
    HostRecovered,
    HostUnavailableError,
    MemoryStore,
    StoreError,
    StoreLost,
    TurnRefused,
)
from robotgate.testing import ScriptedFetcher, VirtualClock

if TYPE_CHECKING:
    from robotgate import Failure, HostState, RobotGateError, Rules

HOST = "a.example"
OPENS_AT = 6 * HOUR
CLOSES_AT = 8 * HOUR + 46 * MINUTE
UNASKING = b"User-agent: *\nDisallow: /private\n"


class Full(MemoryStore):
    """Takes nothing in while it is full."""

    def __init__(self) -> None:
        super().__init__()
        self.is_full = False

    def remember_host(self, pace_key: str, state: HostState) -> None:
        """As memory, if there is room."""
        if self.is_full:
            raise StoreError("the disk is full: make room")
        super().remember_host(pace_key, state)


class Forgetful(MemoryStore):
    """Remembers no host: a table that is emptied now and then."""

    async def load_host(self, pace_key: str) -> HostState | None:
        """Nothing."""
        del pace_key
        return None

    def recall_host(self, pace_key: str) -> HostState | None:
        """Nothing."""
        del pace_key
        return None


async def test_no_visit_outside_the_hours() -> None:
    """A host that was visited a second before it closes is not when it has closed, though no delay is between."""
    fetcher = scripted({SITE: asks("Visit-time: 0600-0845")})
    async with make_gate(fetcher, delay=0.0, obey_visit_time=True) as gate:
        await gate.allowed(PAGE)
        await sleep_until(CLOSES_AT - 1)
        assert await visit(gate) == CLOSES_AT - 1
        assert await visit(gate) == CLOSES_AT - 1
        await sleep_until(CLOSES_AT)
        error, at = await refusal(visit(gate), HostUnavailableError)
        assert isinstance(error, HostUnavailableError)
        assert (at, at + error.retry_after) == (CLOSES_AT, DAY + OPENS_AT)


async def test_stale_rules_are_asked_for_again() -> None:
    """A host that is never left alone has its robots.txt read anew, and is held to the new one."""
    sites: dict[str, Answer | Failure] = {ROBOTS: Answer(status=200, body=b"")}
    fetcher = ScriptedFetcher(sites, otherwise=Answer(status=404))
    async with make_gate(fetcher, delay=0.0) as gate:
        assert await visit(gate) == 0.0
        await sleep_until(DAY - 5)
        assert await visit(gate) == DAY - 5
        sites[ROBOTS] = Answer(status=200, body=b"User-agent: *\nDisallow: /page\n")
        await sleep_until(DAY + 1)
        await refusal(visit(gate), DisallowedError)
    assert [url for _, url in fetcher.requests] == [ROBOTS, ROBOTS]


async def test_turn_handed_over_is_nobodys_until_its_block() -> None:
    """Who takes a turn from `ready` and asks for the next first, waits: he is not told that he has it himself."""
    refused: list[tuple[str, RobotGateError]] = []
    async with make_gate(everywhere(UNASKING), delay=0.0) as gate:
        await visit(gate)
        turns = gate.ready([f"{SITE}/1", f"{SITE}/2"], on_refusal=lambda *args: refused.append(args))
        first = await anext(turns)
        second = asyncio.create_task(anext(turns))
        await settle()
        assert (second.done(), refused) == (False, [])
        first.end()
        assert (await second).url == f"{SITE}/2"
        second.result().end()
        await turns.aclose()


async def test_place_is_given_back_when_the_store_fails() -> None:
    """One request over all hosts, and a store that fails as it starts: the next host's turn comes."""
    store = Full()
    async with make_gate(store=store, delay=0.0, concurrency=1) as gate, asyncio.timeout(60.0):
        await visit(gate)
        await visit(gate, OTHER)
        store.is_full = True
        await refusal(visit(gate), StoreError)
        store.is_full = False
        assert await visit(gate, OTHER) == 0.0
        assert gate.host(PAGE).open_turns == 0


async def test_turn_refused_by_the_store_is_told() -> None:
    """Once, whichever way it was asked for."""
    store = Full()
    async with make_gate(store=store, delay=0.0) as gate:
        await visit(gate)
        heard = listen(gate)
        store.is_full = True
        error, _ = await refusal(visit(gate), StoreError)
        store.is_full = False
        await settle()
    assert isinstance(error, StoreError)
    assert heard == [StoreLost(at=0.0, error=error), TurnRefused(at=0.0, url=PAGE, error=error)]


async def test_turn_that_the_store_fails_at_its_end_has_ended() -> None:
    """Who counts what began and what ended comes to the same number; who ends it hears of the store."""
    store = Full()
    async with make_gate(store=store, delay=0.0) as gate:
        await visit(gate)
        heard = listen(gate)
        turn = await gate.turn(PAGE).__aenter__()
        turn.report(status=200)
        store.is_full = True
        with pytest.raises(StoreError, match="make room"):
            turn.end()
        store.is_full = False
        turn.end()
        await settle()
        assert gate.host(PAGE).open_turns == 0
    assert kinds(heard) == ["TurnBegan", "StoreLost", "TurnEnded"]


async def test_wait_of_a_turn_had_again_is_the_last_one() -> None:
    """From asking again to having it again."""
    async with make_gate(delay=3.0) as gate:
        await visit(gate)
        async with gate.turn(PAGE) as turn:
            assert (turn.waited, now()) == (3.0, 6.0)
            await asyncio.sleep(1.0)
            await turn.again()
            assert (turn.waited, now()) == (3.0, 10.0)
            await asyncio.sleep(5.0)
            assert turn.waited == 3.0


async def test_turn_that_is_not_had_again_keeps_what_it_waited() -> None:
    """Who is refused the second time asks what the first took, and is told no time before it."""
    async with make_gate(delay=3.0) as gate, gate.turn(PAGE) as turn:
        await asyncio.sleep(1.0)
        gate.block("a.example", HOUR)
        with pytest.raises(HostUnavailableError):
            await turn.again()
        assert turn.waited == 3.0


async def test_host_forgiven_by_its_first_good_answer() -> None:
    """Blocks that another process saw count no more half an hour after the last, once there is a good answer."""
    store = MemoryStore()
    async with make_gate(store=store, delay=0.0) as blocked:
        await visit(blocked, status=429)
    async with make_gate(store=store, delay=0.0) as gate:
        await sleep_until(HOUR)
        assert gate.host(PAGE).failures == 1
        await visit(gate, status=200)
        assert gate.host(PAGE).failures == 0


async def test_recovery_is_told_though_the_store_forgot_the_block() -> None:
    """Who heard of the block hears of its end, whatever the host's state says by then."""
    async with make_gate(store=Forgetful(), delay=0.0) as gate:
        await gate.allowed(PAGE)
        heard = listen(gate)
        async with gate.turn(PAGE) as turn:
            turn.report(status=429, headers={"Retry-After": "100"})
        await sleep_until(HOUR)
        assert gate.host(PAGE).failures == 0
        await visit(gate, status=200)
        await settle()
    assert [event for event in heard if isinstance(event, HostBlocked | HostRecovered)] == [
        HostBlocked(at=0.0, host=HOST, until_at=100.0, cause=BlockCause.ASKED),
        HostRecovered(at=HOUR, host=HOST, cause=BlockCause.ASKED),
    ]


async def test_latency_is_the_time_to_the_first_status() -> None:
    """What is reported once more, when the body has been read, does not make the host look slow."""
    async with make_gate(scripted(latency=0.25), delay=0.0) as gate:
        async with gate.turn(PAGE) as turn:
            await asyncio.sleep(0.25)
            turn.report(status=200)
            await asyncio.sleep(8.0)
            turn.report(status=200, bytes=1024)
        assert gate.host(PAGE).latency == 0.25


async def test_refusal_is_the_rules_though_the_pace_has_no_name() -> None:
    """A page that nobody may have is not asked what it is paced with, whichever way its URL is spelt."""

    def named(url: str) -> str:
        return "" if "/private" in url else HOST

    async with make_gate(everywhere(UNASKING), delay=0.0, pace_key=named) as gate:
        await visit(gate)
        for url in (f"{SITE}/private", f"{SITE}/private#part"):
            await refusal(visit(gate, url), DisallowedError)


class Busy(VirtualClock):
    """A clock that goes on while something is done."""

    def __init__(self) -> None:
        self.spent = 0.0

    def now(self) -> float:
        """The loop's time, and what was spent without it."""
        return super().now() + self.spent

    def spend(self, _rules: Rules) -> None:
        """Reading rules takes a second."""
        self.spent += 1.0


async def test_reading_rules_is_over_when_a_start_is_counted() -> None:
    """What a large file takes to be read goes off no window of a quota."""
    clock = Busy()
    async with make_gate(clock=clock, delay=0.0, total_rate=(1, 4.0)) as gate:
        await visit(gate)
        await asyncio.sleep(5.0)
        gate.learn(SITE, UNASKING)
        assert gate._engine is not None
        gate._engine.keeper.sites[SITE].rules.tell_when_built(clock.spend)
        starts = []
        for _ in range(2):
            async with gate.turn(PAGE):
                starts.append(clock.now())
    assert clock.spent == 1.0
    assert starts[1] - starts[0] >= 4.0
