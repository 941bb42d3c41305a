"""Gates in front of a real server: what a crawl does while it is away, and which gates an operator's block reaches."""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING

import pytest
from tests.redis_proxy import Proxy
from tests.waiting import until

from robotgate import HostUnavailableError, RobotGate, StoreError
from robotgate.events import BlockCause, Event, HostBlocked, HostRecovered, StoreLost, StoreRecovered
from robotgate.stores.redis import RedisStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.conftest import OpenGate
    from tests.gate.servers import Web
    from tests.redis_server import RedisServer

    OpenStore = Callable[..., RedisStore]

HOST = "a.example"
ROBOTS = "http://a.example/robots.txt"
PAGE = "http://a.example/page"
PRIVATE = "http://a.example/private"
OTHER = "http://b.example/page"
LEASE = 1.0
"""Seconds after which the server takes a process that is silent to have ended."""
HEARD = 5.0
"""Seconds within which every process has heard of a block."""


@pytest.fixture
async def open_store(server: RedisServer) -> AsyncIterator[OpenStore]:
    """Makes stores, each for a process of its own as far as the server can tell, and closes them after the gates."""
    stores: list[RedisStore] = []
    server.settle()

    def open_one(*, url: str = server.url, patience: float = 30.0) -> RedisStore:
        stores.append(RedisStore(url, patience=patience, lease=LEASE))
        return stores[-1]

    yield open_one
    for store in stores:
        await store.aclose()


def listen(gate: RobotGate, *kinds: type[Event]) -> list[Event]:
    """What happens from now on."""
    heard: list[Event] = []
    gate.subscribe(heard.append, *kinds)
    return heard


async def hears(heard: list[Event], *kinds: type[Event]) -> None:
    """Wait until so many events have come, and check which."""
    await until(lambda: len(heard) >= len(kinds))
    assert [type(event) for event in heard] == list(kinds)


@pytest.mark.slow
async def test_crawl_goes_on_when_the_server_is_back(
    web: Web, open_gate: OpenGate, open_store: OpenStore, server: RedisServer
) -> None:
    """It is killed and comes back empty: rules answer from memory, pages wait, and each way is told once."""
    web.serve(ROBOTS, "User-agent: *\nDisallow: /private\n")
    gate = await open_gate(store=open_store(), delay=0.2)
    assert (await gate.fetch(PAGE)).status == 200
    heard = listen(gate, StoreLost, StoreRecovered)
    server.kill()
    await hears(heard, StoreLost)
    assert await gate.allowed(PAGE)
    assert not await gate.allowed(PRIVATE)
    assert gate.allowed_nowait(PAGE) is True
    assert (await gate.check(PRIVATE)).allowed is False
    await asyncio.sleep(LEASE)
    fetching = [asyncio.ensure_future(gate.fetch(PAGE)) for _ in range(3)]
    unknown = asyncio.create_task(gate.allowed(OTHER))
    done, _ = await asyncio.wait([*fetching, unknown], timeout=1.0)
    assert not done
    assert [type(event) for event in heard] == [StoreLost]
    server.start()
    assert [response.status for response in await asyncio.gather(*fetching)] == [200] * 3
    assert await unknown
    await hears(heard, StoreLost, StoreRecovered)
    assert web.count(ROBOTS) == 1
    assert min(web.gaps(HOST)) >= 0.2


async def test_patience_ends_with_an_error(
    web: Web, open_gate: OpenGate, open_store: OpenStore, server: RedisServer
) -> None:
    """Pages fail then, with an error that names server and remedy; known rules go on, and all recovers by itself."""
    gate = await open_gate(store=open_store(patience=0.5))
    await gate.fetch(PAGE)
    heard = listen(gate, StoreLost, StoreRecovered)
    server.kill()
    await asyncio.sleep(LEASE)
    with pytest.raises(StoreError, match=str(server.port)):
        await gate.fetch(PAGE)
    with pytest.raises(StoreError):
        await gate.allowed(OTHER)
    assert await gate.allowed(PAGE)
    await hears(heard, StoreLost)
    server.start()
    # An idle gate hears of it as well.
    await hears(heard, StoreLost, StoreRecovered)
    assert (await gate.fetch(PAGE)).status == 200
    assert (await gate.fetch(OTHER)).status == 200
    assert [type(event) for event in heard] == [StoreLost, StoreRecovered]
    assert web.count(OTHER) == 1


