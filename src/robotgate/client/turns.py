"""From a URL to a turn that has begun, and to its end: the site's rules are asked first, then the host is waited for.

All requests but those for robots.txt use this: `gate.turn` and `gate.ready` directly, `gate.fetch` and the middleware
for each request they send.

What comes of a request is told to the scheduler by::

    PageTurn.report           an answer at its headers, from whoever sent the request: the middleware, a caller's client
    Turns.end                 the answer, where it came with its body and nobody has reported it
    PageTurn.note_body        a body that tells us off
    PageTurn.note_outage      why there is no answer: `report` and the middleware by `note_error`, a caller in words
    SiteCache._send           the answer for a robots.txt, or why there is none
"""

from __future__ import annotations

import asyncio
import math
from asyncio import _get_running_loop
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Final
from weakref import WeakKeyDictionary

from yarl import URL

from robotgate.client.proxy import WAY_STATUSES, Route, fault_of_answer, fault_of_error, proxy_of
from robotgate.client.robots import Awaits, Silence, outage_of
from robotgate.errors import (
    BudgetExceededError,
    DisallowedError,
    GateClosedError,
    HostUnavailableError,
    NestedTurnError,
    NonPublicAddressError,
    ProxyUnavailableError,
    RobotGateError,
    StoreError,
    TooSoonError,
)
from robotgate.events import Events, TurnBegan, TurnEnded, TurnRefused, VerdictRefused
from robotgate.pace.answers import note_answer, note_headers, note_outage
from robotgate.pace.host import PacedTurn, Trial
from robotgate.pace.signals import NOTHING_HEARD, is_overuse, is_spoken, retry_after_of
from robotgate.pace.state import GOOD_BELOW, MIN_RETRY_AFTER
from robotgate.pace.timer import COARSEST_TIMER
from robotgate.pace.turn import GRANTED, OPEN, RENEW, TurnState
from robotgate.prices import PAYMENT_REQUIRED, Price, parse_price
from robotgate.rules.normal import as_written, is_plain, target_units
from robotgate.sites.status_table import REDIRECT_STATUSES
from robotgate.urls import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aiohttp import ClientResponse

    from robotgate.client.cache import SiteCache
    from robotgate.client.scopes import ScopeBook
    from robotgate.identity import Identity
    from robotgate.pace.scheduler import Scheduler
    from robotgate.rules.verdict import Verdict
    from robotgate.sites.idle import IdleHosts
    from robotgate.sites.site import Ruling, Site

TURNED_AWAY: Final = (
    TooSoonError,
    HostUnavailableError,
    BudgetExceededError,
    ProxyUnavailableError,
    NonPublicAddressError,
    NestedTurnError,
    StoreError,
)
"""Errors that are reported as `TurnRefused` and counted as `Totals.turned_away`; a `DisallowedError` is reported as
`VerdictRefused`."""
ALSO_READ: Final = WAY_STATUSES | {PAYMENT_REQUIRED}
"""Statuses whose headers are read besides those that `is_spoken` finds."""


