"""Runs the demonstration: servers in a process of their own, a gate here, and a judgement of what the servers saw."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from robotgate import DisallowedError, HostUnavailableError, Origin, RobotGate, TooSoonError
from robotgate.cli._demo_plan import draw_plan
from robotgate.cli._demo_sites import CRAWLER, FLOOR_DELAY, Plan, Visit
from robotgate.cli._progress import Outcome, Tally, progress

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from rich.console import Console

CONTACT: Final = "demo@robotgate.example"
PLAIN_PERIOD: Final = 2.0
"""Seconds between two lines of progress where there is no terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What is left of a demonstration: the plan, and what the servers wrote down."""

    plan: Plan
    visits: tuple[Visit, ...]
    worst_lag: float
    """Seconds by which the servers' own clock readings were late at worst."""
    tally: Tally
    """The crawler's own count."""
    elapsed: float
    """Seconds that the crawl took."""


class ServersError(Exception):
    """The demonstration's servers did not start, or died."""


async def run_demo(seed: int, page_count: int, console: Console) -> Run:
    """Play the sites of a seed and fetch their pages through a gate.

    Raises:
        ServersError: the servers did not start, or died.
    """
    plan = draw_plan(seed, page_count)
    async with _servers(seed, page_count) as servers:
        tally = Tally(total=len(plan.urls))
        async with progress(console, tally, plain_period=PLAIN_PERIOD):
            await _fetch_all(plan, DemoResolver(servers.ports), tally)
        elapsed = tally.elapsed
        visits, worst_lag = await servers.log()
    return Run(plan=plan, visits=visits, worst_lag=worst_lag, tally=tally, elapsed=elapsed)


class DemoResolver(AbstractResolver):
    """Knows the demonstration's names and no others: each port of each is some port of 127.0.0.1."""

    def __init__(self, ports: Mapping[str, int]) -> None:
        self._ports = ports

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The loopback address of a site.

        Raises:
            OSError: there is no such site.
        """
        real_port = self._ports.get(host if port == 80 else f"{host}:{port}")
        if real_port is None:
            raise OSError(f"{host}:{port} is no site of the demonstration")
        return [
            ResolveResult(
                hostname=host,
                host="127.0.0.1",
                port=real_port,
                family=socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
        ]

    async def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True, slots=True)
class _Servers:
    process: asyncio.subprocess.Process
    ports: Mapping[str, int]

    async def log(self) -> tuple[tuple[Visit, ...], float]:
        """End the servers; what they saw, and how late their clock readings were."""
        written, _ = await self.process.communicate(b"")
        try:
            document = json.loads(written)
        except ValueError as error:
            raise ServersError("the demonstration's servers died") from error
        return tuple(Visit(**visit) for visit in document["visits"]), float(document["worst_lag"])


@asynccontextmanager
async def _servers(seed: int, page_count: int) -> AsyncIterator[_Servers]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "robotgate.cli._demo_servers", str(seed), str(page_count)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield _Servers(process, await _ports(process))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _ports(process: asyncio.subprocess.Process) -> Mapping[str, int]:
    line = b"" if process.stdout is None else await process.stdout.readline()
    if not line:
        raise ServersError("the demonstration's servers did not start")
    ports: dict[str, int] = json.loads(line)
    return ports


async def _fetch_all(plan: Plan, resolver: DemoResolver, tally: Tally) -> None:
    connector = aiohttp.TCPConnector(resolver=resolver, limit=0)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        RobotGate(f"{CRAWLER}/1.0", contact=CONTACT, session=session, delay=FLOOR_DELAY) as gate,
        asyncio.TaskGroup() as tasks,
    ):
        for url in plan.urls:
            tally.take(Origin.of(url).host)
            tasks.create_task(_fetch_one(gate, url, tally))


async def _fetch_one(gate: RobotGate, url: str, tally: Tally) -> None:
    outcome = Outcome.FETCHED
    try:
        await gate.fetch(url)
    except DisallowedError:
        outcome = Outcome.BLOCKED
    except TooSoonError:
        outcome = Outcome.TOO_SOON
    except HostUnavailableError:
        outcome = Outcome.UNAVAILABLE
    except (aiohttp.ClientError, TimeoutError):
        outcome = Outcome.FAILED
    tally.finish(Origin.of(url).host, outcome)
