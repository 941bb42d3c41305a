"""The gate in an `httpx.AsyncClient`: a transport around another transport.

httpx calls its transport once for each hop of a redirect and once for each round of an authentication, and has no total
time-out that could run while a turn is waited for: all that is on the wire is judged and paced here.

Refusals are robotgate's own errors, and `httpx.RequestError` as well; not `httpx.TransportError`, which programs
take for an accident and send again.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING, Final, TypedDict, cast

from yarl import URL

from robotgate._access import Answer, Failure
from robotgate._checks import check_flag, check_names, check_part
from robotgate._clock import SystemClock
from robotgate._decode import BoundedBody
from robotgate._errors import (
    DisallowedError,
    HostUnavailableError,
    InvalidURLError,
    OptionError,
    RobotGateError,
    TooSoonError,
)
from robotgate._fetch import ASKED_FOR, CONNECT_TIMEOUT, answer_of, cause_of
from robotgate._gate import RobotGate
from robotgate._holds import MAX_HOLD
from robotgate.integrations._dot_segments import check_no_dot_segment
from robotgate.integrations._extra import missing_extra

try:
    import httpx
except ModuleNotFoundError as error:
    raise missing_extra("httpx", error) from error

from robotgate.integrations._httpx_dialled import Dialled
from robotgate.integrations._httpx_refusals import as_response, raise_as_httpx

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from robotgate._turn import Turn

__all__ = ["GateTransport", "HttpxFetcher", "TurnOptions"]

_HTTPX_OWN: Final = f"python-{httpx.__name__}/{httpx.__version__}"
"""The User-Agent of a client that was given none: it says nothing of who crawls."""
_IDLE_CONNECTIONS: Final = 100
"""Kept open for a next request; each takes a descriptor."""


class TurnOptions(TypedDict, total=False):
    """What ``extensions={"robotgate": {...}}`` of a request may say, as `RobotGate.turn` has it."""

    priority: int
    max_wait: float | None


class GateTransport(httpx.AsyncBaseTransport):
    """Judges and paces every request of a client, each hop and each attempt as a request of its own.

    The turn of a response ends when it has been read to the end or closed; also if it brings no octet for a minute, for
    whoever holds it may be waiting for the very next turn.

    Args:
        gate: an open gate; it stays yours to close.
        transport: what sends the requests, closed together with this; not a `GateTransport`, which would have each
            request wait for two turns. By default an `httpx.AsyncHTTPTransport` without a limit of connections, as one
            would hold requests back after their turn.
        refusals_as_responses: answer what the gate refuses, in place of raising: 403 where the site's rules say no, 503
            with Retry-After where the host is not to be visited now. The text is the reason, and
            ``response.extensions["robotgate"]`` the error with all it knows.

    Raises:
        OptionError: an argument that makes no sense.
    """

    def __init__(
        self,
        gate: RobotGate,
        transport: httpx.AsyncBaseTransport | None = None,
        *,
        refusals_as_responses: bool = False,
    ) -> None:
        check_part("gate", gate, RobotGate)
        _check_inner(transport)
        check_flag("refusals_as_responses", refusals_as_responses)
        self._gate = gate
        limits = httpx.Limits(max_keepalive_connections=_IDLE_CONNECTIONS)
        self._transport = httpx.AsyncHTTPTransport(limits=limits) if transport is None else transport
        self._refusals_as_responses = refusals_as_responses

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request in its turn.

        Raises:
            RobotGateError: as `RobotGate.turn`, before anything is sent; an `httpx.RequestError` as well.
            StoreError: also when what came of it was not taken by the store; the response is closed then.
            OptionError: the User-Agent does not name the gate's token, or ``extensions["robotgate"]`` makes no sense:
                mistakes of the program, and no errors of httpx.
            RuntimeError: under another event loop than asyncio's.
            httpx.RequestError: as the inner transport.
        """
        _check_loop()
        options = _turn_options(request)
        _identify(self._gate, request.headers)
        try:
            return await self._send_in_turn(request, options)
        except RobotGateError as error:
            return self._refuse(request, error)

    async def aclose(self) -> None:
        """Close the inner transport."""
        await self._transport.aclose()

    async def _send_in_turn(self, request: httpx.Request, options: TurnOptions) -> httpx.Response:
        async with AsyncExitStack() as failing:
            turn = await failing.enter_async_context(self._gate.turn(_url_as_sent(request), **options))
            dialled = Dialled(request)
            try:
                response = await self._transport.handle_async_request(dialled.request)
            except httpx.TransportError as error:
                if (outage := dialled.outage(error)) is not None:
                    turn.report_unreachable(outage)
                raise
            response.stream = _HeldStream(response.stream, turn, request)
            failing.push_async_callback(response.aclose)
            turn.report(status=response.status_code, headers=response.headers)
            failing.pop_all()
        return response

    def _refuse(self, request: httpx.Request, error: RobotGateError) -> httpx.Response:
        of_site = DisallowedError | TooSoonError | HostUnavailableError
        if not (self._refusals_as_responses and isinstance(error, of_site)):
            raise_as_httpx(error, request)
        return as_response(error)


