"""`gate.fetch`: a request of an aiohttp session through the gate's middleware, with a bounded read at its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from inspect import CORO_CREATED, getcoroutinestate
from typing import TYPE_CHECKING, NoReturn, TypedDict

import aiohttp
from aiohttp.http import HttpProcessingError
from multidict import CIMultiDict, CIMultiDictProxy

from robotgate.errors import InvalidURLError, ResponseTooLargeError
from robotgate.pace.host import TurnState
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

    RaiseForStatus = bool | Callable[[aiohttp.ClientResponse], Awaitable[None]]


class RequestOptions(TypedDict, total=False):
    """What `aiohttp.ClientSession.request` takes, and means, besides the redirect options."""

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


class FetchCall:
    """One `gate.fetch`: what is asked, the turn that its next request has, and its total timeout.

    aiohttp's total timeout is kept here, for the waits for turns must not count against it.
    """

    __slots__ = (
        "_cancelling",
        "_left",
        "_task",
        "_timer",
        "asked_url",
        "chain",
        "has_expired",
        "has_turn",
        "max_bytes",
        "max_wait",
        "method",
        "options",
        "priority",
        "redirects",
        "turn",
        "url",
        "waited",
    )

    turn: Turn
    """Of the last hop."""

    def __init__(
        self,
        url: str | URL,
        method: str,
        options: RequestOptions,
        *,
        priority: int,
        max_wait: float | None,
        max_bytes: int,
        redirects: int,
    ) -> None:
        self.asked_url = url
        self.url: URL | None = None
        """The URL that is requested first, once it has been read."""
        self.method = method
        self.options = options
        self.priority = priority
        self.max_wait = max_wait
        self.max_bytes = max_bytes
        self.redirects = redirects
        """As aiohttp counts `max_redirects`: one more than are followed; 0 follows none."""
        self.has_turn = False
        """Whether the turn of `url` has begun, and no request has used it yet."""
        self.chain: tuple[str, ...] = ()
        """The URLs that redirected, first to last."""
        self.waited = 0.0
        self.has_expired = False
        """Whether the total timeout has passed."""
        self._left: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0

    def limit(self, task: asyncio.Task[object], total: float | None) -> None:
        """Cancel the task when a total timeout has passed from now on; 0 is no limit, as to aiohttp.

        `asyncio.timeout` does the same, in four times the time.
        """
        if total:
            loop = task.get_loop()
            self._task, self._left, self._cancelling = task, total, task.cancelling()
            self._timer = loop.call_at(loop.time() + total, self._expire)

    def pause(self) -> float | None:
        """Stop the total timeout, while a turn is waited for or at its end. Returns when it would have passed."""
        if self._timer is None or self._task is None:
            return None
        expires_at = self._timer.when()
        self._left = expires_at - self._task.get_loop().time()
        self._timer.cancel()
        self._timer = None
        return expires_at

    def resume(self, turn: Turn) -> None:
        """The turn has begun."""
        self.turn = turn
        self.waited += turn.waited
        if self._task is not None:
            self.limit(self._task, self._left)

    def _expire(self) -> None:
        if self._task is not None:
            self.has_expired = True
            self._task.cancel()

    def raise_expired(self, error: asyncio.CancelledError) -> NoReturn:
        """Raise what a cancellation means: a timeout, unless another cancelled the task as well."""
        if self.has_expired and self._task is not None and self._task.uncancel() <= self._cancelling:
            raise TimeoutError from error
        raise error


class PageFetch(Coroutine[object, None, Response]):
    """What `gate.fetch` returns: awaited it is a `Response`; with ``async with``, a streaming aiohttp response."""

    __slots__ = ("_call", "_coroutine", "_fetcher", "_stream")

    def __init__(self, fetcher: PageFetcher, call: FetchCall) -> None:
        self._fetcher = fetcher
        self._call = call
        self._coroutine = fetcher.read(call)
        self._stream: Stream | None = None

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

    async def __aenter__(self) -> aiohttp.ClientResponse:
        if getcoroutinestate(self._coroutine) != CORO_CREATED:
            raise RuntimeError("a fetch is awaited or entered, and once: ask the gate for another")
        # The page is wanted as a stream: the coroutine that would have read it is not needed.
        self._coroutine.close()
        self._stream = await self._fetcher.stream(self._call)
        return self._stream.response

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._stream is not None:
            await self._stream.aclose()


class Stream:
    """A response that is being read by the caller, within what is left of its total timeout."""

    __slots__ = ("_timer", "_turn", "response")

    def __init__(self, response: aiohttp.ClientResponse, turn: Turn, expires_at: float | None) -> None:
        self.response = response
        self._turn = turn
        self._timer: asyncio.TimerHandle | None = None
        connection = response.connection
        if expires_at is not None and connection is not None:
            self._timer = asyncio.get_running_loop().call_at(expires_at, self._expire)
            connection.add_callback(self._timer.cancel)

    async def aclose(self) -> None:
        """Release the response, whatever is left of it."""
        if self._timer is not None:
            self._timer.cancel()
        try:
            await release(self.response)
        finally:
            self._turn.finish(self.response)

    def _expire(self) -> None:
        self.response.content.set_exception(TimeoutError())
        self.response.close()


class PageFetcher:
    """Fetches pages by the gate's session.

    Args:
        session: the gate's own, or the caller's.
        middleware: the gate's.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        *,
        is_own: bool,
        identity: Identity,
        middleware: GateMiddleware,
        turns: Turns,
        ticks: Callable[[], float],
        epoch: float,
    ) -> None:
        self._session = session
        self._middleware = middleware
        self._turns = turns
        self._ticks = ticks
        self._epoch = epoch
        self._identity = identity
        # The gate's own session has these headers already.
        self._headers = None if is_own else identity.headers
        # aiohttp has no public name for a session's middlewares, and those of a request replace them.
        self._middlewares = self._with_gates(tuple(getattr(session, "_middlewares", ())))
        self._timeout = _without_total(session.timeout)

    async def read(self, call: FetchCall) -> Response:
        """Return the page with its body, its turn over.

        Raises:
            ResponseTooLargeError: the body is longer than `max_bytes`.
            aiohttp.ClientError, TimeoutError: as aiohttp raises them.
            RobotGateError: as `Turns.begin`.
        """
        try:
            response = await self._open(call)
            try:
                content = response.content
                if response.connection is None and content.total_bytes <= call.max_bytes:
                    body = content.read_nowait(-1)
                else:
                    body = await read_body(response, call.max_bytes)
            finally:
                if response.connection is not None:
                    await release(response)
                if call.turn.state is TurnState.OPEN:
                    call.turn.finish(response)
        except asyncio.CancelledError as error:
            call.raise_expired(error)
        finally:
            call.pause()
        turn = call.turn
        hops = response.history
        return Response(
            status=response.status,
            headers=response.headers,
            url=response.url,
            history=tuple([Hop(str(hop.url), hop.status) for hop in hops]) if hops else (),
            body=body,
            waited=call.waited,
            elapsed=self._ticks() + self._epoch - turn.began_at,
            verdict=turn,
        )

    async def stream(self, call: FetchCall) -> Stream:
        """Return the page at its headers. Its turn ends with its body or with `Stream.aclose`.

        Raises:
            as `read`, but for the body.
        """
        try:
            response = await self._open(call)
        except asyncio.CancelledError as error:
            call.raise_expired(error)
        finally:
            expires_at = call.pause()
        return Stream(response, call.turn, expires_at)

    async def _open(  # noqa: C901, PLR0912, PLR0915  # One straight way, read in order.
        self, call: FetchCall
    ) -> aiohttp.ClientResponse:
        """Begin the turn, send the request, and return the last response at its headers.

        The turn begins here, and not in the middleware: where a session is mocked, no middleware of it runs.
        """
        url, options = call.asked_url, call.options
        session, timeout, middlewares = self._session, self._timeout, self._middlewares
        total, headers, proxy = session.timeout.total, self._headers, None
        # Text is looked up faster than a URL.
        written = url
        if isinstance(url, str):
            url = parse_url(url)
        if options:
            if options.get("params"):
                # What is judged must be what is sent.
                written = url = url.extend_query(options["params"])
            if "headers" in options:
                # Another's name is refused before any site is asked.
                completed = CIMultiDict(options["headers"] or ())
                self._identity.complete(completed)
                headers = CIMultiDictProxy(completed)
            # aiohttp takes a number of seconds as well, or None.
            given: object = options.get("timeout", session.timeout)
            if isinstance(given, aiohttp.ClientTimeout):
                timeout, total = _without_total(given), given.total
            else:
                total = given if isinstance(given, int | float) else None
            chosen = options.get("middlewares")
            middlewares = middlewares if chosen is None else self._with_gates(tuple(chosen))
            proxy = Proxy.given(options)
        call.url = url
        turn = call.turn = self._turns.make(
            written, priority=call.priority, max_wait=call.max_wait, proxy=proxy
        )
        await self._turns.begin(turn)
        call.has_turn = True
        call.waited = turn.waited
        sent: RequestOptions = {
            **options,
            "headers": headers,
            "timeout": timeout,
            "middlewares": middlewares,
            "params": None,
        }
        calls, task = self._middleware.calls, turn.holder
        outer = calls.get(task)
        calls[task] = call
        if task is not None:
            call.limit(task, total)
        try:
            response = await session.request(
                call.method, url, allow_redirects=call.redirects > 0, max_redirects=call.redirects, **sent
            )
        except BaseException as error:
            if call.has_turn and isinstance(error, aiohttp.ClientError | OSError):
                call.turn.report(error=error)
            call.turn.end()
            if call.has_turn or not isinstance(error, ValueError) or isinstance(error, aiohttp.ClientError):
                raise
            # aiohttp's own, for credentials that a redirect names beside those of the request.
            raise InvalidURLError(str(url), f"redirected to no URL ({error})") from error
        finally:
            if outer is None:
                del calls[task]
            else:
                calls[task] = outer
        if call.has_turn:
            # The session is mocked.
            call.turn.report(response.status, response.headers)
        return response

    def _with_gates(
        self, middlewares: tuple[aiohttp.ClientMiddlewareType, ...]
    ) -> tuple[aiohttp.ClientMiddlewareType, ...]:
        """Put the gate's middleware last, where every attempt passes it."""
        return middlewares if middlewares[-1:] == (self._middleware,) else (*middlewares, self._middleware)


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
