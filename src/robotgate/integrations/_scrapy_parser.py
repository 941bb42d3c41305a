"""The rules alone, for Scrapy's own middleware."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.robotstxt import RobotParser as ScrapyRobotParser
from scrapy.utils.python import to_unicode

from robotgate._errors import InvalidURLError
from robotgate._robotstxt import RobotsTxt

if TYPE_CHECKING:
    from typing import Self

    from scrapy.crawler import Crawler


class RobotParser(ScrapyRobotParser):
    """Reads robots.txt for Scrapy's own middleware: ``ROBOTSTXT_PARSER = "robotgate.integrations.scrapy.RobotParser"``.

    It knows the rules alone; what a failed request for them means, and the pace, are then left to Scrapy.
    """

    def __init__(self, robotstxt_body: bytes) -> None:
        self._robots = RobotsTxt.parse(robotstxt_body)

    @classmethod
    def from_crawler(cls, crawler: Crawler, robotstxt_body: bytes) -> Self:  # noqa: ARG003  # Scrapy's.
        """What Scrapy makes a parser by."""
        return cls(robotstxt_body)

    def allowed(self, url: str | bytes, user_agent: str | bytes) -> bool:
        """Whether an agent, by its name or by a User-Agent that begins with it, may fetch an absolute URL.

        Scrapy asks any service for its robots.txt, those of ``ftp`` and ``s3`` too, and so rules are for any scheme
        (RFC 9309 §2.3). What cannot be read as a URL with a host may not be fetched.
        """
        _, colon, rest = to_unicode(url).partition("://")
        try:
            return self._robots.allowed(f"http{colon}{rest}", to_unicode(user_agent))
        except InvalidURLError:
            return False

    def crawl_delay(self, user_agent: str | bytes) -> float | None:
        """The Crawl-delay asked of an agent: seconds. Scrapy 2.18 and later ask for it."""
        return self._robots.crawl_delay(to_unicode(user_agent))