class PageTurn(PacedTurn):
    """One request for a page."""

    # Written out, and with positional arguments: what a dataclass makes takes three times as long, for each page.
    __slots__ = ("chain", "max_wait", "price", "route", "ruling", "target", "turns", "units", "wait_began_at")

    paced: Site
    holder: asyncio.Task[object] | None
    state: TurnState
    deadline_at: float
    status: int | None
    bytes_read: int
    trial: Trial | None
    is_page: ClassVar[bool] = True
    """Whether the purposes of the gate bind it: not a file that states rules or lists URLs."""

    def __init__(  # noqa: PLR0917  # As above.
        self,
        turns: Turns,
        site: Site,
        target: str,
        units: str,
        priority: int,
        max_wait: float | None,
        route: Route | None,
    ) -> None:
        PacedTurn.__init__(self, site, False, priority)
        self.turns: Turns = turns
        self.target: str = target
        """Path and query, as they are sent."""
        self.units: str = units
        """The same, as rules are matched with."""
        self.max_wait: float | None = max_wait
        self.route: Route | None = route
        """What the request goes through, and so its robots.txt."""
        self.wait_began_at: float | None = None
        """When it was asked for; None until it has to wait for something."""
        self.chain: tuple[str, ...] = ()
        """The URLs that redirected here, first to last."""
        self.ruling: Ruling | None = None
        self.price: Price | None = None
        """What the site asks for the page."""

    @property
    def url(self) -> str:
        """What is requested, without fragment and credentials."""
        return f"{self.paced.key}{self.target}"

    def is_of(self, url: URL) -> bool:
        """Whether a URL is what is requested. aiohttp drops its fragment and credentials, and may drop its slash."""
        site, target, _ = self.turns.locate(url)
        return (site.key, target) == (self.paced.key, self.target)

    @property
    def waited(self) -> float:
        """Seconds from asking for it until it began, robots.txt included; 0 before it began."""
        return 0.0 if self.wait_began_at is None else max(self.began_at - self.wait_began_at, 0.0)

    @property
    def verdict(self) -> Verdict:
        """Why it may be fetched.

        Raises:
            RuntimeError: the turn has not begun.
        """
        if self.ruling is None or self.state < OPEN:
            raise RuntimeError("the turn has not begun")
        return self.ruling.verdict(self.target, now=self.began_at)

    def report(
        self,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        bytes: int = 0,  # noqa: A002  # The name that a caller would write.
        *,
        error: BaseException | None = None,
    ) -> None:
        """Take in what came of the request, until the turn ends.

        Args:
            headers: the response's; what they ask of our speed is read.
            bytes: bytes of body read since the last report.
            error: aiohttp's or asyncio's, instead of an answer; ignored after a status.
        """
        if self.state is not OPEN:
            return
        self.bytes_read += bytes
        if self._is_of_proxy(status, headers):
            return
        if status is not None:
            if status == PAYMENT_REQUIRED and headers is not None:
                self.price = parse_price(status, headers)
            now = self.turns.now()
            if status in REDIRECT_STATUSES and headers is not None:
                self.turns.note_redirect(self, headers, now)
            note_headers(self.turns.scheduler, self, status, headers, now)
        if error is not None:
            self.note_error(error)

    def note_body(self, status: int, headers: Mapping[str, str] | None, body: bytes) -> None:
        """Take in a body that was read anyway, also after the turn has ended: it may say that we were too fast."""
        if headers is None or self.state < OPEN or not is_overuse(status, headers, body):
            return
        # It may have been evicted since the turn ended, or be another object.
        site = self.turns.find(self.paced.key)
        if site is not None and not self._is_of_proxy(status, headers):
            self.paced = site
            note_headers(self.turns.scheduler, self, status, headers, self.turns.now(), tells_off=True)

    def _is_of_proxy(self, status: int | None, headers: Mapping[str, str] | None) -> bool:
        """Return whether an answer is a proxy's, and says nothing of the site."""
        # A test is quicker than a call.
        if status is None or status < GOOD_BELOW:
            return False
        return fault_of_answer(status, headers, proxy_of(self.route)) is not None

    def note_error(self, error: BaseException) -> bool:
        """Take in an error of aiohttp's, unless it is about a proxy; returns as `note_outage`."""
        host = self.paced.origin.host
        if fault_of_error(error, host=host, proxy=proxy_of(self.route)) is not None:
            return False
        return self.note_outage(outage_of(error, host=host))

    def note_outage(self, outage: str | None) -> bool:
        """Take in why there is no answer, as `outage_of` says it.

        Returns:
            whether the request has not been sent, so that it may wait for another turn by `wait_again`.
        """
        if outage is None or self.state is not OPEN or self.status is not None:
            return False
        is_silence = isinstance(outage, Silence)
        note_outage(self.turns.scheduler, self, outage, is_silence=is_silence)
        return not is_silence

    async def wait_again(self) -> None:
        """End the turn and wait for another, for a request that has not been sent. Its `max_wait` goes on.

        Raises:
            RobotGateError: as `RobotGate.turn`: the host is given up, or would be tried again after `max_wait`.
        """
        if self.wait_began_at is None:
            self.wait_began_at = self.began_at
            if self.max_wait is not None:
                self.deadline_at = self.wait_began_at + self.max_wait
        self.end()
        await self._renewed()

    async def again(self) -> None:
        """End the turn and wait for another, to send the same request once more. Its `max_wait` begins anew.

        Raises:
            RobotGateError: as `RobotGate.turn`.
        """
        self.end()
        self.wait_began_at, self.deadline_at = None, math.inf
        self.status = self.price = None
        self.bytes_read = 0
        await self._renewed()

    async def _renewed(self) -> None:
        if self.trial is not None:
            self.deadline_at, self.trial = math.inf, Trial(self.trial.max_wait)
        self.turns.scheduler.places.move(self, RENEW)
        if not self.turns.try_begin(self):
            await self.turns.begin(self)

    def end(self) -> None:
        """The response has been read, or will not be. A second call does nothing."""
        self.turns.end(self)


