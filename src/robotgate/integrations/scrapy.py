"""The gate inside Scrapy 2.13 and later: ``ADDONS = {"robotgate.integrations.scrapy.Addon": 300}``.

The middleware asks for the verdict, which takes no turn; the download handler waits for the turn, below whatever
Scrapy times, counts or bounds, and ends it when the response has been read. docs/scrapy.md tells how to use them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from robotgate._errors import RobotGateError
from robotgate._events import HostBlocked, RobotsFetched
from robotgate._turns import refusal_of
from robotgate.integrations._extra import missing_extra

try:
    from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
except ModuleNotFoundError as error:
    raise missing_extra("scrapy", error) from error

from robotgate.integrations._scrapy_gate import CrawlGate, RefusedRequest, judged_url
from robotgate.integrations._scrapy_handler import PACED
from robotgate.integrations._scrapy_parser import RobotParser
from robotgate.integrations._scrapy_queue import HostAwarePriorityQueue
from robotgate.integrations._scrapy_robots import MAX_BYTES, ScrapyFetcher
from robotgate.integrations._scrapy_settings import ADDON, make_gate, set_defaults

if TYPE_CHECKING:
    from typing import Self

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

__all__ = ["Addon", "RefusedRequest", "RobotParser"]

VERDICT_PLACE: Final = 100
"""That of Scrapy's own middleware for robots.txt: refused is what nobody has spent anything on yet."""


class Addon(CrawlGate):
    """Puts a gate before every request of a crawl. Its settings are told of in docs/scrapy.md."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """What Scrapy makes an add-on by."""
        return cls(crawler)

    def update_settings(self, settings: BaseSettings) -> None:
        """Take the place of Scrapy's middleware for robots.txt, and stand before its download handlers.

        Raises:
            OptionError: a setting makes no sense; the message begins with its name.
        """
        self.gate, self.identity = make_gate(settings, ScrapyFetcher(self.crawler))
        self.gate.subscribe(self.count, RobotsFetched, HostBlocked)
        self.max_wait = settings.getdict("ROBOTGATE_OPTIONS").get("max_wait")
        set_defaults(settings, self.identity)
        settings.set("SCHEDULER_PRIORITY_QUEUE", HostAwarePriorityQueue, ADDON)
        settings.set_in_component_priority_dict("DOWNLOADER_MIDDLEWARES", RobotsTxtMiddleware, None)
        settings.set_in_component_priority_dict("DOWNLOADER_MIDDLEWARES", VerdictMiddleware, VERDICT_PLACE)
        known = settings.getwithbase("DOWNLOAD_HANDLERS")
        self.handlers = {scheme: known[scheme] for scheme in PACED if known.get(scheme) is not None}
        paced = {scheme: PACED[scheme] for scheme in self.handlers}
        priority = settings.getpriority("DOWNLOAD_HANDLERS") or 0
        settings.set("DOWNLOAD_HANDLERS", {**settings.getdict("DOWNLOAD_HANDLERS"), **paced}, priority)


class VerdictMiddleware:
    """Asks each site's rules before a request takes a place in the downloader. It never waits for a page's turn."""

    def __init__(self, shared: CrawlGate) -> None:
        self._shared = shared

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """What Scrapy makes a middleware by."""
        return cls(CrawlGate.of(crawler))

    async def process_request(self, request: Request, spider: Spider | None = None) -> None:
        """Let a request pass, under our name, or say why not.

        Raises:
            RefusedRequest: the site's rules, or its state, forbid it.
        """
        if MAX_BYTES in request.meta or not request.url.startswith(("http:", "https:")):
            return
        for name, value in self._shared.identity.headers.items():
            request.headers.setdefault(name, value)
        if request.meta.get("dont_obey_robotstxt"):
            return
        try:
            verdict = await self._shared.gate.check(judged_url(request))
        except RobotGateError as failed:
            raise self._shared.refusal(failed, is_told=False) from failed
        if not verdict.allowed:
            error = refusal_of(verdict)
            raise self._shared.refusal(error, is_told=False) from error
        self._shared.crawler.stats.inc_value("robotgate/allowed")