class HttpxFetcher:
    """Asks for robots.txt by a transport of httpx: ``RobotGate(fetcher=HttpxFetcher(transport))``.

    Rules then come by the way that pages go, through the same proxy and with the same TLS settings. A `Fetcher`.

    Args:
        transport: what sends the requests, as it is: not a `GateTransport`, whose turn would wait for the very rules
            that are asked for. It stays yours to close.

    Raises:
        OptionError: an argument that makes no sense.
    """

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        _check_inner(transport)
        self._transport = transport
        self._clock = SystemClock()

    async def fetch(
        self, url: str, *, headers: Mapping[str, str], max_bytes: int, timeout: float
    ) -> Answer | Failure:
        """The answer, or why there is none."""
        dialled: Dialled | None = None
        has_begun = False
        try:
            timeouts = {"connect": CONNECT_TIMEOUT}
            request = httpx.Request(
                "GET", url, headers=ASKED_FOR | dict(headers), extensions={"timeout": timeouts}
            )
            dialled = Dialled(request)
            async with asyncio.timeout(timeout):
                response = await self._transport.handle_async_request(dialled.request)
                has_begun = True
                async with aclosing(response):
                    body = await _read(response, max_bytes) if response.is_success else b""
                    return answer_of(response.status_code, response.headers, body, now=self._clock.now())
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            # A host that begins to answer is there, however the rest goes.
            is_outage = not has_begun and dialled is not None and dialled.outage(error) is not None
            return Failure(cause_of(error, timeout), is_outage=is_outage)


class _HeldStream(httpx.AsyncByteStream):
    """The body of a response, whose turn lasts until its end."""

    def __init__(self, stream: object, turn: Turn, request: httpx.Request) -> None:
        if not isinstance(stream, httpx.AsyncByteStream):
            raise TypeError(f"the inner transport gave {stream!r}, which is no httpx.AsyncByteStream")
        self._stream = stream
        self._turn = turn
        self._request = request
        self._has_moved = False
        self._limit = asyncio.get_running_loop().call_later(MAX_HOLD, self._look)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._stream:
                self._has_moved = True
                self._turn.report(bytes=len(chunk))
                yield chunk
        finally:
            self._end()

    async def aclose(self) -> None:
        """Let go of the response; closing twice is closing once."""
        try:
            await self._stream.aclose()
        finally:
            self._end()

    def _look(self) -> None:
        if not self._has_moved:
            self._turn.end()
            return
        self._has_moved = False
        self._limit = asyncio.get_running_loop().call_later(MAX_HOLD, self._look)

    def _end(self) -> None:
        self._limit.cancel()
        try:
            self._turn.end()
        except RobotGateError as error:
            raise_as_httpx(error, self._request)


def _check_inner(transport: object) -> None:
    check_part("transport", transport, httpx.AsyncBaseTransport)
    if isinstance(transport, GateTransport):
        raise OptionError(f"transport={transport!r}: give the transport that sends, not a GateTransport")


def _turn_options(request: httpx.Request) -> TurnOptions:
    """What a request says of its turn.

    Raises:
        OptionError: it is no dictionary of options.
    """
    given = request.extensions.get("robotgate", {})
    if not isinstance(given, dict):
        raise OptionError(f'extensions["robotgate"]={given!r}: give a dict, such as {{"max_wait": 30}}')
    try:
        check_names(given, TurnOptions.__annotations__)
    except TypeError as error:
        raise OptionError(f'extensions["robotgate"]: {error}') from error
    return cast("TurnOptions", given)


def _check_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError as error:
        raise RuntimeError(
            "a GateTransport runs under asyncio, and under nothing else (trio, say)"
        ) from error


def _identify(gate: RobotGate, headers: httpx.Headers) -> None:
    if headers.get("User-Agent") == _HTTPX_OWN:
        del headers["User-Agent"]
    gate.identify(headers)


def _url_as_sent(request: httpx.Request) -> URL:
    """The URL with the very octets that go over the wire as its path and query.

    Raises:
        InvalidURLError: it is none, or would be read differently by the server than by us.
    """
    url = request.url
    host = url.raw_host.decode("ascii")
    authority = (f"[{host}]" if ":" in host else host) + ("" if url.port is None else f":{url.port}")
    target = request.extensions.get("target", url.raw_path)
    if not isinstance(target, bytes) or not target.startswith(b"/"):
        # Whole URLs, say, which servers take apart as they like.
        raise InvalidURLError(str(url), f"its target {target!r:.80} is no path in octets")
    try:
        path_and_query = target.decode("ascii")
        sent = URL.build(scheme=url.scheme, authority=authority, path=path_and_query, encoded=True)
    except ValueError as error:
        raise InvalidURLError(str(url), f"not a URL ({error})") from error
    check_no_dot_segment(path_and_query.partition("?")[0], str(url))
    return sent


async def _read(response: httpx.Response, max_bytes: int) -> bytes:
    body = BoundedBody(response.headers.get("Content-Encoding"), max_bytes=max_bytes)
    async for chunk in response.aiter_raw():
        body.feed(chunk)
        if body.is_full:
            # What is left may be endless; closing the response closes its connection.
            break
    return body.end()
