"""`RobotGate`: the doors. What happens behind them is told in `_turns`, `_robots` and `_lane`."""

from __future__ import annotations

import math
from contextlib import AsyncExitStack
from datetime import datetime
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self, Unpack

import aiohttp

from robotgate._checks import (
    check_callback,
    check_instant,
    check_names,
    check_part,
    check_seconds,
    check_whole,
)
from robotgate._clock import SystemClock, ticks_of
from robotgate._engine import Engine
from robotgate._errors import GateClosedError, OptionError
from robotgate._fetching import PageFetch
from robotgate._identity import identify
from robotgate._listeners import Listeners
from robotgate._middleware import GateMiddleware
from robotgate._normal import as_written
from robotgate._options import MAX_FETCH_BYTES, MAX_HOSTS, Options
from robotgate._overrides import Overrides
from robotgate._pace_key import PaceKey
from robotgate._page import RequestOptions, page_request
from robotgate._ports import Clock, Fetcher
from robotgate._ready import DEFAULT_AHEAD
from robotgate._robotstxt import RobotsTxt
from robotgate._status import StatusPolicy
from robotgate._store_option import given_store, own_store
from robotgate._turn import PendingTurn

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Coroutine, Iterable, Mapping, MutableMapping
    from types import TracebackType

    from yarl import URL

    from robotgate._access import RobotsRecord
    from robotgate._errors import RobotGateError
    from robotgate._events import Event
    from robotgate._host import HostView
    from robotgate._overrides import HostOverride
    from robotgate._pace_key import PaceKeyPolicy
    from robotgate._ready import ReadyTurns
    from robotgate._recheck import Recheck
    from robotgate._site import Site
    from robotgate._store_option import StoreOption
    from robotgate._turn import OwnTurn
    from robotgate._verdict import Verdict

MAX_PAGE_REDIRECTS: Final = 10
NO_PRIORITY: Final = 0


class _Given(Enum):
    """Stands for an argument that was left to the gate's options."""

    BY_OPTION = "by option"


