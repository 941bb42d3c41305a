"""From three quarters of their lifetime on, the next use refreshes rules in the background; no caller waits for it."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Unpack

import pytest
from tests.clocks import LaterClock
from tests.failing import FailingStore
from tests.paced import DAY, HOUR, MINUTE, ROBOTS, SITE, listen, make_gate, now, sleep_until
from tests.paced import visit as visited_at
from tests.waiting import settle

from robotgate import (
    AccessResult,
    DisallowedError,
    GateOptions,
    HostOverride,
    MemoryStore,
    Origin,
    RobotGate,
    StoreError,
)
from robotgate.events import RobotsFetched, StoreLost
from robotgate.sites import Answer, Failure, Outcome, RobotsRecord
from robotgate.sites.site import refresh_at
from robotgate.testing import ScriptedFetcher

if TYPE_CHECKING:
    from collections.abc import Mapping


ORIGIN: Final = Origin.of(SITE)
URL: Final = f"{SITE}/private/page"
PUBLIC: Final = f"{SITE}/public"
CLOSED: Final = Answer(status=200, body=b"User-agent: *\nDisallow: /private/\n", etag='"v1"')
OPEN: Final = Answer(status=200, body=b"User-agent: *\nDisallow:\n", etag='"v2"')
UNCHANGED: Final = Answer(status=304)
DEAD: Final = Failure("no answer")


def due_at(read_at: float = 0.0, life: float = DAY) -> float:
    """From which millisecond on the site's rules, read at an instant, are asked for again."""
    record = RobotsRecord(
        origin=ORIGIN, outcome=Outcome.SUCCESS, checked_at=read_at, fresh_until_at=read_at + life
    )
    return math.ceil(refresh_at(record, None) * 1000) / 1000


class Site:
    """A site whose robots.txt the test can change, and a gate before it."""

    def __init__(
        self, answer: Answer | Failure = CLOSED, *, takes: float = 0.0, **options: Unpack[GateOptions]
    ) -> None:
        self.answers: dict[str, Answer | Failure] = {ROBOTS: answer}
        self.fetcher = ScriptedFetcher(self.answers, otherwise=Answer(status=404), latency=takes)
        self.gate = make_gate(self.fetcher, **options)

    def becomes(self, answer: Answer | Failure) -> None:
        """From now on it answers so."""
        self.answers[ROBOTS] = answer

    @property
    def asked_at(self) -> list[float]:
        """When its robots.txt was asked for."""
        return [at for at, url in self.fetcher.requests if url == ROBOTS]

    @property
    def conditions(self) -> list[tuple[str | None, str | None]]:
        """If-None-Match and If-Modified-Since of each request for it."""
        return [
            (headers.get("If-None-Match"), headers.get("If-Modified-Since"))
            for (_, url), headers in zip(self.fetcher.requests, self.fetcher.headers, strict=True)
            if url == ROBOTS
        ]


class UnreadableStore(MemoryStore):
    """Loses the way to its records when it is told to."""

    is_lost = False
    loads = 0

    async def load_record(self, origin: Origin) -> RobotsRecord | None:
        """The record, or not."""
        self.loads += 1
        if self.is_lost:
            raise StoreError("the disk is gone: bring it back")
        return await super().load_record(origin)


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
        await gate.allowed(URL)
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
        assert gate.allowed_nowait(URL) is False
        await sleep_until(due + 5.001)
        assert gate.allowed_nowait(URL) is True
        assert gate.host(URL).fresh_until_at == due + 5.0 + DAY
    assert site.asked_at == [0.0, due]


async def ask(gate: RobotGate, door: str) -> bool:
    """What a door says of the page."""
    if door == "allowed_nowait":
        answer = gate.allowed_nowait(URL)
        assert answer is not None
        return answer
    if door == "allowed":
        return await gate.allowed(URL)
    if door == "check":
        return (await gate.check(URL)).allowed
    return b"Disallow: /private/" not in (await gate.robots(URL)).body


async def test_nobody_asks_and_nothing_is_fetched() -> None:
    """A host that is not used any more is not refreshed; `gate.host` is no use."""
    site = Site()
    async with site.gate as gate:
        await gate.allowed(URL)
        await sleep_until(DAY - 1)
        assert gate.host(URL).checked_at == 0.0
        assert gate.wait_time(URL) == 0.0
        assert [view.origin for view in gate.origins()] == [SITE]
        await sleep_until(3 * DAY)
    assert site.asked_at == [0.0]


