"""`RobotGate`: puts the parts together. `client.turns`, `client.cache` and `pace.scheduler` have what a call does."""

from __future__ import annotations

import asyncio
import math
import os
import sys
from contextlib import AsyncExitStack
from datetime import datetime
from functools import partial
from inspect import Parameter
from itertools import chain
from typing import TYPE_CHECKING, Final, Self, TypeVar, Unpack, overload
from weakref import WeakSet

import aiohttp

from robotgate.client.addresses import LOOK_UP_TIMEOUT, ConnectorResolver
from robotgate.client.attempt import MAX_PAGE_REDIRECTS, PageRequest, RequestOptions
from robotgate.client.awaited import Awaited, No, Pending, Yes
from robotgate.client.cache import SiteCache
from robotgate.client.connector import (
    HEADER_LIMITS,
    ThreadPerNameResolver,
    own_connector,
)
from robotgate.client.fetch import PageFetch, PageFetcher, ResponseCheck
from robotgate.client.middleware import GateMiddleware
from robotgate.client.persistence import Persistence
from robotgate.client.ready import DEFAULT_AHEAD, Lines, ReadyTurns
from robotgate.client.robots import AiohttpFetcher
from robotgate.client.scopes import ScopeBook, ScopeLimits
from robotgate.client.turn import Turn
from robotgate.client.turns import PageTurn, Turns
from robotgate.clock import Clock, SteadyClock, SystemClock, ticks_of
from robotgate.errors import GateClosedError, OptionError, RobotGateError
from robotgate.events import Event, Events
from robotgate.gate_options import GateOptions, completed, host_options, open_store
from robotgate.identity import identify
from robotgate.observe.views import GateStats, HostView, OriginView
from robotgate.options import (
    BY_OPTION,
    Overrides,
    check_callback,
    check_kind,
    check_patience,
    check_seconds,
    check_whole,
    signature_of,
    unless_none,
)
from robotgate.pace.host import Trial
from robotgate.pace.promises import MAX_WAIT
from robotgate.pace.scheduler import Scheduler
from robotgate.pace.shares import SharedPermits
from robotgate.pace.store_work import StoreWork
from robotgate.pace.turn import Permits, Places
from robotgate.rules.normal import as_written
from robotgate.rules.parser import COMPILERS
from robotgate.rules.robotstxt import RobotsTxt
from robotgate.sites.packed import sites_of
from robotgate.stores.base import SharedStore
from robotgate.threads import ThreadsafeGate
from robotgate.urls import pace_key_function

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator

    from yarl import URL

    from robotgate.options import ByOption, HostOverride
    from robotgate.pace.host import Host
    from robotgate.rules.verdict import Verdict
    from robotgate.sitemaps.parse import SitemapEntry
    from robotgate.sitemaps.walk import SitemapFault
    from robotgate.sites.record import RobotsRecord
    from robotgate.sites.site import Site
    from robotgate.stores.base import OwnStore

    # Of the kinds of events that a callback is for.
    Kind = TypeVar("Kind", bound=Event)
    Kind2 = TypeVar("Kind2", bound=Event)
    Kind3 = TypeVar("Kind3", bound=Event)

MAX_SITEMAPS: Final = 50_000
"""As many as one index may name (sitemaps.org)."""
MAPPED_BLOCK: Final = 1 << 20
"""Bytes: more than asyncio asks for when it reads a socket."""
_NOT_OPEN: Final = "open the gate first: async with RobotGate(...) as gate"
_CLOSED: Final = "the gate is closed"


