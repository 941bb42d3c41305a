"""Each origin's robots.txt, fetched once however many ask, and what it means for us.

One detached task per origin does the asking; whoever wants the answer awaits that task through a shield, so that a
caller who is cancelled takes nobody with him and a failure is shared instead of repeated.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from robotgate._access import (
    STATUS_TABLE,
    Answer,
    Ending,
    Failure,
    Outcome,
    RobotsRecord,
    Standing,
    StatusPolicy,
    follow,
    settle,
    standing,
)
from robotgate._errors import GateClosedError, HostUnavailableError, InvalidURLError
from robotgate._match import ALLOW_ALL, DENY_ALL, Rules
from robotgate._parse import MAX_BYTES
from robotgate._robotstxt import RobotsTxt
from robotgate._urls import Origin
from robotgate._verdict import AccessResult, Reason, Verdict

if TYPE_CHECKING:
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


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """An origin as we may use it until `fresh_until_at`."""

    origin: Origin
    key: str
    """The origin as text, as its URLs begin."""
    record: RobotsRecord
    standing: Standing
    rules: Rules
    """What binds us: the file's rules, or all or nothing."""
    crawl_delay: float | None
    """The spacing our group asks for: seconds."""
    delay_is_refused: bool
    """True when that spacing is longer than we are willing to wait; `rules` then allow nothing."""
    fresh_until_at: float

    def verdict(self, target: str, *, now: float) -> Verdict:
        """Whether a path and query may be fetched, and why."""
        decision = self.rules.decide(target)
        has_rules = self.standing in (Standing.RULES, Standing.STALE_RULES) and not self.delay_is_refused
        record = self.record
        return Verdict(
            allowed=decision.allowed,
            reason=decision.reason if has_rules else self._reason(decision.reason),
            url=f"{self.key}{target}",
            rule=decision.rule if has_rules else None,
            group=self.rules.agents if has_rules else (),
            access=STATUS_TABLE[record.outcome].access,
            robots_url=record.robots_url,
            redirects=record.redirects,
            status=record.status,
            cause=record.cause,
            fetched_at=record.fetched_at,
            fresh_until_at=self.fresh_until_at,
            stale=self.standing is Standing.STALE_RULES,
            crawl_delay=self.crawl_delay,
            retry_after=max(0.0, self.fresh_until_at - now) if self.is_unreachable else None,
        )

    @property
    def is_unreachable(self) -> bool:
        """Whether the site is closed only because its robots.txt cannot be read just now."""
        return self.standing is Standing.CLOSED and self.record.outcome is Outcome.FAILURE

    def _reason(self, decided: Reason) -> Reason:
        if decided is Reason.ROBOTS_TXT:
            return decided
        if self.delay_is_refused:
            return Reason.DELAY_TOO_LONG
        access = STATUS_TABLE[self.record.outcome].access
        if access is AccessResult.UNREACHABLE:
            return Reason.ROBOTS_TXT_UNREACHABLE
        if self.standing is Standing.CLOSED:
            return Reason.ROBOTS_TXT_FORBIDDEN
        return Reason.ROBOTS_TXT_UNAVAILABLE


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
        bound: asyncio.Semaphore,
    ) -> None:
        self.sites: dict[str, Site] = {}
        """By origin as text; look at `Site.fresh_until_at` before believing one."""
        self._options = options
        self._clock = clock
        self._store = store
        self._lanes = lanes
        self._fetcher = fetcher
        self._bound = bound
        self._flights: dict[Origin, asyncio.Task[Site]] = {}
        self._is_closed = False

    async def site(self, origin: Origin) -> Site:
        """The origin with fresh rules, or whatever the status table puts in their place.

        Raises:
            GateClosedError: the gate was closed before they were known.
            StoreError: the store failed.
        """
        site = self.sites.get(str(origin))
        if site is not None and self._clock.now() < site.fresh_until_at:
            return site
        flight = self._flights.get(origin) or self._take_off(origin)
        try:
            return await asyncio.shield(flight)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if flight.cancelled() and (caller is None or not caller.cancelling()):
                raise GateClosedError("the gate was closed") from None
            raise

    def learn(self, record: RobotsRecord) -> Site:
        """Take in a record and use it from now on."""
        site = self._site_of(record)
        self.sites[site.key] = site
        return site

    async def aclose(self) -> None:
        """Cancel what runs and wait for it; callers get `GateClosedError`."""
        self._is_closed = True
        self.sites.clear()
        flights = list(self._flights.values())
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)

    def _take_off(self, origin: Origin) -> asyncio.Task[Site]:
        if self._is_closed:
            raise GateClosedError("the gate was closed")
        flight = asyncio.get_running_loop().create_task(self._refresh(origin), name=origin.robots_url)
        self._flights[origin] = flight
        flight.add_done_callback(partial(self._land, origin))
        return flight

    def _land(self, origin: Origin, flight: asyncio.Task[Site]) -> None:
        del self._flights[origin]
        if not flight.cancelled():
            # Every caller may be gone; asyncio would then call the error unheard of.
            flight.exception()

    async def _refresh(self, origin: Origin) -> Site:
        async with self._store.lease(origin):
            record = await self._store.load_record(origin)
            if record is None or record.fresh_until_at <= self._clock.now():
                ending = await self._read(origin)
                record = settle(
                    origin, ending, previous=record, now=self._clock.now(), jitter=random.random()
                )
                await self._store.save_record(record)
        return self.learn(record)

    async def _read(self, origin: Origin) -> Ending:
        """Ask, follow redirects, and say how it ended; each hop waits its turn at its own host."""
        url = origin.robots_url
        redirects: tuple[str, ...] = ()
        left = ROBOTS_TIMEOUT
        while True:
            try:
                hop = Origin.of(url)
            except InvalidURLError as error:
                return Ending(Outcome.LOST, Failure(f"redirected to {error}"), url, redirects)
            if not (hop.is_public or self._options.allow_private_addresses):
                return Ending(Outcome.NON_PUBLIC, Failure(Outcome.NON_PUBLIC.value), url, redirects)
            answer, took = await self._ask(hop, url, timeout=left)
            step = follow(url, redirects, answer)
            if isinstance(step, Ending):
                return step
            left = max(left - took, MIN_HOP_TIMEOUT)
            redirects = (*redirects, url)
            url = step

    async def _ask(self, hop: Origin, url: str, *, timeout: float) -> tuple[Answer | Failure, float]:
        """One request, in the host's turn and ahead of its pages; and the seconds it took."""
        lane = await self._lanes.lane(hop.host)
        try:
            admission = await lane.admit(bound=self._bound, ahead=True)
        except HostUnavailableError as error:
            return Failure(str(error)), 0.0
        began_at = self._clock.now()
        try:
            answer = await self._fetcher.fetch(
                url, headers=self._options.identity.headers, max_bytes=MAX_BYTES, timeout=timeout
            )
            if isinstance(answer, Answer):
                admission.report(
                    status=answer.status, retry_after=answer.retry_after, bytes_read=len(answer.body)
                )
        finally:
            admission.end()
        return answer, self._clock.now() - began_at

    def _site_of(self, record: RobotsRecord) -> Site:
        position = standing(record, self._options.policy, self._clock.now())
        rules = self._rules_of(record, position)
        crawl_delay = rules.crawl_delay
        refused = crawl_delay is not None and crawl_delay > self._options.max_delay
        return Site(
            origin=record.origin,
            key=str(record.origin),
            record=record,
            standing=position,
            rules=DENY_ALL if refused else rules,
            crawl_delay=crawl_delay,
            delay_is_refused=refused,
            fresh_until_at=record.fresh_until_at,
        )

    def _rules_of(self, record: RobotsRecord, position: Standing) -> Rules:
        if position is Standing.OPEN:
            return ALLOW_ALL
        if position is Standing.CLOSED:
            return DENY_ALL
        robots = RobotsTxt.parse(record.body, url=record.origin.robots_url)
        return robots.rules(self._options.identity.token)
