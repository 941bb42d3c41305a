"""From three quarters of their lifetime on, the next use refreshes rules in the background; no caller waits for it."""

from __future__ import annotations

import asyncio
import math
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pytest
from tests.clocks import LaterClock
from tests.failing import FailingStore
from tests.gate.virtual.site import CLOSED, DEAD, OPEN, PRIVATE, UNCHANGED, Site
from tests.paced import DAY, HOUR, MINUTE, SITE, kinds, listen, make_gate, now, sleep_until, visit
from tests.waiting import settle

from robotgate import HostOverride, MemoryStore, Origin, RobotGate
from robotgate.events import RobotsFetched
from robotgate.sites import Answer, Failure, Outcome, RobotsRecord
from robotgate.sites.site import refresh_at
from robotgate.testing import ScriptedFetcher

if TYPE_CHECKING:
    from collections.abc import Mapping

PUBLIC: Final = f"{SITE}/public"


def due_at(read_at: float = 0.0, life: float = DAY) -> float:
    """From which millisecond on the site's rules, read at an instant, are asked for again."""
    record = RobotsRecord(
        origin=Origin.of(SITE), outcome=Outcome.SUCCESS, checked_at=read_at, fresh_until_at=read_at + life
    )
    return math.ceil(refresh_at(record, None) * 1000) / 1000


class ForgetfulStore(MemoryStore):
    """Has no room for records."""

    async def load_record(self, origin: Origin) -> RobotsRecord | None:
        """None."""
        del origin
        return None  # It is what the store has, not the lack of an answer.


@pytest.mark.parametrize("door", ["allowed_nowait", "allowed", "check", "robots"])
async def test_old_rules_answer_while_new_ones_are_asked_for(door: str) -> None:
    """At three quarters of the day, at the very question, and not before it; the answer does not wait."""
    site = Site(takes=5.0)
    async with site.gate as gate:
        await gate.allowed(PRIVATE)
        site.becomes(OPEN)
        due = due_at(read_at=5.0)
        await sleep_until(due - 0.001)
        await ask(gate, door)
        await settle()
        assert site.asked_at == [0.0]
        await sleep_until(due)
        assert await ask(gate, door) is False
        assert now() == due
        await settle()
        assert site.asked_at == [0.0, due]
        await sleep_until(due + 4.999)
        assert gate.allowed_nowait(PRIVATE) is False
        await sleep_until(due + 5.001)
        assert gate.allowed_nowait(PRIVATE) is True
        assert gate.host(PRIVATE).fresh_until_at == due + 5.0 + DAY
    assert site.asked_at == [0.0, due]


async def ask(gate: RobotGate, door: str) -> bool:
    """What a door says of the page."""
    if door == "allowed_nowait":
        answer = gate.allowed_nowait(PRIVATE)
        assert answer is not None
        return answer
    if door == "allowed":
        return await gate.allowed(PRIVATE)
    if door == "check":
        return (await gate.check(PRIVATE)).allowed
    return b"Disallow: /private/" not in (await gate.robots(PRIVATE)).body


async def test_nobody_asks_and_nothing_is_fetched() -> None:
    """A host that is not used any more is not refreshed; `gate.host` is no use."""
    site = Site()
    async with site.gate as gate:
        await gate.allowed(PRIVATE)
        await sleep_until(DAY - 1)
        assert gate.host(PRIVATE).checked_at == 0.0
        assert gate.wait_time(PRIVATE) == 0.0
        assert [view.origin for view in gate.origins()] == [SITE]
        await sleep_until(3 * DAY)
    assert site.asked_at == [0.0]


async def test_it_takes_a_turn_ahead_of_the_pages() -> None:
    """It is a visit, a delay from either neighbour; the page that has its turn already goes first."""
    site = Site(OPEN)
    async with site.gate as gate:
        await gate.allowed(PRIVATE)
        await sleep_until(due := due_at())
        pages = await asyncio.gather(*(visit(gate, PRIVATE) for _ in range(4)))
        assert site.asked_at == [0.0, due + 1.0]
        assert pages == [due, due + 2.0, due + 3.0, due + 4.0]
        assert gate.host(PRIVATE).visits == 6


