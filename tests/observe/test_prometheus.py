"""The metrics for Prometheus: counted in a crawl of real servers, read as a scrape reads them."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Final

import pytest
from prometheus_client import CollectorRegistry
from tests.failing import LosableStore
from tests.waiting import settle

from robotgate import DisallowedError, HostUnavailableError, MemoryStore, StoreError, TooSoonError
from robotgate.observe import prometheus

if TYPE_CHECKING:
    from tests.conftest import OpenGate
    from tests.gate.servers import Web

    from robotgate import RobotGate

SITE: Final = "http://site.example"


def scraped(registry: CollectorRegistry) -> dict[str, float]:
    """Every sample by its name and labels, as a scrape reads it."""
    return {
        f"{sample.name}{{{','.join(f'{name}={value}' for name, value in sample.labels.items())}}}": sample.value
        for family in registry.collect()
        for sample in family.samples
    }


async def test_what_has_not_happened_yet_is_0(gate: RobotGate) -> None:
    """Prometheus tells no rate of what is not there: an alert for no pages is silent, and a first block is missed."""
    registry = CollectorRegistry()
    with prometheus(gate, registry):
        found = scraped(registry)
    outcomes = [
        f"robotgate_requests_total{{kind=page,outcome={each}}}" for each in ("2xx", "4xx", "5xx", "none")
    ]
    causes = [
        f"robotgate_blocks_total{{cause={each}}}"
        for each in ("asked", "overloaded", "unreachable", "operator")
    ]
    assert [found[name] for name in (*outcomes, *causes)] == [0] * 8


async def test_a_crawl_is_counted(gate: RobotGate, web: Web) -> None:
    """Requests by outcome, refusals by reason, waits and bytes: as many as there were."""
    registry = CollectorRegistry()
    web.serve(f"{SITE}/robots.txt", "User-agent: *\nDisallow: /private")
    web.serve(f"{SITE}/page", b"x" * 1000)
    web.serve(f"{SITE}/gone", status=404)
    with prometheus(gate, registry):
        for page in ("page", "page", "gone"):
            await gate.fetch(f"{SITE}/{page}")
        for _ in range(2):
            with pytest.raises(DisallowedError):
                await gate.fetch(f"{SITE}/private")
        await settle()
        found = scraped(registry)
    assert found["robotgate_requests_total{kind=page,outcome=2xx}"] == 2
    assert found["robotgate_requests_total{kind=page,outcome=4xx}"] == 1
    assert found["robotgate_requests_total{kind=robots,outcome=2xx}"] == 1
    assert found["robotgate_refusals_total{reason=disallowed_by_rule}"] == 2
    assert found["robotgate_read_bytes_total{}"] >= 2000
    assert (
        found["robotgate_request_seconds_count{}"] == found["robotgate_request_seconds_bucket{le=+Inf}"] == 3
    )
    assert found["robotgate_robots_fetch_seconds_count{}"] == 1
    # For robots.txt.
    assert found["robotgate_wait_seconds_count{}"] == 1
    assert found["robotgate_hosts{state=free}"] == 1
    assert found["robotgate_store_up{}"] == 1


async def test_what_goes_on_is_shown(open_gate: OpenGate) -> None:
    """Waiting turns and open requests while there are any."""
    gate, registry = await open_gate(delay=60.0), CollectorRegistry()
    gate.learn(SITE, b"")
    with prometheus(gate, registry):
        async with gate.turn(f"{SITE}/one"):
            waiting = asyncio.create_task(gate.fetch(f"{SITE}/two"))
            await settle()
            found = scraped(registry)
            assert found["robotgate_waiting{}"] == found["robotgate_open_requests{kind=page}"] == 1
            waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        found = scraped(registry)
        assert found["robotgate_waiting{}"] == found["robotgate_open_requests{kind=page}"] == 0


async def test_blocked_hosts_are_told_apart(open_gate: OpenGate, web: Web) -> None:
    """A host that asks for a pause is blocked until that ends, and its refusals have their reasons."""
    gate, registry = await open_gate(max_wait=1.0, max_block=30.0, adaptive=True), CollectorRegistry()
    web.serve(f"{SITE}/busy", status=503, headers={"Retry-After": "20"})
    web.serve("http://other.example/busy", status=429, headers={"Retry-After": "600", "RateLimit": "?"})
    with prometheus(gate, registry):
        await gate.fetch(f"{SITE}/busy")
        await gate.fetch("http://other.example/busy")
        with pytest.raises(TooSoonError):
            await gate.fetch(f"{SITE}/page")
        with pytest.raises(HostUnavailableError):
            await gate.fetch("http://other.example/page")
        await gate.fetch("http://free.example/")
        await settle()
        found = scraped(registry)
    assert found["robotgate_hosts{state=blocked}"] == 2
    assert found["robotgate_hosts{state=free}"] == 1
    assert found["robotgate_blocks_total{cause=asked}"] == 2
    assert (found["robotgate_told_off_total{}"], found["robotgate_hosts_slowed{}"]) == (2, 2)
    assert found["robotgate_malformed_total{}"] == 1
    assert found["robotgate_refusals_total{reason=too_soon}"] == 1
    assert found["robotgate_refusals_total{reason=host_unavailable}"] == 1


async def test_origins_that_are_shut_have_their_cause(gate: RobotGate, web: Web) -> None:
    """The operator's blocks count for the origins that they name, and those that cannot be reached apart: a robots.txt
    that cannot be read is one of these, one that disallows everything is not.
    """
    registry = CollectorRegistry()
    web.serve("http://broken.test/robots.txt", status=500)
    web.serve("http://closed.test/robots.txt", "User-agent: *\nDisallow: /")
    gate.learn(SITE, b"")
    gate.learn("http://other.test", b"")
    with prometheus(gate, registry):
        gate.block("*.example")
        async with gate.turn("http://other.test/") as turn:
            turn.report_unreachable("it is gone")
        for name in ("broken", "closed"):
            await gate.allowed(f"http://{name}.test/")
        await settle()
        found = scraped(registry)
    assert found["robotgate_blocks_total{cause=operator}"] == 1
    assert found["robotgate_hosts{state=blocked}"] == 0
    assert found["robotgate_origins_shut{cause=operator}"] == 1
    assert found["robotgate_origins_shut{cause=unreachable}"] == 2


async def test_block_that_a_store_kept_is_shown(open_gate: OpenGate, web: Web) -> None:
    """After a restart, though no event tells of it again."""
    store, registry = MemoryStore(), CollectorRegistry()
    web.serve(f"{SITE}/busy", status=503, headers={"Retry-After": "20"})
    before = await open_gate(store=store)
    await before.fetch(f"{SITE}/busy")
    await before.aclose()
    gate = await open_gate(store=store)
    with prometheus(gate, registry):
        await gate.allowed(f"{SITE}/page")
        assert scraped(registry)["robotgate_hosts{state=blocked}"] == 1


async def test_lost_store_is_shown(open_gate: OpenGate) -> None:
    """Until it works again."""
    store, registry = LosableStore(), CollectorRegistry()
    gate = await open_gate(store=store)
    with prometheus(gate, registry):
        store.lose(StoreError("the server is gone: start it"))
        await settle()
        assert scraped(registry)["robotgate_store_up{}"] == 0
        store.find()
        await settle()
        assert scraped(registry)["robotgate_store_up{}"] == 1


async def test_hosts_make_no_labels(gate: RobotGate) -> None:
    """However many hosts a crawl has, the number of samples stays, and no sample shows a host."""
    registry = CollectorRegistry()
    with prometheus(gate, registry):
        await gate.fetch("http://host-0.example/")
        await settle()
        before = scraped(registry)
        await asyncio.gather(*(gate.fetch(f"http://host-{number}.example/") for number in range(1, 20)))
        await settle()
        after = scraped(registry)
    assert before.keys() == after.keys()
    assert "example" not in "".join(after)


async def test_scrapes_come_from_another_thread(gate: RobotGate) -> None:
    """As `start_http_server` has it: none fails while the event loop counts."""
    registry, is_over = CollectorRegistry(), threading.Event()

    def scrape() -> None:
        while not is_over.is_set():
            scraped(registry)

    with prometheus(gate, registry):
        scraping = asyncio.create_task(asyncio.to_thread(scrape))
        await asyncio.gather(*(gate.fetch(f"http://host-{number}.example/") for number in range(60)))
        is_over.set()
        await scraping
        assert scraped(registry)["robotgate_requests_total{kind=page,outcome=2xx}"] == 60


async def test_closed_exporter_leaves_nothing(gate: RobotGate) -> None:
    """Its registry is free for the next one, and the gate makes no more events for it."""
    registry = CollectorRegistry()
    one = prometheus(gate, registry)
    with pytest.raises(ValueError, match="Duplicated"):
        prometheus(gate, registry)
    one.close()
    one.close()
    assert scraped(registry) == {}
    with prometheus(gate, registry):
        await gate.fetch(f"{SITE}/")
        # A closed gate may be scraped: the counters stay, and nothing waits any more.
        await gate.aclose()
        found = scraped(registry)
    assert found["robotgate_requests_total{kind=page,outcome=2xx}"] == 1
    assert found["robotgate_waiting{}"] == found["robotgate_open_requests{kind=page}"] == 0
