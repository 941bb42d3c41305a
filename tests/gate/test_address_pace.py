"""`address_delay` and `address_exempt` at real servers: gaps are taken there, over all hosts of an address."""

from __future__ import annotations

import asyncio
import socket
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest
from tests.gate.network import Proxy
from tests.gate.servers import LOOPBACK

from robotgate import gated_session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.conftest import OpenGate
    from tests.gate.servers import Web

DELAY: Final = 0.1
SITES: Final = tuple(f"site{number}.example" for number in range(3))
ELSEWHERE: Final = "elsewhere"
"""The names of which each has an address of its own begin with this."""


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that the system's resolver was asked: all others are here."""
    asked: list[str] = []

    def look_up(host: str, port: int, **_: int) -> object:
        asked.append(host)
        address = f"192.0.2.{len(asked)}" if host.startswith(ELSEWHERE) else LOOPBACK
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return asked


def urls(web: Web, hosts: Sequence[str] = SITES) -> list[str]:
    """A page of each host, where the system's names lead."""
    return [f"http://{host}:{web.port}/page" for host in hosts]


def gaps(web: Web) -> list[float]:
    """Seconds from the end of each answer to the next request, whichever their hosts; those for robots.txt too."""
    return [
        later.began_at - visit.ended_at for visit, later in pairwise(web.visits) if visit.ended_at is not None
    ]


async def test_hosts_of_an_address_share_its_pace(web: Web, asked: list[str], open_gate: OpenGate) -> None:
    """Though each host could be visited at once. A name is looked up once for its pace and its connections."""
    gate = await open_gate(session=None, allow_private_addresses=True, address_delay=DELAY)
    await asyncio.gather(*map(gate.fetch, urls(web)))
    assert len(gaps(web)) == 5
    assert min(gaps(web)) >= DELAY
    assert sorted(asked) == list(SITES)


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
    assert len(gaps(web)) == 5
    assert min(gaps(web)) >= DELAY
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
    assert len(gaps(web)) == 5
    assert min(gaps(web)[3:]) >= DELAY


async def test_gated_session_looks_names_up_with_its_gate(
    web: Web, asked: list[str], open_gate: OpenGate
) -> None:
    """What its hosts are paced by is what it connects to."""
    gate = await open_gate(session=None, allow_private_addresses=True, address_delay=DELAY)
    async with gated_session(gate) as session:
        for url in urls(web):
            async with session.get(url):
                pass
    assert min(gaps(web)) >= DELAY
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
