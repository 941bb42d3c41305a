"""Scrapy with a download delay, over the hosts that `benchmarks.pace` asks of every client."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess
from scrapy.resolver import CachingThreadedResolver
from twisted.internet.defer import Deferred, succeed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from scrapy.http import Response


class LoopbackResolver(CachingThreadedResolver):
    """Every name is this machine."""

    def getHostByName(self, name: str, timeout: Sequence[int] = ()) -> Deferred[str]:  # noqa: N802  # Twisted's name.
        """The loopback address."""
        return succeed("127.0.0.1")


class PaceSpider(Spider):
    """Asks for each URL once."""

    name = "pace"

    def __init__(self, urls: Sequence[str]) -> None:
        super().__init__()
        self._urls = urls

    async def start(self) -> AsyncIterator[Request]:
        """All at once, as every other client is given them."""
        for url in self._urls:
            yield Request(url)

    def parse(self, response: Response) -> None:
        """Nothing is looked for."""


def crawl(urls: Sequence[str], *, delay: float, randomize: bool) -> float:
    """CPU seconds that Scrapy takes; once in a process, as its reactor starts only once."""
    process = CrawlerProcess(
        {
            "CONCURRENT_REQUESTS": len(urls),
            "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
            "DNS_RESOLVER": LoopbackResolver,
            "DOWNLOAD_DELAY": delay,
            "LOG_ENABLED": False,
            "RANDOMIZE_DOWNLOAD_DELAY": randomize,
            "ROBOTSTXT_OBEY": False,
            "TELNETCONSOLE_ENABLED": False,
        }
    )
    process.crawl(PaceSpider, urls=urls)
    began = time.process_time()
    process.start()
    return time.process_time() - began
