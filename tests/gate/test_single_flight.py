"""Each robots.txt is asked for once, however many want it and whatever becomes of them. Counted at the server."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest
from aiohttp import web as aioweb
from tests.failing import FailingStore, LosableStore

from robotgate import (
    AccessResult,
    GateClosedError,
    HostUnavailableError,
    MemoryStore,
    Origin,
    Reason,
    StoreError,
)
from robotgate.sites import Outcome, RobotsRecord

if TYPE_CHECKING:
    import aiohttp
    from tests.conftest import OpenGate
    from tests.gate.servers import Web

    from robotgate import RobotGate

ROBOTS = "http://site.example/robots.txt"
RULES = "User-agent: *\nDisallow: /private"


class GatedAnswer:
    """A robots.txt that is not served before the test says so."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()

    async def __call__(self, _: aioweb.Request) -> aioweb.StreamResponse:
        """Serve it."""
        await self.may_answer.wait()
        return aioweb.Response(text=RULES)


async def test_ten_thousand_tasks_cause_one_request(web: Web, gate: RobotGate) -> None:
    """All tasks ask for one new host at once; its server sees one request."""
    web.serve(ROBOTS, RULES, takes=0.05)
    paths = ("page", "private") * 5_000
    answers = await asyncio.gather(*(gate.allowed(f"http://site.example/{path}") for path in paths))
    assert answers == [path == "page" for path in paths]
    assert web.counts() == {ROBOTS: 1}


async def test_all_doors_share_one_request(web: Web, gate: RobotGate) -> None:
    """It makes no difference what robots.txt is wanted for."""
    web.serve(ROBOTS, f"{RULES}\nSitemap: http://site.example/map.xml", takes=0.05)
    page = "http://site.example/page"
    allowed, verdict, sitemaps, record, response = await asyncio.gather(
        gate.allowed(page), gate.check(page), gate.sitemaps(page), gate.robots(page), gate.fetch(page)
    )
    assert allowed
    assert verdict.allowed
    assert sitemaps == ("http://site.example/map.xml",)
    assert record.status == response.status == 200
    assert web.counts() == {ROBOTS: 1, page: 1}


async def test_second_question_is_answered_from_memory(web: Web, gate: RobotGate) -> None:
    """What was asked once is known for the whole origin."""
    assert await gate.allowed("http://site.example/one")
    assert await gate.allowed("http://site.example/two?three")
    assert web.counts() == {ROBOTS: 1}


async def test_cancelled_first_caller_harms_nobody(web: Web, gate: RobotGate) -> None:
    """The request goes on for the others, although the task that caused it was cancelled."""
    answer = GatedAnswer()
    web.handle(ROBOTS, answer)
    first = asyncio.create_task(gate.allowed("http://site.example/page"))
    await web.arrivals(1)
    others = [asyncio.create_task(gate.allowed("http://site.example/private")) for _ in range(10)]
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    answer.may_answer.set()
    assert await asyncio.gather(*others) == [False] * 10
    assert web.counts() == {ROBOTS: 1}


async def test_last_caller_cancelled_leaves_an_answer(web: Web, gate: RobotGate) -> None:
    """A request under way is worth finishing: the next caller finds its answer."""
    answer = GatedAnswer()
    web.handle(ROBOTS, answer)
    only = asyncio.create_task(gate.allowed("http://site.example/page"))
    await web.arrivals(1)
    only.cancel()
    with pytest.raises(asyncio.CancelledError):
        await only
    answer.may_answer.set()
    assert not await gate.allowed("http://site.example/private")
    assert web.counts() == {ROBOTS: 1}


async def test_time_out_of_one_caller_harms_nobody(web: Web, gate: RobotGate) -> None:
    """A caller with little patience leaves; the patient one is served by the same request."""
    answer = GatedAnswer()
    web.handle(ROBOTS, answer)
    patient = asyncio.create_task(gate.allowed("http://site.example/page"))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(gate.allowed("http://site.example/page"), 0.05)
    answer.may_answer.set()
    assert await patient
    assert web.counts() == {ROBOTS: 1}


