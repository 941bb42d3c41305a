"""Hosts that say "slower", by a header, a status or slow answers: the gate finds the speed that they bear."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pytest
from benchmarks.limits_model import AtOnce, Bucket
from tests.paced import (
    OTHER,
    PAGE,
    REFUSED,
    SITE,
    gate_that_knows,
    listen,
    make_gate,
    now,
    scripted,
    sleep_until,
    visit,
)

from robotgate import HostUnavailableError, MemoryStore
from robotgate.events import BlockCause, HostBlocked
from robotgate.sites import Answer

if TYPE_CHECKING:
    from benchmarks.limits_model import Limit

    from robotgate import RobotGate


async def crawl(
    gate: RobotGate,
    limit: Limit,
    *,
    until: float,
    good: list[float],
    off: list[float],
    response: float = 0.004,
    status: int = 200,
) -> None:
    """Visit one host as often as the gate lets us; it answers 429 above its limit, else with a status."""
    while now() < until:
        async with gate.turn(PAGE) as turn:
            takes = limit.takes(now())
            (good if takes else off).append(now())
            await asyncio.sleep(response if takes else 0.004)
            turn.report(status if takes else 429)


@pytest.mark.parametrize(("tasks", "status"), [(1, 200), (3, 200), (1, 404)])
async def test_429_alone_teaches_a_delay(tasks: int, status: int) -> None:
    """Of 5 requests a second that a host allows, nine tenths are made, and one in a hundred is refused.

    So are they where no page is there: a link checker's.
    """
    good, off = list[float](), list[float]()
    limit = Bucket(5, 2)
    async with make_gate(delay=0.02, adaptive=True) as gate, asyncio.TaskGroup() as group:
        for _ in range(tasks):
            group.create_task(crawl(gate, limit, until=120.0, good=good, off=off, status=status))
    warm = [at for at in good if at >= 15]
    assert len(warm) >= 0.9 * 5 * 105
    assert len([at for at in off if at >= 15]) <= 0.01 * len(warm)


async def test_a_slow_host_is_found_at_once() -> None:
    """Of one request in 5 seconds, four fifths are made from the second minute on; its robots.txt counts for none."""
    good, off = list[float](), list[float]()
    async with make_gate(delay=0.02, adaptive=True) as gate:
        await crawl(gate, Bucket(0.2, 1), until=180.0, good=good, off=off)
    assert len([at for at in good if at >= 60]) >= 0.8 * 24
    assert len([at for at in off if at >= 60]) <= 1


async def test_refusals_may_come_before_good_answers() -> None:
    """A host takes two requests at once, each for 0.1 s, and refuses others sooner than it answers those."""
    good, off = list[float](), list[float]()
    limit = AtOnce(2, 0.1)
    async with (
        make_gate(delay=0.02, adaptive=True, concurrency_per_host=8) as gate,
        asyncio.TaskGroup() as group,
    ):
        for _ in range(8):
            group.create_task(crawl(gate, limit, until=120.0, good=good, off=off, response=0.1))
    warm = [at for at in good if at >= 15]
    assert len(warm) >= 0.75 * 20 * 105
    assert len([at for at in off if at >= 15]) <= 0.03 * len(warm)


async def test_gates_share_what_was_learned() -> None:
    """A host's learned delay is handed on with the host, and known after a restart."""
    store, good, off = MemoryStore(), list[float](), list[float]()
    limit = Bucket(5, 2)
    async with (
        make_gate(delay=0.02, adaptive=True, store=store) as one,
        make_gate(delay=0.02, adaptive=True, store=store) as other,
        asyncio.TaskGroup() as group,
    ):
        for gate in (one, other):
            group.create_task(crawl(gate, limit, until=120.0, good=good, off=off))
    warm = [at for at in good if at >= 15]
    assert len(warm) >= 0.8 * 5 * 105
    assert len([at for at in off if at >= 15]) <= 0.03 * len(warm)
    async with make_gate(delay=0.02, adaptive=True, store=store) as later:
        view = await later.known_host(PAGE)
        assert view is not None
        assert 0.15 < view.learned_delay < 0.4
        before = len(off)
        await crawl(later, limit, until=now() + 20.0, good=good, off=off)
        assert len(off) - before <= 2


