"""Scrapy, over the hosts that every client is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess
from scrapy.resolver import CachingThreadedResolver
from twisted.internet.defer import Deferred, succeed

from benchmarks._bench import cost_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from scrapy.http import Response

    from benchmarks._bench import Cost


class LoopbackResolver(CachingThreadedResolver):
    """Every name is this machine."""

    def getHostByName(self, name: str, timeout: Sequence[int] = ()) -> Deferred[str]:  # noqa: N802  # Twisted's name.
        """The loopback address."""
        return succeed("127.0.0.1")


class ListSpider(Spider):
    """Asks for each URL once."""

    name = "list"

    def __init__(self, urls: Sequence[str]) -> None:
        super().__init__()
        self._urls = urls

    async def start(self) -> AsyncIterator[Request]:
        """All at once, as every other client is given them."""
        for url in self._urls:
            yield Request(url)

    def parse(self, response: Response) -> None:
        """Nothing is looked for."""


QUIET: Final[Mapping[str, object]] = {
    "DNS_RESOLVER": LoopbackResolver,
    "LOG_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
}


def crawl(urls: Sequence[str], settings: Mapping[str, object]) -> Cost:
    """What Scrapy takes for them; once in a process, as its reactor starts only once."""
    process = CrawlerProcess({**QUIET, **settings})
    process.crawl(ListSpider, urls=urls)
    return cost_of(process.start)
