"""One crawl of the real Scrapy, in a process of its own, because its reactor starts only once.

It reads JSON from standard input: ``settings``, ``requests`` as keyword arguments of `scrapy.Request`, and ``key``, the
file of a key to sign with, or null. It writes
JSON to standard output: ``seen``, ``refused``, ``failed`` and ``stats``. Scrapy's log goes to standard error. Every
name but one resolves to this machine.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import TYPE_CHECKING, Final

from scrapy import Request, Spider
from scrapy.crawler import Crawler, CrawlerProcess
from scrapy.http import HtmlResponse, TextResponse
from scrapy.resolver import CachingThreadedResolver
from scrapy.settings import default_settings
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import DNSLookupError

from robotgate import Budget
from robotgate.integrations.scrapy import RefusedRequest
from robotgate.signing import Ed25519Signer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from scrapy.http import Response
    from twisted.python.failure import Failure

NOWHERE: Final = "nowhere.test"
"""A name without an address, as are those below it."""


class LoopbackResolver(CachingThreadedResolver):
    """Resolves every name but one to this machine."""

    def getHostByName(self, name: str, timeout: Sequence[int] = ()) -> Deferred[str]:  # noqa: N802  # Twisted's name.
        """The loopback address."""
        return fail(DNSLookupError(name)) if name.endswith(NOWHERE) else succeed("127.0.0.1")


class OldHandler:
    """A download handler as they were before Scrapy 2.14: without coroutines, and with the spider."""

    lazy = False

    def download_request(self, request: Request, spider: Spider) -> Deferred[Response]:
        """Answer with a page, or with a robots.txt."""
        return succeed(TextResponse(request.url, body=f"Disallow: /{spider.name}".encode()))


class ByProxy:
    """A project's own middleware, which sends every request through a proxy."""

    def __init__(self, proxy: str) -> None:
        self._proxy = proxy

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> ByProxy:
        """The proxy is the setting PROXY."""
        return cls(crawler.settings["PROXY"])

    def process_request(self, request: Request, spider: Spider | None = None) -> None:
        """Set the proxy of a page or of a robots.txt."""
        request.meta["proxy"] = self._proxy


class OneByOne(Spider):
    """Requests each URL once, follows links, and notes the results."""

    name = "one-by-one"

    async def start(self) -> AsyncIterator[Request]:
        """Start all requests at once."""
        for request in SPEC["requests"]:
            yield Request(**request, errback=partial(self.note, request["url"]), dont_filter=True)

    def parse(self, response: Response) -> Iterator[Request]:
        """Note a page, and follow its links."""
        SEEN.append([response.status, response.url])
        if isinstance(response, HtmlResponse):
            for link in response.css("a::attr(href)").getall():
                yield response.follow(link)

    def note(self, url: str, failure: Failure) -> None:
        """Note a failure."""
        error = failure.value
        if isinstance(error, RefusedRequest):
            REFUSED.append([url, type(error.error).__name__, str(error)])
        else:
            FAILED.append([url, type(error).__name__, str(error)])


def crawl(settings: Mapping[str, object]) -> Crawler:
    """Crawl to the end.

    Raises:
        Exception: the crawl could not start.
    """
    # Scrapy 2.19 warns of the old name.
    resolver = "TWISTED_DNS_RESOLVER" if hasattr(default_settings, "TWISTED_DNS_RESOLVER") else "DNS_RESOLVER"
    process = CrawlerProcess({"TELNETCONSOLE_ENABLED": False, resolver: LoopbackResolver, **settings})
    crawler = process.create_crawler(OneByOne)
    failures: list[Failure] = []
    process.crawl(crawler).addErrback(failures.append)
    process.start()
    for failure in failures:
        failure.raiseException()
    return crawler


if __name__ == "__main__":
    SPEC = json.load(sys.stdin)
    if SPEC.get("key"):
        signer = Ed25519Signer.from_pem(SPEC["key"], agent_url="https://bot.example")
        SPEC["settings"]["ROBOTGATE_OPTIONS"]["signer"] = signer
    options = SPEC["settings"].get("ROBOTGATE_OPTIONS", {})
    if "budget" in options:
        options["budget"] = Budget(**options["budget"])
    SEEN: list[object] = []
    REFUSED: list[object] = []
    FAILED: list[object] = []
    stats = crawl(SPEC["settings"]).stats.get_stats()
    json.dump({"seen": SEEN, "refused": REFUSED, "failed": FAILED, "stats": stats}, sys.stdout, default=str)
