"""Each origin's robots.txt, fetched once however many ask."""

from __future__ import annotations

import asyncio
import math
import random
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from robotgate._access import (
    Answer,
    Ending,
    RobotsRecord,
    Standing,
    cause_of,
    is_answered,
    is_fresh,
    later,
    retry_delay,
    settle,
)
from robotgate._cooling import Cooling
from robotgate._errors import GateClosedError, NestedTurnError, StoreError
from robotgate._events import RobotsFetched
from robotgate._flight import Flight
from robotgate._losses import Task
from robotgate._ports import NewsStore
from robotgate._recheck import Recheck, Traffic, has_seen_enough
from robotgate._robots_reader import RobotsReader
from robotgate._site import Site, own_site, site_of
from robotgate._spacing import NOTHING_ASKED
from robotgate._status import STATUS_TABLE, Outcome
from robotgate._urls import ROBOTS_PATH, Origin

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from robotgate._bound import Bound
    from robotgate._eviction import Eviction
    from robotgate._identity import Identity
    from robotgate._lanes import Lanes
    from robotgate._listeners import Listeners
    from robotgate._losses import Losses
    from robotgate._overrides import HostPattern, Overrides
    from robotgate._ports import Clock, Fetcher, Store

NON_PUBLIC: Final = frozenset({Outcome.NON_PUBLIC, Outcome.NON_PUBLIC_NAME})
"""What other options would make another outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotsOptions:
    """How robots.txt files are asked for and read."""

    identity: Identity
    overrides: Overrides
    """What holds for which host."""
    allow_private_addresses: bool
    recheck: Recheck | None = None


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
        """By origin as text, to be read; look at `Site.refresh_at` before believing one."""
        self._cooling = Cooling()
        self._watch = self._cooling.watch
        self._table = eviction.table(self.sites, may_go=self._may_go, let_go=self._let_go)
        recheck = options.recheck
        self.counts_traffic = recheck is not None and not (recheck.visits is recheck.bytes_ratio is None)
        """Whether `note_visit` is to be told of visits."""
        self._options = options
        self._clock = clock
        self._store = store
        self._news = store if isinstance(store, NewsStore) else None
        self._lanes = lanes
        self._reader = RobotsReader(
            identity=options.identity,
            allow_private_addresses=options.allow_private_addresses,
            clock=clock,
            lanes=lanes,
            fetcher=fetcher,
            bound=bound,
        )
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

    async def renew(self, origin: Origin) -> RobotsRecord:
        """What is known of the origin's robots.txt once it has been asked for again, however fresh it is.

        What is under way is waited for, and serves if somebody was asked. A failure leaves a fresh copy as it is, but
        for `RobotsRecord.failures` and the instant of the attempt.

        Raises:
            NestedTurnError: asking takes a turn of the host that this task holds.
            GateClosedError, HostUnavailableError, StoreError: as `site`.
        """
        began_at = self._clock.now()
        while (flight := self._flights.get(origin)) is not None:
            record = (await flight.join()).record
            if record is not None and record.checked_at >= began_at:
                return record
        if self._is_closed:
            raise GateClosedError
        site = await self._take_off(origin, partial(self._refresh, origin, after=math.inf)).join()
        # It is an operator's own host since a moment ago, if it has no record.
        return site.record or await self.record(origin)

    async def _asked(self, origin: Origin) -> Site:
        flight = self._flights.get(origin)
        if flight is None:
            if self._is_closed:
                raise GateClosedError
            flight = self._take_off(origin, partial(self._refresh, origin))
        try:
            return await flight.join()
        except NestedTurnError:
            known = self.sites.get(origin.text)
            if known is None:
                raise
            # Who holds the host's turn cannot have its rules renewed meanwhile: stale rules beat none.
            return known

    def _take_off(self, origin: Origin, work: Callable[[Flight], Coroutine[object, None, Site]]) -> Flight:
        flight = self._flights[origin] = Flight(
            work, name=origin.robots_url, on_landing=partial(self._flights.pop, origin)
        )
        return flight

    def is_asking(self, origin: Origin) -> bool:
        """Whether a request for the origin's robots.txt is under way, not merely waited with."""
        flight = self._flights.get(origin)
        return flight is not None and flight.is_asking

    def is_at_store(self, origin: Origin) -> bool:
        """Whether the store is asked what it knows of the origin, or is told."""
        flight = self._flights.get(origin)
        return flight is not None and not flight.is_asking and not flight.is_waiting

    def fresh(self, origin: Origin) -> Site | None:
        """The origin, if its rules are in memory and fresh.

        Past `Site.refresh_at` they are asked for again meanwhile, which nobody waits for.
        """
        site = self.sites.get(origin.text)
        if site is None:
            return None
        now = self._clock.now()
        return site if now < site.refresh_at else self._renewed(site, now)

    def note_visit(self, origin: Origin, *, bytes_read: int) -> None:
        """A visit to an origin has ended: perhaps `Recheck` has its rules asked for again on its account."""
        site, recheck = self.sites.get(origin.text), self._options.recheck
        if site is None or (record := site.record) is None or recheck is None:
            return
        traffic = self._traffic(origin)
        if traffic is None:
            return
        if site.since is None:
            # Nobody has looked since the rules were taken in, so this visit is the first that counts.
            site = self._change(
                replace(site, since=Traffic(traffic.visits - 1, traffic.bytes_read - bytes_read))
            )
        since = site.since or traffic
        if has_seen_enough(record, recheck, since=since, now=traffic):
            # Whatever comes of it, as much has to pass again.
            self._renewed(replace(site, since=traffic), self._clock.now())

    def learn(self, record: RobotsRecord) -> Site:
        """Take in a record and use it from now on."""
        site = self._site_of(record)
        if self._options.overrides.options(site.origin.host).ignore_robots:
            return site
        known = self.sites.get(site.key)
        if known is not None and known.record is record:
            site = replace(site, since=known.since)
        self._table.put(site.key, site)
        self._lanes.ask(site.origin, NOTHING_ASKED if site.delay_is_refused else site.asked)
        return self._change(site)

    def keep(self, site: Site) -> None:
        """Have a site again, if it was let go of while somebody was on his way with it: what it asks binds him."""
        if site.record is not None and site.key not in self.sites:
            self.learn(site.record)

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
        self._cooling.close()
        await asyncio.gather(*(flight.cancel() for flight in list(self._flights.values())))

    def _site_of(self, record: RobotsRecord) -> Site:
        site = site_of(
            record,
            token=self._options.identity.token,
            options=self._options.overrides.options(record.origin.host),
            now=self._clock.now(),
            recheck=self._options.recheck,
        )
        site.rules.tell_when_built(self._watch)
        return site

    def _change(self, site: Site) -> Site:
        """Put something in the place of a site that is kept; it is no younger for that."""
        self.sites[site.key] = site
        return site

    def _renewed(self, site: Site, now: float) -> Site | None:
        """A site that is due to be asked for again, which is seen to; None when it has come to its end.

        Until the answer is there it is as fresh as ever, so that whoever asks is answered as fast; should none come, it
        is tried again in a while.
        """
        if now >= site.fresh_until_at:
            return None
        site = self._put_off(site, now + retry_delay(1, retry_after=None, jitter=random.random()))
        if site.origin not in self._flights and not self._lanes.is_shut(site.origin, ROBOTS_PATH):
            self._begin_renewal(site)
        return site

    def _put_off(self, site: Site, at: float) -> Site:
        return self._change(replace(site, refresh_at=min(at, site.fresh_until_at)))

    def _begin_renewal(self, site: Site) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            # A question from outside of the loop is answered like any other, and starts nothing.
            return
        self._take_off(site.origin, partial(self._renew, site))

    async def _renew(self, site: Site, flight: Flight) -> Site:
        """As `_refresh`, of a site that is known: what goes wrong concerns those alone who have come to wait for it."""
        try:
            after = -math.inf if site.record is None else site.record.checked_at
            return await self._refresh(site.origin, flight, after=after)
        except StoreError as error:
            current = self.sites.get(site.key)
            if current is not None and current.record is site.record:
                # Otherwise there is news, and it was told when that could not be kept.
                self._losses.begin(Task.LOAD, error)
            raise

    async def _refresh(self, origin: Origin, flight: Flight, *, after: float = -math.inf) -> Site:
        """Find out about an origin.

        Args:
            after: what was learnt up to this instant is not good enough, though it be fresh.
        """
        before = self._record_of(origin)
        while True:
            # What somebody has written is there without the lease, for which another process may have to be waited.
            record = await self._loaded(origin, before)
            if record is not None and self._is_good_enough(record, after):
                return await self._learn_loaded(record)
            async with self._lease(origin, after) as is_ours:
                if is_ours:
                    return await self._refresh_alone(origin, flight, before, after)

    @asynccontextmanager
    async def _lease(self, origin: Origin, after: float) -> AsyncIterator[bool]:
        """The right to ask, and True; False where there is news instead, unless none would do."""
        if self._news is None or after == math.inf:
            async with self._store.lease(origin):
                yield True
        else:
            async with self._news.lease_or_news(origin) as is_ours:
                yield is_ours

    async def _refresh_alone(
        self, origin: Origin, flight: Flight, before: RobotsRecord | None, after: float
    ) -> Site:
        """As `_refresh`, by the lease: another may have had it until now."""
        record = await self._loaded(origin, before)
        if record is not None and self._is_good_enough(record, after):
            return await self._learn_loaded(record)
        ending = await self._reader.read(origin, flight, record)
        now, learnt = self._clock.now(), self.sites.get(origin.text)
        if learnt is not None and learnt.record is not before and now < learnt.fresh_until_at:
            # The caller taught us while we asked, and knows better.
            return learnt
        record = settle(origin, ending, previous=record, now=now, jitter=random.random())
        # What is known now is used, whether or not it can be written down.
        site = self._learn_from(record, ending)
        self._tell_fetched(site, record, ending)
        await self._save(record)
        return site

    async def _loaded(self, origin: Origin, before: RobotsRecord | None) -> RobotsRecord | None:
        record = later(await self._store.load_record(origin), before)
        self._losses.end(Task.LOAD)
        return record

    async def _learn_loaded(self, record: RobotsRecord) -> Site:
        """Take in what the store had; what it knows of the host goes with it."""
        site = self.learn(record)
        await self._lanes.load(record.origin)
        return site

    def _learn_from(self, record: RobotsRecord, ending: Ending) -> Site:
        """Take in what an attempt of our own has come to."""
        site = self.learn(record)
        if self.sites.get(site.key) is not site:
            return site
        if self.counts_traffic:
            site = self._change(replace(site, since=self._traffic(record.origin)))
        if record.failures and is_answered(record):
            asked = ending.answer.retry_after if isinstance(ending.answer, Answer) else None
            delay = retry_delay(record.failures, retry_after=asked, jitter=random.random())
            site = self._put_off(site, record.checked_at + delay)
        return site

    def _record_of(self, origin: Origin) -> RobotsRecord | None:
        site = self.sites.get(origin.text)
        return None if site is None else site.record

    def _is_good_enough(self, record: RobotsRecord, after: float) -> bool:
        """Whether nobody need be asked: it is fresh, and of a later attempt than what is not good enough any more."""
        return record.checked_at > after and is_fresh(record, self._clock.now()) and self._holds(record)

    def _traffic(self, origin: Origin) -> Traffic | None:
        """What has been asked of an origin's host, and read from it; None while the store cannot tell."""
        try:
            state, _, _ = self._lanes.recall(self._lanes.pace_key(origin, ROBOTS_PATH), origin)
        except StoreError:
            return None
        return Traffic(state.visits, state.bytes_read)

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

    def _tell_fetched(self, site: Site, record: RobotsRecord, ending: Ending) -> None:
        if not self._listeners.is_heard(RobotsFetched):
            return
        self._listeners.emit(
            RobotsFetched(
                at=self._clock.now(),
                origin=site.origin,
                robots_url=record.robots_url,
                access=STATUS_TABLE[ending.outcome].access,
                outcome=ending.outcome,
                status=ending.answer.status if isinstance(ending.answer, Answer) else None,
                cause=cause_of(ending),
                stale=site.standing is Standing.STALE_RULES,
            )
        )
