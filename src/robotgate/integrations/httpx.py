"""The gate in an `httpx.AsyncClient`: a transport that wraps another transport.

httpx calls its transport once for each hop of a redirect and once for each round of an authentication. It has no total
timeout that could expire while a request waits for its turn. So the transport sees every request that is sent, and can
judge and pace it.

Every refusal is an error of robotgate and an `httpx.RequestError`, so handlers of either library catch it. Only that of
a proxy's failure is an `httpx.TransportError`: programs take those for network failures and send the request again.
"""

from __future__ import annotations

import asyncio
import math
import ssl
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING, Final, NoReturn, TypedDict, Unpack, cast

from multidict import CIMultiDict
from yarl import URL

from robotgate.client.middleware import MAX_IDLE_READ, log_unread
from robotgate.client.proxy import failed, fault_of_answer
from robotgate.client.robots import (
    ASKED_FOR,
    CONNECT_TIMEOUT,
    HUNG_UP,
    NO_ANSWER,
    BoundedBody,
    answer_of,
    cause_of,
    failure_of,
    outage_of,
)
from robotgate.errors import (
    BudgetExceededError,
    DisallowedError,
    GateClosedError,
    HostUnavailableError,
    InvalidURLError,
    NestedTurnError,
    NonPublicAddressError,
    OptionError,
    ProxyUnavailableError,
    RobotGateError,
    StoreError,
    TooSoonError,
    needs_extra,
)
from robotgate.gate import RobotGate
from robotgate.options import check_kind
from robotgate.pace.signals import MAX_PROBLEM
from robotgate.pace.state import GOOD_BELOW

with needs_extra("httpx", __name__):
    import httpx

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from httpx import _types

    from robotgate.client.turns import PageTurn
    from robotgate.sites.record import Answer, Failure

    Trace = Callable[[str, Mapping[str, object]], Awaitable[None]]

__all__ = ["GateTransport", "HttpxFetcher", "TurnOptions", "gated_client"]

_HTTPX_OWN: Final = f"python-{httpx.__name__}/{httpx.__version__}"
"""The User-Agent of a client that was given none. It is replaced, because it does not name the crawler."""
_LIMITS: Final = httpx.Limits(max_keepalive_connections=100)
"""Of connections kept open for a next request, as each takes a file descriptor; of open requests, the gate has one."""


class TurnOptions(TypedDict, total=False):
    """The options that ``extensions={"robotgate": {...}}`` of a request may have, as in `RobotGate.turn`."""

    priority: int
    max_wait: float | None


class ClientOptions(TypedDict, total=False):
    """The options of an `httpx.AsyncClient`."""

    auth: _types.AuthTypes | None
    params: _types.QueryParamTypes | None
    headers: _types.HeaderTypes | None
    cookies: _types.CookieTypes | None
    verify: ssl.SSLContext | str | bool
    cert: _types.CertTypes | None
    http1: bool
    http2: bool
    proxy: _types.ProxyTypes | None
    mounts: Mapping[str, httpx.AsyncBaseTransport | None] | None
    timeout: _types.TimeoutTypes
    follow_redirects: bool
    limits: httpx.Limits
    max_redirects: int
    event_hooks: Mapping[str, list[Callable[..., object]]] | None
    base_url: httpx.URL | str
    transport: httpx.AsyncBaseTransport | None
    trust_env: bool
    default_encoding: str | Callable[[bytes], str]


