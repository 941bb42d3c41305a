"""`gate.fetch`: a request of an aiohttp session through the gate's middleware, with a bounded read at its end.

The first turn begins before the request is given to aiohttp, and the middleware takes it over: so a page is judged and
paced even where a test replaces the session. Later hops and attempts get their turns from the middleware.
"""

from __future__ import annotations

import asyncio
import math
import random
from contextlib import suppress
from inspect import CORO_CREATED, getcoroutinestate
from typing import TYPE_CHECKING, NoReturn, TypedDict, TypeVar

import aiohttp
from aiohttp.http import HttpProcessingError
from multidict import CIMultiDict, CIMultiDictProxy

from robotgate.errors import (
    GateClosedError,
    HostUnavailableError,
    InvalidURLError,
    ResponseTooLargeError,
    RobotGateError,
    TooSoonError,
    UsageError,
)
from robotgate.options import check_names, check_whole
from robotgate.pace.host import OPEN
from robotgate.pace.scheduler import Timer
from robotgate.urls import parse_url
from robotgate.web.awaited import Pending
from robotgate.web.response import Hop, Response
from robotgate.web.retries import pause_before
from robotgate.web.robots import Proxy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
    from ssl import SSLContext
    from types import TracebackType

    from yarl import URL

    from robotgate.identity import Identity
    from robotgate.web.middleware import GateMiddleware
    from robotgate.web.turns import Turn, Turns
    from robotgate.web.uses import Uses

    RaiseForStatus = bool | Callable[[aiohttp.ClientResponse], Awaitable[None]]

Answer = TypeVar("Answer", Response, aiohttp.ClientResponse)


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


