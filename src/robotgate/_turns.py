"""From a URL to an admitted request: the site's rules first, then the host's turn."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from robotgate._admission import UnwantedError
from robotgate._errors import (
    DisallowedError,
    HostUnavailableError,
    NestedTurnError,
    NonPublicAddressError,
    StoreError,
    TooSoonError,
)
from robotgate._events import TurnBegan, TurnEnded, TurnRefused, VerdictRefused
from robotgate._judged import Judged
from robotgate._lane import STORE_PATIENCE
from robotgate._normal import as_written
from robotgate._pacing import MIN_RETRY_AFTER
from robotgate._robots_reader import ROBOTS_TIMEOUT
from robotgate._turn import OwnTurn, Wish
from robotgate._urls import Origin, split_url

if TYPE_CHECKING:
    from yarl import URL

    from robotgate._admission import Admission, Interest
    from robotgate._bound import Bound
    from robotgate._errors import RobotGateError
    from robotgate._eviction import Eviction
    from robotgate._lane import Lane
    from robotgate._lanes import Lanes
    from robotgate._listeners import Listeners
    from robotgate._ports import Clock
    from robotgate._robots import RobotsKeeper
    from robotgate._site import Site
    from robotgate._verdict import Verdict


MAX_LOCATED: Final = 10_000
"""Origins whose spelling is remembered: reading a URL takes longer than most of what is done with it."""


class Turns:
    """Judges URLs and admits requests."""

    def __init__(
        self,
        *,
        keeper: RobotsKeeper,
        lanes: Lanes,
        clock: Clock,
        bound: Bound,
        listeners: Listeners,
        eviction: Eviction,
        allow_private_addresses: bool,
    ) -> None:
        self._keeper = keeper
        self._lanes = lanes
        self._clock = clock
        self._bound = bound
        self._listeners = listeners
        self._allow_private_addresses = allow_private_addresses
        self._located: dict[str, Origin] = {}
        self.refused: OrderedDict[str, int] = OrderedDict()
        """How many turns the rules of each origin refused, by origin as text."""
        self._refusals = eviction.table(
            self.refused, may_go=lambda key: key not in keeper.sites, let_go=self.refused.pop
        )

    def locate(self, url: str | URL) -> tuple[Origin, str]:
        """The origin of a URL, and its path and query as they will be sent.

        Raises:
            InvalidURLError: not an absolute http or https URL.
            NonPublicAddressError: an address that no public site has.
        """
        text = url if isinstance(url, str) else str(url)
        written = as_written(text)
        if written is not None:
            origin_text, target = written.groups()
            known = self._located.get(origin_text)
            # There is nothing new to a path that is sent as it is written.
            if known is not None and "/." not in target:
                return known, target
        origin, target = split_url(url)
        if not (self._allow_private_addresses or origin.is_public):
            raise NonPublicAddressError(str(url))
        if len(self._located) >= MAX_LOCATED:
            self._located.clear()
        self._located[origin.text] = origin
        return origin, target

    def pace_key(self, url: str) -> str:
        """What a URL is paced together with.

        Raises:
            InvalidURLError, NonPublicAddressError: as `locate`.
        """
        return self._lanes.pace_key(*self.locate(url))

    def is_due(self, url: str) -> bool:
        """Whether a turn for a URL would be had at once."""
        origin, target = self.locate(url)
        if self._keeper.fresh(origin) is None:
            return False
        lane = self._lanes.peek(self._lanes.pace_key(origin, target))
        return self._lanes.wait(origin, target) <= 0 and (lane is None or lane.is_free_for(origin))

    async def site(self, url: str | URL) -> tuple[Site, str]:
        """The site of a URL with its rules, fetched if they are not known, and the URL's path and query.

        Raises:
            InvalidURLError, NonPublicAddressError: as `locate`.
            GateClosedError, StoreError: as `RobotsKeeper.site`.
        """
        origin, target = self.locate(url)
        return await self._keeper.site(origin), target

    async def begin(
        self,
        url: str | URL,
        *,
        priority: int,
        max_wait: float | None,
        chain: tuple[str, ...] = (),
        interest: Interest | None = None,
    ) -> OwnTurn:
        """Judge a URL and wait for its host's turn.

        Args:
            priority, max_wait: as `RobotGate.turn`.
            chain: the URLs that redirected here, first to last, for the error.
            interest: asked when the turn has come; no leaves it to the next, and raises `UnwantedError` here. The turn
                is then for another task than this one, whoever enters its block.

        Raises:
            DisallowedError: the site's rules refuse it.
            HostUnavailableError: its robots.txt cannot be read, or the host asked us to stay away for too long.
            TooSoonError: the turn comes later than `max_wait`.
            InvalidURLError, NonPublicAddressError, NestedTurnError, GateClosedError, StoreError.
        """
        if interest is None:
            turn = self.at_once(url, priority=priority, max_wait=max_wait, chain=chain)
            if turn is not None:
                return turn
        return await self.in_time(url, priority=priority, max_wait=max_wait, chain=chain, interest=interest)

    async def in_time(
        self,
        url: str | URL,
        *,
        priority: int,
        max_wait: float | None,
        chain: tuple[str, ...] = (),
        interest: Interest | None = None,
    ) -> OwnTurn:
        """As `begin`, for whom `at_once` had no turn."""
        origin, target = self.locate(url)
        wish = Wish(
            origin=origin,
            target=target,
            priority=priority,
            max_wait=max_wait,
            asked_at=self._clock.now(),
            chain=chain,
            interest=interest,
        )
        site, admission = await self.admit(wish)
        if interest is not None:
            admission.hand_over()
            # What is asked of the first turn is none of the next one's business.
            wish = replace(wish, interest=None)
        return OwnTurn(self, wish, site, admission, self._clock)

    def at_once(
        self, url: str | URL, *, priority: int, max_wait: float | None, chain: tuple[str, ...] = ()
    ) -> OwnTurn | None:
        """The turn, where everything needed is in memory and the host is plainly due; else None, and `in_time` tells.

        Most of a crawl that stands behind no delay comes this way, at a third of the cost: in a straight line, without
        a coroutine. What it asks is what `in_time` asks, in the same order; any doubt is left to that.

        Raises:
            StoreError: the store did not take the visit.
        """
        text = url if isinstance(url, str) else str(url)
        written = as_written(text)
        if written is None:
            return None
        # There is nothing to locate, or to normalise, in a URL of a known site that is sent as it is written.
        origin_text, target = written.groups()
        site = self._keeper.sites.get(origin_text)
        if site is None or "/." in target or not site.rules.allows_units(target):
            return None
        # To read a large file's rules takes a while: what is counted as a start comes no sooner than the request.
        now = self._clock.now()
        if now >= site.refresh_at:
            return None
        origin = site.origin
        lane = self._lanes.peek(self._lanes.pace_key(origin, target))
        if lane is None:
            return None
        try:
            admission = lane.try_admit(origin, self._bound, now)
        except StoreError as error:
            self._tell_refused(text, error)
            raise
        if admission is None:
            return None
        wish = Wish(
            origin=origin, target=target, priority=priority, max_wait=max_wait, asked_at=now, chain=chain
        )
        self._tell_began(wish)
        return OwnTurn(self, wish, site, admission, self._clock)

    async def admit(self, wish: Wish, *, arrival: int | None = None) -> tuple[Site, Admission]:
        """Judge, wait, and judge again if the rules changed meanwhile.

        Args:
            arrival: that of an earlier admission, whose place among the waiters this one takes.

        Raises:
            as `begin`.
        """
        try:
            return await self._admit(wish, arrival)
        except (
            TooSoonError,
            HostUnavailableError,
            NonPublicAddressError,
            NestedTurnError,
            StoreError,
        ) as error:
            self._tell_refused(wish.url, error)
            raise

    async def _admit(self, wish: Wish, arrival: int | None) -> tuple[Site, Admission]:
        # Rules that were asked for again on its account serve a request when its turn comes, though they be stale by
        # then: a delay can be longer than a file is fresh.
        may_be_stale = is_known_anew = False
        while True:
            site = self._keeper.fresh(wish.origin) or await self._unknown_site(wish)
            if not site.rules.allows(wish.target):
                raise self._refusal(site, wish)
            pace_key = self._lanes.pace_key(wish.origin, wish.target)
            lane = self._lanes.peek(pace_key)
            if lane is None:
                lane = await self._new_lane(pace_key, wish)
            elif arrival is None and wish.interest is None and self._keeper.sites.get(site.key) is site:
                # As a rule nobody else is at a host whose rules have just come, and are those that hold still.
                plain = lane.try_admit(wish.origin, self._bound, self._clock.now())
                if plain is not None:
                    self._tell_began(wish)
                    return site, plain
            if site.key not in self._keeper.sites and not is_known_anew:
                # Rules may have made room for others while the store was asked; by now there may be newer ones.
                is_known_anew = True
                continue
            # What they ask of the host's speed goes with them. Whoever waits in the lane keeps them from going.
            self._keeper.keep(site)
            judged = Judged(self._keeper, wish, site, may_be_stale=may_be_stale)
            may_be_stale = True
            try:
                admission = await lane.admit(
                    wish.origin,
                    bound=self._bound,
                    priority=wish.priority,
                    max_wait=self._left(wish),
                    arrival=arrival,
                    interest=judged,
                )
            except UnwantedError as unwanted:
                if judged.still_holds():
                    raise
                arrival = unwanted.arrival
                continue
            if judged.still_holds():
                self._tell_began(wish)
                return judged.site, admission
            # They changed at the last moment, while a place over all hosts was awaited.
            arrival = admission.arrival
            admission.end()
            judged.release()

    async def _unknown_site(self, wish: Wish) -> Site:
        """A site whose rules have to be asked for first, which takes a turn of its host as well."""
        left = self._left(wish)
        if left is None:
            return await self._keeper.site(wish.origin)
        host, wait = wish.origin.host, self._lanes.wait(wish.origin, wish.target)
        if wait > left:
            raise TooSoonError(host, wait)
        site = await self._site_within(left, wish)
        if site is None and self._keeper.is_at_store(wish.origin):
            # It may take its time to tell, and what it does not know is asked for at once.
            site = await self._site_within(STORE_PATIENCE, wish)
        if site is None and self._keeper.is_asking(wish.origin):
            # The request is under way, and will not take long.
            site = await self._site_within(ROBOTS_TIMEOUT, wish)
        if site is None:
            at_store = self._keeper.is_at_store(wish.origin)
            raise self._out_of_patience(wish, self._lanes.wait(wish.origin, wish.target), at_store=at_store)
        return site

    async def _site_within(self, seconds: float, wish: Wish) -> Site | None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await self._keeper.site(wish.origin)
        return None

    async def _new_lane(self, pace_key: str, wish: Wish) -> Lane:
        """A lane that is made of what the store knows, which may take its time to tell."""
        left = self._left(wish)
        with suppress(TimeoutError):
            async with asyncio.timeout(None if left is None else max(left, STORE_PATIENCE)):
                return await self._lanes.lane(pace_key)
        raise self._out_of_patience(wish, MIN_RETRY_AFTER, at_store=True)

    def _out_of_patience(self, wish: Wish, wait: float, *, at_store: bool) -> TooSoonError | StoreError:
        """As a lane has it: why somebody waited in vain."""
        lost = self._lanes.lost if at_store else None
        if lost is not None:
            return StoreError(str(lost))
        return TooSoonError(wish.origin.host, max(wait, MIN_RETRY_AFTER))

    def _left(self, wish: Wish) -> float | None:
        if wish.max_wait is None:
            return None
        return max(0.0, wish.asked_at + wish.max_wait - self._clock.now())

    def _refusal(self, site: Site, wish: Wish) -> RobotGateError:
        verdict = site.verdict(wish.target, now=self._clock.now())
        if site.is_non_public:
            return NonPublicAddressError(verdict.url, verdict.cause)
        if site.is_unreachable:
            return refusal_of(verdict)
        self._refusals.put(site.key, self.refused.get(site.key, 0) + 1)
        if self._listeners.is_heard(VerdictRefused):
            self._listeners.emit(VerdictRefused(at=self._clock.now(), verdict=verdict))
        return refusal_of(verdict, wish.chain)

    def tell_ended(self, wish: Wish, admission: Admission) -> None:
        """A turn is over."""
        if self._keeper.counts_traffic:
            self._keeper.note_visit(wish.origin, bytes_read=admission.bytes_read)
        if self._listeners.is_heard(TurnEnded):
            now = self._clock.now()
            self._listeners.emit(
                TurnEnded(
                    at=now,
                    url=wish.url,
                    status=admission.status,
                    bytes_read=admission.bytes_read,
                    elapsed=now - admission.began_at,
                )
            )

    def _tell_refused(self, url: str, error: RobotGateError) -> None:
        if self._listeners.is_heard(TurnRefused):
            self._listeners.emit(TurnRefused(at=self._clock.now(), url=url, error=error))

    def _tell_began(self, wish: Wish) -> None:
        if self._listeners.is_heard(TurnBegan):
            now = self._clock.now()
            self._listeners.emit(TurnBegan(at=now, url=wish.url, waited=now - wish.asked_at))


def refusal_of(verdict: Verdict, chain: tuple[str, ...] = ()) -> DisallowedError | HostUnavailableError:
    """What a verdict that lets nobody pass is raised as: final, or until robots.txt can be read."""
    if verdict.retry_after is None:
        return DisallowedError(verdict, chain)
    cause = f"its robots.txt cannot be read ({verdict.cause})"
    return HostUnavailableError(Origin.of(verdict.url).host, verdict.retry_after, cause, verdict)
