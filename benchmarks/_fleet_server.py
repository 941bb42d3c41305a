"""What a Redis pays for a fleet: CPU and octets for each turn, memory for each host and each robots.txt."""

from __future__ import annotations

import asyncio
import subprocess
from typing import TYPE_CHECKING, Final

from redis import Redis

from benchmarks._disk_work import chunks, record
from benchmarks._fleet_measure import TURNS, host_name, take_turns
from benchmarks._fleet_ways import GATE, SCRIPT, STORE
from robotgate.stores.redis import RedisStore
from robotgate.stores.redis._keys import Keys

if TYPE_CHECKING:
    from benchmarks._fleet_ways import Way

PREFIX: Final = "robotgate:"
HOSTS: Final = 10_000
RECORDS: Final = 10_000
CHUNK: Final = 500


def version(program: str) -> str:
    """What a server says that it is."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout  # noqa: S603
    return " ".join(said.split()[:3])


def show(url: str) -> None:
    """Prints both tables."""
    with Redis.from_url(url) as client:
        print("\nof the server, for a turn\n")
        print("| | CPU µs | octets in | octets out | commands |")
        print("|" + 5 * "---|")
        for way in (STORE, GATE, SCRIPT):
            client.flushall()
            print(f"| {way.name} | {' | '.join(cost_of_turns(client, way, url))} |", flush=True)
        print("\nof the server's memory, octets\n")
        print("| | by MEMORY USAGE | by used_memory |")
        print("|" + 3 * "---|")
        client.flushall()
        print(f"| a host, one of {HOSTS:,} | {' | '.join(memory_of_hosts(client, url))} |", flush=True)
        client.flushall()
        print(
            f"| a robots.txt of 700 octets, one of {RECORDS:,} | {' | '.join(memory_of_records(client, url))} |"
        )


def cost_of_turns(client: Redis, way: Way, url: str) -> list[str]:
    """CPU, octets each way, and commands, for one of many turns."""
    before = counters(client)
    asyncio.run(take_turns(way, url, TURNS, 0))
    after = counters(client)
    cpu, *others = (late - early for early, late in zip(before, after, strict=True))
    return [f"{cpu / TURNS * 1e6:.1f}", *(f"{other / TURNS:,.1f}" for other in others)]


def counters(client: Redis) -> list[float]:
    """Seconds of CPU, octets in and out, and commands, since the server was started."""
    cpu, stats = client.info("cpu"), client.info("stats")
    return [
        cpu["used_cpu_user"] + cpu["used_cpu_sys"],
        *(stats[f"total_net_{way}_bytes"] for way in ("input", "output")),
        stats["total_commands_processed"],
    ]


def memory_of_hosts(client: Redis, url: str) -> list[str]:
    """A host that was visited once, and is not any more."""
    before = client.info("memory")["used_memory"]
    asyncio.run(take_turns(STORE, url, HOSTS, 0, hosts=HOSTS))
    used = client.info("memory")["used_memory"] - before
    return [f"{client.memory_usage(Keys(PREFIX).host(host_name(1)), samples=0):,}", f"{used / HOSTS:,.0f}"]


def memory_of_records(client: Redis, url: str) -> list[str]:
    """A file of the median size."""
    before = client.info("memory")["used_memory"]
    asyncio.run(_save_records(url))
    used = client.info("memory")["used_memory"] - before
    return [
        f"{client.memory_usage(Keys(PREFIX).record(record(1).origin), samples=0):,}",
        f"{used / RECORDS:,.0f}",
    ]


async def _save_records(url: str) -> None:
    store = RedisStore(url, prefix=PREFIX)
    await store.open()
    try:
        for chunk in chunks(range(RECORDS), CHUNK):
            await asyncio.gather(*(store.save_record(record(number)) for number in chunk))
    finally:
        await store.aclose()
