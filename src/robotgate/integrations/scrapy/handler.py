"""The download handler that sends each request in its host's turn, through the handler that the project has."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, ClassVar, cast

from scrapy.exceptions import StopDownload
from scrapy.utils.defer import ensure_awaitable
from scrapy.utils.misc import build_from_crawler, load_object
from twisted.web.client import HTTPConnectionPool

from robotgate.client.proxy import fault_of_answer
from robotgate.errors import ProxyUnavailableError, RobotGateError
from robotgate.integrations.scrapy.addon import Addon, judged_url
from robotgate.integrations.scrapy.robots import MAX_BYTES, decoded, headers_of, proxy_of, scrapy_outage_of
from robotgate.urls import Origin

if TYPE_CHECKING:
    from typing import Self

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from robotgate.client.turns import PageTurn


class PacedHandler:
    """Wraps the download handler of a scheme, and sends each request in its host's turn.

    Scrapy's timeouts start inside the wrapped handler, so none of them counts the wait. The wrapped handler returns
    when the body has been read, so the turn ends then.
    """

    lazy: ClassVar[bool] = False
    scheme: ClassVar[str]

    def __init__(self, crawler: Crawler) -> None:
        self._addon = Addon.of(crawler)
        self._crawler = crawler
        self._handler = build_from_crawler(load_object(self._addon.handlers[self.scheme]), crawler)
        for part in getattr(self._handler, "__dict__", {}).values():
            if isinstance(part, HTTPConnectionPool):
                # Twisted would send a request a second time, at once and in the same turn, when a connection drops that
                # has served another request. Scrapy's retries take a turn.
                part.retryAutomatically = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Called by Scrapy to make the handler."""
        return cls(crawler)

    async def download_request(self, request: Request) -> Response:
        """Wait for the turn, and send.

        Raises:
            RefusedRequest: the gate refused the turn, or a proxy answered in the site's place.
            OptionError: the request has a User-Agent that does not name the crawler.
        """
        max_bytes = request.meta.get(MAX_BYTES)
        if max_bytes is not None:
            # The gate sends this request for robots.txt in a turn of its own.
            async with asyncio.timeout(request.meta["download_timeout"]):
                return decoded(await self._send(request), max_bytes=max_bytes)
        self._identify(request)
        try:
            with proxy_of(request):
                turn = self._addon.gate.turn(
                    _url_of_turn(request), priority=request.priority, max_wait=self._addon.max_wait
                )
                async with cast("PageTurn", turn) as begun:
                    return await self._send_and_report(begun, request)
        except RobotGateError as error:
            raise self._addon.refusal(request, error, of_turn=True) from error

    async def close(self) -> None:
        """Close the wrapped handler."""
        await ensure_awaitable(getattr(self._handler, "close", lambda: None)())

    async def _send_and_report(self, turn: PageTurn, request: Request) -> Response:
        self._addon.count_turn(turn)
        # Not the turn's URL, which is that of robots.txt where the rules are not obeyed.
        for name, value in self._addon.gate._sign(request.method, request.url).items():
            request.headers[name] = value
        try:
            response = await self._send(request)
        except StopDownload as stop:
            if stop.response is not None:
                _report(turn, stop.response, request)
            raise
        except Exception as error:
            if not turn.note_outage(scrapy_outage_of(error, request)):
                raise
            await turn.wait_again()
            return await self._send_and_report(turn, request)
        _report(turn, response, request)
        return response

    async def _send(self, request: Request) -> Response:
        if inspect.iscoroutinefunction(self._handler.download_request):
            response: Response = await self._handler.download_request(request)
            return response
        # A handler written for Scrapy before 2.14.
        return await ensure_awaitable(self._handler.download_request(request, self._crawler.spider))

    def _identify(self, request: Request) -> None:
        gate = self._addon.gate
        headers = {
            name: value.decode("latin-1")
            for name in gate._headers
            if (value := request.headers.get(name)) is not None
        }
        gate._identify(headers)
        request.headers.update(headers)


class HttpHandler(PacedHandler):
    """For http."""

    scheme = "http"


class HttpsHandler(PacedHandler):
    """For https."""

    scheme = "https"


def _url_of_turn(request: Request) -> str:
    if not request.meta.get("dont_obey_robotstxt"):
        return judged_url(request)
    # A turn of the host without a verdict: the rules never forbid robots.txt itself.
    return Origin.of(request.url).robots_url


def _report(turn: PageTurn, response: Response, request: Request) -> None:
    """Report an answer of the site's.

    Raises:
        ProxyUnavailableError: it is a proxy's.
    """
    fault = fault_of_answer(response.status, headers_of(response), request.meta.get("proxy"))
    if fault is not None:
        raise ProxyUnavailableError(turn.paced.origin.host, fault)
    turn.report(status=response.status, headers=headers_of(response), bytes=len(response.body))