async def test_gate_that_opens_while_the_server_is_away(
    open_gate: OpenGate, open_store: OpenStore, server: RedisServer
) -> None:
    """It waits for the server as long as the store has patience, and says what is wrong."""
    server.kill()
    with pytest.raises(StoreError, match=str(server.port)):
        await open_gate(store=open_store(patience=0.3))
    opening = asyncio.create_task(open_gate(store=open_store()))
    done, _ = await asyncio.wait([opening], timeout=0.3)
    assert not done
    server.start()
    await (await opening).fetch(PAGE)


async def test_block_reaches_the_fleet(web: Web, open_gate: OpenGate, open_store: OpenStore) -> None:
    """Waiting turns of another process are refused, until any gate lifts the block; each gate emits the events."""
    one, two = [await open_gate(store=open_store()) for _ in range(2)]
    await two.fetch(PAGE)
    heard = listen(two, HostBlocked, HostRecovered)
    one.block("*.example")
    async with asyncio.timeout(HEARD):
        await hears(heard, HostBlocked)
    for fetching in (one.fetch(PAGE), two.fetch(PAGE), two.fetch(OTHER)):
        with pytest.raises(HostUnavailableError):
            await fetching
    heard_by_one = listen(one, HostBlocked, HostRecovered)
    two.unblock("*.example")
    async with asyncio.timeout(HEARD):
        await hears(heard_by_one, HostRecovered)
    await one.fetch(PAGE)
    assert [
        (event.host, event.cause) for event in heard if isinstance(event, HostBlocked | HostRecovered)
    ] == [("*.example", BlockCause.OPERATOR)] * 2
    assert web.count(PAGE) == 2


async def test_process_that_starts_later_visits_nobody_blocked(
    web: Web, open_gate: OpenGate, open_store: OpenStore
) -> None:
    """Not even once, and not for robots.txt either: what stands is heard before the first turn is had."""
    one = await open_gate(store=open_store())
    one.block(HOST)
    one.block("b.example", time.time() + 10_000)
    await one.aclose()
    store = open_store()
    await store.open()
    for late in (await open_gate(store=open_store()), await open_gate(store=store)):
        for url in (PAGE, OTHER):
            with pytest.raises(HostUnavailableError):
                await late.fetch(url)
        assert late.host(PAGE).blocked_by_operator_until_at == math.inf
    assert web.urls == []


async def test_process_that_is_cut_off(
    web: Web, open_gate: OpenGate, open_store: OpenStore, server: RedisServer
) -> None:
    """It obeys its own blocks and sends them when it is back: later changes by others stay, and it learns the rest."""
    async with Proxy(server.port) as proxy:
        url = f"redis://127.0.0.1:{proxy.port}/0"
        one, two = (
            await open_gate(store=open_store(url=url, patience=0.2)),
            await open_gate(store=open_store()),
        )
        await one.fetch(PAGE)
        heard = listen(one, StoreLost, StoreRecovered, HostRecovered)
        heard_by_two = listen(two, HostBlocked)
        proxy.is_refusing = True
        proxy.cut()
        await hears(heard, StoreLost)
        one.block(HOST)
        one.block("b.example")
        with pytest.raises(HostUnavailableError):
            await one.fetch(PAGE)
        # Later by any of the clocks, though the machine be busy.
        await asyncio.sleep(0.5)
        two.unblock(HOST)
        proxy.is_refusing = False
        await hears(heard, StoreLost, StoreRecovered, HostRecovered)
        await hears(heard_by_two, HostBlocked)
        await one.fetch(PAGE)
        for gate in (one, two):
            with pytest.raises(HostUnavailableError):
                await gate.fetch(OTHER)
    assert web.count(PAGE) == 2
