"""`gate.middleware`: each request of a session is judged, waits for its turn, and is reported here.

aiohttp calls a middleware once for each hop of a redirect and for each attempt, so each has a turn of its own. The
first turn of a `gate.fetch` has begun before; it is taken over here.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from aiohttp import ClientError, ClientPayloadError, hdrs
from aiohttp.http import SERVER_SOFTWARE

from robotgate.errors import GateClosedError
from robotgate.pace.scheduler import Timer
from robotgate.sites.status import REDIRECT_STATUSES
from robotgate.web.robots import Proxy

if TYPE_CHECKING:
    from aiohttp import ClientHandlerType, ClientRequest, ClientResponse

    from robotgate.identity import Identity
    from robotgate.web.fetch import PageFetch
    from robotgate.web.turns import Turn, Turns

SWITCHING_PROTOCOLS: Final = 101
"""The answer to the handshake of a websocket: what follows is no response."""
HTTP_SCHEMES: Final = {"ws": "http", "wss": "https"}
"""A websocket's handshake is a GET of this scheme, by whose rules it is judged (RFC 6455 §4.1)."""
MAX_IDLE_READ: Final = 60.0
"""Seconds without a byte after which a turn ends though its response is neither read nor released: the task that holds
it may be waiting for the next turn."""
LOOK_DELAY: Final = 5.0
"""Seconds between two looks at the responses whose turns are open."""


class OpenResponse:
    """A response whose body is neither read to its end nor released; its turn is open."""

    __slots__ = ("idle_at", "is_of_fetch", "read_before", "response", "turn")

    def __init__(self, turn: Turn, response: ClientResponse, *, is_of_fetch: bool, idle_at: float) -> None:
        self.turn = turn
        self.response = response
        self.is_of_fetch = is_of_fetch
        """Whether `gate.fetch` reads it."""
        self.idle_at = idle_at
        """When to look whether bytes still come, by the loop's clock."""
        self.read_before = 0
        """The bytes that had come at the last look."""


