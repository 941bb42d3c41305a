"""`gate.fetch`: a request of an aiohttp session through the gate's middleware, with a bounded read at its end.

The first turn begins before the request is given to aiohttp, and the middleware takes it over: so a page is judged and
paced even where a test replaces the session. Later hops and attempts get their turns from the middleware.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Generator
from inspect import CORO_CREATED, getcoroutinestate
from typing import TYPE_CHECKING, NoReturn, TypedDict

import aiohttp
from aiohttp.http import HttpProcessingError
from multidict import CIMultiDict, CIMultiDictProxy

from robotgate.errors import InvalidURLError, ResponseTooLargeError, UsageError
from robotgate.pace.scheduler import Timer
from robotgate.urls import parse_url
from robotgate.web.fetcher import Proxy
from robotgate.web.response import Hop, Response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Mapping, Sequence
    from ssl import SSLContext
    from types import TracebackType

    from yarl import URL

    from robotgate.identity import Identity
    from robotgate.web.middleware import GateMiddleware
    from robotgate.web.turns import Turn, Turns
    from robotgate.web.uses import Uses

    RaiseForStatus = bool | Callable[[aiohttp.ClientResponse], Awaitable[None]]


class RequestOptions(TypedDict, total=False):
    """The options of `aiohttp.ClientSession.request`, without those of redirects."""

    params: str | Mapping[str, str | int | float] | Sequence[tuple[str, str | int | float]] | None
    data: object
    json: object
    cookies: Mapping[str, str] | None
    headers: Mapping[str, str] | Iterable[tuple[str, str]] | None
    skip_auto_headers: Iterable[str] | None
    auth: aiohttp.BasicAuth | None
    compress: str | bool | None
    chunked: bool | None
    expect100: bool
    raise_for_status: RaiseForStatus | None
    read_until_eof: bool
    proxy: str | URL | None
    proxy_auth: aiohttp.BasicAuth | None
    timeout: aiohttp.ClientTimeout
    ssl: SSLContext | bool | aiohttp.Fingerprint
    server_hostname: str | None
    proxy_headers: Mapping[str, str] | None
    trace_request_ctx: object
    read_bufsize: int | None
    auto_decompress: bool | None
    max_line_size: int | None
    max_field_size: int | None
    middlewares: Sequence[aiohttp.ClientMiddlewareType] | None


class PageFetch(Coroutine[object, None, Response]):
    """What `gate.fetch` returns: awaited it is a `Response`; with ``async with``, a streaming aiohttp response.

    It holds what is asked, the turn of its last hop, and its total timeout: aiohttp's is kept here, for the waits for
    turns must not count against it.
    """

    turn: Turn
    """Of the last hop."""
    url: URL
    """What is requested first."""
    has_turn = False
    """Whether the turn of `url` has begun, and no request has used it yet."""
    chain: tuple[str, ...] = ()
    """The URLs that redirected, first to last."""
    waited = 0.0
    has_expired = False
    """Whether the total timeout has passed."""
    task: asyncio.Task[object] | None = None
    """Whose total timeout is counted."""
    expires_at = math.inf
    """When it has passed, by the loop's clock."""
    _cancelling = 0
    _response: aiohttp.ClientResponse | None = None
    """What the caller reads as a stream."""

    def __init__(  # noqa: PLR0917  # Keywords take twice as long.
        self,
        fetcher: PageFetcher,
        given: str | URL,
        method: str,
        options: RequestOptions,
        priority: int,
        max_wait: float | None,
        max_bytes: int,
        redirects: int,
    ) -> None:
        self._fetcher = fetcher
        self.given = given
        self.method = method
        self.options = options
        self.priority = priority
        self.max_wait = max_wait
        self.max_bytes = max_bytes
        self.redirects = redirects
        """As aiohttp counts `max_redirects`: one more than are followed; 0 follows none."""
        self._coroutine = fetcher.read(self)

    # As a coroutine.

    def __await__(self) -> Generator[object, None, Response]:
        return self._coroutine.__await__()

    def send(self, value: None, /) -> object:
        """Run until the next suspension, as any coroutine."""
        return self._coroutine.send(value)

    def throw(self, *error: object) -> object:
        """Raise where the coroutine is suspended, as any coroutine."""
        return self._coroutine.throw(*error)  # type: ignore[call-overload]

    def close(self) -> None:
        """Abandon it, as any coroutine."""
        self._coroutine.close()

    # As a context.

    async def __aenter__(self) -> aiohttp.ClientResponse:
        if getcoroutinestate(self._coroutine) != CORO_CREATED:
            raise RuntimeError("a fetch is awaited or entered, and once: ask the gate for another")
        # The page is wanted as a stream: the coroutine that would have read it is not needed.
        self._coroutine.close()
        response = await self._fetcher.open(self)
        if response.connection is None:
            self.pause()
        else:
            response.connection.add_callback(self.pause)
        self._response = response
        return response

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.pause()
        if self._response is not None:
            try:
                await release(self._response)
            finally:
                self.turn.finish(self._response)

    # What the gate keeps of it.

    async def turn_for(self, url: URL, proxy: Proxy | None) -> Turn:
        """Return the turn of a hop or attempt, begun: the first one has begun before; for others the last one ends."""
        turn, turns = self.turn, self.turn.turns
        if self.has_turn:
            self.has_turn = False
            return turn
        turn.end()
        turn = turns.make(url, self.priority, self.max_wait, self.chain, proxy)
        if not turns.try_begin(turn):
            self.pause()
            left = self.expires_at - self._fetcher.timeouts.now()
            await turns.begin(turn)
            if self.task is not None:
                self.limit(self.task, left)
        self.turn = turn
        self.waited += turn.waited
        return turn

    def limit(self, task: asyncio.Task[object], total: float) -> None:
        """Cancel the task when a total timeout has passed from now on."""
        self.task, self._cancelling = task, task.cancelling()
        self._fetcher.timeouts.add(self, total)

    def pause(self) -> None:
        """Stop the total timeout, while a turn is waited for or at its end."""
        self._fetcher.timeouts.fetches.discard(self)

    def expire(self) -> None:
        """The total timeout has passed."""
        self.pause()
        if self._response is not None:
            self._response.content.set_exception(TimeoutError())
            self._response.close()
        elif self.task is not None:
            self.has_expired = True
            self.task.cancel()

    def raise_expired(self, error: asyncio.CancelledError) -> NoReturn:
        """Raise what a cancellation means: a timeout, unless another cancelled the task as well."""
        if self.has_expired and self.task is not None and self.task.uncancel() <= self._cancelling:
            raise TimeoutError from error
        raise error