async def test_failure_is_shared(web: Web, gate: RobotGate) -> None:
    """A failing server does not get a request for each waiting task."""
    web.serve(ROBOTS, status=500, takes=0.05)
    page = "http://site.example/page"
    verdicts = await asyncio.gather(*(gate.check(page) for _ in range(100)))
    assert {verdict.access for verdict in verdicts} == {AccessResult.UNREACHABLE}
    assert {verdict.reason for verdict in verdicts} == {Reason.ROBOTS_TXT_UNREACHABLE}
    with pytest.raises(HostUnavailableError):
        await gate.fetch(page)
    assert web.counts() == {ROBOTS: 1}


async def test_failure_of_the_store_is_shared(web: Web, open_gate: OpenGate) -> None:
    """A failing store is asked once, and all callers get the reason; the next caller asks it again."""
    store = FailingStore("load_record")
    gate = await open_gate(store=store)
    page = "http://site.example/page"
    failed = await asyncio.gather(*(gate.allowed(page) for _ in range(100)), return_exceptions=True)
    assert {type(error) for error in failed} == {StoreError}
    assert store.calls["load_record"] == 1
    with pytest.raises(StoreError, match="make room"):
        await gate.allowed(page)
    assert store.calls["load_record"] == 2
    assert web.visits == []


async def test_failure_of_the_grant_is_shared(web: Web, open_gate: OpenGate) -> None:
    """A store that cannot say which process may request a robots.txt: no grant, no request."""
    store = LosableStore()
    gate = await open_gate(store=store)
    store.lose(StoreError("the server is gone: start it"))
    store.give_up()
    store.fails.clear()
    page = "http://site.example/page"
    failed = await asyncio.gather(*(gate.allowed(page) for _ in range(100)), return_exceptions=True)
    assert {type(error) for error in failed} == {StoreError}
    assert store.calls["obtain"] == 1
    assert web.visits == []


async def test_fresh_record_needs_no_grant(web: Web, open_gate: OpenGate) -> None:
    """What another process has requested is read without a wait for any other."""
    store, now = LosableStore(), time.time()
    page = "http://site.example/page"
    await store.save_record(
        RobotsRecord(
            origin=Origin.of(page), outcome=Outcome.MISSING, checked_at=now, fresh_until_at=now + 3600.0
        )
    )
    gate = await open_gate(store=store)
    assert await gate.allowed(page)
    assert (store.calls["obtain"], web.visits) == (0, [])


async def test_slow_hosts_are_asked_side_by_side(web: Web, gate: RobotGate) -> None:
    """While none of twenty hosts has answered, all have been asked."""
    hosts = [f"http://slow{number}.example" for number in range(20)]
    may_answer = asyncio.Event()

    async def answer(_: aioweb.Request) -> aioweb.StreamResponse:
        await may_answer.wait()
        return aioweb.Response(text=RULES)

    for host in hosts:
        web.handle(f"{host}/robots.txt", answer)
    asking = [asyncio.create_task(gate.allowed(f"{host}/page")) for host in hosts]
    await web.arrivals(20)
    may_answer.set()
    assert all(await asyncio.gather(*asking))
    assert web.counts() == {f"{host}/robots.txt": 1 for host in hosts}


async def test_slow_host_stalls_nobody_else(web: Web, gate: RobotGate) -> None:
    """While one host does not answer, another is read from the first page to the last."""
    answer = GatedAnswer()
    web.handle(ROBOTS, answer)
    stuck = asyncio.create_task(gate.fetch("http://site.example/page"))
    await web.arrivals(1)
    for number in range(5):
        assert (await gate.fetch(f"http://quick.example/{number}")).status == 200
    assert not stuck.done()
    answer.may_answer.set()
    assert (await stuck).status == 200


@pytest.mark.parametrize("bound", [1, 3])
async def test_robots_concurrency_bounds_requests_at_the_server(
    web: Web, open_gate: OpenGate, bound: int
) -> None:
    """Never more at once than the option says, over all hosts."""
    gate = await open_gate(robots_concurrency=bound)
    hosts = [f"http://host{number}.example" for number in range(9)]
    for host in hosts:
        web.serve(f"{host}/robots.txt", RULES, takes=0.03)
    assert all(await asyncio.gather(*(gate.allowed(f"{host}/page") for host in hosts)))
    assert web.peak() == bound
    assert len(web.visits) == 9


