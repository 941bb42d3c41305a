"""Scrapy, over the hosts that every client is asked for."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess
from scrapy.resolver import CachingThreadedResolver
from twisted.internet.defer import Deferred, succeed

from benchmarks._bench import cost_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

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


class EndlessSpider(Spider):
    """Asks hosts for one page after another, at several places of each."""

    name = "endless"

    def __init__(self, hosts: Sequence[str], places: int) -> None:
        super().__init__()
        self._hosts = hosts
        self._places = places
        self._pages = count()

    async def start(self) -> AsyncIterator[Request]:
        """The first page of each place."""
        for host in self._places * [*self._hosts]:
            yield self._request(host)

    def parse(self, response: Response, host: str) -> Iterator[Request]:
        """The next page, whatever was answered, once Scrapy has tried again as often as it does."""
        yield self._request(host)

    def _request(self, host: str) -> Request:
        page = next(self._pages)
        return Request(f"{host}/page/{page}", cb_kwargs={"host": host}, meta={"handle_httpstatus_all": True})


QUIET: Final[Mapping[str, object]] = {
    "LOG_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
}


def crawl(urls: Sequence[str], settings: Mapping[str, object]) -> Cost:
    """What Scrapy takes for them; once in a process, as its reactor starts only once."""
    process = CrawlerProcess({**QUIET, "DNS_RESOLVER": LoopbackResolver, **settings})
    process.crawl(ListSpider, urls=urls)
    return cost_of(process.start)


def crawl_hosts(hosts: Sequence[str], places: int, settings: Mapping[str, object]) -> None:
    """Crawl hosts until the process is ended."""
    process = CrawlerProcess({**QUIET, **settings})
    process.crawl(EndlessSpider, hosts=hosts, places=places)
    process.start()
