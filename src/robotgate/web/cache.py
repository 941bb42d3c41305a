"""Each origin's rules in memory: robots.txt is requested once however many tasks ask, and again before it expires."""

from __future__ import annotations

import asyncio
import math
import random
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from robotgate.errors import GateClosedError, NestedTurnError, RobotGateError, StoreError
from robotgate.events import RobotsFetched
from robotgate.pace.host import NOT_OWNED, Host, Turn, TurnState
from robotgate.pace.spacing import NOTHING_ASKED
from robotgate.sites.record import (
    Answer,
    FetchResult,
    Standing,
    is_answered,
    is_fresh,
    newer,
    retry_delay,
    settle,
)
from robotgate.sites.site import Ruling, Site, recheck_is_due, ruling_of
from robotgate.sites.status import STATUS_TABLE, Outcome
from robotgate.urls import pace_key_function

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from robotgate.events import Events
    from robotgate.identity import Identity
    from robotgate.options import HostBlocks, Options, Overrides
    from robotgate.pace.scheduler import Scheduler
    from robotgate.pace.spacing import Asked
    from robotgate.sites.record import RobotsRecord
    from robotgate.urls import Origin
    from robotgate.web.fetcher import Proxy
    from robotgate.web.persistence import Persistence
    from robotgate.web.robots import RobotsReader

NON_PUBLIC: Final = frozenset({Outcome.NON_PUBLIC, Outcome.NON_PUBLIC_NAME})
"""Outcomes that another gate's options would make different."""
LOOKS: Final = 4
"""Entries looked at for each that is added to a full cache. A used one is looked at twice before it is evicted."""
SWEEP: Final = 500
"""Entries looked at in one go while the cache is too full; a millisecond or two."""
SWEEP_DELAY: Final = 1.0
"""Seconds between such sweeps."""
COOL_DOWN: Final = 1000
"""Rules whose tables are looked at in one go."""
COOL_DOWN_DELAY: Final = 20.0
"""Seconds after which tables that no question used are dropped. They take three times the memory of the file."""
COOL_DOWN_PAUSE: Final = 0.02
"""Seconds between two such goes."""


class Flight:
    """One task that finds out about an origin, and a future for each caller that waits for it.

    A cancelled caller cancels nothing, a failure is shared instead of repeated, and a caller that would wait for itself
    is refused alone.
    """

    __slots__ = ("_callers", "_waits_for", "is_asking", "proxy", "task")

    def __init__(self, proxy: Proxy | None) -> None:
        self.proxy = proxy
        """What the first caller's page goes through, and so robots.txt as well."""
        self.task: asyncio.Task[None] | None = None
        self.is_asking = False
        """Whether a request is under way."""
        self._callers: dict[asyncio.Future[None], asyncio.Task[object] | None] = {}
        self._waits_for: tuple[Turn, Scheduler] | None = None

    async def join(self) -> None:
        """Wait until it has ended.

        Raises:
            GateClosedError: it was cancelled.
            NestedTurnError: it waits for a turn that only this task can end.
            StoreError, HostUnavailableError: it failed.
        """
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._callers[answer] = asyncio.current_task()
        self._refuse_holders()
        try:
            await answer
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled():
                # Retrieve the error, which came at the same moment: asyncio would report it.
                answer.exception()
            raise
        finally:
            self._callers.pop(answer, None)

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for a turn of this process."""
        return self._waits_for is not None and self._waits_for[0].state is TurnState.WAITING

    @contextmanager
    def waiting_for(self, turn: Turn, scheduler: Scheduler) -> Iterator[None]:
        """Within this block, callers that hold what the turn waits for, here or in another process, are refused."""
        self._waits_for = turn, scheduler
        try:
            self._refuse_holders()
            yield
        finally:
            self._waits_for = None

    async def acquire(self, turn: Turn, scheduler: Scheduler) -> None:
        """Wait for a turn and begin it; callers that hold what it waits for are refused."""
        while not scheduler.start_now(turn, scheduler.now()):
            with self.waiting_for(turn, scheduler):
                await scheduler.wait(turn)
            if scheduler.begin(turn):
                break
        limiter = turn.paced.host.limiter
        if limiter is not None:
            await limiter.acquire()

    def end(self, error: BaseException | None) -> None:
        """Resolve the callers' futures."""
        for answer in self._callers:
            if answer.done():
                continue
            if error is None:
                answer.set_result(None)
            else:
                answer.set_exception(error)

    @property
    def has_callers(self) -> bool:
        """Whether any caller waits."""
        return bool(self._callers)

    def _refuse_holders(self) -> None:
        if self._waits_for is None:
            return
        turn, scheduler = self._waits_for
        for answer, caller in self._callers.items():
            error = None if answer.done() else scheduler.nested(turn, caller)
            if error is not None:
                answer.set_exception(error)


