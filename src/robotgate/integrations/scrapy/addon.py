"""The add-on: the gate of a crawl, made of the crawl's settings, the middleware that asks it for verdicts, and the
download handler that sends each request in its host's turn, through the handler that the project has.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
from collections import Counter
from typing import TYPE_CHECKING, ClassVar, Final, Self

from scrapy import Request, signals
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.exceptions import IgnoreRequest, StopDownload
from scrapy.pqueues import DownloaderAwarePriorityQueue
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings
from scrapy.utils.defer import ensure_awaitable
from scrapy.utils.misc import build_from_crawler, load_object
from scrapy.utils.reactor import is_asyncio_reactor_installed, is_reactor_installed
from twisted.web.client import HTTPConnectionPool

from robotgate.client.proxy import fault_of_answer
from robotgate.client.turns import PageTurn, refusal_of
from robotgate.clock import SystemClock
from robotgate.errors import (
    BudgetExceededError,
    DisallowedError,
    HostUnavailableError,
    InvalidURLError,
    OptionError,
    ProxyUnavailableError,
    RobotGateError,
    TooSoonError,
)
from robotgate.events import Event, HostBlocked, RobotsFetched
from robotgate.gate import RobotGate
from robotgate.integrations.scrapy.robots import (
    MAX_BYTES,
    ScrapyFetcher,
    decoded,
    headers_of,
    proxy_of,
    scrapy_outage_of,
)
from robotgate.rules.verdict import AccessResult
from robotgate.urls import Origin, is_read_otherwise

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response


SETTINGS: Final = {
    "agent": "ROBOTGATE_AGENT",
    "contact": "ROBOTGATE_CONTACT",
    "token": "ROBOTGATE_AGENT, ROBOTSTXT_USER_AGENT",
}
"""The settings that the other arguments come from."""
REFUSALS: Final[dict[type[RobotGateError], str]] = {
    BudgetExceededError: "robotgate/budget_exceeded",
    DisallowedError: "robotgate/disallowed",
    HostUnavailableError: "robotgate/unavailable",
    ProxyUnavailableError: "robotgate/proxy_failed",
    TooSoonError: "robotgate/too_soon",
}
"""The statistic that counts each error."""
HANDLERS: Final = {
    "http": "robotgate.integrations.scrapy.addon.HttpHandler",
    "https": "robotgate.integrations.scrapy.addon.HttpsHandler",
}
VERDICT_PRIORITY: Final = 100
"""The place of Scrapy's own middleware for robots.txt: a refused request has cost nothing yet."""

_PRIORITY: Final = SETTINGS_PRIORITIES["addon"]
"""Above Scrapy's defaults, and below the settings of a project, a spider or a command line."""
_URL: Final = re.compile(r"https?://[^\s();,]+")

logger: Final = logging.getLogger("robotgate.scrapy")


class RefusedRequest(IgnoreRequest):
    """A request that the gate refused. Its text is the reason. Scrapy does not retry it."""

    def __init__(self, error: RobotGateError) -> None:
        super().__init__(str(error))
        self.error = error
        """The gate's error: `DisallowedError` has the verdict, `HostUnavailableError` and `TooSoonError` the time."""


class _OfCrawl:
    """What Scrapy makes of a crawl."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Called by Scrapy."""
        return cls(crawler)


