"""A crawl whose URLs URLFrontier keeps: what the sites see, and what the service is told."""

from __future__ import annotations

import asyncio
import math
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from tests.conftest import AGENT, CONTACT
from tests.documents import DOCS, blocks_of
from tests.gate.servers import Held, hang_up
from tests.waiting import settle, until

from robotgate import GateOptions, OptionError, RobotGate, RobotGateError

pytest.importorskip("grpc")
pytest.importorskip("google.protobuf")

import grpc.aio
from tests.integration.frontier_service import Service

from robotgate.integrations.urlfrontier import FrontierError, FrontierPage, URLFrontier

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from tests.conftest import OpenGate
    from tests.gate.servers import Web

NOTED_LATE: Final = 0.005
"""Seconds: the server notes the end of an answer when the client may have it already."""
LEASE: Final = 2


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    """The service, which listens."""
    service = Service()
    await service.start()
    yield service
    await service.stop()


async def visit(page: FrontierPage) -> None:
    """Fetch a page; errors end its block."""
    with suppress(RobotGateError, aiohttp.ClientError, TimeoutError):
        async with page as turn:
            await turn.fetch()


async def crawl(*frontiers: URLFrontier, is_done: Callable[[], bool] | None = None) -> None:
    """To the end, or until something is so."""

    async def work(frontier: URLFrontier) -> None:
        async with frontier, asyncio.TaskGroup() as tasks:
            async for page in frontier:
                tasks.create_task(visit(page))

    async with asyncio.TaskGroup() as workers:
        working = [workers.create_task(work(frontier)) for frontier in frontiers]
        if is_done is not None:
            await until(is_done)
            for task in working:
                task.cancel()


async def first_page(frontier: URLFrontier) -> FrontierPage:
    """No other is begun."""
    async with frontier:
        return await anext(frontier)


def urls(host: str, count: int) -> list[str]:
    """Pages of a host."""
    return [f"http://{host}/{number}" for number in range(count)]


async def test_workers_keep_the_pace_and_fetch_no_page_twice(
    web: Web, service: Service, open_gate: OpenGate, tmp_path: Path
) -> None:
    """Though pages of one worker wait for longer than the lease that was asked for, and the other asks for more.

    Answers are slow, so that the delay that the service is told does not keep these pages back.
    """
    delay, hosts = 0.2, ("a.example", "b.example")
    for host in hosts:
        service.add(host, *urls(host, 8))
        for url in urls(host, 8):
            web.serve(url, takes=0.4)
    workers = [
        URLFrontier(
            await open_gate(delay=delay, store=tmp_path / "store.db"),
            service.target,
            urls_per_queue=8,
            ahead=2,
            lease=4,
        )
        for _ in range(2)
    ]
    await crawl(*workers, is_done=service.is_done)
    pages = [url for host in hosts for url in urls(host, 8)]
    assert web.counts() == dict.fromkeys([*pages, *(f"http://{host}/robots.txt" for host in hosts)], 1)
    assert min(gap for host in hosts for gap in web.gaps(host)) >= delay - NOTED_LATE
    assert {url: dates[-1] for url, dates in service.acknowledged.items()} == dict.fromkeys(pages, 0)
    assert service.delays == dict.fromkeys(hosts, 0)