def gated_client(
    gate: RobotGate, *, refusals_as_responses: bool = False, **httpx_options: Unpack[ClientOptions]
) -> httpx.AsyncClient:
    """An `httpx.AsyncClient` of which every request passes the gate, through whichever proxy it is sent.

    ``httpx.AsyncClient(transport=GateTransport(gate), proxy=…)`` sends past the gate what goes through the proxy, and
    so does one with ``mounts``. This one has a `GateTransport` around each of its transports: its own, those of
    ``proxy`` and ``mounts``, and those of the proxies that environment variables name.

    robotgate's own requests for robots.txt do not go through these proxies, unless the gate has an `HttpxFetcher`.

    Args:
        gate: an open gate. You close it yourself.
        refusals_as_responses: as for `GateTransport`.
        httpx_options: as for `httpx.AsyncClient`. By default, ``limits`` does not limit the open connections.

    Raises:
        OptionError: one of the transports is a `GateTransport`.
        whatever httpx raises for options that make no sense.
    """
    httpx_options.setdefault("limits", _LIMITS)
    client = httpx.AsyncClient(**httpx_options)

    def gated(transport: httpx.AsyncBaseTransport) -> GateTransport:
        return GateTransport(gate, transport, refusals_as_responses=refusals_as_responses)

    # httpx has no public way to see what it made of its options and of the environment.
    client._transport = gated(client._transport)
    client._mounts = {
        pattern: None if transport is None else gated(transport)
        for pattern, transport in client._mounts.items()
    }
    return client