async def test_many_ask_at_the_moment_of_expiry() -> None:
    """Once the old rules have ended all wait for the request that is under way, and send no other."""
    site = Site(takes=5.0)
    async with site.gate as gate:
        await gate.allowed(PRIVATE)
        site.becomes(OPEN)
        await sleep_until(DAY + 4.0)
        assert gate.allowed_nowait(PRIVATE) is False
        await sleep_until(DAY + 5.0)
        assert gate.allowed_nowait(PRIVATE) is None
        assert set(await asyncio.gather(*(gate.allowed(PRIVATE) for _ in range(1000)))) == {True}
        assert now() == DAY + 9.0
    assert site.asked_at == [0.0, DAY + 4.0]


async def test_failure_before_the_end_leaves_the_rules_as_they_are() -> None:
    """They are not stale before they have ended; they are asked for again after a minute, doubling; all is told of."""
    life = 2 * HOUR
    site = Site(Answer(status=200, body=CLOSED.body, cache_control=f"max-age={life:.0f}"))
    async with site.gate as gate:
        await gate.allowed(PRIVATE)
        heard = listen(gate)
        site.becomes(DEAD)
        await sleep_until(due := due_at(life=life))
        while now() < life - 1:
            verdict = await gate.check(PRIVATE)
            assert (verdict.allowed, verdict.stale, verdict.fetched_at) == (False, False, 0.0)
            assert verdict.fresh_until_at == life
            assert verdict.cause in (None, "no answer")
            assert gate.allowed_nowait(PUBLIC) is True
            await asyncio.sleep(1.0)
        assert site.asked_at[1] == due
        gaps = [later - sooner for sooner, later in pairwise(site.asked_at[1:])]
        assert len(gaps) >= 4
        for gap, least in zip(gaps, [60, 120, 240, 480], strict=False):
            assert least <= gap <= 1.25 * least + 1
        assert kinds(heard) == ["RobotsFetched"] * len(site.asked_at[1:])
        assert isinstance(told := heard[0], RobotsFetched)
        assert (told.outcome.name, told.status, told.cause, told.stale) == (
            "FAILURE",
            None,
            "no answer",
            False,
        )
        await sleep_until(life)
        requests = len(site.asked_at)
        verdict = await gate.check(PRIVATE)
        assert (verdict.allowed, verdict.stale, verdict.cause) == (False, True, "no answer")
        assert (gate.host(PRIVATE).stale, len(site.asked_at)) == (True, requests + 1)


async def test_retry_after_is_obeyed_before_the_end_as_well() -> None:
    """No request comes sooner than Retry-After says, although the rules are to be renewed."""
    site = Site()
    async with site.gate as gate:
        await gate.allowed(PRIVATE)
        site.becomes(Answer(status=503, headers={"Retry-After": "7200"}))
        await sleep_until(due := due_at())
        while now() < due + 3 * HOUR:
            assert await gate.allowed(PRIVATE) is False
            await asyncio.sleep(10.0)
    assert site.asked_at[1] == due
    assert 2 * HOUR <= site.asked_at[2] - due <= 2.5 * HOUR + 10


async def test_crawl_delay_of_new_rules_takes_the_place_of_the_old() -> None:
    """A longer one, even over `max_delay`, and none."""

    def delaying(seconds: int) -> Answer:
        body = f"User-agent: *\nCrawl-delay: {seconds}\n".encode()
        return Answer(status=200, body=body, cache_control="max-age=300")

    site = Site(delaying(20))
    async with site.gate as gate:
        assert await visit(gate, PRIVATE) == 20.0
        site.becomes(delaying(2000))
        await asyncio.sleep(300.0)
        verdict = await gate.check(PRIVATE)
        assert (verdict.reason.name, verdict.crawl_delay) == ("DELAY_TOO_LONG", 2000.0)
        site.becomes(OPEN)
        await asyncio.sleep(300.0)
        await gate.allowed(PRIVATE)
        started_at = await visit(gate, PRIVATE)
        assert await visit(gate, PRIVATE) == started_at + 1.0


