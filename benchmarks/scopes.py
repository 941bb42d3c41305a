"""Many hosts on few addresses: whether each address gets its delay, how long that takes, and what it costs.

The hosts are names that the system's resolver leads to a few addresses of the loopback network. The server notes
when a request's bytes come and when its answer is about to be sent. *Bound* is what the delay of the addresses allows a
client that itself takes no time: for each request of the fullest address the delay and the response.

What scopes take is measured at a faster pace. A gate without scopes gets the same URLs: of one host of each address,
then of the next one, with the delay of the address as the host's own. So both send the same requests at the same pace,
and wake as often. That matters: a loop that sleeps before each page takes half as much again as one that sends several
when it wakes.
"""

from __future__ import annotations

import asyncio
import socket
import statistics
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final
from unittest.mock import patch

from benchmarks._bench import alone, cost_of, in_loop, interleaved
from benchmarks._clients import AGENT, CONTACT
from benchmarks._report import Column, Effort, Findings, ratio
from benchmarks._site import page_urls, serving
from robotgate import RobotGate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks._bench import Cost
    from benchmarks._site import Site, Visit

PACKAGES: Final = ("robotgate", "aiohttp")
SCOPES: Final = "`address_delay`"
ALONE: Final = "no scopes, an address's hosts in turn"
GRAIN: Final = 1e-6
COLUMNS: Final = (
    Column("short", "gaps of an address under its delay"),
    Column("short_hosts", "gaps of a host under its delay"),
    Column("makespan", "makespan, s", 1),
    Column("to_bound", "to the bound", 3, shows_spread=True),
)
CPU: Final = (Column("cpu", "CPU of a page, µs", shows_spread=True),)


@dataclass(frozen=True, slots=True)
class Shape:
    """What is crawled."""

    hosts: int
    addresses: int
    pages: int
    """Of each host."""
    delay: float
    """Of each host."""
    address_delay: float
    rounds: int

    @property
    def requests(self) -> int:
        """Of each address, robots.txt included."""
        return self.hosts // self.addresses * (self.pages + 1)

    def address_of(self, host: str) -> str:
        """Where a name leads."""
        return f"127.0.1.{1 + int(host.partition('.')[0]) % self.addresses}"


@contextmanager
def names_of(shape: Shape) -> Iterator[None]:
    """Have the system's resolver lead the names to the addresses of a shape."""

    def look_up(
        host: str, port: int, *_: object, **__: object
    ) -> list[tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[str, int]]]:
        address = shape.address_of(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port))]

    with patch("socket.getaddrinfo", look_up):
        yield


async def crawl(name: str, shape: Shape, port: int) -> None:
    """Fetch all URLs."""
    urls = page_urls(shape.hosts, shape.pages, port, "{}.site.example".format)
    in_turn, address_delay = [urls], shape.address_delay
    if name == ALONE:
        in_turn, address_delay = [], 0.0
        for first in range(0, shape.hosts, shape.addresses):
            hosts = range(first, first + shape.addresses)
            in_turn.append([url for position, url in enumerate(urls) if position % shape.hosts in hosts])
    async with RobotGate(
        AGENT, contact=CONTACT, delay=shape.delay, address_delay=address_delay, allow_private_addresses=True
    ) as gate:
        for some in in_turn:
            async with asyncio.TaskGroup() as tasks:
                for url in some:
                    tasks.create_task(gate.fetch(url))


def cost(name: str, shape: Shape, port: int) -> Cost:
    """What a client takes, in a process of its own."""
    with names_of(shape):
        return cost_of(lambda: in_loop("asyncio", lambda: crawl(name, shape, port)))


def seen(shape: Shape, visits: Sequence[Visit]) -> dict[str, float]:
    """What the visits come to, by column."""
    by_address: defaultdict[str, list[Visit]] = defaultdict(list)
    by_host: defaultdict[str, list[Visit]] = defaultdict(list)
    for visit in sorted(visits, key=lambda visit: visit.came_at):
        by_address[shape.address_of(visit.host)].append(visit)
        by_host[visit.host].append(visit)

    def short(groups: defaultdict[str, list[Visit]], delay: float) -> int:
        pairs = [pair for group in groups.values() for pair in pairwise(group)]
        return sum(after.came_at - before.sent_at < delay - GRAIN for before, after in pairs)

    makespan = max(visit.sent_at for visit in visits) - min(visit.came_at for visit in visits)
    response = statistics.fmean(visit.sent_at - visit.came_at for visit in visits)
    bound = (shape.requests - 1) * shape.address_delay + shape.requests * response
    return {
        "short": short(by_address, shape.address_delay),
        "short_hosts": short(by_host, shape.delay),
        "makespan": makespan,
        "to_bound": makespan / bound,
    }


def measure(effort: Effort) -> Findings:
    """A gate with scopes at many hosts, and what scopes take."""
    findings = Findings()
    many = effort.pick(Shape(20, 2, 2, 0.1, 0.02, 1), Shape(1000, 10, 5, 1.0, 0.5, 1))
    fast = effort.pick(Shape(4, 2, 2, 0.02, 0.02, 1), Shape(50, 10, 60, 0.02, 0.02, 7))

    def work(name: str, shape: Shape, site: Site) -> dict[str, float]:
        cpu = alone(cost, name, shape, site.port).cpu
        visits = site.visits()
        if len(visits) != shape.requests * shape.addresses:
            raise RuntimeError(
                f"{name}: {len(visits)} requests, where {shape.requests * shape.addresses} were due"
            )
        return {**seen(shape, visits), "cpu": cpu * 1e6 / len(visits)}

    with serving(addresses=[f"127.0.1.{1 + number}" for number in range(many.addresses)]) as site:
        figures = interleaved(many.rounds, {SCOPES: partial(work, SCOPES, many, site)})
        costs = interleaved(
            fast.rounds,
            {SCOPES: partial(work, SCOPES, fast, site), ALONE: partial(work, ALONE, fast, site)},
        )
    title = f"{many.hosts} hosts on {many.addresses} addresses, {many.address_delay:g} s apart"
    findings.table("addresses", title, COLUMNS, figures, ours=[SCOPES])
    title = f"{fast.hosts} hosts on {fast.addresses} addresses, {fast.address_delay:g} s apart"
    findings.table("cost", title, CPU, costs, ours=[SCOPES])
    ours = figures[SCOPES]
    findings.goal(
        "gaps of an address or a host under the delay",
        [sum(ours["short"]) + sum(ours["short_hosts"])],
        at_most=0,
    )
    findings.goal("makespan to the bound", ours["to_bound"], at_most=1.05)
    cpu = ratio(costs[SCOPES]["cpu"], costs[ALONE]["cpu"])
    findings.goal("CPU of a page, of that without scopes at the same pace", cpu, at_most=1.1)
    return findings
