"""The gate in a Chromium that Playwright drives: every request of its pages is judged, documents wait for a turn.

A route of Playwright does not see where a redirect leads, nor what a service worker requests. So the requests are
stopped a step later, between the browser and the network, by the domain ``Fetch`` of the DevTools protocol: once before
each hop is sent and, where the hop has a turn, once more at the headers of its answer.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Required, TypedDict
from weakref import WeakSet

from multidict import CIMultiDict

from robotgate.errors import DisallowedError, HostUnavailableError, OptionError, RobotGateError, needs_extra
from robotgate.sites.status_table import REDIRECT_STATUSES

with needs_extra("playwright", __name__):
    from playwright import async_api

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from robotgate.client.turn import Turn
    from robotgate.gate import RobotGate

__all__ = ["BrowserGate"]

_PATIENCE: Final = 60.0
"""Seconds that a turn waits for an answer, and then for the end of its body, where the browser tells of neither."""
_ERROR_PAGE: Final = "chrome-error://**"
_ERROR_TIMEOUT: Final = 5.0
_DOCUMENT: Final = "Document"
_UNTOLD: Final = "Other"
"""The kind of favicons and workers' scripts. Playwright does not tell of the end of all of them."""
_SPECULATION: Final = "speculation-rules"
_NO_SPECULATION: Final = """
new MutationObserver((records) => {
  for (const { addedNodes } of records)
    for (const node of addedNodes)
      if (node.nodeType === Node.ELEMENT_NODE)
        for (const each of [node, ...node.querySelectorAll("script")])
          if (each.localName === "script" && each.type.trim().toLowerCase() === "speculationrules") each.remove();
}).observe(document, { childList: true, subtree: true });
"""
"""Removes rules by which the browser would fetch and render pages in advance: no protocol shows these requests."""
_NOT_CONNECTED: Final = frozenset(
    {"AddressUnreachable", "ConnectionFailed", "ConnectionRefused", "InternetDisconnected", "NameNotResolved"}
)
_NOT_ANSWERED: Final = frozenset({"ConnectionAborted", "ConnectionClosed", "ConnectionReset", "TimedOut"})


class _Request(TypedDict):
    url: str
    method: str
    headers: dict[str, str]


class _Paused(TypedDict, total=False):
    """``Fetch.requestPaused``, by the names of the protocol."""

    requestId: Required[str]
    frameId: Required[str]
    resourceType: Required[str]
    request: Required[_Request]
    responseErrorReason: str
    responseStatusCode: int
    responseHeaders: list[dict[str, str]]


