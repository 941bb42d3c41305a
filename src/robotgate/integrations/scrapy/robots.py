"""robots.txt in Scrapy: the fetcher of a crawl's gate, and the rules alone for Scrapy's own middleware.

The fetcher sends its requests through Scrapy, so robots.txt takes the same proxy, resolver, TLS settings and download
handler as the pages. A session of the gate's own would not know them.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Self

from multidict import CIMultiDict
from scrapy import Request, signals
from scrapy.exceptions import StopDownload
from scrapy.http.request import NO_CALLBACK
from scrapy.robotstxt import RobotParser as ScrapyRobotParser
from scrapy.utils.python import to_unicode

from robotgate.client.proxy import failed, fault_of_error
from robotgate.client.robots import (
    ASKED_FOR,
    HUNG_UP,
    NO_ANSWER,
    BoundedBody,
    answer_of,
    cause_of,
    failure_of,
    outage_of,
)
from robotgate.errors import InvalidURLError
from robotgate.rules.robotstxt import RobotsTxt

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from robotgate.sites.record import Answer, Failure

MAX_BYTES: Final = "robotgate_robots_max_bytes"
"""A key of a request's meta. It marks a request for robots.txt, and holds how many bytes of the body are wanted."""
_READ: Final = "robotgate_robots_read"
_AS_IT_IS: Final = (
    *("dont_redirect", "dont_retry", "dont_cache", "dont_merge_cookies", "dont_obey_robotstxt"),
    *("allow_offsite", "download_fail_on_dataloss", "autothrottle_dont_adjust_delay"),
)
"""Keys of a request's meta that keep Scrapy's middlewares and extensions from changing a request for robots.txt."""
OUTAGES: Final[Mapping[str, set[str]]] = {
    "its name cannot be resolved": {"CannotResolveHostError", "DNSLookupError"},
    "it refuses connections": {"ConnectionRefusedError", "DownloadConnectionRefusedError"},
    NO_ANSWER: {"DownloadTimeoutError", "TimeoutError"},
    HUNG_UP: {"ConnectionDone", "ConnectionLost", "ResponseNeverReceived"},
    "it takes no connection (no route)": {"NoRouteError"},
    "it takes no connection in time": {"TCPTimedOutError"},
}
"""The names of the errors that say so. Scrapy has errors of its own since 2.15, and raised those of Twisted before."""

_proxy: ContextVar[tuple[str | None, bytes | None] | None] = ContextVar(
    "robotgate_scrapy_proxy", default=None
)
"""``meta["proxy"]`` and the Proxy-Authorization of the request whose rules are being asked for."""


@contextmanager
def proxy_of(request: Request) -> Iterator[None]:
    """Within this block, robots.txt is fetched through the proxy that the request itself names, if it names one."""
    chosen = None
    if "proxy" in request.meta:
        chosen = request.meta["proxy"], request.headers.get("Proxy-Authorization")
    token = _proxy.set(chosen)
    try:
        yield
    finally:
        _proxy.reset(token)