async def test_it_takes_a_turn_ahead_of_the_pages() -> None:
    """It is a visit, a delay from either neighbour; the page that has its turn already goes first."""
    site = Site(OPEN)
    async with site.gate as gate:
        await gate.allowed(URL)
        await sleep_until(due := due_at())
        pages = await asyncio.gather(*(visited_at(gate, URL) for _ in range(4)))
        assert site.asked_at == [0.0, due + 1.0]
        assert pages == [due, due + 2.0, due + 3.0, due + 4.0]
        assert gate.host(URL).visits == 6


async def test_many_ask_at_once_and_one_request_is_sent() -> None:
    """All of ten thousand are answered at once, by the old rules."""
    site = Site(takes=1.0)
    async with site.gate as gate:
        await gate.allowed(URL)
        site.becomes(OPEN)
        await sleep_until(due := due_at(read_at=1.0))
        answers = await asyncio.gather(*(gate.allowed(URL) for _ in range(10_000)))
        assert (set(answers), now()) == ({False}, due)
        await asyncio.sleep(2.0)
        assert await gate.allowed(URL) is True
    assert site.asked_at == [0.0, due]


async def test_many_ask_at_the_moment_of_expiry() -> None:
    """Once the old rules have ended all wait for the request that is under way, and send no other."""
    site = Site(takes=5.0)
    async with site.gate as gate:
        await gate.allowed(URL)
        site.becomes(OPEN)
        await sleep_until(DAY + 4.0)
        assert gate.allowed_nowait(URL) is False
        await sleep_until(DAY + 5.0)
        assert gate.allowed_nowait(URL) is None
        assert set(await asyncio.gather(*(gate.allowed(URL) for _ in range(10_000)))) == {True}
        assert now() == DAY + 9.0
    assert site.asked_at == [0.0, DAY + 4.0]


async def test_it_is_asked_for_by_what_is_known_of_the_copy() -> None:
    """A 304 begins the copy's life anew, and its validators are sent again the next time."""
    site = Site()
    async with site.gate as gate:
        await gate.allowed(URL)
        site.becomes(UNCHANGED)
        first = due_at()
        second = due_at(read_at=first)
        for instant in (first, second):
            await sleep_until(instant)
            assert await gate.allowed(URL) is False
            await settle()
        verdict = await gate.check(URL)
        assert (verdict.allowed, verdict.stale, verdict.status, verdict.cause) == (False, False, 304, None)
        assert (verdict.fetched_at, verdict.fresh_until_at) == (second, second + DAY)
        assert verdict.rule is not None
    assert site.asked_at == [0.0, first, second]
    assert site.conditions == [(None, None), ('"v1"', None), ('"v1"', None)]


async def test_new_validators_take_the_place_of_the_old() -> None:
    """A new file comes with its own, and one without any is asked for without."""
    dated = Answer(status=200, body=OPEN.body, last_modified="Thu, 01 Jan 1970 00:00:00 GMT")
    site = Site()
    async with site.gate as gate:
        for answer in (CLOSED, OPEN, dated, Answer(status=200), OPEN):
            site.becomes(answer)
            await gate.allowed(URL)
            await asyncio.sleep(DAY)
    assert site.conditions == [
        (None, None),
        ('"v1"', None),
        ('"v2"', None),
        (None, "Thu, 01 Jan 1970 00:00:00 GMT"),
        (None, None),
    ]


@pytest.mark.parametrize("status", [304, 412])
async def test_answer_beside_the_point_has_the_question_put_plainly(status: int) -> None:
    """A 304 about another copy, and a refused condition, are followed by one request without, in its own turn."""
    site = Site()

    class Muddled(ScriptedFetcher):
        """Cannot tell one copy from another."""

        async def fetch(
            self, url: str, *, headers: Mapping[str, str], max_bytes: int, timeout: float
        ) -> Answer | Failure:
            """Refuse every condition."""
            answer = await super().fetch(url, headers=headers, max_bytes=max_bytes, timeout=timeout)
            return Answer(status=status, etag='"v9"') if "If-None-Match" in headers else answer

    site.fetcher = Muddled(site.answers, otherwise=Answer(status=404))
    async with make_gate(site.fetcher) as gate:
        assert await gate.allowed(URL) is False
        site.becomes(OPEN)
        await sleep_until(DAY)
        assert await gate.allowed(URL) is True
        verdict = await gate.check(URL)
        assert (verdict.status, verdict.fetched_at) == (200, DAY + 1.0)
    assert site.asked_at == [0.0, DAY, DAY + 1.0]
    assert site.conditions == [(None, None), ('"v1"', None), (None, None)]


