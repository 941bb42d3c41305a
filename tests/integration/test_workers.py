"""A gate in worker processes, which fork, and whose tasks are plain functions in threads."""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pytest

from robotgate import OptionError, StoreError
from robotgate.integrations.workers import WorkerGate

if TYPE_CHECKING:
    from pathlib import Path

    from tests.gate.servers import Web

DELAY: Final = 0.1
NOTED_LATE: Final = 0.005
"""Seconds: the server notes the end of an answer when another process may have it already."""
FORKING: Final = """\
import os, sys
from robotgate.integrations.workers import WorkerGate

site, store, delay = sys.argv[1:]
gate = WorkerGate(
    "ExampleBot/1.0", contact="bot@example.org", store=store, delay=float(delay), allow_private_addresses=True
)

def visit(page):
    with gate.threadsafe.turn(f"{site}/{page}") as turn:
        assert turn.fetch().status == 200

visit("parent")
for worker in range(2):
    if not os.fork():
        for page in range(3):
            visit(f"{worker}/{page}")
        gate.close()
        os._exit(0)
visit("still")
assert {os.wait()[1], os.wait()[1]} == {0}
gate.close()
gate.close()
"""

OPENING: Final = """\
import os, signal, socket, sys, threading
from contextlib import suppress
from robotgate import StoreError
from robotgate.integrations.workers import WorkerGate

silent = socket.create_server(("127.0.0.1", 0))
store = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
gates = [WorkerGate("ExampleBot/1.0", contact="bot@example.org", store=store) for _ in range(2)]

def open_first():
    with suppress(StoreError):
        gates[0].threadsafe

def end(*_):
    gates[1].close()
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]))

threading.Thread(target=open_first, daemon=True).start()
silent.accept()
if not os.fork():
    gates[0].close()
    os._exit(0)
signal.signal(signal.SIGALRM, end)
threading.Thread(target=lambda: (silent.accept(), os.kill(os.getpid(), signal.SIGALRM)), daemon=True).start()
gates[1].threadsafe
"""


@pytest.mark.skipif(sys.platform == "win32", reason="nothing forks there")
async def test_a_worker_ends_while_its_gate_opens() -> None:
    """It may have forked while a thread opened the gate, or be told to end by a signal: no lock is waited for."""
    pytest.importorskip("redis")
    ran = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "ignore::DeprecationWarning", "-c", OPENING
    )
    try:
        assert await asyncio.wait_for(ran.wait(), 15) == 0
    finally:
        with suppress(ProcessLookupError):
            ran.kill()


@pytest.mark.skipif(sys.platform == "win32", reason="nothing forks there")
async def test_forked_workers_share_a_pace(web: Web, tmp_path: Path) -> None:
    """Each has a gate of its own, also where its parent had one: the file keeps the pace and the rules."""
    site = f"http://127.0.0.1:{web.port}"
    arguments = (
        "-W",
        "ignore::DeprecationWarning",
        "-c",
        FORKING,
        site,
        str(tmp_path / "store.db"),
        str(DELAY),
    )
    ran = await asyncio.create_subprocess_exec(sys.executable, *arguments)
    assert await asyncio.wait_for(ran.wait(), 60) == 0
    pages = [
        "robots.txt",
        "parent",
        "still",
        *(f"{worker}/{page}" for worker in range(2) for page in range(3)),
    ]
    assert web.counts() == dict.fromkeys([f"{site}/{page}" for page in pages], 1)
    assert min(web.gaps("127.0.0.1")) >= DELAY - NOTED_LATE


async def test_threads_of_a_worker_share_a_gate(web: Web) -> None:
    """It is opened once; and once it is closed, the next task opens another."""
    gate = WorkerGate("ExampleBot/1.0", contact="bot@example.org", delay=0, allow_private_addresses=True)
    pages = [f"http://127.0.0.1:{web.port}/{page}" for page in range(8)]

    def crawl() -> None:
        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(lambda url: gate.threadsafe.fetch(url).ok, pages))
        gate.close()

    for rounds in (1, 2):
        await asyncio.to_thread(crawl)
        assert web.counts()[f"http://127.0.0.1:{web.port}/robots.txt"] == rounds


def test_a_gate_that_cannot_be_opened(tmp_path: Path) -> None:
    """A wrong option is told of where the worker starts, a store that cannot be opened in each task that needs it."""
    with pytest.raises(OptionError, match="delay"):
        WorkerGate("ExampleBot/1.0", contact="bot@example.org", delay=-1)
    gate = WorkerGate("ExampleBot/1.0", contact="bot@example.org", store=str(tmp_path))
    for _ in range(2):
        with pytest.raises(StoreError):
            gate.threadsafe.fetch("https://example.org/")
    gate.close()
