"""Each origin's robots.txt, fetched once however many ask."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from yarl import URL

from robotgate._access import Answer, Ending, Failure, RobotsRecord, follow, settle
from robotgate._attempts import attempts
from robotgate._decode import whole_lines
from robotgate._errors import (
    GateClosedError,
    HostUnavailableError,
    InvalidURLError,
    NestedTurnError,
    NonPublicAddressError,
)
from robotgate._flight import Flight
from robotgate._lines import MAX_BYTES
from robotgate._site import Site, site_of
from robotgate._status import Outcome, StatusPolicy
from robotgate._urls import Origin

if TYPE_CHECKING:
    from robotgate._bound import Bound
    from robotgate._identity import Identity
    from robotgate._lanes import Lanes
    from robotgate._ports import Clock, Fetcher, Store

ROBOTS_TIMEOUT: Final = 10.0
"""Seconds for one robots.txt in all, redirects included; waiting for the hosts' turns does not count."""
MIN_HOP_TIMEOUT: Final = 0.001
"""Seconds; a budget that is spent still has to be a time-out, not the lack of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotsOptions:
    """How robots.txt files are asked for and read."""

    identity: Identity
    policy: StatusPolicy
    max_delay: float
    """Seconds; a site that asks for a longer spacing is refused."""
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
    ) -> None:
        self.sites: dict[str, Site] = {}
        """By origin as text; look at `Site.fresh_until_at` before believing one."""
        self._options = options
        self._clock = clock
        self._store = store
        self._lanes = lanes
        self._fetcher = fetcher
        self._bound = bound
        self._flights: dict[Origin, Flight] = {}
        self._is_closed = False

    async def site(self, origin: Origin) -> Site:
        """The origin with fresh rules, or whatever the status table puts in their place.

        Raises:
            GateClosedError: the gate was closed before they were known.
            NestedTurnError: asking takes a turn of the host that this task holds, and nothing older is known.
            StoreError: the store failed.
        """
        site = self.fresh(origin)
        if site is not None:
            return site
        flight = self._flights.get(origin)
        if flight is None:
            if self._is_closed:
                raise GateClosedError("the gate was closed")
            flight = self._flights[origin] = Flight(
                partial(self._refresh, origin),
                name=origin.robots_url,
                on_landing=partial(self._flights.pop, origin),
            )
        try:
            return await flight.join()
        except NestedTurnError:
            known = self.sites.get(str(origin))
            if known is None:
                raise
            # Who holds the host's turn cannot have its rules renewed meanwhile: stale rules beat none.
            return known

    def fresh(self, origin: Origin) -> Site | None:
        """The origin, if its rules are in memory and fresh."""
        site = self.sites.get(str(origin))
        return site if site is not None and self._clock.now() < site.fresh_until_at else None

    def learn(self, record: RobotsRecord) -> Site:
        """Take in a record and use it from now on."""
        site = site_of(
            record,
            token=self._options.identity.token,
            policy=self._options.policy,
            max_delay=self._options.max_delay,
            now=self._clock.now(),
        )
        self.sites[site.key] = site
        self._lanes.ask_delay(
            site.origin.host, site.key, 0.0 if site.delay_is_refused else site.crawl_delay or 0.0
        )
        return site

    async def aclose(self) -> None:
        """Cancel what runs and wait for it; callers get `GateClosedError`."""
        self._is_closed = True
        self.sites.clear()
        await asyncio.gather(*(flight.cancel() for flight in list(self._flights.values())))

    async def _refresh(self, origin: Origin, flight: Flight) -> Site:
        known = self.sites.get(str(origin))
        async with self._store.lease(origin):
            record = await self._store.load_record(origin)
            if record is not None and self._clock.now() < record.fresh_until_at:
                return self.learn(record)
            ending = await self._read(origin, flight)
            learnt = self.fresh(origin)
            if learnt is not None and learnt is not known:
                # The caller taught us while we asked, and knows better.
                return learnt
            record = settle(origin, ending, previous=record, now=self._clock.now(), jitter=random.random())
            # What is known now is used, whether or not it can be written down.
            site = self.learn(record)
            await self._store.save_record(record)
        return site

    async def _read(self, origin: Origin, flight: Flight) -> Ending:
        """Ask, follow redirects, and say how it ended; each hop waits its turn at its own host."""
        url = origin.robots_url
        redirects: tuple[str, ...] = ()
        left = ROBOTS_TIMEOUT
        while True:
            try:
                hop = Origin.of(url)
            except NonPublicAddressError as error:
                return Ending(Outcome.NON_PUBLIC, Failure(f"redirected to {error}"), url, redirects)
            except InvalidURLError as error:
                return Ending(Outcome.LOST, Failure(f"redirected to {error}"), url, redirects)
            if not (hop.is_public or self._options.allow_private_addresses):
                refused = NonPublicAddressError(url)
                return Ending(Outcome.NON_PUBLIC, Failure(f"redirected to {refused}"), url, redirects)
            answer, took = await self._ask(hop, url, flight, timeout=left)
            step = follow(url, redirects, answer)
            if isinstance(step, Ending):
                return step
            left = max(left - took, MIN_HOP_TIMEOUT)
            redirects = (*redirects, url)
            url = step

    async def _ask(
        self, hop: Origin, url: str, flight: Flight, *, timeout: float
    ) -> tuple[Answer | Failure, float]:
        """One request, in the host's turn and ahead of its pages; and the seconds it took."""
        lane = await self._lanes.lane(hop.host)
        try:
            with flight.waiting_for(lane, self._bound):
                admission = await lane.admit(bound=self._bound, ahead=True)
        except HostUnavailableError as error:
            return Failure(str(error)), 0.0

        async def again() -> None:
            nonlocal admission
            admission = await admission.again()

        began_at = self._clock.now()
        try:
            with attempts(URL(url), again):
                answer = await self._fetcher.fetch(
                    # One more than counts tells whether there is more.
                    url,
                    headers=self._options.identity.headers,
                    max_bytes=MAX_BYTES + 1,
                    timeout=timeout,
                )
            if isinstance(answer, Answer):
                answer = replace(answer, body=whole_lines(answer.body, max_bytes=MAX_BYTES))
                admission.report(
                    status=answer.status, retry_after=answer.retry_after, bytes_read=len(answer.body)
                )
        finally:
            admission.end()
        return answer, self._clock.now() - began_at