async def test_a_304_nobody_asked_for_is_a_redirect_to_nowhere() -> None:
    """Without validators nothing was asked that it could answer: the rules hold on, and are asked for again soon."""
    site = Site(Answer(status=200, body=CLOSED.body))
    async with site.gate as gate:
        assert await gate.allowed(URL) is False
        site.becomes(UNCHANGED)
        await sleep_until(DAY)
        verdict = await gate.check(URL)
        assert (verdict.allowed, verdict.reason.name) == (False, "DISALLOWED_BY_RULE")
        assert verdict.stale
        assert verdict.access is AccessResult.UNREACHABLE


async def test_failure_before_the_end_leaves_the_rules_as_they_are() -> None:
    """Not stale before they have ended; asked for again after a minute, doubling to an hour; then the table holds."""
    site = Site()
    async with site.gate as gate:
        await gate.allowed(URL)
        site.becomes(DEAD)
        due = due_at()
        while now() < DAY - 1:
            await sleep_until(max(due, now() + 1.0))
            verdict = await gate.check(URL)
            assert (verdict.allowed, verdict.stale, verdict.fetched_at) == (False, False, 0.0)
            assert verdict.fresh_until_at == DAY
            assert verdict.cause in (None, "no answer")
            assert gate.allowed_nowait(PUBLIC) is True
        assert site.asked_at[1] == due
        gaps = [later - sooner for sooner, later in zip(site.asked_at[1:], site.asked_at[2:], strict=False)]
        for gap, least in zip(gaps, [60, 120, 240, 480, 960, 1920], strict=False):
            assert least <= gap <= 1.25 * least + 1
        assert len(gaps) >= 5
        assert not gate.host(URL).stale
        await sleep_until(DAY)
        requests = len(site.asked_at)
        verdict = await gate.check(URL)
        assert (verdict.allowed, verdict.stale, verdict.cause) == (False, True, "no answer")
        assert (gate.host(URL).stale, len(site.asked_at)) == (True, requests + 1)


async def test_stale_rules_end_thirty_days_after_they_were_last_confirmed() -> None:
    """A 304 has the thirty days begin again; what it has confirmed is stale from its end on."""
    site = Site()
    async with site.gate as gate:
        await gate.allowed(URL)
        site.becomes(UNCHANGED)
        await sleep_until(DAY)
        assert await gate.allowed(URL) is False
        site.becomes(DEAD)
        while now() < 31 * DAY - HOUR:
            await asyncio.sleep(HOUR)
            verdict = await gate.check(PUBLIC)
            assert (verdict.allowed, verdict.stale) == (True, now() >= 2 * DAY)
        await sleep_until(31 * DAY)
        verdict = await gate.check(PUBLIC)
        assert (verdict.allowed, verdict.stale, verdict.fetched_at) == (False, False, DAY)
        site.becomes(UNCHANGED)
        await asyncio.sleep(2 * HOUR)
        assert await gate.allowed(PUBLIC) is True
        assert not gate.host(URL).stale


async def test_site_that_answers_again_is_as_new() -> None:
    """The next success forgets the failures."""
    site = Site()
    async with site.gate as gate:
        await gate.allowed(URL)
        site.becomes(DEAD)
        await sleep_until(due_at())
        await gate.allowed(URL)
        await asyncio.sleep(80.0)
        site.becomes(UNCHANGED)
        asked_at = now()
        await gate.allowed(URL)
        await settle()
        record = await gate.robots(URL)
        assert (record.failures, record.failing_since_at, record.cause) == (0, None, None)
        assert (record.fetched_at, record.fresh_until_at) == (asked_at, asked_at + DAY)