class GateMiddleware:
    """Judges and paces every hop, and every attempt, of every request of a session."""

    def __init__(self, identity: Identity, *, max_wait: float | None, timeout: float | None) -> None:
        self.turns: Turns | None = None
        """Set while the gate is open."""
        self._identity = identity
        # A turn has to come within the total timeout of its request, which aiohttp does not tell a middleware.
        if timeout:
            max_wait = timeout if max_wait is None else min(timeout, max_wait)
        self._max_wait = max_wait
        self.fetches: dict[asyncio.Task[object] | None, PageFetch] = {}
        """By task, the `gate.fetch` that it is in."""
        self._sending: dict[ClientRequest, Turn] = {}
        """The turns of requests that have got no answer yet."""
        self._inner: dict[ClientRequest, ClientResponse] = {}
        """The last answers that came by further in, where the middleware stands in a request's chain again."""
        self._open: dict[ClientRequest, OpenResponse] = {}
        self._timer = Timer(self._look_at_open)

    async def __call__(  # noqa: C901, PLR0912, PLR0915  # The steps of one request, in their order.
        self, request: ClientRequest, handler: ClientHandlerType
    ) -> ClientResponse:
        """Send one request in its turn.

        Raises:
            RobotGateError: as `RobotGate.turn`, before anything is sent.
        """
        if request in self._sending:
            return await self._send_within(self._sending[request], request, handler)
        turns = self.turns
        if turns is None:
            raise GateClosedError("open the gate first: async with RobotGate(...) as gate")
        unread = self._open.get(request)
        if unread is not None:
            # A retry middleware sends the request again, and has not read the first answer.
            unread.response.close()
            self._end(request, unread)
        if not self._identity.is_complete(request.headers):
            if request.headers.get(hdrs.USER_AGENT) == SERVER_SOFTWARE:
                # aiohttp's own, which does not name the crawler.
                request.headers[hdrs.USER_AGENT] = self._identity.user_agent
            self._identity.complete(request.headers)
        url = request.url
        if url.scheme in HTTP_SCHEMES:
            url = url.with_scheme(HTTP_SCHEMES[url.scheme])
        proxy = None
        if request.proxy is not None:
            proxy = Proxy.of(request.proxy, request.proxy_auth, request.proxy_headers)
        fetch = self.fetches.get(asyncio.current_task(turns.scheduler.loop)) if self.fetches else None
        if fetch is not None and fetch.has_turn and url is not fetch.url and str(url) != fetch.turn.url:
            # A middleware of its session sends a request of its own first.
            fetch = None
        if fetch is None:
            turn = turns.make(url, 0, self._max_wait, (), proxy)
            if not turns.try_begin(turn):
                await turns.begin(turn)
        else:
            turn = await fetch.turn_for(url, proxy)
        self._sending[request] = turn
        try:
            if self._identity.signer is not None:
                request.headers.update(self._identity.signature(request.method, turn.url))
            response = await handler(request)
        except BaseException as error:
            _fail(turn, fetch, error)
            raise
        finally:
            del self._sending[request]
            if self._inner:
                self._inner.pop(request, None)
        status = response.status
        if turn.status is None:
            turn.report(status, response.headers)
        connection = response.connection
        if connection is None or status == SWITCHING_PROTOCOLS:
            turn.finish(response)
        else:
            self._look_after(request, response, turn, is_of_fetch=fetch is not None)
        if fetch is not None:
            if self.turns is None:
                # On a session that was passed in, and stays open, an answer comes after the gate was closed.
                response.close()
                raise GateClosedError
            if status in REDIRECT_STATUSES:
                fetch.chain = (*fetch.chain, str(request.url))
        return response

    async def _send_within(
        self, turn: Turn, request: ClientRequest, handler: ClientHandlerType
    ) -> ClientResponse:
        """Send a request whose turn was taken further out: the middleware stands in its chain twice.

        One attempt takes one turn. Each that a retry middleware between the two makes after it takes another.
        """
        before = self._inner.pop(request, None)
        if before is not None:
            before.close()
            turn.bytes_read += before.content.total_bytes
            await turn.again()
        if self._identity.signer is not None:
            request.headers.update(self._identity.signature(request.method, turn.url))
        try:
            response = self._inner[request] = await handler(request)
        except (ClientError, OSError) as error:
            turn.report(error=error)
            raise
        if turn.status is None:
            turn.report(response.status, response.headers)
        return response

    def close(self) -> None:
        """Break off what `gate.fetch` reads: its callers get `GateClosedError`."""
        self.turns = None
        self._timer.cancel()
        for unread in list(self._open.values()):
            if unread.is_of_fetch:
                unread.response.content.set_exception(GateClosedError())
                unread.response.close()

    # Responses that are neither read nor released.

    def _look_after(
        self, request: ClientRequest, response: ClientResponse, turn: Turn, *, is_of_fetch: bool
    ) -> None:
        """End a turn with its response, or once no byte of that has come for long."""
        idle_at = asyncio.get_running_loop().time() + MAX_IDLE_READ
        unread = OpenResponse(turn, response, is_of_fetch=is_of_fetch, idle_at=idle_at)
        self._open[request] = unread
        if response.connection is not None:
            response.connection.add_callback(partial(self._end, request, unread))
        self._timer.set(LOOK_DELAY)

    def _end(self, request: ClientRequest, unread: OpenResponse) -> None:
        """A response has come to its end, or was released."""
        if self._open.get(request) is unread:
            del self._open[request]
        unread.turn.finish(unread.response)

    def _look_at_open(self) -> None:
        """End the turns of responses whose connection is lost, or of which no byte has come for long."""
        now = asyncio.get_running_loop().time()
        for request, unread in list(self._open.items()):
            content, connection = unread.response.content, unread.response.connection
            if connection is not None and connection.transport is None:
                # Of a broken chunk that comes after the headers, aiohttp tells its reader nothing: it would wait on.
                if content.exception() is None:
                    content.set_exception(ClientPayloadError("the body is not what its headers say"))
                unread.response.close()
                self._end(request, unread)
            elif unread.idle_at > now:
                continue
            elif content.total_bytes > unread.read_before:
                unread.idle_at, unread.read_before = now + MAX_IDLE_READ, content.total_bytes
            else:
                self._end(request, unread)
        if self._open:
            self._timer.set(LOOK_DELAY)


def _fail(turn: Turn, fetch: PageFetch | None, error: BaseException) -> None:
    """End the turn of a request that got no answer."""
    try:
        if isinstance(error, ClientError | OSError):
            turn.report(error=error)
        elif fetch is not None and fetch.has_expired and isinstance(error, asyncio.CancelledError):
            turn.report_unreachable("it does not answer in time")
    finally:
        turn.end()
