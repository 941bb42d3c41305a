"""The way of one request through robotgate: ``python -m benchmarks.way [--brief]``.

It counts the Python function calls whose code lives in robotgate, while a gate serves one call in a real event loop,
against a small server in the same loop. A coroutine or generator counts once, however often it is resumed. What a call
leaves to the next iterations of the loop counts as well.

For each kind of call, warm and cold, it prints the functions in the order of their first call, with the number of
calls. ``--brief`` prints the totals only.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aiohttp import ClientSession

import robotgate
from benchmarks._site import Talk
from robotgate import RobotGate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from types import CodeType, FrameType

    Call = Callable[["Visitor"], Awaitable[None]]

PACKAGE: Final = f"{Path(robotgate.__file__).parent}/"
INLINED: Final = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>"})
"""Functions of their own until Python 3.12 only."""
DELAY: Final = 0.05
"""Seconds: the delay of a paced host."""
DUE: Final = 1.5 * DELAY
"""Seconds after which such a host is due again."""
WARM_UP: Final = 3
"""Calls before the counted one, so that the rules are known and a connection is open."""
ITERATIONS: Final = 3
"""Iterations of the event loop that belong to a call after its end."""
ROBOTS_TXT: Final = b"User-agent: *\nDisallow: /private\nAllow: /private/open\nDisallow: /*.json$\n"


@dataclass(frozen=True, slots=True)
class Entry:
    """A function of robotgate that was called."""

    module: str
    """Its module, without ``robotgate.``."""
    function: str
    """Its qualified name."""
    calls: int


@dataclass(frozen=True, slots=True)
class Way:
    """The functions that one call went through."""

    name: str
    """The kind of call, such as ``fetch, warm, delay 0.05``."""
    entries: tuple[Entry, ...]
    """In the order of their first call."""

    @property
    def calls(self) -> int:
        """The number of function calls."""
        return sum(entry.calls for entry in self.entries)

    def __str__(self) -> str:
        modules = len({entry.module for entry in self.entries})
        lines = [f"{self.name}: {self.calls} calls in {modules} modules"]
        lines += [f"{entry.calls:5}  {entry.module}: {entry.function}" for entry in self.entries]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Visitor:
    """What a call needs."""

    gate: RobotGate
    session: ClientSession
    """It has the gate's middleware."""
    url: str
    """An allowed page."""


async def allowed(visitor: Visitor) -> None:
    """`RobotGate.allowed`."""
    await visitor.gate.allowed(visitor.url)


async def turn(visitor: Visitor) -> None:
    """`RobotGate.turn`, with a report and without a request."""
    async with visitor.gate.turn(visitor.url) as turn:
        turn.report(status=200)


async def fetch(visitor: Visitor) -> None:
    """`RobotGate.fetch`, with the body."""
    response = await visitor.gate.fetch(visitor.url)
    if response.status != 200:
        raise RuntimeError(f"{visitor.url} answered {response.status}")


async def middleware(visitor: Visitor) -> None:
    """A request of a session with `RobotGate.middleware`, with the body."""
    async with visitor.session.get(visitor.url, raise_for_status=True) as response:
        await response.read()


CALLS: Final = (allowed, turn, fetch, middleware)


async def way(call: Call, *, delay: float, is_warm: bool) -> Way:
    """Count the function calls of one call.

    Args:
        delay: seconds between two visits of a host. With a delay, the host is due when a warm call is counted; a cold
            call waits for its turn after robots.txt.
        is_warm: whether the host is known already.
    """
    async with (
        _server() as url,
        RobotGate("WayBot/1.0", contact="way@example.org", delay=delay, allow_private_addresses=True) as gate,
        ClientSession(middlewares=[gate.middleware]) as session,
    ):
        visitor = Visitor(gate, session, url)
        if is_warm:
            for _ in range(WARM_UP):
                await call(visitor)
            await asyncio.sleep(DUE if delay else 0)
        entries = await count(partial(call, visitor))
    name = getattr(call, "__name__", repr(call))
    return Way(f"{name}, {'warm' if is_warm else 'cold'}, delay {delay:g}", entries)


async def count(call: Callable[[], Awaitable[object]]) -> tuple[Entry, ...]:
    """The functions of robotgate that are called in this thread until a call has ended."""
    # Frames are kept, so that no two of them have the same identity.
    frames: dict[FrameType, None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE) and code.co_name not in INLINED:
            frames[frame] = None

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        await call()
        for _ in range(ITERATIONS):
            await asyncio.sleep(0)
    finally:
        sys.setprofile(before)
    counts: dict[CodeType, int] = {}
    for frame in frames:
        counts[frame.f_code] = counts.get(frame.f_code, 0) + 1
    return tuple(Entry(_module(code), code.co_qualname, calls) for code, calls in counts.items())


def _module(code: CodeType) -> str:
    path = Path(code.co_filename.removeprefix(PACKAGE)).with_suffix("")
    return ".".join(part for part in path.parts if part != "__init__")


@asynccontextmanager
async def _server() -> AsyncIterator[str]:
    """A server in this loop; the URL of a page."""
    listen = asyncio.get_running_loop().create_server
    async with await listen(partial(Talk, ROBOTS_TXT, [], {}), "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/page?number=1"


async def ways() -> list[Way]:
    """Every kind of call, warm and cold, without and with a delay."""
    return [
        await way(call, delay=delay, is_warm=is_warm)
        for call in CALLS
        for is_warm in (True, False)
        for delay in (0.0, DELAY)
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the ways."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.way", description=__doc__.partition(":")[0])
    parser.add_argument("--brief", action="store_true", help="print the totals only")
    brief = parser.parse_args(arguments).brief
    for found in asyncio.run(ways()):
        print(str(found).partition("\n")[0] if brief else f"{found}\n")


if __name__ == "__main__":
    main()
