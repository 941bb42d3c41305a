"""What runs behind an open gate, put together and taken apart again."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import aiohttp

from robotgate._access import Answer, Ending, Standing, settle
from robotgate._bound import Bound, Meter, Places
from robotgate._circuit import is_open
from robotgate._errors import GateClosedError, OptionError, StoreError
from robotgate._eviction import Eviction
from robotgate._fetch import AiohttpFetcher
from robotgate._fetching import PageFetcher
from robotgate._host import HostView
from robotgate._lanes import Lanes
from robotgate._losses import Losses, Task
from robotgate._names import RememberingResolver
from robotgate._operator import OperatorBlocks
from robotgate._pace_key import PaceKey, pace_key_function
from robotgate._ports import ReportingStore
from robotgate._quota import rate_of
from robotgate._ready import ReadyTurns
from robotgate._resolver import ThreadPerNameResolver
from robotgate._robots import RobotsKeeper, RobotsOptions
from robotgate._sockets import BudgetedConnector, SocketBudget, idle_limit
from robotgate._status import Outcome
from robotgate._turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import ClientMiddlewareType

    from robotgate._errors import RobotGateError
    from robotgate._identity import Identity
    from robotgate._listeners import Listeners
    from robotgate._options import Options
    from robotgate._overrides import HostOverride, Overrides
    from robotgate._ports import Clock, Fetcher, Store
    from robotgate._ready import Urls
    from robotgate._urls import Origin


class Engine:
    """The parts of an open gate. Made within the event loop that will run them."""

    def __init__(
        self,
        *,
        identity: Identity,
        options: Options,
        session: aiohttp.ClientSession | None,
        store: Store,
        clock: Clock,
        fetcher: Fetcher | None,
        listeners: Listeners,
        overrides: Overrides,
        middleware: ClientMiddlewareType,
    ) -> None:
        self._options = options
        self._store = store
        self._clock = clock
        self._overrides = overrides
        if session is not None and session.closed:
            raise OptionError("session: it is closed")
        self._owns_session = session is None
        self._session = session = session or _own_session(options, identity, middleware)
        self._robots_session = _robots_session(session)
        self._losses = losses = Losses(clock=clock, listeners=listeners)
        self._eviction = eviction = Eviction(options.max_hosts)
        self._bounds = pages_bound, robots_bound = _bounds(options, session.connector, clock)
        self.lanes = Lanes(
            overrides=overrides,
            pace_key=pace_key_function(options.pace_key),
            parts_paths=not isinstance(options.pace_key, PaceKey),
            max_slots=_slots_per_host(session.connector),
            clock=clock,
            store=store,
            listeners=listeners,
            losses=losses,
            eviction=eviction,
        )
        self.keeper = RobotsKeeper(
            options=RobotsOptions(
                identity=identity,
                overrides=overrides,
                allow_private_addresses=options.allow_private_addresses,
                recheck=options.recheck,
            ),
            clock=clock,
            store=store,
            lanes=self.lanes,
            fetcher=fetcher or AiohttpFetcher(self._robots_session, clock, middlewares=(middleware,)),
            bound=robots_bound,
            listeners=listeners,
            losses=losses,
            eviction=eviction,
        )
        self.turns = Turns(
            keeper=self.keeper,
            lanes=self.lanes,
            clock=clock,
            bound=pages_bound,
            listeners=listeners,
            eviction=eviction,
            allow_private_addresses=options.allow_private_addresses,
        )
        self.pages = PageFetcher(turns=self.turns, session=session, clock=clock)
        self.blocks = OperatorBlocks(lanes=self.lanes, store=store, clock=clock, listeners=listeners)
        self._ends = [self.blocks.close]
        if isinstance(store, ReportingStore):
            self._ends.append(store.subscribe_losses(losses.report))
        self._saving: set[asyncio.Task[None]] = set()
        self._ready: set[ReadyTurns] = set()

    async def aclose(self) -> None:
        """Cancel what runs, and wait for it."""
        async with AsyncExitStack() as stack:
            # The sessions are closed even if whoever closes the gate is cancelled.
            if self._owns_session:
                stack.push_async_callback(self._session.close)
            if self._robots_session is not self._session:
                stack.push_async_callback(self._robots_session.close)
            for end in self._ends:
                end()
            for ready in list(self._ready):
                ready.fail(GateClosedError())
            self._eviction.close()
            self.lanes.close()
            self.pages.close()
            for bound in self._bounds:
                # Who waits here for a place gets it, finds the lane closed, and passes the place on.
                bound.open_for_all()
            await self.keeper.aclose()
            for ready in list(self._ready):
                await ready.aclose()
            await asyncio.gather(*self._saving, return_exceptions=True)
            # Subscribers hear of the end, too: the loop calls them after this.
            await asyncio.sleep(0)

    def ready(
        self,
        urls: Urls,
        *,
        priority: int,
        ahead: int,
        on_refusal: Callable[[str, RobotGateError], object] | None,
    ) -> ReadyTurns:
        """Turns for many URLs, as they become due."""
        ready = ReadyTurns(
            self.turns,
            urls,
            priority=priority,
            ahead=ahead,
            on_refusal=on_refusal,
            on_end=self._ready.discard,
        )
        self._ready.add(ready)
        return ready

    def override(self, pattern: str, override: HostOverride | None) -> None:
        """Change while running what holds for some hosts.

        Raises:
            OptionError: the pattern or a value makes no sense.
        """
        changed = self._overrides.set(pattern, override)
        # What a host asks counts as its new options say, before anybody is sent away for it.
        self.lanes.grant(changed)
        self.keeper.judge_anew(changed)
        self.lanes.reckon(changed)

    def learn(self, origin: Origin, body: bytes, *, fresh_until_at: float | None) -> None:
        """Take in a robots.txt that nobody fetched."""
        ending = Ending(Outcome.SUCCESS, Answer(status=200, body=body), origin.robots_url)
        record = settle(origin, ending, previous=None, now=self._clock.now(), jitter=0.0)
        if fresh_until_at is not None:
            record = replace(record, fresh_until_at=fresh_until_at)
        self.keeper.learn(record)
        saving = asyncio.get_running_loop().create_task(self._store.save_record(record))
        self._saving.add(saving)
        saving.add_done_callback(self._saved)

    def _saved(self, saving: asyncio.Task[None]) -> None:
        self._saving.discard(saving)
        if saving.cancelled():
            return
        error = saving.exception()
        if error is None:
            self._losses.end(Task.SAVE)
            return
        if not isinstance(error, StoreError):
            raise error
        self._losses.begin(Task.SAVE, error)

    def views(self) -> list[HostView]:
        """What is remembered of every origin whose rules are in memory."""
        return [self.view(site.origin, "/") for site in self.keeper.sites.values()]

    def view(self, origin: Origin, target: str) -> HostView:
        """What is remembered of an origin's host."""
        pace_key = self.lanes.pace_key(origin, target)
        lane = self.lanes.peek(pace_key)
        state, member, spacing = self.lanes.recall(pace_key, origin)
        site = self.keeper.sites.get(origin.text)
        record = None if site is None else site.record
        now = self._clock.now()
        return HostView(
            origin=origin.text,
            host=pace_key,
            access=None if site is None else site.access,
            checked_at=None if record is None else record.checked_at,
            fresh_until_at=None if site is None or record is None else site.fresh_until_at,
            stale=site is not None and site.standing is Standing.STALE_RULES,
            visits=state.visits,
            refused=self.turns.refused.get(origin.text, 0),
            bytes_read=state.bytes_read,
            last_visit_at=state.last_visit_at,
            next_allowed_at=now + self.lanes.wait(origin, target),
            blocked_until_at=state.blocked_until_at if state.blocked_until_at > now else None,
            blocked_by_operator_until_at=member.blocked_until_at if member.blocked_until_at > now else None,
            unreachable_until_at=member.circuit.retry_at if is_open(member.circuit, now=now) else None,
            failures=state.failures,
            latency=state.latency,
            delay=spacing.delay_at(now),
            waiting=0 if lane is None else lane.waiting,
            open_turns=0 if lane is None else lane.open_turns,
        )


