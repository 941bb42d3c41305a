"""What the gate's own session asks the system's resolver, and what it does while that does not answer."""

from __future__ import annotations

import asyncio
import socket
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import OpenGate
    from tests.gate.servers import Web


@dataclass
class System:
    """The system's resolver: every name is here, but the dead ones get no answer until the test is over."""

    let_go: threading.Event = field(default_factory=threading.Event)
    asked: list[str] = field(default_factory=list)

    def look_up(self, host: str, port: int, **_: int) -> object:
        """As `socket.getaddrinfo`."""
        self.asked.append(host)
        if host.startswith("dead"):
            assert self.let_go.wait(10)
            raise socket.gaierror(socket.EAI_AGAIN, "no answer")
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", port))]


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> Iterator[System]:
    """In place of the real one."""
    system = System()
    monkeypatch.setattr(socket, "getaddrinfo", system.look_up)
    yield system
    system.let_go.set()


async def test_dead_names_stall_no_live_one(web: Web, system: System, open_gate: OpenGate) -> None:
    """While two hundred look-ups hang, far more than a pool of threads would have, another site is read."""
    gate = await open_gate(session=None, allow_private_addresses=True)
    dead = [asyncio.create_task(gate.allowed(f"http://dead{n}.example:{web.port}/")) for n in range(200)]
    await until(lambda: len(system.asked) == 200)
    assert (await gate.fetch(f"http://live.example:{web.port}/page")).text == "a page"
    assert not any(task.done() for task in dead)
    system.let_go.set()
    assert not any(await asyncio.gather(*dead))


async def test_name_is_looked_up_once_for_several_connections(
    web: Web, system: System, open_gate: OpenGate
) -> None:
    """That of its robots.txt serves its pages, though none is kept open."""
    origin = f"http://site.example:{web.port}"
    gate = await open_gate(session=None, allow_private_addresses=True, concurrency_per_host=4)
    for page in ("robots.txt", "0", "1", "2", "3"):
        web.serve(f"{origin}/{page}", headers={"Connection": "close"})
    pages = await asyncio.gather(*(gate.fetch(f"{origin}/{number}") for number in range(4)))
    assert [page.status for page in pages] == [200] * 4
    assert system.asked == ["site.example"]
