"""What runs behind an open gate, put together and taken apart again."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import aiohttp

from robotgate._access import Answer, Ending, Standing, settle
from robotgate._bound import Bound
from robotgate._errors import OptionError
from robotgate._fetch import AiohttpFetcher
from robotgate._fetching import PageFetcher
from robotgate._host import HostAccess, HostView
from robotgate._lane import LaneRules
from robotgate._lanes import Lanes
from robotgate._pacing import HostState
from robotgate._resolver import ThreadPerNameResolver
from robotgate._robots import RobotsKeeper, RobotsOptions
from robotgate._status import Outcome
from robotgate._turns import Turns

if TYPE_CHECKING:
    from aiohttp import ClientHandlerType, ClientMiddlewareType, ClientRequest, ClientResponse

    from robotgate._identity import Identity
    from robotgate._options import Options
    from robotgate._ports import Clock, Fetcher, Store
    from robotgate._site import Site
    from robotgate._urls import Origin


logger = logging.getLogger("robotgate")


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
        middleware: ClientMiddlewareType,
    ) -> None:
        self._options = options
        self._store = store
        self._clock = clock
        if session is not None and session.closed:
            raise OptionError("session: it is closed")
        self._owns_session = session is None
        self._session = session = session or _own_session(options, middleware)
        # Nothing of a caller's session but its connector: its credentials and cookies are not for robots.txt.
        self._robots_session = aiohttp.ClientSession(
            connector=session.connector,
            connector_owner=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=session.trust_env,
            middlewares=[middleware, _anonymous],
        )
        self._bounds = pages_bound, robots_bound = _bounds(options, session.connector)
        self.lanes = Lanes(rules=_lane_rules(options, session.connector), clock=clock, store=store)
        self.keeper = RobotsKeeper(
            options=RobotsOptions(
                identity=identity,
                policy=options.status_policy,
                max_delay=options.max_delay,
                allow_private_addresses=options.allow_private_addresses,
            ),
            clock=clock,
            store=store,
            lanes=self.lanes,
            fetcher=fetcher or AiohttpFetcher(self._robots_session, clock),
            bound=robots_bound,
        )
        self.turns = Turns(
            keeper=self.keeper,
            lanes=self.lanes,
            clock=clock,
            bound=pages_bound,
            allow_private_addresses=options.allow_private_addresses,
        )
        self.pages = PageFetcher(turns=self.turns, session=session, identity=identity, clock=clock)
        self._saving: set[asyncio.Task[None]] = set()

    async def aclose(self) -> None:
        """Cancel what runs, and wait for it."""
        async with AsyncExitStack() as stack:
            # The sessions are closed even if whoever closes the gate is cancelled.
            if self._owns_session:
                stack.push_async_callback(self._session.close)
            stack.push_async_callback(self._robots_session.close)
            self.lanes.close()
            self.pages.close()
            for bound in self._bounds:
                # Who waits here for a place gets it, finds the lane closed, and passes the place on.
                bound.open_for_all()
            await self.keeper.aclose()
            await asyncio.gather(*self._saving, return_exceptions=True)

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
        if not saving.cancelled() and (error := saving.exception()) is not None:
            logger.warning("rules that were learnt could not be saved, and hold in memory only: %s", error)

    def view(self, origin: Origin) -> HostView:
        """What is remembered of an origin's host."""
        lane = self.lanes.peek(origin.host)
        state = self._store.recall_host(origin.host) or HostState()
        site = self.keeper.sites.get(str(origin))
        now = self._clock.now()
        return HostView(
            host=origin.host,
            access=None if site is None else _access(site),
            checked_at=None if site is None else site.record.checked_at,
            visits=state.visits,
            bytes_read=state.bytes_read,
            last_visit_at=state.last_visit_at,
            next_allowed_at=now + self.lanes.wait(origin.host),
            blocked_until_at=state.blocked_until_at if state.blocked_until_at > now else None,
            failures=state.failures,
            waiting=0 if lane is None else lane.waiting,
            open_turns=0 if lane is None else lane.open_turns,
        )


def _access(site: Site) -> HostAccess:
    if site.standing is Standing.CLOSED or site.delay_is_refused:
        return HostAccess.EXCLUDED
    if site.rules.disallows_nothing:
        return HostAccess.OPEN
    return HostAccess.EXCLUDED if site.rules.disallows_everything else HostAccess.CONTROLLED


async def _anonymous(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
    """Nobody's credentials are for robots.txt, those of a netrc file neither."""
    request.headers.popall("Authorization", None)
    return await handler(request)


def _own_session(options: Options, middleware: ClientMiddlewareType) -> aiohttp.ClientSession:
    resolver = ThreadPerNameResolver(max_threads=options.concurrency + options.robots_concurrency)
    # The gate bounds what is under way; a limit of the connector's would hold requests back after their turn.
    connector = aiohttp.TCPConnector(limit=0, resolver=resolver)
    return aiohttp.ClientSession(connector=connector, middlewares=[middleware])


def _bounds(options: Options, connector: aiohttp.BaseConnector | None) -> tuple[Bound, Bound]:
    """What bounds pages and what bounds robots.txt; both at once where a connector cannot serve both at once."""
    limit = 0 if connector is None else connector.limit
    if not limit or options.concurrency + options.robots_concurrency <= limit:
        return Bound(options.concurrency), Bound(options.robots_concurrency)
    if options.concurrency < limit:
        return Bound(options.concurrency), Bound(min(options.robots_concurrency, limit - options.concurrency))
    shared = Bound(limit)
    return shared, shared


def _lane_rules(options: Options, connector: aiohttp.BaseConnector | None) -> LaneRules:
    limit = 0 if connector is None else connector.limit_per_host
    slots = min(options.concurrency_per_host, limit) if limit else options.concurrency_per_host
    return LaneRules(delay=options.delay, slots=slots, max_block=options.max_block)