class GateTransport(httpx.AsyncBaseTransport):
    """Judges and paces every request that it is given. Each redirect hop and each attempt is a request of its own.

    A client that has a ``proxy`` or ``mounts`` besides gives it only the other requests: see `gated_client`.

    The turn of a response ends when its body has been read to the end or closed. It also ends when no byte has arrived
    for a minute, because the task that holds the response may be waiting for the next turn of the same host.

    Args:
        gate: an open gate. You close it yourself.
        transport: the transport that sends the requests. It is closed together with this one. It must not be a
            `GateTransport`, because each request would then wait for two turns. By default it is an
            `httpx.AsyncHTTPTransport` without a limit of connections: a limit would delay requests after their turn.
        refusals_as_responses: answer a refused request instead of raising: with 403 if the site's rules forbid it, with
            503 and Retry-After if the host may not be visited now, or a budget is used up. The text is the reason, and
            ``response.extensions["robotgate"]`` is the error.

    Raises:
        OptionError: `transport` is a `GateTransport` or no transport, or `gate` is no gate.
    """

    def __init__(
        self,
        gate: RobotGate,
        transport: httpx.AsyncBaseTransport | None = None,
        *,
        refusals_as_responses: bool = False,
    ) -> None:
        check_kind("gate", gate, RobotGate)
        self._gate = gate
        self._transport = _ungated(
            httpx.AsyncHTTPTransport(limits=_LIMITS) if transport is None else transport
        )
        self._refusals_as_responses = refusals_as_responses

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Wait for the turn of a request, and send it.

        Raises:
            RobotGateError: as `RobotGate.turn`, before anything is sent. It is an `httpx.RequestError` as well.
            OptionError, TypeError: the User-Agent does not name the gate's token, or ``extensions["robotgate"]`` makes
                no sense. These are mistakes in the program, and not errors of httpx.
            ProxyUnavailableError: a proxy failed, or answered in the site's place. It is an `httpx.ProxyError` and an
                `httpx.ConnectError` as well.
            httpx.RequestError: as the inner transport.
        """
        if request.headers.get("User-Agent") == _HTTPX_OWN:
            del request.headers["User-Agent"]
        self._gate._identity.complete(request.headers)
        try:
            return await self._send_in_turn(request)
        except RobotGateError as error:
            if self._refusals_as_responses and isinstance(
                error, DisallowedError | TooSoonError | HostUnavailableError | BudgetExceededError
            ):
                return _as_response(error)
            _raise_as_httpx(error, request)

    async def aclose(self) -> None:
        """Close the inner transport."""
        await self._transport.aclose()

    def handle_request(self, *_: object) -> NoReturn:
        """Refuse a synchronous `httpx.Client`, which calls this.

        Raises:
            TypeError: always.
        """
        raise TypeError("a GateTransport needs an httpx.AsyncClient: an httpx.Client cannot await a turn")

    # As it is entered.
    __enter__ = handle_request

    async def _send_in_turn(self, request: httpx.Request) -> httpx.Response:
        options: TurnOptions = request.extensions.get("robotgate", {})
        async with AsyncExitStack() as sending:
            turn = (
                await sending.enter_async_context(self._gate.turn(_url_as_sent(request), **options))
            )._turn
            response = await self._send(request, turn)
            turn.report(status=response.status_code, headers=response.headers)
            if response.is_closed:
                # It was made with its body, as those of `httpx.MockTransport`: nobody reads its stream.
                turn.report(bytes=len(response.content))
                turn.note_body(response.status_code, response.headers, response.content)
                return response
            response.stream = _TurnStream(cast("httpx.AsyncByteStream", response.stream), turn, response)
            # The turn now ends with the response.
            sending.pop_all()
        return response

    async def _send(self, request: httpx.Request, turn: PageTurn) -> httpx.Response:
        traced = _TracedRequest(request)
        # The caller's request stays unsigned: httpx copies its headers into the next hop.
        signature = self._gate._identity.signature(request.method, turn.url, request.headers)
        traced.request.headers.update(signature)
        try:
            response = await self._transport.handle_async_request(traced.request)
        except httpx.TransportError as error:
            if (fault := traced.fault(error)) is not None:
                raise ProxyUnavailableError(turn.paced.origin.host, fault) from error
            is_unsent = turn.note_outage(traced.outage(error))
            # A certificate does not change within seconds.
            if not is_unsent or isinstance(_os_error_of(error), ssl.SSLError):
                raise
            await turn.wait_again()
            return await self._send(request, turn)
        fault = fault_of_answer(response.status_code, response.headers, traced.proxy)
        if fault is not None:
            await response.aclose()
            raise ProxyUnavailableError(turn.paced.origin.host, fault)
        return response


class HttpxFetcher:
    """Fetches robots.txt through a transport of httpx: ``RobotGate(fetcher=HttpxFetcher(transport))``.

    robots.txt then takes the same way as the pages, with the same proxy and TLS settings. It is a `Fetcher`.

    Args:
        transport: the transport that sends the requests. It must not be a `GateTransport`, whose turn would wait for
            the rules that are being fetched. You close it yourself.

    Raises:
        OptionError: `transport` is a `GateTransport`, or no transport, such as a client.
    """

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        self._transport = _ungated(transport)

    async def fetch(
        self, url: str, *, headers: Mapping[str, str], max_bytes: int, timeout: float
    ) -> Answer | Failure:
        """The answer, or the reason why there is none."""
        unanswered: _TracedRequest | None = None
        try:
            timeouts = {"connect": CONNECT_TIMEOUT}
            request = httpx.Request(
                "GET", url, headers=ASKED_FOR | dict(headers), extensions={"timeout": timeouts}
            )
            unanswered = traced = _TracedRequest(request)
            async with asyncio.timeout(timeout):
                response = await self._transport.handle_async_request(traced.request)
                # A host that begins to answer is reachable, whatever happens afterwards.
                unanswered = None
                async with aclosing(response):
                    body = await _read(response, max_bytes) if response.is_success else b""
                    received = CIMultiDict(response.headers.multi_items())
                    return answer_of(response.status_code, received, body, proxy=traced.proxy)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            fault = outage = None
            if unanswered is not None:
                fault, outage = unanswered.fault(error), unanswered.outage(error)
            return failure_of(cause_of(error, timeout), outage, fault=fault)


class RefusedRequestError(RobotGateError, httpx.RequestError):
    """A request that the gate refused. Its subclasses are the errors of robotgate, for handlers of both libraries.

    Logs show the names of the subclasses. Catch `DisallowedError` and the others by robotgate's names.
    """


class ClosedRequestError(GateClosedError, RefusedRequestError):
    """The gate is closed, or was not opened."""


class NestedRequestError(NestedTurnError, RefusedRequestError):
    """The task holds the turn that it asks for."""


class StoreRequestError(StoreError, RefusedRequestError):
    """The store failed."""


class InvalidURLRequestError(InvalidURLError, RefusedRequestError):
    """Not an http or https URL."""


class NonPublicAddressRequestError(NonPublicAddressError, RefusedRequestError):
    """The address is not public."""


class DisallowedRequestError(DisallowedError, RefusedRequestError):
    """The site's rules forbid the request."""