class BrowserGate:
    """Judges and paces what the pages of a browser request: ``await BrowserGate(gate).goto(page, url)``.

    Documents, of pages and of frames in them, wait for their host's turn. It ends with the body. All other requests,
    such as images, scripts and those of scripts, are judged by their sites' rules, and do not wait; they are refused
    while their host is blocked. Each hop of a redirect counts as a request of its own. What is refused fails in the
    page as ``net::ERR_BLOCKED_BY_CLIENT``. Service workers and WebSockets are always refused. The User-Agent is the
    gate's; documents have its other headers, too.

    It works with Chromium and what is built from it. One serves any number of browsers.

    Args:
        gate: an open gate. Once you close it, the browsers can request nothing.
        pace_all: every request waits for a turn.
        on_refusal: called with the URL and the error for each request that is refused.
    """

    def __init__(
        self,
        gate: RobotGate,
        *,
        pace_all: bool = False,
        on_refusal: Callable[[str, RobotGateError], object] | None = None,
    ) -> None:
        self._gate = gate
        self._pace_all = pace_all
        self._on_refusal = on_refusal
        self._attaching = asyncio.Lock()
        self._browsers: WeakSet[async_api.Browser] = WeakSet()
        self._navigations: dict[str, RobotGateError | None] = {}
        """What was refused of the documents that `goto` opens, by the page's frame."""

    @property
    def user_agent(self) -> str:
        """What to give a context as `user_agent`, so that scripts of pages see the name that servers see."""
        return self._gate._identity.user_agent

    async def attach(self, browser: async_api.Browser | None) -> None:
        """Judge all that a browser requests from now on, in all of its contexts. A second call does nothing.

        Args:
            browser: as launched, or ``context.browser`` of a context.

        Raises:
            OptionError: no Chromium.
        """
        if browser is None or browser.browser_type.name != "chromium":
            raise OptionError("browser: give a Chromium; others do not let the gate see redirects")
        async with self._attaching:
            if browser not in self._browsers:
                await _Traffic(self, await browser.new_browser_cdp_session()).stop_requests_of(browser)
                self._browsers.add(browser)

    async def goto(
        self,
        page: async_api.Page,
        url: str,
        *,
        timeout: float = 3600.0,
        wait_until: Literal["commit", "domcontentloaded", "load", "networkidle"] = "load",
        referer: str | None = None,
    ) -> async_api.Response | None:
        """Open a URL as `page.goto` does, and raise the gate's own errors. The page's browser is attached.

        Args:
            timeout: seconds, the waits for turns included.
            wait_until, referer: as Playwright's.

        Raises:
            RobotGateError: the gate refuses the URL or one that it redirects to, as `RobotGate.turn`.
            OptionError: as `attach`.
            playwright.async_api.Error: any other failure.
        """
        await self.attach(page.context.browser)
        session = await page.context.new_cdp_session(page)
        frame = str((await session.send("Target.getTargetInfo"))["targetInfo"]["targetId"])
        await session.detach()
        self._navigations[frame] = None
        try:
            return await page.goto(url, timeout=timeout * 1000, wait_until=wait_until, referer=referer)
        except async_api.Error as error:
            refusal = self._navigations.get(frame)
            if refusal is None:
                raise
            # The error's page is still to come, and would interrupt the next call.
            with suppress(async_api.Error):
                await page.wait_for_url(_ERROR_PAGE, wait_until="commit", timeout=_ERROR_TIMEOUT * 1000)
            raise refusal from error
        finally:
            self._navigations.pop(frame, None)

    async def _judge(self, request: _Request) -> None:
        """Refuse what the rules of its site refuse, and all of a host that is blocked."""
        verdict = await self._gate.check(request["url"])
        if not verdict.allowed:
            raise DisallowedError(verdict)
        host = self._gate.host(request["url"])
        until_at = max(host.blocked_until_at or 0.0, host.blocked_by_operator_until_at or 0.0)
        if until_at:
            raise HostUnavailableError(host.host, until_at - self._gate._scheduler.now(), "it is blocked")

    def _tell(self, url: str, refusal: RobotGateError) -> None:
        if self._on_refusal is not None:
            self._on_refusal(url, refusal)


@dataclass(eq=False, slots=True)
class _Hop:
    """A request that was sent in a turn."""

    url: str
    answer: asyncio.Future[_Paused]
    """Its headers, or why there are none."""
    end: asyncio.Future[None]
    """Of its body, or of the request."""