class TotalTimeouts:
    """Cancels each fetch at its instant, by one timer: a timer for each is a tenth of what the gate adds to a page."""

    __slots__ = ("_fires_at", "_timer", "fetches", "now")

    def __init__(self) -> None:
        self.fetches: set[PageFetch] = set()
        """Those whose timeout runs."""
        self.now = asyncio.get_running_loop().time
        self._timer = Timer(self._expire)
        self._fires_at = math.inf

    def add(self, fetch: PageFetch, left: float) -> None:
        """Count the timeout of a fetch, of which so many seconds are left."""
        fetch.expires_at = self.now() + left
        self.fetches.add(fetch)
        if fetch.expires_at < self._fires_at:
            self._fires_at = fetch.expires_at
            self._timer.set(left)

    def close(self) -> None:
        """The gate was closed: requests that are under way keep their timeouts."""
        if not self.fetches:
            self._timer.cancel()

    def _expire(self) -> None:
        now, self._fires_at = self.now(), math.inf
        for fetch in list(self.fetches):
            if fetch.expires_at <= now:
                fetch.expire()
            else:
                self._fires_at = min(self._fires_at, fetch.expires_at)
        if self._fires_at < math.inf:
            self._timer.set(self._fires_at - now)


class PageFetcher:
    """Fetches pages by the gate's session.

    Args:
        session: the gate's own, or the caller's.
        middleware: the gate's.
        uses: what is asked about the use of pages; None for nothing.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        *,
        identity: Identity,
        middleware: GateMiddleware,
        turns: Turns,
        uses: Uses | None = None,
    ) -> None:
        self.timeouts = TotalTimeouts()
        self._session = session
        self._identity = identity
        self._middleware = middleware
        self._turns = turns
        self._uses = uses
        # aiohttp has no public name for a session's middlewares, and those of a request replace them.
        middlewares = self._with_ours(getattr(session, "_middlewares", ()))
        self._options: RequestOptions = {
            "timeout": _without_total(session.timeout),
            "middlewares": middlewares,
        }
        """Of a request that is given none."""
        if any(session.headers.getall(name, None) != [value] for name, value in identity.headers.items()):
            self._options["headers"] = identity.headers

    def read(self, fetch: PageFetch) -> Coroutine[object, None, Response]:
        """Return the page with its body, its turn over.

        Raises:
            ResponseTooLargeError: the body is longer than `max_bytes`.
            aiohttp.ClientError, TimeoutError: as aiohttp raises them.
            UsageError: the response disallows a purpose of the gate's.
            RobotGateError: as `Turns.begin`.
        """
        if self._uses is None:
            return self.read_page(fetch)
        return self._uses.fetched(self.read_page, fetch)

    async def read_page(self, fetch: PageFetch) -> Response:
        """As `read`, whatever is said about the use of the page.

        Raises:
            as `read`.
        """
        try:
            response = await self._open(fetch)
            try:
                content = response.content
                if response.connection is None and content.total_bytes <= fetch.max_bytes:
                    body = content.read_nowait(-1)
                else:
                    body = await read_body(response, fetch.max_bytes)
            finally:
                if response.connection is not None:
                    await release(response)
                fetch.turn.finish(response)
        except asyncio.CancelledError as error:
            fetch.raise_expired(error)
        finally:
            fetch.pause()
        turn, hops = fetch.turn, response.history
        history = tuple([Hop(str(hop.url), hop.status) for hop in hops]) if hops else ()
        elapsed = self._turns.now() - turn.began_at
        return Response(
            response.status, response.headers, response.url, history, body, fetch.waited, elapsed, turn
        )

    async def open(self, fetch: PageFetch) -> aiohttp.ClientResponse:
        """Return the page at its headers. Its turn and its timeout end with its body.

        Raises:
            as `read`, but for the body.
        """
        try:
            response = await self._open(fetch)
        except BaseException as error:
            fetch.pause()
            if isinstance(error, asyncio.CancelledError):
                fetch.raise_expired(error)
            raise
        if self._uses is not None:
            try:
                self._uses.check_headers(fetch, response)
            except UsageError:
                fetch.pause()
                response.close()
                fetch.turn.finish(response)
                raise
        return response

    async def _open(self, fetch: PageFetch) -> aiohttp.ClientResponse:
        """Begin the turn, send the request, and return the last response at its headers.

        The turn begins here, and not in the middleware: where a session is mocked, no middleware of it runs.
        """
        session, turns, given = self._session, self._turns, fetch.given
        url = fetch.url = parse_url(given) if isinstance(given, str) else given
        options, total, proxy = self._options, session.timeout.total, None
        if fetch.options:
            options, total = self._completed(fetch)
            named = fetch.options
            proxy = Proxy.of(named.get("proxy"), named.get("proxy_auth"), named.get("proxy_headers"))
        turn = fetch.turn = turns.make(fetch.url, fetch.priority, fetch.max_wait, (), proxy)
        if not turns.try_begin(turn):
            await turns.begin(turn)
        fetch.has_turn = True
        fetch.waited = turn.waited
        fetches, task = self._middleware.fetches, turn.holder
        outer, fetches[task] = fetches.get(task), fetch
        if task is not None and total:
            # 0 is no limit, as to aiohttp.
            fetch.limit(task, total)
        try:
            response = await session.request(
                fetch.method,
                fetch.url,
                allow_redirects=fetch.redirects > 0,
                max_redirects=fetch.redirects,
                **options,
            )
        except BaseException as error:
            if fetch.has_turn and isinstance(error, aiohttp.ClientError | OSError):
                fetch.turn.report(error=error)
            fetch.turn.end()
            if fetch.has_turn or not isinstance(error, ValueError) or isinstance(error, aiohttp.ClientError):
                raise
            # aiohttp's own, for credentials that a redirect names beside those of the request.
            raise InvalidURLError(str(url), f"redirected to no URL ({error})") from error
        finally:
            if outer is None:
                del fetches[task]
            else:
                fetches[task] = outer
        if fetch.has_turn:
            # The session is mocked.
            fetch.turn.report(response.status, response.headers)
        return response

    def _completed(self, fetch: PageFetch) -> tuple[RequestOptions, float | None]:
        """Return a request's options as they are sent, and its total timeout."""
        options: RequestOptions = {**self._options, **fetch.options}
        if params := options.pop("params", None):
            # What is judged must be what is sent.
            fetch.url = fetch.url.extend_query(params)
        if "headers" in fetch.options:
            # Another's name is refused before any site is asked.
            headers = CIMultiDict(options["headers"] or ())
            self._identity.complete(headers)
            options["headers"] = CIMultiDictProxy(headers)
        if (middlewares := fetch.options.get("middlewares")) is not None:
            options["middlewares"] = self._with_ours(middlewares)
        # aiohttp takes a number of seconds as well, or None.
        timeout: object = fetch.options.get("timeout", self._session.timeout)
        if isinstance(timeout, aiohttp.ClientTimeout):
            options["timeout"] = _without_total(timeout)
            return options, timeout.total
        options["timeout"] = self._options["timeout"]
        return options, timeout if isinstance(timeout, int | float) else None

    def _with_ours(
        self, middlewares: Iterable[aiohttp.ClientMiddlewareType]
    ) -> tuple[aiohttp.ClientMiddlewareType, ...]:
        """Put the gate's middleware behind all others, where every attempt passes it."""
        return (*(each for each in middlewares if each is not self._middleware), self._middleware)


def _without_total(timeout: aiohttp.ClientTimeout) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(
        total=None,
        connect=timeout.connect,
        sock_read=timeout.sock_read,
        sock_connect=timeout.sock_connect,
        ceil_threshold=timeout.ceil_threshold,
    )


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
    while not content.at_eof():
        try:
            chunk = await content.readany()
        except (RuntimeError, HttpProcessingError) as error:
            # What aiohttp raises for a broken chunk that comes after the headers.
            raise aiohttp.ClientPayloadError(f"the body is not what its headers say ({error})") from error
        chunks.append(chunk)
        left -= len(chunk)
        if left < 0:
            response.close()
            raise ResponseTooLargeError(str(response.url), max_bytes)
    return b"".join(chunks)