@pytest.mark.parametrize("status", [500, 503])
async def test_retry_after_is_obeyed_before_the_end_as_well(status: int) -> None:
    """No request comes sooner than Retry-After says, although the rules are to be renewed."""
    site = Site()
    async with site.gate as gate:
        await gate.allowed(URL)
        site.becomes(Answer(status=status, retry_after=2 * HOUR))
        await sleep_until(due := due_at())
        while now() < due + 3 * HOUR:
            assert await gate.allowed(URL) is False
            await asyncio.sleep(10.0)
    assert site.asked_at[1] == due
    assert 2 * HOUR <= site.asked_at[2] - due <= 2.5 * HOUR + 10


async def test_host_that_blocks_us_is_not_asked() -> None:
    """Its rules wait with its pages; the old ones answer."""
    site = Site()
    async with site.gate as gate:
        await gate.allowed(URL)
        await sleep_until(due_at() - 1)
        async with gate.turn(PUBLIC) as turn:
            turn.report(429, {"Retry-After": "600"})
        blocked_until_at = gate.host(URL).blocked_until_at
        assert blocked_until_at == now() + 600
        while now() < blocked_until_at + 80:
            assert await gate.allowed(URL) is False
            await asyncio.sleep(1.0)
    assert len(site.asked_at) == 2
    assert blocked_until_at <= site.asked_at[1] <= blocked_until_at + 76


async def test_host_that_the_operator_leaves_alone_is_not_asked() -> None:
    """Its rules go on to answer, and nothing is sent."""
    site = Site()
    async with site.gate as gate:
        await gate.allowed(URL)
        gate.block("a.example")
        await sleep_until(due_at())
        assert await gate.allowed(URL) is False
        await sleep_until(DAY - 1)
        assert await gate.allowed(URL) is False
        assert site.asked_at == [0.0]
        gate.unblock("a.example")
        await sleep_until(DAY - 0.5)
        assert await gate.allowed(URL) is False
        assert site.asked_at == [0.0], "it was put off by a minute, and the end comes first"
        await sleep_until(DAY)
        assert await gate.allowed(URL) is False
    assert site.asked_at == [0.0, DAY]


async def test_own_hosts_are_never_asked() -> None:
    """Their robots.txt is not obeyed, so it does not age."""
    site = Site(overrides={"a.example": HostOverride(ignore_robots=True)})
    async with site.gate as gate:
        for _ in range(40):
            assert await gate.allowed(URL) is True
            await asyncio.sleep(HOUR)
        assert (gate.host(URL).fresh_until_at, gate.host(URL).stale) == (None, False)
    assert site.asked_at == []


@pytest.mark.parametrize("status", [401, 404, 418])
async def test_refusals_are_asked_for_again_before_their_end_too(status: int) -> None:
    """What a site without a file says is an answer; new rules hold once they are there."""
    site = Site(Answer(status=status))
    async with site.gate as gate:
        before = await gate.allowed(URL)
        site.becomes(OPEN if status == 401 else CLOSED)
        await sleep_until(due := due_at())
        assert await gate.allowed(URL) is before
        await settle()
        assert await gate.allowed(URL) is not before
    assert site.asked_at == [0.0, due]


async def test_two_gates_on_one_store_ask_once() -> None:
    """The second process uses what the first has stored, confirmed copies and failures alike."""
    store = MemoryStore()
    site, other = Site(store=store, takes=1.0), Site(store=store, takes=1.0)
    async with site.gate as gate, other.gate as neighbour:
        answers = await asyncio.gather(gate.allowed(URL), neighbour.allowed(URL))
        assert set(answers) == {False}
        for answer in (OPEN, UNCHANGED, DEAD):
            for each in (site, other):
                each.becomes(answer)
            before = len(site.asked_at) + len(other.asked_at)
            checked_at = gate.host(URL).checked_at
            assert checked_at is not None
            await sleep_until(due_at(read_at=checked_at))
            await asyncio.gather(gate.allowed(URL), neighbour.allowed(URL))
            await asyncio.sleep(3.0)
            assert len(site.asked_at) + len(other.asked_at) == before + 1
            assert gate.host(URL).checked_at == neighbour.host(URL).checked_at != checked_at
            answers = await asyncio.gather(gate.allowed(URL), neighbour.allowed(URL))
            assert set(answers) == {True}


