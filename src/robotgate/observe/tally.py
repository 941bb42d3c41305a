"""What is counted: the metrics by name, and their values, from the gate's events.

Exporters read the values when they are collected. An event costs a few additions to plain numbers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from heapq import heappop, heappush
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from robotgate.events import (
    BlockCause,
    HostBlocked,
    HostRecovered,
    RobotsFetched,
    StoreLost,
    StoreRecovered,
    TurnBegan,
    TurnEnded,
    TurnRefused,
    VerdictRefused,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from robotgate.events import Event
    from robotgate.gate import RobotGate


class Kind(Enum):
    """How a metric changes."""

    COUNTER = "only grows"
    GAUGE = "goes up and down"
    HISTOGRAM = "counts values by size"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric, without the prefix ``robotgate`` and the suffixes of a format."""

    kind: Kind
    name: str
    """Words with underscores."""
    help: str
    labels: tuple[str, ...] = ()
    unit: str = ""
    """``seconds``, ``bytes`` or nothing."""
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram."""


WAITS: Final = (0.005, 0.05, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
TIMES: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

REQUESTS: Final = Metric(
    Kind.COUNTER, "requests", "Requests that have ended, by what came of them.", ("kind", "outcome")
)
REFUSALS: Final = Metric(Kind.COUNTER, "refusals", "Turns that were refused, by reason.", ("reason",))
BLOCKS: Final = Metric(
    Kind.COUNTER, "blocks", "Blocks of hosts, and their prolongations, by cause.", ("cause",)
)
READ: Final = Metric(Kind.COUNTER, "read", "Bytes of pages that were read.", (), "bytes")
WAIT: Final = Metric(
    Kind.HISTOGRAM,
    "wait",
    "From asking for a turn to having it, of turns that had to wait.",
    (),
    "seconds",
    WAITS,
)
REQUEST: Final = Metric(
    Kind.HISTOGRAM, "request", "From the begin of a turn to its end.", (), "seconds", TIMES
)
ROBOTS_FETCH: Final = Metric(
    Kind.HISTOGRAM,
    "robots_fetch",
    "What requests for a robots.txt take, redirects included.",
    (),
    "seconds",
    TIMES,
)
HOSTS: Final = Metric(Kind.GAUGE, "hosts", "Hosts in memory, by whether they are blocked.", ("state",))
WAITING: Final = Metric(Kind.GAUGE, "waiting", "Turns that wait.")
OPEN: Final = Metric(Kind.GAUGE, "open_requests", "Requests that have not ended.", ("kind",))
STORE_UP: Final = Metric(Kind.GAUGE, "store_up", "1 while the store works, or none is used; else 0.")
METRICS: Final = (
    REQUESTS,
    REFUSALS,
    BLOCKS,
    READ,
    WAIT,
    REQUEST,
    ROBOTS_FETCH,
    HOSTS,
    WAITING,
    OPEN,
    STORE_UP,
)

NO_STATUS: Final = "none"
"""The outcome of a request for which no status was reported."""


class Histogram:
    """How many values were at most so large."""

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def cumulated(self) -> list[int]:
        """Return how many values were at most each bound, and last how many there were."""
        return list(accumulate(self._counts))


class Tally:
    """The values of the metrics of one gate, since it was made."""

    def __init__(self, gate: RobotGate) -> None:
        self._gate = gate
        self._outcomes: Counter[tuple[str, int | None]] = Counter()
        self._refusals: Counter[str] = Counter()
        self._blocks: Counter[str] = Counter()
        self._read = 0
        self._store_up = True
        self._blocked: dict[str, float] = {}
        """Until when hosts are blocked; those that expired meanwhile are dropped with the next block."""
        self._ends: list[tuple[float, str]] = []
        self.histograms: Final = {metric: Histogram(metric.buckets) for metric in METRICS if metric.buckets}
        self._wait, self._request, self._robots = (
            self.histograms[metric] for metric in (WAIT, REQUEST, ROBOTS_FETCH)
        )

    def hear(self, event: Event) -> None:  # noqa: C901  # One case for each kind of event.
        """Count an event."""
        match event:
            case TurnBegan():
                if event.waited > 0:
                    self._wait.add(event.waited)
            case TurnEnded():
                self._outcomes["page", event.status] += 1
                self._read += event.bytes_read
                self._request.add(event.elapsed)
            case RobotsFetched():
                self._outcomes["robots", event.status] += 1
                self._robots.add(event.elapsed)
            case VerdictRefused():
                self._refusals[event.verdict.reason.name.lower()] += 1
            case TurnRefused():
                self._refusals[REASONS.get(type(event.error).__name__, "other")] += 1
            case HostBlocked():
                self._blocks[event.cause.name.lower()] += 1
                if event.cause is not BlockCause.OPERATOR:
                    self._note_block(event)
            case HostRecovered():
                self._blocked.pop(event.host, None)
            case StoreLost():
                self._store_up = False
            case StoreRecovered():
                self._store_up = True

    def _note_block(self, event: HostBlocked) -> None:
        self._blocked[event.host] = event.until_at
        heappush(self._ends, (event.until_at, event.host))
        while self._ends and self._ends[0][0] <= event.at:
            until_at, host = heappop(self._ends)
            if self._blocked.get(host) == until_at:
                del self._blocked[host]

    def values(self, metric: Metric) -> Mapping[tuple[str, ...], float]:
        """Return the values of a counter or a gauge by its labels. May be called in any thread."""
        turns = self._gate.middleware.turns
        # Copies: the event loop's thread may go on counting.
        if metric is REQUESTS:
            return _by_class(self._outcomes.copy())
        if metric is REFUSALS:
            return {(reason,): count for reason, count in self._refusals.copy().items()}
        if metric is BLOCKS:
            return {(cause,): count for cause, count in self._blocks.copy().items()}
        if metric is READ:
            return {(): self._read}
        if metric is STORE_UP:
            return {(): float(self._store_up)}
        # The gate is not open.
        if turns is None:
            return {}
        scheduler = turns.scheduler
        if metric is WAITING:
            return {(): scheduler.waiting}
        if metric is OPEN:
            pages, robots = scheduler.open_by_kind()
            return {("page",): pages, ("robots",): robots}
        now = scheduler.now()
        blocked = sum(until_at > now for until_at in list(self._blocked.values()))
        return {("blocked",): blocked, ("free",): max(len(scheduler.hosts) - blocked, 0)}


REASONS: Final = {
    "TooSoonError": "too_soon",
    "HostUnavailableError": "host_unavailable",
    "NonPublicAddressError": "non_public_address",
    "NestedTurnError": "nested_turn",
    "StoreError": "store",
}
"""The reason of a refusal, by the name of its error; `DisallowedError` has those of its verdict."""


def outcome(status: int | None) -> str:
    """Return the class of a status, as ``2xx``."""
    return NO_STATUS if status is None else f"{status // 100}xx"


def _by_class(counts: Mapping[tuple[str, int | None], int]) -> Mapping[tuple[str, ...], float]:
    found: Counter[tuple[str, ...]] = Counter()
    for (kind, status), count in counts.items():
        found[kind, outcome(status)] += count
    return found


def labelled(metric: Metric, tally: Tally) -> Iterator[tuple[dict[str, str], float]]:
    """Yield the labels and the value of each sample of a counter or a gauge."""
    for values, amount in tally.values(metric).items():
        yield dict(zip(metric.labels, values, strict=True)), amount
