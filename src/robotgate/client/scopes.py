"""Which scopes an origin's requests need a place in: the gate's total, its group, one for the origin's budget, and its
server's addresses.

All but the addresses are known at once. Those of a new host are looked up before its robots.txt is requested, by
`SiteCache`; and again when a turn needs them and they have run out: `StoreWork.locate` asks, `locate` looks up, and
`Scheduler.place` grants the turns. A session of the user's may connect elsewhere: where to is read from
the socket of each response, and that address counts from then on. Behind a proxy no address is known, and none counts.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from robotgate.client.addresses import DNS_TTL, KIND, AddressBook, AddressScopes
from robotgate.client.proxy import proxy_of
from robotgate.options import Group, group_function, limits
from robotgate.pace.lease import NOT_OWNED
from robotgate.pace.scope import TOTAL, UNLIMITED, Scope
from robotgate.pace.shares import SharedPermits, SharedTotal
from robotgate.sites.site import Site

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine

    from aiohttp import ClientRequest, ClientResponse
    from aiohttp.abc import AbstractResolver

    from robotgate.client.proxy import Route
    from robotgate.options import Budget, GroupPolicy
    from robotgate.pace.host import PacedOrigin
    from robotgate.pace.lease import NotOwned
    from robotgate.pace.scheduler import Scheduler
    from robotgate.urls import Origin

MAX_PEERS: Final = 8
"""Addresses of one site that sessions of the user's have connected to; the oldest are forgotten."""
MIN_KEPT: Final = 1024
"""Scopes in memory below which none is dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeLimits:
    """The options of a gate of the same names."""

    concurrency: int
    total_rate: tuple[int, float] | None
    total_budget: Budget | None
    origin_budget: Budget | None
    total_bytes_per_second: float
    groups: GroupPolicy
    address_delay: float
    address_concurrency: int | None
    address_exempt: Collection[str]

    def total(self, *, has_store: bool) -> Scope | None:
        """The scope of all hosts together; None without limits. A store keeps its budget, which is this gate's own."""
        rates, speed = limits([self.total_rate]), self.total_bytes_per_second
        if not rates and self.total_budget is None and speed == math.inf:
            return None
        # By arrival alone: a page does not starve behind ever new hosts.
        return Scope(
            TOTAL,
            rates=rates,
            budget=self.total_budget,
            bytes_per_second=speed,
            robots_first=False,
            is_kept=has_store and self.total_budget is not None,
        )

    def shared(self, pages: SharedPermits, lease: NotOwned | None) -> SharedTotal:
        """As `total`, of a fleet."""
        return SharedTotal(
            pages,
            concurrency=self.concurrency,
            rate=next(iter(limits([self.total_rate])), None),
            budget=self.total_budget,
            bytes_per_second=self.total_bytes_per_second,
            lease=lease,
        )