async def test_next_run_asks_what_the_last_one_knew_about() -> None:
    """A gate that finds an old record answers by it at once, and asks for it again by its validators."""
    store = MemoryStore()
    site = Site(store=store)
    async with site.gate as gate:
        await gate.allowed(URL)
    later = Site(UNCHANGED, store=store, takes=1.0)
    async with later.gate as gate:
        await sleep_until(DAY - 10)
        assert await gate.allowed(URL) is False
        assert (now(), later.asked_at) == (DAY - 10, [])
        assert await gate.allowed(URL) is False
        await asyncio.sleep(2.0)
        assert gate.host(URL).fresh_until_at == 2 * DAY - 9
    assert (later.asked_at, later.conditions) == ([DAY - 10], [('"v1"', None)])


async def test_record_of_the_future_is_asked_for_again() -> None:
    """The clock of the last run was years ahead: what it wrote down would hold as long. The copy is only confirmed."""
    store = MemoryStore()
    site = Site(store=store)
    async with site.gate as gate:
        await sleep_until(10 * DAY)
        await gate.allowed(URL)
        record = await gate.robots(URL)
    later = Site(UNCHANGED, store=store)
    await store.save_record(
        replace(record, checked_at=5000 * DAY, fetched_at=5000 * DAY, fresh_until_at=5001 * DAY)
    )
    await asyncio.sleep(HOUR)
    async with later.gate as gate:
        assert await gate.allowed(URL) is False
        assert gate.host(URL).fresh_until_at == 11 * DAY + HOUR
    assert (later.asked_at, later.conditions) == ([10 * DAY + HOUR], [('"v1"', None)])


async def test_store_that_has_let_go_of_a_record() -> None:
    """The copy in memory is kept: it is confirmed by a request, and applies if that fails."""
    store = ForgetfulStore()
    site = Site(store=store)
    async with site.gate as gate:
        await gate.allowed(URL)
        site.becomes(DEAD)
        await sleep_until(DAY)
        verdict = await gate.check(URL)
        assert (verdict.allowed, verdict.stale) == (False, True)
        site.becomes(UNCHANGED)
        await asyncio.sleep(80.0)
        verdict = await gate.check(URL)
        assert (verdict.allowed, verdict.stale) == (False, False)
    assert site.conditions == [(None, None), ('"v1"', None), ('"v1"', None)]


async def test_what_the_caller_teaches_meanwhile_holds() -> None:
    """He knows better than the answer that is under way."""
    site = Site(takes=5.0)
    async with site.gate as gate:
        await gate.allowed(URL)
        await sleep_until(due_at(read_at=5.0))
        assert await gate.allowed(URL) is False
        await asyncio.sleep(1.0)
        gate.learn(URL, OPEN.body)
        await asyncio.sleep(10.0)
        assert await gate.allowed(URL) is True


async def test_override_meanwhile_loses_nothing() -> None:
    """The options of the host change, and the answer that comes is still taken in."""
    site = Site(takes=5.0)
    async with site.gate as gate:
        await gate.allowed(URL)
        site.becomes(OPEN)
        await sleep_until(due_at(read_at=5.0))
        assert await gate.allowed(URL) is False
        await asyncio.sleep(1.0)
        gate.override("a.example", HostOverride(delay=3.0))
        await asyncio.sleep(10.0)
        assert gate.allowed_nowait(URL) is True
    assert len(site.asked_at) == 2


async def test_learnt_rules_are_asked_for_again_like_any() -> None:
    """Rules that the caller brought age as well; he has no validators, so there are no conditions."""
    site = Site(OPEN)
    async with site.gate as gate:
        gate.learn(URL, CLOSED.body)
        await sleep_until(due := due_at())
        assert gate.allowed_nowait(URL) is False
        await settle()
        assert gate.allowed_nowait(URL) is True
    assert (site.asked_at, site.conditions) == ([due], [(None, None)])


async def test_store_that_cannot_be_read_hurts_nobody() -> None:
    """It is tried again a minute or more after the last time, and told of once; the old rules answer to their end."""
    store = UnreadableStore()
    site = Site(store=store)
    async with site.gate as gate:
        await gate.allowed(URL)
        heard = listen(gate)
        store.is_lost, store.loads = True, 0
        await sleep_until(due_at())
        for _ in range(600):
            assert await gate.allowed(URL) is False
            await asyncio.sleep(1.0)
        assert 8 <= store.loads <= 10
        assert [type(event) for event in heard] == [StoreLost]
        store.is_lost = False
        site.becomes(OPEN)
        await asyncio.sleep(76.0)
        assert await gate.allowed(URL) is False
        await settle()
        assert await gate.allowed(URL) is True
    assert len(site.asked_at) == 2


