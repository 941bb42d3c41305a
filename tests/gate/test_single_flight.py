"""Each robots.txt is asked for once, however many want it and whatever becomes of them. Counted at the server."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest
from tests.failing import LosableStore
from tests.gate.servers import PAGE, PRIVATE, ROBOTS, RULES, Held

from robotgate import AccessResult, HostUnavailableError, Origin, Reason, StoreError
from robotgate.sites import Outcome, RobotsRecord

if TYPE_CHECKING:
    from tests.conftest import OpenGate
    from tests.gate.servers import Web

    from robotgate import RobotGate


async def test_a_thousand_tasks_cause_one_request(web: Web, gate: RobotGate) -> None:
    """All tasks ask for one new host at once; its server sees one request."""
    web.serve(ROBOTS, RULES, takes=0.05)
    paths = ("page", "private") * 500
    answers = await asyncio.gather(*(gate.allowed(f"http://site.example/{path}") for path in paths))
    assert answers == [path == "page" for path in paths]
    assert web.counts() == {ROBOTS: 1}


async def test_all_doors_share_one_request(web: Web, gate: RobotGate) -> None:
    """It makes no difference what robots.txt is wanted for."""
    web.serve(ROBOTS, f"{RULES}\nSitemap: http://site.example/map.xml", takes=0.05)
    allowed, verdict, sitemaps, record, response = await asyncio.gather(
        gate.allowed(PAGE), gate.check(PAGE), gate.sitemaps(PAGE), gate.robots(PAGE), gate.fetch(PAGE)
    )
    assert allowed
    assert verdict.allowed
    assert sitemaps == ("http://site.example/map.xml",)
    assert record.status == response.status == 200
    assert web.counts() == {ROBOTS: 1, PAGE: 1}


@pytest.mark.parametrize("others", [0, 10], ids=["the only one", "the first"])
async def test_caller_that_leaves_harms_nobody(web: Web, gate: RobotGate, others: int) -> None:
    """The request goes on for those who want its answer, now or next, although its task was cancelled."""
    answer = Held(web, ROBOTS, text=RULES)
    first = asyncio.create_task(gate.allowed(PAGE))
    await web.arrivals(1)
    waiting = [asyncio.create_task(gate.allowed(PRIVATE)) for _ in range(others)]
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    answer.release()
    assert await asyncio.gather(*waiting, gate.allowed(PRIVATE)) == [False] * (others + 1)
    assert web.counts() == {ROBOTS: 1}


async def test_failure_is_shared(web: Web, gate: RobotGate) -> None:
    """A failing server does not get a request for each waiting task."""
    web.serve(ROBOTS, status=500, takes=0.05)
    verdicts = await asyncio.gather(*(gate.check(PAGE) for _ in range(100)))
    assert {verdict.access for verdict in verdicts} == {AccessResult.UNREACHABLE}
    assert {verdict.reason for verdict in verdicts} == {Reason.ROBOTS_TXT_UNREACHABLE}
    with pytest.raises(HostUnavailableError):
        await gate.fetch(PAGE)
    assert web.counts() == {ROBOTS: 1}


@pytest.mark.parametrize("question", ["load_record", "obtain"])
async def test_failure_of_the_store_is_shared(web: Web, open_gate: OpenGate, question: str) -> None:
    """It is asked once for the record, or for the grant of a request, and all callers get the reason; then anew."""
    store = LosableStore()
    gate = await open_gate(store=store)
    store.lose(StoreError("the server is gone: start it"))
    store.give_up()
    store.fails &= {question}
    for asked in (1, 2):
        failed = await asyncio.gather(*(gate.allowed(PAGE) for _ in range(100)), return_exceptions=True)
        assert {type(error) for error in failed} == {StoreError}
        assert store.calls[question] == asked
    assert web.visits == []


async def test_fresh_record_needs_no_grant(web: Web, open_gate: OpenGate) -> None:
    """What another process has requested is read without a wait for any other."""
    store, now = LosableStore(), time.time()
    await store.save_record(
        RobotsRecord(
            origin=Origin.of(PAGE), outcome=Outcome.MISSING, checked_at=now, fresh_until_at=now + 3600.0
        )
    )
    gate = await open_gate(store=store)
    assert await gate.allowed(PAGE)
    assert (store.calls["obtain"], web.visits) == (0, [])


async def test_slow_hosts_are_asked_side_by_side(web: Web, gate: RobotGate) -> None:
    """While none of twenty hosts has answered, all have been asked; and one that answers is read page by page."""
    held = [Held(web, f"http://slow{number}.example/robots.txt") for number in range(20)]
    fetching = [asyncio.ensure_future(gate.fetch(f"http://slow{number}.example/")) for number in range(20)]
    await web.arrivals(20)
    for number in range(5):
        assert (await gate.fetch(f"http://quick.example/{number}")).status == 200
    assert not any(task.done() for task in fetching)
    for each in held:
        each.release()
    assert {response.status for response in await asyncio.gather(*fetching)} == {200}


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
