"""What is counted: the metrics by name, and their values, which are read from the gate when they are collected.

The gate has totals and states (`RobotGate.stats`). Counted here is what it does not have: in one step for each turn
(`RobotGate._meter`), how requests end and what they take; from rare events, refusals and blocks by their cause.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from robotgate.events import (
    BlockCause,
    HostBlocked,
    RobotsFetched,
    StoreLost,
    StoreRecovered,
    TurnRefused,
    VerdictRefused,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from robotgate.client.turns import PageTurn
    from robotgate.events import Event
    from robotgate.gate import RobotGate
    from robotgate.observe.views import GateStats


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric, without the prefix ``robotgate`` and the suffixes of a format."""

    name: str
    """Words with underscores."""
    help: str
    labels: tuple[str, ...] = ()
    unit: str = ""
    """``seconds``, ``bytes`` or nothing."""
    is_counter: bool = False
    """Whether it only grows."""
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram."""


WAITS: Final = (0.005, 0.05, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
TIMES: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

_counter: Final = partial(Metric, is_counter=True)
_histogram: Final = partial(Metric, unit="seconds", buckets=TIMES)

REQUESTS: Final = _counter(
    "requests", "Requests that have ended, by kind and class of status.", ("kind", "outcome")
)
REFUSALS: Final = _counter("refusals", "Turns that were refused, by reason.", ("reason",))
BLOCKS: Final = _counter("blocks", "Blocks of hosts, and their prolongations, by cause.", ("cause",))
TOLD_OFF: Final = _counter("told_off", "Answers that said we were too fast.")
MALFORMED: Final = _counter("malformed", "Header fields about our speed that could not be read.")
READ: Final = _counter("read", "Bytes of bodies that were read, robots.txt included.", unit="bytes")
HOSTS: Final = Metric(
    "hosts", "Hosts in memory, by whether they asked for a pause that is not over.", ("state",)
)
SLOWED: Final = Metric("hosts_slowed", "Hosts in memory that have taught a delay.")
SHUT: Final = Metric(
    "origins_shut", "Origins in memory that no page is requested from, by cause.", ("cause",)
)
WAITING: Final = Metric("waiting", "Turns that wait.")
OPEN: Final = Metric("open_requests", "Requests that have not ended.", ("kind",))
STORE_UP: Final = Metric("store_up", "1 while the store works, or none is used; else 0.")
WAIT: Final = _histogram(
    "wait", "From asking for a turn to having it, of turns that had to wait.", buckets=WAITS
)
REQUEST: Final = _histogram("request", "Duration of a turn.")
ROBOTS_FETCH: Final = _histogram("robots_fetch", "What requests for a robots.txt take, redirects included.")

_WITHIN_NAME: Final = re.compile(r"(?<!^)(?=[A-Z])")
"""Where a word begins within the name of a class."""
NO_STATUS: Final = "none"
"""The outcome of a request for which no status was reported."""
OUTCOMES: Final = ("2xx", "3xx", "4xx", "5xx", NO_STATUS)
"""Those, and causes of blocks, are shown before they happen: Prometheus tells no rate of what begins above 0."""


HEARD: Final = (RobotsFetched, VerdictRefused, TurnRefused, HostBlocked, StoreLost, StoreRecovered)
"""The events that are counted. None of them is made for a page that is fetched."""


class Histogram:
    """The number and the sum of the values between each two bounds; a value belongs to the next bound above it."""

    __slots__ = ("bounds", "counts", "sums")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds: Sequence[float] = bounds
        self.counts: list[int] = [0] * (len(bounds) + 1)
        self.sums: list[float] = [0.0] * (len(bounds) + 1)

    def add(self, value: float) -> None:
        """Count a value."""
        bucket = bisect_left(self.bounds, value)
        self.counts[bucket] += 1
        self.sums[bucket] += value


class Tally(ExitStack):
    """The values of the metrics of one gate. Totals are the gate's; what is counted here begins at 0 with `start`.

    `close` ends the count.
    """

    def __init__(self, gate: RobotGate) -> None:
        super().__init__()
        self._gate = gate
        # No Counter: its assignment to a key takes five times as long.
        self._statuses: defaultdict[int | None, int] = defaultdict(int)
        """Of pages."""
        self._robots: defaultdict[int | None, int] = defaultdict(int)
        self._refusals: defaultdict[str, int] = defaultdict(int)
        self._blocks = {cause.name.lower(): 0 for cause in BlockCause}
        self._store_up = True
        self.histograms: Final = {
            metric: Histogram(metric.buckets) for metric in (WAIT, REQUEST, ROBOTS_FETCH)
        }
        self._wait, self._request, self._robots_fetch = self.histograms.values()

    def start(self) -> None:
        """Count from now on."""
        self.callback(self._gate.subscribe(self._hear, *HEARD, at_once=True))
        self.callback(self._gate._meter(self._ended))

    def _ended(self, turn: PageTurn, elapsed: float) -> None:
        self._statuses[turn.status] += 1
        self._request.add(elapsed)
        if waited := turn.waited:
            self._wait.add(waited)

    def _hear(self, event: Event) -> None:
        match event:
            case RobotsFetched():
                self._robots[event.status] += 1
                self._robots_fetch.add(event.elapsed)
            case VerdictRefused():
                self._refusals[event.verdict.reason.name.lower()] += 1
            case TurnRefused():
                # As ``too_soon`` for a `TooSoonError`.
                name = type(event.error).__name__.removesuffix("Error")
                self._refusals[_WITHIN_NAME.sub("_", name).lower()] += 1
            case HostBlocked():
                self._blocks[event.cause.name.lower()] += 1
            case StoreLost() | StoreRecovered():
                self._store_up = isinstance(event, StoreRecovered)

    def values(self, stats: GateStats) -> Mapping[Metric, Mapping[tuple[str, ...], float]]:
        """Return the values of all counters and gauges by their labels. May be called in any thread.

        Args:
            stats: those of the gate.
        """
        requests: defaultdict[tuple[str, ...], int] = defaultdict(int)
        # Copies: the event loop's thread may go on counting.
        for kind, statuses in (("page", self._statuses), ("robots", self._robots)):
            requests.update(((kind, outcome), 0) for outcome in OUTCOMES)
            for status, count in statuses.copy().items():
                requests[kind, NO_STATUS if status is None else f"{status // 100}xx"] += count
        robots = stats.open_robots
        return {
            REQUESTS: requests,
            REFUSALS: {(reason,): count for reason, count in self._refusals.copy().items()},
            BLOCKS: {(cause,): count for cause, count in self._blocks.copy().items()},
            TOLD_OFF: {(): stats.told_off},
            MALFORMED: {(): stats.malformed},
            READ: {(): stats.bytes_read},
            HOSTS: {("blocked",): stats.hosts_blocked, ("free",): stats.hosts - stats.hosts_blocked},
            SLOWED: {(): stats.hosts_slowed},
            SHUT: {("unreachable",): stats.origins_unreachable, ("operator",): stats.origins_blocked},
            WAITING: {(): stats.waiting},
            OPEN: {("page",): stats.open_turns - robots, ("robots",): robots},
            STORE_UP: {(): float(self._store_up)},
        }
