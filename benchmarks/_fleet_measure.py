"""What `benchmarks.fleet` measures, in processes that begin together: turns that nothing holds back, and a pace."""

from __future__ import annotations

import asyncio
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.redis_server import RedisServer

from benchmarks._client import alone

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.synchronize import Barrier

    from benchmarks._fleet_ways import Turn, Way

TASKS: Final = 200
HOSTS: Final = 1_000
WARM_UP: Final = "warm.site.example"
PATIENCE: Final = 300.0
"""Seconds that processes wait for one another before they begin."""
BACKLOG: Final = "4096"
"""Connections that may wait to be accepted: of 8 processes 200 each at once, of which none should have to come again a
second later.
"""

PACE_HOSTS: Final = 20
PACE_TASKS: Final = 2
"""At each host, in each process."""
PACE_DELAY: Final = 0.1
PACE_SLACK: Final = 0.5
"""Seconds for which all processes go on, so that none runs alone at the end."""
_barriers: list[Barrier] = []
"""This process's, where it is one of several that begin together."""


@dataclass(frozen=True, slots=True)
class Taken:
    """How one process fared with turns that nothing held back."""

    turns: int
    seconds: float
    cpu: float
    waits: list[float]


@dataclass(frozen=True, slots=True)
class Grants:
    """When one process's turns at each host began, on the clock that all processes of the machine share."""

    from_at: float
    by_host: list[list[float]]


def host_name(number: int, process: int = 0) -> str:
    """A host, of a process's own."""
    return f"{number}.{process}.site.example"


async def take_turns(way: Way, url: str, turns: int, process: int, *, hosts: int = HOSTS) -> Taken:
    """So many turns, by 200 tasks, each at the next host."""
    waits: list[float] = []
    left = iter(range(turns))

    async def work(turn: Turn) -> None:
        for number in left:
            asked_at = time.perf_counter()
            async with turn(host_name(number % hosts, process)):
                waits.append(time.perf_counter() - asked_at)

    async def warm_up(turn: Turn, task: int) -> None:
        async with turn(f"{task}.{WARM_UP}"):
            pass

    async with way.open(url, 0.0) as turn:
        # Whoever opens a connection for each task has them by then.
        await asyncio.gather(*(warm_up(turn, task) for task in range(TASKS)))
        await _all_are_ready()
        began, cpu = time.perf_counter(), time.process_time()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(TASKS):
                tasks.create_task(work(turn))
        return Taken(turns, time.perf_counter() - began, time.process_time() - cpu, waits)


async def keep_pace(way: Way, url: str, seconds: float) -> Grants:
    """As many turns as can be had of each host."""
    by_host: list[list[float]] = [[] for _ in range(PACE_HOSTS)]

    async def work(turn: Turn, number: int, until: float) -> None:
        while time.monotonic() < until:
            async with turn(host_name(number)):
                by_host[number].append(time.monotonic())

    async with way.open(url, PACE_DELAY) as turn:
        async with turn(WARM_UP):
            pass
        await _all_are_ready()
        from_at = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            for number in range(PACE_HOSTS * PACE_TASKS):
                until = from_at + seconds + PACE_SLACK
                tasks.create_task(work(turn, number % PACE_HOSTS, until))
    return Grants(from_at, by_host)


async def _all_are_ready() -> None:
    for barrier in _barriers:
        # Should another process have failed, it never comes.
        await asyncio.to_thread(barrier.wait, PATIENCE)


def taken(way: Way, url: str, turns: int, process: int = 0) -> Taken:
    """`take_turns`, in a loop of its own."""
    return asyncio.run(take_turns(way, url, turns, process))


def granted(way: Way, url: str, seconds: float) -> Grants:
    """`keep_pace`, in a loop of its own."""
    return asyncio.run(keep_pace(way, url, seconds))


@contextmanager
def together(processes: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that begin together what they are given next, one thing each."""
    context = get_context("spawn")
    barrier = context.Barrier(processes)
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_meet, initargs=(barrier,)) as pool:
        yield pool


def _meet(barrier: Barrier) -> None:
    _barriers.append(barrier)


@contextmanager
def serving(program: str, **options: str | None) -> Iterator[str]:
    """The URL of an empty server, until the end of the block."""
    with (
        tempfile.TemporaryDirectory() as folder,
        RedisServer(Path(folder), program=program, options={"tcp-backlog": BACKLOG, **options}) as server,
    ):
        yield server.url


def turns_of(program: str, way: Way, turns: int, processes: int) -> list[Taken]:
    """So many processes, and the server among them; one alone is on the last core, and the server on the first."""
    if processes == 1:
        with serving(program, server_cpulist="0") as url:
            return [alone(taken, way, url, turns)]
    with serving(program) as url, together(processes) as pool:
        working = [pool.submit(taken, way, url, turns // processes, process) for process in range(processes)]
        return [each.result() for each in working]


def pace_of(program: str, way: Way, seconds: float, processes: int) -> list[Grants]:
    """So many processes at the same hosts."""
    with serving(program) as url, together(processes) as pool:
        working = [pool.submit(granted, way, url, seconds) for _ in range(processes)]
        return [each.result() for each in working]