async def test_pages_do_not_take_the_place_of_robots_txt(web: Web, open_gate: OpenGate) -> None:
    """Each has its own bound, so that slow pages leave room to learn the next rules."""
    gate = await open_gate(concurrency=1, robots_concurrency=1)
    answer = GatedAnswer()
    web.handle("http://busy.example/page", answer)
    page = asyncio.create_task(gate.fetch("http://busy.example/page"))
    await web.arrivals(2)
    assert await gate.allowed("http://site.example/")
    answer.may_answer.set()
    assert (await page).status == 200


async def test_two_gates_on_one_store_make_one_request(web: Web, open_gate: OpenGate) -> None:
    """They ask at the same time; one fetches, the other finds the record."""
    store = MemoryStore()
    gates = [await open_gate(store=store), await open_gate(store=store)]
    web.serve(ROBOTS, RULES, takes=0.05)
    answers = await asyncio.gather(
        *(gate.allowed("http://site.example/private") for gate in gates for _ in range(100))
    )
    assert answers == [False] * 200
    assert web.counts() == {ROBOTS: 1}


async def test_gate_opened_later_uses_the_record_of_an_earlier_one(web: Web, open_gate: OpenGate) -> None:
    """What a store remembers outlives the gate that found it out."""
    store = MemoryStore()
    web.serve(ROBOTS, RULES)
    earlier = await open_gate(store=store)
    assert not await earlier.allowed("http://site.example/private")
    await earlier.aclose()
    later = await open_gate(store=store)
    assert not await later.allowed("http://site.example/private")
    assert web.counts() == {ROBOTS: 1}


async def test_closing_one_of_two_gates_on_a_store_harms_not_the_other(web: Web, open_gate: OpenGate) -> None:
    """The lease passes on when its holder is closed."""
    store = MemoryStore()
    one, other = await open_gate(store=store), await open_gate(store=store)
    answer = GatedAnswer()
    web.handle(ROBOTS, answer)
    ours = asyncio.create_task(one.allowed("http://site.example/private"))
    await web.arrivals(1)
    theirs = asyncio.create_task(other.allowed("http://site.example/private"))
    await asyncio.sleep(0)
    await one.aclose()
    with pytest.raises(GateClosedError):
        await ours
    answer.may_answer.set()
    assert not await theirs
    assert web.counts() == {ROBOTS: 2}


async def test_two_gates_on_one_store_share_the_pace(web: Web, open_gate: OpenGate) -> None:
    """What one starts the other sees before it starts: no request comes within the delay after an answer."""
    store = MemoryStore()
    gates = [await open_gate(store=store, delay=0.06), await open_gate(store=store, delay=0.06)]
    await asyncio.gather(*(gates[n % 2].fetch(f"http://site.example/{n}") for n in range(6)))
    gaps = web.gaps("site.example")
    assert len(gaps) == 6
    assert min(gaps) >= 0.06


async def test_two_gates_on_two_stores_know_nothing_of_each_other(
    web: Web, open_gate: OpenGate, session: aiohttp.ClientSession
) -> None:
    """A shared session is no shared memory."""
    gates = [await open_gate(session=session), await open_gate(session=session)]
    for gate in gates:
        assert await gate.allowed("http://site.example/page")
    assert web.counts() == {ROBOTS: 2}


async def test_each_origin_has_its_own(web: Web, gate: RobotGate) -> None:
    """http, https and another port are three origins (RFC 9309 §2.3), each asked once, each with its own rules."""
    web.serve(ROBOTS, "User-agent: *\nDisallow: /one")
    web.serve("https://site.example/robots.txt", "User-agent: *\nDisallow: /two")
    web.serve("http://site.example:8080/robots.txt", "User-agent: *\nDisallow: /three")
    refused = {
        f"{origin}/{path}"
        for origin in ("http://site.example", "https://site.example", "http://site.example:8080")
        for path in ("one", "two", "three")
        if not await gate.allowed(f"{origin}/{path}")
    }
    assert refused == {
        "http://site.example/one",
        "https://site.example/two",
        "http://site.example:8080/three",
    }
    assert set(web.counts().values()) == {1}