class RobotGate:
    """Stands between a crawler and the web: asks each site's rules once, and lets each request through in its turn.

    Open it with ``async with``. One gate serves any number of tasks of one event loop.

    Args:
        agent: the User-Agent, as ``ExampleBot/1.0``. Its first word is the name looked up in robots.txt.
        contact: where site owners reach you: an e-mail address, sent as From, or a URL, put into the User-Agent.
        token: the product token (RFC 9309 §2.2.1), when it is not the first word of `agent`.
        session: an aiohttp session to fetch pages with, which stays yours to close. By default the gate opens one of
            its own. robots.txt is asked for with it as well, so through its connector and its proxy, but without its
            headers, cookies, credentials and middlewares; what is under way is bounded by its connector's limit. Where
            its class is derived from aiohttp's, only the connector and `trust_env` serve robots.txt. What names resolve
            to is looked at if its connector is a `PublicConnector`. docs/doors.md tells what else the choice decides.
        store: where rules and host state are remembered; by default in memory. The path of a file, as ``"cache.db"`` or
            a `pathlib.Path`, is a `SQLiteStore` of the gate's own: opened and closed with it, and a restart knows
            what it knew. It raises once the file cannot be used; to choose otherwise by `when_lost`, or any other
            option, pass a `SQLiteStore`. The URL of a Redis or Valkey server, as ``"redis://localhost:6379/0"``, is a
            `robotgate.stores.redis.RedisStore` in the same way, shared by all gates that are given it; that needs the
            extra `redis`. Two gates of one process that are given the same path are two processes to each other: pass
            both one store instead. A store that was passed in stays yours to close, and gates of one event loop may
            share it: see `MemoryStore` for what they then share.
        delay: seconds between the end of one response of a host and the next request to it, at least. What a site
            asks for can only make it longer.
        rate: a quota for each host, as ``(600, 3600)``: at most so many requests in any so many seconds.
        total_rate: as `rate`, for the requests to all hosts together, those for robots.txt included.
        robots_rate: as `rate`, for the requests for robots.txt to all hosts together.
        latency_factor: the delay is at least so many times as long as the host's responses take to begin, on a moving
            average, up to 60 seconds; 0 leaves that out.
        concurrency_per_host: requests under way at one host. Above 1, delays count from start to start.
        concurrency: requests under way over all hosts.
        pace_key: what is paced together: the requests to one host, to one origin, to one registrable domain (extra
            ``psl``), or those for whose URL a function of yours returns the same text.
        overrides: options in place of these for some hosts, by pattern: ``example.org``, ``*.example.org`` or ``*``.
        obey_crawl_delay: whether Crawl-delay and Request-rate count.
        obey_visit_time: whether pages are asked for within the hours of Visit-time alone.
        max_delay: seconds; a site that asks for a longer delay is refused, never visited sooner than it asks.
            `math.inf` waits however long.
        max_wait: seconds a turn may be waited for; None waits as long as it takes, 0 not at all.
        max_block: seconds; what a host asks for by Retry-After or Visit-time, and what `block` asks for, is waited out
            up to this, and refused at once beyond.
        robots_concurrency: requests for robots.txt under way over all hosts.
        allow_private_addresses: whether ``localhost`` and addresses that no public site has may be fetched from, be
            they in the URL or what its name resolves to.
        status_policy: what a robots.txt that cannot be read means for its site.
        recheck: what has a robots.txt asked for again sooner than its age does: so many visits to its host, so many
            seconds, or so many octets read, as `Recheck` says. By default its age alone: from three quarters of its
            life on, whoever asks has it asked for again, and is answered by the rules that are known.
        max_bytes: the longest body that an awaited `fetch` reads.
        max_hosts: of how many hosts, or origins, rules and pace are kept in this process's memory. Beyond it the
            oldest go first, to be had from `store` again when they are wanted; never one that is waited for or visited,
            that cannot be reached just now, or that may not be visited yet. It bounds a store of the gate's own, too:
            what one in memory lets go of is asked for again.
        middleware_timeout: seconds, the total timeout of the requests that go through `middleware`, within which a
            turn has to come; as in aiohttp, 0 and None are none. An aiohttp that tells the timeout of each request,
            as its development branch does, needs no such word: what it tells counts in place of this.
        clock: tells the time.
        fetcher: asks for robots.txt files.

    Raises:
        OptionError: an option makes no sense; the message names it.
    """

    def __init__(
        self,
        agent: str,
        *,
        contact: str,
        token: str | None = None,
        session: aiohttp.ClientSession | None = None,
        store: StoreOption = None,
        delay: float = 1.0,
        rate: tuple[int, float] | None = None,
        total_rate: tuple[int, float] | None = None,
        robots_rate: tuple[int, float] | None = None,
        latency_factor: float = 0.0,
        concurrency_per_host: int = 1,
        concurrency: int = 256,
        pace_key: PaceKeyPolicy = PaceKey.HOST,
        overrides: Mapping[str, HostOverride] = MappingProxyType({}),
        obey_crawl_delay: bool = True,
        obey_visit_time: bool = False,
        max_delay: float = 60.0,
        max_wait: float | None = None,
        max_block: float = 300.0,
        robots_concurrency: int = 256,
        allow_private_addresses: bool = False,
        status_policy: StatusPolicy = StatusPolicy.DEFAULT,
        recheck: Recheck | None = None,
        max_bytes: int = MAX_FETCH_BYTES,
        max_hosts: int = MAX_HOSTS,
        middleware_timeout: float | None = None,
        clock: Clock | None = None,
        fetcher: Fetcher | None = None,
    ) -> None:
        self._identity = identify(agent, contact=contact, token=token)
        self._options = Options(
            delay=delay,
            rate=rate,
            total_rate=total_rate,
            robots_rate=robots_rate,
            latency_factor=latency_factor,
            concurrency_per_host=concurrency_per_host,
            concurrency=concurrency,
            pace_key=pace_key,
            overrides=overrides,
            obey_crawl_delay=obey_crawl_delay,
            obey_visit_time=obey_visit_time,
            max_delay=max_delay,
            max_wait=max_wait,
            max_block=max_block,
            robots_concurrency=robots_concurrency,
            allow_private_addresses=allow_private_addresses,
            status_policy=status_policy,
            recheck=recheck,
            max_bytes=max_bytes,
            max_hosts=max_hosts,
            middleware_timeout=middleware_timeout,
        )
        check_part("session", session, aiohttp.ClientSession)
        check_part("clock", clock, Clock)
        check_part("fetcher", fetcher, Fetcher)
        self._session = session
        self._clock: Clock = SystemClock() if clock is None else clock
        self._own_store = own_store(store, clock=self._clock, max_hosts=max_hosts)
        self._store = self._own_store or given_store(store, max_hosts=max_hosts)
        self._now = self._clock.now
        self._ticks, self._epoch = ticks_of(self._clock)
        self._fetcher = fetcher
        self._listeners = Listeners()
        self._overrides = Overrides(self._options.host_options(), overrides)
        self._middleware = GateMiddleware(
            self._at_once, self._in_time, self._identity, timeout=self._options.middleware_timeout
        )
        self._engine: Engine | None = None
        self._is_entered = False
        self._is_closed = False
        self._sites: dict[str, Site] = {}

    async def __aenter__(self) -> Self:
        if self._is_entered or self._is_closed:
            raise GateClosedError("a gate is opened once; make another")
        self._is_entered = True
        async with AsyncExitStack() as stack:
            if self._own_store is not None:
                stack.push_async_callback(self._own_store.aclose)
                await self._own_store.open()
            self._engine = Engine(
                identity=self._identity,
                options=self._options,
                session=self._session,
                store=self._store,
                clock=self._clock,
                fetcher=self._fetcher,
                listeners=self._listeners,
                overrides=self._overrides,
                middleware=self._middleware,
            )
            # From here on, `aclose` closes the store.
            stack.pop_all()
        self._sites = self._engine.keeper.sites
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Cancel what runs and wait for it; whoever waits for a turn or for rules gets `GateClosedError`.

        A session that was passed in stays open, and so does a store; one that the gate made of a path is closed last.
        Closing twice is closing once.

        Raises:
            StoreError: what the gate's own store was still to write could not be written.
        """
        engine, self._engine = self._engine, None
        self._is_closed = True
        if engine is None:
            return
        try:
            await engine.aclose()
        finally:
            if self._own_store is not None:
                await self._own_store.aclose()

    async def allowed(self, url: str | URL) -> bool:
        """Whether a URL may be fetched. May ask for the site's robots.txt; never waits for a page's turn.

        Raises:
            InvalidURLError: not an absolute http or https URL.
            NonPublicAddressError: an address that no public site has, without `allow_private_addresses`. A name that
                resolves to one is refused by its verdict here, and by this error when it is to be fetched.
            GateClosedError: the gate is not open.
            NestedTurnError: asking takes a turn of the host, which this task holds itself, and no rules are known.
            StoreError: the store failed.
        """
        answer = self.allowed_nowait(url)
        if answer is not None:
            return answer
        site, target = await self._running.turns.site(url)
        return site.rules.allows(target)

    def allowed_nowait(self, url: str | URL) -> bool | None:
        """Whether a URL may be fetched, as far as fresh memory tells; None when it does not.

        Raises:
            InvalidURLError, NonPublicAddressError, GateClosedError: as `allowed`.
        """
        # The shortest way; what is below says the same, of any URL.
        if type(url) is str and (written := as_written(url)) is not None:
            origin_text, target = written.groups()
            site = self._sites.get(origin_text)
            if site is not None and "/." not in target and self._ticks() + self._epoch < site.refresh_at:
                return site.rules.allows_units(target)
        origin, target = self._running.turns.locate(url)
        site = self._running.keeper.fresh(origin)
        return None if site is None else site.rules.allows(target)

    async def check(self, url: str | URL) -> Verdict:
        """Whether a URL may be fetched, and why: the rule, its line, and how robots.txt was come by.

        Raises:
            as `allowed`.
        """
        site, target = await self._running.turns.site(url)
        return site.verdict(target, now=self._now())

    async def robots(self, url: str | URL) -> RobotsRecord:
        """What is known of the robots.txt of a URL's origin, as it was served; asked for when nothing fresh is.

        Raises:
            as `allowed`.
        """
        origin, _ = self._running.turns.locate(url)
        return await self._running.keeper.record(origin)

    async def refresh(self, url: str | URL) -> RobotsRecord:
        """Ask for the robots.txt of a URL's origin again now, however fresh it is; what is then known of it.

        For when a site's owner says that it has changed; without it, rules are renewed as they age. The request takes
        the host's turn, ahead of its pages, and asks only for what has changed. A failure leaves a copy that is still
        fresh in use, and `RobotsRecord.failures` tells of it. Whoever asks meanwhile is answered by what was known.

        Raises:
            HostUnavailableError: `block` wants the host left alone, for longer than `max_block`.
            NestedTurnError: this task holds the host's turn.
            InvalidURLError, NonPublicAddressError, GateClosedError, StoreError: as `allowed`.
        """
        origin, _ = self._running.turns.locate(url)
        return await self._running.keeper.renew(origin)

    async def sitemaps(self, url: str | URL) -> tuple[str, ...]:
        """The sitemaps that the robots.txt of a URL's origin names, none when there is no file.

        Raises:
            as `allowed`.
        """
        return RobotsTxt.parse((await self.robots(url)).body).sitemaps

    def turn(
        self, url: str | URL, *, priority: int = 0, max_wait: float | _Given | None = _Given.BY_OPTION
    ) -> PendingTurn:
        """``async with`` waits for the host's turn to fetch this URL, with whatever client.

        The turn ends with the block. Report what came of it with `Turn.report`; an error of aiohttp's that leaves
        the block is reported by itself. Within the block, ask for no other
        turn: a task that would wait for itself gets `NestedTurnError`, but tasks that hold one turn each and want
        another can wait for one another.

        Args:
            priority: of the waiters of one host, the higher goes first; robots.txt goes before all.
            max_wait: seconds, in place of the gate's. Finding out about the site's rules is part of them, though a
                request for those that is under way is not broken off. Refused at once is whoever would come too late
                even if all who wait ahead went as fast as they may.

        Raises (on entering the block):
            DisallowedError: the site's rules refuse the URL.
            TooSoonError: the turn comes later than `max_wait`.
            HostUnavailableError: the site's robots.txt cannot be read, or the host asked us to stay away for long.
            NestedTurnError: this task already holds the turn it asks for.
            InvalidURLError, NonPublicAddressError, GateClosedError, StoreError: as `allowed`.
        """
        check_whole("priority", priority)
        return PendingTurn(self._running.turns, url, priority=priority, max_wait=self._max_wait(max_wait))

    def ready(
        self,
        urls: Iterable[str | URL] | AsyncIterable[str | URL],
        *,
        priority: int = 0,
        ahead: int = DEFAULT_AHEAD,
        on_refusal: Callable[[str, RobotGateError], object] | None = None,
    ) -> ReadyTurns:
        """``async for turn in gate.ready(urls)``: each URL as a turn that has begun, whichever host is due first.

        Nobody stands behind a host that is not due. A turn begins only when the loop asks for one; the loop ends each
        by ``async with turn``, best in a task of its own, and goes on to the next::

            async with asyncio.TaskGroup() as tasks:
                async for turn in gate.ready(urls):
                    tasks.create_task(visit(turn))

        URLs of one host come in their order; each is waited for however long, whatever the gate's `max_wait`. The loop
        ends when all have come, or been refused.

        Args:
            urls: what to fetch; an endless or slow source is read as it is needed.
            priority: as `turn`.
            ahead: how many URLs are held at once while their hosts are not due.
            on_refusal: called with each URL that gets no turn, and why; by default `subscribe` and the log tell.

        Raises (of the loop):
            GateClosedError: the gate was closed meanwhile.
            whatever `urls` or `on_refusal` raises.

        Raises (at once):
            GateClosedError: the gate is not open.
            OptionError: an argument that makes no sense.
        """
        check_whole("priority", priority)
        check_whole("ahead", ahead, least=1)
        if on_refusal is not None:
            check_callback("on_refusal", on_refusal)
        return self._running.ready(urls, priority=priority, ahead=ahead, on_refusal=on_refusal)

    def fetch(
        self,
        url: str | URL,
        method: str = "GET",
        *,
        priority: int = NO_PRIORITY,
        max_wait: float | _Given | None = _Given.BY_OPTION,
        max_bytes: int | None = None,
        allow_redirects: bool = True,
        max_redirects: int = MAX_PAGE_REDIRECTS,
        **options: Unpack[RequestOptions],
    ) -> PageFetch:
        """Fetch a page in its host's turn.

        Awaited, the result is a `Response` whose body has been read; with ``async with`` it is a streaming
        `aiohttp.ClientResponse`, whose turn ends with the body or the block. Redirects are followed one by one, each
        judged by its own host's rules and sent in its own host's turn. aiohttp's time-outs count the request alone,
        and a second turn only where aiohttp or a retry middleware sends the same request twice.

        Args:
            priority, max_wait: as `turn`.
            max_bytes: the longest body that is read when awaited, in place of the gate's.
            options: as for `aiohttp.ClientSession.request`; `middleware` goes behind the `middlewares` among them.

        Raises (when awaited or entered):
            ResponseTooLargeError: the body is longer than `max_bytes`.
            aiohttp.TooManyRedirects: more than `max_redirects`.
            aiohttp.ClientError, TimeoutError: as aiohttp raises them.
            RobotGateError: as `turn`; the `DisallowedError` of a redirect names its whole chain.

        Raises (at once):
            GateClosedError: the gate is not open.
            OptionError, TypeError: an argument that makes no sense.
        """
        if priority is not NO_PRIORITY:
            check_whole("priority", priority)
        if max_redirects is not MAX_PAGE_REDIRECTS:
            check_whole("max_redirects", max_redirects, least=0)
        if max_bytes is None:
            max_bytes = self._options.max_bytes
        else:
            check_whole("max_bytes", max_bytes, least=1)
        if options:
            check_names(options, RequestOptions.__annotations__)
        most_redirects = max_redirects if allow_redirects else None
        most_seconds, most_bytes = self._max_wait(max_wait), max_bytes
        return PageFetch(
            self._running.pages,
            lambda: page_request(
                url,
                method,
                self._identity,
                self._middleware,
                options,
                priority=priority,
                max_wait=most_seconds,
                max_bytes=most_bytes,
                max_redirects=most_redirects,
            ),
        )

    def wait_time(self, url: str | URL) -> float:
        """Seconds until the host of a URL can have its next turn, at the least; 0 when it is due.

        This is what memory tells. What a store in a file knows of the host is in memory once its rules were asked for,
        by `allowed` or any other door, or a turn; until then it is taken to be due.

        Raises:
            InvalidURLError, NonPublicAddressError, GateClosedError: as `allowed`.
        """
        return self._running.lanes.wait(*self._running.turns.locate(url))

    def learn(self, url: str | URL, body: bytes, *, fresh_until: float | None = None) -> None:
        """Take a robots.txt that the caller already has, as if it had just been fetched.

        Args:
            url: any URL of the origin the file is from.
            fresh_until: until when it holds, in seconds since the epoch; by default 24 hours from now. As any other,
                it may be asked for anew from three quarters of that time on.

        Raises:
            InvalidURLError, NonPublicAddressError, GateClosedError: as `allowed`.
            OptionError: `fresh_until` is no instant.
        """
        check_part("body", body, bytes)
        if fresh_until is not None:
            check_seconds("fresh_until", fresh_until)
        origin, _ = self._running.turns.locate(url)
        self._running.learn(origin, body, fresh_until_at=fresh_until)

    def host(self, url: str | URL) -> HostView:
        """What is remembered of the host of a URL.

        As `wait_time`, it tells of what is in memory: of a host whose rules nobody has asked for since the gate was
        opened, that is nothing.

        Raises:
            InvalidURLError, NonPublicAddressError, GateClosedError: as `allowed`.
            StoreError: the store could not tell.
        """
        return self._running.view(*self._running.turns.locate(url))

    def hosts(self) -> list[HostView]:
        """As `host`, of every origin whose rules are in this process's memory; ``print(*gate.hosts(), sep=chr(10))``.

        Raises:
            GateClosedError: the gate is not open.
            StoreError: as `host`.
        """
        return self._running.views()

    def override(self, pattern: str, override: HostOverride | None) -> None:
        """Change what holds for some hosts, from now on; whoever waits for one of them is held to it.

        Args:
            pattern: ``example.org``, ``*.example.org`` for the hosts below it, or ``*``.
            override: in place of the pattern's present one; None takes that away. What has been promised to a host
                is kept: the next visit comes no sooner than it was due.

        Raises:
            GateClosedError: the gate is not open.
            OptionError: the pattern or a value makes no sense; everything is then as it was.
        """
        self._running.override(pattern, override)

    def block(self, pattern: str, until: float | datetime = math.inf) -> None:
        """Leave some hosts alone, robots.txt included: the switch for the day a site complains.

        A site is often more than one host: ``example.org`` alone leaves ``www.example.org`` to be visited.

        Requests under way are not broken off. Whoever waits, or comes, waits for the end up to `max_block`; beyond it
        he gets `HostUnavailableError` at once.

        It holds at this gate from now on. A store that is a fleet's (`SharedBlocks`, as `RedisStore` is) passes it on:
        to the other gates of the process at once, to those of other processes within two seconds, and to those that
        open later. While its server cannot be reached it is kept, and told as soon as it is back. With any other store
        each gate has its own blocks.

        Args:
            pattern: ``example.org``, ``*.example.org`` for the hosts below it, or ``*``.
            until: an instant to come, in seconds since the epoch or as an aware `datetime`; by default, until
                `unblock`. Where several patterns name a host, the latest holds. Of one pattern, what was said last
                does, at whichever gate.

        Raises:
            GateClosedError: the gate is not open.
            OptionError: the pattern makes no sense, or the instant has passed.
        """
        until_at = _instant("until", until)
        if until_at <= self._now():
            raise OptionError(
                f"until={until!r} has passed: give time.time() and the seconds to come, or lift a block by `unblock`"
            )
        self._running.blocks.block(pattern, until_at)

    def unblock(self, pattern: str) -> None:
        """Lift what `block` was told of this very pattern, at whichever gate of a fleet; who waits goes on in his turn.

        Raises:
            GateClosedError: the gate is not open.
            OptionError: the pattern makes no sense.
        """
        self._running.blocks.block(pattern, 0.0)

    def subscribe(self, callback: Callable[[Event], object], *kinds: type[Event]) -> Callable[[], None]:
        """Hear of what happens, as `Event` values: robots.txt fetched, turns, refusals, blocks.

        The event loop calls `callback` soon after each, in their order; what it raises goes to the loop's exception
        handler. The standard logging tells the same, under ``robotgate``; docs/events.md lists events and levels.

        Args:
            callback: a plain function of one event.
            kinds: the events to hear of, such as `HostBlocked`; by default all.

        Returns:
            A function that ends the subscription.

        Raises:
            OptionError: `callback` is no function, or a coroutine function; or what is no kind of event.
        """
        return self._listeners.subscribe(callback, *kinds)

    @property
    def headers(self) -> dict[str, str]:
        """User-Agent and From, as every request of ours has to bear them; for clients that are not the gate's own."""
        return dict(self._identity.headers)

    def identify(self, headers: MutableMapping[str, str]) -> None:
        """Add to a request's headers what is missing of `headers`; for clients that are not the gate's own.

        Args:
            headers: a plain dict, or what the client has; names are compared without case.

        Raises:
            OptionError: there is a User-Agent, and it does not name the token whose rules are obeyed.
        """
        self._identity.complete(headers)

    @property
    def middleware(self) -> GateMiddleware:
        """For ``aiohttp.ClientSession(middlewares=[gate.middleware])``; put it last. Every hop is judged and paced.

        aiohttp counts the wait against a request's total timeout; a turn that surely comes later than that raises
        `TooSoonError` at once. docs/doors.md tells what it guarantees, and what it cannot.
        """
        return self._middleware

    @property
    def _running(self) -> Engine:
        if self._engine is None:
            raise GateClosedError(
                "the gate is closed"
                if self._is_closed
                else "open the gate first: async with RobotGate(...) as gate"
            )
        return self._engine

    def _at_once(self, url: URL, timeout: float | None) -> OwnTurn | None:
        """A turn for the middleware, if it is to be had at once."""
        return self._running.turns.at_once(url, priority=NO_PRIORITY, max_wait=self._patience(timeout))

    def _in_time(self, url: URL, timeout: float | None) -> Coroutine[object, None, OwnTurn]:
        """A turn for the middleware, waited for no longer than the request may take in all."""
        return self._running.turns.in_time(url, priority=NO_PRIORITY, max_wait=self._patience(timeout))

    def _patience(self, timeout: float | None) -> float | None:
        max_wait = self._options.max_wait
        return timeout if timeout is not None and (max_wait is None or timeout < max_wait) else max_wait

    def _max_wait(self, given: float | _Given | None) -> float | None:
        if given is _Given.BY_OPTION:
            return self._options.max_wait
        if given is not None:
            check_seconds("max_wait", given)
        return given

    def __repr__(self) -> str:
        if self._engine is None:
            return f"<RobotGate {self._identity.token!r} {'closed' if self._is_closed else 'not open'}>"
        return (
            f"<RobotGate {self._identity.token!r} sites={len(self._sites)} lanes={len(self._engine.lanes)}>"
        )


def _instant(name: str, value: float | datetime) -> float:
    if not isinstance(value, datetime):
        check_instant(name, value)
        return value
    if value.tzinfo is None:
        raise OptionError(f"{name}={value!r}: give a datetime that knows its time zone")
    return value.timestamp()
