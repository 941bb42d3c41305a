"""The origins of a gate, counted and sorted for pages of 50, some hundred at a time between other tasks."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from heapq import nlargest
from operator import itemgetter
from typing import TYPE_CHECKING, Final, TypeVar

from robotgate.observe.views import GateStats, OriginView, count_hosts, count_origins

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping

    from robotgate.client.turns import Turns
    from robotgate.gate import RobotGate
    from robotgate.sites.site import Site

T = TypeVar("T")

PAGE: Final = 50
MAX_PAGES: Final = 20
"""Later pages are not shown: search instead."""
SLICE: Final = 400
"""Origins between two turns of other tasks: a fraction of a millisecond."""
MAX_READ: Final = 500
"""Views with rules that nothing uses which are kept."""
MAX_SHARE: Final = 0.01
"""The share of the event loop's time that passes over all origins take. With more, there are fewer passes."""
READ_ANEW: Final = ("access", "checked_at", "fresh_until_at", "stale")
"""What a view has from such rules."""
READ_AGE: Final = 60.0
"""Seconds after which such rules are read again: a stale copy may have ended."""


def _blocked(site: Site, now: float) -> float:
    until_at = max(site.host.blocked_until_at, site.operator_until_at, site.circuit.retry_at)
    return until_at if until_at > now else 0


def failures(site: Site) -> int:
    """Return how often in a row the host blocked us, was not reached, or gave no robots.txt."""
    record = site.record
    return site.host.failures + site.circuit.outages + (0 if record is None else record.failures)


ORDERS: Final[Mapping[str, Callable[[Site, float], float]]] = {
    "waiting": lambda site, _: site.host.waiting if site.host.waiters else 0,
    "blocked": _blocked,
    "slow": lambda site, _: site.host.latency or 0,
    "failing": lambda site, _: failures(site),
    "visits": lambda site, _: site.host.visits,
    "refused": lambda site, _: site.refused,
}
"""By what origins may be sorted, the largest first; the value at an instant."""


@dataclass(frozen=True, slots=True)
class Query:
    """Which origins a page shows."""

    order: str
    """Of `ORDERS`."""
    search: str = ""
    """A part of the origin."""
    page: int = 0


class Ranking:
    """The first origins of one query, of those added so far."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.matches: int = 0
        """Origins that the search finds, on all pages."""
        self._limit = (query.page + 1) * PAGE
        self._best: list[tuple[float, Site]] = []

    def add(self, sites: list[Site], now: float) -> None:
        """Look at some more origins."""
        value, search, best = ORDERS[self.query.order], self.query.search, self._best
        if search:
            sites = [site for site in sites if search in site.key]
        self.matches += len(sites)
        # Among equal values, the origins that came earlier stay.
        floor = best[-1][0] if len(best) == self._limit else -1.0
        found = [(at, site) for site in sites if (at := value(site, now)) > floor]
        if found:
            self._best = nlargest(self._limit, best + found, key=itemgetter(0))

    @property
    def sites(self) -> list[Site]:
        """The origins of the page."""
        return [site for _, site in self._best[self.query.page * PAGE :]]


class Survey:
    """Counts the hosts and origins of one gate, and finds the origins of each query."""

    def __init__(self, gate: RobotGate) -> None:
        self._read = lru_cache(maxsize=MAX_READ)(lambda record, _: gate.host(record.origin.text))
        self._counts: Counter[str] = Counter()
        self.pages: dict[Query, Ranking] = {}
        """The origins of each query of the last pass."""
        self._lock = asyncio.Lock()
        self._due_at = 0.0
        self._busy = 0.0
        """Seconds of processor time that the last pass over all took."""

    async def update(self, turns: Turns, queries: Collection[Query | None], query: Query | None) -> GateStats:
        """Count hosts and origins, and find the origins of a query.

        The last result is used again until another is due, or the query is new.

        Args:
            queries: those of all readers: one pass serves them all.
        """
        loop = asyncio.get_running_loop()
        async with self._lock:
            is_new = query is not None and query not in self.pages
            if is_new or loop.time() >= self._due_at:
                await self._pass(turns, {each for each in queries if each is not None})
                self._due_at = loop.time() + self._busy / MAX_SHARE
                # Queries that are new each time take a fifth of the time at most.
                await asyncio.sleep(4 * self._busy)
        return GateStats.of(turns, self._counts)

    async def _pass(self, turns: Turns, queries: Collection[Query]) -> None:
        now, self._busy = turns.scheduler.now(), 0.0
        rankings = {query: Ranking(query) for query in queries}
        counts: Counter[str] = Counter()
        # Copies: hosts come and go between two slices. One after the other, as each takes a millisecond or two.
        async for hosts in self._sliced(turns.scheduler.hosts):
            counts += count_hosts(hosts, now)
        async for sites in self._sliced(turns.sites):
            counts += count_origins(sites, now)
            # Those whose rules are in memory.
            known = [
                site
                for site in sites
                if site.ruling is not None or (site.record is not None and not site.options["ignore_robots"])
            ]
            for ranking in rankings.values():
                ranking.add(known, now)
        self._counts, self.pages = counts, rankings

    async def _sliced(self, table: Mapping[str, T]) -> AsyncIterator[list[T]]:
        """Yield what is in a table now, a part at a time; the event loop goes on in between."""
        began = time.thread_time()
        values = list(table.values())
        for start in range(0, len(values), SLICE):
            yield values[start : start + SLICE]
            self._busy += time.thread_time() - began
            await asyncio.sleep(0)
            began = time.thread_time()

    def view(self, turns: Turns, site: Site) -> OriginView:
        """Return what `RobotGate.host` returns. Rules that nothing uses are read from their file once a minute at most.

        Raises:
            GateClosedError: the gate was closed.
        """
        now = turns.scheduler.now()
        due_at = now + turns.scheduler.wait_time(site)
        view = OriginView.of_site(site, site.ruling, now=now, next_allowed_at=due_at)
        if site.ruling is not None or site.record is None:
            return view
        read = self._read(site.record, now // READ_AGE)
        return replace(view, **{name: getattr(read, name) for name in READ_ANEW})
