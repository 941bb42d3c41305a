"""The gate in Crawlee's HTTP crawlers: an HTTP client that sends every request through `RobotGate.fetch`.

Each hop of a redirect and each attempt is judged and takes its host's turn. Crawlee's own requests for robots.txt are
answered from what the gate knows, so that each site's file is requested once, by the gate.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import aiohttp
from yarl import URL

from robotgate.client.attempt import RequestOptions
from robotgate.errors import DisallowedError, ProxyUnavailableError, needs_extra
from robotgate.rules.robotstxt import RobotsTxt
from robotgate.rules.rules import ROBOTS_TXT
from robotgate.sites.site import HostAccess

with needs_extra("crawlee", __name__):
    from crawlee import HttpHeaders, Request, SkippedReason
    from crawlee.errors import ContextPipelineInterruptedError, ProxyError
    from crawlee.http_clients import HttpClient, HttpCrawlingResult, HttpResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
    from datetime import timedelta

    from crawlee.proxy_configuration import ProxyInfo
    from crawlee.sessions import Session
    from crawlee.statistics import Statistics

    from robotgate.client.fetch import PageFetch
    from robotgate.gate import RobotGate

    SkippedRequest = Callable[[str, SkippedReason], Awaitable[None]]

__all__ = ["GateHttpClient"]

_STREAM_CHUNK: Final = 64 * 1024
"""Bytes of a body that are passed on at once, at most."""


class GateHttpClient(HttpClient):
    """Judges and paces every request of a crawler: ``HttpCrawler(http_client=GateHttpClient(gate))``.

    A request that the site's rules refuse is skipped: it is not sent, not repeated and not counted as failed. Any other
    refusal, such as `HostUnavailableError`, is an error of the request, as a network failure is.

    Crawlee counts the wait for a turn against `navigation_timeout`: give the crawler one that is longer than the waits
    to be expected. Cookies are those of the gate's session, not of Crawlee's sessions. The User-Agent is the gate's.

    Args:
        gate: an open gate. You close it yourself.
        on_skipped_request: called with the URL and ``"robots_txt"`` for each request that the rules refuse, as
            Crawlee's own callback of this name. Each URL is judged when it is to be fetched. With Crawlee's
            ``respect_robots_txt_file=True``, URLs are judged one after another before they are enqueued, and only
            redirects are refused here; the gate answers for robots.txt then, too. It requests these by its own
            session, as Crawlee names no proxy for them: leave that option out where requests go through proxies.
    """

    def __init__(self, gate: RobotGate, *, on_skipped_request: SkippedRequest | None = None) -> None:
        super().__init__(persist_cookies_per_session=False)
        self._gate = gate
        self._on_skipped_request = on_skipped_request

    async def crawl(
        self,
        request: Request,
        *,
        session: Session | None = None,
        proxy_info: ProxyInfo | None = None,
        statistics: Statistics | None = None,
        timeout: timedelta | None = None,
    ) -> HttpCrawlingResult:
        """Fetch the page of a request; Crawlee calls this, and keeps the timeout itself.

        Raises:
            ContextPipelineInterruptedError: the rules refuse the request; Crawlee marks it as handled.
            RobotGateError: another refusal.
            ProxyError: the proxy failed, or asks for credentials.
            aiohttp.ClientError, TimeoutError: as `RobotGate.fetch`.
        """
        fetch = self._fetch(request.url, request.method, request.headers, request.payload, proxy_info, None)
        try:
            response = await _read(fetch)
        except DisallowedError as refusal:
            if self._on_skipped_request is not None:
                await self._on_skipped_request(request.url, "robots_txt")
            raise ContextPipelineInterruptedError(str(refusal)) from refusal
        if statistics is not None:
            statistics.register_status_code(response.status_code)
        request.loaded_url = response.url
        return HttpCrawlingResult(http_response=response)

    async def send_request(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: HttpHeaders | dict[str, str] | None = None,
        payload: bytes | None = None,
        session: Session | None = None,
        proxy_info: ProxyInfo | None = None,
        timeout: timedelta | None = None,
    ) -> HttpResponse:
        """Send a request of a handler, or one of Crawlee's own for a robots.txt, which the gate answers.

        Raises:
            RobotGateError: a refusal, `DisallowedError` included.
            ProxyError, aiohttp.ClientError, TimeoutError: as `crawl`.
        """
        if method == "GET" and URL(url).path == ROBOTS_TXT:
            kind = HttpHeaders({"Content-Type": "text/plain"})
            return _Response(url, 200, kind, await self._rules_for_everybody(url))
        return await _read(self._fetch(url, method, headers, payload, proxy_info, timeout))

    @asynccontextmanager
    async def stream(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: HttpHeaders | dict[str, str] | None = None,
        payload: bytes | None = None,
        session: Session | None = None,
        proxy_info: ProxyInfo | None = None,
        timeout: timedelta | None = None,
    ) -> AsyncIterator[HttpResponse]:
        """Send a request and read its body in parts; the host's turn ends with the block.

        Raises:
            as `send_request`.
        """
        with _errors_of_proxies():
            async with self._fetch(url, method, headers, payload, proxy_info, timeout) as response:
                received = HttpHeaders(dict(response.headers))
                yield _Response(str(response.url), response.status, received, response.content)

    async def cleanup(self) -> None:
        """Do nothing: the gate is yours to close."""

    def _fetch(  # noqa: PLR0917  # As Crawlee's own, which pass all of them on.
        self,
        url: str,
        method: str,
        headers: Mapping[str, str] | None,
        payload: bytes | None,
        proxy_info: ProxyInfo | None,
        timeout: timedelta | None,
    ) -> PageFetch:
        options = RequestOptions(headers=dict(headers or {}), data=payload)
        if proxy_info is not None:
            options["proxy"] = proxy_info.url
        if timeout is not None:
            options["timeout"] = aiohttp.ClientTimeout(total=timeout.total_seconds())
        return self._gate.fetch(url, method, **options)

    async def _rules_for_everybody(self, url: str) -> bytes:
        """What the gate knows of a site, as a robots.txt that has the same rules for every agent.

        Crawlee obeys the rules for ``*``, and those that bind the gate may be others. It has no Crawl-delay, because
        the gate paces.
        """
        file = RobotsTxt.parse((await self._gate.robots(url)).body)
        lines = [f"Sitemap: {sitemap}" for sitemap in file.sitemaps]
        lines.append("User-agent: *")
        access = self._gate.host(url).access
        if access in (HostAccess.EXCLUDED, HostAccess.UNREACHABLE):
            lines.append("Disallow: /")
        elif access is HostAccess.CONTROLLED:
            token = self._gate.token.lower()
            ours = [group for group in file.groups if group.names(token)]
            for group in ours or [group for group in file.groups if group.names("*")]:
                lines += map(str, group.rules)
        return "\n".join(lines).encode()


@dataclass(frozen=True, slots=True)
class _Response:
    """A response, as Crawlee's protocol `HttpResponse` has it."""

    url: str
    status_code: int
    headers: HttpHeaders
    body: bytes | aiohttp.StreamReader
    """A stream has yet to be read in parts."""
    http_version: str = "HTTP/1.1"

    async def read(self) -> bytes:
        if not isinstance(self.body, bytes):
            raise RuntimeError("read the body of a response that is streamed by read_stream")  # noqa: TRY004  # As Crawlee.
        return self.body

    async def read_stream(self) -> AsyncIterator[bytes]:
        if isinstance(self.body, bytes):
            yield self.body
        else:
            async for chunk in self.body.iter_chunked(_STREAM_CHUNK):
                yield chunk


async def _read(fetch: PageFetch) -> _Response:
    with _errors_of_proxies():
        response = await fetch
    return _Response(response.url, response.status, HttpHeaders(dict(response.headers)), response.body)


@contextmanager
def _errors_of_proxies() -> Iterator[None]:
    """Raise errors of a proxy as Crawlee's own error, which makes Crawlee use another proxy."""
    try:
        yield
    except ProxyUnavailableError as error:
        raise ProxyError(str(error)) from error