class FileTurn(PageTurn):
    """A request for a sitemap or a tdmrep.json. One for a robots.txt is a `PacedTurn`."""

    __slots__ = ()

    is_page: ClassVar[bool] = False


class Turns:
    """Judges URLs and begins turns."""

    def __init__(self, *, identity: Identity, cache: SiteCache, scheduler: Scheduler, events: Events) -> None:
        self.identity = identity
        self._cache = cache
        self.sites: dict[str, Site] = cache.sites
        self.find: Callable[[str], Site | None] = cache.find
        self.idle: IdleHosts = cache.idle
        self.scheduler = scheduler
        self._events = events
        self.meters: tuple[Callable[[PageTurn, float], object], ...] = ()
        """Called with each turn of a page as it ends, and the seconds since it began."""
        self.is_open: bool = False
        """Whether the gate is open."""
        self.closed: asyncio.Event = asyncio.Event()
        """Set when it is closed: what pauses ends."""
        self._redirected: WeakKeyDictionary[asyncio.Task[object], tuple[str, float]] = WeakKeyDictionary()
        """By task, where the last redirect with Retry-After to another host led it, and when it may follow.

        The URL is as rules are matched with, for clients write it in several ways. A host that redirects slows down
        the tasks that it has redirected, and no others on their way to the other host.
        """
        self.addresses: ScopeBook | None = None
        """Where servers' addresses are paced."""
        self._redirected_until_at = 0.0
        """When all of them may follow."""
        self.now: Callable[[], float] = scheduler.now
        self.ticks: Callable[[], float] = scheduler.ticks
        self.epoch: float = scheduler.epoch

    def locate(self, url: str | URL) -> tuple[Site, str, str]:
        """Return the site of a URL, its path and query as they will be sent, and these as rules are matched with.

        Raises:
            InvalidURLError: not an absolute http or https URL.
            NonPublicAddressError: an address that no public site has.
        """
        site, target = None, ""
        if isinstance(url, str):
            written = as_written(url)
            if written is not None:
                site, target = self.sites.get(written[1]), written[2]
        else:
            try:
                target = url.raw_path_qs
                if is_plain(target):
                    # As an origin is written, and as aiohttp needs it for the Host header: yarl keeps it.
                    site = self.sites.get(f"{url.scheme}://{url.host_port_subcomponent}")
            except (AttributeError, ValueError):
                # No URL, or its port is none: refused below.
                site = None
        # A path that is sent as it is written is in its normal form already.
        if site is not None and "/." not in target:
            return site, target, target
        site, target = self._cache.site_at(url)
        return site, target, target_units(target)

    def make(
        self,
        url: str | URL,
        priority: int = 0,
        max_wait: float | None = None,
        route: Route | None = None,
        *,
        is_page: bool = True,
    ) -> PageTurn:
        """Return a turn of a URL, which has yet to begin; `priority` and `max_wait` are those of `RobotGate.turn`.

        Args:
            is_page: as `PageTurn.is_page`.

        Raises:
            EventLoopError: the gate belongs to another event loop.
            InvalidURLError, NonPublicAddressError: as `locate`.
        """
        if _get_running_loop() is not self.scheduler.loop:
            self.scheduler.check_loop()
        site, target, units = self.locate(url)
        return (PageTurn if is_page else FileTurn)(self, site, target, units, priority, max_wait, route)

    def try_begin(self, turn: PageTurn) -> bool:
        """Begin a turn at once if nothing has to be waited for; return whether it began.

        Its site's rules have to be fresh and to allow its URL, its host due, and a permit free.
        """
        site = turn.paced
        # Without a ruling, `rules` is DENY_ALL. Whether the ruling is fresh is looked at below.
        if not site.rules._allows_units(turn.units):
            return False
        turn.ruling = site.ruling
        # Matching may have taken a while: read the clock after it.
        now = self.ticks() + self.epoch
        if (
            now >= site.ready_until_at
            or (now < self._redirected_until_at and self._redirect_pause(turn, now) > 0)
            or not self.scheduler.try_begin(turn, now)
        ):
            return False
        if self._events.is_heard(TurnBegan):
            self._events.emit(TurnBegan(at=now, url=turn.url, waited=0.0, host=turn.paced.host.key))
        return True

    async def begin(self, turn: PageTurn) -> None:
        """Begin a turn that could not begin at once: judge its URL and wait for its host.

        Raises:
            DisallowedError: the site's rules refuse it.
            HostUnavailableError: its robots.txt cannot be read, or the host is blocked for too long.
            BudgetExceededError: a budget is used up.
            TooSoonError: the turn comes later than `max_wait`.
            NonPublicAddressError, NestedTurnError, GateClosedError, StoreError.
        """
        while turn.state is not OPEN:
            # One that is granted was waited for here, or by `ready`.
            if turn.state is GRANTED:
                self.scheduler.begin_granted(turn)
            else:
                await self.judge_and_wait(turn, may_begin=True)
        if self._events.is_heard(TurnBegan):
            self._events.emit(
                TurnBegan(at=self.now(), url=turn.url, waited=turn.waited, host=turn.paced.host.key)
            )

    async def judge_and_wait(self, turn: PageTurn, *, may_begin: bool = False) -> None:  # noqa: C901, PLR0912, PLR0915  # The steps of one wait, in their order.
        """Judge a turn's URL and wait until it is granted.

        Args:
            may_begin: begin it at once if its host is due as soon as its rules are known.

        Raises:
            as `begin`.
        """
        cache, scheduler, now = self._cache, self.scheduler, self.now()
        if turn.wait_began_at is None:
            turn.wait_began_at = now
            if turn.max_wait is not None:
                turn.deadline_at = turn.wait_began_at + turn.max_wait
        try:
            if turn.paced.host.budget is not None or turn.paced.spenders:
                # Not even robots.txt is requested for a page that no budget is left for.
                scheduler.check_budget(turn.paced, now)
            if self.addresses is not None and (turn.route is not None or turn.paced.proxy):
                self.addresses.note_route(turn.paced, turn.route)
            if now < self._redirected_until_at:
                await self._follow_later(turn, now)
                now = self.now()
            # Whether the turn may begin under rules that have expired. It renews them once: where the delay is longer
            # than a file is fresh, they would have expired again after each wait, and it would never begin.
            may_be_expired = False
            while True:
                # It may have been evicted since the turn was made.
                site = turn.paced = self.sites.get(turn.paced.key) or cache.site(turn.paced.origin)
                ruling = cache.fresh(site, now)
                if ruling is None:
                    ruling = await (
                        self._known_in_time(turn, site, now)
                        if turn.deadline_at < math.inf
                        else cache.known(site, turn.route)
                    )
                    if self.sites.get(site.key) is not site:
                        now = self.now()
                        continue
                    self._judge(turn, ruling)
                    # Matching may have taken a while: the clock is read after it.
                    now = self.now()
                    # What is known may be an old copy, where robots.txt cannot be requested now.
                    may_be_expired = may_be_expired or now >= ruling.fresh_until_at
                    if may_begin and scheduler.try_begin(turn, now):
                        return
                # `Turns.try_begin` may have judged it a moment ago.
                elif ruling is not turn.ruling:
                    self._judge(turn, ruling)
                await scheduler.wait(turn)
                now = self.now()
                current = cache.fresh(site, now)
                if current is ruling or (current is None and may_be_expired):
                    # The rules that it was judged by still hold, or have expired after they were asked for again.
                    return
                if current is None:
                    # They have expired for the first time: they are requested again.
                    may_be_expired = True
                elif _allows(current, turn):
                    # Others hold, and allow it.
                    turn.ruling = current
                    return
                # Without fresh rules, or with some that refuse it, it is judged anew.
                scheduler.give_back(turn)
        except TURNED_AWAY as error:
            self.scheduler.totals.turned_away += 1
            self._events.emit(TurnRefused(at=self.now(), url=turn.url, error=error, host=turn.paced.host.key))
            raise

    # Redirects that ask for a pause (RFC 9110 §10.2.3).

    def note_redirect(self, turn: PageTurn, headers: Mapping[str, str], now: float) -> None:
        """Take in a redirect with Retry-After. On the way to the same host, the host's own block holds."""
        pause, task = retry_after_of(headers, now=now), turn.holder
        location = next((value for name, value in headers.items() if name.lower() == "location"), None)
        if not pause or task is None or location is None:
            return
        try:
            site, _, units = self.locate(URL(turn.url).join(URL(location)))
        except (ValueError, RobotGateError):
            # Nobody follows it.
            return
        if site.host is not turn.paced.host:
            self._redirected[task] = f"{site.key}{units}", now + pause
            self._redirected_until_at = max(self._redirected_until_at, now + pause)

    def _redirect_pause(self, turn: PageTurn, now: float) -> float:
        """The seconds until this task may follow the redirect that led it to a turn's URL."""
        task = asyncio.current_task(self.scheduler.loop)
        url, until_at = ("", 0.0) if task is None else self._redirected.get(task, ("", 0.0))
        return until_at - now if url == f"{turn.paced.key}{turn.units}" else 0.0

    async def _follow_later(self, turn: PageTurn, now: float) -> None:
        """Wait until this task may follow the redirect to a turn's URL, if there is one.

        Raises:
            HostUnavailableError: the wait is longer than `max_block`.
            TooSoonError: it is longer than `max_wait`.
            GateClosedError: the gate was closed.
        """
        left, host = self._redirect_pause(turn, now), turn.paced.origin.host
        if left <= 0:
            return
        if left > turn.paced.options["max_block"]:
            raise HostUnavailableError(host, left, "the redirect to it asks for a pause by Retry-After")
        if now + left > turn.deadline_at or turn.trial is not None:
            raise TooSoonError(host, left)
        await self.pause(left + COARSEST_TIMER)

    async def pause(self, delay: float) -> None:
        """Wait for so many seconds.

        Raises:
            GateClosedError: the gate was closed meanwhile.
        """
        with suppress(TimeoutError):
            await asyncio.wait_for(self.closed.wait(), delay)
            raise GateClosedError

    async def _known_in_time(self, turn: PageTurn, site: Site, now: float) -> Ruling:
        """Find out about a site within the turn's deadline; a request under way is not broken off for it."""
        cache, flight = self._cache, None
        left, wait = max(turn.deadline_at - now, 0.0), self.scheduler.wait_time(site)
        if wait > left:
            raise TooSoonError(site.origin.host, wait)
        # Past the deadline it waits at most twice, for what is under way: the store's answer, then a response.
        for _ in range(3):
            try:
                async with asyncio.timeout(left):
                    return await cache.known(site, turn.route)
            except TimeoutError:
                flight = cache.flights.get(site.key)
                left = 0.0 if flight is None else flight.awaits.patience
                if not left:
                    break
        lost = self.scheduler.work.lost
        if lost is not None and flight is not None and flight.awaits is Awaits.STORE:
            raise StoreError(str(lost))
        raise TooSoonError(site.origin.host, max(self.scheduler.wait_time(site), MIN_RETRY_AFTER))

    def _judge(self, turn: PageTurn, ruling: Ruling) -> None:
        """Hold a turn to a ruling; raise what refuses it."""
        if _allows(ruling, turn):
            turn.ruling = ruling
            return
        verdict = ruling.verdict(turn.target, now=self.now())
        if ruling.is_non_public:
            raise NonPublicAddressError(verdict.url, verdict.cause)
        error = refusal_of(verdict, turn.chain)
        if isinstance(error, DisallowedError):
            turn.paced.refused += 1
            self.scheduler.totals.refused += 1
            self._events.emit(VerdictRefused(at=self.now(), verdict=verdict, host=turn.paced.host.key))
        raise error

    # What came of a turn.

    def end(self, turn: PageTurn, response: ClientResponse | None = None) -> None:
        """A turn is over; its response, if it has one, is reported unless that was done, and its body counted."""
        now = self.ticks() + self.epoch
        if response is not None and turn.state is OPEN:
            if turn.status is None:
                if (status := response.status) in ALSO_READ or is_spoken(status, response.headers):
                    turn.report(status, response.headers)
                else:
                    note_answer(self.scheduler, turn, status, NOTHING_HEARD, now)
            turn.bytes_read += response.content.total_bytes
        if not self.scheduler.end(turn, now):
            return
        if self._cache.recheck is not None:
            self._cache.note_visit(turn.paced, turn.bytes_read)
        for meter in self.meters:
            meter(turn, now - turn.began_at)
        if self._events.is_heard(TurnEnded):
            self._events.emit(
                TurnEnded(
                    at=now,
                    url=turn.url,
                    status=turn.status,
                    bytes_read=turn.bytes_read,
                    elapsed=now - turn.began_at,
                    host=turn.paced.host.key,
                    price=turn.price,
                )
            )


def _allows(ruling: Ruling, turn: PageTurn) -> bool:
    return (ruling.rules if turn.is_page else ruling.rules._for_files)._allows_units(turn.units)


def refusal_of(
    verdict: Verdict, chain: tuple[str, ...] = ()
) -> DisallowedError | HostUnavailableError | ProxyUnavailableError:
    """What a verdict that refuses is raised as: final, or until robots.txt can be read."""
    if verdict.retry_after is None:
        return DisallowedError(verdict, chain)
    host = Origin.of(verdict.url).host
    if verdict.proxy_failed:
        return ProxyUnavailableError(host, verdict.cause or "a proxy failed", verdict)
    cause = f"its robots.txt cannot be read ({verdict.cause})"
    return HostUnavailableError(host, verdict.retry_after, cause, verdict)
