"""Calls alone: a script that does nothing, run by `RedisStore`'s own way to the server, and by redis-py's pool.

A gate calls scripts that do something, to be granted hosts and to hand them on; this is what a call costs by itself.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha1
from typing import TYPE_CHECKING, Final, TypeAlias

from redis.asyncio import ConnectionPool, Redis

from benchmarks._client import alone
from benchmarks._fleet_bench import in_rounds
from benchmarks._fleet_measure import TASKS, WARM_UP, serving
from benchmarks._fleet_ways import POOL
from benchmarks._report import Column, Findings, Goal, Row, Table
from robotgate.stores.redis.client import client_of
from robotgate.stores.redis.link import Link
from robotgate.stores.redis.messages import Keys

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from benchmarks._fleet_bench import Bench
    from benchmarks._told import Values

    Call: TypeAlias = Callable[[str], Awaitable[object]]

NOTHING: Final = b"local r = {} for i = 2, #ARGV do r[i - 1] = '' end return r"
PATIENCE: Final = 30.0


class IdleLink(Link):
    """The way to a script that does nothing."""

    script = NOTHING


@asynccontextmanager
async def by_link(url: str) -> AsyncIterator[Call]:
    """As the store calls: calls that are made in one turn of the event loop travel together."""
    async with client_of(url) as client:
        link = IdleLink(client, Keys("", 1), settings=b"", patience=PATIENCE)
        yield lambda _: link.call(0, bytes)
        await link.aclose()


@asynccontextmanager
async def by_pool(url: str) -> AsyncIterator[Call]:
    """A connection of redis-py's pool for each call."""
    pool = ConnectionPool.from_url(url, **POOL)
    async with Redis(connection_pool=pool) as client:
        await client.script_load(NOTHING)
        yield lambda host: client.evalsha(sha1(NOTHING, usedforsecurity=False).hexdigest(), 1, host)
    await pool.aclose()


@dataclass(frozen=True, slots=True)
class CallWay:
    """One line of a report."""

    name: str
    open: Callable[[str], AbstractAsyncContextManager[Call]]


BY_LINK: Final = CallWay("`RedisStore`'s way to the server", by_link)
BY_POOL: Final = CallWay("redis-py, an EVALSHA a call", by_pool)


def calls_of(program: str, way: CallWay, count: int) -> Values:
    """So many calls by 200 tasks of one process, which has the last core; the server has the first."""
    with serving(program, server_cpulist="0") as url:
        return alone(_called, way, url, count)


def _called(way: CallWay, url: str, count: int) -> Values:
    return asyncio.run(_call_all(way, url, count))


async def _call_all(way: CallWay, url: str, count: int) -> Values:
    left = iter(range(count))
    async with way.open(url) as call:

        async def work() -> None:
            for number in left:
                await call(str(number))

        # Whoever opens a connection for each task has them by then.
        await asyncio.gather(*(call(f"{task}.{WARM_UP}") for task in range(TASKS)))
        began, cpu = time.perf_counter(), time.process_time()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(TASKS):
                tasks.create_task(work())
        return {
            "rate": count / (time.perf_counter() - began),
            "cpu": (time.process_time() - cpu) / count * 1e6,
        }


def measured_calls(bench: Bench) -> Findings:
    """Of a script that does nothing."""
    count = bench.size.calls
    figures = in_rounds(
        "calls",
        bench.size.rounds,
        {way.name: partial(calls_of, bench.program, way, count) for way in (BY_LINK, BY_POOL)},
    )
    for own in figures.values():
        own["to_script"] = own["rate"].over(figures[BY_POOL.name]["rate"])
    table = Table(
        key="calls",
        title=f"{count:,} calls alone, of a script that does nothing, by {TASKS} tasks of one process",
        columns=(
            Column(key="rate", title="calls/s", shows_spread=True),
            Column(key="to_script", title="to EVALSHA", decimals=2),
            Column(key="cpu", title="CPU µs a call", decimals=1),
        ),
        rows=tuple(
            Row(name=name, figures=own, is_ours=name == BY_LINK.name) for name, own in figures.items()
        ),
    )
    goal = Goal(
        text="calls alone, of a script that does nothing: times a pooled EVALSHA's calls/s",
        figure=figures[BY_LINK.name]["to_script"],
        at_least=5,
    )
    return Findings(tables=(table,), goals=(goal,))