class _Traffic:
    """The requests of one browser."""

    def __init__(self, pages: BrowserGate, session: async_api.CDPSession) -> None:
        self._pages = pages
        self._session = session
        self._hops: dict[str, _Hop] = {}
        """By the id of the request, which each hop of a redirect has for itself."""
        self._tasks: set[asyncio.Task[object]] = set()

    async def stop_requests_of(self, browser: async_api.Browser) -> None:
        """Have the browser ask before each request."""
        self._session.on("Fetch.requestPaused", self._hear)
        answers = {} if self._pages._pace_all else {"resourceType": _DOCUMENT}
        patterns = [
            {"urlPattern": scheme, "requestStage": stage, **kind}
            for scheme in ("http://*", "https://*")
            for stage, kind in (("Request", {}), ("Response", answers))
        ]
        await self._session.send("Fetch.enable", {"patterns": patterns})
        browser.on("context", lambda context: self._start(self._listen_to(context)))
        for context in browser.contexts:
            await self._listen_to(context)

    async def _listen_to(self, context: async_api.BrowserContext) -> None:
        context.on("requestfinished", lambda told: self._hear_end(told, is_sent=True))
        context.on("requestfailed", lambda told: self._hear_end(told, is_sent=False))
        with suppress(async_api.Error):
            await asyncio.gather(
                context.add_init_script(_NO_SPECULATION),
                context.route_web_socket("**/*", self._refuse_web_socket),
            )

    def _start(self, work: Coroutine[object, object, object]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _hear(self, paused: _Paused) -> None:
        """A request is about to be sent, or the headers of its answer are there."""
        if "responseStatusCode" not in paused and "responseErrorReason" not in paused:
            self._start(self._decide(paused))
            return
        hop = self._hops.get(paused["requestId"])
        if hop is None or hop.answer.done():
            self._start(self._pass_on(paused))
        else:
            hop.answer.set_result(paused)

    def _hear_end(self, told: async_api.Request, *, is_sent: bool) -> None:
        """Playwright tells no ids: of several requests of one URL, it is the first."""
        url = told.url.partition("#")[0]
        for hop in self._hops.values():
            if hop.url == url and not hop.end.done() and (hop.answer.done() or not is_sent):
                hop.end.set_result(None)
                return

    async def _decide(self, paused: _Paused) -> None:
        """Send a request, or refuse it."""
        request, kind = paused["request"], paused["resourceType"]
        try:
            _check_no_service_worker(request)
            if self._pages._pace_all or kind == _DOCUMENT:
                await self._send_in_turn(paused)
            else:
                await self._pages._judge(request)
                await self._go_on(paused, {"User-Agent": self._pages.user_agent})
        except RobotGateError as refusal:
            if kind == _DOCUMENT and paused["frameId"] in self._pages._navigations:
                self._pages._navigations[paused["frameId"]] = refusal
            await self._call("Fetch.failRequest", paused, errorReason="BlockedByClient")
            self._pages._tell(request["url"], refusal)

    async def _send_in_turn(self, paused: _Paused) -> None:
        request, loop = paused["request"], asyncio.get_running_loop()
        async with self._pages._gate.turn(request["url"]) as turn:
            hop = _Hop(request["url"], loop.create_future(), loop.create_future())
            self._hops[paused["requestId"]] = hop
            try:
                # Other headers would have the browser ask other origins whether scripts may send them.
                ours = {"User-Agent": self._pages.user_agent}
                if paused["resourceType"] == _DOCUMENT:
                    ours = turn.headers(request["method"], _without_agent(request))
                if await self._go_on(paused, ours):
                    await self._follow(hop, turn)
            finally:
                del self._hops[paused["requestId"]]

    async def _follow(self, hop: _Hop, turn: Turn) -> None:
        """Report the answer, and wait for the end of its body."""
        await asyncio.wait((hop.answer, hop.end), timeout=_PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        if not hop.answer.done():
            if not hop.end.done():
                turn.report(error=TimeoutError())
            return
        answer = hop.answer.result()
        headers = CIMultiDict((each["name"], each["value"]) for each in answer.get("responseHeaders", ()))
        status, reason = answer.get("responseStatusCode"), answer.get("responseErrorReason")
        if reason in _NOT_CONNECTED:
            turn.report_unreachable(f"the browser says {reason}")
        elif reason in _NOT_ANSWERED:
            turn.report(error=TimeoutError())
        elif reason is None:
            turn.report(status, headers)
        has_more = reason is None and not (status in REDIRECT_STATUSES and "Location" in headers)
        if await self._pass_on(answer) and has_more and answer["resourceType"] != _UNTOLD:
            await asyncio.wait((hop.end,), timeout=_PATIENCE)

    async def _go_on(self, paused: _Paused, headers: Mapping[str, str]) -> bool:
        """Let a request be sent, with these headers of ours."""
        sent = CIMultiDict(_without_agent(paused["request"]))
        sent.update(headers)
        lines = [{"name": name, "value": value} for name, value in sent.items()]
        return await self._call("Fetch.continueRequest", paused, headers=lines)

    async def _pass_on(self, answer: _Paused) -> bool:
        """Let an answer be read, but for a header that names rules of speculation."""
        lines = answer.get("responseHeaders", [])
        kept = [line for line in lines if line["name"].lower() != _SPECULATION]
        if kept == lines:
            return await self._call("Fetch.continueRequest", answer)
        status = answer.get("responseStatusCode")
        return await self._call("Fetch.continueResponse", answer, responseCode=status, responseHeaders=kept)

    async def _call(self, method: str, paused: _Paused, **options: object) -> bool:
        """Whether it was done: the browser may have given the request up meanwhile, or be closed."""
        try:
            await self._session.send(method, {"requestId": paused["requestId"], **options})
        except async_api.Error:
            return False
        return True

    async def _refuse_web_socket(self, socket: async_api.WebSocketRoute) -> None:
        with suppress(async_api.Error):
            await socket.close()
        self._pages._tell(socket.url, RobotGateError(f"{socket.url} is a WebSocket, which has no turn"))


def _check_no_service_worker(request: _Request) -> None:
    """Refuse the script of one: the browser requests it again later, where the gate does not see it."""
    if any(name.lower() == "service-worker" for name in request["headers"]):
        raise RobotGateError(f"{request['url']} is a service worker, which would send requests past the gate")


def _without_agent(request: _Request) -> dict[str, str]:
    return {name: value for name, value in request["headers"].items() if name.lower() != "user-agent"}