ASKS: Final[list[tuple[int, dict[str, str], float]]] = [
    (429, {"Retry-After": "30"}, 30.0),
    (429, {"RateLimit": '"daily";r=0;t=200'}, 200.0),
    (429, {"RateLimit": '"burst";r=0;t=5'}, 5.0),
    (200, {"RateLimit": '"default";r=0;t=30'}, 30.0),
    (200, {"RateLimit": "limit=100, remaining=0, reset=30"}, 30.0),
    (200, {"RateLimit-Remaining": "0", "RateLimit-Reset": "30"}, 30.0),
    (200, {"RateLimit": '"default";r=5;t=30'}, 5.0),
    (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "30"}, 30.0),
    (302, {"Retry-After": "3"}, 3.0),
    (502, {"Retry-After": "30"}, 30.0),
    (402, {}, 1.0),
]


@pytest.mark.parametrize("adaptive", [False, True])
async def test_headers_hold_the_whole_host(subtests: pytest.Subtests, *, adaptive: bool) -> None:
    """Any answer may ask for a pause or a spacing. The view says by which header, and until when."""
    async with make_gate(adaptive=adaptive) as gate:
        for number, (status, headers, wait) in enumerate(ASKS):
            site, asked_at = f"http://{number}.example", now()
            gate.learn(site, b"")
            gate.learn(OTHER, b"")
            with subtests.test(status=status, headers=headers):
                await visit(gate, f"{site}/page", status=status, headers=headers)
                view = gate.host(site)
                field = next((name for name in headers if "Reset" not in name), None)
                assert (view.asked_by, view.asked_until_at) == (field, asked_at + wait if field else None)
                assert await visit(gate, f"{site}/other") == pytest.approx(asked_at + wait)
                # Another host has nothing to do with it.
                assert gate.host(OTHER).next_allowed_at <= now()


@pytest.mark.parametrize("headers", [{"Retry-After": "30"}, {"RateLimit": '"default";r=0;t=30'}])
async def test_robots_txt_asks_for_a_pause(headers: dict[str, str]) -> None:
    """What asks for a pause holds the host on any status, that of a robots.txt that is there included."""
    async with make_gate(scripted({SITE: Answer(status=200, headers=headers)})) as gate:
        assert await visit(gate) == 30.0


async def test_quotas_need_not_be_obeyed() -> None:
    """By an option of the gate or of the host. What cannot be read is counted."""
    async with gate_that_knows(SITE, obey_rate_limit_fields=False) as gate:
        await visit(gate, status=200, headers={"RateLimit": '"default";r=0;t=30'})
        assert await visit(gate) == 1.0
    async with make_gate() as gate:
        await visit(gate, status=200, headers={"RateLimit": "what?"})
        assert gate.stats().malformed == 1


async def test_pauses_begin_small_and_grow() -> None:
    """As long as every answer is a 429. A good answer lets the delay come down again."""
    async with gate_that_knows(SITE, adaptive=True) as gate:
        heard = listen(gate, HostBlocked)
        starts = [await visit(gate, status=status) for status in (429, 429, 429, 429, 200, 200)]
        slowed = gate.host(PAGE).learned_delay
        await sleep_until(now() + 3600)
        for _ in range(60):
            await visit(gate, status=200)
        assert slowed >= 2.0
        assert gate.host(PAGE).delay < slowed
    gaps = [later - sooner for sooner, later in pairwise(starts)]
    for gap, pause in zip(gaps, (2, 3, 4.5, 6.75), strict=False):
        assert pause <= gap <= 1.1 * pause + 1e-6
    assert {event.cause for event in heard if isinstance(event, HostBlocked)} == {BlockCause.OVERLOADED}


