"""`gate.middleware`: each request of a session is judged, waits for its turn, and is reported here.

aiohttp calls a middleware once for each hop of a redirect and for each attempt, so each has a turn of its own. The
first turn of a `gate.fetch` has begun before; it is taken over here.
"""

from __future__ import annotations

import asyncio
import math
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


class Sent:
    """One request of a session, from the start of its turn until its response has been read or released."""

    __slots__ = ("idle_at", "inner", "is_of_fetch", "read_before", "request", "requests", "response", "turn")

    def __init__(
        self, requests: dict[ClientRequest, Sent], request: ClientRequest, turn: Turn, *, is_of_fetch: bool
    ) -> None:
        self.requests = requests
        """Those of the middleware; this one is among them until its end."""
        self.request = request
        self.turn = turn
        self.is_of_fetch = is_of_fetch
        """Whether `gate.fetch` reads its response."""
        self.response: ClientResponse | None = None
        """None until the headers have come."""
        self.inner: ClientResponse | None = None
        """The last response that came by further in, where the middleware stands in the request's chain twice."""
        self.idle_at = math.inf
        """When its turn ends if no byte has come since the last look, by the loop's clock."""
        self.read_before = -1
        """The bytes that had come at the last look."""
        requests[request] = self

    def end(self) -> None:
        """End the turn: the response has been read or released."""
        if self.requests.get(self.request) is self:
            del self.requests[self.request]
        if self.response is not None:
            self.turn.finish(self.response)

    def fail(self, error: BaseException, fetch: PageFetch | None) -> None:
        """End the turn: the request got no response."""
        del self.requests[self.request]
        try:
            if isinstance(error, ClientError | OSError):
                self.turn.report(error=error)
            elif fetch is not None and fetch.has_expired and isinstance(error, asyncio.CancelledError):
                self.turn.report_unreachable("it does not answer in time")
        finally:
            self.turn.end()


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
        self._requests: dict[ClientRequest, Sent] = {}
        """Those whose turns are open."""
        self._timer = Timer(self._look_at_responses)

    async def __call__(  # noqa: C901, PLR0912  # The steps of one request, in their order.
        self, request: ClientRequest, handler: ClientHandlerType
    ) -> ClientResponse:
        """Send one request in its turn.

        Raises:
            RobotGateError: as `RobotGate.turn`, before anything is sent.
        """
        turns = self.turns
        if turns is None:
            raise GateClosedError("the gate is not open: send requests within `async with RobotGate(...)`")
        if (earlier := self._requests.get(request)) is not None:
            if earlier.response is None:
                return await self._send_within(earlier, handler)
            # A retry middleware sends the request again, and has not read the first response.
            earlier.response.close()
            earlier.end()
        if not self._identity.is_complete(request.headers):
            self._identify(request)
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
        if fetch is not None:
            turn = await fetch.turn_for(url, proxy)
        else:
            turn = turns.make(url, 0, self._max_wait, (), proxy)
            if not turns.try_begin(turn):
                await turns.begin(turn)
        sent = Sent(self._requests, request, turn, is_of_fetch=fetch is not None)
        if len(self._requests) == 1:
            # It runs as long as there are any.
            self._timer.set(LOOK_DELAY)
        try:
            if self._identity.signer is not None:
                request.headers.update(self._identity.signature(request.method, turn.url))
            response = await handler(request)
        except BaseException as error:
            sent.fail(error, fetch)
            raise
        self._answered(sent, response, fetch)
        return response

    def _identify(self, request: ClientRequest) -> None:
        """Complete the headers that name the crawler."""
        if request.headers.get(hdrs.USER_AGENT) == SERVER_SOFTWARE:
            # aiohttp's own, which does not name the crawler.
            request.headers[hdrs.USER_AGENT] = self._identity.user_agent
        self._identity.complete(request.headers)

    async def _send_within(self, sent: Sent, handler: ClientHandlerType) -> ClientResponse:
        """Send a request in the turn that was taken further out: the middleware stands in its chain twice.

        A retry middleware between the two sends further attempts, which take a turn each.
        """
        request, turn, before = sent.request, sent.turn, sent.inner
        if before is not None:
            sent.inner = None
            before.close()
            turn.bytes_read += before.content.total_bytes
            await turn.again()
        if self._identity.signer is not None:
            request.headers.update(self._identity.signature(request.method, turn.url))
        try:
            sent.inner = await handler(request)
        except (ClientError, OSError) as error:
            turn.report(error=error)
            raise
        turn.report(sent.inner.status, sent.inner.headers)
        return sent.inner

    def _answered(self, sent: Sent, response: ClientResponse, fetch: PageFetch | None) -> None:
        """Report a response; the turn ends with it, or once no byte of it has come for long."""
        turn, connection = sent.turn, response.connection
        if turn.status is None:
            turn.report(response.status, response.headers)
        sent.response = response
        if connection is None or response.status == SWITCHING_PROTOCOLS:
            sent.end()
        else:
            connection.add_callback(sent.end)
        if fetch is not None:
            if self.turns is None:
                # On a session that was passed in, and stays open, an answer comes after the gate was closed.
                response.close()
                raise GateClosedError
            if response.status in REDIRECT_STATUSES:
                fetch.chain = (*fetch.chain, str(sent.request.url))

    def _look_at_responses(self) -> None:
        """End the turns of responses whose connection is lost, or of which no byte has come for long."""
        now = asyncio.get_running_loop().time()
        for sent in list(self._requests.values()):
            if sent.response is None:
                continue
            content, connection = sent.response.content, sent.response.connection
            if connection is not None and connection.transport is None:
                # aiohttp does not report a broken chunk that comes after the headers: a reader would wait forever.
                if content.exception() is None:
                    content.set_exception(ClientPayloadError("the body is not what its headers say"))
                sent.response.close()
                sent.end()
            elif content.total_bytes > sent.read_before:
                sent.idle_at, sent.read_before = now + MAX_IDLE_READ, content.total_bytes
            elif now >= sent.idle_at:
                sent.end()
        if self._requests:
            self._timer.set(LOOK_DELAY)

    def close(self) -> None:
        """Break off what `gate.fetch` reads: its callers get `GateClosedError`."""
        self.turns = None
        self._timer.cancel()
        for sent in list(self._requests.values()):
            if sent.is_of_fetch and sent.response is not None:
                sent.response.content.set_exception(GateClosedError())
                sent.response.close()
