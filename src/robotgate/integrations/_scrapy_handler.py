"""Where a request is sent: in its turn, by the download handler that the project has."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, ClassVar, Final, ParamSpec, TypeVar

from scrapy.core.downloader.handlers import DownloadHandlers
from scrapy.exceptions import StopDownload
from scrapy.utils.defer import deferred_f_from_coro_f, maybe_deferred_to_future
from scrapy.utils.misc import build_from_crawler, load_object
from twisted.internet.defer import Deferred
from twisted.web.client import HTTPConnectionPool

from robotgate._errors import DisallowedError, HostUnavailableError, RobotGateError, TooSoonError
from robotgate._urls import Origin
from robotgate.integrations._scrapy_gate import CrawlGate, judged_url
from robotgate.integrations._scrapy_outage import scrapy_outage_of
from robotgate.integrations._scrapy_robots import MAX_BYTES, decoded, header
from robotgate.integrations._scrapy_wait import send_in_turn

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Self

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from robotgate._turn import Turn

P = ParamSpec("P")
T = TypeVar("T")

TOLD: Final = (DisallowedError, HostUnavailableError, TooSoonError)
"""What the gate itself logs of those who ask for a turn."""


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
        self._shared = CrawlGate.of(crawler)
        self._crawler = crawler
        self._handler = build_from_crawler(load_object(self._shared.handlers[self.scheme]), crawler)
        _send_once(self._handler)

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
            raise self._shared.refusal(error, is_told=isinstance(error, TOLD)) from error

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
        async def send(turn: Turn) -> Response:
            self._shared.tell_turn(turn)
            return await self._send_in(turn, request)

        return await send_in_turn(
            self._shared.gate,
            _url_of_turn(request),
            send,
            priority=request.priority,
            max_wait=self._shared.max_wait,
        )

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
            for name in self._shared.identity.headers
            if (value := request.headers.get(name)) is not None
        }
        self._shared.identity.complete(headers)
        request.headers.update(headers)


class HttpHandler(PacedHandler):
    """For http."""

    scheme = "http"


class HttpsHandler(PacedHandler):
    """For https."""

    scheme = "https"


PACED: Final = {handler.scheme: handler for handler in (HttpHandler, HttpsHandler)}


def _send_once(handler: object) -> None:
    """Have a handler's connections tell of a request that was lost with one, and not send it again in the same turn.

    Twisted does so, at once, where the connection had served another request before. Scrapy's retries take a turn.
    """
    for part in getattr(handler, "__dict__", {}).values():
        if isinstance(part, HTTPConnectionPool):
            part.retryAutomatically = False


def _url_of_turn(request: Request) -> str:
    if not request.meta.get("dont_obey_robotstxt"):
        return judged_url(request)
    # A turn of the host, and no verdict: rules never refuse robots.txt itself. A `pace_key` that parts a host by paths
    # sees that path; docs/scrapy.md says so.
    return Origin.of(request.url).robots_url


def _report(turn: Turn, response: Response) -> None:
    retry_after = header(response, "Retry-After")
    headers = None if retry_after is None else {"Retry-After": retry_after}
    turn.report(status=response.status, headers=headers, bytes=len(response.body))