class PageFetch(Pending[Response]):
    """What `gate.fetch` returns: awaited it is a `Response`; with ``async with``, a streaming aiohttp response.

    It holds what is asked, the turn of its last hop, and its total timeout: aiohttp's is kept here, for the waits for
    turns must not count against it.
    """

    turn: Turn
    """That of the last hop."""
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
    """The task that the total timeout cancels."""
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
        retries: int = 0,
        given_turn: Turn | None = None,
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
        self.retries = retries
        """Attempts after the first, at most."""
        self.given_turn = given_turn
        """One that has begun, for the first hop; None: the fetch takes its own."""
        plain = not retries and given_turn is None
        self._coroutine = fetcher.read(self) if plain else self._by(fetcher.read)

    # As a context.

    async def __aenter__(self) -> aiohttp.ClientResponse:
        if getcoroutinestate(self._coroutine) != CORO_CREATED:
            raise RuntimeError("a fetch is awaited or entered, and once: ask the gate for another")
        # The page is wanted as a stream: the coroutine that would have read it is not needed.
        self._coroutine.close()
        response = await self._by(self._fetcher.open)
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
            await self.drop(self._response)

    def _by(
        self, attempt: Callable[[PageFetch], Coroutine[object, None, Answer]]
    ) -> Coroutine[object, None, Answer]:
        if self.given_turn is not None:
            return self._fetcher.hold(self, self.given_turn, attempt)
        return self._fetcher.persist(self, attempt) if self.retries else attempt(self)

    # What the gate keeps of it.

    def begin_anew(self, *, waited: float, max_wait: float) -> None:
        """Forget the last attempt, but for its wait and the pause behind it."""
        self.has_turn = self.has_expired = False
        self.chain = ()
        self.task, self.expires_at = None, math.inf
        self.waited += waited
        self.max_wait = None if max_wait == math.inf else max(max_wait, 0.0)

    async def drop(self, response: aiohttp.ClientResponse) -> None:
        """End the turn and the timeout of a stream, whatever is left of it."""
        self.pause()
        try:
            await release(response)
        finally:
            self.turn.finish(response)

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
        max_bytes: the longest body that is read where a caller gives no other bound.
        uses: what is asked about the use of pages; None for nothing.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        *,
        identity: Identity,
        middleware: GateMiddleware,
        turns: Turns,
        max_bytes: int,
        uses: Uses | None = None,
    ) -> None:
        self.max_bytes = max_bytes
        self.timeouts = TotalTimeouts()
        self._is_closed = asyncio.Event()
        self._held: set[Turn] = set()
        """Turns of callers in which a request is sent."""
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
                if fetch.turn.state is OPEN:
                    fetch.turn.finish(response)
        except asyncio.CancelledError as error:
            fetch.raise_expired(error)
        finally:
            fetch.pause()
        turn, hops = fetch.turn, response.history
        history = tuple([Hop(str(hop.url), hop.status) for hop in hops]) if hops else ()
        elapsed = self._turns.now() - turn.began_at
        return Response(
            response.status,
            response.headers,
            response.url,
            history,
            body,
            fetch.waited,
            elapsed,
            turn,
            response.method,
            response.reason or "",
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

    def within(
        self,
        turn: Turn,
        method: str,
        options: RequestOptions,
        *,
        max_bytes: int | None,
        max_redirects: int | None,
    ) -> PageFetch:
        """Return a fetch whose first hop is in a turn that has begun; `max_redirects` is None to follow none.

        Raises:
            OptionError, TypeError: an argument that makes no sense.
        """
        check_names(options, RequestOptions.__annotations__.keys() - {"params"})
        if max_bytes is not None:
            check_whole("max_bytes", max_bytes, least=1)
        redirects = 0
        if max_redirects is not None:
            check_whole("max_redirects", max_redirects, least=0)
            redirects = max_redirects + 1
        limit = max_bytes or self.max_bytes
        return PageFetch(
            self,
            turn.url,
            method,
            options,
            turn.priority,
            turn.max_wait,
            limit,
            redirects,
            given_turn=turn,
        )

    async def hold(
        self, fetch: PageFetch, turn: Turn, attempt: Callable[[PageFetch], Awaitable[Answer]]
    ) -> Answer:
        """Send the first hop in a turn that has begun, which is over when the answer or an error is there.

        Raises:
            RuntimeError: the turn has not begun or is over, or a request was sent in it.
            as `attempt`.
        """
        if turn.state is not OPEN or turn.status is not None or turn in self._held:
            raise RuntimeError("a turn that has begun is one request: enter it first, and fetch once")
        fetch.turn, turn.holder = turn, asyncio.current_task()
        self._held.add(turn)
        try:
            return await attempt(fetch)
        except BaseException:
            turn.end()
            raise
        finally:
            self._held.discard(turn)

    async def persist(self, fetch: PageFetch, attempt: Callable[[PageFetch], Awaitable[Answer]]) -> Answer:
        """Make attempts until no other is worth it; return or raise what came of the last that was sent.

        `max_wait` counts from the first attempt.

        Raises:
            as `attempt`.
        """
        now, attempts = self._turns.now, 0
        deadline_at = math.inf if fetch.max_wait is None else now() + fetch.max_wait
        kept: Answer | aiohttp.ClientError | TimeoutError | None = None
        while True:
            attempts += 1
            new: Answer | aiohttp.ClientError | TimeoutError
            try:
                new = await attempt(fetch)
            except (aiohttp.ClientError, TimeoutError) as error:
                is_refusal = isinstance(error, TooSoonError | HostUnavailableError)
                if isinstance(error, RobotGateError) and not is_refusal:
                    raise
                new = error
            else:
                is_refusal = False
            told = kept if is_refusal and kept is not None else new
            pause = None
            if attempts <= fetch.retries:
                site, jitter = fetch.turn.paced, random.random()
                pause = pause_before(attempts, new, site, deadline_at=deadline_at, now=now(), jitter=jitter)
            if pause is None:
                break
            kept = told
            if isinstance(told, aiohttp.ClientResponse):
                await fetch.drop(told)
                kept = None
            await self._sleep(pause)
            fetch.begin_anew(waited=pause, max_wait=deadline_at - now())
        try:
            if isinstance(told, Exception):
                raise told
            return told
        finally:
            # Break the reference cycle of error, traceback and frame.
            del kept, told, new

    async def _sleep(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._is_closed.wait()
                raise GateClosedError

    def close(self) -> None:
        """The gate was closed: what pauses ends, and requests that are under way keep their timeouts."""
        self._is_closed.set()
        self.timeouts.close()

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
        turn = fetch.given_turn
        if turn is None:
            turn = turns.make(fetch.url, fetch.priority, fetch.max_wait, (), proxy)
            fetch.turn = turn
            if not turns.try_begin(turn):
                await turns.begin(turn)
                fetch.waited += turn.waited
        else:
            fetch.waited = turn.waited
        fetch.has_turn = True
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
            # A User-Agent with another name is refused before anything is requested.
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
