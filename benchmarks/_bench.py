"""How it is measured: in interleaved rounds, in fresh processes, and on which machine."""

from __future__ import annotations

import asyncio
import gc
import importlib.metadata
import importlib.util
import multiprocessing
import os
import platform
import re
import resource
import statistics
import sys
import time
import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

import uvloop

from benchmarks._report import Machine
from robotgate.testing import VirtualTimeLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable, Mapping, Sequence

    from benchmarks._report import Figure

    Name = TypeVar("Name", bound=Hashable)

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
LOOPS: Final = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
    "virtual": VirtualTimeLoop,
}
LARGEST_READ: Final = 1 << 20
STATM: Final = Path("/proc/self/statm")
clock: Final = time.perf_counter_ns
TICK: Final = statistics.median(-(clock() - clock()) for _ in range(1_001))
"""The nanoseconds that reading the clock takes: less than that cannot be told from nothing."""


def say(text: str) -> None:
    """Print the progress to standard error; results go to standard output."""
    print(f"  {text}", file=sys.stderr, flush=True)


def found(module: str) -> bool:
    """Whether a package is installed; if not, it is printed that its rows are missing."""
    is_there = importlib.util.find_spec(module) is not None
    if not is_there:
        say(f"not installed, and not measured: {module}")
    return is_there


def interleaved(
    rounds: int,
    works: Mapping[Name, Callable[[], Mapping[str, float]]],
    *,
    fewer: Mapping[Name, int] | None = None,
) -> dict[Name, dict[str, Figure]]:
    """Call each of several works once in every round, so that what else the machine does meets all alike.

    Args:
        works: return values by the names of figures. What a work does not find in all its rounds is no figure.
        fewer: works that are called in so many rounds alone. One that is called in none is left out.
    """
    order = list(works)
    seen: dict[Name, list[Mapping[str, float]]] = {name: [] for name in order}
    for number in range(rounds):
        # Each round begins with the next one, so that none is always first.
        first = number % len(order)
        for name in [*order[first:], *order[:first]]:
            if number < (fewer or {}).get(name, rounds):
                values = works[name]()
                seen[name].append(values)
                told = ", ".join(f"{key} {value:,.4g}" for key, value in values.items())
                say(f"round {number + 1}: {name}: {told}")
    return {name: figures_of(each) for name, each in seen.items() if each}


def figures_of(rounds: Sequence[Mapping[str, float]]) -> dict[str, Figure]:
    """What was found in every round, by its name."""
    keys = [key for key in rounds[0] if all(key in one for one in rounds)]
    return {key: [one[key] for one in rounds] for key in keys}


def alone(
    work: Callable[Arguments, Result], *arguments: Arguments.args, **options: Arguments.kwargs
) -> Result:
    """What a function returns in a fresh process on the last core, which has done nothing before."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=prepare, initargs=(-1,)) as process:
        return process.submit(work, *arguments, **options).result()


def prepare(core: int) -> None:
    """Make a fresh process ready to be measured, or to serve: on one core, so that a server is not set aside for its
    client, and with as many files as it may have open.
    """
    if sys.platform.startswith("linux"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[core]})
    # glibc maps memory for each read of a socket (asyncio asks for 256 KB) until a block as large was freed whole, as
    # it is when a server closes a connection. Without this, the luck of its heap would decide how fast a client is.
    bytearray(LARGEST_READ)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def in_loop(loop: str, work: Callable[[], Coroutine[object, None, Result]]) -> Result:
    """What an async function returns, in a new loop."""
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(work())


def alone_in_loop(
    loop: str,
    work: Callable[Arguments, Coroutine[object, None, Result]],
    *arguments: Arguments.args,
    **options: Arguments.kwargs,
) -> Result:
    """`alone`, for an async function."""
    return alone(in_loop, loop, partial(work, *arguments, **options))


@dataclass(frozen=True, slots=True)
class Cost:
    """What one client took for all it was asked."""

    seconds: float
    cpu: float
    """Seconds, of all its threads."""
    peak_memory: int
    """Bytes, of its process."""


def cost_of(work: Callable[[], object]) -> Cost:
    """What some work takes, once in a process."""
    # Otherwise what was imported decides whether everything is collected while this runs, or just after.
    gc.collect()
    began, cpu = time.perf_counter(), time.process_time()
    work()
    return Cost(time.perf_counter() - began, time.process_time() - cpu, peak_memory())


def each_ns(ask: Callable[[str], object], urls: Sequence[str]) -> list[float]:
    """Nanoseconds of each call, without those of reading the clock."""
    each = []
    for url in urls:
        began = clock()
        ask(url)
        each.append(clock() - began - TICK)
    return each


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which a share of all of them lies."""
    return sorted(values)[int(len(values) * share)]


def peak_memory() -> int:
    """The most bytes this process has ever had in memory."""
    # What the system counts for `getrusage` begins with the memory of the process that started this one.
    status = Path("/proc/self/status")
    own = re.search(r"^VmHWM:\s+(\d+) kB$", status.read_text(), re.MULTILINE) if status.exists() else None
    if own:
        return int(own[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def resident_memory() -> int:
    """The bytes this process has in memory now; where the system does not say, the most it ever had."""
    return int(STATM.read_text().split()[1]) * resource.getpagesize() if STATM.exists() else peak_memory()


def memory() -> int:
    """Bytes: those that Python has allocated where that is traced, otherwise those that are resident."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0] if tracemalloc.is_tracing() else resident_memory()


def machine_with(*packages: str) -> Machine:
    """This machine, and the versions of the packages that are installed."""
    versions: dict[str, str] = {}
    for package in sorted(packages):
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    cpu_info = Path("/proc/cpuinfo")
    name = re.search(
        r"^model name\s*:\s*(.+)$", cpu_info.read_text() if cpu_info.exists() else "", re.MULTILINE
    )
    return Machine(
        processor=name[1] if name else platform.processor() or platform.machine(),
        cores=os.cpu_count() or 1,
        system=platform.system(),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        packages=versions,
    )