class Addon(_OfCrawl):
    """Puts a gate before every request of a crawl. docs/scrapy.md lists its settings."""

    gate: RobotGate
    """The gate of the crawl. It is open while the spider is."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self.handlers: dict[str, str | type] = {}
        """The download handlers that send the requests, by scheme."""
        crawler.signals.connect(self._open, signals.spider_opened)
        crawler.signals.connect(self._close, signals.spider_closed)

    @classmethod
    def of(cls, crawler: Crawler) -> Self:
        """The add-on of a crawl.

        Raises:
            OptionError: the crawl has none, or Scrapy does not run on asyncio.
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

    def update_settings(self, settings: BaseSettings) -> None:
        """Replace Scrapy's middleware for robots.txt, and wrap its download handlers for http and https.

        Raises:
            OptionError: a setting makes no sense. The message begins with its name.
        """
        self.gate = _make_gate(settings, ScrapyFetcher(self.crawler))
        self.gate.subscribe(self._count, RobotsFetched, HostBlocked)
        _set_defaults(settings, self.gate)
        settings.set_in_component_priority_dict("DOWNLOADER_MIDDLEWARES", RobotsTxtMiddleware, None)
        settings.set_in_component_priority_dict("DOWNLOADER_MIDDLEWARES", VerdictMiddleware, VERDICT_PRIORITY)
        known = settings.getwithbase("DOWNLOAD_HANDLERS")
        self.handlers = {scheme: known[scheme] for scheme in HANDLERS if known.get(scheme) is not None}
        paced = {scheme: HANDLERS[scheme] for scheme in self.handlers}
        priority = settings.getpriority("DOWNLOAD_HANDLERS") or 0
        settings.set("DOWNLOAD_HANDLERS", {**settings.getdict("DOWNLOAD_HANDLERS"), **paced}, priority)

    def refusal(self, request: Request, error: RobotGateError, *, of_turn: bool = False) -> RefusedRequest:
        """Log and count a refused request. The result is what its errback gets."""
        statistic = REFUSALS.get(type(error))
        # The gate itself logs these, with the URL, when they answer a request for a turn.
        if not of_turn or statistic is None:
            logger.info("%s is refused: %s", request, error, extra={"spider": self.crawler.spider})
        self.crawler.stats.inc_value(statistic or "robotgate/refused")
        return RefusedRequest(error)

    def count_turn(self, waited: float) -> None:
        """Count a request that is about to be sent, and has waited so many seconds."""
        stats, name = self.crawler.stats, "robotgate/waited_seconds"
        stats.inc_value("robotgate/turns")
        stats.set_value(name, stats.get_value(name, 0.0) + waited)

    def _count(self, event: Event) -> None:
        if isinstance(event, HostBlocked):
            self.crawler.stats.inc_value("robotgate/hosts_blocked")
        if isinstance(event, RobotsFetched):
            self.crawler.stats.inc_value("robotgate/robots_fetched")
            if event.access is AccessResult.UNREACHABLE:
                self.crawler.stats.inc_value("robotgate/robots_unreachable")

    async def _open(self) -> None:
        spacing = self.crawler.settings.getfloat("DOWNLOAD_DELAY")
        if spacing > 0:
            # Projects that Scrapy makes have it.
            logger.warning(
                "DOWNLOAD_DELAY=%g holds requests back before they begin to wait for the gate, and spaces no visits:"
                " leave it out, and give ROBOTGATE_OPTIONS = {'delay': %g}",
                spacing,
                spacing,
                extra={"spider": self.crawler.spider},
            )
        await self.gate.__aenter__()

    async def _close(self) -> None:
        await self.gate.aclose()


