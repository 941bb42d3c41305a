"""Several processes on one file, some of which are killed or do not run: each host has one pace."""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pytest
from tests.stores.files import rows

from robotgate import SQLiteStore
from robotgate.clock import SystemClock
from robotgate.stores import HostState
from robotgate.stores.grants import LEASE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from robotgate.stores import Grant, Session

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")

DELAY: Final = 0.2
HOSTS: Final = [f"{number}.example" for number in range(6)]
GRAIN: Final = 2e-6


class Crawler:
    """A gate as small as one can be: visits hosts in turn, and hands each on when it is wanted."""

    def __init__(self, path: str, name: str) -> None:
        self._store = SQLiteStore(path)
        self._name = name
        self._clock = SystemClock()
        self._wanted: set[str] = set()

    async def run(self, visits: int) -> None:
        """Visit every host so many times."""
        async with self._store:
            session = await self._store.session()
            hearing = asyncio.create_task(self._hear(session))
            await asyncio.gather(
                *(self._visit_host(session, host, visits) for host in random.sample(HOSTS, k=len(HOSTS)))
            )
            hearing.cancel()
            await session.aclose()

    async def _hear(self, session: Session) -> None:
        while True:
            for news in await session.news():
                self._wanted |= getattr(news, "keys", frozenset())

    async def _visit_host(self, session: Session, host: str, visits: int) -> None:
        grant: Grant | None = None
        state = HostState()
        for _ in range(visits):
            while True:
                if grant is None or not grant.lease.is_valid():
                    grant = await session.obtain(host)
                    state = grant.state or HostState()
                since = state.last_visit_at
                due_at = max(
                    state.next_allowed_at, grant.not_before_at, 0.0 if since is None else since + DELAY
                )
                wait = due_at - self._clock.now()
                if wait <= 0 and grant.lease.is_valid():
                    break
                await asyncio.sleep(max(wait, 0.0))
            began_at = time.monotonic()
            await asyncio.sleep(random.uniform(0.0, 0.02))
            ended_at = time.monotonic()
            now = self._clock.now()
            state = HostState(last_visit_at=now, next_allowed_at=now + DELAY, visits=state.visits + 1)
            line = json.dumps([self._name, host, began_at, ended_at])
            os.write(1, f"{line}\n".encode())
            if host in self._wanted:
                self._wanted.discard(host)
                session.leave(host, state)
                grant = None
        if grant is not None:
            session.leave(host, state)


@dataclass(frozen=True, slots=True)
class Visit:
    """One request, by the clock that all processes share."""

    crawler: str
    host: str
    began_at: float
    ended_at: float


class Fleet:
    """Crawlers in processes of their own."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "cache.db"
        self._directory = directory
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *, visits: int) -> subprocess.Popen[bytes]:
        """One more."""
        code = (
            "import asyncio, sys; from tests.stores.test_sqlite_processes import Crawler; "
            "asyncio.run(Crawler(sys.argv[1], sys.argv[2]).run(int(sys.argv[3])))"
        )
        with (self._directory / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", code, str(self.path), name, str(visits)], stdout=log
            )
        self.processes[name] = process
        return process

    def visits(self, name: str | None = None) -> list[Visit]:
        """All visits, or those of one, by when they began."""
        logs = self._directory.glob("*.log" if name is None else f"{name}.log")
        lines = (line for log in logs for line in log.read_text().splitlines() if line.endswith("]"))
        return sorted((Visit(*json.loads(line)) for line in lines), key=lambda visit: visit.began_at)

    async def has_visited(self, name: str) -> None:
        """Wait until a crawler has begun."""
        async with asyncio.timeout(60):
            while not self.visits(name):  # noqa: ASYNC110 - of another process there is no event
                await asyncio.sleep(0.02)

    async def end(self) -> None:
        """Wait for all that were not killed."""
        for process in self.processes.values():
            await asyncio.to_thread(process.wait, 60)

    def shortest_gap(self, *, stopped: str | None = None, at: float = math.inf) -> float:
        """Between the end of a visit and the beginning of the next, over all hosts.

        Args:
            stopped: a crawler that was stopped. What it had under way the site has answered, whenever it reads that.
        """
        gaps = []
        for host in HOSTS:
            visits = [visit for visit in self.visits() if visit.host == host]
            if stopped is not None:
                visits = [
                    replace(visit, ended_at=min(visit.ended_at, at + 0.02))
                    if visit.crawler == stopped and visit.began_at < at
                    else visit
                    for visit in visits
                ]
            gaps += [after.began_at - before.ended_at for before, after in pairwise(visits)]
        return min(gaps)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Nobody yet."""
    fleet = Fleet(tmp_path)
    yield fleet
    for process in fleet.processes.values():
        process.kill()
        process.wait()


@pytest.mark.slow
async def test_processes_keep_one_pace_and_share_the_turns(fleet: Fleet) -> None:
    """No gap is short, everybody comes to an end, and nobody waits much longer than the others."""
    for number in range(4):
        fleet.start(f"crawler{number}", visits=5)
    await fleet.end()
    assert [process.returncode for process in fleet.processes.values()] == [0] * 4
    assert len(fleet.visits()) == 4 * 5 * len(HOSTS)
    assert fleet.shortest_gap() >= DELAY - GRAIN
    assert rows(fleet.path, "SELECT count(*) FROM sessions") == [(0,)]
    assert rows(fleet.path, "SELECT count(*) FROM grants") == [(0,)]
    assert rows(fleet.path, "SELECT sum(visits) FROM hosts") == [(4 * 5 * len(HOSTS),)]


@pytest.mark.slow
async def test_killed_again_and_again(fleet: Fleet) -> None:
    """Processes are killed at any moment, and others start in their place: no gap is short, and nobody waits for a dead
    process until its session would expire.
    """
    fleet.start("steady", visits=25)
    killed_at = []
    for life in range(10):
        process = fleet.start(f"life{life}", visits=1000)
        if life % 3:
            await fleet.has_visited(f"life{life}")
        await asyncio.sleep(random.uniform(0.0, 0.3))
        process.kill()
        killed_at.append(time.monotonic())
        await asyncio.to_thread(process.wait)
    await fleet.end()
    assert fleet.processes["steady"].returncode == 0
    assert fleet.shortest_gap() >= DELAY - GRAIN
    assert rows(fleet.path, "PRAGMA integrity_check") == [("ok",)]


@pytest.mark.slow
async def test_stopped_process_loses_its_hosts_and_starts_nothing_when_it_goes_on(fleet: Fleet) -> None:
    """SIGSTOP for longer than the lease: others go on with its hosts, and it asks before its next start."""
    stopped = fleet.start("stopped", visits=12)
    await fleet.has_visited("stopped")
    stopped.send_signal(signal.SIGSTOP)
    stopped_at = time.monotonic()
    fleet.start("other", visits=3)
    await asyncio.to_thread(fleet.processes["other"].wait, 60)
    assert len(fleet.visits("other")) == 3 * len(HOSTS)
    assert fleet.visits("other")[-1].began_at - stopped_at >= LEASE
    fleet.start("third", visits=10)
    await fleet.has_visited("third")
    stopped.send_signal(signal.SIGCONT)
    await fleet.end()
    assert len(fleet.visits("stopped")) == 12 * len(HOSTS)
    assert fleet.shortest_gap(stopped="stopped", at=stopped_at) >= DELAY - GRAIN
