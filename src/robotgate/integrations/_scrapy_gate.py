"""The one gate of a crawl, as its add-on, its middleware and its handlers share it."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from scrapy import signals
from scrapy.exceptions import IgnoreRequest
from scrapy.utils.reactor import is_asyncio_reactor_installed, is_reactor_installed

from robotgate._errors import DisallowedError, HostUnavailableError, OptionError, TooSoonError
from robotgate._events import HostBlocked, RobotsFetched
from robotgate._verdict import AccessResult
from robotgate.integrations._dot_segments import check_no_dot_segment

if TYPE_CHECKING:
    from typing import Self

    from scrapy import Request
    from scrapy.crawler import Crawler

    from robotgate._errors import RobotGateError
    from robotgate._events import Event
    from robotgate._gate import RobotGate
    from robotgate._identity import Identity
    from robotgate._turn import Turn

STATS: Final = {
    DisallowedError: "robotgate/disallowed",
    HostUnavailableError: "robotgate/unavailable",
    TooSoonError: "robotgate/too_soon",
}

logger: Final = logging.getLogger("robotgate.scrapy")


class RefusedRequest(IgnoreRequest):
    """A request that the gate does not let through. Its text says why; Scrapy does not retry it."""

    def __init__(self, error: RobotGateError) -> None:
        super().__init__(str(error))
        self.error = error
        """`DisallowedError` knows the verdict, `HostUnavailableError` and `TooSoonError` when to come back."""


class CrawlGate:
    """A gate that is open while its spider is, and counts in the statistics of its crawl."""

    gate: RobotGate
    """Open while the spider is; for `crawler.get_addon(Addon).gate`."""
    identity: Identity

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.handlers: dict[str, str | type] = {}
        """The download handlers that send what has its turn, by scheme."""
        self.max_wait: float | None = None
        """Seconds that a request waits in all, for its turn or for a host that cannot be reached."""
        self._opened = AsyncExitStack()
        self._waited = 0.0
        crawler.signals.connect(self._open, signals.spider_opened)
        crawler.signals.connect(self._close, signals.spider_closed)

    @classmethod
    def of(cls, crawler: Crawler) -> Self:
        """The add-on of a crawl.

        Raises:
            OptionError: there is none, or Scrapy does not run on asyncio.
        """
        addon = crawler.get_addon(cls)
        if addon is None:
            raise OptionError('ADDONS: give {"robotgate.integrations.scrapy.Addon": 300}')
        if is_reactor_installed() and not is_asyncio_reactor_installed():
            raise OptionError(
                "TWISTED_REACTOR: robotgate needs 'twisted.internet.asyncioreactor.AsyncioSelectorReactor',"
                " which is Scrapy's default"
            )
        return addon

    def refusal(self, error: RobotGateError, *, is_told: bool) -> RefusedRequest:
        """What a request ends with that the gate does not let through."""
        if not is_told:
            logger.info("%s", error, extra={"spider": self.crawler.spider})
        self.crawler.stats.inc_value(STATS.get(type(error), "robotgate/refused"))
        return RefusedRequest(error)

    def tell_turn(self, turn: Turn) -> None:
        """A request is about to be sent."""
        self._waited += turn.waited
        self.crawler.stats.inc_value("robotgate/turns")
        self.crawler.stats.set_value("robotgate/waited_seconds", round(self._waited, 3))

    def count(self, event: Event) -> None:
        """Something happened at the gate."""
        if isinstance(event, HostBlocked):
            self.crawler.stats.inc_value("robotgate/hosts_blocked")
        if isinstance(event, RobotsFetched):
            self.crawler.stats.inc_value("robotgate/robots_fetched")
            if event.access is AccessResult.UNREACHABLE:
                self.crawler.stats.inc_value("robotgate/robots_unreachable")

    async def _open(self) -> None:
        await self._opened.enter_async_context(self.gate)

    async def _close(self) -> None:
        await self._opened.aclose()


def judged_url(request: Request) -> str:
    """What the rules are asked of: the URL, if it is sent as it is judged.

    Raises:
        InvalidURLError: Scrapy would send a dot segment, which the rules are never asked of.
    """
    path = request.url.partition("#")[0].partition("?")[0]
    check_no_dot_segment(path, request.url)
    return request.url
