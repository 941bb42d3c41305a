"""What `benchmarks.pace` asks of its clients, what the server saw of each, and what figures that comes to."""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from benchmarks._report import Figure
from benchmarks._server import ROBOTS_PATH

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks._client import Cost
    from benchmarks._server import Visit

GRAIN: Final = 1e-6
"""Seconds; no clock tells gaps apart that are closer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What every client is to crawl."""

    key: str
    hosts: int
    pages: int
    """Of each."""
    delay: float
    response: float
    """Seconds that the server takes for one, besides its own work."""
    rounds: int
    only: frozenset[str] | None = None
    """Clients that are measured, if not all."""

    @property
    def title(self) -> str:
        """As people say it."""
        slowly = f", responses of {self.response:g} s" if self.response else ""
        return f"{self.hosts} hosts, {self.pages} pages of each, {self.delay:g} s apart{slowly}"

    def urls(self, port: int) -> list[str]:
        """Each host's first page, then each host's second, and so on."""
        return [
            f"http://{host}.site.example:{port}/page/{page}"
            for page in range(self.pages)
            for host in range(self.hosts)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client that fetches all URLs."""

    name: str
    run: Callable[[Sequence[str], float], Cost]
    """Given the delay as well; runs in a process of its own."""
    ideal: Callable[[Shape, float], float]
    """Of the seconds a response takes: the makespan that the delay alone asks for."""
    asks_robots: bool = False
    is_gate: bool = False
    """Whether its delay counts from the end of a response, and robots.txt is one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What the server saw of one client once."""

    between_starts: list[float]
    """From start to start, between pages: the same for all clients."""
    from_end: list[float]
    """From when the server had written the whole answer; of the gate, robots.txt is such an answer too."""
    from_send: list[float]
    """From when it was about to write the answer. A server that is interrupted as it writes notes the end too late."""
    makespan: float
    response: float
    """Seconds that one took in the mean, from the request's bytes being read to the answer's being written."""
    cpu: float


def ideal_of_gate(shape: Shape, response: float) -> float:
    """The delay between all of robots.txt and the pages, none before the end of the one before."""
    return shape.pages * shape.delay + (shape.pages + 1) * response


def ideal_of_limiter(shape: Shape, response: float) -> float:
    """The delay between starts, whatever is still under way."""
    return (shape.pages - 1) * shape.delay + response


def ideal_by_hand(shape: Shape, response: float) -> float:
    """As the limiter's, once robots.txt has come."""
    return response + ideal_of_limiter(shape, response)


def ideal_of_scrapy(shape: Shape, response: float) -> float:
    """The delay between starts, one request at a time."""
    return (shape.pages - 1) * max(shape.delay, response) + response


def round_of(client: Client, shape: Shape, visits: Sequence[Visit], cpu: float) -> Round:
    """What the visits of one client come to.

    Raises:
        RuntimeError: some page was asked for twice, or not at all.
    """
    expected = shape.hosts * (shape.pages + client.asks_robots)
    if len(visits) != expected or len({(visit.host, visit.path) for visit in visits}) != expected:
        raise RuntimeError(f"{client.name}: {len(visits)} requests, where {expected} different ones were due")
    by_host: defaultdict[str, list[Visit]] = defaultdict(list)
    for visit in sorted(visits, key=lambda visit: visit.came_at):
        if client.is_gate or visit.path != ROBOTS_PATH:
            by_host[visit.host].append(visit)
    pairs = [pair for host in by_host.values() for pair in pairwise(host)]
    return Round(
        between_starts=[
            after.came_at - before.came_at for before, after in pairs if before.path != ROBOTS_PATH
        ],
        from_end=[after.came_at - before.ended_at for before, after in pairs],
        from_send=[after.came_at - before.sent_at for before, after in pairs],
        makespan=max(visit.ended_at for visit in visits) - min(visit.came_at for visit in visits),
        response=statistics.fmean(visit.ended_at - visit.came_at for visit in visits),
        cpu=cpu,
    )


def figures_of(client: Client, shape: Shape, rounds: Sequence[Round]) -> dict[str, Figure]:
    """By column."""
    by_round = [_values(client, shape, each) for each in rounds]
    return {key: Figure(tuple(values[key] for values in by_round)) for key in by_round[0]}


def _values(client: Client, shape: Shape, seen: Round) -> dict[str, float]:
    gaps = sorted(seen.between_starts)
    return {
        "short": float(under(shape.delay, gaps)),
        "gaps": float(len(gaps)),
        "least": gaps[0] * 1e3,
        "median": statistics.median(gaps) * 1e3,
        "p99": gaps[len(gaps) * 99 // 100] * 1e3,
        "short_after_end": float(under(shape.delay, seen.from_send)),
        "short_or_interrupted": float(under(shape.delay, seen.from_end)),
        "ends": float(len(seen.from_end)),
        "least_from_end": min(seen.from_end) * 1e3,
        "makespan": seen.makespan,
        "to_ideal": seen.makespan / client.ideal(shape, seen.response),
        "cpu": seen.cpu,
    }


def under(delay: float, gaps: Sequence[float]) -> int:
    """How many are shorter."""
    return sum(gap < delay - GRAIN for gap in gaps)
