"""Each origin's rules in memory: robots.txt is requested once however many tasks ask, and again before it expires."""

from __future__ import annotations

import asyncio
import math
import random
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from robotgate.client.robots import ROBOTS_TIMEOUT, AiohttpFetcher, Awaits, Fetcher, Flight, Flights
from robotgate.errors import (
    GateClosedError,
    HostUnavailableError,
    InvalidURLError,
    NestedTurnError,
    NonPublicAddressError,
    StoreError,
)
from robotgate.events import BlockCause, Events, HostBlocked, HostRecovered, RobotsFetched
from robotgate.options import HostBlocks, HostOverride, Overrides, Recheck
from robotgate.pace.answers import note_headers, note_outage
from robotgate.pace.host import LONG_AGO, Host, PacedTurn
from robotgate.pace.spacing import NOTHING_ASKED
from robotgate.pace.state import CLOCK_GRAIN
from robotgate.pace.timer import Timer
from robotgate.rules.grammar import MAX_BYTES
from robotgate.rules.verdict import Reason
from robotgate.sites.idle import IdleHosts, is_idle
from robotgate.sites.packed import sites_of
from robotgate.sites.record import (
    Answer,
    Failure,
    FetchResult,
    RobotsRecord,
    Standing,
    conditions,
    follow,
    is_fresh,
    needs_plain_request,
    newer,
    retry_delay,
    settle,
)
from robotgate.sites.site import TDMREP_PATH, Ruling, Site, recheck_is_due, refresh_at, ruling_of
from robotgate.sites.status_table import PROXY_ASKS, STATUS_TABLE, Outcome
from robotgate.urls import HostPattern, Origin, PaceKeyFunction, split_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from yarl import URL

    from robotgate.client.persistence import Persistence
    from robotgate.client.proxy import Route
    from robotgate.client.scopes import ScopeBook
    from robotgate.identity import Identity
    from robotgate.pace.scheduler import Scheduler
    from robotgate.rules.parser import RulesCompiler

MIN_HOP_TIMEOUT: Final = 0.001
"""Seconds; a spent budget still has to be a time-out, not the lack of one."""
LOOKS: Final = 4
"""Entries looked at for each that is added to a full cache. A used one is looked at twice before it is evicted."""
SWEEP: Final = 200
"""Entries looked at in one go while the cache is too full; some milliseconds where all of them are packed."""
SWEEP_DELAY: Final = 1.0
"""Seconds between such sweeps."""
COOL_DOWN: Final = 300
"""Sites that are looked at in one go; a few milliseconds where all of them are packed."""
COOL_DOWN_DELAY: Final = 20.0
"""Seconds after which tables that no question used are dropped. They take three times the memory of the file."""
COOL_DOWN_PAUSE: Final = 0.02
"""Seconds between two such goes."""