async def test_store_that_cannot_write_hurts_nobody() -> None:
    """What was read counts, and that it cannot be kept is told once, when that was first seen."""
    site = Site(store=FailingStore("save_record"))
    async with site.gate as gate:
        heard = listen(gate)
        with pytest.raises(StoreError):
            await gate.allowed(URL)
        site.becomes(OPEN)
        await sleep_until(due_at())
        assert await gate.allowed(URL) is False
        await settle()
        assert await gate.allowed(URL) is True
        await settle()
    assert [type(event) for event in heard] == [RobotsFetched, StoreLost, RobotsFetched]


async def test_events_tell_what_came_of_the_attempt() -> None:
    """A refresh in vain is told as one, though the rules are as good as before."""
    site = Site()
    async with site.gate as gate:
        await gate.allowed(URL)
        heard = listen(gate)
        site.becomes(DEAD)
        await sleep_until(due_at())
        await gate.allowed(URL)
        await settle()
    (event,) = heard
    assert isinstance(event, RobotsFetched)
    assert (event.outcome.name, event.status, event.cause, event.stale) == (
        "FAILURE",
        None,
        "no answer",
        False,
    )


class Silent:
    """A `Fetcher` that gives one answer, and then none."""

    def __init__(self, error: Exception | None = None) -> None:
        self.requests = 0
        self.is_broken_off = False
        self._error = error

    async def fetch(
        self, url: str, *, headers: Mapping[str, str], max_bytes: int, timeout: float
    ) -> Answer | Failure:
        """Answer once."""
        del url, headers, max_bytes, timeout
        self.requests += 1
        if self.requests == 1:
            return CLOSED
        if self._error is not None:
            raise self._error
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.is_broken_off = True
            raise
        raise AssertionError


async def test_closing_breaks_it_off() -> None:
    """The gate closes at once, and no error is reported."""
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    fetcher = Silent()
    async with make_gate(fetcher) as gate:
        await gate.allowed(URL)
        await sleep_until(due := due_at())
        assert await gate.allowed(URL) is False
        await settle()
        assert fetcher.requests == 2
    assert now() == due
    assert fetcher.is_broken_off
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
    assert complaints == []


async def test_mistake_in_a_fetcher_is_told_to_the_loop() -> None:
    """No task waits for it, so no task gets the error; the rules still answer."""
    complaints: list[Mapping[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    mistake = RuntimeError("a mistake")
    async with make_gate(Silent(mistake)) as gate:
        await gate.allowed(URL)
        await sleep_until(due_at())
        assert await gate.allowed(URL) is False
        await settle()
        assert await gate.allowed(URL) is False
        await settle()
    assert [context["exception"] for context in complaints] == [mistake]


async def test_page_that_waits_is_judged_by_the_new_rules() -> None:
    """Rules that come while a page waits for its turn bind it when it comes."""
    site = Site(OPEN, delay=10.0)
    async with site.gate as gate:
        await gate.allowed(URL)
        site.becomes(CLOSED)
        await sleep_until(due := due_at())
        first = asyncio.create_task(visited_at(gate, URL))
        await settle()
        with pytest.raises(DisallowedError):
            await visited_at(gate, URL)
        assert (await first, now()) == (due, due + 20.0)
    assert site.asked_at == [0.0, due + 10.0]


def test_question_from_outside_of_the_loop_is_answered() -> None:
    """It has always been; it starts nothing, for there is nothing to start it in."""
    clock = LaterClock()
    gate = RobotGate("ExampleBot/1.0", contact="bot@example.org", clock=clock)
    with asyncio.Runner() as runner:
        runner.run(gate.__aenter__())

        async def teach() -> None:
            gate.learn(URL, CLOSED.body)
            await settle()

        runner.run(teach())
        clock.offset = 23 * HOUR
        assert gate.allowed_nowait(URL) is False
        clock.offset = 24 * HOUR + MINUTE
        assert gate.allowed_nowait(URL) is None
        runner.run(gate.aclose())
