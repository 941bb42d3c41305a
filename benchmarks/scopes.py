"""Many hosts on few addresses: whether each address gets its delay, how long that takes, and what it costs.

The hosts are names of which a resolver sends each to one of a few addresses of the loopback network. The server notes
when a request's bytes come and when its answer is about to be sent. *Bound* is what the delay of the addresses allows a
client that itself takes no time: for each request of the fullest address the delay and the response. Beside it, the
same gate without scopes gets the same URLs from tasks that sleep, so that an address gets one at each delay: with the
same requests at the same pace, the difference in CPU is what the scopes take.
"""

from __future__ import annotations

import asyncio
import socket
import statistics
from collections import defaultdict
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from aiohttp import ClientSession, TCPConnector
from aiohttp.abc import AbstractResolver, ResolveResult

from benchmarks._bench import alone, cost_of, in_loop, interleaved
from benchmarks._clients import AGENT, CONTACT
from benchmarks._report import Column, Effort, Findings, ratio
from benchmarks._site import page_urls, serving
from robotgate import RobotGate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from benchmarks._bench import Cost
    from benchmarks._site import Site, Visit

PACKAGES: Final = ("robotgate", "aiohttp")
SCOPES: Final = "`address_delay`"
SLEEPING: Final = "no scopes, tasks that sleep"
GRAIN: Final = 1e-6
COLUMNS: Final = (
    Column("short", "gaps of an address under its delay"),
    Column("short_hosts", "gaps of a host under its delay"),
    Column("makespan", "makespan, s", 1),
    Column("to_bound", "to the bound", 3, shows_spread=True),
    Column("cpu", "CPU of a page, µs", shows_spread=True),
)


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


class Resolver(AbstractResolver):
    """Leads names to the addresses of a shape."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The address of a name."""
        address = self._shape.address_of(host)
        return [ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=0)]

    async def close(self) -> None:
        """Nothing is held."""


@asynccontextmanager
async def open_gate(shape: Shape, address_delay: float) -> AsyncIterator[RobotGate]:
    """A gate whose session has the names."""
    connector = TCPConnector(resolver=Resolver(shape), limit=0, family=socket.AF_INET)
    async with (
        ClientSession(connector=connector) as session,
        RobotGate(
            AGENT, contact=CONTACT, session=session, delay=shape.delay, address_delay=address_delay
        ) as gate,
    ):
        yield gate


async def crawl(name: str, shape: Shape, urls: Sequence[str]) -> None:
    """Fetch all URLs."""
    async with (
        open_gate(shape, shape.address_delay if name == SCOPES else 0.0) as gate,
        asyncio.TaskGroup() as tasks,
    ):
        if name == SCOPES:
            for url in urls:
                tasks.create_task(fetched(gate, url))
            return
        slots = defaultdict[str, int](int)
        for position, url in enumerate(urls):
            address = shape.address_of(url.partition("//")[2])
            # A host's first page is two requests.
            is_first = position < shape.hosts
            # The addresses are due one after the other, as those of a gate come to be.
            phase = int(address.rpartition(".")[2]) / shape.addresses
            tasks.create_task(fetched(gate, url, (slots[address] + phase) * shape.address_delay))
            slots[address] += 2 if is_first else 1


async def fetched(gate: RobotGate, url: str, wait: float = 0.0) -> None:
    """Fetch a page, after so many seconds."""
    if wait:
        await asyncio.sleep(wait)
    await gate.fetch(url)


def cost(name: str, shape: Shape, urls: Sequence[str]) -> Cost:
    """What a client takes, in a process of its own."""
    return cost_of(lambda: in_loop("asyncio", lambda: crawl(name, shape, urls)))


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
    """A gate with scopes, and one without beside it."""
    findings = Findings()
    shape = effort.pick(Shape(20, 2, 2, 0.1, 0.02, 1), Shape(1000, 10, 5, 1.0, 0.5, 1))
    addresses = [f"127.0.1.{1 + number}" for number in range(shape.addresses)]

    def work(name: str, site: Site) -> dict[str, float]:
        urls = page_urls(shape.hosts, shape.pages, site.port, "{}.site.example".format)
        cpu = alone(cost, name, shape, urls).cpu
        visits = site.visits()
        if len(visits) != shape.requests * shape.addresses:
            raise RuntimeError(
                f"{name}: {len(visits)} requests, where {shape.requests * shape.addresses} were due"
            )
        return {**seen(shape, visits), "cpu": cpu * 1e6 / len(visits)}

    with serving(addresses=addresses) as site:
        figures = interleaved(shape.rounds, {name: partial(work, name, site) for name in (SCOPES, SLEEPING)})
    del figures[SLEEPING]["to_bound"]
    title = f"{shape.hosts} hosts on {shape.addresses} addresses, {shape.address_delay:g} s apart"
    findings.table("addresses", title, COLUMNS, figures, ours=[SCOPES])
    ours = figures[SCOPES]
    findings.goal(
        "gaps of an address or a host under the delay",
        [sum(ours["short"]) + sum(ours["short_hosts"])],
        at_most=0,
    )
    findings.goal("makespan to the bound", ours["to_bound"], at_most=1.05)
    cpu = ratio(ours["cpu"], figures[SLEEPING]["cpu"])
    findings.goal("CPU of a page, of that without scopes at the same pace", cpu, at_most=1.1)
    return findings