async def test_outcomes(web: Web, service: Service, open_gate: OpenGate) -> None:
    """Done, refused, told off, out of reach, to be visited again, and not to be told of at all."""
    web.serve("http://a.example/robots.txt", "User-agent: *\nDisallow: /private")
    for busy in ("http://busy.example/now", "https://moved.example/"):
        web.serve(busy, status=503, headers={"Retry-After": "100"})
    web.redirect("http://moved.example/", "https://moved.example/")
    web.handle("http://down.example/robots.txt", hang_up())
    web.handle("http://a.example/broken", hang_up())
    web.handle("http://a.example/once", hang_up(times=1))
    service.add(
        "a.example",
        *(f"http://a.example/{page}" for page in ("page", "private", "again", "error", "broken", "once")),
    )
    service.add("busy.example", "http://busy.example/now", "http://busy.example/later")
    service.add("down.example", "http://down.example/")
    service.add("moved.example", "http://moved.example/")
    service.add(
        "ours", "http://c.example/#top", "http://c.example/", metadata={"depth": ["1"], "naïve": ["é", ""]}
    )
    service.add(
        "junk", "mailto:bot@example.org", "http://[::1", "http://10.0.0.1/", "http://a b/", "//c.example"
    )
    began_at = time.time()

    async def look(page: FrontierPage) -> None:
        with suppress(RobotGateError, aiohttp.ClientError, ZeroDivisionError):
            async with page as turn:
                response = await turn.fetch()
                if "again" in turn.url:
                    page.again_in = 3600
                    page.info.metadata["status"] = [str(response.status)]
                assert "error" not in turn.url or 1 / 0

    gate = await open_gate(max_block=10)
    async with URLFrontier(gate, service.target, max_idle=1) as frontier, asyncio.TaskGroup() as tasks:
        async for page in frontier:
            tasks.create_task(look(page))
    dates = {url: dates[-1] if dates else None for url, dates in service.acknowledged.items()}
    junk = dict.fromkeys(service.queues["junk"], 0)
    soon = {url: date for url, date in dates.items() if date and date > began_at}
    assert {**dates, **soon} == {
        **junk,
        **soon,
        **dict.fromkeys([f"http://a.example/{page}" for page in ("page", "private", "once")], 0),
        **dict.fromkeys(["http://c.example/#top", "http://c.example/"], 0),
        **dict.fromkeys(["http://a.example/error", "http://a.example/broken"]),
    }
    assert {url for url, date in soon.items() if date >= began_at + 100} == {
        "http://busy.example/now",
        "http://busy.example/later",
        "http://moved.example/",
        "http://a.example/again",
    }
    assert "http://down.example/" in soon
    assert service.queues["a.example"]["http://a.example/again"].info["metadata"] == [
        {"key": "status", "value": {"values": ["200"]}}
    ]
    assert service.queues["ours"]["http://c.example/"].info["metadata"] == [
        {"key": "depth", "value": {"values": ["1"]}},
        {"key": "naïve", "value": {"values": ["é", ""]}},
    ]
    assert web.count("http://a.example/private") == 0
    assert web.count("http://c.example/") == 2
    # Not before it asked for, and within its last second.
    assert service.blocks["busy.example"] - began_at >= 98
    assert {key for _, key in service.told} <= {f"{name}.example" for name in ("a", "busy", "down", "moved")}


async def test_a_service_that_restarts(
    web: Web, service: Service, open_gate: OpenGate, tmp_path: Path
) -> None:
    """It has forgotten leases, delays and blocks: it is told them, and no page is fetched twice."""
    for busy in ("http://busy.example/now", "https://moved.example/"):
        web.serve(busy, status=503, headers={"Retry-After": "100"})
    web.redirect("http://moved.example/", "https://moved.example/")
    service.add("busy.example", "http://busy.example/now")
    service.add("a.example", *urls("a.example", 10))
    options = GateOptions(delay=0.3, max_block=10, store=tmp_path / "store.db")
    frontier = URLFrontier(await open_gate(**options), service.target, urls_per_queue=10)
    crawling = asyncio.create_task(crawl(frontier, is_done=service.is_done))
    await web.arrivals(5)
    await until(lambda: len(service.delays) == 2 and "busy.example" in service.blocks)
    told = dict(service.delays), dict(service.blocks)
    await service.stop()
    await web.arrivals(7)
    await service.start()
    await until(lambda: (service.delays, service.blocks) == told)
    other = URLFrontier(await open_gate(**options), service.target, urls_per_queue=10)
    await asyncio.gather(crawling, crawl(other, is_done=service.is_done))
    assert {url: web.count(url) for url in urls("a.example", 10)} == dict.fromkeys(urls("a.example", 10), 1)
    assert {service.acknowledged[url][-1] for url in urls("a.example", 10)} == {0}


async def test_pages_of_a_worker_that_ends_come_again(
    web: Web, service: Service, open_gate: OpenGate
) -> None:
    """Those that were cancelled after their lease, which is renewed until then; those that wait at once."""
    held = Held(web, "http://a.example/0")
    service.add("a.example", *urls("a.example", 3))
    async with URLFrontier(await open_gate(), service.target, lease=LEASE) as frontier:
        page = await anext(frontier)
        visiting = asyncio.create_task(visit(page))
        await held.come.wait()
        known = service.queues["a.example"]["http://a.example/0"]
        await until(lambda: len(known.acknowledged) > 1)
        visiting.cancel()
        await asyncio.wait([visiting])
        cancelled_at = time.time()
    closed_at = time.time()
    held.release()
    due = [service.queues["a.example"][url].due for url in urls("a.example", 3)]
    assert cancelled_at < due[0]
    assert max(due[1:]) <= closed_at + 1
    async with URLFrontier(await open_gate(), service.target, lease=LEASE) as frontier:
        for _ in due:
            await visit(await anext(frontier))
    assert known.handed_at[-1] >= due[0]
    assert {dates[-1] for dates in service.acknowledged.values()} == {0}
    assert [web.count(url) for url in urls("a.example", 3)] == [2, 1, 1]


