"""Small crawlers of other libraries: ``python benchmarks/field/peers.py NAME``, as `robotgate judge` starts them.

Each is written as its documentation shows, once with its defaults, and once with what the documentation has for polite
crawls.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
import urllib.request
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from urllib.robotparser import RobotFileParser

AGENT: Final = "ExampleBot/1.0 (+https://example.org/bot)"
URLS: Final = Path(os.environ["ROBOTGATE_JUDGE_URLS"]).read_text(encoding="utf-8").split()


def scrapy_with(**settings: object) -> None:
    """A spider of Scrapy."""
    import scrapy  # noqa: PLC0415
    from scrapy.crawler import CrawlerProcess  # noqa: PLC0415

    class Spider(scrapy.Spider):
        name = "field"
        start_urls = URLS

        def parse(self, response: scrapy.http.Response) -> None:
            del response

    process = CrawlerProcess({"USER_AGENT": AGENT, "LOG_LEVEL": "ERROR", **settings})
    process.crawl(Spider)
    process.start()


def scrapy_polite() -> None:
    """With the settings of its project template, AutoThrottle, and certificates that are checked."""
    scrapy_with(
        ROBOTSTXT_OBEY=True,
        CONCURRENT_REQUESTS_PER_DOMAIN=1,
        DOWNLOAD_DELAY=1,
        AUTOTHROTTLE_ENABLED=True,
        DOWNLOADER_CLIENTCONTEXTFACTORY="scrapy.core.downloader.contextfactory.BrowserLikeContextFactory",
    )


def crawlee_with(*, is_polite: bool) -> None:
    """A crawler of Crawlee, on httpx. It asks for robots.txt without its proxies, so it is led there without one."""
    from crawlee import Request  # noqa: PLC0415
    from crawlee.crawlers import HttpCrawler, HttpCrawlingContext  # noqa: PLC0415
    from crawlee.http_clients import HttpxHttpClient  # noqa: PLC0415
    from crawlee.storage_clients import MemoryStorageClient  # noqa: PLC0415

    async def visit(context: HttpCrawlingContext) -> None:
        del context

    crawler = HttpCrawler(
        http_client=HttpxHttpClient(),
        request_handler=visit,
        storage_client=MemoryStorageClient(),
        configure_logging=False,
        respect_robots_txt_file=is_polite,
        retry_on_blocked=not is_polite,
    )
    asyncio.run(crawler.run([Request.from_url(url, headers={"User-Agent": AGENT}) for url in URLS]))


def by_hand() -> None:
    """The standard library: `urllib.robotparser`, with its delays."""
    opener = urllib.request.build_opener()
    opener.addheaders = [("User-Agent", AGENT)]
    urllib.request.install_opener(opener)
    files: dict[str, RobotFileParser] = {}
    due: dict[str, float] = {}
    for url in URLS:
        root = "{0.scheme}://{0.netloc}".format(urlsplit(url))
        with suppress(OSError, ValueError, HTTPException):
            if root not in files:
                files[root] = RobotFileParser(f"{root}/robots.txt")
                files[root].read()
            if files[root].can_fetch("ExampleBot", url):
                time.sleep(max(0.0, due.get(root, 0.0) - time.monotonic()))
                delay = float(files[root].crawl_delay("ExampleBot") or 0)
                urllib.request.urlopen(url, timeout=10).read()  # noqa: S310 - a list of http URLs
                due[root] = time.monotonic() + delay


PEERS: Final = {
    "scrapy": scrapy_with,
    "scrapy-polite": scrapy_polite,
    "crawlee": lambda: crawlee_with(is_polite=False),
    "crawlee-polite": lambda: crawlee_with(is_polite=True),
    "urllib": by_hand,
}


if __name__ == "__main__":
    PEERS[sys.argv[1]]()
