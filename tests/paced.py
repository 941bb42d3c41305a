"""A gate on virtual time, with sites that ask for a pace, and visitors who note when they start."""

from __future__ import annotations

import asyncio
import errno
from collections import defaultdict
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeVar, Unpack

import pytest

from robotgate import GateOptions, HostUnavailableError, RobotGate, RobotGateError, TooSoonError
from robotgate.sites import Answer
from robotgate.testing import ScriptedFetcher, VirtualClock

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence

    from robotgate import Fetcher
    from robotgate.events import Event
    from robotgate.sites import Failure

Result = TypeVar("Result")
Refusal = TypeVar("Refusal", bound=RobotGateError)

SITE: Final = "http://a.example"
PAGE: Final = "http://a.example/page"
ROBOTS: Final = "http://a.example/robots.txt"
SECURE_SITE: Final = "https://a.example"
SECURE: Final = "https://a.example/page"
"""Of the same host, and another origin."""
OTHER: Final = "http://b.example/page"
MINUTE: Final = 60.0
HOUR: Final = 3600.0
DAY: Final = 24 * HOUR
JITTER: Final = 1.1
"""Times the length of a pause: chance makes it no longer."""
REFUSED: Final = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")


def seeds(few: int, many: int) -> list[object]:
    """The seeds of a law: a few, and all the others with `--slow`."""
    return [*range(few), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(few, many))]


def now() -> float:
    """The running loop's time."""
    return asyncio.get_running_loop().time()


async def sleep_until(at: float) -> None:
    """Let time pass."""
    await asyncio.sleep(at - now())


def asks(*lines: str) -> str:
    """A robots.txt that asks all crawlers for this."""
    return "\n".join(("User-agent: *", *lines, ""))


def scripted(
    sites: Mapping[str, str | Answer | Failure] | None = None,
    *,
    otherwise: Answer | Failure | None = None,
    latency: float = 0.0,
) -> ScriptedFetcher:
    """Sites by origin with their robots.txt, as text or as an answer; that of all others is missing."""
    answers = {
        f"{origin}/robots.txt": Answer(status=200, body=given.encode()) if isinstance(given, str) else given
        for origin, given in (sites or {}).items()
    }
    return ScriptedFetcher(answers, otherwise=otherwise or Answer(status=404), latency=latency)


def everywhere(body: bytes, *, latency: float = 0.0) -> ScriptedFetcher:
    """Sites that all have this robots.txt."""
    return scripted(otherwise=Answer(status=200, body=body), latency=latency)


def make_gate(robots: Fetcher | None = None, /, **options: Unpack[GateOptions]) -> RobotGate:
    """A gate on virtual time that learns no delay; without a fetcher of the test's, no site has a robots.txt."""
    chosen = GateOptions(clock=VirtualClock(), fetcher=robots or scripted(), adaptive=False)
    chosen.update(options)
    return RobotGate("ExampleBot/1.0", contact="bot@example.org", **chosen)


@asynccontextmanager
async def gate_that_knows(*sites: str, **options: Unpack[GateOptions]) -> AsyncIterator[RobotGate]:
    """A gate as `make_gate` makes it, which has learnt of some sites that they ask for nothing."""
    async with make_gate(**options) as gate:
        for site in sites:
            gate.learn(site, b"")
        yield gate


async def visit(
    gate: RobotGate,
    url: str = PAGE,
    *,
    takes: float = 0.0,
    priority: int = 0,
    max_wait: float | None = None,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
    error: BaseException | None = None,
) -> float:
    """A turn, and what is reported at its end; its start."""
    async with gate.turn(url, priority=priority, max_wait=max_wait) as turn:
        started_at = now()
        await asyncio.sleep(takes)
        turn.report(status=status, headers=headers, error=error)
    return started_at


async def visits(gate: RobotGate, count: int, url: str = PAGE, *, takes: float = 0.0) -> list[float]:
    """So many visitors who come together; their starts."""
    return await asyncio.gather(*(visit(gate, url, takes=takes) for _ in range(count)))


class Seen:
    """Visits to several hosts, as these saw them: chance says how long each takes."""

    def __init__(self, chance: random.Random) -> None:
        self.visits: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
        """From when to when, by URL."""
        self._chance = chance

    async def visit(self, gate: RobotGate, url: str, *, max_wait: float | None = None) -> None:
        """A turn."""
        async with gate.turn(url, max_wait=max_wait) as turn:
            began_at = now()
            await asyncio.sleep(self._chance.choice([0.0, 0.3, 2.0]))
            self.visits[url].append((began_at, now()))
            turn.report(status=200)

    def short_gaps(
        self, delays: Mapping[str, float], *, from_starts: bool = False
    ) -> list[tuple[str, float]]:
        """Where a visit came sooner than its host's delay, by default a second, after the one before it."""
        return [
            (url, later[0] - earlier[not from_starts])
            for url, visits in self.visits.items()
            for earlier, later in pairwise(sorted(visits))
            if later[0] - earlier[not from_starts] < delays.get(url, 1.0) - 1e-6
        ]


async def fail(gate: RobotGate, url: str = PAGE, *, takes: float = 0.0) -> float:
    """A request that finds the host unreachable; its start."""
    return await visit(gate, url, takes=takes, error=REFUSED)


async def together(*tasks: Awaitable[Result]) -> list[Result]:
    """What comes of all of them."""
    return await asyncio.gather(*tasks)


async def refusal(
    turn: Awaitable[float], kind: type[Refusal] | tuple[type[Refusal], ...]
) -> tuple[Refusal, float]:
    """The error that a visit ends in, and when.

    Raises:
        AssertionError: it does not.
    """
    try:
        started_at = await turn
    except kind as error:
        return error, now()
    raise AssertionError(f"a turn was had at {started_at}")


async def retry_at(gate: RobotGate, url: str = PAGE) -> float:
    """When the origin is tried again, by the error that a turn gets which cannot wait."""
    error, at = await refusal(visit(gate, url, max_wait=0.0), (HostUnavailableError, TooSoonError))
    assert isinstance(error, HostUnavailableError | TooSoonError)
    seen = gate.host(url).unreachable_until_at
    assert seen is not None
    assert abs(at + error.retry_after - seen) <= 1e-6
    assert abs(gate.wait_time(url) - (seen - at)) <= 1e-6
    return seen


def listen(gate: RobotGate, *kinds: type[Event]) -> list[Event]:
    """Everything that happens from now on, or all of some kinds."""
    heard: list[Event] = []
    gate.subscribe(heard.append, *kinds)
    return heard


def kinds(heard: Sequence[Event]) -> list[str]:
    """What happened, by name."""
    return [type(event).__name__ for event in heard]
