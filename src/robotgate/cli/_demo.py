"""Runs the demonstration: servers in a process of their own, gates here or in others, and what the servers saw."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from robotgate import Origin
from robotgate.cli._demo_crawl import crawl
from robotgate.cli._demo_fleet import crawl_together
from robotgate.cli._demo_plan import draw_plan
from robotgate.cli._demo_process import DemoError, said, started
from robotgate.cli._demo_sites import Plan, Visit
from robotgate.cli._demo_store import shared_place
from robotgate.cli._progress import Tally, progress

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Mapping

    from rich.console import Console

    from robotgate.cli._demo_store import Place

PLAIN_PERIOD: Final = 2.0
"""Seconds between two lines of progress where there is no terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """Who crawls."""

    workers: int = 1
    """How many processes; with one, and no store, it is this one."""
    store: str | None = None
    """Where they share what they know: a new file, or the URL of a server; None for a file that goes."""

    @property
    def is_fleet(self) -> bool:
        """Whether there is anything to share."""
        return self.workers > 1 or self.store is not None


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
    workers: int = 1
    """How many processes crawled."""


async def run_demo(seed: int, page_count: int, console: Console, cast: Cast) -> Run:
    """Play the sites of a seed and fetch their pages through a gate, or through one in each worker.

    Raises:
        DemoError: the servers or a worker did not start, or died.
        OptionError: the store is none.
        StoreError: the store does not answer.
    """
    plan = draw_plan(seed, page_count)
    if not cast.is_fleet:
        return await _play(plan, page_count, console, cast, None)
    async with shared_place(cast.store) as place:
        return await _play(plan, page_count, console, cast, place)


async def _play(plan: Plan, page_count: int, console: Console, cast: Cast, place: Place | None) -> Run:
    async with _servers(plan.seed, page_count) as servers:
        tally = Tally(total=len(plan.urls))
        for url in plan.urls:
            tally.take(Origin.of(url).host)
        async with progress(console, tally, plain_period=PLAIN_PERIOD):
            if place is None:
                await crawl(plan.urls, servers.ports, tally.finish)
            else:
                await crawl_together(
                    cast.workers,
                    seed=plan.seed,
                    page_count=page_count,
                    ports=servers.ports,
                    store=place,
                    done=tally.finish,
                )
        elapsed = tally.elapsed
        visits, worst_lag = await servers.log()
    return Run(
        plan=plan,
        visits=visits,
        worst_lag=worst_lag,
        tally=tally,
        elapsed=elapsed,
        workers=cast.workers,
    )


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
            raise DemoError("the demonstration's servers died") from error
        return tuple(Visit(**visit) for visit in document["visits"]), float(document["worst_lag"])


@asynccontextmanager
async def _servers(seed: int, page_count: int) -> AsyncIterator[_Servers]:
    async with started("robotgate.cli._demo_servers", str(seed), str(page_count)) as process:
        line = await said(process)
        if not line:
            raise DemoError("the demonstration's servers did not start")
        ports: dict[str, int] = json.loads(line)
        yield _Servers(process, ports)