class ScopeBook:
    """The scopes of all origins.

    Args:
        first_lease: of a scope that is new.
    """

    def __init__(self, limits: ScopeLimits, scheduler: Scheduler, first_lease: NotOwned | None) -> None:
        self._scheduler = scheduler
        self._first_lease = first_lease
        self._group = group_function(limits.groups) if limits.groups else None
        self._of_address = Group(
            "address", delay=limits.address_delay, concurrency=limits.address_concurrency
        )
        self.has_addresses: bool = _slots(self._of_address) < UNLIMITED
        """Whether addresses are paced."""
        self._total = limits.total(has_store=scheduler.work.has_store)
        pages = scheduler.places.pages
        if isinstance(pages, SharedPermits):
            self._total = scheduler.shared = limits.shared(pages, first_lease)
            scheduler.scopes |= {share.key: share for share in scheduler.shared.shares}
        if self._total is not None:
            scheduler.scopes[TOTAL] = self._total
        budget = limits.origin_budget
        self._of_origin = None if budget is None else Group("origin", budget=budget)
        others = self._group, self._total, self._of_origin
        self.is_used: bool = self.has_addresses or any(each is not None for each in others)
        """Whether any origin has a scope."""
        self._names = AddressScopes(limits.address_exempt)
        self.measure: Callable[[ClientRequest], None] = self._names.measure
        """Have a response note where it comes from: call it before the request is sent."""
        self.book: AddressBook | None = None
        """Where addresses are paced, from `open` on."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._most = MIN_KEPT

    def open(self, resolver: AbstractResolver) -> AddressBook:
        """Look addresses up from now on; return what has them, for connections."""
        self.book = AddressBook(resolver, scopes=self._names, now=self._scheduler.now)
        self._begin(self._locate_all())
        return self.book

    async def aclose(self) -> None:
        """Look none up any more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.book is not None:
            await self.book.close()

    def enter(self, paced: PacedOrigin) -> None:
        """Give a new origin the scopes that are known."""
        paced.enter(self._known(paced.origin), -math.inf if self.has_addresses else math.inf)

    def _known(self, origin: Origin) -> tuple[Scope, ...]:
        scopes = () if self._total is None else (self._total,)
        group = None if self._group is None else self._group(origin)
        if group is not None:
            scopes = (*scopes, self._scope(f"group|{group.name}", group))
        if self._of_origin is not None:
            scopes = (*scopes, self._scope(f"origin|{origin}", self._of_origin))
        return scopes

    def _scope(self, key: str, limited: Group) -> Scope:
        """Return the scope of a key, with the limits of a group of its own where it is new."""
        scopes = self._scheduler.scopes
        scope = scopes.get(key)
        if scope is None:
            if len(scopes) >= self._most:
                self._drop_unused()
            scope = scopes[key] = Scope(
                key,
                slots=_slots(limited),
                delay=limited.delay,
                rates=limits([limited.rate]),
                budget=limited.budget,
                bytes_per_second=limited.bytes_per_second or math.inf,
                is_kept=self._scheduler.work.has_store,
                lease=self._first_lease,
            )
        return scope

    def _drop_unused(self) -> None:
        scheduler, now = self._scheduler, self._scheduler.now()
        used = {
            scope for host in scheduler.hosts.values() for paced in host.origins for scope in paced.scopes
        }
        for key, scope in list(scheduler.scopes.items()):
            if scope not in used and scope not in scheduler.work.changed and scope.may_drop(now):
                del scheduler.scopes[key]
                if scope.lease is not None and scope.lease is not NOT_OWNED:
                    # Other processes could not have it.
                    scheduler.work.hand_on(scope)
        self._most = max(MIN_KEPT, 2 * len(scheduler.scopes))

    # Addresses.

    async def _locate_all(self) -> None:
        work = self._scheduler.work
        while True:
            await work.has_unplaced.wait()
            work.has_unplaced.clear()
            unplaced, work.unplaced = work.unplaced, set()
            for paced in unplaced:
                self._begin(self.locate(paced))

    async def locate(self, paced: PacedOrigin) -> None:
        """Look the addresses of an origin up."""
        origin, site = paced.origin, paced if isinstance(paced, Site) else None
        names, until_at = set[str](), self._scheduler.now() + DNS_TTL
        if self.book is not None and (site is None or not site.proxy):
            found = await self.book.scopes_of(origin.host, origin.port)
            names, until_at = {*found.names, *(() if site is None else site.peers)}, found.until_at
        # In one order at all processes, which ask for them one after the other.
        scopes = [self._address(name) for name in sorted(names)]
        others = [scope for scope in paced.scopes if not scope.key.startswith(KIND)]
        self._scheduler.place(paced, (*others, *scopes), until_at)

    def _address(self, name: str) -> Scope:
        return self._scope(name, self._of_address)

    def note_route(self, site: Site, route: Route | None) -> None:
        """Take in what the requests to a site go through."""
        site.proxy = proxy_of(route) or ""
        if site.proxy:
            self._names.tell_unknown(site.origin.host, site.proxy)

    def note_peer(self, site: Site, request: ClientRequest, response: ClientResponse) -> None:
        """Take in where a response has come from."""
        name = self._names.of_peer(request, response)
        if name is None or name in site.peers:
            return
        for scope in site.scopes:
            if scope.key == name:
                return
        site.peers = (*site.peers[1 - MAX_PEERS :], name)
        scope = self._address(name)
        scope.last_visit_at = max(scope.last_visit_at, self._scheduler.now())
        # In the next turn it counts, with the others in their order.
        site.scopes_until_at = -math.inf

    def _begin(self, work: Coroutine[object, None, None]) -> None:
        # Not by the loop's task factory, which may begin a task at once.
        task = asyncio.Task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _slots(limited: Group) -> int:
    if limited.concurrency is not None:
        return limited.concurrency
    return 1 if limited.delay else UNLIMITED
