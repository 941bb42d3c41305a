"""The gate inside Scrapy 2.13 and later: ``ADDONS = {"robotgate.integrations.scrapy.Addon": 300}``.

The middleware asks for the verdict, which takes no turn; the download handler waits for the turn, below whatever
Scrapy times, counts or bounds, and ends it when the response has been read. docs/scrapy.md tells how to use them.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, ClassVar, Final, ParamSpec, TypeVar

from scrapy import signals
from scrapy.core.downloader.handlers import DownloadHandlers
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.exceptions import IgnoreRequest, StopDownload
from scrapy.utils.defer import deferred_f_from_coro_f, maybe_deferred_to_future
from scrapy.utils.misc import build_from_crawler, load_object
from scrapy.utils.reactor import is_asyncio_reactor_installed, is_reactor_installed
from twisted.internet.defer import Deferred

from robotgate._errors import (
    DisallowedError,
    HostUnavailableError,
    OptionError,
    RobotGateError,
    TooSoonError,
)
from robotgate._events import HostBlocked, RobotsFetched
from robotgate._pacing import MIN_RETRY_AFTER
from robotgate._urls import Origin
from robotgate._verdict import AccessResult
from robotgate.integrations._scrapy_outage import scrapy_outage_of
from robotgate.integrations._scrapy_parser import RobotParser
from robotgate.integrations._scrapy_queue import HostAwarePriorityQueue
from robotgate.integrations._scrapy_robots import MAX_BYTES, ScrapyFetcher, decoded, header
from robotgate.integrations._scrapy_settings import ADDON, make_gate, set_defaults

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Self

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings

    from robotgate._events import Event
    from robotgate._gate import RobotGate
    from robotgate._identity import Identity
    from robotgate._turn import Turn
    from robotgate._verdict import Verdict

__all__ = ["Addon", "RefusedRequest", "RobotParser"]

P = ParamSpec("P")
T = TypeVar("T")

VERDICT_PLACE: Final = 100
"""That of Scrapy's own middleware for robots.txt: refused is what nobody has spent anything on yet."""
SCHEMES: Final = ("http", "https")
OUTAGE_PATIENCE: Final = 60.0
"""Seconds that a request waits at a time for a host that cannot be reached; `_circuit` has 10, 20 and 40 for its first.
Scrapy never asks again for what is refused: one page that timed out would lose all the pages of its host."""
TOLD: Final = (DisallowedError, HostUnavailableError, TooSoonError)
"""What the gate itself logs of those who ask for a turn."""
STATS: Final = {
    DisallowedError: "robotgate/disallowed",
    HostUnavailableError: "robotgate/unavailable",
    TooSoonError: "robotgate/too_soon",
}

logger = logging.getLogger(__name__)


class RefusedRequest(IgnoreRequest):
    """A request that the gate does not let through. Its text says why; Scrapy does not retry it."""

    def __init__(self, error: RobotGateError) -> None:
        super().__init__(str(error))
        self.error = error
        """`DisallowedError` knows the verdict, `HostUnavailableError` and `TooSoonError` when to come back."""


