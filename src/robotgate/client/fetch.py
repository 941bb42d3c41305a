"""`gate.fetch`: a request of an aiohttp session through the gate's middleware, with a bounded read at its end.

`PageFetch` is what the caller awaits or enters. An `Attempt` is one way from the first turn to the last response:
`PageFetcher.fetch` makes one, or several with `retries`. Its first turn begins before the request is given to aiohttp,
and the middleware takes it over: so a page is judged and paced even where a test replaces the session. Later hops and
attempts of aiohttp's get their turns from the middleware.
"""

from __future__ import annotations

import asyncio
import math
import random
from functools import partial
from inspect import CORO_CREATED, getcoroutinestate
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from robotgate.client.attempt import Attempt, PageRequest, RequestOptions, TotalTimeouts
from robotgate.client.awaited import Pending
from robotgate.client.proxy import Route, fault_of_error, proxy_of
from robotgate.client.response import Hop, Response
from robotgate.client.robots import broken_chunks
from robotgate.errors import (
    BudgetExceededError,
    HostUnavailableError,
    InvalidURLError,
    OptionError,
    ProxyUnavailableError,
    ResponseTooLargeError,
    RobotGateError,
    TooSoonError,
)
from robotgate.pace.signals import TELLING_STATUSES
from robotgate.pace.state import GOOD_BELOW, growing
from robotgate.pace.timer import COARSEST_TIMER
from robotgate.pace.turn import OPEN
from robotgate.urls import as_url

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from robotgate.client.middleware import GateMiddleware
    from robotgate.client.turns import PageTurn, Turns

Page = TypeVar("Page", Response, aiohttp.ClientResponse)

GATEWAY_STATUSES: Final = frozenset({502, 504})
"""The server answers, but the one behind it does not."""
LOST_CONNECTIONS: Final = (
    aiohttp.ClientConnectionError,
    aiohttp.ClientPayloadError,
    ProxyUnavailableError,
    TimeoutError,
)
"""Errors after which the same request may well succeed later."""
FIRST_RETRY_PAUSE: Final = 1.0
"""Seconds before the second attempt, after a 502, a 504 or a lost connection; doubled before each later one, and then
lengthened at random up to twice that, so that many tasks do not come back together."""
MAX_RETRY_PAUSE: Final = 60.0


class PageFetch(Pending[Response]):
    """What `gate.fetch` returns: awaited it is a `Response`; with ``async with``, a streaming aiohttp response."""

    __slots__ = ("_pages", "_request", "_response")

    _response: aiohttp.ClientResponse
    """What the caller reads as a stream."""

    def __init__(self, pages: PageFetcher, request: PageRequest) -> None:
        self._pages = pages
        self._request = request
        self._coroutine = pages.fetch(request, pages.read)

    async def __aenter__(self) -> aiohttp.ClientResponse:
        if getcoroutinestate(self._coroutine) != CORO_CREATED:
            raise RuntimeError("a fetch is awaited or entered once: ask the gate for another")
        # The page is wanted as a stream: the coroutine that would have read it is not needed.
        self._coroutine.close()
        self._response = await self._pages.fetch(self._request, self._pages.open)
        return self._response

    async def __aexit__(self, *error: object) -> None:
        await release(self._response)


class ResponseCheck(Protocol):
    """Makes the attempts of a `PageFetcher`, and looks at each response before it is returned."""

    async def read(self, pages: PageFetcher, attempt: Attempt) -> Response:
        """As `PageFetcher.read_page`, or raise what the response calls for."""

    async def open(self, pages: PageFetcher, attempt: Attempt) -> aiohttp.ClientResponse:
        """As `PageFetcher.open_page`, or raise what the headers call for."""