async def test_host_that_blocks_us_is_not_asked() -> None:
    """Its rules wait with its pages; the old ones answer."""
    site = Site()
    async with site.gate as gate:
        await gate.allowed(PRIVATE)
        await sleep_until(due_at() - 1)
        await visit(gate, PUBLIC, status=429, headers={"Retry-After": "600"})
        blocked_until_at = gate.host(PRIVATE).blocked_until_at
        assert blocked_until_at == now() + 600
        while now() < blocked_until_at + 80:
            assert await gate.allowed(PRIVATE) is False
            await asyncio.sleep(1.0)
    assert len(site.asked_at) == 2
    assert blocked_until_at <= site.asked_at[1] <= blocked_until_at + 76


async def test_two_gates_on_one_store_ask_once() -> None:
    """The second process uses what the first has stored, confirmed copies and failures alike."""
    store = MemoryStore()
    site, other = Site(store=store, takes=1.0), Site(store=store, takes=1.0)
    async with site.gate as gate, other.gate as neighbour:
        answers = await asyncio.gather(gate.allowed(PRIVATE), neighbour.allowed(PRIVATE))
        assert set(answers) == {False}
        for answer in (OPEN, UNCHANGED, DEAD):
            for each in (site, other):
                each.becomes(answer)
            before = len(site.asked_at) + len(other.asked_at)
            checked_at = gate.host(PRIVATE).checked_at
            assert checked_at is not None
            await sleep_until(due_at(read_at=checked_at))
            await asyncio.gather(gate.allowed(PRIVATE), neighbour.allowed(PRIVATE))
            await asyncio.sleep(3.0)
            assert len(site.asked_at) + len(other.asked_at) == before + 1
            assert gate.host(PRIVATE).checked_at == neighbour.host(PRIVATE).checked_at != checked_at
            answers = await asyncio.gather(gate.allowed(PRIVATE), neighbour.allowed(PRIVATE))
            assert set(answers) == {True}


async def test_next_run_asks_what_the_last_one_knew_about() -> None:
    """A gate that finds an old record answers by it at once, and asks for it again by its validators."""
    store = MemoryStore()
    site = Site(store=store)
    async with site.gate as gate:
        await gate.allowed(PRIVATE)
    later = Site(UNCHANGED, store=store, takes=1.0)
    async with later.gate as gate:
        await sleep_until(DAY - 10)
        assert await gate.allowed(PRIVATE) is False
        assert (now(), later.asked_at) == (DAY - 10, [])
        assert await gate.allowed(PRIVATE) is False
        await asyncio.sleep(2.0)
        assert gate.host(PRIVATE).fresh_until_at == 2 * DAY - 9
    assert (later.asked_at, later.conditions) == ([DAY - 10], ['"v1"'])


async def test_store_that_has_let_go_of_a_record() -> None:
    """The copy in memory is kept: it is confirmed by a request, and applies if that fails."""
    store = ForgetfulStore()
    site = Site(store=store)
    async with site.gate as gate:
        await gate.allowed(PRIVATE)
        site.becomes(DEAD)
        await sleep_until(DAY)
        verdict = await gate.check(PRIVATE)
        assert (verdict.allowed, verdict.stale) == (False, True)
        site.becomes(UNCHANGED)
        await asyncio.sleep(80.0)
        verdict = await gate.check(PRIVATE)
        assert (verdict.allowed, verdict.stale) == (False, False)
    assert site.conditions == [None, '"v1"', '"v1"']


