"""The short ways of a turn change nothing: what comes of it is what comes of it at a gate that never takes them.

A quota that nobody comes near leaves no turn plain, and so sends every one of them the long way.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.paced import HOUR, REFUSED, everywhere, make_gate, now

from robotgate import Event, HostOverride, PaceKey, RobotGateError, RobotsFetched
from robotgate._virtual import VirtualTimeLoop

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from robotgate import HostView, PaceKeyPolicy, RobotGate

NEVER_REACHED: Final = (10_000, 0.001)
OPEN, CLOSED, PARTED = (
    f"User-agent: *\nDisallow: {rule}\n".encode() for rule in ("", "/", "/a\nAllow: /a/b")
)
ORIGINS: Final = ("http://a.example", "https://a.example", "http://b.example")
PATHS: Final = ("/", "/a", "/a/b", "/a/../b", "/robots.txt", "/?", "/b#part", "/%61")
HOSTS: Final = ("*", "a.example")

Outcome: TypeAlias = tuple[float, str]
"""When a visitor was let in or sent away, and how."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody who comes for a page."""

    at: float
    url: str
    takes: float
    priority: int
    max_wait: float | None
    status: int | None
    finds_nobody: bool
    cancelled_after: float | None

    async def come(self, gate: RobotGate) -> Outcome:
        """Have a turn, if there is one to be had."""
        await asyncio.sleep(self.at)
        try:
            async with gate.turn(self.url, priority=self.priority, max_wait=self.max_wait) as turn:
                started_at = now()
                await asyncio.sleep(self.takes)
                if self.finds_nobody:
                    turn.report(error=REFUSED)
                turn.report(self.status, {"Retry-After": "3"}, bytes=7)
        except RobotGateError as error:
            return now(), repr(error)
        return started_at, f"was let in, having waited {turn.waited}"

    async def come_or_leave(self, gate: RobotGate) -> Outcome:
        """As `come`, as long as he is not called away."""
        visit = asyncio.create_task(self.come(gate))
        if self.cancelled_after is not None:
            asyncio.get_running_loop().call_later(self.at + self.cancelled_after, visit.cancel)
        try:
            return await visit
        except asyncio.CancelledError:
            return now(), "was called away"


def by_path(url: str) -> str:
    """What parts the paths of one origin, and joins those of several."""
    return f"/{url.rpartition('/')[2]}"


Word: TypeAlias = "Callable[[RobotGate], object]"
WORDS: Final[tuple[Word, ...]] = (
    lambda gate: gate.learn(ORIGINS[0], OPEN),
    lambda gate: gate.learn(ORIGINS[0], CLOSED),
    lambda gate: gate.learn(ORIGINS[1], b"User-agent: *\nCrawl-delay: 2\n"),
    lambda gate: gate.learn(ORIGINS[2], PARTED, fresh_until=now() + 1.0),
    lambda gate: gate.block("a.example", until=now() + 2.0),
    lambda gate: gate.unblock("a.example"),
    lambda gate: gate.override("*", HostOverride(concurrency=2)),
    lambda gate: gate.override("a.example", HostOverride(delay=1.5)),
    lambda gate: gate.override("a.example", HostOverride(ignore_robots=True)),
    lambda gate: gate.override("a.example", None),
)
"""What an operator says."""


@dataclass(frozen=True, slots=True)
class Day:
    """What happens to a gate."""

    concurrency: int
    concurrency_per_host: int
    pace_key: PaceKeyPolicy
    total_rate: tuple[int, float] | None
    latency_factor: float
    latency: float
    body: bytes
    visitors: tuple[Visitor, ...]
    words: tuple[tuple[float, int], ...]
    word_at_robots: int | None
    """What the operator says whenever a robots.txt has come."""


TIMES = st.sampled_from([0.0, 0.0, 0.25, 0.5, 1.0, 3.0, 12.0])
VISITORS = st.builds(
    Visitor,
    at=TIMES,
    url=st.builds(str.__add__, st.sampled_from(ORIGINS), st.sampled_from(PATHS)),
    takes=st.sampled_from([0.0, 0.25, 0.7]),
    priority=st.integers(0, 1),
    max_wait=st.sampled_from([None, None, 0.0, 0.5]),
    status=st.sampled_from([None, 200, 200, 404, 503]),
    finds_nobody=st.sampled_from([False, False, False, True]),
    cancelled_after=st.sampled_from([None, None, 0.0, 0.25]),
)
WORD = st.integers(0, len(WORDS) - 1)
DAYS = st.builds(
    Day,
    concurrency=st.sampled_from([1, 2, 256]),
    concurrency_per_host=st.sampled_from([1, 1, 2]),
    pace_key=st.sampled_from([PaceKey.HOST, PaceKey.ORIGIN, by_path]),
    total_rate=st.sampled_from([None, None, (2, 1.0)]),
    latency_factor=st.sampled_from([0.0, 0.0, 2.0]),
    latency=st.sampled_from([0.0, 0.25]),
    body=st.sampled_from([OPEN, PARTED]),
    visitors=st.lists(VISITORS, min_size=1, max_size=8).map(tuple),
    words=st.lists(st.tuples(TIMES, WORD), max_size=3).map(tuple),
    word_at_robots=st.none() | WORD,
)


async def spent(day: Day, rate: tuple[int, float] | None) -> tuple[list[Outcome], list[str], list[HostView]]:
    """What comes of a day: of each visitor, of what there was to hear, and of each host."""
    random.seed(0)
    heard: list[Event] = []
    async with make_gate(
        everywhere(day.body, latency=day.latency),
        delay=0.0,
        rate=rate,
        concurrency=day.concurrency,
        concurrency_per_host=day.concurrency_per_host,
        pace_key=day.pace_key,
        total_rate=day.total_rate,
        latency_factor=day.latency_factor,
        max_block=HOUR,
    ) as gate:
        gate.subscribe(heard.append)
        at_robots = day.word_at_robots
        if at_robots is not None:
            gate.subscribe(lambda _: WORDS[at_robots](gate), RobotsFetched)
        for at, word in day.words:
            asyncio.get_running_loop().call_later(at, WORDS[word], gate)
        outcomes = await asyncio.gather(*(visitor.come_or_leave(gate) for visitor in day.visitors))
        await asyncio.sleep(13.0)
        return outcomes, [repr(event) for event in heard], gate.hosts()


@settings(max_examples=60)
@given(DAYS)
def test_a_day_ends_as_it_does_without_the_short_ways(day: Day) -> None:
    """Everybody is let in, or sent away, at the same instant, for the same reason, and the same is told of it."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        plainly = runner.run(spent(day, None))
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        looked_at_closely = runner.run(spent(day, NEVER_REACHED))
    assert plainly == looked_at_closely