class PageFetcher:
    """Fetches pages by the gate's session.

    Args:
        session: the gate's own, or the caller's.
        middleware: the gate's.
        max_bytes: the longest body that is read where a caller gives no other bound.
        check: looks at the responses before they are returned.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        *,
        middleware: GateMiddleware,
        turns: Turns,
        max_bytes: int,
        check: ResponseCheck | None = None,
    ) -> None:
        self.read: Callable[[Attempt], Awaitable[Response]] = self.read_page
        """Makes an attempt whose page is read here, and checks it."""
        self.open: Callable[[Attempt], Awaitable[aiohttp.ClientResponse]] = self.open_page
        """The same for a page that the caller reads as a stream."""
        if check is not None:
            self.read, self.open = partial(check.read, self), partial(check.open, self)
        self._session = session
        self._attempts = middleware.attempts
        # A call of a bound method is quicker than one of its object.
        self._middleware = middleware.__call__
        self._turns = turns
        self._max_bytes = max_bytes
        self._timeouts = TotalTimeouts()
        self._held: set[PageTurn] = set()
        """Turns of callers in which a request is sent."""
        self._default_options: RequestOptions = {}
        """What aiohttp is given for a request without options of its own. Those of others are put on top."""
        ours = turns.identity.headers
        has_ours = all(session.headers.getall(name, None) == [value] for name, value in ours.items())
        self._default_options, self._default_total = self._completed({} if has_ours else {"headers": ours})

    async def fetch(self, request: PageRequest, act: Callable[[Attempt], Awaitable[Page]]) -> Page:
        """Make the attempts that a request needs.

        Args:
            act: makes one: `read`, or `open` for a stream.

        Raises:
            RuntimeError: the turn of the request has not begun or is over, or was used.
            PreferenceError: the response disallows a purpose of the gate's.
            as `read_page`.
        """
        if request.turn is not None:
            return await self._fetch_within(request.turn, request, act)
        if request.retries:
            return await self._fetch_with_retries(request, act)
        return await act(self._new_attempt(request))

    # Python warns by this name if nobody awaits it.
    fetch.__qualname__ = "RobotGate.fetch"

    async def read_page(self, attempt: Attempt) -> Response:
        """Return the page with its body, its turn over.

        Raises:
            ResponseTooLargeError: the body is longer than `max_bytes`.
            as `open_page`.
        """
        response = await self.open_page(attempt)
        max_bytes = attempt.request.max_bytes or self._max_bytes
        if attempt.stream is None and response.content.total_bytes <= max_bytes:
            # It has come with the headers.
            body = response.content.read_nowait(-1)
        else:
            try:
                body = await read_body(response, max_bytes)
            finally:
                if response.connection is not None:
                    await release(response)
        turn, turns, hops = attempt.turn, self._turns, response.history
        if response.status >= GOOD_BELOW:
            turn.note_body(response.status, response.headers, body)
        return Response(
            response.status,
            response.headers,
            response.url,
            tuple([Hop(str(hop.url), hop.status) for hop in hops]) if hops else (),
            body,
            attempt.waited,
            turns.ticks() + turns.epoch - turn.began_at,
            turn,
            response.method,
            response.reason or "",
        )

    async def open_page(self, attempt: Attempt) -> aiohttp.ClientResponse:
        """Begin the turn, send the request, and return the last response at its headers.

        The turn begins here, and not in the middleware: where a session is mocked, no middleware of it runs. The turn
        and the timeout end with the body, or when the response is released.

        Raises:
            aiohttp.ClientError, TimeoutError: as aiohttp raises them.
            ProxyUnavailableError: a proxy failed, or answered in the site's place.
            RobotGateError: as `Turns.begin`.
        """
        request, turn = attempt.request, attempt.turn
        if request.turn is None and not self._turns.try_begin(turn):
            await self._turns.begin(turn)
            attempt.waited += turn.waited
        task, attempts = turn.holder, self._attempts
        outer = attempts.get(task)
        attempts[task] = attempt
        cancelling = 0 if task is None else task.cancelling()
        self._timeouts.start(attempt, attempt.total)
        try:
            response = await self._session.request(
                request.method,
                attempt.url,
                allow_redirects=request.allow_redirects,
                # aiohttp raises at this one.
                max_redirects=request.max_redirects + 1,
                **attempt.options,
            )
        except BaseException as error:
            if attempt.turn_is_unused:
                # The session is mocked.
                turn.report(error=error)
            attempt.end()
            # As `asyncio.timeout`: the task is cancelled no more, unless something else has cancelled it too.
            is_late = attempt.has_expired and task is not None and task.uncancel() <= cancelling
            if is_late and isinstance(error, asyncio.CancelledError):
                raise TimeoutError from error
            host, route = attempt.turn.paced.origin.host, attempt.turn.route
            fault = fault_of_error(error, host=host, proxy=proxy_of(route), connector=self._session.connector)
            if fault is not None and not isinstance(error, RobotGateError):
                raise ProxyUnavailableError(host, fault) from error
            is_known = isinstance(error, aiohttp.ClientError | OptionError) or not attempt.chain
            if is_known or not isinstance(error, ValueError):
                raise
            # aiohttp's own, for credentials that a redirect names beside those of the request.
            raise InvalidURLError(str(attempt.url), f"redirected to no URL ({error})") from error
        finally:
            if outer is None:
                del attempts[task]
            else:
                attempts[task] = outer
        # The middleware ends the turn, too, and a second end does nothing. Without it, the session being mocked, this
        # is the only one.
        if response.connection is None:
            attempt.end(response)
        else:
            attempt.stream = response
            response.connection.add_callback(partial(attempt.end, response))
        return response

    async def _fetch_within(
        self, turn: PageTurn, request: PageRequest, act: Callable[[Attempt], Awaitable[Page]]
    ) -> Page:
        """Send the first hop in a turn that has begun. The turn is over when the answer or an error is there."""
        self._turns.scheduler.check_loop()
        if turn.state is not OPEN or turn.status is not None or turn in self._held:
            raise RuntimeError(
                "this turn has not begun, or has sent its request: enter it first, and fetch once"
            )
        turn.holder = asyncio.current_task()
        self._held.add(turn)
        try:
            attempt = self._new_attempt(request)
            attempt.waited = turn.waited
            page = await act(attempt)
        except BaseException:
            turn.end()
            raise
        else:
            # A later hop, and what aiohttp sends again when a connection is lost, had turns of their own.
            turn.status = page.status
            return page
        finally:
            self._held.discard(turn)

    async def _fetch_with_retries(
        self, request: PageRequest, act: Callable[[Attempt], Awaitable[Page]]
    ) -> Page:
        """Make attempts until no other is worth it; return or raise what came of the last that was sent.

        `max_wait` counts from the first attempt.
        """
        now = self._turns.now
        deadline_at = math.inf if request.max_wait is None else now() + request.max_wait
        page: Page | None = None
        made, waited = 0, 0.0
        while True:
            made += 1
            attempt = self._new_attempt(request)
            attempt.waited = waited
            attempt.turn.max_wait = max(deadline_at - now(), 0.0)
            try:
                page = await act(attempt)
                pause = self._pause_after(attempt, made, page.status, deadline_at)
                if pause is None:
                    return page
            except (aiohttp.ClientError, TimeoutError) as error:
                pause = self._pause_after(attempt, made, error, deadline_at)
                if pause is None:
                    if page is not None and isinstance(
                        error, TooSoonError | HostUnavailableError | BudgetExceededError
                    ):
                        # This one was not sent: what came of the one before counts.
                        return page
                    raise
            if isinstance(page, aiohttp.ClientResponse):
                await release(page)
                page = None
            await self._turns.pause(pause)
            waited = attempt.waited + pause

    def _pause_after(
        self, attempt: Attempt, made: int, told: int | Exception, deadline_at: float
    ) -> float | None:
        """Return the seconds until another attempt should ask for its turn; None if there should be none.

        The turn itself waits for the end of a block. The longest wait is the host's `max_block`.

        Args:
            attempt: the last one.
            made: how many were made.
            told: the status of the response, or the error in its place.
            deadline_at: when the next has to have its turn, in seconds since the epoch.
        """
        site, now = attempt.turn.paced, self._turns.now()
        # The `status` of robotgate's own errors was sent by no server.
        status = told.status if isinstance(told, aiohttp.ClientResponseError) else told
        if isinstance(told, HostUnavailableError):
            pause = told.retry_after + COARSEST_TIMER
        elif isinstance(told, RobotGateError | aiohttp.ClientSSLError) and not isinstance(
            told, ProxyUnavailableError
        ):
            return None
        elif status in TELLING_STATUSES:
            # The host is blocked: the turn waits for the end of that.
            pause = 0.0
        elif status in GATEWAY_STATUSES or isinstance(told, LOST_CONNECTIONS):
            pause = min(growing(FIRST_RETRY_PAUSE, made), MAX_RETRY_PAUSE) * (1 + random.random())
            # Until then all turns of an origin that was given up are refused.
            pause = max(pause, site.circuit.retry_at - now + COARSEST_TIMER)
        else:
            return None
        next_at = max(now + pause, site.host.free_at(site, now, ahead=False))
        is_too_long = max(pause, site.host.blocked_until_at - now) > site.options["max_block"]
        return None if made > attempt.request.retries or is_too_long or next_at > deadline_at else pause

    def _new_attempt(self, request: PageRequest) -> Attempt:
        """Return an attempt whose turn has yet to begin, unless it is the caller's.

        Raises:
            InvalidURLError, NonPublicAddressError: as `Turns.locate`.
            OptionError: the User-Agent does not name our token, or `timeout` is no timeout.
        """
        url, route = request.url, None
        options, total = self._default_options, self._default_total
        if request.options:
            options, total = self._completed(request.options)
            route = Route.of(options)
            if params := options.pop("params", None):
                # What is judged must be what is sent.
                url = as_url(url).extend_query(params)
        turn = request.turn
        if turn is None:
            turn = self._turns.make(url, request.priority, request.max_wait, route, is_page=request.is_page)
        # A URL that is sent as it is written is plain. Of others yarl drops bytes that were no UTF-8.
        if turn.units is not turn.target and isinstance(url, str) and not url.isascii():
            url = as_url(url)
        # A URL whose turn was made can be parsed.
        return Attempt(request, URL(url), options, turn, total, self._timeouts)

    def _completed(self, given: RequestOptions) -> tuple[RequestOptions, float]:
        """Return the options that aiohttp is given, and the total timeout in seconds, which it is not given."""
        options: RequestOptions = {**self._default_options, **given}
        if "headers" in given:
            # A User-Agent with another name is refused before anything is requested.
            headers = CIMultiDict(given["headers"] or ())
            self._turns.identity.complete(headers)
            options["headers"] = headers
        # aiohttp has no public name for a session's middlewares, and those of a request replace them.
        others = given.get("middlewares")
        if others is None:
            others = getattr(self._session, "_middlewares", ())
        # Ours stands behind them, where every attempt passes it.
        options["middlewares"] = (*others, self._middleware)
        # aiohttp takes a number of seconds as well, or None.
        timeout: object = given.get("timeout", self._session.timeout)
        if timeout is None or isinstance(timeout, int | float):
            timeout = aiohttp.ClientTimeout(total=timeout)
        elif not isinstance(timeout, aiohttp.ClientTimeout):
            raise OptionError(f"timeout={timeout!r}: give an aiohttp.ClientTimeout")
        options["timeout"] = aiohttp.ClientTimeout(
            None, timeout.connect, timeout.sock_read, timeout.sock_connect, timeout.ceil_threshold
        )
        # 0 or less is no limit, as to aiohttp.
        return options, timeout.total if timeout.total and timeout.total > 0 else math.inf


async def release(response: aiohttp.ClientResponse) -> None:
    """Release a response, whatever is left of it; with bytes left unread, this closes its connection."""
    response.release()
    await response.wait_for_close()


async def read_body(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    """Return the whole body.

    Raises:
        ResponseTooLargeError: it is longer; the connection is closed.
        aiohttp.ClientError, TimeoutError: it breaks off.
    """
    content = response.content
    chunks: list[bytes] = []
    left = max_bytes
    with broken_chunks():
        while not content.at_eof():
            chunks.append(await content.readany())
            left -= len(chunks[-1])
            if left < 0:
                response.close()
                raise ResponseTooLargeError(str(response.url), max_bytes)
    return b"".join(chunks)
