"""A crawl of 1.0e9 pages on 12 nodes, in virtual time: ``python -m benchmarks.nodes_model``.

The largest polite crawl that was published (A. Chan, 2025) fetched 1.0e9 pages in 25.5 hours, 57 a second on each of
192 cores. Here each host belongs to one node, by `robotgate.owner`, and is asked for a page when its delay has passed
since the last. A request waits for its response, then for a core of its node, and is open until that is done. At most
so many are open on a node. Hosts have very different numbers of pages, as on the web.

The model is smaller: it has a 50th of the hosts, and each a 50th of its pages. So a node has a 50th of the requests a
second and of the open ones, a page takes its cores 50 times as long, and the crawl ends in a 50th of the time. What
cores and delays have to do stays the same, and so do the makespan to its bounds and the open requests to their most.
Three things do not: nodes are less even with fewer hosts, the wait for one response or core is a larger part of the
crawl, and robots.txt, one for 1,000 pages, is left out. Printed figures are those of the whole crawl.

Nobody knows beforehand which hosts are large, so all get their pages in turn, and the largest are left when most cores
are idle: a makespan may be the sum of both bounds. A crawl that ends with a number of pages does not meet that; it is
shown by when nine tenths of the pages were there.
"""

from __future__ import annotations

import math
import random
from collections import deque
from dataclasses import dataclass
from functools import partial
from heapq import heapreplace
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks.scopes_model import Clock
from robotgate import owner
from robotgate.clock import HOUR

if TYPE_CHECKING:
    from collections.abc import Sequence

NODES: Final = [f"node {number}" for number in range(12)]
CORES: Final = 16
"""Of each."""
HOSTS: Final = 1_000_000
FEWEST: Final = 300
MOST: Final = 8_000
"""Pages of a host, by Pareto's law with exponent 1 between these: 1,000 on average."""
FEWER: Final = 50
"""Hosts of the crawl to those of the model, and pages of a host."""


class Shape(NamedTuple):
    """How it is crawled."""

    cpu: float
    """Seconds of a core that a page takes."""
    delay: float
    response: float = 0.5
    """Seconds, on average."""
    most_open: int = 20_000
    """Requests of a node."""


class Figures(NamedTuple):
    """What came of it."""

    rate: float
    """Pages a second."""
    hours: float
    most_hours: float
    """Until nine tenths of the pages were there."""
    to_delay: float
    """The makespan to what the largest host takes alone."""
    to_cpu: float
    """And to what the pages take all cores if these are never idle."""
    most_pages: float
    """Of the node with most pages, to the mean."""
    first_idle: float
    """When the first node has ended, to when the last has."""


@dataclass(slots=True, eq=False)
class Host:
    """One whose pages are left."""

    pages: int


class Node(Clock):
    """One node, and its hosts."""

    def __init__(self, sizes: Sequence[int], shape: Shape) -> None:
        super().__init__()
        self._shape = shape
        self._most_open = max(1, shape.most_open // FEWER)
        self._open = 0
        self._line: deque[Host] = deque()
        """Those that are due."""
        self._cores = [self.now] * CORES
        """When each is free."""
        self.ends: list[float] = []
        """When its pages were there, in seconds since it began."""
        self._began_at = self.now
        for pages in sizes:
            # Not all at once: seeds come from a file.
            self.at(self.now + random.uniform(0.0, shape.delay), partial(self._come, Host(pages)))
        self.run(math.inf)

    def _come(self, host: Host) -> None:
        self._line.append(host)
        self._send()

    def _send(self) -> None:
        while self._line and self._open < self._most_open:
            self._open += 1
            response = random.expovariate(1 / self._shape.response)
            self.at(self.now + response, partial(self._work, self._line.popleft()))

    def _work(self, host: Host) -> None:
        end_at = max(self.now, self._cores[0]) + self._shape.cpu * FEWER
        heapreplace(self._cores, end_at)
        self.at(end_at, partial(self._end, host))

    def _end(self, host: Host) -> None:
        self._open -= 1
        self.ends.append(self.now - self._began_at)
        host.pages -= 1
        if host.pages:
            self.at(self.now + self._shape.delay, partial(self._come, host))
        self._send()


def sizes_of(hosts: int) -> list[int]:
    """The pages of so many hosts."""
    share = 1 - FEWEST / MOST
    return [round(FEWEST / (1 - share * random.random()) / FEWER) for _ in range(hosts)]


def crawled(shape: Shape, hosts: int = HOSTS // FEWER) -> Figures:
    """Let all nodes crawl."""
    dealt: dict[str, list[int]] = {name: [] for name in NODES}
    sizes = sizes_of(hosts)
    for number, pages in enumerate(sizes):
        dealt[owner(f"https://{number}.example/", NODES)].append(pages)
    nodes = [Node(each, shape) for each in dealt.values()]
    ends = sorted(chain.from_iterable(node.ends for node in nodes))
    pages, seconds = len(ends), ends[-1]
    return Figures(
        pages / seconds * FEWER,
        seconds * FEWER / HOUR,
        ends[pages * 9 // 10] * FEWER / HOUR,
        seconds / (max(sizes) * (shape.delay + shape.response)),
        seconds / (pages * shape.cpu * FEWER / (CORES * len(NODES))),
        max(len(node.ends) for node in nodes) / (pages / len(nodes)),
        min(node.ends[-1] for node in nodes) / seconds,
    )


THEIRS: Final = 1 / 57
OURS: Final = 1 / 378
"""Of large pages whose links are read: docs/benchmarks.md."""
CASES: Final = {
    "57 pages/s of a core, 5 s": Shape(THEIRS, 5),
    "57 pages/s of a core, 10 s": Shape(THEIRS, 10),
    "378 pages/s of a core, 1 s": Shape(OURS, 1),
    "378 pages/s of a core, 5 s": Shape(OURS, 5),
    "378 pages/s of a core, 10 s": Shape(OURS, 10),
    "378, 1 s, 1,000 open requests": Shape(OURS, 1, most_open=1_000),
}


def main() -> None:
    """Print a table."""
    print(f"{'':33}pages/s   hours   9 of 10  to delay  to CPU  most  first")
    for name, shape in CASES.items():
        found = crawled(shape)
        print(
            f"{name:32}{found.rate:8,.0f}{found.hours:8.1f}{found.most_hours:10.1f}{found.to_delay:10.2f}"
            f"{found.to_cpu:8.2f}{found.most_pages:6.2f}{found.first_idle:7.2f}"
        )


if __name__ == "__main__":
    random.seed(1)
    main()
