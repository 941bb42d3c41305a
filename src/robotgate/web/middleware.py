"""`gate.middleware`: the one place where a request is judged, waits for its turn, and is reported.

aiohttp calls a middleware once for each hop of a redirect and for each attempt, so each has a turn of its own.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from aiohttp import ClientError, hdrs
from aiohttp.http import SERVER_SOFTWARE

from robotgate.errors import GateClosedError
from robotgate.pace.host import TurnState
from robotgate.web.fetcher import Proxy

if TYPE_CHECKING:
    from aiohttp import ClientHandlerType, ClientRequest, ClientResponse

    from robotgate.identity import Identity
    from robotgate.web.fetch import FetchCall
    from robotgate.web.turns import Turn, Turns

SWITCHING_PROTOCOLS: Final = 101
"""The answer to the handshake of a websocket: what follows is no response."""
HTTP_SCHEMES: Final = {"ws": "http", "wss": "https"}
"""A websocket's handshake is a GET of this scheme, by whose rules it is judged (RFC 6455 §4.1)."""
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
MAX_IDLE_READ: Final = 60.0
"""Seconds without a byte after which a turn ends though its response is neither read nor released: the task that holds
it may be waiting for the next turn."""


class OpenResponse:
    """A request that has its turn, and its response until that has been read or released."""

    __slots__ = ("_read_so_far", "attempt", "call", "depth", "idle_at", "request", "response", "turn")

    def __init__(self, turn: Turn, request: ClientRequest, call: FetchCall | None) -> None:
        self.turn = turn
        self.request = request
        self.call = call
        """The `gate.fetch` that it belongs to; None for a request of a session."""
        self.response: ClientResponse | None = None
        """None until its headers have come."""
        self.attempt: ClientResponse | None = None
        """The last response that came by further in, where the middleware stands in the chain again."""
        self.depth = 0
        """How often it stands further in around the attempt that is under way."""
        self.idle_at = 0.0
        """When to look whether bytes still come, by the loop's clock."""
        self._read_so_far = 0

    def has_moved(self) -> bool:
        """Return whether bytes came since this was last called."""
        before = self._read_so_far
        self._read_so_far = 0 if self.response is None else self.response.content.total_bytes
        return self._read_so_far > before


