"""One worker of a crawl whose URLs URLFrontier keeps: it takes them, waits for their hosts, and says what came of each.

The service counts whole seconds from one hand-out of a queue to the next, and knows nothing of responses: the gate
paces. The service hands a URL out again when its lease is over: while a URL waits or is fetched here, its lease is
renewed. A service that restarts forgets leases, delays and blocks: it is told them before it is asked for more.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Final, Self

from aiohttp import ClientError, TooManyRedirects

from robotgate.errors import (
    BudgetExceededError,
    DisallowedError,
    GateClosedError,
    HostUnavailableError,
    InvalidURLError,
    OptionError,
    PreferenceError,
    ResponseTooLargeError,
    RobotGateError,
    TooSoonError,
)
from robotgate.events import HostBlocked, HostRecovered
from robotgate.integrations.urlfrontier import messages
from robotgate.integrations.urlfrontier.connection import LONGEST_PAUSE, Connection, FrontierError, logger
from robotgate.integrations.urlfrontier.messages import URLInfo
from robotgate.options import check_patience, check_whole, unless_none
from robotgate.urls import pace_key_function, split_url

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from grpc.aio import Channel
    from yarl import URL

    from robotgate.client.ready import ReadyTurns
    from robotgate.client.turn import Turn
    from robotgate.gate import RobotGate

NEVER: Final = 0
"""A URL with this date does not come again."""
POLL: Final = 1.0
"""Seconds between two questions for more: the service counts whole seconds."""
QUIET: Final = LONGEST_PAUSE + POLL
"""Seconds for which a service that may have restarted is asked for nothing: until all workers have told it anew."""
MAX_UNSENT: Final = 2_000
"""Items beyond which `discover` waits."""
MAX_TRIES: Final = 3
"""How often an item is sent that the service fails to take."""
MAX_QUEUES: Final = 10_000
"""Queues whose delay and block are remembered."""
HOUR: Final = 3600.0
"""The longest delay and block of a queue: it is free again when its crawler has gone."""
LASTING: Final = (DisallowedError, InvalidURLError, PreferenceError, ResponseTooLargeError, TooManyRedirects)
"""Errors that the same page would have again."""


@dataclass(slots=True, eq=False)
class _Queue:
    """A queue whose URLs the gate paces together, and what the service has been told of it."""

    url: str
    """One of them."""
    crawl_ids: set[str] = field(default_factory=set)
    delay: int = -1
    blocked_until: int = 0


class URLFrontier(AsyncIterator["FrontierPage"]):
    """``async for page in frontier``: the URLs that the service hands out, each with its host's turn, which has begun.

    Open it by ``async with``, within the gate's. End each page by ``async with page as turn``, best in a task of its
    own. Pages that the site's rules refuse do not come. Several tasks may share the iterator. The gates of workers that
    crawl together need a `store` that they share.

    Args:
        gate: an open gate.
        target: where the service is, as ``localhost:7071``; or a channel, for TLS and the like, that you close.
        urls_per_queue: URLs of one queue that come at once, at most. A queue has one hand-out a second.
        queues: queues that URLs come from at once.
        ahead: URLs that wait here for their hosts, beside those of one hand-out.
        lease: whole seconds after which a page that is not acknowledged comes again: how long the pages of a killed
            worker are missing. It is renewed for pages that take longer. By default as many delays of the gate as URLs
            come at once, and its `max_block`.
        crawl_id: the crawl of the URLs; by default any, and the service's own for those that are discovered.
        max_idle: seconds without a URL after which the loop ends; by default it goes on for ever.
        max_outage: seconds for which a service that is away is waited for; then the loop raises `FrontierError`.

    Raises:
        OptionError: an argument makes no sense.
    """

    def __init__(
        self,
        gate: RobotGate,
        target: str | Channel,
        *,
        urls_per_queue: int = 5,
        queues: int = 100,
        ahead: int = 1_000,
        lease: int | None = None,
        crawl_id: str = "",
        max_idle: float = math.inf,
        max_outage: float = 300.0,
    ) -> None:
        for name, value in ("urls_per_queue", urls_per_queue), ("queues", queues), ("ahead", ahead):
            check_whole(name, value, least=1)
        unless_none(lambda name, value: check_whole(name, value, least=2), "lease", lease)
        check_patience("max_idle", max_idle)
        check_patience("max_outage", max_outage)
        if isinstance(target, str) and (not target or target.startswith(("http://", "https://"))):
            raise OptionError(f"target={target!r}: give a host and a port, as 'localhost:7071'")
        if lease is None:
            patience = urls_per_queue * gate._options["delay"] + gate._options["max_block"]
            lease = math.ceil(min(max(patience, 30.0), HOUR))
        self._gate, self._target, self._crawl_id, self._ahead = gate, target, crawl_id, ahead
        self._urls_per_queue, self._most, self._lease = urls_per_queue, urls_per_queue * queues, lease
        self._params = messages.get_params(urls_per_queue, queues, lease, crawl_id)
        self._max_idle, self._max_outage = max_idle, max_outage
        self._pace_key = pace_key_function(gate._options["pace_key"])
        self._held: dict[str, list[FrontierPage]] = {}
        """By the URLs of their turns: the service may have several spellings of one."""
        self._unsent: dict[str, tuple[bytes, FrontierPage | None]] = {}
        """Items by ID, in their order, with what they acknowledge."""
        self._queues: dict[str, _Queue] = {}
        """By key, the oldest first; none whose key is not the gate's pace key."""
        self._news: set[str] = set()
        """Keys of queues whose delay or block may have changed."""
        self._quiet_until = 0.0
        self._ids = map(str, count())
        self._wake, self._sent = asyncio.Event(), asyncio.Event()
        self._failure: FrontierError | None = FrontierError("the frontier is not open: use `async with`")
        self._is_closed = False
        self._sender: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._sender is not None:
            raise RuntimeError("a frontier is opened once: make another")
        self._failure = None
        self._service = Connection(self._target, self._max_outage, self._tell_anew)
        self._turns: ReadyTurns = self._gate.ready(self._urls(), ahead=self._ahead, on_refusal=self._refused)
        self._unsubscribe: Callable[[], None] = self._gate.subscribe(
            lambda event: self._note(event.host), HostBlocked, HostRecovered
        )
        self._sender = asyncio.create_task(self._send())
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Send what is left to send, and give URLs back whose turn has not begun; a second call does nothing.

        Pages that are open come again after their lease. If the service is away, so do those that are acknowledged.
        """
        if self._sender is None or self._is_closed:
            return
        self._is_closed = True
        self._unsubscribe()
        await self._turns.aclose()
        self._sender.cancel()
        await asyncio.wait([self._sender])
        for page in [page for pages in self._held.values() for page in pages if page._is_waiting]:
            self._settle(page, self._now())
        self._failure = self._failure or FrontierError("the frontier was closed")
        self._sent.set()
        await self._service.aclose(self._flush)

    async def __anext__(self) -> FrontierPage:
        if self._sender is None and self._failure is not None:
            raise self._failure
        turn = await self._turns.__anext__()
        page = self._waiting(turn.url)
        page.turn = turn
        return page

    async def discover(
        self,
        urls: Iterable[str | URL],
        *,
        metadata: Mapping[str, Sequence[str]] | None = None,
        crawl_id: str | None = None,
    ) -> None:
        """Hand URLs over to the service, which leaves out those that it knows. Waits while many have yet to be sent.

        Those that are no http(s) URLs are left out. Hand over a page's links within its block: they are sent before it
        is acknowledged.

        Args:
            metadata: is kept with each of them.
            crawl_id: another crawl than the frontier's.

        Raises:
            FrontierError: as the loop.
            OptionError: `urls` is one text.
        """
        if isinstance(urls, str):
            raise OptionError(f"urls={urls!r}: give an iterable of URLs")
        for url in urls:
            try:
                origin, target = split_url(url)
            except InvalidURLError:
                continue
            while len(self._unsent) >= MAX_UNSENT and self._failure is None:
                self._sent.clear()
                await self._sent.wait()
            if self._failure is not None:
                raise self._failure
            crawl = self._crawl_id if crawl_id is None else crawl_id
            info = URLInfo(f"{origin}{target}", self._pace_key(origin), dict(metadata or {}), crawl)
            item_id = next(self._ids)
            self._unsent[item_id] = messages.discovered_item(info, item_id), None
            self._wake.set()

    # URLs that come.

    async def _urls(self) -> AsyncGenerator[str, None]:
        """What `RobotGate.ready` reads: it asks for the next one while it has room."""
        busy_at = monotonic()
        while True:
            # The service counts the lease in whole seconds.
            ends_at = self._now() + self._lease - 1
            found = await self._service.persist(self._get)
            if self._news:
                # All of them, after a restart.
                self._wake.set()
            # All of them are held at once, so that leases are renewed of those that there is no room for yet.
            for url in [self._take(FrontierPage(self, info, ends_at)) for info in found]:
                if url is not None:
                    yield url
            if found or self._held or self._unsent or busy_at < self._quiet_until:
                busy_at = monotonic()
            elif monotonic() - busy_at >= self._max_idle:
                return
            if len(found) < self._most:
                await asyncio.sleep(min(POLL, self._max_idle))

    async def _get(self) -> list[URLInfo]:
        is_quiet = monotonic() < self._quiet_until
        return [] if is_quiet else await self._service.get(self._params, self._most)

    def _take(self, page: FrontierPage) -> str | None:
        """The URL of a turn for a page; None if there is none, or if the page is held already."""
        info = page.info
        try:
            site, target, _ = self._gate._locate(info.url)
        except InvalidURLError:
            self._settle(page, NEVER)
            return None
        url = f"{site.key}{target}"
        pages = self._held.setdefault(url, [])
        if any((other.info.url, other.info.key) == (info.url, info.key) for other in pages):
            return None
        page._held_as = url
        pages.append(page)
        # Other queues may hold URLs of several hosts: what holds for one of these is nothing to them.
        if info.key == site.host.key:
            if info.key not in self._queues and len(self._queues) >= MAX_QUEUES:
                del self._queues[next(iter(self._queues))]
            self._queues.setdefault(info.key, _Queue(url)).crawl_ids.add(info.crawl_id)
            self._note(info.key)
        return url

    def _waiting(self, url: str) -> FrontierPage:
        return next(page for page in self._held[url] if page._is_waiting)

    # What came of them.

    def _refused(self, url: str, error: RobotGateError) -> None:
        page = self._waiting(url)
        self._settle(page, self._again_at(page, error))

    def _again_at(self, page: FrontierPage, error: BaseException | None) -> float | None:
        """When a page comes again, or `NEVER`; None: when its lease is over."""
        if isinstance(error, LASTING):
            return NEVER
        if isinstance(error, BudgetExceededError | HostUnavailableError | TooSoonError):
            return None if error.retry_after is None else self._now() + error.retry_after
        if error is None or isinstance(error, ClientError | TimeoutError):
            with suppress(GateClosedError):
                free_at = self._pace_of(page._held_as)[1]
                return free_at if free_at > self._now() else None
        return None

    def _settle(self, page: FrontierPage, again_at: float | None) -> None:
        """A page is over: it comes again at an instant, `NEVER`, or when its lease is over."""
        if again_at is None or again_at == math.inf:
            self._release(page)
        else:
            page._is_settled, item_id = True, next(self._ids)
            message = messages.known_item(page.info, item_id, math.ceil(again_at))
            self._unsent[item_id] = message, page
        self._note(page.info.key)
        self._wake.set()

    def _release(self, page: FrontierPage | None) -> None:
        if page is not None and page in (pages := self._held.get(page._held_as, [])):
            pages.remove(page)
            if not pages:
                del self._held[page._held_as]

    # What the service is told.

    async def _tell_anew(self) -> None:
        """Tell a service that may have restarted what it has forgotten: delays and blocks soon, the rest now."""
        await self._flush()
        await self._renew(all_of_them=True)
        for queue in self._queues.values():
            queue.delay, queue.blocked_until = -1, 0
        self._news.update(self._queues)
        if self._queues:
            self._quiet_until = monotonic() + QUIET

    async def _send(self) -> None:
        try:
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._lease / 4):
                        await self._wake.wait()
                self._wake.clear()
                for part in (self._flush, self._renew, self._tell):
                    await self._service.persist(part)
        except FrontierError as error:
            self._failure = error
            self._sent.set()

    async def _flush(self) -> None:
        """Send what waits: an acknowledgement goes behind the links of its page."""
        failed: set[str] = set()
        for _ in range(MAX_TRIES):
            batch = {item_id: message for item_id, (message, _) in self._unsent.items()}
            async for item_id in self._service.put(batch):
                self._release(self._unsent.pop(item_id)[1])
            self._sent.set()
            failed = batch.keys() & self._unsent.keys()
            if not failed:
                return
        logger.warning("URLFrontier at %s fails to take %d items", self._target, len(failed))
        for item_id in failed:
            self._release(self._unsent.pop(item_id)[1])

    async def _renew(self, *, all_of_them: bool = False) -> None:
        """Renew leases of which less than a half is left."""
        now = self._now()
        ends_at = math.ceil(now) + self._lease
        due = {
            next(self._ids): page
            for pages in self._held.values()
            for page in pages
            if not page._is_settled and (all_of_them or page._ends_at - now < self._lease / 2)
        }
        items = {item_id: messages.known_item(page.info, item_id, ends_at) for item_id, page in due.items()}
        async for item_id in self._service.put(items):
            due[item_id]._ends_at = ends_at

    async def _tell(self) -> None:
        """Tell of delays and blocks that have changed."""
        while self._news:
            key = self._news.pop()
            if (queue := self._queues.get(key)) is None:
                continue
            with suppress(GateClosedError):
                delay, until_at = self._pace_of(queue.url)
                now = self._now()
                # The service hands out in the second after the block.
                until = math.floor(min(until_at, now + HOUR)) - 1 if until_at > now + 1 else 0
                for crawl_id in queue.crawl_ids:
                    if delay != queue.delay:
                        params = messages.queue_params(key, delay, crawl_id)
                        await self._service.tell("SetDelay", params)
                    if until != queue.blocked_until and max(until, queue.blocked_until) > now:
                        params = messages.queue_params(key, until, crawl_id)
                        await self._service.tell("BlockQueueUntil", params)
                queue.delay, queue.blocked_until = delay, until

    def _pace_of(self, url: str) -> tuple[int, float]:
        """The delay for the queue of a URL's host, and the end of its block or pause.

        The service hands out so many URLs at once in the second after the delay: rounded down, it is never late.
        """
        views = [self._gate.host(origin) for origin in self._gate.host(url).origins]
        delay = math.floor(min(self._urls_per_queue * views[0].delay, HOUR)) - 1
        # Another origin of the host may be reached.
        free_at = min(
            max(view.unreachable_until_at or 0.0, view.blocked_by_operator_until_at or 0.0) for view in views
        )
        return max(delay, 0), max(views[0].blocked_until_at or 0.0, free_at)

    def _note(self, key: str) -> None:
        if key in self._queues:
            self._news.add(key)
            self._wake.set()

    def _now(self) -> float:
        return self._gate._scheduler.now()


class FrontierPage:
    """A URL that was handed out, and its host's turn, which has begun: ``async with page as turn``.

    What the block comes to is what the service is told: nothing, if its task is cancelled.
    """

    __slots__ = ("_ends_at", "_frontier", "_held_as", "_is_settled", "again_in", "info", "turn")

    turn: Turn

    def __init__(self, frontier: URLFrontier, info: URLInfo, ends_at: float) -> None:
        self._frontier, self._ends_at, self._held_as, self._is_settled = frontier, ends_at, "", False
        self.info: URLInfo = info
        """The URL, its queue and its crawl."""
        self.again_in: float | None = None
        """For you to set: seconds after which the page comes again, or 0: never. None goes by the answer."""

    @property
    def _is_waiting(self) -> bool:
        """Whether its turn has not begun."""
        return not hasattr(self, "turn") and not self._is_settled

    async def __aenter__(self) -> Turn:
        return await self.turn.__aenter__()

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:
            await self.turn.__aexit__(kind, error, traceback)
        finally:
            again_at: float | None = NEVER
            if error is not None or (self.again_in is None and self.turn.status in {None, 429, 503}):
                again_at = self._frontier._again_at(self, error)
            elif self.again_in:
                again_at = self._frontier._now() + self.again_in
            self._frontier._settle(self, again_at)