class TooSoonRequestError(TooSoonError, RefusedRequestError):
    """The turn comes later than `max_wait`."""


class HostUnavailableRequestError(HostUnavailableError, RefusedRequestError):
    """The host is down, or blocks us."""


class BudgetExceededRequestError(BudgetExceededError, RefusedRequestError):
    """A budget is used up."""


class ProxyUnavailableRequestError(
    ProxyUnavailableError, RefusedRequestError, httpx.ProxyError, httpx.ConnectError
):
    """A proxy failed. httpx has two errors for that, both of them an `httpx.TransportError`."""


_AS_HTTPX: Final = {kind.__bases__[0]: kind for kind in RefusedRequestError.__subclasses__()}


def _raise_as_httpx(error: RobotGateError, request: httpx.Request) -> NoReturn:
    """Raise an error as the `httpx.RequestError` that it is as well.

    Raises:
        RobotGateError: always. It is an `httpx.RequestError` too, unless the error is a mistake in the program.
    """
    kind = _AS_HTTPX.get(type(error))
    if kind is None:
        raise error
    twin = kind.__new__(kind, *error.args)
    vars(twin).update(vars(error))
    twin.request = request
    raise twin from error


def _as_response(
    error: DisallowedError | TooSoonError | HostUnavailableError | BudgetExceededError,
) -> httpx.Response:
    headers = {}
    after = None if isinstance(error, DisallowedError) else error.retry_after
    if after is not None and math.isfinite(after):
        headers["Retry-After"] = str(math.ceil(after))
    return httpx.Response(error.status, headers=headers, text=str(error), extensions={"robotgate": error})


class _TurnStream(httpx.AsyncByteStream):
    """The body of a response. The turn lasts until its end.

    The beginning of an error's body is kept, for it may say that we were too fast.
    """

    def __init__(self, stream: httpx.AsyncByteStream, turn: PageTurn, response: httpx.Response) -> None:
        self._stream = stream
        self._turn = turn
        self._status, self._headers = response.status_code, response.headers
        self._error = bytearray()
        self._has_moved = False
        self._idle_check = asyncio.get_running_loop().call_later(MAX_IDLE_READ, self._end_if_idle)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._stream:
                self._has_moved = True
                self._turn.report(bytes=len(chunk))
                if self._status >= GOOD_BELOW and len(self._error) <= MAX_PROBLEM:
                    self._error += chunk[: MAX_PROBLEM + 1]
                yield chunk
        finally:
            self._end()

    async def aclose(self) -> None:
        """Close the body, and end the turn. It may be closed twice."""
        try:
            await self._stream.aclose()
        finally:
            self._end()

    def _end_if_idle(self) -> None:
        if self._has_moved:
            self._has_moved = False
            self._idle_check = asyncio.get_running_loop().call_later(MAX_IDLE_READ, self._end_if_idle)
        else:
            log_unread(self._turn)
            self._turn.end()

    def _end(self) -> None:
        self._idle_check.cancel()
        if self._error:
            self._turn.note_body(self._status, self._headers, bytes(self._error))
            self._error.clear()
        self._turn.end()


