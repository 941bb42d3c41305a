"""What clients under measurement share: a name service without a network, the loops, a process of their own, and what
is counted of them.
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import resource
import socket
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, TypeVar

import uvloop
from aiohttp.abc import AbstractResolver, ResolveResult

from benchmarks._machine import peak_memory
from robotgate.testing import VirtualTimeLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping
    from multiprocessing.connection import Connection

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

LARGEST_READ: Final = 1 << 20
LOOPS: Final[Mapping[str, Callable[[], asyncio.AbstractEventLoop]]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
    "virtual": VirtualTimeLoop,
}


class LoopbackResolver(AbstractResolver):
    """Every name is this machine."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The loopback address."""
        del family
        return [
            ResolveResult(hostname=host, host="127.0.0.1", port=port, family=socket.AF_INET, proto=0, flags=0)
        ]

    async def close(self) -> None:
        """Nothing is held."""


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
    # Else what was imported decides whether everything is collected while this runs, or just after.
    gc.collect()
    began, cpu = time.perf_counter(), time.process_time()
    work()
    return Cost(time.perf_counter() - began, time.process_time() - cpu, peak_memory())


def prepare(core: int) -> None:
    """Make a fresh process ready to be measured, or to serve: on one core, and with as many files as it may have open.
    A connection to each of some thousand hosts is more than many systems allow at first.
    """
    pin(core)
    # glibc maps memory for each read of a socket (asyncio asks for 256 KB) until a block as large was freed whole, as
    # it is when a server closes a connection. Without this, the luck of its heap would decide how fast a client is.
    bytearray(LARGEST_READ)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def pin(core: int) -> None:
    """Keep this process to one of its cores, where the system can and there are two: a server that is set aside for
    its client in the middle of a write reports the write's end late.
    """
    if not sys.platform.startswith("linux"):
        return
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        os.sched_setaffinity(0, {cores[core]})


def alone(
    work: Callable[Arguments, Result], *arguments: Arguments.args, **options: Arguments.kwargs
) -> Result:
    """What a function returns in a fresh process on the last core, which has done nothing before."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=prepare, initargs=(-1,)) as process:
        return process.submit(work, *arguments, **options).result()


@contextmanager
def serving(
    serve: Callable[Concatenate[Connection, Arguments], Coroutine[object, None, None]],
    *arguments: Arguments.args,
    **options: Arguments.kwargs,
) -> Iterator[tuple[Connection, int]]:
    """A server in a fresh process on the first core, until the end of the block: a pipe to it, and its port.

    Args:
        serve: sends its port through the pipe it is given, then answers what comes by it, and returns at ``"stop"``.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(serve, theirs, arguments, options), daemon=True)
    process.start()
    try:
        yield ours, ours.recv()
    finally:
        ours.send("stop")
        process.join()


def _serve(
    serve: Callable[..., Coroutine[object, None, None]],
    pipe: Connection,
    arguments: tuple[object, ...],
    options: Mapping[str, object],
) -> None:
    prepare(0)
    asyncio.run(serve(pipe, *arguments, **options))
