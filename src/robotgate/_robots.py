"""Each origin's robots.txt, fetched once however many ask."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from robotgate._access import Answer, Ending, Failure, RobotsRecord, Standing, follow, settle
from robotgate._attempts import Attempts
from robotgate._decode import whole_lines
from robotgate._errors import (
    GateClosedError,
    HostUnavailableError,
    InvalidURLError,
    NestedTurnError,
    NonPublicAddressError,
    StoreError,
)
from robotgate._events import RobotsFetched
from robotgate._flight import Flight
from robotgate._lines import MAX_BYTES
from robotgate._losses import Task
from robotgate._site import Site, own_site, site_of
from robotgate._spacing import NOTHING_ASKED
from robotgate._status import STATUS_TABLE, Outcome
from robotgate._urls import ROBOTS_PATH, Origin, split_url

if TYPE_CHECKING:
    from robotgate._bound import Bound
    from robotgate._eviction import Eviction
    from robotgate._identity import Identity
    from robotgate._lanes import Lanes
    from robotgate._listeners import Listeners
    from robotgate._losses import Losses
    from robotgate._overrides import HostPattern, Overrides
    from robotgate._ports import Clock, Fetcher, Store

ROBOTS_TIMEOUT: Final = 10.0
"""Seconds for one robots.txt in all, redirects included; waiting for the hosts' turns does not count."""
MIN_HOP_TIMEOUT: Final = 0.001
"""Seconds; a budget that is spent still has to be a time-out, not the lack of one."""
NON_PUBLIC: Final = frozenset({Outcome.NON_PUBLIC, Outcome.NON_PUBLIC_NAME})
"""What other options would make another outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotsOptions:
    """How robots.txt files are asked for and read."""

    identity: Identity
    overrides: Overrides
    """What holds for which host."""
    allow_private_addresses: bool


class RobotsKeeper:
    """Knows the sites whose rules are fresh, and finds out about the others."""

    def __init__(
        self,
        *,
        options: RobotsOptions,
        clock: Clock,
        store: Store,
        lanes: Lanes,
        fetcher: Fetcher,
        bound: Bound,
        listeners: Listeners,
        losses: Losses,
        eviction: Eviction,
    ) -> None:
        self.sites: dict[str, Site] = {}
        """By origin as text, to be read; look at `Site.fresh_until_at` before believing one."""
        self._table = eviction.table(self.sites, may_go=self._may_go, let_go=self._let_go)
        self._options = options
        self._clock = clock
        self._store = store
        self._lanes = lanes
        self._fetcher = fetcher
        self._bound = bound
        self._listeners = listeners
        self._losses = losses
        self._flights: dict[Origin, Flight] = {}
        self._is_closed = False

    async def site(self, origin: Origin) -> Site:
        """The origin with fresh rules, or whatever the status table puts in their place.

        Raises:
            GateClosedError: the gate was closed before they were known.
            NestedTurnError: asking takes a turn of the host that this task holds, and nothing older is known.
            HostUnavailableError: the operator wants the host left alone, and nothing fresh is known.
            StoreError: the store failed.
        """
        site = self.fresh(origin)
        if site is not None:
            return site
        if self._options.overrides.options(origin.host).ignore_robots:
            site = own_site(origin)
            self._table.put(origin.text, site)
            return site
        return await self._asked(origin)

    async def record(self, origin: Origin) -> RobotsRecord:
        """What is known of the origin's robots.txt, asked for if nothing fresh is, even where it is not obeyed.

        Raises:
            as `site`.
        """
        site = self.fresh(origin) or await self._asked(origin)
        while (record := site.record) is None:
            site = await self._asked(origin)
        return record

    async def _asked(self, origin: Origin) -> Site:
        flight = self._flights.get(origin)
        if flight is None:
            if self._is_closed:
                raise GateClosedError
            flight = self._flights[origin] = Flight(
                partial(self._refresh, origin),
                name=origin.robots_url,
                on_landing=partial(self._flights.pop, origin),
            )
        try:
            return await flight.join()
        except NestedTurnError:
            known = self.sites.get(origin.text)
            if known is None:
                raise
            # Who holds the host's turn cannot have its rules renewed meanwhile: stale rules beat none.
            return known

    def is_asking(self, origin: Origin) -> bool:
        """Whether a request for the origin's robots.txt is under way, not merely waited with."""
        flight = self._flights.get(origin)
        return flight is not None and not flight.is_waiting

    def fresh(self, origin: Origin) -> Site | None:
        """The origin, if its rules are in memory and fresh."""
        site = self.sites.get(origin.text)
        return site if site is not None and self._clock.now() < site.fresh_until_at else None

    def learn(self, record: RobotsRecord) -> Site:
        """Take in a record and use it from now on."""
        site = self._site_of(record)
        if self._options.overrides.options(site.origin.host).ignore_robots:
            return site
        self._table.put(site.key, site)
        self._lanes.ask(site.origin, NOTHING_ASKED if site.delay_is_refused else site.asked)
        return site

    def judge_anew(self, pattern: HostPattern) -> None:
        """Hold sites to options that were changed while running; what was fetched stays."""
        for key, site in list(self.sites.items()):
            if not pattern.matches(site.origin.host):
                continue
            if site.record is None or self._options.overrides.options(site.origin.host).ignore_robots:
                self._table.take(key)
                self._lanes.ask(site.origin, NOTHING_ASKED)
            else:
                self.learn(site.record)

    async def aclose(self) -> None:
        """Cancel what runs and wait for it; callers get `GateClosedError`."""
        self._is_closed = True
        self._table.clear()
        await asyncio.gather(*(flight.cancel() for flight in list(self._flights.values())))

    def _site_of(self, record: RobotsRecord) -> Site:
        return site_of(
            record,
            token=self._options.identity.token,
            options=self._options.overrides.options(record.origin.host),
            now=self._clock.now(),
        )

    async def _refresh(self, origin: Origin, flight: Flight) -> Site:
        known = self.sites.get(origin.text)
        async with self._store.lease(origin):
            record = await self._store.load_record(origin)
            if record is not None and self._clock.now() < record.fresh_until_at and self._holds(record):
                return self.learn(record)
            ending = await self._read(origin, flight)
            learnt = self.fresh(origin)
            if learnt is not None and learnt is not known:
                # The caller taught us while we asked, and knows better.
                return learnt
            record = settle(origin, ending, previous=record, now=self._clock.now(), jitter=random.random())
            # What is known now is used, whether or not it can be written down.
            site = self.learn(record)
            self._tell_fetched(site, record)
            await self._save(record)
        return site

    def _holds(self, record: RobotsRecord) -> bool:
        """Whether it holds for this gate: one that is allowed private addresses takes no other's refusal of them."""
        return not (self._options.allow_private_addresses and record.outcome in NON_PUBLIC)

    async def _save(self, record: RobotsRecord) -> None:
        try:
            await self._store.save_record(record)
        except StoreError as error:
            self._losses.begin(Task.SAVE, error)
            raise
        self._losses.end(Task.SAVE)

    def _may_go(self, key: str) -> bool:
        """Whether a site can be spared: the store knows it as well, and nobody is busy with it."""
        origin = self.sites[key].origin
        return origin not in self._flights and self._lanes.can_spare(origin)

    def _let_go(self, key: str) -> None:
        self._lanes.forget(self._table.take(key).origin)

    def _tell_fetched(self, site: Site, record: RobotsRecord) -> None:
        if not self._listeners.is_heard(RobotsFetched):
            return
        self._listeners.emit(
            RobotsFetched(
                at=self._clock.now(),
                origin=site.origin,
                robots_url=record.robots_url,
                access=STATUS_TABLE[record.outcome].access,
                outcome=record.outcome,
                status=record.status,
                cause=record.cause,
                stale=site.standing is Standing.STALE_RULES,
            )
        )

    async def _read(self, origin: Origin, flight: Flight) -> Ending:
        """Ask, follow redirects, and say how it ended; each hop waits its turn at its own host."""
        url = origin.robots_url
        hop, target = origin, ROBOTS_PATH
        redirects: tuple[str, ...] = ()
        left = ROBOTS_TIMEOUT
        while True:
            answer, took = await self._ask(hop, target, flight, timeout=left)
            step = follow(url, redirects, answer)
            if isinstance(step, Ending):
                return step
            left = max(left - took, MIN_HOP_TIMEOUT)
            redirects = (*redirects, url)
            url = step
            try:
                hop, target = self._next_hop(url)
            except NonPublicAddressError as error:
                return Ending(Outcome.NON_PUBLIC, Failure(f"redirected to {error}"), url, redirects)
            except InvalidURLError as error:
                return Ending(Outcome.LOST, Failure(f"redirected to {error}"), url, redirects)

    def _next_hop(self, url: str) -> tuple[Origin, str]:
        hop, target = split_url(url)
        if not (hop.is_public or self._options.allow_private_addresses):
            raise NonPublicAddressError(url)
        return hop, target

    async def _ask(
        self, hop: Origin, target: str, flight: Flight, *, timeout: float
    ) -> tuple[Answer | Failure, float]:
        """One request, in the host's turn and ahead of its pages; and the seconds it took."""
        url = f"{hop}{target}"
        lane = await self._lanes.lane(self._lanes.pace_key(hop, target))
        try:
            with flight.waiting_for(lane, self._bound):
                admission = await lane.admit(hop, bound=self._bound, ahead=True)
        except HostUnavailableError as error:
            if self._lanes.blocked_until_at(hop.host) > self._clock.now():
                # That says nothing of the site, and nothing of it is to be remembered.
                raise
            return Failure(str(error)), 0.0

        async def again() -> None:
            nonlocal admission
            admission.end()
            admission = await lane.admit(hop, bound=self._bound, ahead=True, arrival=admission.arrival)

        began_at = self._clock.now()
        try:
            with Attempts(url, again):
                answer = await self._fetcher.fetch(
                    # One more than counts tells whether there is more.
                    url,
                    headers=self._options.identity.headers,
                    max_bytes=MAX_BYTES + 1,
                    timeout=timeout,
                )
            if isinstance(answer, Answer):
                if len(answer.body) > MAX_BYTES:
                    answer = replace(answer, body=whole_lines(answer.body, max_bytes=MAX_BYTES))
                admission.report(
                    status=answer.status, retry_after=answer.retry_after, bytes_read=len(answer.body)
                )
            elif answer.is_outage:
                admission.fail(answer.cause)
        finally:
            admission.end()
        took = self._clock.now() - began_at
        # Other hosts' answers may have come as well: their delays begin when they are looked at, and reading rules can
        # wait.
        await asyncio.sleep(0)
        return answer, took