async def test_override_meanwhile_loses_nothing() -> None:
    """The options of the host change, and the answer that comes is still taken in."""
    site = Site(takes=5.0)
    async with site.gate as gate:
        await gate.allowed(PRIVATE)
        site.becomes(OPEN)
        await sleep_until(due_at(read_at=5.0))
        assert await gate.allowed(PRIVATE) is False
        await asyncio.sleep(1.0)
        gate.override("a.example", HostOverride(delay=3.0))
        await asyncio.sleep(10.0)
        assert gate.allowed_nowait(PRIVATE) is True
    assert len(site.asked_at) == 2


async def test_learnt_rules_are_asked_for_again_like_any() -> None:
    """Rules that the caller brought age as well; he has no validators, so there are no conditions."""
    site = Site(OPEN)
    async with site.gate as gate:
        gate.learn(PRIVATE, CLOSED.body)
        await sleep_until(due := due_at())
        assert gate.allowed_nowait(PRIVATE) is False
        await settle()
        assert gate.allowed_nowait(PRIVATE) is True
    assert (site.asked_at, site.conditions) == ([due], [None])


async def test_store_that_cannot_be_read_hurts_nobody() -> None:
    """It is tried again a minute or more after the last time, and told of once; the old rules answer to their end."""
    store = FailingStore()
    site = Site(store=store)
    async with site.gate as gate:
        await gate.allowed(PRIVATE)
        heard = listen(gate)
        store.fails = {"load_record"}
        await sleep_until(due_at())
        for _ in range(600):
            assert await gate.allowed(PRIVATE) is False
            await asyncio.sleep(1.0)
        assert 8 <= len(store.failed) <= 10
        assert kinds(heard) == ["StoreLost"]
        store.recover()
        site.becomes(OPEN)
        await asyncio.sleep(76.0)
        assert await gate.allowed(PRIVATE) is False
        await settle()
        assert await gate.allowed(PRIVATE) is True
    assert len(site.asked_at) == 2


async def test_closing_breaks_it_off() -> None:
    """The gate closes at once, and no error is reported."""
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    site = Site(takes=5.0)
    async with site.gate as gate:
        await gate.allowed(PRIVATE)
        await sleep_until(due := due_at(read_at=5.0))
        assert await gate.allowed(PRIVATE) is False
        await settle()
        assert len(site.asked_at) == 2
    assert now() == due
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert complaints == []


class Mistaken(ScriptedFetcher):
    """A fetcher with a mistake in it, which shows at the second request."""

    mistake = RuntimeError("a mistake")

    async def fetch(
        self, url: str, *, headers: Mapping[str, str], max_bytes: int, timeout: float
    ) -> Answer | Failure:
        """As scripted, once."""
        if self.requests:
            raise self.mistake
        return await super().fetch(url, headers=headers, max_bytes=max_bytes, timeout=timeout)


async def test_mistake_in_a_fetcher_is_told_to_the_loop() -> None:
    """No task waits for it, so no task gets the error; the rules still answer."""
    complaints: list[Mapping[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    async with make_gate(Mistaken({}, otherwise=CLOSED)) as gate:
        await gate.allowed(PRIVATE)
        await sleep_until(due_at())
        for _ in range(2):
            assert await gate.allowed(PRIVATE) is False
            await settle()
    assert [context["exception"] for context in complaints] == [Mistaken.mistake]


def test_question_from_outside_of_the_loop_is_answered() -> None:
    """It has always been; it starts nothing, for there is nothing to start it in."""
    clock = LaterClock()
    gate = RobotGate("ExampleBot/1.0", contact="bot@example.org", clock=clock)
    with asyncio.Runner() as runner:
        runner.run(gate.__aenter__())

        async def teach() -> None:
            gate.learn(PRIVATE, CLOSED.body)
            await settle()

        runner.run(teach())
        clock.offset = 23 * HOUR
        assert gate.allowed_nowait(PRIVATE) is False
        clock.offset = 24 * HOUR + MINUTE
        assert gate.allowed_nowait(PRIVATE) is None
        runner.run(gate.aclose())