class _TracedRequest:
    """A copy of a request for the inner transport. It notes which host a connection is made to: it may be a proxy."""

    def __init__(self, request: httpx.Request) -> None:
        url = request.url
        self._host = url.raw_host.decode("ascii")
        self._asked = self._peer = self._host, url.port or (443 if url.scheme == "https" else 80)
        self._callers_trace = cast("Trace | None", request.extensions.get("trace"))
        # A copy, because httpx hands the extensions of the caller's request on to the next hop.
        self.request = httpx.Request(
            request.method,
            request.url,
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, "trace": self._trace},
        )

    @property
    def proxy(self) -> str | None:
        """The proxy that a connection was made to; None for the host itself, and on a connection that was kept."""
        return None if self._peer == self._asked else "{}:{}".format(*self._peer)

    async def _trace(self, event: str, info: Mapping[str, object]) -> None:
        if event.endswith(".started"):
            host, port = info.get("host"), info.get("port")
            if isinstance(host, str) and isinstance(port, int):
                self._peer = host, port
            if info.get("server_hostname") == self._host:
                # By TLS through a tunnel.
                self._peer = self._asked
        if self._callers_trace is not None:
            await self._callers_trace(event, info)

    def fault(self, error: Exception) -> str | None:
        """How a proxy failed, in words that name it, or None if the error does not say that."""
        is_connecting = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
        if isinstance(error, httpx.ProxyError) or (is_connecting and self.proxy is not None):
            return failed(self.proxy, error)
        return None

    def outage(self, error: Exception) -> str | None:
        """As `outage_of`, of an error of httpx."""
        if isinstance(error, httpx.PoolTimeout):
            # No connection was free: nothing was sent to the host.
            return None
        if isinstance(error, httpx.ConnectTimeout):
            return "it takes no connection in time"
        if isinstance(error, httpx.TimeoutException | TimeoutError):
            return NO_ANSWER
        if isinstance(error, httpx.ReadError | httpx.WriteError | httpx.RemoteProtocolError):
            return HUNG_UP
        return _failed_connection(error) if isinstance(error, httpx.ConnectError) else None


def _os_error_of(error: BaseException) -> OSError | None:
    """The system's error behind one of httpx, which httpcore keeps only as a context."""
    origin: BaseException | None = error
    while origin is not None and not isinstance(origin, OSError):
        origin = origin.__cause__ or origin.__context__
    return origin


def _failed_connection(error: httpx.ConnectError) -> str | None:
    origin = _os_error_of(error)
    if origin is None:
        return "it takes no connection"
    # Contexts behind it belong to the caller: only causes are followed from here on.
    for cause in _causes(origin):
        outage = outage_of(cause) or ("its TLS handshake fails" if isinstance(cause, ssl.SSLError) else None)
        if outage is not None:
            return outage
    return None


def _causes(error: BaseException | None) -> list[BaseException]:
    """An error and its explicit causes. A group is replaced by its errors: one for each address that was tried."""
    if isinstance(error, BaseExceptionGroup):
        return [cause for inner in error.exceptions for cause in _causes(inner)]
    return [] if error is None else [error, *_causes(error.__cause__)]


def _ungated(transport: httpx.AsyncBaseTransport) -> httpx.AsyncBaseTransport:
    """The transport, unless it is none or waits for turns itself."""
    check_kind("transport", transport, httpx.AsyncBaseTransport)
    if isinstance(transport, GateTransport):
        raise OptionError(f"transport={transport!r}: give the transport that sends, not a GateTransport")
    return transport


def _url_as_sent(request: httpx.Request) -> URL:
    """The URL, with the exact bytes that are sent as its path and query.

    Raises:
        InvalidURLError: it is not a URL, or the server would read it differently.
    """
    url = request.url
    target = request.extensions.get("target", url.raw_path)
    if not isinstance(target, bytes) or not target.startswith(b"/"):
        # A whole URL, for example: servers differ in what they make of it.
        raise InvalidURLError(str(url), f"its target {target!r:.80} is no path in bytes")
    try:
        path, authority = target.decode("ascii"), url.netloc.decode("ascii")
        return URL.build(scheme=url.scheme, authority=authority, path=path, encoded=True)
    except ValueError as error:
        raise InvalidURLError(str(url), f"not a URL ({error})") from error


async def _read(response: httpx.Response, max_bytes: int) -> bytes:
    if response.is_closed:
        # As in `_send_in_turn`; httpx has decoded it.
        body = BoundedBody(None, max_bytes=max_bytes)
        body.feed(response.content)
        return body.end()
    body = BoundedBody(response.headers.get("Content-Encoding"), max_bytes=max_bytes)
    async for chunk in response.aiter_raw():
        body.feed(chunk)
        if body.is_full:
            # The rest may be endless. Closing the response closes its connection.
            break
    return body.end()