class ScrapyFetcher:
    """Fetches robots.txt with the downloader of a crawl. It is a `Fetcher`."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        crawler.signals.connect(self._stop_when_full, signals.bytes_received)

    async def fetch(
        self, url: str, *, headers: Mapping[str, str], max_bytes: int, timeout: float
    ) -> Answer | Failure:
        """The answer, or the reason why there is none.

        Scrapy keeps connections. One that the other side closes as the request leaves says nothing of the site, so the
        request is sent once more (RFC 9112 section 9.3.1).
        """
        may_repeat = True
        while True:
            request = _robots_request(url, headers, max_bytes=max_bytes, timeout=timeout)
            try:
                response = await self._crawler.engine.download_async(request)
                proxy = request.meta.get("proxy")
                return answer_of(response.status, headers_of(response), response.body, proxy=proxy)
            except Exception as error:  # noqa: BLE001  # Handlers and middlewares may raise anything: the site is closed.
                fault = outage = None
                if not request.meta[_READ]:
                    if may_repeat and OUTAGES[HUNG_UP] & _names(error):
                        may_repeat = False
                        continue
                    fault, outage = scrapy_fault_of(error, request), scrapy_outage_of(error, request)
                return failure_of(outage or cause_of(error, timeout), outage, fault=fault)

    def _stop_when_full(self, data: bytes, request: Request) -> None:
        """Stop a download that is longer than wanted. What has arrived is used."""
        max_bytes = request.meta.get(MAX_BYTES)
        if max_bytes is None:
            return
        request.meta[_READ] += len(data)
        if request.meta[_READ] > max_bytes:
            raise StopDownload(fail=False)


def _robots_request(url: str, headers: Mapping[str, str], *, max_bytes: int, timeout: float) -> Request:
    request = Request(
        url,
        headers=ASKED_FOR | dict(headers),
        callback=NO_CALLBACK,
        dont_filter=True,
        meta={
            **dict.fromkeys(_AS_IT_IS, True),
            MAX_BYTES: max_bytes,
            _READ: 0,
            # A slot of its own: in the slot of the host it would queue behind the pages that wait for it.
            "download_slot": f"robots.txt of {url}",
            "download_timeout": timeout,
        },
    )
    if (chosen := _proxy.get()) is not None:
        request.meta["proxy"], authorization = chosen
        if authorization is not None:
            request.headers["Proxy-Authorization"] = authorization
    return request


def decoded(response: Response, *, max_bytes: int) -> Response:
    """The response to a request for robots.txt, decoded and cut to the wanted length, whatever it decompresses to.

    An answer without rules keeps no body.

    Raises:
        ValueError: the body is not what its Content-Encoding says.
    """
    body = b""
    if 200 <= response.status <= 299:
        codings = headers_of(response).getall("Content-Encoding", ())
        bounded = BoundedBody(", ".join(codings), max_bytes=max_bytes)
        bounded.feed(response.body)
        body = bounded.end()
    headers = response.headers.copy()
    headers.pop("Content-Encoding", None)
    return response.replace(body=body, headers=headers)


def headers_of(message: Request | Response) -> CIMultiDict[str]:
    """The headers of a request or a response, with all lines of each. A value may be any bytes."""
    return CIMultiDict(
        (name.decode("latin-1"), value.decode("utf-8", "surrogateescape"))
        for name, values in message.headers.items()
        for value in values
    )


def scrapy_fault_of(error: BaseException, request: Request) -> str | None:
    """How the proxy of a request failed, in words, or None if the error does not say that."""
    proxy = request.meta.get("proxy")
    if not proxy:
        return None
    # Not of what it came from: a connection that was lost behind the proxy may be the site's.
    names = {kind.__name__ for kind in type(error).__mro__}
    if "TunnelError" in names or any(kinds & names for cause, kinds in OUTAGES.items() if cause != NO_ANSWER):
        return failed(proxy, error)
    return fault_of_error(error, host=None, proxy=proxy)


def scrapy_outage_of(error: BaseException, request: Request) -> str | None:
    """As `outage_of`, of an error of Scrapy's or Twisted's."""
    if request.meta.get("proxy"):
        # It may be the proxy that cannot be reached.
        return None
    names = _names(error)
    return next((cause for cause, kinds in OUTAGES.items() if kinds & names), None) or outage_of(error)


def _names(error: BaseException | None) -> set[str]:
    """The names of what an error is, and of what it came from: Scrapy has one error for all lost connections."""
    names: set[str] = set()
    while error is not None:
        names.update(kind.__name__ for kind in type(error).__mro__)
        error = error.__cause__
    return names


class RobotParser(ScrapyRobotParser):
    """The rules alone, for Scrapy's own middleware.

    ``ROBOTSTXT_PARSER = "robotgate.integrations.scrapy.RobotParser"`` makes Scrapy use it. Scrapy then
    decides about the pace, and about what a failed request for robots.txt means.
    """

    def __init__(self, robotstxt_body: bytes) -> None:
        self._robots = RobotsTxt.parse(robotstxt_body)

    @classmethod
    def from_crawler(cls, crawler: Crawler, robotstxt_body: bytes) -> Self:  # noqa: ARG003  # Scrapy's signature.
        """Called by Scrapy to make a parser."""
        return cls(robotstxt_body)

    def allowed(self, url: str | bytes, user_agent: str | bytes) -> bool:
        """Whether an agent may fetch an absolute URL. The agent is a name, or a User-Agent that begins with it.

        Scrapy asks every service for its robots.txt, also those of ``ftp`` and ``s3``, so the rules apply to any scheme
        (RFC 9309 §2.3). Text that is not a URL with a host is not allowed.
        """
        _, colon, rest = to_unicode(url).partition("://")
        try:
            return self._robots.allowed(f"http{colon}{rest}", to_unicode(user_agent))
        except InvalidURLError:
            return False

    def crawl_delay(self, user_agent: str | bytes) -> float | None:
        """The Crawl-delay for an agent, in seconds. Scrapy 2.18 and later ask for it."""
        return self._robots.crawl_delay(to_unicode(user_agent))