class VerdictMiddleware(_OfCrawl):
    """Asks for a request's verdict before the request takes a place in the downloader. It waits for no turn."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._addon = Addon.of(crawler)

    async def process_request(self, request: Request) -> None:
        """Let an allowed request pass.

        Raises:
            RefusedRequest: the site's rules or the state of its robots.txt forbid it.
        """
        if request.meta.get("dont_obey_robotstxt") or not request.url.startswith(("http:", "https:")):
            return
        try:
            with proxy_of(request):
                verdict = await self._addon.gate.check(judged_url(request))
            if not verdict.allowed:
                raise refusal_of(verdict)
        except RobotGateError as error:
            raise self._addon.refusal(request, error) from error
        self.crawler.stats.inc_value("robotgate/allowed")


class PacedHandler(_OfCrawl):
    """Wraps the download handler of a scheme, and sends each request in its host's turn.

    Scrapy's timeouts start inside the wrapped handler, so none of them counts the wait. The wrapped handler returns
    when the body has been read, so the turn ends then.
    """

    lazy: ClassVar[bool] = False
    scheme: ClassVar[str]

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._addon = Addon.of(crawler)
        self._handler = build_from_crawler(load_object(self._addon.handlers[self.scheme]), crawler)
        for part in getattr(self._handler, "__dict__", {}).values():
            if isinstance(part, HTTPConnectionPool):
                # Twisted would send a request a second time, at once and in the same turn, when a connection drops that
                # has served another request. Scrapy's retries take a turn.
                part.retryAutomatically = False

    async def download_request(self, request: Request) -> Response:
        """Wait for the turn, and send.

        Raises:
            RefusedRequest: the gate refused the turn, or a proxy answered in the site's place.
            OptionError: the request has a User-Agent that does not name the crawler.
        """
        max_bytes = request.meta.get(MAX_BYTES)
        if max_bytes is not None:
            # The gate sends this request for robots.txt in a turn of its own.
            async with asyncio.timeout(request.meta["download_timeout"]):
                return decoded(await self._send(request), max_bytes=max_bytes)
        identity, headers = self._addon.gate._identity, headers_of(request)
        identity.complete(headers)
        for name in identity.headers:
            request.headers.setdefault(name, headers[name])
        try:
            with proxy_of(request):
                async with self._addon.gate.turn(_url_of_turn(request), priority=request.priority) as turn:
                    return await self._send_and_report(turn._turn, request)
        except RobotGateError as error:
            raise self._addon.refusal(request, error, of_turn=True) from error

    async def close(self) -> None:
        """Close the wrapped handler."""
        await ensure_awaitable(getattr(self._handler, "close", lambda: None)())

    async def _send_and_report(self, turn: PageTurn, request: Request) -> Response:
        self._addon.count_turn(turn.waited)
        # Not the turn's URL, which is that of robots.txt where the rules are not obeyed.
        signature = self._addon.gate._identity.signature(request.method, request.url, headers_of(request))
        for name, value in signature.items():
            request.headers[name] = value
        try:
            response = await self._send(request)
        except StopDownload as stop:
            if stop.response is not None:
                _report(turn, stop.response, request)
            raise
        except Exception as error:
            if not turn.note_outage(scrapy_outage_of(error, request)):
                raise
            await turn.wait_again()
            return await self._send_and_report(turn, request)
        _report(turn, response, request)
        return response

    async def _send(self, request: Request) -> Response:
        if inspect.iscoroutinefunction(self._handler.download_request):
            response: Response = await self._handler.download_request(request)
            return response
        # A handler written for Scrapy before 2.14.
        return await ensure_awaitable(self._handler.download_request(request, self.crawler.spider))


class HttpHandler(PacedHandler):
    """For http."""

    scheme = "http"


class HttpsHandler(PacedHandler):
    """For https."""

    scheme = "https"


def _url_of_turn(request: Request) -> str:
    if not request.meta.get("dont_obey_robotstxt"):
        return judged_url(request)
    # A turn of the host without a verdict: the rules never forbid robots.txt itself.
    return Origin.of(request.url).robots_url


def _report(turn: PageTurn, response: Response, request: Request) -> None:
    """Report an answer of the site's.

    Raises:
        ProxyUnavailableError: it is a proxy's.
    """
    status, headers = response.status, headers_of(response)
    fault = fault_of_answer(status, headers, request.meta.get("proxy"))
    if fault is not None:
        raise ProxyUnavailableError(turn.paced.origin.host, fault)
    turn.report(status, headers, len(response.body))
    turn.note_body(status, headers, response.body)


class HostAwarePriorityQueue(DownloaderAwarePriorityQueue):
    """Hands out no more requests of a host than may be sent at once (``CONCURRENT_REQUESTS_PER_DOMAIN``).

    A request that has left the scheduler takes one of the ``CONCURRENT_REQUESTS`` until it is answered, however long it
    waits for its turn. Scrapy's own queue prefers idle hosts, but gives all places to one host if only one is left.
    """

    def pop(self) -> Request | None:
        """The next request of a host that is not busy, or None. Scrapy asks again when any request ends."""
        downloader = self.crawler.engine.downloader
        active = Counter(downloader.get_slot_key(request) for request in downloader.active)
        limit = downloader.domain_concurrency
        busy = {
            slot: self.pqueues.pop(slot)
            for slot, count in active.items()
            if count >= limit and slot in self.pqueues
        }
        try:
            return super().pop()
        finally:
            self.pqueues.update(busy)


def judged_url(request: Request) -> str:
    """The URL of a request, if Scrapy sends it as the rules judge it.

    Raises:
        InvalidURLError: its path has a dot segment, which Scrapy would send.
    """
    if is_read_otherwise(request.url):
        raise InvalidURLError(request.url, "a dot segment leads servers to another path")
    return request.url


def _make_gate(settings: BaseSettings, fetcher: ScrapyFetcher) -> RobotGate:
    if _is_chosen(settings, "ROBOTSTXT_OBEY") and not settings.getbool("ROBOTSTXT_OBEY"):
        raise OptionError(
            "ROBOTSTXT_OBEY: it is False, but robotgate obeys; for hosts of your own give"
            " ROBOTGATE_OPTIONS = {'overrides': {'example.org': HostOverride.own()}},"
            " for single requests meta={'dont_obey_robotstxt': True}"
        )
    agent, contact = _agent_and_contact(settings)
    try:
        options = settings.getdict("ROBOTGATE_OPTIONS")
        options.setdefault("token", settings.get("ROBOTSTXT_USER_AGENT"))
        return RobotGate(agent, contact=contact, clock=SystemClock(), fetcher=fetcher, **options)
    except (TypeError, ValueError) as error:
        # An error of the gate begins with the name of the argument.
        setting = SETTINGS.get(str(error).partition("=")[0], "ROBOTGATE_OPTIONS")
        raise OptionError(f"{setting}: {error}") from error


def _agent_and_contact(settings: BaseSettings) -> tuple[str, str]:
    chosen = settings["USER_AGENT"] if _is_chosen(settings, "USER_AGENT") else None
    agent = settings["ROBOTGATE_AGENT"] or chosen
    if not agent:
        raise OptionError(
            "ROBOTGATE_AGENT: name your crawler, as 'ExampleBot/1.0', here or in USER_AGENT;"
            " Scrapy's default names Scrapy"
        )
    page = _URL.search(agent)
    contact = settings["ROBOTGATE_CONTACT"] or (page and page[0])
    if not contact:
        raise OptionError(
            "ROBOTGATE_CONTACT: give an e-mail address or a page where site owners reach you, as"
            " 'bot@example.org'; or name the page in USER_AGENT, as 'ExampleBot/1.0 (+https://example.org/bot)'"
        )
    return agent, contact


def _set_defaults(settings: BaseSettings, gate: RobotGate) -> None:
    """Set what Scrapy has to know of the gate, where the project has not chosen.

    Raises:
        OptionError: the chosen USER_AGENT does not name the crawler whose rules are obeyed.
    """
    if _is_chosen(settings, "USER_AGENT"):
        try:
            gate._identity.complete({"User-Agent": settings["USER_AGENT"]})
        except OptionError as error:
            raise OptionError(f"USER_AGENT: {error}") from error
    settings.set("USER_AGENT", gate._identity.user_agent, _PRIORITY)
    options = gate._options
    given = (options, *(each.given for each in options["overrides"].values()))
    per_host = [each["concurrency_per_host"] for each in given if "concurrency_per_host" in each]
    # The gate limits the requests that are sent. These limit the requests that wait: per host as many as may be sent at
    # once, and as many hosts as the gate serves at once.
    settings.set("CONCURRENT_REQUESTS_PER_DOMAIN", max(per_host), _PRIORITY)
    settings.set("CONCURRENT_REQUESTS", options["concurrency"], _PRIORITY)
    settings.set("SCHEDULER_PRIORITY_QUEUE", HostAwarePriorityQueue, _PRIORITY)


def _is_chosen(settings: BaseSettings, name: str) -> bool:
    """Whether the project set it, even if to the default's value."""
    return (settings.getpriority(name) or 0) > _PRIORITY