async def test_a_service_out_of_its_mind(web: Web, service: Service, open_gate: OpenGate) -> None:
    """It sends no messages, more than was asked for, the same again; fails to take an item; and breaks off."""
    info: dict[str, object] = {"url": "http://a.example/", "key": "a.example"}
    flood: list[dict[str, object] | bytes | Exception] = [
        {"url": f"http://b.example/{number}", "key": "b.example"} for number in range(1_000)
    ]
    service.answers = [
        [b"\xff", b"\x0a\x7f", b"\x0a\x01\xff", b"\x0b", b"", info, info],
        [],
        [info, RuntimeError("broken off")],
        [RuntimeError("broken off")],
        flood,
    ]
    service.fails_on = "http://b.example/3"
    await crawl(URLFrontier(await open_gate(), service.target, urls_per_queue=5, queues=2, max_idle=1.5))
    assert web.count("http://a.example/") <= 2
    assert sum(web.count(f"http://b.example/{number}") for number in range(1_000)) == 10
    assert {date for dates in service.acknowledged.values() for date in dates[-1:]} == {0}


async def test_discovered_urls(service: Service, open_gate: OpenGate) -> None:
    """They are sent in batches, with the gate's key; a service that is away holds up who finds more."""
    gate, found = await open_gate(), 0

    def links() -> Iterator[str]:
        nonlocal found
        for found in range(3_000):
            yield f"http://h{found % 100}.example:8080/{found}#part"
        yield from ("mailto:bot@example.org", "http://[::1")

    await service.stop()
    unopened = URLFrontier(gate, service.target)
    for call in (unopened.discover(["http://a.example/"]), anext(unopened)):
        with pytest.raises(FrontierError, match="async with"):
            await call
    async with grpc.aio.insecure_channel(service.target) as channel:
        async with URLFrontier(gate, channel, crawl_id="ours") as frontier:
            with pytest.raises(OptionError, match="urls"):
                await frontier.discover("http://a.example/")
            finding = asyncio.create_task(frontier.discover(links(), metadata={"depth": ["2"]}))
            await settle()
            assert not finding.done()
            assert found <= 2_001
            await service.start()
            await finding
        assert channel.get_state() is grpc.ChannelConnectivity.READY
        with pytest.raises(FrontierError):
            await frontier.discover(["http://a.example/"])
    assert sum(map(len, service.queues.values())) == 3_000
    assert service.queues["h7.example"]["http://h7.example:8080/7"].info == {
        "url": "http://h7.example:8080/7",
        "key": "h7.example",
        "metadata": [{"key": "depth", "value": {"values": ["2"]}}],
        "crawlID": "ours",
    }


async def test_a_service_that_is_not_there(service: Service, open_gate: OpenGate) -> None:
    """The loop ends with an error that names it: at once if it refuses the call, else after `max_outage`."""
    gate = await open_gate()
    await service.stop()
    with pytest.raises(FrontierError, match=f"{service.target}: UNAVAILABLE"):
        await first_page(URLFrontier(gate, service.target, max_outage=0))
    await service.start(knows_calls=False)
    with pytest.raises(FrontierError, match=f"{service.target}: UNIMPLEMENTED"):
        await first_page(URLFrontier(gate, service.target))


async def test_the_program_of_the_docs(web: Web, service: Service, tmp_path: Path) -> None:
    """As it stands, but for addresses, and that it ends: it visits what it finds."""
    site = f"http://127.0.0.1:{web.port}"
    web.serve(f"{site}/", '<a href="/tea">tea</a> <a href="/private">diary</a>')
    web.serve(f"{site}/robots.txt", "User-agent: *\nDisallow: /private")
    (text,) = (block.text for block in blocks_of(DOCS / "engines.md") if "URLFrontier" in block.text)
    for written, here in {
        '"redis://localhost:6379/0"': '"cache.db", delay=0.1, allow_private_addresses=True',
        '"localhost:7071"': f'"{service.target}", max_idle=3',
    }.items():
        assert text.count(written) == 1
        text = text.replace(written, here)
    (tmp_path / "crawl.py").write_text(text, encoding="utf-8")
    ran = await asyncio.create_subprocess_exec(
        sys.executable, "crawl.py", f"{site}/", cwd=tmp_path, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await ran.communicate()
    assert printed.decode().splitlines() == [f"200 {site}/", f"200 {site}/tea"]
    assert {url: dates[-1] for url, dates in service.acknowledged.items()} == {
        f"{site}/{path}": 0 for path in ("", "tea", "private")
    }


async def test_options() -> None:
    """A wrong one is named at once."""
    async with RobotGate(AGENT, contact=CONTACT) as gate:
        for wrong in (
            {"urls_per_queue": 0},
            {"queues": 1.5},
            {"ahead": 0},
            {"lease": 1},
            {"max_idle": -1},
            {"max_outage": math.nan},
        ):
            with pytest.raises(OptionError, match=next(iter(wrong))):
                URLFrontier(gate, "localhost:7071", **wrong)
        with pytest.raises(OptionError, match="target"):
            URLFrontier(gate, "http://localhost:7071")
