"""A small crawler for each door of robotgate: ``python tests/judge/doors.py DOOR``, as `robotgate judge` starts it."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

import aiohttp

from robotgate import RobotGate, RobotGateError, gated_session

AGENT: Final = "ExampleBot/1.0"
CONTACT: Final = "bot@example.org"
DELAY: Final = 0.1
URLS: Final = Path(os.environ["ROBOTGATE_JUDGE_URLS"]).read_text(encoding="utf-8").split()
PROXY: Final = os.environ["ROBOTGATE_JUDGE_PROXY"] or None
IS_DIRECT: Final = PROXY is None


async def fetch() -> None:
    """`RobotGate.fetch`."""

    async def visit(url: str) -> None:
        with suppress(RobotGateError, aiohttp.ClientError):
            await gate.fetch(url)

    async with (
        aiohttp.ClientSession(proxy=PROXY) as http,
        RobotGate(
            AGENT, contact=CONTACT, delay=DELAY, session=http, allow_private_addresses=IS_DIRECT
        ) as gate,
        asyncio.TaskGroup() as tasks,
    ):
        for url in URLS:
            tasks.create_task(visit(url))


async def middleware() -> None:
    """A session of aiohttp with the gate's middleware."""

    async def visit(url: str) -> None:
        with suppress(RobotGateError, aiohttp.ClientError):
            async with session.get(url) as response:
                await response.read()

    async with (
        RobotGate(AGENT, contact=CONTACT, delay=DELAY) as gate,
        gated_session(gate, proxy=PROXY, timeout=aiohttp.ClientTimeout(total=None)) as session,
        asyncio.TaskGroup() as tasks,
    ):
        for url in URLS:
            tasks.create_task(visit(url))


async def httpx_transport() -> None:
    """A client of httpx on the gate's transport."""
    import httpx  # noqa: PLC0415

    from robotgate.integrations.httpx import HttpxFetcher, gated_client  # noqa: PLC0415

    async def visit(url: str) -> None:
        with suppress(RobotGateError, httpx.HTTPError):
            await client.get(url)

    transport = httpx.AsyncHTTPTransport(proxy=PROXY)
    async with (
        RobotGate(AGENT, contact=CONTACT, delay=DELAY, fetcher=HttpxFetcher(transport)) as gate,
        gated_client(gate, transport=transport, follow_redirects=True, timeout=None) as client,
        asyncio.TaskGroup() as tasks,
    ):
        for url in URLS:
            tasks.create_task(visit(url))


def scrapy_addon() -> None:
    """Scrapy with the add-on."""
    import scrapy  # noqa: PLC0415
    from scrapy.crawler import CrawlerProcess  # noqa: PLC0415

    class Spider(scrapy.Spider):
        name = "judged"
        start_urls = URLS

        def parse(self, response: scrapy.http.Response) -> None:
            del response

    process = CrawlerProcess(
        {
            "ADDONS": {"robotgate.integrations.scrapy.Addon": 300},
            "ROBOTGATE_AGENT": AGENT,
            "ROBOTGATE_CONTACT": CONTACT,
            "ROBOTGATE_OPTIONS": {"delay": DELAY},
            "DOWNLOADER_CLIENTCONTEXTFACTORY": "scrapy.core.downloader.contextfactory.BrowserLikeContextFactory",
            "RETRY_ENABLED": False,
            "LOG_LEVEL": "ERROR",
            "TELNETCONSOLE_ENABLED": False,
        }
    )
    process.crawl(Spider)
    process.start()


async def crawlee_client() -> None:
    """Crawlee with the gate's HTTP client."""
    from crawlee import ConcurrencySettings  # noqa: PLC0415
    from crawlee.crawlers import HttpCrawler, HttpCrawlingContext  # noqa: PLC0415
    from crawlee.proxy_configuration import ProxyConfiguration  # noqa: PLC0415
    from crawlee.storage_clients import MemoryStorageClient  # noqa: PLC0415

    from robotgate.integrations.crawlee import GateHttpClient  # noqa: PLC0415

    async def visit(context: HttpCrawlingContext) -> None:
        del context

    async with RobotGate(AGENT, contact=CONTACT, delay=DELAY) as gate:
        crawler = HttpCrawler(
            http_client=GateHttpClient(gate),
            request_handler=visit,
            retry_on_blocked=False,
            max_request_retries=0,
            navigation_timeout=timedelta(hours=1),  # type: ignore[call-arg]  # Not in its annotations.
            request_handler_timeout=timedelta(hours=1),
            concurrency_settings=ConcurrencySettings(
                min_concurrency=200, desired_concurrency=200, max_concurrency=200
            ),
            proxy_configuration=ProxyConfiguration(proxy_urls=[PROXY]),
            storage_client=MemoryStorageClient(),
            configure_logging=False,
        )
        await crawler.run(URLS)


async def browser() -> None:
    """Chromium, driven by Playwright, under the gate. The gate reads robots.txt, so it is what checks certificates."""
    from playwright import async_api  # noqa: PLC0415

    from robotgate.integrations.playwright import BrowserGate  # noqa: PLC0415

    async def visit() -> None:
        page = await context.new_page()
        for url in urls:
            # A file that the browser would save is a failure of `goto`, too.
            with suppress(RobotGateError, async_api.Error):
                await pages.goto(page, url)

    urls = iter(URLS)
    async with (
        aiohttp.ClientSession(proxy=PROXY) as http,
        RobotGate(AGENT, contact=CONTACT, delay=DELAY, session=http) as gate,
        async_api.async_playwright() as driver,
    ):
        pages = BrowserGate(gate, pace_all=True)
        chromium = await driver.chromium.launch(
            executable_path=shutil.which("chromium"), proxy={"server": PROXY or "", "bypass": "<-loopback>"}
        )
        context = await chromium.new_context(user_agent=pages.user_agent, ignore_https_errors=True)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(50):
                tasks.create_task(visit())


DOORS: Final = {
    "fetch": fetch,
    "middleware": middleware,
    "httpx": httpx_transport,
    "scrapy": scrapy_addon,
    "crawlee": crawlee_client,
    "browser": browser,
}


if __name__ == "__main__":
    logging.disable()
    ended = DOORS[sys.argv[1]]()
    if ended is not None:
        asyncio.run(ended)