class SiteCache:
    """Knows the sites in memory, and finds out about others.

    Args:
        blocks: the operator's blocks.
        persistence: the store; None: nothing outlives the gate.
    """

    def __init__(
        self,
        *,
        identity: Identity,
        options: Options,
        overrides: Overrides,
        blocks: HostBlocks,
        now: Callable[[], float],
        scheduler: Scheduler,
        persistence: Persistence | None,
        events: Events,
    ) -> None:
        self.sites: OrderedDict[str, Site] = OrderedDict()
        """By origin as text, the oldest first. Look at `Site.refresh_at` before you use one."""
        self.reader: RobotsReader | None = None
        """Set once, by the gate: the reader asks the cache for the sites that redirects lead to."""
        self._token = identity.token
        self._options = options
        self._overrides = overrides
        self._blocks = blocks
        self._pace_key = pace_key_function(options.pace_key)
        self._now = now
        self._scheduler = scheduler
        self._persistence = persistence
        self._events = events
        recheck = options.recheck
        self.counts_traffic = recheck is not None and not (recheck.visits is recheck.bytes_ratio is None)
        """Whether `note_visit` is to be called at the end of every turn."""
        self._flights: dict[str, Flight] = {}
        self._sweeping: asyncio.TimerHandle | None = None
        self._cooling: asyncio.TimerHandle | None = None
        self._to_cool: list[Site] = []
        self._are_warm = False
        self._is_closed = False

    # Sites in memory.

    def site(self, origin: Origin) -> Site:
        """Return the site of an origin, added if it is not in memory. Nothing is requested."""
        site = self.sites.get(origin.text)
        if site is not None:
            return site
        self._evict(LOOKS, self._options.max_hosts - 1)
        key = self._pace_key(origin)
        host = self._scheduler.hosts.get(key)
        if host is None:
            host = Host(key, lease=None if self._persistence is None else NOT_OWNED)
            self._scheduler.hosts[key] = host
        site = Site(
            origin,
            host,
            self._overrides.options(origin.host),
            operator_until_at=self._blocks.until_at(origin.host),
        )
        host.origins.append(site)
        self.sites[origin.text] = site
        self._scheduler.update_limits(host)
        return site

    def fresh(self, site: Site) -> Ruling | None:
        """Return what holds for a site; None if that is not known or has expired.

        Past `Site.refresh_at`, robots.txt is requested again in the background.
        """
        now = self._now()
        return site.ruling if now < site.refresh_at else self._renewed(site, now)

    async def known(self, site: Site, proxy: Proxy | None = None) -> Ruling:
        """Return what holds for a site, found out if it is not known.

        Raises:
            GateClosedError: the gate was closed before it was known.
            NestedTurnError: asking takes a turn of the host, which this task holds, and nothing older is known.
            HostUnavailableError: the operator wants the host left alone, and nothing is known.
            StoreError: the store failed.
        """
        ruling = self.fresh(site)
        if ruling is not None:
            return ruling
        if site.options.ignore_robots:
            ruling = Ruling(origin=site.origin)
            site.adopt(ruling)
            return ruling
        return await self._asked(site, proxy)

    async def record(self, site: Site) -> RobotsRecord:
        """Return what is known of a robots.txt, requested if nothing fresh is, even where it is not obeyed.

        Raises:
            as `known`.
        """
        if not site.options.ignore_robots:
            self.fresh(site)
        record = site.record
        if record is not None and self._will_do(record, -math.inf):
            return record
        await self._asked(site, None)
        if site.record is None:
            raise GateClosedError
        return site.record

    async def renew(self, site: Site) -> RobotsRecord:
        """Request a robots.txt again, however fresh it is, and return what is then known.

        A flight under way is joined, and its result is used if it sent a request. A failure leaves a fresh copy in use.

        Raises:
            NestedTurnError: asking takes a turn of the host that this task holds.
            GateClosedError, HostUnavailableError, StoreError: as `known`.
        """
        began_at = self._now()
        while (flight := self._flights.get(site.key)) is not None:
            await flight.join()
            record = site.record
            if record is not None and record.checked_at >= began_at:
                return record
        await self._start(site, None, partial(self._refresh, site, after=math.inf)).join()
        return site.record or await self.record(site)

    def learn(self, site: Site, record: RobotsRecord) -> Ruling:
        """Use a record from now on."""
        ruling = ruling_of(
            record, token=self._token, options=site.options, now=self._now(), recheck=self._options.recheck
        )
        if site.record is not record:
            site.record, site.since = record, None
        if site.options.ignore_robots:
            return ruling
        site.adopt(ruling)
        self._set_asked(site, NOTHING_ASKED if ruling.delay_is_refused else ruling.asked)
        if self._cooling is None:
            self._cool_in(COOL_DOWN_DELAY)
        return ruling

    def learn_given(self, site: Site, body: bytes, *, fresh_until_at: float | None) -> None:
        """Use a robots.txt that the caller has, as if it had just been fetched."""
        result = FetchResult(Outcome.SUCCESS, Answer(status=200, body=body), site.origin.robots_url)
        record = settle(site.origin, result, previous=None, now=self._now(), jitter=0.0)
        if fresh_until_at is not None:
            record = replace(record, fresh_until_at=fresh_until_at)
        self.learn(site, record)
        if self._persistence is not None:
            self._persistence.save_record_soon(record)

    def judge_anew(self, site: Site) -> None:
        """Hold a site to options that have changed; what was fetched stays."""
        record = site.record
        if site.options.ignore_robots or record is None:
            site.ruling = None
            site.refresh_at = -math.inf
            self._set_asked(site, NOTHING_ASKED)
        else:
            self.learn(site, record)

    def note_visit(self, site: Site, bytes_read: int) -> None:
        """A turn of a site has ended: `Recheck` may have its robots.txt requested again."""
        recheck, record, host = self._options.recheck, site.record, site.host
        if recheck is None or record is None:
            return
        if site.since is None:
            # Not counted since the rules were learnt: this visit is the first that counts.
            site.since = host.visits - 1, host.bytes_read - bytes_read
        visits, read = host.visits - site.since[0], host.bytes_read - site.since[1]
        if recheck_is_due(record, recheck, visits=visits, bytes_read=read):
            # Whatever comes of it, as much has to pass again.
            site.since = host.visits, host.bytes_read
            self._renewed(site, self._now())

    def _set_asked(self, site: Site, asked: Asked) -> None:
        if site.asked != asked:
            site.asked = asked
            self._scheduler.update_limits(site.host)

    # Finding out.

    def is_asking(self, site: Site) -> bool:
        """Return whether a request for a site's robots.txt is under way, not merely waited for."""
        flight = self._flights.get(site.key)
        return flight is not None and flight.is_asking

    def is_at_store(self, site: Site) -> bool:
        """Return whether the store is asked what it knows of a site, or is told."""
        flight = self._flights.get(site.key)
        return flight is not None and not flight.is_asking and not flight.is_waiting

    async def _asked(self, site: Site, proxy: Proxy | None) -> Ruling:
        flight = self._flights.get(site.key) or self._start(site, proxy, partial(self._refresh, site))
        try:
            await flight.join()
        except NestedTurnError:
            # The rules cannot be renewed while this task holds the host's turn: stale rules beat none.
            if site.ruling is None:
                raise
        if site.ruling is None:
            # It became a host of the operator's own while it was asked.
            site.adopt(Ruling(origin=site.origin))
        return site.ruling or Ruling(origin=site.origin)

    def _start(
        self, site: Site, proxy: Proxy | None, work: Callable[[Flight], Coroutine[object, None, None]]
    ) -> Flight:
        if self._is_closed:
            raise GateClosedError
        flight = self._flights[site.key] = Flight(proxy)
        task = asyncio.get_running_loop().create_task(work(flight), name=site.origin.robots_url)
        flight.task = task
        task.add_done_callback(partial(self._ended, site.key, flight))
        return flight

    def _ended(self, key: str, flight: Flight, task: asyncio.Task[None]) -> None:
        del self._flights[key]
        error = GateClosedError() if task.cancelled() else task.exception()
        if error is not None and not flight.has_callers and not isinstance(error, RobotGateError):
            # A fault of a caller's own fetcher or store, of which no caller would hear.
            context = {
                "message": f"{task.get_name()} could not be requested",
                "exception": error,
                "task": task,
            }
            task.get_loop().call_exception_handler(context)
        flight.end(error)

    def _renewed(self, site: Site, now: float) -> Ruling | None:
        """Have robots.txt requested in the background; the ruling answers until it has expired."""
        ruling = site.ruling
        if ruling is None or now >= ruling.fresh_until_at:
            return None
        retry_at = now + retry_delay(1, retry_after=None, jitter=random.random())
        site.refresh_at = min(retry_at, ruling.fresh_until_at)
        host = site.host
        is_shut = max(host.blocked_until_at, site.operator_until_at, site.circuit.retry_at) > now
        if site.key not in self._flights and not is_shut and not self._is_closed:
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                # A question from outside the loop is answered, and starts nothing.
                return ruling
            self._start(site, None, partial(self._renew, site, ruling))
        return ruling

    async def _renew(self, site: Site, ruling: Ruling, flight: Flight) -> None:
        """As `_refresh`, of a site that is known: only callers that have joined hear of a failure."""
        try:
            await self._refresh(
                site, flight, after=-math.inf if ruling.record is None else ruling.record.checked_at
            )
        except StoreError as error:
            if self._persistence is not None and site.ruling is ruling:
                self._persistence.failed("load", error)
            raise

    async def _refresh(self, site: Site, flight: Flight, *, after: float = -math.inf) -> None:
        """Find out about a site.

        Args:
            after: a record of an attempt up to this instant will not do, though it be fresh.
        """
        store, before = self._persistence, site.record
        if store is None:
            if before is None or not self._will_do(before, after):
                await self._request(site, flight, before, before)
            else:
                self.learn(site, before)
            return
        record = newer(await store.load_record(site.origin), before)
        if record is None or not self._will_do(record, after):
            # The process that requests it now takes a turn of the host, too.
            waiting = flight.waiting_for(Turn(site, ahead=True), self._scheduler)
            async with store.alone(f"robots|{site.key}", waiting) as is_shared:
                if is_shared:
                    # Another process may have requested it while this one waited.
                    record = newer(await store.load_record(site.origin), before)
                if record is None or not self._will_do(record, after):
                    await self._request(site, flight, before, record)
                    return
        self.learn(site, record)
        await store.load_host(site.host)

    async def _request(
        self, site: Site, flight: Flight, before: RobotsRecord | None, known: RobotsRecord | None
    ) -> None:
        if self.reader is None:
            raise GateClosedError
        result = await self.reader.read(site, flight, known)
        now, current = self._now(), site.ruling
        if current is not None and site.record is not before and now < current.fresh_until_at:
            # `learn` was called meanwhile, and the caller knows better.
            return
        record = settle(site.origin, result, previous=known, now=now, jitter=random.random())
        # What is known now is used, whether or not it can be saved.
        ruling = self.learn(site, record)
        if self.counts_traffic:
            site.since = site.host.visits, site.host.bytes_read
        if record.failures and is_answered(record) and site.ruling is ruling:
            asked = result.answer.retry_after if isinstance(result.answer, Answer) else None
            delay = retry_delay(record.failures, retry_after=asked, jitter=random.random())
            site.refresh_at = min(record.checked_at + delay, ruling.fresh_until_at)
        self._tell_fetched(ruling, record, result)
        if self._persistence is not None:
            await self._persistence.save_record(record)

    def _will_do(self, record: RobotsRecord, after: float) -> bool:
        """Return whether a record need not be requested: fresh, late enough, and not refused by other options."""
        if self._options.allow_private_addresses and record.outcome in NON_PUBLIC:
            return False
        return record.checked_at > after and is_fresh(record, self._now())

    def _tell_fetched(self, ruling: Ruling, record: RobotsRecord, result: FetchResult) -> None:
        if self._events.is_heard(RobotsFetched):
            self._events.emit(
                RobotsFetched(
                    at=self._now(),
                    origin=record.origin,
                    robots_url=record.robots_url,
                    access=STATUS_TABLE[result.outcome].access,
                    outcome=result.outcome,
                    status=result.answer.status if isinstance(result.answer, Answer) else None,
                    cause=result.cause,
                    stale=ruling.standing is Standing.STALE_RULES,
                )
            )

    async def aclose(self) -> None:
        """Cancel what runs and wait for it; callers get `GateClosedError`."""
        self._is_closed = True
        self.sites.clear()
        for timer in (self._sweeping, self._cooling):
            if timer is not None:
                timer.cancel()
        tasks = [flight.task for flight in self._flights.values() if flight.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # What is kept.

    def _evict(self, looks: int, size: int) -> None:
        """Evict from the oldest of a full cache; what may not go moves to the end."""
        sites = self.sites
        if len(sites) <= size:
            return
        now = self._scheduler.now()
        for _ in range(min(looks, len(sites))):
            if len(sites) <= size:
                return
            key, site = next(iter(sites.items()))
            if self._may_go(site, now):
                self._forget(site)
            else:
                sites.move_to_end(key)
        if self._sweeping is None and not self._is_closed:
            self._sweeping = asyncio.get_running_loop().call_later(SWEEP_DELAY, self._sweep)

    def _sweep(self) -> None:
        self._sweeping = None
        self._evict(SWEEP, self._options.max_hosts)

    def _may_go(self, site: Site, now: float) -> bool:
        """Return whether a site can be forgotten: no turn, flight or unserved wait needs it, and the store knows it."""
        if site.is_used:
            site.is_used = False
            return False
        if (
            site.key in self._flights
            or site.host in self._scheduler.changed
            or site.host in self._scheduler.unowned
        ):
            return False
        return site.host.may_drop(site, now, is_saved=self._persistence is not None)

    def _forget(self, site: Site) -> None:
        del self.sites[site.key]
        host = site.host
        host.origins.remove(site)
        if host.origins:
            self._scheduler.update_limits(host)
        else:
            del self._scheduler.hosts[host.key]
            if self._persistence is not None:
                self._persistence.forget(host)

    def _cool_in(self, delay: float) -> None:
        try:
            self._cooling = asyncio.get_running_loop().call_later(delay, self._cool)
        except RuntimeError:
            # Another thread teaches a robots.txt: the next one from within the loop sets the timer.
            return

    def _cool(self) -> None:
        """Drop the tables of rules that no question used since the last look, a part of all sites at a time."""
        self._cooling = None
        if not self._to_cool:
            self._to_cool = list(self.sites.values())
        part, self._to_cool = self._to_cool[:COOL_DOWN], self._to_cool[COOL_DOWN:]
        for site in part:
            self._are_warm |= not site.rules.cool_down()
        if self._to_cool:
            self._cool_in(COOL_DOWN_PAUSE)
        elif self._are_warm:
            self._are_warm = False
            self._cool_in(COOL_DOWN_DELAY)