class GateMiddleware:
    """Judges and paces every hop, and every attempt, of every request of a session."""

    def __init__(self, identity: Identity, *, max_wait: float | None, timeout: float | None) -> None:
        self.turns: Turns | None = None
        """Set while the gate is open."""
        self._identity = identity
        self._max_wait = max_wait
        # No release of aiohttp up to 3.14 tells a middleware the timeout of its request: this stands in for it.
        self._patience = self._within(timeout)
        self._open: dict[ClientRequest, OpenResponse] = {}
        self.calls: dict[asyncio.Task[object] | None, FetchCall] = {}
        """By task, the `gate.fetch` that it is in."""
        self._timer: asyncio.TimerHandle | None = None

    async def __call__(  # noqa: C901, PLR0912, PLR0915  # One straight way, read in order.
        self, request: ClientRequest, handler: ClientHandlerType
    ) -> ClientResponse:
        """Send one request in its turn.

        Raises:
            RobotGateError: as `RobotGate.turn`, before anything is sent.
        """
        known = self._open.get(request)
        if known is not None:
            if known.response is None:
                return await self._send_within(known, request, handler)
            # A retry middleware sends the request again, and has not read the first answer.
            self._break_off(known, known.response)
        turns = self.turns
        if turns is None:
            raise GateClosedError("open the gate first: async with RobotGate(...) as gate")
        identity, headers = self._identity, request.headers
        if not identity.is_complete(headers):
            if headers.get(hdrs.USER_AGENT) == SERVER_SOFTWARE:
                # aiohttp's own, which does not say whose crawler it is.
                headers[hdrs.USER_AGENT] = identity.user_agent
            identity.complete(headers)
        url = request.url
        if url.scheme in HTTP_SCHEMES:
            url = url.with_scheme(HTTP_SCHEMES[url.scheme])
        proxy = None if request.proxy is None else Proxy.of(request)
        call = self.calls.get(asyncio.current_task()) if self.calls else None
        if call is not None and call.has_turn and (url is call.url or str(url) == call.turn.url):
            turn = call.turn
            call.has_turn = False
        elif call is None or call.has_turn:
            # No request of a fetch, or one that a middleware of its session makes by itself.
            call = None
            told = getattr(request, "timeout", None)
            patience = self._patience if told is None else self._within(told.total)
            turn = turns.make(url, max_wait=patience, proxy=proxy)
            await turns.begin(turn)
        else:
            # The hop or attempt before this one is over.
            call.turn.end()
            turn = turns.make(
                url, priority=call.priority, max_wait=call.max_wait, chain=call.chain, proxy=proxy
            )
            call.pause()
            await turns.begin(turn)
            call.resume(turn)
        sent = self._open[request] = OpenResponse(turn, request, call)
        try:
            response = await handler(request)
        except BaseException as error:
            self._failed(sent, error)
            raise
        if turn.status is None:
            turn.report(response.status, response.headers)
        connection = response.connection
        if connection is None or response.status == SWITCHING_PROTOCOLS:
            self._end(sent, response)
        else:
            sent.response = response
            connection.add_callback(lambda: self._end(sent, response))
            self._look_after(sent)
        if call is not None:
            if self.turns is None:
                # On a session that was passed in, and stays open, an answer comes after the gate was closed.
                response.close()
                raise GateClosedError
            if response.status in REDIRECTS:
                call.chain = (*call.chain, str(request.url))
        return response

    async def _send_within(
        self, sent: OpenResponse, request: ClientRequest, handler: ClientHandlerType
    ) -> ClientResponse:
        """Send a request whose turn was taken further out: the middleware stands in its chain twice.

        One attempt takes one turn. Each that a retry middleware between the two makes after it takes another.
        """
        turn, before = sent.turn, sent.attempt
        if before is not None and not sent.depth:
            before.close()
            turn.bytes_read += before.content.total_bytes
            sent.attempt = None
            await turn.again()
        sent.depth += 1
        try:
            response = sent.attempt = await handler(request)
        except (ClientError, OSError) as error:
            turn.report(error=error)
            raise
        finally:
            sent.depth -= 1
        if turn.status is None:
            turn.report(response.status, response.headers)
        return response

    def close(self) -> None:
        """Break off what `gate.fetch` reads: its callers get `GateClosedError`."""
        self.turns = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for sent in list(self._open.values()):
            response = sent.response
            if response is not None and sent.call is not None:
                response.content.set_exception(GateClosedError())
                response.close()

    def _end(self, sent: OpenResponse, response: ClientResponse) -> None:
        """A response has come to its end, or was released."""
        if self._open.get(sent.request) is sent:
            del self._open[sent.request]
        turn = sent.turn
        if turn.state is TurnState.OPEN:
            turn.bytes_read += response.content.total_bytes
            turn.turns.end(turn)

    def _failed(self, sent: OpenResponse, error: BaseException) -> None:
        del self._open[sent.request]
        turn, call = sent.turn, sent.call
        try:
            if isinstance(error, ClientError | OSError):
                turn.report(error=error)
            elif isinstance(error, asyncio.CancelledError) and call is not None and call.has_expired:
                turn.report_unreachable("it does not answer in time")
        finally:
            turn.end()

    def _break_off(self, sent: OpenResponse, response: ClientResponse) -> None:
        response.close()
        self._end(sent, response)

    def _within(self, total: float | None) -> float | None:
        """Return for how many seconds a turn may be waited for within a total timeout; 0 is none, as to aiohttp."""
        if not total:
            return self._max_wait
        return total if self._max_wait is None else min(total, self._max_wait)

    # Responses that are neither read nor released.

    def _look_after(self, sent: OpenResponse) -> None:
        loop = asyncio.get_running_loop()
        sent.idle_at = loop.time() + MAX_IDLE_READ
        if self._timer is None:
            self._timer = loop.call_at(sent.idle_at, self._end_idle)

    def _end_idle(self) -> None:
        loop = asyncio.get_running_loop()
        now, self._timer = loop.time(), None
        next_at = None
        for sent in list(self._open.values()):
            response = sent.response
            if response is None:
                continue
            if sent.idle_at <= now:
                if not sent.has_moved():
                    self._end(sent, response)
                    continue
                sent.idle_at = now + MAX_IDLE_READ
            next_at = sent.idle_at if next_at is None else min(next_at, sent.idle_at)
        if next_at is not None:
            self._timer = loop.call_at(next_at, self._end_idle)