@dataclass(slots=True, eq=False, repr=False, kw_only=True)
class SiteCache:
    """The sites in memory: requests the rules of new ones, and applies the operator's options to all.

    A question that `fresh` cannot answer goes down these steps::

        known         what a caller awaits; ends with a ruling
        _find_out     joins the origin's flight or starts one; once more if the proxy of another caller's page failed
        _refresh      in the flight's task: takes the store's record, if that is fresh; else, alone in the fleet:
        _request      says what came of the request, uses it, reports it and saves it
        _read         one request, and those that it is redirected to
        _send         each of them, in its host's turn
    """

    identity: Identity
    allow_private_addresses: bool
    pace_key: PaceKeyFunction
    max_hosts: int
    recheck: Recheck | None
    """Where there is one, `note_visit` is to be called at the end of the turn of every page."""
    compiler: RulesCompiler
    """Makes the rules of a file for our token."""
    overrides: Overrides
    scheduler: Scheduler
    persistence: Persistence
    scopes: ScopeBook
    events: Events
    sites: dict[str, Site] = field(default_factory=dict)
    """By origin as text. Look at `Site.ready_until_at` before you use one."""
    idle: IdleHosts = field(init=False)
    """The hosts that nobody has used for a while, with their sites."""
    flights: Flights = field(default_factory=Flights)
    """What is being found out about origins, by their text."""
    _fetcher: Fetcher = field(init=False)
    """Sends each request for robots.txt; the gate's own takes a route besides."""
    _sweeping: Timer = field(init=False)
    _cooling: Timer = field(init=False)
    _are_warm: bool = False
    """Whether any rules were used since the last look at all sites."""
    _to_look_at: list[Site] = field(default_factory=list)
    """Those whose rules this look has not come to yet."""
    _blocks: HostBlocks = field(default_factory=HostBlocks)
    _candidates: list[str] = field(default_factory=list)
    """The keys of sites that are looked at next if one has to go, the oldest last."""

    def __post_init__(self) -> None:
        self.idle = IdleHosts(self._new_site, self.scheduler.update_limits)
        self.scheduler.wake = self.wake

    def open(self, fetcher: Fetcher) -> None:
        """Request robots.txt files by a fetcher from now on."""
        self._fetcher = fetcher
        self._sweeping, self._cooling = Timer(self._evict), Timer(self._cool_down)

    # Sites in memory.

    def site(self, origin: Origin) -> Site:
        """Return the site of an origin, added if it is not in memory. Nothing is requested."""
        site = self.sites.get(origin.text)
        if site is not None:
            return site
        key = self.pace_key(origin)
        if key in self.idle.hosts:
            self.wake(key)
            if origin.text in self.sites:
                return self.sites[origin.text]
        # As `size`, without a call.
        if len(self.sites) + self.idle.origins >= self.max_hosts:
            self._evict(LOOKS, room=1)
        host = self.scheduler.hosts.get(key)
        if host is None:
            host = self.scheduler.hosts[key] = Host(key, self.persistence.first_lease)
        site = self.sites[origin.text] = self._new_site(origin, host)
        self.scheduler.update_limits(host)
        return site

    def find(self, key: str) -> Site | None:
        """Return the site of an origin as text, if it is in memory."""
        if key not in self.sites:
            with suppress(InvalidURLError):
                self.wake(self.pace_key(Origin.of(key)))
        return self.sites.get(key)

    @property
    def size(self) -> int:
        """How many sites are in memory."""
        return len(self.sites) + self.idle.origins

    def _new_site(self, origin: Origin, host: Host) -> Site:
        site = Site(origin, host, self.overrides.options(origin.host), key=origin.text)
        site.operator_until_at = self._blocks.until_at(origin.host)
        if self.scopes.is_used:
            self.scopes.enter(site)
        host.origins += (site,)
        return site

    def wake(self, key: str) -> Host | None:
        """Return the host of a pace key, with its sites, if it was idle."""
        host = self.idle.take(key)
        if host is not None:
            self.scheduler.hosts[key] = host
            self.sites.update({site.key: site for site in sites_of(host)})
            self._watch_rules()
        return host

    def site_at(self, url: str | URL) -> tuple[Site, str]:
        """Return the site of a URL, and the URL's path and query as they will be sent.

        Raises:
            InvalidURLError: not an absolute http or https URL.
            NonPublicAddressError: an address that no public site has.
        """
        origin, target = split_url(url)
        if not (self.allow_private_addresses or origin.is_public):
            raise NonPublicAddressError(str(url))
        return self.site(origin), target

    def fresh(self, site: Site, now: float) -> Ruling | None:
        """Return what holds for a site; None if that is not known or has expired.

        Past `Site.refresh_at`, robots.txt is requested again in the background.
        """
        if now < site.ready_until_at:
            return site.ruling
        if site.ruling is None and site.record is None:
            # Most that are not ready are new.
            return None
        return self._ruling_and_refresh(site, now)

    def ruling(self, site: Site, now: float) -> Ruling | None:
        """Return the last known ruling, expired or not. One that was dropped is made from the record, and not kept."""
        if site.ruling is not None or site.record is None or site.options["ignore_robots"]:
            return site.ruling
        return self._ruling_of(site.record, site, now)

    def _ruling_of(self, record: RobotsRecord, site: Site, now: float) -> Ruling:
        token = self.identity.token
        return ruling_of(record, token=token, options=site.options, now=now, compiler=self.compiler)

    async def known(self, site: Site, route: Route | None = None) -> Ruling:
        """Find out what holds for a site of which `fresh` knows nothing.

        Raises:
            GateClosedError: the gate was closed before it was known.
            NestedTurnError: asking takes a turn of the host, which this task holds, and nothing older is known.
            HostUnavailableError: the operator blocks the host, or its hours are over, and no fresh rules are known.
            StoreError: the store failed.
        """
        if not site.options["ignore_robots"]:
            record = await self._find_out(site, route)
            if record is not None and record is not site.record:
                # A proxy failed, which is not kept.
                return self._ruling_of(record, site, self.scheduler.now())
        if site.ruling is not None:
            return site.ruling
        # No ruling: it was dropped, and is made from the record; or `ignore_robots` is set for its host, perhaps only
        # since robots.txt was requested.
        return self.ruling(site, self.scheduler.now()) or site.adopt(
            Ruling(origin=site.origin, token=self.identity.token)
        )

    async def load(self, site: Site) -> None:
        """Take in what the store knows of a site and its host, fresh or not. Nothing is requested.

        Raises:
            StoreError: the store failed.
        """
        record = newer(await self.persistence.load_record(site.origin), site.record)
        if record is not None and record is not site.record:
            self.learn(site, record, self.scheduler.now())
        await self.persistence.load_host(site.host)

    async def record(self, site: Site) -> RobotsRecord:
        """Return what is known of a robots.txt, requested if nothing fresh is, even where it is not obeyed.

        Raises:
            as `known`.
        """
        # If it expires soon, robots.txt is requested again in the background.
        self.fresh(site, self.scheduler.now())
        record = site.record if self._is_usable(site.record) else await self._find_out(site, None)
        if record is None:
            raise GateClosedError
        return record

    async def renew(self, site: Site) -> RobotsRecord:
        """Request a robots.txt again, however fresh it is, and return what is then known.

        A flight under way is joined, and its result is used if it sent a request. A failure leaves a fresh copy in use.

        Raises:
            NestedTurnError: asking takes a turn of the host that this task holds.
            GateClosedError, HostUnavailableError, StoreError: as `known`.
        """
        began_at = self.scheduler.now()
        while True:
            # No record that is known counts, however fresh.
            flight = self.flights.get(site.key) or self._start(site, after=math.inf)
            await flight.join()
            record = flight.unkept or site.record
            if record is not None and record.checked_at >= began_at:
                return record

    def learn(self, site: Site, record: RobotsRecord, now: float, *, retry_at: float = LONG_AGO) -> Ruling:
        """Use a record from now on.

        Args:
            retry_at: robots.txt is not requested again before this instant while the record is fresh.
        """
        ruling = self._ruling_of(record, site, now)
        if site.record is not record:
            site.record, site.since = record, None
        if site.options["ignore_robots"]:
            return ruling
        asked = NOTHING_ASKED if ruling.reason is Reason.DELAY_TOO_LONG else ruling.asked
        if site.asked != asked:
            site.asked = asked
            self.scheduler.update_limits(site.host)
        self._watch_rules()
        return site.adopt(ruling, max(refresh_at(record, self.recheck), retry_at))

    def learn_given(self, site: Site, body: bytes, *, fresh_until_at: float | None) -> None:
        """Use a robots.txt that the caller has, as if it had just been fetched."""
        now = self.scheduler.now()
        result = FetchResult(Outcome.SUCCESS, Answer(status=200, body=body), site.origin.robots_url)
        record = settle(site.origin, result, previous=None, now=now, jitter=0.0)
        if fresh_until_at is not None:
            record = replace(record, fresh_until_at=fresh_until_at)
        self.learn(site, record, now)
        self.persistence.save_record_soon(record)

    def note_visit(self, site: Site, bytes_read: int) -> None:
        """A turn of a site has ended: `Recheck` may have its robots.txt requested again."""
        recheck, record, host = self.recheck, site.record, site.host
        if recheck is None or record is None or site.options["ignore_robots"]:
            return
        # Not counted since the rules were learnt: this visit is the first that counts.
        visits, size = site.since = site.since or (host.visits - 1, host.bytes_read - bytes_read)
        if recheck_is_due(record, recheck, visits=host.visits - visits, bytes_read=host.bytes_read - size):
            # The next request is due after as much traffic again, even if this one fails.
            site.since = host.visits, host.bytes_read
            site.refresh_at = LONG_AGO
            self._ruling_and_refresh(site, self.scheduler.now())

    # Finding out.

    async def _find_out(self, site: Site, route: Route | None) -> RobotsRecord | None:
        """Wait for a flight of a site's, and return what its callers are told, which may not be kept."""
        while True:
            flight = self.flights.get(site.key) or self._start(site, route)
            try:
                await flight.join()
            except NestedTurnError:
                if site.record is None:
                    raise
            if flight.unkept is None or flight.route == route:
                return flight.unkept or site.record
            # The proxy of another caller's page failed.

    def _start(self, site: Site, route: Route | None = None, *, after: float = -math.inf) -> Flight:
        work = partial(self._refresh, site, after=after)
        return self.flights.begin(site.key, site.origin.robots_url, work, route)

    def _ruling_and_refresh(self, site: Site, now: float) -> Ruling | None:
        """Have robots.txt requested in the background if it is due; the ruling answers until it has expired."""
        ruling = self.ruling(site, now)
        if ruling is None or now >= ruling.fresh_until_at:
            return None
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            # A question from outside the loop is answered, and starts nothing.
            return ruling
        self._watch_rules()
        if now < site.refresh_at:
            return site.adopt(ruling, site.refresh_at)
        site.adopt(ruling, now + retry_delay(1, retry_after=None, jitter=random.random()))
        host = site.host
        is_shut = max(host.blocked_until_at, site.operator_until_at, site.circuit.retry_at) > now
        is_shut = is_shut or host.is_off_hours(site, now)
        if site.key not in self.flights and not is_shut and not self.flights.is_closed:
            self._start(site, after=-math.inf if site.record is None else site.record.checked_at)
        return ruling

    async def _refresh(self, site: Site, flight: Flight, *, after: float) -> None:
        """Find out about a site.

        Args:
            after: a record of an attempt up to this instant does not count, even if it is fresh.
        """
        record = newer(await self.persistence.load_record(site.origin), site.record)
        if record is None or not self._is_usable(record, after):
            # It never begins: it tells a caller that holds a turn of the same host that it waits for itself.
            turn = PacedTurn(site, ahead=True)
            async with self.persistence.alone_in_fleet(site.origin, flight, turn) as may_be_known:
                if may_be_known:
                    record = newer(await self.persistence.load_record(site.origin), site.record)
                if record is None or not self._is_usable(record, after):
                    await self._request(site, flight, record)
                    return
        self.learn(site, record, self.scheduler.now())
        # A failure is left to the host's next turn.
        with suppress(StoreError):
            await self.persistence.load_host(site.host)

    async def _request(self, site: Site, flight: Flight, held: RobotsRecord | None) -> None:
        before = site.record
        result = await self._read(site, flight, held)
        if site.record is not before and self._is_usable(site.record):
            # `learn` was called meanwhile: what the caller gave holds.
            return
        now, response = self.scheduler.now(), result.response
        outcome = result.outcome_with(held, now)
        record = settle(site.origin, result, previous=held, now=now, jitter=random.random())
        if outcome is Outcome.PROXY:
            flight.unkept = record
            if held is not None and held is not site.record:
                # A copy of the store's may hold, and its delay with it.
                self.learn(site, held, now)
            ruling = self._ruling_of(record, site, now)
        else:
            # Later calls use it even if it cannot be saved; the callers that wait now then get the store's error.
            pause = response.retry_after(now) if response is not None and record.failures else 0.0
            ruling = self.learn(site, record, now, retry_at=now + pause)
        self.events.emit(
            RobotsFetched(
                at=now,
                origin=record.origin,
                robots_url=record.robots_url,
                access=STATUS_TABLE[outcome].access,
                outcome=outcome,
                status=None if response is None else response.status,
                cause=result.cause,
                stale=ruling.standing is Standing.STALE_RULES,
                bytes_read=0 if response is None else len(response.body),
                elapsed=flight.elapsed,
            )
        )
        if outcome is not Outcome.PROXY and not (response is not None and response.may_be_of_proxy):
            await self.persistence.save_record(record)

    async def _read(self, site: Site, flight: Flight, held: RobotsRecord | None) -> FetchResult:
        """Request a site's robots.txt, follow redirects, and say how it ended.

        Args:
            flight: told what it waits for; has the route.
            held: the copy that is only to be confirmed, where it still lies where it was.

        Raises:
            GateClosedError, HostUnavailableError, StoreError.
        """
        hop, url = site, flight.url
        redirects: tuple[str, ...] = ()
        while True:
            unless = conditions(held, url)
            answer = await self._send(hop, url, flight, unless)
            if answer.is_stale:
                answer = await self._send(hop, url, flight, unless)
            if unless and held is not None and needs_plain_request(held, answer):
                held = None
                continue
            step = follow(url, redirects, answer, is_conditional=bool(unless))
            if isinstance(step, FetchResult):
                return step
            redirects, url = (*redirects, url), step
            try:
                hop, target = self.site_at(url)
            except InvalidURLError as error:
                outcome = Outcome.NON_PUBLIC if isinstance(error, NonPublicAddressError) else Outcome.LOST
                return FetchResult(outcome, Failure(f"redirected to {error}"), url, redirects)
            url = f"{hop.key}{target}"
            pause = answer.retry_after(self.scheduler.now()) if isinstance(answer, Answer) else 0.0
            if pause:
                # On the way to the same host, the host's own block holds as well.
                if pause > hop.options["max_block"]:
                    cause = f"a redirect to it asks for a pause of {pause:.0f} s"
                    return FetchResult(Outcome.FAILURE, Failure(cause), url, redirects)
                flight.awaits = Awaits.TURN
                await asyncio.sleep(pause)
                # It may be another object by now.
                hop = self.site(hop.origin)

    async def _send(self, hop: Site, url: str, flight: Flight, unless: Mapping[str, str]) -> Answer | Failure:
        """Send one request in the host's turn."""
        scheduler, fetcher = self.scheduler, self._fetcher
        turn = PacedTurn(hop, ahead=True)
        flight.awaits = Awaits.TURN
        try:
            # The first test is quicker than a call.
            if hop.scopes_until_at < math.inf and scheduler.now() >= hop.scopes_until_at:
                # `flight.waiting_for` compares what callers hold with these: they have to be known before.
                await self.scopes.locate(hop)
            while not scheduler.try_begin(turn, scheduler.now()):
                with flight.waiting_for(turn, scheduler):
                    await scheduler.wait(turn)
                if scheduler.begin_granted(turn):
                    break
        except HostUnavailableError as error:
            now = scheduler.now()
            if hop.operator_until_at > now or hop.host.is_off_hours(hop, now):
                # A block or hours of the operator say nothing of the site: there is nothing to remember.
                raise
            return Failure(str(error))
        finally:
            flight.awaits = Awaits.STORE
        flight.awaits = Awaits.RESPONSE
        try:
            if flight.route is not None and isinstance(fetcher, AiohttpFetcher):
                fetcher = replace(fetcher, route=flight.route)
            headers = {**self.identity.headers, **unless}
            headers.update(self.identity.signature("GET", url, headers))
            left = max(ROBOTS_TIMEOUT - flight.elapsed, MIN_HOP_TIMEOUT)
            # One byte more shows whether the file is longer.
            answer = await fetcher.fetch(url, headers=headers, max_bytes=MAX_BYTES + 1, timeout=left)
            now = scheduler.now()
            flight.elapsed += now - turn.began_at
            if isinstance(answer, Answer):
                turn.bytes_read = len(answer.body)
                if answer.status != PROXY_ASKS:
                    note_headers(scheduler, turn, answer.status, answer.headers, now)
            elif answer.is_outage or answer.is_silence:
                note_outage(scheduler, turn, answer.cause, is_silence=answer.is_silence)
        finally:
            flight.awaits = Awaits.STORE
            scheduler.end(turn, scheduler.now())
        return answer

    def _is_usable(self, record: RobotsRecord | None, after: float = -math.inf) -> bool:
        """Return whether a record need not be requested: fresh, late enough, and not refused by other options."""
        if record is None or record.checked_at <= after or not is_fresh(record, self.scheduler.now()):
            return False
        is_refused = record.outcome in (Outcome.NON_PUBLIC, Outcome.NON_PUBLIC_NAME)
        return not (is_refused and self.allow_private_addresses)

    async def aclose(self) -> None:
        """Cancel what runs and wait for it; callers get `GateClosedError`."""
        # Without sites, the quick ways of `RobotGate.allowed` and `Turns.make` find nothing either.
        self.sites.clear()
        self.idle.origins = 0
        self._sweeping.cancel()
        self._cooling.cancel()
        await self.flights.aclose()
        if self.persistence.session is not None:
            # As `Persistence.aclose` does with all others.
            for host in self.idle.copies():
                self.persistence.hand_on(host)

    # Changes by the operator while the gate runs.

    def block(self, pattern: str, until_at: float, *, is_published: bool = False) -> None:
        """Block hosts until an instant, at all gates that share the store; a past instant lifts the block.

        Args:
            is_published: the other gates know already.

        Raises:
            OptionError: the pattern or the instant makes no sense.
        """
        now, blocked = self.scheduler.now(), HostPattern.parse(pattern)
        was_blocked = self._blocks.get(blocked, 0.0) > now
        self._blocks[blocked] = until_at
        self._blocks.prune(now)
        sites = self._named_by(blocked)
        for site in sites:
            site.operator_until_at = self._blocks.until_at(site.origin.host)
        for host in {site.host for site in sites}:
            self.scheduler.reconsider(host)
        name, cause = str(blocked), BlockCause.OPERATOR
        if until_at > now:
            self.events.emit(HostBlocked(at=now, host=name, until_at=until_at, cause=cause))
        elif was_blocked:
            self.events.emit(HostRecovered(at=now, host=name, cause=cause))
        if self.persistence.session is not None and not is_published:
            # A lift is published even if nothing is blocked here: another process may hold the block.
            self.persistence.session.publish_block(name, until_at)

    def hear_block(self, pattern: str, until_at: float) -> None:
        """Take in what another gate was told, or this one, which the store repeats."""
        known_at = self._blocks.get(HostPattern.parse(pattern), 0.0)
        # Of two infinite instants the difference is no number, and not over anything.
        if abs(until_at - known_at) > CLOCK_GRAIN and max(until_at, known_at) > self.scheduler.now():
            self.block(pattern, until_at, is_published=True)

    def override(self, pattern: str, override: HostOverride | None) -> None:
        """Change the options of some hosts; waiting turns are held to them. What was fetched stays.

        Raises:
            OptionError: the pattern or a value makes no sense; everything is then as it was.
        """
        sites = self._named_by(self.overrides.set(pattern, override))
        for site in sites:
            site.options = self.overrides.options(site.origin.host)
        for site in sites:
            if site.options["ignore_robots"] or site.record is None:
                site.drop_ruling()
                site.asked = NOTHING_ASKED
            else:
                self.learn(site, site.record, self.scheduler.now())
        for host in {site.host for site in sites}:
            self.scheduler.update_limits(host)

    def _named_by(self, pattern: HostPattern) -> list[Site]:
        for key in self.idle.named_by(pattern):
            self.wake(key)
        return [site for site in self.sites.values() if pattern.matches(site.origin.host)]

    # What is kept.

    def _evict(self, looks: int = SWEEP, *, room: int = 0) -> None:
        """Evict the oldest of a full cache, which is to take so many more; what may not go waits a round."""
        size, now = self.max_hosts - room, self.scheduler.now()
        for _ in range(min(looks, self.size)):
            if self.size <= size:
                return
            sites = self._oldest()
            for site in sites:
                if self.size > size and self._may_go(site, now):
                    self._forget(site)
            for site in sites:
                self._put_away(site.host, now)
        if self.size > size and not self.flights.is_closed:
            self._sweeping.set(SWEEP_DELAY)

    def _oldest(self) -> tuple[Site, ...]:
        """Return the sites to look at next: those of an idle host, or one that was added long ago."""
        key = self.idle.oldest()
        if key is not None and (host := self.wake(key)) is not None:
            return sites_of(host)
        if not self._candidates:
            # As in `IdleHosts.oldest`.
            self._candidates = list(reversed(self.sites))
        site = self.sites.get(self._candidates.pop())
        return () if site is None else (site,)

    def _put_away(self, host: Host, now: float) -> None:
        """Pack a host if it is in memory and nothing uses it."""
        scheduler, sites = self.scheduler, sites_of(host)
        if scheduler.hosts.get(host.key) is not host or not is_idle(host, now) or scheduler.work.needs(host):
            return
        if any(site.key in self.flights or f"{site.key}{TDMREP_PATH}" in self.flights for site in sites):
            return
        self.idle.add(host)
        del scheduler.hosts[host.key]
        for site in sites:
            del self.sites[site.key]

    def _may_go(self, site: Site, now: float) -> bool:
        """Return whether a site may be evicted: no turn, flight or pending delay needs it, and the store knows it."""
        if site.is_used:
            site.is_used = False
            return False
        host, work = site.host, self.scheduler.work
        if site.key in self.flights or work.needs(host):
            return False
        return host.may_drop(site, now, is_saved=work.has_store)

    def _forget(self, site: Site) -> None:
        del self.sites[site.key]
        # Turns that were made for it look for its successor.
        site.drop_ruling()
        host = site.host
        host.origins = tuple(other for other in host.origins if other is not site)
        if host.origins:
            self.scheduler.update_limits(host)
        else:
            del self.scheduler.hosts[host.key]
            self.persistence.hand_on(host)

    def _watch_rules(self) -> None:
        """Start the timer that drops unused rules: some were just compiled."""
        if not self._are_warm and not self.flights.is_closed:
            self._are_warm = True
            self._cooling.set(COOL_DOWN_DELAY)

    def _cool_down(self) -> None:
        """Drop the rules that no question used since the last look, and pack idle hosts, a part at a time."""
        now = self.scheduler.now()
        if not self._to_look_at:
            self._are_warm = False
            self._to_look_at = list(self.sites.values())
        part = self._to_look_at[-COOL_DOWN:]
        del self._to_look_at[-COOL_DOWN:]
        for site in part:
            # The next use sets it anew.
            if site.ready_until_at > LONG_AGO:
                site.ready_until_at = LONG_AGO
                self._are_warm = True
            elif site.record is not None and not site.options["ignore_robots"]:
                site.drop_ruling()
                self._put_away(site.host, now)
        if self._to_look_at or self._are_warm:
            self._cooling.set(COOL_DOWN_PAUSE if self._to_look_at else COOL_DOWN_DELAY)