class RobotGate:
    """Checks URLs against each site's robots.txt, which it requests once, and sends requests in their hosts' turns.

    Open it with ``async with``. One gate serves any number of tasks of one event loop.

    Args:
        agent: the User-Agent, as ``ExampleBot/1.0``. Its first word is the name looked up in robots.txt: `token`.
        contact: where site owners reach you: an e-mail address, sent as From, or a URL, put into the User-Agent.
        options: docs/options.md and `GateOptions` list them.

    Raises:
        OptionError: an option makes no sense; the message names it.
        TypeError: an option has no such name.
    """

    def __init__(self, agent: str, *, contact: str, **options: Unpack[GateOptions]) -> None:
        options = self._options = completed(options)
        compiler = COMPILERS[options["dialect"]]
        if options["purposes"] or options["tdmrep"]:
            from robotgate.preferences.robots import compiler_for  # noqa: PLC0415  # Needs an extra; few gates look at the use of pages.

            compiler = compiler_for(options["purposes"], compiler)
        # A copy: the caller's may change until the gate is opened.
        options["purposes"] = frozenset(options["purposes"])
        self._identity = identify(agent, contact=contact, token=options["token"], signer=options["signer"])
        self._max_wait = options["max_wait"]
        given, store = options["clock"] or SystemClock(), options["store"]
        clock: Clock = given if isinstance(given, SystemClock) else SteadyClock(given)
        self._ticks, self._epoch = ticks_of(clock)
        self._own_store: OwnStore | None = None
        if isinstance(store, str | os.PathLike):
            store = self._own_store = open_store(store, clock=clock)
        per_host = Overrides(host_options(options), options["overrides"])
        session = options["session"]
        connector = None if session is None else session.connector
        limit = (0 if connector is None else connector.limit) or sys.maxsize
        is_shared, most = options["shared_total"], min(options["concurrency"], limit)
        if is_shared and not isinstance(store, SharedStore):
            raise OptionError(
                "shared_total=True: give a store that several gates may use, such as a RedisStore"
            )
        pages = SharedPermits(most) if is_shared else Permits(most)
        left = limit - options["concurrency"]
        # Shared where the connector cannot serve both at once.
        robots = pages if left <= 0 else Permits(min(options["robots_concurrency"], left))
        events = self._events = Events()
        scheduler = self._scheduler = Scheduler(
            ticks=self._ticks,
            epoch=self._epoch,
            places=Places(pages, robots),
            max_slots=None if connector is None else connector.limit_per_host or None,
            events=events,
            work=StoreWork(has_store=store is not None),
        )
        self._persistence = Persistence(store, scheduler=scheduler, events=events)
        scope_limits = ScopeLimits(
            concurrency=options["concurrency"],
            total_rate=options["total_rate"],
            total_budget=options["total_budget"],
            origin_budget=options["origin_budget"],
            total_bytes_per_second=options["total_bytes_per_second"] or math.inf,
            groups=options["groups"],
            address_delay=options["address_delay"],
            address_concurrency=options["address_concurrency"],
            address_exempt=options["address_exempt"],
        )
        self._scopes = ScopeBook(scope_limits, scheduler, self._persistence.first_lease)
        self._cache = SiteCache(
            identity=self._identity,
            allow_private_addresses=options["allow_private_addresses"],
            pace_key=pace_key_function(options["pace_key"]),
            max_hosts=options["max_hosts"],
            recheck=options["recheck"],
            compiler=compiler,
            overrides=per_host,
            scheduler=scheduler,
            persistence=self._persistence,
            scopes=self._scopes,
            events=events,
        )
        self._sites = self._cache.sites
        self._turns = Turns(identity=self._identity, cache=self._cache, scheduler=scheduler, events=events)
        if self._scopes.has_addresses:
            self._turns.addresses = self._scopes
        self._middleware = GateMiddleware(self._identity, self._turns, max_wait=self._max_wait)
        self._threadsafe = ThreadsafeGate(self, self._turns)
        self._ready: WeakSet[Lines] = WeakSet()
        self._why_closed = _NOT_OPEN
        self._on_close = AsyncExitStack()

    vars(__init__)["__signature__"] = signature_of(
        GateOptions,
        Parameter("agent", Parameter.POSITIONAL_OR_KEYWORD, annotation=str),
        Parameter("contact", Parameter.KEYWORD_ONLY, annotation=str),
    )

    async def __aenter__(self) -> Self:
        if self._why_closed != _NOT_OPEN:
            raise GateClosedError("a gate is opened once; make another")
        self._why_closed = _CLOSED
        self._scheduler.loop = asyncio.get_running_loop()
        # glibc maps and unmaps memory for each read of a socket, as asyncio asks for 256 KiB, until a larger block was
        # freed. In some processes that is a sixth to a third of the time of a page.
        bytearray(MAPPED_BLOCK)
        async with AsyncExitStack() as stack:
            # The sessions and the store are closed even if the task that closes the gate is cancelled.
            if self._own_store is not None:
                stack.push_async_callback(self._own_store.aclose)
                await self._own_store.open()
            options, session = self._options, self._options["session"]
            allow_private_addresses = self._cache.allow_private_addresses
            book = None
            if self._scopes.has_addresses:
                connector = None if session is None else session.connector
                book = self._scopes.open(
                    ConnectorResolver(connector)
                    if isinstance(connector, aiohttp.TCPConnector)
                    else ThreadPerNameResolver(max_threads=self._max_look_ups, timeout=LOOK_UP_TIMEOUT)
                )
                stack.push_async_callback(self._scopes.aclose)
            if session is None:
                connector = own_connector(
                    book, max_look_ups=self._max_look_ups, allow_private_addresses=allow_private_addresses
                )
                session = aiohttp.ClientSession(
                    connector=connector, headers=self._identity.headers, **HEADER_LIMITS
                )
                stack.push_async_callback(session.close)
            elif session.closed:
                raise OptionError("session: it is closed")
            # robots.txt is requested with it, too: nothing else knows its proxy.
            robots_session = session
            if type(session) is not aiohttp.ClientSession:
                # Some subclasses answer from a cache of their own, which does not know when rules expire.
                robots_session = aiohttp.ClientSession(
                    connector=session.connector,
                    connector_owner=False,
                    cookie_jar=aiohttp.DummyCookieJar(),
                    trust_env=session.trust_env,
                    **HEADER_LIMITS,
                )
                stack.push_async_callback(robots_session.close)
            stack.push_async_callback(self._persistence.aclose)
            await self._persistence.open(self._cache.hear_block)
            self._cache.open(options["fetcher"] or AiohttpFetcher(robots_session))
            stack.push_async_callback(self._stop)
            self._on_close = stack.pop_all()
        check: ResponseCheck | None = None
        if options["purposes"] or options["tdmrep"]:
            from robotgate.client.purposes import PurposeCheck  # noqa: PLC0415  # As in `__init__`.

            check = PurposeCheck(options["purposes"], tdmrep=options["tdmrep"], cache=self._cache)
        middleware = self._middleware
        if options["session"] is None:
            middleware = middleware.with_options(max_wait=self._max_wait, measures_addresses=False)
        self._pages = PageFetcher(
            session,
            middleware=middleware,
            turns=self._turns,
            max_bytes=options["max_bytes"],
            check=check,
        )
        self._turns.is_open = True
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Cancel what runs and wait for it; tasks that wait for a turn or for rules get `GateClosedError`.

        A session or a store that was passed in stays open; a store that the gate made is closed last. A second call
        does nothing.

        Raises:
            StoreError: pending changes could not be saved.
        """
        if self._turns.is_open:
            self._scheduler.check_loop()
            self._turns.closed.set()
        self._turns.is_open = False
        self._why_closed = _CLOSED
        await self._on_close.aclose()

    async def _stop(self) -> None:
        ready = list(self._ready)
        for lines in ready:
            lines.stop(GateClosedError())
        self._scheduler.close()
        self._middleware.close()
        await self._cache.aclose()
        for lines in ready:
            await lines.aclose()
        # Subscribers get the last events, too: the loop calls them after this.
        await asyncio.sleep(0)

    def allowed(self, url: str | URL) -> Awaited[bool]:
        """Whether a URL may be fetched. May request the site's robots.txt; never waits for a page's turn.

        Await it: what this returns is a coroutine, whose truth value raises `TypeError`.

        Raises (when awaited):
            InvalidURLError: not an absolute http or https URL.
            NonPublicAddressError: an address that no public site has, without `allow_private_addresses`. A name that
                resolves to one is refused by its verdict here, and by this error when it is to be fetched.
            GateClosedError: the gate is not open.
            HostUnavailableError: the operator blocks the host for longer than `max_block`, or its `open_hours` are over
                for as long, and no fresh rules are known.
            NestedTurnError: the request takes a turn of the host, which this task holds, and no rules are known.
            StoreError: the store failed.
        """
        try:
            # Tests of the kind of URL and for None would be a part of every warm question's time.
            origin_text, target = as_written(url).groups()  # type: ignore[arg-type, union-attr]
            site = self._sites[origin_text]
        except (TypeError, AttributeError, KeyError):
            # No URL, or one that `as_written` does not take as it stands; a site that is not in memory by this
            # spelling; or a gate that is closed, which has none.
            return Pending(self._allowed(url))
        if "/." not in target and self._ticks() + self._epoch < site.ready_until_at:
            return Yes() if site.rules._allows_units(target) else No()
        return Pending(self._allowed(url))

    async def _allowed(self, url: str | URL) -> bool:
        self._scheduler.check_loop()
        site, _, units = self._locate(url)
        ruling = self._cache.fresh(site, self._scheduler.now()) or await self._cache.known(site)
        return ruling.rules._allows_units(units)

    # Python warns by this name if nobody awaits it.
    _allowed.__qualname__ = "RobotGate.allowed"

    def allowed_nowait(self, url: str | URL) -> bool | None:
        """Whether a URL may be fetched, if fresh rules are in memory; else None.

        Raises:
            InvalidURLError, NonPublicAddressError, GateClosedError: as `allowed`.
        """
        site, _, units = self._locate(url)
        ruling = self._cache.fresh(site, self._scheduler.now())
        return None if ruling is None else ruling.rules._allows_units(units)

    def check(self, url: str | URL) -> Awaited[Verdict]:
        """Whether a URL may be fetched, and why: the rule, its line, and how robots.txt was read.

        Await it, as `allowed`.

        Raises (when awaited):
            as `allowed`.
        """
        return Pending(self._check(url))

    async def _check(self, url: str | URL) -> Verdict:
        self._scheduler.check_loop()
        site, target, _ = self._locate(url)
        ruling = self._cache.fresh(site, self._scheduler.now()) or await self._cache.known(site)
        return ruling.verdict(target, now=self._scheduler.now())

    _check.__qualname__ = "RobotGate.check"

    async def robots(self, url: str | URL) -> RobotsRecord:
        """What is known of the robots.txt of a URL's origin, as it was served; requested if nothing fresh is known.

        Raises:
            as `allowed`.
        """
        self._scheduler.check_loop()
        return await self._cache.record(self._locate(url)[0])

    async def refresh(self, url: str | URL) -> RobotsRecord:
        """Request the robots.txt of a URL's origin again now, however fresh it is; return what is then known of it.

        Use it when a site's owner says that the file has changed; rules are renewed as they age without it. The request
        takes the host's turn, ahead of its pages, and is conditional. If it fails, a copy that is still fresh stays in
        use, and `RobotsRecord.failures` counts the failure. Meanwhile the known rules answer.

        Raises:
            HostUnavailableError: the host is blocked by `block`, or out of `open_hours`, for longer than `max_block`.
            NestedTurnError: this task holds the host's turn.
            InvalidURLError, NonPublicAddressError, GateClosedError, StoreError: as `allowed`.
        """
        self._scheduler.check_loop()
        return await self._cache.renew(self._locate(url)[0])

    async def sitemaps(self, url: str | URL) -> tuple[str, ...]:
        """The sitemaps that the robots.txt of a URL's origin names, none when there is no file.

        Raises:
            as `allowed`.
        """
        return RobotsTxt.parse((await self.robots(url)).body).sitemaps

    def sitemap_urls(
        self,
        url: str | URL,
        *,
        is_sitemap: bool = False,
        priority: int = 0,
        max_wait: float | ByOption | None = BY_OPTION,
        max_sitemaps: int = MAX_SITEMAPS,
        on_fault: Callable[[SitemapFault], object] | None = None,
    ) -> AsyncGenerator[SitemapEntry, None]:
        """``async for entry in gate.sitemap_urls(url)``: the URLs that a site's sitemaps list.

        The sitemaps are those that the robots.txt of the URL's origin names, of whichever origin, and those that their
        indexes name, of the index's own origin only. Each is fetched once, as by `fetch`. sitemaps.org, RSS 2.0, Atom
        and plain text are read, with gzip or without, up to 50 MiB and 50,000 URLs a file. A file is read to its end
        before its first entry comes, so the loop may fetch pages of the same host. The URLs may be of any site.

        Args:
            is_sitemap: `url` itself is a sitemap or an index, and robots.txt need not name it.
            priority, max_wait: as `turn`, for each file.
            max_sitemaps: files that are fetched at most, those that cannot be read included.
            on_fault: called with each `SitemapFault`: a robots.txt that names no sitemap, a file that is refused or
                broken or cannot be fetched, and how many of its entries are damaged. The entries that can be read are
                yielded. By default it is logged.

        Raises (of the loop):
            GateClosedError, StoreError: as `allowed`.
            NestedTurnError: this task holds the turn of a sitemap's host.
            whatever `on_fault` raises.

        Raises (at once):
            InvalidURLError, NonPublicAddressError, GateClosedError: as `allowed`.
            OptionError: an argument makes no sense.
        """
        from robotgate.sitemaps.walk import HEADERS, SitemapWalk, log_fault  # noqa: PLC0415  # Few programs need it.

        check_kind("is_sitemap", is_sitemap, bool)
        check_whole("priority", priority)
        check_whole("max_sitemaps", max_sitemaps, least=1)
        unless_none(check_callback, "on_fault", on_fault)
        patience = self._patience(max_wait)
        self._scheduler.check_loop()
        self._locate(url)

        def fetch(sitemap: str) -> PageFetch:
            options: RequestOptions = {"headers": HEADERS, "auto_decompress": False}
            request = PageRequest(
                sitemap, "GET", options, priority=priority, max_wait=patience, is_page=False
            )
            self._check_open()
            return PageFetch(self._pages, request)

        walk = SitemapWalk(fetch, max_sitemaps=max_sitemaps, on_fault=on_fault or log_fault)
        return walk.of_sitemap(str(url)) if is_sitemap else walk.of_site(partial(self.robots, url))

    def turn(
        self, url: str | URL, *, priority: int = 0, max_wait: float | ByOption | None = BY_OPTION
    ) -> Turn:
        """``async with`` waits for the host's turn to fetch this URL, with any client.

        The turn ends with the block. Report the outcome with `Turn.report`; an error of aiohttp's that leaves the block
        is reported by itself. Within the block, take no other turn: a task that would wait for itself gets
        `NestedTurnError`, but tasks that hold one turn each and want another can wait for one another.

        Args:
            priority: of the waiting turns of one host, the higher goes first; robots.txt goes before all.
            max_wait: seconds, in place of the gate's. The wait for the site's rules is part of them, but an open
                request for these is not broken off. A turn is refused at once if it would be late even if the turns
                ahead, of which 100 are counted, went as fast as they may.

        Raises (on entering the block):
            DisallowedError: the site's rules refuse the URL.
            TooSoonError: the turn comes later than `max_wait`.
            HostUnavailableError: the site's robots.txt cannot be read, the host could not be reached for
                `give_up_after`, or it is blocked for longer than `max_block`.
            BudgetExceededError: a budget of the gate's is used up.
            NestedTurnError: this task already holds the turn it asks for.
            GateClosedError, StoreError: as `allowed`.

        Raises (at once):
            InvalidURLError, NonPublicAddressError, GateClosedError: as `allowed`.
            OptionError: an argument makes no sense.
        """
        check_whole("priority", priority)
        max_wait = self._patience(max_wait)
        self._check_open()
        return Turn(self._turns.make(url, priority, max_wait), self._pages)

    def try_turn(self, url: str | URL, *, max_wait: float = MAX_WAIT) -> Turn:
        """``async with`` takes the host's turn to fetch this URL if it is due, or raises `TooSoonError` at once.

        For workers that take tasks of any host from a queue, and do not wait for one: the worker gives the task back,
        to come again after the error's `retry_after`. That is when the task's own turn comes, behind all others that
        asked: many tasks of one host come back one after the other. With a store that processes share, the others are
        those of all processes.

        A site's unknown robots.txt is requested and waited for, as by `turn`; and while another process has the host's
        turn, the task waits until it is told its place, for 2 s at most. Each further hop of a redirect, by
        `Turn.fetch`, waits for its turn: give ``allow_redirects=False``, and make a task of the target.

        Args:
            max_wait: seconds that a task waits at most that comes when it was told to, if turns before it took longer
                than expected, or came late. With 0, more tasks come back in vain.

        Raises (on entering the block):
            TooSoonError: the task's turn has not come.
            as `turn`.

        Raises (at once):
            InvalidURLError, NonPublicAddressError, GateClosedError: as `allowed`.
            OptionError: an argument makes no sense.
        """
        check_seconds("max_wait", max_wait)
        self._check_open()
        turn = self._turns.make(url)
        turn.trial = Trial(max_wait)
        return Turn(turn, self._pages)

    def ready(
        self,
        urls: Iterable[str | URL] | AsyncIterable[str | URL],
        *,
        priority: int = 0,
        ahead: int = DEFAULT_AHEAD,
        on_refusal: Callable[[str, RobotGateError], object] | None = None,
    ) -> ReadyTurns:
        """``async for turn in gate.ready(urls)``: each URL as a turn that has begun, whichever host is due first.

        No URL waits behind a host that is not due. A turn begins only when the loop asks for one; end each by
        ``async with turn``, best in a task of its own, and go on to the next::

            async with asyncio.TaskGroup() as tasks:
                async for turn in gate.ready(urls):
                    tasks.create_task(visit(turn))

        `Turn.fetch` in `visit` fetches the page and ends the turn.

        URLs of one host come in their order; each waits for as long as it takes: the gate's
        `max_wait` does not count here. The loop ends
        when all have come or been refused.

        Args:
            urls: what to fetch; an endless or slow source is read as it is needed.
            priority: as `turn`.
            ahead: how many URLs are held at once while their hosts are not due.
            on_refusal: called with each URL that gets no turn, and the error; by default it is only an event and a
                log line.

        Raises (of the loop):
            GateClosedError: the gate was closed meanwhile.
            whatever `urls` or `on_refusal` raises.

        Raises (at once):
            GateClosedError: the gate is not open.
            OptionError: an argument that makes no sense.
        """
        check_whole("priority", priority)
        check_whole("ahead", ahead, least=1)
        unless_none(check_callback, "on_refusal", on_refusal)
        self._check_open()
        lines = Lines(self._turns, self._pages, urls, priority=priority, ahead=ahead, on_refusal=on_refusal)
        self._ready.add(lines)
        return ReadyTurns(lines)

    def fetch(
        self,
        url: str | URL,
        method: str = "GET",
        *,
        priority: int = 0,
        max_wait: float | ByOption | None = BY_OPTION,
        max_bytes: int | None = None,
        allow_redirects: bool = True,
        max_redirects: int = MAX_PAGE_REDIRECTS,
        retries: int = 0,
        **options: Unpack[RequestOptions],
    ) -> PageFetch:
        """Fetch a page in its host's turn.

        Awaited, the result is a `Response` whose body has been read; with ``async with`` it is a streaming
        `aiohttp.ClientResponse`, whose turn ends with the body or the block. A minute without a byte ends the turn,
        too. Each hop of a redirect, and each attempt, is judged by its own host's rules and sent in its own host's
        turn. No timeout of aiohttp's counts these waits.

        Args:
            priority, max_wait: as `turn`.
            max_bytes: the longest body that is read when awaited, in place of the gate's.
            retries: how often at most to repeat a request that was answered with 429, 502, 503 or 504, or by an error
                of the connection or a timeout. Each attempt has a turn and a total timeout of its own. It begins
                after the host's block (429, 503), after the pause of a host that cannot be reached, else after a
                growing pause of some seconds; but not if one of these is over `max_block`, or would end after
                `max_wait`, which counts from the first attempt. Then, and when no attempt is left, the last answer is
                returned, or the last error raised. POST and PATCH are never repeated, nor are bodies that are streams.
            options: as for `aiohttp.ClientSession.request`; the gate's middleware goes behind `middlewares`.

        Raises (when awaited or entered):
            ResponseTooLargeError: the body is longer than `max_bytes`.
            PreferenceError: the response disallows one of the gate's `purposes`.
            aiohttp.TooManyRedirects: more than `max_redirects`.
            aiohttp.ClientError, TimeoutError: as aiohttp raises them.
            RobotGateError: as `turn`; the `DisallowedError` of a redirect names its whole chain.

        Raises (at once):
            GateClosedError: the gate is not open.
            OptionError, TypeError: an argument that makes no sense.
        """
        wait = self._max_wait if max_wait is BY_OPTION else max_wait
        request = PageRequest(
            url, method, options, max_bytes, allow_redirects, max_redirects, priority, wait, retries
        )
        # A test is quicker than a call.
        if not self._turns.is_open:
            self._check_open()
        return PageFetch(self._pages, request)

    def wait_time(self, url: str | URL) -> float:
        """Seconds until the host of a URL can have its next turn at the earliest; 0 when it is due.

        Only memory is consulted. What a store knows of the host is in memory once its rules were needed, by `allowed`,
        a turn or any other call, or after `known_host`; until then the host counts as due.

        Raises:
            InvalidURLError, NonPublicAddressError, GateClosedError: as `allowed`.
        """
        return self._scheduler.wait_time(self._locate(url)[0])

    def learn(self, url: str | URL, body: bytes, *, fresh_until: float | None = None) -> None:
        """Use a robots.txt that you already have, as if it had just been fetched.

        Args:
            url: any URL of the origin of the file.
            fresh_until: until when it is fresh, in seconds since the epoch; by default 24 hours from now. As any other,
                it may be requested again after 75 % of that time.

        Raises:
            InvalidURLError, NonPublicAddressError, GateClosedError: as `allowed`.
            OptionError: `fresh_until` is no instant.
        """
        check_kind("body", body, bytes)
        unless_none(check_seconds, "fresh_until", fresh_until)
        self._cache.learn_given(self._locate(url)[0], body, fresh_until_at=fresh_until)

    def host(self, url: str | URL) -> OriginView:
        """What is known of the host of a URL, and of the URL's origin, from memory, as for `wait_time`.

        Raises:
            InvalidURLError, NonPublicAddressError, GateClosedError: as `allowed`.
        """
        return self._view(self._locate(url)[0])

    async def known_host(self, url: str | URL) -> OriginView:
        """As `host`, with what the store knows: right after a restart, memory has nothing of it yet.

        Nothing is requested. From then on `wait_time`, `host` and `allowed_nowait` know the same.

        Raises:
            InvalidURLError, NonPublicAddressError, GateClosedError, StoreError: as `allowed`.
        """
        self._scheduler.check_loop()
        site = self._locate(url)[0]
        await self._cache.load(site)
        return self._view(site)

    def hosts(self) -> list[HostView]:
        """Every host in this process's memory: what is paced together is one. Each prints as one line.

        Raises:
            GateClosedError: the gate is not open.
        """
        self._check_open()
        now, wait_time = self._scheduler.now(), self._scheduler.wait_time
        return [
            HostView.of(host, now=now, next_allowed_at=now + min(map(wait_time, host.origins), default=0.0))
            for host in self._all_hosts()
        ]

    def origins(self) -> list[OriginView]:
        """As `host`, for every origin in this process's memory; each prints as one line.

        Raises:
            GateClosedError: the gate is not open.
        """
        self._check_open()
        return [self._view(site) for host in self._all_hosts() for site in sites_of(host)]

    def stats(self) -> GateStats:
        """Totals over the gate's life, and how many hosts are in which state now.

        It looks at the hosts in memory, without reading rules: some 25 ms for 100,000 hosts. It may be called
        before the gate is opened, after it was closed, and in any thread; the totals stay.
        """
        return GateStats.of(self._turns)

    def override(self, pattern: str, override: HostOverride | None) -> None:
        """Change the options of some hosts from now on, for waiting turns too.

        Args:
            pattern: ``example.org``, ``*.example.org`` for the hosts below it, or ``*``.
            override: replaces the pattern's present one; None removes that. An instant that was set never moves
                earlier: the next visit comes no sooner than it was due.

        Raises:
            GateClosedError: the gate is not open.
            OptionError: the pattern or a value makes no sense; nothing has changed.
        """
        self._check_open()
        self._cache.override(pattern, override)

    def block(self, pattern: str, until: float | datetime = math.inf) -> None:
        """Visit some hosts no more, not even for robots.txt: for when a site complains.

        A site is often more than one host: ``example.org`` alone does not block ``www.example.org``.

        Open requests are not broken off. Turns wait for the end of the block up to `max_block`; beyond it they are
        refused with `HostUnavailableError` at once.

        It holds at this gate from now on. A `SharedStore` passes it on to the other gates, those of other processes and
        those that open later included. While its server cannot be reached the block is kept, and passed on afterwards.
        With any other store each gate has its own blocks.

        Args:
            pattern: ``example.org``, ``*.example.org`` for the hosts below it, or ``*``.
            until: a future instant, in seconds since the epoch or as an aware `datetime`; by default, until `unblock`.
                Where several patterns name a host, the latest end holds. Of one pattern the last call counts, at
                whichever gate.

        Raises:
            GateClosedError: the gate is not open.
            OptionError: the pattern makes no sense, or the instant has passed.
        """
        self._check_open()
        if isinstance(until, datetime):
            if until.tzinfo is None:
                raise OptionError(f"until={until!r}: give a datetime that knows its time zone")
            until = until.timestamp()
        check_patience("until", until)
        if until <= self._scheduler.now():
            raise OptionError(
                f"until={until!r} has passed: give time.time() and the seconds to come, or lift a block by `unblock`"
            )
        self._cache.block(pattern, until)

    def unblock(self, pattern: str) -> None:
        """Lift the block of this pattern, at whichever gate of a fleet it was made; waiting turns go on.

        Raises:
            GateClosedError: the gate is not open.
            OptionError: the pattern makes no sense.
        """
        self._check_open()
        self._cache.block(pattern, 0.0)

    # pyright finds the union of the kinds by this one, mypy by the next.
    @overload
    def subscribe(
        self, callback: Callable[[Kind], object], kind: type[Kind], /, *kinds: type[Kind], at_once: bool = ...
    ) -> Callable[[], None]: ...

    @overload
    def subscribe(
        self,
        callback: Callable[[Kind | Kind2 | Kind3], object],
        kind: type[Kind],
        kind2: type[Kind2] = ...,
        kind3: type[Kind3] = ...,
        /,
        *,
        at_once: bool = ...,
    ) -> Callable[[], None]: ...

    @overload
    def subscribe(
        self, callback: Callable[[Event], object], *kinds: type[Event], at_once: bool = ...
    ) -> Callable[[], None]: ...

    def subscribe(
        self, callback: Callable[..., object], *kinds: type[Event], at_once: bool = False
    ) -> Callable[[], None]:
        """Call a function with each `Event`: robots.txt fetched, turns, refusals, blocks.

        The event loop calls `callback` soon after each, in their order; an exception goes to the loop's exception
        handler. The logger ``robotgate`` gets the same; docs/events.md lists events and levels.

        Args:
            callback: a plain function of one event.
            kinds: the events to call it with, such as `HostBlocked`; by default all.
            at_once: call it within the request that the event is about, in its context (`contextvars`), before the
                request goes on. This is for metrics and tracing. `callback` has to be quick, and must not use the
                gate. By default it is called later, in a copy of the present context.

        Returns:
            A function that ends the subscription.

        Raises:
            OptionError: `callback` is no function, or a coroutine function; or a kind is no kind of event.
        """
        return self._events.subscribe(callback, *kinds, at_once=at_once)

    def _meter(self, count: Callable[[PageTurn, float], object]) -> Callable[[], None]:
        """Call a function with each turn of a page as it ends, and the seconds since it began: to count many requests.

        It is given the turn itself, and no event is made for it: a call costs a tenth of a `TurnBegan` and a
        `TurnEnded`. It is called as a subscriber with ``at_once`` is.

        Args:
            count: a plain function; it has to be quick, and must neither use the gate nor raise.

        Returns:
            A function that ends the calls.

        Raises:
            OptionError: `count` is no function, or a coroutine function.
        """
        check_callback("count", count)
        turns = self._turns
        turns.meters += (count,)

        def remove() -> None:
            turns.meters = tuple(other for other in turns.meters if other is not count)

        return remove

    @property
    def token(self) -> str:
        """The product token (RFC 9309 §2.2.1): the name in robots.txt whose rules are obeyed."""
        return self._identity.token

    @property
    def middleware(self) -> GateMiddleware:
        """For ``aiohttp.ClientSession(middlewares=[gate.middleware])``; put it last. Every hop is judged and paced.

        aiohttp counts the wait against a request's total timeout; see `middleware_with`. docs/sending.md lists the
        guarantees.
        """
        return self._middleware

    def middleware_with(
        self, *, max_wait: float | ByOption | None = BY_OPTION, priority: int = 0
    ) -> GateMiddleware:
        """As `middleware`, for a session whose turns have another `max_wait`, or another priority.

        aiohttp counts the wait against a request's total timeout, which it does not tell the gate. Give that total as
        `max_wait`: a turn that would come later then raises `TooSoonError` at once.

        Args:
            priority, max_wait: as `turn`, for each hop and each attempt.

        Raises:
            OptionError: an argument makes no sense.
        """
        check_whole("priority", priority)
        return self._middleware.with_options(max_wait=self._patience(max_wait), priority=priority)

    @property
    def threadsafe(self) -> ThreadsafeGate:
        """``gate.threadsafe.fetch(url)``, `allowed`, `check` and `turn` as plain calls, for threads without a loop.

        They run in the gate's event loop, which has to run meanwhile; the thread waits. docs/threads.md has an example.
        """
        return self._threadsafe

    @property
    def _max_look_ups(self) -> int:
        """How many names a session in front of this gate looks up at once: there are as many requests at most."""
        return self._options["concurrency"] + self._options["robots_concurrency"]

    def _check_open(self) -> None:
        if not self._turns.is_open:
            raise GateClosedError(self._why_closed)

    def _patience(self, given: float | ByOption | None) -> float | None:
        if given is BY_OPTION:
            return self._max_wait
        unless_none(check_seconds, "max_wait", given)
        return given

    def _locate(self, url: str | URL) -> tuple[Site, str, str]:
        self._check_open()
        return self._turns.locate(url)

    def _all_hosts(self) -> Iterator[Host]:
        return chain(self._scheduler.hosts.values(), self._cache.idle.copies())

    def _view(self, site: Site) -> OriginView:
        now = self._scheduler.now()
        ruling = self._cache.ruling(site, now)
        next_allowed_at = now + self._scheduler.wait_time(site)
        return OriginView.of_site(site, ruling, now=now, next_allowed_at=next_allowed_at)

    def __repr__(self) -> str:
        if not self._turns.is_open:
            return f"<RobotGate {self._identity.token!r} {'not open' if self._why_closed == _NOT_OPEN else 'closed'}>"
        return f"<RobotGate {self._identity.token!r} sites={self._cache.size}>"
