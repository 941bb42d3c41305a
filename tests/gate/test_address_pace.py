"""`address_delay` and `address_exempt` at real servers: gaps are taken there, over all hosts of an address."""

from __future__ import annotations

import asyncio
import socket
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from aiohttp import web as aiohttp_web
from tests.gate.network import Proxy
from tests.gate.servers import LOOPBACK

from robotgate import NestedTurnError, TooSoonError, gated_session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.conftest import OpenGate
    from tests.gate.servers import Visit, Web

DELAY: Final = 0.1
SITES: Final = tuple(f"site{number}.example" for number in range(3))
ELSEWHERE: Final = "elsewhere"
"""The names of which each has an address of its own begin with this."""
ADDRESSES: Final = tuple(f"127.0.0.{number}" for number in range(2, 6))
MANY: Final = {
    f"many{number}.example": [ADDRESSES[number % 4], ADDRESSES[(number // 2) % 4]] for number in range(16)
}
"""Names with one address or two, and names that share one or both of them."""


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that the system's resolver was asked: all others are here."""
    asked: list[str] = []

    def look_up(host: str, port: int, **_: int) -> object:
        asked.append(host)
        found = [f"192.0.2.{len(asked)}"] if host.startswith(ELSEWHERE) else MANY.get(host, [LOOPBACK])
        kind = socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, ""
        return [(*kind, (address, port)) for address in found]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return asked


def urls(web: Web, hosts: Sequence[str] = SITES) -> list[str]:
    """A page of each host, where the system's names lead."""
    return [f"http://{host}:{web.port}/page" for host in hosts]


def gaps(visits: Sequence[Visit]) -> list[float]:
    """Seconds from the end of each answer to the next request, whichever their hosts; those for robots.txt too."""
    return [
        later.began_at - visit.ended_at for visit, later in pairwise(visits) if visit.ended_at is not None
    ]


async def slow(_: aiohttp_web.Request) -> aiohttp_web.Response:
    """A page that takes a while."""
    await asyncio.sleep(0.05)
    return aiohttp_web.Response()


def peak(visits: Sequence[Visit]) -> int:
    """How many requests were open at once."""
    return max(
        sum(other.began_at <= visit.began_at < (other.ended_at or visit.began_at) for other in visits)
        for visit in visits
    )


async def test_hosts_of_an_address_share_its_pace(web: Web, asked: list[str], open_gate: OpenGate) -> None:
    """Though each host could be visited at once. A name is looked up once for its pace and its connections."""
    gate = await open_gate(session=None, allow_private_addresses=True, address_delay=DELAY)
    await asyncio.gather(*map(gate.fetch, urls(web)))
    assert len(gaps(web.visits)) == 5
    assert min(gaps(web.visits)) >= DELAY
    assert sorted(asked) == list(SITES)


async def test_each_address_has_its_pace(web: Web, open_gate: OpenGate) -> None:
    """A name with two is paced by both, whichever its connections are made to; others wait only for their own."""
    await web.listen(*ADDRESSES)
    gate = await open_gate(session=None, allow_private_addresses=True, address_delay=DELAY)
    await asyncio.gather(*map(gate.fetch, urls(web, tuple(MANY)) * 2))
    visits = [web.of_address(address) for address in ADDRESSES]
    assert sum(map(len, visits)) == 48
    assert all(len(each) > 3 and min(gaps(each)) >= DELAY for each in visits)
    # One after the other, all of them would take as long as this.
    assert web.visits[-1].began_at - web.visits[0].began_at < 47 * DELAY


async def test_open_requests_at_an_address_are_bounded(web: Web, open_gate: OpenGate) -> None:
    """Over all of its hosts, robots.txt included; without a delay all that is allowed is used."""
    await web.listen(*ADDRESSES)
    gate = await open_gate(session=None, allow_private_addresses=True, address_concurrency=2)
    pages = urls(web, tuple(MANY))
    for page in pages:
        web.handle(page, slow)
    await asyncio.gather(*map(gate.fetch, pages))
    assert max(peak(web.of_address(address)) for address in ADDRESSES) == 2


async def test_address_tells_when(web: Web, open_gate: OpenGate) -> None:
    """To a task that holds a turn of another host there, to one that cannot wait, and in `wait_time`."""
    one, two, _ = urls(web)
    gate = await open_gate(session=None, allow_private_addresses=True, address_delay=60.0)
    gate.learn(one, b"")
    async with gate.turn(one):
        with pytest.raises(NestedTurnError, match=f"a turn of the address {LOOPBACK}"):
            await gate.fetch(two)
    ended_at = time.monotonic()
    with pytest.raises(TooSoonError) as caught:
        await gate.fetch(two, max_wait=5.0)
    assert 58.0 < caught.value.retry_after <= 60.0
    assert 58.0 < gate.wait_time(two) <= 60.0
    assert time.monotonic() - ended_at < 2.0
    assert web.visits == []


async def test_evicted_hosts_do_not_forget_their_address(web: Web, open_gate: OpenGate) -> None:
    """A gate that has room for one host keeps the delay all the same."""
    gate = await open_gate(session=None, allow_private_addresses=True, address_delay=DELAY, max_hosts=1)
    for url in urls(web):
        await gate.fetch(url)
    assert len(gaps(web.visits)) == 5
    assert min(gaps(web.visits)) >= DELAY


async def test_look_up_does_not_count_as_waiting(web: Web, open_gate: OpenGate) -> None:
    """Who will not wait for a turn has the page of a host that is due, though its address is not known yet."""
    gate = await open_gate(session=None, allow_private_addresses=True, address_delay=DELAY)
    (page, *_) = urls(web)
    gate.learn(page, b"")
    assert (await gate.fetch(page, max_wait=0.0)).status == 200


async def test_exempt_address_has_no_pace(web: Web, open_gate: OpenGate) -> None:
    """Its hosts have their own."""
    gate = await open_gate(
        session=None, allow_private_addresses=True, address_delay=60.0, address_exempt=["127.0.0.0/8"]
    )
    await asyncio.gather(*map(gate.fetch, urls(web)))
    assert len(web.visits) == 6


async def test_session_is_paced_by_where_it_connects_to(
    web: Web, asked: list[str], open_gate: OpenGate
) -> None:
    """One that is passed in has its own resolver, which is asked."""
    gate = await open_gate(address_delay=DELAY)
    await asyncio.gather(*(gate.fetch(f"http://{host}/page") for host in SITES))
    assert len(gaps(web.visits)) == 5
    assert min(gaps(web.visits)) >= DELAY
    assert asked == []


async def test_session_that_connects_elsewhere_is_paced_by_that(web: Web, open_gate: OpenGate) -> None:
    """From the second request to a host on: the gate takes their names for other addresses than the session does."""
    gate = await open_gate(session=None, address_delay=DELAY)
    pages = [f"http://{ELSEWHERE}{number}.example/page" for number in range(3)]
    for page in pages:
        gate.learn(page, b"")
    async with aiohttp.ClientSession(connector=web.connector(), middlewares=[gate.middleware]) as session:
        for page in pages * 2:
            async with session.get(page):
                pass
    assert len(gaps(web.visits)) == 5
    assert min(gaps(web.visits)[3:]) >= DELAY


async def test_gated_session_looks_names_up_with_its_gate(
    web: Web, asked: list[str], open_gate: OpenGate
) -> None:
    """What its hosts are paced by is what it connects to."""
    gate = await open_gate(session=None, allow_private_addresses=True, address_delay=DELAY)
    async with gated_session(gate) as session:
        for url in urls(web):
            async with session.get(url):
                pass
    assert min(gaps(web.visits)) >= DELAY
    assert asked == list(SITES)


async def test_hosts_behind_a_proxy_have_no_address(
    web: Web, asked: list[str], open_gate: OpenGate, caplog: pytest.LogCaptureFixture
) -> None:
    """Not that of the proxy; their names are not looked up, and the log says so once."""
    proxy = Proxy(web)
    await proxy.open()
    gate = await open_gate(session=None, allow_private_addresses=True, address_delay=60.0)
    await asyncio.gather(*(gate.fetch(f"http://{host}/page", proxy=proxy.url) for host in SITES))
    assert len(web.visits) == 6
    assert asked == []
    assert caplog.text.count(f"is requested through the proxy {proxy.url}, so its address is not known") == 1
    await proxy.close()