class Addon:
    """Puts a gate before every request of a crawl. Its settings are told of in docs/scrapy.md."""

    gate: RobotGate
    """Open while the spider is; for `crawler.get_addon(Addon).gate`."""
    identity: Identity

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.handlers: dict[str, str | type] = {}
        """The download handlers that send what has its turn, by scheme."""
        self.patience = OUTAGE_PATIENCE
        """Seconds to wait for a host that cannot be reached; no longer than `max_wait`."""
        self._opened = AsyncExitStack()
        self._waited = 0.0
        crawler.signals.connect(self._open, signals.spider_opened)
        crawler.signals.connect(self._close, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """What Scrapy makes an add-on by."""
        return cls(crawler)

    @classmethod
    def of(cls, crawler: Crawler) -> Self:
        """The add-on of a crawl.

        Raises:
            OptionError: there is none, or Scrapy does not run on asyncio.
        """
        addon = crawler.get_addon(cls)
        if addon is None:
            raise OptionError(f'ADDONS: give {{"{__name__}.Addon": 300}}')
        if is_reactor_installed() and not is_asyncio_reactor_installed():
            raise OptionError(
                "TWISTED_REACTOR: robotgate needs 'twisted.internet.asyncioreactor.AsyncioSelectorReactor',"
                " which is Scrapy's default"
            )
        return addon

    def update_settings(self, settings: BaseSettings) -> None:
        """Take the place of Scrapy's middleware for robots.txt, and stand before its download handlers.

        Raises:
            OptionError: a setting makes no sense; the message begins with its name.
        """
        self.gate, self.identity = make_gate(settings, ScrapyFetcher(self.crawler))
        self.gate.subscribe(self._count, RobotsFetched, HostBlocked)
        max_wait = settings.getdict("ROBOTGATE_OPTIONS").get("max_wait")
        self.patience = OUTAGE_PATIENCE if max_wait is None else min(OUTAGE_PATIENCE, max_wait)
        set_defaults(settings, self.identity)
        settings.set("SCHEDULER_PRIORITY_QUEUE", HostAwarePriorityQueue, ADDON)
        settings.set_in_component_priority_dict("DOWNLOADER_MIDDLEWARES", RobotsTxtMiddleware, None)
        settings.set_in_component_priority_dict("DOWNLOADER_MIDDLEWARES", VerdictMiddleware, VERDICT_PLACE)
        known = settings.getwithbase("DOWNLOAD_HANDLERS")
        self.handlers = {scheme: known[scheme] for scheme in SCHEMES if known.get(scheme) is not None}
        paced = {scheme: PACED[scheme] for scheme in self.handlers}
        priority = settings.getpriority("DOWNLOAD_HANDLERS") or 0
        settings.set("DOWNLOAD_HANDLERS", {**settings.getdict("DOWNLOAD_HANDLERS"), **paced}, priority)

    def refusal(self, error: RobotGateError, *, is_told: bool) -> RefusedRequest:
        """What a request ends with that the gate does not let through."""
        if not is_told:
            logger.info("%s", error, extra={"spider": self.crawler.spider})
        self.crawler.stats.inc_value(STATS.get(type(error), "robotgate/refused"))
        return RefusedRequest(error)

    def tell_turn(self, turn: Turn) -> None:
        """A request is about to be sent."""
        self._waited += turn.waited
        self.crawler.stats.inc_value("robotgate/turns")
        self.crawler.stats.set_value("robotgate/waited_seconds", round(self._waited, 3))

    def _count(self, event: Event) -> None:
        if isinstance(event, HostBlocked):
            self.crawler.stats.inc_value("robotgate/hosts_blocked")
        if isinstance(event, RobotsFetched):
            self.crawler.stats.inc_value("robotgate/robots_fetched")
            if event.access is AccessResult.UNREACHABLE:
                self.crawler.stats.inc_value("robotgate/robots_unreachable")

    async def _open(self) -> None:
        await self._opened.enter_async_context(self.gate)

    async def _close(self) -> None:
        await self._opened.aclose()


class VerdictMiddleware:
    """Asks each site's rules before a request takes a place in the downloader. It never waits for a page's turn."""

    def __init__(self, addon: Addon) -> None:
        self._addon = addon

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """What Scrapy makes a middleware by."""
        return cls(Addon.of(crawler))

    async def process_request(self, request: Request, spider: Spider | None = None) -> None:
        """Let a request pass, under our name, or say why not.

        Raises:
            RefusedRequest: the site's rules, or its state, forbid it.
        """
        if MAX_BYTES in request.meta or not request.url.startswith(("http:", "https:")):
            return
        for name, value in self._addon.identity.headers.items():
            request.headers.setdefault(name, value)
        if request.meta.get("dont_obey_robotstxt"):
            return
        try:
            if await self._addon.gate.allowed(request.url):
                self._addon.crawler.stats.inc_value("robotgate/allowed")
                return
            error = _error_of(await self._addon.gate.check(request.url))
        except RobotGateError as failed:
            raise self._addon.refusal(failed, is_told=False) from failed
        raise self._addon.refusal(error, is_told=False) from error


def as_scrapy_calls(
    method: Callable[P, Coroutine[object, object, T]],
) -> Callable[P, Coroutine[object, object, T]] | Callable[P, Deferred[T]]:
    """A handler's method, for the Scrapy there is: since 2.14 they are coroutine functions."""
    if hasattr(DownloadHandlers, "download_request_async"):
        return method
    return deferred_f_from_coro_f(method)


class PacedHandler:
    """Stands before the download handler of a scheme, and lets each request through in its host's turn.

    Scrapy's time-outs begin inside the other, so none counts the wait; and the other returns when the body has been
    read, so the turn ends with it.
    """

    lazy: ClassVar = False
    scheme: ClassVar[str]

    def __init__(self, crawler: Crawler) -> None:
        self._addon = Addon.of(crawler)
        self._crawler = crawler
        self._handler = build_from_crawler(load_object(self._addon.handlers[self.scheme]), crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """What Scrapy makes a handler by."""
        return cls(crawler)

    @as_scrapy_calls
    async def download_request(self, request: Request, spider: Spider | None = None) -> Response:
        """Wait for the turn, and send.

        Raises:
            RefusedRequest: there is no turn.
            OptionError: the request bears a User-Agent that does not name us.
        """
        max_bytes = request.meta.get(MAX_BYTES)
        if max_bytes is not None:
            # The gate asks for it in a turn of its own.
            async with asyncio.timeout(request.meta["download_timeout"]):
                return decoded(await self._send(request), max_bytes=max_bytes)
        self._identify(request)
        try:
            return await self._send_when_due(request)
        except RobotGateError as error:
            raise self._addon.refusal(error, is_told=isinstance(error, TOLD)) from error

    @as_scrapy_calls
    async def close(self) -> None:
        """Close the other."""
        close = getattr(self._handler, "close", None)
        closing = None if close is None else close()
        if isinstance(closing, Deferred):
            await maybe_deferred_to_future(closing)
        elif inspect.isawaitable(closing):
            await closing

    async def _send_when_due(self, request: Request) -> Response:
        while True:
            try:
                async with self._addon.gate.turn(_url_of_turn(request), priority=request.priority) as turn:
                    self._addon.tell_turn(turn)
                    return await self._send_in(turn, request)
            except HostUnavailableError as error:
                if error.verdict is not None or error.retry_after > self._addon.patience:
                    raise
                await asyncio.sleep(max(error.retry_after, MIN_RETRY_AFTER))

    async def _send_in(self, turn: Turn, request: Request) -> Response:
        try:
            response = await self._send(request)
        except StopDownload as stop:
            if stop.response is not None:
                _report(turn, stop.response)
            raise
        except Exception as error:
            cause = scrapy_outage_of(error, request)
            if cause is not None:
                turn.report_unreachable(cause)
            raise
        _report(turn, response)
        return response

    async def _send(self, request: Request) -> Response:
        if inspect.iscoroutinefunction(self._handler.download_request):
            response: Response = await self._handler.download_request(request)
            return response
        # As handlers were before Scrapy 2.14, and those of others may still be.
        return await maybe_deferred_to_future(self._handler.download_request(request, self._crawler.spider))

    def _identify(self, request: Request) -> None:
        headers = {
            name: value.decode("latin-1")
            for name in self._addon.identity.headers
            if (value := request.headers.get(name)) is not None
        }
        self._addon.identity.complete(headers)
        request.headers.update(headers)


class HttpHandler(PacedHandler):
    """For http."""

    scheme = "http"


class HttpsHandler(PacedHandler):
    """For https."""

    scheme = "https"


PACED: Final = {handler.scheme: handler for handler in (HttpHandler, HttpsHandler)}


def _url_of_turn(request: Request) -> str:
    if not request.meta.get("dont_obey_robotstxt"):
        return request.url
    # A turn of the host, and no verdict: rules never refuse robots.txt itself.
    return Origin.of(request.url).robots_url


def _report(turn: Turn, response: Response) -> None:
    retry_after = header(response, "Retry-After")
    headers = None if retry_after is None else {"Retry-After": retry_after}
    turn.report(status=response.status, headers=headers, bytes=len(response.body))


def _error_of(verdict: Verdict) -> RobotGateError:
    """What asking for a turn would have raised."""
    if verdict.access is not AccessResult.UNREACHABLE:
        return DisallowedError(verdict)
    cause = f"its robots.txt cannot be read ({verdict.cause})"
    return HostUnavailableError(Origin.of(verdict.url).host, verdict.retry_after or 0.0, cause, verdict)