async def test_pause_over_max_block_refuses_turns() -> None:
    """A quota that is renewed in an hour: the error says when, and by which header."""
    async with make_gate(adaptive=True) as gate:
        await visit(gate, status=200, headers={"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "3600"})
        with pytest.raises(
            HostUnavailableError, match=r"a pause by X-RateLimit-Remaining; try again in 3600 s"
        ):
            await visit(gate, status=200)


async def test_host_comes_back_at_half_the_speed() -> None:
    """After an outage, and by steps to its own speed."""
    async with gate_that_knows(SITE, adaptive=True) as gate:
        await visit(gate, error=REFUSED)
        await visit(gate, status=200)
        assert gate.host(PAGE).delay == 2.0
        for _ in range(20):
            await visit(gate, status=200)
        assert gate.host(PAGE).delay == 1.0


async def test_answers_that_get_slow_slow_the_crawl() -> None:
    """By what they take longer than the fastest one, and only while they do."""
    async with gate_that_knows(SITE, adaptive=True) as gate:
        await visit(gate, takes=0.1, status=200)
        for _ in range(8):
            await visit(gate, takes=4.0, status=200)
        assert 3.0 < gate.host(PAGE).delay < 4.0
        for _ in range(30):
            await visit(gate, takes=0.1, status=200)
        assert gate.host(PAGE).delay == 1.0


async def test_429_for_robots_txt_names_no_header_that_it_lacks() -> None:
    """The event says that the host is overloaded, and the host has asked for nothing."""
    async with make_gate(scripted({SITE: Answer(status=429)})) as gate:
        heard = listen(gate, HostBlocked)
        with pytest.raises(HostUnavailableError):
            await visit(gate)
        await asyncio.sleep(0)
        assert gate.host(PAGE).asked_by is None
    (event,) = heard
    assert isinstance(event, HostBlocked)
    assert (event.cause, event.detail) == (BlockCause.OVERLOADED, None)


async def test_what_another_process_learned_comes_down_again() -> None:
    """A gate that was never told off itself lowers a delay that it has from the store."""
    store, good, off = MemoryStore(), list[float](), list[float]()
    async with make_gate(delay=0.1, adaptive=True, store=store) as gate:
        await crawl(gate, Bucket(1, 1), until=30.0, good=good, off=off)
    async with make_gate(delay=0.1, adaptive=True, store=store) as later:
        await crawl(later, Bucket(1e9, 1), until=200.0, good=good, off=off)
        assert later.host(PAGE).delay == 0.1


async def test_one_burst_tells_off_once() -> None:
    """Answers to requests that were sent before the first 429 are the same incident, whatever comes between."""
    delays = list[float]()
    for statuses in ([429], [429, 200, 429, 200, 429]):
        async with (
            gate_that_knows(SITE, adaptive=True, concurrency_per_host=8, delay=0.1) as gate,
            asyncio.TaskGroup() as group,
        ):
            for number, status in enumerate(statuses):
                group.create_task(visit(gate, takes=2.0 + 0.2 * number, status=status))
            await asyncio.sleep(10.0)
            delays.append(gate.host(PAGE).learned_delay)
    assert delays[0] == delays[1]


async def test_learned_delay_keeps_to_max_delay() -> None:
    """Also where a store knows a longer one."""
    store = MemoryStore()
    async with make_gate(adaptive=True, delay=5.0, store=store) as gate:
        for status in (429, 200):
            await visit(gate, status=status)
        assert gate.host(PAGE).delay > 10.0
    async with make_gate(adaptive=True, delay=5.0, max_delay=6.0, store=store) as later:
        await visit(later, status=200)
        assert later.host(PAGE).delay == 6.0


async def test_slow_pages_are_not_compared_with_robots_txt() -> None:
    """A host whose pages take their time has always been so."""
    async with make_gate(scripted({SITE: ""}, latency=0.02), adaptive=True) as gate:
        for _ in range(8):
            await visit(gate, takes=1.5, status=200)
        assert gate.host(PAGE).learned_delay == 0.0


async def test_one_slow_answer_at_most_doubles_the_delay() -> None:
    """And quick ones after it do not raise it further."""
    async with gate_that_knows(SITE, adaptive=True) as gate:
        await visit(gate, takes=0.1, status=200)
        await visit(gate, takes=50.0, status=200)
        for _ in range(3):
            assert gate.host(PAGE).delay == 2.0
            await visit(gate, takes=0.1, status=200)


async def test_after_a_long_pause_a_host_comes_back_slowly() -> None:
    """At half the speed, as after an outage: what it bears may have changed meanwhile."""
    good, off = list[float](), list[float]()
    async with make_gate(delay=0.02, adaptive=True) as gate:
        await crawl(gate, Bucket(5, 2), until=60.0, good=good, off=off)
        before = gate.host(PAGE).delay
        await visit(gate, status=429, headers={"Retry-After": "300"})
        assert gate.host(PAGE).delay == pytest.approx(2 * before)
