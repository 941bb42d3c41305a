"""Small crawlers of other libraries: ``python benchmarks/field/peers.py NAME``, as `robotgate judge` starts them.

Each is written as its documentation shows, once with its defaults, and once with what the documentation has for polite
crawls.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
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
    """A crawler of Crawlee, on httpx."""
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


def crawl4ai_with(*, is_polite: bool) -> None:
    """Crawl4AI with a Chromium that it connects to; so any one will do, with its proxy and its certificates."""
    # They are given below; the connection to the browser is to have no proxy.
    for name in ("http_proxy", "https_proxy"):
        os.environ.pop(name)
        os.environ.pop(name.upper())
    proxy, ca = os.environ["ROBOTGATE_JUDGE_PROXY"], os.environ["ROBOTGATE_JUDGE_CA"]
    with TemporaryDirectory() as folder:
        # It keeps robots.txt from one crawl to the next.
        os.environ |= {"HOME": folder, "CRAWL4_AI_BASE_DIRECTORY": folder, "CRAWL4AI_NO_CLOUD_NOTICE": "1"}
        store = Path(folder, ".pki", "nssdb")
        store.mkdir(parents=True)
        for words in (("-N", "--empty-password"), ("-A", "-t", "C,,", "-n", "judge", "-i", ca)):
            subprocess.run(("certutil", "-d", f"sql:{store}", *words), check=True)  # noqa: S603, S607 - Debian's
        options = ("--no-sandbox", "--remote-debugging-port=0", f"--user-data-dir={folder}/profile")
        led = (f"--proxy-server={proxy}", "--proxy-bypass-list=<-loopback>", f"--user-agent={AGENT}")
        with subprocess.Popen(("chromium-headless-shell", *options, *led)) as chromium:  # noqa: S603, S607 - Debian's
            try:
                told = Path(folder, "profile", "DevToolsActivePort")
                while not (told.exists() and "\n" in told.read_text(encoding="utf-8")):
                    time.sleep(0.1)
                port, _ = told.read_text(encoding="utf-8").split("\n")
                asyncio.run(crawl4ai_at(port, proxy, is_polite=is_polite))
            finally:
                chromium.terminate()


async def crawl4ai_at(port: str, proxy: str, *, is_polite: bool) -> None:
    """Crawl with a Chromium that listens at a port."""
    from crawl4ai import AsyncWebCrawler, BrowserConfig, CrawlerRunConfig  # noqa: PLC0415
    from crawl4ai.egress_policy import set_egress_proxy  # noqa: PLC0415

    # For robots.txt, which it does not request by its browser.
    set_egress_proxy(proxy)
    browser = BrowserConfig(
        cdp_url=f"http://127.0.0.1:{port}",
        create_isolated_context=True,
        user_agent=AGENT,
        ignore_https_errors=not is_polite,
        verbose=False,
    )
    politeness = {"check_robots_txt": True, "mean_delay": 1.0} if is_polite else {}
    async with AsyncWebCrawler(config=browser) as crawler:
        await crawler.arun_many(URLS, config=CrawlerRunConfig(verbose=False, **politeness))


PEERS: Final = {
    "scrapy": scrapy_with,
    "scrapy-polite": scrapy_polite,
    "crawlee": lambda: crawlee_with(is_polite=False),
    "crawlee-polite": lambda: crawlee_with(is_polite=True),
    "crawl4ai": lambda: crawl4ai_with(is_polite=False),
    "crawl4ai-polite": lambda: crawl4ai_with(is_polite=True),
    "urllib": by_hand,
}


if __name__ == "__main__":
    PEERS[sys.argv[1]]()