def _robots_session(session: aiohttp.ClientSession) -> aiohttp.ClientSession:
    """What robots.txt is asked for with: the session itself, since nobody else knows its proxy."""
    if type(session) is aiohttp.ClientSession:
        return session
    # Some classes derived from it answer from a cache of their own, which knows nothing of when rules are due again.
    return aiohttp.ClientSession(
        connector=session.connector,
        connector_owner=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=session.trust_env,
    )


def _own_session(
    options: Options, identity: Identity, middleware: ClientMiddlewareType
) -> aiohttp.ClientSession:
    threads = ThreadPerNameResolver(max_threads=options.concurrency + options.robots_concurrency)
    # The gate bounds what is under way; a limit of the connector's would hold requests back after their turn.
    connector = BudgetedConnector(
        SocketBudget(idle_limit()),
        resolver=RememberingResolver(threads),
        allow_private_addresses=options.allow_private_addresses,
    )
    return aiohttp.ClientSession(connector=connector, headers=identity.page_headers, middlewares=[middleware])


def _bounds(options: Options, connector: aiohttp.BaseConnector | None, clock: Clock) -> tuple[Bound, Bound]:
    """What bounds pages and what bounds robots.txt; both at once where a connector cannot serve both at once."""
    total_meters = _meters("total_rate", options.total_rate)
    robots_meters = [*total_meters, *_meters("robots_rate", options.robots_rate)]
    limit = 0 if connector is None else connector.limit
    if limit and options.concurrency >= limit:
        pages_places = robots_places = Places(limit)
    else:
        left = limit - options.concurrency if limit else options.robots_concurrency
        pages_places, robots_places = (
            Places(options.concurrency),
            Places(min(options.robots_concurrency, left)),
        )
    robots = Bound(robots_places, clock=clock, meters=robots_meters)
    pages = Bound(pages_places, clock=clock, meters=total_meters)
    pages.share_with([robots])
    robots.share_with([pages])
    return pages, robots


def _meters(name: str, value: tuple[int, float] | None) -> list[Meter]:
    rate = rate_of(name, value)
    return [] if rate is None else [Meter(rate)]


def _slots_per_host(connector: aiohttp.BaseConnector | None) -> int | None:
    return None if connector is None else connector.limit_per_host or None
