"""Asks for robots.txt as the crawl asks for pages: by the same proxy, names, TLS and download handler.

A session of the gate's own would know nothing of ``meta["proxy"]``, which a middleware of the project may set on every
request, nor of Scrapy's resolver; and it would hold certificates against a site that Scrapy does not check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from multidict import CIMultiDict
from scrapy import Request, signals
from scrapy.exceptions import StopDownload
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.defer import maybe_deferred_to_future

from robotgate._access import Failure
from robotgate._clock import SystemClock
from robotgate._decode import BoundedBody
from robotgate._fetch import ASKED_FOR, answer_of, cause_of
from robotgate.integrations._scrapy_outage import scrapy_outage_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from robotgate._access import Answer

MAX_BYTES: Final = "robotgate_robots_max_bytes"
"""In a request's meta: it is the gate's own, for a robots.txt of which so many octets are wanted."""
_READ: Final = "robotgate_robots_read"


class ScrapyFetcher:
    """The `Fetcher` of a gate inside a crawl."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._clock = SystemClock()
        crawler.signals.connect(self._stop_when_full, signals.bytes_received)

    async def fetch(
        self, url: str, *, headers: Mapping[str, str], max_bytes: int, timeout: float
    ) -> Answer | Failure:
        """The answer, or why there is none."""
        request = _request(url, headers, max_bytes=max_bytes, timeout=timeout)
        try:
            response = await self._download(request)
            return answer_of(response.status, _headers(response), response.body, now=self._clock.now())
        except Exception as error:  # noqa: BLE001  # Handlers and middlewares raise what they like; the site is closed.
            outage = None if request.meta[_READ] else scrapy_outage_of(error, request)
            return Failure(outage or cause_of(error, timeout), is_outage=outage is not None)

    async def _download(self, request: Request) -> Response:
        engine = self._crawler.engine
        if hasattr(engine, "download_async"):
            return await engine.download_async(request)
        # Scrapy 2.13
        return await maybe_deferred_to_future(engine.download(request))

    def _stop_when_full(self, data: bytes, request: Request) -> None:
        """Break off a robots.txt that has no end. What has arrived counts."""
        max_bytes = request.meta.get(MAX_BYTES)
        if max_bytes is None:
            return
        request.meta[_READ] += len(data)
        if request.meta[_READ] > max_bytes:
            raise StopDownload(fail=False)


def decoded(response: Response, *, max_bytes: int) -> Response:
    """A response of a robots.txt without its content coding, and no longer than wanted, whatever it unfolds to.

    The body of an answer without rules may be anything, and is left out.

    Raises:
        ValueError: the body is not what its Content-Encoding says.
    """
    coding = header(response, "Content-Encoding")
    headers = response.headers.copy()
    headers.pop("Content-Encoding", None)
    if not 200 <= response.status <= 299:
        return response.replace(body=b"", headers=headers)
    body = BoundedBody(coding, max_bytes=max_bytes)
    body.feed(response.body)
    return response.replace(body=body.end(), headers=headers)


def header(response: Response, name: str) -> str | None:
    """A header's value, whatever octets it is made of."""
    value = response.headers.get(name)
    return None if value is None else value.decode("utf-8", "surrogateescape")


def _headers(response: Response) -> CIMultiDict[str]:
    names = (name.decode("latin-1") for name in response.headers)
    return CIMultiDict((name, value) for name in names if (value := header(response, name)) is not None)


def _request(url: str, headers: Mapping[str, str], *, max_bytes: int, timeout: float) -> Request:
    return Request(
        url,
        headers=ASKED_FOR | dict(headers),
        callback=NO_CALLBACK,
        dont_filter=True,
        meta={
            MAX_BYTES: max_bytes,
            _READ: 0,
            # A slot of its own: in the host's, it would stand behind pages that wait for it.
            "download_slot": f"robots.txt of {url}",
            "download_timeout": timeout,
            "download_fail_on_dataloss": True,
            "dont_redirect": True,
            "dont_retry": True,
            "dont_cache": True,
            "dont_merge_cookies": True,
            "dont_obey_robotstxt": True,
            "allow_offsite": True,
            "autothrottle_dont_adjust_delay": True,
        },
    )
