"""What a Redis pays for a fleet: CPU and bytes for each turn, memory for each host and each robots.txt."""

from __future__ import annotations

import asyncio
import subprocess
from functools import partial
from typing import TYPE_CHECKING, Final

from redis import Redis

from benchmarks._disk_work import chunks, record
from benchmarks._fleet_bench import OURS, in_rounds, rows_of
from benchmarks._fleet_measure import host_name, serving, take_turns
from benchmarks._fleet_ways import GATE, SCRIPT
from benchmarks._report import Column, Findings, Row, Table
from robotgate.stores.redis import RedisStore
from robotgate.stores.redis.messages import Keys

if TYPE_CHECKING:
    from benchmarks._fleet_bench import Bench
    from benchmarks._fleet_ways import Way
    from benchmarks._told import Values

A_HOST: Final = "a host"
A_FILE: Final = "a robots.txt of 700 bytes"
PREFIX: Final = "robotgate:"
KEYS: Final = Keys(PREFIX, 1)
CHUNK: Final = 500


def version(program: str) -> str:
    """What a server says that it is."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout  # noqa: S603
    return " ".join(said.split()[:3])


def cost_of_turns(program: str, way: Way, turns: int) -> Values:
    """CPU, bytes each way, and commands, for one of many turns."""
    with serving(program) as url, Redis.from_url(url) as client:
        before = counters(client)
        asyncio.run(take_turns(way, url, turns, 0))
        after = counters(client)
    cpu, *others = ((late - early) / turns for early, late in zip(before, after, strict=True))
    return {"cpu": cpu * 1e6, **dict(zip(("bytes_in", "bytes_out", "commands"), others, strict=True))}


def counters(client: Redis) -> list[float]:
    """Seconds of CPU, bytes in and out, and commands, since the server was started."""
    cpu, stats = client.info("cpu"), client.info("stats")
    return [
        cpu["used_cpu_user"] + cpu["used_cpu_sys"],
        *(stats[f"total_net_{way}_bytes"] for way in ("input", "output")),
        stats["total_commands_processed"],
    ]


def memory_of_hosts(program: str, count: int) -> Values:
    """A host that was visited once; the gate is closed."""
    with serving(program) as url, Redis.from_url(url) as client:
        before = client.info("memory")["used_memory"]
        asyncio.run(take_turns(GATE, url, count, 0, hosts=count))
        used = client.info("memory")["used_memory"] - before
        usage = client.memory_usage(KEYS.named("host", host_name(1)), samples=0)
    return {"usage": float(usage), "used": used / count}


def memory_of_records(program: str, count: int) -> Values:
    """A file of the median size."""
    with serving(program) as url, Redis.from_url(url) as client:
        before = client.info("memory")["used_memory"]
        asyncio.run(_save_records(url, count))
        used = client.info("memory")["used_memory"] - before
        usage = client.memory_usage(KEYS.named("robots", record(1).origin.text), samples=0)
    return {"usage": float(usage), "used": used / count}


async def _save_records(url: str, count: int) -> None:
    store = RedisStore(url, prefix=PREFIX)
    await store.open()
    try:
        for chunk in chunks(range(count), CHUNK):
            await asyncio.gather(*(store.save_record(record(number)) for number in chunk))
    finally:
        await store.aclose()


def measured_server(bench: Bench) -> Findings:
    """What Redis pays."""
    size = bench.size
    costs = in_rounds(
        "server",
        1,
        {way.name: partial(cost_of_turns, bench.program, way, size.server_turns) for way in (*OURS, SCRIPT)},
    )
    memory = in_rounds(
        "memory",
        1,
        {
            A_HOST: partial(memory_of_hosts, bench.program, size.kept),
            A_FILE: partial(memory_of_records, bench.program, size.kept),
        },
    )
    of_turn = Table(
        key="server",
        title="Of the server, for a turn",
        columns=(
            Column(key="cpu", title="CPU µs", decimals=1),
            Column(key="bytes_in", title="bytes in", decimals=1),
            Column(key="bytes_out", title="bytes out", decimals=1),
            Column(key="commands", title="commands, those of scripts included", decimals=1),
        ),
        rows=rows_of(costs),
        note=version(bench.program),
    )
    of_memory = Table(
        key="memory",
        title=f"Bytes of memory in Redis, each of {size.kept:,}",
        columns=(
            Column(key="usage", title="by `MEMORY USAGE`"),
            Column(key="used", title="by `used_memory`"),
        ),
        rows=tuple(Row(name=name, figures=own, is_ours=True) for name, own in memory.items()),
    )
    return Findings(tables=(of_turn, of_memory))
